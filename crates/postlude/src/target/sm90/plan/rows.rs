//! Kernels without a product whose threads load rows by themselves: what a graph needs of them, and their tiles.
//!
//! In: a tile program whose tensors lie so that threads move 16 bytes at a time. Out: what a row kernel has to hold, and
//! the tiles that hold it. Invariant: where `RowNeeds` is there, the emitter can write a row kernel for the program.

use crate::dtype::DType;
use crate::graph::{Axes, Binary, InputId, Kind, NodeId, Op, Output};
use crate::lower::{Batches, Reduction, ReductionScope, TileProgram};
use crate::placement::{Placement, Placements};
use crate::problem::{BodyStrides, Problem};
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::code::{MOST_LINES, code_lines};
use super::gathered::gathered_bytes;
use super::needs::{Needs, SlotCounts};
use super::partials::FoldWords;
use super::place::{EpilogueTransfer, MAP_ALIGNMENT};
use super::row_needs::RowNeeds;
use super::streamed::STREAMED_TILES;
use super::strips::{STRIP_TILES, folds_few_strips, strip_results};

/// Tiles of a row kernel: one row of 128 threads, rows of 256 threads, longer rows, and rows of other usual lengths, which no
/// vector goes beyond.
pub(super) const ROW_TILES: [Tile; 40] = [
    rows(1, 8192, 1),
    rows(1, 4096, 1),
    rows(1, 2048, 1),
    rows(1, 1024, 1),
    rows(1, 8192, 2),
    rows(1, 4096, 2),
    rows(1, 2048, 2),
    rows(2, 2048, 1),
    rows(4, 1024, 1),
    rows(8, 512, 1),
    rows(16, 256, 1),
    rows(2, 4096, 2),
    rows(2, 2048, 2),
    rows(2, 1024, 2),
    rows(4, 2048, 2),
    rows(4, 1024, 2),
    rows(4, 512, 2),
    rows(8, 1024, 2),
    rows(8, 512, 2),
    rows(8, 256, 2),
    rows(16, 512, 2),
    rows(16, 256, 2),
    rows(16, 128, 2),
    rows(32, 256, 2),
    rows(32, 128, 2),
    rows(32, 64, 2),
    rows(1, 8192, 4),
    rows(1, 16384, 4),
    rows(1, 16384, 8),
    rows(1, 32768, 8),
    rows(4, 768, 1),
    rows(2, 1536, 1),
    rows(1, 2560, 1),
    rows(1, 3072, 1),
    rows(1, 5120, 1),
    rows(1, 6144, 2),
    rows(1, 7168, 2),
    rows(1, 10240, 2),
    rows(1, 12288, 4),
    rows(1, 14336, 4),
];

/// All tiles of row kernels.
pub(super) fn row_tiles() -> impl Iterator<Item = &'static Tile> {
    ROW_TILES.iter().chain(&STREAMED_TILES).chain(&STRIP_TILES)
}

const fn rows(rows: u32, columns: u32, math_warpgroups: u32) -> Tile {
    Tile { rows, columns, kernel: KernelSchedule::Rows, math_warpgroups, cluster: Cluster::ONE }
}

/// The most tensors of a row kernel: each has four parameters.
const MOST_TENSORS: usize = 24;

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
        let strips = strip_results(program).is_some();
        let ranked = program.ranked();
        // Two outputs of a list say where all of it is stored.
        let stored = ranked.as_ref().map_or(graph.outputs().len(), |it| 2 * it.lists.len());
        let of_rows = program.reductions.iter().all(|one| is_of_row(*one))
            && graph.outputs().iter().all(|output| is_written(program, output));
        let suits = needs.mainloop.is_none()
            && !needs.shared_strides
            && !problem.segmented
            && sizes.iter().all(|size| *size > 0)
            && program.windows() == 0
            && program.run_multiple() == 1
            && program.row_run_multiple() == 1
            && program.block_passes.is_empty()
            && program.run_reductions.is_empty()
            && program.column_runs.is_empty()
            && program.body_inputs.len() + stored <= MOST_TENSORS
            && (of_rows || strips && folds_few_strips(program, problem))
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
        let along_columns = column_inputs(program);
        // A warp's accesses are whole lines of vectors along columns, too.
        let along: Vec<u32> = along_columns.iter().map(of_input).collect();
        let widest = loads.iter().chain(&stores).max()?;
        let vector = MAP_ALIGNMENT as u32 / widest.max(along.iter().max().unwrap_or(widest));
        let columns = u32::try_from(problem.product_columns()).ok()?;
        let lie_well = along_columns
            .iter()
            .all(|input| lies_by_vectors(program, problem, *input, placements.input(*input)));
        let folds = row_folds(program);
        // No pass folds a row where strips of columns are folded.
        let passes = if strips { &[] } else { &folds[..] };
        let words = |pass: &&[Reduction]| pass.iter().map(|one| one.registers()).sum();
        let words = folds.iter().map(words).max().unwrap_or(0);
        let needs = RowNeeds {
            vector,
            loaded: loads.iter().sum(),
            moved: loads.iter().chain(&stores).sum(),
            gathered: gathered_bytes(program, placements),
            kept: kept(program, passes, &vec![false; graph.len()]),
            least: kept(program, passes, &computed_again(program)),
            vectors: along_columns.len() as u32,
            passes: passes.len() as u32,
            words,
            columns: if passes.is_empty() { 0 } else { columns },
            multiple: 1,
        };
        let held = needs.ranked().is_none() || ranked.is_some();
        (columns.is_multiple_of(vector) && lie_well && held).then_some(needs)
    }
}

