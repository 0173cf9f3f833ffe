//! `postlude completions`: a script for the shell.

use clap::CommandFactory;

use crate::arguments::{CommandLine, CompletionsArguments};
use crate::failure::{Failure, Outcome};
use crate::print;

/// Runs the command.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<Outcome, Failure> {
    // Written to memory first: the generator does not survive a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), "postlude", &mut script);
    print::text(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}
