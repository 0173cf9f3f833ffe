//! Products of operands that are not 16 bits wide, in the simulator: every pair of dtypes, every layout, promoted sums and a tensor core's own.
//!
//! Small whole numbers have exact sums, whatever the tensor core's fractional bits; other numbers are held to the
//! reference's bounds.

use postlude::placement::Placements;
use postlude::target::Chip;
use postlude::{
    Argument, Arguments, Backend, DType, Hooks, Kernel, MathMode, Options, Sizes, Tensor,
};
use postlude_corpus::Random;

const PAIRS: [(&str, &str); 10] = [
    ("f8e4m3", "f8e4m3"),
    ("f8e4m3", "f8e5m2"),
    ("f8e5m2", "f8e4m3"),
    ("f8e5m2", "f8e5m2"),
    ("i8", "i8"),
    ("i8", "u8"),
    ("u8", "i8"),
    ("u8", "u8"),
    ("tf32", "tf32"),
    ("f32", "f32"),
];
/// Dims and orientations of both operands.
const LAYOUTS: [[(&str, &str); 2]; 4] = [
    [("M, K", "A"), ("N, K", "W.T")],
    [("M, K", "A"), ("K, N", "W")],
    [("K, M", "A.T"), ("N, K", "W.T")],
    [("K, M", "A.T"), ("K, N", "W")],
];

fn dtype(name: &str) -> DType {
    DType::from_name(name).expect("it is one")
}

fn sizes([m, n, k]: [usize; 3]) -> Sizes {
    Sizes::from([("M", m), ("N", n), ("K", k)].map(|(dim, size)| (dim.to_owned(), size)))
}

/// Operands of a kernel, each element by a function of a random number.
fn operands(
    kernel: &Kernel,
    at: &Sizes,
    random: &mut Random,
    element: impl Fn(DType, &mut Random) -> f64,
) -> Arguments<'static> {
    let compiled = kernel.compile(&Options::default());
    let problem = compiled.problem(at).expect("sizes of every dim");
    let inputs = compiled.optimised().inputs().iter();
    inputs
        .map(|input| {
            let shape = problem.shape(input.dims.as_ref().expect("it is a tensor"));
            let count = shape.iter().product::<usize>();
            let values: Vec<f64> = (0..count).map(|_| element(input.dtype, random)).collect();
            let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
            (input.name.clone(), Argument::Tensor(tensor))
        })
        .collect()
}

fn whole_number(dtype: DType, random: &mut Random) -> f64 {
    random.below(5) as f64 - if dtype == DType::U8 { 0.0 } else { 2.0 }
}

fn run(kernel: &Kernel, options: &Options, at: &Sizes, arguments: &Arguments<'_>) -> Vec<Tensor> {
    let compiled = kernel.compile(options);
    let problem = compiled.problem(at).expect("sizes of every dim");
    let mut outputs = compiled.outputs(&problem).expect("it has a shape");
    compiled.run_into(&problem, arguments, &mut outputs).unwrap_or_else(|error| {
        panic!("{error}");
    });
    outputs
}

#[test]
fn every_pair_in_every_layout_is_exact() {
    let mut random = Random::new(19);
    for (place, (left, right)) in PAIRS.into_iter().enumerate() {
        for (number, [a, w]) in LAYOUTS.into_iter().enumerate() {
            let out = if dtype(left).is_float() { "f32" } else { "i32" };
            let source = format!(
                "kernel k(A: {left}[{}], W: {right}[{}]) -> D: {out}[M, N] {{ D = {} @ {} }}",
                a.0, w.0, a.1, w.1
            );
            let kernel = Kernel::parse(&source).expect("it types");
            // Aligned, with a ragged end, and with rows that begin anywhere.
            let at = [[64, 128, 128], [72, 48, 144], [37, 45, 131]][(place + number) % 3];
            let at = sizes(at);
            let arguments = operands(&kernel, &at, &mut random, whole_number);
            let wanted = run(&kernel, &Options::default(), &at, &arguments);
            let sim = Options { backend: Backend::Sim, ..Options::default() };
            let got = run(&kernel, &sim, &at, &arguments);
            assert_eq!(got[0].bytes(), wanted[0].bytes(), "{source}");
        }
    }
}

