//! The kernel of a launch whose threads compute elements of outputs by themselves.
//!
//! A thread has one element of an output at a time and evaluates the graph for it, from the value down to inputs
//! (`evaluate`): parts and merges of columns change which element is asked for (`columns`), reductions are loops (`reduce`).
//! Where an element needs a reduction, a warp computes it: its lanes share the terms. Nothing is kept from one element to
//! the next, so such a kernel runs any graph without a product, and reads what others keep. A launch that only copies rows
//! has code of its own (`row_copies`).

mod columns;
mod evaluate;
mod kernel;
mod places;
mod reduce;
mod row_copies;

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

/// The axis along which bits of a byte lie: batches, rows or columns.
#[derive(Clone, Copy)]
struct PackedAxis<'k> {
    /// Its place in a coordinate.
    place: usize,
    /// From one bit to the next; `None` where that is 1. Batches of several dims are numbered along the last one first.
    step: Option<Reg<'k, U32>>,
}

impl<'k> PackedAxis<'k> {
    /// The first bit of the byte of this number.
    fn first_bit(self, byte: Reg<'k, U32>) -> Reg<'k, U32> {
        let Some(step) = self.step else { return byte << BYTE_BITS };
        let bytes = byte / step;
        (bytes << BYTE_BITS) * step + (byte - bytes * step)
    }

    /// A bit of a byte that begins here.
    fn bit(self, first: Reg<'k, U32>, bit: Reg<'k, U32>) -> Reg<'k, U32> {
        first + self.step.map_or(bit, |step| bit * step)
    }
}

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
    if plan.schedule.needs.copied_bytes > 0 {
        return kernel.copy_rows();
    }
    for (output, destination) in plan.graph.outputs().iter().zip(&parameters.destinations) {
        match destination {
            Destination::Direct(memory) => kernel.compute(output, memory),
            Destination::Map(_) | Destination::Coalesced(_) => {
                panic!("compiler bug: an element that leaves through a slot")
            }
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
            extents[packed.place] = extents[packed.place] >> BYTE_BITS;
        }
        let [batches, rows, columns] = extents;
        let by_warp = self.reduces(output.value);
        let threads = k.imm(self.plan.schedule.threads());
        let [first, step] = [k.block(), k.blocks()].map(|blocks| blocks * threads);
        let first = first + k.thread();
        let steps = if by_warp { [first >> 5, step >> 5] } else { [first, step] };
        self.for_places([batches * rows, columns], steps, |line, column| {
            let batch = line / rows;
            let mut at = [batch, line - batch * rows, column];
            let stores = by_warp.then(|| self.lane.eq(0));
            match packed {
                None => self.with_element((axes, by_warp), at, output.value, |at, value| {
                    store(k, output.dtype, memory.element(k, at), value, stores);
                }),
                Some(packed) => {
                    at[packed.place] = packed.first_bit(at[packed.place]);
                    let bits = self.byte((axes, by_warp), at, packed, output.value);
                    let [batch, row, column] = at;
                    let first = (self.parameters.batch_dims.batch(batch), row, column);
                    let to = memory.element(k, first).byte(k).0;
                    k.if_(stores.unwrap_or_else(|| k.imm(true)), || bits.store(k, to));
                }
            }
        });
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

    /// Eight bits beside each other along an axis, from this one on.
    fn byte(
        &self,
        by: (Axes, bool),
        mut at: [Reg<'k, U32>; 3],
        packed: PackedAxis<'k>,
        value: NodeId,
    ) -> Byte<'k> {
        let k = self.k;
        let first = at[packed.place];
        let [bit, bits, there] = [(); 3].map(|()| k.var::<U32>(0));
        k.while_(
            || bit.get().lt(1 << BYTE_BITS),
            || {
                let now = bit.copy();
                at[packed.place] = packed.bit(first, now);
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

    /// The axis along which an output's bits lie in bytes.
    fn packed_axis(&self, output: &Output) -> PackedAxis<'k> {
        let space = self.plan.graph.space();
        let last = output.dims.last();
        if let Some(dim) = space.batch.iter().position(|dim| Some(dim) == last) {
            return PackedAxis { place: 0, step: self.parameters.batch_dims.step(dim) };
        }
        let along_rows = last.is_some_and(|last| space.row_run(last).is_some());
        PackedAxis { place: if along_rows { 1 } else { 2 }, step: None }
    }

    /// Whether a value is made of reductions.
    fn reduces(&self, root: NodeId) -> bool {
        let graph = self.plan.graph;
        let needed = graph.made_of([root], |_| true);
        graph.nodes().any(|(id, node)| needed[id.index()] && node.op.reduction().is_some())
    }
}
