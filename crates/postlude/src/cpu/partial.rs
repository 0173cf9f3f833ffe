//! Reductions under way: what is folded so far, and how two parts are put together.
//!
//! Sums and products are carried in f64, far within the contract's chain of roundings; every fold has one order, given by
//! the regions, so a result does not depend on threads.

mod weighted;

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function};
use crate::graph::Fold;
use crate::graph::fold::{
    Arithmetic, Arrival, Extreme, F64, Peak, Ranking, Selection, Weighted, Words, combine_indexed,
    combine_ranked, exponentials, insert_ranked,
};

use super::buffer::{Buffer, View};
use super::elementwise::{larger, smaller};
use super::vectorise::{Loop, vectorised};
use weighted::run_of_weighted;

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
    /// The peak and the sum of exponentials below it.
    Exponentials(Peak, Vec<[f64; 2]>),
    /// The extreme and its index; f64 holds every f32 and i32.
    Indexed(Extreme, Vec<[f64; 2]>),
    /// The largest in order with their indices, this many a slot.
    Ranked(usize, Vec<[f64; 2]>),
    /// The words of terms with weights, slot by slot.
    Weighted(Weighted, Vec<f64>),
}

/// The arithmetic of f32 extremes.
struct F32;

impl Arithmetic for F32 {
    type Word = f32;

