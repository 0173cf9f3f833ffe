//! Comparisons of a value with its own extreme, and differences from it: what holds somewhere.
//!
//! `z == max(z, N)` is uncertain wherever `z` is within its error of the largest. That it holds for one such element is
//! certain: a value is one number wherever it is used, and a maximum is one of its terms. So is `z - max(z, N)` being 0.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{Binary, Constant, Fold, Graph, NodeId, Op, Over, Run, Unary, Value};

use super::array::{Array, Assumed, View};

/// Something that is certain of at least one element of each group.
pub(super) struct Certainty {
    /// The node it is about.
    pub(super) node: NodeId,
    /// The groups.
    pub(super) over: Over,
}

/// A value shifted by its own maximum: none is above zero, and one is zero.
pub(super) struct Shift {
    pub(super) over: Over,
    /// The maximum.
    pub(super) by: NodeId,
    /// Whether the value is a product that is rounded once, together with the difference: then it is within half a unit
    /// in the last place of that.
    pub(super) fused: bool,
}

/// Whether an operation shifts a value by its own maximum.
pub(super) fn shift(graph: &Graph, op: &Op) -> Option<Shift> {
    let maximum_of = |node: NodeId| {
        let Op::Reduce(Fold::Max, over, of) = graph[node].op else { return None };
        Some((over, of))
    };
    match op {
        Op::Binary(Binary::Subtract, x, y) => {
            let (over, of) = maximum_of(*y)?;
            (of == *x).then_some(Shift { over, by: *y, fused: false })
        }
        Op::Fma(a, b, c) => {
            let Op::Unary(Unary::Negate, y) = graph[*c].op else { return None };
            let (over, of) = maximum_of(y)?;
            let Op::Binary(Binary::Multiply, p, q) = graph[of].op else { return None };
            let same = (p, q) == (*a, *b) || (q, p) == (*a, *b);
            same.then_some(Shift { over, by: y, fused: true })
        }
        _ => None,
    }
}

/// What is certain of an operation, if it compares a value with its own extreme: then one element equals it. An inequality
/// that goes the other way has the same answer everywhere, and so for one element too.
pub(super) fn certainty(graph: &Graph, op: &Op) -> Option<(Over, bool)> {
    let Op::Binary(binary, left, right) = op else { return None };
    let answer = match binary {
        Binary::Equal | Binary::LessEqual => true,
        Binary::NotEqual | Binary::Less => false,
        Binary::Add
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Maximum
        | Binary::Minimum
        | Binary::Pow
        | Binary::Fmod
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::ShiftRightLogical => return None,
    };
    let (left, right) = compared(graph, *left, *right);
    let over = extreme_of(graph, left, right).or_else(|| extreme_of(graph, right, left))?;
    Some((over, answer))
}

/// What is compared: `x - y` with 0 is `x` with `y`.
fn compared(graph: &Graph, left: NodeId, right: NodeId) -> (NodeId, NodeId) {
    let is_zero = |node: NodeId| {
        let Op::Constant(constant) = graph[node].op else { return false };
        match constant {
            Constant::F32(bits) => f32::from_bits(bits) == 0.0,
            Constant::I32(value) => value == 0,
            Constant::Bool(_) => false,
        }
    };
    match (&graph[left].op, &graph[right].op) {
        (Op::Binary(Binary::Subtract, x, y), _) if is_zero(right) => (*x, *y),
        (_, Op::Binary(Binary::Subtract, x, y)) if is_zero(left) => (*y, *x),
        _ => (left, right),
    }
}

/// Over what `extreme` is the largest or smallest of `value`, or of its magnitudes; at once or one dim after the other.
fn extreme_of(graph: &Graph, value: NodeId, extreme: NodeId) -> Option<Over> {
    let Op::Reduce(fold, over, of) = &graph[extreme].op else { return None };
    let found = match fold {
        Fold::Max | Fold::Min => *of == value,
        Fold::AbsMax => matches!(graph[value].op, Op::Unary(Unary::Abs, x) if x == *of),
        // The k-th largest is less than all where there are fewer.
        Fold::Sum
        | Fold::Prod
        | Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => return None,
    };
    if found {
        return Some(*over);
    }
    let Op::Reduce(inner_fold, _, _) = &graph[*of].op else { return None };
    // Magnitudes have no sign: the largest of them is what either reduction finds.
    let goes_on = inner_fold == fold || (*inner_fold == Fold::AbsMax && *fold == Fold::Max);
    let inner = extreme_of(graph, value, *of).filter(|_| goes_on)?;
    join(inner, *over)
}

