//! One call: arrays are checked, outputs allocated or taken, and the kernel runs where the arrays are.
//!
//! Everything that follows from dtypes, shapes, strides and alignment is worked out once and remembered as an [`Entry`];
//! a call of the same kind compares addresses and runs.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use postlude::cuda::PreparedCall;
use postlude::runtime::{Device, DeviceArgument, DeviceTensor, Stream, validate};
use postlude::{
    Argument, Arguments, Backend, DType, Error, Prepared, Problem, Sizes, Tensor, TensorViewMut,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::array::{self, Array, Location, Protocol};
use crate::error::mistake;
use crate::host::{copy_back, stacked, view, view_mut};
use crate::kernel::{Given, Kernel, Typed};
use crate::list::{self, Placed};
use crate::memory::{Line, Memory, Owned};
use crate::scalars::whole_numbers;

/// Kinds of calls that are remembered for each kernel.
const REMEMBERED: usize = 32;
/// What addresses are compared to: code is chosen by how tensors lie beyond a multiple of it.
const PERIOD: u64 = 256;

/// A call that was prepared.
pub(crate) struct Entry {
    /// What it depends on, as numbers.
    kind: Vec<i64>,
    /// How far each array's bytes reach from its address, inputs before outputs.
    extents: Vec<(i64, i64)>,
    run: Run,
}

enum Run {
    Host(Prepared),
    Gpu(Device, Box<PreparedCall>),
    /// By the reference or the simulator, which prepare nothing.
    Slow(Box<Problem>),
}

/// Arrays of a call: inputs in the order of the signature, then outputs.
pub(crate) struct Arrays {
    inputs: Vec<Option<Placed>>,
    scalars: Vec<Option<f64>>,
    pub(crate) outputs: Vec<Placed>,
}

/// Runs a call on what was given.
pub(crate) fn call<'py>(
    py: Python<'py>,
    kernel: &Kernel,
    typed: &Typed,
    objects: &[Bound<'py, PyAny>],
    given: &[Given<'py>],
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let outputs = out.map(|out| given_outputs(py, typed, out)).transpose()?;
    let written = outputs.as_deref().unwrap_or_default();
    let (mut arrays, place) = Arrays::with_outputs(py, kernel, typed, given, written)?;
    let template = objects.iter().zip(given).find_map(|(object, given)| given.template(object));
    let Some(template) = template else {
        return Err(PyTypeError::new_err("a kernel needs arrays"));
    };
    let made = if let Some(outputs) = outputs {
        Made { objects: outputs, memory: false }
    } else {
        let problem = arrays.problem(typed).map_err(|error| kernel.call_error(py, &error))?;
        allocate(py, typed, &problem, template, place, &mut arrays)?
    };
    let stream = stream(py, place, template)?;
    let entry = arrays.entry(py, kernel, typed, place)?;
    // A framework that takes memory of ours over does not know the stream.
    let waits = made.memory;
    let failed = py.detach(|| run(typed, &entry, &arrays, stream, waits));
    failed.map_err(|error| kernel.call_error(py, &error))?;
    finish(py, typed, template, made)
}

impl Arrays {
    pub(crate) fn of(graph: &postlude::graph::Graph, given: &[Given<'_>]) -> Arrays {
        let arrays = graph
            .passed_inputs()
            .zip(given)
            .map(|(input, given)| given.placed().map(|array| array.read_as(input.dtype)));
        let scalars = given.iter().map(|given| match given {
            Given::Number { value, .. } => Some(*value),
            Given::Array(_) | Given::List(_) => None,
        });
        Arrays { inputs: arrays.collect(), scalars: scalars.collect(), outputs: Vec::new() }
    }

    /// Those of a call with given outputs, and where all of them are.
    pub(crate) fn with_outputs<'py>(
        py: Python<'py>,
        kernel: &Kernel,
        typed: &Typed,
        given: &[Given<'py>],
        outputs: &[Bound<'py, PyAny>],
    ) -> PyResult<(Arrays, Location)> {
        let graph = typed.compiled.defined();
        let mut arrays = Arrays::of(graph, given);
        whole_numbers(py, graph, &arrays.scalars)?;
        let place = location(py, kernel, given)?;
        for (output, object) in graph.results().into_iter().zip(outputs) {
            let array = output_array(py, output.name, object, place)?;
            arrays.outputs.push(array.read_as(output.dtype));
        }
        Ok((arrays, place))
    }

    /// All arrays, inputs before outputs.
    fn all(&self) -> impl Iterator<Item = &Placed> {
        self.inputs.iter().flatten().chain(&self.outputs)
    }

    pub(crate) fn problem(&self, typed: &Typed) -> Result<Problem, Error> {
        let inputs: Vec<Option<(DType, &[usize])>> = self
            .inputs
            .iter()
            .map(|one| one.as_ref().map(|array| (array.dtype, array.shape())))
            .collect();
        Ok(Problem::of_shapes(typed.compiled.defined(), &inputs)?)
    }

    /// What a prepared call depends on: where it runs, and of each array everything but its address.
    fn kind(&self, place: Location) -> Vec<i64> {
        let mut kind = Vec::with_capacity(8 * (self.inputs.len() + self.outputs.len()));
        kind.push(match place {
            Location::Host => -1,
            Location::Gpu(number) => i64::from(number),
        });
        for array in self.inputs.iter().map(Option::as_ref).chain(self.outputs.iter().map(Some)) {
            let Some(array) = array else {
                kind.push(-1);
                continue;
            };
            kind.push(array.dtype as i64);
            kind.push(array.rank as i64);
            kind.extend(array.shape().iter().map(|size| *size as i64));
            kind.extend(array.strides().iter().map(|stride| *stride as i64));
            kind.push((array.address % PERIOD) as i64);
            // Tables of lists are made for their steps.
            let list = array.list.as_deref().unwrap_or_default();
            kind.push(list.len() as i64);
            kind.extend(list.iter().map(|steps| *steps as i64));
        }
        kind
    }

    /// Whether no output reaches into the bytes of another array; what may touch is looked at exactly.
    fn are_apart(&self, extents: &[(i64, i64)]) -> bool {
        if self.all().any(|array| array.list.is_some()) {
            return self.items_are_apart();
        }
        let ranges: Vec<(i64, i64)> = self
            .all()
            .zip(extents)
            .map(|(array, (low, high))| (array.address as i64 + low, array.address as i64 + high))
            .collect();
        let first = ranges.len() - self.outputs.len();
        let apart =
            |a: (i64, i64), b: (i64, i64)| a.1 <= b.0 || b.1 <= a.0 || a.0 == a.1 || b.0 == b.1;
        (first..ranges.len())
            .all(|output| (0..output).all(|other| apart(ranges[output], ranges[other])))
    }

    /// The same where arrays are lists, whose items may lie between other arrays.
    fn items_are_apart(&self) -> bool {
        let first = self.all().count() - self.outputs.len();
        let mut ranges = Vec::new();
        for (place, array) in self.all().enumerate() {
            for item in array.apart().into_iter().filter(|item| !item.is_empty()) {
                let (low, high) = item.extent();
                let address = item.address as i64;
                ranges.push((address + low, address + high, place >= first));
            }
        }
        ranges.sort_unstable();
        // The furthest ends so far, of all and of outputs.
        let (mut read, mut written) = (i64::MIN, i64::MIN);
        ranges.into_iter().all(|(low, high, is_output)| {
            let apart = low >= written && (!is_output || low >= read);
            read = read.max(high);
            if is_output {
                written = written.max(high);
            }
            apart
        })
    }

    pub(crate) fn device_arguments(
        &self,
        typed: &Typed,
    ) -> (BTreeMap<String, DeviceArgument>, BTreeMap<String, DeviceTensor>) {
        let graph = typed.compiled.defined();
        let inputs = graph.passed_inputs().enumerate().map(|(place, input)| {
            let argument = match (&self.inputs[place], self.scalars[place]) {
                (Some(array), _) => DeviceArgument::Tensor(array.described()),
                (None, value) => DeviceArgument::Scalar(value.unwrap_or(0.0)),
            };
            (input.name.clone(), argument)
        });
        let outputs = graph.results().into_iter().zip(&self.outputs);
        let outputs = outputs.map(|(output, array)| (output.name.to_owned(), array.described()));
        (inputs.collect(), outputs.collect())
    }

    /// The prepared call of this kind, made now if there is none.
    fn entry(
        &self,
        py: Python<'_>,
        kernel: &Kernel,
        typed: &Typed,
        place: Location,
    ) -> PyResult<Arc<Entry>> {
        let kind = self.kind(place);
        let known = || typed.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().iter().find(|entry| entry.kind == kind).cloned();
        let fail = |error: Error| kernel.call_error(py, &error);
        if let Some(found) = found {
            if !self.are_apart(&found.extents) {
                self.validate(typed, place).map_err(fail)?;
            }
            return Ok(found);
        }
        let problem = self.validate(typed, place).map_err(fail)?;
        let extents: Vec<(i64, i64)> = self.all().map(|array| array.extent()).collect();
        let prepare = || self.prepare(kernel.backend, typed, place, problem);
        let run = py.detach(prepare).map_err(fail)?;
        let entry = Arc::new(Entry { kind, extents, run });
        let mut known = known();
        known.insert(0, entry.clone());
        known.truncate(REMEMBERED);
        Ok(entry)
    }

    fn validate(&self, typed: &Typed, place: Location) -> Result<Problem, Error> {
        let (inputs, outputs) = self.device_arguments(typed);
        let device = match place {
            Location::Host => 0,
            Location::Gpu(number) => number,
        };
        Ok(validate(typed.compiled.defined(), device, &inputs, &outputs, &Sizes::new())?)
    }

    fn prepare(
        &self,
        backend: Option<Backend>,
        typed: &Typed,
        place: Location,
        problem: Problem,
    ) -> Result<Run, Error> {
        match place {
            Location::Host if is_slow(backend) => Ok(Run::Slow(Box::new(problem))),
            Location::Host => Ok(Run::Host(typed.compiled.prepare(&problem)?)),
            Location::Gpu(number) => {
                let device = Device::open(number)?;
                let (inputs, outputs) = self.device_arguments(typed);
                let call = typed.compiled.prepare_on(&device, &inputs, &outputs, &Sizes::new())?;
                Ok(Run::Gpu(device, Box::new(call)))
            }
        }
    }

    /// The arguments as the CPU takes them.
    ///
    /// # Safety
    /// The arrays' memory is there and is not written while the answer is used.
    pub(crate) unsafe fn arguments<'a>(&self) -> Result<Vec<Argument<'a>>, Error> {
        let one = |(array, scalar): (&Option<Placed>, &Option<f64>)| match (array, scalar) {
            // SAFETY: promised by the caller.
            (Some(array), _) if array.list.is_some() => Ok(unsafe { stacked(array)? }.into()),
            // SAFETY: as above.
            (Some(array), _) => Ok(Argument::View(unsafe { view(array)? })),
            (None, value) => Ok(Argument::Scalar(value.unwrap_or(0.0))),
        };
        self.inputs.iter().zip(&self.scalars).map(one).collect()
    }
}

/// Whether a backend computes on the CPU what is not made for it.
fn is_slow(backend: Option<Backend>) -> bool {
    matches!(backend, Some(Backend::Reference | Backend::Sim))
}

/// Runs a prepared call. On a GPU the call is queued on the stream, and waited for only where that is asked.
fn run(
    typed: &Typed,
    entry: &Entry,
    arrays: &Arrays,
    stream: usize,
    waits: bool,
) -> Result<(), Error> {
    match &entry.run {
        Run::Slow(problem) => {
            // SAFETY: callers hold every array.
            let inputs = unsafe { arrays.arguments()? };
            let names = typed.compiled.defined().passed_inputs().map(|input| input.name.clone());
            let arguments: Arguments<'_> = names.zip(inputs).collect();
            beside(arrays, |made| typed.compiled.run_into(problem, &arguments, made))
        }
        Run::Host(prepared) => {
            // SAFETY: callers hold every array; that outputs touch no other array is known here, or seen to below.
            let inputs = unsafe { arrays.arguments()? };
            let listed = arrays.outputs.iter().any(|array| array.list.is_some());
            if listed || !arrays.are_apart(&entry.extents) {
                return beside(arrays, |made| {
                    let mut views: Vec<TensorViewMut<'_>> =
                        made.iter_mut().map(Tensor::view_mut).collect();
                    prepared.run(&inputs, &mut views)
                });
            }
            // SAFETY: as above.
            let outputs = arrays.outputs.iter().map(|array| unsafe { view_mut(array) });
            let mut outputs: Vec<TensorViewMut<'_>> = outputs.collect::<Result<_, _>>()?;
            prepared.run(&inputs, &mut outputs)
        }
        Run::Gpu(device, call) => {
            // SAFETY: the caller's framework says that it is its current stream of this GPU.
            let stream = unsafe { Stream::from_raw(device, stream)? };
            let outputs = arrays.outputs.iter().map(Some);
            let all = arrays.inputs.iter().map(Option::as_ref).chain(outputs);
            let address = |array: &Placed| (!array.is_empty()).then_some(array.address);
            let addresses: Vec<Option<u64>> = all.map(|one| one.and_then(address)).collect();
            call.launch_at(&stream, &addresses, &arrays.scalars)?;
            if waits { Ok(stream.synchronize()?) } else { Ok(()) }
        }
    }
}

/// Runs into memory of its own first: outputs interleave with one another, are lists, or replace an input in place.
fn beside(
    arrays: &Arrays,
    run: impl FnOnce(&mut [Tensor]) -> Result<(), Error>,
) -> Result<(), Error> {
    // What a kernel does not write stays as it is.
    // SAFETY: nothing writes while they are copied.
    let held = arrays.outputs.iter().map(|array| unsafe { stacked(array) });
    let mut made: Vec<Tensor> = held.collect::<Result<_, Error>>()?;
    run(&mut made)?;
    for (array, tensor) in arrays.outputs.iter().zip(&made) {
        // SAFETY: one output at a time, and no other view is used any more.
        unsafe { copy_back(tensor, array)? };
    }
    Ok(())
}

/// Where all arrays are.
fn location(py: Python<'_>, kernel: &Kernel, given: &[Given<'_>]) -> PyResult<Location> {
    let mut found: Option<(&str, Location)> = None;
    for (name, given) in kernel.names.iter().zip(given) {
        let Some(array) = given.array() else { continue };
        match found {
            None => found = Some((name, array.location)),
            Some((_, location)) if location == array.location => {}
            Some((first, location)) => {
                let message = format!(
                    "`{first}` is on {}, `{name}` on {}",
                    shown(location),
                    shown(array.location)
                );
                return Err(mistake(
                    py,
                    &message,
                    Some("bring all arrays of a call to one device"),
                ));
            }
        }
    }
    let place = found.map_or(Location::Host, |(_, location)| location);
    let (on_gpu, help) = match place {
        Location::Host => (false, "bring the arrays to a GPU, or leave out `backend`"),
        Location::Gpu(_) => (true, "bring the arrays to the CPU, or leave out `backend`"),
    };
    if on_gpu {
        // The framework would be asked for memory and a stream first.
        Device::refuse_forked().map_err(|error| kernel.call_error(py, &error.into()))?;
    }
    match kernel.backend {
        Some(backend) if (backend == Backend::Cuda) != on_gpu => {
            let message =
                format!("the arrays are on {}, and backend is '{}'", shown(place), backend.name());
            Err(mistake(py, &message, Some(help)))
        }
        Some(_) | None => Ok(place),
    }
}

fn shown(location: Location) -> String {
    match location {
        Location::Host => "the CPU".to_owned(),
        Location::Gpu(number) => format!("GPU {number}"),
    }
}

/// The arrays that `out` names: one, a sequence in the order of the signature, or a dictionary by name.
fn given_outputs<'py>(
    py: Python<'py>,
    typed: &Typed,
    out: &Bound<'py, PyAny>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let names = typed.output_names();
    let listed: Vec<Bound<'py, PyAny>> = if let Ok(named) = out.cast::<PyDict>() {
        let mut all = Vec::new();
        for name in &names {
            let found = named.get_item(name)?;
            all.push(found.ok_or_else(|| mistake(py, &format!("`out` has no `{name}`"), None))?);
        }
        if named.len() != names.len() {
            return Err(mistake(
                py,
                &format!("`out` has more than the outputs {}", names.join(", ")),
                None,
            ));
        }
        all
    } else {
        in_order(out)
    };
    if names.len() == 1 && listed.len() != 1 && list::items(out).is_some() {
        // The only output as a list.
        return Ok(vec![out.clone()]);
    }
    if listed.len() != names.len() {
        let message =
            format!("`out` has {} arrays, the kernel {} outputs", listed.len(), names.len());
        return Err(mistake(py, &message, Some(&format!("give {}", names.join(", ")))));
    }
    Ok(listed)
}

/// The arrays of a sequence, or the only one.
pub(crate) fn in_order<'py>(out: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    if let Ok(tuple) = out.cast::<PyTuple>() {
        tuple.iter().collect()
    } else if let Ok(list) = out.cast::<PyList>() {
        list.iter().collect()
    } else {
        vec![out.clone()]
    }
}

