//! One sweep: every region, row by row.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::dtype::Elem;
use crate::graph::{Graph, IndexAxis, NodeId, Op};

use super::buffer::{Array, Buffer, View};
use super::columns::{Context, Finished, stretch};
use super::leaves::{Leaf, count_from};
use super::outputs::Tile;
use super::partial::Partial;
use super::product::Region;
use super::program::{Program, Slot, Source, Step};
use super::rows;

/// What a region leaves behind.
struct Left {
    region: Region,
    partials: Vec<Partial>,
    kept: Vec<Buffer>,
}

/// A sweep over one batch.
pub(super) struct Sweep<'a> {
    context: &'a Context<'a>,
    program: &'a Program,
    known: Vec<Array>,
    leaves: Vec<Option<Leaf<'a>>>,
    tiles: &'a [Option<Tile<'a>>],
    batch: usize,
    /// By first row and first column, so that parts are put together in one order.
    left: Mutex<BTreeMap<(usize, usize), Left>>,
}

impl<'a> Sweep<'a> {
    pub(super) fn new(
        context: &'a Context<'a>,
        program: &'a Program,
        finished: &Finished,
        tiles: &'a [Option<Tile<'a>>],
        batch: usize,
    ) -> Sweep<'a> {
        let known = program
            .known
            .iter()
            .map(|(node, column)| known(context, finished, *node, *column))
            .collect();
        let leaves = program.steps.iter().map(|step| leaf(context, step)).collect();
        Sweep { context, program, known, leaves, tiles, batch, left: Mutex::default() }
    }

    /// Runs every row of a region. `accumulators` are row-major, as wide as the region; empty when the program needs none.
    pub(super) fn region(&self, region: Region, accumulators: View<'_>) {
        let width = region.columns.len();
        let mut slots: Vec<Buffer> = self
            .program
            .slots
            .iter()
            .map(|slot| Buffer::new(slot.elem, self.slot_width(*slot, width)))
            .collect();
        let mut partials = self.partials(&region);
        let mut kept: Vec<Buffer> = self
            .program
            .kept
            .iter()
            .map(|(node, _)| Buffer::new(self.context.graph.ty(*node).elem, region.rows.len()))
            .collect();
        for (index, row) in region.rows.clone().enumerate() {
            let accumulators = if self.program.uses_accumulators {
                accumulators.slice(index * width..(index + 1) * width)
            } else {
                accumulators
            };
            let place = Place { row, region: &region, accumulators };
            for (number, step) in self.program.steps.iter().enumerate() {
                self.step(number, step, &place, &mut slots);
            }
            for (output, source) in &self.program.stores {
                self.store(*output, self.view(*source, &place, &slots), &place);
            }
            for (folded, (partial, stride)) in self.program.folds.iter().zip(&mut partials) {
                // A value without columns is there in every region of its row, one without a batch in every batch:
                // each counts once.
                let again = (folded.once_a_row && region.columns.start > 0)
                    || (folded.once_a_call && self.batch > 0);
                if let (Some(terms), false) = (folded.terms, again) {
                    let terms = self.view(terms, &place, &slots);
                    rows::fold_row(partial, index * *stride, folded.over, terms);
                }
            }
            for ((_, source), kept) in self.program.kept.iter().zip(&mut kept) {
                kept.copy_from(index, 1, self.view(*source, &place, &slots));
            }
        }
        let key = (region.rows.start, region.columns.start);
        let partials = partials.into_iter().map(|(partial, _)| partial).collect();
        self.left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, Left { region, partials, kept });
    }

    /// The accumulators of a region without columns.
    fn no_accumulators(&self) -> View<'static> {
        match self.context.graph.product().elem {
            Elem::I32 => View::I32(&[]),
            Elem::F32 | Elem::Bool => View::F32(&[]),
        }
    }

    fn slot_width(&self, slot: Slot, width: usize) -> usize {
        match slot.column {
            None => 1,
            Some(divisor) if divisor == self.context.problem.column_divisor => width,
            Some(divisor) => self.context.problem.columns / divisor as usize,
        }
    }

    /// Empty reductions for a region, and how many slots each row has of its own.
    fn partials(&self, region: &Region) -> Vec<(Partial, usize)> {
        let graph = self.context.graph;
        let of = |folded: &super::program::Folded| {
            let Op::Reduce(fold, _, terms) = &graph[folded.node].op else {
                panic!("compiler bug: a fold that is no reduction")
            };
            let axes = graph.ty(folded.node).axes;
            let columns = self.slot_width(
                Slot { elem: graph.ty(*terms).elem, column: axes.column },
                region.columns.len(),
            );
            let (slots, stride) =
                if axes.row { (region.rows.len() * columns, columns) } else { (columns, 0) };
            (
                Partial::new(
                    *fold,
                    graph.ty(*terms).elem,
                    self.context.accuracies[folded.node.index()],
                    slots,
                ),
                stride,
            )
        };
        self.program.folds.iter().map(of).collect()
    }

    fn step(&self, number: usize, step: &Step, place: &Place<'_>, slots: &mut [Buffer]) {
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
                Op::Input(_) => {
                    let Some(leaf) = &self.leaves[number] else {
                        panic!("compiler bug: an input that is no tensor")
                    };
                    let start = if self.context.graph.ty(*node).axes.column
                        == Some(self.context.problem.column_divisor)
                    {
                        place.region.columns.start
                    } else {
                        0
                    };
                    leaf.load(self.batch, place.row, start, &mut out);
                }
                Op::Index(IndexAxis::Row) => count_from(place.row, &mut out),
                _ => {
                    let mut views = [View::Bool(&[]); 3];
                    for (view, source) in views.iter_mut().zip(operands) {
                        *view = self.view(*source, place, slots);
                    }
                    rows::evaluate(
                        self.context.graph,
                        *node,
                        self.context.accuracies[node.index()],
                        &views[..operands.len()],
                        &mut out,
                    );
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
                let array = &self.known[index];
                let row = array.row(self.batch, place.row);
                let is_own =
                    self.program.known[index].1 == Some(self.context.problem.column_divisor);
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
        let graph = self.context.graph;
        let declared = &graph.outputs()[output];
        let Some(axes) = graph.product().axes(&declared.dims) else {
            panic!("compiler bug: output `{}` has foreign dims", declared.name)
        };
        let (start, count) = if axes.column == Some(self.context.problem.column_divisor) {
            (place.region.columns.start, place.region.columns.len())
        } else {
            (0, self.context.problem.extents(axes)[2])
        };
        let batch = if axes.batch { self.batch } else { 0 };
        // SAFETY: each region is run once in a batch, by one thread, and has its rows and columns to itself; batches run
        // one after the other; regions that share a row start and end at multiples of eight columns.
        unsafe { tile.store(batch, place.row, start, count, values) };
    }

    /// Puts what the regions left together: reductions into `totals`, values along rows into `finished`.
    pub(super) fn gather(self, totals: &mut [Partial], finished: &mut Finished) {
        let left = self.left.into_inner().unwrap_or_else(PoisonError::into_inner);
        for part in left.into_values() {
            for ((folded, total), partial) in
                self.program.folds.iter().zip(totals.iter_mut()).zip(&part.partials)
            {
                if folded.terms.is_some() {
                    merge(self.context, folded.node, total, partial, self.batch, &part.region);
                }
            }
            if part.region.columns.start > 0 {
                continue;
            }
            for ((node, _), values) in self.program.kept.iter().zip(&part.kept) {
                let Some(array) = &mut finished[node.index()] else {
                    panic!("compiler bug: no room for a kept value")
                };
                let start = array.row_start(self.batch, part.region.rows.start);
                array.data.copy_from(start, part.region.rows.len(), values.view());
            }
        }
    }
}

