//! A kernel on the CPU: planned once for a problem, run as often as is wanted.
//!
//! In: the sweeps of a kernel, a problem, and in each call arguments and outputs that were validated against them.
//! Out: every output. Invariant: after the first call the memory of later ones is there: they take none, unless several run
//! at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

use crate::dtype::Elem;
use crate::functions::Accuracy;
use crate::graph::{Graph, InputId, MathMode, Orientation, ProductId, accuracies};
use crate::lower::{Sweep, SweepProgram};
use crate::plan::{Refusal, Schedule};
use crate::problem::{Argument, BodyStrides, Problem, Segments, input_tensor};
use crate::process;
use crate::tensor::TensorViewMut;

use super::buffer::{Array, Buffer, View};
use super::columns::{ColumnMemory, Context, Finished, finish_columns};
use super::leaves::LeafAxes;
use super::microkernel::Accumulator;
use super::outputs::{Destination, Tile, spare_dtype};
use super::pack::Operand;
use super::product::{Product, Regions, Scratch, WORTH_SHARING, for_each_region};
use super::program::{Program, program};
use super::sweep::{self, BatchSweep, Grid, SweepMemory};

/// What a step of the math costs for each element, in multiply-adds.
const STEP_COST: usize = 16;

/// A kernel planned for one problem.
pub struct Engine {
    lowered: Arc<SweepProgram>,
    problem: Problem,
    schedule: Schedule,
    accuracies: Vec<Accuracy>,
    /// By sweep.
    programs: Vec<Program>,
    leaves: Vec<LeafAxes>,
    destinations: Vec<Destination>,
    /// `None` where the caller's own thread does the work.
    pool: Option<Arc<ThreadPool>>,
    threads: usize,
    /// Memory that no call uses at the moment.
    idle: Mutex<Vec<Workspace>>,
}

/// Memory of one call, kept for the next.
struct Workspace {
    finished: Finished,
    /// By sweep and value.
    columns: Vec<Vec<ColumnMemory>>,
    sweeps: Vec<SweepMemory>,
    /// Tile outputs whose tensors do not lie row after row, by output.
    spare: Vec<Option<Vec<u8>>>,
    /// Where regions store, by output; filled during a call alone.
    tiles: Vec<Option<Tile>>,
    /// The accumulators of each batch, where a later sweep reads them again.
    retained: Vec<Buffer>,
    scratch: ProductMemory,
}

/// Memory of products.
enum ProductMemory {
    F32(Box<Scratch<f32>>),
    I32(Box<Scratch<i32>>),
}

impl Engine {
    /// Prepares a kernel for a problem. The schedule has to suit them.
    ///
    /// # Panics
    /// If the schedule was not planned for this graph and problem, and regions of it would write to the same bytes.
    pub fn new(
        lowered: &Arc<SweepProgram>,
        problem: &Problem,
        schedule: Schedule,
        math: MathMode,
    ) -> Result<Engine, Refusal> {
        assert!(schedule.suits(lowered, problem), "the schedule does not suit this problem");
        let graph = lowered.graph();
        let sweeps = lowered.sweeps.iter();
        let programs: Vec<Program> =
            sweeps.map(|sweep| program(lowered, sweep, problem.batch)).collect();
        let steps: usize = programs.iter().map(|program| program.steps.len()).sum();
        let per_element = problem.inner.saturating_add(steps * STEP_COST);
        let batches = if problem.segmented { 1 } else { problem.batch };
        let elements = batches.saturating_mul(problem.rows).saturating_mul(problem.columns);
        let shares = elements.saturating_mul(per_element) >= WORTH_SHARING;
        let threads = if shares && !process::is_forked() { schedule.threads } else { 1 };
        let inputs = 0..graph.inputs().len() as u32;
        Ok(Engine {
            leaves: inputs.map(|input| LeafAxes::new(graph, InputId(input))).collect(),
            destinations: (0..graph.outputs().len())
                .map(|output| Destination::new(lowered, problem, output))
                .collect(),
            accuracies: accuracies(graph, math),
            pool: if threads > 1 { Some(pool(threads)?) } else { None },
            problem: problem.clone(),
            threads,
            lowered: lowered.clone(),
            schedule,
            programs,
            idle: Mutex::default(),
        })
    }

