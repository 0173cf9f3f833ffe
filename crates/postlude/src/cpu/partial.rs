//! Reductions under way: what is folded so far, and how two parts are put together.
//!
//! Sums and products are carried in f64, far within the contract's chain of roundings; every fold has one order, given by
//! the regions, so a result does not depend on threads.

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function};
use crate::graph::Fold;

use super::buffer::{Buffer, View};
use super::elementwise::{larger, smaller};
use super::vectorise::{Loop, vectorised};

/// Slots, each a reduction under way.
#[derive(Clone, Debug)]
pub(crate) struct Partial {
    fold: Fold,
    accuracy: Accuracy,
    /// What a slot holds before anything is folded into it.
    identity: f64,
    state: State,
    /// Memory for the exponentials of one run.
    terms: Vec<f32>,
}

#[derive(Clone, Debug)]
enum State {
    /// Sums and products of f32.
    Wide(Vec<f64>),
    /// Extremes of f32.
    F32(Vec<f32>),
    I32(Vec<i32>),
    /// The peak and the sum of exponentials below it, that of the peak itself included for a logsumexp.
    Exponentials(Vec<[f64; 2]>),
    /// The largest seen, at least as many as are asked for.
    Largest(Vec<Vec<f32>>),
}

impl Partial {
    /// Slots in which nothing was folded yet.
    pub(crate) fn new(fold: Fold, elem: Elem, accuracy: Accuracy, slots: usize) -> Partial {
        let identity = fold.identity(elem);
        let state = match (fold, elem) {
            (_, Elem::I32) => State::I32(vec![identity as i32; slots]),
            (Fold::Sum | Fold::Prod, _) => State::Wide(vec![identity; slots]),
            (Fold::Max | Fold::Min | Fold::AbsMax, _) => State::F32(vec![identity as f32; slots]),
            (Fold::LogSumExp | Fold::LogSumExpAboveMax, _) => {
                State::Exponentials(vec![[f64::NEG_INFINITY, 0.0]; slots])
            }
            (Fold::Largest(_), _) => State::Largest(vec![Vec::new(); slots]),
        };
        Partial { fold, accuracy, identity, state, terms: Vec::new() }
    }

    /// Forgets what was folded, and has this many slots. Takes memory only when there were never as many.
    pub(crate) fn reset(&mut self, slots: usize) {
        fn refill<T: Clone>(values: &mut Vec<T>, slots: usize, value: T) {
            values.clear();
            values.resize(slots, value);
        }
        match &mut self.state {
            State::Wide(values) => refill(values, slots, self.identity),
            State::F32(values) => refill(values, slots, self.identity as f32),
            State::I32(values) => refill(values, slots, self.identity as i32),
            State::Exponentials(values) => refill(values, slots, [f64::NEG_INFINITY, 0.0]),
            State::Largest(values) => {
                values.iter_mut().for_each(Vec::clear);
                values.resize(slots, Vec::new());
            }
        }
    }

    /// Folds all values into one slot.
    pub(crate) fn fold_into(&mut self, at: usize, values: View<'_>) {
        match (&mut self.state, values) {
            (State::Wide(slots), View::F32(values)) if self.fold == Fold::Sum => {
                slots[at] += sum(values);
            }
            (State::Wide(slots), View::F32(values)) => {
                slots[at] *= values.iter().map(|x| f64::from(*x)).product::<f64>();
            }
            (State::F32(slots), View::F32(values)) => {
                let fold = self.fold;
                slots[at] = values.iter().fold(slots[at], |total, x| extreme(fold, total, *x));
            }
            (State::I32(slots), View::I32(values)) => {
                let fold = self.fold;
                slots[at] = values.iter().fold(slots[at], |total, x| integer(fold, total, *x));
            }
            (State::Exponentials(slots), View::F32(values)) => {
                let more = exponentials(self.fold, values, self.accuracy, &mut self.terms);
                slots[at] = merge_exponentials(self.fold, slots[at], more);
            }
            (State::Largest(slots), View::F32(values)) => {
                collect_largest(self.fold, &mut slots[at], values);
            }
            _ => panic!("compiler bug: a reduction of a foreign type"),
        }
    }

