//! Partial results of reductions in registers: what nothing gives, what values add, how two become one.
//!
//! Code that moves them sees floats: an integer is moved as the float with its bits.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::ShuffleMode;
use postlude_ptx::types::{F32, Pred, S32, U32};

use crate::dtype::Elem;
use crate::functions::Accuracy;
use crate::graph::fold::{
    Arithmetic, Arrival, Extreme, Ranking, Selection, Transcendental, Words, combine_indexed,
    extend_indexed, insert_ranked, pairs,
};
use crate::graph::{Kind, NodeId, Over, Run, Unary};
use crate::lower::{How, Reduction};
use crate::target::sm90::emit::batch::Coordinate;
use crate::target::sm90::emit::chip::EpilogueChip;

use super::evaluator::Evaluator;
use super::integer;
use super::value::{Environment, State, Term, Value};

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    /// What a lane out of range contributes.
    pub(crate) fn fold_nothing(&self, reduction: Reduction) -> Reg<'k, F32> {
        self.k.imm(match reduction.how {
            How::Fold(fold) if reduction.is_integer() => {
                f32::from_bits(fold.identity(Elem::I32) as i32 as u32)
            }
            How::Fold(fold) => fold.identity(Elem::F32) as f32,
            How::Pick(_) => 0.0,
        })
    }

    /// A value as it is folded.
    pub(crate) fn fold_term(&self, value: Value<'k>) -> Reg<'k, F32> {
        match value {
            Value::Float(value) => value,
            Value::Integer(value) => self.k.bits_to_f32(value.cast()),
            Value::Truth(_) => panic!("compiler bug: a reduction of conditions"),
        }
    }

    /// The weight of a lane out of range.
    pub(crate) fn no_weight(&self, reduction: Reduction) -> Reg<'k, F32> {
        self.k.imm(match reduction.partial_words() {
            Words::Weighted(weighted) => weighted.nothing()[1],
            Words::One | Words::Exponentials(_) | Words::Indexed(_) | Words::Ranked(_) => 0.0,
        })
    }

    /// The term where this is so, nothing elsewhere.
    pub(crate) fn fold_where(
        &self,
        reduction: Reduction,
        term: Term<'k>,
        counts: Reg<'k, Pred>,
    ) -> Term<'k> {
        let value = term.value.select(self.fold_nothing(reduction), counts);
        let weight = term.weight.map(|weight| weight.select(self.no_weight(reduction), counts));
        Term { value, weight, ..term }
    }

    /// A node's values of a thread's four elements as they are folded.
    pub(crate) fn folded_four(
        &self,
        terms: &[(NodeId, [Value<'k>; 4])],
        wanted: NodeId,
    ) -> [Reg<'k, F32>; 4] {
        match terms.iter().find(|(node, _)| *node == wanted) {
            Some((_, four)) => four.map(|value| self.fold_term(value)),
            None => panic!("compiler bug: a reduction of nothing"),
        }
    }

    /// The value that a reduction folds, from the environment of a place at these coordinates.
    pub(crate) fn fold_term_of(
        &self,
        environment: &Environment<'k>,
        reduction: Reduction,
        at: impl FnOnce() -> Coordinate<'k>,
    ) -> Term<'k> {
        let known = |node: NodeId| match environment[node.index()] {
            Some(value) => self.fold_term(value),
            None => panic!("compiler bug: a reduction of nothing"),
        };
        self.fold_at(reduction, known(reduction.terms), reduction.weights.map(known), at)
    }

    /// A value and its weight at these coordinates: batch, row and column.
    pub(crate) fn fold_at(
        &self,
        reduction: Reduction,
        value: Reg<'k, F32>,
        weight: Option<Reg<'k, F32>>,
        at: impl FnOnce() -> Coordinate<'k>,
    ) -> Term<'k> {
        let index = || self.k.bits_to_f32(self.fold_index(reduction, at()).cast());
        Term { value, index: reduction.uses_index().then(index), weight }
    }

    /// The index of a term among all that are folded together, row by row. A column of a coarser value is one of its runs.
    fn fold_index(
        &self,
        reduction: Reduction,
        (batch, row, column): Coordinate<'k>,
    ) -> Reg<'k, U32> {
        let over = reduction.over;
        let run = self.plan.program.runs[reduction.terms.index()];
        let of_run = |columns: Reg<'k, U32>| if run > 1 { columns / run } else { columns };
        let (within, width) = match over.column {
            None => (None, None),
            Some(Run::All) => {
                let width = || of_run(self.parameters.columns);
                (Some(of_run(column)), over.crosses_rows().then(width))
            }
            Some(Run::Group(length)) => {
                (Some(of_run(column) % length), over.crosses_rows().then(|| self.k.imm(length)))
            }
        };
        let line = match over {
            Over { batch: false, row: None, .. } => None,
            Over { batch: false, row: Some(Run::All), .. } => Some(row),
            Over { batch: false, row: Some(Run::Group(length)), .. } => Some(row % length),
            Over { batch: true, row: None, .. } => Some(batch.number),
            Over { batch: true, row: Some(Run::All), .. } => {
                Some(batch.number.mad(self.parameters.rows, row))
            }
            Over { batch: true, row: Some(Run::Group(length)), .. } => {
                Some(batch.number.mad(self.k.imm(length), row % length))
            }
        };
        match (line, within, width) {
            (Some(line), Some(within), Some(width)) => line.mad(width, within),
            (Some(line), ..) => line,
            (None, Some(within), _) => within,
            (None, None, _) => panic!("compiler bug: a reduction over nothing"),
        }
    }

    /// The partial result of nothing.
    pub(crate) fn fold_begin(&self, reduction: Reduction) -> State<'k> {
        match reduction.how {
            How::Fold(fold) if !reduction.is_integer() => {
                fold.identity_words(&self.floats(reduction))
            }
            // An extreme that is what nothing gives is in every term, and so in the first.
            How::Fold(_) if reduction.indexes().is_some() => {
                vec![self.fold_nothing(reduction), self.k.imm(0.0)]
            }
            How::Fold(_) | How::Pick(_) => vec![self.fold_nothing(reduction)],
        }
    }

    /// The partial result of some values, without nothing before them where that changes nothing.
    pub(crate) fn fold_some(&self, reduction: Reduction, terms: &[Term<'k>]) -> State<'k> {
        match terms {
            [first, others @ ..] if reduction.partial_words() == Words::One => {
                let first = match reduction.how {
                    How::Fold(fold) if reduction.is_integer() => {
                        fold.lift(&Integers(self.k), first.value)
                    }
                    How::Fold(fold) => fold.lift(&self.floats(reduction), first.value),
                    How::Pick(_) => first.value,
                };
                self.fold_more(reduction, &vec![first], others)
            }
            _ => self.fold_more(reduction, &self.fold_begin(reduction), terms),
        }
    }

    /// With these values, too.
    pub(crate) fn fold_more(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        terms: &[Term<'k>],
    ) -> State<'k> {
        if let Some(extreme) = reduction.indexes() {
            return self.fold_indexed(reduction, extreme, state, terms);
        }
        if let Words::Ranked(_) = reduction.partial_words() {
            return self.fold_ranked(reduction, state, terms);
        }
        if let Words::Weighted(weighted) = reduction.partial_words() {
            let pair = |term: &Term<'k>| match term.weight {
                Some(weight) => [term.value, weight],
                None => panic!("compiler bug: a term without a weight"),
            };
            let pairs: Vec<_> = terms.iter().map(pair).collect();
            return weighted.extend(&self.floats(reduction), state, &pairs);
        }
        let values: Vec<Reg<'k, F32>> = terms.iter().map(|term| term.value).collect();
        match reduction.how {
            How::Fold(fold) if reduction.is_integer() => {
                let on = Integers(self.k);
                let one = |total, value: &Reg<'k, F32>| {
                    let value = fold.lift(&on, *value);
                    fold.combine_words(&on, total, value)
                };
                vec![values.iter().fold(state[0], one)]
            }
            How::Fold(fold) => fold.extend(&self.floats(reduction), state, &values),
            How::Pick(_) => vec![values.iter().fold(state[0], |a, b| self.either(a, *b))],
        }
    }

    /// An extreme and its index with these terms, too.
    fn fold_indexed(
        &self,
        reduction: Reduction,
        extreme: Extreme,
        state: &State<'k>,
        terms: &[Term<'k>],
    ) -> State<'k> {
        let in_order = arrival(reduction) == Arrival::Ascending;
        let fold = |state: [Reg<'k, F32>; 2], term: [Reg<'k, F32>; 2]| {
            if reduction.is_integer() {
                extend(&Integers(self.k), extreme, in_order, state, term)
            } else {
                extend(&self.floats(reduction), extreme, in_order, state, term)
            }
        };
        terms.iter().map(Term::pair).fold([state[0], state[1]], fold).to_vec()
    }

    /// The largest in order with these terms, too.
    fn fold_ranked(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        terms: &[Term<'k>],
    ) -> State<'k> {
        let on = self.floats(reduction);
        let mut kept = pairs(state);
        for term in terms {
            let [value, index] = term.pair();
            let key = match term.weight {
                Some(weight) => on.key(value).select(on.nothing()[0], weight.ne(0.0)),
                None => on.key(value),
            };
            insert_ranked(&on, arrival(reduction), &mut kept, [key, index]);
        }
        kept.concat()
    }

    /// Two partial results as one, the first before the second.
    pub(crate) fn fold_both(
        &self,
        reduction: Reduction,
        first: &State<'k>,
        second: &State<'k>,
    ) -> State<'k> {
        match reduction.how {
            How::Fold(fold) if reduction.is_integer() => match reduction.indexes() {
                None => vec![fold.combine_words(&Integers(self.k), first[0], second[0])],
                Some(extreme) => {
                    let [first, second] = [first, second].map(|words| [words[0], words[1]]);
                    combine_indexed(&Integers(self.k), extreme, first, second).to_vec()
                }
            },
            How::Fold(fold) => fold.combine(&self.floats(reduction), first, second),
            How::Pick(_) => vec![self.either(first[0], second[0])],
        }
    }

    /// Lanes that differ in these bits of their number fold what they have; all of them get the result.
    pub(crate) fn fold_lanes(
        &self,
        reduction: Reduction,
        state: State<'k>,
        bits: &[u32],
    ) -> State<'k> {
        if reduction.sums_exponentials() {
            return self.exponentials_of_lanes(reduction, &state, bits);
        }
        bits.iter().fold(state, |state, bit| {
            let other = |word: &Reg<'k, F32>| self.k.shuffle(ShuffleMode::Butterfly, *word, *bit);
            let other: State<'k> = state.iter().map(other).collect();
            self.fold_both(reduction, &state, &other)
        })
    }

    /// Lanes that differ in this bit of their number exchange two partial results: the lane with the bit gets the
    /// second, combined over both lanes.
    pub(crate) fn fold_exchanged(
        &self,
        reduction: Reduction,
        [first, second]: [&State<'k>; 2],
        has_bit: Reg<'k, Pred>,
        bit: u32,
    ) -> State<'k> {
        let pairs = || first.iter().zip(second);
        let kept: State<'k> = pairs().map(|(a, b)| b.select(*a, has_bit)).collect();
        let given = pairs().map(|(a, b)| a.select(*b, has_bit));
        let other = given.map(|word| self.k.shuffle(ShuffleMode::Butterfly, word, bit)).collect();
        self.fold_both(reduction, &kept, &other)
    }

    /// What a whole one gives.
    pub(crate) fn fold_end(&self, reduction: Reduction, state: &State<'k>) -> Value<'k> {
        match reduction.how {
            How::Fold(_) if reduction.indexes().is_some() => {
                Value::Integer(integer(self.k, state[1]))
            }
            How::Fold(fold) if !reduction.is_integer() => {
                let word = fold.finish(&self.floats(reduction), state);
                match fold.gives(Elem::F32) {
                    Some(Elem::I32) => Value::Integer(integer(self.k, word)),
                    Some(Elem::F32 | Elem::Bool) | None => Value::Float(word),
                }
            }
            How::Fold(_) => Value::Integer(integer(self.k, state[0])),
            How::Pick(_) => Value::Float(state[0]),
        }
    }

    /// The same, where what is picked may not be there.
    pub(crate) fn fold_finish(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        environment: &Environment<'k>,
    ) -> Value<'k> {
        let value = self.fold_end(reduction, state);
        match reduction.how {
            // As an unsigned number a negative one is beyond the last column.
            How::Pick(index) => {
                let exists = picked(environment, index).lt(self.parameters.columns);
                Value::Float(value.float().select(f32::NAN, exists))
            }
            How::Fold(_) => value,
        }
    }

    /// Whether an element counts, this many columns behind this one of a row of which this is known; `None` if it does.
    pub(crate) fn fold_takes(
        reduction: Reduction,
        environment: &Environment<'k>,
        (column, offset): (Reg<'k, U32>, u32),
        inside: impl FnOnce() -> Option<Reg<'k, Pred>>,
    ) -> Option<Reg<'k, Pred>> {
        match reduction.how {
            // What is picked beyond the last column is NaN in the end.
            How::Pick(index) => Some((picked(environment, index) - column).eq(offset)),
            How::Fold(_) => inside(),
        }
    }

    /// The column that is picked in a row of which this is known; as an unsigned number a negative one is beyond the last.
    pub(crate) fn picked(reduction: Reduction, environment: &Environment<'k>) -> Reg<'k, U32> {
        match reduction.how {
            How::Pick(index) => picked(environment, index),
            How::Fold(_) => panic!("compiler bug: no column is picked"),
        }
    }

    /// At most one of them is there, with all its bits; the other has none.
    fn either(&self, a: Reg<'k, F32>, b: Reg<'k, F32>) -> Reg<'k, F32> {
        let [a, b] = [a, b].map(|value| self.k.f32_to_bits(value));
        self.k.bits_to_f32(a | b)
    }

    pub(super) fn floats(&self, reduction: Reduction) -> Floats<'_, 'k, C> {
        let accuracy = self.plan.accuracies[reduction.node.index()];
        Floats { evaluator: self, accuracy }
    }
}

