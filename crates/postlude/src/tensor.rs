//! Host tensors: bytes, a shape, and strides in elements.
//!
//! Invariant: every element that shape and strides reach lies inside the bytes.

#[cfg(feature = "ndarray")]
mod arrays;
mod element;
mod layout;
mod view;

use crate::dtype::{self, DType};
use layout::{Layout, contiguous_bytes};

pub use element::Element;
pub use layout::MAX_RANK;
pub use view::{TensorView, TensorViewMut};

/// Why bytes are not a tensor.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// Too few or too many bytes for a contiguous tensor.
    #[error("a contiguous {dtype} tensor of shape {shape:?} takes {need} bytes, not {have}")]
    Bytes {
        /// The element type.
        dtype: DType,
        /// The sizes.
        shape: Vec<usize>,
        /// What it takes.
        need: usize,
        /// What there is.
        have: usize,
    },
    /// Shape and strides of different lengths.
    #[error("{sizes} sizes and {strides} strides")]
    Rank {
        /// How many sizes.
        sizes: usize,
        /// How many strides.
        strides: usize,
    },
    /// An element outside the bytes.
    #[error("strides {strides:?} reach outside the buffer")]
    Reach {
        /// The strides.
        strides: Vec<isize>,
    },
    /// An array with gaps between its elements.
    #[error("the array's elements do not fill its memory: copy it first")]
    Gaps,
    /// More dims than any kernel has.
    #[error("a tensor has at most {MAX_RANK} dims, not {given}")]
    TooManyDims {
        /// How many sizes were given.
        given: usize,
    },
    /// More elements than can be counted.
    #[error("a tensor of shape {shape:?} is too large")]
    TooLarge {
        /// The sizes.
        shape: Vec<usize>,
    },
    /// More bytes than the system gives.
    #[error("{bytes} bytes of memory are needed, and the system does not give them")]
    Memory {
        /// How many.
        bytes: usize,
    },
    /// No tensors to stack.
    #[error("a list of no tensors")]
    EmptyList,
    /// Tensors to stack that differ.
    #[error(
        "tensor {item} of the list is {dtype} of shape {shape:?}, tensor 0 is {first_dtype} of shape {first:?}"
    )]
    ListItem {
        /// Which.
        item: usize,
        /// Its element type.
        dtype: DType,
        /// Its sizes.
        shape: Vec<usize>,
        /// The first tensor's element type.
        first_dtype: DType,
        /// The first tensor's sizes.
        first: Vec<usize>,
    },
    /// Packed elements that do not lie as packed ones have to.
    #[error("{dtype} packs its last dim into whole bytes: {}", packing(*.dtype))]
    Packed {
        /// The element type.
        dtype: DType,
    },
}

impl TensorError {
    /// What to do about it, where that is known.
    pub(crate) fn fix(&self) -> Option<String> {
        matches!(self, TensorError::Memory { .. }).then(|| {
            "make the sizes smaller, or raise the limit of the process (`ulimit -v`)".to_owned()
        })
    }
}

/// How elements lie that share bytes.
fn packing(dtype: DType) -> &'static str {
    match dtype.per_byte() {
        8 => "it is contiguous and its last size a multiple of 8",
        _ => {
            "that dim is contiguous and of even size, and the start and the other strides are even"
        }
    }
}

/// Fewer bytes than this are not asked for first.
const LITTLE: usize = 1 << 20;

/// Whether the system gives that much memory now; what it does not give would end the process where it is taken.
pub(crate) fn require_memory(bytes: usize) -> Result<(), TensorError> {
    let refused = bytes > LITTLE && Vec::<u8>::new().try_reserve_exact(bytes).is_err();
    if refused { Err(TensorError::Memory { bytes }) } else { Ok(()) }
}

