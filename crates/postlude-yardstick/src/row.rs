//! One row: its memory, its competitors, its checks, its rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use postlude::cuda::PreparedCall;
use postlude::runtime::{Device, DeviceTensor, Stream};
use postlude::{Compiled, Kernel, Options, Problem};
use postlude_ptx::kernel::Half;

use crate::ceiling::Ceiling;
use crate::check::{self, Extent, Tolerance, Verdict};
use crate::cublaslt::{CublasLt, Epilogue, Matmul, Request};
use crate::data::Data;
use crate::error::YardstickError;
use crate::random::Store;
use crate::report::{Measured, RowReport, Timed};
use crate::rounds::{Competitor, Launch, Plan, Samples, Track, launches_of_a_sample};
use crate::sleep::Sleep;
use crate::statistics::Spread;
use crate::suite::{self, Row};

/// Algorithms of cuBLASLt that go on to the final rounds, beside its first suggestion.
const FINALISTS: usize = 3;
/// What is expected before anything is known, in operations a second.
const USUAL_RATE: f64 = 6e14;

/// What every row needs.
pub(crate) struct Bench<'a> {
    pub(crate) device: &'a Device,
    pub(crate) stream: &'a Stream,
    pub(crate) sleep: &'a Sleep,
    pub(crate) library: Option<&'a CublasLt>,
    pub(crate) copy_bytes_per_second: f64,
    pub(crate) plan: Plan,
}

/// Who a competitor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ours,
    OurPlain,
    /// cuBLASLt's plain product by an algorithm.
    Plain(usize),
    /// Its fused product by an algorithm.
    Fused(usize),
    Ceiling,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Ours => "ours".to_owned(),
            Kind::OurPlain => "ours, plain".to_owned(),
            Kind::Plain(algorithm) => format!("cublaslt plain #{algorithm}"),
            Kind::Fused(algorithm) => format!("cublaslt fused #{algorithm}"),
            Kind::Ceiling => "ceiling".to_owned(),
        }
    }
}

/// A kernel of ours on every set of buffers.
struct Ours {
    compiled: Compiled,
    calls: Vec<PreparedCall>,
}

impl Ours {
    /// Prepares it; the error is why it cannot be run.
    fn prepare(
        bench: &Bench<'_>,
        kernel: &Kernel,
        row: &Row,
        data: &Data,
        results: impl Fn(usize) -> BTreeMap<String, DeviceTensor>,
    ) -> Result<Ours, postlude::Error> {
        let compiled = kernel.compile(&Options::default());
        let sizes = row.named_sizes();
        let prepare = |set| {
            let inputs = data.arguments(compiled.defined(), set);
            compiled.prepare(bench.device, &inputs, &results(set), &sizes)
        };
        let calls = (0..data.sets).map(prepare).collect::<Result<_, postlude::Error>>()?;
        Ok(Ours { compiled, calls })
    }

    fn launch(&self, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        self.calls[set].launch(stream).map_err(YardstickError::Call)
    }
}

/// A product of cuBLASLt with the algorithms that go on.
struct Theirs<'a> {
    matmul: Matmul<'a>,
    /// How many of its algorithms run.
    usable: usize,
    /// The fastest ones, then its first suggestion.
    finalists: Vec<usize>,
    first: usize,
}

