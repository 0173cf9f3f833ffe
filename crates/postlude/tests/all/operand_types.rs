//! Products of operands that are not 16 bits wide, in the simulator: every pair of dtypes, every layout, promoted sums and a tensor core's own.
//!
//! Small whole numbers have exact sums, whatever the tensor core's fractional bits; other numbers are held to the
//! reference's bounds.

use postlude::LaunchForm;
use postlude::placement::Placements;
use postlude::target::{Chip, CopyRule};
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

pub(crate) fn run(
    kernel: &Kernel,
    options: &Options,
    at: &Sizes,
    arguments: &Arguments<'_>,
) -> Vec<Tensor> {
    let compiled = kernel.compile(options);
    let problem = compiled.problem(at).expect("sizes of every dim");
    let mut outputs = compiled.outputs(&problem).expect("it has a shape");
    compiled.run_into(&problem, arguments, &mut outputs).unwrap_or_else(|error| {
        panic!("{error}");
    });
    outputs
}

/// In the simulator, with operands that launches before the product copy or not.
fn simulated(copies: CopyRule) -> Options {
    let hooks = Hooks { copies, guard: true, ..Hooks::default() };
    Options { backend: Backend::Sim, hooks, ..Options::default() }
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
            for copies in [CopyRule::Never, CopyRule::Always] {
                let got = run(&kernel, &simulated(copies), &at, &arguments);
                assert_eq!(got[0].bytes(), wanted[0].bytes(), "{source}, {copies:?}");
            }
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
    let all = [[64, 64, 1], [70, 40, 9], [64, 128, 160], [8, 8, 0], [66, 72, 36]].map(sizes);
    for (at, copies) in all.iter().flat_map(|at| [(at, CopyRule::Never), (at, CopyRule::Always)]) {
        let sim = simulated(copies);
        for special in [false, true] {
            let element = |_, random: &mut Random| match random.below(30) {
                0 if special => f64::INFINITY,
                1 if special => 1e-30,
                2 if special => 0.0,
                3 if special && random.below(4) == 0 => f64::NAN,
                4 if special => f64::from(f32::MAX) * 0.6,
                _ => f64::from((random.below(1 << 24) as f32 - 8e6) / 3e6),
            };
            let arguments = operands(&kernel, at, &mut random, element);
            let outputs = run(&kernel, &sim, at, &arguments);
            let compiled = kernel.compile(&sim);
            let problem = compiled.problem(at).expect("sizes of every dim");
            let found = compiled.check(&problem, &arguments, &outputs).expect("it fits");
            assert!(found[0].worst <= 1.0, "{at:?}, {copies:?}: {:?}", found[0]);
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

#[test]
fn copies_keep_every_bit_of_8_bit_floats() {
    let source = "kernel k(A: f8e5m2[K, M], W: f8e5m2[K, N]) -> D: f32[M, N] { D = A.T @ W }";
    let kernel = Kernel::parse(source).expect("it types");
    let at = sizes([48, 40, 96]);
    // Rows of A hold one byte each, and W picks them: infinities and nan arrive, and no other row has them.
    let bytes: Vec<u8> = (0..96).flat_map(|_| (0..48).map(|row| 208 + row)).collect();
    let one = |k: usize, n: usize| f64::from(u8::from(k == n));
    let w: Vec<f64> = (0..96).flat_map(|k| (0..40).map(move |n| one(k, n))).collect();
    let a = Tensor::from_bytes(DType::F8E5M2, [96, 48], bytes).expect("it fits");
    let w = Tensor::from_values(DType::F8E5M2, [96, 40], &w).expect("it fits");
    let arguments = Arguments::from(
        [("A", a), ("W", w)].map(|(name, tensor)| (name.to_owned(), tensor.into())),
    );
    let wanted = run(&kernel, &simulated(CopyRule::Never), &at, &arguments);
    let got = run(&kernel, &simulated(CopyRule::Always), &at, &arguments);
    assert!(wanted[0].values().iter().any(|value| value.is_nan()));
    assert_eq!(got[0].bytes(), wanted[0].bytes());
}

#[test]
fn operands_are_copied_where_tiles_read_more_than_a_copy_costs() {
    let copied = |source: &str, at: [usize; 3]| {
        let compiled = Kernel::parse(source).expect("it types").compile(&Options::default());
        let problem = compiled.problem(&sizes(at)).expect("sizes of every dim");
        let chosen = compiled.chosen(&problem, Chip::STANDARD).expect("it is planned");
        let names = chosen.graph().inputs().iter().map(|input| input.name.clone());
        let is_copied = chosen.how == LaunchForm::Copied;
        is_copied.then(|| names.skip(2).collect::<Vec<String>>().join(" "))
    };
    let large = [8192, 8192, 8192];
    for dtype in ["f8e4m3", "f8e5m2", "i8", "u8", "tf32"] {
        let kernel = |a: &str, w: &str, product: &str| {
            let out = if dtype.ends_with('8') { "i32" } else { "f32" };
            format!(
                "kernel k(A: {dtype}[{a}], W: {dtype}[{w}]) -> D: {out}[M, N] {{ D = {product} }}"
            )
        };
        let n_major = kernel("M, K", "K, N", "A @ W");
        assert_eq!(copied(&n_major, large).as_deref(), Some("right_k_major"), "{dtype}");
        assert_eq!(copied(&n_major, [256, 256, 256]), None, "{dtype}");
        assert_eq!(copied(&format!("fused {n_major}"), large), None, "{dtype}");
        let k_major = kernel("M, K", "N, K", "A @ W.T");
        assert_eq!(copied(&k_major, large), None, "{dtype}");
        let both = kernel("K, M", "K, N", "A.T @ W");
        assert_eq!(copied(&both, large).as_deref(), Some("left_k_major right_k_major"), "{dtype}");
        // Rows that begin anywhere.
        let unaligned = Some("left_k_major right_k_major");
        assert_eq!(copied(&k_major, [4096, 4096, 4099]).as_deref(), unaligned, "{dtype}");
    }
    let f32 = "kernel k(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }";
    for (at, parts) in [
        (large, true),
        ([4096, 4096, 4096], true),
        ([512, 512, 512], false),
        ([16, 8192, 8192], false),
        ([4096, 4096, 4095], false),
    ] {
        assert_eq!(copied(f32, at).as_deref(), parts.then_some("left_parts right_parts"), "{at:?}");
    }
}
