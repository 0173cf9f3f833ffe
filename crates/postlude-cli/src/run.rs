//! `postlude run`: a kernel on given or random data.

use std::io::Write;

use postlude::{Arguments, Backend, Compiled, Error, Options, Problem, Tensor};

use crate::arguments::{BackendChoice, RunArguments};
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake, Outcome};
use crate::files::Targets;
use crate::memory::Need;
use crate::progress::Progress;
use crate::report::{CheckReport, OutputReport, Report};
use crate::{inputs, measure, print};

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let fixed = backend(arguments)?;
    let options = Options {
        grid_limit: arguments.grid_limit,
        guard: arguments.check,
        ..loaded.options(&arguments.compile)?
    };
    let compiled = loaded.kernel.compile(&options);
    let kept = compiled.defined().outputs();
    let targets = Targets::plan(&loaded.kernel, kept, &arguments.outputs)?;
    inputs::require_scalars(&loaded)?;
    let sizes = loaded.sizes(&arguments.compile.sizes)?;
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    let likely = fixed.unwrap_or_default();
    Need::of(compiled.defined(), &problem, likely, arguments.check).require()?;

    let progress = Progress::start();
    progress.say("making inputs");
    let data = inputs::make(&loaded, &problem, arguments.seed)?;
    let (backend, reason) =
        fixed.map_or_else(|| compiled.choose(&problem, &data), |fixed| (fixed, None));
    let compiled = compiled.on(backend);
    let call =
        Call { arguments: data, loaded: &loaded, compiled: &compiled, problem: &problem, backend };
    progress.say(format!("running {} on {}", loaded.kernel.name(), backend.name()));
    let (outputs, seconds) = call.run(arguments.time)?;
    let check = arguments.check.then(|| {
        progress.say("checking against the reference");
        call.check(&outputs)
    });
    progress.say("writing");
    targets.write(&outputs)?;
    let report = Report {
        schema: 1,
        kernel: loaded.kernel.name().to_owned(),
        backend: backend.name(),
        sizes: problem.sizes.clone(),
        outputs: outputs.iter().map(|(name, tensor)| OutputReport::of(name, tensor)).collect(),
        check,
        seconds,
    };
    drop(progress);
    if let Some(reason) = reason.filter(|_| !arguments.json) {
        explain_choice(&reason);
    }
    print::either(arguments.json, &report, || report.text())?;
    match report.check {
        Some(check) if !check.ok => Ok(Outcome::CheckFailed),
        Some(_) | None => Ok(Outcome::Fine),
    }
}

/// The backend that is asked for; `None` is the fastest that takes the kernel. What is meant for a GPU asks for one.
fn backend(arguments: &RunArguments) -> Result<Option<Backend>, Mistake> {
    let flag = if arguments.compile.schedule.is_some() {
        "--schedule"
    } else if arguments.grid_limit.is_some() {
        "--grid-limit"
    } else {
        return Ok(arguments.backend.fixed());
    };
    match arguments.backend {
        BackendChoice::Auto | BackendChoice::Cuda => Ok(Some(Backend::Cuda)),
        BackendChoice::Cpu | BackendChoice::Reference => {
            Err(Mistake::new(format!("`{flag}` is for a GPU")).fix("run it with `--backend cuda`"))
        }
    }
}

/// One line about why no GPU runs the kernel.
fn explain_choice(reason: &Error) {
    // There is nobody left to tell when this fails.
    let _ = writeln!(std::io::stderr().lock(), "note: this ran on the processor: {reason}");
}

/// Outputs by name, in the order of the signature.
type Outputs = Vec<(String, Tensor)>;

/// A kernel with everything one call of it needs.
struct Call<'a> {
    loaded: &'a Loaded,
    compiled: &'a Compiled,
    problem: &'a Problem,
    arguments: Arguments,
    backend: Backend,
}

impl Call<'_> {
    /// The outputs by name, and the time of one call if it is wanted.
    fn run(&self, timed: bool) -> Result<(Outputs, Option<f64>), Failure> {
        let problem = self.compiled.bind(&self.arguments, &self.problem.sizes);
        let problem = problem.map_err(|error| self.fail(error))?;
        let mut outputs = self.compiled.outputs(&problem).map_err(|error| self.fail(error))?;
        if timed && self.backend == Backend::Cuda {
            let seconds = self.time_on_gpu(&problem, &mut outputs);
            let seconds = seconds.map_err(|error| self.fail(error))?;
            return Ok((self.name(outputs), Some(seconds)));
        }
        let mut call = || self.compiled.run_into(&problem, &self.arguments, &mut outputs);
        let seconds = if timed {
            Some(measure::median_seconds(call).map_err(|error| self.fail(error))?)
        } else {
            call().map_err(|error| self.fail(error))?;
            None
        };
        Ok((self.name(outputs), seconds))
    }

    fn name(&self, outputs: Vec<Tensor>) -> Outputs {
        let names = self.compiled.defined().outputs().iter().map(|output| output.name.clone());
        names.zip(outputs).collect()
    }

    /// The GPU's time for one launch, without copies and without the host's part.
    fn time_on_gpu(&self, problem: &Problem, outputs: &mut [Tensor]) -> Result<f64, Error> {
        /// Enough for the host to stay ahead of the GPU.
        const AT_ONCE: u32 = 20;
        let call = self.compiled.upload(problem, &self.arguments, outputs)?;
        let seconds = measure::median_of(|| {
            call.time(AT_ONCE).map(|time| time.as_secs_f64() / f64::from(AT_ONCE))
        })?;
        call.download(outputs)?;
        Ok(seconds)
    }

    fn check(&self, outputs: &[(String, Tensor)]) -> CheckReport {
        let tensors: Vec<Tensor> = outputs.iter().map(|(_, tensor)| tensor.clone()).collect();
        let comparisons = self.compiled.check(self.problem, &self.arguments, &tensors);
        CheckReport::of(outputs, &comparisons)
    }

    fn fail(&self, error: postlude::Error) -> Failure {
        Failure::Kernel(self.loaded.source.clone(), error)
    }
}
