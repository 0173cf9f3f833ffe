//! Drawn data: the values of an input that nobody gave.
//!
//! In: a kind, an element type, a shape and a seed. Out: a contiguous tensor.
//! Invariant: an element depends on the kind, the seed and its place only, so it is the same on every machine and with any
//! number of threads.

use std::fmt;
use std::str::FromStr;

use postlude::dtype::{Elem, store_f32, store_i32};
use postlude::reference::claim_threads;
use postlude::{DType, Tensor, TensorError};
use rayon::prelude::*;

use crate::random::{bits_at, fingerprint_from, mix};

/// Elements drawn at a time: a multiple of eight, for normals come in pairs, special values in fours and bits in bytes.
const CHUNK: usize = 4096;

/// How the values of an input are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Fill {
    /// Standard normal.
    #[default]
    Normal,
    /// From 0 up to 1, without 1.
    Uniform,
    /// Whole numbers from -4 to 4.
    Integers,
    /// Whole numbers from 0 up to the number of labels, without it.
    Labels,
    /// All 1.
    Ones,
    /// All 0.
    Zeros,
    /// Normal, with nan, infinities, denormals, -0 and huge values sprinkled in.
    Special,
    /// Normal times 1e4.
    Large,
    /// Whole numbers that do not decrease, from 0 to the number of labels, which is the last of them: ends of segments.
    /// Every eighth segment is empty.
    Ends,
}

impl Fill {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Fill; 9] = [
        Fill::Normal,
        Fill::Uniform,
        Fill::Integers,
        Fill::Labels,
        Fill::Ones,
        Fill::Zeros,
        Fill::Special,
        Fill::Large,
        Fill::Ends,
    ];

    /// The name in cases and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Fill::Normal => "normal",
            Fill::Uniform => "uniform",
            Fill::Integers => "integers",
            Fill::Labels => "labels",
            Fill::Ones => "ones",
            Fill::Zeros => "zeros",
            Fill::Special => "special",
            Fill::Large => "large",
            Fill::Ends => "ends",
        }
    }

    /// What a condition has to be above to be true.
    const fn middle(self) -> f32 {
        match self {
            Fill::Uniform => 0.5,
            Fill::Normal | Fill::Integers | Fill::Labels | Fill::Ends => 0.0,
            Fill::Ones | Fill::Zeros | Fill::Special | Fill::Large => 0.0,
        }
    }
}

/// A name that is no kind of fill.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no kind of fill; there are normal, uniform, integers, labels, ones, zeros, special, large, ends"
)]
pub struct UnknownFill(String);

impl FromStr for Fill {
    type Err = UnknownFill;

    fn from_str(name: &str) -> Result<Fill, UnknownFill> {
        let found = Fill::ALL.into_iter().find(|fill| fill.name() == name);
        found.ok_or_else(|| UnknownFill(name.to_owned()))
    }
}

impl fmt::Display for Fill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The seed of one input's own stream.
///
/// ```
/// use postlude_corpus::seed_for;
/// assert_ne!(seed_for(7, "A"), seed_for(7, "B"));
/// assert_ne!(seed_for(7, "A"), seed_for(8, "A"));
/// ```
pub fn seed_for(seed: u64, name: &str) -> u64 {
    mix(fingerprint_from(mix(seed), name.as_bytes()))
}

/// Draws a tensor. `labels` is how many labels there are; with none every label is 0.
///
/// ```
/// use postlude::DType;
/// use postlude_corpus::{Fill, fill};
/// let tensor = fill(Fill::Labels, DType::I32, &[100], 3, 7)?;
/// assert!(tensor.values().iter().all(|label| [0.0, 1.0, 2.0].contains(label)));
/// # Ok::<(), postlude::TensorError>(())
/// ```
pub fn fill(
    kind: Fill,
    dtype: DType,
    shape: &[usize],
    labels: usize,
    seed: u64,
) -> Result<Tensor, TensorError> {
    let mut tensor = Tensor::zeros(dtype, shape)?;
    let count = tensor.len();
    if kind == Fill::Ends {
        return Tensor::from_values(dtype, shape, &draw_ends(labels, seed, count));
    }
    claim_threads();
    let chunks = tensor.bytes_mut().par_chunks_mut(dtype.bytes_for(CHUNK));
    chunks.enumerate().for_each(|(chunk, bytes)| {
        let start = chunk * CHUNK;
        let len = CHUNK.min(count - start);
        if let Some(range) = whole_numbers(kind, dtype, labels) {
            let mut values = [0; CHUNK];
            draw_whole(range, seed, start, &mut values);
            if dtype.elem() == Elem::Bool {
                values = values.map(|value| i32::from(value > 0));
            }
            store_i32(dtype, bytes, 0, &values[..len]);
        } else {
            let mut values = [0.0; CHUNK];
            draw(kind, seed, start, &mut values);
            if dtype.elem() == Elem::Bool {
                values = values.map(|value| f32::from(value > kind.middle()));
            }
            store_f32(dtype, bytes, 0, &values[..len]);
        }
    });
    Ok(tensor)
}

