//! The kernel of a launch whose threads compute elements of outputs by themselves.
//!
//! A thread has one element of an output at a time and evaluates the graph for it, from the value down to inputs
//! (`evaluate`): parts and merges of columns change which element is asked for (`columns`), reductions are loops (`reduce`).
//! Where an element needs a reduction, a warp computes it: its lanes share the terms. Nothing is kept from one element to
//! the next, so such a kernel runs any graph without a product, and reads what others keep.

mod columns;
mod evaluate;
mod kernel;
mod reduce;

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::types::{Scalar, U32};

use crate::graph::{Axes, NodeId, Output};

use super::batch::Coordinate;
use super::chip::EpilogueChip;
use super::epilogue::store;
use super::memory::Memory;
use super::parameters::{Destination, Parameters};
use super::plan::Plan;
use super::values::Value;
use evaluate::Frame;
use kernel::ElementKernel;

/// Eight bits of a byte, as a power of two.
const BYTE_BITS: u32 = 3;

/// Bits of a byte, and which of them there are: rows that no segment has are not written.
struct Byte<'k> {
    bits: Reg<'k, U32>,
    there: Reg<'k, U32>,
}

impl<'k> Byte<'k> {
    fn store<C: EpilogueChip>(self, k: Kernel<'k, C>, to: GlobalPointer<'k>) {
        let Byte { bits, there } = self;
        let cut = there.ne(0xff) & there.ne(0);
        let before = k.load_global_narrow_if(cut, Scalar::U8, to, LoadCache::Default);
        let rest = before & (there ^ 0xff);
        k.if_(there.ne(0), || k.store_global_narrow(Scalar::U8, to, bits | rest));
    }
}

/// Emits the code of all threads: one output after the other.
pub(super) fn compute_elements<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
) {
    let kernel = ElementKernel { k, plan, parameters, lane: k.thread() & 31 };
    for (output, destination) in plan.graph.outputs().iter().zip(&parameters.destinations) {
        match destination {
            Destination::Direct(memory) => kernel.compute(output, memory),
            Destination::Map(_) => panic!("compiler bug: an element that TMA stores"),
        }
    }
}

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    /// Computes and stores all elements of an output.
    fn compute(&self, output: &Output, memory: &Memory<'k>) {
        let Some(axes) = self.plan.graph.space().axes(&output.dims) else {
            panic!("compiler bug: an output has foreign dims")
        };
        let k = self.k;
        let packed = output.dtype.is_packed().then(|| self.packed_axis(output));
        let mut extents = self.extents(axes);
        if let Some(packed) = packed {
            extents[packed] = extents[packed] >> BYTE_BITS;
        }
        let [batches, rows, columns] = extents;
        let all = batches * rows * columns;
        let by_warp = self.reduces(output.value);
        let threads = k.imm(self.plan.schedule.threads());
        let [first, step] = [k.block(), k.blocks()].map(|blocks| blocks * threads);
        let first = first + k.thread();
        let [first, step] = if by_warp { [first >> 5, step >> 5] } else { [first, step] };
        let number = k.var(first);
        k.while_(
            || number.get().lt(all),
            || {
                let now = number.copy();
                let line = now / columns;
                let batch = line / rows;
                let at = [batch, line - batch * rows, now - line * columns];
                let stores = by_warp.then(|| self.lane.eq(0));
                match packed {
                    None => self.with_element((axes, by_warp), at, output.value, |at, value| {
                        store(k, output.dtype, memory.element(k, at), value, stores);
                    }),
                    Some(packed) => {
                        let bits = self.byte((axes, by_warp), at, packed, output.value);
                        let to = self.byte_address(at, packed, memory);
                        k.if_(stores.unwrap_or_else(|| k.imm(true)), || bits.store(k, to));
                    }
                }
                number.set(now + step);
            },
        );
    }

    /// Gives a body the value of an element, and where it is; nothing of a row that no segment has.
    fn with_element(
        &self,
        (axes, by_warp): (Axes, bool),
        [batch, row, column]: [Reg<'k, U32>; 3],
        value: NodeId,
        body: impl FnOnce(Coordinate<'k>, Value<'k>),
    ) {
        let segment = self.segment_of(axes, row);
        let at = (self.parameters.batch_dims.batch(segment.unwrap_or(batch)), row, column);
        let element = || {
            let mut frame = Frame::new(self.plan.graph.len(), axes, at, by_warp);
            body(at, self.value(&mut frame, value));
        };
        match segment {
            Some(segment) => self.k.if_(segment.lt(self.parameters.batches), element),
            None => element(),
        }
    }

    /// Eight bits beside each other along the axis of this number.
    fn byte(
        &self,
        by: (Axes, bool),
        mut at: [Reg<'k, U32>; 3],
        packed: usize,
        value: NodeId,
    ) -> Byte<'k> {
        let k = self.k;
        let first = at[packed] << BYTE_BITS;
        let [bit, bits, there] = [(); 3].map(|()| k.var::<U32>(0));
        k.while_(
            || bit.get().lt(1 << BYTE_BITS),
            || {
                let now = bit.copy();
                at[packed] = first + now;
                self.with_element(by, at, value, |_, value| {
                    let set = k.imm(1_u32) << now;
                    bits.set(bits.copy() | set.select(0, value.truth()));
                    there.set(there.copy() | set);
                });
                bit.set(now + 1);
            },
        );
        Byte { bits: bits.copy(), there: there.copy() }
    }

    /// Where a byte of bits beside each other along the axis of this number lies.
    fn byte_address(
        &self,
        mut at: [Reg<'k, U32>; 3],
        packed: usize,
        memory: &Memory<'k>,
    ) -> GlobalPointer<'k> {
        at[packed] = at[packed] << BYTE_BITS;
        let [batch, row, column] = at;
        let batch = self.parameters.batch_dims.batch(batch);
        memory.element(self.k, (batch, row, column)).byte(self.k).0
    }

    /// The axis along which an output's bits lie in bytes: 0 for batches, 1 for rows, 2 for columns.
    fn packed_axis(&self, output: &Output) -> usize {
        let space = self.plan.graph.space();
        match output.dims.last() {
            Some(last) if space.batch.contains(last) => 0,
            Some(last) if space.row_run(last).is_some() => 1,
            Some(_) | None => 2,
        }
    }

    /// Whether a value is made of reductions.
    fn reduces(&self, root: NodeId) -> bool {
        let graph = self.plan.graph;
        let needed = graph.made_of([root], |_| true);
        graph.nodes().any(|(id, node)| needed[id.index()] && node.op.reduction().is_some())
    }
}
