//! One kernel and problem, as the golden files have it.

use std::fmt;

use postlude::placement::Placements;
use postlude::sim::SimCall;
use postlude::target::{Chip, Planned, Schedule};
use postlude::{Compiled, Error, MathMode, Problem, Sizes};
use postlude_corpus::fingerprint;
use postlude_ptx::launch::Launch;

/// One kernel and problem.
pub(crate) struct Entry {
    /// The kernel and its sizes.
    pub(crate) name: String,
    result: Result<Emitted, String>,
}

/// What was planned and emitted.
struct Emitted {
    schedule: Printed,
    ptx: u64,
    lines: usize,
    launch: u64,
}

/// A schedule in the file: in words where a reader will compare them, else by its hash.
enum Printed {
    Words(String),
    Hash(u64),
}

impl Entry {
    /// Plans and emits for packed tensors.
    pub(crate) fn packed(name: &str, compiled: &Compiled, sizes: &Sizes) -> Entry {
        let sized = sizes.iter().map(|(dim, size)| format!(" {dim}={size}"));
        let name = format!("{name}{}", sized.collect::<String>());
        let graph = compiled.optimised();
        let problem = match Problem::new(graph, sizes) {
            Ok(problem) => problem,
            Err(error) => panic!("{name}: {error}"),
        };
        let result = planned(compiled, &problem).map(|planned| {
            let text = planned.emit(MathMode::Default).to_string();
            let scalars = vec![Some(1.0); graph.inputs().len()];
            let facts = planned.launch(&scalars);
            Emitted::new(Printed::Words(one_line(&planned.schedule())), &text, &facts)
        });
        Entry { name, result: result.map_err(|error| error.summary()) }
    }

    /// What the simulator would run.
    pub(crate) fn simulated(name: String, call: Result<SimCall, Error>) -> Entry {
        let result = call.map(|call| {
            let schedule = fingerprint(call.schedule().to_string().as_bytes());
            Emitted::new(Printed::Hash(schedule), call.text(), call.launch())
        });
        Entry { name, result: result.map_err(|error| error.to_string()) }
    }
}

impl Emitted {
    fn new(schedule: Printed, ptx: &str, launch: &Launch) -> Emitted {
        // Tensor maps, sizes and strides are data of the launch; its debug form has all of them.
        let launch = fingerprint(format!("{launch:?}").as_bytes());
        Emitted { schedule, ptx: fingerprint(ptx.as_bytes()), lines: ptx.lines().count(), launch }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        match &self.result {
            Err(reason) => writeln!(f, "    refused: {}", reason.replace('\n', " ")),
            Ok(Emitted { schedule, ptx, lines, launch }) => {
                writeln!(f, "    ptx {ptx:016x}, {lines} lines; launch {launch:016x}")?;
                match schedule {
                    Printed::Words(words) => writeln!(f, "    {words}"),
                    Printed::Hash(hash) => writeln!(f, "    schedule {hash:016x}"),
                }
            }
        }
    }
}

/// A problem with packed tensors as the planner runs it.
fn planned(compiled: &Compiled, problem: &Problem) -> Result<Planned, Error> {
    let placements = Placements::packed(compiled.optimised(), problem);
    Ok(compiled.planning(problem, &placements, Chip::STANDARD)?.best()?)
}

/// The lines of a printed schedule, one behind the other.
fn one_line(schedule: &Schedule) -> String {
    let text = schedule.to_string();
    let inside = text.lines().map(str::trim).filter(|line| !line.ends_with(['{', '}']));
    inside.map(|line| line.trim_start_matches("# ")).collect::<Vec<_>>().join("; ")
}
