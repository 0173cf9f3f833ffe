//! Folds of the rows of a language model's logits, which are stored nowhere.

use crate::layout::Layout;
use crate::suite::Row;

/// M, N and K.
const SIZES: [usize; 3] = [8192, 128_256, 4096];

/// Names and kernels.
#[rustfmt::skip] // A table: one line a row.
const ROWS: &[(&str, &str)] = &[
    ("V-logsumexp", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> lse: f32[M] { lse = logsumexp(A @ W.T, N) }"),
    ("V-logsumexp-by-hand", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> lse: f32[M] \
        { z = A @ W.T; peak = max(z, N); lse = peak + log(sum(exp(z - peak), N)) }"),
    ("V-argmax", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> token: i32[M] { token = argmax(A @ W.T, N) }"),
    ("V-top8", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> (values: f32[M, 8], tokens: i32[M, 8]) \
        { values, tokens = topk(A @ W.T, 8, N) }"),
    ("V-entropy", "kernel k(A: bf16[M, K], W: bf16[N, K]) -> entropy: f32[M] \
        { z = A @ W.T; entropy = -sum(softmax(z, N) * log_softmax(z, N), N) }"),
    ("V-log-prob-entropy", "kernel k(A: bf16[M, K], W: bf16[N, K], target: i32[M]) -> (log_prob: f32[M], entropy: f32[M]) \
        { z = A @ W.T; log_prob = pick(log_softmax(z, N), target); entropy = -sum(softmax(z, N) * log_softmax(z, N), N) }"),
];

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let row = |(name, source): &(&str, &str)| Row {
        source: (*source).to_owned(),
        library: None,
        ..Row::plain(*name, SIZES, Layout::Tn)
    };
    ROWS.iter().map(row).collect()
}
