//! A launch in the simulator: emitted, its tensors laid out in memory of their own.

use std::sync::Arc;

use postlude_ptx::launch::{Buffer, Launch, Parameter};
use postlude_ptx::shared::Region;
use postlude_sim::Report;
use postlude_sim::observe::Observer;

use crate::error::{Error, SimulationError};
use crate::graph::{Graph, InputId};
use crate::image;
use crate::image::guard::{self, POISON};
use crate::image::list::List;
use crate::placement::{Placement, Placements};
use crate::problem::{Argument, BindError, Problem, Segments};
use crate::program::{KernelLaunch, Planner};
use crate::target::Schedule;
use crate::tensor::{Tensor, TensorView, TensorViewMut};

use super::options::SimOptions;

/// How tensors are laid out, and launches planned that read them so.
pub(crate) struct Laying<'a> {
    /// Whether outputs are poisoned before a run, and what lies between their elements watched.
    pub(crate) guard: bool,
    /// Whether batched tensors are laid out as lists.
    pub(crate) lists: bool,
    pub(crate) planner: Planner<'a>,
}

/// Runs one launch of a call into its outputs.
pub type EachLaunch<'a> = dyn FnMut(&SimCall, &mut [TensorViewMut<'_>]) -> Result<(), Error> + 'a;

/// A launch with everything planned, emitted and laid out.
#[derive(Clone, Debug)]
pub struct SimCall {
    name: String,
    schedule: Schedule,
    multiply_adds: u64,
    text: String,
    regions: Arc<[Region]>,
    launch: Launch,
    names: Vec<String>,
    buffers: Vec<Vec<u8>>,
    /// Buffers of inputs; those of outputs follow.
    inputs: usize,
    /// Which bytes of the others are elements, all of which must be written.
    outputs: Vec<postlude_sim::Output>,
    guard: bool,
    /// Tensors that are laid out as lists, by their buffers.
    lists: Vec<(usize, List)>,
    /// Whether no output has an element, so that there is nothing to launch.
    is_empty: bool,
    /// How the outputs lie.
    places: Vec<Placement>,
    /// Bytes of their memory on the host.
    memory: Vec<usize>,
    /// Results that earlier launches stored, with their places among all.
    earlier: Vec<(usize, Tensor)>,
}

