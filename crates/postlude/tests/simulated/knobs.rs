//! Knobs of the epilogue that no planner has to choose: every one of them, and all together.

use postlude::plan::sm90::{CANDIDATES, Cluster, Sm90, Sm90Refusal, Sm90Schedule, Tile, accept};
use postlude::Options;
use postlude_corpus::Random;

use super::problems::{Bound, Data, Layout, Stored, lay_out};
use super::{bound, check_on, fitted, for_each};

/// Kernels with tile operands and outputs of both widths, and with reductions beside them: name and text.
const KERNELS: [(&str, &str); 7] = [
    (
        "residual",
        "kernel k(A: f16[M, K], W: f16[N, K], C: bf16[M, N]) -> D: f16[M, N] { D = relu(A @ W.T + C) }",
    ),
    (
        "wide",
        "kernel k(A: f16[M, K], W: f16[N, K], C: f32[M, N], b: f32[N]) -> D: f32[M, N] { D = A @ W.T * b + C }",
    ),
    (
        "mixed",
        "kernel k(A: bf16[M, K], W: bf16[N, K], C: f32[M, N], E: bf16[M, N]) -> (D: bf16[M, N], F: f32[M, N], G: f16[M, N]) \
         { z = A @ W.T + C\n D = relu(z)\n F = z * E\n G = z - E }",
    ),
    (
        "other_width",
        "kernel k(A: bf16[M, K], W: bf16[N, K], C: bf16[M, N]) -> (D: f32[M, N], E: bf16[M, N]) \
         { z = A @ W.T\n D = z - C\n E = z + C }",
    ),
    (
        "bytes",
        "kernel k(A: bf16[M, K], W: bf16[N, K], C: bf16[M, N]) -> (D: i8[M, N], E: bf16[M, N]) \
         { z = A @ W.T\n D = i8(z)\n E = z + C }",
    ),
    (
        "batches",
        "kernel k(A: bf16[B, M, K], W: bf16[N, K], C: bf16[B, M, N]) -> D: bf16[B, M, N] { D = A @ W.T - C }",
    ),
    (
        "reductions",
        "kernel k(A: bf16[M, K], W: bf16[N, K], C: bf16[M, N]) -> (D: bf16[M, N], r: f32[M], c: f32[N], s: f32[]) \
         { D = A @ W.T + C\n r = max(D, N)\n c = min(D, M)\n s = max(D) }",
    ),
];

/// A kernel of the table with all tiles but A and W laid out so.
fn with_tiles(kernel: usize, sizes: [usize; 4], layout: Layout) -> Bound {
    let (name, text) = KERNELS[kernel];
    let random = &mut Random::new(sizes[1] as u64);
    let mut bound = Bound::of(name, text, [Stored::default(); 2], sizes, Data::Integers, random);
    for name in ["C", "E"] {
        if let Some(postlude::Argument::Tensor(tensor)) = bound.arguments.get(name) {
            let tensor = lay_out(&tensor.to_contiguous(), layout);
            bound.arguments.insert(name.to_owned(), postlude::Argument::Tensor(tensor));
        }
    }
    bound.output_layout = layout;
    bound
}

/// Tiles of every way to share work that load tile operands.
fn tiles() -> Vec<Tile> {
    let wanted = [(64, 64, 1), (128, 128, 1), (128, 192, 2), (192, 128, 1)];
    let of = |(rows, columns, teams): (u32, u32, u32)| {
        let like = |tile: &&Tile| (tile.rows, tile.columns, tile.teams) == (rows, columns, teams);
        *CANDIDATES.iter().find(like).expect("a tile of the table")
    };
    let four = CANDIDATES.iter().find(|tile| tile.consumers == 4).expect("teams of two");
    wanted.into_iter().map(of).chain([*four]).collect()
}

/// Runs every kernel of the table on every tile with a schedule that was changed, where it can be.
fn check_all(change: impl Fn(&mut Sm90Schedule) -> bool + Sync) -> usize {
    let of = |tile: Tile| (0..KERNELS.len()).map(move |kernel| (tile, kernel));
    let varieties: Vec<(Tile, usize)> = tiles().into_iter().flat_map(of).collect();
    let checked = std::sync::atomic::AtomicUsize::new(0);
    for_each(&varieties, |(tile, kernel)| {
        let layouts = [Layout::Packed, Layout::TransposedPadded];
        let layout = layouts[usize::from(tile.columns == 64 || *kernel == 1)];
        let sizes = [2, tile.rows as usize + 40, tile.columns as usize + 24, 72];
        let bound = with_tiles(*kernel, sizes, layout);
        let Some(mut schedule) = fitted(&bound, Tile { cluster: Cluster::ONE, ..*tile }) else {
            return;
        };
        if change(&mut schedule) {
            checked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            check_on(&[Some(1)], &bound, Some(&schedule), layout);
        }
    });
    checked.into_inner()
}

#[test]
fn fragments_of_every_width_are_right() {
    for fragment in [8, 16, 32, 64] {
        let checked = check_all(|schedule| {
            let other = schedule.fragment != fragment;
            schedule.fragment = fragment;
            other && schedule.subtile >= fragment
        });
        assert!(checked > 4, "{checked} of {fragment} columns");
    }
}

#[test]
fn delayed_copies_are_right() {
    for (store_stages, looped) in [(2, false), (2, true), (3, false)] {
        check_all(|schedule| {
            (schedule.delay, schedule.store_stages) = (true, store_stages);
            schedule.looped = looped && schedule.width() > schedule.subtile;
            true
        });
    }
}

/// Why a schedule for a kernel of the table is refused.
fn refusal(bound: &Bound, schedule: &Sm90Schedule) -> Option<Sm90Refusal> {
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    accept(schedule, compiled.optimised(), &bound.problem, &placements, Sm90::H200).err()
}

#[test]
fn knobs_that_cannot_be_are_refused_by_their_reason() {
    let bound = bound("residual", [1, 64, 64, 64], Layout::Packed);
    let schedule = fitted(&bound, CANDIDATES[0]).expect("it fits");
    assert_eq!(refusal(&bound, &schedule), None);
    for fragment in [0, 4, 24, 128] {
        let wrong = Sm90Schedule { fragment, ..schedule.clone() };
        let subtile = schedule.subtile;
        assert_eq!(refusal(&bound, &wrong), Some(Sm90Refusal::Fragment { subtile }));
    }
    let wrong = Sm90Schedule { delay: true, store_stages: 1, ..schedule.clone() };
    assert_eq!(refusal(&bound, &wrong), Some(Sm90Refusal::DelayedSlot));
}
