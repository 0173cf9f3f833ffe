//! `postlude tune`: times the schedules of a kernel on this machine's GPU and keeps what it measured.

use std::sync::atomic::{AtomicBool, Ordering};

use postlude::runtime::Device;
use postlude::tuning::{Measured, Records, TuneOptions, TuneStep, Tuned, TunedLaunch};
use postlude::{Backend, Compiled, Problem, Sizes};
use postlude_yardstick::search::{knobs, telling};
use serde::Serialize;

use crate::arguments::{Pair, TuneArguments};
use crate::bindings::Loaded;
use crate::corpus::require_gpu;
use crate::failure::{Failure, Outcome};
use crate::interruption::interruption;
use crate::memory::Need;
use crate::progress::{Progress, Reader};
use crate::{diagnose, inputs, measure, print};

#[derive(Serialize)]
struct Report {
    schema: u32,
    kernel: String,
    device: String,
    problems: Vec<ProblemReport>,
}

#[derive(Serialize)]
struct ProblemReport {
    sizes: Sizes,
    launches: Vec<LaunchReport>,
    /// Whether it was ended before it knew the best schedule of every launch.
    stopped: bool,
    /// The file that has the records.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_kept: Option<String>,
}

#[derive(Serialize)]
struct LaunchReport {
    graph: String,
    sizes: String,
    measured: Vec<MeasuredReport>,
    refused: Vec<RefusedReport>,
}

#[derive(Serialize)]
struct MeasuredReport {
    schedule: String,
    #[serde(skip)]
    knobs: Vec<String>,
    interleaved_us: f64,
    alone_us: Option<f64>,
    rounds: usize,
    planned: bool,
    chosen: bool,
}

#[derive(Serialize)]
struct RefusedReport {
    schedule: String,
    #[serde(skip)]
    knobs: Vec<String>,
    reason: String,
}

/// Runs the command.
pub(crate) fn tune(arguments: &TuneArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let mut options = loaded.options(&arguments.compile())?;
    if let Some(out) = &arguments.out {
        options.records = Records::At(out.clone());
    }
    options.backend = Backend::Cuda;
    let compiled = loaded.kernel.compile(&options);
    inputs::require_scalars(&loaded)?;
    let mut problems = Vec::new();
    for sizes in arguments.problems() {
        problems.push(problem(&loaded, &compiled, &sizes)?);
    }
    // No other backend has schedules to time.
    let fix = "tune on a machine with a Hopper GPU and its driver (in a container: run it with `--gpus all`)";
    require_gpu().map_err(|mistake| mistake.fix(fix))?;
    let device = Device::open(0).map_err(|error| loaded.failure(error))?;
    warn_of_damage(&options.records);
    let stop = interruption();
    let mut report = Report {
        schema: 1,
        kernel: loaded.kernel.name().to_owned(),
        device: device.name().to_owned(),
        problems: Vec::new(),
    };
    for problem in &problems {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let tuned = tune_one(&loaded, &compiled, problem, arguments, &stop)?;
        if let Some(reason) = &tuned.not_kept {
            let message = format!("what was measured is not kept: {reason}");
            diagnose::warn_without_place(
                &message,
                "give a file with `--out FILE` or POSTLUDE_TUNE",
            );
        }
        report.problems.push(ProblemReport::of(problem, &tuned));
    }
    print::either(arguments.json, &report, || report.text())?;
    Ok(if stop.load(Ordering::Relaxed) { Outcome::Interrupted } else { Outcome::Fine })
}

/// A problem, if this machine has the memory for it.
fn problem(
    loaded: &Loaded,
    compiled: &Compiled,
    sizes: &[Pair<usize>],
) -> Result<Problem, Failure> {
    let sizes = loaded.sizes(sizes)?;
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    Need::of(compiled.defined(), &problem, Backend::Cuda, None).require()?;
    Ok(problem)
}

fn tune_one(
    loaded: &Loaded,
    compiled: &Compiled,
    problem: &Problem,
    arguments: &TuneArguments,
    stop: &AtomicBool,
) -> Result<Tuned, Failure> {
    let progress = Progress::start(Reader::of(arguments.json));
    progress.say("making inputs");
    let data = inputs::make(loaded, problem, arguments.seed)?;
    progress.say("planning and copying inputs");
    let tell = |step| progress.say(step_text(step));
    let options = TuneOptions {
        budget: arguments.budget.0,
        tell: &tell,
        stop: &|| stop.load(Ordering::Relaxed),
        note: Some(loaded.kernel.ast().to_string()),
    };
    compiled.tune(problem, &data, &options).map_err(|error| loaded.failure(error))
}

fn step_text(step: TuneStep) -> String {
    let of = |launch: usize, launches: usize| {
        if launches > 1 { format!(" of launch {launch} of {launches}") } else { String::new() }
    };
    match step {
        TuneStep::Compiling { launch, launches, candidates } => {
            format!("compiling {candidates} schedules{}", of(launch, launches))
        }
        TuneStep::Measuring { launch, launches, candidates } => {
            format!("timing {candidates} schedules{}", of(launch, launches))
        }
    }
}

/// Says which lines of the records are passed over.
pub(crate) fn warn_of_damage(records: &Records) {
    let damaged = records.damaged();
    if let (Some(path), [first, rest @ ..]) = (records.file(), &damaged[..]) {
        let others = if rest.is_empty() {
            String::new()
        } else {
            format!(" and {} other lines are", rest.len())
        };
        let is = if rest.is_empty() { " is" } else { "" };
        let message =
            format!("{}: line {first}{is}{others} damaged and passed over", path.display());
        diagnose::warn_without_place(&message, "remove what is damaged; the other lines are used");
    }
}

