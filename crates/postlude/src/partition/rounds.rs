//! Long lists of `topk` in rounds, each of which keeps as many as one launch does.
//!
//! In: a graph whose folds keep any number of the largest. Out: the same results of folds that keep at most [`Top::MOST_IN_LAUNCH`].
//! A round folds the elements that come behind the last pair of the round before, in the order of `topk`: others have
//! weight 0. That order has no equals, so every element is in one round at most, ties, infinities and nan included.

use crate::graph::{
    Binary, Constant, Fold, Gives, Graph, NodeId, Op, Over, Place, Rewriter, Top, Unary,
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
            match new.place_along(over, terms) {
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
    /// The value or the index at a place, which its round has.
    fn place(self, graph: &mut Graph, top: Top, index: Place) -> NodeId {
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
    fn behind(self, graph: &mut Graph, [value, last]: [NodeId; 2], at: Place) -> NodeId {
        let infinity = graph.make(Op::number(f32::INFINITY));
        // Where there are fewer terms the pair is no term, and nothing is behind it: its value is nan too.
        let none = graph.make(Op::Constant(Constant::I32(i32::MAX)));
        let nan = graph.make(Op::Unary(Unary::IsNan, value));
        let is_term = graph.make(Op::Binary(Binary::Less, last, none));
        let was_nan = graph.make(Op::Binary(Binary::And, nan, is_term));
        // The largest that a number behind the pair may be.
        let most = graph.make(Op::Select(was_nan, infinity, value));
        let last = at.scaled(graph, last);
        let mut binary = |op, a, b| graph.make(Op::Binary(op, a, b));
        let below = binary(Binary::Less, self.terms, value);
        let at_most = binary(Binary::LessEqual, self.terms, most);
        let later = binary(Binary::Less, last, at.index);
        let lower = binary(Binary::Or, below, later);
        let lower = binary(Binary::Or, lower, was_nan);
        let number = binary(Binary::And, at_most, lower);
        let nan = binary(Binary::And, was_nan, later);
        let behind = binary(Binary::Or, number, nan);
        let [one, zero] = [1.0, 0.0].map(|number| graph.make(Op::number(number)));
        graph.make(Op::Select(behind, one, zero))
    }
}
