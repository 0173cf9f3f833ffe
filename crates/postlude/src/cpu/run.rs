//! A whole call: sweep after sweep, batch after batch.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rayon::ThreadPool;

use crate::dtype::Elem;
use crate::graph::{Graph, InputId, MathMode, Orientation, accuracies};
use crate::plan::{Refusal, Schedule, sweeps};
use crate::problem::{Arguments, Problem};
use crate::tensor::Tensor;

use super::buffer::{Array, Buffer, View};
use super::columns::{Context, Finished, finish_columns};
use super::microkernel::Accumulator;
use super::outputs::{Tile, copy_natural, is_natural, scatter, spare_dtype};
use super::pack::Operand;
use super::product::{Product, Region, Regions, Scratch, for_each_region};
use super::program::{Program, program};
use super::sweep::{Sweep, run_regions, totals};

/// Runs a kernel into outputs of the problem's shapes.
///
/// # Panics
/// If the schedule was not planned for this graph and problem, and regions of it would write to the same bytes.
pub fn run(
    graph: &Graph,
    schedule: &Schedule,
    problem: &Problem,
    arguments: &Arguments,
    math: MathMode,
    outputs: &mut [Tensor],
) -> Result<(), Refusal> {
    assert!(schedule.suits(graph, problem), "the schedule does not suit this problem");
    let here = runs_here(schedule.threads);
    let pool = if here { None } else { Some(pool(schedule.threads)?) };
    let accuracies = accuracies(graph, math);
    let sweeps = sweeps(graph, schedule.width);
    let context = Context {
        graph,
        problem,
        arguments,
        accuracies: &accuracies,
        sweeps: &sweeps,
        width: schedule.width,
    };
    let programs: Vec<Program> = (0..sweeps.count)
        .map(|sweep| program(graph, &sweeps, sweep, schedule.width, problem.batch))
        .collect();
    let mut finished: Finished = vec![None; graph.len()];
    let mut spare = spare_tiles(graph, problem, outputs);
    let mut retained: Vec<Buffer> = Vec::new();
    let mut sweep_all = || {
        let tiles = tiles(graph, problem, outputs, &mut spare);
        for (sweep, program) in programs.iter().enumerate() {
            finish_columns(&context, sweep, &mut finished);
            if program.is_empty() && !(sweep == 0 && sweeps.retains) {
                continue;
            }
            let mut totals = totals(&context, program);
            make_room(&context, program, &mut finished);
            let stage = Stage { context: &context, schedule, program, first: sweep == 0 };
            for batch in 0..problem.batch.max(1) {
                let running = Sweep::new(&context, program, &finished, &tiles, batch);
                stage.run(&running, batch, &mut retained);
                running.gather(&mut totals, &mut finished);
            }
            for (folded, total) in program.folds.iter().zip(totals) {
                let extents = problem.extents(graph.ty(folded.node).axes);
                finished[folded.node.index()] = Some(Array { extents, data: total.finish() });
            }
        }
    };
    match pool {
        Some(pool) => pool.install(sweep_all),
        None => sweep_all(),
    }
    store_the_rest(graph, problem, &finished, &spare, outputs);
    Ok(())
}

/// Arrays for the values along rows that a sweep keeps; also where there are no rows.
fn make_room(context: &Context<'_>, program: &Program, finished: &mut Finished) {
    for (node, _) in &program.kept {
        let ty = context.graph.ty(*node);
        finished[node.index()] = Some(Array::new(ty.elem, context.problem.extents(ty.axes)));
    }
}

/// Everything that stays the same from batch to batch.
struct Stage<'a> {
    context: &'a Context<'a>,
    schedule: &'a Schedule,
    program: &'a Program,
    first: bool,
}

impl Stage<'_> {
    fn run(&self, sweep: &Sweep<'_>, batch: usize, retained: &mut Vec<Buffer>) {
        let columns = self.context.problem.product_columns();
        let retains = self.context.sweeps.retains;
        if self.first
            && (self.program.uses_accumulators || retains)
            && columns > 0
            && self.context.problem.rows > 0
            && self.context.problem.batch > 0
        {
            match self.context.graph.product().elem {
                Elem::I32 => self.multiply::<i32>(sweep, batch, retained),
                Elem::F32 | Elem::Bool => self.multiply::<f32>(sweep, batch, retained),
            }
            return;
        }
        let regions = self.regions();
        let accumulators =
            retained.get(batch).filter(|_| self.program.uses_accumulators).map(Buffer::view);
        run_regions(sweep, &regions, accumulators, columns);
    }

    fn multiply<T: Accumulator + Values>(
        &self,
        sweep: &Sweep<'_>,
        batch: usize,
        retained: &mut Vec<Buffer>,
    ) {
        let problem = self.context.problem;
        let columns = problem.product_columns();
        let product = product(self.context, batch);
        let mut scratch = Scratch::<T>::new();
        if self.context.sweeps.retains {
            let all = Mutex::new(vec![T::default(); problem.rows * columns]);
            let regions = Regions { height: self.schedule.rows, width: self.schedule.columns };
            for_each_region(&product, regions, &mut scratch, |region, values| {
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                for (index, row) in region.rows.clone().enumerate() {
                    let width = region.columns.len();
                    let start = row * columns + region.columns.start;
                    all[start..start + width]
                        .copy_from_slice(&values[index * width..(index + 1) * width]);
                }
            });
            let all = T::buffer(all.into_inner().unwrap_or_else(PoisonError::into_inner));
            run_regions(sweep, &self.regions(), Some(all.view()), columns);
            retained.push(all);
            return;
        }
        let regions = Regions { height: self.schedule.rows, width: self.schedule.columns };
        for_each_region(&product, regions, &mut scratch, |region, values| {
            sweep.region(region, T::view(values));
        });
    }

    /// The regions of the schedule, also of a product without columns.
    fn regions(&self) -> Vec<Region> {
        let problem = self.context.problem;
        let mut regions = Vec::new();
        for rows in cuts(problem.rows, self.schedule.rows) {
            let columns = problem.product_columns();
            // Rows without columns still make a region: their values along rows are wanted.
            let across = cuts(columns, self.schedule.columns).chain((columns == 0).then_some(0..0));
            regions.extend(across.map(|columns| Region { rows: rows.clone(), columns }));
        }
        regions
    }
}