    fn graph(&self) -> &Graph {
        self.lowered.graph()
    }

    /// The sizes that it was prepared for.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// How it runs them.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Runs one call; arguments and outputs are in the order of the signature and were validated against the problem.
    pub(crate) fn run(&self, inputs: &[Argument<'_>], outputs: &mut [TensorViewMut<'_>]) {
        let context = Context {
            graph: self.graph(),
            problem: &self.problem,
            inputs,
            leaves: &self.leaves,
            accuracies: &self.accuracies,
            // Threads of a pool are not forked along.
            threads: if self.threads > 1 && process::is_forked() { 1 } else { self.threads },
            segments: self
                .graph()
                .ends()
                .map(|ends| Segments::new(input_tensor(inputs, ends), self.problem.rows)),
            contraction: self
                .graph()
                .contraction_ends()
                .map(|ends| Segments::new(input_tensor(inputs, ends), self.problem.inner)),
        };
        let kept = process::open(&self.idle).and_then(|mut idle| idle.pop());
        let mut workspace = kept.unwrap_or_else(|| self.workspace(&context));
        self.point_tiles(&mut workspace, outputs);
        match &self.pool {
            // Inside of a pool of the same size its threads are the ones to use.
            Some(pool) if context.threads > 1 && !runs_here(self.threads) => {
                pool.install(|| self.sweep_all(&context, &mut workspace));
            }
            Some(_) | None => self.sweep_all(&context, &mut workspace),
        }
        workspace.tiles.clear();
        self.store_the_rest(context.segments.as_ref(), &workspace, outputs);
        if let Some(mut idle) = process::open(&self.idle) {
            idle.push(workspace);
        }
    }

    fn workspace(&self, context: &Context<'_>) -> Workspace {
        let memory = |sweep: &Sweep| sweep.before.iter().map(|_| ColumnMemory::default()).collect();
        let mut finished: Finished = vec![None; self.graph().len()];
        for program in &self.programs {
            // Values along rows that a sweep keeps are there also where there are no rows.
            for (node, _) in &program.kept {
                let ty = self.graph().ty(*node);
                let extents = self.problem.extents(ty.axes);
                finished[node.index()] = Some(Array::new(ty.elem, extents));
            }
        }
        Workspace {
            finished,
            columns: self.lowered.sweeps.iter().map(memory).collect(),
            sweeps: self
                .programs
                .iter()
                .map(|program| SweepMemory::new(context, program, &self.schedule))
                .collect(),
            spare: self.destinations.iter().map(|_| None).collect(),
            tiles: Vec::with_capacity(self.destinations.len()),
            retained: Vec::new(),
            scratch: match self.graph().products().first().map(|product| product.elem) {
                Some(Elem::I32) => ProductMemory::I32(Box::new(Scratch::new())),
                Some(Elem::F32 | Elem::Bool) | None => ProductMemory::F32(Box::new(Scratch::new())),
            },
        }
    }

