//! Whether a kernel of ours is right, on poisoned outputs.
//!
//! Samples are compared with the definition. A result that is one number for the whole problem is compared twice: with the
//! definition at sizes that the host can evaluate whole, by the same schedule where it fits them; and with what the host
//! makes of a tile of its terms, which another kernel stored and which is compared with the definition on a sample.

use std::collections::BTreeMap;

use postlude::runtime::Stream;
use postlude::{Argument, Arguments, Hooks, Kernel, Options, Tensor, dtype};

use crate::bench::Bench;
use crate::check::{self, CHUNK_BYTES, Totalled, Verdict, sums};
use crate::data::{Data, Placed};
use crate::error::YardstickError;
use crate::measure::ours::{self, Ours};
use crate::random::Contents;
use crate::suite::{self, Fold, Row, Total};

/// M, N and K that the host evaluates whole: no multiples of tiles. Rows of K begin at multiples of 16 bytes.
const SMALL: [usize; 3] = [392, 520, 144];
/// Terms of either sign that are rounded 4096 times at most, one after the other (docs/numerics.md, "Reductions"), err by
/// less than eight deviations of that.
const SUM_ERROR: f64 = 8.0 * 64.0 / 16_777_216.0;

/// Runs a kernel of ours and checks everything that it stored.
pub(crate) fn check_ours(
    bench: &Bench<'_>,
    row: &Row,
    data: &Data,
    ours: &Ours,
) -> Result<Verdict, YardstickError> {
    let stream = bench.stream;
    data.poison(0, stream)?;
    ours.launch(0, stream)?;
    let graph = ours.compiled.defined();
    let mut verdict = check::against_definition(graph, row, data, &data.outputs, 0, stream)?;
    if !row.totals.is_empty() {
        verdict.add_sample(&check_small(bench, row, ours)?);
    }
    for total in &row.totals {
        check_total(bench, row, data, total, &mut verdict)?;
    }
    Ok(verdict)
}

/// The same kernel on a small problem, compared whole.
fn check_small(bench: &Bench<'_>, row: &Row, ours: &Ours) -> Result<Verdict, YardstickError> {
    let row = &Row { sizes: SMALL, ..row.clone() };
    let kernel = row.kernel()?;
    let problem = ours::problem(&kernel, row)?;
    let (device, stream) = (bench.device, bench.stream);
    let data = Data::new(device, stream, row, kernel.defined(), &problem, Contents::Random)?;
    let schedule = Some(ours.call().schedule().clone());
    let hooks = Hooks { schedule, ..Hooks::default() };
    let same = Options { hooks, ..row.options() };
    let prepare = |options: &Options| {
        Ours::prepare(device, &kernel, options, row, &data, |set| data.results(set))
    };
    let small = prepare(&same).or_else(|_| prepare(&row.options()))?;
    data.poison(0, stream)?;
    small.launch(0, stream)?;
    let mut arguments = Arguments::new();
    for input in kernel.defined().passed_inputs() {
        let placed = data.inputs.iter().find(|placed| placed.name == input.name);
        let argument = match placed {
            Some(placed) => Argument::Tensor(whole(placed, stream)?),
            None => Argument::Scalar(suite::scalar(&input.name).unwrap_or(1.0).into()),
        };
        arguments.insert(input.name.clone(), argument);
    }
    let mut outputs = Vec::new();
    for output in &data.outputs {
        outputs.push(whole(output, stream)?);
    }
    let mut verdict = Verdict { right: true, ..Verdict::default() };
    let found = small.compiled.check(&problem, &arguments, &outputs);
    let found = found.map_err(YardstickError::Call)?;
    for (found, output) in found.iter().zip(&outputs) {
        verdict.sampled += output.len();
        verdict.worst_of_bound = verdict.worst_of_bound.max(found.worst);
        verdict.right &= found.worst <= 1.0;
    }
    Ok(verdict)
}

