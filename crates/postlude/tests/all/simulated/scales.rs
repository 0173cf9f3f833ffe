//! Block scales of 8-bit floats, which the mainloop multiplies with promoted sums: on the tiles that take them, and laid out
//! in every way.

use std::sync::atomic::{AtomicUsize, Ordering};

use postlude::target::{Chip, Tile};
use postlude::{Argument, Options};
use postlude_corpus::Random;

use super::problems::{Bound, Data, Layout, Stored, lay_out};
use super::{check_on, fitted, for_each};

/// A name, a text, and what N is a multiple of.
const KERNELS: [(&str, &str, usize); 5] = [
    (
        "blocks",
        "kernel k(A: f8e4m3[M, K], W: f8e4m3[N, K], s: f32[M, K/128], t: f32[N/128, K/128]) -> D: f32[M, N] { D = (A * s) @ (W * t).T }",
        128,
    ),
    (
        "columns",
        "kernel k(A: f8e5m2[M, K], W: f8e4m3[N, K], s: f32[M, K/384], t: f32[N, K/128]) -> D: f32[M, N] { D = (A * s) @ (W * t).T }",
        1,
    ),
    (
        "batches",
        "kernel k(A: f8e4m3[B, M, K], W: f8e4m3[N, K], s: f32[B, M, K/128], t: f32[N/32, K/384]) -> D: f32[B, M, N] { D = (A * s) @ (W * t).T }",
        32,
    ),
    (
        "several",
        "kernel k(A: f8e4m3[B, M, K], W: f8e5m2[B, N, K], r: f32[B, K/128], s: f32[K/384, M], t: f32[B, K/128, N], u: f32[N/64, K/128]) -> (D: f32[B, M, N], m: f32[B, N]) { D = (A * r * s) @ (W * t * u).T\n m = max(D, M) }",
        64,
    ),
    (
        "left",
        "kernel k(A: f8e5m2[K, M], W: f8e5m2[K, N], s: f32[K/128, M]) -> D: f32[M, N] { D = (A * s).T @ W }",
        1,
    ),
];

fn bound((name, text, multiple): (&str, &str, usize), tile: Tile, layout: Layout) -> Bound {
    let rows = (tile.rows * tile.cluster.rows()) as usize + 9;
    let columns = ((tile.columns * tile.cluster.columns()) as usize).next_multiple_of(multiple);
    let columns = if multiple == 1 { columns + 5 } else { columns + multiple };
    let random = &mut Random::new(u64::from(tile.rows + tile.columns));
    let (sizes, stored) = ([2, rows, columns, 384], [Stored::default(); 2]);
    let mut bound = Bound::of(name, text, stored, sizes, Data::Integers, random);
    for name in ["r", "s", "t", "u"] {
        if let Some(Argument::Tensor(tensor)) = bound.arguments.get(name) {
            let tensor = lay_out(&tensor.to_contiguous(), layout);
            bound.arguments.insert(name.to_owned(), Argument::Tensor(tensor));
        }
    }
    bound
}

#[test]
fn every_tile_that_takes_block_scales_is_right() {
    let of = |tile| KERNELS.into_iter().map(move |kernel| (tile, kernel));
    let tiles = Chip::STANDARD.tiles().iter();
    let varieties: Vec<_> = tiles.flat_map(of).zip(Layout::ALL.into_iter().cycle()).collect();
    let next = AtomicUsize::new(0);
    for_each(&varieties, |((tile, kernel), layout)| {
        let bound = bound(*kernel, **tile, *layout);
        let compiled = bound.kernel.compile(&Options::default());
        let graph = compiled.optimised();
        assert_eq!(graph.declared_inputs().len(), graph.inputs().len(), "{}", kernel.0);
        let Some(schedule) = fitted(&bound, **tile) else { return };
        assert!(schedule.knob("scaling").is_some(), "{schedule}");
        // The rest are run where everything is asked for.
        if next.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) || postlude_corpus::is_thorough()
        {
            check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
    assert!(next.into_inner() >= 20, "few tiles take block scales");
}
