//! Reuse of C's slots for D: outputs that are stored through the slots that tile operands were loaded into.
//!
//! In: epilogue loads and stores. Out: for each output, the operand whose slots it takes over.
//! Invariant: both have the same layout in a slot, and no two outputs take the same operand's.

use crate::dtype::DType;
use crate::lower::TileProgram;
use crate::placement::Major;

use super::needs::{Needs, SlotCounts};
use super::place::EpilogueTransfer;
use super::refusal::Sm90Refusal;
use super::schedule::Sm90Schedule;

impl SlotCounts {
    pub(super) fn of(program: &TileProgram, needs: &Needs) -> SlotCounts {
        let count =
            |tiles: &[Option<SlotFormat>]| tiles.iter().flatten().map(|tile| tile.slots()).sum();
        let outputs = outputs(program, needs);
        let taken = reused(program, needs);
        let reusable: Vec<_> =
            outputs.iter().zip(&taken).map(|(output, taken)| taken.and(*output)).collect();
        SlotCounts {
            loads: count(&operands(program, needs)),
            stores: count(&outputs),
            reusable: count(&reusable),
        }
    }
}

/// The layout of a tile in its slots.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SlotFormat {
    major: Major,
    bits: u32,
}

impl SlotFormat {
    fn new(transfer: EpilogueTransfer, dtype: DType) -> Option<SlotFormat> {
        transfer.slot_major().map(|major| SlotFormat { major, bits: dtype.bits() as u32 })
    }

    /// Slots of an epilogue tile: each holds as many elements of 16 bits, or half as many of 32.
    fn slots(self) -> u32 {
        self.bits.div_ceil(16)
    }
}

fn operands(program: &TileProgram, needs: &Needs) -> Vec<Option<SlotFormat>> {
    let inputs = program.graph().inputs();
    let dtypes = program.tile_operands.iter().map(|input| inputs[input.0 as usize].dtype);
    needs
        .epilogue_loads
        .iter()
        .zip(dtypes)
        .map(|(transfer, dtype)| SlotFormat::new(*transfer, dtype))
        .collect()
}

fn outputs(program: &TileProgram, needs: &Needs) -> Vec<Option<SlotFormat>> {
    let outputs = needs.epilogue_stores.iter().zip(program.graph().outputs());
    outputs.map(|(transfer, output)| SlotFormat::new(*transfer, output.dtype)).collect()
}

/// For each output, the place of the tile operand whose slots it could be stored through.
pub(crate) fn reused(program: &TileProgram, needs: &Needs) -> Vec<Option<usize>> {
    let mut free = operands(program, needs);
    let mut take = |output: Option<SlotFormat>| {
        // Rows of bytes lie closer in a slot that is loaded than in one that warps store their own parts of.
        let output = output.filter(|format| format.bits > 8);
        output?;
        let place = free.iter().position(|operand| operand.is_some() && *operand == output)?;
        free[place] = None;
        Some(place)
    };
    // Only copies of whole slots may still read an operand's when the warps that filled it go on.
    let mapped = needs.epilogue_stores.iter().map(|transfer| transfer.major().is_some());
    let outputs = outputs(program, needs).into_iter().zip(mapped);
    outputs.map(|(output, mapped)| take(output.filter(|_| mapped))).collect()
}

/// Whether outputs may be stored through operands' slots, or why not.
///
/// A slot is filled again only when its store has read it. So that the load warp always has slots for the next
/// epilogue tile, there are as many as for two; and an epilogue tile is finished before the next one's operands are
/// read.
pub(super) fn refuse(schedule: &Sm90Schedule) -> Result<(), Sm90Refusal> {
    let slots = schedule.needs.slots;
    if !schedule.reuse_c {
        Ok(())
    } else if slots.reusable == 0 {
        Err(Sm90Refusal::NothingToReuse)
    } else if schedule.span() > schedule.epilogue_tile {
        Err(Sm90Refusal::ReuseOfSpans { span: schedule.span() })
    } else if schedule.c_stages < 2 * slots.loads {
        Err(Sm90Refusal::ReuseOfFewSlots { need: 2 * slots.loads })
    } else {
        Ok(())
    }
}

impl Sm90Schedule {
    /// Whether outputs are stored through slots beside those of operands.
    pub(super) fn has_d_slots(&self) -> bool {
        let slots = self.needs.slots;
        self.needs.stores_through_slots() && !(self.reuse_c && slots.stores == slots.reusable)
    }

    /// Slots of operands that stores still read when the next epilogue tile's operands are waited for: as many as D
    /// would otherwise have, but so few that all of those operands have slots to be loaded into.
    pub(crate) fn held_slots(&self) -> u32 {
        let SlotCounts { loads, reusable, .. } = self.needs.slots;
        let epilogue_tiles = self.d_stages.div_ceil(reusable).min(self.c_stages / loads - 1);
        epilogue_tiles * reusable
    }
}