/// A whole tensor of the first set.
fn whole(placed: &Placed, stream: &Stream) -> Result<Tensor, YardstickError> {
    let mut bytes = vec![0; placed.bytes() as usize];
    placed.buffer(0).read(stream, 0, &mut bytes)?;
    Tensor::from_bytes(placed.dtype, placed.shape.clone(), bytes)
        .map_err(|error| YardstickError::Call(error.into()))
}

/// A number beside what the host makes of its terms.
fn check_total(
    bench: &Bench<'_>,
    row: &Row,
    data: &Data,
    total: &Total,
    verdict: &mut Verdict,
) -> Result<(), YardstickError> {
    let (device, stream) = (bench.device, bench.stream);
    let kernel: Kernel = row.typed(&total.terms)?;
    let output = &kernel.defined().outputs()[0];
    let [m, n, _] = row.sizes;
    let terms = Placed::alone(device, &output.name, output.dtype, ["M", "N"], [m, n])?;
    terms.buffer(0).fill(stream, 0, terms.buffer(0).len(), 0xff)?;
    let results = |set| BTreeMap::from([(terms.name.clone(), terms.tensor(set))]);
    let storing = Ours::prepare(device, &kernel, &row.options(), row, data, results)?;
    storing.launch(0, stream)?;
    let terms = [terms];
    let graph = storing.compiled.defined();
    verdict.add_sample(&check::against_definition(graph, row, data, &terms, 0, stream)?);
    let folded = fold(&terms[0], stream)?;
    let mut found = f64::NAN;
    if let Some(output) = data.outputs.iter().find(|output| output.name == total.output) {
        let tensor = whole(output, stream)?;
        found = dtype::load(tensor.dtype(), tensor.bytes(), 0);
    }
    let (wanted, bound) = match total.fold {
        Fold::Sum => (folded.sum, SUM_ERROR * folded.magnitude),
        // Both are of terms that may differ as two products do, stretched by gelu; functions err by less than 2^-18.
        Fold::Largest => {
            let (sums, _) = sums(row, row.operand_scale());
            (folded.largest, 1.13 * sums + folded.largest / 262_144.0)
        }
    };
    let output = total.output.to_owned();
    verdict.add_total(Totalled { output, found, wanted, of_bound: (found - wanted).abs() / bound });
    Ok(())
}

/// What is made of a tile's elements.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Folded {
    sum: f64,
    /// The sum of magnitudes.
    magnitude: f64,
    largest: f64,
}

impl Folded {
    fn add(&mut self, bytes: &[u8]) {
        for four in bytes.chunks_exact(4) {
            let value = f64::from(f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
            self.sum += value;
            self.magnitude += value.abs();
            // What is not a number stays; `max` would drop it.
            self.largest = if value.abs() <= self.largest { self.largest } else { value.abs() };
        }
    }
}

/// Folds an f32 tile on the host.
fn fold(placed: &Placed, stream: &Stream) -> Result<Folded, YardstickError> {
    let mut folded = Folded::default();
    let total = placed.bytes() as usize;
    let mut bytes = vec![0; CHUNK_BYTES.min(total)];
    for start in (0..total).step_by(CHUNK_BYTES) {
        let length = CHUNK_BYTES.min(total - start);
        placed.buffer(0).read(stream, start as u64, &mut bytes[..length])?;
        folded.add(&bytes[..length]);
    }
    Ok(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_has_the_sum_the_magnitude_and_the_largest() {
        let mut folded = Folded::default();
        folded.add(&[1.0f32, -3.0, 2.0].map(f32::to_le_bytes).concat());
        assert_eq!(folded, Folded { sum: 0.0, magnitude: 6.0, largest: 3.0 });
    }

    #[test]
    fn what_is_not_a_number_spoils_every_fold() {
        let mut folded = Folded::default();
        folded.add(&[1.0f32, f32::NAN].map(f32::to_le_bytes).concat());
        assert!(folded.sum.is_nan() && folded.largest.is_nan());
        let mut verdict = Verdict { right: true, ..Verdict::default() };
        let of_bound = (1.0 - folded.largest).abs();
        verdict.add_total(Totalled { output: String::new(), found: 1.0, wanted: 1.0, of_bound });
        assert!(!verdict.right);
    }
}
