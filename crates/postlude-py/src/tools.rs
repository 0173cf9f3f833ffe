//! What becomes of a kernel, and what this machine has, as text and plain values.

use postlude::check::Bound as Binding;
use postlude::graph::Input;
use postlude::runtime::Device;
use postlude::shape::Dim;
use postlude::target::Chip;
use postlude::{Backend, DType, Error, Kernel, KernelLaunch, Options, Problem, optimise};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::name_of;
use crate::kernel::Typed;

/// A declaration: name, dtype, and dims unless it is a number.
pub(crate) type Declared = (String, &'static str, Option<Vec<String>>);
/// Name, inputs and outputs.
pub(crate) type Signature = (String, Vec<Declared>, Vec<Declared>);
/// A dtype and a shape; no shape for a number.
pub(crate) type Shaped = (DType, Option<Vec<usize>>);
/// As Python says it: dtypes by name.
pub(crate) type Described = (String, Option<Vec<usize>>);

pub(crate) fn signature(kernel: &Kernel) -> Signature {
    let graph = kernel.defined();
    let dims = |dims: &[Dim]| dims.iter().map(Dim::to_string).collect();
    let inputs = graph.passed_inputs();
    let inputs =
        inputs.map(|one| (one.name.clone(), one.dtype.name(), one.dims.as_deref().map(dims)));
    let outputs = graph.results().into_iter();
    let outputs = outputs.map(|one| (one.name.to_owned(), one.dtype.name(), Some(dims(one.dims))));
    (graph.name().to_owned(), inputs.collect(), outputs.collect())
}

/// Inputs that have a second name: the place of the input that is passed, and its dims under that name.
pub(crate) fn second_dims(kernel: &Kernel) -> Vec<(usize, Vec<String>)> {
    let graph = kernel.defined();
    let place = |one: &Input| {
        let passed = &graph.passed_as(one).name;
        graph.passed_inputs().position(|input| input.name == *passed)
    };
    let dims = |dims: &Vec<Dim>| dims.iter().map(Dim::to_string).collect();
    let same = graph.inputs().iter().filter(|one| one.same_as.is_some());
    same.filter_map(|one| Some((place(one)?, one.dims.as_ref().map(dims)?))).collect()
}

/// Dtypes by the language's names or NumPy's; int64 is what inputs of i32 take.
pub(crate) fn described(inputs: Vec<Described>) -> PyResult<Vec<Shaped>> {
    let one = |(name, shape): Described| {
        let mut known = DType::ALL.into_iter().chain([DType::I64]);
        let named = known.find(|dtype| name_of(*dtype) == name);
        let found = DType::from_name(&name).or(named);
        let dtype = found.ok_or_else(|| PyValueError::new_err(format!("`{name}` is no dtype")))?;
        Ok((dtype, shape))
    };
    inputs.into_iter().map(one).collect()
}

pub(crate) fn bindings(inputs: &[Shaped]) -> Vec<Binding> {
    let one = |(dtype, shape): &Shaped| match shape {
        Some(shape) => Binding::Tensor(*dtype, shape.len()),
        None => Binding::Scalar(*dtype),
    };
    inputs.iter().map(one).collect()
}

fn problem(typed: &Typed, inputs: &[Shaped]) -> Result<Problem, Error> {
    let graph = typed.compiled.defined();
    let shaped = graph.passed_inputs().zip(inputs).map(|(declared, (dtype, shape))| {
        let mut shape = shape.clone()?;
        let packed = declared.dtype.is_packed() && *dtype == DType::U8;
        let dtype = if packed { declared.dtype } else { *dtype };
        if let Some(last) = shape.last_mut() {
            *last *= dtype.per_byte();
        }
        Some((dtype, shape))
    });
    let shaped: Vec<Option<(DType, Vec<usize>)>> = shaped.collect();
    let views: Vec<Option<(DType, &[usize])>> = shaped
        .iter()
        .map(|one| one.as_ref().map(|(dtype, shape)| (*dtype, shape.as_slice())))
        .collect();
    Ok(Problem::of_shapes(graph, &views)?)
}

/// An output: name, shape, NumPy's dtype.
pub(crate) type Inferred = (String, Vec<usize>, &'static str);

/// Outputs of a call.
pub(crate) fn infer(typed: &Typed, inputs: &[Shaped]) -> Result<Vec<Inferred>, Error> {
    let problem = problem(typed, inputs)?;
    let outputs = typed.compiled.defined().results().into_iter().map(|output| {
        let mut shape = problem.shape(output.dims);
        if let Some(last) = shape.last_mut() {
            *last /= output.dtype.per_byte();
        }
        (output.name.to_owned(), shape, name_of(output.dtype))
    });
    Ok(outputs.collect())
}

/// The launches of a call, each printed behind a comment that numbers it where there are several.
fn of_launches(
    typed: &Typed,
    inputs: &[Shaped],
    comment: &str,
    print: impl Fn(&KernelLaunch) -> String,
) -> Result<String, Error> {
    let problem = problem(typed, inputs)?;
    let graph = typed.compiled.defined();
    let passed = graph.passed_inputs().zip(inputs);
    let int64: Vec<&Input> =
        passed.filter(|(_, (dtype, _))| *dtype == DType::I64).map(|(input, _)| input).collect();
    let places = graph.inputs().iter().enumerate();
    let places = places.filter(|(_, input)| int64.contains(&graph.passed_as(input)));
    let places: Vec<usize> = places.map(|(place, _)| place).collect();
    let launches = typed.compiled.launches_with_int64(&problem, &places, Chip::STANDARD)?;
    let of = launches.len();
    let text = launches.iter().zip(1..).map(|(launch, number)| {
        let text = print(launch);
        let name = launch.graph().name();
        if of == 1 {
            text
        } else {
            format!("{comment} launch {number} of {of}, {name}\n{}\n", text.trim_end())
        }
    });
    Ok(text.collect())
}

fn schedules(typed: &Typed, inputs: &[Shaped]) -> Result<String, Error> {
    of_launches(typed, inputs, "#", |launch| launch.planned().schedule().to_string())
}

/// The text of one stage, or of all that need no sizes when none is named and no shapes are known.
pub(crate) fn explain(
    typed: &Typed,
    inputs: &[Shaped],
    stage: Option<&str>,
    options: &Options,
) -> Result<String, Error> {
    let compiled = &typed.compiled;
    let sized = || problem(typed, inputs);
    Ok(match stage {
        Some("text") => typed.kernel.ast().to_string(),
        Some("graph") => typed.kernel.checked().to_string(),
        Some("passes") => {
            let changed = optimise::trace(compiled.defined(), options.math).into_iter();
            let changed = changed.map(|(pass, graph)| format!("# after {pass}\n{graph}"));
            let defined = format!("# after define\n{}", compiled.defined());
            std::iter::once(defined).chain(changed).collect::<Vec<_>>().join("\n")
        }
        Some("tile") => compiled.program()?.to_string(),
        Some("schedule") => schedules(typed, inputs)?,
        Some("ptx") => of_launches(typed, inputs, "//", |it| it.emitted(it.planned()).to_string())?,
        Some("cpu") => compiled.schedule(&sized()?)?.to_string(),
        Some(_) | None => {
            let parts = [
                typed.kernel.ast().to_string(),
                compiled.optimised().to_string(),
                compiled.program().map_or_else(|error| format!("# {error}"), ToString::to_string),
            ];
            let mut parts = parts.to_vec();
            if let Ok(problem) = sized() {
                let schedules = schedules(typed, inputs);
                parts.push(schedules.unwrap_or_else(|error| format!("# on a GPU: {error}")));
                parts.push(compiled.schedule(&problem)?.to_string());
            }
            parts.iter().map(|part| format!("{}\n", part.trim_end())).collect::<Vec<_>>().join("\n")
        }
    })
}

/// GPUs, or why there are none, and the backends.
#[pyfunction]
pub(crate) fn machine() -> (Vec<String>, Option<String>, Vec<&'static str>) {
    let backends = Backend::ALL.into_iter().map(Backend::name).collect();
    match Device::list() {
        Ok(devices) => (devices.iter().map(ToString::to_string).collect(), None, backends),
        Err(error) => {
            let fix = error.fix().map_or(String::new(), |fix| format!("; {fix}"));
            (Vec::new(), Some(format!("{error}{fix}")), backends)
        }
    }
}
