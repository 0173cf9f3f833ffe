//! Elements and strides of tensor maps.

use postlude_ptx::launch::Element;

use crate::dtype::DType;

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
        DType::B1 => panic!("compiler bug: a tensor map of {dtype}"),
    }
}

/// Strides of a map in bytes. A dim of one element is never stepped along, whatever its stride; the map still wants one
/// that it could step by.
pub(super) fn map_strides(dtype: DType, strides: [isize; 2], sizes: [usize; 3]) -> Vec<u64> {
    let bytes = dtype.bits() as u64 / 8;
    let mut least = (sizes[0] as u64 * bytes).next_multiple_of(16);
    let mut result = Vec::new();
    for (stride, size) in strides.into_iter().zip(&sizes[1..]) {
        let stride = if *size > 1 && stride > 0 { stride as u64 * bytes } else { least };
        result.push(stride);
        least = stride * *size as u64;
    }
    result
}