/// The arithmetic of f32 registers.
pub(super) struct Floats<'e, 'k, C> {
    evaluator: &'e Evaluator<'e, 'k, C>,
    accuracy: Accuracy,
}

impl<'k, C: EpilogueChip> Floats<'_, 'k, C> {
    fn function(&self, function: Unary, x: Reg<'k, F32>) -> Reg<'k, F32> {
        self.evaluator.unary_float(function, self.accuracy, x).float()
    }
}

impl<'k, C: EpilogueChip> Arithmetic for Floats<'_, 'k, C> {
    type Word = Reg<'k, F32>;

    fn add(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        a + b
    }
    fn mul(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        a * b
    }
    fn max(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        a.max(b)
    }
    fn min(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        a.min(b)
    }
    fn abs(&self, a: Self::Word) -> Self::Word {
        a.abs()
    }
}

impl<'k, C: EpilogueChip> Selection for Floats<'_, 'k, C> {
    type Truth = Reg<'k, Pred>;

    fn select(&self, condition: Self::Truth, yes: Self::Word, no: Self::Word) -> Self::Word {
        yes.select(no, condition)
    }
    /// The sum of zeros of either sign is 0, and every NaN that arithmetic gives is the same (PTX ISA, "add").
    fn canonical(&self, a: Self::Word) -> Self::Word {
        a + 0.0
    }
    fn same(&self, a: Self::Word, b: Self::Word) -> Self::Truth {
        let [a, b] = [a, b].map(|word| integer(self.evaluator.k, word));
        a.eq(b)
    }
    fn lower_index(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        Integers(self.evaluator.k).min(a, b)
    }
}

