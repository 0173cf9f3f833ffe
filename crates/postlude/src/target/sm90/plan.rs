//! Schedules for Hopper: enumerate candidates, refuse with a reason, cost, pick.
//!
//! In: a tile program at the sizes of a call. Out: a [`Sm90Schedule`], everything the emitter needs.
//! Invariant: a schedule that is returned fits shared memory and registers, and the emitter can emit it.

mod accept;
mod blocks;
mod candidates;
mod chip;
mod code;
mod copies;
mod cost;
mod dynamic;
mod elements;
mod fit;
mod gathered;
mod hints;
mod knobs;
mod limits;
mod lists;
mod mainloop;
mod needed;
mod needs;
mod operand;
mod parameters;
mod partials;
mod place;
mod rank;
mod ranked;
mod raster;
mod refusal;
mod refuse;
mod reuse;
mod row_copies;
mod row_cost;
mod row_needs;
mod row_work;
mod rows;
mod scaling;
mod schedule;
mod shared_memory;
mod shared_strides;
mod slices;
mod slots;
mod streamed;
mod streaming;
mod strips;
mod swapped;
mod text;
mod widened;
mod work;
mod workspace;

pub(crate) use accept::accept;
pub(crate) use blocks::BlockLayout;
pub(crate) use candidates::CANDIDATES;
pub(crate) use chip::Sm90;
pub(crate) use copies::{copy_reason, operand_copies};
pub(crate) use cost::with_spills as cycles;
pub(crate) use dynamic::DYNAMIC_SLOTS;
pub(crate) use gathered::{GatheredRows, gathered_rows};
pub(crate) use hints::Hints;
pub(crate) use lists::{ListSteps, Lists};
pub(crate) use mainloop::Mainloop;
pub(crate) use operand::{
    Operand, OperandElement, OperandLoad, STAGE_ROW_BYTES, STAGGER, STAGGERED_ROW_BYTES,
    narrow_source, operands,
};
pub(crate) use place::EpilogueTransfer;
pub(crate) use rank::{Candidate, candidates, contenders, fitted, like, schedules};
pub(crate) use ranked::{CANDIDATE_BYTES, COUNTER_BYTES, KEPT, MOST_RAISING};
pub(crate) use raster::RasterOrder;
pub(crate) use refusal::Sm90Refusal;
pub(crate) use reuse::reused;
pub(crate) use row_needs::RowNeeds;
pub(crate) use rows::{column_inputs, computed_again, row_folds};
pub(crate) use scaling::{ColumnScale, scaled_rows, scales_sums};
pub(crate) use schedule::Sm90Schedule;
pub(crate) use shared_strides::SharedStrides;
pub(crate) use slots::SLOT_ROWS;
pub(crate) use strips::STRIP_ROWS;
pub(crate) use strips::strip_results;
pub(crate) use swapped::{K_PARTS, SWAPPED_COLUMNS, SWAPPED_REGISTERS};
pub(crate) use text::renamed_words;
pub(crate) use widened::{SPAN_BYTES, THREAD_BYTES, Widened, widened_operand, widens};
pub(crate) use workspace::Workspace;
