//! A random kernel with everything that one run of it takes.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use postlude::shape::Dim;
use postlude::sim::Timing;
use postlude::target::Overlap;
use postlude::{
    Argument, Arguments, Backend, Bindings, Bound, Compiled, DType, Error, Kernel, MathMode,
    Problem, Sizes, Tensor, TensorError,
};

use super::definitions::needed;
use super::place::Place;
use super::program::Program;
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
    /// Whether launches of one kernel overlap.
    pub overlap: Overlap,
}

/// A random kernel in pieces.
#[derive(Clone, PartialEq, Debug)]
pub enum Drawn {
    /// Of one product, or of several of the same operands.
    Kernel(Sketch),
    /// Of several products.
    Program(Program),
}

impl Drawn {
    /// The kernel as people write it, a statement a line.
    pub fn text(&self) -> String {
        let (signature, lines) = (self.signature(), self.lines());
        let definitions: String = needed(&lines).into_iter().map(|one| one + "\n").collect();
        match signature {
            Some(signature) => {
                let statements = lines.join("\n    ");
                format!("{definitions}{signature} {{\n    {statements}\n}}")
            }
            None => definitions + &lines.join("\n"),
        }
    }

    /// The same on one line.
    pub fn line(&self) -> String {
        let (signature, lines) = (self.signature(), self.lines());
        let definitions: String = needed(&lines).into_iter().map(|one| one + "; ").collect();
        match signature {
            Some(signature) => format!("{definitions}{signature} {{ {} }}", lines.join("; ")),
            None => definitions + &lines.join("; "),
        }
    }

    /// What stands before the body; one-liners have none.
    fn signature(&self) -> Option<String> {
        match self {
            Drawn::Kernel(sketch) => (sketch.form == Form::Kernel).then(|| sketch.signature()),
            Drawn::Program(program) => Some(program.signature()),
        }
    }

    fn lines(&self) -> Vec<String> {
        match self {
            Drawn::Kernel(sketch) => sketch.lines(),
            Drawn::Program(program) => program.lines(),
        }
    }

    /// Names, dtypes and ranks that a one-liner takes from its data; none of kernels with a signature.
    fn bindings(&self) -> Option<Bindings> {
        match self {
            Drawn::Kernel(sketch) if sketch.form == Form::OneLiner => Some(bindings(sketch)),
            Drawn::Kernel(_) | Drawn::Program(_) => None,
        }
    }
}

