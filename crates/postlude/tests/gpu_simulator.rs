//! Whole kernels in the simulator and on a GPU: the same f32 bits from random data.
//!
//! Data comes from a seed. `golden/simulator.txt` keeps the hashes of what a GPU computed (the test on a Hopper GPU
//! prints them); without a GPU the simulator is held to those.

#![allow(clippy::print_stderr)] // A test that is skipped says so.

use postlude::placement::Placements;
use postlude::runtime::Device;
use postlude::target::{Chip, Schedule};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, MathMode, Options, Problem,
    Sizes, Tensor,
};
use postlude_corpus::{Random, fingerprint};
use postlude_sim::Timing;

const RECORDED: &str = include_str!("../../../golden/simulator.txt");
const SEED: u64 = 20_262;
/// M, N and K; K a multiple of 8, as tensor maps want it of packed rows.
const SHAPES: [[usize; 3]; 8] = [
    [64, 64, 64],
    [128, 256, 512],
    [200, 136, 264],
    [300, 72, 1000],
    [257, 301, 128],
    [130, 520, 2048],
    [1, 1000, 4096],
    [640, 8, 72],
];

/// A kernel bound to data.
struct Bound {
    compiled: Compiled,
    schedule: Schedule,
    problem: Problem,
    arguments: Arguments<'static>,
}

/// Nearly normal: twelve uniform numbers, their sum exact on every machine.
fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| (random.bits() >> 40) as f64 / f64::from(1 << 24)).sum::<f64>() - 6.0
}

impl Bound {
    fn new([m, n, k]: [usize; 3], dtype: DType) -> Bound {
        let source = format!(
            "kernel k(A: {dtype}[M, K], W: {dtype}[N, K]) -> D: f32[M, N] {{ D = A @ W.T }}"
        );
        let kernel = Kernel::parse(&source).expect("it types");
        let sizes: Sizes = [("M", m), ("N", n), ("K", k)].map(|(d, s)| (d.to_owned(), s)).into();
        let plain = kernel.compile(&Options::default());
        let graph = plain.optimised();
        let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
        // Bits depend on the order of sums: parts of a contraction have another one.
        let placements = Placements::packed(graph, &problem);
        let planning =
            plain.planning(&problem, &placements, Chip::STANDARD).expect("it is one launch");
        let mut whole = Chip::STANDARD.tiles().iter().filter(|tile| tile.cluster.split_k() == 1);
        let schedule = whole.find_map(|tile| planning.fit(*tile).expect("it is not refused"));
        let schedule = schedule.expect("some tile fits");
        let options = Options {
            backend: Backend::Cuda,
            hooks: Hooks { schedule: Some(schedule.clone()), ..Hooks::default() },
            ..Options::default()
        };
        let compiled = kernel.compile(&options);
        let mut random = Random::new(SEED);
        let mut tensor = |rows: usize| {
            let values: Vec<f64> = (0..rows * k).map(|_| normal(&mut random)).collect();
            Argument::Tensor(Tensor::from_values(dtype, vec![rows, k], &values).expect("it fits"))
        };
        let arguments = Arguments::from([("A".to_owned(), tensor(m)), ("W".to_owned(), tensor(n))]);
        Bound { compiled, schedule, problem, arguments }
    }

    fn computed(&self) -> Vec<u8> {
        let mut outputs = self.compiled.outputs(&self.problem).expect("they fit");
        self.compiled.run_into(&self.problem, &self.arguments, &mut outputs).expect("it runs");
        outputs[0].bytes().to_vec()
    }

    fn simulated(&self, timing: Timing) -> Vec<u8> {
        let placements = Placements::packed(self.compiled.optimised(), &self.problem);
        let planning = self.compiled.planning(&self.problem, &placements, Chip::STANDARD);
        let planned = planning.expect("it is one launch").accept(&self.schedule);
        let planned = planned.expect("what fits is accepted");
        let entry = planned.emit(MathMode::Default);
        let facts = planned.launch(&[None, None]);
        let bytes = |name: &str| {
            self.arguments[name].tensor().map_or(Vec::new(), |tensor| tensor.bytes().to_vec())
        };
        let output = self.problem.rows() * self.problem.columns() * 4;
        let mut buffers = vec![bytes("A"), bytes("W"), vec![0xff; output]];
        let options = postlude_sim::Options {
            timing,
            regions: entry.regions.clone(),
            ..postlude_sim::Options::default()
        };
        let report = postlude_sim::run(&entry.to_string(), &facts, &mut buffers, &options);
        let report = report.unwrap_or_else(|error| panic!("{error}"));
        assert!(report.findings.is_empty(), "{}", report.findings[0]);
        buffers.swap_remove(2)
    }
}

fn row([m, n, k]: [usize; 3], dtype: DType, result: &[u8]) -> String {
    format!("{dtype} {m}x{n}x{k} seed {SEED} hash {:016x}", fingerprint(result))
}

fn cases() -> impl Iterator<Item = ([usize; 3], DType)> {
    SHAPES.into_iter().flat_map(|shape| [DType::BF16, DType::F16].map(|dtype| (shape, dtype)))
}

#[test]
fn the_simulator_gives_what_a_gpu_gave() {
    for (place, (shape, dtype)) in cases().enumerate() {
        let timing = [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }][place % 3];
        let wanted = row(shape, dtype, &Bound::new(shape, dtype).simulated(timing));
        assert!(RECORDED.lines().any(|line| line == wanted), "not recorded: {wanted}");
    }
}

#[test]
fn gpu_results_are_the_simulators_to_the_bit() {
    match Device::open(0) {
        Ok(device) if device.capability() == (9, 0) => {}
        Ok(device) => return eprintln!("SKIPPED: {device} is not sm_90"),
        Err(error) => return eprintln!("SKIPPED: no GPU: {error}"),
    }
    let mut wrong = Vec::new();
    for (shape, dtype) in cases() {
        let bound = Bound::new(shape, dtype);
        let got = bound.computed();
        let line = row(shape, dtype, &got);
        eprintln!("{line}");
        if got != bound.simulated(Timing::Lazy) {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