#[test]
fn integer_sums_wrap_and_go_through_the_integer_epilogue() {
    let source = "kernel k(A: i8[M, K], W: u8[N, K], zero: i32[N], a: f32[M], b: f32[N]) -> (D: bf16[M, N], S: i32[M], Q: i8[M, N]) {
        z = A @ W.T - zero
        S = sum(z, N)
        D = a * (b * f32(z))
        Q = i8(z >> 8)
    }";
    let kernel = Kernel::parse(source).expect("it types");
    let mut random = Random::new(7);
    for at in [[130, 264, 400], [3, 5, 7]].map(sizes) {
        let element = |dtype, random: &mut Random| match dtype {
            DType::U8 => random.below(256) as f64,
            _ => random.below(256) as f64 - 128.0,
        };
        let arguments = operands(&kernel, &at, &mut random, element);
        let wanted = run(&kernel, &Options::default(), &at, &arguments);
        let sim = Options { backend: Backend::Sim, ..Options::default() };
        let got = run(&kernel, &sim, &at, &arguments);
        for (got, wanted) in got.iter().zip(&wanted) {
            assert_eq!(got.bytes(), wanted.bytes());
        }
    }
}

#[test]
fn promoted_and_native_sums_are_within_the_reference_bounds() {
    let mut random = Random::new(3);
    for (left, right) in &PAIRS[..4] {
        let source = format!(
            "kernel k(A: {left}[M, K], W: {right}[N, K]) -> D: f32[M, N] {{ D = A @ W.T }}"
        );
        let kernel = Kernel::parse(&source).expect("it types");
        let at = sizes([64, 64, 1000]);
        let element = |_, random: &mut Random| (random.below(2001) as f64 - 1000.0) / 1000.0;
        let arguments = operands(&kernel, &at, &mut random, element);
        let mut losses = Vec::new();
        for math in [MathMode::Default, MathMode::Fast] {
            let options = Options { backend: Backend::Sim, math, ..Options::default() };
            let outputs = run(&kernel, &options, &at, &arguments);
            let compiled = kernel.compile(&options);
            let problem = compiled.problem(&at).expect("sizes of every dim");
            let worst = compiled
                .check(&problem, &arguments, &outputs)
                .expect("it fits")
                .iter()
                .map(|comparison| comparison.worst)
                .fold(0.0, f64::max);
            assert!(worst <= 1.0, "{source} under {math:?}: {worst}");
            losses.push(worst);
        }
        assert!(losses.iter().all(|loss| *loss > 0.0), "{source}: {losses:?}");
    }
}

#[test]
fn parts_of_f32_are_within_bounds_and_infinities_stay() {
    let kernel =
        Kernel::parse("kernel k(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }")
            .expect("it types");
    let mut random = Random::new(5);
    let sim = Options { backend: Backend::Sim, ..Options::default() };
    for at in [[64, 64, 1], [70, 40, 9], [64, 128, 160], [8, 8, 0]].map(sizes) {
        for special in [false, true] {
            let element = |_, random: &mut Random| match random.below(30) {
                0 if special => f64::INFINITY,
                1 if special => 1e-30,
                2 if special => 0.0,
                _ => f64::from((random.below(1 << 24) as f32 - 8e6) / 3e6),
            };
            let arguments = operands(&kernel, &at, &mut random, element);
            let outputs = run(&kernel, &sim, &at, &arguments);
            let compiled = kernel.compile(&sim);
            let problem = compiled.problem(&at).expect("sizes of every dim");
            let found = compiled.check(&problem, &arguments, &outputs).expect("it fits");
            assert!(found[0].worst <= 1.0, "{at:?}: {:?}", found[0]);
        }
    }
}

#[test]
fn promoted_sums_are_exact_on_every_tile_that_takes_them() {
    let source = "kernel k(A: f8e4m3[M, K], W: f8e4m3[N, K], bias: f32[N]) -> D: f32[M, N] { D = relu(A @ W.T + bias) }";
    let kernel = Kernel::parse(source).expect("it types");
    let mut random = Random::new(11);
    for math in [MathMode::Default, MathMode::Fast] {
        let options = Options { math, ..Options::default() };
        let compiled = kernel.compile(&options);
        let at = sizes([200, 176, 272]);
        let arguments = operands(&kernel, &at, &mut random, whole_number);
        let wanted = run(&kernel, &options, &at, &arguments);
        let problem = compiled.problem(&at).expect("sizes of every dim");
        let placements = Placements::packed(compiled.optimised(), &problem);
        let planning = compiled.planning(&problem, &placements, Chip::STANDARD);
        let schedules = planning.expect("it is one launch").every().expect("it is not refused");
        assert!(schedules.len() > 15, "{}", schedules.len());
        for schedule in schedules.iter().step_by(5) {
            assert_eq!(schedule.knob("tile").map(|tile| tile.ends_with("x 128")), Some(true));
            let sim = Options {
                backend: Backend::Sim,
                hooks: Hooks { schedule: Some(schedule.clone()), ..Hooks::default() },
                ..options.clone()
            };
            let got = run(&kernel, &sim, &at, &arguments);
            assert_eq!(got[0].bytes(), wanted[0].bytes(), "{schedule}");
        }
    }
}
