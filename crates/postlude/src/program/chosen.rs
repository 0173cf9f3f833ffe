//! What runs a call: its launches in their order, each with what it reads, what it stores and its schedules.

use std::sync::Arc;

use postlude_ptx::entry::Entry;

use super::form::KernelForm;
use super::lifetimes::{Block, Lifetime};
use super::planner::Planner;
use super::view::{Base, View};
#[cfg(feature = "cuda")]
use super::view::{CallTensors, Located};
use crate::error::Error;
use crate::graph::Graph;
use crate::lower::TileProgram;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::{Chip, Moved, Planned, Planning, TargetRefusal, copy_reason};

/// How what runs of a kernel differs from it.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchForm {
    /// Load warps compute an operand as they load it.
    InMainloop,
    /// Some launches are repeated for parts of a dim.
    Chunked,
    /// The first launches store operands as the product reads them fastest.
    Copied,
    /// It is cut: one launch is refused, or costs more.
    Cut,
    /// It is as its structure has it.
    Whole,
}

/// What a call runs.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Chosen {
    pub(crate) form: Arc<KernelForm>,
    /// How the kernel that runs differs from what was asked for.
    pub how: LaunchForm,
    /// Why it is not one launch, where that was refused.
    pub(crate) refusal: Option<String>,
    /// What costs more, or is refused, than launches that it was cut into.
    pub(crate) instead_of: Option<Arc<KernelForm>>,
    /// The sizes of its last launch.
    pub problem: Problem,
    /// What launches store for later ones.
    pub(crate) values: Vec<Value>,
    pub(crate) steps: Vec<Step>,
    /// Where the values lie.
    pub(crate) block: Block,
}

/// A value between launches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// What a call does, in order.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sets a value to zero.
    Zero(usize),
    Launch(Box<KernelLaunch>),
}

/// One launch of a call.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    /// The kernel whose last launch it is.
    pub(crate) form: Arc<KernelForm>,
    /// Its sizes.
    pub problem: Problem,
    /// Where its tensors lie.
    pub placements: Placements,
    /// Its schedules, best first and at least one.
    pub(crate) planned: Vec<Planned>,
    /// What its inputs are.
    pub(crate) reads: Vec<View>,
    /// Where its outputs go.
    pub(crate) stores: Vec<View>,
    /// The number of its chunk, where it is repeated.
    pub(crate) chunk: Option<usize>,
}

/// The memory between a kernel's launches.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Workspace {
    /// The launches in their order.
    pub launches: Vec<LaunchStores>,
    /// Bytes of the block that a call takes.
    pub bytes: u64,
    /// Bytes of the same values where none are shared.
    pub bytes_without_reuse: u64,
}

/// What one launch moves, and stores for later ones.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchStores {
    /// The name of its graph.
    pub name: String,
    /// How many products it has.
    pub products: usize,
    /// The values and their bytes; outputs of the kernel are not among them.
    pub values: Vec<(String, u64)>,
    /// What it moves.
    pub moved: Moved,
}

impl KernelLaunch {
    /// What it computes.
    pub fn graph(&self) -> &Graph {
        &self.form.graph
    }

    /// The same, in the order of a kernel.
    pub fn program(&self) -> Result<&Arc<TileProgram>, Error> {
        Ok(self.form.lowered.program().map_err(TargetRefusal::from)?)
    }

    /// Whether one of its outputs has an element.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_elements(&self) -> bool {
        let outputs = self.graph().outputs().iter();
        outputs.map(|output| self.problem.shape(&output.dims)).any(|shape| !shape.contains(&0))
    }

    /// The same as planning for a chip sees it.
    pub fn planning(&self, chip: Chip) -> Result<Planning<'_>, Error> {
        self.form.planning(&self.problem, &self.placements, chip)
    }

    /// How it is run.
    pub fn planned(&self) -> &Planned {
        &self.planned[0]
    }

    /// The code that runs it with a schedule.
    pub fn emitted(&self, planned: &Planned) -> Entry {
        planned.emit_overlapping(self.form.settings.math, self.form.overlaps())
    }
}

impl Chosen {
    /// The same launches where the call's tensors lie so, with the schedules that they have; the last one's refusal where that
    /// does not fit.
    #[cfg(feature = "cuda")]
    pub(crate) fn moved(
        &self,
        tensors: &CallTensors,
        planner: &Planner<'_>,
    ) -> Result<Chosen, Error> {
        let mut moved = self.clone();
        let last = moved.every_launch_mut().count() - 1;
        for (place, launch) in moved.every_launch_mut().enumerate() {
            let KernelLaunch { form, placements, reads, stores, .. } = launch;
            let inputs = form.graph.inputs().iter().map(|input| input.dtype).zip(reads);
            for ((dtype, view), placement) in inputs.zip(&mut placements.inputs) {
                if let Some(located) = tensors.locate(view, dtype) {
                    (*view, *placement) = (located.view, located.placement);
                }
            }
            let outputs = form.graph.outputs().iter().map(|output| output.dtype).zip(stores);
            for ((dtype, view), placement) in outputs.zip(&mut placements.outputs) {
                if let Some(Located { view: own, placement: Some(lies) }) =
                    tensors.locate(view, dtype)
                {
                    (*view, *placement) = (own, lies);
                }
            }
            let planning = launch.planning(planner.chip)?;
            launch.planned = match planning.accept(&launch.planned().schedule()) {
                Ok(planned) => vec![planned],
                Err(refusal) if place == last => return Err(refusal.into()),
                Err(_) => planner.plan(&launch.form, &launch.problem, &launch.placements)?,
            };
        }
        Ok(moved)
    }

