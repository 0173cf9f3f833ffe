//! One row: its memory, its competitors, its checks, its rounds.

use std::collections::BTreeMap;
use std::time::Instant;

use postlude::runtime::Stream;
use postlude::tuning::TuneOptions;
use postlude::{Kernel, Options};

use crate::bench::Bench;
use crate::ceiling::Ceiling;
use crate::check::Verdict;
use crate::cublaslt::Epilogue;
use crate::data::Data;
use crate::error::YardstickError;
use crate::layout::Layout;
use crate::measure::check_ours;
use crate::measure::ours::{self, Ours};
use crate::measure::theirs::{Theirs, USUAL_RATE};
use crate::peers::{Peer, Present};
use crate::report::{Beside, Found, Measured, Other, OverLimit, Timed};
use crate::rounds::{Competitor, Launch, Samples, launches_of_a_sample};
use crate::statistics::Spread;
use crate::suite::Row;

/// Who a competitor is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ours,
    OurPlain,
    /// Our product of the row's aligned sizes.
    Aligned,
    /// cuBLASLt's plain product by an algorithm.
    Plain(usize),
    /// Its fused product by an algorithm.
    Fused(usize),
    /// Another who does the same as the row.
    Peer(usize),
    Ceiling,
}

impl Kind {
    fn name(self, peers: &[Peer]) -> String {
        match self {
            Kind::Ours => "ours".to_owned(),
            Kind::OurPlain => "ours, plain".to_owned(),
            Kind::Aligned => "ours, aligned".to_owned(),
            Kind::Plain(algorithm) => format!("cublaslt plain #{algorithm}"),
            Kind::Fused(algorithm) => format!("cublaslt fused #{algorithm}"),
            Kind::Peer(number) => peers[number].name.clone(),
            Kind::Ceiling => "ceiling".to_owned(),
        }
    }
}

/// A product of ours with memory of its own, for comparison.
struct Companion {
    row: Row,
    ours: Ours,
    /// What the calls work on.
    _data: Data,
}

impl Companion {
    /// Prepares it and checks a sample of its results.
    fn new(
        bench: &Bench<'_>,
        row: &Row,
        sizes: [usize; 3],
        verdict: &mut Verdict,
    ) -> Result<Companion, YardstickError> {
        let dtypes = [row.dtype, row.result];
        let product = Row::product(row.name.clone(), sizes, Layout::Tn, dtypes);
        let row = Row { math: row.math, ..product };
        let kernel = row.kernel()?;
        let (data, ours) = prepare(bench, &row, &kernel)?;
        verdict.add_sample(&check_ours(bench, &row, &data, &ours)?);
        Ok(Companion { row, ours, _data: data })
    }
}

/// Memory for a row and our kernel on it.
fn prepare(bench: &Bench<'_>, row: &Row, kernel: &Kernel) -> Result<(Data, Ours), YardstickError> {
    let problem = ours::problem(kernel, row)?;
    let data = bench.data(row, kernel.defined(), &problem)?;
    let results = |set| data.results(set);
    let ours = Ours::prepare(bench.device, kernel, &row.options(), row, &data, results)?;
    Ok((data, ours))
}

/// From a row's text to a kernel of ours that is loaded, with nothing cached, and the milliseconds that this took.
fn load(bench: &Bench<'_>, row: &Row, data: &Data) -> Result<(Ours, f64), YardstickError> {
    let folder = tempfile::tempdir().map_err(YardstickError::Folder)?;
    let options = Options { cache: Some(folder.path().to_owned()), ..row.options() };
    // Modules of earlier rows are forgotten.
    bench.device.trim()?;
    let start = Instant::now();
    let kernel = row.kernel()?;
    let typed = 1e3 * start.elapsed().as_secs_f64();
    let results = |set| data.results(set);
    let ours = Ours::prepare(bench.device, &kernel, &options, row, data, results)?;
    let milliseconds = typed + ours.load_milliseconds;
    Ok((ours, milliseconds))
}

