//! Split K within a cluster: each CTA multiplies a part of K, and the first CTA adds the partial sums and runs the epilogue.
//! It adds them in the order of CTA ranks, so that results do not depend on timing.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::Alignment;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, S32, U32};

use crate::dtype::Elem;
use crate::graph::ProductId;

use super::plan::Plan;
use super::tile_scheduler::TileScheduler;

/// Floats that are moved at once.
const AT_ONCE: usize = 4;

/// The partial sums of a math thread, which the same thread of the first CTA reads.
pub(super) struct SplitK<'k> {
    k: Kernel<'k, Sm90a>,
    count: u32,
    rank: Reg<'k, U32>,
    /// This thread's place, and the bytes from its sums to its next ones.
    own: SharedAddress<'k>,
    stride: u32,
    /// Whether sums are integers.
    integers: bool,
}

impl<'k> SplitK<'k> {
    /// For the math thread of this number in its CTA.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &Plan<'_>,
        scheduler: &TileScheduler<'k, Sm90a>,
        number: Reg<'k, U32>,
    ) -> SplitK<'k> {
        let bytes = AT_ONCE as u32 * 4;
        let own = k.region(&plan.partials) + number * bytes;
        let stride = 128 * plan.schedule.math_warpgroups() * bytes;
        let count = plan.schedule.tile.cluster.split_k();
        let integers = plan.graph.product(ProductId::FIRST).elem == Elem::I32;
        SplitK { k, count, rank: scheduler.rank(), own, stride, integers }
    }

    /// Whether this CTA is the first, which adds all partial sums.
    pub(super) fn is_first(&self) -> Reg<'k, Pred> {
        self.rank.eq(0)
    }

    /// Lets the first CTA finish a tile with the whole sums, once every CTA has written its own.
    pub(super) fn gather(
        &self,
        sums: &[Vec<Var<'k, F32>>],
        finish: impl FnOnce(&[Vec<Var<'k, F32>>]),
    ) {
        let k = self.k;
        let own: Vec<Reg<'k, F32>> = sums.iter().flatten().map(|sum| sum.get()).collect();
        let places = |count: usize| (0..count as u32).map(|place| place * self.stride);
        k.if_else(
            self.is_first(),
            || {
                sync(k);
                let mut all = own.clone();
                for rank in 1..self.count {
                    let theirs = k.remote_address(self.own, rank);
                    let chunks = all.chunks_exact_mut(AT_ONCE);
                    for (chunk, offset) in chunks.zip(places(own.len() / AT_ONCE)) {
                        let more = k.load_cluster::<F32, AT_ONCE>(theirs.advance(offset));
                        for (sum, more) in chunk.iter_mut().zip(more) {
                            *sum = self.add(*sum, more);
                        }
                    }
                }
                // From here on the other CTAs may overwrite their partial sums.
                sync(k);
                let each = all.len() / sums.len();
                let of_block =
                    |block: &[Reg<'k, F32>]| block.iter().map(|sum| k.var(*sum)).collect();
                finish(&all.chunks_exact(each).map(of_block).collect::<Vec<_>>());
            },
            || {
                for (chunk, offset) in own.chunks_exact(AT_ONCE).zip(places(own.len() / AT_ONCE)) {
                    k.store_shared(self.own + offset, [chunk[0], chunk[1], chunk[2], chunk[3]]);
                }
                sync(k);
                sync(k);
            },
        );
    }
}

impl<'k> SplitK<'k> {
    fn add(&self, a: Reg<'k, F32>, b: Reg<'k, F32>) -> Reg<'k, F32> {
        if !self.integers {
            return a + b;
        }
        let [a, b] = [a, b].map(|sum| self.k.f32_to_bits(sum).cast::<S32>());
        self.k.bits_to_f32((a + b).cast())
    }
}

/// The cluster barrier: once when a tile's partial sums are written, once when they are read.
fn sync(k: Kernel<'_, Sm90a>) {
    k.cluster_sync(Alignment::Any);
}

/// What the other threads of a CTA do for a tile: arrive at the cluster barrier as often as math threads do.
pub(super) fn attend(k: Kernel<'_, Sm90a>) {
    sync(k);
    sync(k);
}
