//! The launches that run a kernel on a GPU, at the sizes of a command line.
//!
//! In: a kernel and sizes. Out: its launches in their order, as `run` would have them: with copies of operands where those
//! pay, cut where one launch is refused, repeated for parts of a dim.

use postlude::target::{Chip, Moved, Price};
use postlude::{
    Chosen, Compiled, Error, KernelLaunch, LaunchForm, LaunchStores, Options, Partition, Problem,
    Workspace,
};

use crate::arguments::CompileArguments;
use crate::bindings::Loaded;
use crate::failure::{Failure, Mistake};
use crate::gpu_schedule::GpuProblem;
use crate::memory::amount;

/// A kernel as a GPU runs it.
pub(crate) struct Launches {
    all: Vec<KernelLaunch>,
    /// All graphs, and what lies between them, where there are several or one is special.
    pub(crate) text: Option<String>,
}

/// One of the launches.
#[derive(Clone, Copy)]
pub(crate) struct Numbered<'a> {
    launch: &'a KernelLaunch,
    number: usize,
    of: usize,
}

impl Launches {
    /// The launches of a call.
    pub(crate) fn of(
        loaded: &Loaded,
        compiled: &Compiled,
        arguments: &CompileArguments,
    ) -> Result<Launches, Failure> {
        let failure = |error: Error| loaded.failure(error);
        let sizes = loaded.sizes(&arguments.sizes)?;
        let problem = compiled.problem(&sizes).map_err(failure)?;
        let chosen = compiled.chosen(&problem, Chip::STANDARD).map_err(failure)?;
        let text = in_words(compiled, &problem, &chosen);
        Ok(Launches { all: chosen.launches().cloned().collect(), text })
    }

    /// Refuses sizes that one of them does not take: before inputs are drawn, which may take long.
    pub(crate) fn require(&self, loaded: &Loaded, options: &Options) -> Result<(), Failure> {
        for launch in self.chosen(None)? {
            launch.problem(loaded, options, false).planned()?;
        }
        Ok(())
    }

    /// All of them, or the one of a number, counted from 1.
    pub(crate) fn chosen(&self, number: Option<usize>) -> Result<Vec<Numbered<'_>>, Mistake> {
        let of = self.all.len();
        let all = (1..).zip(&self.all).map(|(number, launch)| Numbered { launch, number, of });
        let chosen: Vec<Numbered<'_>> =
            all.filter(|one| number.is_none_or(|number| one.number == number)).collect();
        match number {
            Some(number) if chosen.is_empty() => {
                let (verb, plural) = if of == 1 { ("is", "") } else { ("are", "es") };
                let what = format!("there is no launch {number}: there {verb} {of} launch{plural}");
                Err(Mistake::new(what).fix(format!("number them from 1 to {of}")))
            }
            Some(_) | None => Ok(chosen),
        }
    }
}

impl<'a> Numbered<'a> {
    /// The launch itself.
    pub(crate) fn launch(self) -> &'a KernelLaunch {
        self.launch
    }

    /// Which one it is, where there are several.
    pub(crate) fn title(self) -> Option<String> {
        let name = self.launch.graph().name();
        (self.of > 1).then(|| format!("launch {} of {}, {name}", self.number, self.of))
    }

    /// The same as a comment before what is printed of it.
    pub(crate) fn heading(self) -> String {
        self.title().map_or_else(String::new, |title| format!("# {title}\n"))
    }

    /// Its problem; a schedule of the caller's is for the last launch, or for the only one that was asked for.
    pub(crate) fn problem(
        self,
        loaded: &'a Loaded,
        options: &'a Options,
        is_only: bool,
    ) -> GpuProblem<'a> {
        let takes_schedule = is_only || self.number == self.of;
        GpuProblem::of_launch(loaded, options, self.launch, takes_schedule)
    }
}

/// The graphs of a call in words, where it takes more than one plain launch.
fn in_words(compiled: &Compiled, problem: &Problem, chosen: &Chosen) -> Option<String> {
    let partitions = compiled.partitions(problem);
    let graph = chosen.graph();
    let products = graph.products().len();
    let why = match (chosen.how, chosen.reason()) {
        (LaunchForm::InMainloop, _) => "load warps compute an operand as they load it".to_owned(),
        (_, Some(reason)) => reason,
        (_, None) if products > 1 => format!("one launch of {products} products that share A"),
        (_, None) if partitions.is_empty() => return None,
        (_, None) => "one launch, which costs less than several".to_owned(),
    };
    let repeated = chosen.repetition().map_or_else(String::new, |text| format!("# {text}\n"));
    let between = stores(&chosen.workspace());
    Some(format!("# {why}\n{repeated}{}{between}{graph}", priced(&partitions)))
}

/// The partitions that a call chooses from, a line each.
fn priced(partitions: &[Partition]) -> String {
    let line = |Partition { cut, price, taken }: &Partition| {
        let cut = cut.as_ref().map_or_else(String::new, |cut| format!(", {cut}"));
        let price = match price {
            Some(Price { launches, bytes, cycles }) => {
                let plural = if *launches == 1 { "" } else { "es" };
                let bytes = amount(u128::from(*bytes));
                format!("{launches} launch{plural}{cut}: moves {bytes}, {cycles:.0} cycles")
            }
            None if cut.is_empty() => "1 launch: refused".to_owned(),
            None => format!("several launches{cut}: one is refused"),
        };
        format!("# {price}{}\n", if *taken { ", taken" } else { "" })
    };
    let lines: String = partitions.iter().map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("# partitions, with cycles as the model counts them\n{lines}")
}

/// What launches move, and store for later ones, a line each, and the memory of a call.
fn stores(workspace: &Workspace) -> String {
    let Workspace { launches, bytes: all, bytes_without_reuse: apart } = workspace;
    let mut text = String::new();
    for (number, LaunchStores { name, products, values, moved }) in (1..).zip(launches) {
        let values =
            values.iter().map(|(name, bytes)| format!("{name}, {}", amount(u128::from(*bytes))));
        let values = values.collect::<Vec<_>>().join("; ");
        let is_last = number == launches.len();
        let values = match (values.is_empty(), is_last) {
            (true, true) => String::new(),
            (true, false) => ", stores outputs alone".to_owned(),
            (false, _) => format!(", stores {values}"),
        };
        let shared = if *products > 1 && !is_last {
            format!(" of {products} products that share A")
        } else {
            String::new()
        };
        text.push_str(&format!("# launch {number}, {name}{shared}{}{values}\n", moves(*moved)));
    }
    if *apart == 0 {
        return text;
    }
    let (all, apart) = (amount(u128::from(*all)), amount(u128::from(*apart)));
    text + &format!("# workspace {all}, {apart} without reuse\n")
}

fn moves(Moved { read, written }: Moved) -> String {
    let [read, written] = [read, written].map(|bytes| amount(u128::from(bytes)));
    format!(", reads {read}, writes {written}")
}