/// The whole numbers that are drawn, the lowest and how many, where whole ones are: all of an element of four bits.
fn whole_numbers(kind: Fill, dtype: DType, labels: usize) -> Option<(i32, usize)> {
    match (kind, dtype) {
        (Fill::Ones | Fill::Zeros, _) => None,
        (Fill::Labels | Fill::Ends, _) => Some((0, labels.clamp(1, i32::MAX as usize))),
        (_, DType::I4) => Some((-8, 16)),
        (_, DType::U4) => Some((0, 16)),
        (Fill::Integers, _) => Some((-4, 9)),
        (Fill::Normal | Fill::Uniform | Fill::Special | Fill::Large, _) => None,
    }
}

/// Ends of this many segments of rows.
fn draw_ends(rows: usize, seed: u64, count: usize) -> Vec<f64> {
    let mut ends = vec![0; count];
    draw_whole((0, rows.clamp(0, i32::MAX as usize - 1) + 1), seed, 0, &mut ends);
    ends.sort_unstable();
    for place in (7..count).step_by(8) {
        ends[place] = ends[place - 1];
    }
    ends.iter_mut().rev().take(1).for_each(|last| *last = rows as i32);
    ends.into_iter().map(f64::from).collect()
}

fn draw_whole((lowest, choices): (i32, usize), seed: u64, start: usize, values: &mut [i32]) {
    for (offset, value) in values.iter_mut().enumerate() {
        // The high half of a product with 32 random bits: as even as the choices are few.
        let bits = bits_at(seed, start + offset) >> 32;
        *value = lowest + ((bits * choices as u64) >> 32) as i32;
    }
}

fn draw(kind: Fill, seed: u64, start: usize, values: &mut [f32]) {
    match kind {
        Fill::Ones => values.fill(1.0),
        Fill::Zeros | Fill::Integers | Fill::Labels | Fill::Ends => values.fill(0.0),
        Fill::Uniform => {
            for (offset, value) in values.iter_mut().enumerate() {
                *value = (bits_at(seed, start + offset) >> 40) as f32 * 2f32.powi(-24);
            }
        }
        Fill::Normal => draw_normal(seed, start, values),
        Fill::Large => {
            draw_normal(seed, start, values);
            for value in values {
                *value *= 1e4;
            }
        }
        Fill::Special => {
            draw_normal(seed, start, values);
            sprinkle(seed, start, values);
        }
    }
}

/// Pairs of independent normals by the method of Box and Muller.
fn draw_normal(seed: u64, start: usize, values: &mut [f32]) {
    for (offset, pair) in values.chunks_mut(2).enumerate() {
        let bits = bits_at(seed, start / 2 + offset);
        let (above, below) = (bits >> 32, bits & 0xffff_ffff);
        // Never 0, whose logarithm is infinite; at most 6.7.
        let radius = libm::sqrtf(-2.0 * libm::logf((above + 1) as f32 * 2f32.powi(-32)));
        let angle = below as f32 * (std::f32::consts::TAU * 2f32.powi(-32));
        let (sine, cosine) = libm::sincosf(angle);
        for (value, turn) in pair.iter_mut().zip([cosine, sine]) {
            *value = radius * turn;
        }
    }
}

/// What makes arithmetic hard, in every element type: denormals of f32, f16 and the 8-bit floats, and what overflows them.
const SPECIAL: [f32; 16] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    -0.0,
    0.0,
    1e-45,
    -1e-40,
    6e-8,
    -1e-5,
    0.001953125,
    3e38,
    -3e38,
    1e20,
    65504.0,
    -57344.0,
    448.0,
];

