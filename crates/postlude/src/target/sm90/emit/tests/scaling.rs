//! Block scales of 8- and 16-bit floats in the mainloop: one launch, and nothing spills on any tile that takes them.

use std::sync::Arc;

use crate::define::defined;
use crate::graph::MathMode;
use crate::lower::{BoundProgram, lower};
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::sm90::plan::{CANDIDATES, Sm90, fitted, scales_sums, schedules};

use super::super::emit;
use super::assemble;

/// A name and a kernel.
const KERNELS: &[(&str, &str)] = &[
    (
        "rows_and_blocks",
        "kernel k(A: f8e4m3[M, K], W: f8e4m3[N, K], a: f32[M, K/128], w: f32[N/128, K/128]) -> D: bf16[M, N] { D = (A * a) @ (W * w).T }",
    ),
    (
        "rows_and_columns",
        "kernel k(A: f8e4m3[M, K], W: f8e5m2[N, K], a: f32[M, K/256], w: f32[N, K/128]) -> D: bf16[M, N] { D = (A * a) @ (W * w).T }",
    ),
    (
        "sixteen_bits",
        "kernel k(A: bf16[M, K], W: bf16[N, K], a: f32[M, K/64], w: f32[N, K/128]) -> D: bf16[M, N] { D = (A * a) @ (W * w).T }",
    ),
];

fn bound(source: &str) -> BoundProgram {
    let graph = defined(source);
    assert!(scales_sums(&graph), "{source}");
    let sizes = ["M", "N", "K"].map(|dim| (dim.to_owned(), 4096)).into();
    let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
    let program = Arc::new(lower(&graph).expect("it is one launch"));
    let placements = Placements::packed(&graph, &problem);
    BoundProgram::new(&program, &problem, &placements).expect("it is not refused")
}

#[test]
fn block_scales_spill_on_no_tile() {
    for (name, source) in KERNELS {
        let bound = bound(source);
        let best = schedules(&bound, Sm90::H200).expect("it is planned").swap_remove(0);
        assert!(best.tile.rows >= 128 && best.tile.columns >= 128, "{name}: {best}");
        assert!(best.to_string().contains("scaling 1 "), "{best}");
        assert_eq!(best.to_string().parse(), Ok(best));
        let fits = |tile| fitted(tile, &bound, Sm90::H200).expect("it is not refused");
        let all: Vec<_> = CANDIDATES.iter().filter_map(|tile| fits(*tile)).collect();
        assert!(all.len() >= 4, "{name}: {} tiles", all.len());
        for schedule in all {
            let entry = emit(bound.program(), &schedule, MathMode::Default, false);
            let Some(log) = assemble(name, &entry) else { return };
            let clean = !log.contains("warning") && log.contains("0 bytes spill stores");
            assert!(clean, "{name}: {log}\n{schedule}");
        }
    }
}

#[test]
fn other_block_scales_are_left_to_scaled_elements() {
    let kernel = |dtype: &str, a: &str, w: &str| {
        let inputs = format!("A: {dtype}[M, K], W: {dtype}[N, K], a: f32[{a}], w: f32[{w}]");
        format!("kernel k({inputs}) -> D: f32[M, N] {{ D = (A * a) @ (W * w).T }}")
    };
    for (dtype, a, w, taken) in [
        ("f8e4m3", "M, K/128", "N/128, K/128", true),
        ("f8e5m2", "M/2, K/384", "N/96, K/128", true),
        ("f8e4m3", "M, K/128", "N, K/64", false),
        ("f8e4m3", "M, K/192", "N, K/128", false),
        ("f8e4m3", "M, K/128", "N/48, K/128", false),
        ("i8", "M, K/128", "N/128, K/128", false),
        ("bf16", "M, K/64", "N/128, K/128", true),
        ("f16", "M, K/128", "N, K/64", true),
        ("bf16", "M, K/128", "N, K/32", false),
        ("f32", "M, K/128", "N, K/128", false),
    ] {
        assert_eq!(scales_sums(&defined(&kernel(dtype, a, w))), taken, "{dtype} {a} {w}");
    }
}
