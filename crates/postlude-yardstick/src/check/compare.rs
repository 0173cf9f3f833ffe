//! Two results of the same inputs, element by element.

use postlude::runtime::Stream;
use postlude::{DType, dtype};

use super::{CHUNK_BYTES, sums};
use crate::cublaslt::Epilogue;
use crate::data::Placed;
use crate::error::YardstickError;
use crate::shuffle::Shuffler;
use crate::suite::Row;

/// Bytes that are compared at once where all of them are the same.
const PIECE_BYTES: usize = 1 << 12;
/// Roundings that a sum of ours goes through at most, one after the other (docs/numerics.md, "Reductions").
const CHAIN: f64 = 4096.0;

/// How far two right results of the same inputs may be apart: `absolute + relative * size + 2 ulp`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    absolute: f64,
    relative: f64,
    dtype: DType,
}

impl Tolerance {
    /// For results of a row in its result's dtype that end in an epilogue, with a product multiplied by `alpha`.
    ///
    /// Products differ by what `sums` allows. Relu does not stretch a difference, gelu and its derivative by less than
    /// 1.13. The library's tanh is the hardware's, whose error of 2^-11 is multiplied by half the argument, and in the
    /// derivative by less than 3.
    pub fn of(row: &Row, epilogue: Epilogue, alpha: f64) -> Tolerance {
        let (sums, largest) = sums(row, alpha);
        let absolute = match epilogue {
            Epilogue::BiasGelu | Epilogue::BiasGeluAux => {
                1.13 * sums + (largest + 8.0) * f64::exp2(-12.0)
            }
            Epilogue::GeluGradient => 1.13 * sums + 3.0 * largest * f64::exp2(-11.0),
            Epilogue::Plain | Epilogue::Bias | Epilogue::BiasRelu => sums,
        };
        Tolerance { absolute, relative: 0.0, dtype: row.result }
    }

    /// For the sums of this many elements of which each is allowed this: errors of either sign, an eighth of the bound on
    /// the mean, add up to eight deviations; so do the roundings of two chains.
    pub fn summed(self, terms: usize) -> Tolerance {
        let absolute = self.absolute * (terms as f64).sqrt();
        let relative = 2.0 * 8.0 * CHAIN.sqrt() * f64::exp2(-24.0);
        Tolerance { absolute, relative, ..self }
    }

    /// For an output of a row by two schedules of ours. No number that is drawn is larger than 8; what is not a tile folds
    /// at most all elements.
    pub fn between_schedules(row: &Row, output: &Placed) -> Tolerance {
        let (sums, _) = sums(row, row.operand_scale());
        let tile = Tolerance { absolute: 8.0 * sums, relative: 0.0, dtype: output.dtype };
        let [m, n, _] = row.sizes;
        if output.shape.len() > 1 { tile } else { tile.summed(m * n) }
    }

    /// Whether two results agree; results that are not numbers never do.
    pub fn allows(&self, one: f64, other: f64) -> bool {
        let size = one.abs().max(other.abs());
        (one - other).abs() <= self.absolute + self.relative * size + 2.0 * ulp(self.dtype, size)
    }
}

/// The distance of neighbours in a dtype at this magnitude; integers are not rounded.
fn ulp(dtype: DType, size: f64) -> f64 {
    let (fraction, smallest) = match dtype {
        DType::BF16 => (7, -126),
        DType::F16 => (10, -14),
        DType::TF32 => (10, -126),
        DType::F8E4M3 => (3, -6),
        DType::F8E5M2 => (2, -14),
        DType::F8E8M0 => (0, -127),
        DType::F32 => (23, -126),
        DType::I8 | DType::U8 | DType::I4 | DType::U4 => return 0.0,
        DType::I32 | DType::I64 | DType::Bool | DType::B1 => return 0.0,
    };
    let exponent = if size > 0.0 { size.log2().floor() as i32 } else { smallest };
    f64::from(exponent.max(smallest) - fraction).exp2()
}

/// What a comparison of two results found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Differences {
    /// Elements that were looked at.
    pub compared: usize,
    /// Those that differ at all.
    pub different: usize,
    /// Those that differ by more than the tolerance, or are not numbers.
    pub wrong: usize,
    /// The largest difference.
    pub largest: f64,
}

