//! The launch of one of our own kernels as `launch.toml`: inputs as `run` would draw them, outputs poisoned.

use std::collections::BTreeMap;
use std::path::absolute;

use postlude::graph::Input;
use postlude::placement::Placement;
use postlude::target::Planned;
use postlude_corpus::Fill;
use postlude_ptx::launch::{Buffer, Parameter};
use postlude_ptx::shared::Region;
use serde::Serialize;
use toml::Spanned;

use super::buffer::{BufferFile, POISONED};
use super::{
    ElementFile, LaunchFile, MapFile, ParameterFile, PointerFile, RegionFile, SwizzleFile,
};
use crate::bindings::{Given, Loaded};
use crate::failure::{Failure, Mistake};
use crate::gpu_schedule::GpuProblem;
use crate::inputs;

/// The file's text.
pub(crate) fn emitted(
    loaded: &Loaded,
    problem: &GpuProblem<'_>,
    planned: &Planned,
    regions: &[Region],
) -> Result<String, Failure> {
    inputs::require_scalars(loaded)?;
    let graph = problem.launch.graph();
    let scalar = |input: &Input| match (&input.dims, loaded.given.get(&input.name)) {
        (None, Some(Given::Number(value))) => Some(*value),
        // The first element of a chunk, which no caller passes.
        (None, _) => Some(0.0),
        (Some(_), _) => None,
    };
    let scalars: Vec<Option<f64>> = graph.inputs().iter().map(scalar).collect();
    let launch = planned.launch(&scalars);
    let inputs = graph.inputs().iter().map(|input| &graph.passed_as(input).name);
    let names: Vec<&String> =
        inputs.chain(graph.outputs().iter().map(|output| &output.name)).collect();
    let name = |buffer: &Buffer| match *buffer {
        Buffer::WORKSPACE => "workspace".to_owned(),
        Buffer(number) => names[number as usize].clone(),
    };
    let parameter = |parameter: &Parameter| match parameter {
        Parameter::U32(value) => ParameterFile::U32(*value),
        Parameter::U64(value) => ParameterFile::U64(*value as i64),
        Parameter::F32(value) => ParameterFile::F32(*value),
        Parameter::Pointer { buffer, offset } => {
            ParameterFile::Pointer(PointerFile { buffer: name(buffer), offset: *offset })
        }
        Parameter::Map(map) => ParameterFile::Map(MapFile {
            buffer: name(&map.buffer),
            offset: map.offset,
            element: ElementFile::of(map.element),
            dims: map.sizes.clone(),
            strides: map.strides.clone(),
            box_sizes: map.box_sizes.clone(),
            swizzle: SwizzleFile::of(map.swizzle),
        }),
    };
    let region = |region: &Region| RegionFile {
        name: region.name.clone(),
        offset: region.offset,
        bytes: region.bytes,
    };
    let regions: Vec<RegionFile> =
        regions.iter().filter(|region| region.bytes > 0).map(region).collect();
    let parameters: Vec<ParameterFile> = launch.parameters.iter().map(parameter).collect();
    let lists = list("parameters", &parameters) + &list("regions", &regions);
    let file = LaunchFile {
        grid: launch.grid,
        cluster: launch.cluster,
        threads: launch.threads,
        shared_bytes: launch.shared_bytes,
        workspace_bytes: launch.workspace_bytes,
        parameters: Vec::new(),
        buffers: buffers(loaded, problem)?,
        regions: Vec::new(),
    };
    let text = toml::to_string(&file).expect("compiler bug: a launch without text");
    // Lists of small tables read best a line each, and stand before the tables of buffers.
    let (facts, buffers) = text.split_once("\n[").unwrap_or((&text, ""));
    Ok(format!("{facts}{lists}\n[{buffers}"))
}

/// An array with a line for each element.
fn list(name: &str, elements: &[impl Serialize]) -> String {
    let mut text = format!("{name} = [\n");
    for element in elements {
        let value = toml::Value::try_from(element).expect("compiler bug: no such value");
        text.push_str(&format!("    {value},\n"));
    }
    text + "]\n"
}

/// Inputs and outputs by name.
fn buffers(
    loaded: &Loaded,
    problem: &GpuProblem<'_>,
) -> Result<BTreeMap<String, Spanned<BufferFile>>, Failure> {
    let graph = problem.launch.graph();
    let mut buffers = BTreeMap::new();
    let inputs = graph.inputs().iter().enumerate();
    for (place, input) in inputs.filter(|(_, input)| input.same_as.is_none()) {
        let (Some(dims), Some(placement)) = (&input.dims, &problem.launch.placements.inputs[place])
        else {
            continue;
        };
        let shape = problem.launch.problem.shape(dims);
        let mut buffer = BufferFile { row: row(&shape, placement), ..BufferFile::default() };
        match loaded.given.get(&input.name) {
            Some(Given::File(stored)) => {
                let path = stored.path();
                let path = absolute(path).map_err(|error| Mistake::io(path, &error))?;
                buffer.file = Some(path);
            }
            Some(Given::Number(value)) => buffer.values = Some(vec![*value]),
            given @ (Some(Given::Fill(_)) | None) => {
                let (kind, count) = inputs::drawn(graph, &problem.launch.problem, input, given);
                buffer.fill = Some(kind.name().to_owned());
                buffer.count = matches!(kind, Fill::Ends | Fill::Labels).then_some(count);
            }
        }
        buffer.dtype = Some(input.dtype.name().to_owned());
        buffer.shape = Some(shape);
        buffers.insert(input.name.clone(), Spanned::new(0..0, buffer));
    }
    for output in graph.outputs() {
        let buffer = BufferFile {
            dtype: Some(output.dtype.name().to_owned()),
            shape: Some(problem.launch.problem.shape(&output.dims)),
            fill: Some(POISONED.to_owned()),
            output: true,
            ..BufferFile::default()
        };
        buffers.insert(output.name.clone(), Spanned::new(0..0, buffer));
    }
    Ok(buffers)
}

/// Elements from row to row, where rows are padded.
fn row(shape: &[usize], placement: &Placement) -> Option<usize> {
    let [.., step, _] = placement.strides[..] else { return None };
    let last = *shape.last()?;
    let padded = usize::try_from(step).ok()?;
    (padded > last && shape.len() > 1).then_some(padded)
}
