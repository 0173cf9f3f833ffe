//! Products with A and B swapped: rows of a tile are columns of the product, whose outputs tiles store transposed.

use postlude::target::{Chip, Schedule};
use postlude::{Argument, Backend, Hooks, Options};
use postlude_corpus::{Random, is_thorough};

use super::problems::{Bound, Data, Layout, Stored};
use super::{check, for_each};

const PLAIN: &str = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = A @ W.T }";
const VECTORS: &str =
    "kernel k(A: bf16[K, M], W: bf16[N, K], b: f32[N], s: f32[M], C: bf16[M, N], a: f32)
    -> (D: bf16[M, N], E: f32[M, N]) { D = relu(a * (A.T @ W.T) + b - s); E = D * C + row - col }";
const BATCHES: &str =
    "kernel k(A: f16[B, M, K], W: f16[B, K, N], b: f32[B, N]) -> D: f16[B, M, N] {
    D = (A @ W) * 0.5 + b }";
const INTEGERS: &str = "kernel k(A: i8[M, K], W: i8[N, K]) -> D: i32[M, N] { D = A @ W.T }";

/// A kernel of these sizes, and its schedules with A and B swapped.
fn swapped(text: &str, sizes: [usize; 4]) -> (Bound, Vec<Schedule>) {
    let (stored, random) = ([Stored::default(); 2], &mut Random::new(sizes[1] as u64));
    let mut bound = Bound::of("swapped", text, stored, sizes, Data::Integers, random);
    if let Some(Argument::Tensor(tensor)) = bound.arguments.get("C") {
        let packed = Argument::Tensor(tensor.to_contiguous());
        bound.arguments.insert("C".to_owned(), packed);
    }
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let every = planning.expect("it is one launch").every().expect("it is not refused");
    let swapped = every.into_iter().filter(|one| one.knob("swap_ab").is_some()).collect();
    (bound, swapped)
}

#[test]
fn products_with_a_and_b_swapped_are_right() {
    let kernels = [
        (PLAIN, [1, 312, 392, 200]),
        (VECTORS, [1, 184, 264, 136]),
        (BATCHES, [3, 72, 328, 72]),
        (INTEGERS, [1, 75, 272, 144]),
    ];
    for (text, sizes) in kernels {
        let (bound, all) = swapped(text, sizes);
        assert!(all.len() > 20, "{}: {}", bound.about, all.len());
        let step = if is_thorough() { 1 } else { all.len().div_ceil(6) };
        let some: Vec<&Schedule> = all.iter().step_by(step).collect();
        for_each(&some, |schedule| {
            let taken = check(&bound, Some(schedule), Layout::Packed);
            assert_eq!((taken.tile(), taken.knob("swap_ab")), (schedule.tile(), Some("1".into())));
        });
    }
}

/// What planning takes by itself where rows are a few more than whole tiles have.
#[test]
fn the_planner_swaps_operands_of_few_rows() {
    let (bound, _) = swapped(PLAIN, [1, 264, 4096, 512]);
    assert!(check(&bound, None, Layout::Packed).knob("swap_ab").is_some());
}

/// A program that reads along one dim has no such schedule, and says so where one is given.
#[test]
fn a_schedule_with_swapped_operands_is_refused_where_dims_differ() {
    let (_, all) = swapped(PLAIN, [1, 64, 64, 64]);
    let text =
        "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = softmax(A @ W.T, N) }";
    let (bound, none) = swapped(text, [1, 64, 64, 64]);
    assert!(none.is_empty());
    let hooks = Hooks { schedule: Some(all[0].clone()), ..Hooks::default() };
    let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
    let error = bound.run(&options).expect_err("no such program");
    assert!(error.to_string().contains("swap_ab"), "{error}");
}
