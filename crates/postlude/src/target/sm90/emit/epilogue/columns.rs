//! Values along columns: each computed once a tile by one thread, and read by all from shared memory.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::types::{B32, Pred, U32};

use crate::dtype::Elem;
use crate::graph::{Kind, NodeId};

use super::super::chip::EpilogueChip;
use super::super::plan::Plan;
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Environment, Evaluator, Place, Value, fill};
use super::super::warpgroup::WarpgroupIndex;

/// The values along columns of a tile.
pub(super) struct Columns<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    nodes: Vec<NodeId>,
    start: SharedAddress<'k>,
    /// This thread's first column of an 8-column group.
    own: SharedAddress<'k>,
    /// This thread's number among the math threads of its tile.
    worker: Reg<'k, U32>,
    /// The barrier of these threads.
    barrier: Reg<'k, U32>,
}

/// The columns that a thread computes, with the inputs whose loads were issued ahead.
pub(super) struct PrefetchedColumns<'k> {
    columns: Vec<(Place<'k>, Reg<'k, Pred>, Environment<'k>)>,
}

impl<'a, 'k, C: EpilogueChip> Columns<'a, 'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &'a Plan<'a>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
        column: Reg<'k, U32>,
    ) -> Self {
        let schedule = plan.schedule;
        // Warpgroups' own barriers come first.
        let barrier = warpgroup.order + (schedule.math_warpgroups() + 1);
        let start = k.region(&plan.columns) + warpgroup.order * schedule.tile_column_bytes();
        Columns {
            k,
            plan,
            nodes: plan.program.column_values.clone(),
            start,
            own: start + column * 4,
            worker: warpgroup.in_tile.mad(128, rank),
            barrier,
        }
    }

    /// Issues the loads of the inputs of a tile's columns, long before they are needed.
    pub(super) fn issue_loads(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        limit: Reg<'k, U32>,
    ) -> PrefetchedColumns<'k> {
        if self.nodes.is_empty() {
            return PrefetchedColumns { columns: Vec::new() };
        }
        let workers = self.workers();
        let columns = (0..self.plan.schedule.width().div_ceil(workers)).map(|turn| {
            let within = self.worker + turn * workers;
            let column = work_tile.column + within;
            let in_tile = within.lt(self.plan.schedule.width());
            let inside = column.lt(limit) & in_tile;
            let at = (work_tile.batch, self.k.imm(0), column);
            let place = Place { at, inside: Some(inside) };
            let mut environment = vec![None; self.plan.graph.len()];
            evaluator.issue_loads(&mut environment, Kind::AlongColumns, &place);
            (place, in_tile, environment)
        });
        PrefetchedColumns { columns: columns.collect() }
    }

    /// Computes a tile's values and shares them.
    pub(super) fn share(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        prefetched: PrefetchedColumns<'k>,
        scalars: &Environment<'k>,
    ) {
        if self.nodes.is_empty() {
            return;
        }
        let (k, workers) = (self.k, self.workers());
        // All threads have read the values of the tile before.
        k.sync_named(self.barrier, workers);
        for (turn, (place, in_tile, mut environment)) in prefetched.columns.into_iter().enumerate()
        {
            fill(&mut environment, scalars);
            evaluator.extend_column(&mut environment, &place);
            let within = (self.worker + turn as u32 * workers) * 4;
            for (number, node) in self.nodes.iter().enumerate() {
                let to = self.start + within + self.offset(number, 0);
                let Some(value) = environment[node.index()] else {
                    panic!("compiler bug: {node} was not computed")
                };
                k.when(in_tile, || k.store_shared(to, [self.bits(value)]));
            }
        }
        k.sync_named(self.barrier, workers);
    }

    /// The values at two neighbouring columns, `before` and `offset` columns from the thread's first of the tile.
    pub(super) fn read(
        &self,
        before: Option<Reg<'k, U32>>,
        offset: u32,
    ) -> Vec<(NodeId, [Value<'k>; 2])> {
        let own = before.map_or(self.own, |before| self.own + before * 4);
        let value = |(number, node): (usize, &NodeId)| {
            let from = own + self.offset(number, offset);
            let pair = self.k.load_shared::<B32, 2>(from);
            (*node, pair.map(|bits| self.value(self.plan.graph.ty(*node).elem, bits)))
        };
        self.nodes.iter().enumerate().map(value).collect()
    }

    fn bits(&self, value: Value<'k>) -> Reg<'k, B32> {
        match value {
            Value::Float(value) => self.k.f32_to_bits(value),
            Value::Integer(value) => value.cast(),
            Value::Truth(truth) => self.k.imm::<B32>(1).select(0, truth),
        }
    }

    fn value(&self, elem: Elem, bits: Reg<'k, B32>) -> Value<'k> {
        match elem {
            Elem::F32 => Value::Float(self.k.bits_to_f32(bits)),
            Elem::I32 => Value::Integer(bits.cast()),
            Elem::Bool => Value::Truth(bits.cast::<U32>().ne(0)),
        }
    }

    fn offset(&self, number: usize, column: u32) -> u32 {
        (number as u32 * self.plan.schedule.width() + column) * 4
    }

    fn workers(&self) -> u32 {
        128 * self.plan.schedule.tile.warpgroups_per_tile()
    }
}