fn output_array(
    py: Python<'_>,
    name: &str,
    object: &Bound<'_, PyAny>,
    place: Location,
) -> PyResult<Placed> {
    if let Some(items) = list::items(object) {
        let numbered = items.iter().enumerate();
        let array = |(item, object): (usize, &Bound<'_, PyAny>)| {
            Ok(*output_array(py, &format!("{name}[{item}]"), object, place)?)
        };
        let arrays = numbered.map(array).collect::<PyResult<Vec<Array>>>()?;
        return Placed::of(py, name, &arrays);
    }
    let Some(protocol) = array::protocol(object) else {
        return Err(array::not_an_array(name, object));
    };
    if matches!(protocol, Protocol::Capsule) && is_immutable(object)? {
        return Err(mistake(
            py,
            &format!("`{name}`: arrays of JAX cannot be written"),
            Some("call without `out`: a new array comes back"),
        ));
    }
    let array = array::read_named(name, object, protocol)?.array;
    if array.read_only {
        return Err(mistake(
            py,
            &format!("`{name}` is read-only"),
            Some("give an array that may be written"),
        ));
    }
    if array.location != place {
        let message =
            format!("`{name}` is on {}, the inputs on {}", shown(array.location), shown(place));
        return Err(mistake(py, &message, Some("bring all arrays of a call to one device")));
    }
    Ok(array.into())
}

