//! Random problems: a kernel, sizes, data and the schedule to run it with, all from one seed.

use postlude::placement::{Placement, Placements};
use postlude::target::{Chip, Schedule};
use postlude::tuning::Records;
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Problem, Sizes, Tensor,
};
use postlude_corpus::{EPILOGUES, Random, find_epilogue};

/// What tensors hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Data {
    /// Small whole numbers: every sum is exact, whatever its order.
    Integers,
    /// From -1 to 1.
    Floats,
}

impl Data {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Data::Integers => random.whole(),
            Data::Floats => f64::from((random.bits() >> 40) as f32 * 2f32.powi(-23) - 1.0),
        }
    }
}

/// A kernel bound to data.
pub(crate) struct Bound {
    pub(crate) about: String,
    pub(crate) data: Data,
    pub(crate) kernel: Kernel,
    pub(crate) problem: Problem,
    pub(crate) arguments: Arguments<'static>,
    /// How outputs of a run are laid out.
    pub(crate) output_layout: Layout,
}

impl Bound {
    /// An epilogue by its name, of these sizes, with drawn data.
    pub(crate) fn new(
        name: &str,
        dtype: DType,
        sizes: [usize; 4],
        data: Data,
        random: &mut Random,
    ) -> Bound {
        Bound::with(name, [Stored::default(); 2], dtype, sizes, data, random)
    }

    /// The same with A and W stored so.
    pub(crate) fn with(
        name: &str,
        stored: [Stored; 2],
        dtype: DType,
        sizes: [usize; 4],
        data: Data,
        random: &mut Random,
    ) -> Bound {
        let mut text = find_epilogue(name).expect("an epilogue").source(dtype);
        if stored[0].inner_first {
            text = text.replace("M, K]", "K, M]").replace("A @", "A.T @");
        }
        if stored[1].inner_first {
            text = text.replace("N, K]", "K, N]").replace("N/2, K]", "K, N/2]");
            text = text.replace("W.T", "W");
        }
        let about = format!("{name} {dtype}");
        Bound::of(&about, &text, stored, sizes, data, random)
    }

    /// A kernel by its text.
    pub(crate) fn of(
        about: &str,
        text: &str,
        stored: [Stored; 2],
        sizes: [usize; 4],
        data: Data,
        random: &mut Random,
    ) -> Bound {
        let kernel = Kernel::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let graph = kernel.defined();
        let dims = postlude::problem::dim_names(graph);
        let all = ["B", "M", "N", "K"].into_iter().zip(sizes);
        let sizes: Sizes = all
            .filter(|(dim, _)| dims.contains(dim))
            .map(|(dim, size)| (dim.to_owned(), size))
            .collect();
        let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
        let mut arguments = Arguments::new();
        for input in graph.inputs().iter().filter(|input| input.computed.is_none()) {
            let argument = match &input.dims {
                None => Argument::Scalar(data.draw(random)),
                Some(dims) => {
                    let shape = problem.shape(dims);
                    let count = shape.iter().product();
                    let values: Vec<f64> = (0..count).map(|_| data.draw(random)).collect();
                    let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
                    let layout = match input.name.as_str() {
                        "A" => stored[0].layout,
                        "W" => stored[1].layout,
                        "C" => *random.pick(&Layout::ALL),
                        _ => Layout::Packed,
                    };
                    Argument::Tensor(lay_out(&tensor, layout))
                }
            };
            arguments.insert(input.name.clone(), argument);
        }
        let about = format!("{about} {sizes:?} {data:?} {stored:?}");
        Bound { about, data, kernel, problem, arguments, output_layout: Layout::Packed }
    }

    /// Any epilogue, any sizes up to 300.
    pub(crate) fn any(random: &mut Random) -> Bound {
        let name = random.pick(EPILOGUES).name;
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
        let stored = [0; 2].map(|_| Stored::any(random));
        let layouts =
            [Layout::Packed, Layout::Packed, Layout::Transposed, Layout::TransposedPadded];
        let output_layout = *random.pick(&layouts);
        Bound { output_layout, ..Bound::with(name, stored, dtype, sizes, data, random) }
    }

