//! Blocks of eight rows by eight columns, exchanged in registers.
//!
//! In: eight rows of eight values. Out: the same values column by column.
//! Reading rows and writing columns one value at a time takes many times as long as reading them from memory.

#[cfg(target_arch = "x86_64")]
use super::vector::prefetch;

/// Rows and columns of a block.
pub(super) const BLOCK: usize = 8;

/// Writes the block's columns as lines of `to`, `width` values apart.
pub(super) fn transpose(block: &[[f32; BLOCK]; BLOCK], to: &mut [f32], width: usize) {
    assert!(to.len() >= (BLOCK - 1) * width + BLOCK, "compiler bug: a block outside its panel");
    #[cfg(target_arch = "x86_64")]
    if crate::functions::Level::best() != crate::functions::Level::Portable {
        // SAFETY: every level but the portable one has AVX2; the lines lie in `to`, as was just checked.
        unsafe { transpose_avx2(block.each_ref().map(|row| row.as_ptr()), to.as_mut_ptr(), width) };
        return;
    }
    for (column, line) in to.chunks_mut(width).take(BLOCK).enumerate() {
        for (value, row) in line.iter_mut().zip(block) {
            *value = row[column];
        }
    }
}

/// How far ahead of a block its rows are asked for, in bytes.
pub(super) const AHEAD: usize = 1024;

/// Eight rows of f32 as a machine stores them, `stride` values apart, as `depth` lines of `to`, `width` values apart;
/// `depth` is a multiple of [`BLOCK`].
pub(super) fn transpose_stored(
    bytes: &[u8],
    stride: usize,
    depth: usize,
    to: &mut [f32],
    width: usize,
) {
    const VALUE: usize = size_of::<f32>();
    let held = bytes.len() / VALUE;
    assert!(
        depth.is_multiple_of(BLOCK)
            && (BLOCK - 1) * stride + depth <= held
            && depth.saturating_sub(1) * width + BLOCK <= to.len(),
        "compiler bug: a block outside its matrix"
    );
    for column in (0..depth).step_by(BLOCK) {
        #[cfg(target_arch = "x86_64")]
        if crate::functions::Level::best() != crate::functions::Level::Portable {
            let rows: [*const f32; BLOCK] =
                std::array::from_fn(|row| bytes[(row * stride + column) * VALUE..].as_ptr().cast());
            for row in rows {
                prefetch(row.wrapping_byte_add(AHEAD));
            }
            // SAFETY: every level but the portable one has AVX2; rows and lines lie in their memory, as was checked.
            unsafe { transpose_avx2(rows, to[column * width..].as_mut_ptr(), width) };
            continue;
        }
        let block = std::array::from_fn(|row| {
            std::array::from_fn(|place| {
                let at = (row * stride + column + place) * VALUE;
                f32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]))
            })
        });
        transpose(&block, &mut to[column * width..], width);
    }
}

/// Safety: the CPU has AVX2, each row is valid for `BLOCK` values, aligned or not, and `to` for `BLOCK` lines of `BLOCK`
/// values that are `width` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn transpose_avx2(rows: [*const f32; BLOCK], to: *mut f32, width: usize) {
    // SAFETY: the caller vouches for eight values in each row.
    let columns = unsafe { columns_avx2(rows) };
    for (place, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller vouches for eight lines of eight values.
        unsafe { std::arch::x86_64::_mm256_storeu_ps(to.add(place * width), column) };
    }
}

/// The columns of a block, each in a register.
///
/// Safety: the CPU has AVX2, and each row is valid for `BLOCK` values, aligned or not.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn columns_avx2(rows: [*const f32; BLOCK]) -> [std::arch::x86_64::__m256; BLOCK] {
    use std::arch::x86_64::{
        __m256, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_unpackhi_ps,
        _mm256_unpacklo_ps,
    };
    // SAFETY: the caller vouches for eight values in each row.
    let row = |place: usize| unsafe { _mm256_loadu_ps(rows[place]) };
    // Pairs of rows, value by value.
    let pair = |first: usize| {
        let (a, b) = (row(first), row(first + 1));
        [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)]
    };
    // Four rows: a column of four in each half of a register.
    let four = |[low_a, high_a]: [__m256; 2], [low_b, high_b]: [__m256; 2]| {
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(low_a, low_b),
            _mm256_shuffle_ps::<0b11_10_11_10>(low_a, low_b),
            _mm256_shuffle_ps::<0b01_00_01_00>(high_a, high_b),
            _mm256_shuffle_ps::<0b11_10_11_10>(high_a, high_b),
        ]
    };
    let (upper, lower) = (four(pair(0), pair(2)), four(pair(4), pair(6)));
    let left = |place: usize| _mm256_permute2f128_ps::<0x20>(upper[place], lower[place]);
    let right = |place: usize| _mm256_permute2f128_ps::<0x31>(upper[place], lower[place]);
    [left(0), left(1), left(2), left(3), right(0), right(1), right(2), right(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_rows_become_lines() {
        let stored: Vec<u8> = (0..7 * 20 + 16).flat_map(|at| (at as f32).to_le_bytes()).collect();
        // One byte further on, where no f32 is aligned.
        for shift in [0, 1] {
            let bytes = [vec![0; shift], stored.clone()].concat();
            let mut lines = vec![-1.0; 16 * 9];
            transpose_stored(&bytes[shift..], 20, 16, &mut lines, 9);
            for (column, line) in lines.chunks(9).enumerate() {
                for (row, value) in line[..8].iter().enumerate() {
                    assert_eq!(*value, (row * 20 + column) as f32);
                }
                assert_eq!(line[8], -1.0);
            }
        }
    }

    #[test]
    fn columns_become_lines_and_nothing_else_is_written() {
        let block =
            std::array::from_fn(|row| std::array::from_fn(|column| (row * 10 + column) as f32));
        let mut lines = vec![-1.0; 8 * 11];
        transpose(&block, &mut lines[..7 * 11 + 8], 11);
        for (column, line) in lines.chunks(11).enumerate() {
            for (row, value) in line[..8].iter().enumerate() {
                assert_eq!(*value, (row * 10 + column) as f32);
            }
            assert_eq!(line[8..], [-1.0; 3]);
        }
    }
}
