//! Comparisons of a value with its own extreme, which hold somewhere.
//!
//! `z == max(z, N)` is uncertain wherever `z` is within its error of the largest. That it holds for one of those is
//! certain: a value is one number wherever it is used, and a maximum is one of its terms.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{Binary, Constant, Fold, Graph, NodeId, Op, Over, Run, Unary, Value};

use super::array::{Array, Assumed, View};

/// A comparison that has one answer for at least one element of each group.
pub(super) struct Certainty {
    /// The groups.
    over: Over,
    /// The answer that there is.
    answer: bool,
}

/// What is certain of an operation, if it compares a value with its own extreme: then one element equals it. An inequality
/// that goes the other way has the same answer everywhere, and so for one element too.
pub(super) fn certainty(graph: &Graph, op: &Op) -> Option<Certainty> {
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
        | Binary::And
        | Binary::Or => return None,
    };
    let (left, right) = compared(graph, *left, *right);
    let over = extreme_of(graph, left, right).or_else(|| extreme_of(graph, right, left))?;
    Some(Certainty { over, answer })
}

/// What is compared: `x - y` with 0 is `x` with `y`.
fn compared(graph: &Graph, left: NodeId, right: NodeId) -> (NodeId, NodeId) {
    let is_zero = |node: NodeId| match graph[node].op {
        Op::Constant(Constant::F32(bits)) => f32::from_bits(bits) == 0.0,
        Op::Constant(Constant::I32(value)) => value == 0,
        _ => false,
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
        Fold::Sum | Fold::Prod | Fold::LogSumExp | Fold::Largest(_) => return None,
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

/// Both together; `None` where columns are folded twice.
fn join(inner: Over, outer: Over) -> Option<Over> {
    let column = match (inner.column, outer.column) {
        (column, None) | (None, column) => column,
        (Some(_), Some(Run::All)) => Some(Run::All),
        (Some(_), Some(Run::Group(_))) => return None,
    };
    Some(Over { batch: inner.batch || outer.batch, row: inner.row || outer.row, column })
}

/// What is left to fold of groups after a reduction of elements within them; `None` where it folds others too.
pub(super) fn remaining(groups: Over, folded: Over) -> Option<Over> {
    let column = match (groups.column, folded.column) {
        (column, None) => column,
        (Some(Run::All), Some(Run::All)) => None,
        (Some(Run::Group(width)), Some(Run::Group(folded))) if width == folded => None,
        (Some(_) | None, Some(_)) => return None,
    };
    let within = (groups.batch || !folded.batch) && (groups.row || !folded.row);
    let left =
        Over { batch: groups.batch && !folded.batch, row: groups.row && !folded.row, column };
    within.then_some(left)
}

/// Whether nothing is folded.
pub(super) fn is_nothing(over: Over) -> bool {
    over == Over { batch: false, row: false, column: None }
}

/// Makes use of what is certain: where one element alone may have the answer it has it, where several may it is assumed of
/// each in turn.
pub(super) fn settle(
    array: &mut Array,
    operands: &[View<'_>; 2],
    condition: NodeId,
    certainty: &Certainty,
) {
    let Certainty { over, answer } = certainty;
    let folds_whole = (!over.row || array.frame.rows.is_all())
        && (over.column.is_none() || array.frame.columns.is_all());
    if !folds_whole {
        return;
    }
    let answer = if *answer { 1.0 } else { 0.0 };
    let (rows, columns) = (array.frame.rows.len(), array.frame.columns.len());
    let mut groups: BTreeMap<[usize; 3], Option<Vec<usize>>> = BTreeMap::new();
    for (at, value) in array.values.iter().enumerate() {
        let place = [at / columns / rows, at / columns % rows, at % columns];
        let group = groups.entry(group_of(*over, place)).or_insert_with(|| Some(Vec::new()));
        let nan = operands.iter().any(|view| view.array.values[view.index(place)].nan);
        // With a nan among them the extreme is nan, and nothing compares.
        if nan || (value.is_exact() && value.low == answer) {
            *group = None;
        } else if let Some(candidates) = group.as_mut().filter(|_| value.contains(answer)) {
            candidates.push(at);
        }
    }
    let mut assumed = HashMap::new();
    for candidates in groups.into_values().flatten() {
        match candidates.as_slice() {
            [only] => array.values[*only] = Value::exact(answer),
            several => assumed.extend(several.iter().map(|at| (*at, vec![Value::exact(answer)]))),
        }
    }
    if !assumed.is_empty() {
        array.assumed = Some(Assumed { condition, over: *over, values: assumed });
    }
}

/// Which group an element is in; columns are all there where they are folded.
fn group_of(over: Over, [batch, row, column]: [usize; 3]) -> [usize; 3] {
    let column = match over.column {
        None => column,
        Some(Run::All) => 0,
        Some(Run::Group(width)) => column / width as usize,
    };
    [if over.batch { 0 } else { batch }, if over.row { 0 } else { row }, column]
}
