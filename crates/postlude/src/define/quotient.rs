//! Products and quotients of exponentials and of their sums, divided by what would make them overflow.
//!
//! In: a product or quotient. Out: the same with every sum of exponentials shifted by its largest exponent and the shifts
//! taken together, `sigmoid`, `tanh` and `softmax` where it is one. Invariant: special values are the same as in the
//! naive form where that does not overflow.

use crate::graph::{Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::magnitude::{Powers, base_of, reduces};
use super::stabilise::stabilise;
use super::views::{
    Base, Fuel, are_opposite, binary, call, called, called_with_two, constant, difference,
    exponent, is_float, multiple, negate, number, text, unary,
};

/// The factors of a product: factors with exponentials, and the others.
#[derive(Default)]
struct Factors {
    above: Vec<NodeId>,
    below: Vec<NodeId>,
    other_above: Vec<NodeId>,
    other_below: Vec<NodeId>,
    /// Sums below that were divided by their largest exponential.
    shifted_below: Vec<NodeId>,
    negative: bool,
}

/// Products and quotients of exponentials and their sums.
pub(super) fn quotient_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let mut fuel = Fuel::new();
    let mut factors = Factors::default();
    match *op {
        Op::Binary(Binary::Multiply, a, b) if is_float(graph, a) && splits(graph, a, b) => {
            factors.gather(graph, a, false, &mut fuel)?;
            factors.gather(graph, b, false, &mut fuel)?;
        }
        Op::Binary(Binary::Divide, a, b) => {
            factors.gather(graph, a, false, &mut fuel)?;
            factors.gather(graph, b, true, &mut fuel)?;
        }
        Op::Unary(Unary::Rcp, a) => factors.gather(graph, a, true, &mut fuel)?,
        _ => return None,
    }
    if factors.above.is_empty() && factors.below.is_empty() {
        return None;
    }
    let found = factors.take_opposites(graph) | factors.take_sigmoids(graph);
    let node = if found && factors.above.is_empty() && factors.below.is_empty() {
        Some(factors.node(graph))
    } else {
        factors.cancel(graph, op, found)
    }?;
    let wanted = graph.type_of(op).ok()?;
    (graph.ty(node) == wanted).then_some(node)
}

/// The product of exponentials is the exponential of a sum, where partial products might overflow or vanish.
pub(super) fn product_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::Prod, over, terms) = *op else { return None };
    let (base, x) = exponent(graph, terms)?;
    if graph.ty(x) != graph.ty(terms) {
        return None;
    }
    let size = graph.make(Op::Unary(Unary::Abs, x));
    let (size, total) =
        (graph.make(Op::Reduce(Fold::Sum, over, size)), graph.make(Op::Reduce(Fold::Sum, over, x)));
    let most = constant(graph, 80.0);
    let safe = binary(graph, Binary::Less, size, most);
    let plain = graph.make(op.clone());
    let whole = graph.make(Op::Unary(base.function(), total));
    Some(graph.make(Op::Select(safe, plain, whole)))
}

/// `exp(x)` of a power, root or reciprocal of an exponential.
pub(super) fn power_of_exponential(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    if let Op::Binary(Binary::Pow, a, b) = *op {
        return power_with_constant(graph, a, b);
    }
    let (of, factor) = match *op {
        Op::Unary(Unary::Sqrt, a) => (a, 0.5),
        Op::Unary(Unary::Rsqrt, a) => (a, -0.5),
        Op::Unary(Unary::Rcp, a) => (a, -1.0),
        Op::Binary(Binary::Multiply, a, b) if a == b => (a, 2.0),
        _ => return None,
    };
    let Op::Unary(function @ (Unary::Exp | Unary::Exp2), x) = graph[of].op else { return None };
    let x = multiple(graph, factor, x);
    Some(graph.make(Op::Unary(function, x)))
}

