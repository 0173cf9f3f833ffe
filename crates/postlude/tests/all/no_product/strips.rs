//! Strips of columns in the simulator: each tile of the planner's table, and schedules that are not theirs.

use postlude::placement::Placements;
use postlude::target::{Chip, Cluster, KernelSchedule, Tile};
use postlude::{Compiled, Options};

use super::{check_in, check_with, graph, parsed, sizes, tried};

/// Every tile of strips: units of a few rows and of many, strips beyond the last column, and fewer CTAs than units.
#[test]
fn every_tile_of_strips_is_right() {
    let graphs = [
        graph(
            "A: bf16[M, N], r: f32[M], c: f32[N]",
            "v0 = input A ; v1 = input r ; v2 = multiply v0, v1 ; v3 = sum v2 over row ; v4 = multiply v0, v0 ; v5 = sum v4 over row ; v6 = input c ; v7 = fma v3, v6, v5 ; output s: f32[N] = v7 ; output q: bf16[N] = v5",
        ),
        graph(
            "A: f32[M, N], c: f32[N]",
            "v0 = input A ; v1 = input c ; v2 = subtract v0, v1 ; v3 = argmax v2 over row ; v4 = i32 v3 ; v5 = max v2 over row ; output i: i32[N] = v4 ; output h: f32[N] = v5",
        ),
        graph(
            "A: i32[M, N]",
            "v0 = input A ; v1 = sum v0 over row ; v2 = argmin v0 over row ; v3 = i32 v2 ; output s: i32[N] = v1 ; output i: i32[N] = v3",
        ),
        graph(
            "A: f16[M, N], B: f16[M, N]",
            "v0 = input A ; v1 = input B ; v2 = add v0, v1 ; v3 = logsumexp v2 over row ; v4 = absmax v0 over row ; output l: f32[N] = v3 ; output a: f32[N] = v4",
        ),
        graph(
            "A: u8[M, N]",
            "v0 = input A ; v1 = f32 v0 ; v2 = sum v1 over row ; output s: f32[N] = v2",
        ),
        // Rows are folded beside columns.
        graph(
            "A: f16[M, N], r: f32[M], c: f32[N]",
            "v0 = input A ; v1 = sum v0 over row ; v2 = input r ; v3 = multiply v0, v2 ; v4 = sum v3 over column ; v5 = input c ; v6 = add v1, v5 ; v7 = max v0 over column ; v8 = add v4, v2 ; output s: f32[N] = v6 ; output t: f32[M] = v8 ; output h: f16[M] = v7",
        ),
        graph(
            "A: bf16[M, N]",
            "v0 = input A ; v1 = max v0 over row ; v2 = logsumexp v0 over column ; v3 = argmax v0 over column ; v4 = i32 v3 ; output h: f32[N] = v1 ; output l: f32[M] = v2 ; output i: i32[M] = v4",
        ),
    ];
    let (kernel, math_warpgroups, cluster) = (KernelSchedule::Strips, 2, Cluster::ONE);
    let tiles =
        [(8, 256), (16, 128), (16, 256), (32, 64)].into_iter().flat_map(|(rows, columns)| {
            let tile = Tile { rows, columns, kernel, math_warpgroups, cluster };
            [[1, 16], [130, 2 * columns + 16], [1000, columns - 16]]
                .map(|at| (tile, [("M", at[0] as usize), ("N", at[1] as usize)]))
        });
    let counts = graphs.map(|text| tried(&[&text], tiles.clone()));
    // Threads of one tile have 16 bytes of a row side by side.
    assert_eq!(counts, [12, 12, 12, 12, 3, 12, 12]);
}

/// Strips fold columns alone: other schedules are not theirs, and other folds are not in their schedules.
#[test]
fn strips_say_what_they_fold() {
    let text =
        graph("A: bf16[M, N]", "v0 = input A ; v1 = sum v0 over row ; output s: f32[N] = v1");
    let at = [("M", 300), ("N", 520)];
    let own = check_in(&text, &at, None);
    assert_eq!(own.knob("kernel").as_deref(), Some("strips"), "{own}");
    check_with(&text, &at, None, Some(&own.with("ctas", 1).expect("a knob")));
    check_in(&text, &[("M", 300), ("N", 519)], None);
    let compiled = Compiled::of_graph(&parsed(&text), &Options::default());
    let problem = compiled.problem(&sizes(&at)).expect("sizes of every dim");
    let placements = Placements::packed(compiled.optimised(), &problem);
    let planning = compiled.planning(&problem, &placements, Chip::STANDARD).expect("one launch");
    for (knob, value) in [
        ("kernel", "rows"),
        ("kernel", "streamed-rows"),
        ("cluster", "1 x 2"),
        ("tile", "64 x 32 x 0"),
        ("folds", "0 0 0"),
        ("folds", "0 2 0"),
        ("ctas", "9"),
        ("held", "8 2 2 0 0 0 0 2 0 1"),
    ] {
        let other = own.with(knob, value).expect("it reads");
        assert!(planning.accept(&other).is_err(), "{knob} {value}");
    }
}
