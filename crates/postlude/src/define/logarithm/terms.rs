//! A logarithm as a sum of terms with constant factors.
//!
//! In: terms from the parts of a value. Out: the same with what cancels taken out, and the node that they add up to.

use crate::graph::{Binary, Fold, Graph, NodeId, Op, Unary};

use super::super::softmax::{above_maximum, paired};
use super::super::stabilise::stabilise;
use super::super::views::{are_opposite, binary, called, constant, multiple, unguarded};

/// A natural logarithm: terms with their factors, and a constant.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) terms: Vec<(f64, NodeId)>,
    pub(super) constant: f64,
    /// Whether the value itself may overflow or vanish where its logarithm does not.
    pub(super) informative: bool,
    /// Whether the value may be arbitrarily large.
    pub(super) unbounded: bool,
    /// Whether the value may be negative, where some term is nan.
    pub(super) signed: bool,
}

impl Log {
    pub(super) fn known(terms: Vec<(f64, NodeId)>, unbounded: bool) -> Log {
        Log { terms, constant: 0.0, informative: true, unbounded, signed: false }
    }

    /// The logarithm of a value that may be negative.
    pub(super) fn signed(terms: Vec<(f64, NodeId)>, unbounded: bool) -> Log {
        Log { signed: true, ..Log::known(terms, unbounded) }
    }

    /// The same where the value is never negative: only then may it be a part of a sum, or of a product with another.
    pub(super) fn of_positive(self) -> Option<Log> {
        (!self.signed).then_some(self)
    }

    pub(super) fn times(mut self, factor: f64) -> Log {
        self.terms.iter_mut().for_each(|(own, _)| *own *= factor);
        self.constant *= factor;
        self
    }

    pub(super) fn plus(mut self, other: Log) -> Log {
        self.terms.extend(other.terms);
        self.constant += other.constant;
        self.informative |= other.informative;
        self.unbounded |= other.unbounded;
        self.signed |= other.signed;
        self
    }

    /// Equal terms taken together, and what cancels taken out.
    pub(super) fn combined(self, graph: &mut Graph) -> Log {
        let mut terms: Vec<(f64, NodeId)> = Vec::new();
        for (factor, term) in self.terms {
            match terms.iter_mut().find(|(_, known)| *known == term) {
                Some((own, _)) => *own += factor,
                None => terms.push((factor, term)),
            }
        }
        terms.retain(|(factor, _)| factor.abs() > 1e-12);
        while let Some((first, second, together)) = joined(graph, &terms) {
            terms[first] = together;
            terms.remove(second);
        }
        Log { terms, ..self }
    }

    /// The value, from the terms in their order.
    pub(super) fn node(&self, graph: &mut Graph) -> NodeId {
        let constant_value = self.constant as f32;
        let mut order = paired(graph, self.terms.clone());
        // What is added comes first: `x - y`, not `-y + x`.
        order.sort_by_key(|(factor, _)| *factor < 0.0);
        let mut total: Option<NodeId> = None;
        for (factor, term) in order {
            total = Some(match total {
                None => multiple(graph, f64::from(factor as f32), term),
                Some(total) if (factor as f32) < 0.0 => {
                    let term = multiple(graph, f64::from(-factor as f32), term);
                    stabilise(graph, Op::Binary(Binary::Subtract, total, term))
                }
                Some(total) => {
                    let term = multiple(graph, f64::from(factor as f32), term);
                    stabilise(graph, Op::Binary(Binary::Add, total, term))
                }
            });
        }
        match total {
            None => constant(graph, constant_value),
            Some(total) if self.constant.abs() <= 1e-12 => total,
            Some(total) if constant_value < 0.0 => {
                let rest = constant(graph, -constant_value);
                binary(graph, Binary::Subtract, total, rest)
            }
            Some(total) => {
                let rest = constant(graph, constant_value);
                binary(graph, Binary::Add, total, rest)
            }
        }
    }
}

/// Two terms that are simpler as one, and that one.
fn joined(graph: &mut Graph, terms: &[(f64, NodeId)]) -> Option<(usize, usize, (f64, NodeId))> {
    for (first, &(factor, a)) in terms.iter().enumerate() {
        for (second, &(other, b)) in terms.iter().enumerate() {
            if factor != -other {
                continue;
            }
            // softplus(x) - softplus(-x) is x.
            if let (Some(x), Some(y)) = (called(graph, a, "softplus"), called(graph, b, "softplus"))
                && are_opposite(graph, x, y)
            {
                return Some((first, second, (factor, x)));
            }
            // A sum that has been shifted by its maximum is what its logsumexp is above that.
            if let Op::Reduce(Fold::LogSumExp, over, x) = graph[a].op
                && graph[unguarded(graph, b).unwrap_or(b)].op == Op::Reduce(Fold::Max, over, x)
            {
                let above = above_maximum(graph, over, x);
                let log = match unguarded(graph, b) {
                    None => above,
                    Some(peak) => {
                        let infinite = graph.make(Op::Unary(Unary::IsInf, peak));
                        graph.make(Op::Select(infinite, peak, above))
                    }
                };
                return Some((first, second, (factor, log)));
            }
        }
    }
    None
}
