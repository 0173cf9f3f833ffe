//! Long lists of `topk` in rounds, each of which keeps as many as one launch does.
//!
//! In: a graph whose folds keep any number of the largest. Out: the same results of folds that keep at most [`Top::MOST_IN_LAUNCH`].
//! A round folds the elements that come behind the last pair of the round before, in the order of `topk`: others have
//! weight 0. That order has no equals, so every element is in one round at most, ties, infinities and nan included.

use crate::graph::{
    Axes, Binary, Fold, Gives, Graph, IndexAxis, NodeId, Op, Over, Part, Rewriter, Run, Top, Unary,
};

const MOST_TOP: u32 = Top::MOST_IN_LAUNCH;

/// The same graph with long lists in rounds.
pub(super) fn in_rounds(graph: &Graph) -> Graph {
    let is_long = |op: &Op| matches!(op, Op::Reduce(Fold::Top(top), ..) if top.of > MOST_TOP);
    if !graph.nodes().any(|(_, node)| is_long(&node.op)) {
        return graph.clone();
    }
    Rewriter::rebuild(graph, |new, op| match op {
        Op::Reduce(Fold::Top(top), over, terms) if top.of > MOST_TOP => {
            let list = List { over, terms };
            match list.index(new) {
                Some(index) => list.place(new, top, index),
                None => new.make(op),
            }
        }
        op => new.make(op),
    })
}

/// The terms of one `topk`.
#[derive(Clone, Copy)]
struct List {
    over: Over,
    terms: NodeId,
}

impl List {
    /// The index of each term along the one dim that is folded.
    fn index(self, graph: &mut Graph) -> Option<NodeId> {
        let axes = graph.ty(self.terms).axes;
        match self.over {
            Over { batch: false, row: None, column: Some(Run::All) } => own_column(graph, axes),
            Over { batch: false, row: Some(Run::All), column: None } => {
                (axes.row == Some(1)).then(|| graph.make(Op::Index(IndexAxis::Row)))
            }
            _ => None,
        }
    }

    /// The value or the index at a place, which its round has.
    fn place(self, graph: &mut Graph, top: Top, index: NodeId) -> NodeId {
        let mut weights = None;
        for _ in 0..top.place / MOST_TOP {
            let last = [Gives::Value, Gives::Index]
                .map(|gives| Top { place: MOST_TOP - 1, of: MOST_TOP, gives })
                .map(|top| self.fold(graph, top, weights));
            weights = Some(self.behind(graph, last, index));
        }
        let (round, place) = (top.place / MOST_TOP, top.place % MOST_TOP);
        let of = (top.of - round * MOST_TOP).min(MOST_TOP);
        self.fold(graph, Top { place, of, ..top }, weights)
    }

    fn fold(self, graph: &mut Graph, top: Top, weights: Option<NodeId>) -> NodeId {
        let List { over, terms } = self;
        graph.make(match weights {
            Some(weights) => Op::ReduceWeighted(Fold::Top(top), over, terms, weights),
            None => Op::Reduce(Fold::Top(top), over, terms),
        })
    }

    /// 1 for terms that come behind a pair, 0 for others: nan come first, then values fall, and of equal ones the lower
    /// index comes first. Every operation on terms meets the pair, so that a launch stores no more of terms than they are.
    fn behind(self, graph: &mut Graph, [value, last]: [NodeId; 2], index: NodeId) -> NodeId {
        let infinity = graph.make(Op::number(f32::INFINITY));
        let was_nan = graph.make(Op::Unary(Unary::IsNan, value));
        // The largest that a number behind the pair may be.
        let most = graph.make(Op::Select(was_nan, infinity, value));
        let mut binary = |op, a, b| graph.make(Op::Binary(op, a, b));
        let below = binary(Binary::Less, self.terms, value);
        let at_most = binary(Binary::LessEqual, self.terms, most);
        let later = binary(Binary::Less, last, index);
        let lower = binary(Binary::Or, below, later);
        let lower = binary(Binary::Or, lower, was_nan);
        let number = binary(Binary::And, at_most, lower);
        let nan = binary(Binary::And, was_nan, later);
        let behind = binary(Binary::Or, number, nan);
        let [one, zero] = [1.0, 0.0].map(|number| graph.make(Op::number(number)));
        graph.make(Op::Select(behind, one, zero))
    }
}

/// The number of a column among those of a value: the product's, or as many as an equal part of them has.
fn own_column(graph: &mut Graph, axes: Axes) -> Option<NodeId> {
    let whole = graph.space().accumulator_axes().columns()?;
    let own = axes.columns().filter(|own| own.part == whole.part)?;
    let count = own.divisor.checked_div(whole.divisor)?;
    let column = graph.make(Op::Index(IndexAxis::Column));
    match count {
        1 => Some(column),
        2 => Some(graph.make(Op::Part(Part::First, column))),
        _ => {
            let part = Part::Equal { index: 0, count: count.try_into().ok()?, run: None };
            let divides = own.divisor == count * whole.divisor;
            divides.then(|| graph.make(Op::Part(part, column)))
        }
    }
}
