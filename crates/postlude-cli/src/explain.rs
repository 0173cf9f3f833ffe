//! `postlude explain`: what becomes of a kernel, stage by stage, as text that parses back.

use postlude::{Compiled, MathMode, Options, Problem, optimise};
use serde::Serialize;

use crate::arguments::{ExplainArguments, ScheduleTarget, StageChoice};
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake, Outcome};
use crate::launches::Launches;
use crate::print;
use crate::tune::warn_of_damage;
use crate::tuned::tuned;

/// The stages that were asked for.
#[derive(Default, Serialize)]
struct Stages {
    #[serde(skip_serializing_if = "Option::is_none")]
    ast: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    passes: Option<Vec<Pass>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    launches: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweeps: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
}

#[derive(Serialize)]
struct Pass {
    pass: &'static str,
    graph: String,
}

#[derive(Serialize)]
struct Explained {
    schema: u32,
    kernel: String,
    stages: Stages,
}

/// Runs the command.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<Outcome, Failure> {
    let loaded = Loaded::read(&arguments.source)?;
    let options = loaded.options(&arguments.compile)?;
    let compiled = loaded.kernel.compile(&options);
    let wants = |stage| arguments.stage.is_none_or(|wanted| wanted == stage);
    let mut stages = Stages::default();
    if wants(StageChoice::Ast) {
        stages.ast = Some(loaded.kernel.ast().to_string());
    }
    if wants(StageChoice::Graph) {
        stages.graph = Some(loaded.kernel.checked().to_string());
    }
    if wants(StageChoice::Passes) {
        stages.passes = Some(passes(&compiled, options.math));
    }
    // Without sizes everything but the schedule is shown.
    let sized = is_sized(&loaded, arguments);
    let shown = |stage| arguments.stage == Some(stage) || arguments.stage.is_none() && sized;
    match arguments.target {
        ScheduleTarget::Cpu => {
            refuse_gpu_flags(arguments)?;
            if arguments.stage == Some(StageChoice::Tile) {
                stages.tile = Some(last_tile(&loaded, &compiled)?);
            }
            if arguments.stage == Some(StageChoice::Sweeps) {
                let program = compiled.in_sweeps();
                stages.sweeps = Some(format!("{}{program}", of_last_graph(&compiled)));
            }
            if shown(StageChoice::Schedule) {
                stages.schedule = Some(schedule(&loaded, &compiled, arguments)?);
            }
        }
        ScheduleTarget::Sm90 if arguments.stage == Some(StageChoice::Sweeps) => {
            return Err(Mistake::new("`--stage sweeps` is for the CPU")
                .fix("leave out `--target sm90`")
                .into());
        }
        ScheduleTarget::Sm90 if arguments.stage == Some(StageChoice::Tile) && !sized => {
            stages.tile = Some(last_tile(&loaded, &compiled)?);
        }
        ScheduleTarget::Sm90 => {
            let of_launches = [StageChoice::Tile, StageChoice::Candidates, StageChoice::Schedule];
            if of_launches.into_iter().any(shown) {
                let launches = Launches::of(&loaded, &compiled, &arguments.compile)?;
                stages.explain_launches(&loaded, &options, &launches, arguments)?;
            }
        }
    }
    if arguments.json {
        let kernel = loaded.kernel.name().to_owned();
        print::json(&Explained { schema: 1, kernel, stages })?;
    } else {
        print::text(&stages.text())?;
    }
    Ok(Outcome::Fine)
}

/// The tile program of the kernel's last launch, as far as it is known without sizes.
fn last_tile(loaded: &Loaded, compiled: &Compiled) -> Result<String, Failure> {
    let program = compiled.program().map_err(|error| loaded.failure(error))?;
    let note = "# the last of several launches; `--target sm90` shows all of them at given sizes\n";
    Ok(format!("{}{program}", if has_earlier(compiled) { note } else { "" }))
}

/// Whether other graphs are computed before the kernel's own.
fn has_earlier(compiled: &Compiled) -> bool {
    let graph = compiled.optimised();
    graph.declared_inputs().len() < graph.inputs().len()
}

