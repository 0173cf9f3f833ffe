//! The kernel of a launch whose threads compute elements of outputs by themselves.
//!
//! A thread has one element of an output at a time and evaluates the graph for it, from the value down to inputs
//! (`evaluate`): parts and merges of columns change which element is asked for (`columns`), reductions are loops (`reduce`).
//! Where an element needs a reduction, a warp computes it: its lanes share the terms. Nothing is kept from one element to
//! the next, so such a kernel runs any graph without a product, and reads what others keep.

mod columns;
mod evaluate;
mod reduce;

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::U32;

use crate::graph::{Axes, Columns, NodeId, Op, Output};

use super::chip::EpilogueChip;
use super::epilogue::store;
use super::memory::Memory;
use super::parameters::{Destination, Parameters};
use super::plan::Plan;
use super::values::Evaluator;
use evaluate::Frame;

/// What threads know of a launch.
pub(super) struct ElementKernel<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    lane: Reg<'k, U32>,
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

impl<'a, 'k, C: EpilogueChip> ElementKernel<'a, 'k, C> {
    fn evaluator(&self) -> Evaluator<'a, 'k, C> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// How many columns there are of these.
    fn columns(&self, columns: Columns) -> Reg<'k, U32> {
        let space = self.plan.graph.space();
        if columns.part != 0 {
            return self.evaluator().size(&space.column_dim(columns));
        }
        let own = space.column.divisor();
        let all = if own == 1 { self.parameters.columns } else { self.parameters.columns * own };
        if columns.divisor == 1 { all } else { all / columns.divisor }
    }

    /// How many batches, rows and columns a value has.
    fn extents(&self, axes: Axes) -> [Reg<'k, U32>; 3] {
        let one = || self.k.imm(1);
        let rows = axes.row.map(|run| match run {
            1 => self.parameters.rows,
            run => self.parameters.rows / run,
        });
        [
            if axes.batch { self.parameters.batches } else { one() },
            rows.unwrap_or_else(one),
            axes.columns().map_or_else(one, |columns| self.columns(columns)),
        ]
    }

    /// Computes and stores all elements of an output.
    fn compute(&self, output: &Output, memory: &Memory<'k>) {
        let Some(axes) = self.plan.graph.space().axes(&output.dims) else {
            panic!("compiler bug: an output has foreign dims")
        };
        let (k, [batches, rows, columns]) = (self.k, self.extents(axes));
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
                let at = (
                    self.parameters.batch_dims.batch(batch),
                    line - batch * rows,
                    now - line * columns,
                );
                let mut frame = Frame::new(self.plan.graph.len(), axes, at, by_warp);
                let value = self.value(&mut frame, output.value);
                let inside = by_warp.then(|| self.lane.eq(0));
                store(k, output.dtype, memory.element(k, at), value, inside);
                number.set(now + step);
            },
        );
    }

    /// Whether a value is made of reductions.
    fn reduces(&self, root: NodeId) -> bool {
        let graph = self.plan.graph;
        let mut needed = vec![false; graph.len()];
        needed[root.index()] = true;
        let mut found = false;
        for (id, node) in graph.nodes().rev() {
            if needed[id.index()] {
                found |= node.op.reduction().is_some();
                node.op.operands().for_each(|operand| needed[operand.index()] = true);
            }
        }
        found
    }

    fn op(&self, node: NodeId) -> &'a Op {
        &self.plan.graph[node].op
    }
}
