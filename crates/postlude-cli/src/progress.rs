//! What the program is doing, for a person who waits.
//!
//! Invariant: nothing is written unless standard error is a terminal, and nothing stays on it; but for notes, which do.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A line on the terminal that says what is going on.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Work of unknown length.
    pub(crate) fn start() -> Progress {
        let bar = ProgressBar::new_spinner();
        // Work shorter than a tick never shows.
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// That many pieces of work.
    pub(crate) fn of(count: usize) -> Progress {
        let bar = ProgressBar::new(count as u64);
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        Progress(bar)
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
        }
        self.0.set_position(done.min(total));
    }

    /// Work of unknown length again.
    pub(crate) fn spin(&self) {
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

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