    /// Folds each value into its own slot, from `at` on.
    pub(crate) fn fold_each(&mut self, at: usize, values: View<'_>) {
        match (&mut self.state, values) {
            (State::Wide(slots), View::F32(values)) => {
                let slots = &mut slots[at..at + values.len()];
                match self.fold {
                    Fold::Sum => vectorised(AddEach(slots, values)),
                    _ => slots.iter_mut().zip(values).for_each(|(slot, x)| *slot *= f64::from(*x)),
                }
            }
            (State::F32(slots), View::F32(values)) => {
                let fold = self.fold;
                slots[at..]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(slot, x)| *slot = extreme(fold, *slot, *x));
            }
            (State::I32(slots), View::I32(values)) => {
                let fold = self.fold;
                slots[at..]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(slot, x)| *slot = integer(fold, *slot, *x));
            }
            (State::Exponentials(slots), View::F32(values)) => {
                let fold = self.fold;
                slots[at..].iter_mut().zip(values).for_each(|(slot, x)| {
                    *slot = merge_exponentials(fold, *slot, one_exponential(fold, *x));
                });
            }
            (State::Largest(slots), View::F32(values)) => {
                let fold = self.fold;
                slots[at..]
                    .iter_mut()
                    .zip(values)
                    .for_each(|(slot, x)| collect_largest(fold, slot, &[*x]));
            }
            _ => panic!("compiler bug: a reduction of a foreign type"),
        }
    }

    /// Puts `count` slots of another partial, from `from` on, together with these, from `at` on.
    pub(crate) fn merge(&mut self, at: usize, other: &Partial, from: usize, count: usize) {
        let fold = self.fold;
        match (&mut self.state, &other.state) {
            (State::Wide(a), State::Wide(b)) => {
                for (a, b) in a[at..at + count].iter_mut().zip(&b[from..]) {
                    *a = if fold == Fold::Sum { *a + b } else { *a * b };
                }
            }
            (State::F32(a), State::F32(b)) => a[at..at + count]
                .iter_mut()
                .zip(&b[from..])
                .for_each(|(a, b)| *a = extreme(fold, *a, *b)),
            (State::I32(a), State::I32(b)) => a[at..at + count]
                .iter_mut()
                .zip(&b[from..])
                .for_each(|(a, b)| *a = integer(fold, *a, *b)),
            (State::Exponentials(a), State::Exponentials(b)) => {
                a[at..at + count]
                    .iter_mut()
                    .zip(&b[from..])
                    .for_each(|(a, b)| *a = merge_exponentials(fold, *a, *b));
            }
            (State::Largest(a), State::Largest(b)) => a[at..at + count]
                .iter_mut()
                .zip(&b[from..])
                .for_each(|(a, b)| collect_largest(fold, a, b)),
            _ => panic!("compiler bug: partial results of two folds"),
        }
    }

    /// Writes the finished values. What was folded is gone: [`Partial::reset`] comes next.
    pub(crate) fn finish_into(&mut self, out: &mut Buffer) {
        match &mut self.state {
            State::Wide(slots) => {
                out.set_len(slots.len());
                out.f32s().iter_mut().zip(slots).for_each(|(out, x)| *out = *x as f32);
            }
            State::F32(slots) => {
                out.set_len(slots.len());
                out.f32s().copy_from_slice(slots);
            }
            State::I32(slots) => {
                out.set_len(slots.len());
                out.i32s().copy_from_slice(slots);
            }
            State::Exponentials(slots) => {
                out.set_len(slots.len());
                let fold = self.fold;
                let finish = |[peak, sum]: [f64; 2]| finish_exponentials(fold, peak, sum);
                out.f32s().iter_mut().zip(slots).for_each(|(out, slot)| *out = finish(*slot));
            }
            State::Largest(slots) => {
                out.set_len(slots.len());
                let fold = self.fold;
                out.f32s()
                    .iter_mut()
                    .zip(slots)
                    .for_each(|(out, seen)| *out = finish_largest(fold, seen));
            }
        }
    }
}

struct AddEach<'a>(&'a mut [f64], &'a [f32]);

impl Loop for AddEach<'_> {
    #[inline(always)]
    fn run(self) {
        for (slot, x) in self.0.iter_mut().zip(self.1) {
            *slot += f64::from(*x);
        }
    }
}

const LANES: usize = 16;

struct SumLanes<'a>(&'a [f32], &'a mut [f64; LANES]);

