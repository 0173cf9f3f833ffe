//! Tunes a call: times the schedules of every launch that has a choice, and keeps what it measured.
//!
//! In: a prepared call with the planner's schedules, and where records are kept. Out: what each schedule took; records are
//! appended launch by launch. Invariant: no tensor of the call is written, and a schedule whose results differ from those of
//! the planner's choice is never recorded.

mod compare;
mod sets;
mod track;

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::cuda::call::{GpuLaunch, PreparedCall, Step};
use crate::cuda::kernel::{GpuKernel, machine};
use crate::dtype::DType;
use crate::error::Error;
use crate::runtime::{Device, Order, RuntimeError, Stream};
use crate::target::Planned;
use crate::tuning::{
    LaunchKey, Measured, Record, Records, Search, TuneOptions, TuneStep, Tuned, TunedLaunch, search,
};
use sets::{Set, extent};
use track::{Buffers, Busy, Track};

/// Candidates of a launch, the planner's choice among them.
const MOST_CANDIDATES: usize = 64;
/// More threads wait for the driver's compiler.
const MOST_THREADS: usize = 16;
/// The part of a launch's time after which no candidate is compiled any more.
const COMPILING: f64 = 0.5;
/// Bytes of an output that are compared, in runs of these.
const COMPARED_RUNS: u64 = 64;
const RUN_BYTES: u64 = 64 << 10;

/// A launch of the call on every set of buffers.
struct Launch<'c> {
    kernel: &'c GpuKernel,
    own: &'c GpuLaunch,
    key: LaunchKey,
    buffers: Vec<Buffers>,
}

impl Launch<'_> {
    /// Whether an output is where an input is: a second run would add to what the first one stored.
    fn adds_in_place(&self) -> bool {
        let outputs = self.own.form.graph.outputs().len();
        self.buffers.iter().any(|buffers| {
            let inputs = buffers.addresses.len().saturating_sub(outputs);
            let (read, written) = buffers.addresses.split_at(inputs);
            written.iter().any(|address| read.contains(address))
        })
    }
}

/// Where a call is tuned.
struct Bench<'a> {
    device: Device,
    stream: Stream,
    sets: Vec<Set>,
    busy: Busy,
    options: &'a TuneOptions<'a>,
    start: Instant,
}

/// Times the schedules of a call's launches and appends what they took.
pub(crate) fn tune(
    call: &PreparedCall,
    records: &Records,
    options: &TuneOptions<'_>,
) -> Result<Tuned, Error> {
    if call.has_lists() {
        return Err(RuntimeError::ListTuned.into());
    }
    let start = Instant::now();
    let device = call.function().device().clone();
    let stream = Stream::new(&device)?;
    let sets = Set::all(call, &device, &stream)?;
    let launches = launches(call, &sets)?;
    let busy = Busy::new(&device)?;
    let mut bench = Bench { device, stream, sets, busy, options, start };
    let session = session();
    let mut tuned = Tuned { launches: Vec::new(), stopped: false, file: None, not_kept: None };
    for (place, launch) in launches.iter().enumerate() {
        if (options.stop)() {
            tuned.stopped = true;
            break;
        }
        let left = (launches.len() - place) as u32;
        let spent = start.elapsed();
        let until = spent + options.budget.saturating_sub(spent) / left;
        let (measured, found) = bench.tune(launch, until, (place + 1, launches.len()))?;
        tuned.stopped |= found.chosen.is_none();
        let lines = bench.records(launch, &measured, &session);
        match records.append(&lines) {
            Ok(Some(file)) => tuned.file = Some(file),
            Ok(None) => tuned.not_kept = Some("records are turned off".to_owned()),
            Err(error) => tuned.not_kept = Some(error.to_string()),
        }
        tuned.launches.push(measured);
    }
    Ok(tuned)
}

/// What tells this search from every other one.
fn session() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}-{}-{count}", time.as_secs(), std::process::id())
}

