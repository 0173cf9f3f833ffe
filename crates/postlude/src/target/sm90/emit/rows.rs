//! The row kernel of a launch without a product: threads hold whole rows in registers between the passes over them.
//!
//! A tile has a few rows, each of which as many threads hold; `held` says which columns a thread has. A thread loads its
//! columns once, 16 bytes at a time; passes over the row fold them, threads combine by shuffles and through shared memory,
//! and the visit stores what it computes from the same registers. Where there are passes, the loads of a CTA's next tile
//! are issued before the passes of this one, so that memory is busy while threads wait for each other; where there are
//! none, other CTAs of the SM keep it busy. There are no load warps, no slots and no tensor maps.
//!
//! Loads are never conditional: what lies beyond an edge is read at the last row or the last columns instead, is left out
//! of folds, and is not stored.

mod exchange;
mod held;
mod passes;
mod vectors;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::types::B32;

use crate::graph::{InputId, Kind, NodeId, Op};
use crate::target::sm90::plan::{EpilogueTransfer, RowNeeds};

use super::chip::EpilogueChip;
use super::memory::Memory;
use super::parameters::{Destination, Parameters};
use super::plan::Plan;
use super::values::{Environment, Evaluator, Place, fill};
use exchange::RowExchange;
use held::{HeldRow, Holder};

/// What threads know of their rows.
struct RowKernel<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    needs: RowNeeds,
    holder: Holder<'k>,
    exchange: RowExchange<'k, C>,
    /// Whether the graph asks for an element's row or column.
    indexed: bool,
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
    let indexed = plan.graph.nodes().any(|(_, node)| matches!(node.op, Op::Index(_)));
    RowKernel { k, plan, parameters, needs, holder, exchange, indexed }.run();
}

impl<'a, 'k, C: EpilogueChip> RowKernel<'a, 'k, C> {
    fn evaluator(&self) -> Evaluator<'a, 'k, C> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// Computes one tile after the other.
    fn run(&self) {
        let (k, holder) = (self.k, &self.holder);
        // Batches may have scalars of their own.
        let shared = self.plan.graph.space().batch.is_empty().then(|| {
            let first = holder.row(k.imm(0));
            self.scalars(&first)
        });
        let scalars = |row: &HeldRow<'k>| shared.clone().unwrap_or_else(|| self.scalars(row));
        let number = k.var(k.cluster());
        if self.needs.passes == 0 {
            return k.while_(
                || number.get().lt(holder.tiles),
                || {
                    let row = holder.row(number.copy());
                    let elements = self.unpack(&self.load(&row));
                    self.finish(&row, scalars(&row), elements);
                    number.set(number.get() + k.clusters());
                },
            );
        }
        let ahead: Vec<Vec<Var<'k, B32>>> = self
            .load(&holder.row(number.copy()))
            .into_iter()
            .map(|words| words.into_iter().map(|word| k.var(word)).collect())
            .collect();
        k.while_(
            || number.get().lt(holder.tiles),
            || {
                let row = holder.row(number.copy());
                let now = |words: &Vec<Var<'k, B32>>| words.iter().map(|word| word.get()).collect();
                let elements = self.unpack(&ahead.iter().map(now).collect::<Vec<_>>());
                let next = number.get() + k.clusters();
                let loaded = self.load(&holder.row(next.min(holder.tiles - 1)));
                self.finish(&row, scalars(&row), elements);
                for (to, from) in ahead.iter().flatten().zip(loaded.iter().flatten()) {
                    to.set(*from);
                }
                number.set(next);
            },
        );
    }

    /// The scalars of a row's batch.
    fn scalars(&self, row: &HeldRow<'k>) -> Environment<'k> {
        let mut scalars: Environment<'k> = vec![None; self.plan.graph.len()];
        let place = Place { at: (row.batch, self.k.imm(0), self.k.imm(0)), inside: None };
        self.evaluator().extend(&mut scalars, Kind::Scalar, &place, &[]);
        scalars
    }

    /// Issues the loads of a thread's columns of all tile operands.
    fn load(&self, row: &HeldRow<'k>) -> Vec<Vec<Reg<'k, B32>>> {
        let operand = |input: &InputId| {
            let memory = self.parameters.memory(*input);
            let start = memory.element_of_row(self.k, (row.batch, row.at, row.at)).pointer();
            let vectors = row.vectors.iter();
            vectors.flat_map(|vector| self.load_vector(memory.dtype, start, vector)).collect()
        };
        self.plan.program.tile_operands.iter().map(operand).collect()
    }

    /// The elements with the tile operands that were loaded.
    fn unpack(&self, operands: &[Vec<Reg<'k, B32>>]) -> Elements<'k> {
        let (graph, length) = (self.plan.graph, self.plan.graph.len());
        let vector: Vec<Environment<'k>> = vec![vec![None; length]; self.needs.vector as usize];
        let mut elements = vec![vector; self.holder.vectors as usize];
        for (input, words) in self.plan.program.tile_operands.iter().zip(operands) {
            let dtype = graph.inputs()[input.0 as usize].dtype;
            let parts = words.chunks_exact(words.len() / elements.len());
            for (vector, words) in elements.iter_mut().zip(parts) {
                let values = self.unpack_vector(dtype, words);
                for (id, _) in graph.nodes().filter(|(_, node)| reads(&node.op, *input)) {
                    for (environment, value) in vector.iter_mut().zip(&values) {
                        environment[id.index()] = Some(*value);
                    }
                }
            }
        }
        elements
    }

    /// Runs all passes over a thread's row, and stores its outputs.
    fn finish(&self, row: &HeldRow<'k>, scalars: Environment<'k>, mut elements: Elements<'k>) {
        let evaluator = self.evaluator();
        let mut environment = scalars;
        let place = Place { at: (row.batch, row.at, self.k.imm(0)), inside: None };
        evaluator.extend(&mut environment, Kind::AlongRows, &place, &[]);
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
        let evaluator = self.evaluator();
        let vector = &row.vectors[number];
        let columns = self.along_columns(row, vector, environment, only);
        for (place, element) in elements.iter_mut().enumerate() {
            fill(element, environment);
            if let Some(columns) = &columns {
                fill(element, &columns[place]);
            }
            let column = if self.indexed { vector.column + place as u32 } else { vector.column };
            let at = Place { at: (row.batch, row.at, column), inside: None };
            evaluator.extend_some(element, Kind::Tile, &at, &[], |id: NodeId| only[id.index()]);
        }
    }

    /// Forgets what elements know of their columns, so that no registers hold it until the next pass.
    fn forget_columns(&self, elements: &mut [Environment<'k>]) {
        let graph = self.plan.graph;
        let along = graph.nodes().filter(|(_, node)| node.ty.axes.kind() == Kind::AlongColumns);
        for (id, _) in along {
            elements.iter_mut().for_each(|element| element[id.index()] = None);
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
                Destination::Map(_) => panic!("compiler bug: a held row that TMA stores"),
            })
            .collect();
        let only =
            self.plan.program.terms_of(outputs.iter().map(|(output, _)| output.value), false);
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
                let inside = row.inside.map_or(vector.inside, |inside| inside & vector.inside);
                self.store_vector(output.dtype, *start, vector, &words, inside);
            }
        }
    }
}

/// Whether an operation is the read of an input.
fn reads(op: &Op, input: InputId) -> bool {
    matches!(op, Op::Input(read) if *read == input)
}