impl ProblemReport {
    fn of(problem: &Problem, tuned: &Tuned) -> ProblemReport {
        ProblemReport {
            sizes: problem.sizes().clone(),
            launches: tuned.launches.iter().map(LaunchReport::of).collect(),
            stopped: tuned.stopped,
            records: tuned.file.as_ref().map(|file| file.display().to_string()),
            not_kept: tuned.not_kept.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text: String = self.launches.iter().map(LaunchReport::text).collect();
        if self.launches.is_empty() && !self.stopped {
            let sizes: Vec<String> =
                self.sizes.iter().map(|(dim, size)| format!("{dim}={size}")).collect();
            text.push_str(&format!("{}: no launch has a choice\n", sizes.join(",")));
        }
        if let Some(records) = self.records.as_ref().filter(|_| !self.launches.is_empty()) {
            text.push_str(&format!("kept in {records}\n"));
        }
        text
    }
}

impl LaunchReport {
    fn of(launch: &TunedLaunch) -> LaunchReport {
        let measured = |it: &Measured| MeasuredReport {
            schedule: it.schedule.to_string(),
            knobs: knobs(&it.schedule),
            interleaved_us: 1e6 * it.interleaved,
            alone_us: it.alone.map(|alone| 1e6 * alone),
            rounds: it.rounds,
            planned: it.planned,
            chosen: it.chosen,
        };
        LaunchReport {
            graph: launch.name.clone(),
            sizes: launch.sizes.clone(),
            measured: launch.measured.iter().map(measured).collect(),
            refused: launch
                .refused
                .iter()
                .map(|(schedule, reason)| RefusedReport {
                    schedule: schedule.to_string(),
                    knobs: knobs(schedule),
                    reason: reason.clone(),
                })
                .collect(),
        }
    }

    fn text(&self) -> String {
        let all: Vec<&[String]> = self.measured.iter().map(|it| it.knobs.as_slice()).collect();
        let (apart, alike) = telling(&all);
        let mut text = format!("{} {}\n", self.graph, self.sizes);
        if !alike.is_empty() && apart.len() > 1 {
            text.push_str(&format!("all of them: {}\n", alike.join(", ")));
        }
        let header = ["in turn", "alone", "rounds", "schedule"];
        let mut lines = vec![header.map(str::to_owned).to_vec()];
        lines.extend(self.measured.iter().zip(&apart).map(|(it, knobs)| it.cells(knobs)));
        text.push_str(&print::table(&lines));
        for RefusedReport { knobs, reason, .. } in &self.refused {
            text.push_str(&format!("not timed: {}: {reason}\n", knobs.join(", ")));
        }
        text.push_str(&format!("{}\n", self.verdict()));
        text
    }

    /// What tuning gained.
    fn verdict(&self) -> String {
        let chosen = self.measured.iter().find(|it| it.chosen);
        let planned = self.measured.iter().find(|it| it.planned);
        match (chosen, planned) {
            (Some(chosen), Some(_)) if chosen.planned => {
                "the planner's choice stays: none is clearly faster".to_owned()
            }
            (Some(chosen), Some(planned)) => {
                let faster = 100.0 * (planned.interleaved_us / chosen.interleaved_us - 1.0);
                format!("later runs take a schedule that is {faster:.1}% faster than the planner's")
            }
            (_, _) => "ended before a schedule was chosen".to_owned(),
        }
    }
}

impl MeasuredReport {
    fn cells(&self, knobs: &[String]) -> Vec<String> {
        let mut schedule = knobs.join(", ");
        for (told, note) in [(self.chosen, "taken"), (self.planned, "planned")] {
            if told {
                schedule.push_str(&format!(" <- {note}"));
            }
        }
        let time = |us: f64| measure::duration(1e-6 * us);
        vec![
            time(self.interleaved_us),
            self.alone_us.map_or(String::new(), time),
            self.rounds.to_string(),
            schedule,
        ]
    }
}

impl Report {
    fn text(&self) -> String {
        self.problems.iter().map(ProblemReport::text).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_names_what_is_taken_and_what_the_planner_would_take() {
        let measured = |us: f64, tile: &str, planned: bool, chosen: bool| MeasuredReport {
            schedule: String::new(),
            knobs: vec![format!("tile {tile}"), "stages 4".to_owned()],
            interleaved_us: us,
            alone_us: (us < 14.0).then_some(us),
            rounds: 40,
            planned,
            chosen,
        };
        let launch = LaunchReport {
            graph: "linear".to_owned(),
            sizes: "M=64,K=128,N=256".to_owned(),
            measured: vec![
                measured(12.0, "64 x 32", false, true),
                measured(13.2, "64 x 64", true, false),
                measured(20.0, "128 x 64", false, false),
            ],
            refused: Vec::new(),
        };
        let lines = [
            "linear M=64,K=128,N=256",
            "all of them: stages 4",
            "in turn  alone    rounds  schedule",
            "12.0 us  12.0 us  40      tile 64 x 32 <- taken",
            "13.2 us  13.2 us  40      tile 64 x 64 <- planned",
            "20.0 us           40      tile 128 x 64",
            "later runs take a schedule that is 10.0% faster than the planner's\n",
        ];
        assert_eq!(launch.text(), lines.join("\n"));
    }
}
