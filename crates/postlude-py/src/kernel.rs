//! A kernel as Python holds it: text that is typed once for each combination of dtypes and ranks, and compiled once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use postlude::check::{self, Bindings, Bound as Binding};
use postlude::plan::ScheduleTextError;
use postlude::target::Schedule;
use postlude::{Backend, Compiled, DType, Derived, Error, Hooks, MathMode, Options, Save, syntax};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::array::{self, Array, Held};
use crate::call::{self, Entry};
use crate::check::check as check_outputs;
use crate::error::{Stage, exception, mistake};
use crate::list::{self, HeldList, Placed};
use crate::{tools, torch, tune};

/// What an argument is.
pub(crate) enum Given<'py> {
    Array(Held<'py>),
    List(HeldList<'py>),
    Number { value: f64, integer: bool },
}

impl<'py> Given<'py> {
    pub(crate) fn array(&self) -> Option<&Array> {
        match self {
            Given::Array(held) => Some(&held.array),
            Given::List(held) => Some(&held.placed),
            Given::Number { .. } => None,
        }
    }

    /// The array, or the list of arrays.
    pub(crate) fn placed(&self) -> Option<Placed> {
        match self {
            Given::Array(held) => Some(held.array.into()),
            Given::List(held) => Some(held.placed.clone()),
            Given::Number { .. } => None,
        }
    }

    /// The object whose framework is the argument's.
    pub(crate) fn template<'a>(
        &'a self,
        object: &'a Bound<'py, PyAny>,
    ) -> Option<&'a Bound<'py, PyAny>> {
        match self {
            Given::Array(_) => Some(object),
            Given::List(held) => Some(&held.first),
            Given::Number { .. } => None,
        }
    }

    fn binding(&self) -> Binding {
        match self {
            Given::Array(Held { array, .. }) => Binding::Tensor(array.dtype, array.rank),
            Given::List(held) => Binding::Tensor(held.placed.dtype, held.placed.rank),
            Given::Number { integer: true, .. } => Binding::Scalar(DType::I32),
            Given::Number { integer: false, .. } => Binding::Scalar(DType::F32),
        }
    }
}

/// A kernel with its dtypes, compiled.
pub(crate) struct Typed {
    pub(crate) kernel: postlude::Kernel,
    pub(crate) compiled: Compiled,
    /// Calls that were prepared, the latest first.
    pub(crate) entries: Mutex<Vec<Arc<Entry>>>,
}

/// Texts of both passes, what is saved, cotangents by output and derivatives by input.
type Derivatives = (String, String, Vec<String>, Vec<(String, String)>, Vec<(String, String)>);

/// A kernel: text, with what was typed and compiled of it so far.
#[pyclass(frozen, module = "postlude._native")]
pub(crate) struct Kernel {
    pub(crate) text: String,
    /// The names of the inputs, in the order of the signature.
    pub(crate) names: Vec<String>,
    /// Whether the text says its dtypes.
    declared: bool,
    options: Options,
    /// The backend that was asked for; a call without one runs where its arrays are.
    pub(crate) backend: Option<Backend>,
    typed: Mutex<Vec<(Vec<Binding>, Arc<Typed>)>>,
}

#[pymethods]
#[allow(clippy::needless_pass_by_value)] // Python's lists are taken as they come.
impl Kernel {
    #[new]
    #[pyo3(signature = (text, *, math = "default", threads = None, keep = None, backend = None, schedule = None))]
    fn new(
        py: Python<'_>,
        text: String,
        math: &str,
        threads: Option<usize>,
        keep: Option<Vec<String>>,
        backend: Option<&str>,
        schedule: Option<&str>,
    ) -> PyResult<Kernel> {
        let math = match math {
            "default" => MathMode::Default,
            "accurate" => MathMode::Accurate,
            "fast" => MathMode::Fast,
            other => {
                let message = format!("math is '{other}'; it is 'default', 'accurate' or 'fast'");
                return Err(PyValueError::new_err(message));
            }
        };
        let backend = backend.map(named_backend).transpose()?;
        let on = backend.unwrap_or_default();
        let hooks =
            Hooks { schedule: schedule.map(given_schedule).transpose()?, ..Hooks::default() };
        let options = Options { math, threads, keep, backend: on, hooks, ..Options::default() };
        let fail = |error: Error| exception(py, Stage::Kernel, &text, &error);
        let ast = syntax::parse(&text).map_err(|errors| fail(errors.into()))?;
        let declared = ast.signature.is_some();
        let typed = Mutex::default();
        if !declared {
            let names = check::free_names(&ast);
            return Ok(Kernel { text, names, declared, options, backend, typed });
        }
        let kernel = postlude::Kernel::parse(&text).map_err(fail)?;
        keeps_known(&kernel, &options)?;
        let names = kernel.defined().passed_inputs().map(|input| input.name.clone()).collect();
        let compiled = Typed::new(kernel, &options);
        let typed = Mutex::new(vec![(Vec::new(), compiled)]);
        Ok(Kernel { text, names, declared, options, backend, typed })
    }

