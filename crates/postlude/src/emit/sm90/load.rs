//! The load roles: one thread keeps the ring of the product full, one for each warpgroup that multiplies its tile operands'.

use postlude_ptx::kernel::{Kernel, Reg, TensorMap};
use postlude_ptx::ring::{Receivers, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::plan::sm90::{SLOT_ROWS, STAGE_DEPTH, Sharing};

use super::Plan;
use super::parameters::{Parameters, Source};
use super::raster::Raster;
use super::slot::SlotLayout;

/// Bytes of a row of a stage.
const ROW_BYTES: u32 = STAGE_DEPTH * 2;

pub(super) fn load<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    ring: &Ring<'k, Sm90a>,
) {
    let schedule = plan.schedule;
    let (left, right) = (parameters.left.address(), parameters.right.address());
    let stages = k.region(&plan.stages);
    let left_bytes = schedule.tile.rows * ROW_BYTES;
    // Each CTA of a cluster loads its share of B's columns and sends it to all.
    let share = schedule.tile.columns / schedule.cluster;
    let share_bytes = share * ROW_BYTES;
    // Without a contraction the one step reads beyond the operands' only column, where there are zeros.
    let first = k.imm(STAGE_DEPTH).select(0, parameters.inner.eq(0));
    let at = ring.producer();
    raster.for_each(|corner| {
        let left_batch = corner.batch * parameters.left_batched;
        let right_batch = corner.batch * parameters.right_batched;
        let right_column = raster.rank().mad(share, corner.column);
        k.for_(0, raster.steps, 1, |step| {
            let depth = step.mad(STAGE_DEPTH, first);
            ring.produce(&at, |slot| {
                let start = stages + slot.stage * schedule.stage_bytes();
                let place = [depth.into(), corner.row.into(), left_batch.into()];
                slot.load(start, left, &place, left_bytes, Receivers::Own, None);
                let receivers = match schedule.cluster {
                    1 => Receivers::Own,
                    count => Receivers::Multicast { mask: ((1u16 << count) - 1).into(), count },
                };
                let to = start + left_bytes + raster.rank() * share_bytes;
                let place = [depth.into(), right_column.into(), right_batch.into()];
                slot.load(to, right, &place, share_bytes, receivers, None);
            });
        });
    });
}

/// The tile operands of one warpgroup, in the order in which its epilogue reads them. By a warp of its own: A and B of
/// the next tile would wait behind slots that only this tile's epilogue frees.
pub(super) fn load_tiles<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    warpgroup: u32,
) {
    let schedule = plan.schedule;
    let tiles: Vec<(TensorMap<'k>, SlotLayout)> = parameters
        .sources
        .iter()
        .filter_map(|(_, source)| match source {
            Source::Map(tile) => Some((tile.map.address(), tile.layout)),
            Source::Host(_) | Source::Memory(_) => None,
        })
        .collect();
    let ring = plan.arrivals(k, k.imm(warpgroup));
    let bytes = schedule.slot_bytes();
    let slots = k.region(&plan.loads) + warpgroup * schedule.load_stages * bytes;
    let at = ring.producer();
    let (own, each_tile): (u32, Option<Reg<'k, U32>>) = match schedule.tile.sharing {
        Sharing::Rows => (warpgroup * schedule.tile.blocks(), None),
        Sharing::Tiles => (0, Some(k.imm(warpgroup))),
    };
    raster.for_own(each_tile, |corner| {
        for block in 0..schedule.tile.blocks() {
            let row = corner.row + (own + block) * SLOT_ROWS;
            k.for_(0, schedule.tile.columns, schedule.subtile, |offset| {
                for (map, layout) in &tiles {
                    for part in 0..layout.slots() {
                        let column = corner.column + offset + part * layout.columns();
                        ring.produce(&at, |slot| {
                            let start = slots + slot.stage * bytes;
                            for each in layout.boxes(row, column, corner.batch) {
                                let to = start + each.offset;
                                let from = &each.coordinates;
                                slot.load(to, *map, from, each.bytes, Receivers::Own, None);
                            }
                        });
                    }
                }
            });
        }
    });
}
