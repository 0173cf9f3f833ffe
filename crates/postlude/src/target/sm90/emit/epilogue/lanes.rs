//! Where a thread's elements lie in a slot: swizzled rows, as copies by tensor map write and read them.
//!
//! A row is a power of two of 16-byte chunks, exchanged by the row's place in the pattern (PTX ISA, "Swizzling Modes").
//! Slots start at multiples of the pattern, so an address is exclusive-ored as a whole.

mod access;
mod columns;
mod rows;

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::U32;

use super::super::chip::EpilogueChip;
use super::super::plan::Plan;
use crate::placement::Major;

pub(super) use access::{CHUNK, Floats, Packed, SlotAccess};
use columns::ColumnLanes;
pub(super) use rows::Exchange;
use rows::RowLanes;

/// A thread's places in every slot, for each order that a tile of the epilogue has.
pub(super) struct Lanes<'k, C> {
    rows: Option<RowLanes<'k, C>>,
    columns: Option<ColumnLanes<'k, C>>,
}

impl<'k, C: EpilogueChip> Lanes<'k, C> {
    /// For the thread of this rank in its warpgroup.
    pub(super) fn new(k: Kernel<'k, C>, rank: Reg<'k, U32>, plan: &Plan<'_>) -> Lanes<'k, C> {
        let schedule = plan.schedule;
        let transfers = schedule.needs.epilogue_loads.iter().chain(&schedule.needs.epilogue_stores);
        let any = |major| transfers.clone().any(|transfer| transfer.slot_major() == Some(major));
        let operands = plan.program.tile_operands.iter().zip(&schedule.needs.epilogue_loads);
        let loads_bytes = |major| {
            operands.clone().any(|(input, transfer)| {
                let dtype = plan.graph.inputs()[input.0 as usize].dtype;
                dtype.bits() == 8 && transfer.major() == Some(major)
            })
        };
        let [row, column] =
            [Major::Row, Major::Column].map(|major| any(major).then(|| loads_bytes(major)));
        Lanes {
            rows: row.map(|bytes| RowLanes::new(k, rank, schedule, bytes)),
            columns: column.map(|bytes| ColumnLanes::new(k, rank, schedule, bytes)),
        }
    }

    /// The places of one order.
    pub(super) fn of(&self, major: Major) -> &dyn SlotAccess<'k, C> {
        let access: Option<&dyn SlotAccess<'k, C>> = match major {
            Major::Row => self.rows.as_ref().map(|lanes| lanes as _),
            Major::Column => self.columns.as_ref().map(|lanes| lanes as _),
        };
        access.unwrap_or_else(|| panic!("compiler bug: no tile is {major:?}-major"))
    }
}