fn is_immutable(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let module: String = object.get_type().module()?.extract()?;
    Ok(module.starts_with("jax"))
}

/// Outputs of a call, not written yet.
struct Made<'py> {
    objects: Vec<Bound<'py, PyAny>>,
    /// Whether they are memory of ours, for the framework to take over.
    memory: bool,
}

/// Has the caller's framework allocate outputs; where it cannot write into its arrays, memory of ours is taken.
fn allocate<'py>(
    py: Python<'py>,
    typed: &Typed,
    problem: &Problem,
    template: &Bound<'py, PyAny>,
    place: Location,
    arrays: &mut Arrays,
) -> PyResult<Made<'py>> {
    let frameworks = py.import("postlude._frameworks")?;
    let empty = frameworks.getattr("empty")?;
    let mut made = Made { objects: Vec::new(), memory: false };
    for output in typed.compiled.defined().results() {
        let mut shape = problem.shape(output.dims);
        if let Some(last) = shape.last_mut() {
            *last /= output.dtype.per_byte();
        }
        let object =
            empty.call1((template, PyTuple::new(py, &shape)?, array::name_of(output.dtype)))?;
        let array = if object.is_none() {
            made.memory = true;
            let (array, owned) = own_memory(output.dtype, &shape, place)
                .map_err(|error| mistake(py, &error.to_string(), None))?;
            made.objects.push(Bound::new(py, Memory::new(array, owned))?.into_any());
            array.into()
        } else {
            let array = output_array(py, output.name, &object, place)?;
            made.objects.push(object);
            array
        };
        arrays.outputs.push(array.read_as(output.dtype));
    }
    Ok(made)
}

