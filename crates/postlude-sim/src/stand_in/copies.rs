//! Where the bytes of matrices and boxes lie.

use postlude_ptx::launch::{Swizzle, TensorMap};

fn width(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 16,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        Swizzle::B128 => 128,
    }
}

/// The address of a byte under a swizzle.
pub(crate) fn swizzled(address: u32, swizzle: Swizzle) -> u32 {
    let chunks = width(swizzle) / 16 - 1;
    address ^ ((address >> 7 & chunks) << 4)
}

/// The address of an element of a matrix: `row` along M or N, `k` along K.
pub(crate) fn element(descriptor: u64, transposed: bool, bytes: u32, row: u32, k: u32) -> u32 {
    let field = |low: u32| (descriptor >> low & 0x3fff) as u32 * 16;
    let (start, leading, stride) = (field(0), field(16), field(32));
    let swizzle = match descriptor >> 62 {
        0 => Swizzle::None,
        1 => Swizzle::B128,
        2 => Swizzle::B64,
        _ => Swizzle::B32,
    };
    let width = width(swizzle);
    let (along, across) = if transposed { (row * bytes, k) } else { (k * bytes, row) };
    let (next_along, next_across) = match (transposed, swizzle) {
        (true, Swizzle::None) => (stride, leading),
        (false, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => (width, stride),
        (false, Swizzle::None) | (true, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => {
            (leading, stride)
        }
    };
    let linear = start
        + along / width * next_along
        + along % width
        + across / 8 * next_across
        + across % 8 * width;
    swizzled(linear, swizzle)
}

/// Bytes of a box's row: where in the buffer, where from the box's start before the swizzle, and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    pub(crate) global: Option<u64>,
    pub(crate) shared: u32,
    pub(crate) bytes: u32,
}

/// All runs of a box, element by element.
pub(crate) fn runs(map: &TensorMap, corner: &[i32]) -> Vec<Run> {
    let bytes = map.element.bytes();
    let pitch = match map.swizzle {
        Swizzle::None => map.box_sizes[0] * bytes,
        other => (map.box_sizes[0] * bytes).max(width(other)),
    };
    let rows: u32 = map.box_sizes[1..].iter().product();
    let mut runs = Vec::new();
    for row in 0..rows {
        let (mut rest, mut at, mut inside) = (row, map.offset as i64, true);
        for dim in 1..map.sizes.len() {
            let place = i64::from(corner[dim]) + i64::from(rest % map.box_sizes[dim]);
            rest /= map.box_sizes[dim];
            inside &= (0..map.sizes[dim] as i64).contains(&place);
            at += place * map.strides[dim - 1] as i64;
        }
        for column in 0..map.box_sizes[0] {
            let place = i64::from(corner[0]) + i64::from(column);
            let here = inside && (0..map.sizes[0] as i64).contains(&place);
            let global = here.then_some((at + place * i64::from(bytes)) as u64);
            runs.push(Run { global, shared: row * pitch + column * bytes, bytes });
        }
    }
    runs
}
