//! Times launches: rounds in which candidates run in turn, on one set of buffers after the other.
//!
//! A round is queued behind fills of memory that keep the GPU busy until the host is done, so that samples hold no host time.
//! The fills clear the L2, too.

use std::time::{Duration, Instant};

use crate::cuda::call::GpuLaunch;
use crate::error::Error;
use crate::runtime::{Device, DeviceBuffer, Event, Order, RuntimeError, Stream};
use crate::tuning::{Contest, TuneOptions, TuneStep};

/// What a sample takes at least, in seconds: more than an event's resolution by far.
const LEAST_SAMPLE: f64 = 1e-3;
/// More launches than this in a round might fill the driver's queue.
const MOST_LAUNCHES: usize = 400;
/// The memory that is filled, in bytes, and how often it is at first and at most.
const FILLED: u64 = 1 << 30;
const FIRST_FILLS: u32 = 4;
const MOST_FILLS: u32 = 64;
/// Rounds that are tried until the host is ahead; the last one counts as it is.
const TRIES: u32 = 5;

/// A launch as its call has it on a set of buffers.
pub(super) struct Buffers {
    pub(super) addresses: Vec<u64>,
    pub(super) scalars: Vec<Option<f64>>,
}

/// What keeps the GPU busy while the host queues.
pub(super) struct Busy {
    memory: DeviceBuffer,
    events: [Event; 2],
    fills: u32,
}

impl Busy {
    pub(super) fn new(device: &Device) -> Result<Busy, RuntimeError> {
        let bytes = FILLED.min(device.free_memory()? / 4);
        let events = [Event::new(device)?, Event::new(device)?];
        Ok(Busy { memory: device.allocate(bytes)?, events, fills: FIRST_FILLS })
    }

    fn queue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        self.events[0].record(stream)?;
        for _ in 0..self.fills {
            self.memory.fill(stream, 0, self.memory.len(), 0)?;
        }
        self.events[1].record(stream)
    }

    /// Whether it was busy for longer than the host took; if not, it is for longer from now on.
    fn covers(&mut self, host: Duration) -> Result<bool, RuntimeError> {
        let covered = self.events[1].since(&self.events[0])?;
        if host <= covered {
            return Ok(true);
        }
        let short = host.as_secs_f64() / covered.as_secs_f64().max(1e-6);
        self.fills = (f64::from(self.fills) * short * 1.5).ceil().min(f64::from(MOST_FILLS)) as u32;
        Ok(false)
    }
}

/// Where the candidates of a launch are timed.
pub(super) struct Track<'a> {
    pub(super) start: Instant,
    pub(super) options: &'a TuneOptions<'a>,
    pub(super) stream: &'a Stream,
    pub(super) busy: &'a mut Busy,
    /// The launch on each set of buffers.
    pub(super) sets: &'a [Buffers],
    pub(super) candidates: &'a [GpuLaunch],
    /// Before and after each candidate's launches.
    events: Vec<[Event; 2]>,
    /// Seconds of a launch, as far as is known.
    seconds: f64,
    /// The next set.
    set: usize,
    shuffle: u64,
    /// The launch among the tuned ones, and how many these are.
    number: (usize, usize),
}

impl<'a> Track<'a> {
    pub(super) fn new(
        (start, options): (Instant, &'a TuneOptions<'a>),
        (stream, busy): (&'a Stream, &'a mut Busy),
        sets: &'a [Buffers],
        candidates: &'a [GpuLaunch],
        number: (usize, usize),
    ) -> Result<Track<'a>, Error> {
        let device = stream.device();
        let pair = |_: &GpuLaunch| Ok([Event::new(device)?, Event::new(device)?]);
        let events = candidates.iter().map(pair).collect::<Result<_, RuntimeError>>()?;
        let (set, shuffle) = (0, 0x9e37_79b9_7f4a_7c15);
        let mut track = Track {
            start,
            options,
            stream,
            busy,
            sets,
            candidates,
            events,
            seconds: LEAST_SAMPLE,
            set,
            shuffle,
            number,
        };
        // Warms up, and says how long a launch is.
        for _ in 0..2 {
            let all: Vec<usize> = (0..candidates.len()).collect();
            let seconds = track.timed(&all)?;
            track.seconds = seconds.into_iter().fold(f64::INFINITY, f64::min).max(1e-6);
        }
        Ok(track)
    }

    /// Seconds of a launch of each of these.
    fn timed(&mut self, candidates: &[usize]) -> Result<Vec<f64>, Error> {
        let most = (MOST_LAUNCHES / candidates.len().max(1)).max(1) as f64;
        let launches = (LEAST_SAMPLE / self.seconds).ceil().clamp(1.0, most) as u32;
        for attempt in 1.. {
            let begin = Instant::now();
            self.busy.queue(self.stream)?;
            for candidate in self.shuffled(candidates) {
                let [before, after] = &self.events[candidate];
                before.record(self.stream)?;
                for _ in 0..launches {
                    let Buffers { addresses, scalars } = &self.sets[self.set];
                    self.candidates[candidate].launch(
                        self.stream,
                        Order::Behind,
                        addresses,
                        scalars,
                    )?;
                    self.set = (self.set + 1) % self.sets.len();
                }
                after.record(self.stream)?;
            }
            let host = begin.elapsed();
            self.stream.synchronize()?;
            if self.busy.covers(host)? || attempt == TRIES {
                break;
            }
        }
        let seconds = |candidate: &usize| -> Result<f64, RuntimeError> {
            let [before, after] = &self.events[*candidate];
            // An event's clock may stand still for a launch that is very short.
            Ok(after.since(before)?.as_secs_f64().max(1e-9) / f64::from(launches))
        };
        Ok(candidates.iter().map(seconds).collect::<Result<_, _>>()?)
    }

    /// The same in an order of this round's own.
    fn shuffled(&mut self, candidates: &[usize]) -> Vec<usize> {
        let mut order = candidates.to_vec();
        for place in (1..order.len()).rev() {
            // Xorshift: Marsaglia, "Xorshift RNGs".
            self.shuffle ^= self.shuffle << 13;
            self.shuffle ^= self.shuffle >> 7;
            self.shuffle ^= self.shuffle << 17;
            order.swap(place, (self.shuffle % (place as u64 + 1)) as usize);
        }
        order
    }
}

impl Contest for Track<'_> {
    type Error = Error;

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn is_stopped(&self) -> bool {
        (self.options.stop)()
    }

    fn round(&mut self, candidates: &[usize]) -> Result<Vec<f64>, Error> {
        self.timed(candidates)
    }

    fn alone(&mut self, candidate: usize, time: Duration) -> Result<f64, Error> {
        let begin = Instant::now();
        let mut last = self.timed(&[candidate])?;
        // The clock settles in the first third.
        let mut counted = Vec::new();
        while begin.elapsed() < time {
            last = self.timed(&[candidate])?;
            if begin.elapsed() >= time / 3 {
                counted.extend(&last);
            }
        }
        let all = if counted.is_empty() { last } else { counted };
        Ok(all.iter().sum::<f64>() / all.len() as f64)
    }

    fn left(&mut self, candidates: usize) {
        let (launch, launches) = self.number;
        (self.options.tell)(TuneStep::Measuring { launch, launches, candidates });
    }
}
