//! `postlude explain`: what becomes of a kernel, stage by stage, as text that parses back.

use postlude::target::Chip;
use postlude::{Compiled, LaunchStores, MathMode, Options, Problem, Workspace, optimise};
use serde::Serialize;

use crate::arguments::{ExplainArguments, ScheduleTarget, StageChoice};
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake, Outcome};
use crate::gpu_schedule::GpuProblem;
use crate::memory::amount;
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
    if let Some(chunked) = problem.chunked()? {
        let why = "# several launches, some of them repeated for parts of a dim";
        return in_chunks(&problem, why, chunked);
    }
    let (compiled, why) = if problem.compiled.computes_operand() {
        let why = "# load warps compute an operand as they load it".to_owned();
        (problem.compiled.clone(), Some(why))
    } else if let Some(copied) = problem.copied() {
        let why =
            "# several launches: the first ones store operands as the product reads them fastest";
        (copied, Some(why.to_owned()))
    } else if let Some(cut) = compiled.cheaper_cut(&problem.problem) {
        let why = "# several launches: one that holds whole rows would take longer";
        (cut.clone(), Some(why.to_owned()))
    } else if let (Some(refusal), Some(cut)) = (problem.refusal(), compiled.cut()) {
        let why = format!("# several launches, for one is refused: {refusal}");
        if let Some(chunked) =
            GpuProblem::new(loaded, cut, options, &arguments.compile)?.chunked()?
        {
            return in_chunks(&problem, &why, chunked);
        }
        (cut.clone(), Some(why))
    } else {
        let graph = compiled.optimised();
        let several = graph.declared_inputs().len() < graph.inputs().len();
        let products = graph.products().len();
        let why = match (several, products > 1) {
            (false, false) => None,
            (false, true) => Some(format!("# one launch of {products} products that share A")),
            (true, _) => {
                Some("# several launches; the last one reads what the others compute".to_owned())
            }
        };
        (compiled.clone(), why)
    };
    let Some(why) = why else { return Ok((compiled, None)) };
    let workspace = compiled.workspace(&problem.problem, Chip::STANDARD);
    let workspace = workspace.map_err(|error| loaded.failure(error))?;
    let text = format!("{why}\n{}{}", stores(&workspace), compiled.optimised());
    Ok((compiled, Some(text)))
}

/// A kernel whose launches are repeated for chunks of a dim.
fn in_chunks(
    problem: &GpuProblem<'_>,
    why: &str,
    chunked: Compiled,
) -> Result<(Compiled, Option<String>), Failure> {
    let text = format!("{why}\n{}{}", problem.between(&chunked)?, chunked.optimised());
    Ok((chunked, Some(text)))
}

/// What launches store for later ones, a line each, and the memory of a call.
fn stores(workspace: &Workspace) -> String {
    let Workspace { launches, bytes: all, bytes_without_reuse: apart } = workspace;
    if launches.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (number, LaunchStores { name, products, values }) in launches.iter().enumerate() {
        let values =
            values.iter().map(|(name, bytes)| format!("{name}, {}", amount(u128::from(*bytes))));
        let values = values.collect::<Vec<_>>().join("; ");
        let values = if values.is_empty() { "outputs alone".to_owned() } else { values };
        let shared = if *products > 1 {
            format!(" of {products} products that share A")
        } else {
            String::new()
        };
        text.push_str(&format!("# launch {}, {name}{shared}, stores {values}\n", number + 1));
    }
    let (all, apart) = (amount(u128::from(*all)), amount(u128::from(*apart)));
    text + &format!("# workspace {all}, {apart} without reuse\n")
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
