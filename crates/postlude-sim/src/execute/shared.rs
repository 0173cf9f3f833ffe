//! Instructions of shared memory, 8x8 matrices among them, and how it is watched, read and written.

use postlude_ptx::address::Address;
use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::{MatrixCount, Transposition};
use postlude_ptx::operand::Register;

use crate::error::SimError;
use crate::lane_order::{Piece, Where};
use crate::machine::Machine;
use crate::memory::{Fault, POISON};
use crate::observe::{Access, Kind, Space};
use crate::scalar::little;
use crate::warp::{Lanes, Warp, lanes};

use super::access::{Change, Memory, Place, WIDEST};
use super::lockstep::reaches_cluster;
use super::{Now, Outcome};

/// Bytes of a row of an 8x8 matrix.
const ROW: usize = 16;

impl Machine<'_> {
    pub(super) fn execute_shared(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        self.report.meters.shared_requests += 1;
        match inst {
            Inst::LoadShared { ty, d, address, .. } => {
                let place = self.shared_place(warp, now, address)?;
                self.load_lanes(warp, now, &place, *ty, &d.0)?;
            }
            Inst::StoreShared { ty, address, a, .. } => {
                let place = self.shared_place(warp, now, address)?;
                self.store_lanes(warp, now, &place, *ty, &a.0)?;
            }
            Inst::AtomicShared { reduction, ty, d, address, a } => {
                let place = self.shared_place(warp, now, address)?;
                let a = self.value(warp, a.0);
                let change = Change::Combine(*reduction, &a);
                let old = self.change_lanes(warp, now, &place, *ty, &change)?;
                self.set(warp, d.0, now.mask, old);
            }
            Inst::LoadMatrix { count, transposition, d, address } => {
                let at = self.address(warp, address, now.line)?;
                self.load_matrix(warp, now, &at, *count, *transposition, &d.0)?;
            }
            Inst::StoreMatrix { count, transposition, address, a } => {
                let at = self.address(warp, address, now.line)?;
                self.store_matrix(warp, now, &at, *count, *transposition, &a.0)?;
            }
            _ => return Err(self.unsupported(now.line, "no unit")),
        }
        Ok(Outcome::Next)
    }

    fn shared_place(&self, warp: &Warp, now: Now, address: &Address) -> Result<Place, SimError> {
        Ok(Place { memory: Memory::Shared, at: self.address(warp, address, now.line)? })
    }

    /// Tells who watches, and finds addresses that are no multiple of the access's size.
    pub(super) fn watch_shared(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        size: usize,
        kind: Kind,
    ) -> Result<(), SimError> {
        let who = self.at(warp, now.line, now.mask);
        let mut per_cta: Vec<(usize, Vec<(u64, u32)>)> = Vec::new();
        let mut touched: Vec<(usize, Vec<Piece>)> = Vec::new();
        for lane in lanes(now.mask) {
            let Some((cta, address)) = self.window(warp.cta, at[lane] as u32) else {
                self.blame_shared(Self::blamed(warp), now.line, Fault::Outside, at[lane] as u32)?;
                continue;
            };
            if !address.is_multiple_of(size as u32) {
                self.blame_shared(Self::blamed(warp), now.line, Fault::Misaligned, address)?;
            }
            let piece = (u64::from(address), size as u32);
            match per_cta.iter_mut().find(|(each, _)| *each == cta) {
                Some((_, pieces)) => pieces.push(piece),
                None => per_cta.push((cta, vec![piece])),
            }
            let piece = Piece { lane: lane as u32, address: piece.0, bytes: piece.1 };
            match touched.iter_mut().find(|(each, _)| *each == cta) {
                Some((_, pieces)) => pieces.push(piece),
                None => touched.push((cta, vec![piece])),
            }
            if cta != warp.cta && !reaches_cluster(&self.program.steps[now.pc as usize].inst) {
                self.blame_remote(warp, now, at[lane] as u32)?;
            }
        }
        for (cta, pieces) in &per_cta {
            let space = Space::Shared { cta: self.ctas[*cta].number };
            self.observer.accessed(who, Access { space, kind, pieces });
        }
        for (cta, pieces) in &touched {
            let space = Where::Shared { cta: self.ctas[*cta].number };
            self.touch_lanes(warp, now, space, kind, pieces)?;
        }
        Ok(())
    }

    /// Up to 32 bytes, if there are that many; poison where no thread or copy wrote.
    pub(super) fn read_shared(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
        size: usize,
    ) -> Result<Option<[u8; WIDEST]>, SimError> {
        let Some((cta, address)) = self.window(warp.cta, address) else { return Ok(None) };
        let (held, fault) = match self.ctas[cta].shared.bytes(address, size) {
            Ok((found, written)) => {
                let mut held = [POISON; WIDEST];
                held[..size].copy_from_slice(found);
                (Some(held), (!written).then_some(Fault::Uninitialised))
            }
            Err(fault) => (None, Some(fault)),
        };
        if let Some(fault) = fault {
            self.blame_shared(Self::blamed(warp), now.line, fault, address)?;
        }
        Ok(held)
    }

    pub(super) fn write_shared(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
        held: &[u8],
    ) -> Result<(), SimError> {
        let Some((cta, address)) = self.window(warp.cta, address) else { return Ok(()) };
        match self.ctas[cta].shared.write(address, held) {
            Ok(()) => Ok(()),
            Err(fault) => self.blame_shared(Self::blamed(warp), now.line, fault, address),
        }
    }

    /// Rows of the matrices are at the addresses of the first 8, 16 or 32 lanes; lane `l` gets two neighbours of row
    /// `l / 4`, or of column `l / 4`.
    fn load_matrix(
        &mut self,
        warp: &mut Warp,
        now: Now,
        at: &Lanes,
        count: MatrixCount,
        transposition: Transposition,
        d: &[Register],
    ) -> Result<(), SimError> {
        let rows = self.matrix_rows(warp, now, at, count, d.len(), Kind::Read)?;
        for (matrix, register) in d.iter().enumerate() {
            let mut held = [[0_u8; ROW]; 8];
            for (row, bytes) in held.iter_mut().enumerate() {
                let address = at[matrix * 8 + row] as u32;
                let found = self.read_shared(warp, now, address, ROW)?;
                bytes.copy_from_slice(&found.unwrap_or([POISON; WIDEST])[..ROW]);
            }
            let element =
                |row: usize, column: usize| little(&held[row][2 * column..2 * column + 2]);
            let value = |lane: usize| {
                let (major, minor) = (lane / 4, 2 * (lane % 4));
                match transposition {
                    Transposition::None => element(major, minor) | element(major, minor + 1) << 16,
                    Transposition::Transposed => {
                        element(minor, major) | element(minor + 1, major) << 16
                    }
                }
            };
            self.set(warp, *register, now.mask, std::array::from_fn(value));
        }
        debug_assert!(rows == d.len() * 8);
        Ok(())
    }

    fn store_matrix(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        count: MatrixCount,
        transposition: Transposition,
        a: &[Register],
    ) -> Result<(), SimError> {
        self.matrix_rows(warp, now, at, count, a.len(), Kind::Write)?;
        for (matrix, register) in a.iter().enumerate() {
            let value = warp.registers[self.program.place(*register)];
            for row in 0..8 {
                let mut held = [0_u8; ROW];
                for (column, bytes) in held.chunks_mut(2).enumerate() {
                    let (major, minor) = match transposition {
                        Transposition::None => (row, column),
                        Transposition::Transposed => (column, row),
                    };
                    let half = value[4 * major + minor / 2] >> (16 * (minor % 2));
                    bytes.copy_from_slice(&(half as u16).to_le_bytes());
                }
                let address = at[matrix * 8 + row] as u32;
                self.write_shared(warp, now, address, &held)?;
            }
        }
        self.progress += 1;
        Ok(())
    }

    /// How many rows the matrices have; their number must be that of the registers.
    fn matrix_rows(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        count: MatrixCount,
        registers: usize,
        kind: Kind,
    ) -> Result<usize, SimError> {
        let matrices = match count {
            MatrixCount::X1 => 1,
            MatrixCount::X2 => 2,
            MatrixCount::X4 => 4,
        };
        if matrices != registers {
            return Err(self.unsupported(now.line, "another number of registers"));
        }
        let rows = 8 * matrices;
        let mask = if rows == 32 { u32::MAX } else { (1 << rows) - 1 };
        self.watch_shared(warp, Now { mask: mask & now.mask, ..now }, at, ROW, kind)?;
        Ok(rows)
    }
}
