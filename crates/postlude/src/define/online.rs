//! Sums of values that are relative to their own maximum or mean, as folds of one pass.
//!
//! In: a graph of primitives. Out: the same meaning, in which `sum(w * exp(x - max(x)))`,
//! `sum((w - max(w)) * exp(x - max(x)))` and `sum(square(x - mean(x)))` are reductions of `x` and `w` that rescale what
//! they have folded so far, and sums of products with softmaxes and their logarithms are made of those.
//! Invariant: a kernel is changed only if afterwards no element needs a finished reduction, or if no launch holds what it
//! reduces: rows are held, and folded again, but columns are read again by each launch that folds them.

mod product;

use std::f64::consts::LN_2;

use crate::graph::{Axes, Binary, Fold, Graph, Kind, NodeId, Op, Over, Rewriter, Run, Unary};

use super::views::{Fuel, is, number, scaled, unary, unguarded, varies};
use product::{Factor, Product};

/// The most products that a sum is split into.
const MOST_PRODUCTS: usize = 8;

/// The kernel with such sums folded in one pass, if then no element meets a finished reduction, or if that saves launches.
pub(super) fn fold_online(graph: &Graph) -> Graph {
    if !elements_meet_reductions(graph) {
        return graph.clone();
    }
    let mut finished = Finished::default();
    let folded = Rewriter::rebuild(graph, |new, op| {
        finished.extend(new);
        rewritten(new, &op, &finished).unwrap_or_else(|| new.make(op))
    });
    let held = !reduces_columns(graph);
    if held && elements_meet_reductions(&folded) { graph.clone() } else { folded }
}

/// Whether a kernel without a product reduces along M, and nothing along N alone.
fn reduces_columns(graph: &Graph) -> bool {
    let along_m = |op: &Op| op.reduction().is_none_or(|(_, over, _)| over.row == Some(Run::All));
    graph.products().is_empty() && graph.nodes().all(|(_, node)| along_m(&node.op))
}

/// Whether an element of a tile is computed from a reduction that needs all tiles.
fn elements_meet_reductions(graph: &Graph) -> bool {
    let live = graph.live();
    let mut finished = Finished::default();
    finished.extend(graph);
    graph.nodes().any(|(id, node)| {
        let tile = node.ty.axes.kind() == Kind::Tile;
        live[id.index()] && tile && finished.is(id) && node.op.reduction().is_none()
    })
}

/// Which nodes are made of reductions that tiles do not finish for themselves.
#[derive(Default)]
struct Finished(Vec<bool>);

impl Finished {
    /// Learns about nodes that are new.
    fn extend(&mut self, graph: &Graph) {
        for (_, node) in graph.nodes().skip(self.0.len()) {
            let reduces = node.op.reduction().is_some_and(|(_, over, _)| {
                let in_tile = over.has_runs()
                    && !over.batch
                    && [over.row, over.column].iter().all(|run| *run != Some(Run::All));
                !in_tile
            });
            let inherits = node.op.operands().any(|operand| self.is(operand));
            self.0.push(reduces || matches!(node.op, Op::Pick(..)) || inherits);
        }
    }

    /// Nodes that were made since are asked about by the rules that made them, of what is finished.
    fn is(&self, node: NodeId) -> bool {
        self.0.get(node.index()).copied().unwrap_or(true)
    }
}

/// The sum as folds of one pass.
fn rewritten(graph: &mut Graph, op: &Op, finished: &Finished) -> Option<NodeId> {
    let Op::Reduce(Fold::Sum, over, terms) = *op else { return None };
    let folded = graph.ty(terms).axes;
    let whole = !over.has_runs();
    if !whole || !finished.is(terms) || graph.ty(terms).elem != crate::dtype::Elem::F32 {
        return None;
    }
    let mut splitting =
        Splitting { graph, finished, over, folded, fuel: Fuel::new(), has_shifted: false };
    let products = splitting.split(terms)?;
    // Without an exponential, terms of the size of the maximum would cancel in the sum.
    if splitting.has_shifted && !products.iter().any(Product::has_exponential) {
        return None;
    }
    let value = product::sum(graph, over, folded, products)?;
    let value = zero_of_nothing(graph, over.extent(folded), value);
    (Some(graph.ty(value)) == graph.type_of(op).ok()).then_some(value)
}

