//! Emitted kernels bound to whole-number data, and what the library's own CPU makes of them.

use postlude::graph::Graph;
use postlude::placement::{Placement, Placements};
use postlude::plan::ScheduleTextError;
use postlude::target::{Chip, Schedule, Tile};
use postlude::{Argument, Arguments, DType, Kernel, MathMode, Problem, Sizes, Tensor};
use postlude_corpus::{Random, find_epilogue, pick};
use postlude_ptx::launch::Launch;
use postlude_ptx::shared::Region;
use postlude_sim::{Options, Output, Report, Timing, run};

/// A kernel with its launch, its buffers and the outputs they should hold.
pub(crate) struct Bound {
    pub(crate) text: String,
    pub(crate) launch: Launch,
    pub(crate) regions: Vec<Region>,
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Output>,
    wanted: Vec<Vec<u8>>,
    /// What the reference says of each output.
    reference: Vec<postlude::reference::Evaluated>,
    shapes: Vec<(DType, Vec<usize>)>,
}

/// The tensor's bytes at other strides, gaps filled with something else.
fn laid_out(tensor: &Tensor, strides: &[isize], gap: u8) -> Vec<u8> {
    let steps = tensor.shape().iter().zip(strides);
    let last: usize = steps.map(|(size, stride)| size.saturating_sub(1) * *stride as usize).sum();
    let row = strides.iter().rev().nth(1).map_or(1, |stride| *stride as usize);
    let elements = if tensor.is_empty() { 0 } else { (last + 1).next_multiple_of(row.max(1)) };
    let mut bytes = vec![gap; tensor.dtype().bytes_for(elements)];
    let mut index = vec![0; tensor.shape().len()];
    for value in tensor.values() {
        let place = index.iter().zip(strides).map(|(at, stride)| at * *stride as usize).sum();
        postlude::dtype::store(tensor.dtype(), &mut bytes, place, value);
        postlude::tensor::advance(&mut index, tensor.shape());
    }
    bytes
}

/// Between the elements of inputs: no number.
const NAN: u8 = 0xff;
/// Between the elements of outputs, and in them before a run.
const UNTOUCHED: u8 = 0x11;

impl Bound {
    /// Sizes are of B, M, N and K; `grid` limits the CTAs.
    pub(crate) fn new(source: &str, sizes: [usize; 4], tile: Tile, grid: u32) -> Bound {
        Bound::placed(
            source,
            sizes,
            tile,
            |_, _, _| {},
            |schedule| schedule.with("grid_limit", grid),
        )
    }

    /// The same with tensors moved and the tile's schedule changed.
    pub(crate) fn placed(
        source: &str,
        sizes: [usize; 4],
        tile: Tile,
        place: impl FnOnce(&Graph, &Problem, &mut Placements),
        change: impl FnOnce(&Schedule) -> Result<Schedule, ScheduleTextError>,
    ) -> Bound {
        let kernel = Kernel::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        let compiled = kernel.compile(&postlude::Options::default());
        let graph = compiled.optimised();
        let dims = postlude::problem::dim_names(graph);
        let sizes: Sizes = ["B", "M", "N", "K"]
            .into_iter()
            .zip(sizes)
            .filter(|(dim, _)| dims.contains(dim))
            .map(|(dim, size)| (dim.to_owned(), size))
            .collect();
        let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
        let mut placements = padded(graph, &problem);
        place(graph, &problem, &mut placements);
        let mut random = Random::new(7);
        let (mut arguments, mut scalars, mut buffers) = (Arguments::new(), Vec::new(), Vec::new());
        for (input, placement) in graph.inputs().iter().zip(&placements.inputs) {
            let argument = if let (Some(dims), Some(placement)) = (&input.dims, placement) {
                let shape = problem.shape(dims);
                let values: Vec<f64> =
                    (0..shape.iter().product()).map(|_| random.whole()).collect();
                let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
                buffers.push(laid_out(&tensor, &placement.strides, NAN));
                scalars.push(None);
                Argument::Tensor(tensor)
            } else {
                let value = random.whole();
                buffers.push(Vec::new());
                scalars.push(Some(value));
                Argument::Scalar(value)
            };
            arguments.insert(input.name.clone(), argument);
        }
        let mut outputs = compiled.outputs(&problem).expect("they fit");
        compiled.run_into(&problem, &arguments, &mut outputs).expect("the CPU runs it");
        let wanted: Vec<Vec<u8>> = outputs
            .iter()
            .zip(&placements.outputs)
            .map(|(each, placement)| laid_out(each, &placement.strides, UNTOUCHED))
            .collect();
        let written = elements(graph, &outputs, &placements, buffers.len());
        buffers.extend(wanted.iter().map(|bytes| vec![UNTOUCHED; bytes.len()]));
        let planning =
            compiled.planning(&problem, &placements, Chip::STANDARD).expect("it is one launch");
        let schedule = planning.fit(tile).expect("it is not refused").expect("every tile fits");
        let schedule = change(&schedule).expect("knobs of every schedule");
        let planned = planning.accept(&schedule);
        let planned = planned.unwrap_or_else(|refusal| panic!("{refusal}: {schedule}"));
        let entry = planned.emit(MathMode::Default);
        let launch = planned.launch(&scalars);
        let text = entry.to_string();
        let reference = compiled.evaluate(&problem, &arguments).expect("it is bound");
        let shapes = outputs.iter().map(|each| (each.dtype(), each.shape().to_vec())).collect();
        let regions = entry.regions;
        Bound { text, launch, regions, buffers, outputs: written, wanted, reference, shapes }
    }