    /// Where regions store: the outputs' own memory, or spare tiles.
    fn point_tiles(&self, workspace: &mut Workspace, outputs: &mut [TensorViewMut<'_>]) {
        let Workspace { spare, tiles, .. } = workspace;
        tiles.clear();
        for ((destination, tensor), spare) in self.destinations.iter().zip(outputs).zip(spare) {
            if !destination.is_tile {
                tiles.push(None);
                continue;
            }
            let [_, rows, columns] = destination.extents;
            let dtype = tensor.dtype();
            tiles.push(Some(if destination.is_natural(tensor.view()) {
                *spare = None;
                Tile::new(dtype, tensor.bytes_mut(), rows, columns)
            } else {
                let dtype = spare_dtype(dtype);
                let bytes = dtype.bytes_for(tensor.len());
                Tile::new(dtype, spare.get_or_insert_with(|| vec![0; bytes]), rows, columns)
            }));
        }
    }

    fn sweep_all(&self, context: &Context<'_>, workspace: &mut Workspace) {
        let Workspace { finished, columns, sweeps, tiles, retained, scratch, .. } = workspace;
        for (number, program) in self.programs.iter().enumerate() {
            let before = &self.lowered.sweeps[number].before;
            finish_columns(context, before, &mut columns[number], finished);
            if program.is_empty() && !(number == 0 && self.lowered.retains) {
                continue;
            }
            let memory = &mut sweeps[number];
            sweep::begin(context, program, finished, memory);
            for batch in 0..self.problem.batch.max(1) {
                let grid = Grid::new(context, &self.schedule, context.rows(batch));
                let sweep = BatchSweep {
                    context,
                    program,
                    grid,
                    finished,
                    memory,
                    tiles,
                    destinations: &self.destinations,
                    batch,
                };
                let first = number == 0;
                match scratch {
                    ProductMemory::F32(scratch) => self.batch(&sweep, first, retained, scratch),
                    ProductMemory::I32(scratch) => self.batch(&sweep, first, retained, scratch),
                }
                sweep::gather(context, program, (grid, batch), memory, finished);
            }
            sweep::end(context, program, memory, finished);
        }
    }

    /// One batch of a sweep; the first sweep multiplies.
    fn batch<T: Accumulator + Values>(
        &self,
        sweep: &BatchSweep<'_>,
        first: bool,
        retained: &mut Vec<Buffer>,
        scratch: &mut Scratch<T>,
    ) {
        let uses = sweep.program.uses_accumulators;
        let columns = self.problem.product_columns();
        let rows = sweep.context.rows(sweep.batch);
        let is_empty = columns == 0 || rows.is_empty() || self.problem.batch == 0;
        if first && (uses || self.lowered.retains) && !is_empty {
            return self.multiply(sweep, retained, scratch);
        }
        let accumulators = retained.get(sweep.batch).filter(|_| uses && !is_empty);
        sweep.run_regions(accumulators.map(Buffer::view));
    }

    fn multiply<T: Accumulator + Values>(
        &self,
        sweep: &BatchSweep<'_>,
        retained: &mut Vec<Buffer>,
        scratch: &mut Scratch<T>,
    ) {
        let columns = self.problem.product_columns();
        let product = self.product(sweep.context, sweep.batch);
        let regions = Regions { height: self.schedule.rows, width: self.schedule.columns };
        let threads = sweep.context.threads;
        if !self.lowered.retains {
            for_each_region(&product, regions, threads, scratch, |region, values| {
                sweep.region(&sweep.grid.shifted(region), T::view(values));
            });
            return;
        }
        while retained.len() <= sweep.batch {
            retained.push(T::buffer(Vec::new()));
        }
        // Segments may have other rows in every call.
        retained[sweep.batch].set_len(sweep.context.rows(sweep.batch).len() * columns);
        let all = Mutex::new(T::values(&mut retained[sweep.batch]));
        for_each_region(&product, regions, threads, scratch, |region, values| {
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            for (index, row) in region.rows.clone().enumerate() {
                let width = region.columns.len();
                let start = row * columns + region.columns.start;
                all[start..start + width]
                    .copy_from_slice(&values[index * width..(index + 1) * width]);
            }
        });
        sweep.run_regions(Some(retained[sweep.batch].view()));
    }

    fn product<'a>(&self, context: &Context<'a>, batch: usize) -> Product<'a> {
        let declared = self.graph().product(ProductId::FIRST);
        let rows = context.rows(batch);
        let mut left = operand(context, declared.left, batch, Orientation::Plain);
        let inner = context.inner(batch);
        left.offset += rows.start as isize * left.row_stride;
        left.offset += inner.start as isize * left.column_stride;
        let mut right = operand(context, declared.right, batch, Orientation::Transposed);
        right.offset += inner.start as isize * right.column_stride;
        let extents = [rows.len(), self.problem.product_columns(), inner.len()];
        match Product::new(left, right, extents) {
            Ok(product) => product,
            Err(error) => panic!("compiler bug: {error}"),
        }
    }

    /// Writes what regions did not: values that are no tiles, and tiles of other layouts.
    fn store_the_rest(
        &self,
        segments: Option<&Segments>,
        workspace: &Workspace,
        outputs: &mut [TensorViewMut<'_>],
    ) {
        let of_rows = segments.map(|segments| segments.of_rows(segments.written()));
        let places = self.destinations.iter().zip(&workspace.spare);
        for ((output, (destination, spare)), tensor) in
            self.graph().outputs().iter().zip(places).zip(outputs)
        {
            for (number, value) in output.values().enumerate() {
                match (spare, &workspace.finished[value.index()]) {
                    (Some(natural), _) => {
                        destination.copy_natural(of_rows.as_deref(), natural, tensor);
                    }
                    (None, Some(array)) if !destination.is_tile => {
                        destination.scatter(number, of_rows.as_deref(), array, tensor);
                    }
                    // A tile that its regions stored.
                    (None, _) => {}
                }
            }
        }
    }
}

