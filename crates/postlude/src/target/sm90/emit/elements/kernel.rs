//! What threads know of a launch, and how many elements values have.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::U32;

use crate::graph::{Axes, Columns, NodeId, Op};
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::segments::Ends;
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

    /// Where segments of rows end, where rows are cut.
    fn cut(&self) -> Option<Ends<'k>> {
        self.parameters.ends.filter(|_| self.plan.graph.space().is_segmented())
    }

    /// The batch of a row, where it is a segment.
    pub(super) fn segment_of(&self, axes: Axes, row: Reg<'k, U32>) -> Option<Reg<'k, U32>> {
        let ends = self.cut().filter(|_| axes.row.is_some())?;
        Some(ends.of_row(self.k, row, self.parameters.batches))
    }

    /// The first of a batch's rows, and how many there are.
    pub(super) fn rows_of(&self, batch: Reg<'k, U32>) -> [Reg<'k, U32>; 2] {
        let (k, rows) = (self.k, self.parameters.rows);
        let Some(ends) = self.cut() else { return [k.imm(0), rows] };
        let [begin, end] = ends.rows(k, batch, rows);
        [begin, end - begin]
    }

    /// How many batches, rows and columns a value has: of rows of segments those of all together, of no batch.
    pub(super) fn extents(&self, axes: Axes) -> [Reg<'k, U32>; 3] {
        let one = || self.k.imm(1);
        let own_batch = axes.batch && !(self.cut().is_some() && axes.row.is_some());
        let rows = axes.row.map(|run| match run {
            1 => self.parameters.rows,
            run => self.parameters.rows / run,
        });
        [
            if own_batch { self.parameters.batches } else { one() },
            rows.unwrap_or_else(one),
            axes.columns().map_or_else(one, |columns| self.columns(columns)),
        ]
    }

    pub(super) fn op(&self, node: NodeId) -> &'a Op {
        &self.plan.graph[node].op
    }
}
