//! How a command ends.
//!
//! Whatever is the user's to mend is a [`Failure`]; a broken invariant of ours is a panic, which `main` reports as a bug.

use std::fmt::Display;
use std::io;
use std::path::Path;

use crate::source::Source;

/// A command that ran to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Nothing is wrong.
    Fine,
    /// A result was outside its bound.
    CheckFailed,
    /// Code that we emitted breaks a rule.
    Bug,
    /// Ctrl-C, after which what was known so far was printed.
    Interrupted,
}

/// What a shell reports for a command ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// A command that stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of our output is gone.
    Closed,
    /// The command line does not parse, or asks for help.
    Usage(clap::Error),
    /// The kernel is wrong.
    Kernel(Source, postlude::Error),
    /// Anything else that the user can mend.
    Mistake(Mistake),
}

/// What is wrong and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    /// What is wrong: lower-case, without a full stop.
    pub(crate) message: String,
    /// What a person reads below it, line by line.
    pub(crate) details: Option<String>,
    /// What to do about it, where that is known.
    pub(crate) fix: Option<String>,
}

impl Mistake {
    /// A mistake without a known fix.
    pub(crate) fn new(message: impl Into<String>) -> Mistake {
        Mistake { message: message.into(), details: None, fix: None }
    }

    /// The same mistake with more lines below it.
    pub(crate) fn details(self, details: impl Into<String>) -> Mistake {
        Mistake { details: Some(details.into()), ..self }
    }

    /// The same mistake with its fix.
    pub(crate) fn fix(self, fix: impl Into<String>) -> Mistake {
        Mistake { fix: Some(fix.into()), ..self }
    }

    /// Something went wrong with a file.
    pub(crate) fn file(path: &Path, what: impl Display) -> Mistake {
        Mistake::new(format!("{}: {what}", path.display()))
    }

    /// The operating system refused something about a file.
    pub(crate) fn io(path: &Path, error: &io::Error) -> Mistake {
        Mistake::file(path, plain(error))
    }
}

/// An operating system's error without Rust's `(os error 2)`.
pub(crate) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| {
        first.to_lowercase().collect::<String>() + characters.as_str()
    })
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Failure {
        Failure::Mistake(mistake)
    }
}
