//! Grouped products: rows behind the last end, ends that are no ends, and both on the host and in a launch.

use postlude::placement::Placements;
use postlude::sim::{self, SimOptions};
use postlude::target::Chip;
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Problem, Sizes, Tensor,
};
use postlude_corpus::{Fill, fill};
use postlude_sim::Timing;

const ROWS: usize = 40;

const FORWARD: &str = "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E], bias: f32[E, N]) \
     -> (D: bf16[T, N], F: f32[T, N], G: i8[T, N], r: f32[T], X: f32[N, T]) {
    Z = segments(A, ends) @ W.T + bias
    D = Z\n F = Z\n G = i8(Z)\n r = max(rms_norm(Z, N, 1e-5), N)\n X = Z\n}";

fn compiled(backend: Backend, text: &str) -> Compiled {
    let kernel = Kernel::parse(text).expect("a kernel");
    kernel.compile(&Options { backend, ..Options::default() })
}

fn arguments(
    compiled: &Compiled,
    sizes: &[(&str, usize)],
    ends: &[f64],
) -> (Problem, Arguments<'static>) {
    let known = postlude::problem::dim_names(compiled.defined());
    let sizes = sizes.iter().filter(|(dim, _)| known.contains(dim));
    let sizes: Sizes = sizes.map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
    let problem = Problem::new(compiled.defined(), &sizes).expect("sizes of every dim");
    let mut arguments = Arguments::new();
    for input in compiled.defined().inputs() {
        let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
        let tensor = match input.name.as_str() {
            "ends" => Tensor::from_values(DType::I32, shape, ends),
            _ => fill(Fill::Normal, input.dtype, &shape, 0, 7),
        };
        arguments.insert(input.name.clone(), Argument::Tensor(tensor.expect("a tensor")));
    }
    (problem, arguments)
}

/// Outputs whose elements are all the same.
fn ones(compiled: &Compiled, problem: &Problem) -> Vec<Tensor> {
    let outputs = compiled.defined().outputs().iter();
    let one = |dtype, shape: &[usize]| fill(Fill::Ones, dtype, shape, 0, 0).expect("ones");
    outputs.map(|output| one(output.dtype, &problem.shape(&output.dims))).collect()
}

const SIZES: [(&str, usize); 4] = [("T", ROWS), ("N", 32), ("K", 16), ("E", 4)];

#[test]
fn rows_behind_the_last_end_stay_as_they_were() {
    for backend in [Backend::Cpu, Backend::Sim, Backend::Reference] {
        let compiled = compiled(backend, FORWARD);
        let (problem, arguments) = arguments(&compiled, &SIZES, &[3.0, 3.0, 20.0, 23.0]);
        let mut outputs = ones(&compiled, &problem);
        let views = outputs.iter_mut().map(Tensor::view_mut).collect::<Vec<_>>();
        compiled.call(&problem, &arguments, views).expect("a call").run().expect("a run");
        for (output, tensor) in compiled.defined().outputs().iter().zip(&outputs) {
            let is_transposed = output.name == "X";
            let values = tensor.values();
            let columns = values.len() / ROWS;
            let at = |row: usize, column: usize| {
                if is_transposed {
                    values[column * ROWS + row]
                } else {
                    values[row * columns + column]
                }
            };
            let is_one = |row: usize| (0..columns).all(|column| at(row, column) == 1.0);
            assert!((23..ROWS).all(is_one), "{} on {backend:?}", output.name);
            assert!(!(0..23).all(is_one), "{} on {backend:?}", output.name);
        }
    }
}