/// A key is an integer in the order of the floats: those below zero have their other bits inverted.
impl<C: EpilogueChip> Ranking for Floats<'_, '_, C> {
    fn key(&self, value: Self::Word) -> Self::Word {
        self.value(self.canonical(value))
    }
    fn value(&self, key: Self::Word) -> Self::Word {
        let k = self.evaluator.k;
        let bits = integer(k, key);
        k.bits_to_f32((bits ^ ((bits >> 31) & i32::MAX)).cast())
    }
    fn nothing(&self) -> [Self::Word; 2] {
        [i32::MIN, i32::MAX].map(|bits| self.evaluator.k.imm(f32::from_bits(bits as u32)))
    }
    fn precedes(&self, a: [Self::Word; 2], b: [Self::Word; 2]) -> Self::Truth {
        let [[a, first], [b, second]] =
            [a, b].map(|pair| pair.map(|word| integer(self.evaluator.k, word)));
        a.gt(b) | (a.eq(b) & first.lt(second))
    }
    fn exceeds(&self, a: [Self::Word; 2], b: [Self::Word; 2]) -> Self::Truth {
        let [a, b] = [a[0], b[0]].map(|word| integer(self.evaluator.k, word));
        a.gt(b)
    }
}

impl<C: EpilogueChip> Transcendental for Floats<'_, '_, C> {
    fn constant(&self, value: f32) -> Self::Word {
        self.evaluator.k.imm(value)
    }
    fn sub(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        a - b
    }
    fn is_finite(&self, a: Self::Word) -> Self::Truth {
        a.abs().lt(f32::INFINITY)
    }
    fn equal(&self, a: Self::Word, b: Self::Word) -> Self::Truth {
        a.eq(b)
    }
    fn select_or(&self, condition: Self::Truth, yes: Self::Word, no: f32) -> Self::Word {
        yes.select(no, condition)
    }
    fn exp(&self, a: Self::Word) -> Self::Word {
        self.function(Unary::Exp, a)
    }
    fn log(&self, a: Self::Word) -> Self::Word {
        self.function(Unary::Log, a)
    }
    fn log1p(&self, a: Self::Word) -> Self::Word {
        self.function(Unary::Log1p, a)
    }
    fn rcp(&self, a: Self::Word) -> Self::Word {
        self.function(Unary::Rcp, a)
    }
    fn mul_add(&self, a: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word {
        a.fma(b, c)
    }
}

/// The arithmetic of integers that travel as the floats with their bits.
struct Integers<'k, C>(Kernel<'k, C>);

