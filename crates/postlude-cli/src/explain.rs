//! `postlude explain`: what becomes of a kernel, stage by stage, as text that parses back.

use postlude::{Compiled, MathMode, Options, Problem, optimise};
use serde::Serialize;

use crate::arguments::{ExplainArguments, ScheduleTarget, StageChoice};
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake, Outcome};
use crate::gpu_schedule::GpuProblem;
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
    let sized = arguments.stage.is_none() && is_sized(&loaded, arguments);
    let shown = |stage| arguments.stage == Some(stage) || sized;
    let on_gpu = arguments.target == ScheduleTarget::Sm90;
    let (compiled, launches) = if on_gpu && is_sized(&loaded, arguments) {
        launches(&loaded, &compiled, &options, arguments)?
    } else {
        (compiled, None)
    };
    let compiled = &compiled;
    stages.launches = launches.filter(|_| sized);
    if arguments.stage == Some(StageChoice::Tile) || sized && on_gpu {
        let program = compiled.program().map_err(|error| loaded.failure(error))?;
        stages.tile = Some(program.to_string());
    }
    match arguments.target {
        ScheduleTarget::Cpu => {
            refuse_gpu_flags(arguments)?;
            if shown(StageChoice::Schedule) {
                stages.schedule = Some(schedule(&loaded, compiled, arguments)?);
            }
        }
        ScheduleTarget::Sm90 if shown(StageChoice::Candidates) || shown(StageChoice::Schedule) => {
            let problem = GpuProblem::new(&loaded, compiled, &options, &arguments.compile)?;
            warn_of_damage(&options.records);
            let (planned, remarks) = match tuned(&problem) {
                Some((planned, remarks)) => (planned, remarks),
                None => (problem.planned()?, String::new()),
            };
            if shown(StageChoice::Candidates) {
                stages.candidates = Some(problem.candidates(&planned.schedule())?);
            }
            if shown(StageChoice::Schedule) {
                stages.schedule = Some(format!("{remarks}{}", planned.schedule()));
            }
        }
        ScheduleTarget::Sm90 => {}
    }
    if arguments.json {
        let kernel = loaded.kernel.name().to_owned();
        print::json(&Explained { schema: 1, kernel, stages })?;
    } else {
        print::text(&stages.text())?;
    }
    Ok(Outcome::Fine)
}

/// The kernel whose last launch is shown, with copies of its operands where those pay and cut where one launch is refused,
/// and all of its launches where there are several.
fn launches(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &Options,
    arguments: &ExplainArguments,
) -> Result<(Compiled, Option<String>), Failure> {
    let problem = GpuProblem::new(loaded, compiled, options, &arguments.compile)?;
    if problem.compiled.computes_operand() {
        let compiled = problem.compiled.clone();
        let text = "# load warps compute an operand as they load it";
        let text = format!("{text}\n{}", compiled.optimised());
        return Ok((compiled, Some(text)));
    }
    let shown = |why: &str, compiled: Compiled| {
        let text = format!("# {why}\n{}{}", problem.between(&compiled)?, compiled.optimised());
        Ok((compiled, Some(text)))
    };
    if let Some(chunked) = problem.chunked()? {
        return shown("several launches, some of them repeated for parts of a dim", chunked);
    }
    if let Some(copied) = problem.copied() {
        let why =
            "several launches: the first ones store operands as the product reads them fastest";
        return shown(why, copied);
    }
    if let (Some(refusal), Some(cut)) = (problem.refusal(), compiled.cut()) {
        let why = format!("several launches, for one is refused: {refusal}");
        let chunked = GpuProblem::new(loaded, cut, options, &arguments.compile)?.chunked()?;
        return shown(&why, chunked.unwrap_or_else(|| cut.clone()));
    }
    let graph = compiled.optimised();
    if graph.declared_inputs().len() == graph.inputs().len() {
        return Ok((compiled.clone(), None));
    }
    shown("several launches; the last one reads what the others compute", compiled.clone())
}

/// What only a GPU has.
fn refuse_gpu_flags(arguments: &ExplainArguments) -> Result<(), Mistake> {
    let flag = if arguments.stage == Some(StageChoice::Candidates) {
        "--stage candidates"
    } else if arguments.compile.schedule.is_some() {
        "--schedule"
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
    let schedule = compiled.schedule(&problem);
    schedule.map(|schedule| schedule.to_string()).map_err(|error| loaded.failure(error))
}

/// The kernel's meaning, then the graph after every pass that changed it.
fn passes(compiled: &Compiled, math: MathMode) -> Vec<Pass> {
    let defined = Pass { pass: "define", graph: compiled.defined().to_string() };
    let changed = optimise::trace(compiled.defined(), math);
    let changed = changed.into_iter().map(|(pass, graph)| Pass { pass, graph: graph.to_string() });
    std::iter::once(defined).chain(changed).collect()
}

impl Stages {
    fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.ast.clone());
        parts.extend(self.graph.clone());
        for Pass { pass, graph } in self.passes.iter().flatten() {
            parts.push(format!("# after {pass}\n{graph}"));
        }
        parts.extend(self.launches.clone());
        parts.extend(self.tile.clone());
        parts.extend(self.candidates.clone());
        parts.extend(self.schedule.clone());
        let lines: Vec<String> =
            parts.iter().map(|part| format!("{}\n", part.trim_end())).collect();
        lines.join("\n")
    }
}
