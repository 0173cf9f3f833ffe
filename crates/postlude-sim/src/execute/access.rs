//! Loads, stores and atomics, which are the same in both memories.
//!
//! In: a memory with an address for each lane, and the type of an element. Out: registers or memory changed.
//! Invariant: who watches is told before a byte moves; where an address has no bytes, reads give poison and nothing is
//! written.

use postlude_ptx::modifier::Reduction;
use postlude_ptx::operand::{Operand, Register};
use postlude_ptx::types::Scalar;

use crate::atomic::combine;
use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::POISON;
use crate::observe::Kind;
use crate::scalar::{bytes, extend, little};
use crate::warp::{Lanes, Warp, lanes};

use super::Now;

/// The most bytes that one lane moves.
pub(super) const WIDEST: usize = 32;

/// What an access goes to.
#[derive(Clone, Copy)]
pub(super) enum Memory {
    Global,
    Shared,
}

/// Where the lanes of a warp access memory.
pub(super) struct Place {
    pub(super) memory: Memory,
    /// An address for each lane.
    pub(super) at: Lanes,
}

/// What an atomic instruction does.
pub(super) enum Change<'v> {
    Combine(Reduction, &'v Lanes),
    /// Writes the first where it finds the second.
    Swap(&'v Lanes, &'v Lanes),
}

impl Machine<'_> {
    pub(super) fn load_lanes(
        &mut self,
        warp: &mut Warp,
        now: Now,
        place: &Place,
        ty: Scalar,
        d: &[Register],
    ) -> Result<(), SimError> {
        let size = self.element_bytes(now, ty, d.len())?;
        self.watch_lanes(warp, now, place, size * d.len(), Kind::Read)?;
        let mut values = vec![[0; 32]; d.len()];
        for lane in lanes(now.mask) {
            let held = self.read_lane(warp, now, place, lane, size * d.len())?;
            let held = held.unwrap_or([POISON; WIDEST]);
            for (part, value) in held.chunks(size).zip(&mut values) {
                value[lane] = extend(little(part), ty);
            }
        }
        for (register, value) in d.iter().zip(values) {
            self.set(warp, *register, now.mask, value);
        }
        Ok(())
    }

    pub(super) fn store_lanes(
        &mut self,
        warp: &Warp,
        now: Now,
        place: &Place,
        ty: Scalar,
        a: &[Operand],
    ) -> Result<(), SimError> {
        let size = self.element_bytes(now, ty, a.len())?;
        self.watch_lanes(warp, now, place, size * a.len(), Kind::Write)?;
        let values: Vec<Lanes> = a.iter().map(|each| self.value(warp, *each)).collect();
        for lane in lanes(now.mask) {
            let mut held = [0; WIDEST];
            for (part, value) in held.chunks_mut(size).zip(&values) {
                part.copy_from_slice(&value[lane].to_le_bytes()[..size]);
            }
            self.write_lane(warp, now, place, lane, &held[..size * a.len()])?;
        }
        self.progress += 1;
        Ok(())
    }

    /// Changes a value for each lane, one after the other; what was there before.
    pub(super) fn change_lanes(
        &mut self,
        warp: &Warp,
        now: Now,
        place: &Place,
        ty: Scalar,
        change: &Change<'_>,
    ) -> Result<Lanes, SimError> {
        let size = bytes(ty);
        self.watch_lanes(warp, now, place, size, Kind::Atomic)?;
        let mut old = [little(&[POISON; 8]); 32];
        let mut changed = false;
        for lane in lanes(now.mask) {
            let Some(held) = self.read_lane(warp, now, place, lane, size)? else { continue };
            let held = little(&held[..size]);
            old[lane] = held;
            let new = match change {
                Change::Combine(reduction, a) => combine(*reduction, ty, held, a[lane]),
                Change::Swap(a, compare) => {
                    let same = (held ^ compare[lane]) << (64 - 8 * size) == 0;
                    Some(if same { a[lane] } else { held })
                }
            };
            let new = new.ok_or_else(|| self.unsupported(now.line, "no such reduction"))?;
            changed |= (held ^ new) << (64 - 8 * size) != 0;
            self.write_lane(warp, now, place, lane, &new.to_le_bytes()[..size])?;
        }
        // An attempt to change something that fails is a question, and may be asked again and again.
        self.progress += u64::from(changed);
        Ok(old)
    }

    /// Bytes of an element of an access.
    fn element_bytes(&self, now: Now, ty: Scalar, count: usize) -> Result<usize, SimError> {
        let size = bytes(ty);
        let fits = count.is_power_of_two() && size * count <= WIDEST;
        if fits { Ok(size) } else { Err(self.unsupported(now.line, "no such vector")) }
    }

    /// Tells who watches, and finds addresses that are no multiple of the access's size.
    fn watch_lanes(
        &mut self,
        warp: &Warp,
        now: Now,
        place: &Place,
        size: usize,
        kind: Kind,
    ) -> Result<(), SimError> {
        match place.memory {
            Memory::Global => self.watch_global(warp, now, &place.at, size, kind),
            Memory::Shared => self.watch_shared(warp, now, &place.at, size, kind),
        }
    }

    /// A lane's bytes, if there are any.
    fn read_lane(
        &mut self,
        warp: &Warp,
        now: Now,
        place: &Place,
        lane: usize,
        size: usize,
    ) -> Result<Option<[u8; WIDEST]>, SimError> {
        let address = place.at[lane];
        match place.memory {
            Memory::Global => self.read_global(warp, now, address, size),
            Memory::Shared => self.read_shared(warp, now, address as u32, size),
        }
    }

    fn write_lane(
        &mut self,
        warp: &Warp,
        now: Now,
        place: &Place,
        lane: usize,
        held: &[u8],
    ) -> Result<(), SimError> {
        let address = place.at[lane];
        match place.memory {
            Memory::Global => self.write_global(warp, now, address, held),
            Memory::Shared => self.write_shared(warp, now, address as u32, held),
        }
    }
}
