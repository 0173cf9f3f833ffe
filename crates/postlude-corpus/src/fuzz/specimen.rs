//! A random kernel with everything that one run of it takes.

use std::collections::BTreeMap;
use std::fmt;

use postlude::sim::Timing;
use postlude::{
    Argument, Arguments, Backend, Bindings, Bound, Compiled, DType, Error, Kernel, MathMode,
    Problem, Sizes, Tensor, TensorError,
};

use super::place::Place;
use super::sketch::{Form, Sketch};
use crate::fill::{Fill, fill, seed_for};

/// How a kernel is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// When copies and matrix products complete in the simulator.
    pub timing: Timing,
    /// The most CTAs launched on a GPU or in the simulator.
    pub grid_limit: Option<u32>,
    /// What is asked of functions.
    pub math: MathMode,
    /// A tile of those that fit, by its number, instead of the planner's.
    pub tile: Option<usize>,
}

/// A random kernel, its sizes, its data and where they lie.
#[derive(Clone, PartialEq, Debug)]
pub struct Specimen {
    /// What it was drawn from.
    pub seed: u64,
    /// The kernel.
    pub sketch: Sketch,
    /// The sizes of L, M, N and K.
    pub sizes: [usize; 4],
    /// How each tensor is drawn.
    pub fills: BTreeMap<String, Fill>,
    /// What the host passes.
    pub set: BTreeMap<String, f64>,
    /// Where tensors lie that are not packed.
    pub places: BTreeMap<String, Place>,
    /// How it is run.
    pub way: Way,
}

/// The names of the sizes.
pub(super) const DIMS: [&str; 4] = ["L", "M", "N", "K"];

impl Specimen {
    /// The kernel, parsed and typed.
    pub fn kernel(&self) -> Result<Kernel, Error> {
        match self.sketch.form {
            Form::Kernel => Kernel::parse(&self.sketch.text()),
            Form::OneLiner => Kernel::infer(&self.sketch.text(), &self.bindings()),
        }
    }

    /// The dtypes and numbers of dims that a one-liner takes from its data.
    fn bindings(&self) -> Bindings {
        let Sketch { operands, inputs, values, .. } = &self.sketch;
        let factors = operands.iter().zip(["A", "B"]).enumerate().map(|(place, (dtype, name))| {
            (name.to_owned(), Bound::Tensor(*dtype, 2 + self.sketch.factor_batches(place).len()))
        });
        let inputs = inputs.iter().map(|input| {
            let bound = match &input.dims {
                Some(dims) => Bound::Tensor(input.dtype, dims.len()),
                None => Bound::Scalar(input.dtype),
            };
            (values[input.value].name.clone(), bound)
        });
        Bindings { names: factors.chain(inputs).collect(), ..Bindings::default() }
    }

    /// Its sizes by name, those that the kernel has.
    pub(super) fn named_sizes(&self, compiled: &Compiled) -> Sizes {
        let known = postlude::problem::dim_names(compiled.defined());
        let all = self.all_sizes().into_iter();
        all.filter(|(name, _)| known.contains(name))
            .map(|(name, size)| (name.to_owned(), size))
            .collect()
    }

