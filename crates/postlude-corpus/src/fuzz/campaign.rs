//! Many random kernels, on several threads.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use postlude::Backend;
use postlude::sim::Timing;

use super::draw::{Extent, draw, graph_seed};
use super::judge::{Engine, Kind, Verdict, Wrong, judge};
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

/// What a campaign tells while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// The kernel of this seed is done with.
    Done(u64),
    /// The kernel of this seed has been running for a long time.
    Slow(u64),
}

/// A kernel that takes longer may never end.
const LONG: Duration = Duration::from_secs(30);

/// A campaign under way.
struct Running<'a> {
    campaign: &'a Campaign,
    next: AtomicU32,
    summary: Mutex<Summary>,
    /// Seeds under way, and since when.
    under_way: Mutex<Vec<(u64, Instant)>>,
    /// Whether what runs the kernels may be of no use any more.
    broken: AtomicBool,
    tell: &'a (dyn Fn(News) + Sync),
}

/// Runs a campaign and tells how it goes.
pub fn run(campaign: &Campaign, tell: &(dyn Fn(News) + Sync)) -> Summary {
    let running = Running {
        campaign,
        next: AtomicU32::new(0),
        summary: Mutex::default(),
        under_way: Mutex::default(),
        broken: AtomicBool::new(false),
        tell,
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..campaign.threads.unwrap_or(cores))
            .map(|_| scope.spawn(|| while running.take_one().is_some() {}))
            .collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            running.tell_of_slow_ones();
        }
    });
    let mut summary = running.summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    summary.failures.sort_by_key(|found| found.drawn.0.seed);
    summary
}

impl Running<'_> {
    /// Draws and runs the next kernel, if there is one.
    fn take_one(&self) -> Option<()> {
        let Campaign { engine, extent, seed, graphs, only, timing, shrink: time, .. } =
            self.campaign;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let count = if only.is_some() { 1 } else { *graphs };
        if number >= count || self.broken.load(Ordering::Relaxed) {
            return None;
        }
        let seed = only.unwrap_or_else(|| graph_seed(*seed, number));
        locked(&self.under_way).push((seed, Instant::now()));
        let mut specimen = draw(seed, *extent);
        specimen.way.timing = timing.unwrap_or(specimen.way.timing);
        let verdict = judge(&specimen, engine);
        let wrong = locked(&self.summary).take(verdict);
        if let Some(wrong) = wrong {
            // A GPU that had an error has it for good, and would have it for every smaller kernel.
            let lasting = engine.backend == Backend::Cuda && wrong.kind == Kind::Error;
            self.broken.fetch_or(lasting, Ordering::Relaxed);
            let time = if lasting { Duration::ZERO } else { *time };
            let small = shrink(&specimen, engine, &wrong, time);
            locked(&self.summary).failures.push(Found { drawn: (specimen, wrong), small });
        }
        locked(&self.under_way).retain(|(other, _)| *other != seed);
        (self.tell)(News::Done(seed));
        Some(())
    }

    fn tell_of_slow_ones(&self) {
        for (seed, since) in locked(&self.under_way).iter_mut() {
            if since.elapsed() > LONG {
                *since = Instant::now();
                (self.tell)(News::Slow(*seed));
            }
        }
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
