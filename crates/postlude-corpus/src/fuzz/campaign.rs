//! Many random kernels: what is run, and what became of them.
//!
//! In: an engine, seeds and limits. Out: a [`Summary`] with every failure, refusals by reason and how sharply elements
//! were compared. The workers are in [`super::workers`].

use std::collections::BTreeMap;
use std::time::Duration;

use postlude::sim::Timing;

use super::draw::{Extent, Sort};
use super::judge::{Engine, Kind, Verdict, Wrong};
use super::specimen::Specimen;
use super::tally::Tally;

/// What is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// What runs the kernels.
    pub engine: Engine,
    /// How large problems may be.
    pub extent: Extent,
    /// Which kernels are drawn.
    pub sort: Sort,
    /// The seed of all of them.
    pub seed: u32,
    /// The number of the first kernel of that seed.
    pub first: u32,
    /// How many.
    pub graphs: u32,
    /// The seed of a single one, instead of all.
    pub only: Option<u64>,
    /// When copies and products complete in the simulator, instead of what is drawn.
    pub timing: Option<Timing>,
    /// How many run at a time; as many as there are cores when `None`.
    pub jobs: Option<usize>,
    /// How long each failure is made smaller.
    pub shrink: Duration,
    /// How long one kernel may take; one that takes longer is a failure.
    pub limit: Duration,
}

/// A kernel that fails, as it was drawn and made smaller.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// As drawn.
    pub drawn: (Specimen, Wrong),
    /// Made smaller.
    pub small: (Specimen, Wrong),
}

/// How a campaign ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// Every kernel was run.
    #[default]
    Complete,
    /// It was told to stop.
    Interrupted,
    /// The engine cannot run kernels any more: a GPU had an error, or too many kernels did not end.
    Broken,
}

/// What became of all of them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Summary {
    /// How many were run.
    pub graphs: usize,
    /// Those whose every element is right.
    pub agreed: usize,
    /// Refusals by their words, numbers left out, and how many of each.
    pub refused: BTreeMap<String, usize>,
    /// The seed of a kernel that is refused so.
    pub refused_seeds: BTreeMap<String, u64>,
    /// How many ran with each of the simulator's timings; empty on other engines.
    pub timings: BTreeMap<&'static str, usize>,
    /// The elements that were compared.
    pub tally: Tally,
    /// Failures by seed; of failures with the same message only the first few.
    pub failures: Vec<Found>,
    /// How many more failures each message had.
    pub repeated: BTreeMap<String, usize>,
    /// The number of the first kernel whose verdict is not known.
    pub next: u32,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub end: End,
}

/// Failures with the same words that are kept.
pub(super) const KEPT: usize = 3;

impl Summary {
    /// The part of the kernels that the engine took.
    pub fn accepted(&self) -> f64 {
        let refused: usize = self.refused.values().sum();
        (self.graphs - refused) as f64 / self.graphs.max(1) as f64
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.failures.len() + self.repeated.values().sum::<usize>()
    }

    /// How many failed in one way.
    pub fn failed_by(&self, kind: Kind) -> usize {
        let kept = self.failures.iter().filter(|found| found.drawn.1.kind == kind).count();
        let name = kind.name();
        let more = self.repeated.iter().filter(|(class, _)| class.starts_with(name));
        kept + more.map(|(_, count)| count).sum::<usize>()
    }

    /// Counts the verdict on the kernel of a seed; what is wrong is kept by [`Summary::fail`].
    pub(super) fn count(&mut self, seed: u64, verdict: &Verdict) {
        self.graphs += 1;
        match verdict {
            Verdict::Agreed(tally) => {
                self.agreed += 1;
                self.tally.add(*tally);
            }
            Verdict::Refused(reason) => {
                let words = without_numbers(reason);
                self.refused_seeds.entry(words.clone()).or_insert(seed);
                *self.refused.entry(words).or_default() += 1;
            }
            Verdict::Wrong(_) => {}
        }
    }

    /// Keeps a failure, or counts it where there are enough of its sort; whether it was kept.
    pub(super) fn fail(&mut self, specimen: Specimen, wrong: Wrong) -> bool {
        let class = class(&wrong);
        let alike = self.failures.iter().filter(|found| self::class(&found.drawn.1) == class);
        // Wrong numbers all have the same words, and each may be a bug of its own.
        if wrong.kind != Kind::Mismatch && alike.count() >= KEPT {
            *self.repeated.entry(class).or_default() += 1;
            return false;
        }
        let drawn = (specimen, wrong);
        self.failures.push(Found { small: drawn.clone(), drawn });
        true
    }

    /// A smaller specimen of a failure that is kept.
    pub(super) fn improve(&mut self, seed: u64, small: (Specimen, Wrong)) {
        if let Some(found) = self.failures.iter_mut().find(|found| found.drawn.0.seed == seed) {
            found.small = small;
        }
    }
}

/// What failures of one sort have in common: the kind, and the first line without its numbers.
fn class(wrong: &Wrong) -> String {
    let line = wrong.found.lines().next().unwrap_or_default();
    format!("{}: {}", wrong.kind.name(), without_numbers(line))
}

/// Refusals of one sort are counted together: numbers, and names of inputs and outputs, are left out.
fn without_numbers(reason: &str) -> String {
    let mut text = String::new();
    for letter in reason.chars() {
        if !letter.is_ascii_digit() {
            text.push(letter);
        } else if !text.ends_with('#') {
            text.push('#');
        }
    }
    text
}

/// What a campaign tells while it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// The kernel of this seed is done with.
    Done(u64),
    /// The kernel of this seed failed.
    Failed(u64, Wrong),
}
