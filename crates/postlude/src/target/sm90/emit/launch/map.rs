//! Elements and strides of tensor maps.

use postlude_ptx::launch::Element;

use crate::dtype::DType;
use crate::problem::Problem;
use crate::target::sm90::plan::ListSteps;

/// The element type of a map.
pub(super) fn element(dtype: DType) -> Element {
    match dtype {
        // Of i32 the bits are moved.
        DType::F32 | DType::TF32 | DType::I32 => Element::F32,
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::I8 | DType::U8 | DType::Bool => {
            Element::U8
        }
        DType::I64 | DType::B1 | DType::I4 | DType::U4 => {
            panic!("compiler bug: a tensor map of {dtype}")
        }
    }
}

/// Strides of tensor maps are below this.
const STRIDE_LIMIT: u64 = 1 << 40;

/// The dims of a map, innermost first: two of a matrix, then the batch dims, the last one first.
pub(super) struct MapDims {
    pub(super) sizes: Vec<u64>,
    /// Elements between neighbours along all but the innermost dim.
    strides: Vec<isize>,
}

impl MapDims {
    /// Those of matrices of `[inner, outer]` elements, whose lines are this far apart.
    pub(super) fn new(
        matrix: [usize; 2],
        stride: isize,
        (sizes, strides): (&[usize], &[isize]),
    ) -> MapDims {
        let sizes = matrix.iter().chain(sizes.iter().rev()).map(|size| (*size).max(1) as u64);
        let sizes: Vec<u64> = sizes.collect();
        let batches = strides[..sizes.len() - 2].iter().rev();
        MapDims { strides: [stride].iter().chain(batches).copied().collect(), sizes }
    }

    /// Strides in bytes. A dim of one element is never stepped along, whatever its stride; the map still wants one that it
    /// could step by.
    pub(super) fn strides(&self, dtype: DType) -> Vec<u64> {
        let bytes = dtype.bits() as u64 / 8;
        let mut least = (self.sizes[0] * bytes).next_multiple_of(16);
        let mut result = Vec::new();
        for (stride, size) in self.strides.iter().zip(&self.sizes[1..]) {
            let stride = if *size > 1 && *stride > 0 { *stride as u64 * bytes } else { least };
            result.push(stride);
            least = stride.saturating_mul(*size).min(STRIDE_LIMIT - 16);
        }
        result
    }

    /// The sizes of a box of this many elements of one batch.
    pub(super) fn boxes(&self, matrix: [u32; 2]) -> Vec<u32> {
        let batches = std::iter::repeat_n(1, self.sizes.len() - 2);
        matrix.into_iter().chain(batches).collect()
    }
}

/// How many batch dims tensors are declared with: one where there is none.
pub(super) fn declared_dims(problem: &Problem) -> usize {
    problem.batch_sizes.len().max(1)
}

/// Their sizes; of a list, the steps that its map has.
pub(super) fn batch_sizes(problem: &Problem, list: Option<ListSteps>) -> Vec<usize> {
    let mut sizes = problem.batch_sizes.clone();
    if sizes.is_empty() {
        sizes.push(1);
    }
    if let Some(ListSteps { dim, count }) = list {
        sizes[dim] = count;
    }
    sizes
}
