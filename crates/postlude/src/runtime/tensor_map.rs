//! What a tensor map has to be, checked before the driver sees it.
//!
//! The rules are the driver's (CUDA Driver API, `cuTensorMapEncodeTiled`); its own answer is "invalid value" for all.

use postlude_ptx::launch::{Swizzle, TensorMap};

use crate::runtime::error::RuntimeError;

/// The most dims of a map.
pub const MAX_DIMS: usize = 5;
/// What the start and the strides of a mapped tensor are multiples of, in bytes.
pub const ALIGNMENT: u64 = 16;
/// The most elements of a box along one dim.
const MAX_BOX: u32 = 256;
/// Sizes go up to this.
const MAX_SIZE: u64 = 1 << 32;
/// Strides are below this.
const STRIDE_LIMIT: u64 = 1 << 40;

/// The address at which the map's tensor starts in a buffer at `address`, if a map of it can be.
///
/// ```
/// use postlude::runtime::tensor_map;
/// use postlude_ptx::launch::{Buffer, Element, Swizzle, TensorMap};
/// let map = TensorMap {
///     buffer: Buffer(0),
///     offset: 0,
///     element: Element::BF16,
///     sizes: vec![100, 3],
///     strides: vec![200],
///     box_sizes: vec![64, 1],
///     swizzle: Swizzle::B128,
/// };
/// let error = tensor_map::validate(&map, 4096).unwrap_err();
/// assert_eq!(error.fix().unwrap(), "pad the rows to a multiple of 16 bytes");
/// ```
pub fn validate(map: &TensorMap, address: u64) -> Result<u64, RuntimeError> {
    let dims = map.sizes.len();
    if !(1..=MAX_DIMS).contains(&dims) {
        return Err(RuntimeError::MapRank { dims });
    }
    let (strides, boxes) = (map.strides.len(), map.box_sizes.len());
    if strides != dims - 1 || boxes != dims {
        return Err(RuntimeError::MapLengths { dims, strides, boxes });
    }
    let start = address.wrapping_add_signed(map.offset);
    if start == 0 || !start.is_multiple_of(ALIGNMENT) {
        return Err(RuntimeError::MapAddress { address: start, alignment: ALIGNMENT });
    }
    for (dim, size) in map.sizes.iter().copied().enumerate() {
        if !(1..=MAX_SIZE).contains(&size) {
            return Err(RuntimeError::MapSize { dim, size });
        }
    }
    for (place, stride) in map.strides.iter().copied().enumerate() {
        if !stride.is_multiple_of(ALIGNMENT) || stride >= STRIDE_LIMIT {
            return Err(RuntimeError::MapStride { dim: place + 1, stride });
        }
    }
    for (dim, size) in map.box_sizes.iter().copied().enumerate() {
        if !(1..=MAX_BOX).contains(&size) {
            return Err(RuntimeError::MapBox { dim, size });
        }
    }
    validate_row(map)?;
    Ok(start)
}

/// A row of the box is whole 16-byte chunks and no wider than what is swizzled.
fn validate_row(map: &TensorMap) -> Result<(), RuntimeError> {
    let bytes = u64::from(map.box_sizes[0]) * u64::from(map.element.bytes());
    if !bytes.is_multiple_of(ALIGNMENT) {
        return Err(RuntimeError::MapRow { bytes });
    }
    let swizzle = match map.swizzle {
        Swizzle::None => return Ok(()),
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        Swizzle::B128 => 128,
    };
    if bytes > swizzle {
        return Err(RuntimeError::MapSwizzle { bytes, swizzle });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use postlude_ptx::launch::{Buffer, Element};

    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            buffer: Buffer(0),
            offset: 64,
            element: Element::BF16,
            sizes: vec![4096, 128, 3],
            strides: vec![8192, 1 << 20],
            box_sizes: vec![64, 128, 1],
            swizzle: Swizzle::B128,
        }
    }

    fn refused(change: impl FnOnce(&mut TensorMap)) -> RuntimeError {
        let mut map = map();
        change(&mut map);
        validate(&map, 1 << 30).unwrap_err()
    }

    #[test]
    fn the_start_is_the_buffers_plus_the_offset() {
        assert_eq!(validate(&map(), 1 << 30), Ok((1 << 30) + 64));
    }

    #[test]
    fn alignment_is_refused_in_the_users_words() {
        assert!(matches!(refused(|m| m.offset = 8), RuntimeError::MapAddress { .. }));
        let error = refused(|m| m.strides[0] = 8190);
        assert_eq!(error, RuntimeError::MapStride { dim: 1, stride: 8190 });
        assert!(error.fix().is_some());
        assert!(matches!(refused(|m| m.strides[1] = 1 << 40), RuntimeError::MapStride { .. }));
        assert!(matches!(validate(&map(), (1 << 30) + 2), Err(RuntimeError::MapAddress { .. })));
    }

    #[test]
    fn a_dim_of_zero_is_refused() {
        let error = RuntimeError::MapSize { dim: 2, size: 0 };
        assert_eq!(refused(|m| m.sizes[2] = 0), error);
        assert!(matches!(refused(|m| m.sizes[0] = MAX_SIZE + 1), RuntimeError::MapSize { .. }));
    }

    #[test]
    fn boxes_have_limits() {
        assert!(matches!(refused(|m| m.box_sizes[1] = 257), RuntimeError::MapBox { dim: 1, .. }));
        assert!(matches!(refused(|m| m.box_sizes[1] = 0), RuntimeError::MapBox { .. }));
        assert_eq!(refused(|m| m.box_sizes[0] = 4), RuntimeError::MapRow { bytes: 8 });
        let error = RuntimeError::MapSwizzle { bytes: 256, swizzle: 128 };
        assert_eq!(refused(|m| m.box_sizes[0] = 128), error);
        assert!(matches!(refused(|m| m.swizzle = Swizzle::B32), RuntimeError::MapSwizzle { .. }));
    }

    #[test]
    fn lengths_agree() {
        assert!(matches!(refused(|m| m.sizes.clear()), RuntimeError::MapRank { dims: 0 }));
        assert!(matches!(refused(|m| m.sizes = vec![1; 6]), RuntimeError::MapRank { dims: 6 }));
        assert!(matches!(refused(|m| m.strides.clear()), RuntimeError::MapLengths { .. }));
    }
}