    /// The text.
    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    /// The names of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The names of the outputs, where they are known without arguments.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.only().map_or_else(Vec::new, |typed| typed.output_names())
    }

    /// What the text declares of each input and output: name, dtype, dims; `None` for the dims of a number.
    #[getter]
    fn signature(&self) -> Option<tools::Signature> {
        self.only().map(|typed| tools::signature(&typed.kernel))
    }

    /// Inputs that have a second name: the place of the input that is passed, and its dims under that name.
    #[getter]
    fn second_dims(&self) -> Vec<(usize, Vec<String>)> {
        self.only().map_or_else(Vec::new, |typed| tools::second_dims(&typed.kernel))
    }

    /// The arguments of a call in the order of the signature.
    fn ordered<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.assign(args, Some(kwargs))
    }

    /// Runs the kernel.
    #[pyo3(signature = (*args, out = None, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        out: Option<&Bound<'py, PyAny>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let objects = self.assign(args, kwargs)?;
        let given = self.read(&objects)?;
        let typed = self.typed(py, &given)?;
        call::call(py, self, &typed, &objects, &given, out)
    }

    /// Runs the kernel for a user: `NotImplemented` where PyTorch has to see an operator instead.
    fn call<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let torch = torch::loaded(py)?;
        if let Some(torch) = torch
            && torch.needs_operator(py, args, kwargs, out)?
        {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let objects = self.assign(args, Some(kwargs))?;
        let given = self.read(&objects)?;
        if let Some(torch) = torch
            && torch.is_negated(&objects, &given)?
        {
            return Ok(py.NotImplemented().into_bound(py));
        }
        let typed = self.typed(py, &given)?;
        let result = call::call(py, self, &typed, &objects, &given, out)?;
        if let (Some(torch), Some(out)) = (torch, out) {
            torch.written(py, out)?;
        }
        Ok(result)
    }

    /// The shapes and dtypes of the outputs of a call with inputs of these dtypes and shapes; a number has no shape.
    fn infer(
        &self,
        py: Python<'_>,
        inputs: Vec<tools::Described>,
    ) -> PyResult<Vec<(String, Vec<usize>, &'static str)>> {
        let inputs = tools::described(inputs)?;
        let typed = self.typed_for(py, tools::bindings(&inputs))?;
        tools::infer(&typed, &inputs).map_err(|error| self.call_error(py, &error))
    }

    /// What becomes of a kernel whose inputs have these dtypes and shapes, stage by stage; all stages without a name.
    #[pyo3(signature = (inputs, stage = None))]
    fn explain(
        &self,
        py: Python<'_>,
        inputs: Vec<tools::Described>,
        stage: Option<&str>,
    ) -> PyResult<String> {
        let inputs = tools::described(inputs)?;
        let typed = self.typed_for(py, tools::bindings(&inputs))?;
        tools::explain(&typed, &inputs, stage, &self.options)
            .map_err(|error| self.call_error(py, &error))
    }

    /// The kernel of the derivatives with respect to some inputs, all tensors of floats where none are named, and the
    /// kernel that stores what it reads: forward, backward, saved names, cotangents by output, derivatives by input.
    fn grad(&self, py: Python<'_>, wrt: Vec<String>, saves: bool) -> PyResult<Derivatives> {
        let Some(typed) = self.only() else {
            let help = "write `kernel name(inputs) -> outputs { ... }`";
            let message = "a kernel without a signature has no derivatives";
            return Err(mistake(py, message, Some(help)));
        };
        let wrt: Vec<&str> = wrt.iter().map(String::as_str).collect();
        let save = if saves { Save::Products } else { Save::Nothing };
        let derived = typed.kernel.grad(&wrt, save);
        let wrong = |error| exception(py, Stage::Kernel, &self.text, &error);
        let derived = derived.map_err(wrong)?;
        let Derived { forward, backward, saved, cotangents, gradients } = derived;
        Ok((forward, backward, saved, cotangents, gradients))
    }

    /// Compares outputs with the reference: for each output its name, how many elements, how many are wrong, and the
    /// largest error as a share of what is allowed.
    fn check<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        outputs: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Vec<(String, usize, usize, f64)>> {
        let objects = self.assign(args, Some(kwargs))?;
        let given = self.read(&objects)?;
        let typed = self.typed(py, &given)?;
        check_outputs(py, self, &typed, &given, &outputs)
    }

    /// Times the schedules of a call on the GPU that its arrays are on.
    fn tune<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
        outputs: Vec<Bound<'py, PyAny>>,
        budget: f64,
    ) -> PyResult<tune::Answer> {
        let objects = self.assign(args, Some(kwargs))?;
        let given = self.read(&objects)?;
        let typed = self.typed(py, &given)?;
        tune::tune(py, self, &typed, &given, &outputs, budget)
    }

    /// The kernel with its signature, typed for inputs of these dtypes and shapes.
    fn typed_text(&self, py: Python<'_>, inputs: Vec<tools::Described>) -> PyResult<String> {
        let inputs = tools::described(inputs)?;
        let typed = self.typed_for(py, tools::bindings(&inputs))?;
        Ok(typed.kernel.ast().to_string())
    }
}

