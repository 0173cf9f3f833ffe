//! Kernels whose warpgroups take tiles in turn: the same bits as on the CPU, under every timing.

mod bound;

use bound::{Bound, typed};
use postlude::DType;
use postlude::plan::sm90::{CANDIDATES, Sharing};

const KERNELS: &[(&str, &str)] = &[
    ("plain", "kernel k(A: T[M, K], W: T[N, K]) -> D: T[M, N] { D = A @ W.T }"),
    (
        "two_vectors",
        "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], scale: f32[M]) -> D: T[M, N] { D = relu(scale * (A @ W.T) + bias) }",
    ),
    (
        "residual",
        "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: f32[M, N] { D = A @ W.T + C }",
    ),
];

#[test]
fn warpgroups_that_alternate_are_right() {
    for tile in CANDIDATES.iter().filter(|tile| tile.sharing == Sharing::Tiles) {
        for (name, source) in KERNELS {
            for (sizes, grid) in [
                ([1, 300, 280, 200], tile.cluster),
                ([1, 130, 520, 64], 2 * tile.cluster),
                ([1, 64, 40, 0], 2),
            ] {
                let about = format!("{name} {tile:?} {sizes:?} on {grid} CTAs");
                Bound::new(&typed(source, DType::BF16), sizes, *tile, grid).check(&about);
            }
        }
    }
}