    /// The size of every dim, those of named parts included.
    fn all_sizes(&self) -> Vec<(&'static str, usize)> {
        let mut all: Vec<(&'static str, usize)> = DIMS.into_iter().zip(self.sizes).collect();
        all.extend(&self.sketch.further_batches);
        if let Some(named) = &self.sketch.named {
            all.extend(named.sizes(self.sizes[2]));
        }
        all
    }

    /// The call's problem and arguments.
    pub(super) fn bind(&self, compiled: &Compiled) -> Result<(Problem, Arguments<'static>), Error> {
        let graph = compiled.defined();
        let sizes = self.named_sizes(compiled);
        let problem = Problem::new(graph, &sizes)?;
        let mut arguments = Arguments::new();
        for input in graph.passed_inputs() {
            let argument = match &input.dims {
                None => Argument::Scalar(self.set.get(&input.name).copied().unwrap_or(1.0)),
                Some(dims) => {
                    let kind = self.fills.get(&input.name).copied().unwrap_or_default();
                    let (shape, seed) = (problem.shape(dims), seed_for(self.seed, &input.name));
                    let packed = match graph.segment_rows(&input.name) {
                        // In some kernels a few rows are in no segment.
                        Some(rows) => {
                            let rows = problem.shape(&[rows])[0];
                            let within = rows - rows.min(self.seed as usize % 3 * rows / 8);
                            fill(Fill::Ends, input.dtype, &shape, within, seed)?
                        }
                        None => fill(kind, input.dtype, &shape, problem.product_columns(), seed)?,
                    };
                    Argument::Tensor(self.put(&input.name, &packed)?)
                }
            };
            arguments.insert(input.name.clone(), argument);
        }
        Ok((compiled.bind(&arguments, &sizes)?, arguments))
    }

    /// Outputs where they are to lie.
    pub(super) fn outputs(
        &self,
        compiled: &Compiled,
        problem: &Problem,
    ) -> Result<Vec<Tensor>, Error> {
        let packed = compiled.outputs(problem)?;
        let names = compiled.defined().results().into_iter().map(|output| output.name);
        let placed = names.zip(&packed).map(|(name, tensor)| self.put(name, tensor));
        Ok(placed.collect::<Result<_, _>>()?)
    }

    fn put(&self, name: &str, tensor: &Tensor) -> Result<Tensor, TensorError> {
        self.places.get(name).map_or_else(|| Ok(tensor.clone()), |place| place.put(tensor))
    }

    /// The names of everything that is declared and reaches an output, with its type and dims.
    fn declared(&self) -> Vec<(String, DType, Vec<usize>)> {
        let [_, rows, columns, inner] = self.sizes;
        let columns = columns / self.sketch.base as usize;
        let mut all = Vec::new();
        for (place, outer) in [rows, columns].into_iter().enumerate() {
            let factor = self.sketch.factors[place];
            let mut shape = vec![outer, inner];
            if factor.inner_first {
                shape.swap(0, 1);
            }
            let batches = self.sketch.factor_batches(place).into_iter();
            let batches = batches.map(|(_, name)| postlude::shape::Dim::name(name));
            shape.splice(0..0, self.shape(&batches.collect::<Vec<_>>()));
            if place == 1 && self.sketch.shares_operand {
                continue;
            }
            all.push((["A", "B"][place].to_owned(), self.sketch.operands[place], shape));
        }
        let live = self.sketch.live();
        for input in self.sketch.inputs.iter().filter(|input| live[input.value]) {
            if let Some(dims) = &input.dims {
                let name = self.sketch.values[input.value].name.clone();
                all.push((name, input.dtype, self.shape(dims)));
            }
        }
        let outputs = self.sketch.outputs.iter();
        all.extend(outputs.map(|one| (one.name.clone(), one.dtype, self.shape(&one.dims))));
        all
    }

    fn shape(&self, dims: &[postlude::shape::Dim]) -> Vec<usize> {
        let sizes = self.all_sizes();
        let size = |dim: &postlude::shape::Dim| {
            if let postlude::shape::Dim::Size(size) = dim {
                return *size as usize;
            }
            let text = dim.to_string();
            let name = text.split('/').next().unwrap_or_default();
            let found = sizes.iter().find(|(one, _)| *one == name);
            found.map_or(1, |(_, size)| *size) / dim.divisor() as usize
        };
        dims.iter().map(size).collect()
    }

    /// A command that runs the kernel on the same data, packed.
    pub fn command(&self, backend: Backend) -> String {
        // A command line cannot bind dtypes without files, so a one-liner is given with its inferred signature.
        let text = match (self.sketch.form, self.kernel()) {
            (Form::OneLiner, Ok(kernel)) => kernel.ast().to_string(),
            (Form::OneLiner | Form::Kernel, _) => self.sketch.line(),
        };
        let mut words = vec![format!("postlude run '{text}'")];
        let declared = self.declared();
        let used = self.used_sizes();
        words.push(format!("--size {}", used.join(",")));
        for (name, kind) in &self.fills {
            if declared.iter().any(|(known, ..)| known == name) {
                words.push(format!("--fill {name}={kind}"));
            }
        }
        let live = self.sketch.live();
        for input in self.sketch.inputs.iter().filter(|input| live[input.value]) {
            let name = &self.sketch.values[input.value].name;
            if let (None, Some(value)) = (&input.dims, self.set.get(name)) {
                words.push(format!("--set {name}={value}"));
            }
        }
        words.push(format!("--seed {} --backend {}", self.seed, backend.name()));
        if backend == Backend::Sim {
            words.push(format!("--timing {}", self.way.timing));
        }
        if let (Backend::Sim | Backend::Cuda, Some(limit)) = (backend, self.way.grid_limit) {
            words.push(format!("--grid-limit {limit}"));
        }
        match self.way.math {
            MathMode::Default => {}
            MathMode::Accurate => words.push("--math accurate".to_owned()),
            MathMode::Fast => words.push("--math fast".to_owned()),
        }
        words.push("--check".to_owned());
        words.join(" ")
    }

    fn used_sizes(&self) -> Vec<String> {
        let batched = self.sketch.factors.iter().any(|factor| factor.batched);
        let names: Option<Vec<String>> = self.kernel().ok().map(|kernel| {
            postlude::problem::dim_names(kernel.defined()).into_iter().map(str::to_owned).collect()
        });
        let is_named =
            |name: &str| names.as_ref().is_none_or(|all| all.iter().any(|one| one == name));
        let all = self.all_sizes().into_iter();
        all.filter(
            |(name, _)| if DIMS.contains(name) { *name != "L" || batched } else { is_named(name) },
        )
        .map(|(name, size)| format!("{name}={size}"))
        .collect()
    }
}

impl fmt::Display for Specimen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.sketch.text())?;
        write!(f, "{}", self.used_sizes().join(" "))?;
        for (name, kind) in &self.fills {
            if self.declared().iter().any(|(known, ..)| known == name) {
                write!(f, " {name}:{kind}")?;
            }
        }
        for (name, value) in &self.set {
            write!(f, " {name}={value}")?;
        }
        let Way { timing, grid_limit, math, tile } = self.way;
        write!(f, "\ntiming {timing}")?;
        if let Some(limit) = grid_limit {
            write!(f, ", at most {limit} CTAs")?;
        }
        if math != MathMode::Default {
            write!(f, ", math {math:?}")?;
        }
        if let Some(tile) = tile {
            write!(f, ", tile {tile}")?;
        }
        for (name, dtype, shape) in self.declared() {
            if let Some(place) = self.places.get(&name).filter(|place| !place.is_packed()) {
                write!(f, "\n{name} {}", place.describe(dtype, &shape))?;
            }
        }
        Ok(())
    }
}