/// A tensor that owns its memory on the host.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    layout: Layout,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A contiguous tensor over these bytes.
    ///
    /// ```
    /// use postlude::{DType, Tensor};
    /// let tensor = Tensor::from_bytes(DType::I8, [2, 2], vec![1, 2, 3, 255])?;
    /// assert_eq!(tensor.values(), [1.0, 2.0, 3.0, -1.0]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn from_bytes(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        bytes: Vec<u8>,
    ) -> Result<Tensor, TensorError> {
        Ok(Tensor { layout: Layout::packed(dtype, shape.as_ref(), bytes.len())?, bytes })
    }

    /// A tensor of zeros.
    pub fn zeros(dtype: DType, shape: impl AsRef<[usize]>) -> Result<Tensor, TensorError> {
        let bytes = contiguous_bytes(dtype, shape.as_ref())?;
        require_memory(bytes)?;
        Tensor::from_bytes(dtype, shape, vec![0; bytes])
    }

    /// A contiguous tensor of these values, each rounded as a store rounds.
    ///
    /// ```
    /// use postlude::{DType, Tensor};
    /// let tensor = Tensor::from_values(DType::F8E4M3, [2], &[1000.0, 0.3])?;
    /// assert_eq!(tensor.values(), [448.0, 0.3125]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn from_values(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        values: &[f64],
    ) -> Result<Tensor, TensorError> {
        let mut tensor = Tensor::zeros(dtype, shape)?;
        if values.len() != tensor.len() {
            let (need, have) = (tensor.bytes.len(), dtype.bytes_for(values.len()));
            return Err(TensorError::Bytes { dtype, shape: tensor.shape().to_vec(), need, have });
        }
        for (index, value) in values.iter().enumerate() {
            dtype::store(dtype, &mut tensor.bytes, index, *value);
        }
        Ok(tensor)
    }

    /// A copy of tensors one behind the other, which a first dim numbers: a batch that is given as a list.
    ///
    /// ```
    /// use postlude::{DType, Tensor, TensorView};
    /// let (one, other) = ([1.0f32, 2.0], [3.0f32, 4.0]);
    /// let batch = Tensor::stack(&[TensorView::new(&one, [2])?, TensorView::new(&other, [2])?])?;
    /// assert_eq!((batch.shape(), batch.values()), (&[2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn stack(tensors: &[TensorView<'_>]) -> Result<Tensor, TensorError> {
        let Some(first) = tensors.first() else { return Err(TensorError::EmptyList) };
        let mut bytes = Vec::new();
        for (item, tensor) in tensors.iter().enumerate() {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            if (dtype, shape) != (first.dtype(), first.shape()) {
                let (shape, first_dtype) = (shape.to_vec(), first.dtype());
                let first = first.shape().to_vec();
                return Err(TensorError::ListItem { item, dtype, shape, first_dtype, first });
            }
            bytes.extend_from_slice(tensor.to_tensor().bytes());
        }
        let shape: Vec<usize> = [&[tensors.len()], first.shape()].concat();
        Tensor::from_bytes(first.dtype(), shape, bytes)
    }

    /// A tensor with any strides (in elements, zero and negative ones too), its first element at `offset`.
    pub fn with_strides(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
        bytes: Vec<u8>,
    ) -> Result<Tensor, TensorError> {
        let (shape, strides) = (shape.as_ref(), strides.as_ref());
        Ok(Tensor { layout: Layout::strided(dtype, shape, strides, offset, bytes.len())?, bytes })
    }

    /// The tensor to read, without a copy.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { layout: self.layout, bytes: &self.bytes }
    }

    /// The tensor to write, without a copy.
    pub fn view_mut(&mut self) -> TensorViewMut<'_> {
        TensorViewMut { layout: self.layout, bytes: &mut self.bytes }
    }

    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// One element.
    pub fn get(&self, index: &[usize]) -> f64 {
        self.view().get(index)
    }

    /// Every element, in the order of a contiguous tensor.
    pub fn values(&self) -> Vec<f64> {
        self.view().values()
    }

    /// The same values, contiguous.
    pub fn to_contiguous(&self) -> Tensor {
        self.view().to_tensor()
    }
}

/// Steps an index to the next element in row-major order.
pub fn advance(index: &mut [usize], shape: &[usize]) {
    for (at, size) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *size {
            return;
        }
        *at = 0;
    }
}

/// The strides of a contiguous tensor.
pub fn contiguous(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for place in (1..shape.len()).rev() {
        strides[place - 1] = strides[place] * shape[place].max(1) as isize;
    }
    strides
}