impl Differences {
    /// Takes two elements in.
    fn add(&mut self, one: f64, other: f64, tolerance: &Tolerance) {
        self.compared += 1;
        if one == other {
            return;
        }
        self.different += 1;
        self.largest = self.largest.max((one - other).abs());
        self.wrong += usize::from(!tolerance.allows(one, other));
    }

    /// Takes another comparison in.
    pub fn join(&mut self, other: &Differences) {
        self.compared += other.compared;
        self.different += other.different;
        self.wrong += other.wrong;
        self.largest = self.largest.max(other.largest);
    }
}

/// How much of two results is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Every element; of a result beyond 512 MiB as much, the first and the last bytes among it.
    Whole,
    /// Some chunks, the first and the last among them.
    Sample,
}

/// Compares a tensor in two sets, element by element.
pub fn compare(
    placed: &Placed,
    sets: [usize; 2],
    tolerance: &Tolerance,
    extent: Extent,
    stream: &Stream,
) -> Result<Differences, YardstickError> {
    let total = placed.bytes() as usize;
    let (chunk_bytes, count) = match extent {
        Extent::Whole => (CHUNK_BYTES, 16),
        Extent::Sample => (1 << 20, 8),
    };
    let chunks = total.div_ceil(chunk_bytes);
    let mut found = Differences::default();
    let mut bytes = [vec![0; chunk_bytes], vec![0; chunk_bytes]];
    for chunk in Shuffler::new(2).sample(count, chunks) {
        let start = chunk * chunk_bytes;
        let length = chunk_bytes.min(total - start);
        for (set, bytes) in sets.into_iter().zip(&mut bytes) {
            placed.buffer(set).read(stream, start as u64, &mut bytes[..length])?;
        }
        compare_bytes(&bytes[0][..length], &bytes[1][..length], tolerance, &mut found);
    }
    Ok(found)
}

/// Compares a tensor in a set with the same elements in another dtype, the tolerance's.
pub fn compare_with(
    placed: &Placed,
    set: usize,
    other: &[u8],
    tolerance: &Tolerance,
    stream: &Stream,
) -> Result<Differences, YardstickError> {
    let mut bytes = vec![0; placed.bytes() as usize];
    placed.buffer(set).read(stream, 0, &mut bytes)?;
    let mut found = Differences::default();
    for place in 0..placed.shape.iter().product() {
        let one = dtype::load(placed.dtype, &bytes, place);
        found.add(one, dtype::load(tolerance.dtype, other, place), tolerance);
    }
    Ok(found)
}

/// The same for bytes on the host.
fn compare_bytes(one: &[u8], other: &[u8], tolerance: &Tolerance, found: &mut Differences) {
    let pieces = one.chunks(PIECE_BYTES).zip(other.chunks(PIECE_BYTES));
    for (one, other) in pieces {
        if one == other && are_numbers(tolerance.dtype, one) {
            found.compared += one.len() / tolerance.dtype.bytes_for(1);
        } else {
            compare_elements(one, other, tolerance, found);
        }
    }
}

/// Whether all elements are numbers, as far as it is quick to tell: what is not has all ones above its fraction.
fn are_numbers(dtype: DType, bytes: &[u8]) -> bool {
    let halves = |infinity: u16| {
        let count =
            |two: &[u8]| u32::from(u16::from_le_bytes([two[0], two[1]]) & 0x7fff > infinity);
        bytes.chunks_exact(2).map(count).sum::<u32>() == 0
    };
    match dtype {
        DType::BF16 => halves(0x7f80),
        DType::F16 => halves(0x7c00),
        DType::I8 | DType::U8 | DType::I4 | DType::U4 => true,
        DType::I32 | DType::I64 | DType::Bool | DType::B1 => true,
        // Looked at one by one.
        DType::F32 | DType::TF32 | DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 => false,
    }
}

fn compare_elements(one: &[u8], other: &[u8], tolerance: &Tolerance, found: &mut Differences) {
    let width = tolerance.dtype.bytes_for(1);
    for (a, b) in one.chunks_exact(width).zip(other.chunks_exact(width)) {
        let [a, b] = [a, b].map(|bytes| dtype::load(tolerance.dtype, bytes, 0));
        found.add(a, b, tolerance);
    }
}

