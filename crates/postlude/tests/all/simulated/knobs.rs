//! Knobs of the epilogue that no planner has to choose: every one of them, and all together.

use std::sync::atomic::{AtomicUsize, Ordering};

use postlude::Options;
use postlude::target::{Chip, Cluster, Schedule, TargetRefusal, Tile};
use postlude_corpus::Random;

use super::problems::{Bound, Data, Layout, Stored, lay_out};
use super::{bound, check_on, fitted, for_each, with, words};

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

/// Tiles of every kernel schedule that load tile operands.
fn tiles() -> Vec<Tile> {
    let table = Chip::STANDARD.tiles();
    let wanted = [(64, 64, false), (128, 128, false), (128, 192, true), (192, 128, false)];
    let of = |(rows, columns, ping_pong): (u32, u32, bool)| {
        let like = |tile: &&Tile| {
            (tile.rows, tile.columns, tile.is_ping_pong()) == (rows, columns, ping_pong)
        };
        *table.iter().find(like).expect("a tile of the table")
    };
    let four = table.iter().find(|tile| tile.math_warpgroups == 4).expect("two warpgroups a tile");
    wanted.into_iter().map(of).chain([*four]).collect()
}

/// The same schedule with other values of some knobs.
fn with_all(schedule: &Schedule, knobs: &[(&str, u32)]) -> Schedule {
    let set = |schedule: Schedule, (knob, value): &(&str, u32)| with(&schedule, knob, *value);
    knobs.iter().fold(schedule.clone(), set)
}

/// Whether the epilogue can be a loop: it has several epilogue tiles.
fn can_loop(schedule: &Schedule) -> bool {
    let width = schedule.tile().columns / schedule.number("products");
    width > schedule.number("epilogue_tile")
}

/// Runs the kernels of the table, each on every other tile, with a schedule that was changed, where it can be.
fn check_all(turn: usize, change: impl Fn(Schedule) -> Option<Schedule> + Sync) -> usize {
    let of = |(place, tile): (usize, Tile)| {
        (0..KERNELS.len())
            .filter(move |kernel| (kernel + place + turn).is_multiple_of(2))
            .map(move |kernel| (tile, kernel))
    };
    let varieties: Vec<(Tile, usize)> = tiles().into_iter().enumerate().flat_map(of).collect();
    let checked = AtomicUsize::new(0);
    for_each(&varieties, |(tile, kernel)| {
        let layouts = [Layout::Packed, Layout::TransposedPadded];
        let layout = layouts[(*kernel / 2 + turn) % 2];
        let sizes = [2, tile.rows as usize - 24, 2 * tile.columns as usize + 24, 72];
        let bound = with_tiles(*kernel, sizes, layout);
        // Room for as many slots as a test wants.
        let roomy = |schedule: Schedule| with(&schedule, "stages", 2);
        let fitted = fitted(&bound, Tile { cluster: Cluster::ONE, ..*tile }).map(roomy);
        if let Some(mut schedule) = fitted.and_then(&change) {
            while schedule.shared_bytes() > Chip::STANDARD.shared_bytes() {
                let epilogue_tile = schedule.number("epilogue_tile") / 2;
                schedule = with(&schedule, "epilogue_tile", epilogue_tile);
            }
            checked.fetch_add(1, Ordering::Relaxed);
            check_on(&[Some(1)], &bound, Some(&schedule), layout);
        }
    });
    checked.into_inner()
}

/// An epilogue tile may need more slots of operands than there are.
#[test]
fn few_slots_of_many_operands_are_right() {
    for c_stages in 1..=3 {
        let checked = check_all(c_stages as usize, |schedule| {
            let several = words(&schedule, "epilogue_loads").len() > 1;
            several.then(|| with(&schedule, "c_stages", c_stages))
        });
        assert!(checked > 0, "{c_stages} slots");
    }
}

#[test]
fn fragments_of_every_width_are_right() {
    for (turn, fragment) in [8, 16, 32, 64].into_iter().enumerate() {
        let checked = check_all(turn, |schedule| {
            let other = schedule.number("fragment") != fragment;
            let divides = schedule.number("epilogue_tile") >= fragment;
            (other && divides).then(|| with(&schedule, "fragment", fragment))
        });
        assert!(checked > 0, "{fragment} columns");
    }
}

#[test]
fn delayed_copies_are_right() {
    for (turn, (d_stages, epilogue_loop)) in
        [(2, false), (2, true), (3, false)].into_iter().enumerate()
    {
        let checked = check_all(turn, |schedule| {
            let epilogue_loop = u32::from(epilogue_loop && can_loop(&schedule));
            let knobs =
                [("delay_store", 1), ("d_stages", d_stages), ("epilogue_loop", epilogue_loop)];
            Some(with_all(&schedule, &knobs))
        });
        assert!(checked > 10, "{checked}");
    }
}

