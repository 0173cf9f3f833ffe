//! Launches without a product, assembled: nothing spills, and the assembler has no complaint.

use std::sync::Arc;

use crate::graph::{self, MathMode};
use crate::lower::{BoundProgram, lower};
use crate::optimise::optimise;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::sm90::plan::{Sm90, schedules};

use super::super::emit;
use super::assemble;

/// A name, inputs, the lines of a graph over `M, N`, and columns.
const GRAPHS: &[(&str, &str, &str, usize)] = &[
    (
        "widen",
        "A: i8[M, N]",
        "v0 = input A\nv1 = f32 v0\nv2 = bf16 v1\noutput D: bf16[M, N] = v2",
        8192,
    ),
    (
        "block_scales",
        "A: f8e4m3[M, N], s: f32[M, N/64]",
        "v0 = input A\nv1 = input s\nv2 = multiply v0, v1\noutput D: bf16[M, N] = v2",
        8192,
    ),
    (
        "quantise",
        "A: bf16[M, N]",
        "v0 = input A\nv1 = absmax v0 over column:128\nv2 = 448.0\nv3 = divide v1, v2\nv4 = divide v0, v3\nv5 = f8e4m3 v4\noutput D: f8e4m3[M, N] = v5\noutput s: f32[M, N/128] = v3",
        8192,
    ),
    (
        "quantise_blocks",
        "A: bf16[M, N]",
        "v0 = input A\nv1 = absmax v0 over row:128 column:128\nv2 = 448.0\nv3 = divide v1, v2\nv4 = divide v0, v3\nv5 = f8e4m3 v4\noutput D: f8e4m3[M, N] = v5\noutput s: f32[M/128, N/128] = v3",
        8192,
    ),
    ("softmax", "A: bf16[M, N]", SOFTMAX, 256),
    ("long_softmax", "A: bf16[M, N]", SOFTMAX, 4096),
    ("softmax_of_8192", "A: bf16[M, N]", SOFTMAX, 8192),
    ("softmax_of_floats", "A: f32[M, N]", SOFTMAX, 4096),
    ("softmax_of_16384", "A: bf16[M, N]", SOFTMAX, 16384),
    ("softmax_across_a_cluster", "A: bf16[M, N]", SOFTMAX, 4095),
    ("layer_norm", "A: bf16[M, N], g: f32[N], b: f32[N]", LAYER_NORM, 8192),
    ("layer_norm_of_floats", "A: f32[M, N], g: f32[N], b: f32[N]", LAYER_NORM, 4096),
    ("streamed_softmax", "A: bf16[M, N]", SOFTMAX, 128_256),
    ("streamed_softmax_of_floats", "A: f32[M, N]", SOFTMAX, 65536),
    ("streamed_layer_norm", "A: bf16[M, N], g: f32[N], b: f32[N]", LAYER_NORM, 65536),
    (
        "streamed_cross_entropy",
        "A: bf16[M, N], t: i32[M]",
        "v0 = input A\nv1 = input t\nv2 = logsumexp v0 over column\nv3 = pick v0, v1\nv4 = subtract v2, v3\noutput l: f32[M] = v4",
        128_256,
    ),
    (
        "sums_of_rows",
        "A: bf16[M, N]",
        "v0 = input A\nv1 = sum v0 over column\noutput s: f32[M] = v1",
        8192,
    ),
    (
        "product_of_two",
        "A: bf16[M, N], B: bf16[M, N]",
        "v0 = input A\nv1 = input B\nv2 = multiply v0, v1\noutput D: bf16[M, N] = v2",
        8192,
    ),
    (
        "layer_statistics",
        "A: bf16[M, N]",
        "v0 = input A\nv1 = sum v0 over column\nv2 = multiply v0, v0\nv3 = sum v2 over column\nv4 = sum v0 over row\nv5 = logsumexp v0 over column\noutput a: f32[M] = v1\noutput b: f32[M] = v3\noutput c: f32[N] = v4\noutput d: f32[M] = v5",
        8192,
    ),
    (
        "sums_of_columns",
        "A: bf16[M, N]",
        "v0 = input A\nv1 = sum v0 over row\noutput s: f32[N] = v1",
        8192,
    ),
    (
        "statistics_of_a_batch",
        "A: f32[M, N], m: f32[N]",
        "v0 = input A\nv1 = input m\nv2 = subtract v0, v1\nv3 = sum v2 over row\nv4 = multiply v2, v2\nv5 = sum v4 over row\noutput a: f32[N] = v3\noutput b: f32[N] = v5",
        1024,
    ),
    (
        "largest_of_columns",
        "A: f16[M, N]",
        "v0 = input A\nv1 = argmax v0 over row\nv2 = i32 v1\nv3 = max v0 over row\noutput i: i32[N] = v2\noutput h: f32[N] = v3",
        4096,
    ),
    (
        "exponentials_of_columns",
        "A: f32[M, N], r: f32[M]",
        "v0 = input A\nv1 = input r\nv2 = multiply v0, v1\nv3 = logsumexp v2 over row\noutput l: f32[N] = v3",
        4096,
    ),
    (
        "sums_of_bytes",
        "A: i8[M, N]",
        "v0 = input A\nv1 = i32 v0\nv2 = sum v1 over row\noutput s: i32[N] = v2",
        4096,
    ),
    (
        "gelu_of_unaligned",
        "A: f16[M, N], b: f32[N]",
        "v0 = input A\nv1 = input b\nv2 = add v0, v1\nv3 = erf v2\nv4 = multiply v2, v3\noutput D: f16[M, N] = v4",
        4095,
    ),
];

const SOFTMAX: &str = "v0 = input A\nv1 = max v0 over column\nv2 = subtract v0, v1\nv3 = exp v2\nv4 = sum v3 over column\nv5 = divide v3, v4\noutput D: bf16[M, N] = v5";

const LAYER_NORM: &str = "v0 = input A\nv1 = extent N\nv2 = sum v0 over column\nv3 = divide v2, v1\nv4 = subtract v0, v3\nv5 = multiply v4, v4\nv6 = sum v5 over column\nv7 = divide v6, v1\nv8 = rsqrt v7\nv9 = multiply v4, v8\nv10 = input g\nv11 = input b\nv12 = fma v9, v10, v11\noutput D: bf16[M, N] = v12";

#[test]
fn launches_without_a_product_assemble_without_spills() {
    for (name, inputs, lines, columns) in GRAPHS {
        let text = format!("graph {name}({inputs}) {{\nspace M, N\n{lines}\n}}");
        let graph = graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let graph = optimise(&graph, MathMode::Default);
        let sizes = [("M", 4096), ("N", *columns)].map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let program = Arc::new(lower(&graph).expect("it is one launch"));
        let placements = Placements::packed(&graph, &problem);
        let bound = BoundProgram::new(&program, &problem, &placements).expect("it is not refused");
        let schedule = schedules(&bound, Sm90::H200).expect("it is planned").swap_remove(0);
        let entry = emit(bound.program(), &schedule, MathMode::Default, false);
        if let Some(log) = assemble(name, &entry) {
            let clean = !log.contains("warning") && log.contains("0 bytes spill stores");
            assert!(clean, "{name}: {log}\n{schedule}");
        }
    }
}
