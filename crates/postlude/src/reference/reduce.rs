//! Reductions of values that may be one of several.
//!
//! The enclosure of a reduction is the operation's own ([`Fold::apply`]). Where terms have alternatives the result has some
//! too: extremes are one of their terms, integers add up set by set, and a few uncertain terms are tried in all combinations.

use std::collections::HashMap;

use crate::dtype::Elem;
use crate::functions::Accuracy;
use crate::graph::fold::Candidates;
use crate::graph::{Binary, Fold, Over, Run, Unary, Value};
use crate::problem::Segments;

use super::alternatives::{self, Alternatives, MOST_INDICES};
use super::array::{Array, Assumed, Frame, each_row};
use super::extremes;

/// The most combinations of uncertain terms that are tried one by one.
const MOST_COMBINATIONS: usize = 32;
/// The most elements that a condition is assumed of in turn.
const MOST_ASSUMPTIONS: usize = 64;

/// How elements are folded.
pub(super) struct Reduction<'a> {
    pub(super) fold: Fold,
    pub(super) over: Over,
    pub(super) elem: Elem,
    pub(super) accuracy: Accuracy,
    /// Where rows are cut into segments: each is folded for itself.
    pub(super) cut: Option<&'a Segments>,
}

/// A term of a reduction that may be one of several.
struct Uncertain {
    at: usize,
    pieces: Alternatives,
}

/// What a group of elements is folded into.
struct Folded {
    at: usize,
    /// Where the result may be one of several.
    alternatives: Option<Alternatives>,
    /// What it may be if a condition holds for one of the elements, where that is assumed of elements beyond the group.
    assumed: Option<Alternatives>,
}

/// The reduction's elements.
pub(super) fn reduce(source: &Array, frame: Frame, how: &Reduction<'_>) -> Array {
    // A condition that holds somewhere in a group holds somewhere in one of its parts.
    let assumed = source.assumed.as_ref();
    let assumed = assumed.and_then(|all| Some((all, extremes::remaining(all.over, how.over)?)));
    let (values, beside) = each_row(&frame, |[batch, row], start, out| {
        let mut beside = Vec::new();
        let mut positions = Vec::new();
        let mut terms = Vec::new();
        for (column, value) in out.iter_mut().enumerate() {
            let place = [batch, frame.rows.chosen[row], frame.columns.chosen[column]];
            find_terms(source, how, place, &mut positions);
            terms.clear();
            terms.extend(positions.iter().map(|position| source.values[*position]));
            if let Some(candidates) = Candidates::of_fold(how.fold, &terms) {
                let (hull, alternatives) = of_indices(&candidates);
                *value = hull;
                beside.push(Folded { at: start + column, alternatives, assumed: None });
                continue;
            }
            *value = how.fold.apply(how.elem, how.accuracy, &terms);
            let uncertain = uncertain_terms(source, &positions, how.elem);
            let under_assumption = assumed.and_then(|(all, left)| {
                how.in_turn(&mut terms, &uncertain, &positions, all).map(|pieces| (pieces, left))
            });
            let (pieces, assumed) = match under_assumption {
                Some((pieces, left)) if extremes::is_nothing(left) => (pieces, None),
                Some((pieces, _)) => {
                    (how.fold_alternatives(&terms, &uncertain), Some(alternatives::tidy(pieces)))
                }
                None if uncertain.is_empty() => continue,
                None => (how.fold_alternatives(&terms, &uncertain), None),
            };
            let (hull, alternatives) = alternatives::enclose(value.nominal, pieces);
            *value = hull;
            beside.push(Folded { at: start + column, alternatives, assumed });
        }
        beside
    });
    let mut array = Array::plain(frame, values);
    let mut held = HashMap::new();
    for Folded { at, alternatives, assumed } in beside {
        array.alternatives.extend(alternatives.map(|alternatives| (at, alternatives)));
        held.extend(assumed.map(|assumed| (at, assumed)));
    }
    array.assumed = assumed.filter(|_| !held.is_empty()).map(|(all, left)| Assumed {
        condition: all.condition,
        over: left,
        values: held,
    });
    array
}

