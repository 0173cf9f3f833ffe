//! The one place where a call's launches are decided.
//!
//! In: a kernel, sizes, where its tensors lie, a chip. Out: the launches of the first of its forms that no chip refuses, with
//! their schedules, in the order in which they run. Invariant: forms are tried in one order: an operand computed in the
//! mainloop, chunks, copies of operands, a cut that costs less, its own launch, and cut where that one is refused.

use std::sync::Arc;

use super::chosen::{Chosen, KernelLaunch, LaunchForm, Step, Value, lifetimes};
use super::form::KernelForm;
use super::lifetimes::Block;
use super::planner::Planner;
use super::view::{Base, CallTensors, Located, View};
use crate::error::Error;
use crate::graph::{Earlier, Graph, Input};
use crate::placement::{Placement, Placements};
use crate::problem::Problem;
use crate::target::{Planned, Schedule};

/// What runs a call of a kernel whose tensors lie so, or why nothing does.
pub(crate) fn choose(
    form: &Arc<KernelForm>,
    problem: &Problem,
    tensors: &CallTensors,
    planner: &Planner<'_>,
) -> Result<Chosen, Error> {
    let mut chooser = Chooser::new(planner);
    let Taken { form, how, problem, refusal, instead_of, .. } =
        chooser.kernel(form, problem, tensors)?;
    // One launch that was asked for may have been one from the beginning.
    let is_in_mainloop = how == LaunchForm::Whole && form.graph.has_operand_in_mainloop();
    let how = if is_in_mainloop { LaunchForm::InMainloop } else { how };
    let Chooser { values, steps, .. } = chooser;
    let block = Block::of(&lifetimes(&values, &steps));
    Ok(Chosen { form, how, refusal, instead_of, problem, values, steps, block })
}

/// The same kernel, all of whose launches keep the schedules that a call of these sizes has; chunks of a dim keep their size.
pub(crate) fn pinned(
    form: &Arc<KernelForm>,
    problem: &Problem,
    tensors: &CallTensors,
    planner: &Planner<'_>,
) -> Result<Arc<KernelForm>, Error> {
    let mut chooser = Chooser::new(planner);
    Ok(chooser.kernel(form, problem, tensors)?.pinned())
}

/// A form that is taken.
pub(super) struct Taken {
    form: Arc<KernelForm>,
    how: LaunchForm,
    /// The sizes of its last launch.
    problem: Problem,
    /// Why one launch is not taken, where that was refused.
    refusal: Option<String>,
    /// What costs more, or is refused.
    instead_of: Option<Arc<KernelForm>>,
    schedule: Schedule,
    /// What is taken for the launches before the last one.
    earlier: Vec<Taken>,
}

impl Taken {
    fn pinned(self) -> Arc<KernelForm> {
        let earlier = self.earlier.into_iter().map(Taken::pinned).collect();
        Arc::new(self.form.pinned(self.schedule, earlier))
    }
}

/// A call as far as it is decided.
pub(super) struct Chooser<'a> {
    pub(super) planner: &'a Planner<'a>,
    pub(super) values: Vec<Value>,
    pub(super) steps: Vec<Step>,
    /// Whether launches are repeated for chunks, which are planned alike.
    pub(super) is_repeating: bool,
}

