//! `postlude run`: a kernel on given or random data.

use std::io::Write;

use postlude::cuda::HostCall;
use postlude::graph::ResultOf;
use postlude::reference::{Extent, Tell};
use postlude::sim::{self, SimCall, SimOptions};
use postlude::syntax::Place;
use postlude::target::Overlap;
use postlude::{
    Arguments, Backend, Compiled, Diagnostic, Error, Options, Problem, Tensor, TensorViewMut,
};

use crate::arguments::{BackendChoice, CheckChoice, RunArguments, WatchArguments};
use crate::bindings::{Loaded, require_output};
use crate::comparison::CheckReport;
use crate::failure::{Failure, Mistake, Outcome};
use crate::files::{Targets, require_writable};
use crate::launches::Launches;
use crate::memory::Need;
use crate::progress::{Progress, Reader, Simulating, Work};
use crate::report::{OutputReport, Report, Sets, Timed};
use crate::watch::{Simulated, Watched, Watching};
use crate::{diagnose, inputs, measure, notes, print};

/// Runs the command.
pub(crate) fn run(arguments: &RunArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let fixed = backend(arguments)?;
    let options = options(&loaded, arguments)?;
    let compiled = loaded.kernel.compile(&options);
    let kept = &compiled.defined().results();
    let targets = Targets::plan(&loaded.kernel, kept, &arguments.outputs)?;
    require_printable(&loaded, kept, &arguments.print)?;
    if let Some(path) = &arguments.watch.trace {
        require_writable(path)?;
    }
    inputs::require_scalars(&loaded)?;
    let sizes = loaded.sizes(&arguments.compile.sizes)?;
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    let likely = fixed.unwrap_or_default();
    let extent = arguments.check.map(CheckChoice::extent);
    Need::of(compiled.defined(), &problem, likely, None).require()?;
    Need::of(compiled.defined(), &problem, likely, extent).require()?;

    if fixed == Some(Backend::Sim) {
        Launches::of(&loaded, &compiled, &arguments.compile)?.require(&loaded, &options)?;
    }
    let progress = Progress::start(Reader::of(arguments.json));
    progress.say("making inputs");
    let data = inputs::make(&loaded, &problem, arguments.seed)?;
    let (backend, mut reason) =
        fixed.map_or_else(|| compiled.choose(&problem, &data), |fixed| (fixed, None));
    let compiled = compiled.on(backend);
    let mut call = Call { arguments: data, loaded: &loaded, compiled, problem: &problem, backend };
    progress.say(format!("running {} on {}", loaded.kernel.name(), backend.name()));
    let watched = backend == Backend::Sim && !arguments.time;
    let (mut outputs, timed, simulation) = if watched {
        let (outputs, simulation) = call.simulate(&arguments.watch, &progress)?;
        (outputs, None, Some(simulation))
    } else {
        let ran = match call.run(arguments.time, &progress) {
            // The planner found a schedule, but the emitter refused it. The user did not ask for a GPU, so the CPU runs it.
            Err(Failure::Kernel(_, refusal))
                if fixed.is_none() && backend != Backend::Cpu && refusal.is_refusal() =>
            {
                reason = Some(refusal);
                call = call.on(Backend::Cpu);
                call.run(arguments.time, &progress)
            }
            ran => ran,
        };
        let (outputs, timed) = ran?;
        (outputs, timed, None)
    };
    let check = extent.map(|extent| {
        progress.spin();
        progress.say("checking against the reference");
        call.check(&mut outputs, extent, &|done, total| progress.share(done, total))
    });
    let check = check.transpose()?;
    progress.spin();
    progress.say("writing");
    targets.write(&outputs)?;
    let report = Report {
        schema: 1,
        kernel: loaded.kernel.name().to_owned(),
        backend: call.backend.name(),
        reason: reason.as_ref().map(Error::summary),
        sizes: problem.sizes().clone(),
        outputs: report_outputs(&outputs, &arguments.print),
        check,
        seconds: timed.map(|timed| timed.seconds),
        sets: timed.and_then(|timed| timed.sets),
        simulation,
    };
    drop(progress);
    if let Some(reason) = reason.filter(|_| !arguments.json) {
        explain_choice(&loaded, &reason);
    }
    print::either(arguments.json, &report, || report.text())?;
    Ok(outcome(report, arguments.json))
}

/// How the kernel is compiled and run.
fn options(loaded: &Loaded, arguments: &RunArguments) -> Result<Options, Failure> {
    let mut options = loaded.options(&arguments.compile)?;
    options.hooks.grid_limit = arguments.grid_limit;
    options.hooks.overlap = Overlap::of_programs(arguments.pdl);
    options.hooks.copies = arguments.copies.map_or_else(Default::default, Into::into);
    options.hooks.guard = arguments.check.is_some();
    options.hooks.timing = arguments.watch.timing.unwrap_or_default();
    Ok(options)
}

