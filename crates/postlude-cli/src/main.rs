//! The command `postlude`.
//!
//! In: the command line. Out: the result on standard output, anything else on standard error, and an exit code: 0 fine,
//! 1 a check failed, 2 the user's mistake or a refusal, 3 a bug of ours (a panic, or a finding of the simulator in code that
//! we emitted), 130 interrupted. A closed pipe ends quietly.

#![forbid(unsafe_code)]
// Text is put together line by line; `write!` would ask what to do about an error that a string does not have.
#![allow(clippy::format_push_string)]

mod arguments;
mod bench;
mod bindings;
mod bytes;
mod cache;
mod check;
mod comparison;
mod completions;
mod corpus;
mod diagnose;
mod display;
mod emit;
mod explain;
mod failure;
mod files;
mod fuzz;
mod gpu_schedule;
mod grad;
mod inputs;
mod interruption;
mod launch;
mod launches;
mod list;
mod machine;
mod measure;
mod memory;
mod notes;
mod print;
mod progress;
mod report;
mod run;
mod shapes;
mod show;
mod sim;
mod source;
mod threads;
mod tools;
mod tune;
mod tuned;
mod watch;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use arguments::{BugArguments, Command, CommandLine};
use diagnose::BUG;
use failure::{Failure, Outcome};
use postlude::sim::SimulationError;
use source::Source;

fn main() -> ExitCode {
    let form = diagnose::Form::asked_for(std::env::args_os());
    panic::set_hook(Box::new(move |bug| diagnose::print_bug(form, bug)));
    let outcome = panic::catch_unwind(|| match CommandLine::try_parse() {
        Ok(line) => dispatch(line.command),
        Err(error) => Err(Failure::Usage(error)),
    });
    match outcome {
        Ok(Ok(Outcome::Fine) | Err(Failure::Closed)) => ExitCode::SUCCESS,
        Ok(Ok(Outcome::CheckFailed)) => ExitCode::from(1),
        Ok(Ok(Outcome::Bug)) => ExitCode::from(BUG),
        Ok(Ok(Outcome::Interrupted)) => ExitCode::from(failure::INTERRUPTED),
        Ok(Err(failure)) => ExitCode::from(diagnose::print_failure(form, &failure)),
        Err(_) => ExitCode::from(BUG),
    }
}

fn dispatch(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Grad(arguments) => grad::grad(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Emit(arguments) => emit::emit(&arguments),
        Command::Sim(arguments) => sim::sim(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Corpus(arguments) => corpus::corpus(&arguments),
        Command::Fuzz(arguments) => fuzz::fuzz(&arguments),
        Command::Tune(arguments) => tune::tune(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Info(arguments) => machine::info(&arguments),
        Command::Cache(arguments) => cache::cache(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Complete(arguments) => completions::complete(&arguments),
        Command::Bug(arguments) => bug(&arguments),
    }
}

/// What a bug of ours looks like: a panic, or a finding in code that was emitted for a kernel.
fn bug(arguments: &BugArguments) -> Result<Outcome, Failure> {
    let source = Source { origin: "<text>".to_owned(), bytes: b"D = A @ B".to_vec() };
    diagnose::remember(&source);
    if arguments.finding {
        return Err(Failure::Kernel(source, SimulationError::Unfinished.into()));
    }
    panic!("it was asked for")
}
