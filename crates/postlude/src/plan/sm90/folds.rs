//! Reductions that the epilogue folds: of what tiles hold, over rows, columns or both, of each batch or of all.
//!
//! Each warpgroup folds its part of a tile and writes one partial result to the launch's workspace. The last warpgroup
//! to arrive for a block of rows, a block of columns or a batch combines them in the order of the tiles, so that the
//! result depends on no timing. Where batches are folded, too, it is the last warpgroup of all batches, and the order
//! of batches comes first. A value that is computed *after reductions* varies along what they vary along, and is stored
//! as a vector or a scalar. A second-stage reduction of such a vector has a partial result from each block: the
//! warpgroup that finishes the block writes it, and arrives once more for the batch, or for all batches.

use crate::dtype::Elem;
use crate::graph::{Axes, Dependence, Fold, Graph, Kind, NodeId, Op, Run};
use crate::problem::Problem;

use super::{SLOT_ROWS, Sm90Refusal, Sm90Schedule, Unsupported, groups, row_pass};

/// The most places that `largest` keeps, for each row or column in registers.
const MOST_LARGEST: u32 = 16;

/// How the values of a tile become fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Fold(Fold),
    /// The one of each row that is in the column of this number.
    Pick(NodeId),
}

/// A reduction of a tile's values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduction {
    pub(crate) node: NodeId,
    pub(crate) how: How,
    pub(crate) terms: NodeId,
    pub(crate) elem: Elem,
    pub(crate) scope: ReductionScope,
    pub(crate) source: Source,
    /// Whether tiles of every batch have the same terms, so that those of the first count.
    pub(crate) repeated: bool,
}

/// The scope of a result: results of the same scope are finished together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReductionScope {
    pub(crate) kind: Kind,
    pub(crate) batches: Batches,
}

/// Whether there is a value for each batch, or one for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Batches {
    Each,
    All,
}

impl ReductionScope {
    /// Of a value that varies along these; a product without batches has one.
    pub(crate) fn of(graph: &Graph, axes: Axes) -> ReductionScope {
        let each = axes.batch == graph.product().accumulator_axes().batch;
        ReductionScope {
            kind: axes.kind(),
            batches: if each { Batches::Each } else { Batches::All },
        }
    }
}

/// Where the partial results of a reduction come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Every part of a tile, from its elements.
    Elements,
    /// The same, from values along rows that every tile knows: those of the first along columns count.
    Rows,
    /// The warpgroup that finishes a block of rows, a block of columns or scalars, from the values that it finishes.
    Finished(ReductionScope),
}

impl Reduction {
    /// Whether one element of a row is picked.
    pub(crate) fn is_pick(self) -> bool {
        matches!(self.how, How::Pick(_))
    }

    /// Whether integers are folded.
    pub(crate) fn is_integer(self) -> bool {
        self.elem == Elem::I32
    }

    /// Registers of a partial result.
    pub(crate) fn registers(self) -> u32 {
        match self.how {
            // The largest, and the sum of what each is beside it.
            How::Fold(Fold::LogSumExp | Fold::LogSumExpAboveMax) => 2,
            How::Fold(Fold::Largest(count)) => count,
            How::Fold(_) | How::Pick(_) => 1,
        }
    }

    /// Words of a partial result in memory: an integer needs all its bits, and one more to say that it is there.
    pub(crate) fn words(self) -> u32 {
        if self.is_integer() { 2 } else { self.registers() }
    }

    /// Whether its terms are elements of tiles.
    pub(crate) fn is_of_elements(self) -> bool {
        self.source == Source::Elements
    }
}

/// Words of all partial results: of those along rows, along columns, and of scalars.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FoldWords {
    /// For each row.
    pub rows: u32,
    /// For each column.
    pub columns: u32,
    /// For a tile.
    pub scalars: u32,
}

impl FoldWords {
    pub(crate) fn of(graph: &Graph) -> FoldWords {
        let words = |kind| folds_of(graph, kind).map(Reduction::words).sum();
        FoldWords {
            rows: words(Kind::AlongRows),
            columns: words(Kind::AlongColumns),
            scalars: words(Kind::Scalar),
        }
    }