impl SimCall {
    /// Emits a launch and lays out inputs, and outputs as these lie.
    pub(crate) fn new(
        launch: &KernelLaunch,
        laying: &Laying<'_>,
        arguments: &[Argument<'_>],
        outputs: &[TensorView<'_>],
    ) -> Result<SimCall, Error> {
        let (graph, problem) = (&*launch.form.graph, &launch.problem);
        let laid = Laid::new(graph, laying, arguments, outputs);
        let planned = if laid.tables.0.is_empty() {
            launch.planned().clone()
        } else {
            laying.planner.plan(&launch.form, problem, &laid.placements)?.swap_remove(0)
        };
        let entry = launch.emitted(&planned);
        let facts = planned.launch(&laid.scalars);
        let inputs = graph.inputs().iter().map(|input| input.name.clone());
        let results = graph.outputs().iter().map(|output| output.name.clone());
        Ok(SimCall {
            name: graph.name().to_owned(),
            multiply_adds: planned.schedule().multiply_adds(problem),
            schedule: planned.schedule(),
            text: entry.to_string(),
            regions: entry.regions.into(),
            launch: shifted(facts, &laid),
            names: inputs.chain(results).chain(laid.tables.names(graph)).collect(),
            inputs: graph.inputs().len(),
            outputs: elements(graph, written_rows(graph, problem, arguments), outputs, &laid),
            buffers: laid.buffers.into_iter().chain(laid.tables.bytes()).collect(),
            lists: laid.tables.0,
            guard: laying.guard,
            is_empty: outputs.iter().all(TensorView::is_empty),
            places: outputs.iter().map(|tensor| image::placement(*tensor)).collect(),
            memory: outputs.iter().map(|tensor| tensor.bytes().len()).collect(),
            earlier: Vec::new(),
        })
    }

    /// The same call, before which other launches stored results.
    pub(crate) fn after(self, earlier: Vec<(usize, Tensor)>) -> SimCall {
        SimCall { earlier, ..self }
    }

    /// The name of what it computes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is run.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// How many multiply-adds its products have, counted in whole tiles.
    pub fn multiply_adds(&self) -> u64 {
        self.multiply_adds
    }

    /// The PTX.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The facts of its launch.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Names for parts of its shared memory.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The names of its buffers: inputs in the order of the signature, then outputs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What the buffers hold before the launch.
    pub fn buffers(&self) -> &[Vec<u8>] {
        &self.buffers
    }

    /// Runs it into tensors that lie as the first ones did; what was found does not end it.
    pub fn run(
        &self,
        options: &SimOptions,
        observer: &mut dyn Observer,
        outputs: &mut [Tensor],
    ) -> Result<Report, Error> {
        let mut outputs: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
        self.run_views(options, observer, &mut outputs)
    }

    /// The same into views.
    pub fn run_views(
        &self,
        options: &SimOptions,
        observer: &mut dyn Observer,
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<Report, Error> {
        let (wanted, given) = (self.places.len() + self.earlier.len(), outputs.len());
        if wanted != given {
            return Err(BindError::OutputCount { wanted, given }.into());
        }
        for (place, tensor) in &self.earlier {
            outputs[*place].copy_from(tensor.view());
        }
        let is_own = |place: &usize| self.earlier.iter().all(|(other, _)| other != place);
        let all = outputs.iter_mut().enumerate().filter(|(place, _)| is_own(place));
        let outputs: &mut [_] = &mut all.map(|(_, own)| own.reborrow()).collect::<Vec<_>>();
        let memory = self.memory.iter().copied();
        image::check_same(&self.names[self.inputs..], &self.places, memory, outputs)?;
        if self.is_empty {
            return Ok(Report { finished: true, ..Report::default() });
        }
        let mut buffers = self.buffers.clone();
        let options = postlude_sim::Options {
            timing: options.timing,
            findings: true,
            budget: options.budget,
            regions: self.regions.to_vec(),
            outputs: self.outputs.clone(),
        };
        let ran =
            postlude_sim::run_observed(&self.text, &self.launch, &mut buffers, &options, observer);
        let report = ran.map_err(SimulationError::from)?;
        for (buffer, tensor) in (self.inputs..).zip(outputs) {
            let (name, bytes) = (&self.names[buffer], &buffers[buffer]);
            match self.lists.iter().find(|(listed, _)| *listed == buffer) {
                Some((_, list)) => list.take_back(name, bytes, POISON, tensor.bytes_mut()),
                None => guard::take(name, bytes, 0, self.guard, tensor),
            }
        }
        Ok(report)
    }
}

/// Which bytes of the outputs' buffers are elements; the outputs' buffers follow the inputs' buffers.
/// Of rows that are cut into segments those up to the last end must be written.
fn elements(
    graph: &Graph,
    written: Option<usize>,
    outputs: &[TensorView<'_>],
    laid: &Laid,
) -> Vec<postlude_sim::Output> {
    let first = graph.inputs().len();
    let mut all = Vec::new();
    let outputs = graph.outputs().iter().zip(outputs.iter().copied());
    for ((output, tensor), buffer) in outputs.zip(first..) {
        let (name, element) = (output.name.clone(), tensor.dtype().bits() / 8);
        let row = output.dims.iter().position(|dim| graph.space().row_run(dim).is_some());
        let mut shape = tensor.shape().to_vec();
        if let (Some(written), Some(row)) = (written, row) {
            shape[row] = written;
        }
        if let Some(list) = laid.tables.of(buffer) {
            if element == 0 {
                continue;
            }
            let strides = tensor.strides().iter().skip(1);
            let strides: Vec<isize> = strides.map(|stride| stride * element as isize).collect();
            let item = |offset| postlude_sim::Output {
                name: name.clone(),
                buffer,
                offset,
                element,
                shape: shape[1..].to_vec(),
                strides: strides.clone(),
            };
            all.extend(list.firsts().map(item));
        } else if shape == tensor.shape() && guard::is_packed(tensor) {
            all.push(postlude_sim::Output::whole(name, buffer, tensor.bytes().len()));
        } else if element > 0 {
            let strides = tensor.strides().iter().map(|stride| stride * element as isize);
            all.push(postlude_sim::Output {
                name,
                buffer,
                offset: image::start(tensor),
                element,
                shape,
                strides: strides.collect(),
            });
        }
    }
    all
}

/// The rows of all segments, where rows are cut into segments.
fn written_rows(graph: &Graph, problem: &Problem, arguments: &[Argument<'_>]) -> Option<usize> {
    let ends = arguments.get(graph.ends()?.0 as usize).and_then(Argument::tensor)?;
    Some(Segments::new(ends, problem.rows).written())
}

/// A call's tensors in memory of their own.
#[derive(Default)]
struct Laid {
    placements: Placements,
    /// What the host passes, by place in the signature.
    scalars: Vec<Option<f64>>,
    /// Inputs in the order of the signature, then outputs.
    buffers: Vec<Vec<u8>>,
    /// Bytes from each buffer's start to its tensor's first element.
    starts: Vec<u64>,
    tables: Tables,
}

/// Tensors that are laid out as lists, by their buffers.
#[derive(Default)]
struct Tables(Vec<(usize, List)>);

impl Tables {
    fn of(&self, buffer: usize) -> Option<&List> {
        self.0.iter().find(|(listed, _)| *listed == buffer).map(|(_, list)| list)
    }

    /// The table of a buffer, by its place among all of them.
    fn place(&self, buffer: usize) -> Option<usize> {
        self.0.iter().position(|(listed, _)| *listed == buffer)
    }

    fn names(&self, graph: &Graph) -> Vec<String> {
        let inputs = graph.inputs().iter().map(|input| &input.name);
        let names: Vec<&String> =
            inputs.chain(graph.outputs().iter().map(|output| &output.name)).collect();
        self.0.iter().map(|(buffer, _)| format!("{} (table)", names[*buffer])).collect()
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|(_, list)| list.table()).collect()
    }
}

impl Laid {
    fn new(
        graph: &Graph,
        laying: &Laying<'_>,
        inputs: &[Argument<'_>],
        outputs: &[TensorView<'_>],
    ) -> Laid {
        let Laying { guard, lists, .. } = *laying;
        let mut laid = Laid::default();
        for (place, argument) in inputs.iter().enumerate() {
            if let Some(tensor) = argument.tensor().filter(|_| lists)
                && let Some(list) = List::of_input(graph, InputId(place as u32), tensor)
            {
                laid.scalars.push(None);
                laid.placements.inputs.push(Some(list.placement.clone()));
                let held = list.lay_out(tensor.bytes(), POISON);
                laid.push_list(list, held);
                continue;
            }
            match argument {
                Argument::Scalar(value) => {
                    laid.scalars.push(Some(*value));
                    laid.placements.inputs.push(None);
                    laid.push(Vec::new(), 0);
                }
                Argument::Tensor(tensor) => laid.push_input(tensor.view()),
                Argument::View(view) => laid.push_input(*view),
            }
        }
        for (tensor, output) in outputs.iter().copied().zip(graph.outputs()) {
            if lists && let Some(list) = List::of(graph, &output.dims, tensor) {
                laid.placements.outputs.push(list.placement.clone());
                let held = list.lay_out(tensor.bytes(), POISON);
                let held = if guard { vec![POISON; held.len()] } else { held };
                laid.push_list(list, held);
                continue;
            }
            laid.placements.outputs.push(image::placement(tensor));
            let held =
                if guard { vec![POISON; tensor.bytes().len()] } else { tensor.bytes().to_vec() };
            laid.push(held, image::start(tensor));
        }
        laid
    }

    fn push_list(&mut self, list: List, bytes: Vec<u8>) {
        let buffer = self.buffers.len();
        self.push(bytes, list.start);
        self.tables.0.push((buffer, list));
    }

    fn push_input(&mut self, tensor: TensorView<'_>) {
        self.scalars.push(None);
        self.push(tensor.bytes().to_vec(), image::start(tensor));
        self.placements.inputs.push(Some(image::placement(tensor)));
    }

    fn push(&mut self, bytes: Vec<u8>, start: usize) {
        self.buffers.push(bytes);
        self.starts.push(start as u64);
    }
}

/// The same launch on buffers that begin before their tensors do.
fn shifted(launch: Launch, laid: &Laid) -> Launch {
    let start = |buffer: Buffer| laid.starts.get(buffer.0 as usize).copied().unwrap_or(0);
    // Tables lie behind all tensors.
    let table = |buffer: Buffer| {
        let place = laid.tables.place(buffer.of_table()?.0 as usize)?;
        Some(Buffer((laid.buffers.len() + place) as u32))
    };
    let shift = |parameter| match parameter {
        Parameter::Pointer { buffer, offset } if table(buffer).is_some() => {
            Parameter::Pointer { buffer: table(buffer).unwrap_or(buffer), offset }
        }
        Parameter::Pointer { buffer, offset } => {
            Parameter::Pointer { buffer, offset: offset.wrapping_add(start(buffer)) }
        }
        Parameter::Map(mut map) => {
            map.offset += start(map.buffer) as i64;
            Parameter::Map(map)
        }
        Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => parameter,
    };
    Launch { parameters: launch.parameters.into_iter().map(shift).collect(), ..launch }
}