/// Measures a row, or says why the planner refuses it.
pub(crate) fn measure(bench: &Bench<'_>, row: &Row) -> Result<Found, YardstickError> {
    let kernel = row.kernel()?;
    let problem = ours::problem(&kernel, row)?;
    if let Some(refusal) = ours::refusal(&kernel, &problem, row, bench.chip) {
        return Ok(Found::Refused(refusal));
    }
    let data = bench.data(row, kernel.defined(), &problem)?;
    if let Some(budget) = row.tuning {
        let compiled = kernel.compile(&row.options());
        let (inputs, results) = (data.arguments(compiled.defined(), 0), data.results(0));
        let options = TuneOptions { budget, note: Some(row.source.clone()), ..Default::default() };
        let sizes = row.named_sizes();
        let tuned = compiled.tune_on(bench.device, &inputs, &results, &sizes, &options);
        tuned.map_err(YardstickError::Call)?;
    }
    let (ours, load_milliseconds) = load(bench, row, &data)?;
    let our_plain = if row.is_plain() {
        None
    } else {
        let (plain, results) = (row.plain_kernel()?, |set| data.product_results(set));
        Ours::prepare(bench.device, &plain, &row.options(), row, &data, results).ok()
    };
    let mut verdict = check_ours(bench, row, &data, &ours)?;
    let aligned = match row.aligned {
        Some(sizes) => Some(Companion::new(bench, row, sizes, &mut verdict)?),
        None => None,
    };
    let (fused, no_fused) = match (row.library, bench.library) {
        (Some(epilogue), Some(library)) if !row.is_plain() => {
            match Theirs::tune(bench, library, row, epilogue, &data) {
                Ok(fused) => (Some(fused), None),
                Err(
                    error @ (YardstickError::NoAlgorithm { .. } | YardstickError::Library { .. }),
                ) => (None, Some(error.to_string())),
                Err(error) => return Err(error),
            }
        }
        (Some(_) | None, _) => (None, None),
    };
    let plain = match bench.library {
        Some(library) => Some(Theirs::tune(bench, library, row, Epilogue::Plain, &data)?),
        None => None,
    };
    let mut entrants = Entrants {
        bench,
        row,
        data: &data,
        ours: &ours,
        load_milliseconds,
        our_plain,
        aligned,
        fused,
        no_fused,
        plain,
        peers: None,
    };
    entrants.check_libraries(&mut verdict)?;
    entrants.ask_peers()?;
    loop {
        match entrants.run(&verdict) {
            Err(YardstickError::Peer { number, message }) => entrants.dismiss(number, message),
            Err(error) => return Err(error),
            Ok(measured) => return Ok(Found::Measured(Box::new(measured))),
        }
    }
}

/// Everyone who takes part in a row.
struct Entrants<'a> {
    bench: &'a Bench<'a>,
    row: &'a Row,
    data: &'a Data,
    ours: &'a Ours,
    load_milliseconds: f64,
    our_plain: Option<Ours>,
    aligned: Option<Companion>,
    fused: Option<Theirs<'a>>,
    /// Why the library does not do it in one call, where it should.
    no_fused: Option<String>,
    plain: Option<Theirs<'a>>,
    peers: Option<Present<'a>>,
}