impl Kernel {
    pub(crate) fn call_error(&self, py: Python<'_>, error: &Error) -> PyErr {
        exception(py, Stage::Call, &self.text, error)
    }

    /// The arguments in the order of the signature.
    fn assign<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let count = self.names.len();
        let wrong = |message: String| PyTypeError::new_err(format!("{message}\n{}", self.usage()));
        if args.len() > count {
            return Err(wrong(format!(
                "the kernel takes {}, {} are given",
                counted(count),
                args.len()
            )));
        }
        let mut all: Vec<Option<Bound<'py, PyAny>>> = args.iter().map(Some).collect();
        all.resize(count, None);
        for (name, value) in kwargs.into_iter().flatten() {
            let name: String = name.extract()?;
            let Some(place) = self.names.iter().position(|known| *known == name) else {
                let near = syntax::nearest(&name, self.names.iter().map(String::as_str));
                let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return Err(wrong(format!("the kernel has no input `{name}`{near}")));
            };
            if all[place].replace(value).is_some() {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        let missing: Vec<&str> = self
            .names
            .iter()
            .zip(&all)
            .filter(|(_, one)| one.is_none())
            .map(|(name, _)| name.as_str())
            .collect();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(wrong(format!("missing {missing}; the kernel takes {}", counted(count))));
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// How it is called: the signature, or the names of a one-liner.
    fn usage(&self) -> String {
        let typed = self.only();
        let signature = typed.as_ref().and_then(|typed| typed.kernel.ast().signature.as_ref());
        match signature {
            Some(signature) => signature.to_string(),
            None => format!("the arguments are {}", self.names.join(", ")),
        }
    }

    /// What each argument is.
    fn read<'py>(&self, objects: &[Bound<'py, PyAny>]) -> PyResult<Vec<Given<'py>>> {
        let one = |(name, object): (&String, &Bound<'py, PyAny>)| {
            if let Some(protocol) = array::protocol(object) {
                let held = array::read_named(name, object, protocol)?;
                return Ok(Given::Array(held));
            }
            if let Some(items) = list::items(object) {
                return Ok(Given::List(list::read(object.py(), name, &items)?));
            }
            // One that i32 does not hold is a float to a one-liner.
            let integer = object.extract::<i32>().is_ok();
            match object.extract::<f64>() {
                Ok(value) => Ok(Given::Number { value, integer }),
                Err(_) => Err(array::not_an_array(name, object)),
            }
        };
        self.names.iter().zip(objects).map(one).collect()
    }

    /// The kernel for these arguments.
    fn typed(&self, py: Python<'_>, given: &[Given<'_>]) -> PyResult<Arc<Typed>> {
        match self.only() {
            Some(typed) => Ok(typed),
            None => self.typed_for(py, given.iter().map(Given::binding).collect()),
        }
    }

    /// The only typed form of a kernel that says its dtypes.
    fn only(&self) -> Option<Arc<Typed>> {
        let typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        self.declared.then(|| typed[0].1.clone())
    }

    pub(crate) fn typed_for(&self, py: Python<'_>, key: Vec<Binding>) -> PyResult<Arc<Typed>> {
        if let Some(typed) = self.only() {
            return Ok(typed);
        }
        let known = || self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, typed)) = known().iter().find(|(own, _)| *own == key) {
            return Ok(typed.clone());
        }
        // Tiles without a binding have the dtype of the first matrix: the product's.
        let operand = key.iter().find_map(|binding| match binding {
            Binding::Tensor(dtype, 2..) => Some(*dtype),
            Binding::Tensor(..) | Binding::Scalar(_) => None,
        });
        let names: BTreeMap<String, Binding> =
            self.names.iter().cloned().zip(key.iter().copied()).collect();
        let dtype = operand.filter(|dtype| dtype.is_float()).unwrap_or(DType::F32);
        let kernel = postlude::Kernel::infer(&self.text, &Bindings { names, dtype })
            .map_err(|error| exception(py, Stage::Kernel, &self.text, &error))?;
        keeps_known(&kernel, &self.options)?;
        let typed = Typed::new(kernel, &self.options);
        let mut known = known();
        // Another thread may have been faster; its prepared calls are kept.
        if let Some((_, typed)) = known.iter().find(|(own, _)| *own == key) {
            return Ok(typed.clone());
        }
        known.push((key, typed.clone()));
        Ok(typed)
    }
}