/// The launches of a call that have a choice, each once.
fn launches<'c>(call: &'c PreparedCall, sets: &[Set]) -> Result<Vec<Launch<'c>>, Error> {
    let mut all: Vec<Launch<'c>> = Vec::new();
    for (number, set) in sets.iter().enumerate() {
        let mut place = 0;
        call.each(set.base, &set.addresses, &call.scalars, &mut |step| {
            let Step::Launch(own, addresses, scalars) = step else { return Ok(()) };
            let buffers = Buffers { addresses: addresses.to_vec(), scalars: scalars.to_vec() };
            if number == 0 {
                let (graph, math) = (&own.form.graph, own.form.settings.math);
                let placements = own.planned.placements();
                let key = LaunchKey::new(graph, math, &own.problem, placements);
                all.push(Launch { kernel: &call.kernel, own, key, buffers: vec![buffers] });
            } else {
                all[place].buffers.push(buffers);
            }
            place += 1;
            Ok(())
        })?;
    }
    let mut known = HashSet::new();
    all.retain(|launch| {
        let has_choice = || launch.own.planned.contenders().is_ok_and(|all| !all.is_empty());
        let own_memory = !launch.adds_in_place();
        !launch.own.is_empty() && own_memory && known.insert(launch.key.clone()) && has_choice()
    });
    Ok(all)
}

impl Bench<'_> {
    /// Times the schedules of a launch until a time.
    fn tune(
        &mut self,
        launch: &Launch<'_>,
        until: Duration,
        number: (usize, usize),
    ) -> Result<(TunedLaunch, Search), Error> {
        let planned = launch.own.with(launch.kernel, &launch.own.planned)?;
        let others = launch.own.planned.contenders()?;
        let others = &others[..others.len().min(MOST_CANDIDATES - 1)];
        let candidates = others.len() + 1;
        let (place, launches) = number;
        (self.options.tell)(TuneStep::Compiling { launch: place, launches, candidates });
        let spent = self.start.elapsed();
        let compile_until = spent + until.saturating_sub(spent).mul_f64(COMPILING);
        let compiled = self.compile(launch, others, compile_until);
        let mut calls = vec![planned];
        let mut refused = Vec::new();
        let wanted = self.results(launch, &calls[0])?;
        for (other, call) in others.iter().zip(compiled) {
            match call {
                Some(Ok(call)) if self.results(launch, &call)?.agree(&wanted) => calls.push(call),
                Some(Ok(_)) => {
                    let why = "its results differ from those of the planner's choice";
                    refused.push((other.schedule(), why.to_owned()));
                }
                Some(Err(error)) => refused.push((other.schedule(), error.summary())),
                // There was no time to compile it.
                None => {}
            }
        }
        // Later launches read what a candidate with wrong results may have written.
        let Buffers { addresses, scalars } = &launch.buffers[0];
        calls[0].launch(&self.stream, Order::Behind, addresses, scalars)?;
        let on = (&self.stream, &mut self.busy);
        let time = (self.start, self.options);
        let mut track = Track::new(time, on, &launch.buffers, &calls, number)?;
        let found = search(calls.len(), until, &mut track)?;
        Ok((summary(launch, &calls, &found, refused), found))
    }

    /// Compiles candidates on all cores until a time; `None` for what there was no time for.
    fn compile(
        &self,
        launch: &Launch<'_>,
        others: &[Planned],
        until: Duration,
    ) -> Vec<Option<Result<GpuLaunch, Error>>> {
        let next = AtomicUsize::new(0);
        let (start, kernel, own) = (self.start, launch.kernel, launch.own);
        // The caller's own thread is asked whether to stop.
        let stopped = std::sync::atomic::AtomicBool::new(false);
        let work = || {
            let mut done = Vec::new();
            while start.elapsed() < until && !stopped.load(Ordering::Relaxed) {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(other) = others.get(place) else { break };
                done.push((place, own.with(kernel, other)));
            }
            done
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let mut all: Vec<_> = others.iter().map(|_| None).collect();
        thread::scope(|scope| {
            let threads = cores.min(MOST_THREADS).min(others.len());
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                stopped.fetch_or((self.options.stop)(), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(5));
            }
            for worker in workers {
                let done = worker.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug));
                for (place, call) in done {
                    all[place] = Some(call);
                }
            }
        });
        all
    }

    /// What a candidate writes on the first set of buffers: some of every output's bytes.
    fn results(&self, launch: &Launch<'_>, call: &GpuLaunch) -> Result<Results, RuntimeError> {
        let graph = &launch.own.form.graph;
        let placements = &launch.own.planned.placements().outputs;
        let Buffers { addresses, scalars } = &launch.buffers[0];
        let mut written = Vec::new();
        let outputs = graph.outputs().iter().zip(placements);
        for ((output, placement), address) in outputs.zip(&addresses[graph.inputs().len()..]) {
            let shape = launch.own.problem.shape(&output.dims);
            if let Some((low, high)) = extent(output.dtype, &shape, &placement.strides) {
                written.push((output.dtype, address - low, low + high));
            }
        }
        for (_, at, bytes) in &written {
            self.sets[0].poison(*at, *bytes, &self.stream)?;
        }
        call.launch(&self.stream, Order::Behind, addresses, scalars)?;
        self.stream.synchronize()?;
        let read = |(dtype, at, bytes): (DType, u64, u64)| Ok((dtype, self.sample(at, bytes)?));
        Ok(Results(written.into_iter().map(read).collect::<Result<_, RuntimeError>>()?))
    }

    /// All bytes from an address on, or runs of them.
    fn sample(&self, at: u64, bytes: u64) -> Result<Vec<u8>, RuntimeError> {
        let runs: Vec<(u64, u64)> = if bytes <= COMPARED_RUNS * RUN_BYTES {
            vec![(0, bytes)]
        } else {
            // Whole elements: the first byte is an element's.
            let apart = (bytes - RUN_BYTES) / (COMPARED_RUNS - 1) / 16 * 16;
            (0..COMPARED_RUNS).map(|run| (run * apart, RUN_BYTES)).collect()
        };
        let mut sample = Vec::new();
        for (offset, count) in runs {
            let mut run = vec![0; count as usize];
            self.sets[0].read(at + offset, &mut run, &self.stream)?;
            sample.extend(run);
        }
        Ok(sample)
    }

    /// A line for everything that was measured.
    fn records(&self, launch: &Launch<'_>, tuned: &TunedLaunch, session: &str) -> Vec<Record> {
        let driver = match self.device.driver_release() {
            Some(release) => release.to_owned(),
            None => format!("CUDA {}", self.device.cuda_version()),
        };
        let record = |measured: &Measured| Record {
            launch: launch.key.clone(),
            machine: machine(&self.device),
            driver: driver.clone(),
            postlude: env!("CARGO_PKG_VERSION").to_owned(),
            session: session.to_owned(),
            schedule: measured.schedule.to_string(),
            interleaved_us: 1e6 * measured.interleaved,
            alone_us: measured.alone.map(|alone| 1e6 * alone),
            rounds: measured.rounds,
            planned: measured.planned,
            chosen: measured.chosen,
            note: self.options.note.clone(),
        };
        tuned.measured.iter().map(record).collect()
    }
}

