//! One sweep: every region, row by row.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::dtype::Elem;
use crate::graph::{IndexAxis, Op, Run};
use crate::lower::{self, Reduction};
use crate::plan::Schedule;
use crate::problem::input_tensor;

use super::buffer::{Array, Buffer, View};
use super::columns::{Context, Finished, stretch};
use super::elementwise;
use super::leaves::{Leaf, count_from};
use super::outputs::{Destination, Tile};
use super::partial::Partial;
use super::product::Region;
use super::program::{Folded, MOST_OPERANDS, Program, Slot, Source, Step};
use super::rows;

/// Memory of one sweep, kept from call to call.
pub(super) struct SweepMemory {
    /// By place in [`Program::known`]: values that are read at more columns than they have.
    wide: Vec<Option<Array>>,
    /// What each region leaves behind, by its number; none where sweeps leave nothing.
    left: Vec<Mutex<Left>>,
    /// Rows that no thread works on at the moment.
    idle: Mutex<Vec<RowMemory>>,
    /// A reduction over the whole problem for each of the program's folds.
    totals: Vec<Partial>,
}

/// What a region leaves behind.
#[derive(Default)]
struct Left {
    partials: Vec<Partial>,
    kept: Vec<Buffer>,
}

/// Memory of the row that a thread works on.
#[derive(Default)]
struct RowMemory {
    slots: Vec<Buffer>,
    /// By step: the reductions within a row.
    partials: Vec<Option<Partial>>,
    /// Accumulators of a region that are read again.
    accumulators: Option<Buffer>,
}

impl SweepMemory {
    pub(super) fn new(
        context: &Context<'_>,
        program: &Program,
        schedule: &Schedule,
    ) -> SweepMemory {
        let leaves_nothing = program.folds.is_empty() && program.kept.is_empty();
        let regions = Grid::new(context, schedule, 0..context.problem.rows);
        let count = if leaves_nothing { 0 } else { regions.count() };
        SweepMemory {
            wide: program.known.iter().map(|_| None).collect(),
            left: (0..count).map(|_| Mutex::default()).collect(),
            idle: Mutex::default(),
            totals: program.folds.iter().map(|folded| partial(context, folded, 0)).collect(),
        }
    }
}

/// An empty reduction of a fold.
fn partial(context: &Context<'_>, folded: &Folded, slots: usize) -> Partial {
    let Reduction { node, elem, .. } = folded.reduction;
    Partial::new(folded.fold, elem, context.accuracies[node.index()], slots)
}

/// How the regions of a schedule lie.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// The row that the first region begins with, and the row that the last one ends before.
    first: usize,
    rows: usize,
    columns: usize,
    height: usize,
    width: usize,
    down: usize,
    across: usize,
}

impl Grid {
    /// That of some rows.
    pub(super) fn new(context: &Context<'_>, schedule: &Schedule, rows: Range<usize>) -> Grid {
        let (first, rows, columns) = (rows.start, rows.len(), context.problem.product_columns());
        let (height, width) = (schedule.rows.max(1), schedule.columns.max(1));
        // Rows without columns still make a region: their values along rows are wanted.
        let (down, across) = (rows.div_ceil(height), columns.div_ceil(width).max(1));
        Grid { first, rows: first + rows, columns, height, width, down, across }
    }

    /// How many regions there are.
    fn count(&self) -> usize {
        self.down * self.across
    }

    /// The place of a row among the grid's.
    fn place(&self, row: usize) -> usize {
        row - self.first
    }

    /// A region of a product of these rows alone.
    pub(super) fn shifted(&self, region: Region) -> Region {
        let rows = region.rows.start + self.first..region.rows.end + self.first;
        Region { rows, ..region }
    }

    fn region(&self, number: usize) -> Region {
        let (down, across) = (number / self.across, number % self.across);
        let cut = |at: usize, step: usize, first: usize, end: usize| {
            (first + at * step).min(end)..(first + (at + 1) * step).min(end)
        };
        Region {
            rows: cut(down, self.height, self.first, self.rows),
            columns: cut(across, self.width, 0, self.columns),
        }
    }

    fn number(&self, region: &Region) -> usize {
        self.place(region.rows.start) / self.height * self.across
            + region.columns.start / self.width
    }
}

/// A sweep over one batch.
pub(super) struct BatchSweep<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) program: &'a Program,
    pub(super) grid: Grid,
    pub(super) finished: &'a Finished,
    pub(super) memory: &'a SweepMemory,
    pub(super) tiles: &'a [Option<Tile>],
    pub(super) destinations: &'a [Destination],
    pub(super) batch: usize,
}

