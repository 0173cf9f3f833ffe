//! Tensors in memory that the caller owns.
//!
//! In: slices of numbers or bytes, with a shape and strides. Out: views that kernels read and write in place.
//! Invariant: as of [`Tensor`](super::Tensor): no element lies outside the bytes.

use std::fmt;

use super::layout::Layout;
use super::{Element, Tensor, TensorError, advance};
use crate::dtype::{self, DType};

/// A tensor to read, in memory that the caller keeps. Copies of a view are views of the same memory.
///
/// ```
/// use postlude::{Kernel, TensorView};
/// let (a, w) = ([1.0f32, 2.0], [3.0f32, 4.0, 5.0, 6.0]);
/// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }")?;
/// let outputs = kernel.run([("A", TensorView::new(&a, [1, 2])?), ("W", TensorView::new(&w, [2, 2])?)])?;
/// assert_eq!(outputs["D"].values(), [11.0, 17.0]);
/// # Ok::<(), postlude::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq)]
pub struct TensorView<'a> {
    pub(super) layout: Layout,
    pub(super) bytes: &'a [u8],
}

/// A tensor to write, in memory that the caller keeps.
pub struct TensorViewMut<'a> {
    pub(super) layout: Layout,
    pub(super) bytes: &'a mut [u8],
}

impl<'a> TensorView<'a> {
    /// The same elements, read as another type of as many bytes.
    pub(crate) fn read_as(mut self, dtype: DType) -> TensorView<'a> {
        assert!(dtype.is_stored_as(self.layout.dtype), "compiler bug: {dtype} is stored otherwise");
        self.layout.dtype = dtype;
        self
    }

    /// Numbers in row-major order.
    pub fn new<T: Element>(
        values: &'a [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<TensorView<'a>, TensorError> {
        TensorView::from_bytes(T::DTYPE, shape, T::bytes(values))
    }

    /// Numbers with any strides (in elements, zero and negative ones too), the first one at `offset`.
    ///
    /// ```
    /// use postlude::TensorView;
    /// let rows = [1i32, 2, 3, 4, 5, 6];
    /// let transposed = TensorView::strided(&rows, [3, 2], [1, 3], 0)?;
    /// assert_eq!(transposed.values(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    pub fn strided<T: Element>(
        values: &'a [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
    ) -> Result<TensorView<'a>, TensorError> {
        TensorView::strided_bytes(T::DTYPE, shape, strides, offset, T::bytes(values))
    }

    /// Elements of any type in row-major order, little-endian.
    pub fn from_bytes(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        bytes: &'a [u8],
    ) -> Result<TensorView<'a>, TensorError> {
        Ok(TensorView { layout: Layout::packed(dtype, shape.as_ref(), bytes.len())?, bytes })
    }

    /// Elements of any type with any strides, in elements, the first one at `offset`.
    pub fn strided_bytes(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
        bytes: &'a [u8],
    ) -> Result<TensorView<'a>, TensorError> {
        let (shape, strides) = (shape.as_ref(), strides.as_ref());
        Ok(TensorView {
            layout: Layout::strided(dtype, shape, strides, offset, bytes.len())?,
            bytes,
        })
    }

    /// Some elements along a dim.
    #[cfg(feature = "sim")]
    pub(crate) fn part(
        self,
        dim: usize,
        first: usize,
        count: usize,
    ) -> Result<TensorView<'a>, TensorError> {
        let (shape, offset) = self.layout.part(dim, first, count);
        TensorView::strided_bytes(self.dtype(), shape, self.strides(), offset, self.bytes)
    }

    /// The memory.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// One element.
    pub fn get(&self, index: &[usize]) -> f64 {
        dtype::load(self.layout.dtype, self.bytes, self.layout.place(index))
    }

    /// Every element, in the order of a contiguous tensor.
    pub fn values(&self) -> Vec<f64> {
        let mut values = Vec::with_capacity(self.len());
        self.for_each(|value| values.push(value));
        values
    }

    /// Calls `f` with every element, in the order of a contiguous tensor.
    pub fn for_each(&self, mut f: impl FnMut(f64)) {
        let mut index = vec![0; self.shape().len()];
        for _ in 0..self.len() {
            f(self.get(&index));
            advance(&mut index, self.shape());
        }
    }

    /// A tensor of its own with the same values, contiguous.
    pub fn to_tensor(&self) -> Tensor {
        let packed = self.is_contiguous() && self.bytes.len() == self.dtype().bytes_for(self.len());
        let tensor = if packed {
            Tensor::from_bytes(self.dtype(), self.shape(), self.bytes.to_vec())
        } else {
            Tensor::from_values(self.dtype(), self.shape(), &self.values())
        };
        match tensor {
            Ok(tensor) => tensor,
            Err(error) => panic!("compiler bug: {error}"),
        }
    }
}

