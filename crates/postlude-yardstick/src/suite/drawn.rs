//! Aligned products of random sizes.
//!
//! In: a seed. Out: rows. Each of M, N and K is log-uniform and a multiple of 8; a draw with too much to compute or to keep
//! is thrown away. Invariant: the same seed gives the same rows.

use std::ops::RangeInclusive;

use crate::effort::Effort;
use crate::layout::Layout;
use crate::shuffle::Shuffler;
use crate::suite::Row;

/// The seed when nobody gives one.
pub const SEED: u64 = 60;
/// How many there are.
const COUNT: usize = 60;
/// What M, N and K may be.
const SIZES: RangeInclusive<usize> = 64..=16384;
/// 16 bytes of a 16-bit type.
const MULTIPLE: usize = 8;
/// As many as P1 has: a launch takes less than 2 ms.
const MOST_OPERATIONS: f64 = 2.0 * 8192.0 * 8192.0 * 8192.0;
/// Bytes of all matrices together.
const MOST_BYTES: usize = 1 << 30;

/// The rows of a seed.
pub(super) fn rows(seed: u64) -> Vec<Row> {
    let mut shuffler = Shuffler::new(seed);
    let draws = std::iter::repeat_with(|| [(); 3].map(|()| size(&mut shuffler)));
    draws
        .map(|sizes| Row::plain("", sizes, Layout::Tn))
        .filter(|row| row.operations() <= MOST_OPERATIONS && bytes(row) <= MOST_BYTES)
        .take(COUNT)
        .zip(1..)
        .map(|(row, number)| Row { name: format!("R{number:02}"), effort: Effort::Brief, ..row })
        .collect()
}

/// One size: its logarithm is uniform.
fn size(shuffler: &mut Shuffler) -> usize {
    let [low, high] = [SIZES.start(), SIZES.end()].map(|size| (*size as f64).ln());
    // 53 bits, all that a fraction holds.
    let part = (shuffler.bits() >> 11) as f64 / (1u64 << 53) as f64;
    let size = (low + part * (high - low)).exp();
    let multiples = (size / MULTIPLE as f64).round() as usize;
    (MULTIPLE * multiples).clamp(*SIZES.start(), *SIZES.end())
}

fn bytes(row: &Row) -> usize {
    let [m, n, k] = row.sizes;
    row.dtype.bytes_for(m * k + n * k) + row.result.bytes_for(m * n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_aligned_bounded_and_as_many_small_as_large() {
        let rows = rows(SEED);
        assert_eq!(rows.len(), COUNT);
        let mut small = 0;
        for row in &rows {
            assert!(row.sizes.iter().all(|size| size % 8 == 0 && SIZES.contains(size)), "{row:?}");
            assert!(row.operations() <= MOST_OPERATIONS && bytes(row) <= MOST_BYTES, "{row:?}");
            // The middle of the logarithms.
            small += row.sizes.iter().filter(|size| **size < 1024).count();
        }
        // Large ones are thrown away more often.
        assert!((70..140).contains(&small), "{small} of {}", 3 * COUNT);
    }

    #[test]
    fn a_seed_says_everything() {
        assert_eq!(rows(1), rows(1));
        assert_ne!(rows(1), rows(2));
    }

    /// At half the usual rate, fifty launches of each leave room for everything else within a minute.
    #[test]
    fn all_of_them_together_take_little_of_a_minute() {
        let operations: f64 = rows(SEED).iter().map(Row::operations).sum();
        assert!(50.0 * operations / 3e14 < 20.0, "{operations:e}");
    }
}