#[cfg(test)]
mod tests {
    use postlude::MathMode;

    use super::*;
    use crate::suite::{SEED, Suite};

    fn differences(one: [u16; 3], other: [u16; 3]) -> Differences {
        let tolerance = Tolerance { absolute: 0.0, relative: 0.0, dtype: DType::BF16 };
        let [one, other] = [one, other].map(|all| all.map(u16::to_le_bytes).concat());
        let mut found = Differences::default();
        compare_bytes(&one, &other, &tolerance, &mut found);
        found
    }

    #[test]
    fn neighbours_agree_and_others_do_not() {
        let found = differences([0x3f80, 0x3f80, 0x3f80], [0x3f80, 0x3f82, 0x3f83]);
        assert_eq!((found.compared, found.different, found.wrong), (3, 2, 1));
    }

    #[test]
    fn poison_that_nobody_overwrote_is_wrong_even_where_both_have_it() {
        let found = differences([0xffff, 0, 0], [0xffff, 0xffff, 0]);
        assert_eq!((found.different, found.wrong), (2, 2));
    }

    /// A piece of equal numbers is not looked into; a nan in its midst is found all the same.
    #[test]
    fn large_results_are_compared_to_the_last_element() {
        let tolerance = Tolerance { absolute: 0.0, relative: 0.0, dtype: DType::F16 };
        let count = 3 * PIECE_BYTES / 2 + 5;
        let right = vec![0x3c00u16; count].into_iter().flat_map(u16::to_le_bytes);
        let right: Vec<u8> = right.collect();
        for (place, bits, wrong) in
            [(0, 0x3c00u16, 0), (count - 1, 0x3d00, 1), (PIECE_BYTES, 0x7e00, 1)]
        {
            let mut other = right.clone();
            other[2 * place..2 * place + 2].copy_from_slice(&bits.to_le_bytes());
            let both = if bits == 0x7e00 { &other } else { &right };
            let mut found = Differences::default();
            compare_bytes(both, &other, &tolerance, &mut found);
            assert_eq!((found.compared, found.wrong), (count, wrong), "{bits:x}");
        }
    }

    #[test]
    fn an_ulp_is_the_distance_of_neighbours() {
        assert_eq!(ulp(DType::BF16, 1.0), f64::exp2(-7.0));
        assert_eq!(ulp(DType::BF16, 1.99), f64::exp2(-7.0));
        assert_eq!(ulp(DType::F16, 0.0), f64::exp2(-24.0));
    }

    /// The tensor core's own sums of 8-bit floats lose most.
    #[test]
    fn a_tolerance_is_far_below_a_result() {
        for row in Suite::ALL.iter().flat_map(|suite| suite.rows(SEED)) {
            let epilogue = row.library.unwrap_or(Epilogue::Plain);
            let tolerance = Tolerance::of(&row, epilogue, 1.0);
            let deviation = (row.sizes[2] as f64).sqrt();
            let part = match (row.dtype.is_fp8(), row.math) {
                (true, MathMode::Fast) => 2.0,
                (true, MathMode::Default | MathMode::Accurate) => 24.0,
                (false, _) => 48.0,
            };
            assert!(tolerance.absolute < deviation / part, "{}: {tolerance:?}", row.name);
        }
    }

    #[test]
    fn integers_are_exact() {
        let rows = Suite::I8.rows(SEED);
        let tolerance = Tolerance::of(&rows[0], Epilogue::Plain, 1.0);
        let large = f64::from(1 << 28);
        assert!(tolerance.allows(large, large) && !tolerance.allows(large, large + 1.0));
        // What no kernel overwrote is a number, and another one.
        let mut found = Differences::default();
        let [one, other] = [[-1, 7, 9], [-1, 7, 10]].map(|all| all.map(i32::to_le_bytes).concat());
        compare_bytes(&one, &other, &tolerance, &mut found);
        assert_eq!((found.compared, found.different, found.wrong), (3, 1, 1));
    }
}
