//! Products of few rows, whose warps stream columns of B through rings of their own.

use postlude::target::{Chip, KernelSchedule, Schedule};
use postlude::{Argument, Arguments, Backend, Hooks, Options, Tensor};
use postlude_corpus::{Random, is_thorough, pick};

use super::problems::{Bound, Data, Layout, Stored};
use super::{check, for_each, with};

const PLAIN: &str = "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N], C: bf16[M, N])
    -> (D: bf16[M, N], m: f32[M]) { z = A @ W.T + b ; D = relu(z) * C ; m = max(z, N) }";
const BATCHES: &str =
    "kernel k(A: f16[B, M, K], W: f16[N, K], s: f32[N]) -> (D: f32[B, M, N], t: f32[N]) {
    D = (A @ W.T) * s ; t = sum(D, B, M) }";
const FOUR_BITS: &str =
    "fused kernel k(A: bf16[M, K], W: u4[N, K], z: u4[N, K/128], s: f32[N, K/128]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W) - f32(z)) * s).T }";
const SHORT_RUNS: &str =
    "fused kernel k(A: bf16[M, K], W: i4[N, K], s: f32[N, K/64]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W)) * s).T }";
const BY_ELEMENTS: &str =
    "fused kernel k(A: f16[M, K], W: i4[N, K], z: u8[N, K/64], s: f16[N, K/32]) -> D: f32[M, N] {
    D = A @ f16((f32(W) - f32(z)) * s).T }";
const EIGHT_BITS: &str =
    "fused kernel k(A: bf16[M, K], W: u8[N, K], z: u8[N, K/64], s: f32[N, K/64]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W) - f32(z)) * s).T }";
const FLOATS: &str = "fused kernel k(A: f16[M, K], W: f8e4m3[N, K], s: f32[N]) -> D: f32[M, N] {
    D = (A @ f16(W).T) * s }";
const BYTES: &str = "kernel k(A: f8e4m3[M, K], W: f8e5m2[N, K], s: f32[N]) -> D: f16[M, N] {
    D = (A @ W.T) * s }";
const INTEGERS: &str = "kernel k(A: u8[M, K], W: i8[N, K]) -> D: i32[M, N] { D = A @ W.T }";
const GATED: &str = "kernel k(A: bf16[M, K], G: bf16[N, K], U: bf16[N, K]) -> D: bf16[M, N] {
    D = relu(A @ G.T) * (A @ U.T) }";
const HALVES: &str = "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N]) -> D: bf16[M, N/2] {
    g, u = halves(A @ W.T + b) ; D = relu(g) * u }";
const PROJECTIONS: &str = "kernel k(A: f16[M, K], Q: f16[N, K], R: f16[N, K], V: f16[N, K], C: f16[M, N]) -> (D: f16[M, N], E: f32[M, N]) {
    v = A @ V.T ; D = A @ Q.T + v * C ; E = (A @ R.T) + v }";

/// A kernel of these sizes, and its schedules for few rows.
fn skinny(text: &str, sizes: [usize; 4]) -> (Bound, Vec<Schedule>) {
    of_kernel(KernelSchedule::Skinny, text, sizes)
}

fn of_kernel(kernel: KernelSchedule, text: &str, sizes: [usize; 4]) -> (Bound, Vec<Schedule>) {
    let (stored, random) = ([Stored::default(); 2], &mut Random::new(sizes[2] as u64));
    let mut bound = Bound::of("skinny", text, stored, sizes, Data::Integers, random);
    if let Some(Argument::Tensor(tensor)) = bound.arguments.get("C") {
        let packed = Argument::Tensor(tensor.to_contiguous());
        bound.arguments.insert("C".to_owned(), packed);
    }
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let every = planning.expect("it is one launch").every().expect("it is not refused");
    let is_asked_for = |one: &Schedule| one.tile().kernel == kernel;
    (bound, every.into_iter().filter(is_asked_for).collect())
}

