//! The row kernel of a launch without a product: threads hold whole rows in registers between the passes over them.
//!
//! A tile has a few rows, each of which as many threads hold; `held` says which columns a thread has. A thread loads its
//! columns once, up to 16 bytes at a time; passes over the row fold them (`folds`), threads combine by shuffles and through
//! shared memory (`exchange`), and the visit stores what it computes from the same registers. There are no load warps, no
//! tensor maps and, but for rows that warps share, no barriers: memory is busy while threads wait for each other.
//!
//! What lies beyond an edge is read at the last row or the last columns instead, is left out of folds, and is not stored.

mod exchange;
mod folds;
mod held;
mod passes;
mod ranked;
mod shared_row;
mod staging;
mod states;
mod streamed;
mod strips;
mod vectors;

use postlude_ptx::kernel::Kernel;

use crate::graph::{Kind, NodeId, Op};
use crate::target::sm90::plan::{
    EpilogueTransfer, GatheredRows, RowNeeds, computed_again, gathered_rows,
};

use super::chip::EpilogueChip;
use super::memory::Memory;
use super::parameters::{Destination, Parameters};
use super::plan::Plan;
use super::values::{Environment, Evaluator, Place, fill};
use exchange::RowExchange;
use held::{HeldRow, Holder};
use staging::Staging;

/// What threads know of their rows.
struct RowKernel<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    needs: RowNeeds,
    holder: Holder<'k>,
    exchange: RowExchange<'k, C>,
    /// The ring of streamed rows.
    staging: Option<Staging<'k, C>>,
    /// Whether the graph asks for an element's row or column.
    indexed: bool,
    /// Values of elements that passes compute again from what was loaded.
    again: Vec<bool>,
    /// Entries of tables that are read by vectors.
    gathered: Vec<GatheredRows>,
}

/// What is known of a thread's elements, of each vector of them in order.
type Elements<'k> = Vec<Vec<Environment<'k>>>;

/// Emits the code of all threads.
pub(super) fn hold_rows<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    needs: RowNeeds,
) {
    let holder = Holder::new(k, plan, parameters, needs);
    let exchange = RowExchange::new(k, plan, &holder);
    let tile = plan.schedule.tile;
    let staging = tile.streams_rows().then(|| Staging::new(k, plan, &holder, needs.vector));
    let indexed = plan.graph.nodes().any(|(_, node)| matches!(node.op, Op::Index(_)));
    let keeps = tile.streams_rows() || needs.keeps(tile);
    let again = if keeps { vec![false; plan.graph.len()] } else { computed_again(plan.program) };
    let gathered = if needs.gathered > 0 { gathered_rows(plan.program) } else { Vec::new() };
    let kernel = RowKernel {
        k,
        plan,
        parameters,
        needs,
        holder,
        exchange,
        staging,
        indexed,
        again,
        gathered,
    };
    if tile.streams_rows() {
        kernel.stream();
    } else if tile.folds_strips() {
        kernel.fold_strips();
    } else {
        kernel.run();
    }
}

impl<'a, 'k, C: EpilogueChip> RowKernel<'a, 'k, C> {
    fn evaluator(&self) -> Evaluator<'a, 'k, C> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// Computes one tile after the other.
    fn run(&self) {
        let (k, holder) = (self.k, &self.holder);
        let shared = self.shared_scalars();
        let number = k.var(k.block());
        k.while_(
            || number.get().lt(holder.tiles),
            || {
                let now = number.copy();
                let mut row = holder.row(now);
                row.words = self.load_row(&row);
                let scalars = shared.clone().unwrap_or_else(|| self.scalars(&row));
                self.finish(&row, scalars);
                number.set(now + k.blocks());
            },
        );
    }

