//! Views of `ndarray`'s arrays, without a copy.
//!
//! An array whose elements fill their memory, in any order of its axes and in either direction, is a tensor as it lies. One
//! with gaps between its elements has to be copied by the caller.

use ndarray::{ArrayBase, ArrayView, ArrayViewMut, Data, DataMut, Dimension};

use super::{Element, TensorError, TensorView, TensorViewMut};

/// Where the first element lies in memory whose lowest address is the slice's.
fn offset(shape: &[usize], strides: &[isize]) -> usize {
    let backward = shape.iter().zip(strides).filter(|(size, stride)| **size > 1 && **stride < 0);
    backward.map(|(size, stride)| (size - 1) * stride.unsigned_abs()).sum()
}

impl<'a, T: Element, D: Dimension> TryFrom<ArrayView<'a, T, D>> for TensorView<'a> {
    type Error = TensorError;

    /// ```
    /// use ndarray::array;
    /// use postlude::TensorView;
    /// let rows = array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let view = TensorView::try_from(rows.t())?;
    /// assert_eq!(view.values(), [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), postlude::TensorError>(())
    /// ```
    fn try_from(array: ArrayView<'a, T, D>) -> Result<TensorView<'a>, TensorError> {
        let values = array.to_slice_memory_order().ok_or(TensorError::Gaps)?;
        let start = offset(array.shape(), array.strides());
        TensorView::strided(values, array.shape(), array.strides(), start)
    }
}

impl<'a, T: Element, S: Data<Elem = T>, D: Dimension> TryFrom<&'a ArrayBase<S, D>>
    for TensorView<'a>
{
    type Error = TensorError;

    fn try_from(array: &'a ArrayBase<S, D>) -> Result<TensorView<'a>, TensorError> {
        array.view().try_into()
    }
}

impl<'a, T: Element, D: Dimension> TryFrom<ArrayViewMut<'a, T, D>> for TensorViewMut<'a> {
    type Error = TensorError;

    fn try_from(array: ArrayViewMut<'a, T, D>) -> Result<TensorViewMut<'a>, TensorError> {
        let (shape, strides) = (array.shape().to_vec(), array.strides().to_vec());
        let values = array.into_slice_memory_order().ok_or(TensorError::Gaps)?;
        TensorViewMut::strided(values, &shape, &strides, offset(&shape, &strides))
    }
}

impl<'a, T: Element, S: DataMut<Elem = T>, D: Dimension> TryFrom<&'a mut ArrayBase<S, D>>
    for TensorViewMut<'a>
{
    type Error = TensorError;

    fn try_from(array: &'a mut ArrayBase<S, D>) -> Result<TensorViewMut<'a>, TensorError> {
        array.view_mut().try_into()
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn arrays_are_read_as_they_lie() {
        let array = Array2::from_shape_fn((2, 3), |(row, column)| (10 * row + column) as i32);
        let values = |view: ArrayView<'_, i32, _>| TensorView::try_from(view).unwrap().values();
        assert_eq!(values(array.view()), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        assert_eq!(values(array.t()), [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]);
        let backward = array.slice(s![..;-1, ..;-1]);
        assert_eq!(values(backward), [12.0, 11.0, 10.0, 2.0, 1.0, 0.0]);
        assert_eq!(TensorView::try_from(array.slice(s![.., ..2])), Err(TensorError::Gaps));
    }

    #[test]
    fn arrays_are_written_as_they_lie() {
        let mut array = Array2::<f32>::zeros((2, 3));
        let mut view = TensorViewMut::try_from(array.view_mut().reversed_axes()).unwrap();
        assert_eq!((view.shape(), view.strides()), (&[3, 2][..], &[1, 3][..]));
        view.bytes_mut().fill(0);
    }
}