    /// Whether anything is folded.
    pub fn any(self) -> bool {
        self != FoldWords::default()
    }

    /// Shared memory of one warpgroup, in bytes: four warps' results along columns, their scalars, and the flags of the
    /// last arrival.
    pub(crate) fn shared_bytes(self, columns: u32) -> u32 {
        if self.any() { 16 * (self.columns * columns + self.scalars + 1) } else { 0 }
    }
}

/// Whether a node folds the whole rows of a tile.
pub(super) fn is_whole_row(graph: &Graph, id: NodeId) -> bool {
    let is_tile = |terms: NodeId| graph[terms].ty.axes.kind() == Kind::Tile;
    match graph[id].op.dependence() {
        Dependence::Reduce(_, over, terms) => {
            !over.batch && !over.row && over.column == Some(Run::All) && is_tile(terms)
        }
        Dependence::Pick(terms, index) => {
            let is_single = graph[index].ty.axes.column.is_none();
            is_single && graph[terms].ty.elem == Elem::F32 && is_tile(terms)
        }
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Call => false,
    }
}

/// Whether a tile finishes a node's reduction for itself: of rows that it holds whole, or of groups of columns.
fn is_in_tile(graph: &Graph, passes: &[usize], id: NodeId) -> bool {
    (passes[id.index()] > 0 && is_whole_row(graph, id)) || groups::is_group_fold(graph, id)
}

/// What a node folds, if it does.
pub(crate) fn reduction(
    graph: &Graph,
    after_reductions: &[bool],
    node: NodeId,
) -> Option<Reduction> {
    let (how, terms) = match graph[node].op.dependence() {
        Dependence::Reduce(fold, _, terms) => (How::Fold(fold), terms),
        Dependence::Pick(terms, index) => (How::Pick(index), terms),
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Call => return None,
    };
    let [of, scope] = [terms, node].map(|id| ReductionScope::of(graph, graph.ty(id).axes));
    let source = match of.kind {
        Kind::Tile => Source::Elements,
        Kind::AlongRows if !after_reductions[terms.index()] => Source::Rows,
        Kind::AlongRows | Kind::AlongColumns | Kind::Scalar => Source::Finished(of),
    };
    // An index may vary where what it picks from does not.
    let shared = of.batches == Batches::All && scope.batches == Batches::All;
    let repeated = shared && !matches!(source, Source::Finished(_));
    let elem = graph.ty(terms).elem;
    Some(Reduction { node, how, terms, elem, scope, source, repeated })
}

/// The reductions of a graph that the last warpgroup to arrive finishes, in the order of the graph.
pub(crate) fn folds(graph: &Graph) -> impl Iterator<Item = Reduction> {
    let (live, passes, after_reductions) =
        (graph.live(), row_pass::passes(graph), after_reductions(graph));
    graph
        .nodes()
        .map(|(id, _)| id)
        .filter(move |id| live[id.index()] && !is_in_tile(graph, &passes, *id))
        .filter_map(move |id| reduction(graph, &after_reductions, id))
}

/// Those whose results have this kind.
pub(crate) fn folds_of(graph: &Graph, kind: Kind) -> impl Iterator<Item = Reduction> {
    folds(graph).filter(move |reduction| reduction.scope.kind == kind)
}

/// Floats of the widest reduction along columns.
pub(super) fn widest(graph: &Graph) -> u32 {
    folds_of(graph, Kind::AlongColumns).map(Reduction::words).max().unwrap_or(0)
}

/// Which nodes are computed after reductions that the last warpgroup to arrive finishes.
pub(crate) fn after_reductions(graph: &Graph) -> Vec<bool> {
    let passes = row_pass::passes(graph);
    let mut after_reductions = vec![false; graph.len()];
    for (id, node) in graph.nodes() {
        let own = is_in_tile(graph, &passes, id);
        after_reductions[id.index()] = (!own && matches!(node.op, Op::Reduce(..) | Op::Pick(..)))
            || node.op.operands().any(|operand| after_reductions[operand.index()]);
    }
    after_reductions
}