impl Theirs<'_> {
    /// Compares every finalist with ours. One that disagrees while another agrees is out: it is less accurate than we
    /// are, and faster for it. If none agrees, the row is wrong.
    fn check(
        &mut self,
        bench: &Bench<'_>,
        data: &Data,
        ours: &Ours,
        tolerance: &Tolerance,
        verdict: &mut Verdict,
    ) -> Result<(), YardstickError> {
        let stream = bench.stream;
        data.poison(0, stream)?;
        ours.launch(0, stream)?;
        let (mut agree, mut disagree) = (Vec::new(), Vec::new());
        for &algorithm in &self.finalists {
            data.poison(1, stream)?;
            self.matmul.launch(algorithm, &data.addresses(0, 1), stream)?;
            let results = [0, 1].map(|set| data.product().buffer(set));
            let extent = if agree.is_empty() { Extent::Whole } else { Extent::Sample };
            let differences = check::compare(results, tolerance, extent, stream)?;
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
}

/// Measures a row.
pub(crate) fn measure(bench: &Bench<'_>, row: &Row) -> Result<RowReport, YardstickError> {
    let kernel = row.kernel()?;
    let problem = Problem::new(kernel.defined(), &row.named_sizes())
        .map_err(|error| YardstickError::Kernel { row: row.name, error: error.into() })?;
    let data = Data::new(bench.device, bench.stream, row, kernel.defined(), &problem)?;
    let ours = match Ours::prepare(bench, &kernel, row, &data, |set| data.results(set)) {
        Ok(ours) => ours,
        Err(reason) => return Ok(report(row, Some(reason.to_string()), None)),
    };
    let our_plain = if row.is_plain() {
        None
    } else {
        let results = |set| data.product_results(set);
        Ours::prepare(bench, &row.plain_kernel()?, row, &data, results).ok()
    };
    data.poison(0, bench.stream)?;
    ours.launch(0, bench.stream)?;
    let mut verdict =
        check::against_definition(&ours.compiled, &row.named_sizes(), &data, 0, bench.stream)?;
    let fused = match (row.library, bench.library) {
        (Some(epilogue), Some(library)) if !row.is_plain() => {
            Some(tune(bench, library, row, epilogue, &data)?)
        }
        (Some(_) | None, _) => None,
    };
    let plain = match bench.library {
        Some(library) => Some(tune(bench, library, row, Epilogue::Plain, &data)?),
        None => None,
    };
    let mut entrants = Entrants { bench, row, data: &data, ours: &ours, our_plain, fused, plain };
    entrants.check_libraries(&mut verdict)?;
    let measured = entrants.run(verdict)?;
    Ok(report(row, None, Some(measured)))
}

fn report(row: &Row, refused: Option<String>, measured: Option<Measured>) -> RowReport {
    let [m, n, k] = row.sizes;
    let (name, source, dtype) = (row.name, row.source, row.dtype.to_string());
    RowReport { row: name, source, m, n, k, dtype, refused, measured }
}

/// Times every algorithm that the library suggests, briefly, and keeps the fastest.
fn tune<'a>(
    bench: &Bench<'_>,
    library: &'a CublasLt,
    row: &Row,
    epilogue: Epilogue,
    data: &Data,
) -> Result<Theirs<'a>, YardstickError> {
    let [m, n, k] = row.sizes;
    let (alpha, beta) = scales(row, epilogue);
    let bias = if epilogue.has_bias() { data.narrow_bias() } else { 0 };
    let request = Request { m, n, k, dtype: row.dtype, epilogue, alpha, beta, bias };
    let matmul = library.matmul(&request)?;
    let addresses = data.addresses(0, 0);
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
            name: Kind::Plain(algorithm).name(),
            operations: row.operations(),
            launches,
            launch: Box::new(move |set, stream| {
                asked.launch(algorithm, &data.addresses(set, set), stream)
            }),
        })
        .collect();
    let plan = Plan {
        warm_up: Duration::from_millis(300),
        rounds: 7,
        fewest: 3,
        budget: Duration::from_millis(500),
    };
    let samples = bench.track(data).run(&competitors, &plan, 11)?;
    let kept = samples.seconds.first().map_or(0, Vec::len);
    if kept < plan.fewest {
        return Err(YardstickError::Untuned { m, n, k, kept });
    }
    let mut order: Vec<usize> = (0..usable.len()).collect();
    order.sort_by(|a, b| samples.median(*a).total_cmp(&samples.median(*b)));
    drop(competitors);
    let mut finalists: Vec<usize> =
        order.into_iter().take(FINALISTS).map(|place| usable[place]).collect();
    if !finalists.contains(&first) {
        finalists.push(first);
    }
    Ok(Theirs { matmul, usable: usable.len(), finalists, first })
}

