//! Where several CTAs compute one tile, each a part of its contraction: their sums meet in the first one, which finishes the
//! tile. They are added in the order of their ranks, so that results do not depend on time.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::Alignment;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use super::Plan;
use super::raster::Raster;

/// Floats that are moved at once.
const AT_ONCE: usize = 4;

/// The sums of a thread that multiplies, on their way to the same thread of the first CTA.
pub(super) struct Parts<'k> {
    k: Kernel<'k, Sm90a>,
    count: u32,
    rank: Reg<'k, U32>,
    /// This thread's place, and the bytes from its sums to its next ones.
    own: SharedAddress<'k>,
    stride: u32,
}

impl<'k> Parts<'k> {
    /// For the thread of this number among those that multiply.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &Plan<'_>,
        raster: &Raster<'k>,
        number: Reg<'k, U32>,
    ) -> Parts<'k> {
        let bytes = AT_ONCE as u32 * 4;
        let own = k.region(&plan.partials) + number * bytes;
        let stride = 128 * plan.schedule.consumers() * bytes;
        let count = plan.schedule.tile.cluster.parts();
        Parts { k, count, rank: raster.rank(), own, stride }
    }

    /// Whether this CTA is the first, where all sums meet.
    pub(super) fn is_whole(&self) -> Reg<'k, Pred> {
        self.rank.eq(0)
    }

    /// Lets the first CTA finish a tile with all sums, once every part has its own.
    pub(super) fn gather(
        &self,
        sums: &[Vec<Var<'k, F32>>],
        finish: impl FnOnce(&[Vec<Var<'k, F32>>]),
    ) {
        let k = self.k;
        let own: Vec<Reg<'k, F32>> = sums.iter().flatten().map(|sum| sum.get()).collect();
        let places = |count: usize| (0..count as u32).map(|place| place * self.stride);
        k.if_else(
            self.is_whole(),
            || {
                meet(k);
                let mut all = own.clone();
                for part in 1..self.count {
                    let theirs = k.remote_address(self.own, part);
                    let chunks = all.chunks_exact_mut(AT_ONCE);
                    for (chunk, offset) in chunks.zip(places(own.len() / AT_ONCE)) {
                        let more = k.load_cluster::<F32, AT_ONCE>(theirs.advance(offset));
                        chunk.iter_mut().zip(more).for_each(|(sum, more)| *sum = *sum + more);
                    }
                }
                // From here on they may be overwritten.
                meet(k);
                let each = all.len() / sums.len();
                let of_block =
                    |block: &[Reg<'k, F32>]| block.iter().map(|sum| k.var(*sum)).collect();
                finish(&all.chunks_exact(each).map(of_block).collect::<Vec<_>>());
            },
            || {
                for (chunk, offset) in own.chunks_exact(AT_ONCE).zip(places(own.len() / AT_ONCE)) {
                    k.store_shared(self.own + offset, [chunk[0], chunk[1], chunk[2], chunk[3]]);
                }
                meet(k);
                meet(k);
            },
        );
    }
}

/// All threads of a cluster meet, once a tile's sums are there and once they are read.
fn meet(k: Kernel<'_, Sm90a>) {
    k.cluster_sync(Alignment::Any);
}

/// Meets as often as those that multiply do: what every other thread of a CTA does for a tile.
pub(super) fn attend(k: Kernel<'_, Sm90a>) {
    meet(k);
    meet(k);
}
