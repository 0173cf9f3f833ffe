//! A product of cuBLASLt with the algorithms that go on to the final rounds.

use postlude::runtime::Stream;

use crate::bench::Bench;
use crate::check::{self, Differences, Extent, Tolerance, Verdict};
use crate::cublaslt::{Aux, CublasLt, Epilogue, Matmul, Request};
use crate::data::Data;
use crate::error::YardstickError;
use crate::measure::Ours;
use crate::rounds::{Competitor, launches_of_a_sample};
use crate::suite::{self, Row};

/// What is expected before anything is known, in operations a second.
pub(crate) const USUAL_RATE: f64 = 6e14;

/// A product with its algorithms.
pub(crate) struct Theirs<'a> {
    pub(crate) matmul: Matmul<'a>,
    /// How many of its algorithms run.
    pub(crate) usable: usize,
    /// The fastest ones, then its first suggestion.
    pub(crate) finalists: Vec<usize>,
    /// Its first suggestion.
    pub(crate) first: usize,
    /// What the fastest took while they were tuned.
    pub(crate) seconds: f64,
}

impl<'a> Theirs<'a> {
    /// Times every algorithm that the library suggests, briefly, and keeps the fastest.
    pub(crate) fn tune(
        bench: &Bench<'_>,
        library: &'a CublasLt,
        row: &Row,
        epilogue: Epilogue,
        data: &Data,
    ) -> Result<Theirs<'a>, YardstickError> {
        let [m, n, k] = row.sizes;
        let (alpha, beta) = scales(row, epilogue);
        let vector = if epilogue.has_vector() { data.narrow_address() } else { 0 };
        let request = Request {
            layout: row.layout,
            m,
            n,
            k,
            operands: row.dtype,
            result: row.result,
            math: row.math,
            epilogue,
            alpha,
            beta,
            vector,
        };
        let matmul = library.matmul(&request)?;
        let addresses = data.addresses(epilogue, 0, 0);
        // Some suggestions are refused when they are launched.
        let usable: Vec<usize> = (0..matmul.algorithms())
            .filter(|algorithm| matmul.launch(*algorithm, &addresses, bench.stream).is_ok())
            .collect();
        bench.stream.synchronize()?;
        let Some(&first) = usable.first() else {
            return Err(YardstickError::NoAlgorithm { m, n, k });
        };
        let launches = launches_of_a_sample(row.operations() / USUAL_RATE, usable.len());
        let asked = &matmul;
        let competitors: Vec<Competitor<'_>> = usable
            .iter()
            .map(|&algorithm| Competitor {
                name: format!("cublaslt #{algorithm}"),
                operations: row.operations(),
                launches,
                launch: Box::new(move |set, stream| {
                    asked.launch(algorithm, &data.addresses(epilogue, set, set), stream)
                }),
            })
            .collect();
        let plan = row.effort.tuning();
        let samples = bench.track(data).run(&competitors, &plan, 11)?;
        let kept = samples.seconds.first().map_or(0, Vec::len);
        if kept < plan.fewest {
            return Err(YardstickError::Untuned { m, n, k, kept });
        }
        let mut order: Vec<usize> = (0..usable.len()).collect();
        order.sort_by(|a, b| samples.median(*a).total_cmp(&samples.median(*b)));
        let seconds = samples.median(order[0]);
        drop(competitors);
        let fastest = order.into_iter().take(row.effort.finalists());
        let mut finalists: Vec<usize> = fastest.map(|place| usable[place]).collect();
        if !finalists.contains(&first) {
            finalists.push(first);
        }
        Ok(Theirs { matmul, usable: usable.len(), finalists, first, seconds })
    }

    /// Queues it by an algorithm on a set.
    pub(crate) fn launch(
        &self,
        algorithm: usize,
        data: &Data,
        set: usize,
        stream: &Stream,
    ) -> Result<(), YardstickError> {
        let addresses = data.addresses(self.matmul.epilogue(), set, set);
        self.matmul.launch(algorithm, &addresses, stream)
    }

    /// Compares every finalist with ours. One that disagrees while another agrees is out: it is less accurate than we
    /// are, and faster for it. If none agrees, the row is wrong.
    pub(crate) fn check(
        &mut self,
        bench: &Bench<'_>,
        row: &Row,
        data: &Data,
        ours: &Ours,
        verdict: &mut Verdict,
    ) -> Result<(), YardstickError> {
        let (stream, epilogue) = (bench.stream, self.matmul.epilogue());
        data.poison(0, stream)?;
        ours.launch(0, stream)?;
        let (mut agree, mut disagree) = (Vec::new(), Vec::new());
        for &algorithm in &self.finalists {
            data.poison(1, stream)?;
            self.matmul.launch(algorithm, &data.addresses(epilogue, 0, 1), stream)?;
            let extent = if agree.is_empty() { row.effort.extent() } else { Extent::Sample };
            let differences = self.differences(row, data, extent, stream)?;
            if differences.wrong == 0 {
                verdict.add(&differences);
                agree.push(algorithm);
            } else {
                disagree.push(differences);
            }
        }
        verdict.less_accurate += disagree.len();
        match (agree.is_empty(), disagree.first()) {
            (true, Some(differences)) => verdict.add(differences),
            (true, None) => {}
            (false, _) => self.finalists = agree,
        }
        Ok(())
    }

    /// Everything that it wrote to the second set beside what ours wrote to the first.
    fn differences(
        &self,
        row: &Row,
        data: &Data,
        extent: Extent,
        stream: &Stream,
    ) -> Result<Differences, YardstickError> {
        let epilogue = self.matmul.epilogue();
        let (alpha, _) = scales(row, epilogue);
        let tolerance = Tolerance::of(row, epilogue, alpha.into());
        let mut found = check::compare(data.result(epilogue), [0, 1], &tolerance, extent, stream)?;
        if epilogue.aux() == Aux::Written
            && let Some(aux) = data.aux(epilogue)
        {
            let tolerance = Tolerance::of(row, Epilogue::Bias, alpha.into());
            found.join(&check::compare(aux, [0, 1], &tolerance, extent, stream)?);
        }
        if epilogue == Epilogue::GeluGradient
            && let Some((ours, theirs)) = data.narrow_result(stream)?
        {
            let tolerance = tolerance.summed(row.sizes[0]);
            found.join(&check::compare_with(ours, 0, &theirs, &tolerance, stream)?);
        }
        Ok(found)
    }
}

/// What the library multiplies the product and C by.
pub(crate) fn scales(row: &Row, epilogue: Epilogue) -> (f32, f32) {
    let scale = |name: &str| row.reads(name).then(|| suite::scalar(name)).flatten();
    match epilogue {
        Epilogue::Plain => (1.0, 0.0),
        Epilogue::Bias
        | Epilogue::BiasRelu
        | Epilogue::BiasGelu
        | Epilogue::BiasGeluAux
        | Epilogue::GeluGradient => {
            let beta = if row.reads("C") { scale("beta").unwrap_or(1.0) } else { 0.0 };
            (scale("alpha").unwrap_or(1.0), beta)
        }
    }
}