/// What only a GPU has.
fn refuse_gpu_flags(arguments: &ExplainArguments) -> Result<(), Mistake> {
    let flag = if arguments.stage == Some(StageChoice::Candidates) {
        "--stage candidates"
    } else if arguments.compile.schedule.is_some() {
        "--schedule"
    } else if arguments.launch_number.is_some() {
        "--launch-number"
    } else {
        return Ok(());
    };
    Err(Mistake::new(format!("`{flag}` is for a GPU")).fix("add `--target sm90`"))
}

fn is_sized(loaded: &Loaded, arguments: &ExplainArguments) -> bool {
    !arguments.compile.sizes.is_empty() || !loaded.given.is_empty()
}

fn schedule(
    loaded: &Loaded,
    compiled: &Compiled,
    arguments: &ExplainArguments,
) -> Result<String, Failure> {
    let sizes = loaded.sizes(&arguments.compile.sizes)?;
    let problem =
        Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
    let schedule = compiled.schedule(&problem).map_err(|error| loaded.failure(error))?;
    Ok(format!("{}{schedule}", of_last_graph(compiled)))
}

/// A line before what the CPU does, where it is the last graph's alone.
fn of_last_graph(compiled: &Compiled) -> &'static str {
    let note = "# of the last graph; those before it have their own\n";
    if has_earlier(compiled) { note } else { "" }
}

/// The kernel's meaning, then the graph after every pass that changed it.
fn passes(compiled: &Compiled, math: MathMode) -> Vec<Pass> {
    let defined = Pass { pass: "define", graph: compiled.defined().to_string() };
    let changed = optimise::trace(compiled.defined(), math);
    let changed = changed.into_iter().map(|(pass, graph)| Pass { pass, graph: graph.to_string() });
    std::iter::once(defined).chain(changed).collect()
}

impl Stages {
    /// The stages that every launch for a GPU has.
    fn explain_launches(
        &mut self,
        loaded: &Loaded,
        options: &Options,
        launches: &Launches,
        arguments: &ExplainArguments,
    ) -> Result<(), Failure> {
        let shown = |stage| arguments.stage.is_none_or(|wanted| wanted == stage);
        self.launches = launches.text.clone().filter(|_| arguments.stage.is_none());
        let wants_schedules = shown(StageChoice::Candidates) || shown(StageChoice::Schedule);
        if wants_schedules {
            warn_of_damage(&options.records);
        }
        for launch in launches.chosen(arguments.launch_number)? {
            let heading = launch.heading();
            let add = |stage: &mut Option<String>, text: String| {
                let text = format!("{heading}{}\n", text.trim_end());
                stage.get_or_insert_default().push_str(&text);
            };
            if shown(StageChoice::Tile) {
                let program = launch.launch().program().map_err(|error| loaded.failure(error))?;
                add(&mut self.tile, program.to_string());
            }
            if !wants_schedules {
                continue;
            }
            let problem = launch.problem(loaded, options, arguments.launch_number.is_some());
            let (planned, remarks) = match tuned(&problem) {
                Some((planned, remarks)) => (planned, remarks),
                None => (problem.planned()?, String::new()),
            };
            if shown(StageChoice::Candidates) {
                add(&mut self.candidates, problem.candidates(&planned.schedule())?);
            }
            if shown(StageChoice::Schedule) {
                add(&mut self.schedule, format!("{remarks}{}", planned.schedule()));
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.ast.clone());
        parts.extend(self.graph.clone());
        for Pass { pass, graph } in self.passes.iter().flatten() {
            parts.push(format!("# after {pass}\n{graph}"));
        }
        parts.extend(self.launches.clone());
        parts.extend(self.tile.clone());
        parts.extend(self.sweeps.clone());
        parts.extend(self.candidates.clone());
        parts.extend(self.schedule.clone());
        let lines: Vec<String> =
            parts.iter().map(|part| format!("{}\n", part.trim_end())).collect();
        lines.join("\n")
    }
}