/// As few slots as can be, more than are filled at a time, and numbers of them that epilogue tiles do not divide.
#[test]
fn outputs_leave_through_operands_slots() {
    let knobs = [
        (0, 1, false, false),
        (0, 2, true, true),
        (1, 2, false, true),
        (1, 3, true, false),
        (3, 2, true, true),
        (4, 1, false, false),
    ];
    for (turn, (more, d_stages, epilogue_loop, delay_store)) in knobs.into_iter().enumerate() {
        let checked = check_all(turn, |schedule| {
            let slots: Vec<u32> =
                words(&schedule, "slots").iter().filter_map(|it| it.parse().ok()).collect();
            let [loads, _, reusable] = slots[..] else { panic!("three counts: {slots:?}") };
            if reusable == 0 {
                return None;
            }
            let knobs = [
                ("reuse_c", 1),
                ("delay_store", u32::from(delay_store)),
                ("d_stages", d_stages),
                ("c_stages", 2 * loads + more),
                ("epilogue_tile", schedule.number("epilogue_tile").min(32)),
                ("fragment", [8, 16][usize::from(delay_store)]),
            ];
            let schedule = with_all(&schedule, &knobs);
            let epilogue_loop = u32::from(epilogue_loop && can_loop(&schedule));
            Some(with(&schedule, "epilogue_loop", epilogue_loop))
        });
        assert!(checked > 5, "{checked}");
    }
}

/// Why a schedule for a kernel of the table is refused.
fn refusal(bound: &Bound, schedule: &Schedule) -> Option<String> {
    let compiled = bound.kernel.compile(&Options::default());
    let placements = bound.placements(&compiled);
    let planning = compiled.planning(&bound.problem, &placements, Chip::STANDARD);
    let accepted = planning.expect("it is one launch").accept(schedule);
    accepted.err().map(|refusal| refusal.to_string())
}

/// The refusal that is listed for a cause.
fn listed(cause: &str) -> Option<String> {
    let mut all = TargetRefusal::examples().into_iter();
    all.find(|(listed, _)| *listed == cause).map(|(_, refusal)| refusal.to_string())
}

#[test]
fn knobs_that_cannot_be_are_refused_by_their_reason() {
    let bound = bound("residual", [1, 64, 64, 64], Layout::Packed);
    let schedule = fitted(&bound, Chip::STANDARD.tiles()[0]).expect("it fits");
    assert_eq!(refusal(&bound, &schedule), None);
    for fragment in [0, 4, 24, 128] {
        let wrong = with(&schedule, "fragment", fragment);
        let told = refusal(&bound, &wrong).unwrap_or_default();
        let epilogue_tile = schedule.number("epilogue_tile");
        let wanted = format!("divides its epilogue tile of {epilogue_tile}");
        assert!(told.contains("fragment") && told.ends_with(&wanted), "{told}");
    }
    let wrong = with_all(&schedule, &[("delay_store", 1), ("d_stages", 1)]);
    assert_eq!(refusal(&bound, &wrong), listed("`delay_store 1` with `d_stages 1`"));
    let reuse_c = with(&schedule, "reuse_c", 1);
    assert_eq!(refusal(&bound, &reuse_c), None);
    let wrong = with(&reuse_c, "c_stages", 1);
    assert_eq!(refusal(&bound, &wrong), listed("`reuse_c 1` with `c_stages 1`"));
    let wrong = with(&reuse_c, "slots", "1 1 0");
    let told = refusal(&bound, &wrong).unwrap_or_default();
    assert!(told.starts_with("the schedule does not fit this problem"), "{told}");
    let wrong = with(&with(&wrong, "epilogue_loads", "contiguous"), "slots", "0 1 0");
    assert_eq!(refusal(&bound, &wrong), listed("`reuse_c 1` without a tile operand"));
}

#[test]
fn slots_of_groups_that_are_read_ahead_are_not_reused() {
    let text = "kernel k(A: f16[M, K], W: f16[N, K], E: f16[M, N]) -> D: f16[M, N] \
                { z = A @ W.T + E\n D = z - max(z, N, 128) }";
    let stored = [Stored::default(); 2];
    let random = &mut Random::new(1);
    let bound = Bound::of("groups", text, stored, [1, 64, 256, 64], Data::Integers, random);
    let mut table = Chip::STANDARD.tiles().iter();
    let tile = table.find(|tile| (tile.rows, tile.columns) == (128, 128));
    let schedule = fitted(&bound, *tile.expect("one of the table")).expect("it fits");
    let schedule = with(&schedule, "reuse_c", 1);
    assert_eq!(refusal(&bound, &schedule), listed("`reuse_c 1` beside runs of columns"));
}
