//! Slices of K: CTAs write partial sums of a tile to the workspace, and the CTA with the last slice adds them and runs the
//! epilogue.
//!
//! A thread needs the sums of the same thread of the other slices alone. A word says itself whether it is written, for it is
//! zero until then: no thread waits for a fence or a barrier, and the reader polls. It leaves words at zero for the next
//! launch, and adds them in the order of slices, so that results do not depend on timing.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, Var};
use postlude_ptx::modifier::{Order, Scope};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, S32, U32};

use crate::dtype::Elem;
use crate::graph::ProductId;

use super::parameters::{Parameters, SliceParameters};
use super::plan::Plan;
use super::tile_scheduler::Slice;
use super::warpgroup::WarpgroupIndex;

/// Words that a thread polls at a time: more would not fit beside the accumulators of large tiles.
const POLLED: usize = 32;
/// Bytes from a thread's word to its next one.
const STRIDE: i64 = 128 * 4;
/// The bits of -0, which stand for a sum that is zero: adding it changes nothing. Integers are told from zero by the same bit.
const SIGN: u32 = 1 << 31;

/// The partial sums of a math thread.
pub(super) struct Slices<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    parameters: &'a SliceParameters<'k>,
    warpgroup: WarpgroupIndex<'k>,
    rank: Reg<'k, U32>,
    /// Bytes of a tile's sums, and of a warpgroup's.
    tile_bytes: u32,
    warpgroup_bytes: u32,
    /// Whether sums are integers, none of which is the least one.
    integers: bool,
}

impl<'a, 'k> Slices<'a, 'k> {
    /// For the math thread of this rank in its warpgroup; `None` where work tiles have all of K.
    pub(super) fn of(
        k: Kernel<'k, Sm90a>,
        plan: &Plan<'_>,
        parameters: &'a Parameters<'k>,
        (warpgroup, rank): (WarpgroupIndex<'k>, Reg<'k, U32>),
    ) -> Option<Slices<'a, 'k>> {
        let parameters = parameters.slices.as_ref()?;
        let tile_bytes = plan.schedule.sum_bytes();
        let warpgroup_bytes = tile_bytes / plan.schedule.tile.warpgroups_per_tile();
        let integers = plan.graph.product(ProductId::FIRST).elem == Elem::I32;
        Some(Slices { k, parameters, warpgroup, rank, tile_bytes, warpgroup_bytes, integers })
    }

    /// Lets the CTA of the last slice finish a tile with the whole sums.
    pub(super) fn gather(
        &self,
        slice: Slice<'k>,
        sums: &[Vec<Var<'k, F32>>],
        finish: impl FnOnce(&[Vec<Var<'k, F32>>]),
    ) {
        let k = self.k;
        let own: Vec<Reg<'k, F32>> = sums.iter().flatten().map(|sum| sum.get()).collect();
        k.if_else(
            slice.is_last,
            || {
                let all: Vec<Var<'k, F32>> = own.iter().map(|sum| k.var(*sum)).collect();
                k.for_(0, slice.others, 1, |number| self.add(self.place(slice, number), &all));
                let each = all.len() / sums.len();
                finish(&all.chunks_exact(each).map(<[_]>::to_vec).collect::<Vec<_>>());
            },
            || self.write(self.place(slice, slice.number), &own),
        );
    }

    /// Where this thread's first sum of a slice is.
    fn place(&self, slice: Slice<'k>, number: Reg<'k, U32>) -> GlobalPointer<'k> {
        let others = self.parameters.count - 1;
        let sums = self.parameters.sums.load();
        let of_slice = sums.element(slice.tile * others + number, self.tile_bytes);
        of_slice.element(self.warpgroup.in_tile * self.warpgroup_bytes + self.rank * 4, 1)
    }

    fn write(&self, to: GlobalPointer<'k>, own: &[Reg<'k, F32>]) {
        let k = self.k;
        for (sum, place) in own.iter().zip(0..) {
            let bits = k.f32_to_bits(*sum).cast::<U32>();
            let word =
                if self.integers { bits ^ SIGN } else { k.imm(SIGN).select(bits, bits.eq(0)) };
            k.store_ordered(Order::Relaxed, Scope::Gpu, to.offset(place * STRIDE), word);
        }
    }

    /// A sum with one that was written added.
    fn sum(&self, sum: Reg<'k, F32>, word: Reg<'k, U32>) -> Reg<'k, F32> {
        let k = self.k;
        if !self.integers {
            return sum + k.bits_to_f32(word.cast());
        }
        let [sum, word] = [k.f32_to_bits(sum).cast::<S32>(), (word ^ SIGN).cast::<S32>()];
        k.bits_to_f32((sum + word).cast())
    }

    /// Adds a slice's sums once they are written.
    fn add(&self, from: GlobalPointer<'k>, all: &[Var<'k, F32>]) {
        let k = self.k;
        let (order, scope) = (Order::Relaxed, Scope::Gpu);
        for (sums, first) in all.chunks(POLLED).zip((0..).step_by(POLLED)) {
            let at = |place: usize| from.offset((first + place as i64) * STRIDE);
            let words: Vec<Var<'k, U32>> = sums.iter().map(|_| k.var(1)).collect();
            k.do_while(|| {
                for (place, word) in words.iter().enumerate() {
                    k.load_ordered_into(order, scope, *word, at(place));
                }
                let least = words.iter().map(|word| word.get()).reduce(Reg::min);
                least.map_or(k.imm(false), |least| least.eq(0))
            });
            for (place, (sum, word)) in sums.iter().zip(&words).enumerate() {
                k.store_ordered::<U32>(order, scope, at(place), 0);
                sum.set(self.sum(sum.get(), word.get()));
            }
        }
    }
}