/// The elements of a reduction of terms with weights, which may vary along less.
pub(super) fn reduce_weighted(
    source: &Array,
    weights: &Array,
    frame: Frame,
    how: &Reduction<'_>,
) -> Array {
    let (rows, columns) = (&source.frame.rows, &source.frame.columns);
    let (values, _) = each_row(&frame, |[batch, row], _, out| {
        let mut positions = Vec::new();
        for (column, value) in out.iter_mut().enumerate() {
            let place = [batch, frame.rows.chosen[row], frame.columns.chosen[column]];
            find_terms(source, how, place, &mut positions);
            let term = |at: &usize| {
                let (above, column) = (at / columns.len(), at % columns.len());
                let place = [above / rows.len(), above % rows.len(), column];
                [source.values[*at], weights.values[weights.seen(&source.frame, place)]]
            };
            let terms: Vec<[Value; 2]> = positions.iter().map(term).collect();
            *value = how.fold.apply_weighted(how.accuracy, &terms);
        }
        Vec::<()>::new()
    });
    Array::plain(frame, values)
}

/// The indices that are allowed, each for itself.
fn of_indices(candidates: &Candidates) -> (Value, Option<Alternatives>) {
    let points = candidates.indices.iter().map(|at| Value::exact(*at as f64)).collect();
    alternatives::enclose_to(MOST_INDICES, candidates.nominal as f64, points)
}

/// The positions of all elements that are folded into one.
fn find_terms(
    source: &Array,
    Reduction { over, cut, .. }: &Reduction<'_>,
    [batch, row, column]: [usize; 3],
    found: &mut Vec<usize>,
) {
    let Frame { batches, rows, columns, .. } = &source.frame;
    // Rows that are cut into segments are one batch, and their reduction has one for each segment.
    let cut = cut.filter(|_| over.row.is_some() && source.frame.segments.is_some());
    let (batches, rows) = if let Some(cut) = cut {
        (0..1, cut.rows(batch))
    } else {
        let batches = if over.batch { 0..*batches } else { batch..batch + 1 };
        (batches, Run::terms(over.row, row, rows.of))
    };
    let columns = Run::terms(over.column, column, columns.of);
    found.clear();
    for batch in batches {
        for row in rows.clone() {
            let Some(last) = columns.clone().next_back() else { continue };
            // Whole runs are there, so that they follow one another.
            let end = source.position([batch, row, last]);
            found.extend(end + 1 - columns.len()..=end);
        }
    }
}

fn uncertain_terms(source: &Array, positions: &[usize], elem: Elem) -> Vec<Uncertain> {
    if source.alternatives.is_empty() && elem == Elem::F32 {
        return Vec::new();
    }
    let pieces = |position: usize| match source.alternatives.get(&position) {
        Some(pieces) => Some(pieces.clone()),
        None if elem != Elem::F32 && !source.values[position].is_exact() => {
            Some(alternatives::points(elem, source.values[position]))
        }
        None => None,
    };
    let found = positions.iter().enumerate();
    found.filter_map(|(at, position)| Some(Uncertain { at, pieces: pieces(*position)? })).collect()
}

impl Reduction<'_> {
    /// What the result may be if a condition holds for one of the terms, whichever; `None` where it is assumed of none.
    fn in_turn(
        &self,
        terms: &mut [Value],
        uncertain: &[Uncertain],
        positions: &[usize],
        assumed: &Assumed,
    ) -> Option<Vec<Value>> {
        let candidates = positions.iter().enumerate();
        let candidates: Vec<(usize, &Alternatives)> = candidates
            .filter_map(|(at, position)| Some((at, assumed.values.get(position)?)))
            .collect();
        match candidates.len() {
            0 => None,
            1..=MOST_ASSUMPTIONS => {
                let each = candidates.into_iter();
                let each =
                    each.flat_map(|(at, holds)| self.under_assumption(terms, uncertain, at, holds));
                Some(each.collect())
            }
            // With too many candidates, the result allows every alternative, whichever term the condition holds for.
            _ => Some(self.fold_alternatives(terms, uncertain)),
        }
    }

    /// What the result may be if a term is what a condition makes of it.
    fn under_assumption(
        &self,
        terms: &mut [Value],
        uncertain: &[Uncertain],
        at: usize,
        holds: &[Value],
    ) -> Vec<Value> {
        let before = terms[at];
        let mut all = Vec::new();
        for piece in holds {
            terms[at] = *piece;
            let others = uncertain.iter().filter(|one| one.at != at);
            let others = others.map(|one| Uncertain { at: one.at, pieces: one.pieces.clone() });
            all.extend(self.fold_alternatives(terms, &others.collect::<Vec<_>>()));
        }
        terms[at] = before;
        all
    }

    /// What the result may be.
    fn fold_alternatives(&self, terms: &[Value], uncertain: &[Uncertain]) -> Vec<Value> {
        match (self.fold, self.elem) {
            (Fold::Max, _) => extremes_of(terms, uncertain, |x| x),
            (Fold::Min, elem) => {
                // The smallest is the opposite of the opposites' largest; f64 holds the opposite of every integer.
                let largest = extremes_of(terms, uncertain, opposite);
                largest.into_iter().map(opposite).map(|x| one_zero(elem, x)).collect()
            }
            (Fold::AbsMax, elem) => {
                extremes_of(terms, uncertain, |x| Unary::Abs.apply(elem, self.accuracy, x))
            }
            (Fold::Sum, Elem::I32) => fold_sets(Binary::Add, 0.0, terms, uncertain),
            (Fold::Prod, Elem::I32) => fold_sets(Binary::Multiply, 1.0, terms, uncertain),
            (
                Fold::Sum
                | Fold::Prod
                | Fold::LogSumExp
                | Fold::LogSumExpAboveMax
                | Fold::ArgMax
                | Fold::ArgMin
                | Fold::Top(_)
                | Fold::Weighted(_),
                _,
            ) => self.combinations(terms, uncertain),
        }
    }

    /// All combinations of a few uncertain terms; one enclosure for many.
    fn combinations(&self, terms: &[Value], uncertain: &[Uncertain]) -> Vec<Value> {
        let mut terms = terms.to_vec();
        let count = uncertain.iter().try_fold(1usize, |count, one| {
            count.checked_mul(one.pieces.len()).filter(|count| *count <= MOST_COMBINATIONS)
        });
        let Some(count) = count else {
            return vec![self.fold.apply(self.elem, self.accuracy, &terms)];
        };
        let combination = |which: usize| {
            let mut rest = which;
            for one in uncertain {
                terms[one.at] = one.pieces[rest % one.pieces.len()];
                rest /= one.pieces.len();
            }
            self.fold.apply(self.elem, self.accuracy, &terms)
        };
        (0..count).map(combination).collect()
    }
}