#[test]
fn ends_that_decrease_or_pass_the_rows_are_errors_on_the_host() {
    let compiled = compiled(Backend::Cpu, FORWARD);
    for (ends, message) in [
        ([3.0, 2.0, 20.0, 23.0], "element 1 of `ends` is 2"),
        ([3.0, 3.0, 20.0, 41.0], "within 40 rows"),
        ([-1.0, 3.0, 20.0, 23.0], "element 0 of `ends` is -1"),
    ] {
        let (problem, arguments) = arguments(&compiled, &SIZES, &ends);
        let error = compiled.run(&arguments, &Sizes::new()).expect_err("no ends");
        assert!(error.to_string().contains(message), "{error}");
        let prepared = compiled.prepare(&problem).expect("a plan");
        let inputs =
            compiled.defined().inputs().iter().map(|input| arguments[&input.name].borrowed());
        let mut outputs = ones(&compiled, &problem);
        let mut views = outputs.iter_mut().map(Tensor::view_mut).collect::<Vec<_>>();
        let error = prepared.run(&inputs.collect::<Vec<_>>(), &mut views).expect_err("no ends");
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// Runs a launch that was planned for proper ends with others, as a device may hold them.
fn run_with_ends(text: &str, ends: &[i32]) -> Vec<Vec<u8>> {
    let compiled = compiled(Backend::Sim, text);
    let proper: Vec<f64> = ends.iter().map(|_| ROWS as f64).collect();
    let sizes = [SIZES[0], SIZES[1], SIZES[2], ("E", ends.len())];
    let (problem, arguments) = arguments(&compiled, &sizes, &proper);
    let outputs = ones(&compiled, &problem);
    let call = compiled.simulated(&problem, &arguments, &outputs).expect("a call");
    let mut buffers = call.buffers().to_vec();
    let place = call.names().iter().position(|name| name == "ends").expect("ends");
    buffers[place] = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    let options = postlude_sim::Options {
        timing: SimOptions::default().timing,
        findings: true,
        budget: SimOptions::default().budget,
        regions: call.regions().to_vec(),
        outputs: Vec::new(),
    };
    let report = postlude_sim::run(call.text(), call.launch(), &mut buffers, &options);
    sim::accept(&report.expect("a launch")).expect("no findings");
    buffers.split_off(compiled.defined().inputs().len())
}

#[test]
fn ends_on_a_device_are_clamped() {
    let text = "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E]) -> D: f32[T, N] { D = segments(A, ends) @ W.T }";
    let wild = run_with_ends(text, &[5, -3, 30, 7, i32::MAX, 2]);
    let tame = run_with_ends(text, &[5, 5, 30, 30, ROWS as i32, ROWS as i32]);
    assert!(wild == tame, "clamped by the largest end before");
    let none = run_with_ends(text, &[i32::MIN, -1, 0]);
    assert!(none[0].chunks_exact(4).all(|bytes| bytes == 1f32.to_le_bytes()), "no row is written");
    let many: Vec<i32> = (0..100).map(|segment| segment * 997 % 61 - 10).collect();
    let mut before = 0;
    let clamped = many.iter().map(|end| {
        before = before.max((*end).clamp(0, ROWS as i32));
        before
    });
    assert!(run_with_ends(text, &many) == run_with_ends(text, &clamped.collect::<Vec<_>>()));
}

#[test]
fn ends_of_contractions_on_a_device_are_clamped() {
    let text = "kernel k(G: bf16[T, N], A: bf16[T, K], ends: i32[E]) -> D: f32[E, N, K] \
         { D = segments(G, ends).T @ segments(A, ends) }";
    let wild = run_with_ends(text, &[-7, 9, i32::MAX]);
    let tame = run_with_ends(text, &[0, 9, ROWS as i32]);
    assert!(wild == tame);
    run_with_ends(text, &[30, 9, 12, i32::MIN]);
}

#[test]
fn ends_of_sums_on_a_device_are_clamped() {
    let product = "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E]) -> (b: f32[E, N], D: f32[T, N]) \
         { D = segments(A, ends) @ W.T\nb = sum(D, T) }";
    let alone = "kernel k(A: bf16[T, K], ends: i32[E]) -> (b: f32[E, K], s: f32[E]) \
         { b = sum(segments(A, ends), T)\ns = absmax(segments(A, ends), T, K) }";
    for text in [product, alone] {
        let wild = run_with_ends(text, &[5, -3, 30, 7, i32::MAX, 2]);
        let tame = run_with_ends(text, &[5, 5, 30, 30, ROWS as i32, ROWS as i32]);
        assert!(wild == tame, "clamped by the largest end before");
        let none = run_with_ends(text, &[i32::MIN, -1, 0]);
        assert!(none[0].iter().all(|byte| *byte == 0), "sums of no rows");
    }
}

const PRODUCT: &str = "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E]) -> D: f32[T, N] { D = segments(A, ends) @ W.T }";

/// Runs every schedule that is wanted on few CTAs, each under a timing of its own, and gives the number of them.
fn agree_on_few_ctas(
    text: &str,
    sizes: &[(&str, usize)],
    ends: &[f64],
    wanted: impl Fn(&str) -> bool,
) -> u64 {
    let plain = compiled(Backend::Cpu, text);
    let (problem, arguments) = arguments(&plain, sizes, ends);
    let right = plain.run(&arguments, &Sizes::new()).expect("a run");
    let placements = Placements::packed(plain.defined(), &problem);
    let planning = plain.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    let mut tried = 0;
    for schedule in planning.every().expect("schedules") {
        let told = schedule.to_string();
        if !wanted(&told) {
            continue;
        }
        let timing = Timing::Random { seed: tried };
        let hooks =
            Hooks { schedule: Some(schedule), grid_limit: Some(4), timing, ..Hooks::default() };
        let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
        let compiled = Kernel::parse(text).expect("a kernel").compile(&options);
        let got = compiled.run(&arguments, &Sizes::new()).expect("a run");
        let (got, right) = (got["D"].values(), right["D"].values());
        let far = got.iter().zip(&right).map(|(a, b)| (a - b).abs());
        assert!(far.fold(0.0, f64::max) <= 1e-3, "{told}");
        tried += 1;
    }
    tried
}

/// Short segments leave warpgroups of a tile, or blocks of their rows, without rows.
#[test]
fn warpgroups_without_rows_of_a_segment_keep_pace_with_the_others() {
    let sizes = [("T", 430), ("N", 136), ("K", 328), ("E", 5)];
    let tiles = ["192 x 128", "256 x 128", "128 x 128"];
    let tall = |told: &str| tiles.iter().any(|tile| told.contains(tile));
    let tried = agree_on_few_ctas(PRODUCT, &sizes, &[40.0, 40.0, 170.0, 400.0, 430.0], tall);
    assert!(tried >= 6, "{tried}");
}

/// Clusters take their tiles from a counter, in an order that timing decides, and leave it as it was for the next launch,
/// which the simulator checks. Some have a tile or none.
#[test]
fn tiles_of_unlike_segments_are_taken_once_each_under_any_timing() {
    let residual = "kernel k(A: bf16[T, K], W: bf16[E, N, K], C: f32[T, N], ends: i32[E]) -> D: f32[T, N] \
         { D = segments(A, ends) @ W.T + C }";
    let contraction = "kernel k(G: bf16[T, N], A: bf16[T, K], ends: i32[E]) -> D: f32[E, N, K] \
         { D = segments(G, ends).T @ segments(A, ends) }";
    let masked = "kernel k(A: bf16[E, T, K], W: bf16[E, N, K], ends: i32[E]) -> D: f32[E, T, N] \
         { D = masked(A, ends) @ W.T }";
    let sizes = [("T", 140), ("N", 200), ("K", 72), ("E", 7)];
    let ends = [10.0, 10.0, 75.0, 76.0, 80.0, 110.0, 140.0];
    for text in [PRODUCT, residual, contraction, masked] {
        let few = |told: &str| ["128 x 128", "64 x 64"].iter().any(|it| told.contains(it));
        let tried = agree_on_few_ctas(text, &sizes, &ends, few);
        assert!(tried >= 3, "{tried} of {text}");
    }
    let none = agree_on_few_ctas(PRODUCT, &sizes, &[0.0; 7], |told| told.contains("64 x 64"));
    assert!(none > 0);
}
