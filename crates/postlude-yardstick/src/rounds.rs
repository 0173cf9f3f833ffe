//! Interleaved rounds: every competitor once a round, in an order of the round's own.
//!
//! In: competitors, each a way to queue one launch on a set of buffers. Out: each one's seconds a launch, round by round,
//! so that ratios can be taken within a round. A round is queued whole behind a kernel that waits, and kept only if the
//! host was done before that kernel was: no host time is in any sample.
//!
//! Invariant: launch after launch, whoever's it is, works on another set of buffers.

use std::time::{Duration, Instant};

use postlude::runtime::{Device, Event, RuntimeError, Stream};

use crate::energy::EnergyMeter;
use crate::error::YardstickError;
use crate::shuffle::Shuffler;
use crate::sleep::Sleep;
use crate::statistics::{Spread, median};

/// Queues one launch on the set of buffers of that number.
pub type Launch<'a> = Box<dyn Fn(usize, &Stream) -> Result<(), YardstickError> + 'a>;

/// One that is timed.
pub struct Competitor<'a> {
    /// What it is called in reports.
    pub name: String,
    /// Floating-point operations of one launch.
    pub operations: f64,
    /// Launches of one sample.
    pub launches: u32,
    /// Queues one.
    pub launch: Launch<'a>,
}

/// How long to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Load before the first sample, for the clock to settle.
    pub warm_up: Duration,
    /// At most this many rounds.
    pub rounds: usize,
    /// At least this many, whatever the budget.
    pub fewest: usize,
    /// What all rounds may take.
    pub budget: Duration,
}

/// Samples of all competitors.
#[derive(Clone, PartialEq, Debug)]
pub struct Samples {
    /// For each competitor its seconds a launch, in the order of the rounds.
    pub seconds: Vec<Vec<f64>>,
    /// For each competitor the floating-point operations of a launch.
    pub operations: Vec<f64>,
    /// For each competitor the joules of a launch, block by block; nothing where others ran beside it, or nothing counts.
    pub joules: Vec<Vec<f64>>,
    /// Rounds that were thrown away because the host was too slow.
    pub dropped: usize,
}

impl Samples {
    /// None yet, of competitors with these operations.
    fn none(operations: Vec<f64>) -> Samples {
        let none = vec![Vec::new(); operations.len()];
        Samples { seconds: none.clone(), operations, joules: none, dropped: 0 }
    }

    /// The median seconds of a launch.
    pub fn median(&self, competitor: usize) -> f64 {
        median(&self.seconds[competitor])
    }

    /// The median joules of a launch, where they were counted.
    pub fn joules(&self, competitor: usize) -> Option<f64> {
        let all = &self.joules[competitor];
        (!all.is_empty()).then(|| median(all))
    }

    /// The median rate, in operations a second.
    pub fn rate(&self, competitor: usize) -> f64 {
        self.operations[competitor] / self.median(competitor)
    }

    /// How many times as fast one is as the other, within rounds.
    pub fn speed_ratio(&self, one: usize, other: usize) -> Spread {
        let work = self.operations[one] / self.operations[other];
        let pairs = self.seconds[one].iter().zip(&self.seconds[other]);
        Spread::of(&pairs.map(|(one, other)| work * other / one).collect::<Vec<f64>>())
    }

    /// The one of these with the smallest median.
    pub fn fastest(&self, of: impl IntoIterator<Item = usize>) -> Option<usize> {
        of.into_iter().min_by(|a, b| self.median(*a).total_cmp(&self.median(*b)))
    }
}

/// What a sample takes at least, so that the clock's resolution does not matter.
pub const LEAST_SAMPLE: f64 = 1e-3;
/// More launches than this in a round might fill the driver's queue, and the host would wait.
const MOST_LAUNCHES: usize = 600;

/// How many launches make a sample, when one takes about so long and this many competitors share a round.
pub fn launches_of_a_sample(seconds: f64, competitors: usize) -> u32 {
    let most = (MOST_LAUNCHES / competitors.max(1)).max(1) as f64;
    (LEAST_SAMPLE / seconds).ceil().clamp(1.0, most) as u32
}