    #[inline(always)]
    fn add(&self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn mul(&self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn max(&self, a: f32, b: f32) -> f32 {
        larger(a, b)
    }
    #[inline(always)]
    fn min(&self, a: f32, b: f32) -> f32 {
        smaller(a, b)
    }
    #[inline(always)]
    fn abs(&self, a: f32) -> f32 {
        a.abs()
    }
}

/// The arithmetic of wrapping integers.
struct I32;

impl Arithmetic for I32 {
    type Word = i32;

    #[inline(always)]
    fn add(&self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn mul(&self, a: i32, b: i32) -> i32 {
        a.wrapping_mul(b)
    }
    #[inline(always)]
    fn max(&self, a: i32, b: i32) -> i32 {
        a.max(b)
    }
    #[inline(always)]
    fn min(&self, a: i32, b: i32) -> i32 {
        a.min(b)
    }
    /// The least integer has no opposite and stays as it is.
    #[inline(always)]
    fn abs(&self, a: i32) -> i32 {
        a.wrapping_abs()
    }
}

impl Partial {
    /// Slots in which nothing was folded yet.
    pub(crate) fn new(fold: Fold, elem: Elem, accuracy: Accuracy, slots: usize) -> Partial {
        let state = match (fold.words(), elem) {
            (Words::Indexed(extreme), _) => State::Indexed(extreme, Vec::new()),
            (Words::Ranked(count), _) => State::Ranked(count as usize, Vec::new()),
            (Words::Weighted(weighted), _) => State::Weighted(weighted, Vec::new()),
            (_, Elem::I32) => State::I32(Vec::new()),
            (Words::One, _) if matches!(fold, Fold::Sum | Fold::Prod) => State::Wide(Vec::new()),
            (Words::One, _) => State::F32(Vec::new()),
            (Words::Exponentials(peak), _) => State::Exponentials(peak, Vec::new()),
        };
        let identity = fold.identity(elem);
        let mut partial = Partial { fold, accuracy, identity, state, terms: Vec::new() };
        partial.reset(slots);
        partial
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
            State::Exponentials(_, values) | State::Indexed(_, values) => {
                refill(values, slots, [self.identity, 0.0]);
            }
            State::Ranked(count, values) => refill(values, slots * *count, F64.nothing()),
            State::Weighted(weighted, values) => {
                let words = weighted.identity().iter().copied().map(f64::from);
                values.clear();
                values.extend(words.cycle().take(slots * weighted.count() as usize));
            }
        }
    }

    /// Folds all values into one slot; the first has this index among all that are folded into it.
    pub(crate) fn fold_into(&mut self, at: usize, values: View<'_>, first: usize) {
        let fold = self.fold;
        match (&mut self.state, values) {
            (State::Wide(slots), View::F32(values)) if fold == Fold::Sum => {
                slots[at] += sum(values);
            }
            (State::Wide(slots), View::F32(values)) => {
                slots[at] *= values.iter().map(|x| f64::from(*x)).product::<f64>();
            }
            (State::F32(slots), View::F32(values)) => {
                fold_run(&F32, fold, &mut slots[at], values);
            }
            (State::I32(slots), View::I32(values)) => {
                fold_run(&I32, fold, &mut slots[at], values);
            }
            (State::Exponentials(peak, slots), View::F32(values)) => {
                let more = run_of_exponentials(*peak, values, self.accuracy, &mut self.terms);
                slots[at] = exponentials(&F64, *peak, &[slots[at], more], &[]);
            }
            (State::Ranked(count, slots), View::F32(values)) => {
                rank_run(&mut slots[at * *count..][..*count], values, first);
            }
            (State::Indexed(extreme, slots), values) => {
                if let Some((value, place)) = extreme_of(*extreme, values) {
                    let more = [value, (first + place) as f64];
                    slots[at] = combine_indexed(&F64, *extreme, slots[at], more);
                }
            }
            _ => panic!("compiler bug: a reduction of a foreign type"),
        }
    }

    /// Folds each value into its own slot, from `at` on; each has this index among all that are folded into its slot.
    pub(crate) fn fold_each(&mut self, at: usize, values: View<'_>, index: usize) {
        let fold = self.fold;
        match (&mut self.state, values) {
            (State::Wide(slots), View::F32(values)) if fold == Fold::Sum => {
                vectorised(AddEach(&mut slots[at..at + values.len()], values));
            }
            (State::Wide(slots), View::F32(values)) => {
                slots[at..].iter_mut().zip(values).for_each(|(slot, x)| *slot *= f64::from(*x));
            }
            (State::F32(slots), View::F32(values)) => {
                fold_slots(&F32, fold, &mut slots[at..], values);
            }
            (State::I32(slots), View::I32(values)) => {
                fold_slots(&I32, fold, &mut slots[at..], values);
            }
            (State::Exponentials(peak, slots), View::F32(values)) => {
                for (slot, x) in slots[at..].iter_mut().zip(values) {
                    *slot = exponentials(&F64, *peak, &[*slot], &[f64::from(*x)]);
                }
            }
            (State::Ranked(count, slots), View::F32(values)) => {
                let kept = slots[at * *count..].chunks_exact_mut(*count);
                kept.zip(values).for_each(|(kept, x)| rank_run(kept, &[*x], index));
            }
            (State::Indexed(extreme, slots), values) => {
                for (place, slot) in slots[at..].iter_mut().enumerate().take(values.len()) {
                    let more = [F64.canonical(number(values, place)), index as f64];
                    *slot = combine_indexed(&F64, *extreme, *slot, more);
                }
            }
            _ => panic!("compiler bug: a reduction of a foreign type"),
        }
    }

    /// Folds all values, each with its weight or all with the same, into one slot.
    pub(crate) fn fold_weighted_into(&mut self, at: usize, values: View<'_>, weights: View<'_>) {
        let (State::Weighted(weighted, slots), View::F32(values), View::F32(weights)) =
            (&mut self.state, values, weights)
        else {
            panic!("compiler bug: a weighted reduction of a foreign type")
        };
        let more = run_of_weighted(*weighted, values, weights, self.accuracy, &mut self.terms);
        let slot = &mut slots[at * more.len()..][..more.len()];
        slot.copy_from_slice(&weighted.combine(&F64, slot, &more));
    }

    /// Folds each value with its weight, or with the one of all, into its own slot, from `at` on.
    pub(crate) fn fold_weighted_each(&mut self, at: usize, values: View<'_>, weights: View<'_>) {
        let (State::Weighted(weighted, slots), View::F32(values), View::F32(weights)) =
            (&mut self.state, values, weights)
        else {
            panic!("compiler bug: a weighted reduction of a foreign type")
        };
        let words = weighted.count() as usize;
        for (place, slot) in slots[at * words..].chunks_exact_mut(words).enumerate() {
            let Some(x) = values.get(place) else { break };
            let weight = if weights.len() == 1 { weights[0] } else { weights[place] };
            let term = [f64::from(*x), f64::from(weight)];
            slot.copy_from_slice(&weighted.extend(&F64, slot, &[term]));
        }
    }

    /// Puts `count` slots of another partial, from `from` on, together with these, from `at` on.
    pub(crate) fn merge(&mut self, at: usize, other: &Partial, from: usize, count: usize) {
        let fold = self.fold;
        let (to, from) = (at..at + count, from..from + count);
        match (&mut self.state, &other.state) {
            (State::Wide(a), State::Wide(b)) => fold_slots(&F64, fold, &mut a[to], &b[from]),
            (State::F32(a), State::F32(b)) => fold_slots(&F32, fold, &mut a[to], &b[from]),
            (State::I32(a), State::I32(b)) => fold_slots(&I32, fold, &mut a[to], &b[from]),
            (State::Exponentials(peak, a), State::Exponentials(_, b)) => {
                for (a, b) in a[to].iter_mut().zip(&b[from]) {
                    *a = exponentials(&F64, *peak, &[*a, *b], &[]);
                }
            }
            (State::Ranked(words, a), State::Ranked(_, b)) => {
                let kept = a[to.start * *words..].chunks_exact_mut(*words);
                let more = b[from.start * *words..].chunks_exact(*words);
                for (kept, more) in kept.zip(more).take(count) {
                    kept.copy_from_slice(&combine_ranked(&F64, kept, more));
                }
            }
            (State::Indexed(extreme, a), State::Indexed(_, b)) => {
                for (a, b) in a[to].iter_mut().zip(&b[from]) {
                    *a = combine_indexed(&F64, *extreme, *a, *b);
                }
            }
            (State::Weighted(weighted, a), State::Weighted(_, b)) => {
                let words = weighted.count() as usize;
                let kept = a[to.start * words..].chunks_exact_mut(words);
                let more = b[from.start * words..].chunks_exact(words);
                for (kept, more) in kept.zip(more).take(count) {
                    kept.copy_from_slice(&weighted.combine(&F64, kept, more));
                }
            }
            _ => panic!("compiler bug: partial results of two folds"),
        }
    }

    /// Writes the finished values. What was folded is gone: [`Partial::reset`] comes next.
    pub(crate) fn finish_into(&mut self, out: &mut Buffer) {
        self.finish_as(self.fold, out);
    }

    /// The same of another fold whose partial results these begin with.
    pub(crate) fn finish_as(&mut self, fold: Fold, out: &mut Buffer) {
        match &mut self.state {
            State::Wide(slots) => write(out, slots.iter().map(|x| *x as f32)),
            State::F32(slots) => write(out, slots.iter().copied()),
            State::I32(slots) => {
                out.set_len(slots.len());
                out.i32s().copy_from_slice(slots);
            }
            State::Exponentials(_, slots) => {
                write(out, slots.iter().map(|slot| fold.finish(&F64, slot) as f32));
            }
            State::Ranked(count, slots) => {
                let results = slots
                    .chunks_exact(*count)
                    .map(|kept| fold.finish_ranked(&F64, kept.as_flattened()));
                match fold.gives(Elem::F32) {
                    Some(Elem::I32) => {
                        out.set_len(results.len());
                        out.i32s().iter_mut().zip(results).for_each(|(out, x)| *out = x as i32);
                    }
                    _ => write(out, results.map(|x| x as f32)),
                }
            }
            State::Weighted(weighted, slots) => {
                let each = slots.chunks_exact(weighted.count() as usize);
                write(out, each.map(|slot| fold.finish(&F64, slot) as f32));
            }
            State::Indexed(_, slots) => {
                out.set_len(slots.len());
                out.i32s().iter_mut().zip(slots).for_each(|(out, slot)| *out = slot[1] as i32);
            }
        }
    }
}

fn write(out: &mut Buffer, values: impl ExactSizeIterator<Item = f32>) {
    out.set_len(values.len());
    out.f32s().iter_mut().zip(values).for_each(|(out, x)| *out = x);
}

/// A partial result is a term of its own fold, so that this merges, too.
#[inline(always)]
fn fold_one<A: Arithmetic>(on: &A, fold: Fold, slot: &mut A::Word, x: A::Word) {
    *slot = fold.combine_words(on, *slot, fold.lift(on, x));
}

fn fold_slots<A: Arithmetic>(on: &A, fold: Fold, slots: &mut [A::Word], values: &[A::Word]) {
    slots.iter_mut().zip(values).for_each(|(slot, x)| fold_one(on, fold, slot, *x));
}

fn fold_run<A: Arithmetic>(on: &A, fold: Fold, slot: &mut A::Word, values: &[A::Word]) {
    for x in values {
        fold_one(on, fold, slot, *x);
    }
}

/// The canonical extreme of a run and the first place that has it; `None` where there is no term.
fn extreme_of(extreme: Extreme, values: View<'_>) -> Option<(f64, usize)> {
    let fold = match extreme {
        Extreme::Largest => Fold::Max,
        Extreme::Smallest => Fold::Min,
    };
    let (value, place) = match values {
        View::F32(values) => {
            let mut found = *values.first()?;
            fold_run(&F32, fold, &mut found, values);
            let is_found = |x: &f32| *x == found || (x.is_nan() && found.is_nan());
            (f64::from(found), values.iter().position(is_found)?)
        }
        View::I32(values) => {
            let mut found = *values.first()?;
            fold_run(&I32, fold, &mut found, values);
            (f64::from(found), values.iter().position(|x| *x == found)?)
        }
        View::Bool(_) => panic!("compiler bug: an index of conditions"),
    };
    Some((F64.canonical(value), place))
}

/// Puts the values of a run among the largest; the first has this index, which is higher than all before it.
fn rank_run(kept: &mut [[f64; 2]], values: &[f32], first: usize) {
    for (place, x) in values.iter().enumerate() {
        let last = kept[kept.len() - 1];
        let pair = [F64.key(f64::from(*x)), (first + place) as f64];
        // Most terms are below all that are kept.
        if F64.precedes(pair, last) {
            insert_ranked(&F64, Arrival::Any, kept, pair);
        }
    }
}

fn number(values: View<'_>, place: usize) -> f64 {
    match values {
        View::F32(values) => f64::from(values[place]),
        View::I32(values) => f64::from(values[place]),
        View::Bool(_) => panic!("compiler bug: an index of conditions"),
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

/// The partial result of a run, its exponentials in f32 and all at once.
fn run_of_exponentials(
    counted: Peak,
    values: &[f32],
    accuracy: Accuracy,
    terms: &mut Vec<f32>,
) -> [f64; 2] {
    let peak = values.iter().fold(f32::NEG_INFINITY, |peak, x| F32.max(peak, *x));
    let own = match counted {
        Peak::Counted => 1.0,
        Peak::Left => 0.0,
    };
    if !peak.is_finite() {
        return [f64::from(peak), own];
    }
    terms.clear();
    terms.extend(values.iter().map(|x| x - peak));
    functions::apply_in_place(Function::Exp, accuracy, terms);
    if let Some(place) = values.iter().position(|x| *x == peak) {
        terms[place] = own as f32;
    }
    [f64::from(peak), sum(terms)]
}
