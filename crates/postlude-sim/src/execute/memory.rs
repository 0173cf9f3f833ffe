//! Global memory: reads, writes and atomics.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::Reduction;
use postlude_ptx::operand::{Operand, Register};
use postlude_ptx::types::Scalar;

use crate::atomic::combine;
use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::{Fault, POISON};
use crate::observe::{Access, Kind, Space};
use crate::scalar::{bytes, extend};
use crate::warp::{Lanes, Warp, lanes};

use super::{Now, Outcome};

/// What an atomic instruction does.
enum Change {
    Combine(Reduction),
    Swap,
}

impl Machine<'_> {
    pub(super) fn execute_memory(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        self.report.meters.global_requests += 1;
        match inst {
            Inst::LoadGlobal { ty, d, address, .. } => {
                let at = self.address(warp, address, now.line)?;
                self.load_global(warp, now, &at, *ty, &d.0)?;
            }
            Inst::LoadOrdered { ty, d, address, .. } => {
                let at = self.address(warp, address, now.line)?;
                self.load_global(warp, now, &at, *ty, &[d.0])?;
                // Whoever reads so may be waiting for others.
                return Ok(Outcome::Poll);
            }
            Inst::StoreGlobal { ty, address, a, .. } => {
                let at = self.address(warp, address, now.line)?;
                self.store_global(warp, now, &at, *ty, &a.0)?;
            }
            Inst::StoreOrdered { ty, address, a, .. } => {
                let at = self.address(warp, address, now.line)?;
                self.store_global(warp, now, &at, *ty, &[a.0])?;
            }
            Inst::Atomic { reduction, ty, d, address, a, .. } => {
                let at = self.address(warp, address, now.line)?;
                let a = self.value(warp, a.0);
                let change = Change::Combine(*reduction);
                let old = self.change_global(warp, now, &at, *ty, &change, [&a, &a])?;
                self.set(warp, d.0, now.mask, old);
                return Ok(Outcome::Poll);
            }
            Inst::AtomicSwap { ty, d, address, compare, a, .. } => {
                let at = self.address(warp, address, now.line)?;
                let [a, compare] = [a, compare].map(|each| self.value(warp, each.0));
                let operands = [&a, &compare];
                let old = self.change_global(warp, now, &at, *ty, &Change::Swap, operands)?;
                self.set(warp, d.0, now.mask, old);
                return Ok(Outcome::Poll);
            }
            Inst::Reduce { reduction, ty, address, a, .. } => {
                let at = self.address(warp, address, now.line)?;
                let a = self.value(warp, a.0);
                let change = Change::Combine(*reduction);
                self.change_global(warp, now, &at, *ty, &change, [&a, &a])?;
            }
            _ => return Err(self.unsupported(now.line, "no unit")),
        }
        Ok(Outcome::Next)
    }

    /// Bytes of an element of an access; 32 bytes is the most that one lane moves.
    pub(super) fn access_bytes(
        &self,
        now: Now,
        ty: Scalar,
        count: usize,
    ) -> Result<usize, SimError> {
        let size = bytes(ty);
        let fits = count.is_power_of_two() && size * count <= 32;
        if fits { Ok(size) } else { Err(self.unsupported(now.line, "no such vector")) }
    }

    /// Tells who watches, and finds addresses that are no multiple of the access's size.
    fn watch_global(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        size: usize,
        kind: Kind,
    ) -> Result<(), SimError> {
        let pieces: Vec<(u64, u32)> = lanes(now.mask).map(|lane| (at[lane], size as u32)).collect();
        let who = self.at(warp, now.line, now.mask);
        self.observer.accessed(who, Access { space: Space::Global, kind, pieces: &pieces });
        match pieces.iter().find(|(address, _)| !address.is_multiple_of(size as u64)) {
            Some((address, _)) => {
                self.blame_global(Self::blamed(warp), now.line, Fault::Misaligned, *address)
            }
            None => Ok(()),
        }
    }

    fn load_global(
        &mut self,
        warp: &mut Warp,
        now: Now,
        at: &Lanes,
        ty: Scalar,
        d: &[Register],
    ) -> Result<(), SimError> {
        let size = self.access_bytes(now, ty, d.len())?;
        self.watch_global(warp, now, at, size * d.len(), Kind::Read)?;
        let mut values = vec![[0; 32]; d.len()];
        for lane in lanes(now.mask) {
            let mut held = [POISON; 32];
            match self.global.bytes(at[lane], size * d.len()) {
                Ok(found) => held[..found.len()].copy_from_slice(found),
                Err(fault) => {
                    self.blame_global(Self::blamed(warp), now.line, fault, at[lane])?;
                }
            }
            for (part, value) in values.iter_mut().enumerate() {
                value[lane] = extend(little(&held[part * size..][..size]), ty);
            }
        }
        for (register, value) in d.iter().zip(values) {
            self.set(warp, *register, now.mask, value);
        }
        Ok(())
    }

    fn store_global(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        ty: Scalar,
        a: &[Operand],
    ) -> Result<(), SimError> {
        let size = self.access_bytes(now, ty, a.len())?;
        self.watch_global(warp, now, at, size * a.len(), Kind::Write)?;
        let values: Vec<Lanes> = a.iter().map(|each| self.value(warp, *each)).collect();
        for lane in lanes(now.mask) {
            match self.global.bytes_mut(at[lane], size * a.len()) {
                Ok(found) => {
                    for (part, value) in found.chunks_mut(size).zip(&values) {
                        part.copy_from_slice(&value[lane].to_le_bytes()[..size]);
                    }
                }
                Err(fault) => {
                    self.blame_global(Self::blamed(warp), now.line, fault, at[lane])?;
                }
            }
        }
        self.progress += 1;
        Ok(())
    }

    /// Changes a value for each lane, one after the other; what was there before.
    fn change_global(
        &mut self,
        warp: &Warp,
        now: Now,
        at: &Lanes,
        ty: Scalar,
        change: &Change,
        [a, compare]: [&Lanes; 2],
    ) -> Result<Lanes, SimError> {
        let size = bytes(ty);
        self.watch_global(warp, now, at, size, Kind::Atomic)?;
        let mut old = [0; 32];
        for lane in lanes(now.mask) {
            let held = match self.global.bytes(at[lane], size) {
                Ok(found) => little(found),
                Err(fault) => {
                    self.blame_global(Self::blamed(warp), now.line, fault, at[lane])?;
                    continue;
                }
            };
            old[lane] = held;
            let new = match change {
                Change::Combine(reduction) => combine(*reduction, ty, held, a[lane]),
                Change::Swap => {
                    let same = (held ^ compare[lane]) << (64 - 8 * size) == 0;
                    Some(if same { a[lane] } else { held })
                }
            };
            let new = new.ok_or_else(|| self.unsupported(now.line, "no such reduction"))?;
            if let Ok(found) = self.global.bytes_mut(at[lane], size) {
                found.copy_from_slice(&new.to_le_bytes()[..size]);
            }
        }
        self.progress += 1;
        Ok(old)
    }
}

/// Up to 8 bytes as a number.
pub(super) fn little(held: &[u8]) -> u64 {
    held.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}
