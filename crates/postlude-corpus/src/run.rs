//! Runs a case on a backend and compares with what it expects.
//!
//! In: a case. Out: an [`Outcome`]; a case never panics, whatever the engine does.

use std::borrow::Borrow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use postlude::reference::Evaluated;
use postlude::sim::Timing;
use postlude::target::{CopyRule, Overlap};
use postlude::tuning::Records;
use postlude::{
    Arguments, Backend, Bindings, Bound, Compiled, DType, Error, Hooks, Kernel, MathMode, Options,
    Problem, Tensor,
};

use crate::arguments::bind;
use crate::case::{Case, Expectation, Layout};
use crate::expect::{self, Expected};

/// How cases are run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunOptions {
    /// How many threads the engine uses; as many as there are cores when `None`.
    pub threads: Option<usize>,
    /// What is asked of functions, instead of what the case says.
    pub math: Option<MathMode>,
    /// How inputs lie in memory that the case leaves packed.
    pub layout: Option<Layout>,
    /// The most CTAs launched on a GPU; as many as fit when `None`.
    pub grid_limit: Option<u32>,
    /// Which launches may begin before the one before them has ended.
    pub overlap: Overlap,
    /// When copies and matrix products complete in the simulator.
    pub timing: Timing,
    /// The most multiply-adds that the simulator is asked for; whatever it takes when `None`.
    pub multiply_adds: Option<u64>,
    /// When launches before a product copy its operands.
    pub copies: CopyRule,
    /// Whether batched tensors are laid out as lists on a GPU and in the simulator.
    pub lists: bool,
}

/// What became of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything expected holds.
    Passed,
    /// Something does not.
    Failed(Report),
    /// The backend cannot run it, and says so.
    Skipped(String),
}

/// What does not hold, with everything that is needed to look for the cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// File and line.
    pub place: String,
    /// The case's heading.
    pub title: String,
    /// The backend's name.
    pub backend: &'static str,
    /// What was expected.
    pub expected: String,
    /// What happened.
    pub found: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} on {}", self.place, self.title, self.backend)?;
        writeln!(f, "  expected: {}", self.expected)?;
        write!(f, "  {}", self.found)
    }
}

/// What the reference has for a case, once it was asked: the same on every backend and wherever the inputs lie.
#[derive(Default, Debug)]
pub struct Wanted(OnceLock<Result<Vec<Evaluated>, Error>>);

/// Runs a case.
///
/// ```
/// use postlude::Backend;
/// use postlude_corpus::{Outcome, read_text, run};
/// let text = "## Twice\n```\nD = 2 * A @ B\n```\n- sizes: M=1, N=1, K=3\n- fill: A=ones, B=ones\n- expect: values D = [6]\n";
/// let cases = read_text("example.md", text)?;
/// assert_eq!(run(&cases[0], Backend::Reference, &Default::default()), Outcome::Passed);
/// # Ok::<(), postlude_corpus::ReadError>(())
/// ```
pub fn run(case: &Case, backend: Backend, options: &RunOptions) -> Outcome {
    run_again(case, backend, options, &Wanted::default())
}

/// Runs a case that may have been run with the same math before.
pub fn run_again(case: &Case, backend: Backend, options: &RunOptions, wanted: &Wanted) -> Outcome {
    let caught = catch_unwind(AssertUnwindSafe(|| attempt(case, backend, options, wanted)));
    let stopped = caught.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let expected: Vec<String> = case.expectations.iter().map(Expectation::to_string).collect();
        Err(Stop::Failed { expected: expected.join("; "), found: format!("panicked: {text}") })
    });
    match stopped {
        Ok(()) => Outcome::Passed,
        Err(Stop::Skipped(reason)) => Outcome::Skipped(reason),
        Err(Stop::Failed { expected, found }) => Outcome::Failed(Report {
            place: case.place(),
            title: case.title.clone(),
            backend: backend.name(),
            expected,
            found,
        }),
    }
}

/// Why a case ended early.
enum Stop {
    Failed { expected: String, found: String },
    Skipped(String),
}

fn failed(expected: impl fmt::Display, found: impl fmt::Display) -> Stop {
    Stop::Failed { expected: expected.to_string(), found: found.to_string() }
}

