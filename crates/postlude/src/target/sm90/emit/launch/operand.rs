//! What a launch passes of A and B.

use postlude_ptx::launch::{Buffer, Parameter, TensorMap};

use crate::dtype::DType;
use crate::problem::Problem;
use crate::target::sm90::plan::{Operand, OperandLoad, STAGGER};

use super::super::operand::{Part, shift};
use super::map::{MapDims, batch_sizes, declared_dims, element};

/// What tensor maps want of addresses, in bytes.
const ALIGNMENT: u64 = 16;

/// The parameters of an operand, in the order in which the kernel declares them.
pub(super) fn parameters(operand: &Operand<'_>, part: Part, problem: &Problem) -> Vec<Parameter> {
    let strides = operand.strides;
    // An operand that does not step along a batch dim is the same for all of its batches.
    let has: Vec<bool> =
        strides.batch[..declared_dims(problem)].iter().map(|stride| *stride != 0).collect();
    // Without a contraction nothing is read, and strides may be anything.
    let size = |(size, has): (usize, &bool)| if *has && problem.inner > 0 { size } else { 1 };
    let sizes = batch_sizes(problem, operand.list);
    let batches = sizes.into_iter().zip(&has).map(size).collect();
    let table = Parameter::Pointer { buffer: Buffer(operand.input.0).table(), offset: 0 };
    let table = operand.list.map(|_| table);
    let view = View { operand, part, batches };
    let mut parameters = match part.load {
        // A map has no empty dim: without a contraction it is one column wide, which the kernel never reads.
        OperandLoad::TmaKMajor if problem.inner == 0 => vec![view.map(0, [1, operand.size], 0)],
        OperandLoad::TmaKMajor => vec![view.map(0, [problem.inner, operand.size], strides.outer)],
        OperandLoad::TmaMnMajor => vec![view.map(0, [operand.size, problem.inner], strides.inner)],
        OperandLoad::Widened4 | OperandLoad::Widened8 => vec![view.narrow(problem.inner)],
        OperandLoad::Staggered => {
            let classes = (0..STAGGER as usize).map(|class| view.class(class, problem.inner));
            let (maps, shifts): (Vec<Parameter>, Vec<[u32; 2]>) = classes.unzip();
            let before = shifts.iter().map(|[before, _]| *before);
            // Classes of even numbers have the first one's, all others the second's.
            let selectors = shifts.iter().take(2).map(|[_, selector]| *selector);
            maps.into_iter().chain(before.chain(selectors).map(Parameter::U32)).collect()
        }
        OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor | OperandLoad::VectorsKMajor => {
            let pointer = Parameter::Pointer { buffer: Buffer(operand.input.0), offset: 0 };
            let batches = strides.batch[..has.len()].iter().rev();
            let all = batches.chain([&strides.outer, &strides.inner]);
            let bytes = all.map(|stride| Parameter::U64(view.bytes(*stride) as u64));
            [pointer].into_iter().chain(bytes).chain(table.clone()).collect()
        }
    };
    parameters.extend(has.iter().rev().map(|has| Parameter::U32((*has).into())));
    if !part.load.is_by_elements() {
        parameters.extend(table);
    }
    parameters
}

struct View<'a> {
    operand: &'a Operand<'a>,
    part: Part,
    batches: Vec<usize>,
}

impl View<'_> {
    /// A map of [batches, lines, elements], which begins this many bytes from the first element.
    fn map(&self, offset: i64, [elements, lines]: [usize; 2], stride: isize) -> Parameter {
        let Operand { dtype, input, strides, .. } = *self.operand;
        let lies = MapDims::new([elements, lines], stride, (&self.batches, &strides.batch));
        Parameter::Map(TensorMap {
            buffer: Buffer(input.0),
            offset,
            element: element(dtype),
            strides: lies.strides(dtype),
            box_sizes: lies.boxes(self.part.box_sizes()),
            sizes: lies.sizes,
            swizzle: self.part.swizzle(),
        })
    }

    /// A map of the bytes of narrow elements.
    fn narrow(&self, inner: usize) -> Parameter {
        let Operand { dtype, input, strides, size, .. } = *self.operand;
        let bytes = |elements: isize| elements * dtype.bits() as isize / 8;
        let batches = strides.batch.map(bytes);
        let inner = inner * dtype.bits() / 8;
        let lies = MapDims::new([inner, size], bytes(strides.outer), (&self.batches, &batches));
        Parameter::Map(TensorMap {
            buffer: Buffer(input.0),
            offset: 0,
            element: element(DType::U8),
            strides: lies.strides(DType::U8),
            box_sizes: lies.boxes(self.part.box_sizes()),
            sizes: lies.sizes,
            swizzle: self.part.swizzle(),
        })
    }

    /// The map of every eighth row, and how the first element of a row lies in it.
    fn class(&self, class: usize, inner: usize) -> (Parameter, [u32; 2]) {
        let Operand { size, strides, placement, .. } = *self.operand;
        // A class without rows only fills the tile's last rows; it gets the first class's, which are there.
        let class = if class < size { class } else { 0 };
        let offset = self.bytes(strides.outer.wrapping_mul(class as isize));
        let beyond = placement.start.wrapping_add(offset as u64) % ALIGNMENT;
        let before = beyond as usize / self.bytes(1) as usize;
        let sizes = [before + inner, (size - class).div_ceil(STAGGER as usize)];
        let stride = strides.outer.wrapping_mul(STAGGER as isize);
        (self.map(offset - beyond as i64, sizes, stride), shift(before as u32))
    }

    fn bytes(&self, elements: isize) -> i64 {
        (elements as i64).wrapping_mul(self.operand.dtype.bits() as i64) / 8
    }
}