/// `pow(exp(x), c)`, and `pow(2, x)`.
fn power_with_constant(graph: &mut Graph, a: NodeId, b: NodeId) -> Option<NodeId> {
    if number(graph, a) == Some(2.0) {
        return Some(graph.make(Op::Unary(Unary::Exp2, b)));
    }
    let power = number(graph, b).filter(|power| power.is_finite() && *power != 0.0)?;
    let Op::Unary(function @ (Unary::Exp | Unary::Exp2), x) = graph[a].op else { return None };
    let exact = power.abs().log2().fract() == 0.0;
    if exact || function == Unary::Exp2 {
        let x = multiple(graph, f64::from(power), x);
        return Some(graph.make(Op::Unary(function, x)));
    }
    let power = constant(graph, power);
    Some(call(graph, "exp_of_product", None, &[power, x]))
}

/// The largest exponent of a sum, and the logarithm of the sum divided by its power.
pub(super) fn log_of_weighted_sum(
    graph: &mut Graph,
    over: Over,
    terms: NodeId,
) -> Option<(NodeId, NodeId)> {
    base_of(graph, terms, &mut Fuel::new())?;
    let sum = graph.make(Op::Reduce(Fold::Sum, over, terms));
    let mut powers = Powers::new(Base::Natural);
    let peak = powers.finite_peak(graph, sum)?;
    let rest = powers.shifted(graph, sum, peak)?;
    Some((peak, stabilise(graph, Op::Unary(Unary::Log, rest))))
}

/// The exponents of `exp(a) + exp(b)`, 0 for a 1.
fn exponents_of_sum(graph: &mut Graph, node: NodeId) -> Option<(NodeId, NodeId)> {
    let Op::Binary(Binary::Add, a, b) = graph[node].op else { return None };
    let mut side = |node: NodeId| {
        if number(graph, node) == Some(1.0) {
            return Some(constant(graph, 0.0));
        }
        exponent(graph, node).filter(|(base, _)| *base == Base::Natural).map(|(_, x)| x)
    };
    let (a, b) = (side(a)?, side(b)?);
    (number(graph, a) != Some(0.0) || number(graph, b) != Some(0.0)).then_some((a, b))
}

/// The exponents of `exp(a) - exp(b)`, 0 for a 1.
fn exponents_of_difference(graph: &mut Graph, node: NodeId) -> Option<(NodeId, NodeId)> {
    match unary(graph, node, Unary::Expm1) {
        Some(x) => Some((x, constant(graph, 0.0))),
        None => called_with_two(graph, node, "exp_difference"),
    }
}

impl Factors {
    fn gather(&mut self, graph: &Graph, node: NodeId, below: bool, fuel: &mut Fuel) -> Option<()> {
        fuel.burn()?;
        let node = text(graph, node).unwrap_or(node);
        let mut holds = |node: NodeId| holds_exponentials(graph, node, fuel);
        match graph[node].op {
            Op::Unary(Unary::Negate, a) if holds(a) => {
                self.negative = !self.negative;
                self.gather(graph, a, below, fuel)
            }
            Op::Unary(Unary::Rcp, a) if holds(a) => self.gather(graph, a, !below, fuel),
            Op::Binary(Binary::Multiply, a, b) if splits(graph, a, b) && (holds(a) || holds(b)) => {
                self.gather(graph, a, below, fuel)?;
                self.gather(graph, b, below, fuel)
            }
            Op::Binary(Binary::Divide, a, b) if holds(a) || holds(b) => {
                self.gather(graph, a, below, fuel)?;
                self.gather(graph, b, !below, fuel)
            }
            _ => {
                let list = match (base_of(graph, node, fuel).is_some(), below) {
                    (true, false) => &mut self.above,
                    (true, true) => &mut self.below,
                    (false, false) => &mut self.other_above,
                    (false, true) => &mut self.other_below,
                };
                list.push(node);
                Some(())
            }
        }
    }

