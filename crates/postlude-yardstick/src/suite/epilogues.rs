//! The public suite's fused rows, E1 to E10.
//!
//! Kernels stand with their signatures; `T` is the dtype of operands and tiles. Where a result is one number for the whole
//! problem, a kernel of its terms stands beside it: the terms are a tile, which is checked on a sample and folded on the
//! host.

use postlude::DType;

use crate::cublaslt::Epilogue;
use crate::layout::Layout;
use crate::suite::Row;

/// How one number is made of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The largest magnitude.
    Largest,
}

/// A result that is one number for the whole problem, and another way to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Total {
    /// The output.
    pub output: &'static str,
    /// The kernel that stores the terms as its only output, an f32 tile.
    pub terms: String,
    /// What is made of them.
    pub fold: Fold,
}

type Line = (&'static str, &'static str, DType, [usize; 3], Option<Epilogue>);

const LINCOMB: &str = "kernel lincomb_bias_relu(A: T[M, K], W: T[N, K], C: T[M, N], bias: f32[N], alpha: f32, beta: f32) \
     -> D: T[M, N] { D = relu(alpha * (A @ W.T) + beta * C + bias) }";
const GELU_AUX: &str = "kernel linear_gelu_aux(A: T[M, K], W: T[N, K], bias: f32[N]) \
     -> (Z: T[M, N], D: T[M, N]) { Z = A @ W.T + bias; D = gelu(Z) }";
const GELU_TANH_AUX: &str = "kernel linear_gelu_tanh_aux(A: T[M, K], W: T[N, K], bias: f32[N]) \
     -> (Z: T[M, N], D: T[M, N]) { Z = A @ W.T + bias; D = gelu_tanh(Z) }";
const GELU_GRADIENT: &str = "kernel gelu_backward_bias(A: T[M, K], W: T[N, K], Z: T[M, N]) \
     -> (D: T[M, N], dbias: f32[N]) { D = A @ W.T * grad(gelu)(Z); dbias = sum(D, M) }";
const GELU_TANH_GRADIENT: &str = "kernel gelu_tanh_backward_bias(A: T[M, K], W: T[N, K], Z: T[M, N]) \
     -> (D: T[M, N], dbias: f32[N]) { D = A @ W.T * grad(gelu_tanh)(Z); dbias = sum(D, M) }";
const GELU: &str = "kernel linear_gelu(A: T[M, K], W: T[N, K], bias: f32[N]) \
     -> D: T[M, N] { D = gelu(A @ W.T + bias) }";
const GELU_TANH: &str = "kernel linear_gelu_tanh(A: T[M, K], W: T[N, K], bias: f32[N]) \
     -> D: T[M, N] { D = gelu_tanh(A @ W.T + bias) }";
const BCE: &str = "kernel bce_loss(A: T[M, K], W: T[N, K], bias: f32[N], y: T[M, N]) -> loss: f32[] \
     { z = A @ W.T + bias; loss = -sum(y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z))) }";
const BCE_GRADIENT: &str = "kernel bce_gradient(A: T[M, K], W: T[N, K], bias: f32[N], y: T[M, N], s: f32) \
     -> (D: T[M, N], dbias: f32[N]) { D = (sigmoid(A @ W.T + bias) - y) * s; dbias = sum(D, M) }";
const SWIGLU: &str = "kernel swiglu(A: T[M, K], W: T[N, K]) -> D: T[M, N/2] \
     { gate, up = halves(A @ W.T); D = silu(gate) * up }";
const RESIDUAL: &str = "kernel residual_rms_statistic(A: T[M, K], W: T[N, K], C: T[M, N], gamma: f32[N]) \
     -> (Y: T[M, N], O: T[M, N], ss: f32[M]) { Y = A @ W.T + C; O = Y * gamma; ss = sum(Y * Y, N) }";
