//! Outputs whose rows begin anywhere, which threads store from slots, beside others that TMA stores.

use postlude::target::{Chip, Schedule};
use postlude::{Argument, DType, Options, Tensor};
use postlude_corpus::{Random, is_thorough};

use super::problems::{Bound, Data, Layout, Stored};
use super::{check_on, for_each, with, words};

/// Of 8, 16 and 32 bits, in a tile of its own width, and one that lies along columns.
const MIXED: &str = "kernel k(A: bf16[B, M, K], W: bf16[N, K], b: f32[N]) \
     -> (D: bf16[B, M, N], E: i8[B, M, N], F: f32[B, M, N], X: f32[B, N, M]) \
     { z = A @ W.T + b\n D = relu(z)\n E = i8(z)\n F = z\n X = -z }";
const HALF: &str = "kernel k(A: f16[M, K], W: f16[N, K]) -> (D: f16[M, N/2], G: f32[M, N/2], I: i32[M, N]) \
     { z = A @ W.T\n a, g = halves(z)\n D = a * g\n G = g\n I = i32(round(z)) }";
const SEGMENTED: &str = "kernel k(A: bf16[M, K], W: bf16[B, N, K], ends: i32[B]) -> (D: bf16[M, N], F: f32[M, N]) \
     { F = segments(A, ends) @ W.T\n D = F }";

fn of(text: &str, sizes: [usize; 4]) -> (Bound, Vec<Schedule>) {
    let (stored, random) = ([Stored::default(); 2], &mut Random::new(sizes[2] as u64));
    let mut bound = Bound::of("coalesced", text, stored, sizes, Data::Integers, random);
    if bound.arguments.contains_key("ends") {
        let ends = Tensor::from_values(DType::I32, vec![3], &[40.0, 40.0, 150.0]).expect("ends");
        bound.arguments.insert("ends".to_owned(), Argument::Tensor(ends));
    }
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let every = planning.expect("it is one launch").every().expect("it is not refused");
    (bound, every)
}

#[test]
fn rows_that_begin_anywhere_are_stored_from_slots_on_every_kind_of_tile() {
    let kernels = [
        (MIXED, [2, 148, 139, 40], 3),
        (HALF, [1, 150, 262, 40], 4),
        (SEGMENTED, [3, 150, 75, 40], 2),
    ];
    for (text, sizes, coalesced) in kernels {
        let (bound, all) = of(text, sizes);
        let step = if is_thorough() { 1 } else { all.len().div_ceil(8) };
        let some: Vec<&Schedule> = all.iter().step_by(step).collect();
        assert!(some.len() > 4, "{}", some.len());
        for_each(&some, |schedule| {
            let stores = words(schedule, "epilogue_stores");
            let taken = stores.iter().filter(|word| *word == "coalesced").count();
            assert_eq!(taken, coalesced, "{text}: {stores:?}");
            check_on(&[Some(2)], &bound, Some(schedule), Layout::Packed);
            if schedule.number("d_stages") > 1 {
                let delayed = with(schedule, "delay_store", 1);
                check_on(&[Some(1)], &bound, Some(&delayed), Layout::Packed);
            }
        });
    }
}
