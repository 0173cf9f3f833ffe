//! Tensor maps as the copy engine reads them.

use std::ffi::c_int;

use postlude_ptx::launch::{Element, Swizzle, TensorMap};

use super::context::Context;
use super::table::EncodedMap;
use crate::runtime::error::RuntimeError;
use crate::runtime::tensor_map::{self, MAX_DIMS};

/// `CU_TENSOR_MAP_INTERLEAVE_NONE`
const NO_INTERLEAVE: c_int = 0;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`: with 256 bytes, tiles whose rows begin between two lines took up to 1.2 times as
/// long on an H200, and none took less.
const PROMOTE_128: c_int = 2;
/// `CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE`: zeros outside the tensor.
const ZEROS_OUTSIDE: c_int = 0;

/// Encodes a map for a tensor at `address`, which is the buffer's start; nothing is allocated.
pub(crate) fn encode(
    context: &Context,
    map: &TensorMap,
    address: u64,
) -> Result<[u8; 128], RuntimeError> {
    let start = tensor_map::validate(map, address)?;
    let rank = map.sizes.len();
    let (mut strides, steps) = ([0u64; MAX_DIMS], [1u32; MAX_DIMS]);
    strides[..rank - 1].copy_from_slice(&map.strides);
    let mut encoded = EncodedMap([0; 128]);
    // The driver wants a current context even though it only looks at numbers.
    let entered = context.enter()?;
    // SAFETY: `validate` has seen that there are `rank` sizes and box sizes and `rank - 1` strides; writes 128 bytes
    // aligned to 64, and only looks at the address as a number.
    let code = unsafe {
        (entered.table().map_encode)(
            &raw mut encoded,
            element(map.element),
            rank as u32,
            start,
            map.sizes.as_ptr(),
            strides.as_ptr(),
            map.box_sizes.as_ptr(),
            steps.as_ptr(),
            NO_INTERLEAVE,
            swizzle(map.swizzle),
            PROMOTE_128,
            ZEROS_OUTSIDE,
        )
    };
    entered.check("cuTensorMapEncodeTiled", code)?;
    Ok(encoded.0)
}

/// `CUtensorMapDataType`
const fn element(element: Element) -> c_int {
    match element {
        Element::U8 => 0,
        Element::U16 => 1,
        Element::I32 => 3,
        Element::F16 => 6,
        Element::F32 => 7,
        Element::BF16 => 9,
    }
}

/// `CUtensorMapSwizzle`
const fn swizzle(swizzle: Swizzle) -> c_int {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    }
}
