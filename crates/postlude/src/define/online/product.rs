//! Products of what a sum's terms are made of, and their sums.
//!
//! In: products, each with at most one exponential, one difference from a maximum or one squared deviation. Out: the sum
//! of all, made of reductions in which no term needs the result of another. Invariant: what is the same for all terms is
//! multiplied to the sum.

use crate::graph::fold::Weighted;
use crate::graph::{Axes, Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::multiplied;

/// A factor, or a divisor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Factor {
    pub(super) node: NodeId,
    pub(super) inverse: bool,
}

/// What stands in a product once.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Special {
    /// `w - max(w)`
    Below(NodeId),
    /// `square(x - mean(x))`
    Deviation(NodeId),
}

/// A product.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Product {
    negative: bool,
    /// The same for all that is folded.
    constants: Vec<Factor>,
    /// Known of every element before anything is finished.
    weights: Vec<Factor>,
    /// `x` of `exp(x - max(x))`, and whether an infinite maximum counts as 0.
    exponent: Option<(NodeId, bool)>,
    special: Option<Special>,
    /// Whether it is 0 where its weight is 0, whatever the other factors are.
    vanishes: bool,
}

impl Product {
    pub(super) fn constant(node: NodeId) -> Product {
        Product { constants: vec![Factor { node, inverse: false }], ..Product::default() }
    }

    pub(super) fn weight(node: NodeId) -> Product {
        Product { weights: vec![Factor { node, inverse: false }], ..Product::default() }
    }

    pub(super) fn exponential(x: NodeId, guarded: bool) -> Product {
        Product { exponent: Some((x, guarded)), ..Product::default() }
    }

    pub(super) fn below(weight: NodeId) -> Product {
        Product { special: Some(Special::Below(weight)), ..Product::default() }
    }

    pub(super) fn deviation(x: NodeId) -> Product {
        Product { special: Some(Special::Deviation(x)), ..Product::default() }
    }

    pub(super) fn has_exponential(&self) -> bool {
        self.exponent.is_some()
    }

    pub(super) fn negated(self) -> Product {
        Product { negative: !self.negative, ..self }
    }

    pub(super) fn vanishing(self, negative: bool) -> Product {
        Product { vanishes: true, negative: self.negative != negative, ..self }
    }

    /// Divided by what is the same for all that is folded.
    pub(super) fn over(mut self, node: NodeId) -> Product {
        self.constants.push(Factor { node, inverse: true });
        self
    }

    /// One over it; `None` where it has more than factors.
    pub(super) fn inverse(&self) -> Option<Product> {
        let plain = self.exponent.is_none() && self.special.is_none();
        let inverse = |factors: &[Factor]| {
            factors.iter().map(|one| Factor { inverse: !one.inverse, ..*one }).collect()
        };
        plain.then(|| Product {
            constants: inverse(&self.constants),
            weights: inverse(&self.weights),
            ..self.clone()
        })
    }

    /// Both; `None` where two exponentials or differences would meet.
    pub(super) fn times(mut self, other: &Product) -> Option<Product> {
        let twice = (self.exponent.is_some() && other.exponent.is_some())
            || (self.special.is_some() && other.special.is_some());
        self.negative ^= other.negative;
        self.constants.extend(&other.constants);
        self.weights.extend(&other.weights);
        self.exponent = self.exponent.or(other.exponent);
        self.special = self.special.or(other.special);
        self.vanishes |= other.vanishes;
        (!twice).then_some(self)
    }
}

/// The sum of all terms' products.
pub(super) fn sum(
    graph: &mut Graph,
    over: Over,
    folded: Axes,
    products: Vec<Product>,
) -> Option<NodeId> {
    let folding = Folding { over, folded };
    let mut total: Option<NodeId> = None;
    for product in products {
        let value = folding.folded(graph, &product)?;
        let op = if product.negative { Binary::Subtract } else { Binary::Add };
        total = Some(match total {
            None if product.negative => graph.make(Op::Unary(Unary::Negate, value)),
            None => value,
            Some(total) => graph.make(Op::Binary(op, total, value)),
        });
    }
    total
}

/// What is folded over what.
#[derive(Clone, Copy)]
struct Folding {
    over: Over,
    folded: Axes,
}