    /// Takes `exp(-x) * sigmoid(x)` and `expm1(-x) * sigmoid(x)` together; whether any was found.
    fn take_opposites(&mut self, graph: &mut Graph) -> bool {
        let mut found = false;
        for place in (0..self.other_above.len()).rev() {
            let Some(x) = called(graph, self.other_above[place], "sigmoid") else { continue };
            let made = self.above.iter().enumerate().find_map(|(index, &factor)| {
                if let Some(y) = unary(graph, factor, Unary::Expm1) {
                    let half = are_opposite(graph, x, y).then(|| multiple(graph, 0.5, y))?;
                    return Some((index, graph.make(Op::Unary(Unary::Tanh, half))));
                }
                let (base, y) = exponent(graph, factor)?;
                (base == Base::Natural && are_opposite(graph, x, y))
                    .then(|| (index, call(graph, "sigmoid", None, &[y])))
            });
            if let Some((index, node)) = made {
                self.above.remove(index);
                self.other_above[place] = node;
                found = true;
            }
        }
        found
    }

    /// Takes out pairs that are a sigmoid or a tanh; whether any was found.
    fn take_sigmoids(&mut self, graph: &mut Graph) -> bool {
        let mut found = false;
        for place in (0..self.below.len()).rev() {
            let Some((a, b)) = exponents_of_sum(graph, self.below[place]) else { continue };
            let made = self.above.iter().enumerate().find_map(|(index, &factor)| {
                if let Some((up, down)) = exponents_of_difference(graph, factor) {
                    let sign = match (up, down) {
                        pair if pair == (a, b) => 0.5,
                        pair if pair == (b, a) => -0.5,
                        _ => return None,
                    };
                    let whole = difference(graph, a, b);
                    let half = multiple(graph, sign, whole);
                    return Some((index, graph.make(Op::Unary(Unary::Tanh, half))));
                }
                let (base, x) = exponent(graph, factor)?;
                let other = match x {
                    _ if base != Base::Natural => return None,
                    x if x == a => b,
                    x if x == b => a,
                    _ => return None,
                };
                let x = difference(graph, x, other);
                Some((index, call(graph, "sigmoid", None, &[x])))
            });
            if let Some((index, node)) = made {
                self.above.remove(index);
                self.below.remove(place);
                self.other_above.push(node);
                found = true;
            }
        }
        self.take_reciprocals(graph, found) || found
    }

    /// `c / (1 + exp(x))` is `c * sigmoid(-x)` where that is exact, or where it stands beside other such functions.
    fn take_reciprocals(&mut self, graph: &mut Graph, found: bool) -> bool {
        let exact = |factor: &NodeId| {
            number(graph, *factor)
                .is_some_and(|value| value != 0.0 && value.abs().log2().fract() == 0.0)
        };
        let alone = self.above.is_empty()
            && self.below.len() == 1
            && self.other_below.is_empty()
            && self.other_above.iter().all(exact);
        if !alone && !found {
            return false;
        }
        let mut taken = false;
        for place in (0..self.below.len()).rev() {
            let Some((a, b)) = exponents_of_sum(graph, self.below[place]) else { continue };
            let x = match (number(graph, a) == Some(0.0), number(graph, b) == Some(0.0)) {
                (true, _) => b,
                (_, true) => a,
                (false, false) => continue,
            };
            let opposite = negate(graph, x);
            let node = call(graph, "sigmoid", None, &[opposite]);
            self.below.remove(place);
            self.other_above.push(node);
            taken = true;
        }
        taken
    }

