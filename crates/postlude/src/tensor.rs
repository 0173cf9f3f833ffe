//! Host tensors: bytes, a shape, and strides in elements.
//!
//! Invariant: every element that shape and strides reach lies inside the bytes.

use crate::dtype::{self, DType};

/// Why bytes are not a tensor.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
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
    /// More elements than can be counted.
    #[error("a tensor of shape {shape:?} is too large")]
    TooLarge {
        /// The sizes.
        shape: Vec<usize>,
    },
    /// Packed bits with strides, or a last dim that is not whole bytes.
    #[error(
        "b1 packs its last dim into whole bytes: it is contiguous and its last size a multiple of 8"
    )]
    Packed,
}

/// A tensor in host memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<isize>,
    offset: usize,
    bytes: Vec<u8>,
}

impl Tensor {
    /// A contiguous tensor over these bytes.
    ///
    /// ```
    /// use postlude::{DType, Tensor};
    /// let tensor = Tensor::from_bytes(DType::I8, vec![2, 2], vec![1, 2, 3, 255])?;
    /// assert_eq!(tensor.values(), [1.0, 2.0, 3.0, -1.0]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn from_bytes(
        dtype: DType,
        shape: Vec<usize>,
        bytes: Vec<u8>,
    ) -> Result<Tensor, TensorError> {
        let need = contiguous_bytes(dtype, &shape)?;
        if need != bytes.len() {
            return Err(TensorError::Bytes { dtype, shape, need, have: bytes.len() });
        }
        let strides = contiguous(&shape);
        Ok(Tensor { dtype, shape, strides, offset: 0, bytes })
    }

    /// A tensor of zeros.
    pub fn zeros(dtype: DType, shape: Vec<usize>) -> Result<Tensor, TensorError> {
        let bytes = vec![0; contiguous_bytes(dtype, &shape)?];
        Tensor::from_bytes(dtype, shape, bytes)
    }

    /// A contiguous tensor of these values, each rounded as a store rounds.
    ///
    /// ```
    /// use postlude::{DType, Tensor};
    /// let tensor = Tensor::from_values(DType::F8E4M3, vec![2], &[1000.0, 0.3])?;
    /// assert_eq!(tensor.values(), [448.0, 0.3125]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn from_values(
        dtype: DType,
        shape: Vec<usize>,
        values: &[f64],
    ) -> Result<Tensor, TensorError> {
        let mut tensor = Tensor::zeros(dtype, shape)?;
        if values.len() != tensor.len() {
            let (need, have) = (tensor.bytes.len(), dtype.bytes_for(values.len()));
            return Err(TensorError::Bytes { dtype, shape: tensor.shape, need, have });
        }
        for (index, value) in values.iter().enumerate() {
            dtype::store(dtype, &mut tensor.bytes, index, *value);
        }
        Ok(tensor)
    }

    /// A tensor with any strides (in elements, zero and negative ones too), its first element at `offset`.
    pub fn with_strides(
        dtype: DType,
        shape: Vec<usize>,
        strides: Vec<isize>,
        offset: usize,
        bytes: Vec<u8>,
    ) -> Result<Tensor, TensorError> {
        if shape.len() != strides.len() {
            return Err(TensorError::Rank { sizes: shape.len(), strides: strides.len() });
        }
        if dtype == DType::B1 && (strides != contiguous(&shape) || offset != 0) {
            return Err(TensorError::Packed);
        }
        contiguous_bytes(dtype, &shape)?;
        let elements = bytes.len() * 8 / dtype.bits();
        if !reaches_inside(&shape, &strides, offset, elements) {
            return Err(TensorError::Reach { strides });
        }
        Ok(Tensor { dtype, shape, strides, offset, bytes })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// How far apart neighbours are, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Where the first element is, in elements.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The memory, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether elements follow one another without gaps, in order.
    pub fn is_contiguous(&self) -> bool {
        self.offset == 0 && self.strides == contiguous(&self.shape)
    }

    /// Where an element is in memory, in elements.
    pub fn place(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(&self.strides).map(|(at, stride)| *at as isize * stride);
        (self.offset as isize + steps.sum::<isize>()) as usize
    }

    /// One element.
    pub fn get(&self, index: &[usize]) -> f64 {
        dtype::load(self.dtype, &self.bytes, self.place(index))
    }

    /// Every element, in the order of a contiguous tensor.
    pub fn values(&self) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.len());
        let mut index = vec![0; self.shape.len()];
        for _ in 0..self.len() {
            values.push(self.get(&index));
            advance(&mut index, &self.shape);
        }
        values
    }

    /// The same values, contiguous.
    pub fn to_contiguous(&self) -> Tensor {
        if self.is_contiguous() && self.bytes.len() == self.dtype.bytes_for(self.len()) {
            return self.clone();
        }
        match Tensor::from_values(self.dtype, self.shape.clone(), &self.values()) {
            Ok(tensor) => tensor,
            Err(error) => panic!("compiler bug: {error}"),
        }
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

fn contiguous_bytes(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
    // Sizes of zero do not excuse the others: strides are computed from all of them.
    let mut extent = 1usize;
    for size in shape {
        extent = extent
            .checked_mul((*size).max(1))
            .filter(|n| *n <= isize::MAX as usize / 32)
            .ok_or_else(too_large)?;
    }
    if dtype == DType::B1 && shape.last().is_none_or(|last| last % 8 != 0) {
        return Err(TensorError::Packed);
    }
    Ok(dtype.bytes_for(shape.iter().product()))
}

fn reaches_inside(shape: &[usize], strides: &[isize], offset: usize, elements: usize) -> bool {
    if shape.contains(&0) {
        return true;
    }
    let (mut low, mut high) = (offset as i128, offset as i128);
    for (size, stride) in shape.iter().zip(strides) {
        let reach = (*size as i128 - 1) * *stride as i128;
        low += reach.min(0);
        high += reach.max(0);
    }
    low >= 0 && high < elements as i128
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
        assert!(Tensor::zeros(DType::F32, vec![usize::MAX, 2]).is_err());
        assert!(Tensor::zeros(DType::F32, vec![usize::MAX, 0]).is_err());
        assert!(Tensor::zeros(DType::B1, vec![3, 7]).is_err());
    }

    #[test]
    fn transposed_values_come_in_their_own_order() {
        let bytes = vec![1, 2, 3, 4, 5, 6];
        let tensor = Tensor::with_strides(DType::U8, vec![3, 2], vec![1, 3], 0, bytes).unwrap();
        assert_eq!(tensor.values(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(tensor.to_contiguous().bytes(), [1, 4, 2, 5, 3, 6]);
    }
}
