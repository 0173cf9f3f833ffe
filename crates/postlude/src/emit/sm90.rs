//! The Hopper kernel: one or two load warpgroups, and math warpgroups that multiply and run the epilogue.
//!
//! Persistent and warp-specialised. TMA loads A and B into a ring of swizzled stages and multicasts them over a
//! cluster. Each math warpgroup multiplies its rows, applies the graph to its accumulators in registers and stores the
//! tile through a small ring of slots. Sizes and strides are parameters: the code depends on the schedule and on dtypes
//! alone.

mod epilogue;
mod host;
mod launch;
mod load;
mod machine;
mod multiply;
mod operand;
mod parameters;
mod ranges;
mod short;
mod slot;
mod split_k;
mod tile_scheduler;
mod values;
mod warpgroup;

use std::ops::Range;

use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, Kernel, Reg, build};
use postlude_ptx::modifier::{Alignment, ArriveOrder};
use postlude_ptx::ring::{Agents, Consumers, Grid, Ring};
use postlude_ptx::shared::{Planner, Region};
use postlude_ptx::target::{Architecture, Sm90a};
use postlude_ptx::types::U32;

use crate::functions::Accuracy;
use crate::graph::{Graph, MathMode, NodeId, accuracies};
use crate::plan::sm90::{
    OperandLoad, STAGING_SLOTS, Sm90Schedule, Viewed, after_reductions, as_stored, column_runs,
    levels, passes, reused, runs,
};

pub use launch::launch;
use parameters::Parameters;
use tile_scheduler::TileScheduler;

/// The kernel's name in the PTX.
pub const ENTRY: &str = "postlude";

/// What every part of the kernel needs to know.
struct Plan<'a> {
    graph: &'a Graph,
    schedule: &'a Sm90Schedule,
    accuracies: Vec<Accuracy>,
    /// Which nodes are computed.
    used: Vec<bool>,
    stages: Region,
    c_slots: Region,
    d_slots: Region,
    columns: Region,
    barriers: Region,
    c_barriers: Region,
    staging: Region,
    staging_barriers: Region,
    partials: Region,
    folds: Region,
    cluster_reduction: Region,
    cluster_reduction_barriers: Region,
    /// For each output, the place of the tile operand whose slots it is stored through.
    reused: Vec<Option<usize>>,
    /// Which nodes are computed after the reductions that other tiles contribute to are finished.
    after_reductions: Vec<bool>,
    /// How many row passes over a tile come before a node can be computed.
    passes: Vec<usize>,
    /// How many columns of the product one of a node's stands for.
    runs: Vec<u32>,
    /// Vectors of fewer columns that are computed column by column, by the length of their runs, longest first.
    column_runs: Vec<(u32, Vec<NodeId>)>,
    /// How many folds of groups of columns come before a node can be computed.
    levels: Vec<usize>,
}

impl Plan<'_> {
    /// Warps that move staggered rows: all load warps but one.
    fn movers(&self) -> u32 {
        self.schedule.loaders() * 4 - 1
    }

    /// The math warpgroups whose tile operands each load warp but the first loads: one, or all of a tile where there
    /// are more math warpgroups than such warps.
    fn served(&self) -> impl Iterator<Item = Range<u32>> {
        let tile = self.schedule.tile;
        let each = if tile.math_warpgroups < 4 { 1 } else { tile.warpgroups_per_tile() };
        (0..tile.math_warpgroups / each).map(move |number| number * each..(number + 1) * each)
    }

    /// The ring that staggered operands are loaded into.
    fn staging<'k>(&self, k: Kernel<'k, Sm90a>) -> Ring<'k, Sm90a> {
        let grid = tile_scheduler::grid(self.schedule.tile.cluster);
        let agents = Agents { producers: 1, consumers: Consumers::Warps(self.movers()), grid };
        Ring::new(k, k.region(&self.staging_barriers), STAGING_SLOTS, agents)
    }

    /// The ring that a warpgroup's tile operands are loaded into.
    fn load_ring<'k>(&self, k: Kernel<'k, Sm90a>, warpgroup: Reg<'k, U32>) -> Ring<'k, Sm90a> {
        let stages = self.schedule.c_stages;
        let agents = Agents { producers: 1, consumers: Consumers::Warps(4), grid: Grid::ONE };
        let own = warpgroup * Ring::<Sm90a>::barrier_bytes(stages);
        Ring::new(k, k.region(&self.c_barriers) + own, stages, agents)
    }
}

