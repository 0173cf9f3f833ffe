//! Kernels without a product whose threads hold whole rows in registers: what a graph needs of them, their tiles and costs.
//!
//! In: a tile program whose tensors lie so that threads move 16 bytes at a time. Out: what a row kernel has to hold, and
//! the tiles that hold it. Invariant: where `RowNeeds` is there, the emitter can write a row kernel for the program.

use crate::dtype::DType;
use crate::graph::{Axes, InputId, Kind, NodeId, Op, Output};
use crate::lower::{Batches, Reduction, ReductionScope, TileProgram};
use crate::placement::{Placement, Placements};
use crate::problem::{BodyStrides, Problem};
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::code::MOST_LINES;
use super::needs::Needs;
use super::place::{EpilogueTransfer, MAP_ALIGNMENT};
use super::schedule::Sm90Schedule;

/// What a row kernel has to hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RowNeeds {
    /// Columns side by side that a thread loads and stores at a time: 16 bytes of the widest tile, and N is a multiple.
    pub(crate) vector: u32,
    /// Bytes that all tile operands have for an element, and that they and tile outputs have.
    pub(crate) loaded: u32,
    pub(crate) moved: u32,
    /// Floats of an element that wait in registers while a pass over the row is finished.
    pub(crate) kept: u32,
    /// Passes over a row before its elements are visited, and the floats of the one that folds most.
    pub(crate) passes: u32,
    pub(crate) words: u32,
    /// Columns of the rows that passes fold, all of which a tile has; 0 where there is no pass.
    pub(crate) columns: u32,
}

/// Tiles of a row kernel: threads of a row, and elements of a thread, by the rows of 256 threads; then longer rows.
pub(super) const ROW_TILES: [Tile; 22] = [
    rows(32, 64, 2),
    rows(32, 128, 2),
    rows(32, 256, 2),
    rows(16, 128, 2),
    rows(16, 256, 2),
    rows(16, 512, 2),
    rows(8, 256, 2),
    rows(8, 512, 2),
    rows(8, 1024, 2),
    rows(4, 512, 2),
    rows(4, 1024, 2),
    rows(4, 2048, 2),
    rows(2, 1024, 2),
    rows(2, 2048, 2),
    rows(2, 4096, 2),
    rows(1, 2048, 2),
    rows(1, 4096, 2),
    rows(1, 8192, 2),
    rows(1, 8192, 4),
    rows(1, 16384, 4),
    rows(1, 16384, 8),
    rows(1, 32768, 8),
];

const fn rows(rows: u32, columns: u32, math_warpgroups: u32) -> Tile {
    Tile { rows, columns, kernel: KernelSchedule::Rows, math_warpgroups, cluster: Cluster::ONE }
}

/// The most tensors of a row kernel: each has four parameters.
const MOST_TENSORS: usize = 24;
/// Words of partial results that a pass may have: warps read those of all others.
const MOST_WORDS: u32 = 8;
/// Registers of a thread beside its elements: addresses, counters, values of a row.
const REGISTERS: u32 = 34;
/// Floats of elements that are being computed where no pass keeps them.
const COMPUTED: u32 = 16;
/// Registers and threads of an SM, and the most registers of a thread and CTAs of an SM.
const FILE: u32 = 65536;
pub(super) const MOST_THREADS: u32 = 2048;
const MOST_REGISTERS: u32 = 255;
pub(super) const MOST_CTAS: u32 = 8;

