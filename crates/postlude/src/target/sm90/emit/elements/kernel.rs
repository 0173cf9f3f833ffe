//! What threads know of a launch, and how many elements values have.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::U32;

use crate::graph::{Axes, Columns, NodeId, Op};
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::values::Evaluator;

/// What threads know of a launch.
pub(super) struct ElementKernel<'a, 'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) parameters: &'a Parameters<'k>,
    pub(super) lane: Reg<'k, U32>,
}

impl<'a, 'k, C: EpilogueChip> ElementKernel<'a, 'k, C> {
    pub(super) fn evaluator(&self) -> Evaluator<'a, 'k, C> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// How many columns there are of these.
    pub(super) fn columns(&self, columns: Columns) -> Reg<'k, U32> {
        let space = self.plan.graph.space();
        if columns.part != 0 {
            return self.evaluator().size(&space.column_dim(columns));
        }
        let own = space.column.divisor();
        let all = if own == 1 { self.parameters.columns } else { self.parameters.columns * own };
        if columns.divisor == 1 { all } else { all / columns.divisor }
    }

    /// How many batches, rows and columns a value has.
    pub(super) fn extents(&self, axes: Axes) -> [Reg<'k, U32>; 3] {
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

    pub(super) fn op(&self, node: NodeId) -> &'a Op {
        &self.plan.graph[node].op
    }
}
