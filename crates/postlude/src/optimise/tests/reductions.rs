//! Rules on reductions and picks, before and after.

use super::{check_fast, check_kept, check_pass};
use crate::optimise::fold_constants::fold_constants;
use crate::optimise::rewrite_reductions::rewrite_reductions;
use crate::optimise::simplify::simplify;
use crate::optimise::split_operators::split_operators;

#[test]
fn negation_leaves_reductions() {
    check_pass(rewrite_reductions, "o = sum(-(A @ B), N)", "o = 0.0 - sum(A @ B, N)");
    check_pass(rewrite_reductions, "o = max(-(A @ B))", "o = -min(A @ B)");
    check_pass(rewrite_reductions, "o = absmax(-(A @ B))", "o = absmax(A @ B)");
    check_kept(rewrite_reductions, "D = -(A @ B); o = sum(D)");
}

#[test]
fn runs_of_one_column_are_their_term() {
    for fold in ["max", "min", "prod", "logsumexp"] {
        check_pass(rewrite_reductions, &format!("D = {fold}(A @ B, N, 1)"), "D = A @ B");
    }
    check_pass(rewrite_reductions, "D = sum(A @ B, N, 1)", "D = A @ B + 0.0");
    check_pass(rewrite_reductions, "D = absmax(A @ B, N, 1)", "D = abs(A @ B)");
}

#[test]
fn magnitudes_fold_once() {
    check_pass(rewrite_reductions, "o = absmax(abs(A @ B))", "o = absmax(A @ B)");
}

#[test]
fn extremes_of_extremes_merge() {
    check_pass(rewrite_reductions, "o = max(max(A @ B, N), M)", "o = max(A @ B, M, N)");
    check_pass(rewrite_reductions, "o = min(min(A @ B, N, 128))", "o = min(A @ B)");
    check_fast(rewrite_reductions, "o = sum(sum(A @ B, N), M)", "o = sum(A @ B, M, N)");
    check_kept(rewrite_reductions, "o = max(min(A @ B, N), M)");
}

#[test]
fn a_one_hot_sum_is_a_pick() {
    for source in
        ["o = sum(where(col == t[M], A @ B, 0.0), N)", "o = sum(where(t[M] == col, A @ B, 0.0), N)"]
    {
        let graph = super::defined(source);
        let context = super::Context { math: crate::graph::MathMode::Default, keep: None };
        let text = rewrite_reductions(&graph, &context).to_string();
        assert!(text.contains("pick") && !text.contains("sum"), "{text}");
    }
    check_kept(rewrite_reductions, "o = sum(f32(col == t[M]) * (A @ B), N)");
}

#[test]
fn extremes_of_monotone_functions_leave_the_tile() {
    check_pass(rewrite_reductions, "o = max(A @ B * 3.0, N)", "o = max(A @ B, N) * 3.0");
    check_pass(rewrite_reductions, "o = max(A @ B / 3.0, N)", "o = max(A @ B, N) / 3.0");
    check_pass(rewrite_reductions, "o = absmax(A @ B * 3.0)", "o = absmax(A @ B) * 3.0");
    check_pass(rewrite_reductions, "o = max(A @ B + 3.0, N)", "o = max(A @ B, N) + 3.0");
    check_pass(rewrite_reductions, "o = max(3.0 - A @ B, N)", "o = 3.0 - min(A @ B, N)");
    check_pass(rewrite_reductions, "o = max(bf16(A @ B), N)", "o = bf16(max(A @ B, N))");
    check_fast(rewrite_reductions, "o = max(A @ B + r[M], N)", "o = max(A @ B, N) + r[M]");
}

#[test]
fn factors_leave_sums_under_fast_math() {
    check_fast(rewrite_reductions, "o = sum(A @ B * s, N)", "o = sum(A @ B, N) * s");
    check_fast(rewrite_reductions, "o = sum(A @ B * r[M], N)", "o = sum(A @ B, N) * r[M]");
    check_fast(rewrite_reductions, "o = sum(A @ B / r[M], N)", "o = sum(A @ B, N) / r[M]");
    check_fast(
        rewrite_reductions,
        "o = logsumexp(A @ B + r[M], N)",
        "o = logsumexp(A @ B, N) + r[M]",
    );
}

#[test]
fn sums_of_a_constant_count() {
    let source = "z = A @ B; D = z; o = sum(where(z < 1.0, 0.0, 0.0), N)";
    check_pass(simplify, source, "z = A @ B; D = z; o = 0.0");
    let graph = super::defined("z = A @ B; D = z; o = max(where(z < 1.0, 3.0, 3.0))");
    let context = super::Context { math: crate::graph::MathMode::Default, keep: None };
    let text = fold_constants(&simplify(&graph, &context), &context).to_string();
    assert!(text.contains("extent M, N") && !text.contains("max"), "{text}");
}

#[test]
fn extremes_of_what_varies_less_leave_the_tile() {
    let graph = super::defined("o = max(maximum(A @ B, r[M]), N)");
    let context = super::Context { math: crate::graph::MathMode::Default, keep: None };
    let split = split_operators(&graph, &context).to_string();
    assert!(
        split.find("max v").is_some_and(|at| at < split.find("maximum").unwrap_or(0)),
        "{split}"
    );
}

#[test]
fn sums_split_under_fast_math() {
    check_kept(split_operators, "o = sum(A @ B + bias[N], M)");
    let graph = super::defined("o = sum(A @ B + bias[N], M, N)");
    let context = super::Context { math: crate::graph::MathMode::Fast, keep: None };
    let split = split_operators(&graph, &context).to_string();
    assert!(split.contains("extent M"), "{split}");
}

#[test]
fn a_condition_that_does_not_vary_leaves_the_reduction() {
    check_pass(
        split_operators,
        "o = sum(where(rows[M], A @ B, 0.0), N)",
        "o = where(rows[M], sum(A @ B, N), 0.0)",
    );
    check_kept(split_operators, "o = sum(where(rows[M], A @ B, C), N)");
}

#[test]
fn picks_move_inside() {
    check_pass(
        split_operators,
        "z = A @ B; o = pick(z - max(z, N), t[M])",
        "z = A @ B; o = pick(z, t[M]) - max(z, N)",
    );
    check_pass(split_operators, "o = pick(-(A @ B), t[M])", "o = -pick(A @ B, t[M])");
    check_kept(split_operators, "o = pick(A @ B * bias[N], t[M])");
}
