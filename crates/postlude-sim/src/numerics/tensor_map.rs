//! The bytes of one box of a tensor map: which of them are in memory, and where each lies in shared memory.
//!
//! In: a map and the coordinates of a box, innermost first, of any sign. Out: runs of bytes along the innermost dim.
//! Shared offsets count from the box's start and know nothing of the swizzle; [`pieces`] applies it.
//!
//! Sources: PTX ISA, "Tensors", "Tiled Mode" and "Bounds"; the store's rule was measured on an H200. Invariants: loads
//! cover every byte of the box exactly once; what is outside is zero. Stores touch no byte of rows that are outside.

use postlude_ptx::launch::TensorMap;

use super::swizzle::{Swizzle, swizzled, width};

/// The unit in which copies move rows.
pub const CHUNK: u32 = 16;

/// Neighbouring bytes of a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Bytes from the buffer's start; none where the tensor has no such elements.
    pub global: Option<u64>,
    /// Bytes from the box's start in shared memory, before the swizzle.
    pub shared: u32,
    /// How many.
    pub bytes: u32,
}

/// Neighbouring bytes that a copy out of shared memory writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes from the buffer's start.
    pub global: u64,
    /// Bytes from the box's start in shared memory, before the swizzle.
    pub shared: u32,
    /// How many, all told.
    pub bytes: u32,
    /// How many of them, at the end, lie beyond the tensor's row: a copy writes whole chunks, so that a row whose
    /// length is no multiple of [`CHUNK`] bytes loses what follows it. A finding.
    pub beyond: u32,
}

/// Bytes that one copy moves, and that its barrier counts: the whole box, also what is outside the tensor.
pub fn box_bytes(map: &TensorMap) -> u32 {
    map.box_sizes.iter().product::<u32>() * map.element.bytes()
}

/// Bytes from one row of the box to the next in shared memory: rows narrower than the swizzle are padded to it (CUDA
/// Programming Guide, "Swizzle").
pub fn row_pitch(map: &TensorMap) -> u32 {
    let bytes = map.box_sizes[0] * map.element.bytes();
    match map.swizzle {
        Swizzle::None => bytes,
        Swizzle::B32 | Swizzle::B64 | Swizzle::B128 => bytes.max(width(map.swizzle)),
    }
}

/// A row of the box: its place in shared memory, and where the tensor's row starts if there is one.
struct Row {
    global: Option<i64>,
    shared: u32,
}

fn rows<'m>(map: &'m TensorMap, coordinates: &'m [i32]) -> impl Iterator<Item = Row> + 'm {
    let dims = map.sizes.len();
    assert!((1..=5).contains(&dims), "a tensor map has 1 to 5 dims, not {dims}");
    assert_eq!(coordinates.len(), dims, "a coordinate for each dim");
    assert_eq!(map.strides.len() + 1, dims, "a stride for each dim but the innermost");
    let (pitch, count) = (row_pitch(map), map.box_sizes[1..].iter().product::<u32>());
    (0..count).map(move |row| {
        let (mut rest, mut at, mut inside) = (row, map.offset, true);
        for (dim, first) in coordinates.iter().enumerate().skip(1) {
            let coordinate = i64::from(*first) + i64::from(rest % map.box_sizes[dim]);
            rest /= map.box_sizes[dim];
            inside &= (0..map.sizes[dim] as i64).contains(&coordinate);
            at += coordinate * map.strides[dim - 1] as i64;
        }
        Row { global: inside.then_some(at), shared: row * pitch }
    })
}

/// The elements of a box's row that the tensor has: their first and last but one, counted from the box.
fn columns(map: &TensorMap, coordinates: &[i32]) -> (i64, i64) {
    let (first, length) = (i64::from(coordinates[0]), i64::from(map.box_sizes[0]));
    let from = (-first).clamp(0, length);
    let to = (map.sizes[0] as i64 - first).clamp(from, length);
    (from, to)
}

/// What a copy into shared memory writes there, in the order of the box.
pub fn loaded(map: &TensorMap, coordinates: &[i32]) -> Vec<Run> {
    let bytes = i64::from(map.element.bytes());
    let length = i64::from(map.box_sizes[0]);
    let (from, to) = columns(map, coordinates);
    let mut runs = Vec::new();
    for row in rows(map, coordinates) {
        let mut push = |from: i64, to: i64, global: Option<i64>| {
            if from < to {
                let shared = row.shared + (from * bytes) as u32;
                let global = global.map(|row| row + (i64::from(coordinates[0]) + from) * bytes);
                let global = global.map(|at| at as u64);
                runs.push(Run { global, shared, bytes: ((to - from) * bytes) as u32 });
            }
        };
        if row.global.is_some() {
            push(0, from, None);
            push(from, to, row.global);
            push(to, length, None);
        } else {
            push(0, length, None);
        }
    }
    runs
}

/// What a copy out of shared memory writes, in the order of the box.
pub fn stored(map: &TensorMap, coordinates: &[i32]) -> Vec<Written> {
    let bytes = i64::from(map.element.bytes());
    let (from, to) = columns(map, coordinates);
    if from == to {
        return Vec::new();
    }
    let (start, end) = (from * bytes, to * bytes);
    // The chunk of the last element is written to its end, which the box has: its rows are whole chunks.
    let whole = (end as u64).next_multiple_of(u64::from(CHUNK)) as i64;
    let whole = whole.min(i64::from(map.box_sizes[0]) * bytes);
    let written = |row: Row| {
        let global = row.global? + i64::from(coordinates[0]) * bytes + start;
        Some(Written {
            global: global as u64,
            shared: row.shared + start as u32,
            bytes: (whole - start) as u32,
            beyond: (whole - end) as u32,
        })
    };
    rows(map, coordinates).filter_map(written).collect()
}

/// Cuts a run into pieces that stay together under the swizzle: for each, bytes from the run's start, shared address
/// and length. `address` is the box's in shared memory.
pub fn pieces(
    address: u32,
    swizzle: Swizzle,
    shared: u32,
    bytes: u32,
) -> impl Iterator<Item = (u32, u32, u32)> {
    let start = address + shared;
    let end = start + bytes;
    let chunks = start / CHUNK..end.div_ceil(CHUNK);
    chunks.map(move |chunk| {
        let (from, to) = (start.max(chunk * CHUNK), end.min((chunk + 1) * CHUNK));
        (from - start, swizzled(from, swizzle), to - from)
    })
}

#[cfg(test)]
mod tests;
