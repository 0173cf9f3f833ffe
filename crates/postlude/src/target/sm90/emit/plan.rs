//! What every part of the kernel needs to know: the program, the schedule, and the regions of shared memory.

use std::ops::Range;

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::ring::{Agents, Consumers, Grid, Ring};
use postlude_ptx::shared::{self, Planner, Region};
use postlude_ptx::target::Tma;
use postlude_ptx::types::U32;

use crate::dtype::{DType, Elem};
use crate::functions::Accuracy;
use crate::graph::{Graph, Kind, MathMode, NodeId, Op, Output, accuracies};
use crate::lower::TileProgram;
use crate::target::sm90::plan::{K_PARTS, Mainloop, OperandLoad, Sm90Schedule, reused};

use super::operand::grid;
use super::short;

/// What every part of the kernel needs to know.
pub(super) struct Plan<'a> {
    pub(super) program: &'a TileProgram,
    pub(super) graph: &'a Graph,
    pub(super) schedule: &'a Sm90Schedule,
    pub(super) accuracies: Vec<Accuracy>,
    /// Which nodes are computed.
    pub(super) used: Vec<bool>,
    /// For each output, the node of the input that it copies where that has no other use.
    pub(super) copied: Vec<Option<NodeId>>,
    pub(super) stages: Region,
    pub(super) c_slots: Region,
    pub(super) d_slots: Region,
    pub(super) columns: Region,
    pub(super) blocks: Region,
    pub(super) barriers: Region,
    pub(super) c_barriers: Region,
    pub(super) staging: Region,
    pub(super) staging_barriers: Region,
    pub(super) partials: Region,
    pub(super) folds: Region,
    pub(super) cluster_reduction: Region,
    pub(super) cluster_reduction_barriers: Region,
    pub(super) held_rows: Region,
    pub(super) held_stages: Region,
    pub(super) candidates: Region,
    pub(super) dynamic: Region,
    /// For each output, the place of the tile operand whose slots it is stored through.
    pub(super) reused: Vec<Option<usize>>,
}

impl<'a> Plan<'a> {
    /// The plan of a kernel for the chip `C`, and its shared memory.
    pub(super) fn new<C: Tma>(
        program: &'a TileProgram,
        schedule: &'a Sm90Schedule,
        math: MathMode,
    ) -> (Plan<'a>, shared::Plan) {
        let mut planner = Planner::new();
        let stages = planner.reserve("stages", schedule.stages * schedule.stage_bytes(), 1024);
        let staging = planner.reserve("staggered operands", schedule.staging_bytes(), 1024);
        let partials = planner.reserve("parts of sums", schedule.partial_bytes(), 128);
        let c_slots = planner.reserve("tile operands", schedule.c_bytes(), 1024);
        let d_slots = planner.reserve("stores", schedule.d_bytes(), 1024);
        let columns = planner.reserve("values along columns", schedule.column_bytes(), 16);
        let blocks = planner.reserve("blocks", schedule.block_bytes(), 16);
        let folds = planner.reserve("reductions", schedule.fold_bytes(), 16);
        let cluster_reduction =
            planner.reserve("rows across CTAs", schedule.cluster_reduction_bytes(), 16);
        let cluster_reduction_barriers =
            planner.reserve("rows' barriers", schedule.cluster_reduction_barrier_bytes(), 8);
        let staged = schedule.c_stages * schedule.held_stage_bytes();
        let held_stages = planner.reserve("tiles ahead", staged, 16);
        let candidates = planner.reserve("candidates", schedule.candidate_bytes(), 16);
        let held_rows = planner.reserve("held rows", schedule.held_bytes(), 16);
        let barriers = planner.reserve("barriers", Ring::<C>::barrier_bytes(schedule.stages), 8);
        let arriving = match schedule.staging_bytes() {
            0 => 0,
            _ => Ring::<C>::barrier_bytes(schedule.staging_slots()),
        };
        let c_barriers = planner.reserve(
            "tile operands' barriers",
            schedule.barrier_bytes() - Ring::<C>::barrier_bytes(schedule.stages) - arriving,
            8,
        );
        let staging_barriers = planner.reserve("staggered operands' barriers", arriving, 8);
        let dynamic = planner.reserve("numbers of tiles", schedule.dynamic_bytes(), 8);
        assert!(
            planner.total() == u64::from(schedule.shared_bytes()),
            "compiler bug: the schedule counted other bytes of shared memory"
        );
        let layout = planner.finish(C::TARGET);
        let layout = layout.unwrap_or_else(|error| panic!("compiler bug: {error}"));
        let graph = program.graph();
        let accuracies = accuracies(graph, math);
        let (copied, mut used) = (copied(program), short::used(graph, &accuracies));
        for (output, from) in graph.outputs().iter().zip(&copied) {
            let nodes = from.iter().flat_map(|from| [*from, output.value]);
            nodes.for_each(|node| used[node.index()] = false);
        }
        let plan = Plan {
            program,
            graph,
            schedule,
            used,
            copied,
            accuracies,
            stages,
            c_slots,
            d_slots,
            columns,
            blocks,
            barriers,
            c_barriers,
            staging,
            staging_barriers,
            partials,
            folds,
            cluster_reduction,
            cluster_reduction_barriers,
            held_rows,
            held_stages,
            candidates,
            dynamic,
            reused: if schedule.reuse_c {
                reused(program, &schedule.needs)
            } else {
                vec![None; graph.outputs().len()]
            },
        };
        (plan, layout)
    }
}

