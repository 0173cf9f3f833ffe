//! One kernel and problem, as the golden files have it: every launch of a call.

use std::fmt;

use postlude::target::{Chip, Schedule};
use postlude::{Arguments, Chosen, Compiled, Error, KernelLaunch, Problem, Sizes};
use postlude_corpus::fingerprint;

/// One kernel and problem.
pub(crate) struct Entry {
    /// The kernel and its sizes.
    pub(crate) name: String,
    launches: Result<Vec<Launched>, String>,
    /// Whether schedules are in words in the file, where a reader compares them; else they are hashes.
    in_words: bool,
}

/// What was planned and emitted for a launch, as texts.
struct Launched {
    graph: String,
    /// Its tile program, schedule, PTX, and what else the launch takes.
    parts: [(&'static str, String); 4],
    schedule: Schedule,
}

impl Entry {
    /// A call whose tensors lie without gaps.
    pub(crate) fn packed(name: &str, compiled: &Compiled, sizes: &Sizes) -> Entry {
        let sized = sizes.iter().map(|(dim, size)| format!(" {dim}={size}"));
        let name = format!("{name}{}", sized.collect::<String>());
        let problem = match compiled.problem(sizes) {
            Ok(problem) => problem,
            Err(error) => panic!("{name}: {error}"),
        };
        let chosen = compiled.chosen(&problem, Chip::STANDARD);
        Entry { name, launches: launched(chosen), in_words: true }
    }

    /// A call of these arguments.
    pub(crate) fn bound(
        name: String,
        compiled: &Compiled,
        problem: &Problem,
        arguments: &Arguments<'_>,
    ) -> Entry {
        let chosen = compiled.chosen_with(problem, arguments, Chip::STANDARD);
        Entry { name, launches: launched(chosen), in_words: false }
    }

    /// Every text, with the number of its launch and what it is.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (usize, &'static str, &str)> {
        let numbered = self.launches.iter().flatten().zip(1..);
        numbered.flat_map(|(launch, number)| {
            launch.parts.iter().map(move |(part, text)| (number, *part, text.as_str()))
        })
    }
}

fn launched(chosen: Result<Chosen, Error>) -> Result<Vec<Launched>, String> {
    let launches = chosen.and_then(|chosen| chosen.launches().map(Launched::of).collect());
    launches.map_err(|error: Error| error.summary())
}

impl Launched {
    fn of(launch: &KernelLaunch) -> Result<Launched, Error> {
        let (planned, graph) = (launch.planned(), launch.graph());
        let scalars = vec![Some(1.0); graph.inputs().len()];
        let schedule = planned.schedule();
        let parts = [
            ("tile program", launch.program()?.to_string()),
            ("schedule", schedule.to_string()),
            ("ptx", launch.emitted(planned).to_string()),
            ("launch", planned.launch(&scalars).to_string()),
        ];
        Ok(Launched { graph: graph.name().to_owned(), parts, schedule })
    }
}

/// The hash of a text as the golden files have it.
pub(crate) fn hash(text: &str) -> String {
    format!("{:016x}", fingerprint(text.as_bytes()))
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.name)?;
        let launches = match &self.launches {
            Err(reason) => return writeln!(f, "    refused: {}", reason.replace('\n', " ")),
            Ok(launches) => launches,
        };
        for (number, Launched { graph, parts, schedule }) in (1..).zip(launches) {
            let [tile, schedule_text, ptx, launch] = parts.each_ref().map(|(_, text)| text);
            if launches.len() > 1 {
                writeln!(f, "  launch {number} of {}, {graph}", launches.len())?;
            }
            let (tile, lines, launch) = (hash(tile), ptx.lines().count(), hash(launch));
            writeln!(
                f,
                "    tile program {tile}; ptx {}, {lines} lines; launch {launch}",
                hash(ptx)
            )?;
            if self.in_words {
                writeln!(f, "    {}", one_line(schedule))?;
            } else {
                writeln!(f, "    schedule {}", hash(schedule_text))?;
            }
        }
        Ok(())
    }
}

/// The lines of a printed schedule, one behind the other.
fn one_line(schedule: &Schedule) -> String {
    let text = schedule.to_string();
    let inside = text.lines().map(str::trim).filter(|line| !line.ends_with(['{', '}']));
    inside.map(|line| line.trim_start_matches("# ")).collect::<Vec<_>>().join("; ")
}
