//! Products of few rows, assembled: nothing spills on any tile that takes them.

use std::sync::Arc;

use crate::define::defined;
use crate::graph::MathMode;
use crate::lower::{BoundProgram, lower};
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::sm90::plan::{SKINNY, Sm90, fitted};

use super::super::emit;
use super::assemble;

/// A name and a kernel.
const KERNELS: &[(&str, &str)] = &[
    (
        "plain",
        "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N]) -> D: bf16[M, N] { D = silu(A @ W.T + b) }",
    ),
    (
        "bytes",
        "kernel k(A: f8e4m3[M, K], W: f8e4m3[N, K], s: f32[N]) -> D: bf16[M, N] { D = (A @ W.T) * s }",
    ),
    ("integers", "kernel k(A: i8[M, K], W: i8[N, K]) -> D: i32[M, N] { D = A @ W.T }"),
    (
        "four_bits",
        "kernel k(A: bf16[M, K], W: u4[N, K], z: u4[N, K/128], s: f32[N, K/128]) -> D: bf16[M, N] { D = A @ (bf16(f32(W) - f32(z)) * s).T }",
    ),
    (
        "eight_bits",
        "kernel k(A: bf16[M, K], W: u8[N, K], z: u8[N, K/64], s: f32[N, K/64]) -> D: bf16[M, N] { D = A @ (bf16(f32(W) - f32(z)) * s).T }",
    ),
    (
        "scaled_elements",
        "kernel k(A: bf16[M, K], W: u4[N, K], z: u4[N, K/128], s: f32[N, K/128]) -> D: bf16[M, N] { D = A @ (bf16((f32(W) - f32(z)) * s)).T }",
    ),
    (
        "gated",
        "kernel k(A: bf16[M, K], G: bf16[N, K], U: bf16[N, K]) -> D: bf16[M, N] { D = silu(A @ G.T) * (A @ U.T) }",
    ),
];

#[test]
fn products_of_few_rows_spill_on_no_tile() {
    for (name, source) in KERNELS {
        for rows in [1, 16, 32] {
            let graph = defined(source);
            let sizes = [("M", rows), ("N", 4096), ("K", 4096)];
            let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
            let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
            let program = Arc::new(lower(&graph).expect("it is one launch"));
            let placements = Placements::packed(&graph, &problem);
            let bound = BoundProgram::new(&program, &problem, &placements).expect("not refused");
            let fits = |tile| fitted(tile, &bound, Sm90::H200).expect("it is not refused");
            let all: Vec<_> = SKINNY.iter().filter_map(|tile| fits(*tile)).collect();
            assert!(all.len() >= 2, "{name}, {rows} rows: {} tiles", all.len());
            for schedule in all {
                assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
                let entry = emit(bound.program(), &schedule, MathMode::Default, false);
                let Some(log) = assemble(name, &entry) else { return };
                let clean = !log.contains("warning") && log.contains("0 bytes spill stores");
                assert!(clean, "{name}, {rows} rows: {log}\n{schedule}");
            }
        }
    }
}
