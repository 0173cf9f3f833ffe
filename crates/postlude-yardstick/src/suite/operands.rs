//! Products of 8-bit floats, 8-bit integers and TF32 operands.

use postlude::{DType, MathMode};

use crate::layout::Layout;
use crate::suite::{Fold, Row, Total};

/// Names, and M, N and K.
type Lines = [(&'static str, [usize; 3]); 4];

const FP8: Lines = [
    ("F1", [8192, 8192, 8192]),
    ("F2", [4096, 4096, 4096]),
    ("F3", [8192, 14336, 4096]),
    ("F4", [8192, 8192, 1024]),
];
const I8: Lines = [
    ("I1", [8192, 8192, 8192]),
    ("I2", [4096, 4096, 4096]),
    ("I3", [512, 28672, 4096]),
    ("I4", [8192, 8192, 1024]),
];
const TF32: Lines = [
    ("T1", [8192, 8192, 8192]),
    ("T2", [4096, 4096, 4096]),
    ("T3", [2048, 2048, 2048]),
    ("T4", [8192, 8192, 1024]),
];

const AMAX: &str = "kernel fp8_gelu_tanh_amax(A: f8e4m3[M, K], W: f8e4m3[N, K], bias: f32[N], sa: f32, sw: f32, scale: f32) \
     -> (D: f8e4m3[M, N], amax: f32[]) \
     { Z = A @ W.T * sa * sw + bias; G = gelu_tanh(Z); D = f8e4m3(scale * G); amax = absmax(G) }";
const AMAX_TERMS: &str = "kernel fp8_gelu_tanh_f32(A: f8e4m3[M, K], W: f8e4m3[N, K], bias: f32[N], sa: f32, sw: f32) \
     -> terms: f32[M, N] { terms = gelu_tanh(A @ W.T * sa * sw + bias) }";
const DEQUANTISED: &str = "kernel dequantised(A: i8[M, K], W: i8[N, K], a: f32[M], b: f32[N], bias: f32[N]) \
     -> D: bf16[M, N] { D = a * (b * f32(A @ W.T)) + bias }";

/// Each product by sums that are promoted into f32 and by the tensor core's own, then a fused row.
pub(super) fn fp8() -> Vec<Row> {
    let dtypes = [DType::F8E4M3, DType::BF16];
    let promoted = products(&FP8, dtypes);
    let fast = promoted.clone().into_iter().map(|row| Row {
        name: format!("{}-fast", row.name),
        math: MathMode::Fast,
        ..row
    });
    let fused = Row {
        source: AMAX.to_owned(),
        library: None,
        totals: vec![Total { output: "amax", terms: AMAX_TERMS.to_owned(), fold: Fold::Largest }],
        ..Row::product("F5", [8192, 14336, 4096], Layout::Tn, dtypes)
    };
    promoted.iter().cloned().chain(fast).chain([fused]).collect()
}

/// Products with i32 results, then one that is dequantised.
pub(super) fn i8() -> Vec<Row> {
    let dtypes = [DType::I8, DType::I32];
    let fused = Row {
        source: DEQUANTISED.to_owned(),
        library: None,
        ..Row::product("E11", [512, 28672, 4096], Layout::Tn, dtypes)
    };
    products(&I8, dtypes).into_iter().chain([fused]).collect()
}

/// Products with f32 results.
pub(super) fn tf32() -> Vec<Row> {
    products(&TF32, [DType::TF32, DType::F32])
}

fn products(lines: &Lines, dtypes: [DType; 2]) -> Vec<Row> {
    let row = |(name, sizes): &(&str, [usize; 3])| Row::product(*name, *sizes, Layout::Tn, dtypes);
    lines.iter().map(row).collect()
}