/// Emits the kernel.
pub fn emit(graph: &Graph, schedule: &Sm90Schedule, math: MathMode) -> Entry {
    let mut planner = Planner::new();
    let stages = planner.reserve("stages", schedule.stages * schedule.stage_bytes(), 1024);
    let staging = planner.reserve("staggered operands", schedule.staging_bytes(), 1024);
    let partials = planner.reserve("parts of sums", schedule.partial_bytes(), 128);
    let c_slots = planner.reserve("tile operands", schedule.c_bytes(), 1024);
    let d_slots = planner.reserve("stores", schedule.d_bytes(), 1024);
    let columns = planner.reserve("values along columns", schedule.column_bytes(), 16);
    let folds = planner.reserve("reductions", schedule.fold_bytes(), 16);
    let cluster_reduction =
        planner.reserve("rows across CTAs", schedule.cluster_reduction_bytes(), 16);
    let cluster_reduction_barriers =
        planner.reserve("rows' barriers", schedule.cluster_reduction_barrier_bytes(), 8);
    let barriers = planner.reserve("barriers", Ring::<Sm90a>::barrier_bytes(schedule.stages), 8);
    let arriving = match schedule.staging_bytes() {
        0 => 0,
        _ => Ring::<Sm90a>::barrier_bytes(STAGING_SLOTS),
    };
    let c_barriers = planner.reserve(
        "tile operands' barriers",
        schedule.barrier_bytes() - Ring::<Sm90a>::barrier_bytes(schedule.stages) - arriving,
        8,
    );
    let staging_barriers = planner.reserve("staggered operands' barriers", arriving, 8);
    assert!(
        planner.total() == u64::from(schedule.shared_bytes()),
        "compiler bug: the schedule counted other bytes of shared memory"
    );
    let layout = planner.finish(Sm90a::TARGET);
    let layout = layout.unwrap_or_else(|error| panic!("compiler bug: {error}"));
    let viewed = Viewed::of(graph)
        .unwrap_or_else(|refusal| panic!("compiler bug: planning let {refusal} through"));
    let graph = &as_stored(&viewed.graph);
    let accuracies = accuracies(graph, math);
    let plan = Plan {
        graph,
        schedule,
        used: short::used(graph, &accuracies),
        accuracies,
        stages,
        c_slots,
        d_slots,
        columns,
        barriers,
        c_barriers,
        staging,
        staging_barriers,
        partials,
        folds,
        cluster_reduction,
        cluster_reduction_barriers,
        reused: if schedule.reuse_c {
            reused(graph, &schedule.needs)
        } else {
            vec![None; graph.outputs().len()]
        },
        after_reductions: after_reductions(graph),
        passes: passes(graph),
        runs: runs(graph),
        column_runs: column_runs(graph),
        levels: levels(graph),
    };
    let attributes = Attributes::<Sm90a>::new(schedule.threads())
        .blocks_per_multiprocessor(1)
        .cluster([schedule.tile.cluster.blocks(), 1, 1]);
    build(ENTRY, attributes, |k| {
        k.use_plan(&layout);
        body(k, &plan);
    })
}