impl RowNeeds {
    /// What a row kernel has to hold for a program, if one runs it.
    pub(super) fn of(
        program: &TileProgram,
        problem: &Problem,
        placements: &Placements,
        needs: &Needs,
    ) -> Option<RowNeeds> {
        let graph = program.graph();
        let sizes = [problem.batch, problem.rows, problem.product_columns()];
        let suits = needs.mainloop.is_none()
            && !needs.shared_strides
            && sizes.iter().all(|size| *size > 0)
            && program.windows() == 0
            && program.run_multiple() == 1
            && program.row_run_multiple() == 1
            && program.block_passes.is_empty()
            && program.run_reductions.is_empty()
            && program.column_runs.is_empty()
            && program.body_inputs.len() + graph.outputs().len() <= MOST_TENSORS
            && program.reductions.iter().all(|one| is_of_row(*one))
            && graph.outputs().iter().all(|output| is_written(program, output))
            && !graph.nodes().any(|(_, node)| matches!(node.op, Op::Philox(_)));
        let moves = |transfer: &EpilogueTransfer| *transfer == EpilogueTransfer::Tma;
        let finished = |transfer: &EpilogueTransfer| *transfer == EpilogueTransfer::Finished;
        let moved_by_vectors = needs.epilogue_loads.iter().all(moves)
            && needs.epilogue_stores.iter().all(|transfer| moves(transfer) || finished(transfer));
        if !suits || !moved_by_vectors {
            return None;
        }
        let bytes = |dtype: DType| dtype.bits() as u32 / 8;
        let of_input = |input: &InputId| bytes(graph.inputs()[input.0 as usize].dtype);
        let loads: Vec<u32> = program.tile_operands.iter().map(of_input).collect();
        let outputs = graph.outputs().iter().zip(&needs.epilogue_stores);
        let stores = outputs.filter(|(_, transfer)| moves(transfer));
        let stores: Vec<u32> = stores.map(|(output, _)| bytes(output.dtype)).collect();
        let vector = MAP_ALIGNMENT as u32 / loads.iter().chain(&stores).copied().max()?;
        let columns = u32::try_from(problem.product_columns()).ok()?;
        let along_columns = column_inputs(program);
        let lie_well = along_columns
            .iter()
            .all(|input| lies_by_vectors(program, problem, *input, placements.input(*input)));
        let passes = row_folds(program);
        let words = |pass: &&[Reduction]| pass.iter().map(|one| one.registers()).sum();
        let words = passes.iter().map(words).max().unwrap_or(0);
        let fits = columns.is_multiple_of(vector) && lie_well && words <= MOST_WORDS;
        fits.then(|| RowNeeds {
            vector,
            loaded: loads.iter().sum(),
            moved: loads.iter().chain(&stores).sum(),
            kept: kept(program, &passes),
            passes: passes.len() as u32,
            words,
            columns: if passes.is_empty() { 0 } else { columns },
        })
    }

    /// Whether a kernel for these can be used where `other` is needed.
    pub(super) fn covers(&self, other: &RowNeeds) -> bool {
        self.columns >= other.columns && RowNeeds { columns: other.columns, ..*self } == *other
    }

    /// Registers of a thread, as estimated: where there are passes, the next row's elements are loaded meanwhile.
    fn registers(&self, tile: Tile) -> u32 {
        let loaded = (tile.row_elements() * self.loaded).div_ceil(4);
        let held = if self.passes > 0 { tile.row_elements() * self.kept.max(1) } else { COMPUTED };
        REGISTERS + loaded + held
    }

    /// CTAs of an SM; 0 where no registers hold the tile.
    pub(super) fn ctas(&self, tile: Tile) -> u32 {
        let (registers, threads) = (self.registers(tile), 128 * tile.math_warpgroups);
        if registers > MOST_REGISTERS {
            return 0;
        }
        (FILE / (registers * threads)).min(MOST_THREADS / threads).min(MOST_CTAS)
    }

    /// Whether a tile's threads hold its rows.
    pub(super) fn fit(&self, tile: Tile, lines: u32) -> bool {
        tile.cluster == Cluster::ONE
            && tile.columns >= self.columns
            && tile.row_elements().is_multiple_of(self.vector)
            && tile.row_elements() > 0
            && self.ctas(tile) > 0
            && lines.saturating_mul(tile.row_elements()) <= MOST_LINES
    }
}

/// The reductions that each pass over a row finishes: those that elements wait for, or those that only outputs do.
pub(crate) fn row_folds(program: &TileProgram) -> Vec<&[Reduction]> {
    let passes = program.row_passes.iter().map(Vec::as_slice);
    let last = Some(program.reductions.as_slice()).filter(|reductions| !reductions.is_empty());
    passes.chain(last).collect()
}

/// Whether a reduction is finished where its row is held.
fn is_of_row(reduction: Reduction) -> bool {
    let rows = ReductionScope { kind: Kind::AlongRows, batches: Batches::Each };
    reduction.is_of_elements() && reduction.scope == rows && !reduction.repeated
}

/// Whether a row kernel writes an output: a tile, or a value for each row that follows from its reductions.
fn is_written(program: &TileProgram, output: &Output) -> bool {
    let axes = program.graph().space().axes(&output.dims);
    let kind = axes.map(Axes::kind);
    let whole = program.output_run(output) == 1 && program.output_row_run(output) == 1;
    whole
        && !program.is_shared(output)
        && program.plain_kind(output).is_none()
        && matches!(kind, Some(Kind::Tile | Kind::AlongRows))
}

/// Vectors along columns that a program reads.
pub(crate) fn column_inputs(program: &TileProgram) -> Vec<InputId> {
    let graph = program.graph();
    let along = |input: &InputId| {
        graph.input_axes(*input).map(Axes::kind) == Some(Kind::AlongColumns)
            && graph.nodes().any(|(id, node)| {
                program.live[id.index()] && matches!(node.op, Op::Input(read) if read == *input)
            })
    };
    program.body_inputs.iter().copied().filter(along).collect()
}