/// Refuses to print what is not computed.
fn require_printable(
    loaded: &Loaded,
    kept: &[ResultOf<'_>],
    names: &[String],
) -> Result<(), Mistake> {
    for name in names {
        require_output(&loaded.kernel, name)?;
        if !kept.iter().any(|output| output.name == name) {
            let what = format!("`{name}` is to be printed, but `--only` leaves it out");
            return Err(Mistake::new(what).fix(format!("name it there too: `--only {name}`")));
        }
    }
    Ok(())
}

fn report_outputs(outputs: &[(String, Tensor)], printed: &[String]) -> Vec<OutputReport> {
    let report = |(name, tensor): &(String, Tensor)| {
        let report = OutputReport::of(name, tensor);
        if printed.contains(name) { report.with_elements(tensor) } else { report }
    };
    outputs.iter().map(report).collect()
}

/// What a run comes to. The simulated code is ours, and so is what is wrong with it.
fn outcome(report: Report, json: bool) -> Outcome {
    let findings = report.simulation.map_or(0, |simulation| simulation.findings());
    if findings > 0 {
        if !json {
            diagnose::note_bug(findings);
        }
        return Outcome::Bug;
    }
    let wrong = report.check.is_some_and(|check| !check.ok);
    if wrong { Outcome::CheckFailed } else { Outcome::Fine }
}

/// The backend that is asked for; `None` is the fastest that takes the kernel. What is meant for a GPU asks for one, and
/// what is meant for the simulator asks for it.
fn backend(arguments: &RunArguments) -> Result<Option<Backend>, Mistake> {
    let gpu = match (&arguments.compile.schedule, arguments.grid_limit) {
        (Some(_), _) => Some("--schedule"),
        (None, Some(_)) => Some("--grid-limit"),
        (None, None) => arguments.pdl.then_some("--pdl"),
    };
    let simulator = arguments.watch.flag();
    match (arguments.backend, gpu, simulator) {
        (BackendChoice::Sim, _, _) | (BackendChoice::Auto, _, Some(_)) => Ok(Some(Backend::Sim)),
        (BackendChoice::Auto | BackendChoice::Cuda, Some(_), None) => Ok(Some(Backend::Cuda)),
        (_, _, Some(flag)) => Err(Mistake::new(format!("`{flag}` is for the simulator"))
            .fix("run it with `--backend sim`")),
        (BackendChoice::Cpu | BackendChoice::Reference, Some(flag), None) => {
            Err(Mistake::new(format!("`{flag}` is for a GPU"))
                .fix("run it with `--backend cuda` or `--backend sim`"))
        }
        (_, None, None) => Ok(arguments.backend.fixed()),
    }
}

/// One line about why no GPU runs the kernel: for each kernel that a GPU refuses, but once for a machine without a GPU.
fn explain_choice(loaded: &Loaded, reason: &Error) {
    let about_machine = !reason.is_refusal();
    let summary = reason.summary();
    if about_machine && !notes::is_new(&summary) {
        return;
    }
    let refused = reason.diagnostics().first().filter(|first| first.is_refusal());
    let place = refused.and_then(Diagnostic::span).map(|span| {
        let place = Place::of(&loaded.source.bytes, span);
        format!(" (line {}, column {})", place.line, place.column)
    });
    let place = place.unwrap_or_default();
    let fix = refused.and_then(Diagnostic::fix).map(|fix| format!("; {fix}")).unwrap_or_default();
    let once = if about_machine { " (noted once; `postlude info` says more)" } else { "" };
    // There is nobody left to tell when this fails.
    let _ = writeln!(
        std::io::stderr().lock(),
        "note: this ran on the processor: {summary}{place}{fix}{once}"
    );
}

/// Outputs by name, in the order of the signature.
type Outputs = Vec<(String, Tensor)>;

/// A kernel with everything one call of it needs.
struct Call<'a> {
    loaded: &'a Loaded,
    compiled: Compiled,
    problem: &'a Problem,
    arguments: Arguments<'static>,
    backend: Backend,
}