/// Where a step is.
struct Place<'a> {
    row: usize,
    region: &'a Region,
    accumulators: View<'a>,
}

fn known(context: &Context<'_>, finished: &Finished, node: NodeId, column: Option<u32>) -> Array {
    let array =
        finished[node.index()].as_ref().expect("compiler bug: a value is used before its sweep");
    let width =
        column.map_or(array.extents[2], |divisor| context.problem.columns / divisor as usize);
    stretch(array, width).unwrap_or_else(|| array.clone())
}

fn leaf<'a>(context: &'a Context<'a>, step: &Step) -> Option<Leaf<'a>> {
    match step {
        Step::Evaluate { node, .. } => match &context.graph[*node].op {
            Op::Input(input) => Leaf::new(context.graph, context.arguments, *input),
            _ => None,
        },
        Step::Stretch { .. } => None,
    }
}

fn merge(
    context: &Context<'_>,
    node: NodeId,
    total: &mut Partial,
    partial: &Partial,
    batch: usize,
    region: &Region,
) {
    let axes = context.graph.ty(node).axes;
    let [_, rows, columns] = context.problem.extents(axes);
    let own = axes.column == Some(context.problem.column_divisor);
    let (first_column, width) =
        if own { (region.columns.start, region.columns.len()) } else { (0, columns) };
    let batch = if axes.batch { batch } else { 0 };
    let region_rows = if axes.row { region.rows.clone() } else { 0..1 };
    for (index, row) in region_rows.enumerate() {
        total.merge((batch * rows + row) * columns + first_column, partial, index * width, width);
    }
}

/// An empty reduction for each of a program's folds, over the whole problem.
pub(super) fn totals(context: &Context<'_>, program: &Program) -> Vec<Partial> {
    let graph: &Graph = context.graph;
    let of = |folded: &super::program::Folded| {
        let Op::Reduce(fold, _, terms) = &graph[folded.node].op else {
            panic!("compiler bug: a fold that is no reduction")
        };
        let slots = context.problem.extents(graph.ty(folded.node).axes).iter().product();
        Partial::new(*fold, graph.ty(*terms).elem, context.accuracies[folded.node.index()], slots)
    };
    program.folds.iter().map(of).collect()
}

/// Runs every region of a batch from accumulators that are already there, or without any.
pub(super) fn run_regions(
    sweep: &Sweep<'_>,
    regions: &[Region],
    accumulators: Option<View<'_>>,
    columns: usize,
) {
    regions.par_iter().for_each(|region| match accumulators {
        None => sweep.region(region.clone(), sweep.no_accumulators()),
        Some(all) => {
            let width = region.columns.len();
            let mut copy = match all {
                View::I32(_) => Buffer::I32(vec![0; region.rows.len() * width]),
                View::F32(_) | View::Bool(_) => Buffer::F32(vec![0.0; region.rows.len() * width]),
            };
            for (index, row) in region.rows.clone().enumerate() {
                let start = row * columns + region.columns.start;
                copy.copy_from(index * width, width, all.slice(start..start + width));
            }
            sweep.region(region.clone(), copy.view());
        }
    });
}
