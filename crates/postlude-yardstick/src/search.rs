//! A search among schedules: which one runs a row fastest.
//!
//! In: a row and schedules, from the planner's table or from files. Out: those that run, best first. All of them run in the
//! same rounds as cuBLASLt and as the planner's choice; the best run again in more. Ratios are of a schedule's last rounds.

mod heat;
mod variations;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use postlude::placement::Placements;
use postlude::runtime::{Device, Stream};
use postlude::target::{Schedule, TargetRefusal};
use postlude::{Compiled, Hooks, Kernel, Options, Problem};

use crate::bench::Bench;
use crate::check::{self, Extent, Tolerance};
use crate::cublaslt::Epilogue;
use crate::data::Data;
use crate::effort::Effort;
use crate::error::YardstickError;
use crate::measure::{Ours, Theirs, check_ours, problem, refusal};
use crate::report::{Found, Searched};
use crate::suite::Row;

pub use variations::{every_schedule, every_tile, knobs, telling, variations};

/// More threads wait for the driver's compiler.
const MOST_THREADS: usize = 16;

/// What is tried.
#[derive(Clone, PartialEq, Debug)]
pub struct Search {
    /// The schedules of the planner's table.
    pub table: Table,
    /// Schedules that somebody wrote, with the names of their files.
    pub given: Vec<(String, Schedule)>,
}

/// What of the planner's table is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Every tile, in every variation.
    Whole,
    /// Every tile, with its usual raster.
    Tiles,
    /// The planner's choice alone.
    Choice,
}

/// A schedule that is to be tried.
#[derive(Clone, PartialEq, Debug)]
struct Entry {
    schedule: Schedule,
    file: Option<String>,
}

impl Entry {
    fn knobs(&self) -> String {
        let knobs = knobs(&self.schedule).join(", ");
        self.file.as_ref().map_or_else(|| knobs.clone(), |file| format!("{file}: {knobs}"))
    }
}

/// A schedule with its kernel on every set.
struct Entrant {
    entry: Entry,
    ours: Ours,
}

/// Searches for a row, or says why the planner refuses it.
pub(crate) fn search(
    bench: &Bench<'_>,
    row: &Row,
    search: &Search,
) -> Result<Found, YardstickError> {
    // cuBLASLt is tuned briefly, and results are compared on samples.
    let row = &Row { effort: Effort::Brief, ..row.clone() };
    let kernel = row.kernel()?;
    let problem = problem(&kernel, row)?;
    if let Some(refusal) = refusal(&kernel, &problem, row, bench.chip) {
        return Ok(Found::Refused(refusal));
    }
    let compiled = kernel.compile(&row.options());
    let (entries, mut not_run) = entries(bench, search, &compiled, &problem)?;
    let data = bench.data(row, kernel.defined(), &problem)?;
    let start = Instant::now();
    let mut entrants = Vec::new();
    for (entry, ours) in entries.iter().zip(prepare(bench.device, &kernel, row, &data, &entries)) {
        match ours {
            Ok(ours) => entrants.push(Entrant { entry: entry.clone(), ours }),
            // Everything is put beside the planner's choice.
            Err(error) if entrants.is_empty() => return Err(error),
            Err(error) => not_run.push((entry.knobs(), error.to_string())),
        }
    }
    let compile_seconds = start.elapsed().as_secs_f64();
    let theirs = match (row.library, bench.library) {
        (Some(epilogue), Some(library)) => {
            Some(Theirs::tune(bench, library, row, epilogue, &data)?)
        }
        (None, Some(library)) => Some(Theirs::tune(bench, library, row, Epilogue::Plain, &data)?),
        (_, None) => None,
    };
    let wrong = keep_right(bench, row, &data, &mut entrants)?;
    let (schedules, bar_tflops) = heat::run(bench, row, &data, &entrants, theirs.as_ref())?;
    let sets = data.sets;
    let found = Searched { schedules, wrong, not_run, compile_seconds, sets, bar_tflops };
    Ok(Found::Searched(Box::new(found)))
}

type Refused = Vec<(String, String)>;