#[test]
fn products_of_few_rows_are_right() {
    let kernels = [
        (PLAIN, [1, 1, 200, 1096]),
        (PLAIN, [1, 13, 72, 40]),
        (PLAIN, [1, 32, 40, 776]),
        (PLAIN, [1, 5, 33, 0]),
        (BATCHES, [3, 9, 136, 264]),
        (FOUR_BITS, [1, 3, 72, 1536]),
        (FOUR_BITS, [1, 16, 40, 256]),
        (SHORT_RUNS, [1, 8, 72, 320]),
        (BY_ELEMENTS, [1, 5, 72, 320]),
        (EIGHT_BITS, [1, 11, 72, 1088]),
        (FLOATS, [1, 30, 72, 192]),
        (BYTES, [1, 9, 72, 208]),
        (INTEGERS, [1, 14, 104, 336]),
        (GATED, [1, 6, 72, 264]),
        (HALVES, [1, 17, 144, 136]),
        (PROJECTIONS, [1, 3, 40, 520]),
    ];
    for (text, sizes) in kernels {
        let (bound, all) = skinny(text, sizes);
        assert!(all.len() >= 2, "{} {sizes:?}: {}", bound.about, all.len());
        let count = if is_thorough() { all.len() } else { 1 };
        let all: Vec<&Schedule> = all.iter().collect();
        let some: Vec<Schedule> = pick(&all, &bound.about, count)
            .into_iter()
            .flat_map(|schedule| [schedule.clone(), with(schedule, "stages", 3)])
            .collect();
        for_each(&some, |schedule| {
            let taken = check(&bound, Some(schedule), Layout::Packed);
            assert_eq!(taken.tile(), schedule.tile());
        });
    }
}

/// A row's bits are the same beside other rows: the first of 1, of 9 and of 16.
#[test]
fn the_bits_of_a_row_do_not_depend_on_how_many_there_are() {
    for text in [PLAIN, FOUR_BITS] {
        let first_rows: Vec<Vec<u8>> = [1, 9, 16]
            .into_iter()
            .map(|rows| {
                let (bound, all) = skinny(text, [1, rows, 40, 1280]);
                let schedule = all.iter().find(|one| one.tile().columns == 64);
                let schedule = schedule.expect("its sums fit registers").clone();
                let hooks = Hooks { schedule: Some(schedule), ..Hooks::default() };
                let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
                let drawn = |name: &str, tensor: &Tensor| {
                    // All rows are the same.
                    let rows = if name == "A" || name == "C" { rows } else { 1 };
                    let mut random = Random::new(7);
                    let mut value = || match tensor.dtype().bits() {
                        16.. => random.whole() / 3.0,
                        _ => random.below(8) as f64,
                    };
                    let row: Vec<f64> = (0..tensor.len() / rows).map(|_| value()).collect();
                    let values = row.repeat(rows);
                    Tensor::from_values(tensor.dtype(), tensor.shape(), &values).expect("it fits")
                };
                let mut arguments = Arguments::new();
                for (name, argument) in &bound.arguments {
                    let Argument::Tensor(tensor) = argument else { continue };
                    arguments.insert(name.clone(), Argument::Tensor(drawn(name, tensor)));
                }
                let outputs = Bound { arguments, ..bound }.run(&options).expect("it runs");
                let all = outputs[0].to_contiguous();
                all.bytes()[..all.bytes().len() / rows].to_vec()
            })
            .collect();
        assert!(first_rows.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }
}

/// A schedule that is written by hand is refused where it would leave no room for words, or wait for loads that no warp issues.
#[test]
fn schedules_of_few_rows_that_cannot_run_are_refused() {
    let refused = |text: &str, sizes: [usize; 4], knob: &str, value: &str| {
        let (bound, all) = skinny(text, sizes);
        let compiled = bound.kernel.compile(&Options::default());
        let placements = bound.placements(&compiled);
        let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
        let planning = planning.expect("it is one launch");
        assert!(planning.accept(&all[0]).is_ok(), "{}", all[0]);
        assert!(planning.accept(&with(&all[0], knob, value)).is_err(), "{knob} {value}");
    };
    refused(FOUR_BITS, [1, 3, 72, 1536], "shared_words", "1");
    refused(FOUR_BITS, [1, 3, 72, 1536], "shared_words", "0");
    refused(PLAIN, [1, 3, 72, 264], "operands", "tma_k_major tma_k_major");
}

/// Warpgroups that widen B in registers have slices of K, of whole spans: the last has fewer, and a CTA has several.
#[test]
fn slices_of_narrow_weights_add_up() {
    let kernels = [
        (FOUR_BITS, [1, 3, 136, 2816], "3"),
        (FOUR_BITS, [1, 60, 136, 1792], "2"),
        (SHORT_RUNS, [1, 16, 264, 1280], "4"),
        (EIGHT_BITS, [1, 11, 136, 1152], "4"),
        (EIGHT_BITS, [1, 70, 136, 640], "2"),
        (FLOATS, [1, 30, 136, 896], "3"),
    ];
    for (text, sizes, slices) in kernels {
        let (bound, all) = of_kernel(KernelSchedule::Swapped, text, sizes);
        let whole = all.iter().find(|one| one.knob("split_k_slices").is_none());
        let cut = with(whole.expect("a tile takes it"), "split_k_slices", slices);
        for_each(&[cut.clone(), with(&cut, "grid_limit", "2")], |schedule| {
            check(&bound, Some(schedule), Layout::Packed);
        });
    }
}