const AMAX: &str = "kernel gelu_tanh_fp8_amax(A: T[M, K], W: T[N, K], bias: f32[N], scale: f32) \
     -> (D: f8e4m3[M, N], amax: f32[]) \
     { G = gelu_tanh(A @ W.T + bias); D = f8e4m3(scale * G); amax = absmax(G) }";
const STATISTICS: &str = "kernel lm_head_statistics(A: T[M, K], W: T[N, K], target: i32[M]) \
     -> (lse: f32[M], t: f32[M]) { z = A @ W.T; lse = logsumexp(z, N); t = pick(z, target) }";

/// Names, kernels, dtypes, M, N and K, and what the library does instead.
#[rustfmt::skip] // A table: one line a row.
const ROWS: &[Line] = &[
    ("E1-k1024", LINCOMB, DType::BF16, [8192, 8192, 1024], Some(Epilogue::BiasRelu)),
    ("E1-k8192", LINCOMB, DType::BF16, [8192, 8192, 8192], Some(Epilogue::BiasRelu)),
    ("E2-gelu", GELU_AUX, DType::F16, [16384, 4096, 1024], None),
    ("E2-tanh", GELU_TANH_AUX, DType::F16, [16384, 4096, 1024], Some(Epilogue::BiasGeluAux)),
    ("E3-gelu", GELU_GRADIENT, DType::F16, [16384, 4096, 1024], None),
    ("E3-tanh", GELU_TANH_GRADIENT, DType::F16, [16384, 4096, 1024], Some(Epilogue::GeluGradient)),
    ("E4-gelu", GELU, DType::F16, [32896, 3072, 768], None),
    ("E4-tanh", GELU_TANH, DType::F16, [32896, 3072, 768], Some(Epilogue::BiasGelu)),
    ("E5-2048", BCE, DType::F16, [2048, 2048, 2048], None),
    ("E5-8192", BCE, DType::BF16, [8192, 8192, 1024], None),
    ("E5-16384", BCE, DType::BF16, [16384, 4096, 4096], None),
    ("E6", BCE_GRADIENT, DType::F16, [1024, 670_208, 512], None),
    ("E7", SWIGLU, DType::BF16, [8192, 28672, 4096], None),
    ("E8", RESIDUAL, DType::BF16, [8192, 4096, 4096], None),
    ("E9", AMAX, DType::BF16, [8192, 28672, 4096], None),
    ("E10", STATISTICS, DType::BF16, [8192, 128_256, 4096], None),
];

/// Kernels with a result that is one number, that result, its terms, and what is made of them.
#[rustfmt::skip] // A table: one line a kernel.
const TOTALS: &[(&str, &str, &str, Fold)] = &[
    (BCE, "loss", "kernel bce_terms(A: T[M, K], W: T[N, K], bias: f32[N], y: T[M, N]) -> terms: f32[M, N] \
        { z = A @ W.T + bias; terms = -(y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z))) }", Fold::Sum),
    (AMAX, "amax", "kernel gelu_tanh_f32(A: T[M, K], W: T[N, K], bias: f32[N]) -> terms: f32[M, N] \
        { terms = gelu_tanh(A @ W.T + bias) }", Fold::Largest),
];

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    ROWS.iter().map(|line| row(*line)).collect()
}

fn row((name, source, dtype, sizes, library): Line) -> Row {
    let totals = TOTALS.iter().filter(|(kernel, ..)| *kernel == source);
    let totals = totals.map(|(_, output, terms, fold)| Total {
        output,
        terms: with_dtype(terms, dtype),
        fold: *fold,
    });
    Row {
        source: with_dtype(source, dtype),
        library,
        totals: totals.collect(),
        ..Row::product(name, sizes, Layout::Tn, [dtype; 2])
    }
}

/// The kernel with its tiles' dtype.
fn with_dtype(source: &str, dtype: DType) -> String {
    source.replace(": T[", &format!(": {dtype}["))
}
