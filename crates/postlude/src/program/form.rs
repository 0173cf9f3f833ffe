//! A kernel as a chain of launches, and the other chains that compute the same.
//!
//! In: the graph of its last launch, which names those before it. Out: the same kernel with an operand computed in the
//! mainloop, in chunks, with copies of its operands, cut where that costs less or where a launch was refused; each is made
//! once. A kernel that has to be one launch, or has a schedule, has no other form.

use std::sync::{Arc, Mutex, OnceLock};

use crate::error::Error;
use crate::graph::{Graph, MathMode, OperandCopies, Side};
use crate::lower::Lowered;
use crate::optimise::{copy_operands, operands_in_mainloop};
use crate::partition::{
    Alternative, Chunks, Cut, WORKSPACE, after_refusal, alternatives, bytes_between, in_chunks,
};
use crate::placement::Placements;
use crate::problem::Problem;
use crate::process;
use crate::target::{self, Chip, CopyRule, Overlap, Planning, Price, Schedule, TargetRefusal};

/// What a caller decides of a kernel's launches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Settings {
    /// What is asked of functions.
    pub(crate) math: MathMode,
    /// A schedule of the last launch instead of the planner's.
    pub(crate) schedule: Option<Schedule>,
    /// Whether it is one launch, or refused.
    pub(crate) one_launch: bool,
    /// When operands are copied by launches before their product.
    pub(crate) copies: CopyRule,
    /// The most bytes of values between launches that chunks keep to; the default when `None`.
    pub(crate) workspace: Option<u64>,
    /// Which launches may begin before the one before them has ended.
    pub(crate) overlap: Overlap,
}

impl Settings {
    /// Those of the launches that compute inputs of a kernel.
    fn of_earlier(&self) -> Settings {
        Settings { schedule: None, overlap: self.overlap.of_earlier(), ..self.clone() }
    }
}

/// A kernel as a chain of launches.
#[derive(Debug)]
pub(crate) struct KernelForm {
    /// The graph of the last launch.
    pub(crate) graph: Arc<Graph>,
    /// What that launch computes of it.
    pub(crate) lowered: Arc<Lowered>,
    pub(crate) settings: Settings,
    /// What computes its computed inputs, in the order of [`Graph::earlier`].
    pub(super) earlier: Vec<Arc<KernelForm>>,
    /// Launches that are repeated for chunks of a dim.
    pub(super) chunks: Option<Chunks>,
    cut: OnceLock<Option<Arc<KernelForm>>>,
    alternatives: OnceLock<Vec<(Cut, Arc<KernelForm>)>>,
    in_mainloop: OnceLock<Option<(Side, Arc<KernelForm>)>>,
    copied: Mutex<Vec<(OperandCopies, Arc<KernelForm>)>>,
    chunked: Mutex<Vec<Arc<KernelForm>>>,
}

/// A partition of a kernel whose structure allows several.
#[doc(hidden)]
#[derive(Clone, PartialEq, Debug)]
pub struct Partition {
    /// Where it is cut; `None` where it is not.
    pub cut: Option<String>,
    /// What it costs; `None` where a launch is refused.
    pub price: Option<Price>,
    /// Whether calls of these sizes take it.
    pub taken: bool,
}

impl KernelForm {
    /// A kernel by the graph of its last launch.
    pub(crate) fn new(graph: Arc<Graph>, settings: Settings) -> KernelForm {
        let lowered =
            if settings.one_launch { Lowered::in_one_launch(&graph) } else { Lowered::new(&graph) };
        KernelForm::lowered(graph, Arc::new(lowered), settings)
    }

    fn lowered(graph: Arc<Graph>, lowered: Arc<Lowered>, settings: Settings) -> KernelForm {
        let earlier = graph.earlier().into_iter();
        let earlier =
            earlier.map(|it| Arc::new(KernelForm::new(it.graph.clone(), settings.of_earlier())));
        KernelForm {
            earlier: earlier.collect(),
            graph,
            lowered,
            settings,
            chunks: None,
            cut: OnceLock::new(),
            alternatives: OnceLock::new(),
            in_mainloop: OnceLock::new(),
            copied: Mutex::default(),
            chunked: Mutex::default(),
        }
    }