fn body(k: Kernel<'_, Sm90a>, plan: &Plan<'_>) {
    let schedule = plan.schedule;
    let parameters = Parameters::declare(k, plan.graph, schedule);
    let staggered = schedule.staging_bytes() > 0;
    let writers = if staggered { plan.movers() } else { 4 };
    let agents = Agents {
        producers: match schedule.needs.operands.map(OperandLoad::is_written) {
            [false, false] => 1,
            [true, true] => writers,
            // One more thread issues the TMA loads of the other operand.
            [true, false] | [false, true] => writers + 1,
        },
        consumers: Consumers::Warpgroups(schedule.tile.warpgroups_per_tile()),
        // What threads write is not multicast.
        grid: if schedule.needs.operands.iter().any(|load| load.is_written()) {
            Grid::ONE
        } else {
            tile_scheduler::grid(schedule.tile.cluster)
        },
    };
    let by_elements = schedule.needs.operands.iter().any(|load| load.is_by_elements());
    let [load_registers, multiply_registers] = schedule.tile.registers(&schedule.needs);
    let ring = Ring::new(k, k.region(&plan.barriers), schedule.stages, agents);
    let thread = k.thread();
    let tiles = schedule.c_bytes() > 0;
    k.if_(thread.eq(0), || {
        parameters.prefetch();
        initialise(k, plan, &ring);
    });
    meet(k, schedule);
    let scheduler = TileScheduler::new(k, &parameters, schedule);
    let warp = k.uniform(thread >> 5);
    let warpgroup = warp >> 2;
    k.if_else(
        warpgroup.lt(schedule.loaders()),
        || {
            k.decrease_registers(load_registers);
            if by_elements {
                load::load_elements(k, plan, &parameters, &scheduler, &ring);
            } else if staggered {
                k.if_(warp.eq(0), || load::load_staggered(k, plan, &parameters, &scheduler));
                k.if_(warp.ge(1), || {
                    load::move_staggered(k, plan, &parameters, &scheduler, &ring);
                });
            } else {
                k.if_(warp.eq(0), || load::load(k, plan, &parameters, &scheduler, &ring));
                if schedule.tile.cluster.split_k() > 1 {
                    k.if_(warp.ge(1), || scheduler.for_each(|_| split_k::attend(k)));
                }
            }
            for (warp_of, served) in (1..).zip(plan.served()).filter(|_| tiles) {
                k.if_(warp.eq(warp_of), || {
                    load::load_tiles(k, plan, &parameters, &scheduler, served);
                });
            }
        },
        || {
            k.increase_registers(multiply_registers);
            let number = warpgroup - schedule.loaders();
            multiply::multiply(k, plan, &parameters, &scheduler, &ring, number);
        },
    );
    if schedule.tile.cluster.blocks() > 1 {
        // A CTA must not leave while another's copies still arrive in its shared memory.
        k.cluster_sync(Alignment::Any);
    }
}

/// One thread initialises the barriers of every ring and of cluster reductions.
fn initialise<'k>(k: Kernel<'k, Sm90a>, plan: &Plan<'_>, ring: &Ring<'k, Sm90a>) {
    ring.initialise();
    if plan.schedule.c_bytes() > 0 {
        let all = 0..plan.schedule.math_warpgroups();
        all.for_each(|each| plan.load_ring(k, k.imm(each)).initialise());
    }
    if plan.schedule.staging_bytes() > 0 {
        plan.staging(k).initialise();
    }
    epilogue::ClusterReduction::initialise(k, plan);
    k.fence_barrier_init();
}

/// All threads wait until the barriers are initialised.
fn meet(k: Kernel<'_, Sm90a>, schedule: &Sm90Schedule) {
    if schedule.tile.cluster.blocks() > 1 {
        // Only the barriers' initialisation has to be visible to other CTAs, and its fence sees to that: a release
        // would wait for all memory.
        k.cluster_arrive(ArriveOrder::Relaxed, Alignment::Aligned);
        k.cluster_wait(Alignment::Aligned);
    } else {
        k.sync();
    }
}

#[cfg(test)]
mod tests;