impl Needs {
    /// Whether threads hold the rows of a tile.
    pub(super) fn holds(&self, tile: Tile) -> bool {
        tile.folds_strips() == self.folds.of_strips()
            && self.rows.is_some_and(|rows| rows.fit(tile, self.work))
            && code_lines(tile, self, tile.columns) <= MOST_LINES
    }

    /// What a kernel needs whose threads hold the rows of a tile, if one can run it: all moves are direct.
    pub(super) fn held_by(&self, tile: Tile) -> Option<Needs> {
        let rows = self.rows.filter(|_| self.holds(tile))?;
        // Code is the same for all rows that the tile has the columns for.
        let streams = tile.streams_rows();
        let whole = |columns: u32| match columns {
            1.. if !streams => tile.columns,
            columns => columns,
        };
        let beside = RowNeeds::side_by_side(tile);
        let exact = rows.columns > 0 && rows.columns.is_multiple_of(beside);
        let multiple = if exact { beside } else { 1 };
        // Others read them element by element.
        let gathered = if tile.kernel == KernelSchedule::Rows { rows.gathered } else { 0 };
        let mut needs = Needs {
            rows: Some(RowNeeds { columns: whole(rows.columns), multiple, gathered, ..rows }),
            whole_columns: whole(self.whole_columns),
            slots: SlotCounts::default(),
            folds: if tile.folds_strips() { self.folds } else { FoldWords::default() },
            ..self.clone()
        };
        needs.epilogue_loads.iter_mut().for_each(EpilogueTransfer::make_direct);
        needs.epilogue_stores.iter_mut().for_each(EpilogueTransfer::make_direct);
        Some(needs)
    }

    /// Columns of the longest rows that threads could hold, were these as short as any; 0 where they hold none.
    pub(super) fn longest_held(&self) -> u32 {
        let rows = self.rows.map(|rows| RowNeeds { columns: 0, ..rows });
        let any = Needs { rows, ..self.clone() };
        let tiles = row_tiles().filter(|tile| any.holds(**tile));
        let longest = |tile: &Tile| rows.map_or(0, |rows| rows.longest(*tile));
        tiles.map(longest).max().unwrap_or(0)
    }

    /// Whether some tile's threads hold rows as long as these.
    pub(super) fn is_held(&self) -> bool {
        row_tiles().any(|tile| self.holds(*tile) && tile.is_automatic(self))
    }
}

/// The reductions that each pass over a row finishes: the ones that elements wait for, or the ones that only outputs take.
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
    matches!(declared.dtype.bits(), 8 | 16 | 32)
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

/// Instructions of an element, beside its loads, for which it is computed again rather than kept in registers.
const AGAIN: u32 = 2;

/// Values of elements that each pass computes again from what was loaded: few instructions, and more CTAs for it.
pub(crate) fn computed_again(program: &TileProgram) -> Vec<bool> {
    let graph = program.graph();
    let is_tile = |id: NodeId| graph.ty(id).axes.kind() == Kind::Tile;
    // Instructions of an element, where they are few.
    let mut few: Vec<Option<u32>> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        let is_cheap = matches!(
            node.op,
            Op::Binary(Binary::Add | Binary::Subtract | Binary::Multiply, ..) | Op::Fma(..)
        );
        let cost = if matches!(node.op, Op::Input(_)) || !is_tile(id) {
            Some(0)
        } else if is_cheap {
            let operands = node.op.operands().map(|operand| few[operand.index()]);
            operands.sum::<Option<u32>>().map(|all| all + 1)
        } else {
            None
        };
        few.push(cost.filter(|cost| *cost <= AGAIN));
    }
    graph.nodes().map(|(id, _)| is_tile(id) && few[id.index()].is_some()).collect()
}