/// A largest term is one of the terms, and at least as large as each of them has to be.
fn extremes_of(
    terms: &[Value],
    uncertain: &[Uncertain],
    of: impl Fn(Value) -> Value,
) -> Vec<Value> {
    let mut several = uncertain.iter().peekable();
    let mut pieces: Vec<Value> = Vec::new();
    let mut least = f64::NEG_INFINITY;
    let mut nan = false;
    for (at, term) in terms.iter().enumerate() {
        let first = pieces.len();
        match several.next_if(|one| one.at == at) {
            Some(one) => pieces.extend(one.pieces.iter().map(|piece| of(*piece))),
            None => pieces.push(of(*term)),
        }
        let all = &pieces[first..];
        if all.iter().all(|piece| piece.is_only_nan()) {
            return vec![Value::NAN];
        }
        nan |= all.iter().any(|piece| piece.nan);
        least = least.max(all.iter().map(|piece| piece.low).fold(f64::INFINITY, f64::min));
    }
    pieces.retain(|piece| !piece.is_only_nan() && piece.high >= least);
    for piece in &mut pieces {
        // Equal ends keep their own sign of zero.
        piece.low = if piece.low < least { least } else { piece.low };
        piece.nominal = if piece.nominal < piece.low { piece.low } else { piece.nominal };
        piece.nan = false;
    }
    if nan {
        pieces.push(Value::NAN);
    }
    pieces
}

fn opposite(x: Value) -> Value {
    if x.is_only_nan() {
        return x;
    }
    Value { nominal: -x.nominal, low: -x.high, high: -x.low, nan: x.nan }
}

/// Integers have one zero.
fn one_zero(elem: Elem, x: Value) -> Value {
    match elem {
        Elem::F32 => x,
        Elem::I32 | Elem::Bool => {
            Value { nominal: x.nominal + 0.0, low: x.low + 0.0, high: x.high + 0.0, nan: x.nan }
        }
    }
}

/// Integers folded with what each may be: the set of all results.
fn fold_sets(op: Binary, start: f64, terms: &[Value], uncertain: &[Uncertain]) -> Vec<Value> {
    let apply = |x: Value, y: Value| op.apply(Elem::I32, Accuracy::Accurate, x, y);
    let mut several = uncertain.iter().peekable();
    let mut certain = Value::exact(start);
    let mut pieces: Alternatives = vec![Value::exact(start)];
    for (at, term) in terms.iter().enumerate() {
        match several.next_if(|one| one.at == at) {
            None => certain = apply(certain, *term),
            Some(one) => {
                let all =
                    alternatives::combine([pieces, one.pieces.clone()], &|[x, y]| apply(x, y));
                pieces = alternatives::tidy(all);
            }
        }
    }
    alternatives::combine([pieces, vec![certain]], &|[x, y]| apply(x, y))
}
