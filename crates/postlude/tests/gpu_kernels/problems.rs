//! Random problems: a kernel, sizes, data and the schedule to run it with, all from one seed.

use postlude::plan::sm90::{CANDIDATES, Needs, Placement, Placements, Sm90, Sm90Schedule, fit};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Kernel, Options, Problem, Sizes, Tensor,
};

/// Kernels whose operands and tiles are of type `T`.
const KERNELS: &[(&str, &str)] = &[
    ("plain", "kernel k(A: T[M, K], W: T[N, K]) -> D: T[M, N] { D = A @ W.T }"),
    ("wide", "kernel k(A: T[M, K], W: T[N, K]) -> D: f32[M, N] { D = A @ W.T }"),
    (
        "bias_relu",
        "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> D: T[M, N] { D = relu(A @ W.T + bias) }",
    ),
    ("residual", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: T[M, N] { D = A @ W.T + C }"),
    (
        "two_outputs",
        "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> (Z: f32[M, N], D: T[M, N]) {
    Z = A @ W.T + bias
    D = relu(Z)
}",
    ),
    (
        "row_scale",
        "kernel k(A: T[M, K], W: T[N, K], scale: f32[M]) -> D: T[M, N] { D = (A @ W.T) * scale }",
    ),
    (
        "batch",
        "kernel k(A: T[B, M, K], W: T[B, N, K], bias: f32[N]) -> D: T[B, M, N] { D = A @ W.T + bias }",
    ),
    (
        "shared_weights",
        "kernel k(A: T[B, M, K], W: T[N, K], C: T[B, M, N]) -> D: T[B, M, N] { D = A @ W.T - C }",
    ),
    (
        "host_scalars",
        "kernel k(A: T[M, K], W: T[N, K], C: T[M, N], alpha: f32, beta: f32) -> D: T[M, N] {
    D = alpha * (A @ W.T) + beta * C
}",
    ),
    (
        "memory_scalar",
        "kernel k(A: T[M, K], W: T[N, K], alpha: f32[]) -> D: f32[M, N] { D = alpha * (A @ W.T) }",
    ),
    (
        "mask",
        "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: T[M, N] { D = where(C > 0.0, A @ W.T, 0.0) }",
    ),
];

/// Random bits: splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From `low` to `high`, both of them possible.
    pub(crate) fn range(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.range(0, from.len() - 1)]
    }

    fn value(&mut self, data: Data) -> f64 {
        match data {
            Data::Integers => self.range(0, 8) as f64 - 4.0,
            Data::Floats => f64::from((self.next() >> 40) as f32 * 2f32.powi(-23) - 1.0),
        }
    }
}

/// What tensors hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    /// Small whole numbers: every sum is exact, whatever its order.
    Integers,
    /// From -1 to 1.
    Floats,
}

/// A kernel bound to data.
pub(crate) struct Bound {
    pub(crate) about: String,
    pub(crate) data: Data,
    pub(crate) kernel: Kernel,
    pub(crate) problem: Problem,
    pub(crate) arguments: Arguments,
    /// How outputs of a run are laid out.
    pub(crate) output_layout: usize,
}

impl Bound {
    /// A kernel of the table by name, of these sizes, with drawn data.
    pub(crate) fn new(
        name: &str,
        dtype: DType,
        sizes: [usize; 4],
        data: Data,
        random: &mut Random,
    ) -> Bound {
        let (_, text) = KERNELS.iter().find(|(known, _)| *known == name).expect("a kernel");
        let kernel = Kernel::parse(&text.replace("T[", &format!("{dtype}["))).expect("it types");
        let graph = kernel.defined();
        let dims = postlude::problem::dim_names(graph);
        let all = ["B", "M", "N", "K"].into_iter().zip(sizes);
        let sizes: Sizes = all
            .filter(|(dim, _)| dims.contains(dim))
            .map(|(dim, size)| (dim.to_owned(), size))
            .collect();
        let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
        let mut arguments = Arguments::new();
        for input in graph.inputs() {
            let argument = match &input.dims {
                None => Argument::Scalar(random.value(data)),
                Some(dims) => {
                    let shape = problem.shape(dims);
                    let count = shape.iter().product();
                    let values: Vec<f64> = (0..count).map(|_| random.value(data)).collect();
                    let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
                    let layout = if input.name == "C" { random.range(0, 4) } else { PACKED };
                    Argument::Tensor(lay_out(&tensor, layout))
                }
            };
            arguments.insert(input.name.clone(), argument);
        }
        let about = format!("{name} {dtype} {sizes:?} {data:?}");
        Bound { about, data, kernel, problem, arguments, output_layout: PACKED }
    }

    /// Any kernel of the table, any sizes up to 300.
    pub(crate) fn any(random: &mut Random) -> Bound {
        let (name, _) = *random.pick(KERNELS);
        let dtype = *random.pick(&[DType::F16, DType::BF16]);
        let data = *random.pick(&[Data::Integers, Data::Floats]);
        let size = |random: &mut Random| match random.range(0, 3) {
            0 => random.range(1, 37) * 8,
            _ => random.range(1, 300),
        };
        let mut sizes = [random.range(1, 4), size(random), size(random), size(random)];
        if random.range(0, 15) == 0 {
            sizes[3] = 0;
        }
        let output_layout = *random.pick(&[PACKED, PACKED, TRANSPOSED, TRANSPOSED_WITH_GAPS]);
        Bound { output_layout, ..Bound::new(name, dtype, sizes, data, random) }
    }