    /// Shifts what is left by its largest exponents, if the shifts can cancel.
    fn cancel(mut self, graph: &mut Graph, op: &Op, found: bool) -> Option<NodeId> {
        let pure = |graph: &mut Graph, nodes: &[NodeId]| {
            nodes.iter().filter(|node| exponent(graph, **node).is_some()).count()
        };
        let both = !self.above.is_empty() && !self.below.is_empty();
        let product = self.above.len() > 1 && pure(graph, &self.above) > 0;
        // A quotient by one exponential is out of range no sooner than its product with the reciprocal.
        let reciprocal =
            pure(graph, &self.below) > 0 && (self.below.len() > 1 || self.has_no_others(graph));
        if !both && !product && !reciprocal {
            return found.then(|| {
                self.other_above.append(&mut self.above);
                self.other_below.append(&mut self.below);
                self.node(graph)
            });
        }
        if let Some(node) = self.take_softmax(graph) {
            return Some(node);
        }
        if self.is_balanced(graph, op) {
            return None;
        }
        let fuel = &mut Fuel::new();
        let base = (self.above.iter().chain(&self.below))
            .filter_map(|node| base_of(graph, *node, fuel))
            .reduce(Base::join)?;
        let mut powers = Powers::new(base);
        let mut plus: Vec<NodeId> = Vec::new();
        let mut minus: Vec<NodeId> = Vec::new();
        let mut shifts: Vec<NodeId> = Vec::new();
        for node in std::mem::take(&mut self.below) {
            if let Some(x) = powers.exponent(graph, node) {
                minus.push(x);
            } else {
                let peak = powers.finite_peak(graph, node)?;
                self.shifted_below.push(powers.shifted(graph, node, peak)?);
                shifts.push(peak);
            }
        }
        let below = shifts.clone();
        let shifted_above = self.shift_above(graph, &mut powers, &mut plus, &mut shifts)?;
        let rows = any_row(graph, plus.iter().chain(&minus).chain(&below));
        minus.extend(shifts);
        let has_sums = !shifted_above.is_empty() || !self.shifted_below.is_empty();
        // The power that the shifts of rows leave is in range where its product with the shifted sums is, but for a product
        // of both above.
        let in_range = if rows {
            shifted_above.is_empty() || plus.is_empty() || !minus.is_empty()
        } else {
            !has_sums
        };
        if self.has_no_others(graph) && in_range {
            self.other_above.splice(0..0, shifted_above);
            if let Some(power) = power_of(graph, &powers, &plus, &minus) {
                let power = (self.other_above.iter())
                    .fold(power, |power, weight| powers.finite_where_zero(graph, power, *weight));
                self.other_above.insert(0, power);
            }
            return Some(self.node(graph));
        }
        let whole = self.halved(graph, &mut powers, [&plus, &minus], shifted_above);
        Some(if rows { whole } else { unless_out_of_range(graph, op, whole) })
    }

    /// The factors above divided by the power of a shift of a sum below or of their own exponents, which are added to `plus`.
    fn shift_above(
        &mut self,
        graph: &mut Graph,
        powers: &mut Powers,
        plus: &mut Vec<NodeId>,
        shifts: &mut Vec<NodeId>,
    ) -> Option<Vec<NodeId>> {
        let mut shifted_above: Vec<NodeId> = Vec::new();
        // Other factors might make good what vanishes under a shift that is not a sum's own.
        let alone = self.above.len() == 1 && self.has_no_others(graph);
        let rows = any_row(graph, shifts.iter());
        for node in std::mem::take(&mut self.above) {
            if let Some(x) = powers.exponent(graph, node) {
                plus.push(x);
                continue;
            }
            // What is left of a row's shift beside an exponential of its own might overflow: those are taken together.
            let own = if alone && rows { None } else { powers.finite_peak(graph, node) };
            let paired = (0..shifts.len())
                .filter(|_| alone && own.is_none())
                .find_map(|place| Some((place, powers.shifted(graph, node, shifts[place])?)));
            if let Some((place, shifted)) = paired {
                shifts.remove(place);
                shifted_above.insert(0, shifted);
            } else {
                let peak = own.or_else(|| powers.finite_peak(graph, node))?;
                shifted_above.insert(0, powers.shifted(graph, node, peak)?);
                plus.push(peak);
            }
        }
        Some(shifted_above)
    }