/// Replaces one value of every four, each special value once in every 64: a short vector meets many of them.
fn sprinkle(seed: u64, start: usize, values: &mut [f32]) {
    let seed = mix(seed ^ 0x5eed);
    for (offset, group) in values.chunks_mut(4).enumerate() {
        let number = start / 4 + offset;
        let slot = (bits_at(seed, number) >> 62) as usize;
        // Steps of five visit all sixteen.
        let which = (seed as usize).wrapping_add(number * 5) % SPECIAL.len();
        if let Some(value) = group.get_mut(slot) {
            *value = SPECIAL[which];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(kind: Fill, dtype: DType, count: usize) -> Vec<f64> {
        fill(kind, dtype, &[count], 5, 42).unwrap().values()
    }

    #[test]
    fn names_read_back() {
        for kind in Fill::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("random".parse::<Fill>().is_err());
    }

    #[test]
    fn normal_values_have_the_moments_of_a_normal() {
        let values = values(Fill::Normal, DType::F32, 100_000);
        let moment = |power| values.iter().map(|v| v.powi(power)).sum::<f64>() / 1e5;
        assert!(moment(1).abs() < 0.01, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.1, "{}", moment(4));
        let neighbours = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / 1e5;
        assert!(neighbours.abs() < 0.01, "{neighbours}");
    }

    #[test]
    fn whole_numbers_cover_their_range_evenly() {
        let integers = values(Fill::Integers, DType::I8, 90_000);
        for whole in -4..=4 {
            let count = integers.iter().filter(|v| **v == f64::from(whole)).count();
            assert!((9_500..10_500).contains(&count), "{whole}: {count}");
        }
        let labels = values(Fill::Labels, DType::I32, 50_000);
        assert!(labels.iter().all(|label| (0.0..5.0).contains(label)));
        assert_eq!(fill(Fill::Labels, DType::I32, &[3], 0, 1).unwrap().values(), [0.0; 3]);
    }

    #[test]
    fn elements_of_four_bits_are_drawn_evenly() {
        for (dtype, lowest) in [(DType::I4, -8), (DType::U4, 0)] {
            for kind in [Fill::Normal, Fill::Uniform, Fill::Integers, Fill::Special, Fill::Large] {
                let drawn = values(kind, dtype, 32_000);
                for whole in lowest..lowest + 16 {
                    let count = drawn.iter().filter(|v| **v == f64::from(whole)).count();
                    assert!((1_800..2_200).contains(&count), "{kind} {dtype} {whole}: {count}");
                }
            }
            assert_eq!(values(Fill::Ones, dtype, 4), [1.0; 4]);
            assert_eq!(values(Fill::Zeros, dtype, 4), [0.0; 4]);
            assert!(values(Fill::Labels, dtype, 64).iter().all(|v| (0.0..5.0).contains(v)));
        }
    }

    #[test]
    fn the_first_values_are_pinned() {
        // Whoever changes these changes every benchmark and every report of a failing case.
        assert_eq!(values(Fill::Normal, DType::BF16, 4), PINNED_NORMAL);
        assert_eq!(values(Fill::Integers, DType::I32, 8), PINNED_INTEGERS);
    }

    const PINNED_NORMAL: [f64; 4] = [0.296875, 0.71484375, -0.62890625, -1.8125];
    const PINNED_INTEGERS: [f64; 8] = [2.0, -3.0, -2.0, -1.0, -4.0, 3.0, -3.0, 3.0];

    #[test]
    fn special_values_are_sprinkled() {
        let values = values(Fill::Special, DType::F32, 10_000);
        let count = |test: fn(&f64) -> bool| values.iter().filter(|value| test(value)).count();
        assert!((150..160).contains(&count(|v| v.is_nan())));
        assert!((300..320).contains(&count(|v| v.is_infinite())));
        assert!(count(|v| v.is_subnormal() || (*v as f32).is_subnormal()) > 0);
        assert!(count(|v| v.to_bits() == (-0.0f64).to_bits()) > 0);
    }

    #[test]
    fn conditions_are_split_at_the_middle() {
        for dtype in [DType::Bool, DType::B1] {
            for kind in [Fill::Normal, Fill::Uniform] {
                let truths: f64 = values(kind, dtype, 8_000).iter().sum();
                assert!((3_700.0..4_300.0).contains(&truths), "{kind} {truths}");
            }
            assert_eq!(values(Fill::Ones, dtype, 8), [1.0; 8]);
            assert_eq!(values(Fill::Zeros, dtype, 8), [0.0; 8]);
        }
    }

    #[test]
    fn chunks_do_not_show() {
        let long = values(Fill::Normal, DType::F32, 3 * CHUNK);
        let short = values(Fill::Normal, DType::F32, CHUNK + 3);
        assert_eq!(long[..short.len()], short);
        let mut sorted = long.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        assert!(sorted.len() > long.len() - 5);
    }

    #[test]
    fn empty_shapes_are_filled_too() {
        assert!(fill(Fill::Normal, DType::F32, &[0, 4], 0, 1).unwrap().is_empty());
        assert_eq!(fill(Fill::Ones, DType::F32, &[], 0, 1).unwrap().values(), [1.0]);
    }
}
