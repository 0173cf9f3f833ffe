//! Reductions that the epilogue folds: of what tiles hold, over rows, columns or both, of each batch or of all.
//!
//! Each warpgroup folds its part of a tile and writes one partial result to the launch's workspace. The last warpgroup
//! to arrive for a block of rows, a block of columns or a batch combines them in the order of the tiles, so that the
//! result depends on no timing. Where batches are folded, too, it is the last warpgroup of all batches, and the order
//! of batches comes first. A value that is computed *after reductions* varies along what they vary along, and is stored
//! as a vector or a scalar. A second-stage reduction of such a vector has a partial result from each block: the
//! warpgroup that finishes the block writes it, and arrives once more for the batch, or for all batches.

use crate::dtype::Elem;
use crate::graph::fold::{Extreme, Peak, Weighted, Words};
use crate::graph::{Axes, Dependence, Fold, Graph, Kind, NodeId, Op, Over, Run};

use super::blocks::is_block;
use super::row_pass::is_whole_row;
use super::runs::is_reduction_of_run;

/// How the values of a tile become fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Fold(Fold),
    /// The one of each row that is in the column of this number.
    Pick(NodeId),
}

/// A reduction of a tile's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reduction {
    pub(crate) node: NodeId,
    pub(crate) how: How,
    /// What is folded; a pick is one of all columns.
    pub(crate) over: Over,
    pub(crate) terms: NodeId,
    /// Where terms have weights.
    pub(crate) weights: Option<NodeId>,
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
        let each = axes.batch == graph.space().accumulator_axes().batch;
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
    /// What a node folds, if it does.
    pub(super) fn of(graph: &Graph, after_reductions: &[bool], node: NodeId) -> Option<Reduction> {
        let (how, over, terms, weights) = match graph[node].op.dependence() {
            Dependence::Reduce(fold, over, terms) => (How::Fold(fold), over, terms, None),
            Dependence::ReduceWeighted(fold, over, terms, weights) => {
                (How::Fold(fold), over, terms, Some(weights))
            }
            Dependence::Pick(terms, index) => {
                let row = Over { column: Some(Run::All), ..Over::NOTHING };
                (How::Pick(index), row, terms, None)
            }
            Dependence::Source
            | Dependence::Elementwise(_)
            | Dependence::Part(..)
            | Dependence::Merge(..)
            | Dependence::Concat(_)
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
        Some(Reduction { node, how, over, terms, weights, elem, scope, source, repeated })
    }

    /// What a node folds, where nothing else is known of it.
    pub(crate) fn by_itself(graph: &Graph, node: NodeId) -> Option<Reduction> {
        Reduction::of(graph, &vec![false; graph.len()], node)
    }

    /// The same for another node that has the same partial results.
    fn as_node(self, graph: &Graph, node: NodeId) -> Option<Reduction> {
        match graph[node].op {
            Op::Reduce(fold, ..) | Op::ReduceWeighted(fold @ Fold::Top(_), ..) => {
                Some(Reduction { node, how: How::Fold(fold), ..self })
            }
            _ => None,
        }
    }

    /// All nodes that its partial results give, each as a reduction of its own: itself, and those that share them.
    pub(super) fn members(self, graph: &Graph, live: &[bool]) -> Vec<Reduction> {
        let shares = |node: &NodeId| *node == self.node || graph.supplies(self.node, *node);
        let nodes = graph.nodes().map(|(id, _)| id).filter(|id| live[id.index()]);
        nodes.filter(shares).filter_map(|node| self.as_node(graph, node).or(Some(self))).collect()
    }

    /// Whether it sums exponentials of terms of which the largest has to be known.
    pub(crate) fn sums_exponentials(self) -> bool {
        self.partial_words() == Words::Exponentials(Peak::Counted)
    }

    /// Whether one element of a row is picked.
    pub(crate) fn is_pick(self) -> bool {
        matches!(self.how, How::Pick(_))
    }

    /// Whether integers are folded.
    pub(crate) fn is_integer(self) -> bool {
        self.elem == Elem::I32
    }

    /// The words of a partial result.
    pub(crate) fn partial_words(self) -> Words {
        match self.how {
            How::Fold(fold) => fold.words(),
            How::Pick(_) => Words::One,
        }
    }

    /// Whether it needs the index of each term.
    pub(crate) fn uses_index(self) -> bool {
        matches!(self.how, How::Fold(fold) if fold.uses_index())
    }

    /// Which extreme it gives the index of, if it does.
    pub(crate) fn indexes(self) -> Option<Extreme> {
        match self.partial_words() {
            Words::Indexed(extreme) => Some(extreme),
            Words::One | Words::Exponentials(_) | Words::Ranked(_) | Words::Weighted(_) => None,
        }
    }

    /// The values that it folds.
    pub(crate) fn operands(self) -> impl Iterator<Item = NodeId> {
        std::iter::once(self.terms).chain(self.weights)
    }

    /// Registers of a partial result.
    pub(crate) fn registers(self) -> u32 {
        self.partial_words().count()
    }

    /// Words of a partial result in memory: an integer term needs all its bits, and one more to say that it is there.
    pub(crate) fn words(self) -> u32 {
        if self.is_integer() { self.registers() + 1 } else { self.registers() }
    }

    /// How many of the largest elements of a row it keeps, where tiles may drop elements below a bound that all share.
    pub(crate) fn bounded(self) -> Option<u32> {
        let rows = ReductionScope { kind: Kind::AlongRows, batches: Batches::Each };
        let bounded = self.is_of_elements() && self.scope == rows && !self.is_integer();
        match self.partial_words() {
            Words::Ranked(count) if bounded => Some(count),
            Words::One
            | Words::Exponentials(_)
            | Words::Indexed(_)
            | Words::Ranked(_)
            | Words::Weighted(_) => None,
        }
    }

    /// Whether a partial result is relative to its largest term, and is rescaled where it meets a larger one.
    pub(crate) fn rescales(self) -> bool {
        match self.partial_words() {
            Words::Exponentials(_) => true,
            Words::Weighted(weighted) => match weighted {
                Weighted::Exponentials
                | Weighted::ExponentialsBelowMax
                | Weighted::ExponentialsBelowOwnMax => true,
                Weighted::Deviations => false,
            },
            Words::One | Words::Indexed(_) | Words::Ranked(_) => false,
        }
    }

    /// Words of the workspace for each tile and result: those of a partial result, and where there is a bound, how many
    /// pairs the tile has written, and a slot.
    pub(crate) fn workspace_words(self) -> u32 {
        self.words() + if self.bounded().is_some() { 2 } else { 0 }
    }

    /// Whether its terms are elements of tiles.
    pub(crate) fn is_of_elements(self) -> bool {
        self.source == Source::Elements
    }
}

