//! Whether results are right: a sample against the definition, and everything against cuBLASLt.
//!
//! In: outputs that were poisoned, then written by the kernels that will be timed. Out: a [`Verdict`].
//!
//! The definition is evaluated on some rows and columns of the problem, which is a problem of its own for kernels whose
//! elements depend on their own row of A, row of W and place alone; its bounds are the contract's. Two results of the same
//! inputs may differ by both kernels' errors: [`Tolerance`] is derived from the sizes and the inputs' distribution.

use std::collections::BTreeMap;

use postlude::runtime::Stream;
use postlude::{Argument, Arguments, Compiled, DType, Problem, Sizes, Tensor, dtype};
use postlude_ptx::kernel::Half;
use serde::Serialize;

use crate::cublaslt::Epilogue;
use crate::data::{Data, Placed};
use crate::error::YardstickError;
use crate::random::Store;
use crate::shuffle::Shuffler;
use crate::suite::Row;

/// Rows and columns of the sample: some hundreds of elements.
const SAMPLE: usize = 20;
/// Bytes that are brought to the host at a time.
const CHUNK_BYTES: usize = 32 << 20;
/// Bytes that are compared at once where all of them are the same.
const PIECE_BYTES: usize = 1 << 12;

/// How results were checked and what came out.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Verdict {
    /// Whether every check passed.
    pub right: bool,
    /// Elements that were compared with the definition.
    pub sampled: usize,
    /// The worst error of the sample, in units of its bound.
    pub worst_of_bound: f64,
    /// Elements that were compared with cuBLASLt's.
    pub compared: usize,
    /// Those that differ in any bit.
    pub different: usize,
    /// Those that differ by more than the tolerance, or are not numbers.
    pub wrong: usize,
    /// The largest difference.
    pub largest_difference: f64,
    /// Algorithms of cuBLASLt that disagree with ours, and so do not take part unless all do.
    pub less_accurate: usize,
}

impl Verdict {
    /// Takes another sample's findings in.
    pub fn add_sample(&mut self, other: &Verdict) {
        self.sampled += other.sampled;
        self.worst_of_bound = self.worst_of_bound.max(other.worst_of_bound);
        self.right &= other.right;
    }

    /// Takes a comparison's findings in.
    pub fn add(&mut self, differences: &Differences) {
        self.compared += differences.compared;
        self.different += differences.different;
        self.wrong += differences.wrong;
        self.largest_difference = self.largest_difference.max(differences.largest);
        self.right &= differences.wrong == 0;
    }
}

/// Compares a sample of a set's outputs with the definition.
pub fn against_definition(
    compiled: &Compiled,
    sizes: &Sizes,
    data: &Data,
    set: usize,
    stream: &Stream,
) -> Result<Verdict, YardstickError> {
    let mut shuffler = Shuffler::new(1);
    let mut places = BTreeMap::new();
    for (dim, size) in sizes {
        let chosen = if dim == "K" { (0..*size).collect() } else { shuffler.sample(SAMPLE, *size) };
        places.insert(dim.clone(), chosen);
    }
    let mut arguments = Arguments::new();
    for input in &data.inputs {
        let tensor = gather(input, set, &places, stream)?;
        arguments.insert(input.name.clone(), Argument::Tensor(tensor));
    }
    for input in compiled.defined().inputs().iter().filter(|input| input.dims.is_none()) {
        let value = crate::suite::scalar(&input.name).unwrap_or(1.0);
        arguments.insert(input.name.clone(), Argument::Scalar(value.into()));
    }
    arguments.retain(|name, _| compiled.defined().inputs().iter().any(|input| input.name == *name));
    let sizes: Sizes = places.iter().map(|(dim, chosen)| (dim.clone(), chosen.len())).collect();
    let problem = Problem::new(compiled.defined(), &sizes)
        .map_err(|error| YardstickError::Call(error.into()))?;
    let mut outputs = Vec::new();
    for output in &data.outputs {
        outputs.push(gather(output, set, &places, stream)?);
    }
    let mut verdict = Verdict { right: true, ..Verdict::default() };
    for (found, output) in compiled.check(&problem, &arguments, &outputs).iter().zip(&outputs) {
        verdict.sampled += output.len();
        verdict.worst_of_bound = verdict.worst_of_bound.max(found.worst);
        // Not a number is worse than any bound.
        verdict.right &= found.worst <= 1.0;
    }
    Ok(verdict)
}

/// The elements of a tensor at some places along each of its dims.
fn gather(
    placed: &Placed,
    set: usize,
    places: &BTreeMap<String, Vec<usize>>,
    stream: &Stream,
) -> Result<Tensor, YardstickError> {
    let chosen: Vec<&Vec<usize>> = placed.dims.iter().map(|dim| &places[dim]).collect();
    let row_length = placed.shape.last().copied().unwrap_or(1);
    let row_bytes = placed.dtype.bytes_for(row_length);
    let mut values = Vec::new();
    let (rows, columns): (Vec<usize>, &[usize]) = match chosen.as_slice() {
        [] => (vec![0], &[0]),
        [columns] => (vec![0], columns),
        [rows, columns] => ((*rows).clone(), columns),
        [..] => panic!("compiler bug: the suite has no tensors of more than two dims"),
    };
    // Rows that follow one another are brought together: a contraction that comes first has thousands.
    let most_rows = (CHUNK_BYTES / row_bytes.max(1)).max(1);
    for run in rows.chunk_by(|row, next| row + 1 == *next).flat_map(|run| run.chunks(most_rows)) {
        let mut bytes = vec![0; run.len() * row_bytes];
        placed.buffer(set).read(stream, (run[0] * row_bytes) as u64, &mut bytes)?;
        for row in bytes.chunks_exact(row_bytes) {
            values.extend(columns.iter().map(|column| dtype::load(placed.dtype, row, *column)));
        }
    }
    let shape = chosen.iter().map(|chosen| chosen.len()).collect();
    let tensor = Tensor::from_values(placed.dtype, shape, &values);
    tensor.map_err(|error| YardstickError::Call(error.into()))
}