/// Makes ready what all batches of a sweep share.
pub(super) fn begin(
    context: &Context<'_>,
    program: &Program,
    finished: &Finished,
    memory: &mut SweepMemory,
) {
    for ((node, columns), wide) in program.known.iter().zip(&mut memory.wide) {
        let array = finished[node.index()].as_ref();
        let array = array.expect("compiler bug: a value is used before its sweep");
        let width = columns.map_or(array.extents[2], |columns| context.problem.count(columns));
        stretch(array, width, wide);
    }
    for (folded, total) in program.folds.iter().zip(&mut memory.totals) {
        let axes = context.graph.ty(folded.reduction.node).axes;
        total.reset(context.problem.extents(axes).iter().product());
    }
}

/// Writes the reductions of a sweep to the finished values.
pub(super) fn end(
    context: &Context<'_>,
    program: &Program,
    memory: &mut SweepMemory,
    finished: &mut Finished,
) {
    for (folded, total) in program.folds.iter().zip(&mut memory.totals) {
        for (node, fold) in &folded.members {
            let ty = context.graph.ty(*node);
            let extents = context.problem.extents(ty.axes);
            let array = finished[node.index()].get_or_insert_with(|| Array::new(ty.elem, extents));
            total.finish_as(*fold, &mut array.data);
        }
    }
}