    /// The product with half of the exponent on either side.
    fn halved(
        self,
        graph: &mut Graph,
        powers: &mut Powers,
        [plus, minus]: [&[NodeId]; 2],
        shifted_above: Vec<NodeId>,
    ) -> NodeId {
        let halved = |graph: &mut Graph, terms: &[NodeId]| -> Vec<NodeId> {
            terms.iter().map(|term| multiple(graph, 0.5, *term)).collect()
        };
        let (plus, minus) = (halved(graph, plus), halved(graph, minus));
        let root = power_of(graph, powers, &plus, &minus);
        let mut weights = shifted_above.clone();
        weights.extend(&self.other_above);
        let root = root.map(|root| {
            weights.iter().fold(root, |root, weight| powers.finite_where_zero(graph, root, *weight))
        });
        self.balanced(graph, root, shifted_above)
    }

    /// Whether the operation multiplies an exponential by a multiple of it, which is in range where the whole is.
    fn is_balanced(&self, graph: &Graph, op: &Op) -> bool {
        let is_constant = |node: &NodeId| number(graph, *node).is_some();
        matches!((&self.above[..], op), ([a, b], Op::Binary(Binary::Multiply, c, d)) if a == b && (a == c || a == d))
            && self.below.is_empty()
            && self.other_above.iter().chain(&self.other_below).all(is_constant)
    }

    /// Whether nothing but exponentials and their sums is multiplied.
    fn has_no_others(&self, graph: &Graph) -> bool {
        let is_one = |node: &NodeId| number(graph, *node) == Some(1.0);
        self.other_above.iter().all(is_one)
            && self.other_below.iter().all(|node| is_count(graph, *node))
    }

    /// The product with half of the exponent on either side of it, so that neither the exponential nor a product with it
    /// is out of range where the whole is not.
    fn balanced(
        mut self,
        graph: &mut Graph,
        root: Option<NodeId>,
        shifted_above: Vec<NodeId>,
    ) -> NodeId {
        let above = std::mem::take(&mut self.other_above);
        let mut below = std::mem::take(&mut self.shifted_below);
        below.append(&mut self.other_below);
        let above = [shifted_above, above].concat();
        let (first, second) = above.split_at(above.len().div_ceil(2));
        // A quotient of two others stays together: one of them alone may be the reciprocal of a denormal.
        let (upper, lower) = below.split_at(below.len().div_ceil(2));
        let mut side = |above: &[NodeId], below: &[NodeId]| {
            let start = root.unwrap_or_else(|| constant(graph, 1.0));
            let value = above.iter().fold(start, |a, b| binary(graph, Binary::Multiply, a, *b));
            below.iter().fold(value, |a, b| binary(graph, Binary::Divide, a, *b))
        };
        let sides = [side(first, upper), side(second, lower)];
        self.other_above.extend(sides);
        self.node(graph)
    }

    /// `exp(x) / sum(exp(x))`
    fn take_softmax(&mut self, graph: &mut Graph) -> Option<NodeId> {
        let ([above], [below]) = (&self.above[..], &self.below[..]) else { return None };
        let Op::Reduce(Fold::Sum, over, terms) = graph[*below].op else { return None };
        let x = unary(graph, terms, Unary::Exp).filter(|_| terms == *above)?;
        let node = call(graph, "softmax", Some(over), &[x]);
        self.above.clear();
        self.below.clear();
        self.other_above.insert(0, node);
        Some(std::mem::take(self).node(graph))
    }

    /// The product of what is left.
    fn node(mut self, graph: &mut Graph) -> NodeId {
        // Counts of two means over the same elements cancel.
        self.other_above.retain(|node| {
            let counts = is_count(graph, *node);
            let same = self.other_below.iter().position(|other| other == node && counts);
            same.map(|place| self.other_below.remove(place)).is_none()
        });
        let product = |graph: &mut Graph, factors: &[NodeId]| {
            let (first, rest) = factors.split_first()?;
            Some(rest.iter().fold(*first, |a, b| binary(graph, Binary::Multiply, a, *b)))
        };
        self.other_above.retain(|node| number(graph, *node) != Some(1.0));
        let above = product(graph, &self.other_above);
        self.other_below.append(&mut self.shifted_below);
        let node = match (above, product(graph, &self.other_below)) {
            (Some(above), Some(below)) => binary(graph, Binary::Divide, above, below),
            (Some(above), None) => above,
            (None, Some(below)) => graph.make(Op::Unary(Unary::Rcp, below)),
            (None, None) => constant(graph, 1.0),
        };
        if self.negative { negate(graph, node) } else { node }
    }
}