impl<'k, C: EpilogueChip> Integers<'k, C> {
    fn both(
        &self,
        words: [Reg<'k, F32>; 2],
        combine: impl Fn(Reg<'k, S32>, Reg<'k, S32>) -> Reg<'k, S32>,
    ) -> Reg<'k, F32> {
        let [a, b] = words.map(|word| integer(self.0, word));
        self.0.bits_to_f32(combine(a, b).cast())
    }
}

impl<'k, C: EpilogueChip> Arithmetic for Integers<'k, C> {
    type Word = Reg<'k, F32>;

    fn add(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        self.both([a, b], |a, b| a + b)
    }
    fn mul(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        self.both([a, b], |a, b| a * b)
    }
    fn max(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        self.both([a, b], Reg::max)
    }
    fn min(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        self.both([a, b], Reg::min)
    }
    fn abs(&self, a: Self::Word) -> Self::Word {
        self.0.bits_to_f32(integer::unary(Unary::Abs, integer(self.0, a)).cast())
    }
}

impl<'k, C: EpilogueChip> Selection for Integers<'k, C> {
    type Truth = Reg<'k, Pred>;

    fn select(&self, condition: Self::Truth, yes: Self::Word, no: Self::Word) -> Self::Word {
        yes.select(no, condition)
    }
    fn canonical(&self, a: Self::Word) -> Self::Word {
        a
    }
    fn same(&self, a: Self::Word, b: Self::Word) -> Self::Truth {
        integer(self.0, a).eq(integer(self.0, b))
    }
    fn lower_index(&self, a: Self::Word, b: Self::Word) -> Self::Word {
        self.min(a, b)
    }
}

