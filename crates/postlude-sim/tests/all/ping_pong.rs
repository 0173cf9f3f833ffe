//! Ping-pong kernels: the same bits as on the CPU, under every timing.

use crate::bound::Bound;
use postlude::DType;
use postlude::target::Chip;
use postlude_corpus::{Epilogue, find_epilogue, pick};

const TWO_VECTORS: Epilogue = Epilogue {
    name: "two_vectors",
    text: "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], scale: f32[M]) -> D: T[M, N] { D = relu(scale * (A @ W.T) + bias) }",
};
const WIDE_RESIDUAL: Epilogue = Epilogue {
    name: "wide_residual",
    text: "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: f32[M, N] { D = A @ W.T + C }",
};

#[test]
fn ping_pong_kernels_are_right() {
    let plain = *find_epilogue("plain").expect("an epilogue of the list");
    for tile in Chip::STANDARD.tiles().iter().filter(|tile| tile.is_ping_pong()) {
        for epilogue in [plain, TWO_VECTORS, WIDE_RESIDUAL] {
            let (name, source) = (epilogue.name, epilogue.source(DType::BF16));
            let all = [
                ([1, 300, 280, 200], tile.cluster.blocks()),
                ([1, 130, 520, 64], 2 * tile.cluster.blocks()),
                ([1, 64, 40, 0], 2),
            ];
            for (sizes, grid) in pick(&all, &format!("{name} {tile:?}"), 1) {
                let about = format!("{name} {tile:?} {sizes:?} on {grid} CTAs");
                Bound::new(&source, sizes, *tile, grid).check(&about);
            }
        }
    }
}