    /// Where the call's tensors will lie.
    pub(crate) fn placements(&self, compiled: &Compiled) -> Placements {
        let graph = compiled.optimised();
        let mut placements = Placements::packed(graph, &self.problem);
        for (input, placement) in graph.inputs().iter().zip(&mut placements.inputs) {
            if let Some(tensor) = self.arguments.get(&input.name).and_then(Argument::tensor) {
                // One without elements is in nobody's way.
                let offset = if tensor.is_empty() { 0 } else { tensor.offset() };
                let start = (offset * tensor.dtype().bits() / 8) as u64;
                *placement = Some(Placement::at(tensor.strides().to_vec(), start));
            }
        }
        let outputs = compiled.outputs(&self.problem).expect("they fit");
        for (output, placement) in outputs.iter().zip(&mut placements.outputs) {
            placement.strides = self.laid_out(output).strides().to_vec();
        }
        placements
    }

    /// A random candidate of the table that fits.
    pub(crate) fn candidate(&self, chip: Chip, random: &mut Random) -> Schedule {
        let compiled = self.kernel.compile(&Options::default());
        let placements = self.placements(&compiled);
        let planning =
            compiled.planning(&self.problem, &placements, chip).expect("it is one launch");
        loop {
            let tile = *random.pick(chip.tiles());
            if let Some(schedule) = planning.fit(tile).expect("it is not refused") {
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
            Layout::Packed => output.clone(),
            layout => lay_out(output, layout),
        }
    }
}

/// How a run on the GPU is watched.
pub(crate) fn guarded(schedule: Option<Schedule>) -> Options {
    let hooks = Hooks { schedule, guard: true, ..Hooks::default() };
    Options { backend: Backend::Cuda, records: Records::Off, hooks, ..Options::default() }
}

/// Where two tensors differ in a bit, in words.
pub(crate) fn difference(got: &Tensor, want: &Tensor) -> Option<String> {
    if got.bytes() == want.bytes() {
        return None;
    }
    let columns = got.shape().last().copied().unwrap_or(1).max(1);
    let bits = got.dtype().bits();
    let element = bits.div_ceil(8);
    let pairs = got.bytes().chunks(element).zip(want.bytes().chunks(element));
    let wrong: Vec<usize> =
        pairs.enumerate().filter(|(_, (got, want))| got != want).map(|(place, _)| place).collect();
    // Of packed bits, the first of the first byte that differs.
    let at = wrong[0] * element * 8 / bits;
    let (got, want) = (got.values(), want.values());
    let at = (at..at + element * 8 / bits).find(|at| got[*at] != want[*at]).unwrap_or(at);
    let (got, want) = (got[at], want[at]);
    let place = (at / columns, at % columns);
    Some(format!("{} elements differ, first {place:?}: {got} instead of {want}", wrong.len()))
}

/// How a tensor lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Layout {
    #[default]
    Packed,
    /// Rows at multiples of 16 bytes.
    Padded,
    /// Three elements between rows.
    Gaps,
    /// Columns one after the other.
    Transposed,
    /// The same at multiples of 16 bytes.
    TransposedPadded,
    /// From the last element to the first.
    Reversed,
    /// From the second element of the memory on.
    Shifted,
}

impl Layout {
    pub(crate) const ALL: [Layout; 7] = [
        Layout::Packed,
        Layout::Padded,
        Layout::Gaps,
        Layout::Transposed,
        Layout::TransposedPadded,
        Layout::Reversed,
        Layout::Shifted,
    ];
}

/// How an operand is declared and lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    /// Whether K is the first dim of its declaration.
    pub(crate) inner_first: bool,
    pub(crate) layout: Layout,
}

impl Stored {
    pub(crate) fn any(random: &mut Random) -> Stored {
        Stored { inner_first: random.range(0, 1) == 1, layout: *random.pick(&Layout::ALL) }
    }
}

/// The same values, laid out so; vectors and scalars as they are.
pub(crate) fn lay_out(tensor: &Tensor, layout: Layout) -> Tensor {
    let shape = tensor.shape().to_vec();
    let rank = shape.len();
    if rank < 2 {
        return tensor.clone();
    }
    let mut held = shape.clone();
    let transposed = matches!(layout, Layout::Transposed | Layout::TransposedPadded);
    if transposed {
        held.swap(rank - 2, rank - 1);
    }
    match layout {
        Layout::Gaps => held[rank - 1] += 3,
        Layout::Padded | Layout::TransposedPadded => {
            held[rank - 1] = held[rank - 1].next_multiple_of(8);
        }
        _ => {}
    }
    let mut strides = postlude::tensor::contiguous(&held);
    let mut elements: usize = held.iter().product();
    let mut offset = 0;
    if transposed {
        strides.swap(rank - 2, rank - 1);
    }
    if layout == Layout::Reversed {
        offset = elements.max(1) - 1;
        for stride in &mut strides {
            *stride = -*stride;
        }
    }
    if layout == Layout::Shifted {
        (elements, offset) = (elements + 1, 1);
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