impl Loop for SumLanes<'_> {
    #[inline(always)]
    fn run(self) {
        let SumLanes(values, lanes) = self;
        for chunk in values.chunks_exact(LANES) {
            for (lane, x) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(*x);
            }
        }
        for (lane, x) in lanes.iter_mut().zip(values.chunks_exact(LANES).remainder()) {
            *lane += f64::from(*x);
        }
    }
}

fn sum(values: &[f32]) -> f64 {
    let mut lanes = [0.0; LANES];
    vectorised(SumLanes(values, &mut lanes));
    lanes.iter().sum()
}

#[inline(always)]
fn extreme(fold: Fold, total: f32, x: f32) -> f32 {
    match fold {
        Fold::Min => smaller(total, x),
        Fold::AbsMax => larger(total, x.abs()),
        _ => larger(total, x),
    }
}

fn integer(fold: Fold, total: i32, x: i32) -> i32 {
    match fold {
        Fold::Sum => total.wrapping_add(x),
        Fold::Prod => total.wrapping_mul(x),
        Fold::Max => total.max(x),
        Fold::Min => total.min(x),
        Fold::AbsMax => absolute_maximum(total, x),
        Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_) => {
            panic!("compiler bug: `{}` of i32", fold.name())
        }
    }
}

/// The least integer has no opposite and stays as it is, as `abs` leaves it.
fn absolute_maximum(total: i32, x: i32) -> i32 {
    total.max(x.wrapping_abs())
}

/// What the peak itself adds to the sum.
fn peak_weight(fold: Fold) -> f64 {
    if fold == Fold::LogSumExpAboveMax { 0.0 } else { 1.0 }
}

fn one_exponential(fold: Fold, x: f32) -> [f64; 2] {
    let x = f64::from(x);
    if x == f64::NEG_INFINITY { [x, 0.0] } else { [x, peak_weight(fold)] }
}

fn exponentials(fold: Fold, values: &[f32], accuracy: Accuracy, terms: &mut Vec<f32>) -> [f64; 2] {
    let peak = values.iter().fold(f32::NEG_INFINITY, |peak, x| extreme(Fold::Max, peak, *x));
    if !peak.is_finite() {
        return one_exponential(fold, peak);
    }
    terms.clear();
    terms.extend(values.iter().map(|x| x - peak));
    functions::apply_in_place(Function::Exp, accuracy, terms);
    if let Some(place) = values.iter().position(|x| *x == peak) {
        terms[place] = peak_weight(fold) as f32;
    }
    [f64::from(peak), sum(terms)]
}

fn merge_exponentials(fold: Fold, a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    if a[0].is_nan() || b[0].is_nan() {
        return [f64::NAN, 1.0];
    }
    let (high, low) = if a[0] >= b[0] { (a, b) } else { (b, a) };
    if high[0].is_infinite() {
        return high;
    }
    let beside_peak = 1.0 - peak_weight(fold);
    [high[0], high[1] + (beside_peak + low[1]) * (low[0] - high[0]).exp()]
}

fn finish_exponentials(fold: Fold, peak: f64, sum: f64) -> f32 {
    if fold == Fold::LogSumExpAboveMax {
        return if peak.is_finite() { sum.ln_1p() as f32 } else { f32::NAN };
    }
    if peak.is_finite() { (peak + sum.ln()) as f32 } else { peak as f32 }
}

fn wanted(fold: Fold) -> usize {
    if let Fold::Largest(count) = fold { count.max(1) as usize } else { 1 }
}

/// Nan counts as larger than anything, so that it is never dropped.
fn descending(a: f32, b: f32) -> std::cmp::Ordering {
    b.is_nan().cmp(&a.is_nan()).then(b.total_cmp(&a))
}

fn collect_largest(fold: Fold, seen: &mut Vec<f32>, values: &[f32]) {
    seen.extend_from_slice(values);
    let keep = wanted(fold);
    if seen.len() > 4 * keep + 64 {
        seen.select_nth_unstable_by(keep - 1, |a, b| descending(*a, *b));
        seen.truncate(keep);
    }
}

fn finish_largest(fold: Fold, seen: &mut [f32]) -> f32 {
    if seen.iter().any(|x| x.is_nan()) {
        return f32::NAN;
    }
    let place = wanted(fold) - 1;
    if place >= seen.len() {
        return f32::NEG_INFINITY;
    }
    *seen.select_nth_unstable_by(place, |a, b| descending(*a, *b)).1
}