/// Floats of an element that are computed for one pass and used after it, or that a pass goes through twice, but for those
/// that are computed again.
fn kept(program: &TileProgram, passes: &[&[Reduction]], again: &[bool]) -> u32 {
    let graph = program.graph();
    let folded = |some: &[&[Reduction]]| -> Vec<NodeId> {
        some.iter().flat_map(|pass| pass.iter().flat_map(|one| one.operands())).collect()
    };
    let after = |number: usize| {
        let mut before = elements_for(program, &folded(&passes[..number]));
        before.iter_mut().zip(again).for_each(|(before, again)| *before &= !again);
        let mut later = folded(&passes[number..]);
        later.extend(graph.outputs().iter().map(|output| output.value));
        let needed = elements_for(program, &later);
        let mut waits = vec![false; graph.len()];
        for root in &later {
            waits[root.index()] = true;
        }
        for (id, node) in graph.nodes().filter(|(id, _)| needed[id.index()]) {
            if !before[id.index()] {
                node.op.operands().for_each(|of| waits[of.index()] = true);
            }
        }
        waits.iter().zip(before).filter(|(waits, before)| **waits && *before).count() as u32
    };
    let twice = |pass: &&[Reduction]| {
        let terms = pass.iter().filter(|one| one.sums_exponentials() && !again[one.terms.index()]);
        terms.count() as u32
    };
    (1..=passes.len()).map(after).chain(passes.iter().map(twice)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::chip::Sm90;
    use super::super::fit::fit;
    use super::super::rank::{accepted_needs, schedules};
    use super::*;
    use crate::define::defined;
    use crate::lower::{BoundProgram, lower};

    fn bound(source: &str, columns: usize) -> BoundProgram {
        let graph = defined(source);
        let sizes = [("M", 8192), ("N", columns)].map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let program = Arc::new(lower(&graph).expect("it is one launch"));
        let placements = Placements::packed(&graph, &problem);
        BoundProgram::new(&program, &problem, &placements).expect("it is not refused")
    }

    fn needs(source: &str, columns: usize) -> Needs {
        accepted_needs(&bound(source, columns)).expect("it is not refused")
    }

    const SOFTMAX: &str = "kernel k(X: bf16[M, N]) -> D: bf16[M, N] { D = softmax(X, N) }";
    const NORM: &str = "kernel k(X: bf16[M, N], R: bf16[M, N], g: f32[N]) -> (D: bf16[M, N], S: f32[M, N]) { S = X + R; D = rms_norm(S, N, 1e-5) * g }";
    const LOSS: &str = "kernel k(X: bf16[M, N]) -> l: f32[M] { l = logsumexp(X, N) }";
    const SUMS: &str = "kernel k(X: f32[M, N]) -> s: f32[M] { s = sum(X, N) }";
    const COLUMNS: &str = "kernel k(X: f32[M, N]) -> s: f32[N] { s = sum(X, M) }";

    #[test]
    fn one_float_of_an_element_waits_for_softmax_and_losses_and_norms_may_compute_it_again() {
        let of = |rows: RowNeeds| (rows.kept, rows.least, rows.vector);
        let kept = |source| needs(source, 4096).rows.map(of);
        assert_eq!(kept(SOFTMAX), Some((1, 1, 8)));
        assert_eq!(kept(NORM), Some((1, 0, 4)));
        assert_eq!(kept(LOSS), Some((1, 0, 8)));
        assert_eq!(kept(SUMS), Some((0, 0, 4)));
        assert_eq!(kept(COLUMNS), Some((0, 0, 4)));
    }

    #[test]
    fn rows_that_threads_cannot_load_by_vectors_are_left_to_other_tiles() {
        assert_eq!(needs(SOFTMAX, 4092).rows, None);
        assert!(needs(NORM, 4092).rows.is_none() && needs(SUMS, 4092).rows.is_some());
        for columns in [8, 200, 4096, 8192, 16384] {
            let all = schedules(&bound(SOFTMAX, columns), Sm90::H200).expect("it is planned");
            assert!(all.iter().all(|one| one.tile.holds_rows()), "{columns}");
            assert!(all[0].tile.columns as usize >= columns);
        }
    }

    #[test]
    fn every_tile_of_rows_fits_an_sm_as_often_as_it_says() {
        for (source, columns) in [(SOFTMAX, 64), (NORM, 64), (SUMS, 64)] {
            let needs = needs(source, columns);
            let fitting: Vec<_> =
                row_tiles().filter_map(|tile| fit(*tile, &needs, Sm90::H200)).collect();
            assert!(fitting.len() > 10, "{}", fitting.len());
            for schedule in fitting {
                assert!(schedule.ctas * schedule.threads() <= 2048, "{schedule}");
                let bytes = schedule.ctas * (schedule.shared_bytes() + 1024);
                assert!(bytes <= Sm90::H200.shared_bytes + 1024, "{schedule}");
                assert_eq!(schedule.to_string().parse().as_ref(), Ok(&schedule));
            }
        }
    }
}
