//! Strips of columns: a thread has the same few columns of all rows of its CTA's share, and folds them as it reads them.
//!
//! ```text
//! tile 8 x 256, bf16        columns 0 to 255
//! warp 0                    row 0   row 8 u     row 16 u    row 24 u     of unit 0 of u: all four are loaded, then folded
//! warp 7                    row 7   row 8 u + 7 ...
//! ```
//!
//! Values along columns are computed once a unit, those along rows once for each of a thread's rows. A row beyond the last is
//! read at the last, and what it would add is left out. Where rows are folded, too, the lanes of a row combine its elements of
//! the strip as soon as they are read, and leave the strip's partial result of the row in the workspace.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::F32;

use crate::graph::Kind;
use crate::graph::fold::Words;
use crate::lower::Reduction;
use crate::target::sm90::plan::{STRIP_ROWS, strip_results};

use super::super::chip::EpilogueChip;
use super::super::epilogue::{StripResults, StripUnit};
use super::super::values::{Environment, Place, State, Term};
use super::RowKernel;
use super::folds::Total;
use super::held::{HeldRow, HeldVector, RowWords};

/// What all rows of a unit have in common.
struct Shared<'k> {
    /// Those along columns, or of all elements, and those along rows.
    reductions: Vec<Reduction>,
    of_rows: Vec<Reduction>,
    /// What is computed of an element.
    only: Vec<bool>,
    vectors: Vec<HeldVector<'k>>,
    scalars: Environment<'k>,
    /// What is known along the columns of each vector.
    columns: Vec<Option<Vec<Environment<'k>>>>,
}

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Folds the units of this CTA, one after the other.
    pub(super) fn fold_strips(&self) {
        let Some(scalars) = self.shared_scalars() else {
            panic!("compiler bug: strips of several batches")
        };
        let results = StripResults::new(self.evaluator());
        results.for_each(|unit| {
            let states = self.fold_unit(&results, unit, scalars);
            results.add(unit, states);
        });
    }

    /// What a thread's elements of a unit give, for each reduction of each column.
    fn fold_unit(
        &self,
        results: &StripResults<'_, 'k, C>,
        unit: &StripUnit<'k>,
        scalars: Environment<'k>,
    ) -> Vec<Vec<State<'k>>> {
        let (k, evaluator, rows) = (self.k, self.evaluator(), self.plan.schedule.tile.rows);
        let all = self.plan.program.reductions.iter();
        let only = self.missing(all.clone().flat_map(|one| one.operands()), &scalars);
        let (of_rows, reductions): (Vec<Reduction>, Vec<Reduction>) =
            all.partition(|one| one.scope.kind == Kind::AlongRows);
        let vectors = self.holder.strip(unit.strip);
        let first = self.holder.strip_row(k.imm(0), &vectors);
        let along = |vector| self.along_columns(&first, vector, &scalars, &only);
        let columns = vectors.iter().map(along).collect();
        let total = |one: &Reduction| -> Vec<Total<'k>> {
            let begin = || evaluator.fold_begin(*one).into_iter().map(|word| k.var(word)).collect();
            (0..self.plan.schedule.tile.row_elements()).map(|_| begin()).collect()
        };
        let totals: Vec<Vec<Total<'k>>> = reductions.iter().map(total).collect();
        let shared = Shared { reductions, of_rows, only, vectors, scalars, columns };
        let [begin, apart] = unit.rows(rows);
        // All threads of a CTA go round as often.
        k.for_(begin, self.parameters.rows, unit.step(rows), |row| {
            let own = row + self.holder.row;
            let rows = (0..STRIP_ROWS).map(|turn| own + apart * turn);
            let rows: Vec<_> =
                rows.map(|row| self.holder.strip_row(row, &shared.vectors)).collect();
            let along = self.fold_some(&shared, &rows, &totals);
            if !shared.of_rows.is_empty() {
                results.add_rows(unit.strip, [own, apart], &along);
            }
        });
        // A scalar is of the problem's columns alone; those beyond the last have no results of their own.
        let counted = strip_results(self.plan.program) == Some(Kind::Scalar);
        let state = |one: &Reduction, column: usize, total: Total<'k>| -> State<'k> {
            let inside = shared.vectors[column / self.needs.vector as usize].inside;
            let words = total.into_iter().map(Var::copy).zip(evaluator.fold_begin(*one));
            let word = |(word, nothing): (Reg<'k, F32>, Reg<'k, F32>)| match inside {
                Some(inside) if counted => word.select(nothing, inside),
                _ => word,
            };
            words.map(word).collect()
        };
        let states = |(one, columns): (&Reduction, Vec<Total<'k>>)| {
            let all = columns.into_iter().enumerate();
            all.map(|(column, total)| state(one, column, total)).collect()
        };
        shared.reductions.iter().zip(totals).map(states).collect()
    }

    /// Loads some rows, and adds their elements; what these give for each reduction along rows, by row.
    fn fold_some(
        &self,
        shared: &Shared<'k>,
        rows: &[HeldRow<'k>],
        totals: &[Vec<Total<'k>>],
    ) -> Vec<Vec<State<'k>>> {
        let evaluator = self.evaluator();
        let words: Vec<RowWords<'k>> = rows.iter().map(|row| self.load_row(row)).collect();
        let of_row = |row: &HeldRow<'k>| {
            let mut known = shared.scalars.clone();
            let place = Place { at: (row.batch, row.at, self.k.imm(0)), inside: None };
            evaluator.extend(&mut known, Kind::AlongRows, &place, &[]);
            known
        };
        let environments: Vec<Environment<'k>> = rows.iter().map(of_row).collect();
        let nothing = shared.of_rows.iter().map(|one| evaluator.fold_begin(*one)).collect();
        let mut along: Vec<Vec<State<'k>>> = vec![nothing; rows.len()];
        for number in 0..shared.vectors.len() {
            let mut later: Vec<Vec<Vec<Term<'k>>>> = vec![Vec::new(); shared.reductions.len()];
            let of_rows = rows.iter().zip(&words).zip(&environments).zip(&mut along);
            for (((row, words), environment), along) in of_rows {
                let elements = self.elements((row, number), shared, environment, words);
                for (state, one) in along.iter_mut().zip(&shared.of_rows) {
                    let terms =
                        Self::terms(&evaluator, (row, number), environment, &elements, *one);
                    let with = evaluator.fold_more(*one, state, &terms);
                    let inside = |(word, before): (Reg<'k, F32>, &Reg<'k, F32>)| {
                        let inside = shared.vectors[number].inside;
                        inside.map_or(word, |inside| word.select(*before, inside))
                    };
                    *state = with.into_iter().zip(&*state).map(inside).collect();
                }
                for (place, one) in shared.reductions.iter().enumerate() {
                    let terms =
                        Self::terms(&evaluator, (row, number), environment, &elements, *one);
                    let inside = |term| {
                        row.inside.map_or(term, |inside| evaluator.fold_where(*one, term, inside))
                    };
                    later[place].push(terms.into_iter().map(inside).collect());
                    if one.partial_words() == Words::One {
                        self.fold_terms(number, *one, &totals[place], &later[place]);
                        later[place].clear();
                    }
                }
            }
            for ((one, totals), terms) in shared.reductions.iter().zip(totals).zip(&later) {
                self.fold_terms(number, *one, totals, terms);
            }
        }
        along
    }

    /// Adds a vector's terms of some rows to the partial results of its columns.
    fn fold_terms(
        &self,
        number: usize,
        reduction: Reduction,
        totals: &[Total<'k>],
        rows: &[Vec<Term<'k>>],
    ) {
        let width = self.needs.vector as usize;
        for (place, total) in totals[number * width..][..width].iter().enumerate() {
            let terms: Vec<Term<'k>> = rows.iter().map(|terms| terms[place]).collect();
            if terms.is_empty() {
                continue;
            }
            let before: State<'k> = total.iter().map(|word| word.get()).collect();
            let after = self.evaluator().fold_more(reduction, &before, &terms);
            total.iter().zip(after).for_each(|(word, new)| word.set(new));
        }
    }

    /// The elements of a vector of a row that was loaded.
    fn elements(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        shared: &Shared<'k>,
        environment: &Environment<'k>,
        words: &RowWords<'k>,
    ) -> Vec<Environment<'k>> {
        let graph = self.plan.graph;
        let mut elements: Vec<Environment<'k>> =
            vec![vec![None; graph.len()]; self.needs.vector as usize];
        for (input, words) in self.plan.program.tile_operands.iter().zip(words) {
            let Some(id) = graph.input_node(*input) else { continue };
            let dtype = graph.inputs()[input.0 as usize].dtype;
            let values = self.unpack_vector(dtype, &words[number]);
            for (element, value) in elements.iter_mut().zip(values) {
                element[id.index()] = Some(value);
            }
        }
        let columns = shared.columns[number].as_deref();
        self.complete((row, number), environment, columns, &mut elements, &shared.only);
        elements
    }
}