/// Whether some exponent is of a whole row.
fn any_row<'a>(graph: &Graph, mut exponents: impl Iterator<Item = &'a NodeId>) -> bool {
    exponents.any(|exponent| reduces(graph, *exponent))
}

/// The operation as it stands where its operands are in range, else the whole.
fn unless_out_of_range(graph: &mut Graph, op: &Op, whole: NodeId) -> NodeId {
    let operands: Vec<NodeId> = op.operands().collect();
    let [a, b] = [operands[0], operands[operands.len() - 1]];
    let text = graph.make(op.clone());
    call(graph, "unless_out_of_range", None, &[text, whole, a, b])
}

/// Whether the factors of a product may be taken with others: the square of a value that the text computes is in range
/// with it, and what that is made of need not be.
fn splits(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    a != b || matches!(graph[a].op, Op::Unary(Unary::Exp | Unary::Exp2, _))
}

/// Whether a factor is a number of elements or a constant.
fn is_count(graph: &Graph, node: NodeId) -> bool {
    match graph[node].op {
        Op::Extent(_) => true,
        Op::Constant(value) => value.as_f32().is_some_and(|v| v.is_finite() && v != 0.0),
        _ => false,
    }
}

/// Whether a product or quotient has exponentials on either side.
fn holds_exponentials(graph: &Graph, node: NodeId, fuel: &mut Fuel) -> bool {
    if fuel.burn().is_none() {
        return false;
    }
    let node = text(graph, node).unwrap_or(node);
    match graph[node].op {
        Op::Binary(Binary::Multiply | Binary::Divide, a, b) => {
            holds_exponentials(graph, a, fuel) || holds_exponentials(graph, b, fuel)
        }
        Op::Unary(Unary::Rcp | Unary::Negate, a) => holds_exponentials(graph, a, fuel),
        _ => base_of(graph, node, fuel).is_some(),
    }
}

/// The exponential of what is added less what is taken off; `None` for nothing.
fn power_of(
    graph: &mut Graph,
    powers: &Powers,
    plus: &[NodeId],
    minus: &[NodeId],
) -> Option<NodeId> {
    match (plus, minus, powers.base) {
        ([], [], _) => return None,
        ([a], [b], Base::Natural) if !super::views::is_peak(graph, *b) => {
            return Some(exponential_of_difference(graph, *a, *b));
        }
        ([a, b], [], _) if a == b => {
            let double = multiple(graph, 2.0, *a);
            return Some(powers.power(graph, double));
        }
        ([a, b], [], Base::Natural) => {
            return Some(call(graph, "exp_of_sum", None, &[*a, *b]));
        }
        _ => {}
    }
    let sum = |graph: &mut Graph, terms: &[NodeId]| {
        let (first, rest) = terms.split_first()?;
        Some(rest.iter().fold(*first, |a, b| binary(graph, Binary::Add, a, *b)))
    };
    let x = match (sum(graph, plus), sum(graph, minus)) {
        (Some(a), Some(b)) => binary(graph, Binary::Subtract, a, b),
        (Some(a), None) => a,
        (None, Some(b)) => negate(graph, b),
        (None, None) => return None,
    };
    Some(powers.power(graph, x))
}

fn exponential_of_difference(graph: &mut Graph, a: NodeId, b: NodeId) -> NodeId {
    if are_opposite(graph, a, b) {
        let double = multiple(graph, 2.0, a);
        return graph.make(Op::Unary(Unary::Exp, double));
    }
    call(graph, "exp_of_difference", None, &[a, b])
}
