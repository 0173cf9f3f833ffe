//! Kernels whose launches are repeated for chunks of a dim, at sizes where what they store would be too large.

use std::sync::Arc;

use crate::error::Error;
use crate::kernel::Compiled;
use crate::partition;
use crate::problem::Problem;
use crate::process;

#[cfg(feature = "sim")]
use {
    super::call::{stored_between, value_at},
    crate::graph::{Earlier, Input},
    crate::kernel::Call,
    crate::partition::Chunks,
    crate::problem::Argument,
    crate::sim::EachLaunch,
    crate::tensor::Tensor,
};

impl Compiled {
    /// The same kernel with chunks of a dim, and its own sizes, where the values between its launches would have more bytes
    /// than the options allow. A kernel that has to be one launch, or has a schedule, has none.
    #[doc(hidden)]
    pub fn chunked(&self, problem: &Problem) -> Result<Option<(Compiled, Problem)>, Error> {
        if self.options.hooks.schedule.is_some() || self.options.one_launch {
            return Ok(None);
        }
        let limit = self.options.workspace.unwrap_or(partition::WORKSPACE);
        let Some((graph, chunks)) = partition::in_chunks(&self.optimised, problem, limit) else {
            return Ok(None);
        };
        let mut all = process::open(&self.chunked);
        let is_known = |known: &&Compiled| known.chunks.as_ref() == Some(&chunks);
        let known = all.as_ref().and_then(|all| all.iter().find(is_known).cloned());
        let compiled = known.unwrap_or_else(|| {
            let (defined, options) = (self.defined.clone(), self.options.clone());
            let new = Compiled::new(defined, Arc::new(graph), options);
            let new = Compiled { chunks: Some(chunks), ..new };
            if let Some(all) = &mut all {
                all.push(new.clone());
            }
            new
        });
        let own = compiled.own_sizes(problem)?;
        Ok(Some((compiled, own)))
    }

    /// The sizes of its last launch, which with chunks is another one than the definition's.
    #[doc(hidden)]
    pub fn own_sizes(&self, problem: &Problem) -> Result<Problem, Error> {
        match &self.chunks {
            Some(_) => Ok(problem.of_computing(&self.optimised)?),
            None => Ok(problem.clone()),
        }
    }

    /// How its launches are repeated, in words; `None` where they are not.
    #[doc(hidden)]
    pub fn chunks(&self, problem: &Problem) -> Option<String> {
        let chunks = self.chunks.as_ref()?;
        let size = problem.sizes().get(&chunks.dim).copied().unwrap_or_default();
        let count = chunks.of(size).count();
        let names: Vec<String> = self.optimised.earlier()[chunks.launches.clone()]
            .iter()
            .map(|launch| format!("`{}`", launch.graph.name()))
            .collect();
        let (names, dim, own) = (names.join(", "), &chunks.dim, chunks.size);
        Some(format!("{names}: repeated for {count} chunks of {dim}, {own} each"))
    }

    /// Bytes of the values that its launches store for later ones.
    #[doc(hidden)]
    pub fn bytes_between(&self, problem: &Problem) -> Result<u64, Error> {
        let mut all = 0;
        for input in self.optimised.inputs() {
            let chunks = self.chunks.as_ref().filter(|chunks| chunks.is_partial(input));
            all += match chunks {
                Some(chunks) => {
                    let size = problem.sizes()[&chunks.dim].min(chunks.size);
                    let own = problem.of_chunk(&self.optimised, &chunks.dim, size)?;
                    partition::bytes_between(input, &own)
                }
                None => partition::bytes_between(input, problem),
            };
        }
        Ok(all)
    }
}

#[cfg(feature = "sim")]
impl Call<'_> {
    /// Runs repeated launches for one chunk after another.
    pub(super) fn compute_chunks(
        &self,
        chunks: &Chunks,
        tensors: &mut [Option<Tensor>],
        each: &mut EachLaunch<'_>,
    ) -> Result<(), Error> {
        let graph = &self.compiled.optimised;
        let launches = graph.earlier();
        let repeated = &launches[chunks.launches.clone()];
        for earlier in repeated {
            let problem = self.problem.of_computing(earlier.graph)?;
            // Sums begin at zero, and results are written part by part.
            for (input, whole) in
                earlier.inputs.iter().zip(stored_between(graph, earlier, &problem)?)
            {
                if let Some(input) = input {
                    tensors[input.0 as usize] = Some(whole);
                }
            }
        }
        let kernels = &self.compiled.earlier[chunks.launches.clone()];
        for chunk in chunks.of(self.problem.sizes[&chunks.dim]) {
            for (earlier, compiled) in repeated.iter().zip(kernels) {
                self.compute_chunk((chunks, chunk), (earlier, compiled), tensors, each)?;
            }
        }
        Ok(())
    }

    /// Runs one launch for one chunk.
    fn compute_chunk(
        &self,
        (chunks, (first, count)): (&Chunks, (usize, usize)),
        (earlier, compiled): (&Earlier<'_>, &Compiled),
        tensors: &mut [Option<Tensor>],
        each: &mut EachLaunch<'_>,
    ) -> Result<(), Error> {
        let graph = &self.compiled.optimised;
        let problem = self.problem.of_chunk(earlier.graph, &chunks.dim, count)?;
        let mut inputs = Vec::new();
        for input in earlier.graph.inputs() {
            if input.name == chunks.start {
                inputs.push(Argument::Scalar(first as f64));
                continue;
            }
            let place = graph.place_of(&input.name);
            let known = &graph.inputs()[place];
            let value = value_at(&self.inputs, tensors, place);
            inputs.push(match (value, chunks.place(known)) {
                (Argument::View(view), Some(dim)) if !is_of_chunk(known, chunks) => {
                    Argument::View(view.part(dim, first, count)?)
                }
                (value, _) => value,
            });
        }
        let mut outputs = stored_between(graph, earlier, &problem)?;
        let views = outputs.iter_mut().map(Tensor::view_mut).collect();
        Call { compiled, problem: &problem, inputs, outputs: views }.run_launches(each)?;
        for (input, output) in earlier.inputs.iter().zip(outputs) {
            let Some(place) = input.map(|input| input.0 as usize) else { continue };
            let known = &graph.inputs()[place];
            match (chunks.place(known), &mut tensors[place]) {
                (Some(dim), Some(whole)) if !is_of_chunk(known, chunks) => {
                    whole.view_mut().part(dim, first, count)?.copy_from(output.view());
                }
                (_, tensor) => *tensor = Some(output),
            }
        }
        Ok(())
    }
}

/// Whether a tensor holds one chunk alone.
#[cfg(feature = "sim")]
fn is_of_chunk(input: &Input, chunks: &Chunks) -> bool {
    input.computed.is_some() && chunks.is_partial(input)
}