fn own_memory(dtype: DType, shape: &[usize], place: Location) -> Result<(Array, Owned), Error> {
    // Packed elements are bytes to frameworks, and the shape counts them.
    let dtype = match dtype {
        packed if packed.is_packed() => DType::U8,
        DType::TF32 => DType::F32,
        other => other,
    };
    let bytes = dtype.bytes_for(shape.iter().product()) as u64;
    let (address, owned) = match place {
        Location::Host => {
            let lines = vec![Line::default(); bytes.div_ceil(64) as usize];
            (lines.as_ptr().expose_provenance() as u64, Owned::Host(lines))
        }
        Location::Gpu(number) => {
            let buffer = Device::open(number)?.allocate(bytes.max(1))?;
            (buffer.address(), Owned::Gpu(buffer))
        }
    };
    let mut array = Array {
        dtype,
        rank: shape.len(),
        shape: [0; array::MAX_RANK],
        strides: [0; array::MAX_RANK],
        address,
        location: place,
        read_only: false,
    };
    array.shape[..shape.len()].copy_from_slice(shape);
    array.make_contiguous();
    Ok((array, owned))
}

/// The stream that the caller's framework works on.
fn stream(py: Python<'_>, place: Location, template: &Bound<'_, PyAny>) -> PyResult<usize> {
    match (place, array::protocol(template)) {
        (Location::Host, _) | (_, None) => Ok(0),
        (Location::Gpu(number), Some(Protocol::Exchange(exchange))) => exchange.stream(py, number),
        (Location::Gpu(number), Some(_)) => py
            .import("postlude._frameworks")?
            .getattr("stream")?
            .call1((template, number))?
            .extract(),
    }
}

/// What the caller gets: one output as itself, several as a named tuple.
fn finish<'py>(
    py: Python<'py>,
    typed: &Typed,
    template: &Bound<'py, PyAny>,
    made: Made<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut objects = made.objects;
    if made.memory {
        let adopt = py.import("postlude._frameworks")?.getattr("adopt")?;
        objects =
            objects.iter().map(|one| adopt.call1((template, one))).collect::<PyResult<_>>()?;
    }
    if objects.len() == 1 {
        return Ok(objects.remove(0));
    }
    let make = py.import("postlude._outputs")?.getattr("named")?;
    make.call1((PyTuple::new(py, typed.output_names())?, PyTuple::new(py, objects)?))
}
