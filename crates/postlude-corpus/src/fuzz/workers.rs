//! Runs a campaign on several threads.
//!
//! In: a campaign. Out: its summary. Workers draw, judge and shrink; the thread that called gathers what they report.
//! Invariant: one kernel that never ends costs its worker and nothing else: the worker is abandoned, another takes its
//! place, and the seed is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use postlude::Backend;
use postlude::sim::Timing;

use super::campaign::{Campaign, End, News, Summary};
use super::draw::{draw, graph_seed};
use super::judge::{Kind, Verdict, Wrong, judge};
use super::shrink::shrink;
use super::specimen::Specimen;

/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How long an interrupted campaign waits for kernels under way.
const GRACE: Duration = Duration::from_secs(3);
/// Kernels without an end after which a campaign has no threads left to lose.
const MOST_ABANDONED: usize = 16;

/// What a worker reports.
enum Event {
    /// It took the kernel of this number.
    Begun(u32, Box<Specimen>),
    /// What became of it.
    Judged(Verdict),
    /// The same made smaller.
    Shrunk(Box<(Specimen, Wrong)>),
    /// The engine cannot run kernels any more.
    Broken,
    /// There are no more kernels.
    Idle,
}

type WorkerId = usize;

/// What the workers share.
struct Shared {
    campaign: Campaign,
    /// The number of the next kernel.
    next: AtomicU32,
    stop: AtomicBool,
}

/// What a worker is busy with.
struct Task {
    number: u32,
    specimen: Box<Specimen>,
    since: Instant,
    /// Whether its verdict is known and it is being made smaller.
    judged: bool,
}

/// A campaign under way, as the thread that gathers sees it.
struct Gathering<'a> {
    shared: Arc<Shared>,
    sender: Sender<(WorkerId, Event)>,
    /// Workers that have not been given up, and what they do.
    workers: BTreeMap<WorkerId, Option<Task>>,
    started: WorkerId,
    abandoned: usize,
    /// The numbers of kernels whose verdict is known.
    finished: BTreeSet<u32>,
    summary: Summary,
    tell: &'a dyn Fn(News),
}

