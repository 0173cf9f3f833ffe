//! Many random kernels, on several threads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use postlude::sim::Timing;

use super::draw::{Extent, draw, graph_seed};
use super::judge::{Engine, Verdict, Wrong, judge};
use super::shrink::shrink;
use super::specimen::Specimen;
use super::tally::Tally;

/// What is run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Campaign {
    /// What runs the kernels.
    pub engine: Engine,
    /// How large problems may be.
    pub extent: Extent,
    /// The seed of all of them.
    pub seed: u32,
    /// How many.
    pub graphs: u32,
    /// The seed of a single one, instead of all.
    pub only: Option<u64>,
    /// When copies and products complete in the simulator, instead of what is drawn.
    pub timing: Option<Timing>,
    /// How many run at a time; as many as there are cores when `None`.
    pub threads: Option<usize>,
    /// How long each failure is made smaller.
    pub shrink: Duration,
}

/// A kernel that fails, as it was drawn and made smaller.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// As drawn.
    pub drawn: (Specimen, Wrong),
    /// Made smaller.
    pub small: (Specimen, Wrong),
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
    /// The elements that were compared.
    pub tally: Tally,
    /// Everything that failed, by seed.
    pub failures: Vec<Found>,
}

impl Summary {
    /// The part of the kernels that the engine took.
    pub fn accepted(&self) -> f64 {
        let refused: usize = self.refused.values().sum();
        (self.graphs - refused) as f64 / self.graphs.max(1) as f64
    }

    fn take(&mut self, verdict: Verdict) -> Option<Wrong> {
        self.graphs += 1;
        match verdict {
            Verdict::Agreed(tally) => {
                self.agreed += 1;
                self.tally.add(tally);
                None
            }
            Verdict::Refused(reason) => {
                *self.refused.entry(without_numbers(&reason)).or_default() += 1;
                None
            }
            Verdict::Wrong(wrong) => Some(wrong),
        }
    }
}

/// Refusals of one sort are counted together.
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

/// Runs a campaign; `done` is told about each kernel.
pub fn run(campaign: &Campaign, done: &(dyn Fn(u64) + Sync)) -> Summary {
    let count = if campaign.only.is_some() { 1 } else { campaign.graphs };
    let next = AtomicU32::new(0);
    let summary = Mutex::new(Summary::default());
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let seed = campaign.only.unwrap_or_else(|| graph_seed(campaign.seed, number));
            let mut specimen = draw(seed, campaign.extent);
            specimen.way.timing = campaign.timing.unwrap_or(specimen.way.timing);
            let verdict = judge(&specimen, &campaign.engine);
            let wrong = locked(&summary).take(verdict);
            if let Some(wrong) = wrong {
                let small = shrink(&specimen, &campaign.engine, &wrong, campaign.shrink);
                locked(&summary).failures.push(Found { drawn: (specimen, wrong), small });
            }
            done(seed);
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..campaign.threads.unwrap_or(cores) {
            scope.spawn(work);
        }
    });
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failures.sort_by_key(|found| found.drawn.0.seed);
    summary
}

fn locked(summary: &Mutex<Summary>) -> std::sync::MutexGuard<'_, Summary> {
    summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