/// What the library multiplies the product and C by.
fn scales(row: &Row, epilogue: Epilogue) -> (f32, f32) {
    let scale = |name: &str| row.reads(name).then(|| suite::scalar(name)).flatten();
    match epilogue {
        Epilogue::Plain => (1.0, 0.0),
        Epilogue::Bias | Epilogue::BiasRelu | Epilogue::BiasGelu => {
            let beta = if row.reads("C") { scale("beta").unwrap_or(1.0) } else { 0.0 };
            (scale("alpha").unwrap_or(1.0), beta)
        }
    }
}

impl<'a> Bench<'a> {
    fn track(&self, data: &Data) -> Track<'a> {
        Track { device: self.device, stream: self.stream, sleep: self.sleep, sets: data.sets }
    }
}

/// Everyone who takes part in a row.
struct Entrants<'a> {
    bench: &'a Bench<'a>,
    row: &'a Row,
    data: &'a Data,
    ours: &'a Ours,
    our_plain: Option<Ours>,
    fused: Option<Theirs<'a>>,
    plain: Option<Theirs<'a>>,
}

impl Entrants<'_> {
    /// Compares every finalist of cuBLASLt with the kernel of ours that does the same.
    fn check_libraries(&mut self, verdict: &mut Verdict) -> Result<(), YardstickError> {
        if let Some(fused) = &mut self.fused {
            let (alpha, _) = scales(self.row, Epilogue::Bias);
            let tolerance = Tolerance::of(self.row, f64::from(alpha));
            fused.check(self.bench, self.data, self.ours, &tolerance, verdict)?;
        }
        let same = if self.row.is_plain() { Some(self.ours) } else { self.our_plain.as_ref() };
        if let (Some(plain), Some(ours)) = (&mut self.plain, same) {
            let tolerance =
                Tolerance::of(&Row { library: Some(Epilogue::Plain), ..*self.row }, 1.0);
            plain.check(self.bench, self.data, ours, &tolerance, verdict)?;
        }
        Ok(())
    }

    /// The final rounds.
    fn run(&self, verdict: Verdict) -> Result<Measured, YardstickError> {
        let mut kinds = vec![Kind::Ours];
        kinds.extend(self.our_plain.as_ref().map(|_| Kind::OurPlain));
        let finalists = |theirs: &Option<Theirs<'_>>| -> Vec<usize> {
            theirs.as_ref().map_or_else(Vec::new, |theirs| theirs.finalists.clone())
        };
        kinds.extend(finalists(&self.plain).into_iter().map(Kind::Plain));
        kinds.extend(finalists(&self.fused).into_iter().map(Kind::Fused));
        kinds.push(Kind::Ceiling);
        let launches = launches_of_a_sample(self.row.operations() / USUAL_RATE, kinds.len());
        let half = match Store::of(self.row.dtype) {
            Some(Store::Halves(half)) => half,
            Some(Store::Single) | None => Half::BF16,
        };
        let ceiling = Ceiling::new(self.bench.device, self.bench.stream, half)?;
        // As much work as a sample of the others, in one launch.
        let (products, operations) = ceiling.launch(self.row.operations() * f64::from(launches))?;
        let competitors: Vec<Competitor<'_>> = kinds
            .iter()
            .map(|&kind| {
                let (operations, launches) = match kind {
                    Kind::Ceiling => (operations, 1),
                    Kind::Ours | Kind::OurPlain | Kind::Plain(_) | Kind::Fused(_) => {
                        (self.row.operations(), launches)
                    }
                };
                let products = &products;
                let launch: Launch<'_> = match kind {
                    Kind::Ceiling => Box::new(|_, stream| Ok(products.launch(stream)?)),
                    Kind::Ours | Kind::OurPlain | Kind::Plain(_) | Kind::Fused(_) => {
                        Box::new(move |set, stream| self.launch(kind, set, stream))
                    }
                };
                Competitor { name: kind.name(), operations, launches, launch }
            })
            .collect();
        let samples = self.bench.track(self.data).run(&competitors, &self.bench.plan, 7)?;
        drop(competitors);
        self.sum_up(verdict, &kinds, &samples)
    }

    fn launch(&self, kind: Kind, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        let library = |theirs: &Option<Theirs<'_>>, algorithm| match theirs {
            Some(theirs) => theirs.matmul.launch(algorithm, &self.data.addresses(set, set), stream),
            None => Ok(()),
        };
        match kind {
            Kind::Ours => self.ours.launch(set, stream),
            Kind::OurPlain => {
                self.our_plain.as_ref().map_or(Ok(()), |ours| ours.launch(set, stream))
            }
            Kind::Plain(algorithm) => library(&self.plain, algorithm),
            Kind::Fused(algorithm) => library(&self.fused, algorithm),
            Kind::Ceiling => Ok(()),
        }
    }

    fn sum_up(
        &self,
        check: Verdict,
        kinds: &[Kind],
        samples: &Samples,
    ) -> Result<Measured, YardstickError> {
        let places = |wanted: fn(Kind) -> bool| {
            kinds.iter().enumerate().filter(move |(_, kind)| wanted(**kind)).map(|(place, _)| place)
        };
        let place = |wanted: Kind| kinds.iter().position(|kind| *kind == wanted);
        let plain = samples.fastest(places(|kind| matches!(kind, Kind::Plain(_))));
        let fused = samples.fastest(places(|kind| matches!(kind, Kind::Fused(_))));
        let first = match (&self.fused, &self.plain) {
            (Some(fused), _) => place(Kind::Fused(fused.first)),
            (None, Some(plain)) => place(Kind::Plain(plain.first)),
            (None, None) => None,
        };
        let (ours, ceiling) = (0, kinds.len() - 1);
        let tflops = |place: usize| samples.rate(place) / 1e12;
        let of = |other: usize| samples.speed_ratio(ours, other);
        // For a fused row the faster plain product or the bytes; for a plain one the ceiling or the bytes.
        let bytes = self.data.fewest_bytes() as f64 / self.bench.copy_bytes_per_second;
        let our_plain = place(Kind::OurPlain);
        let product = match samples.fastest(plain.into_iter().chain(our_plain)) {
            Some(product) if !self.row.is_plain() => samples.median(product),
            Some(_) | None => self.row.operations() / samples.rate(ceiling),
        };
        let limit_seconds = product.max(bytes);
        let timed = |(place, kind): (usize, &Kind)| Timed {
            name: kind.name(),
            seconds: Spread::of(&samples.seconds[place]),
            tflops: tflops(place),
            ours_over_this: of(place),
        };
        let call = &self.ours.calls[0];
        let bar = fused.or(plain);
        let algorithms = self.fused.as_ref().or(self.plain.as_ref());
        Ok(Measured {
            check,
            schedule: call.schedule().to_string(),
            registers: call.function().registers()?,
            local_bytes: call.function().local_bytes()?,
            rounds: samples.seconds[ours].len(),
            dropped: samples.dropped,
            sets: self.data.sets,
            algorithms: algorithms.map_or(0, |theirs| theirs.usable),
            competitors: kinds.iter().enumerate().map(timed).collect(),
            ours_tflops: tflops(ours),
            best_tflops: plain.map(tflops),
            first_tflops: first.map(tflops),
            fused_tflops: fused.map(tflops),
            ceiling_tflops: tflops(ceiling),
            of_bar: bar.map(of),
            of_first: first.map(of),
            of_plain: plain.map(of),
            of_ceiling: of(ceiling),
            limit_seconds,
            of_limit: limit_seconds / samples.median(ours),
        })
    }
}