impl<'a> Call<'a> {
    /// The same call on another backend.
    fn on(self, backend: Backend) -> Call<'a> {
        Call { compiled: self.compiled.on(backend), backend, ..self }
    }

    /// The outputs by name, and the time of one call if it is wanted.
    fn run(&self, timed: bool, progress: &Progress) -> Result<(Outputs, Option<Timed>), Failure> {
        let problem = self.compiled.bind(&self.arguments, self.problem.sizes());
        let problem = problem.map_err(|error| self.fail(error))?;
        let mut outputs = self.compiled.outputs(&problem).map_err(|error| self.fail(error))?;
        if timed && self.backend == Backend::Cuda {
            let timed = self.time_on_gpu(&problem, &mut outputs);
            let timed = timed.map_err(|error| self.fail(error))?;
            return Ok((self.name(outputs), Some(timed)));
        }
        let timed = if timed {
            let call = || self.compiled.run_into(&problem, &self.arguments, &mut outputs);
            let seconds = measure::median_seconds(call).map_err(|error| self.fail(error))?;
            Some(Timed { seconds, sets: None })
        } else {
            let tell = |done: u64, total: u64| progress.share(done, total);
            let call = self.compiled.call(&problem, &self.arguments, &mut outputs);
            call.and_then(|mut call| call.run_telling(&tell)).map_err(|error| self.fail(error))?;
            None
        };
        Ok((self.name(outputs), timed))
    }

    /// The outputs by name, and what the simulator tells.
    fn simulate(
        &self,
        watch: &WatchArguments,
        progress: &Progress,
    ) -> Result<(Outputs, Simulated), Failure> {
        let problem = self.compiled.bind(&self.arguments, self.problem.sizes());
        let problem = problem.map_err(|error| self.fail(error))?;
        let mut outputs = self.compiled.outputs(&problem).map_err(|error| self.fail(error))?;
        let timing = watch.timing.unwrap_or_default();
        let mut budget = watch.budget.unwrap_or(SimOptions::default().budget);
        let mut watched = Watched::new(watch);
        let mut each = |call: &SimCall, outputs: &mut [TensorViewMut<'_>]| {
            let mut watching = Watching::new(watch, call.buffers(), call.regions());
            let options = SimOptions { timing, budget };
            let work = Work::MultiplyAdds(call.multiply_adds());
            let mut simulating = Simulating::new(progress, work);
            let mut observer = watching.observer();
            if progress.is_shown() {
                observer.0.push(&mut simulating);
            }
            let report = call.run_views(&options, &mut observer, outputs)?;
            drop(observer);
            budget -= report.instructions.min(budget);
            if !watch.findings {
                sim::accept(&report)?;
            }
            watched.add(watching, (call.name(), call.text()), call.names(), &report);
            Ok(())
        };
        let ran =
            self.compiled.simulate_launches(&problem, &self.arguments, &mut outputs, &mut each);
        ran.map_err(|error| self.fail(error))?;
        let simulated = watched.finish()?;
        Ok((self.name(outputs), simulated))
    }

    fn name(&self, outputs: Vec<Tensor>) -> Outputs {
        let results = self.compiled.defined().results().into_iter();
        results.map(|output| output.name.to_owned()).zip(outputs).collect()
    }

    /// The GPU's time for one launch, without copies and without the host's part, on sets of tensors that take turns.
    fn time_on_gpu(&self, problem: &Problem, outputs: &mut [Tensor]) -> Result<Timed, Error> {
        /// Enough for the host to stay ahead of the GPU.
        const AT_ONCE: usize = 20;
        let first = self.compiled.upload(problem, &self.arguments, outputs)?;
        let (bytes, l2) = (first.bytes(), first.l2_bytes());
        let sets = measure::sets_beyond(l2, bytes);
        let mut calls = vec![first];
        // Where memory has no room for as many, fewer sets take turns, and the report tells.
        while calls.len() < sets
            && let Ok(call) = self.compiled.upload(problem, &self.arguments, outputs)
        {
            calls.push(call);
        }
        let launches = AT_ONCE.max(calls.len());
        let seconds = measure::median_of(|| {
            let time = HostCall::time_in_turn(&calls, launches)?;
            Ok::<_, Error>(time.as_secs_f64() / launches as f64)
        })?;
        calls[0].download(outputs)?;
        let cached = calls.len() as u64 * bytes <= l2;
        Ok(Timed { seconds, sets: Some(Sets { count: calls.len(), bytes, cached }) })
    }

    fn check(
        &self,
        outputs: &mut Vec<(String, Tensor)>,
        extent: Extent,
        tell: Tell<'_>,
    ) -> Result<CheckReport, Failure> {
        // They are as large as the problem, and there is room for them once.
        let (names, tensors): (Vec<String>, Vec<Tensor>) =
            std::mem::take(outputs).into_iter().unzip();
        let (problem, arguments) = (self.problem, &self.arguments);
        let found = self.compiled.check_extent(problem, arguments, &tensors, extent, tell);
        let found = found.map_err(|error| self.fail(error))?;
        let declared = self.compiled.defined().results().into_iter();
        let shapes = tensors.iter().map(|one| one.shape().to_vec());
        let report = CheckReport::of(declared.zip(shapes), &found);
        *outputs = names.into_iter().zip(tensors).collect();
        Ok(report)
    }

    fn fail(&self, error: postlude::Error) -> Failure {
        Failure::Kernel(self.loaded.source.clone(), error)
    }
}