/// The sum of no terms is 0, though no maximum and no mean is a number.
fn zero_of_nothing(graph: &mut Graph, folded: Axes, value: NodeId) -> NodeId {
    let (count, zero) = (graph.make(Op::Extent(folded)), graph.make(Op::number(0.0)));
    let none = graph.make(Op::Binary(Binary::Equal, count, zero));
    graph.make(Op::Select(none, zero, value))
}

/// A sum's terms, taken apart into products.
struct Splitting<'a> {
    graph: &'a mut Graph,
    finished: &'a Finished,
    over: Over,
    folded: Axes,
    fuel: Fuel,
    /// Whether a difference from anything but the maximum was taken apart.
    has_shifted: bool,
}

impl Splitting<'_> {
    fn varies(&self, node: NodeId) -> bool {
        varies(self.graph, node, self.over, self.folded)
    }

    /// Whether elements have it before anything is finished, one for each that is folded.
    fn is_free(&self, node: NodeId) -> bool {
        self.varies(node) && !self.finished.is(node)
    }

    /// Whether a node is the maximum of another.
    fn is_maximum(&self, node: NodeId, of: NodeId) -> bool {
        self.graph[node].op == Op::Reduce(Fold::Max, self.over, of)
    }

    /// The products that add up to a value.
    fn split(&mut self, node: NodeId) -> Option<Vec<Product>> {
        self.fuel.burn()?;
        if !self.varies(node) {
            return Some(vec![Product::constant(node)]);
        }
        if self.is_free(node) {
            return Some(vec![Product::weight(node)]);
        }
        match self.graph[node].op {
            Op::Unary(Unary::Negate, a) => {
                Some(self.split(a)?.into_iter().map(Product::negated).collect())
            }
            Op::Unary(Unary::Exp, exponent) => Some(vec![self.exponential(exponent, 1.0)?]),
            Op::Unary(Unary::Exp2, exponent) => Some(vec![self.exponential(exponent, LN_2)?]),
            Op::Binary(Binary::Multiply, a, b) if a == b => match self.deviation(a) {
                Some(x) => Some(vec![Product::deviation(x)]),
                None => self.multiply(a, b),
            },
            Op::Binary(Binary::Multiply, a, b) => self.multiply(a, b),
            Op::Binary(Binary::Divide, a, b) => {
                let above = self.split(a)?;
                let below = match self.split(b)?.as_slice() {
                    [only] => only.inverse()?,
                    _ => return None,
                };
                above.into_iter().map(|product| product.times(&below)).collect()
            }
            Op::Binary(Binary::Add, a, b) => self.add(a, b),
            Op::Binary(Binary::Subtract, a, b) => self.subtract(a, b),
            Op::Select(condition, zero, product) if is(self.graph, zero, 0.0) => {
                self.vanishing(condition, product)
            }
            _ => None,
        }
    }

    fn multiply(&mut self, a: NodeId, b: NodeId) -> Option<Vec<Product>> {
        let (left, right) = (self.split(a)?, self.split(b)?);
        if left.len() * right.len() > MOST_PRODUCTS {
            return None;
        }
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        pairs.map(|(a, b)| a.clone().times(b)).collect()
    }

    fn add(&mut self, a: NodeId, b: NodeId) -> Option<Vec<Product>> {
        let mut all = match (self.is_free(a), self.is_free(b)) {
            (true, false) if !self.varies(b) => return self.shifted(a, b, Binary::Add),
            (false, true) if !self.varies(a) => return self.shifted(b, a, Binary::Add),
            _ => self.split(a)?,
        };
        all.extend(self.split(b)?);
        (all.len() <= MOST_PRODUCTS).then_some(all)
    }

    fn subtract(&mut self, a: NodeId, b: NodeId) -> Option<Vec<Product>> {
        if self.is_free(a) && self.is_maximum(b, a) {
            return Some(vec![Product::below(a)]);
        }
        let mut all = match (self.is_free(a), self.is_free(b)) {
            (true, false) if !self.varies(b) => return self.shifted(a, b, Binary::Subtract),
            (false, true) if !self.varies(a) => {
                let opposite = self.shifted(b, a, Binary::Subtract)?;
                return Some(opposite.into_iter().map(Product::negated).collect());
            }
            _ => self.split(a)?,
        };
        all.extend(self.split(b)?.into_iter().map(Product::negated));
        (all.len() <= MOST_PRODUCTS).then_some(all)
    }

    /// `w + r`, or `w - r`, of what is the same for all that is folded: `w - max(w)` and `max(w) + r`, so that terms of the
    /// size of w meet before they are multiplied. Not where w lacks a dim that is folded.
    fn shifted(&mut self, weight: NodeId, by: NodeId, op: Binary) -> Option<Vec<Product>> {
        let maximum = self.graph.add(Op::Reduce(Fold::Max, self.over, weight)).ok()?;
        let rest = self.graph.add(Op::Binary(op, maximum, by)).ok()?;
        self.has_shifted = true;
        Some(vec![Product::below(weight), Product::constant(rest)])
    }

    /// `exp(x - max(x) - r)`, `exp(x - logsumexp(x))` or the like, where the base's logarithm is a factor.
    fn exponential(&mut self, exponent: NodeId, logarithm: f64) -> Option<Product> {
        self.fuel.burn()?;
        let (factor, inner) = scaled(self.graph, exponent);
        // `exp2(1.442695 * x)`, whose factor is rounded.
        let close = (factor * logarithm - 1.0).abs() <= f64::from(f32::EPSILON);
        let factor = if close { 1.0 } else { factor * logarithm };
        let Op::Binary(Binary::Subtract, a, b) = self.graph[inner].op else { return None };
        if factor != 1.0 {
            // The maximum of a positive multiple is that of the maximum, rounded as its terms are.
            let x = (factor > 0.0 && self.is_free(a) && self.is_maximum(b, a)).then_some(a)?;
            let factor = self.graph.make(Op::number(factor as f32));
            let x = self.graph.make(Op::Binary(Binary::Multiply, factor, x));
            return Some(Product::exponential(x, false));
        }
        if self.is_free(a) {
            if self.is_maximum(b, a) {
                return Some(Product::exponential(a, false));
            }
            if unguarded(self.graph, b).is_some_and(|peak| self.is_maximum(peak, a)) {
                return Some(Product::exponential(a, true));
            }
            if self.graph[b].op == Op::Reduce(Fold::LogSumExp, self.over, a) {
                let above = Op::Reduce(Fold::LogSumExpAboveMax, self.over, a);
                let above = self.graph.make(above);
                return Some(Product::exponential(a, false).over(self.exp(above)));
            }
            return None;
        }
        if !self.varies(b) && self.varies(a) {
            let by = self.exp(b);
            return Some(self.exponential(a, 1.0)?.over(by));
        }
        None
    }

    fn exp(&mut self, of: NodeId) -> NodeId {
        self.graph.make(Op::Unary(Unary::Exp, of))
    }

    /// `x` of `x - mean(x)`.
    fn deviation(&self, node: NodeId) -> Option<NodeId> {
        let Op::Binary(Binary::Subtract, x, mean) = self.graph[node].op else { return None };
        let Op::Binary(Binary::Divide, total, count) = self.graph[mean].op else { return None };
        let own = self.graph[total].op == Op::Reduce(Fold::Sum, self.over, x);
        let all = self.graph[count].op == Op::Extent(self.over.extent(self.folded));
        (self.is_free(x) && own && all).then_some(x)
    }

    /// `where(p == 0 & .., 0, p * log(q))`: what has vanished adds nothing.
    fn vanishing(&mut self, condition: NodeId, product: NodeId) -> Option<Vec<Product>> {
        let (negative, product) = match unary(self.graph, product, Unary::Negate) {
            Some(inner) => (true, inner),
            None => (false, product),
        };
        let Op::Binary(Binary::And, vanished, _) = self.graph[condition].op else { return None };
        let Op::Binary(Binary::Equal, factor, zero) = self.graph[vanished].op else { return None };
        let Op::Binary(Binary::Multiply, a, b) = self.graph[product].op else { return None };
        if number(self.graph, zero) != Some(0.0) || (factor != a && factor != b) {
            return None;
        }
        let products = self.multiply(a, b)?;
        let chosen = products.into_iter().map(|product| product.vanishing(negative));
        Some(chosen.collect())
    }
}

/// Factors as one node.
fn multiplied(graph: &mut Graph, factors: &[Factor]) -> NodeId {
    let mut all: Option<NodeId> = None;
    for Factor { node, inverse } in factors {
        all = Some(match (all, inverse) {
            (None, false) => *node,
            (Some(all), false) => graph.make(Op::Binary(Binary::Multiply, all, *node)),
            (all, true) => {
                let one = graph.make(Op::number(1.0));
                graph.make(Op::Binary(Binary::Divide, all.unwrap_or(one), *node))
            }
        });
    }
    all.unwrap_or_else(|| graph.make(Op::number(1.0)))
}

#[cfg(test)]
mod tests;
