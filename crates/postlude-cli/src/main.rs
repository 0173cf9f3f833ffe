//! The command `postlude`.
//!
//! In: the command line. Out: the result on standard output, anything else on standard error, and an exit code: 0 fine,
//! 1 a check failed, 2 the user's mistake or a refusal, 3 a bug of ours. A closed pipe ends quietly.

#![forbid(unsafe_code)]
// Text is put together line by line; `write!` would ask what to do about an error that a string does not have.
#![allow(clippy::format_push_string)]

mod arguments;
mod bench;
mod bindings;
mod cache;
mod check;
mod comparison;
mod completions;
mod corpus;
mod diagnose;
mod emit;
mod explain;
mod failure;
mod files;
mod fuzz;
mod hopper;
mod inputs;
mod launch;
mod list;
mod machine;
mod measure;
mod memory;
mod print;
mod progress;
mod report;
mod run;
mod show;
mod sim;
mod source;
mod tools;
mod watch;

use std::panic;
use std::process::ExitCode;

use clap::Parser;

use arguments::{BugArguments, Command, CommandLine};
use failure::{Failure, Outcome};

/// The exit code of a bug.
const BUG: u8 = 3;

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
        Ok(Err(failure)) => ExitCode::from(diagnose::print_failure(form, &failure)),
        Err(_) => ExitCode::from(BUG),
    }
}

fn dispatch(command: Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Explain(arguments) => explain::explain(&arguments),
        Command::Emit(arguments) => emit::emit(&arguments),
        Command::Sim(arguments) => sim::sim(&arguments),
        Command::List(arguments) => list::list(&arguments),
        Command::Show(arguments) => show::show(&arguments),
        Command::Corpus(arguments) => corpus::corpus(&arguments),
        Command::Fuzz(arguments) => fuzz::fuzz(&arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Info(arguments) => machine::info(&arguments),
        Command::Cache(arguments) => cache::cache(&arguments),
        Command::Completions(arguments) => completions::completions(&arguments),
        Command::Bug(BugArguments { json: _ }) => panic!("it was asked for"),
    }
}