    /// The same launches with these schedules: the last one's, and those of the chains before it.
    pub(super) fn pinned(&self, schedule: Schedule, earlier: Vec<Arc<KernelForm>>) -> KernelForm {
        let settings = Settings { schedule: Some(schedule), ..self.settings.clone() };
        let pinned = KernelForm::lowered(self.graph.clone(), self.lowered.clone(), settings);
        KernelForm { earlier, chunks: self.chunks.clone(), ..pinned }
    }

    /// The same kernel with the planner's own schedules.
    #[cfg(feature = "cuda")]
    pub(crate) fn without_schedule(self: &Arc<Self>) -> Arc<KernelForm> {
        if self.settings.schedule.is_none() {
            return self.clone();
        }
        let settings = Settings { schedule: None, ..self.settings.clone() };
        Arc::new(KernelForm::lowered(self.graph.clone(), self.lowered.clone(), settings))
    }

    /// Whether no other form is asked for.
    fn is_fixed(&self) -> bool {
        self.settings.schedule.is_some() || self.settings.one_launch
    }

    /// Whether the code of its last launch is that of one which overlaps with its neighbours.
    pub(crate) fn overlaps(&self) -> bool {
        self.settings.overlap.of_launch(!self.earlier.is_empty())
    }

    /// Its last launch as planning for a chip sees it.
    pub(crate) fn planning<'a>(
        &'a self,
        problem: &'a Problem,
        placements: &'a Placements,
        chip: Chip,
    ) -> Result<Planning<'a>, Error> {
        let program = self.lowered.program().map_err(TargetRefusal::from)?;
        Ok(Planning { program, problem, placements, chip })
    }

    /// The sizes of its last launch, which with chunks is another one than the kernel's.
    pub(super) fn own_sizes(&self, problem: &Problem) -> Result<Problem, Error> {
        match &self.chunks {
            Some(_) => Ok(problem.of_computing(&self.graph)?),
            None => Ok(problem.clone()),
        }
    }

    /// The same kernel cut for a launch that was refused.
    pub(crate) fn cut(&self) -> Option<&Arc<KernelForm>> {
        if self.is_fixed() {
            return None;
        }
        let cut = || {
            let (graph, lowered) = after_refusal(&self.graph, &self.lowered)?;
            Some(Arc::new(KernelForm::lowered(graph, lowered, self.settings.clone())))
        };
        process::once(&self.cut, cut).as_ref()
    }

    /// The same kernel whose last launch computes an operand as it loads it, where a call of these sizes takes it.
    pub(super) fn in_mainloop(&self, problem: &Problem) -> Option<&Arc<KernelForm>> {
        let made = || {
            let (side, graph) = operands_in_mainloop(&self.graph, target::widens)?;
            Some((side, Arc::new(KernelForm::new(Arc::new(graph), self.settings.clone()))))
        };
        let (side, form) = process::once(&self.in_mainloop, made).as_ref()?;
        target::computes_in_mainloop(*side, problem, self.settings.schedule.as_ref())
            .then_some(form)
    }

    /// The same kernel with chunks of a dim, where the values between its launches would have more bytes than the settings
    /// allow, or than there is room for.
    pub(super) fn chunked(&self, problem: &Problem, room: u64) -> Option<Arc<KernelForm>> {
        if self.is_fixed() {
            return None;
        }
        let limit = self.settings.workspace.unwrap_or(WORKSPACE).min(room);
        let (graph, chunks) = in_chunks(&self.graph, problem, limit)?;
        let is_known = |known: &Arc<KernelForm>| known.chunks.as_ref() == Some(&chunks);
        let make = || KernelForm {
            chunks: Some(chunks.clone()),
            ..KernelForm::new(Arc::new(graph), self.settings.clone())
        };
        Some(known_or(&self.chunked, is_known, Arc::clone, || Arc::new(make())))
    }

    /// The same kernel whose operands launches before it copy, where it gains by that.
    pub(crate) fn copied(
        &self,
        problem: &Problem,
        placements: &Placements,
    ) -> Option<Arc<KernelForm>> {
        if self.is_fixed() {
            return None;
        }
        let rule = self.settings.copies;
        let copies = target::operand_copies(&self.graph, problem, placements, rule)?;
        let graph = || Arc::new(copy_operands(&self.graph, &copies));
        let make = || (copies.clone(), Arc::new(KernelForm::new(graph(), self.settings.clone())));
        let is_known = |(known, _): &(OperandCopies, Arc<KernelForm>)| *known == copies;
        Some(known_or(&self.copied, is_known, Clone::clone, make).1)
    }

    /// Bytes of all values that its launches store for later ones.
    pub(super) fn bytes_between(&self, problem: &Problem) -> u64 {
        self.graph.inputs().iter().map(|input| bytes_between(input, problem)).sum()
    }

    /// Other partitions of the same kernel, with where they are cut.
    pub(crate) fn alternatives(&self) -> &[(Cut, Arc<KernelForm>)] {
        if self.is_fixed() {
            return &[];
        }
        let made = |Alternative { cut, graph, lowered }| {
            (cut, Arc::new(KernelForm::lowered(graph, lowered, self.settings.clone())))
        };
        let all = || alternatives(&self.graph, &self.lowered).into_iter().map(made).collect();
        process::once::<Vec<_>>(&self.alternatives, all)
    }

    fn price(&self, problem: &Problem, chip: Chip) -> Option<Price> {
        target::price(&self.graph, &self.lowered, problem, chip)
    }

    /// What it and its alternatives cost, and which of these costs least, if one does.
    fn prices(
        &self,
        problem: &Problem,
        chip: Chip,
    ) -> (Option<Price>, Vec<Option<Price>>, Option<usize>) {
        let others = self.alternatives().iter();
        let others: Vec<_> = others.map(|(_, other)| other.price(problem, chip)).collect();
        let own = if others.is_empty() { None } else { self.price(problem, chip) };
        let cheapest = target::cheapest(own, &others);
        (own, others, cheapest)
    }

    /// The same kernel in the launches that cost least at these sizes, where those are not its own one.
    pub(super) fn cheaper_cut(&self, problem: &Problem, chip: Chip) -> Option<&Arc<KernelForm>> {
        let (.., cheapest) = self.prices(problem, chip);
        cheapest.map(|place| &self.alternatives()[place].1)
    }

    /// All partitions that calls of these sizes choose from, its own launch first; none where there is no choice.
    pub(crate) fn partitions(&self, problem: &Problem, chip: Chip) -> Vec<Partition> {
        let all = self.alternatives();
        if all.is_empty() {
            return Vec::new();
        }
        let (own, prices, cheapest) = self.prices(problem, chip);
        let others = all.iter().zip(prices).enumerate();
        let others = others.map(|(place, ((cut, _), price))| Partition {
            cut: Some(cut.to_string()),
            price,
            taken: cheapest == Some(place),
        });
        let own = Partition { cut: None, price: own, taken: cheapest.is_none() };
        std::iter::once(own).chain(others).collect()
    }

    /// How its launches are repeated, in words.
    pub(super) fn repetition(&self, problem: &Problem) -> Option<String> {
        let chunks = self.chunks.as_ref()?;
        let size = problem.sizes().get(&chunks.dim).copied().unwrap_or_default();
        let count = chunks.of(size).count();
        let names = self.graph.earlier()[chunks.launches.clone()]
            .iter()
            .map(|launch| format!("`{}`", launch.graph.name()))
            .collect::<Vec<_>>();
        let (names, dim, own) = (names.join(", "), &chunks.dim, chunks.size);
        Some(format!("{names}: repeated for {count} chunks of {dim}, {own} each"))
    }
}

/// What is known, or is made now and known from then on.
fn known_or<T, U>(
    all: &Mutex<Vec<T>>,
    is_known: impl Fn(&T) -> bool,
    give: impl Fn(&T) -> U,
    make: impl FnOnce() -> T,
) -> U {
    let mut all = process::open(all);
    if let Some(known) = all.as_ref().and_then(|all| all.iter().find(|known| is_known(known))) {
        return give(known);
    }
    let new = make();
    let given = give(&new);
    if let Some(all) = &mut all {
        all.push(new);
    }
    given
}