impl Folding {
    /// The sum of a product, but for its sign.
    fn folded(self, graph: &mut Graph, product: &Product) -> Option<NodeId> {
        let mut constants = product.constants.clone();
        let inner = match (product.exponent, product.special) {
            // As the logarithm it shares its exponentials with other folds.
            (Some((x, guarded)), None) if product.weights.is_empty() => {
                if graph.ty(x).axes != self.folded {
                    return None;
                }
                let above = graph.make(Op::Reduce(Fold::LogSumExpAboveMax, self.over, x));
                let total = graph.make(Op::Unary(Unary::Exp, above));
                self.unless_infinite(graph, (x, guarded), true, total)
            }
            (Some((x, guarded)), None) => {
                let weight = multiplied(graph, &product.weights);
                let total = self.weighted(graph, Weighted::Exponentials, x, weight)?;
                self.unless_infinite(graph, (x, guarded), false, total)
            }
            (Some((x, guarded)), Some(Special::Below(weight))) if product.weights.is_empty() => {
                let fold = if weight == x {
                    Weighted::ExponentialsBelowOwnMax
                } else {
                    Weighted::ExponentialsBelowMax
                };
                let total = self.weighted(graph, fold, x, weight)?;
                self.unless_infinite(graph, (x, guarded), false, total)
            }
            (None, Some(Special::Deviation(x))) if product.weights.is_empty() => {
                let one = graph.make(Op::number(1.0));
                self.weighted(graph, Weighted::Deviations, x, one)?
            }
            (None, Some(Special::Below(weight))) => self.below(graph, product, weight)?,
            (None, None) if !product.weights.is_empty() => {
                let weight = multiplied(graph, &product.weights);
                self.plain_sum(graph, weight)?
            }
            (None, None) => graph.make(Op::Extent(self.over.extent(self.folded))),
            (Some(_), Some(_)) | (None, Some(Special::Deviation(_))) => return None,
        };
        let divisor = Factor { node: inner, inverse: true };
        // A sum over itself: of exponentials it is at least 1.
        if let Some(place) = constants.iter().position(|factor| *factor == divisor) {
            constants.remove(place);
            return Some(multiplied(graph, &constants));
        }
        constants.sort_by_key(|factor| factor.inverse);
        let start = Factor { node: inner, inverse: false };
        Some(multiplied(graph, &[vec![start], constants].concat()))
    }

    fn weighted(
        self,
        graph: &mut Graph,
        weighted: Weighted,
        x: NodeId,
        weight: NodeId,
    ) -> Option<NodeId> {
        let own = graph.ty(x).axes == self.folded;
        let op = Op::ReduceWeighted(Fold::Weighted(weighted), self.over, x, weight);
        if !own || graph.type_of(&op).is_err() {
            return None;
        }
        Some(graph.make(op))
    }

    /// `sum(y * (w - max(w)))` as `sum(y * w) - max(w) * sum(y)`.
    fn below(self, graph: &mut Graph, product: &Product, weight: NodeId) -> Option<NodeId> {
        let maximum = graph.make(Op::Reduce(Fold::Max, self.over, weight));
        let (terms, count) = if product.weights.is_empty() {
            (weight, graph.make(Op::Extent(self.over.extent(self.folded))))
        } else {
            let factor = multiplied(graph, &product.weights);
            let mut terms = graph.make(Op::Binary(Binary::Multiply, factor, weight));
            if product.vanishes {
                let zero = graph.make(Op::number(0.0));
                let vanished = graph.make(Op::Binary(Binary::Equal, factor, zero));
                terms = graph.make(Op::Select(vanished, zero, terms));
            }
            (terms, self.plain_sum(graph, factor)?)
        };
        let total = self.plain_sum(graph, terms)?;
        let shift = graph.make(Op::Binary(Binary::Multiply, maximum, count));
        Some(graph.make(Op::Binary(Binary::Subtract, total, shift)))
    }

    fn plain_sum(self, graph: &mut Graph, terms: NodeId) -> Option<NodeId> {
        let own = graph.ty(terms).axes == self.folded;
        own.then(|| graph.make(Op::Reduce(Fold::Sum, self.over, terms)))
    }

    /// What the sum of exponentials relative to 0 is where the maximum is infinite: 0 below all numbers, infinite above.
    fn unless_infinite(
        self,
        graph: &mut Graph,
        (x, guarded): (NodeId, bool),
        alone: bool,
        total: NodeId,
    ) -> NodeId {
        if !guarded {
            return total;
        }
        let maximum = graph.make(Op::Reduce(Fold::Max, self.over, x));
        let infinite = graph.make(Op::Unary(Unary::IsInf, maximum));
        let mut instead = graph.make(Op::Unary(Unary::Exp, maximum));
        if !alone {
            let zero = graph.make(Op::number(0.0));
            instead = graph.make(Op::Binary(Binary::Multiply, instead, zero));
        }
        graph.make(Op::Select(infinite, instead, total))
    }
}
