//! Where the elements of a tensor lie in its bytes: element type, sizes, strides and the first element.
//!
//! In: sizes and strides in elements, and how many bytes there are. Out: a [`Layout`], which is small and copied freely.
//! Invariant: every element that sizes and strides reach lies inside those bytes.

use super::{TensorError, contiguous, fills_bytes};
use crate::dtype::DType;

/// The most dims of a tensor. Kernels use at most three; more are refused when the tensor meets a kernel.
pub const MAX_RANK: usize = 8;

#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) dtype: DType,
    rank: u8,
    shape: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
    pub(super) offset: usize,
}

impl Layout {
    /// Row-major without gaps; the bytes have to be exactly those of the elements.
    pub(super) fn packed(
        dtype: DType,
        shape: &[usize],
        have: usize,
    ) -> Result<Layout, TensorError> {
        let need = contiguous_bytes(dtype, shape)?;
        if need != have {
            return Err(TensorError::Bytes { dtype, shape: shape.to_vec(), need, have });
        }
        Layout::new(dtype, shape, &contiguous(shape), 0)
    }

    /// Any strides, in elements, the first element at `offset`.
    pub(super) fn strided(
        dtype: DType,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        have: usize,
    ) -> Result<Layout, TensorError> {
        if shape.len() != strides.len() {
            return Err(TensorError::Rank { sizes: shape.len(), strides: strides.len() });
        }
        let packs = match dtype.per_byte() {
            1 => true,
            2 => fills_bytes(shape, strides) && offset.is_multiple_of(2),
            _ => strides == contiguous(shape) && offset == 0,
        };
        if !packs {
            return Err(TensorError::Packed { dtype });
        }
        contiguous_bytes(dtype, shape)?;
        let elements = have.saturating_mul(8) / dtype.bits();
        if !reaches_inside(shape, strides, offset, elements) {
            return Err(TensorError::Reach { strides: strides.to_vec() });
        }
        Layout::new(dtype, shape, strides, offset)
    }

    fn new(
        dtype: DType,
        sizes: &[usize],
        steps: &[isize],
        offset: usize,
    ) -> Result<Layout, TensorError> {
        let rank = sizes.len();
        if rank > MAX_RANK {
            return Err(TensorError::TooManyDims { given: rank });
        }
        let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        shape[..rank].copy_from_slice(sizes);
        strides[..rank].copy_from_slice(steps);
        Ok(Layout { dtype, rank: rank as u8, shape, strides, offset })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank as usize]
    }

    pub(super) fn strides(&self) -> &[isize] {
        &self.strides[..self.rank as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether elements follow one another without gaps, in order, from the first byte on.
    pub(super) fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        let in_order = self.shape().iter().zip(self.strides()).rev().all(|(size, stride)| {
            let fits = *stride == expected;
            expected *= (*size).max(1) as isize;
            fits
        });
        self.offset == 0 && in_order
    }

    /// The sizes of some elements along a dim, and where the first of them is.
    #[cfg(feature = "sim")]
    pub(super) fn part(&self, dim: usize, first: usize, count: usize) -> (Vec<usize>, usize) {
        let (mut shape, mut index) = (self.shape().to_vec(), vec![0; self.rank as usize]);
        (shape[dim], index[dim]) = (count, first);
        (shape, self.place(&index))
    }

    /// Where an element is in memory, in elements.
    pub(super) fn place(&self, index: &[usize]) -> usize {
        let steps = index.iter().zip(self.strides()).map(|(at, stride)| *at as isize * stride);
        (self.offset as isize + steps.sum::<isize>()) as usize
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Layout) -> bool {
        (self.dtype, self.offset) == (other.dtype, other.offset)
            && self.shape() == other.shape()
            && self.strides() == other.strides()
    }
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape())?;
        if self.is_contiguous() {
            return Ok(());
        }
        write!(f, " strides {:?} offset {}", self.strides(), self.offset)
    }
}

pub(super) fn contiguous_bytes(dtype: DType, shape: &[usize]) -> Result<usize, TensorError> {
    let too_large = || TensorError::TooLarge { shape: shape.to_vec() };
    // Sizes of zero do not excuse the others: strides are computed from all of them.
    let mut extent = 1usize;
    for size in shape {
        extent = extent
            .checked_mul((*size).max(1))
            .filter(|n| *n <= isize::MAX as usize / 32)
            .ok_or_else(too_large)?;
    }
    if !dtype.is_packed() {
        return Ok(dtype.bytes_for(shape.iter().product()));
    }
    if shape.last().is_none_or(|last| !last.is_multiple_of(dtype.per_byte())) {
        return Err(TensorError::Packed { dtype });
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