/// Both together; `None` where rows or columns are folded twice.
fn join(inner: Over, outer: Over) -> Option<Over> {
    let join = |inner: Option<Run>, outer: Option<Run>| match (inner, outer) {
        (run, None) | (None, run) => Some(run),
        (Some(_), Some(Run::All)) => Some(Some(Run::All)),
        (Some(_), Some(Run::Group(_))) => None,
    };
    let (row, column) = (join(inner.row, outer.row)?, join(inner.column, outer.column)?);
    Some(Over { batch: inner.batch || outer.batch, row, column })
}

/// What is left to fold of groups after a reduction of elements within them; `None` where it folds others too.
pub(super) fn remaining(groups: Over, folded: Over) -> Option<Over> {
    let left = |groups: Option<Run>, folded: Option<Run>| match (groups, folded) {
        (run, None) => Some(run),
        (groups, folded) if groups == folded => Some(None),
        (Some(_) | None, Some(_)) => None,
    };
    let (row, column) = (left(groups.row, folded.row)?, left(groups.column, folded.column)?);
    let within = groups.batch || !folded.batch;
    within.then_some(Over { batch: groups.batch && !folded.batch, row, column })
}

/// Whether nothing is folded.
pub(super) fn is_nothing(over: Over) -> bool {
    over == Over::NOTHING
}

/// Makes use of what is certain, that one element of each group is within an answer: where one element alone may be, it is;
/// where several may, it is assumed of each in turn.
pub(super) fn settle(
    array: &mut Array,
    operands: &[View<'_>],
    Certainty { node, over }: Certainty,
    answer: impl Fn([usize; 3]) -> Value,
) {
    // Groups of segmented rows are not those of the places alone.
    if over.row.is_some() && array.frame.segments.is_some() {
        return;
    }
    let folds_whole = (over.row.is_none() || array.frame.rows.is_all())
        && (over.column.is_none() || array.frame.columns.is_all());
    if !folds_whole {
        return;
    }
    let (rows, columns) = (array.frame.rows.len(), array.frame.columns.len());
    let mut groups: BTreeMap<[usize; 3], Option<Vec<(usize, Value)>>> = BTreeMap::new();
    for (at, value) in array.values.iter().enumerate() {
        let place = [at / columns / rows, at / columns % rows, at % columns];
        let answer = answer(place);
        let group = groups.entry(group_of(over, place)).or_insert_with(|| Some(Vec::new()));
        let nan = value.nan || operands.iter().any(|view| view.array.values[view.index(place)].nan);
        // With a nan among them the extreme is nan, and nothing is certain.
        if nan || (answer.low <= value.low && value.high <= answer.high) {
            *group = None;
        } else if let Some(candidates) = group {
            candidates.extend(common(*value, answer).map(|common| (at, common)));
        }
    }
    let mut assumed = HashMap::new();
    for candidates in groups.into_values().flatten() {
        match candidates.as_slice() {
            [(only, common)] => {
                array.values[*only] = *common;
                array.alternatives.remove(only);
            }
            several => assumed.extend(several.iter().map(|(at, common)| (*at, vec![*common]))),
        }
    }
    if !assumed.is_empty() {
        array.assumed = Some(Assumed { condition: node, over, values: assumed });
    }
}

/// What both allow, if anything.
fn common(value: Value, answer: Value) -> Option<Value> {
    let (low, high) = (value.low.max(answer.low), value.high.min(answer.high));
    let nominal = if value.nominal < low { low } else { value.nominal.min(high) };
    (low <= high).then_some(Value { nominal, low, high, nan: false })
}

/// Which group an element is in; rows and columns are all there where they are folded.
fn group_of(over: Over, [batch, row, column]: [usize; 3]) -> [usize; 3] {
    let (row, column) = (Run::result(over.row, row), Run::result(over.column, column));
    [if over.batch { 0 } else { batch }, row, column]
}
