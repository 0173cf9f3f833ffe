//! Emitted kernels on whole numbers: the same bits as on the CPU, under every timing.

use crate::bound::{Bound, epilogue, tile};
use postlude::DType;
use postlude::target::Chip;
use postlude_corpus::{EPILOGUES, Epilogue, is_thorough};
use postlude_sim::Timing;

/// A tile operand and an output of another type.
const WIDE_SCALARS: Epilogue = Epilogue {
    name: "wide_scalars",
    text: "kernel k(A: T[M, K], W: T[N, K], C: T[M, N], alpha: f32, beta: f32) -> D: f32[M, N] {
    D = alpha * (A @ W.T) + beta * C
}",
};
/// B, M, N and K: aligned, unaligned columns, a short and an odd contraction, and none.
const SIZES: &[[usize; 4]] =
    &[[2, 128, 128, 128], [1, 70, 95, 72], [3, 65, 72, 33], [1, 40, 24, 0]];

fn epilogues() -> impl Iterator<Item = &'static Epilogue> {
    EPILOGUES.iter().chain([&WIDE_SCALARS])
}

#[test]
fn a_plain_product_on_the_small_tile_is_right() {
    let source = epilogue("plain", DType::BF16);
    Bound::new(&source, [1, 64, 64, 64], tile(64, 64, 1), 1).check("one tile");
    Bound::new(&source, [1, 128, 128, 256], tile(64, 64, 1), 2).check("four tiles");
}

#[test]
fn every_epilogue_on_the_small_tile_is_right() {
    for (at, epilogue) in epilogues().enumerate() {
        let name = epilogue.name;
        for (size, sizes) in SIZES.iter().enumerate() {
            for grid in [1, 2] {
                let dtype = [DType::BF16, DType::F16][(at + size + grid as usize) % 2];
                let about = format!("{name} {dtype} {sizes:?} on {grid} CTAs");
                Bound::new(&epilogue.source(dtype), *sizes, tile(64, 64, 1), grid).check(&about);
            }
        }
    }
}

#[test]
fn every_epilogue_on_the_large_tile_of_a_cluster_is_right() {
    for (at, epilogue) in epilogues().enumerate() {
        let name = epilogue.name;
        for grid in [2, 4] {
            let mut sizes = SIZES[at % SIZES.len()];
            sizes[1] += 150;
            sizes[2] += 200;
            let about = format!("{name} {sizes:?} on {grid} CTAs");
            Bound::new(&epilogue.source(DType::BF16), sizes, tile(128, 256, 2), grid).check(&about);
        }
    }
}

#[test]
fn every_tile_is_right() {
    let step = if is_thorough() { 1 } else { 3 };
    for tile in Chip::STANDARD.tiles().iter().step_by(step) {
        let bound = Bound::new(&epilogue("plain", DType::F16), [1, 200, 300, 200], *tile, 4);
        bound.check(&format!("{tile:?}"));
    }
}

#[test]
fn every_epilogue_is_clean_under_many_seeds() {
    let seeds = if is_thorough() { 20 } else { 2 };
    for epilogue in epilogues() {
        let bound = Bound::new(&epilogue.source(DType::BF16), [2, 70, 72, 100], tile(64, 64, 1), 2);
        bound.check_seeds(epilogue.name, 0..seeds);
    }
}

/// Functions of floats, against what the reference allows.
#[test]
fn functions_stay_within_the_bounds_of_the_reference() {
    for function in ["gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp"] {
        let source = format!(
            "kernel k(A: bf16[M, K], W: bf16[N, K], bias: f32[N]) -> D: f32[M, N] {{ D = {function}(A @ W.T + bias) }}"
        );
        let bound = Bound::new(&source, [1, 48, 64, 3], tile(64, 64, 1), 1);
        let worst = bound.worst(Timing::Lazy);
        assert!(worst <= 1.0, "{function}: {worst} bounds away");
    }
}
