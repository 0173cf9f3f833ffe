//! Emitted kernels on whole numbers: the same bits as on the CPU, under every timing.

mod bound;

use bound::{Bound, tile, typed};
use postlude::DType;

const PLAIN: &str = "kernel k(A: T[M, K], W: T[N, K]) -> D: T[M, N] { D = A @ W.T }";

#[test]
fn a_plain_product_on_the_small_tile_is_right() {
    let source = typed(PLAIN, DType::BF16);
    Bound::new(&source, [1, 64, 64, 64], tile(64, 64, 1), 1).check("one tile");
    Bound::new(&source, [1, 128, 128, 256], tile(64, 64, 1), 2).check("four tiles");
}