impl Entrants<'_> {
    /// Compares every finalist of cuBLASLt with the kernel of ours that does the same.
    fn check_libraries(&mut self, verdict: &mut Verdict) -> Result<(), YardstickError> {
        if let Some(fused) = &mut self.fused {
            fused.check(self.bench, self.row, self.data, self.ours, verdict)?;
        }
        let same = if self.row.is_plain() { Some(self.ours) } else { self.our_plain.as_ref() };
        if let (Some(plain), Some(ours)) = (&mut self.plain, same) {
            plain.check(self.bench, self.row, self.data, ours, verdict)?;
        }
        Ok(())
    }

    /// Prepares peers, who compare their results with ours.
    fn ask_peers(&mut self) -> Result<(), YardstickError> {
        if let Some(peers) = self.bench.peers {
            self.ours.launch(0, self.bench.stream)?;
            self.bench.stream.synchronize()?;
            self.peers = Some(Present::prepare(peers, self.row, self.data));
        }
        Ok(())
    }

    /// A peer that failed while it was timed takes no further part.
    fn dismiss(&mut self, number: usize, reason: String) {
        if let Some(peers) = &mut self.peers {
            peers.dismiss(number, reason);
        }
    }

    /// All peers, those that are absent too.
    fn all_peers(&self) -> &[Peer] {
        self.peers.as_ref().map_or(&[], |present| &present.peers)
    }

    /// Everyone's kind: ours first, the ceiling last.
    fn kinds(&self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Ours];
        kinds.extend(self.our_plain.as_ref().map(|_| Kind::OurPlain));
        kinds.extend(self.aligned.as_ref().map(|_| Kind::Aligned));
        let finalists = |theirs: &Option<Theirs<'_>>| -> Vec<usize> {
            theirs.as_ref().map_or_else(Vec::new, |theirs| theirs.finalists.clone())
        };
        kinds.extend(finalists(&self.plain).into_iter().map(Kind::Plain));
        kinds.extend(finalists(&self.fused).into_iter().map(Kind::Fused));
        let peers = self.peers.as_ref().map_or_else(Vec::new, Present::numbers);
        kinds.extend(peers.into_iter().map(Kind::Peer));
        kinds.push(Kind::Ceiling);
        kinds
    }

    /// The final rounds.
    fn run(&self, verdict: &Verdict) -> Result<Measured, YardstickError> {
        let kinds = self.kinds();
        let known = self.plain.as_ref().map(|theirs| theirs.seconds);
        let seconds = known.unwrap_or(self.row.operations() / USUAL_RATE);
        let launches = launches_of_a_sample(seconds, kinds.len());
        let ceiling = Ceiling::new(self.bench.device, self.bench.stream, self.row.dtype)?;
        // As much work as a sample of the others, in one launch.
        let (products, ceiling_operations) =
            ceiling.launch(self.row.operations() * f64::from(launches))?;
        let products = &products;
        let competitors: Vec<Competitor<'_>> = kinds
            .iter()
            .map(|&kind| {
                let aligned = || self.aligned.as_ref().map_or(self.row, |aligned| &aligned.row);
                let (operations, launches) = match kind {
                    Kind::Ceiling => (ceiling_operations, 1),
                    Kind::Aligned => (aligned().operations(), launches),
                    Kind::Ours
                    | Kind::OurPlain
                    | Kind::Plain(_)
                    | Kind::Fused(_)
                    | Kind::Peer(_) => (self.row.operations(), launches),
                };
                let launch: Launch<'_> = match kind {
                    Kind::Ceiling => Box::new(|_, stream| Ok(products.launch(stream)?)),
                    Kind::Ours
                    | Kind::OurPlain
                    | Kind::Aligned
                    | Kind::Plain(_)
                    | Kind::Fused(_)
                    | Kind::Peer(_) => Box::new(move |set, stream| self.launch(kind, set, stream)),
                };
                Competitor { name: kind.name(self.all_peers()), operations, launches, launch }
            })
            .collect();
        let plan = self.row.effort.rounds(self.bench.rounds);
        let samples = self.bench.time(self.data, &competitors, &plan, 7)?;
        drop(competitors);
        if samples.seconds[0].is_empty() {
            return Err(YardstickError::NoRound { dropped: samples.dropped });
        }
        self.sum_up(verdict, &kinds, &samples)
    }

    fn launch(&self, kind: Kind, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        let library = |theirs: &Option<Theirs<'_>>, algorithm| match theirs {
            Some(theirs) => theirs.launch(algorithm, self.data, set, stream),
            None => Ok(()),
        };
        let ours = |ours: Option<&Ours>| ours.map_or(Ok(()), |ours| ours.launch(set, stream));
        match kind {
            Kind::Ours => self.ours.launch(set, stream),
            Kind::OurPlain => ours(self.our_plain.as_ref()),
            Kind::Aligned => ours(self.aligned.as_ref().map(|aligned| &aligned.ours)),
            Kind::Plain(algorithm) => library(&self.plain, algorithm),
            Kind::Fused(algorithm) => library(&self.fused, algorithm),
            Kind::Peer(number) => match &self.peers {
                Some(peers) => peers.launch(number, set, stream),
                None => Ok(()),
            },
            Kind::Ceiling => Ok(()),
        }
    }

    fn sum_up(
        &self,
        check: &Verdict,
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
            name: kind.name(self.all_peers()),
            seconds: Spread::of(&samples.seconds[place]),
            tflops: tflops(place),
            ours_over_this: of(place),
            joules: samples.joules(place),
        };
        let call = self.ours.call();
        let bar = fused.or(plain);
        let algorithms = self.fused.as_ref().or(self.plain.as_ref());
        Ok(Measured {
            check: check.clone(),
            schedule: call.schedule().to_string(),
            load_milliseconds: self.load_milliseconds,
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
            no_fused: self.no_fused.clone(),
            ceiling_tflops: tflops(ceiling),
            our_joules: samples.joules(ours),
            bar_joules: bar.and_then(|bar| samples.joules(bar)),
            of_bar: bar.map(of),
            of_first: first.map(of),
            of_plain: plain.map(of),
            of_aligned: place(Kind::Aligned).map(of),
            of_ceiling: of(ceiling),
            limit_seconds,
            of_limit: limit_seconds / samples.median(ours),
            over_limit: OverLimit::of(self.row, samples.median(ours) / limit_seconds),
            beside: self.peers.as_ref().map(|_| self.beside(bar, kinds, samples)),
        })
    }

    /// Everyone who does the same: cuBLASLt where it does it in one call, and all peers.
    fn beside(&self, library: Option<usize>, kinds: &[Kind], samples: &Samples) -> Beside {
        let does_the_same = self.fused.is_some() || self.row.is_plain();
        let library = library.filter(|_| does_the_same).map(|place| Other {
            name: "cublaslt".to_owned(),
            absent: None,
            errors: BTreeMap::new(),
            seconds: Some(Spread::of(&samples.seconds[place])),
            ours_over_this: Some(samples.speed_ratio(0, place)),
        });
        let peers = self.all_peers().iter().enumerate().map(|(number, peer)| {
            let place = kinds.iter().position(|kind| *kind == Kind::Peer(number));
            Other {
                name: peer.name.clone(),
                absent: peer.absent.clone(),
                errors: peer.errors.clone(),
                seconds: place.map(|place| Spread::of(&samples.seconds[place])),
                ours_over_this: place.map(|place| samples.speed_ratio(0, place)),
            }
        });
        Beside::of(library.into_iter().chain(peers).collect())
    }
}