    /// Where the call's tensors will lie.
    pub(crate) fn placements(&self, compiled: &Compiled) -> Placements {
        let graph = compiled.optimised();
        let mut placements = Placements::padded(graph, &self.problem);
        for (input, placement) in graph.inputs().iter().zip(&mut placements.inputs) {
            if let ("C", Some(Argument::Tensor(tensor))) =
                (input.name.as_str(), self.arguments.get(&input.name))
            {
                let bytes = (tensor.offset() * tensor.dtype().bits() / 8) as u64;
                let alignment = 1 << bytes.trailing_zeros().min(8);
                *placement = Some(Placement { strides: tensor.strides().to_vec(), alignment });
            }
        }
        let outputs = compiled.outputs(&self.problem).expect("they fit");
        for (output, placement) in outputs.iter().zip(&mut placements.outputs) {
            placement.strides = self.laid_out(output).strides().to_vec();
        }
        placements
    }

    /// A random candidate of the table that fits.
    pub(crate) fn candidate(&self, chip: Sm90, random: &mut Random) -> Sm90Schedule {
        let compiled = self.kernel.compile(&Options::default());
        let placements = self.placements(&compiled);
        let needs = Needs::of(compiled.optimised(), &self.problem, &placements);
        loop {
            if let Some(schedule) = fit(*random.pick(CANDIDATES), &needs, chip) {
                return schedule;
            }
        }
    }

    /// Runs it on a backend.
    pub(crate) fn run(&self, options: &Options) -> Result<Vec<Tensor>, postlude::Error> {
        let compiled = self.kernel.compile(options);
        let outputs = compiled.outputs(&self.problem)?;
        let mut outputs: Vec<Tensor> = outputs.iter().map(|each| self.laid_out(each)).collect();
        compiled.run_into(&self.problem, &self.arguments, &mut outputs)?;
        Ok(outputs.iter().map(Tensor::to_contiguous).collect())
    }

    /// An output as a run has it.
    fn laid_out(&self, output: &Tensor) -> Tensor {
        match self.output_layout {
            PACKED => output.clone(),
            layout => lay_out(output, layout),
        }
    }
}

/// How a run on the GPU is watched.
pub(crate) fn guarded(schedule: Option<Sm90Schedule>) -> Options {
    Options { backend: Backend::Cuda, schedule, guard: true, ..Options::default() }
}

/// Where two tensors differ in a bit, in words.
pub(crate) fn difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if got.bytes() == want.bytes() {
        return None;
    }
    let element = got.dtype().bits() / 8;
    let pairs = got.bytes().chunks(element).zip(want.bytes().chunks(element));
    let wrong: Vec<usize> =
        pairs.enumerate().filter(|(_, (got, want))| got != want).map(|(place, _)| place).collect();
    let at = wrong[0];
    let columns = got.shape().last().copied().unwrap_or(1).max(1);
    let (got, want) = (got.values()[at], want.values()[at]);
    let place = (at / columns, at % columns);
    Some(format!("{} elements differ, first {place:?}: {got} instead of {want}", wrong.len()))
}

/// How [`lay_out`] lays tensors out.
pub(crate) const PACKED: usize = 0;
pub(crate) const GAPS: usize = 1;
pub(crate) const TRANSPOSED: usize = 2;
pub(crate) const REVERSED: usize = 3;
/// Columns padded to multiples of 16 bytes, whatever the type.
pub(crate) const TRANSPOSED_WITH_GAPS: usize = 4;

/// The same values elsewhere.
pub(crate) fn lay_out(tensor: &Tensor, layout: usize) -> Tensor {
    let shape = tensor.shape().to_vec();
    let rank = shape.len();
    let mut held = shape.clone();
    match layout {
        GAPS => held[rank - 1] += 3,
        TRANSPOSED => held.swap(rank - 2, rank - 1),
        TRANSPOSED_WITH_GAPS => {
            held.swap(rank - 2, rank - 1);
            held[rank - 1] = held[rank - 1].next_multiple_of(8);
        }
        _ => {}
    }
    let mut strides = postlude::tensor::contiguous(&held);
    let elements: usize = held.iter().product();
    let mut offset = 0;
    match layout {
        TRANSPOSED | TRANSPOSED_WITH_GAPS => strides.swap(rank - 2, rank - 1),
        REVERSED => {
            offset = elements.max(1) - 1;
            for stride in &mut strides {
                *stride = -*stride;
            }
        }
        _ => {}
    }
    let bytes = vec![0xff; tensor.dtype().bytes_for(elements)];
    let moved = Tensor::with_strides(tensor.dtype(), shape.clone(), strides, offset, bytes);
    let mut moved = moved.expect("every element lies inside");
    let mut index = vec![0; rank];
    for value in tensor.values() {
        let place = moved.place(&index);
        postlude::dtype::store(tensor.dtype(), moved.bytes_mut(), place, value);
        postlude::tensor::advance(&mut index, &shape);
    }
    moved
}