/// Runs a campaign and tells how it goes, until it is done or `stop` is set.
pub fn run(campaign: &Campaign, stop: &AtomicBool, tell: &dyn Fn(News)) -> Summary {
    let begin = Instant::now();
    let shared = Arc::new(Shared {
        campaign: campaign.clone(),
        next: AtomicU32::new(0),
        stop: AtomicBool::new(false),
    });
    let (sender, receiver) = channel();
    let mut gathering = Gathering {
        shared: Arc::clone(&shared),
        sender,
        workers: BTreeMap::new(),
        started: 0,
        abandoned: 0,
        finished: BTreeSet::new(),
        summary: Summary::default(),
        tell,
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    for _ in 0..campaign.jobs.unwrap_or(cores).max(1) {
        gathering.start_worker();
    }
    gathering.gather(&receiver, stop);
    shared.stop.store(true, Ordering::Relaxed);
    // Kernels still under way are not finished: a campaign that goes on from `next` runs them again.
    let open = (0..campaign.graphs).find(|number| !gathering.finished.contains(number));
    let mut summary = gathering.summary;
    summary.failures.sort_by_key(|found| found.drawn.0.seed);
    summary.next = campaign.first + open.unwrap_or(campaign.graphs);
    summary.took = begin.elapsed();
    summary
}

impl Gathering<'_> {
    fn start_worker(&mut self) {
        let id = self.started;
        self.started += 1;
        let (shared, sender) = (Arc::clone(&self.shared), self.sender.clone());
        let worker = thread::Builder::new().name(format!("fuzz {id}"));
        // Deep graphs are evaluated by recursion in places, so a worker needs as much stack as a main thread.
        let spawned = worker.stack_size(8 << 20).spawn(move || {
            // A pool of its own, of this thread alone: kernels are run, and references evaluated, side by side.
            let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
            // The gathering thread may have returned already.
            let report = |event| drop(sender.send((id, event)));
            while shared.take_one(&report).is_some() {}
            report(Event::Idle);
            drop(alone);
        });
        if spawned.is_ok() {
            self.workers.insert(id, None);
        }
    }

    /// Until every worker is idle or abandoned, or the campaign is to stop.
    fn gather(&mut self, receiver: &Receiver<(WorkerId, Event)>, stop: &AtomicBool) {
        let mut looked = Instant::now();
        while !self.workers.is_empty() {
            match receiver.recv_timeout(TICK) {
                Ok((worker, event)) => self.take(worker, event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if stop.load(Ordering::Relaxed) {
                self.summary.end = End::Interrupted;
                return self.end(receiver);
            }
            if looked.elapsed() > TICK {
                looked = Instant::now();
                self.abandon_late_ones();
            }
        }
    }

    /// Lets workers end the kernels under way, as far as that takes no longer than [`GRACE`]: a process that exits while its
    /// threads are in the driver may abort.
    fn end(&mut self, receiver: &Receiver<(WorkerId, Event)>) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        while !self.workers.is_empty() && begin.elapsed() < GRACE {
            if let Ok((worker, event)) = receiver.recv_timeout(TICK) {
                self.take(worker, event);
            }
        }
    }

    fn take(&mut self, worker: WorkerId, event: Event) {
        if let Event::Begun(number, specimen) = event {
            // A worker that was given up and comes back goes on with other kernels, which count.
            let task = Task { number, specimen, since: Instant::now(), judged: false };
            self.workers.insert(worker, Some(task));
            return;
        }
        // Its late report on the kernel that exceeded the limit does not count.
        let Some(task) = self.workers.get_mut(&worker) else { return };
        match event {
            Event::Begun(..) => {}
            Event::Judged(verdict) => {
                let Some(task) = task else { return };
                (task.judged, task.since) = (true, Instant::now());
                let (number, specimen) = (task.number, (*task.specimen).clone());
                self.judged(number, specimen, verdict);
            }
            Event::Shrunk(small) => self.summary.improve(small.0.seed, *small),
            Event::Broken => self.summary.end = End::Broken,
            Event::Idle => drop(self.workers.remove(&worker)),
        }
    }

    fn judged(&mut self, number: u32, specimen: Specimen, verdict: Verdict) {
        self.finished.insert(number);
        if self.shared.campaign.engine.backend == Backend::Sim {
            let timing = match specimen.way.timing {
                Timing::Eager => "eager",
                Timing::Lazy => "lazy",
                Timing::Random { .. } => "random",
            };
            *self.summary.timings.entry(timing).or_default() += 1;
        }
        let seed = specimen.seed;
        self.summary.count(seed, &verdict);
        if let Verdict::Wrong(wrong) = verdict {
            (self.tell)(News::Failed(seed, wrong.clone()));
            self.summary.fail(specimen, wrong);
        }
        (self.tell)(News::Done(seed));
    }

    /// Abandons workers that exceed the time limit of a kernel.
    fn abandon_late_ones(&mut self) {
        let Campaign { limit, shrink, .. } = self.shared.campaign;
        let is_late = |task: &Task| {
            let allowed = if task.judged { limit + shrink } else { limit };
            task.since.elapsed() > allowed
        };
        let late = self.workers.iter().filter(|(_, task)| task.as_ref().is_some_and(is_late));
        for worker in late.map(|(worker, _)| *worker).collect::<Vec<_>>() {
            if let Some(Some(task)) = self.workers.remove(&worker)
                && !task.judged
            {
                let found = format!("it did not end within {} s", limit.as_secs());
                let verdict = Verdict::Wrong(Wrong { kind: Kind::Hang, found });
                self.judged(task.number, *task.specimen, verdict);
            }
            self.abandoned += 1;
            if self.abandoned < MOST_ABANDONED {
                self.start_worker();
            } else {
                self.summary.end = End::Broken;
                self.shared.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Shared {
    /// Draws and runs the next kernel, if there is one.
    fn take_one(&self, report: &dyn Fn(Event)) -> Option<()> {
        let Campaign {
            engine, extent, sort, seed, first, graphs, only, timing, shrink: time, ..
        } = &self.campaign;
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let count = if only.is_some() { 1 } else { *graphs };
        if number >= count {
            return None;
        }
        let seed = only.unwrap_or_else(|| graph_seed(*seed, first + number));
        let mut specimen = draw(seed, *extent, *sort);
        specimen.way.timing = timing.unwrap_or(specimen.way.timing);
        report(Event::Begun(number, Box::new(specimen.clone())));
        let verdict = judge(&specimen, engine);
        report(Event::Judged(verdict.clone()));
        let Verdict::Wrong(wrong) = verdict else { return Some(()) };
        // A GPU that had an error has it for good, and would have it for every smaller kernel.
        if engine.backend == Backend::Cuda && wrong.kind == Kind::Error {
            self.stop.store(true, Ordering::Relaxed);
            report(Event::Broken);
            return None;
        }
        let small = shrink(&specimen, engine, &wrong, *time);
        report(Event::Shrunk(Box::new(small)));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::{Extent, Sort};
    use super::super::judge::{Engine, Until};
    use super::*;

    #[test]
    fn a_campaign_that_is_stopped_ends_the_kernel_under_way_and_goes_on_behind_it() {
        let engine = Engine { backend: Backend::Cpu, cache: None, until: Until::Compared };
        let (shrink, limit) = (Duration::ZERO, Duration::from_mins(1));
        let campaign = Campaign {
            engine,
            extent: Extent::Small,
            sort: Sort::Any,
            seed: 1,
            first: 5,
            graphs: 1000,
            only: None,
            timing: None,
            jobs: Some(1),
            shrink,
            limit,
        };
        let stop = AtomicBool::new(false);
        let summary = run(&campaign, &stop, &|_| stop.store(true, Ordering::Relaxed));
        assert_eq!(summary.end, End::Interrupted);
        assert!((1..100).contains(&summary.graphs), "{}", summary.graphs);
        assert_eq!(summary.next as usize, 5 + summary.graphs);
    }
}