/// What a candidate wrote.
struct Results(Vec<(DType, Vec<u8>)>);

impl Results {
    fn agree(&self, wanted: &Results) -> bool {
        let pairs = wanted.0.iter().zip(&self.0);
        let mut agree =
            pairs.map(|((dtype, wanted), (_, own))| compare::agree(*dtype, wanted, own));
        agree.all(|agree| agree)
    }
}

/// What was measured of a launch, fastest first.
fn summary(
    launch: &Launch<'_>,
    calls: &[GpuLaunch],
    found: &Search,
    refused: Vec<(crate::target::Schedule, String)>,
) -> TunedLaunch {
    let timed = calls.iter().zip(&found.standings).enumerate();
    let mut measured: Vec<Measured> = timed
        .filter_map(|(place, (call, standing))| {
            Some(Measured {
                schedule: call.planned.schedule(),
                interleaved: standing.interleaved?,
                alone: standing.alone,
                rounds: standing.rounds,
                planned: place == 0,
                chosen: found.chosen == Some(place),
            })
        })
        .collect();
    measured.sort_by(|a, b| a.interleaved.total_cmp(&b.interleaved));
    let (name, sizes) = (launch.own.form.graph.name().to_owned(), launch.key.sizes_text());
    TunedLaunch { name, sizes, measured, refused }
}