/// Refuses reductions that no kernel finishes.
pub(super) fn refuse(graph: &Graph) -> Result<(), Sm90Refusal> {
    let (live, after_reductions, passes) =
        (graph.live(), after_reductions(graph), row_pass::passes(graph));
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        if matches!(node.op, Op::Reduce(Fold::Largest(count), ..) if count > MOST_LARGEST) {
            return Err(Unsupported::ManyLargest.at(graph, id));
        }
    }
    for (id, node) in
        graph.nodes().filter(|(id, _)| live[id.index()] && after_reductions[id.index()])
    {
        let refuse = |rule: Unsupported| Err(rule.at(graph, id));
        let scope = ReductionScope::of(graph, node.ty.axes);
        if let Op::Reduce(_, over, _) = node.op {
            let whole = !matches!(over.column, Some(Run::Group(_)));
            // A reduction over batches alone gives a tile, and no warpgroup visits all batches' tiles again.
            if scope.kind == Kind::Tile || !whole {
                return refuse(if whole {
                    Unsupported::FoldLeavesTile
                } else {
                    Unsupported::OtherColumns
                });
            }
            continue;
        }
        if let Op::Pick(terms, index) = node.op {
            let [of, place] = [terms, index].map(|operand| graph[operand].ty);
            let simple =
                of.axes.kind() == Kind::Tile && of.elem == Elem::F32 && place.axes.column.is_none();
            // The warpgroup that finishes a pick loads the index again, and has no results of row passes.
            let known = !after_reductions[terms.index()]
                && !after_reductions[index.index()]
                && passes[index.index()] == 0;
            if !simple || !known {
                return refuse(Unsupported::PickOfFinished);
            }
            continue;
        }
        if node.op.operands().any(|operand| passes[operand.index()] > 0) {
            return refuse(Unsupported::FinishedMeetsPass);
        }
        let apart = |operand: NodeId| {
            after_reductions[operand.index()]
                && ReductionScope::of(graph, graph[operand].ty.axes) != scope
        };
        if scope.kind == Kind::Tile || node.op.operands().any(apart) {
            return refuse(Unsupported::FinishedMeetsOther);
        }
    }
    Ok(())
}

/// Refuses results of a problem without batches: no tile would write them. A problem without rows or columns still has
/// one tile.
pub(super) fn refuse_nothing(graph: &Graph, problem: &Problem) -> Result<(), Sm90Refusal> {
    let wanted = |dims: &[_]| problem.shape(dims).iter().all(|size| *size > 0);
    let output = graph.outputs().iter().find(|output| wanted(&output.dims));
    match output.filter(|_| problem.batch == 0) {
        Some(output) => Err(Unsupported::NoBatches.at(graph, output.value)),
        None => Ok(()),
    }
}

/// Where partial results lie in the launch's workspace, in bytes, behind the counters. All of it is zero whenever no kernel
/// runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Workspace {
    /// Partial results along rows, along columns and of scalars.
    pub(crate) starts: [u64; 3],
    pub(crate) bytes: u64,
}

impl Workspace {
    pub(crate) fn of(schedule: &Sm90Schedule, problem: &Problem) -> Workspace {
        let words = schedule.needs.folds;
        if !words.any() {
            return Workspace { starts: [0; 3], bytes: 0 };
        }
        let tile = schedule.tile;
        let [rows, columns] = schedule.clusters(problem).map(|count| count.max(1));
        let (rows, columns) = (
            rows * u64::from(tile.cluster.rows() * tile.warpgroups_per_tile()),
            columns * u64::from(tile.cluster.columns()),
        );
        let (unit, width) = (u64::from(tile.blocks() * SLOT_ROWS), u64::from(schedule.width()));
        let batch = problem.batch as u64;
        // Of each batch, and of all.
        let counters = (batch + 1) * (rows + columns + 1);
        let sizes = [
            counters,
            u64::from(words.rows) * batch * columns * rows * unit,
            u64::from(words.columns) * batch * rows * columns * width,
            u64::from(words.scalars) * batch * rows * columns,
        ];
        let ends: Vec<u64> = sizes
            .iter()
            .scan(0, |end, size| {
                *end = (*end + size * 4).next_multiple_of(16);
                Some(*end)
            })
            .collect();
        Workspace { starts: [ends[0], ends[1], ends[2]], bytes: ends[3] }
    }
}