/// Whether every element has a place of its own, seen from strides that nest.
pub(crate) fn has_own_places(shape: &[usize], strides: &[isize]) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let (mut reach, mut least) = (0u128, 0usize);
    // The strides in rising order, without memory for a sorted copy: dims are few.
    loop {
        let dims = shape.iter().zip(strides).filter(|(size, _)| **size > 1);
        let lengths = dims.clone().map(|(_, stride)| stride.unsigned_abs());
        if lengths.clone().any(|length| length == 0) {
            return false;
        }
        let Some(next) = lengths.filter(|length| *length > least).min() else { return true };
        let mut same = dims.filter(|(_, stride)| stride.unsigned_abs() == next);
        let (Some((size, _)), None) = (same.next(), same.next()) else { return false };
        if (next as u128) <= reach {
            return false;
        }
        reach += next as u128 * (*size as u128 - 1);
        least = next;
    }
}

/// Whether elements of half a byte lie in pairs, from a byte's start on: the last dim one after the other, and steps along
/// the others in whole bytes.
pub(crate) fn fills_bytes(shape: &[usize], strides: &[isize]) -> bool {
    let (Some((_, outer)), Some((last, others))) = (shape.split_last(), strides.split_last())
    else {
        return false;
    };
    let even = |(size, stride): (&usize, &isize)| *size == 1 || stride % 2 == 0;
    shape.contains(&0) || *last == 1 && outer.iter().zip(others).all(even)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_checked_against_the_buffer() {
        let tensor = |strides: Vec<isize>, offset| {
            Tensor::with_strides(DType::I8, vec![2, 3], strides, offset, vec![0; 6])
        };
        assert!(tensor(vec![3, 1], 0).is_ok());
        assert!(tensor(vec![-3, -1], 5).is_ok());
        assert!(tensor(vec![0, 0], 5).is_ok());
        assert!(tensor(vec![3, 2], 0).is_err());
        assert!(tensor(vec![-3, 1], 0).is_err());
        assert!(tensor(vec![1], 0).is_err());
    }

    #[test]
    fn absurd_shapes_are_refused() {
        assert!(Tensor::zeros(DType::F32, [usize::MAX, 2]).is_err());
        // More than any address space has, and few enough to be counted.
        let beyond = Tensor::zeros(DType::I8, vec![1 << 40, 1 << 10]);
        assert!(matches!(beyond, Err(TensorError::Memory { .. })), "{beyond:?}");
        assert!(Tensor::zeros(DType::F32, vec![usize::MAX, 0]).is_err());
        assert!(Tensor::zeros(DType::B1, vec![3, 7]).is_err());
        assert!(Tensor::zeros(DType::I4, vec![3, 7]).is_err());
        assert!(Tensor::zeros(DType::U4, vec![]).is_err());
    }

    #[test]
    fn halves_of_bytes_lie_in_whole_bytes() {
        let tensor = |shape: [usize; 2], strides: [isize; 2], offset| {
            Tensor::with_strides(DType::I4, shape, strides, offset, vec![0x21; 8])
        };
        let rows = tensor([2, 4], [6, 1], 2).unwrap();
        assert_eq!(rows.values(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        assert!(tensor([2, 4], [-6, 1], 6).is_ok() && tensor([9, 4], [0, 1], 0).is_ok());
        for (shape, strides, offset) in [
            ([2, 4], [5, 1], 0),
            ([2, 4], [6, 1], 1),
            ([2, 4], [1, 2], 0),
            ([2, 4], [4, -1], 4),
            ([2, 3], [4, 1], 0),
        ] {
            let refused = tensor(shape, strides, offset);
            assert_eq!(refused, Err(TensorError::Packed { dtype: DType::I4 }), "{strides:?}");
        }
        assert!(matches!(tensor([4, 4], [6, 1], 0), Err(TensorError::Reach { .. })));
    }

    #[test]
    fn transposed_values_come_in_their_own_order() {
        let bytes = vec![1, 2, 3, 4, 5, 6];
        let tensor = Tensor::with_strides(DType::U8, vec![3, 2], vec![1, 3], 0, bytes).unwrap();
        assert_eq!(tensor.values(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(tensor.to_contiguous().bytes(), [1, 4, 2, 5, 3, 6]);
    }
}