/// Where rounds are run.
pub struct Track<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// What everything is queued on.
    pub stream: &'a Stream,
    /// What the host hides behind.
    pub sleep: &'a Sleep,
    /// How many sets of buffers there are.
    pub sets: usize,
}

/// What is carried from round to round.
struct State {
    shuffler: Shuffler,
    /// The next set of buffers.
    set: usize,
    /// What the host needs to queue a round, as far as is known.
    host: Duration,
    /// Rounds in a row that the host was too slow for.
    late: u32,
    /// Samples are cut to this part of their launches: one over it.
    part: u32,
    /// Samples are this many times as long.
    times: u32,
}

/// The most blocks in which one competitor runs alone, of each.
const BLOCKS: usize = 3;
/// How long a block is; the first third of it, in which the clock settles, is not counted.
const BLOCK: Duration = Duration::from_secs(3);
/// Samples of a block are this many times as long as those of a round: the GPU hardly waits between them.
const LONGER: u32 = 20;

/// So many rounds in a row that come too late are no accident: the driver's queue is full. A launch of the library can
/// be several kernels, which nothing says beforehand.
const TOO_OFTEN: u32 = 2;

impl State {
    fn new(seed: u64, times: u32) -> State {
        let host = Duration::from_millis(1);
        State { shuffler: Shuffler::new(seed), set: 0, host, late: 0, part: 1, times }
    }

    /// The launches of a sample, as far as the queue has room.
    fn launches(&self, one: &Competitor<'_>) -> u32 {
        ((one.launches * self.times).min(MOST_LAUNCHES as u32) / self.part).max(1)
    }

    /// The host was too slow for a round.
    fn is_late(&mut self) {
        self.late += 1;
        if self.late == TOO_OFTEN {
            (self.late, self.part, self.host) = (0, self.part * 2, Duration::from_millis(1));
        }
    }
}

