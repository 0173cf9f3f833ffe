//! Whether a candidate computes what the planner's choice computes.
//!
//! In: bytes of both outputs. Out: whether they are results of one computation, whose sums may differ in their order. The
//! bound is loose: it catches code that is wrong, and the contract of each element is what checks are for.

use crate::dtype::{self, DType};

/// The part of elements that may differ by more than rounding: floats have none to speak of, while an index or a condition may
/// tip over.
const FEW_FLOATS: f64 = 1e-4;
const FEW_OTHERS: f64 = 1e-2;
/// Errors of sums beside the usual size of elements.
const SUM_ERROR: f64 = 1e-2;

/// Whether two runs of elements agree.
pub(super) fn agree(dtype: DType, wanted: &[u8], found: &[u8]) -> bool {
    if wanted == found {
        return true;
    }
    let count = wanted.len() * 8 / dtype.bits();
    let pairs = || (0..count).map(|at| [wanted, found].map(|bytes| dtype::load(dtype, bytes, at)));
    let finite = pairs().map(|[wanted, _]| wanted).filter(|value| value.is_finite());
    let (squares, known) =
        finite.fold((0.0, 0_u32), |(sum, count), value| (sum + value * value, count + 1));
    let usual = (squares / f64::from(known.max(1))).sqrt();
    let step = step(dtype);
    let differ = |[wanted, found]: &[f64; 2]| {
        let same = wanted == found || (wanted.is_nan() && found.is_nan());
        let allowed = step * wanted.abs().max(found.abs()) + SUM_ERROR * usual;
        let allowed = if dtype.is_float() { allowed } else { 0.0 };
        let apart = (wanted - found).abs();
        !same && (apart.is_nan() || apart > allowed)
    };
    let few = if dtype.is_float() { FEW_FLOATS } else { FEW_OTHERS };
    pairs().filter(differ).count() as f64 <= few * count as f64
}

/// How far neighbours are apart, twice: values on either side of a tie are rounded apart.
fn step(dtype: DType) -> f64 {
    let fraction = match (dtype::precision(dtype), dtype) {
        (Some((_, fraction)), _) => fraction,
        // A power of two and the next.
        (None, DType::F8E8M0) => 0,
        (None, _) => 10,
    };
    2.0 * f64::from(-fraction).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(dtype: DType, values: impl Iterator<Item = f64>) -> Vec<u8> {
        let values: Vec<f64> = values.collect();
        let mut bytes = vec![0; dtype.bytes_for(values.len())];
        for (at, value) in values.into_iter().enumerate() {
            dtype::store(dtype, &mut bytes, at, value);
        }
        bytes
    }

    #[test]
    fn results_that_differ_in_rounding_agree_and_wrong_ones_do_not() {
        let values = || (0..4096).map(|at| f64::from(at - 2048) / 64.0);
        for dtype in [DType::F32, DType::BF16, DType::F16, DType::F8E4M3] {
            let wanted = stored(dtype, values());
            let near = stored(dtype, values().map(|value| value * 1.0005 + 0.001));
            assert!(agree(dtype, &wanted, &near), "{dtype}");
            let shifted = stored(dtype, values().map(|value| value + 16.0));
            assert!(!agree(dtype, &wanted, &shifted), "{dtype}");
            let unwritten = [&wanted[..wanted.len() / 2], &vec![0xff; wanted.len() / 2]].concat();
            assert!(!agree(dtype, &wanted, &unwritten), "{dtype}");
            assert!(agree(dtype, &unwritten, &unwritten), "{dtype}");
        }
    }

    #[test]
    fn a_few_indices_may_tip_over() {
        let values = || (0..4096).map(|at| f64::from(at % 100));
        let wanted = stored(DType::I32, values());
        let one = stored(
            DType::I32,
            values().enumerate().map(|(at, value)| value + f64::from(u8::from(at == 7))),
        );
        assert!(agree(DType::I32, &wanted, &one));
        assert!(!agree(
            DType::I32,
            &wanted,
            &stored(DType::I32, values().map(|value| value + 1.0))
        ));
    }
}