/// Whether a tile finishes a node's reduction for itself: of rows that it holds whole, of groups of columns, or of blocks.
pub(super) fn is_in_tile(graph: &Graph, passes: &[usize], id: NodeId) -> bool {
    (passes[id.index()] > 0 && is_whole_row(graph, id))
        || is_reduction_of_run(graph, id)
        || is_block(graph, id)
}

/// Which nodes are computed after reductions that the last warpgroup to arrive finishes.
pub(super) fn after_reductions(graph: &Graph, passes: &[usize]) -> Vec<bool> {
    let reduces = |id: NodeId| {
        let op = &graph[id].op;
        op.reduction().is_some() || matches!(op, Op::Pick(..))
    };
    let depths = graph.depths(|id| reduces(id) && !is_in_tile(graph, passes, id));
    depths.into_iter().map(|depth| depth > 0).collect()
}

/// The reductions without those whose results the partial results of another give: of two that have the same, the first
/// stays.
pub(super) fn leading(graph: &Graph, all: impl Iterator<Item = Reduction>) -> Vec<Reduction> {
    let all: Vec<Reduction> = all.collect();
    let leads = |place: &usize| {
        let one = all[*place].node;
        !all.iter().enumerate().any(|(other, reduction)| {
            graph.supplies(reduction.node, one)
                && (other < *place || !graph.supplies(one, reduction.node))
        })
    };
    (0..all.len()).filter(leads).map(|place| all[place]).collect()
}
