//! `postlude run`: a kernel on given or random data.

use postlude::{Arguments, Compiled, Options, Problem, Tensor};

use crate::arguments::RunArguments;
use crate::bindings::Loaded;
use crate::failure::{Failure, Outcome};
use crate::files::Targets;
use crate::memory::Need;
use crate::progress::Progress;
use crate::report::{CheckReport, OutputReport, Report};
use crate::{inputs, measure, print};

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let backend = arguments.backend.backend();
    let options = Options { backend, ..loaded.options(&arguments.compile)? };
    let compiled = loaded.kernel.compile(&options);
    let kept = compiled.defined().outputs();
    let targets = Targets::plan(&loaded.kernel, kept, &arguments.outputs)?;
    inputs::require_scalars(&loaded)?;
    let sizes = loaded.sizes(&arguments.compile.sizes)?;
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    Need::of(compiled.defined(), &problem, backend, arguments.check).require()?;

    let progress = Progress::start();
    progress.say("making inputs");
    let call = Call {
        arguments: inputs::make(&loaded, &problem, arguments.seed)?,
        loaded: &loaded,
        compiled: &compiled,
        problem: &problem,
    };
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
    print::either(arguments.json, &report, || report.text())?;
    match report.check {
        Some(check) if !check.ok => Ok(Outcome::CheckFailed),
        Some(_) | None => Ok(Outcome::Fine),
    }
}

/// Outputs by name, in the order of the signature.
type Outputs = Vec<(String, Tensor)>;

/// A kernel with everything one call of it needs.
struct Call<'a> {
    loaded: &'a Loaded,
    compiled: &'a Compiled,
    problem: &'a Problem,
    arguments: Arguments,
}

impl Call<'_> {
    /// The outputs by name, and the time of one call if it is wanted.
    fn run(&self, timed: bool) -> Result<(Outputs, Option<f64>), Failure> {
        let problem = self.compiled.bind(&self.arguments, &self.problem.sizes);
        let problem = problem.map_err(|error| self.fail(error))?;
        let mut outputs = self.compiled.outputs(&problem).map_err(|error| self.fail(error))?;
        let mut call = || self.compiled.run_into(&problem, &self.arguments, &mut outputs);
        let seconds = if timed {
            Some(measure::median_seconds(call).map_err(|error| self.fail(error))?)
        } else {
            call().map_err(|error| self.fail(error))?;
            None
        };
        let names = self.compiled.defined().outputs().iter().map(|output| output.name.clone());
        Ok((names.zip(outputs).collect(), seconds))
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