/// How far two right results of the same inputs may be apart: `absolute + 2 ulp`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    absolute: f64,
    dtype: DType,
}

impl Tolerance {
    /// For a row whose product is multiplied by `alpha`.
    ///
    /// Every 16 products the tensor cores align 17 terms to the largest and cut each off 25 bits below it, and the sum at
    /// 24 bits: an error of `17 * 2^-25 + 2^-23` of the largest magnitude there is. A sum of k products of normal numbers
    /// has a deviation of `sqrt(k)`, and no one of even 10^12 is eight deviations away. Two kernels are wrong by twice
    /// that. Relu does not stretch a difference and gelu by less than 1.13. The library's tanh is the hardware's, whose
    /// error of 2^-11 is multiplied by half the argument.
    pub fn of(row: &Row, alpha: f64) -> Tolerance {
        let k = row.sizes[2] as f64;
        let largest = 8.0 * k.sqrt() * alpha.abs();
        let step = 17.0 * f64::exp2(-25.0) + f64::exp2(-23.0);
        let sums = 2.0 * (k / 16.0).ceil() * step * largest;
        let absolute = match row.library {
            Some(Epilogue::BiasGelu) => 1.13 * sums + (largest + 8.0) * f64::exp2(-12.0),
            Some(Epilogue::Plain | Epilogue::Bias | Epilogue::BiasRelu) | None => sums,
        };
        Tolerance { absolute, dtype: row.dtype }
    }

    /// Whether two results agree; results that are not numbers never do.
    pub fn allows(&self, one: f64, other: f64) -> bool {
        let size = one.abs().max(other.abs());
        (one - other).abs() <= self.absolute + 2.0 * ulp(self.dtype, size)
    }
}

/// The distance of neighbours in a dtype at this magnitude.
fn ulp(dtype: DType, size: f64) -> f64 {
    let (fraction, smallest) = match Store::of(dtype) {
        Some(Store::Halves(Half::BF16)) => (7, -126),
        Some(Store::Halves(Half::F16)) => (10, -14),
        Some(Store::Single) | None => (23, -126),
    };
    let exponent = if size > 0.0 { size.log2().floor() as i32 } else { smallest };
    f64::from(exponent.max(smallest) - fraction).exp2()
}

/// What a comparison of two results found.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Differences {
    /// Elements that were looked at.
    pub compared: usize,
    /// Those that differ in any bit.
    pub different: usize,
    /// Those that differ by more than the tolerance, or are not numbers.
    pub wrong: usize,
    /// The largest difference.
    pub largest: f64,
}

/// How much of two results is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Every element.
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
        Extent::Whole => (CHUNK_BYTES, usize::MAX),
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

/// Whether all elements are numbers: in every format here, what is not has all ones above its fraction.
fn are_numbers(dtype: DType, bytes: &[u8]) -> bool {
    let halves = |infinity: u16| {
        let count =
            |two: &[u8]| u32::from(u16::from_le_bytes([two[0], two[1]]) & 0x7fff > infinity);
        bytes.chunks_exact(2).map(count).sum::<u32>() == 0
    };
    match Store::of(dtype) {
        Some(Store::Halves(Half::BF16)) => halves(0x7f80),
        Some(Store::Halves(Half::F16)) => halves(0x7c00),
        // Looked at one by one.
        Some(Store::Single) | None => false,
    }
}

fn compare_elements(one: &[u8], other: &[u8], tolerance: &Tolerance, found: &mut Differences) {
    let width = tolerance.dtype.bytes_for(1);
    for (a, b) in one.chunks_exact(width).zip(other.chunks_exact(width)) {
        found.compared += 1;
        let value = dtype::load(tolerance.dtype, a, 0);
        if a == b && !value.is_nan() {
            continue;
        }
        found.different += 1;
        let second = dtype::load(tolerance.dtype, b, 0);
        found.largest = found.largest.max((value - second).abs());
        found.wrong += usize::from(!tolerance.allows(value, second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{SEED, Suite};

    fn differences(one: [u16; 3], other: [u16; 3]) -> Differences {
        let tolerance = Tolerance { absolute: 0.0, dtype: DType::BF16 };
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
        let tolerance = Tolerance { absolute: 0.0, dtype: DType::F16 };
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

    #[test]
    fn a_tolerance_is_far_below_a_result() {
        for row in Suite::ALL.iter().flat_map(|suite| suite.rows(SEED)) {
            let tolerance = Tolerance::of(&row, 1.0);
            let deviation = (row.sizes[2] as f64).sqrt();
            assert!(tolerance.absolute < deviation / 64.0, "{}: {tolerance:?}", row.name);
        }
    }
}