    /// The scalars of all rows; `None` where batches may have their own.
    fn shared_scalars(&self) -> Option<Environment<'k>> {
        let alone = self.plan.graph.space().batch.is_empty();
        alone.then(|| self.scalars(&self.holder.row(self.k.imm(0))))
    }

    /// The scalars of a row's batch.
    fn scalars(&self, row: &HeldRow<'k>) -> Environment<'k> {
        let mut scalars: Environment<'k> = vec![None; self.plan.graph.len()];
        let place = Place { at: (row.batch, self.k.imm(0), self.k.imm(0)), inside: None };
        self.evaluator().extend(&mut scalars, Kind::Scalar, &place, &[]);
        scalars
    }

    fn staging(&self) -> &Staging<'k, C> {
        let Some(staging) = &self.staging else {
            panic!("compiler bug: a ring for rows that are not streamed")
        };
        staging
    }

    /// Adds the tile operands to the elements of a vector that do not have them yet.
    fn fetch(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        elements: &mut [Environment<'k>],
        only: &[bool],
    ) {
        let graph = self.plan.graph;
        for (place, input) in self.plan.program.tile_operands.iter().enumerate() {
            let missing = |id: &NodeId| only[id.index()] && elements[0][id.index()].is_none();
            let Some(id) = graph.input_node(*input).filter(missing) else { continue };
            let dtype = graph.inputs()[input.0 as usize].dtype;
            let values = match row.words.get(place) {
                Some(vectors) => self.unpack_vector(dtype, &vectors[number]),
                None => self.unpack_vector(dtype, &self.staging().read(place, number)),
            };
            for (environment, value) in elements.iter_mut().zip(&values) {
                environment[id.index()] = Some(*value);
            }
        }
    }

    /// Elements of which nothing is known yet.
    fn unknown(&self) -> Elements<'k> {
        let element: Environment<'k> = vec![None; self.plan.graph.len()];
        vec![vec![element; self.needs.vector as usize]; self.holder.vectors as usize]
    }

    /// Runs all passes over a thread's row, and stores its outputs.
    fn finish(&self, row: &HeldRow<'k>, scalars: Environment<'k>) {
        let evaluator = self.evaluator();
        let mut elements = self.unknown();
        let mut environment = scalars;
        let place = Place { at: (row.batch, row.at, self.k.imm(0)), inside: None };
        evaluator.extend(&mut environment, Kind::AlongRows, &place, &[]);
        self.gather(row, &environment, &mut elements);
        self.pass_over(row, &place, &mut environment, &mut elements);
        self.write_rows(&place, row, &environment);
        self.visit(row, &environment, &mut elements);
    }

    /// Computes some values of all elements of one vector, from what is known of their row and their columns.
    fn compute(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        elements: &mut [Environment<'k>],
        only: &[bool],
    ) {
        self.fetch((row, number), elements, only);
        let columns = self.along_columns(row, &row.vectors[number], environment, only);
        self.complete((row, number), environment, columns.as_deref(), elements, only);
    }

    /// The same from elements that have what was loaded, and what is known of their columns.
    fn complete(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        columns: Option<&[Environment<'k>]>,
        elements: &mut [Environment<'k>],
        only: &[bool],
    ) {
        let (evaluator, vector) = (self.evaluator(), &row.vectors[number]);
        for (place, element) in elements.iter_mut().enumerate() {
            fill(element, environment);
            if let Some(columns) = columns {
                fill(element, &columns[place]);
            }
            let column = if self.indexed { vector.column + place as u32 } else { vector.column };
            let at = Place { at: (row.batch, row.at, column), inside: None };
            evaluator.extend_some(element, Kind::Tile, &at, &[], |id: NodeId| only[id.index()]);
        }
    }

    /// What has to be computed of an element for some values of it: all that they are made of, up to what is known.
    fn missing(&self, roots: impl Iterator<Item = NodeId>, element: &Environment<'k>) -> Vec<bool> {
        let graph = self.plan.graph;
        let is_tile = |id: NodeId| graph.ty(id).axes.kind() == Kind::Tile;
        graph.made_of(roots, |id| is_tile(id) && element[id.index()].is_none())
    }

    /// Forgets what elements know of their columns, and what is computed again from loaded elements, so that no registers
    /// hold it until the next pass.
    fn forget(&self, elements: &mut [Environment<'k>]) {
        let graph = self.plan.graph;
        let forgotten =
            |id: NodeId| graph.ty(id).axes.kind() == Kind::AlongColumns || self.again[id.index()];
        for (id, _) in graph.nodes().filter(|(id, _)| forgotten(*id)) {
            for element in elements.iter_mut() {
                element[id.index()] = None;
            }
        }
    }

    /// Computes and stores the tile outputs.
    fn visit(&self, row: &HeldRow<'k>, environment: &Environment<'k>, elements: &mut Elements<'k>) {
        let graph = self.plan.graph;
        let transfers = self.plan.schedule.needs.epilogue_stores.iter();
        let outputs: Vec<_> = graph
            .outputs()
            .iter()
            .zip(transfers)
            .zip(&self.parameters.destinations)
            .filter(|((_, transfer), _)| **transfer != EpilogueTransfer::Finished)
            .map(|((output, _), destination)| match destination {
                Destination::Direct(memory) => (output, memory),
                Destination::Map(_) | Destination::Coalesced(_) => {
                    panic!("compiler bug: a held row that leaves through a slot")
                }
            })
            .collect();
        let values = outputs.iter().map(|(output, _)| output.value);
        let only = self.missing(values, &elements[0][0]);
        let start = |memory: &Memory<'k>| {
            memory.element_of_row(self.k, (row.batch, row.at, row.at)).pointer()
        };
        let starts: Vec<_> = outputs.iter().map(|(_, memory)| start(memory)).collect();
        for (number, elements) in elements.iter_mut().enumerate() {
            self.compute((row, number), environment, elements, &only);
            for ((output, _), start) in outputs.iter().zip(&starts) {
                let value = |element: &Environment<'k>| {
                    element[output.value.index()]
                        .unwrap_or_else(|| panic!("compiler bug: an element without a value"))
                };
                let values: Vec<_> = elements.iter().map(value).collect();
                let words = self.pack_vector(output.dtype, &values);
                let vector = &row.vectors[number];
                let inside = match (row.inside, vector.inside) {
                    (Some(row), Some(vector)) => Some(row & vector),
                    (row, vector) => row.or(vector),
                };
                self.store_vector(output.dtype, *start, vector, &words, inside);
            }
        }
    }
}