fn counted(arguments: usize) -> String {
    if arguments == 1 { "1 argument".to_owned() } else { format!("{arguments} arguments") }
}

/// The backend of a name.
fn named_backend(name: &str) -> PyResult<Backend> {
    Backend::ALL.into_iter().find(|backend| backend.name() == name).ok_or_else(|| {
        let names = Backend::ALL.map(|backend| format!("'{}'", backend.name())).join(", ");
        PyValueError::new_err(format!(
            "backend is '{name}'; it is one of {names}, or None: where the arrays are"
        ))
    })
}

fn given_schedule(text: &str) -> PyResult<Schedule> {
    text.parse().map_err(|error: ScheduleTextError| {
        let line = error.line().map_or(String::new(), |line| format!(", line {line}"));
        let fix = "`kernel.schedule(...)` prints one";
        PyValueError::new_err(format!("schedule{line}: {error}; {fix}"))
    })
}

/// Whether the outputs to keep are outputs.
fn keeps_known(kernel: &postlude::Kernel, options: &Options) -> PyResult<()> {
    let Some(keep) = &options.keep else { return Ok(()) };
    let outputs: Vec<&str> =
        kernel.defined().results().into_iter().map(|output| output.name).collect();
    match keep.iter().find(|name| !outputs.contains(&name.as_str())) {
        Some(unknown) => Err(PyValueError::new_err(format!(
            "the kernel has no output `{unknown}`; its outputs are {}",
            outputs.join(", ")
        ))),
        None if keep.is_empty() => Err(PyValueError::new_err("no output is left to compute")),
        None => Ok(()),
    }
}

impl Typed {
    fn new(kernel: postlude::Kernel, options: &Options) -> Arc<Typed> {
        let compiled = kernel.compile(options);
        Arc::new(Typed { kernel, compiled, entries: Mutex::default() })
    }

    pub(crate) fn output_names(&self) -> Vec<String> {
        self.compiled.defined().results().iter().map(|output| output.name.to_owned()).collect()
    }
}