/// An extreme and its index with a term, whose index is higher than all before it where terms come in order.
fn extend<A: Selection>(
    on: &A,
    extreme: Extreme,
    in_order: bool,
    state: [A::Word; 2],
    [value, index]: [A::Word; 2],
) -> [A::Word; 2] {
    if in_order {
        extend_indexed(on, extreme, state, [value, index])
    } else {
        combine_indexed(on, extreme, state, [on.canonical(value), index])
    }
}

/// A thread visits the elements of a row or column in the order of their indices, but not those of several rows.
pub(super) fn arrival(reduction: Reduction) -> Arrival {
    match reduction.scope.kind {
        Kind::Scalar => Arrival::Any,
        Kind::AlongRows | Kind::AlongColumns | Kind::Tile => Arrival::Ascending,
    }
}

/// The integer that travels as a float.
pub(super) fn integer<'k, C: EpilogueChip>(k: Kernel<'k, C>, word: Reg<'k, F32>) -> Reg<'k, S32> {
    k.f32_to_bits(word).cast()
}

fn picked<'k>(environment: &Environment<'k>, index: NodeId) -> Reg<'k, U32> {
    match environment[index.index()] {
        Some(value) => value.integer().cast(),
        None => panic!("compiler bug: no column is picked"),
    }
}