/// Whether a vector along columns lies so that threads load 16 bytes of it at a time.
fn lies_by_vectors(
    program: &TileProgram,
    problem: &Problem,
    input: InputId,
    placement: &Placement,
) -> bool {
    let graph = program.graph();
    let declared = &graph.inputs()[input.0 as usize];
    let dims = declared.dims.as_deref().unwrap_or_default();
    let strides = BodyStrides::new(graph.space(), dims, &placement.strides);
    let whole = |stride: isize| {
        (stride.unsigned_abs() * declared.dtype.bits()).is_multiple_of(8 * MAP_ALIGNMENT as usize)
    };
    let mut batches = problem.batch_sizes.iter().zip(strides.batch);
    !declared.dtype.is_packed()
        && strides.column == 1
        && placement.alignment().is_multiple_of(MAP_ALIGNMENT)
        && batches.all(|(size, stride)| *size <= 1 || whole(stride))
}

/// Which values of elements have to be computed for some others.
fn elements_for(program: &TileProgram, roots: &[NodeId]) -> Vec<bool> {
    let mut wanted = program.terms_of(roots.iter().copied(), false);
    for (id, node) in program.graph().nodes() {
        wanted[id.index()] &= node.ty.axes.kind() == Kind::Tile;
    }
    wanted
}

/// Floats of an element that are computed for one pass and used after it.
fn kept(program: &TileProgram, passes: &[&[Reduction]]) -> u32 {
    let graph = program.graph();
    let folded = |some: &[&[Reduction]]| -> Vec<NodeId> {
        some.iter().flat_map(|pass| pass.iter().flat_map(|one| one.operands())).collect()
    };
    let after = |number: usize| {
        let before = elements_for(program, &folded(&passes[..number]));
        let mut later = folded(&passes[number..]);
        later.extend(graph.outputs().iter().map(|output| output.value));
        let needed = elements_for(program, &later);
        let mut waits = vec![false; graph.len()];
        later.iter().for_each(|root| waits[root.index()] = true);
        for (id, node) in graph.nodes().filter(|(id, _)| needed[id.index()]) {
            if !before[id.index()] {
                node.op.operands().for_each(|of| waits[of.index()] = true);
            }
        }
        waits.iter().zip(before).filter(|(waits, before)| **waits && *before).count() as u32
    };
    (1..=passes.len()).map(after).max().unwrap_or(0)
}

/// Bytes that memory moves in a cycle, and bytes in flight for which an SM gets its part of them.
const MEMORY_BYTES: f64 = 2400.0;
const IN_FLIGHT: f64 = 40.0 * 1024.0;
/// Instructions of an element beside those of its graph, and of a thread for each tile and pass.
const ELEMENT: f64 = 3.0;
const TILE: f64 = 60.0;
const PASS: f64 = 40.0;
/// Elements for which an SM issues an instruction in a cycle.
const ISSUED: f64 = 100.0;
/// Cycles from a tile's first load to its last store, and of each pass.
const LATENCY: f64 = 600.0;
const PASS_LATENCY: f64 = 150.0;

/// Cycles of a row kernel for the whole problem. None of these constants is fitted.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    let (tile, processors) = (schedule.tile, f64::from(chip.processors));
    let [along_rows, along_columns] = schedule.clusters(problem).map(|count| count as f64);
    let tiles = along_rows * along_columns * problem.batch as f64;
    let grid = f64::from(schedule.grid(problem, chip));
    let waves = (tiles / grid).ceil();
    let threads = f64::from(schedule.threads());
    let per_thread = f64::from(tile.row_elements()) * (f64::from(schedule.needs.work) + ELEMENT)
        + TILE
        + PASS * f64::from(needs.passes);
    // What lies beyond the edges is computed, but not moved.
    let computed = waves * grid.max(processors) / processors * threads * per_thread / ISSUED;
    let sizes = [problem.batch, problem.rows, problem.product_columns()];
    let elements: f64 = sizes.into_iter().map(|size| size as f64).product();
    let inside = elements / (tiles * f64::from(tile.rows * tile.columns));
    let resident = f64::from(schedule.ctas) * f64::from(tile.rows * tile.columns) * inside;
    let in_flight = (resident * f64::from(needs.loaded) / IN_FLIGHT).min(1.0).max(0.05);
    let idle = waves * grid / tiles;
    let moved = elements * f64::from(needs.moved) / (MEMORY_BYTES * in_flight) * idle;
    moved.max(computed) + LATENCY + PASS_LATENCY * f64::from(needs.passes)
}