impl Plan<'_> {
    /// The ring of stages of A and B, with its mainloop; `None` where there is no product.
    pub(super) fn stage_ring<'k, C: Tma>(
        &self,
        k: Kernel<'k, C>,
    ) -> Option<(&Mainloop, Ring<'k, C>)> {
        let mainloop = self.schedule.needs.mainloop.as_ref()?;
        if self.schedule.tile.is_swapped() {
            // Each warp that a stage is for reads with loads, and with products.
            let consumers = Consumers::Warps(4 * self.schedule.tile.multipliers() / K_PARTS);
            let grid = grid(self.schedule.tile.cluster);
            let agents = Agents { producers: 1, consumers, grid };
            let stages = self.schedule.swapped_stages();
            let ring = Ring::new(k, k.region(&self.barriers), stages, agents);
            return Some((mainloop, ring));
        }
        let writers = if mainloop.is_staged() { self.movers() } else { 4 };
        let agents = Agents {
            producers: match mainloop.operands.map(OperandLoad::is_written) {
                [false, false] => 1,
                [true, true] => writers,
                // One more thread issues the TMA loads of the other operand.
                [true, false] | [false, true] => writers + 1,
            },
            consumers: Consumers::Warpgroups(self.schedule.tile.warpgroups_per_tile()),
            // What threads write is not multicast.
            grid: if mainloop.is_written() { Grid::ONE } else { grid(self.schedule.tile.cluster) },
        };
        let ring = Ring::new(k, k.region(&self.barriers), self.schedule.stages, agents);
        // Math warpgroups clear lines of K behind a segment.
        Some((mainloop, if mainloop.ragged { ring.written_by_consumers() } else { ring }))
    }

    /// Warps that move staggered rows or widen narrow ones: all load warps but one.
    pub(super) fn movers(&self) -> u32 {
        self.schedule.loaders() * 4 - 1
    }

    /// The math warpgroups whose tile operands each load warp but the first loads.
    pub(super) fn served(&self) -> impl Iterator<Item = Range<u32>> {
        let each = self.schedule.served_warpgroups();
        (0..self.schedule.math_warpgroups() / each)
            .map(move |number| number * each..(number + 1) * each)
    }

    /// How often passes read the tile operands of each block before any block is visited, for one round over the blocks
    /// after the other, and how often right before a block is visited.
    pub(super) fn reading_passes(&self) -> (Vec<usize>, usize) {
        let (rows, blocks) = (self.program.row_passes.len(), self.program.block_passes.len());
        match blocks {
            0 => (Vec::new(), rows),
            _ => ([rows].into_iter().chain(std::iter::repeat_n(1, blocks)).collect(), 0),
        }
    }

    /// The ring that staggered operands are loaded into.
    pub(super) fn staging<'k, C: Tma>(&self, k: Kernel<'k, C>) -> Ring<'k, C> {
        let grid = grid(self.schedule.tile.cluster);
        let agents = Agents { producers: 1, consumers: Consumers::Warps(self.movers()), grid };
        Ring::new(k, k.region(&self.staging_barriers), self.schedule.staging_slots(), agents)
    }

    /// The ring that a warpgroup's tile operands are loaded into.
    pub(super) fn load_ring<'k, C: Tma>(
        &self,
        k: Kernel<'k, C>,
        warpgroup: Reg<'k, U32>,
    ) -> Ring<'k, C> {
        let stages = self.schedule.c_stages;
        let agents = Agents { producers: 1, consumers: Consumers::Warps(4), grid: Grid::ONE };
        let own = warpgroup * Ring::<C>::barrier_bytes(stages);
        Ring::new(k, k.region(&self.c_barriers) + own, stages, agents)
    }
}

/// For each output, the node of the input that it copies: along rows, and for no other use.
fn copied(program: &TileProgram) -> Vec<Option<NodeId>> {
    let graph = program.graph();
    let mut users = vec![0; graph.len()];
    for (_, node) in graph.nodes().filter(|(id, _)| program.live[id.index()]) {
        node.op.operands().for_each(|of| users[of.index()] += 1);
    }
    let copy = |output: &Output| {
        let value = output.value;
        // An integer as an integer.
        let of = if let Op::Cast(DType::I32, of) = graph[value].op
            && graph.ty(of).elem == Elem::I32
        {
            of
        } else {
            value
        };
        let stores = graph.outputs().iter().filter(|other| other.value == value).count();
        let single =
            stores == 1 && users[value.index()] == 0 && (of == value || users[of.index()] == 1);
        let along = program.plain_kind(output) == Some(Kind::AlongRows);
        let Op::Input(input) = graph[of].op else { return None };
        let declared = &graph.inputs()[input.0 as usize];
        let whole = declared.dims.is_some() && !declared.dtype.is_packed();
        let runs = [program.input_row_run(input), program.output_row_run(output)];
        (single && along && whole && runs == [1, 1]).then_some(of)
    };
    graph.outputs().iter().map(copy).collect()
}
