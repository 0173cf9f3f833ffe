//! One call: a kernel, a problem, arguments and outputs that fit together.
//!
//! In: tensors of the caller, named or in the order of the signature. Out: a [`Call`] that any backend runs.
//! Invariant: a call that exists was validated: every input is there, of its declared type and of the problem's sizes, every
//! output too, and no two elements of an output share memory.

use std::ops::Index;

use crate::error::Error;
use crate::graph::Value;
use crate::problem::{Argument, Arguments, Problem, Sizes};
use crate::reference::{self, Comparison, Extent, Tell};
use crate::tensor::{Tensor, TensorView, TensorViewMut, require_memory};

use super::compiled::Compiled;
use super::options::Backend;

/// A call that was validated and can be run.
///
/// ```
/// use postlude::{Arguments, Kernel, Options, Sizes, TensorView, TensorViewMut};
/// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }")?;
/// let compiled = kernel.compile(&Options::default());
/// let (a, w, mut d) = ([1.0f32, 2.0], [3.0f32, 4.0, 5.0, 6.0], [0.0f32; 2]);
/// let arguments = Arguments::from([
///     ("A".to_owned(), TensorView::new(&a, [1, 2])?.into()),
///     ("W".to_owned(), TensorView::new(&w, [2, 2])?.into()),
/// ]);
/// let problem = compiled.bind(&arguments, &Sizes::new())?;
/// compiled.call(&problem, &arguments, [TensorViewMut::new(&mut d, [1, 2])?])?.run()?;
/// assert_eq!(d, [11.0, 17.0]);
/// # Ok::<(), postlude::Error>(())
/// ```
pub struct Call<'c> {
    pub(super) compiled: &'c Compiled,
    pub(super) problem: &'c Problem,
    /// In the order of the signature.
    pub(super) inputs: Vec<Argument<'c>>,
    pub(super) outputs: Vec<TensorViewMut<'c>>,
}

impl Compiled {
    /// Validates a call: arguments by name, outputs in the order of the signature.
    pub fn call<'c, O: Into<TensorViewMut<'c>>>(
        &'c self,
        problem: &'c Problem,
        arguments: &'c Arguments<'_>,
        outputs: impl IntoIterator<Item = O>,
    ) -> Result<Call<'c>, Error> {
        let outputs = outputs.into_iter().map(Into::into).collect();
        Call::new(self, problem, arguments, outputs)
    }

    /// Validates one call and runs it into tensors such as those from [`Compiled::outputs`].
    pub fn run_into(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        outputs: &mut [Tensor],
    ) -> Result<(), Error> {
        self.call(problem, arguments, outputs)?.run()
    }

    /// Runs one call: outputs by name, in the order of the signature.
    pub fn run(&self, arguments: &Arguments<'_>, sizes: &Sizes) -> Result<Outputs, Error> {
        let problem = self.bind(arguments, sizes)?;
        let mut outputs = self.outputs(&problem)?;
        self.run_into(&problem, arguments, &mut outputs)?;
        let names = self.defined.results().into_iter().map(|output| output.name.to_owned());
        Ok(Outputs::new(names.zip(outputs).collect()))
    }
}

impl<'c> Call<'c> {
    pub(super) fn new(
        compiled: &'c Compiled,
        problem: &'c Problem,
        arguments: &'c Arguments<'_>,
        outputs: Vec<TensorViewMut<'c>>,
    ) -> Result<Call<'c>, Error> {
        let inputs = problem.inputs(&compiled.defined, arguments)?;
        problem.check_outputs(&compiled.defined, &outputs)?;
        Ok(Call { compiled, problem, inputs, outputs })
    }

    /// Runs it on the kernel's backend.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_telling(&|_, _| {})
    }

    /// Runs it on the kernel's backend; `tell` hears how much of how much work the reference has done, and nothing of the
    /// other backends, which take less time.
    #[doc(hidden)]
    pub fn run_telling(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        match self.compiled.options.backend {
            Backend::Reference => {
                let compiled = self.compiled;
                let (graph, math) = (&compiled.defined, compiled.options.math);
                let held = reference::held_elements(graph, self.problem, Extent::All) as usize;
                require_memory(held.saturating_mul(size_of::<Value>()))?;
                let all = reference::evaluate_inputs(graph, self.problem, &self.inputs, math, tell);
                for (output, evaluated) in self.outputs.iter_mut().zip(all) {
                    let written = evaluated.written_over(output.view())?;
                    output.copy_from(written.view());
                }
                Ok(())
            }
            Backend::Cpu => {
                let prepared = self.compiled.prepare(self.problem)?;
                prepared.run_validated(&self.inputs, &mut self.outputs)
            }
            Backend::Cuda => self.run_on_gpu(),
            Backend::Sim => self.run_simulated(),
        }
    }

    /// Compares what the outputs hold with the reference; `tell` hears how much of how much work is done.
    pub fn check(&self, extent: Extent, tell: Tell<'_>) -> Vec<Comparison> {
        let (graph, math) = (&self.compiled.defined, self.compiled.options.math);
        let outputs: Vec<TensorView<'_>> = self.outputs.iter().map(TensorViewMut::view).collect();
        reference::check(graph, self.problem, (&self.inputs, &outputs), math, (extent, tell))
    }

    /// The sizes.
    pub fn problem(&self) -> &'c Problem {
        self.problem
    }
}

/// What a call wrote: tensors by name, in the order of the signature.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs(Vec<(String, Tensor)>);

impl Outputs {
    pub(super) fn new(outputs: Vec<(String, Tensor)>) -> Outputs {
        Outputs(outputs)
    }

    /// An output by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }

    /// Names and tensors.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Index<&str> for Outputs {
    type Output = Tensor;

    fn index(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| panic!("the kernel has no output `{name}`"))
    }
}

impl Index<usize> for Outputs {
    type Output = Tensor;

    fn index(&self, place: usize) -> &Tensor {
        &self.0[place].1
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
