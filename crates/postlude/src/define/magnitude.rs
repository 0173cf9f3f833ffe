//! How large a sum of exponentials may be, and the same sum divided by that.
//!
//! In: a node made of exponentials by sums, choices, reductions and factors. Out: an exponent that none of its terms
//! exceeds ([`peak`]), and the node divided by the power of any exponent ([`shifted`]), whose exponentials then neither
//! overflow nor all vanish. Invariant: both are equal to what they stand for in exact arithmetic.

use std::collections::BTreeSet;
use std::f64::consts::LN_2;

use crate::graph::{Axes, Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::views::{
    Base, Fuel, binary, call, called, called_over, called_with_two, constant, exponent, folds_as,
    is_float, is_peak, multiple, negate, number, text, varies,
};

/// Exponentials of less, to base e or 2, and sums of a few of them are within range.
pub(super) const MOST_EXPONENT: f32 = 80.0;
/// Differences of exponents of more have no correct digit left.
const HOPELESS_EXPONENT: f32 = 1e6;

/// The base of the exponentials that may make a value overflow; `None` where there is none.
pub(super) fn base_of(graph: &Graph, node: NodeId, fuel: &mut Fuel) -> Option<Base> {
    fuel.burn()?;
    if !is_float(graph, node) {
        return None;
    }
    let mut either = |a: NodeId, b: NodeId| match (base_of(graph, a, fuel), base_of(graph, b, fuel))
    {
        (Some(a), Some(b)) => Some(a.join(b)),
        (a, b) => a.or(b),
    };
    match graph[node].op {
        Op::Unary(Unary::Exp | Unary::Exp2, x) if is_shifted(graph, x) => None,
        Op::Unary(Unary::Exp | Unary::Expm1, _) => Some(Base::Natural),
        Op::Unary(Unary::Exp2, _) => Some(Base::Two),
        Op::Unary(Unary::Sqrt, a) => base_of(graph, a, fuel),
        Op::Binary(
            Binary::Add | Binary::Subtract | Binary::Multiply | Binary::Maximum | Binary::Minimum,
            a,
            b,
        )
        | Op::Select(_, a, b)
        | Op::Merge(_, a, b) => either(a, b),
        Op::Binary(Binary::Divide, a, _)
        | Op::Unary(Unary::Negate, a)
        | Op::Reduce(Fold::Sum | Fold::Max | Fold::Min, _, a)
        | Op::Pick(a, _)
        | Op::Part(_, a) => base_of(graph, a, fuel),
        Op::Concat(_, ref parts) => {
            parts.iter().filter_map(|part| base_of(graph, *part, fuel)).reduce(Base::join)
        }
        Op::Call(ref call, ref arguments) => match call.function {
            "unless_out_of_range" => base_of(graph, arguments[0], fuel),
            "exp_of_difference"
            | "exp_of_sum"
            | "exp_of_product"
            | "exp_difference"
            | "exp_difference_over"
            | "sum_of_other_exps" => Some(Base::Natural),
            "exp2_difference" | "exp2_difference_over" | "exp2m1" => Some(Base::Two),
            _ => None,
        },
        Op::Accumulator(_)
        | Op::Input(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Size(_)
        | Op::Unary(..)
        | Op::Binary(..)
        | Op::Fma(..)
        | Op::Cast(..)
        | Op::Round(..)
        | Op::Philox(_)
        | Op::Take(..)
        | Op::Entry(..)
        | Op::Reduce(..)
        | Op::ReduceWeighted(..) => None,
    }
}

fn is_shifted(graph: &Graph, x: NodeId) -> bool {
    matches!(graph[x].op, Op::Binary(Binary::Subtract, _, peak) if is_peak(graph, peak))
        || called(graph, x, "log_softmax").is_some()
}

/// Arithmetic on exponents of one base.
pub(super) struct Powers {
    pub(super) base: Base,
    pub(super) fuel: Fuel,
    /// Whether some exponent was left out of a peak because its weight may be 0.
    weighted: bool,
    /// How many reductions the value lies within that a peak is asked of.
    reductions: u32,
}

impl Powers {
    pub(super) fn new(base: Base) -> Powers {
        Powers { base, fuel: Fuel::new(), weighted: false, reductions: 0 }
    }

    /// Whether it has; `None` where that would take too long to say.
    fn has_exponentials(&mut self, graph: &Graph, node: NodeId) -> Option<bool> {
        let found = base_of(graph, node, &mut self.fuel).is_some();
        self.fuel.burn()?;
        Some(found)
    }

    /// The exponent of an exponential, in this base.
    pub(super) fn exponent(&self, graph: &mut Graph, node: NodeId) -> Option<NodeId> {
        let (base, x) = exponent(graph, node)?;
        Some(if base == self.base { x } else { multiple(graph, LN_2, x) })
    }

    pub(super) fn power(&self, graph: &mut Graph, x: NodeId) -> NodeId {
        graph.make(Op::Unary(self.base.function(), x))
    }

    /// The two exponents of `power(a) - power(b)`.
    fn exponents_of_difference(&self, graph: &mut Graph, node: NodeId) -> Option<(NodeId, NodeId)> {
        let zero = constant(graph, 0.0);
        let natural = match graph[node].op {
            Op::Unary(Unary::Expm1, x) => Some((x, zero)),
            _ => called_with_two(graph, node, "exp_difference"),
        };
        if let Some(pair) = natural {
            return (self.base == Base::Natural).then_some(pair);
        }
        let (a, b) = match &graph[node].op {
            Op::Call(call, arguments) if call.function == "exp2m1" => (arguments[0], zero),
            _ => called_with_two(graph, node, "exp2_difference")?,
        };
        Some(if self.base == Base::Two {
            (a, b)
        } else {
            (multiple(graph, LN_2, a), multiple(graph, LN_2, b))
        })
    }

    /// An exponent that no exponential in the value exceeds; 0 for what has none, minus infinity for 0.
    pub(super) fn peak(&mut self, graph: &mut Graph, node: NodeId) -> Option<NodeId> {
        self.fuel.burn()?;
        if !self.has_exponentials(graph, node)? {
            let value = if number(graph, node) == Some(0.0) { f32::NEG_INFINITY } else { 0.0 };
            return Some(constant(graph, value));
        }
        if let Some(x) = self.exponent(graph, node) {
            return Some(x);
        }
        if let Some((a, b)) = self.exponents_of_difference(graph, node) {
            return Some(binary(graph, Binary::Maximum, a, b));
        }
        match graph[node].op.clone() {
            Op::Unary(Unary::Negate, a) => self.peak(graph, a),
            Op::Binary(Binary::Divide, a, b) => {
                self.may_weigh(graph, b)?;
                let inner = self.peak(graph, a)?;
                Some(self.peak_of_multiple(graph, inner, number(graph, b).map(|b| 1.0 / b)))
            }
            Op::Binary(Binary::Multiply, a, b) => {
                match (self.has_exponentials(graph, a)?, self.has_exponentials(graph, b)?) {
                    (true, true) => {
                        let (a, b) = (self.peak(graph, a)?, self.peak(graph, b)?);
                        Some(binary(graph, Binary::Add, a, b))
                    }
                    (true, false) => self.peak_of_weighted(graph, a, b),
                    (false, _) => self.peak_of_weighted(graph, b, a),
                }
            }
            // The smaller of two exponentials has the smaller exponent.
            Op::Binary(Binary::Minimum, a, b)
                if exponent(graph, a).is_some() && exponent(graph, b).is_some() =>
            {
                let (a, b) = (self.peak(graph, a)?, self.peak(graph, b)?);
                Some(binary(graph, Binary::Minimum, a, b))
            }
            // A minimum, and a maximum beside a negative sum, may choose a value far below the largest exponential.
            Op::Binary(Binary::Minimum, ..) => None,
            Op::Binary(Binary::Maximum, a, b)
                if !self.is_positive(graph, a) || !self.is_positive(graph, b) =>
            {
                None
            }
            Op::Binary(Binary::Add | Binary::Subtract | Binary::Maximum, a, b) => {
                let (a, b) = (self.peak(graph, a)?, self.peak(graph, b)?);
                Some(binary(graph, Binary::Maximum, a, b))
            }
            Op::Unary(Unary::Sqrt, a) => {
                let inner = self.peak(graph, a)?;
                Some(multiple(graph, 0.5, inner))
            }
            Op::Select(condition, a, b) => {
                let (a, b) = (self.peak(graph, a)?, self.peak(graph, b)?);
                Some(graph.make(Op::Select(condition, a, b)))
            }
            Op::Reduce(fold, over, terms) => self.peak_of_reduction(graph, fold, over, terms),
            Op::Call(..) => {
                if let Some(text) = text(graph, node) {
                    return self.peak(graph, text);
                }
                let (over, x) = called_over(graph, node, "sum_of_other_exps")?;
                Some(graph.make(Op::Reduce(Fold::Max, over, x)))
            }
            Op::Pick(of, index) => self.peak_of_some(graph, of, |peak| Op::Pick(peak, index)),
            Op::Part(part, of) => self.peak_of_some(graph, of, |peak| Op::Part(part, peak)),
            Op::Merge(merge, a, b) => {
                let (a, b) = (self.peak(graph, a)?, self.peak(graph, b)?);
                graph.add(Op::Merge(merge, a, b)).ok()
            }
            Op::Concat(concat, ref parts) => {
                let parts = parts.clone().into_iter();
                let peaks = parts.map(|part| self.peak(graph, part)).collect::<Option<_>>()?;
                graph.add(Op::Concat(concat, peaks)).ok()
            }
            _ => None,
        }
    }

    /// Whether a value is an exponential or has none, so that a maximum does not pass its exponentials over.
    fn is_positive(&mut self, graph: &mut Graph, node: NodeId) -> bool {
        exponent(graph, node).is_some() || self.has_exponentials(graph, node) == Some(false)
    }

    /// The peak of some columns of a value; one that is the same for all of them is theirs.
    fn peak_of_some(
        &mut self,
        graph: &mut Graph,
        of: NodeId,
        taken: impl FnOnce(NodeId) -> Op,
    ) -> Option<NodeId> {
        let peak = self.peak(graph, of)?;
        let axes = graph.ty(peak).axes;
        if axes.column.is_none() {
            return Some(peak);
        }
        (axes == graph.ty(of).axes).then(|| graph.make(taken(peak)))
    }

    /// The largest exponent of what is reduced; the smallest of a minimum of exponentials.
    fn peak_of_reduction(
        &mut self,
        graph: &mut Graph,
        fold: Fold,
        over: Over,
        terms: NodeId,
    ) -> Option<NodeId> {
        let folded = graph.ty(terms).axes;
        let least = fold == Fold::Min && exponent(graph, terms).is_some();
        self.reductions += 1;
        let inner = self.peak(graph, terms);
        self.reductions -= 1;
        let inner = inner?;
        if !varies(graph, inner, over, folded) {
            return Some(inner);
        }
        let extreme = if least { Fold::Min } else { Fold::Max };
        folds_as(graph, inner, over, folded).then(|| graph.make(Op::Reduce(extreme, over, inner)))
    }

    /// The largest exponent of terms with a weight: what has none does not count, however large it is.
    fn peak_of_weighted(
        &mut self,
        graph: &mut Graph,
        terms: NodeId,
        weight: NodeId,
    ) -> Option<NodeId> {
        let inner = self.peak(graph, terms)?;
        if is_known_size(graph, weight) {
            return Some(self.peak_of_multiple(graph, inner, number(graph, weight)));
        }
        self.may_weigh(graph, weight)?;
        self.weighted = true;
        let (zero, least) = (constant(graph, 0.0), constant(graph, f32::NEG_INFINITY));
        let nothing = binary(graph, Binary::Equal, weight, zero);
        Some(graph.make(Op::Select(nothing, least, inner)))
    }

    /// Whether a peak may leave this factor out: any factor of the terms of a reduction, which are of one size, but beside
    /// another summand only a constant. A term may be small for all of its exponent, and what is added to it would vanish.
    fn may_weigh(&self, graph: &Graph, factor: NodeId) -> Option<()> {
        (is_known_size(graph, factor) || self.reductions > 0).then_some(())
    }

    /// The peak of a multiple: a factor far from 1 is a power of its own.
    fn peak_of_multiple(&self, graph: &mut Graph, peak: NodeId, factor: Option<f32>) -> NodeId {
        let power = factor.map_or(0.0, |factor| match self.base {
            Base::Natural => factor.abs().ln(),
            Base::Two => factor.abs().log2(),
        });
        if !power.is_finite() || power.abs() < 10.0 {
            return peak;
        }
        let power = constant(graph, power);
        binary(graph, Binary::Add, peak, power)
    }

    /// A power that may overflow where its weight is 0, so that their product is 0 there; nan stays nan.
    pub(super) fn finite_where_zero(
        &self,
        graph: &mut Graph,
        power: NodeId,
        weight: NodeId,
    ) -> NodeId {
        if !self.weighted || is_known_size(graph, weight) {
            return power;
        }
        let (zero, one) = (constant(graph, 0.0), constant(graph, 1.0));
        let nothing = binary(graph, Binary::Equal, weight, zero);
        let small = binary(graph, Binary::Minimum, power, one);
        graph.make(Op::Select(nothing, small, power))
    }

    /// [`Powers::peak`], 0 where it is infinite: what is left is then what the naive form would give. A sum of single values
    /// is shifted only where its exponentials are out of range.
    pub(super) fn finite_peak(&mut self, graph: &mut Graph, node: NodeId) -> Option<NodeId> {
        let peak = self.bounded_peak(graph, node)?;
        if reduces(graph, peak) {
            return Some(peak);
        }
        let (least, zero) = (constant(graph, MOST_EXPONENT), constant(graph, 0.0));
        let size = graph.make(Op::Unary(Unary::Abs, peak));
        let is_out_of_range = binary(graph, Binary::LessEqual, least, size);
        Some(graph.make(Op::Select(is_out_of_range, peak, zero)))
    }

    /// The peak, 0 where a shift by it is of no use.
    fn bounded_peak(&mut self, graph: &mut Graph, node: NodeId) -> Option<NodeId> {
        let peak = self.peak(graph, node)?;
        let zero = constant(graph, 0.0);
        if reduces(graph, peak) {
            let infinite = graph.make(Op::Unary(Unary::IsInf, peak));
            return Some(graph.make(Op::Select(infinite, zero, peak)));
        }
        let (most, size) =
            (constant(graph, HOPELESS_EXPONENT), graph.make(Op::Unary(Unary::Abs, peak)));
        let is_of_use = binary(graph, Binary::Less, size, most);
        Some(graph.make(Op::Select(is_of_use, peak, zero)))
    }

    /// The value divided by the power of `by`.
    pub(super) fn shifted(
        &mut self,
        graph: &mut Graph,
        node: NodeId,
        by: NodeId,
    ) -> Option<NodeId> {
        self.fuel.burn()?;
        if !self.has_exponentials(graph, node)? {
            return Some(self.shifted_plain(graph, node, by));
        }
        if let Some(x) = self.exponent(graph, node) {
            let x = binary(graph, Binary::Subtract, x, by);
            return Some(self.power(graph, x));
        }
        if let Some((a, b)) = self.exponents_of_difference(graph, node) {
            let function = match self.base {
                Base::Natural => "exp_difference_over",
                Base::Two => "exp2_difference_over",
            };
            return Some(call(graph, function, None, &[a, b, by]));
        }
        let columns = graph.ty(by).axes.column.is_some();
        match graph[node].op {
            Op::Unary(Unary::Negate, a) => {
                let a = self.shifted(graph, a, by)?;
                Some(negate(graph, a))
            }
            Op::Binary(Binary::Divide, a, b) => {
                let a = self.shifted(graph, a, by)?;
                Some(binary(graph, Binary::Divide, a, b))
            }
            Op::Binary(Binary::Multiply, a, b) => self.shifted_product(graph, a, b, by),
            Op::Binary(
                op @ (Binary::Add | Binary::Subtract | Binary::Maximum | Binary::Minimum),
                a,
                b,
            ) => {
                let (a, b) = (self.shifted(graph, a, by)?, self.shifted(graph, b, by)?);
                Some(binary(graph, op, a, b))
            }
            Op::Unary(Unary::Sqrt, a) => {
                let double = multiple(graph, 2.0, by);
                let inner = self.shifted(graph, a, double)?;
                Some(graph.make(Op::Unary(Unary::Sqrt, inner)))
            }
            Op::Call(..) => self.shifted_call(graph, node, by),
            Op::Select(condition, a, b) => {
                let (a, b) = (self.shifted(graph, a, by)?, self.shifted(graph, b, by)?);
                Some(graph.make(Op::Select(condition, a, b)))
            }
            Op::Reduce(fold, over, terms) => {
                let folded = graph.ty(terms).axes;
                if varies(graph, by, over, folded) {
                    return None;
                }
                let terms = self.shifted(graph, terms, by)?;
                same_axes(graph, terms, folded).then(|| graph.make(Op::Reduce(fold, over, terms)))
            }
            Op::Pick(of, index) if !columns => {
                let inner = self.shifted(graph, of, by)?;
                Some(graph.make(Op::Pick(inner, index)))
            }
            Op::Part(part, of) if !columns => {
                let inner = self.shifted(graph, of, by)?;
                Some(graph.make(Op::Part(part, inner)))
            }
            Op::Merge(merge, a, b) if !columns => {
                let (a, b) = (self.shifted(graph, a, by)?, self.shifted(graph, b, by)?);
                graph.add(Op::Merge(merge, a, b)).ok()
            }
            Op::Concat(concat, ref parts) if !columns => {
                let parts = parts.clone();
                let shifted: Option<Vec<NodeId>> =
                    parts.iter().map(|part| self.shifted(graph, *part, by)).collect();
                graph.add(Op::Concat(concat, shifted?)).ok()
            }
            _ => None,
        }
    }

    /// A value without exponentials, divided by the power of `by`.
    fn shifted_plain(&self, graph: &mut Graph, node: NodeId, by: NodeId) -> NodeId {
        if number(graph, node) == Some(0.0) {
            return node;
        }
        let opposite = negate(graph, by);
        let power = self.power(graph, opposite);
        if number(graph, node) == Some(1.0) {
            power
        } else {
            binary(graph, Binary::Multiply, node, power)
        }
    }

    /// A sum of exponentials without one of them, each divided, or a product that was rewritten before.
    fn shifted_call(&mut self, graph: &mut Graph, node: NodeId, by: NodeId) -> Option<NodeId> {
        if let Some(text) = text(graph, node) {
            return self.shifted(graph, text, by);
        }
        let (over, x) = called_over(graph, node, "sum_of_other_exps")?;
        let axes = graph.ty(x).axes;
        if self.base != Base::Natural || varies(graph, by, over, axes) {
            return None;
        }
        let x = binary(graph, Binary::Subtract, x, by);
        same_axes(graph, x, axes).then(|| call(graph, "sum_of_other_exps", Some(over), &[x]))
    }

    fn shifted_product(
        &mut self,
        graph: &mut Graph,
        a: NodeId,
        b: NodeId,
        by: NodeId,
    ) -> Option<NodeId> {
        let (a, b) = match (self.has_exponentials(graph, a)?, self.has_exponentials(graph, b)?) {
            (true, true) => {
                let peak = self.bounded_peak(graph, a)?;
                let rest = binary(graph, Binary::Subtract, by, peak);
                (self.shifted(graph, a, peak)?, self.shifted(graph, b, rest)?)
            }
            (true, false) => {
                let power = self.shifted(graph, a, by)?;
                (self.finite_where_zero(graph, power, b), b)
            }
            (false, _) => {
                let power = self.shifted(graph, b, by)?;
                (a, self.finite_where_zero(graph, power, a))
            }
        };
        Some(binary(graph, Binary::Multiply, a, b))
    }
}

/// Whether a factor is neither far below nor far above 1 where it is not 0, or a constant.
fn is_known_size(graph: &Graph, factor: NodeId) -> bool {
    number(graph, factor).is_some()
        || matches!(graph[factor].op, Op::Extent(_) | Op::Unary(Unary::Sign, _))
}

/// Whether a peak is one of reduced values.
pub(super) fn reduces(graph: &Graph, peak: NodeId) -> bool {
    let mut left = vec![peak];
    let mut seen = BTreeSet::new();
    while let Some(node) = left.pop() {
        if matches!(graph[node].op, Op::Reduce(..)) {
            return true;
        }
        if seen.insert(node) {
            left.extend(graph[node].op.operands());
        }
    }
    false
}

fn same_axes(graph: &Graph, node: NodeId, axes: Axes) -> bool {
    graph.ty(node).axes == axes
}
