//! Slices of K in the simulator: partial sums that meet in the workspace, with every kind of sum and epilogue.

use postlude::placement::Placements;
use postlude::target::{Chip, Schedule};
use postlude::{Argument, Arguments, Backend, Hooks, Kernel, Options, Sizes, Tensor};
use postlude_corpus::{Random, is_thorough};
use postlude_sim::Timing;

use crate::operand_types::run;

fn sizes(all: &[(&str, usize)]) -> Sizes {
    all.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect()
}

/// Whole numbers from -4 to 4, whose sums are exact in any order.
fn arguments(kernel: &Kernel, at: &Sizes, random: &mut Random) -> Arguments<'static> {
    let compiled = kernel.compile(&Options::default());
    let problem = compiled.problem(at).expect("sizes of every dim");
    let inputs = compiled.optimised().inputs().iter();
    inputs
        .map(|input| {
            let shape = problem.shape(input.dims.as_ref().expect("it is a tensor"));
            let count = shape.iter().product::<usize>();
            let least = if input.dtype.name().starts_with('u') { 0.0 } else { -4.0 };
            let values: Vec<f64> = (0..count).map(|_| random.below(9) as f64 + least).collect();
            let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
            (input.name.clone(), Argument::Tensor(tensor))
        })
        .collect()
}

/// The schedules of all tiles that take slices, with as many of them.
fn sliced(kernel: &Kernel, at: &Sizes, slices: u32) -> Vec<Schedule> {
    let compiled = kernel.compile(&Options::default());
    let problem = compiled.problem(at).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let all = planning.every().expect("it is not refused").into_iter();
    let with = all.filter_map(|schedule| schedule.with("split_k_slices", slices).ok());
    with.filter(|schedule| planning.accept(schedule).is_ok()).collect()
}

fn simulated(schedule: &Schedule, timing: Timing) -> Options {
    let hooks = Hooks { schedule: Some(schedule.clone()), timing, ..Hooks::default() };
    Options { backend: Backend::Sim, hooks, ..Options::default() }
}

#[test]
fn partial_sums_of_every_kind_meet() {
    let kernels = [
        (
            "kernel k(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> D: bf16[M, N] { D = relu(A @ W.T + bias) }",
            2,
        ),
        (
            "kernel k(A: f16[M, K], W: f16[K, N], C: f16[M, N]) -> D: f32[M, N] { D = A @ W + f32(C) }",
            3,
        ),
        ("kernel k(A: i8[M, K], W: u8[N, K]) -> D: i32[M, N] { D = A @ W.T }", 3),
        ("kernel k(A: f8e4m3[M, K], W: f8e5m2[N, K]) -> D: f32[M, N] { D = A @ W.T }", 4),
        (
            "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N/2] { g, u = halves(A @ W.T); D = g * u }",
            5,
        ),
    ];
    let at = sizes(&[("M", 130), ("N", 144), ("K", 1040)]);
    let mut random = Random::new(3);
    for (source, slices) in kernels {
        let kernel = Kernel::parse(source).expect("it types");
        let arguments = arguments(&kernel, &at, &mut random);
        let wanted = run(&kernel, &Options::default(), &at, &arguments);
        let all = sliced(&kernel, &at, slices);
        assert!(all.len() >= 5, "{source}: {}", all.len());
        for (place, schedule) in all.iter().enumerate().step_by(25) {
            let timing = if place % 2 == 0 { Timing::Eager } else { Timing::Random { seed: 5 } };
            let got = run(&kernel, &simulated(schedule, timing), &at, &arguments);
            assert_eq!(got[0].bytes(), wanted[0].bytes(), "{source}\n{schedule}");
        }
    }
}

#[test]
fn whole_tiles_fill_the_waves_before_slices() {
    let source = "kernel k(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> D: bf16[M, N] { D = relu(A @ W.T + bias) }";
    let kernel = Kernel::parse(source).expect("it types");
    let at = sizes(&[("M", 300), ("N", 212), ("K", 208)]);
    let arguments = arguments(&kernel, &at, &mut Random::new(11));
    let wanted = run(&kernel, &Options::default(), &at, &arguments);
    let mut all = sliced(&kernel, &at, 3);
    // Small tiles are many.
    all.retain(|schedule| schedule.tile().rows * schedule.tile().columns >= 128 * 96);
    let step = all.len().div_ceil(if is_thorough() { 6 } else { 2 });
    for (place, schedule) in all.iter().enumerate().step_by(step) {
        // Of few CTAs: one wave of whole tiles, and more than there are tiles.
        for waves in [1, 99] {
            let cut = schedule.with("data_parallel_waves", waves).expect("slices may follow");
            let timing = if place % 2 == 0 { Timing::Lazy } else { Timing::Random { seed: 5 } };
            let mut options = simulated(&cut, timing);
            options.hooks.grid_limit = Some(4);
            let got = run(&kernel, &options, &at, &arguments);
            assert_eq!(got[0].bytes(), wanted[0].bytes(), "{cut}");
        }
    }
}

#[test]
fn bits_of_a_row_do_not_depend_on_how_many_rows_there_are() {
    let source = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: f32[M, N] { D = A @ W.T }";
    let kernel = Kernel::parse(source).expect("it types");
    let [few, many] = [70, 330].map(|rows| sizes(&[("M", rows), ("N", 96), ("K", 1000)]));
    let mut random = Random::new(9);
    let element = |_| f64::from(random.below(1 << 20) as f32 / 3e5 - 1.7);
    let values: Vec<f64> = (0..330 * 1000 + 96 * 1000).map(element).collect();
    let (a, w) = values.split_at(330 * 1000);
    let tensor = |shape: [usize; 2], values: &[f64]| {
        let dtype = kernel.compile(&Options::default()).optimised().inputs()[0].dtype;
        Argument::Tensor(Tensor::from_values(dtype, shape, values).expect("it fits"))
    };
    let given = |rows: usize| -> Arguments<'static> {
        let all = [("A", tensor([rows, 1000], &a[..rows * 1000])), ("W", tensor([96, 1000], w))];
        all.map(|(name, tensor)| (name.to_owned(), tensor)).into()
    };
    let schedule = sliced(&kernel, &few, 3).into_iter().next().expect("one takes slices");
    let options = simulated(&schedule, Timing::Eager);
    let first = run(&kernel, &options, &few, &given(70));
    let all = run(&kernel, &options, &many, &given(330));
    assert_eq!(first[0].values(), all[0].values()[..70 * 96]);
}

#[test]
fn long_contractions_of_few_tiles_are_sliced_and_others_are_not() {
    let planned = |source: &str, at: [usize; 3]| {
        let kernel = Kernel::parse(source).expect("it types");
        let at = sizes(&[("M", at[0]), ("N", at[1]), ("K", at[2])]);
        let compiled = kernel.compile(&Options::default());
        let problem = compiled.problem(&at).expect("sizes of every dim");
        let placements = Placements::packed(compiled.optimised(), &problem);
        let planning = compiled.planning(&problem, &placements, Chip::STANDARD);
        let best = planning.expect("one launch").best().expect("it is planned");
        best.schedule().number("split_k_slices").max(1)
    };
    let plain = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = A @ W.T }";
    assert!(planned(plain, [1152, 224, 11544]) > 1);
    assert_eq!(planned(plain, [8192, 8192, 8192]), 1);
    assert_eq!(planned(plain, [256, 256, 64]), 1);
    // Partial results of reductions are counted by tiles.
    let folded = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> s: f32[N] { s = sum(A @ W.T, M) }";
    assert_eq!(planned(folded, [1152, 224, 11544]), 1);
}
