//! The last stage of a segment of the contraction: lines of K that belong to the next segment are cleared.
//!
//! A box has as many lines of K as a stage, whatever the segment; its end is known on the device only. Both operands are
//! cleared, since infinity times zero is no number. Lines of K are whole in an MN-major stage, so that they are cleared
//! without regard to the swizzle; threads that load single elements do not read behind a segment.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::ProxySpace;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::target::sm90::plan::{Mainloop, OperandLoad, STAGE_ROW_BYTES};

use super::operand::Part;
use super::plan::Plan;
use super::segments::Contraction;
use super::warpgroup::WarpgroupIndex;

/// Bytes that a thread clears at a time.
const CHUNK_BYTES: u32 = 16;
/// Rows of A, or columns of B, of a slab.
const SLAB: u32 = 64;

/// The math warpgroups of a tile, as they clear its stages.
pub(super) struct SegmentTail<'k> {
    k: Kernel<'k, Sm90a>,
    stages: SharedAddress<'k>,
    stage_bytes: u32,
    /// K of a stage.
    depth: u32,
    /// Where slabs begin in a stage.
    slabs: Vec<u32>,
    /// This thread among those of the tile's math warpgroups, how many they are, and their barrier.
    thread: Reg<'k, U32>,
    threads: u32,
    barrier: Reg<'k, U32>,
}

impl<'k> SegmentTail<'k> {
    /// `None` where K of a batch is no segment, or no box brings in lines of another one.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &Plan<'_>,
        mainloop: &Mainloop,
        warpgroup: WarpgroupIndex<'k>,
    ) -> Option<Self> {
        let parts = Part::of(plan.schedule);
        let boxes = parts.iter().filter(|part| part.load == OperandLoad::TmaMnMajor);
        let slab = |part: &Part| {
            let offset = part.offset;
            (0..part.size / SLAB).map(move |slab| offset + slab * SLAB * STAGE_ROW_BYTES)
        };
        let slabs: Vec<u32> = boxes.flat_map(slab).collect();
        let tile = plan.schedule.tile;
        (mainloop.ragged && !slabs.is_empty()).then(|| SegmentTail {
            k,
            stages: k.region(&plan.stages),
            stage_bytes: plan.schedule.stage_bytes(),
            depth: mainloop.depth(),
            slabs,
            thread: warpgroup.in_tile.mad(128, k.thread() & 127),
            threads: 128 * tile.warpgroups_per_tile(),
            // That of values along columns: the same threads synchronise there.
            barrier: warpgroup.order + (tile.math_warpgroups + 1),
        })
    }

    /// Clears what a stage holds of other segments: the tile's first stage, or the one of this number.
    pub(super) fn clear(
        &self,
        stage: Reg<'k, U32>,
        step: Option<Reg<'k, U32>>,
        segment: Contraction<'k>,
    ) {
        let k = self.k;
        let length = segment.end - segment.begin;
        let before = step.map_or_else(|| k.imm(0), |step| step * self.depth);
        let lines = length.max(before) - before;
        k.if_(lines.lt(self.depth), || {
            let start = self.stages + stage * self.stage_bytes;
            let (first, zero) = (lines * (STAGE_ROW_BYTES / CHUNK_BYTES), k.imm::<U32>(0));
            let chunks = self.depth * STAGE_ROW_BYTES / CHUNK_BYTES;
            for turn in 0..chunks.div_ceil(self.threads) {
                let chunk = self.thread + turn * self.threads;
                let clears = chunk.ge(first) & chunk.lt(chunks);
                for slab in &self.slabs {
                    let to = start + *slab + chunk * CHUNK_BYTES;
                    k.when(clears, || k.store_shared(to, [zero; 4]));
                }
            }
            // wgmma reads through the asynchronous proxy.
            k.fence_proxy_async(ProxySpace::SharedCta);
            k.sync_named(self.barrier, self.threads);
        });
    }
}