/// What is tried on a problem, the planner's choice first; and what does not fit it.
fn entries(
    bench: &Bench<'_>,
    search: &Search,
    compiled: &Compiled,
    problem: &Problem,
) -> Result<(Vec<Entry>, Refused), YardstickError> {
    let placements = Placements::packed(compiled.optimised(), problem);
    let planning =
        compiled.planning(problem, &placements, bench.chip).map_err(YardstickError::Call)?;
    let refused = |refusal: TargetRefusal| YardstickError::Call(refusal.into());
    let planned = planning.best().map_err(refused)?.schedule();
    let table = match search.table {
        Table::Whole => every_schedule(&planning),
        Table::Tiles => every_tile(&planning),
        Table::Choice => Ok(Vec::new()),
    };
    let table = std::iter::once(planned.clone())
        .chain(table.map_err(refused)?.into_iter().filter(|schedule| *schedule != planned))
        .map(|schedule| Entry { schedule, file: None });
    let given = search
        .given
        .iter()
        .map(|(file, schedule)| Entry { schedule: schedule.clone(), file: Some(file.clone()) });
    let (mut entries, mut not_run) = (Vec::new(), Vec::new());
    for entry in table.chain(given) {
        match planning.accept(&entry.schedule) {
            Ok(_) => entries.push(entry),
            Err(refusal) => not_run.push((entry.knobs(), refusal.to_string())),
        }
    }
    Ok((entries, not_run))
}

/// Compiles and prepares every schedule, on all cores; the answers are in the order of the schedules.
fn prepare(
    device: &Device,
    kernel: &Kernel,
    row: &Row,
    data: &Data,
    entries: &[Entry],
) -> Vec<Result<Ours, YardstickError>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(place) else { return done };
            let hooks = Hooks { schedule: Some(entry.schedule.clone()), ..Hooks::default() };
            let options = Options { hooks, ..row.options() };
            let results = |set| data.results(set);
            done.push((place, Ours::prepare(device, kernel, &options, row, data, results)));
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, Result<Ours, YardstickError>)> = thread::scope(|scope| {
        let threads = cores.min(MOST_THREADS).min(entries.len());
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|bug| std::panic::resume_unwind(bug))
        };
        workers.into_iter().flat_map(join).collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, ours)| ours).collect()
}

/// Takes out schedules whose results are wrong, and names them. The planner's choice is compared with the definition, and
/// the others with it; if it is wrong itself, nothing is left.
fn keep_right(
    bench: &Bench<'_>,
    row: &Row,
    data: &Data,
    entrants: &mut Vec<Entrant>,
) -> Result<Vec<String>, YardstickError> {
    let stream = bench.stream;
    let mut wrong = Vec::new();
    for (place, entrant) in entrants.iter().enumerate() {
        let at = |error| YardstickError::Schedule {
            knobs: entrant.entry.knobs(),
            error: Box::new(error),
        };
        data.poison(0, stream)?;
        entrant.ours.launch(0, stream).map_err(at)?;
        stream.synchronize().map_err(|error| at(error.into()))?;
        let right = if place == 0 {
            for output in &data.outputs {
                output.buffer(1).copy_from(stream, output.buffer(0))?;
            }
            check_ours(bench, row, data, &entrant.ours)?.right
        } else {
            agrees(row, data, stream)?
        };
        if !right {
            wrong.push(entrant.entry.knobs());
        }
        if !right && place == 0 {
            break;
        }
    }
    if wrong.contains(&entrants[0].entry.knobs()) {
        entrants.clear();
    }
    entrants.retain(|entrant| !wrong.contains(&entrant.entry.knobs()));
    Ok(wrong)
}

/// Whether what lies in the first set is what the second has, as far as a sample tells.
fn agrees(row: &Row, data: &Data, stream: &Stream) -> Result<bool, YardstickError> {
    for output in &data.outputs {
        let tolerance = Tolerance::between_schedules(row, output);
        if check::compare(output, [1, 0], &tolerance, Extent::Sample, stream)?.wrong > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