fn attempt(
    case: &Case,
    backend: Backend,
    options: &RunOptions,
    wanted: &Wanted,
) -> Result<(), Stop> {
    let RunOptions { layout, multiply_adds, .. } = *options;
    let options = Options {
        backend,
        math: options.math.unwrap_or(case.math),
        threads: options.threads,
        // Cases are about what is computed, the same on every machine.
        records: Records::Off,
        workspace: case.workspace,
        hooks: Hooks {
            grid_limit: options.grid_limit,
            guard: true,
            timing: options.timing,
            schedule: None,
            copies: options.copies,
            lists: options.lists,
            overlap: options.overlap,
        },
        ..Options::default()
    };
    if case.expects_error() {
        return check_error(case, find_error(case, &options).as_ref());
    }
    let compiled =
        compile(case, &options).map_err(|error| failed("a kernel that compiles", error))?;
    let (problem, arguments) =
        bind(case, &compiled, layout).map_err(|error| failed("arguments that fit", error))?;
    let mut got = compiled.outputs(&problem).map_err(|error| failed("outputs", error))?;
    if let (Backend::Sim, Some(most)) = (backend, multiply_adds) {
        require_small(&compiled, &problem, &arguments, most)?;
    }
    compiled.run_into(&problem, &arguments, &mut got).map_err(refused_or_failed)?;
    let want = wanted.0.get_or_init(|| compiled.evaluate(&problem, &arguments));
    let want = want.as_ref().map_err(refused_or_failed)?;
    check_results(case, want, &got)
}

fn refused_or_failed(error: impl Borrow<Error>) -> Stop {
    let error = error.borrow();
    if error.is_refusal() {
        Stop::Skipped(error.summary())
    } else {
        failed("a kernel that runs", error)
    }
}

/// Skips what the simulator would take too long for.
fn require_small(
    compiled: &Compiled,
    problem: &Problem,
    arguments: &Arguments,
    most: u64,
) -> Result<(), Stop> {
    let schedule = compiled.sim_schedule(problem, arguments).map_err(refused_or_failed)?;
    if schedule.multiply_adds(problem) <= most {
        return Ok(());
    }
    Err(Stop::Skipped(format!("it takes more than {most} multiply-adds in the simulator")))
}

/// Compiles a case's kernel or one-liner.
pub fn compile(case: &Case, options: &Options) -> Result<Compiled, Error> {
    Ok(Kernel::infer(&case.source, &bindings(case))?.compile(options))
}

/// What the case tells about the names of a one-liner.
fn bindings(case: &Case) -> Bindings {
    let scalars = case.set.keys().map(|name| (name.clone(), Bound::Scalar(DType::F32)));
    Bindings { names: scalars.collect(), dtype: case.dtype }
}

/// What is wrong with the case's text or its sizes.
fn find_error(case: &Case, options: &Options) -> Option<Error> {
    let compiled = match compile(case, options) {
        Ok(compiled) => compiled,
        Err(error) => return Some(error),
    };
    // Without sizes nothing is bound: the error is to come from the text alone.
    if case.sizes.is_empty() {
        return None;
    }
    Problem::new(compiled.defined(), &case.sizes).err().map(Error::from)
}

fn check_error(case: &Case, error: Option<&Error>) -> Result<(), Stop> {
    for expected in &case.expectations {
        let Expectation::Error { message, place, fix } = expected else { continue };
        let wanted = Expected { message, place: place.as_deref(), fix: fix.as_deref() };
        expect::diagnostic(&case.source, error, wanted).map_err(|found| failed(expected, found))?;
    }
    Ok(())
}

fn check_results(case: &Case, want: &[Evaluated], got: &[Tensor]) -> Result<(), Stop> {
    for (want, got) in want.iter().zip(got) {
        expect::within_bound(want, got).map_err(|found| failed(Expectation::WithinBound, found))?;
    }
    for expected in &case.expectations {
        for (want, got) in want.iter().zip(got) {
            let checked = match expected {
                Expectation::Exact => expect::exact(want, got),
                Expectation::Values { output, values } if *output == want.name => {
                    expect::values(want, got, values)
                }
                Expectation::WithinBound
                | Expectation::Values { .. }
                | Expectation::Error { .. } => Ok(()),
            };
            checked.map_err(|found| failed(expected, found))?;
        }
    }
    Ok(())
}
