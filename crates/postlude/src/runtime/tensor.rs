//! Tensors on a GPU: an address, a shape, and strides in elements.

mod list;

use std::sync::Arc;

use crate::dtype::DType;
use crate::tensor;

/// A tensor in a GPU's memory. It does not own the memory: whoever does keeps it until the kernels that use it are done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceTensor {
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: Vec<usize>,
    /// How far apart neighbours are, in elements.
    pub strides: Vec<isize>,
    /// Where the first element is.
    pub address: u64,
    /// The number of the GPU.
    pub device: u32,
    /// For a list of tensors that do not lie evenly, which the first dim numbers: how many steps of the first stride each of
    /// them lies from the address. [`DeviceTensor::list`] makes it; other tensors have none.
    pub list: Option<Arc<[u64]>>,
}

impl DeviceTensor {
    /// A tensor whose elements follow one another without gaps.
    pub fn contiguous(dtype: DType, shape: Vec<usize>, address: u64, device: u32) -> DeviceTensor {
        let strides = tensor::contiguous(&shape);
        DeviceTensor { dtype, shape, strides, address, device, list: None }
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether elements follow one another without gaps, in order.
    pub fn is_contiguous(&self) -> bool {
        let dims = || self.shape.iter().zip(&self.strides);
        let mut expected = 1;
        self.is_empty()
            || dims().rev().all(|(size, stride)| {
                let fits = *size == 1 || *stride == expected;
                expected *= *size as isize;
                fits
            })
    }
}