/// Accumulators as values of the body.
trait Values: Sized {
    fn view(values: &[Self]) -> View<'_>;
    fn buffer(values: Vec<Self>) -> Buffer;
    fn values(buffer: &mut Buffer) -> &mut [Self];
}

impl Values for f32 {
    fn view(values: &[f32]) -> View<'_> {
        View::F32(values)
    }

    fn buffer(values: Vec<f32>) -> Buffer {
        Buffer::F32(values)
    }

    fn values(buffer: &mut Buffer) -> &mut [f32] {
        buffer.f32s()
    }
}

impl Values for i32 {
    fn view(values: &[i32]) -> View<'_> {
        View::I32(values)
    }

    fn buffer(values: Vec<i32>) -> Buffer {
        Buffer::I32(values)
    }

    fn values(buffer: &mut Buffer) -> &mut [i32] {
        buffer.i32s()
    }
}

/// An operand with its outer dim as rows; `outer_first` is the orientation in which that is the first of the two dims.
fn operand<'a>(
    context: &Context<'a>,
    (input, orientation): (InputId, Orientation),
    batch: usize,
    outer_first: Orientation,
) -> Operand<'a> {
    let tensor = input_tensor(context.inputs, input);
    let strides = tensor.strides();
    let (graph, problem) = (context.graph, context.problem);
    let dims = graph.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
    let strides = BodyStrides::of_operand(graph.space(), dims, strides);
    let start = strides.to_batch(problem.batch_place(batch));
    let (first, second) = (strides.row, strides.column);
    let (row_stride, column_stride) =
        if orientation == outer_first { (first, second) } else { (second, first) };
    Operand {
        dtype: tensor.dtype(),
        bytes: tensor.bytes(),
        offset: tensor.offset() as isize + start,
        row_stride,
        column_stride,
    }
}

/// Whether the caller is one of as many threads as are wanted: calls that share a pool of one thread would wait for it.
fn runs_here(threads: usize) -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() == threads
}

/// Threads are kept from call to call.
fn pool(threads: usize) -> Result<Arc<ThreadPool>, Refusal> {
    static POOLS: Mutex<BTreeMap<usize, Arc<ThreadPool>>> = Mutex::new(BTreeMap::new());
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pool) = pools.get(&threads) {
        return Ok(pool.clone());
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|_| Refusal::Threads { threads })?;
    let pool = Arc::new(pool);
    pools.insert(threads, pool.clone());
    Ok(pool)
}