    /// All launches in their order; those that are repeated for chunks of a dim each once, at the size of a whole chunk.
    pub fn launches(&self) -> impl Iterator<Item = &KernelLaunch> {
        self.every_launch().filter(|launch| launch.chunk.is_none_or(|number| number == 0))
    }

    pub(crate) fn every_launch(&self) -> impl Iterator<Item = &KernelLaunch> {
        self.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(&**launch),
            Step::Zero(_) => None,
        })
    }

    /// Why it is more than one launch; `None` where it is one.
    pub fn reason(&self) -> Option<String> {
        let several = "several launches";
        match (self.how, self.refusal.clone().or_else(|| self.refused())) {
            (LaunchForm::Chunked, _) => {
                Some(format!("{several}, some of them repeated for parts of a dim"))
            }
            (LaunchForm::Copied, _) => {
                let why = self.copied().join("; ");
                Some(format!("{several}: the first ones store operands as TMA reads them: {why}"))
            }
            (LaunchForm::Cut, Some(refusal)) => {
                Some(format!("{several}, for one is refused: {refusal}"))
            }
            (LaunchForm::Cut, None) => Some(format!("{several}, which cost less than one")),
            (LaunchForm::Whole | LaunchForm::InMainloop, _) => {
                let is_several = self.every_launch().nth(1).is_some();
                let text = "; the last one reads what the others compute";
                is_several.then(|| format!("{several}{text}"))
            }
        }
    }

    /// Why the launch is refused that others take the place of, at these sizes without gaps.
    fn refused(&self) -> Option<String> {
        let form = self.instead_of.as_ref()?;
        let placements = Placements::packed(&form.graph, &self.problem);
        let planned = Planner::on(Chip::STANDARD).plan(form, &self.problem, &placements);
        planned.err().map(|refusal| refusal.summary())
    }

    /// Operands that are copied, and why each is.
    fn copied(&self) -> Vec<String> {
        let graph = &self.form.graph;
        let operands = graph.products().iter().flat_map(|product| [product.left, product.right]);
        let mut all = Vec::new();
        for (input, _) in operands {
            let computed = graph.inputs()[input.0 as usize].computed.as_ref();
            let Some([source]) = computed.map(|graph| graph.inputs()) else { continue };
            let reason = format!("{}: {}", source.name, copy_reason(source.dtype));
            if !all.contains(&reason) {
                all.push(reason);
            }
        }
        all
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn every_launch_mut(&mut self) -> impl Iterator<Item = &mut KernelLaunch> {
        self.steps.iter_mut().filter_map(|step| match step {
            Step::Launch(launch) => Some(&mut **launch),
            Step::Zero(_) => None,
        })
    }

    /// The graph of the last launch, with those before it.
    pub fn graph(&self) -> &Graph {
        &self.form.graph
    }

    /// The last launch.
    pub fn last(&self) -> &KernelLaunch {
        let last = self.every_launch().last();
        last.unwrap_or_else(|| panic!("compiler bug: a call of no launch"))
    }

    /// How long each value lives, in steps.
    pub(crate) fn lifetimes(&self) -> Vec<Lifetime> {
        lifetimes(&self.values, &self.steps)
    }

    /// How its launches are repeated, in words; `None` where they are not.
    pub fn repetition(&self) -> Option<String> {
        self.form.repetition(&self.problem)
    }

    /// What its launches store for later ones, and the memory that a call takes for it.
    pub fn workspace(&self) -> Workspace {
        let stores = |launch: &KernelLaunch| {
            let graph = launch.graph();
            let values = launch.stored().map(|value| &self.values[value]);
            LaunchStores {
                name: graph.name().to_owned(),
                products: graph.products().len(),
                values: values.map(|value| (value.name.clone(), value.bytes)).collect(),
                moved: Moved::of(graph, &launch.problem),
            }
        };
        Workspace {
            launches: self.launches().map(stores).collect(),
            bytes: self.block.bytes,
            bytes_without_reuse: Block::bytes_without_reuse(&self.lifetimes()),
        }
    }
}

fn value_of(view: &View) -> Option<usize> {
    match view.base {
        Base::Stored(value) => Some(value),
        Base::Input(_) | Base::Result(_) | Base::Number(_) | Base::Nowhere => None,
    }
}

impl KernelLaunch {
    /// The values that it stores.
    pub(super) fn stored(&self) -> impl Iterator<Item = usize> {
        self.stores.iter().filter_map(value_of)
    }
}

/// How long the values of a call live: from the first step that stores one to the last one that needs it.
pub(crate) fn lifetimes(values: &[Value], steps: &[Step]) -> Vec<Lifetime> {
    let mut all: Vec<Option<Lifetime>> = vec![None; values.len()];
    for (at, step) in steps.iter().enumerate() {
        let mut touch = |value: usize| {
            let bytes = values[value].bytes;
            all[value].get_or_insert(Lifetime { bytes, first: at, last: at }).last = at;
        };
        match step {
            Step::Zero(value) => touch(*value),
            Step::Launch(launch) => {
                launch.stored().for_each(&mut touch);
                launch.reads.iter().filter_map(value_of).for_each(touch);
            }
        }
    }
    let unused = |value: &Value| Lifetime { bytes: value.bytes, first: 0, last: 0 };
    all.into_iter().zip(values).map(|(known, value)| known.unwrap_or(unused(value))).collect()
}