fn cuts(total: usize, step: usize) -> impl Iterator<Item = Range<usize>> {
    (0..total).step_by(step.max(1)).map(move |start| start..(start + step).min(total))
}

/// Accumulators as values of the body.
trait Values: Sized {
    fn view(values: &[Self]) -> View<'_>;
    fn buffer(values: Vec<Self>) -> Buffer;
}

impl Values for f32 {
    fn view(values: &[f32]) -> View<'_> {
        View::F32(values)
    }

    fn buffer(values: Vec<f32>) -> Buffer {
        Buffer::F32(values)
    }
}

impl Values for i32 {
    fn view(values: &[i32]) -> View<'_> {
        View::I32(values)
    }

    fn buffer(values: Vec<i32>) -> Buffer {
        Buffer::I32(values)
    }
}

fn product<'a>(context: &Context<'a>, batch: usize) -> Product<'a> {
    let problem = context.problem;
    let declared = context.graph.product();
    let left = operand(context, declared.left, batch, Orientation::Plain);
    let right = operand(context, declared.right, batch, Orientation::Transposed);
    match Product::new(left, right, [problem.rows, problem.product_columns(), problem.inner]) {
        Ok(product) => product,
        Err(error) => panic!("compiler bug: {error}"),
    }
}

/// An operand with its outer dim as rows; `outer_first` is the orientation in which that is the first of the two dims.
fn operand<'a>(
    context: &Context<'a>,
    (input, orientation): (InputId, Orientation),
    batch: usize,
    outer_first: Orientation,
) -> Operand<'a> {
    let tensor: &Tensor = context.graph.tensor(context.arguments, input);
    let strides = tensor.strides();
    let rank = strides.len();
    let start = if rank == 3 { batch as isize * strides[0] } else { 0 };
    let (first, second) = (strides[rank - 2], strides[rank - 1]);
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

fn is_tile(graph: &Graph, output: &crate::graph::Output) -> bool {
    let axes = graph.ty(output.value).axes;
    axes.row && axes.column.is_some()
}

/// Memory for tile outputs whose tensors do not lie row after row.
fn spare_tiles(graph: &Graph, problem: &Problem, outputs: &[Tensor]) -> Vec<Option<Vec<u8>>> {
    let of = |(output, tensor): (&crate::graph::Output, &Tensor)| {
        let needs = is_tile(graph, output) && !is_natural(graph, problem, output, tensor);
        needs.then(|| vec![0; spare_dtype(output.dtype).bytes_for(tensor.len())])
    };
    graph.outputs().iter().zip(outputs).map(of).collect()
}

fn tiles<'a>(
    graph: &Graph,
    problem: &Problem,
    outputs: &'a mut [Tensor],
    spare: &'a mut [Option<Vec<u8>>],
) -> Vec<Option<Tile<'a>>> {
    let mut tiles = Vec::new();
    for ((output, tensor), spare) in graph.outputs().iter().zip(outputs).zip(spare) {
        let axes = graph.product().axes(&output.dims).filter(|_| is_tile(graph, output));
        tiles.push(axes.map(|axes| {
            let [_, rows, columns] = problem.extents(axes);
            let (dtype, bytes) = match spare {
                Some(bytes) => (spare_dtype(output.dtype), bytes.as_mut_slice()),
                None => (output.dtype, tensor.bytes_mut()),
            };
            Tile::new(dtype, bytes, rows, columns)
        }));
    }
    tiles
}

fn store_the_rest(
    graph: &Graph,
    problem: &Problem,
    finished: &Finished,
    spare: &[Option<Vec<u8>>],
    outputs: &mut [Tensor],
) {
    for ((output, tensor), spare) in graph.outputs().iter().zip(outputs).zip(spare) {
        match (spare, &finished[output.value.index()]) {
            (Some(natural), _) => copy_natural(graph, problem, output, natural, tensor),
            (None, Some(array)) => scatter(graph, problem, output, array, tensor),
            // A tile that its regions stored.
            (None, None) => {}
        }
    }
}

/// Whether the calling thread's own pool has this many threads. Callers that share another pool of one thread would wait
/// for each other.
fn runs_here(threads: usize) -> bool {
    rayon::current_thread_index().is_some() && rayon::current_num_threads() == threads
}

/// Threads are kept from call to call.
fn pool(threads: usize) -> Result<Arc<ThreadPool>, Refusal> {
    static POOLS: LazyLock<Mutex<HashMap<usize, Arc<ThreadPool>>>> = LazyLock::new(Mutex::default);
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
