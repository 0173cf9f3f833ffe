//! Comparisons of a value with its own extreme, which hold somewhere.
//!
//! `z == max(z, N)` is uncertain wherever `z` is within its error of the largest. That it holds for one of those is
//! certain: a value is one number wherever it is used, and a maximum is one of its terms.

use std::collections::{BTreeMap, HashMap};

use crate::graph::{Binary, Fold, Graph, NodeId, Op, Over, Run, Unary, Value};

use super::array::{Array, Assumed};

/// A comparison that has one answer for at least one element of each group.
pub(super) struct Certainty {
    /// What the extreme is of.
    pub(super) of: NodeId,
    /// Its groups.
    pub(super) over: Over,
    /// The answer that there is.
    pub(super) answer: bool,
}

/// What is certain of an operation, if it compares a value with its own extreme.
pub(super) fn certainty(graph: &Graph, op: &Op) -> Option<Certainty> {
    let Op::Binary(binary, left, right) = op else { return None };
    let of = |value: NodeId, extreme: NodeId| extreme_of(graph, value, extreme);
    // The left operand is the smaller one of an inequality.
    let (largest_right, largest_left) = (of(*left, *right), of(*right, *left));
    let (found, answer) = match binary {
        Binary::Equal => (largest_right.or(largest_left), true),
        Binary::NotEqual => (largest_right.or(largest_left), false),
        // `x >= max(x)`, `x <= min(x)`
        Binary::LessEqual => (largest_left.or(largest_right), true),
        // `x < max(x)`, `x > min(x)`
        Binary::Less => (largest_right.or(largest_left), false),
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
    found.map(|over| Certainty {
        of: if largest_right.is_some() { *left } else { *right },
        over,
        answer,
    })
}

/// Over what `extreme` is the largest or smallest of `value`, or of its magnitudes. An inequality with an extreme that goes
/// the other way holds everywhere, and so for one element too.
fn extreme_of(graph: &Graph, value: NodeId, extreme: NodeId) -> Option<Over> {
    let Op::Reduce(fold, over, of) = &graph[extreme].op else { return None };
    let same = match fold {
        Fold::Max | Fold::Min => *of == value,
        Fold::AbsMax => matches!(graph[value].op, Op::Unary(Unary::Abs, x) if x == *of),
        // The k-th largest is one of the terms, or less than all where there are fewer.
        Fold::Sum | Fold::Prod | Fold::LogSumExp | Fold::Largest(_) => false,
    };
    same.then_some(*over)
}

/// Makes use of what is certain: where one element alone may have the answer it has it, where several may it is assumed of
/// each in turn.
pub(super) fn settle(array: &mut Array, of: &Array, condition: NodeId, certainty: &Certainty) {
    let Certainty { over, answer, .. } = certainty;
    let folds_whole = (!over.row || array.frame.rows.is_all())
        && (over.column.is_none() || array.frame.columns.is_all());
    if of.frame != array.frame || !folds_whole {
        return;
    }
    let answer = if *answer { 1.0 } else { 0.0 };
    let (rows, columns) = (array.frame.rows.len(), array.frame.columns.len());
    let group_of = |at: usize| {
        let (batch, row, column) = (at / columns / rows, at / columns % rows, at % columns);
        let column = match over.column {
            None => column,
            Some(Run::All) => 0,
            Some(Run::Group(width)) => array.frame.columns.chosen[column] / width as usize,
        };
        let row = if over.row { 0 } else { row };
        (if over.batch { 0 } else { batch }, row, column)
    };
    let mut groups: BTreeMap<_, Option<Vec<usize>>> = BTreeMap::new();
    for (at, value) in array.values.iter().enumerate() {
        let group = groups.entry(group_of(at)).or_insert_with(|| Some(Vec::new()));
        // With a nan among them the extreme is nan, and nothing compares.
        if of.values[at].nan || (value.is_exact() && value.low == answer) {
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
