//! Instructions of global memory, and how it is watched, read and written.

use postlude_ptx::address::Address;
use postlude_ptx::inst::Inst;

use crate::error::SimError;
use crate::lane_order::{Piece, Where};
use crate::machine::Machine;
use crate::memory::{Fault, POISON};
use crate::observe::{Access, Kind, Space};
use crate::warp::{Lanes, Warp, lanes};

use super::access::{Change, Memory, Place, WIDEST};
use super::{Now, Outcome};

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
                let place = self.global_place(warp, now, address)?;
                self.load_lanes(warp, now, &place, *ty, &d.0)?;
            }
            Inst::LoadOrdered { ty, d, address, .. } => {
                let place = self.global_place(warp, now, address)?;
                self.load_lanes(warp, now, &place, *ty, &[d.0])?;
                // Whoever reads so may be waiting for others.
                return Ok(Outcome::Poll);
            }
            Inst::StoreGlobal { ty, address, a, .. } => {
                let place = self.global_place(warp, now, address)?;
                self.store_lanes(warp, now, &place, *ty, &a.0)?;
            }
            Inst::StoreOrdered { ty, address, a, .. } => {
                let place = self.global_place(warp, now, address)?;
                self.store_lanes(warp, now, &place, *ty, &[a.0])?;
            }
            Inst::Atomic { reduction, ty, d, address, a, .. } => {
                let place = self.global_place(warp, now, address)?;
                let a = self.value(warp, a.0);
                let change = Change::Combine(*reduction, &a);
                let old = self.change_lanes(warp, now, &place, *ty, &change)?;
                self.set(warp, d.0, now.mask, old);
                return Ok(Outcome::Poll);
            }
            Inst::AtomicSwap { ty, d, address, compare, a, .. } => {
                let place = self.global_place(warp, now, address)?;
                let [a, compare] = [a, compare].map(|each| self.value(warp, each.0));
                let change = Change::Swap(&a, &compare);
                let old = self.change_lanes(warp, now, &place, *ty, &change)?;
                self.set(warp, d.0, now.mask, old);
                return Ok(Outcome::Poll);
            }
            Inst::Reduce { reduction, ty, address, a, .. } => {
                let place = self.global_place(warp, now, address)?;
                let a = self.value(warp, a.0);
                let change = Change::Combine(*reduction, &a);
                self.change_lanes(warp, now, &place, *ty, &change)?;
            }
            _ => return Err(self.unsupported(now.line, "no unit")),
        }
        Ok(Outcome::Next)
    }

    fn global_place(&self, warp: &Warp, now: Now, address: &Address) -> Result<Place, SimError> {
        Ok(Place { memory: Memory::Global, at: self.address(warp, address, now.line)? })
    }

    /// Tells who watches, and finds addresses that are no multiple of the access's size.
    pub(super) fn watch_global(
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
        let touched = lanes(now.mask).zip(&pieces);
        let touched = touched.map(|(lane, (address, bytes))| Piece {
            lane: lane as u32,
            address: *address,
            bytes: *bytes,
        });
        let touched: Vec<Piece> = touched.collect();
        self.touch_lanes(warp, now, Where::Global, kind, &touched)?;
        match pieces.iter().find(|(address, _)| !address.is_multiple_of(size as u64)) {
            Some((address, _)) => {
                self.blame_global(Self::blamed(warp), now.line, Fault::Misaligned, *address)
            }
            None => Ok(()),
        }
    }

    /// Up to 32 bytes, if there are that many.
    pub(super) fn read_global(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u64,
        size: usize,
    ) -> Result<Option<[u8; WIDEST]>, SimError> {
        match self.global.bytes(address, size) {
            Ok(found) => {
                let mut held = [POISON; WIDEST];
                held[..size].copy_from_slice(found);
                Ok(Some(held))
            }
            Err(fault) => {
                self.blame_global(Self::blamed(warp), now.line, fault, address).map(|()| None)
            }
        }
    }

    pub(super) fn write_global(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u64,
        held: &[u8],
    ) -> Result<(), SimError> {
        match self.global.bytes_mut(address, held.len()) {
            Ok(found) => {
                found.copy_from_slice(held);
                Ok(())
            }
            Err(fault) => self.blame_global(Self::blamed(warp), now.line, fault, address),
        }
    }
}
