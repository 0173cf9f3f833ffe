//! The launches of a call in the simulator, one after the other.
//!
//! In: what a call runs, its inputs, how its outputs lie. Out: the last launch, laid out; those before it have been run.
//! Invariant: a value between launches is gone behind the last launch that reads it, as on a GPU, where other values take its
//! memory.

use super::call::{EachLaunch, Laying, SimCall};
use crate::error::Error;
use crate::graph::{Input, Output};
use crate::placement::Placement;
use crate::problem::Argument;
use crate::program::{Base, Chosen, KernelLaunch, Step, View};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// A call that is being run.
pub(crate) struct Run<'r> {
    chosen: &'r Chosen,
    laying: &'r Laying<'r>,
    /// What the call passes, by place in the signature.
    inputs: &'r [Argument<'r>],
    outputs: &'r [TensorView<'r>],
    /// The memory of values between launches.
    stored: Vec<Option<Vec<u8>>>,
    /// Results that launches before the last one have stored, in part at least.
    results: Vec<Option<Tensor>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(
        chosen: &'r Chosen,
        laying: &'r Laying<'r>,
        inputs: &'r [Argument<'r>],
        outputs: &'r [TensorView<'r>],
    ) -> Run<'r> {
        let stored = chosen.values.iter().map(|_| None).collect();
        let results = outputs.iter().map(|_| None).collect();
        Run { chosen, laying, inputs, outputs, stored, results }
    }

    /// Runs all launches but the last one, which it lays out.
    pub(crate) fn all_but_last(mut self, each: &mut EachLaunch<'_>) -> Result<SimCall, Error> {
        let lifetimes = self.chosen.lifetimes();
        let (last, before) = self.chosen.steps.split_last().unwrap_or_else(|| no_launch());
        for (at, step) in before.iter().enumerate() {
            match step {
                Step::Zero(value) => {
                    self.stored[*value] = Some(vec![0; self.chosen.values[*value].bytes as usize]);
                }
                Step::Launch(launch) => self.launch(launch, each)?,
            }
            for (stored, lifetime) in self.stored.iter_mut().zip(&lifetimes) {
                if lifetime.last <= at {
                    *stored = None;
                }
            }
        }
        let Step::Launch(last) = last else { no_launch() };
        let own = last.stores.iter().map(|view| match view.base {
            Base::Result(place) => self.outputs[place],
            Base::Input(_) | Base::Stored(_) | Base::Number(_) | Base::Nowhere => {
                panic!("compiler bug: the last launch stores no result")
            }
        });
        let own: Vec<TensorView<'_>> = own.collect();
        let call = SimCall::new(last, self.laying, &self.arguments(last)?, &own)?;
        let results = self.results.into_iter().enumerate();
        Ok(call.after(results.filter_map(|(place, result)| Some((place, result?))).collect()))
    }

    fn launch(&mut self, launch: &KernelLaunch, each: &mut EachLaunch<'_>) -> Result<(), Error> {
        let written = launch.stores.iter().zip(launch.form.graph.outputs());
        let written = written.zip(&launch.placements.outputs);
        let mut tensors = written
            .map(|((view, output), placement)| self.memory(launch, view, output, placement))
            .collect::<Result<Vec<Tensor>, Error>>()?;
        let views = tensors.iter_mut().zip(&launch.stores);
        let views = views.map(|(tensor, view)| match view.base {
            Base::Result(_) => part_to_write(tensor, view),
            _ => Ok(tensor.view_mut()),
        });
        let mut views = views.collect::<Result<Vec<TensorViewMut<'_>>, Error>>()?;
        let outputs: Vec<TensorView<'_>> = views.iter().map(TensorViewMut::view).collect();
        let call = SimCall::new(launch, self.laying, &self.arguments(launch)?, &outputs)?;
        each(&call, &mut views)?;
        for (tensor, view) in tensors.into_iter().zip(&launch.stores) {
            match view.base {
                Base::Result(place) => self.results[place] = Some(tensor),
                Base::Stored(value) => self.store(value, view, &tensor)?,
                Base::Input(_) | Base::Number(_) | Base::Nowhere => {}
            }
        }
        Ok(())
    }

    /// Memory that a launch writes an output to: a copy of a whole result, or of what is stored.
    fn memory(
        &self,
        launch: &KernelLaunch,
        view: &View,
        output: &Output,
        placement: &Placement,
    ) -> Result<Tensor, Error> {
        if let Base::Result(place) = view.base {
            let given = self.outputs[place];
            let bytes = given.bytes().to_vec();
            let (strides, offset) = (given.strides(), given.offset());
            let fresh =
                || Tensor::with_strides(given.dtype(), given.shape(), strides, offset, bytes);
            return Ok(self.results[place].clone().map_or_else(fresh, Ok)?);
        }
        let shape = launch.problem.shape(&output.dims);
        let bytes = vec![0; placement.bytes(output.dtype, &shape)];
        Ok(Tensor::with_strides(output.dtype, &shape, &placement.strides, 0, bytes)?)
    }

    /// Keeps what a launch stored for later ones.
    fn store(&mut self, value: usize, view: &View, tensor: &Tensor) -> Result<(), Error> {
        if view.parts.is_empty() {
            self.stored[value] = Some(tensor.bytes().to_vec());
            return Ok(());
        }
        let bytes = self.chosen.values[value].bytes as usize;
        let whole = self.stored[value].get_or_insert_with(|| vec![0; bytes]);
        let first = view.shift as usize * 8 / tensor.dtype().bits();
        let (shape, strides) = (tensor.shape(), tensor.strides());
        let part = TensorViewMut::strided_bytes(tensor.dtype(), shape, strides, first, whole);
        part?.copy_from(tensor.view());
        Ok(())
    }

    /// What a launch reads.
    fn arguments(&self, launch: &KernelLaunch) -> Result<Vec<Argument<'_>>, Error> {
        let inputs = launch.form.graph.inputs().iter().zip(&launch.placements.inputs);
        let all = inputs.zip(&launch.reads);
        all.map(|((input, placement), view)| self.argument(launch, input, placement.as_ref(), view))
            .collect()
    }

    fn argument(
        &self,
        launch: &KernelLaunch,
        input: &Input,
        placement: Option<&Placement>,
        view: &View,
    ) -> Result<Argument<'_>, Error> {
        Ok(match (view.base, placement) {
            (Base::Number(value), _) => Argument::Scalar(value),
            (Base::Input(place), _) => match self.inputs[place].tensor() {
                Some(tensor) => Argument::View(part_of(tensor, view)?),
                None => self.inputs[place].borrowed(),
            },
            (Base::Result(place), _) => {
                let Some(result) = &self.results[place] else {
                    panic!("compiler bug: `{}` is read before it is stored", input.name)
                };
                Argument::View(part_of(result.view(), view)?)
            }
            (Base::Stored(value), Some(placement)) => {
                let Some(stored) = &self.stored[value] else {
                    panic!("compiler bug: `{}` is read before it is stored", input.name)
                };
                let shape = launch.problem.shape(input.dims.as_deref().unwrap_or_default());
                let begin = view.shift as usize;
                let end = begin + placement.bytes(input.dtype, &shape);
                let bytes = &stored[begin..end.min(stored.len())];
                let strides = &placement.strides;
                Argument::View(TensorView::strided_bytes(input.dtype, &shape, strides, 0, bytes)?)
            }
            // No memory holds what the launch computes itself, or does not read.
            (Base::Stored(_), None) | (Base::Nowhere, _) => {
                let nothing = vec![0; input.dims.as_ref().map_or(0, Vec::len)];
                Argument::Tensor(Tensor::zeros(input.dtype, nothing)?)
            }
        })
    }
}

fn no_launch() -> ! {
    panic!("compiler bug: a call of no launch")
}

/// The part of a tensor that a launch reads.
fn part_of<'t>(mut of: TensorView<'t>, view: &View) -> Result<TensorView<'t>, Error> {
    for part in &view.parts {
        of = of.part(part.dim, part.first, part.count)?;
    }
    Ok(of)
}

/// The part of a tensor that a launch writes.
fn part_to_write<'t>(tensor: &'t mut Tensor, view: &View) -> Result<TensorViewMut<'t>, Error> {
    let mut of = tensor.view_mut();
    for part in &view.parts {
        of = of.part(part.dim, part.first, part.count)?;
    }
    Ok(of)
}