impl Track<'_> {
    /// Warms up and runs rounds.
    pub fn run(
        &self,
        competitors: &[Competitor<'_>],
        plan: &Plan,
        seed: u64,
    ) -> Result<Samples, YardstickError> {
        let events = self.events(competitors)?;
        let mut state = State::new(seed, 1);
        let start = Instant::now();
        while start.elapsed() < plan.warm_up {
            self.round(competitors, &events, &mut state)?;
        }
        let operations = competitors.iter().map(|one| one.operations).collect();
        let mut samples = Samples::none(operations);
        let start = Instant::now();
        for round in 0.. {
            let kept = round - samples.dropped;
            let late = start.elapsed() >= plan.budget && kept >= plan.fewest;
            // A host that never keeps up ends too; what it measured shows that it was short.
            if late || kept >= plan.rounds || round >= 2 * plan.rounds + plan.fewest {
                break;
            }
            match self.round(competitors, &events, &mut state)? {
                Some(seconds) => {
                    for (all, one) in samples.seconds.iter_mut().zip(seconds) {
                        all.push(one);
                    }
                }
                None => samples.dropped += 1,
            }
        }
        Ok(samples)
    }

    /// Runs blocks in which one competitor runs alone, in shuffled order; a sample is the median of a block. Of a plan, it
    /// heeds the number of rounds alone.
    pub fn run_alone(
        &self,
        competitors: &[Competitor<'_>],
        plan: &Plan,
        seed: u64,
    ) -> Result<Samples, YardstickError> {
        let events = self.events(competitors)?;
        let mut order = Shuffler::new(seed);
        let operations = competitors.iter().map(|one| one.operations).collect();
        let meter = EnergyMeter::open(self.device.ordinal());
        let joules = || meter.as_ref().and_then(EnergyMeter::joules);
        let mut samples = Samples::none(operations);
        for _ in 0..plan.rounds.clamp(1, BLOCKS) {
            for one in order.order(competitors.len()) {
                let mut state = State::new(seed, LONGER);
                let (start, mut block) = (Instant::now(), Vec::new());
                let (mut before, mut launches) = (None, 0);
                while start.elapsed() < BLOCK {
                    let counts = start.elapsed() >= BLOCK / 3;
                    if counts {
                        before = before.or_else(joules);
                        launches += state.launches(&competitors[one]);
                    }
                    match self.round(&competitors[one..=one], &events[one..=one], &mut state)? {
                        Some(seconds) if counts => block.extend(seconds),
                        Some(_) => {}
                        None => samples.dropped += 1,
                    }
                }
                let used = joules().zip(before).map(|(after, before)| after - before);
                samples.joules[one].extend(used.map(|used| used / f64::from(launches)));
                if block.is_empty() {
                    return Err(YardstickError::NoRound { dropped: samples.dropped });
                }
                samples.seconds[one].push(median(&block));
            }
        }
        Ok(samples)
    }

    fn events(&self, competitors: &[Competitor<'_>]) -> Result<Vec<[Event; 2]>, RuntimeError> {
        let pair = |_| Ok([Event::new(self.device)?, Event::new(self.device)?]);
        competitors.iter().map(pair).collect()
    }

    /// One round; nothing if the host was too slow.
    fn round(
        &self,
        competitors: &[Competitor<'_>],
        events: &[[Event; 2]],
        state: &mut State,
    ) -> Result<Option<Vec<f64>>, YardstickError> {
        // Half as much again as the last round took, and what starting the first kernel takes.
        let wanted = state.host.mul_f64(1.5) + Duration::from_micros(20);
        let start = Instant::now();
        let slept = self.sleep.at_least(wanted.as_nanos() as u64, self.stream)?;
        for competitor in state.shuffler.order(competitors.len()) {
            let (one, [before, after]) = (&competitors[competitor], &events[competitor]);
            before.record(self.stream)?;
            for _ in 0..state.launches(one) {
                (one.launch)(state.set, self.stream)?;
                state.set = (state.set + 1) % self.sets;
            }
            after.record(self.stream)?;
        }
        let host = start.elapsed();
        self.stream.synchronize()?;
        state.host = host.min(Duration::from_millis(80));
        if host.as_nanos() as u64 >= slept {
            state.is_late();
            return Ok(None);
        }
        state.late = 0;
        let mut seconds = Vec::with_capacity(competitors.len());
        for (one, [before, after]) in competitors.iter().zip(events) {
            seconds.push(after.since(before)?.as_secs_f64() / f64::from(state.launches(one)));
        }
        Ok(Some(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Samples {
        let seconds = vec![vec![1.0, 2.0, 4.0], vec![2.0, 4.0, 4.0], vec![0.5, 9.0, 9.0]];
        Samples { seconds, ..Samples::none(vec![1.0, 1.0, 2.0]) }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let ratio = samples().speed_ratio(0, 1);
        assert_eq!(ratio.median, 2.0);
        assert!(ratio.low < 1.3 && ratio.high <= 2.0, "{ratio:?}");
    }

    #[test]
    fn ratios_are_of_rates_where_launches_do_different_work() {
        assert_eq!(samples().speed_ratio(2, 2).median, 1.0);
        assert_eq!(samples().speed_ratio(2, 0).median, 8.0 / 9.0);
    }

    #[test]
    fn the_fastest_has_the_smallest_median() {
        assert_eq!(samples().fastest([1, 0, 2]), Some(0));
        assert_eq!(samples().fastest([]), None);
    }

    #[test]
    fn samples_are_cut_when_the_queue_is_full_again_and_again() {
        let launch: Launch<'_> = Box::new(|_, _| Ok(()));
        let one = Competitor { name: String::new(), operations: 1.0, launches: 5, launch };
        let mut state = State { host: Duration::from_millis(80), ..State::new(1, 1) };
        state.is_late();
        assert_eq!(state.launches(&one), 5);
        for wanted in [2, 1, 1] {
            state.is_late();
            assert_eq!(state.launches(&one), wanted);
            state.is_late();
        }
    }

    #[test]
    fn short_launches_are_timed_in_batches_that_fit_the_queue() {
        assert_eq!(launches_of_a_sample(1.5e-3, 6), 1);
        assert_eq!(launches_of_a_sample(25e-6, 6), 40);
        assert_eq!(launches_of_a_sample(1e-6, 6), 100);
        assert_eq!(launches_of_a_sample(1e-6, 10_000), 1);
    }
}