impl<'a> Chooser<'a> {
    fn new(planner: &'a Planner<'a>) -> Chooser<'a> {
        Chooser { planner, values: Vec::new(), steps: Vec::new(), is_repeating: false }
    }

    /// Appends the launches of a kernel: the first of its forms that is not refused, or the first refusal where all are.
    pub(super) fn kernel(
        &mut self,
        form: &Arc<KernelForm>,
        problem: &Problem,
        call: &CallTensors,
    ) -> Result<Taken, Error> {
        if let Some(in_mainloop) = form.in_mainloop(problem)
            && let Some(taken) = self.offer(in_mainloop, problem, LaunchForm::InMainloop, call)
        {
            return taken;
        }
        // A launch may have no sizes of a chunk.
        if let Some(chunked) = form.chunked(problem, self.planner.room)
            && let Ok(own) = chunked.own_sizes(problem)
            && let Ok(taken) =
                self.attempt(|it| it.launches(&chunked, &own, LaunchForm::Chunked, call))
        {
            return Ok(taken);
        }
        if let Some(copied) = form.copied(problem, &call.placements(&form.graph, problem))
            && copied.bytes_between(problem) <= self.planner.room
            && let Some(taken) = self.offer(&copied, problem, LaunchForm::Copied, call)
        {
            return taken;
        }
        let as_cut = |taken: Taken| Taken { how: LaunchForm::Cut, ..taken };
        if let Some(cut) = form.cheaper_cut(problem, self.planner.chip)
            && let Some(taken) = unless_refused(self.attempt(|it| it.kernel(cut, problem, call)))
        {
            let instead_of = Some(form.clone());
            return taken.map(|taken| as_cut(Taken { instead_of, ..taken }));
        }
        let own = form.own_sizes(problem)?;
        match self.attempt(|it| it.launches(form, &own, LaunchForm::Whole, call)) {
            Err(refusal) if refusal.is_refusal() => {
                let Some(cut) = form.cut() else { return Err(refusal) };
                let taken = match self.kernel(cut, problem, call) {
                    Ok(taken) => taken,
                    Err(error) => return Err(error.or(refusal)),
                };
                Ok(as_cut(Taken { refusal: Some(refusal.summary()), ..taken }))
            }
            taken => taken,
        }
    }

    /// The launches of a form; nothing where one of them is refused.
    fn offer(
        &mut self,
        form: &Arc<KernelForm>,
        problem: &Problem,
        how: LaunchForm,
        call: &CallTensors,
    ) -> Option<Result<Taken, Error>> {
        unless_refused(self.attempt(|it| it.launches(form, problem, how, call)))
    }

    /// What is appended, or nothing at all.
    fn attempt<T>(
        &mut self,
        append: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let known = (self.values.len(), self.steps.len());
        let is_repeating = self.is_repeating;
        let appended = append(self);
        if appended.is_err() {
            self.is_repeating = is_repeating;
            self.values.truncate(known.0);
            self.steps.truncate(known.1);
        }
        appended
    }

    /// Appends the launches of this form, the last one of these sizes.
    fn launches(
        &mut self,
        form: &Arc<KernelForm>,
        problem: &Problem,
        how: LaunchForm,
        call: &CallTensors,
    ) -> Result<Taken, Error> {
        let graph = &form.graph;
        let placements = call.placements(graph, problem);
        // A launch that is refused is not worth what is computed before it.
        let planned = match self.planned_alike(form, problem, &placements) {
            Some(planned) => planned,
            None => self.planner.plan(form, problem, &placements)?,
        };
        let schedule = planned[0].schedule();
        let located = |(place, placement): (usize, &Option<Placement>)| {
            let result = graph.inputs()[place].result_place().map(|result| &call.results[result]);
            let given = call.declared.get(place).or(result);
            let view = given.map_or(View::whole(Base::Nowhere), |given| given.view.clone());
            Located { view, placement: placement.clone() }
        };
        let mut inputs: Vec<Located> = placements.inputs.iter().enumerate().map(located).collect();
        let mut taken = Vec::new();
        for (place, (earlier, own)) in graph.earlier().iter().zip(&form.earlier).enumerate() {
            match form.chunks.as_ref().filter(|chunks| chunks.launches.contains(&place)) {
                Some(chunks) if chunks.launches.start == place => {
                    taken.extend(self.chunks(form, chunks, problem, &mut inputs)?);
                }
                Some(_) => {}
                None => {
                    let of = (earlier, own);
                    taken.push(self.earlier(graph, of, problem, &mut inputs, call)?);
                }
            }
        }
        let mut reads: Vec<View> = inputs.into_iter().map(|input| input.view).collect();
        let mut is_read = vec![false; reads.len()];
        graph.read_inputs().for_each(|input| is_read[input.0 as usize] = true);
        for (view, is_read) in reads.iter_mut().zip(is_read) {
            if matches!(view.base, Base::Stored(_)) && !is_read {
                *view = View::whole(Base::Nowhere);
            }
        }
        let stores = graph.own_results().into_iter().map(|place| call.results[place].view.clone());
        let stores = stores.collect();
        self.steps.push(Step::Launch(Box::new(KernelLaunch {
            form: form.clone(),
            problem: problem.clone(),
            placements,
            planned,
            reads,
            stores,
            chunk: None,
        })));
        let (form, problem, earlier) = (form.clone(), problem.clone(), taken);
        Ok(Taken { form, how, problem, refusal: None, instead_of: None, schedule, earlier })
    }

    /// The schedules of the same launch for another chunk.
    fn planned_alike(
        &self,
        form: &Arc<KernelForm>,
        problem: &Problem,
        placements: &Placements,
    ) -> Option<Vec<Planned>> {
        let launches = self.steps.iter().rev().filter(|_| self.is_repeating);
        let mut launches = launches.filter_map(|step| match step {
            Step::Launch(launch) => Some(launch),
            Step::Zero(_) => None,
        });
        let alike = launches.find(|it| Arc::ptr_eq(&it.form, form))?;
        let is_same = alike.problem == *problem && alike.placements == *placements;
        is_same.then(|| alike.planned.clone())
    }

    /// Appends what computes inputs of a launch, which lie where it stores them from then on.
    fn earlier(
        &mut self,
        graph: &Graph,
        (earlier, form): (&Earlier<'_>, &Arc<KernelForm>),
        problem: &Problem,
        inputs: &mut [Located],
        call: &CallTensors,
    ) -> Result<Taken, Error> {
        let problem = problem.of_computing(earlier.graph)?;
        let declared = graph.places_of(earlier.graph).into_iter();
        let declared = declared.map(|place| inputs[place].clone()).collect();
        let outputs = earlier.graph.outputs().iter().zip(&earlier.inputs);
        let results = outputs.map(|(output, input)| {
            let input = input.map(|input| &graph.inputs()[input.0 as usize]);
            match input.and_then(Input::result_place) {
                Some(result) => call.results[result].clone(),
                None => self.value(&output.name, output.dtype, &problem.shape(&output.dims)),
            }
        });
        let results: Vec<Located> = results.collect();
        let tensors = CallTensors { declared, results };
        let taken = self.kernel(form, &problem, &tensors)?;
        for (input, result) in earlier.inputs.iter().zip(tensors.results) {
            if let Some(input) = input {
                inputs[input.0 as usize].view = result.view;
            }
        }
        Ok(taken)
    }
}

/// What was made of a form; nothing where it is refused.
fn unless_refused<T>(taken: Result<T, Error>) -> Option<Result<T, Error>> {
    match taken {
        Err(refusal) if refusal.is_refusal() => None,
        taken => Some(taken),
    }
}