/// The dtypes and numbers of dims of a sketch's inputs.
fn bindings(sketch: &Sketch) -> Bindings {
    let Sketch { operands, inputs, values, .. } = sketch;
    let factors = operands.iter().zip(["A", "B"]).enumerate().map(|(place, (dtype, name))| {
        (name.to_owned(), Bound::Tensor(*dtype, 2 + sketch.factor_batches(place).len()))
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

/// A random kernel, its sizes, its data and where they lie.
#[derive(Clone, PartialEq, Debug)]
pub struct Specimen {
    /// What it was drawn from.
    pub seed: u64,
    /// The kernel.
    pub drawn: Drawn,
    /// The sizes of L, M, N and K, and of a program's E and F.
    pub sizes: Vec<usize>,
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
pub(super) const DIMS: [&str; 6] = ["L", "M", "N", "K", "E", "F"];

impl Specimen {
    /// The kernel, parsed and typed.
    pub fn kernel(&self) -> Result<Kernel, Error> {
        match self.drawn.bindings() {
            None => Kernel::parse(&self.drawn.text()),
            Some(bindings) => Kernel::infer(&self.drawn.text(), &bindings),
        }
    }

    /// The kernel where it types: a report describes one whose typing fails or panics too.
    fn typed(&self) -> Option<Kernel> {
        catch_unwind(AssertUnwindSafe(|| self.kernel())).ok()?.ok()
    }

    /// Its sizes by name, those that the kernel has.
    pub fn named_sizes(&self, compiled: &Compiled) -> Sizes {
        let known = postlude::problem::dim_names(compiled.defined());
        let all = self.all_sizes().into_iter();
        all.filter(|(name, _)| known.contains(name))
            .map(|(name, size)| (name.to_owned(), size))
            .collect()
    }

    /// The size of every dim, those of named parts included.
    fn all_sizes(&self) -> Vec<(&'static str, usize)> {
        let mut all: Vec<(&'static str, usize)> =
            DIMS.into_iter().zip(self.sizes.iter().copied()).collect();
        if let Drawn::Kernel(sketch) = &self.drawn {
            all.extend(&sketch.further_batches);
            all.extend(sketch.named.iter().flat_map(|named| named.sizes(self.sizes[2])));
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

    /// Tensors that are declared and reach an output, and numbers that the host passes.
    fn declared(&self) -> Vec<Declared> {
        match &self.drawn {
            Drawn::Kernel(sketch) => self.declared_by(sketch),
            Drawn::Program(program) => {
                let all = program.inputs().chain(program.results());
                let of = |dims: &[&'static str]| {
                    self.shape(&dims.iter().map(|dim| Dim::name(*dim)).collect::<Vec<_>>())
                };
                let all = all.map(|one| (one.name.to_owned(), one.dtype, one.dims.map(of)));
                all.collect()
            }
        }
    }

    fn declared_by(&self, sketch: &Sketch) -> Vec<Declared> {
        let (rows, columns, inner) = (self.sizes[1], self.sizes[2], self.sizes[3]);
        let columns = columns / sketch.base as usize;
        let mut all = Vec::new();
        for (place, outer) in [rows, columns].into_iter().enumerate() {
            let mut shape = vec![outer, inner];
            if sketch.factors[place].inner_first {
                shape.swap(0, 1);
            }
            let batches = sketch.factor_batches(place).into_iter();
            let batches = batches.map(|(_, name)| Dim::name(name));
            shape.splice(0..0, self.shape(&batches.collect::<Vec<_>>()));
            if place == 1 && sketch.shares_operand {
                continue;
            }
            all.push((["A", "B"][place].to_owned(), sketch.operands[place], Some(shape)));
        }
        let live = sketch.live();
        for input in sketch.inputs.iter().filter(|input| live[input.value]) {
            let name = sketch.values[input.value].name.clone();
            all.push((name, input.dtype, input.dims.as_ref().map(|dims| self.shape(dims))));
        }
        let outputs = sketch.outputs.iter();
        all.extend(outputs.map(|one| (one.name.clone(), one.dtype, Some(self.shape(&one.dims)))));
        all
    }

    fn shape(&self, dims: &[Dim]) -> Vec<usize> {
        let sizes = self.all_sizes();
        let size = |dim: &Dim| {
            if let Dim::Size(size) = dim {
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
        let text = match (self.drawn.bindings(), self.typed()) {
            (Some(_), Some(kernel)) => kernel.ast().to_string(),
            (Some(_) | None, _) => self.drawn.line(),
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
        for (name, _, shape) in &declared {
            if let (None, Some(value)) = (shape, self.set.get(name)) {
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
        if let (Backend::Sim | Backend::Cuda, Overlap::InPrograms) = (backend, self.way.overlap) {
            words.push("--pdl".to_owned());
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
        let names: Option<Vec<String>> = self.typed().map(|kernel| {
            postlude::problem::dim_names(kernel.defined()).into_iter().map(str::to_owned).collect()
        });
        let is_named =
            |name: &str| names.as_ref().is_none_or(|all| all.iter().any(|one| one == name));
        let is_used = |name: &str| match &self.drawn {
            // One-liners and kernels without a product's K have their sizes all the same.
            Drawn::Kernel(sketch) if DIMS.contains(&name) => {
                name != "L" || sketch.factors.iter().any(|factor| factor.batched)
            }
            Drawn::Kernel(_) | Drawn::Program(_) => is_named(name),
        };
        let all = self.all_sizes().into_iter().filter(|(name, _)| is_used(name));
        all.map(|(name, size)| format!("{name}={size}")).collect()
    }
}

/// A name, a dtype and a shape, or none where the host passes a number.
type Declared = (String, DType, Option<Vec<usize>>);

impl fmt::Display for Specimen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.drawn.text())?;
        write!(f, "{}", self.used_sizes().join(" "))?;
        for (name, kind) in &self.fills {
            if self.declared().iter().any(|(known, ..)| known == name) {
                write!(f, " {name}:{kind}")?;
            }
        }
        for (name, value) in &self.set {
            write!(f, " {name}={value}")?;
        }
        let Way { timing, grid_limit, math, tile, overlap } = self.way;
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
        if overlap != Overlap::Never {
            write!(f, ", launches overlap")?;
        }
        for (name, dtype, shape) in self.declared() {
            let place = self.places.get(&name).filter(|place| !place.is_packed());
            if let (Some(place), Some(shape)) = (place, shape) {
                write!(f, "\n{name} {}", place.describe(dtype, &shape))?;
            }
        }
        Ok(())
    }
}
