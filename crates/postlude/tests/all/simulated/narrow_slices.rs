//! Slices of K of narrow weights, which warpgroups widen in registers.

use postlude::Options;
use postlude::target::{Chip, KernelSchedule, Schedule};
use postlude_corpus::Random;

use super::problems::{Bound, Data, Layout, Stored};
use super::{check, for_each, with};

const FOUR_BITS: &str =
    "fused kernel k(A: bf16[M, K], W: u4[N, K], z: u4[N, K/128], s: f32[N, K/128]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W) - f32(z)) * s).T }";
const SHORT_RUNS: &str =
    "fused kernel k(A: bf16[M, K], W: i4[N, K], s: f32[N, K/64]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W)) * s).T }";
const EIGHT_BITS: &str =
    "fused kernel k(A: bf16[M, K], W: u8[N, K], z: u8[N, K/64], s: f32[N, K/64]) -> D: f32[M, N] {
    D = A @ (bf16(f32(W) - f32(z)) * s).T }";
const FLOATS: &str = "fused kernel k(A: f16[M, K], W: f8e4m3[N, K], s: f32[N]) -> D: f32[M, N] {
    D = (A @ f16(W).T) * s }";

/// A kernel of these sizes, and its schedules that widen in registers.
fn swapped(text: &str, sizes: [usize; 4]) -> (Bound, Vec<Schedule>) {
    let (stored, random) = ([Stored::default(); 2], &mut Random::new(sizes[2] as u64));
    let bound = Bound::of("narrow", text, stored, sizes, Data::Integers, random);
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let every = planning.expect("it is one launch").every().expect("it is not refused");
    let is_swapped = |one: &Schedule| one.tile().kernel == KernelSchedule::Swapped;
    (bound, every.into_iter().filter(is_swapped).collect())
}

/// Slices are of whole spans: the last has fewer, and a CTA has several.
#[test]
fn slices_of_narrow_weights_add_up() {
    let kernels = [
        (FOUR_BITS, [1, 3, 136, 2816], "3"),
        (FOUR_BITS, [1, 60, 136, 1792], "2"),
        (SHORT_RUNS, [1, 16, 264, 1280], "4"),
        (EIGHT_BITS, [1, 11, 136, 1152], "4"),
        (EIGHT_BITS, [1, 70, 136, 640], "2"),
        (FLOATS, [1, 30, 136, 896], "3"),
        // K ends with half a span.
        (SHORT_RUNS, [1, 5, 136, 1408], "2"),
        (EIGHT_BITS, [1, 20, 136, 832], "3"),
    ];
    for (text, sizes, slices) in kernels {
        let (bound, all) = swapped(text, sizes);
        let whole = all.iter().find(|one| one.knob("split_k_slices").is_none());
        let cut = with(whole.expect("a tile takes it"), "split_k_slices", slices);
        for_each(&[cut.clone(), with(&cut, "grid_limit", "2")], |schedule| {
            check(&bound, Some(schedule), Layout::Packed);
        });
    }
}