impl BatchSweep<'_> {
    /// Runs every row of a region. `accumulators` are row-major, as wide as the region; empty when the program needs none.
    pub(super) fn region(&self, region: &Region, accumulators: View<'_>) {
        let mut memory = lock(&self.memory.idle).pop().unwrap_or_default();
        self.rows(region, accumulators, &mut memory);
        lock(&self.memory.idle).push(memory);
    }

    fn rows(&self, region: &Region, accumulators: View<'_>, memory: &mut RowMemory) {
        let width = region.columns.len();
        if memory.slots.len() != self.program.slots.len() {
            memory.slots =
                self.program.slots.iter().map(|slot| Buffer::new(slot.elem, 0)).collect();
            memory.partials = self.program.steps.iter().map(|_| None).collect();
        }
        for (buffer, slot) in memory.slots.iter_mut().zip(&self.program.slots) {
            buffer.set_len(self.slot_width(*slot, width));
        }
        let mut left = self.memory.left.get(self.grid.number(region)).map(lock);
        if let Some(left) = &mut left {
            self.prepare_left(region, left);
        }
        for (index, row) in region.rows.clone().enumerate() {
            let accumulators = if self.program.uses_accumulators {
                accumulators.slice(index * width..(index + 1) * width)
            } else {
                accumulators
            };
            let place = Place { row, region, accumulators };
            for (number, step) in self.program.steps.iter().enumerate() {
                self.step(step, &place, &mut memory.slots, &mut memory.partials[number]);
            }
            for (output, source) in &self.program.stores {
                self.store(*output, self.view(*source, &place, &memory.slots), &place);
            }
            if let Some(left) = &mut left {
                self.leave(left, index, &place, &memory.slots);
            }
        }
    }

    /// Empties what a region left behind in an earlier batch or call.
    fn prepare_left(&self, region: &Region, left: &mut Left) {
        if left.partials.is_empty() && left.kept.is_empty() {
            let folds = self.program.folds.iter();
            left.partials = folds.map(|folded| partial(self.context, folded, 0)).collect();
            let elem = |node| self.context.graph.ty(node).elem;
            let kept = self.program.kept.iter();
            left.kept = kept.map(|(node, _)| Buffer::new(elem(*node), 0)).collect();
        }
        for (folded, partial) in self.program.folds.iter().zip(&mut left.partials) {
            let columns = self.fold_columns(folded, region);
            let rows = fold_rows(self.context, folded, region);
            partial.reset(rows.len() * columns);
        }
        left.kept.iter_mut().for_each(|kept| kept.set_len(region.rows.len()));
    }

    /// How many slots of a reduction a row of a region has.
    fn fold_columns(&self, folded: &Folded, region: &Region) -> usize {
        let axes = self.context.graph.ty(folded.reduction.node).axes;
        self.slot_width(Slot { elem: Elem::F32, columns: axes.columns() }, region.columns.len())
    }

    /// Folds and keeps what one row gives.
    fn leave(&self, left: &mut Left, index: usize, place: &Place<'_>, slots: &[Buffer]) {
        let first_column = place.region.columns.start == 0;
        for (folded, partial) in self.program.folds.iter().zip(&mut left.partials) {
            // A value without columns is there in every region of its row, one without a batch in every batch: each counts
            // once.
            let Reduction { node, over, source, repeated, .. } = folded.reduction;
            let of_rows = source == lower::Source::Rows;
            let again = (of_rows && !first_column) || (repeated && self.batch > 0);
            if let (Some(terms), false) = (folded.terms, again) {
                let run = self.context.graph.ty(node).axes.row.map(|run| run as usize);
                let line = |run| place.row / run - place.region.rows.start / run;
                let at = run.map_or(0, line) * self.fold_columns(folded, place.region);
                let terms = self.view(terms, place, slots);
                if let Some(weights) = folded.weights {
                    let weights = self.view(weights, place, slots);
                    rows::fold_weighted_row(partial, at, over, terms, weights);
                } else {
                    let index = self.fold_index(folded, place);
                    rows::fold_row(partial, at, over, terms, index);
                }
            }
        }
        for ((_, source), kept) in self.program.kept.iter().zip(&mut left.kept) {
            kept.copy_from(index, 1, self.view(*source, place, slots));
        }
    }

    /// The index of a row's first term in a region among all that are folded together.
    fn fold_index(&self, folded: &Folded, place: &Place<'_>) -> usize {
        let Reduction { over, terms, .. } = folded.reduction;
        let axes = self.context.graph.ty(terms).axes;
        let [_, rows, columns] = self.context.problem.extents(axes);
        let own = axes.column == Some(self.context.problem.column_divisor);
        let start = match over.column {
            Some(Run::All) if own => place.region.columns.start,
            Some(Run::All | Run::Group(_)) | None => 0,
        };
        let batch = if over.batch { self.batch } else { 0 };
        let rows = Run::count(over.row, rows);
        let row = if over.row.is_some() { place.row % rows } else { 0 };
        (batch * rows + row) * Run::count(over.column, columns) + start
    }

    /// The accumulators of a region without columns.
    fn no_accumulators(&self) -> View<'static> {
        match self.context.graph.products().first().map(|product| product.elem) {
            Some(Elem::I32) => View::I32(&[]),
            Some(Elem::F32 | Elem::Bool) | None => View::F32(&[]),
        }
    }

    fn slot_width(&self, slot: Slot, width: usize) -> usize {
        match slot.columns {
            None => 1,
            Some(columns) if columns == self.context.problem.own_columns() => width,
            Some(columns) => self.context.problem.count(columns),
        }
    }

    fn step(
        &self,
        step: &Step,
        place: &Place<'_>,
        slots: &mut [Buffer],
        partial: &mut Option<Partial>,
    ) {
        let out_slot = match step {
            Step::Evaluate { out, .. } | Step::Stretch { out, .. } => *out,
        };
        // Taken out while it is written: no step reads its own result.
        let mut out = std::mem::replace(&mut slots[out_slot], Buffer::Bool(Vec::new()));
        match step {
            Step::Stretch { from, .. } => {
                let view = self.view(*from, place, slots);
                let len = out.len();
                if view.len() > 0 {
                    view.stretch_into(len / view.len(), &mut out);
                }
            }
            Step::Evaluate { node, operands, .. } => match &self.context.graph[*node].op {
                Op::Input(input) => {
                    let axes = self.context.leaves[input.0 as usize];
                    let tensor = input_tensor(self.context.inputs, *input);
                    let own = Some(self.context.problem.own_columns());
                    let is_own = self.context.graph.ty(*node).axes.columns() == own;
                    let start = if is_own { place.region.columns.start } else { 0 };
                    let leaf = Leaf::new(tensor, axes, self.context.problem);
                    leaf.load(self.batch, place.row, start, &mut out);
                }
                Op::Index(IndexAxis::Row) => count_from(place.row, &mut out),
                Op::Take(table, _) => {
                    let table = input_tensor(self.context.inputs, *table);
                    elementwise::take(table, self.view(operands[0], place, slots), &mut out);
                }
                Op::Entry(table, ..) => {
                    let table = input_tensor(self.context.inputs, *table);
                    let indices = [0, 1].map(|index| self.view(operands[index], place, slots));
                    elementwise::entry(table, indices, &mut out);
                }
                _ => {
                    let mut views = [View::Bool(&[]); MOST_OPERANDS];
                    for (view, source) in views.iter_mut().zip(operands) {
                        *view = self.view(*source, place, slots);
                    }
                    let accuracy = self.context.accuracies[node.index()];
                    let views = &views[..operands.len()];
                    let of = (self.context.graph, self.context.problem);
                    rows::evaluate(of, *node, accuracy, views, &mut out, partial);
                }
            },
        }
        slots[out_slot] = out;
    }

    fn view<'v>(&'v self, source: Source, place: &Place<'v>, slots: &'v [Buffer]) -> View<'v> {
        match source {
            Source::Slot(slot) => slots[slot].view(),
            Source::Accumulators => place.accumulators,
            Source::Known(index) => {
                let (node, columns) = self.program.known[index];
                let array = match &self.memory.wide[index] {
                    Some(wide) => wide,
                    None => self.finished[node.index()]
                        .as_ref()
                        .expect("compiler bug: a value is used before its sweep"),
                };
                let row = array.row_of(self.batch, place.row, self.context.problem.rows);
                let is_own = columns == Some(self.context.problem.own_columns());
                // A single column of a wider value stands for itself alone.
                if is_own && row.len() == self.context.problem.product_columns() {
                    row.slice(place.region.columns.clone())
                } else {
                    row
                }
            }
        }
    }

    fn store(&self, output: usize, values: View<'_>, place: &Place<'_>) {
        let Some(tile) = &self.tiles[output] else {
            panic!("compiler bug: a tile output without memory")
        };
        let Destination { axes, extents, .. } = &self.destinations[output];
        let (start, count) = if axes.columns() == Some(self.context.problem.own_columns()) {
            (place.region.columns.start, place.region.columns.len())
        } else {
            (0, extents[2])
        };
        let batch = if extents[0] == 1 { 0 } else { self.batch };
        // SAFETY: the engine's call holds the output's memory while its sweeps run; each region is run once in a batch, by
        // one thread, and has its rows and columns to itself; batches run one after the other; regions that share a row
        // start and end at multiples of eight columns.
        unsafe { tile.store(batch, place.row, start, count, values) };
    }

    /// Runs every region of a batch from accumulators that are already there, or without any.
    pub(super) fn run_regions(&self, accumulators: Option<View<'_>>) {
        let count = self.grid.count();
        if self.context.threads == 1 {
            (0..count).for_each(|number| self.run_region(number, accumulators));
        } else {
            (0..count).into_par_iter().for_each(|number| self.run_region(number, accumulators));
        }
    }

    fn run_region(&self, number: usize, accumulators: Option<View<'_>>) {
        let region = self.grid.region(number);
        let Some(all) = accumulators else { return self.region(&region, self.no_accumulators()) };
        let mut memory = lock(&self.memory.idle).pop().unwrap_or_default();
        let mut copy = memory.accumulators.take().unwrap_or_else(|| match all {
            View::I32(_) => Buffer::I32(Vec::new()),
            View::F32(_) | View::Bool(_) => Buffer::F32(Vec::new()),
        });
        let width = region.columns.len();
        copy.set_len(region.rows.len() * width);
        for (index, row) in region.rows.clone().enumerate() {
            let start = self.grid.place(row) * self.grid.columns + region.columns.start;
            copy.copy_from(index * width, width, all.slice(start..start + width));
        }
        self.rows(&region, copy.view(), &mut memory);
        memory.accumulators = Some(copy);
        lock(&self.memory.idle).push(memory);
    }
}

