//! What the program is doing, for a person who waits.
//!
//! Invariant: nothing is written unless standard error is a terminal and the result is for a person, and nothing stays on
//! it; but for notes, which do.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use postlude_ptx::inst::Inst;
use postlude_sim::observe::{At, Observer};

use crate::threads;

/// Who reads the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// A person, who may wait.
    Person,
    /// A program, which does not look.
    Program,
}

impl Reader {
    /// The one that `--json` speaks of.
    pub(crate) fn of(json: bool) -> Reader {
        if json { Reader::Program } else { Reader::Person }
    }
}

/// A line on the terminal that says what is going on.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work of unknown length.
    pub(crate) fn start(reader: Reader) -> Progress {
        let bar = ProgressBar::with_draw_target(None, target(reader));
        bar.set_style(ProgressStyle::default_spinner());
        // Work shorter than a tick never shows. The ticks are those of a thread.
        if !bar.is_hidden() && threads::are_given() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Progress(bar)
    }

    /// That many pieces of work.
    pub(crate) fn of(count: usize, reader: Reader) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(count as u64), target(reader));
        let template = "{bar:20} {percent}%, {pos}/{len}, {eta} left  {wide_msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress(bar)
    }

    /// Whether a terminal shows it.
    pub(crate) fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Says what is being done now.
    pub(crate) fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Shows how much of how much work is done, and how long the rest takes.
    pub(crate) fn share(&self, done: u64, total: u64) {
        if self.0.length() != Some(total) {
            self.0.set_length(total);
            let template = "{msg} {bar:40} {percent}%, {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                self.0.set_style(style);
            }
            // What was done before this work says nothing about its pace.
            self.0.reset_eta();
        }
        self.0.set_position(done.min(total));
    }

    /// Work of unknown length again.
    pub(crate) fn spin(&self) {
        self.0.unset_length();
        self.0.set_position(0);
        self.0.set_style(ProgressStyle::default_spinner());
    }

    /// Notes something that is to stay, on a terminal or in a log.
    pub(crate) fn note(&self, line: &str) {
        if io::stderr().is_terminal() {
            self.0.println(line);
        } else {
            // A log that is gone is no reason to stop.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// One more piece is done.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }
}

fn target(reader: Reader) -> ProgressDrawTarget {
    match reader {
        // Hidden where standard error is no terminal.
        Reader::Person => ProgressDrawTarget::stderr(),
        Reader::Program => ProgressDrawTarget::hidden(),
    }
}

/// Shows how far a simulated launch is: its multiply-adds where their number is known, else CTAs that have ended.
pub(crate) struct Simulating<'a> {
    progress: &'a Progress,
    work: Work,
    done: u64,
    /// What was shown last.
    shown: u64,
}

/// The work of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// So many multiply-adds of matrix products.
    MultiplyAdds(u64),
    /// So many CTAs.
    Ctas(u64),
}

impl<'a> Simulating<'a> {
    /// Nothing of the work is done.
    pub(crate) fn new(progress: &'a Progress, work: Work) -> Simulating<'a> {
        Simulating { progress, work, done: 0, shown: 0 }
    }

    fn add(&mut self, done: u64) {
        let (Work::MultiplyAdds(total) | Work::Ctas(total)) = self.work;
        self.done += done;
        // The simulator is not slowed down by a line that changes more often than it is read.
        if self.done - self.shown > total / 1000 {
            self.shown = self.done;
            self.progress.share(self.done, total);
        }
    }
}

impl Observer for Simulating<'_> {
    fn executed(&mut self, _at: At, inst: &Inst) {
        if let (Work::MultiplyAdds(_), Inst::Wgmma { shape, .. }) = (self.work, inst) {
            // A quarter for each of the four warps that issue it.
            self.add(u64::from(shape.m) * u64::from(shape.n * shape.k) / 4);
        }
    }

    fn ended(&mut self, _cta: u32) {
        if let Work::Ctas(_) = self.work {
            self.add(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
