//! The command as a user meets it: what goes in on the command line, what comes out, and the exit code.

#[cfg(unix)]
mod bad_inputs;
mod bad_kernels;
mod checkpoints;
mod completed;
mod documented;
mod elements;
mod errors;
mod files;
mod fuzz;
mod gpu;
mod interrupted;
mod json;
mod launches;
#[cfg(target_os = "linux")]
mod limits;
mod others;
mod run;
mod simulator;
mod tuned;
mod waiting;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// How a command ended.
struct Ended {
    code: Option<i32>,
    output: String,
    /// Standard error without the note below.
    errors: String,
    /// Why the processor ran a kernel that a GPU might have run.
    note: Option<String>,
}

impl Ended {
    fn of(output: &Output) -> Ended {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_note = |line: &&str| line.starts_with(NOTE);
        Ended {
            code: output.status.code(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: stderr.split_inclusive('\n').filter(|line| !is_note(line)).collect(),
            note: stderr.lines().find(is_note).map(str::to_owned),
        }
    }

    /// The output of a command that succeeded and wrote nothing to standard error.
    #[track_caller]
    fn fine(self) -> String {
        assert_eq!((self.code, self.errors.as_str()), (Some(0), ""), "{}", self.output);
        self.output
    }

    /// The one object that a command printed.
    #[track_caller]
    fn object(&self) -> Value {
        assert_eq!(self.output.lines().count(), 1, "{}{}", self.output, self.errors);
        serde_json::from_str(&self.output).expect("JSON")
    }

    /// The error message about a user's mistake, with exit code 2 and nothing on standard output.
    #[track_caller]
    fn mistake(self) -> String {
        assert_eq!((self.code, self.output.as_str()), (Some(2), ""), "{}", self.errors);
        assert!(self.errors.chars().count() < 4000, "{}", self.errors.chars().count());
        assert!(!self.errors.contains("bug"), "{}", self.errors);
        self.errors
    }
}

/// How the note about a GPU that did not run a kernel begins.
const NOTE: &str = "note: this ran on the processor: ";

/// A command that finds no GPU, so that it does the same on every machine, and leaves the user's cache alone.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postlude"));
    command.args(arguments).stdin(Stdio::null()).env("CUDA_VISIBLE_DEVICES", "");
    command.env("POSTLUDE_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command.env("POSTLUDE_TUNE", "off");
    command
}

fn postlude(arguments: &[&str]) -> Ended {
    Ended::of(&command(arguments).output().expect("the command starts"))
}

fn postlude_in(folder: &Path, arguments: &[&str]) -> Ended {
    Ended::of(&command(arguments).current_dir(folder).output().expect("the command starts"))
}

/// The repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