/// Puts what the regions of a batch left together: reductions into the totals, values along rows into `finished`. The order
/// of regions is fixed, so a result does not depend on threads.
pub(super) fn gather(
    context: &Context<'_>,
    program: &Program,
    (grid, batch): (Grid, usize),
    memory: &mut SweepMemory,
    finished: &mut Finished,
) {
    let SweepMemory { left, totals, .. } = memory;
    for (number, left) in left.iter_mut().enumerate().take(grid.count()) {
        let region = grid.region(number);
        let left = left.get_mut().unwrap_or_else(PoisonError::into_inner);
        for ((folded, total), partial) in
            program.folds.iter().zip(totals.iter_mut()).zip(&left.partials)
        {
            if folded.terms.is_some() {
                merge(context, folded, total, partial, batch, &region);
            }
        }
        if region.columns.start > 0 {
            continue;
        }
        for ((node, _), values) in program.kept.iter().zip(&left.kept) {
            let Some(array) = &mut finished[node.index()] else {
                panic!("compiler bug: no room for a kept value")
            };
            let start = array.row_start(batch, region.rows.start);
            array.data.copy_from(start, region.rows.len(), values.view());
        }
    }
}

/// Where a step is.
struct Place<'a> {
    row: usize,
    region: &'a Region,
    accumulators: View<'a>,
}

/// The rows of a reduction's results that a region folds into.
fn fold_rows(context: &Context<'_>, folded: &Folded, region: &Region) -> Range<usize> {
    match context.graph.ty(folded.reduction.node).axes.row {
        Some(run) => {
            let run = run as usize;
            region.rows.start / run..region.rows.end.div_ceil(run)
        }
        None => 0..1,
    }
}

fn merge(
    context: &Context<'_>,
    folded: &Folded,
    total: &mut Partial,
    partial: &Partial,
    batch: usize,
    region: &Region,
) {
    let axes = context.graph.ty(folded.reduction.node).axes;
    let [batches, rows, columns] = context.problem.extents(axes);
    let own = axes.columns() == Some(context.problem.own_columns());
    let (first_column, width) =
        if own { (region.columns.start, region.columns.len()) } else { (0, columns) };
    let batch = if batches == 1 { 0 } else { batch };
    for (index, row) in fold_rows(context, folded, region).enumerate() {
        total.merge((batch * rows + row) * columns + first_column, partial, index * width, width);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