    /// A region of shared memory.
    pub(crate) fn region(&self, name: &str) -> &Region {
        let region = self.regions.iter().find(|region| region.name == name);
        region.unwrap_or_else(|| panic!("no `{name}`"))
    }

    fn options(&self, timing: Timing) -> Options {
        let (regions, outputs) = (self.regions.clone(), self.outputs.clone());
        Options { timing, regions, outputs, ..Options::default() }
    }

    /// Runs it; what it told, and where its outputs differ.
    pub(crate) fn run(&self, timing: Timing) -> (Report, Option<String>) {
        let options = self.options(timing);
        let mut buffers = self.buffers.clone();
        let report = run(&self.text, &self.launch, &mut buffers, &options)
            .unwrap_or_else(|error| panic!("{error}"));
        let first = buffers.len() - self.wanted.len();
        for (place, (got, want)) in buffers[first..].iter().zip(&self.wanted).enumerate() {
            let wrong = got.iter().zip(want).filter(|(got, want)| got != want).count();
            if let Some(at) = got.iter().zip(want).position(|(got, want)| got != want) {
                let told = format!("output {place}: {wrong} bytes differ, first at {at}");
                return (report, Some(told));
            }
        }
        (report, None)
    }

    /// How many of the reference's bounds the worst element is away from it.
    pub(crate) fn worst(&self, timing: Timing) -> f64 {
        let options = self.options(timing);
        let mut buffers = self.buffers.clone();
        let report = run(&self.text, &self.launch, &mut buffers, &options)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(report.findings.is_empty() && report.finished);
        let first = buffers.len() - self.wanted.len();
        let outputs = buffers.drain(first..).zip(&self.shapes).zip(&self.reference);
        let worst = outputs.map(|((bytes, (dtype, shape)), reference)| {
            let got = Tensor::from_bytes(*dtype, shape.clone(), bytes).expect("it fits");
            reference.compare(&got).worst
        });
        worst.fold(0.0, f64::max)
    }

    /// Runs it under a timing that its name picks: no findings, and the same bits as on the CPU.
    pub(crate) fn check(&self, about: &str) {
        let random = (1..4).map(|seed| Timing::Random { seed });
        let all: Vec<Timing> = [Timing::Eager, Timing::Lazy].into_iter().chain(random).collect();
        self.check_timings(about, &pick(&all, about, 1));
    }

    /// The same under eager, lazy and these random timings.
    pub(crate) fn check_seeds(&self, about: &str, seeds: std::ops::Range<u64>) {
        let random = seeds.map(|seed| Timing::Random { seed });
        let all: Vec<Timing> = [Timing::Eager, Timing::Lazy].into_iter().chain(random).collect();
        self.check_timings(about, &all);
    }

    fn check_timings(&self, about: &str, timings: &[Timing]) {
        for timing in timings.iter().copied() {
            let (report, difference) = self.run(timing);
            let findings: Vec<String> =
                report.findings.iter().take(3).map(ToString::to_string).collect();
            assert!(findings.is_empty(), "{about}, {timing:?}: {}", findings.join("\n"));
            assert!(report.finished, "{about}, {timing:?}");
            assert_eq!(difference, None, "{about}, {timing:?}");
        }
    }
}

/// Which bytes of the outputs' buffers are elements.
fn elements(
    graph: &Graph,
    outputs: &[Tensor],
    placements: &Placements,
    first: usize,
) -> Vec<Output> {
    let mut all = Vec::new();
    for (place, output) in graph.outputs().iter().enumerate() {
        let (tensor, placement) = (&outputs[place], &placements.outputs[place]);
        let element = tensor.dtype().bits() / 8;
        all.push(Output {
            name: output.name.clone(),
            buffer: first + place,
            offset: 0,
            element,
            shape: tensor.shape().to_vec(),
            strides: placement.strides.iter().map(|stride| stride * element as isize).collect(),
        });
    }
    all
}

/// Tensors without gaps, but operands of the product with rows that tensor maps read whatever the sizes.
fn padded(graph: &Graph, problem: &Problem) -> Placements {
    let mut placements = Placements::packed(graph, problem);
    for (input, _) in [graph.products()[0].left, graph.products()[0].right] {
        let dims = graph.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
        let mut shape = problem.shape(dims);
        if let Some(row) = shape.last_mut() {
            *row = row.next_multiple_of(8);
        }
        placements.inputs[input.0 as usize] = Some(Placement::packed(&shape));
    }
    placements
}

/// A tile of the library's list; `cluster` CTAs share B.
pub(crate) fn tile(rows: u32, columns: u32, cluster: u32) -> Tile {
    *Chip::STANDARD
        .tiles()
        .iter()
        .find(|tile| (tile.rows, tile.columns, tile.cluster.rows()) == (rows, columns, cluster))
        .expect("a tile of the list")
}

/// The text of an epilogue.
pub(crate) fn epilogue(name: &str, dtype: DType) -> String {
    find_epilogue(name).expect("an epilogue of the list").source(dtype)
}
