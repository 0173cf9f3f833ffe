//! Arrays of the host as the CPU engine takes them: views of their memory, or copies of lists.

use postlude::{DType, Error, Tensor, TensorView, TensorViewMut};

use crate::array::Array;
use crate::list::Placed;

/// A copy of an array; of a list, of all of its arrays one behind the other.
///
/// # Safety
/// The memory is there, and is not written meanwhile.
pub(crate) unsafe fn stacked(array: &Placed) -> Result<Tensor, Error> {
    if array.list.is_none() {
        // SAFETY: promised by the caller.
        return Ok(unsafe { view(array)? }.to_tensor());
    }
    let mut bytes = Vec::new();
    for item in array.apart() {
        // SAFETY: as above.
        bytes.extend_from_slice(unsafe { view(&item)? }.to_tensor().bytes());
    }
    Ok(Tensor::from_bytes(array.dtype, array.shape(), bytes)?)
}

/// # Safety
/// The memory is there, and is not written while the answer is used.
pub(crate) unsafe fn view<'a>(array: &Array) -> Result<TensorView<'a>, Error> {
    let (low, high) = array.extent();
    // SAFETY: the extent covers the elements of the array, all of which are the caller's.
    let bytes = unsafe { std::slice::from_raw_parts(start(array, low), (high - low) as usize) };
    if array.dtype == DType::B1 {
        return Ok(TensorView::from_bytes(array.dtype, array.shape(), bytes)?);
    }
    let offset = -low as usize * 8 / array.dtype.bits();
    Ok(TensorView::strided_bytes(array.dtype, array.shape(), array.strides(), offset, bytes)?)
}

/// # Safety
/// The memory is there, and nothing else uses it while the answer is used.
pub(crate) unsafe fn view_mut<'a>(array: &Array) -> Result<TensorViewMut<'a>, Error> {
    let (low, high) = array.extent();
    // SAFETY: as in `view`.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(start(array, low).cast_mut(), (high - low) as usize)
    };
    if array.dtype == DType::B1 {
        return Ok(TensorViewMut::from_bytes(array.dtype, array.shape(), bytes)?);
    }
    let offset = -low as usize * 8 / array.dtype.bits();
    Ok(TensorViewMut::strided_bytes(array.dtype, array.shape(), array.strides(), offset, bytes)?)
}

/// The first byte of an array; an array without elements may lie nowhere.
fn start(array: &Array, low: i64) -> *const u8 {
    if array.is_empty() {
        return std::ptr::NonNull::dangling().as_ptr();
    }
    std::ptr::with_exposed_provenance((array.address as i64 + low) as usize)
}

/// Copies a tensor into an array; into a list, a part into each of its arrays.
///
/// # Safety
/// The memory is there, and nothing else uses it meanwhile.
pub(crate) unsafe fn copy_back(tensor: &Tensor, array: &Placed) -> Result<(), Error> {
    if array.list.is_none() {
        // SAFETY: promised by the caller.
        unsafe { view_mut(array)? }.copy_from(tensor.view());
        return Ok(());
    }
    let bytes = tensor.bytes().len() / tensor.shape()[0];
    for (item, bytes) in array.apart().iter().zip(tensor.bytes().chunks(bytes.max(1))) {
        let from = TensorView::from_bytes(item.dtype, item.shape(), bytes)?;
        // SAFETY: as above.
        unsafe { view_mut(item)? }.copy_from(from);
    }
    Ok(())
}
