//! What a thread's vectors add to the partial results of a row.
//!
//! Vectors beyond the last column are computed, but instructions that would add them are left out. Sums of exponentials go
//! through the vectors twice, once for the largest term.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::F32;

use crate::graph::{Binary, Fold, NodeId, Op};
use crate::lower::{How, Reduction};

use super::super::chip::EpilogueChip;
use super::super::values::{Environment, Evaluator, State, Term, Value};
use super::held::HeldRow;
use super::vectors::where_inside;
use super::{Elements, RowKernel};

/// The words of a partial result.
pub(super) type Total<'k> = Vec<Var<'k, F32>>;

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Partial results of nothing.
    pub(super) fn begin_totals(&self, reductions: &[Reduction]) -> Vec<Total<'k>> {
        let (k, evaluator) = (self.k, self.evaluator());
        let begin = |one: &Reduction| {
            evaluator.fold_begin(*one).into_iter().map(|word| k.var(word)).collect()
        };
        reductions.iter().map(begin).collect()
    }

    /// Adds a thread's vectors of a row.
    pub(super) fn fold_row(
        &self,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
        elements: &mut Elements<'k>,
        (reductions, totals): (&[Reduction], &[Total<'k>]),
    ) {
        let only =
            self.missing(reductions.iter().flat_map(|one| self.folded(*one)), &elements[0][0]);
        let before: Vec<State<'k>> =
            totals.iter().map(|total| total.iter().map(|word| word.copy()).collect()).collect();
        for (number, elements) in elements.iter_mut().enumerate() {
            self.compute((row, number), environment, elements, &only);
            for (one, total) in reductions.iter().zip(totals) {
                let elements = (environment, &elements[..]);
                if one.sums_exponentials() {
                    self.raise(row, number, elements.1, *one, total[0]);
                } else {
                    self.fold_vector((row, number), elements, *one, total);
                }
            }
            self.forget(elements);
        }
        let sums = reductions.iter().zip(totals).zip(&before);
        for ((one, total), before) in sums.filter(|((one, _), _)| one.sums_exponentials()) {
            self.fold_exponentials(row, environment, elements, (*one, total, before));
        }
    }

    /// The values of elements that a reduction folds: the factors of a product that it sums are multiplied as they are added.
    fn folded(&self, reduction: Reduction) -> Vec<NodeId> {
        match self.factors(reduction) {
            Some(factors) => factors.to_vec(),
            None => reduction.operands().collect(),
        }
    }

    /// The factors of the products that a reduction sums.
    fn factors(&self, reduction: Reduction) -> Option<[NodeId; 2]> {
        let sums = matches!(reduction.how, How::Fold(Fold::Sum)) && !reduction.is_integer();
        match self.plan.graph[reduction.terms].op {
            Op::Binary(Binary::Multiply, a, b) if sums => Some([a, b]),
            _ => None,
        }
    }

    /// The largest term so far, with those of a vector.
    fn raise(
        &self,
        row: &HeldRow<'k>,
        number: usize,
        elements: &[Environment<'k>],
        reduction: Reduction,
        largest: Var<'k, F32>,
    ) {
        let terms = elements.iter().map(|element| known(element, reduction.terms).float());
        let Some(of_vector) = terms.reduce(Reg::max) else { return };
        let both = largest.copy().max(of_vector);
        where_inside(self.k, row.vectors[number].inside, || largest.set(both));
    }

    /// Adds the exponentials of all vectors, of which the largest term is known.
    fn fold_exponentials(
        &self,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
        elements: &mut Elements<'k>,
        (reduction, total, before): (Reduction, &Total<'k>, &State<'k>),
    ) {
        let only = self.missing(reduction.operands(), &elements[0][0]);
        let below = self.evaluator().below(reduction, total[0].copy());
        total[1].set(before[1] * below.exp(before[0]));
        for (number, elements) in elements.iter_mut().enumerate() {
            self.compute((row, number), environment, elements, &only);
            let terms = elements.iter().map(|element| known(element, reduction.terms).float());
            let Some(sum) = terms.map(|term| below.exp(term)).reduce(|a, b| a + b) else {
                continue;
            };
            let both = total[1].copy() + sum;
            where_inside(self.k, row.vectors[number].inside, || total[1].set(both));
            self.forget(elements);
        }
        total[1].set(below.sum(total[1].copy()));
    }

    /// Adds a vector's elements to a partial result.
    fn fold_vector(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        (environment, elements): (&Environment<'k>, &[Environment<'k>]),
        reduction: Reduction,
        total: &Total<'k>,
    ) {
        let (k, evaluator, vector) = (self.k, self.evaluator(), &row.vectors[number]);
        let before: State<'k> = total.iter().map(|word| word.copy()).collect();
        if let Some(factors) = self.factors(reduction) {
            let product = |sum: Reg<'k, F32>, element: &Environment<'k>| {
                let [a, b] = factors.map(|factor| known(element, factor).float());
                a.fma(b, sum)
            };
            let sum = elements.iter().fold(before[0], product);
            where_inside(k, vector.inside, || total[0].set(sum));
            return;
        }
        let add = || {
            let terms = Self::terms(&evaluator, (row, number), environment, elements, reduction);
            evaluator.fold_more(reduction, &before, &terms)
        };
        if reduction.is_pick() {
            // One vector of a row has what is picked.
            let picked = Evaluator::<C>::picked(reduction, environment);
            let here = (picked - vector.column).lt(self.needs.vector);
            let here = vector.inside.map_or(here, |inside| here & inside);
            k.if_(here, || total.iter().zip(add()).for_each(|(word, new)| word.set(new)));
            return;
        }
        for (word, new) in total.iter().zip(add()) {
            where_inside(k, vector.inside, || word.set(new));
        }
    }

    /// The terms of a vector, as if it were inside.
    pub(super) fn terms(
        evaluator: &Evaluator<'_, 'k, C>,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        elements: &[Environment<'k>],
        reduction: Reduction,
    ) -> Vec<Term<'k>> {
        let vector = &row.vectors[number];
        let term = |(place, element): (usize, &Environment<'k>)| -> Term<'k> {
            let column = || vector.column + place as u32;
            let term = evaluator.fold_term_of(element, reduction, || (row.batch, row.at, column()));
            let number = (vector.column, place as u32);
            match Evaluator::<C>::fold_takes(reduction, environment, number, || None) {
                Some(counts) => evaluator.fold_where(reduction, term, counts),
                None => term,
            }
        };
        elements.iter().enumerate().map(term).collect()
    }
}

/// A value of an element.
fn known<'k>(element: &Environment<'k>, node: NodeId) -> Value<'k> {
    element[node.index()].unwrap_or_else(|| panic!("compiler bug: {node} is not known yet"))
}