impl<'a> TensorViewMut<'a> {
    /// Numbers in row-major order.
    pub fn new<T: Element>(
        values: &'a mut [T],
        shape: impl AsRef<[usize]>,
    ) -> Result<TensorViewMut<'a>, TensorError> {
        TensorViewMut::from_bytes(T::DTYPE, shape, T::bytes_mut(values))
    }

    /// Numbers with any strides, in elements, the first one at `offset`. A call refuses outputs whose elements share memory.
    pub fn strided<T: Element>(
        values: &'a mut [T],
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
    ) -> Result<TensorViewMut<'a>, TensorError> {
        TensorViewMut::strided_bytes(T::DTYPE, shape, strides, offset, T::bytes_mut(values))
    }

    /// Elements of any type in row-major order, little-endian.
    pub fn from_bytes(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        bytes: &'a mut [u8],
    ) -> Result<TensorViewMut<'a>, TensorError> {
        Ok(TensorViewMut { layout: Layout::packed(dtype, shape.as_ref(), bytes.len())?, bytes })
    }

    /// Elements of any type with any strides, in elements, the first one at `offset`.
    pub fn strided_bytes(
        dtype: DType,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
        offset: usize,
        bytes: &'a mut [u8],
    ) -> Result<TensorViewMut<'a>, TensorError> {
        let (shape, strides) = (shape.as_ref(), strides.as_ref());
        let layout = Layout::strided(dtype, shape, strides, offset, bytes.len())?;
        Ok(TensorViewMut { layout, bytes })
    }

    /// Some elements along a dim.
    #[cfg(feature = "sim")]
    pub(crate) fn part(
        self,
        dim: usize,
        first: usize,
        count: usize,
    ) -> Result<TensorViewMut<'a>, TensorError> {
        let (shape, offset) = self.layout.part(dim, first, count);
        let (dtype, strides) = (self.dtype(), self.strides().to_vec());
        TensorViewMut::strided_bytes(dtype, shape, strides, offset, self.bytes)
    }

    /// The memory, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// What is there now.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { layout: self.layout, bytes: self.bytes }
    }

    /// Copies the values of a tensor of the same type and shape.
    #[doc(hidden)]
    pub fn copy_from(&mut self, from: TensorView<'_>) {
        debug_assert!(self.shape() == from.shape() && self.dtype() == from.dtype());
        let shape = self.layout.shape().to_vec();
        let mut index = vec![0; shape.len()];
        for _ in 0..self.layout.len() {
            let place = self.layout.place(&index);
            dtype::store(self.layout.dtype, self.bytes, place, from.get(&index));
            advance(&mut index, &shape);
        }
    }

    /// The same memory for a shorter time.
    pub fn reborrow(&mut self) -> TensorViewMut<'_> {
        TensorViewMut { layout: self.layout, bytes: self.bytes }
    }
}

impl<'a> From<&'a Tensor> for TensorView<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        tensor.view()
    }
}

impl<'a> From<&'a mut Tensor> for TensorViewMut<'a> {
    fn from(tensor: &'a mut Tensor) -> Self {
        tensor.view_mut()
    }
}

macro_rules! layout_of {
    ($($tensor:ident $(<$life:lifetime>)?),*) => {$(
        impl $tensor $(<$life>)? {
            /// The element type.
            pub fn dtype(&self) -> DType {
                self.layout.dtype
            }

            /// The sizes.
            pub fn shape(&self) -> &[usize] {
                self.layout.shape()
            }

            /// How far apart neighbours are, in elements.
            pub fn strides(&self) -> &[isize] {
                self.layout.strides()
            }

            /// Where the first element is, in elements.
            pub fn offset(&self) -> usize {
                self.layout.offset
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                self.layout.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether elements follow one another without gaps, in order.
            pub fn is_contiguous(&self) -> bool {
                self.layout.is_contiguous()
            }

            /// Where an element is in memory, in elements.
            #[doc(hidden)]
            pub fn place(&self, index: &[usize]) -> usize {
                self.layout.place(index)
            }
        }
    )*};
}

layout_of!(Tensor, TensorView<'_>, TensorViewMut<'_>);

// A view may be of a model's weights: it shows what it is, not every byte.
impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({:?})", self.layout)
    }
}

impl fmt::Debug for TensorViewMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorViewMut({:?})", self.layout)
    }
}
