//! Every case of the corpus on every backend, each a test of its own: `cargo test -p postlude-corpus --test corpus -- gelu`.
//!
//! `POSTLUDE_BACKEND` chooses the backends (`reference,cpu,sim,cuda`; all but the last without it), and a filter chooses
//! cases by name. Cases run on two threads unless `--test-threads` says otherwise; the engines use one each. A GPU may
//! refuse cases, and so may its simulator, which completes copies and products as late as it can: those cases are reported
//! as ignored. The other engines run everything.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use postlude::Backend;
use postlude::sim::Timing;
use postlude_corpus::{Case, Outcome, RunOptions, Wanted, read_folder, run_again};

/// What the simulator is asked for at most: a few seconds of one core.
const MOST_MULTIPLY_ADDS: u64 = 1 << 28;

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases = match read_folder(&folder) {
        Ok(cases) => cases,
        Err(error) => panic!("{error}"),
    };
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let backends = backends();
    let trials = cases.iter().flat_map(|case| {
        let wanted = Arc::new(Wanted::default());
        backends.iter().map(move |one| trial(case, *one, wanted.clone()))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

fn backends() -> Vec<Backend> {
    let Ok(names) = std::env::var("POSTLUDE_BACKEND") else {
        return vec![Backend::Reference, Backend::Cpu, Backend::Sim];
    };
    let find = |name: &str| {
        let found = Backend::ALL.into_iter().find(|backend| backend.name() == name.trim());
        found.unwrap_or_else(|| panic!("POSTLUDE_BACKEND: there is no backend `{name}`"))
    };
    names.split(',').map(find).collect()
}

fn trial(case: &Case, backend: Backend, wanted: Arc<Wanted>) -> Trial {
    let name = format!("{}::{}", backend.name(), case.name());
    let case = case.clone();
    Trial::ignorable_test(name, move || {
        let options = RunOptions {
            threads: Some(1),
            timing: Timing::Lazy,
            multiply_adds: Some(MOST_MULTIPLY_ADDS),
            ..RunOptions::default()
        };
        match run_again(&case, backend, &options, &wanted) {
            Outcome::Passed => Ok(Completion::Completed),
            Outcome::Failed(report) => Err(Failed::from(report)),
            Outcome::Skipped(reason) if backend.runs_ptx() => Ok(Completion::ignored_with(reason)),
            Outcome::Skipped(reason) => Err(Failed::from(format!("skipped: {reason}"))),
        }
    })
}
