//! Rules on values, before and after.

use super::{check_fast, check_kept, check_pass, check_relaxed};
use crate::optimise::fold_constants::fold_constants;
use crate::optimise::form_fma::form_fma;
use crate::optimise::hoist::hoist;
use crate::optimise::merge_common::merge_common;
use crate::optimise::reduce_strength::reduce_strength;
use crate::optimise::relax::relax;
use crate::optimise::simplify::simplify;

#[test]
fn constants_fold_as_they_would_run() {
    check_pass(fold_constants, "D = A @ B * (2.0 + 3.0)", "D = A @ B * 5.0");
    check_pass(fold_constants, "D = A @ B * (1.0 / 3.0)", "D = A @ B * 0.33333334");
    check_pass(fold_constants, "D = A @ B * fma(3.0, 2.0, 1.0)", "D = A @ B * 7.0");
    check_pass(fold_constants, "D = A @ B * exp(0.0)", "D = A @ B * 1.0");
    check_pass(fold_constants, "D = A @ B * pow(2.0, 10.0)", "D = A @ B * 1024.0");
    check_pass(fold_constants, "D = A @ B * bf16(1.001)", "D = A @ B * 1.0");
    check_pass(fold_constants, "D = A @ B * (0.0 / 0.0)", "D = A @ B * nan");
    check_pass(fold_constants, "D = A @ B * maximum(1.0, nan)", "D = A @ B * nan");
}

#[test]
fn integer_constants_wrap_and_conditions_fold() {
    check_pass(
        fold_constants,
        "D = A @ B; o = f32(col + (i32(2147483647) + i32(1)))",
        "D = A @ B; o = f32(col + i32(-2147483648))",
    );
}

#[test]
fn a_constant_condition_chooses() {
    check_pass(fold_constants, "D = where(1.0 < 2.0, A @ B, C)", "D = A @ B");
    check_pass(fold_constants, "D = where(2.0 == nan, C, A @ B)", "D = A @ B");
}

#[test]
fn neutral_operands_vanish() {
    for source in ["A @ B * 1.0", "1.0 * (A @ B)", "A @ B / 1.0", "A @ B - 0.0", "A @ B + -0.0"] {
        check_pass(simplify, &format!("D = {source}"), "D = A @ B");
    }
    check_kept(simplify, "D = A @ B + 0.0");
    check_kept(simplify, "D = A @ B * 0.0");
    check_pass(simplify, "D = pow(A @ B, 1.0)", "D = A @ B");
    check_pass(simplify, "D = A @ B * pow(C, 0.0)", "D = A @ B");
}

#[test]
fn signs_move_to_where_they_cost_nothing() {
    check_pass(simplify, "D = A @ B + (-C)", "D = A @ B - C");
    check_pass(simplify, "D = (-C) + A @ B", "D = A @ B - C");
    check_pass(simplify, "D = A @ B - (-C)", "D = A @ B + C");
    check_pass(simplify, "D = (-(A @ B)) * (-C)", "D = A @ B * C");
    check_pass(simplify, "D = (-(A @ B)) / (-C)", "D = A @ B / C");
    check_pass(simplify, "D = -(A @ B * 3.0)", "D = A @ B * -3.0");
    check_pass(simplify, "D = A @ B; o = -(row - col)", "D = A @ B; o = col - row");
}

#[test]
fn fused_products_with_trivial_factors_unfuse() {
    check_pass(simplify, "D = fma(A @ B, 1.0, C)", "D = A @ B + C");
    check_pass(simplify, "D = fma(-(A @ B), -C, bias[N])", "D = fma(A @ B, C, bias[N])");
    check_kept(simplify, "D = fma(A @ B, C, 0.0)");
}

#[test]
fn magnitudes_forget_signs() {
    check_pass(simplify, "D = abs(abs(A @ B))", "D = abs(A @ B)");
    check_pass(simplify, "D = abs(-(A @ B))", "D = abs(A @ B)");
    check_pass(simplify, "D = abs(square(A @ B))", "D = square(A @ B)");
    check_pass(simplify, "D = abs(exp(A @ B))", "D = exp(A @ B)");
    check_kept(simplify, "D = abs(sqrt(A @ B))");
}

#[test]
fn relu_is_idempotent() {
    check_pass(simplify, "D = relu(relu(A @ B))", "D = relu(A @ B)");
    check_pass(simplify, "z = A @ B; D = maximum(z, z)", "D = A @ B");
}

#[test]
fn a_clamp_of_a_clamp_is_one_clamp() {
    check_pass(
        simplify,
        "D = clamp(clamp(A @ B, 0.0, 4.0), 1.0, 8.0)",
        "D = minimum(maximum(A @ B, 1.0), 4.0)",
    );
    check_pass(
        simplify,
        "D = maximum(minimum(A @ B, 6.0), 0.0)",
        "D = minimum(maximum(A @ B, 0.0), 6.0)",
    );
}

#[test]
fn infinite_bounds_bound_nothing_but_nan() {
    check_pass(simplify, "D = minimum(A @ B, inf)", "D = A @ B");
    check_kept(simplify, "D = maximum(A @ B, inf)");
    check_relaxed(relax, "Z = A @ B; D = maximum(Z, inf)", "Z = A @ B; D = inf");
}

#[test]
fn doubling_is_a_product_and_powers_of_two_divide_exactly() {
    check_pass(simplify, "z = A @ B; D = z + z", "D = A @ B * 2.0");
    check_pass(simplify, "D = A @ B / 8.0", "D = A @ B * 0.125");
    check_kept(simplify, "D = A @ B / 6.0");
    check_pass(simplify, "D = 1.0 / (A @ B)", "D = rcp(A @ B)");
}

#[test]
fn conditions_simplify_where_nan_allows() {
    check_pass(simplify, "D = where(!(p[M, N]), A @ B, C)", "D = where(p[M, N], C, A @ B)");
    check_pass(simplify, "z = A @ B; D = where(p[M, N], z, z)", "D = A @ B");
    check_pass(simplify, "o = !(C == A @ B)", "o = C != A @ B");
    check_kept(simplify, "o = !(C < A @ B)");
    check_pass(simplify, "D = A @ B; o = !(row < col)", "D = A @ B; o = col <= row");
    check_pass(simplify, "D = A @ B; o = p[M, N] & p[M, N]", "D = A @ B; o = p[M, N]");
    check_pass(
        simplify,
        "D = where(p[M, N], where(p[M, N], A @ B, C), E)",
        "D = where(p[M, N], A @ B, E)",
    );
}

#[test]
fn a_float_differs_from_itself_where_it_is_nan() {
    check_pass(simplify, "z = A @ B; o = z != z", "o = isnan(A @ B)");
    check_pass(simplify, "z = A @ B; o = z == z", "o = !isnan(A @ B)");
    check_pass(simplify, "Z = A @ B; o = Z < Z", "Z = A @ B; o = 1.0 < 0.0");
}

#[test]
fn functions_of_selected_constants_fold() {
    check_pass(
        |graph, context| fold_constants(&simplify(graph, context), context),
        "D = A @ B * exp(where(p[M, N], 0.0, -inf))",
        "D = A @ B * where(p[M, N], 1.0, 0.0)",
    );
}

#[test]
fn casts_that_change_nothing_vanish() {
    check_pass(simplify, "D = f32(bf16(bf16(A @ B)) + C)", "D = bf16(A @ B) + C");
    check_pass(simplify, "D = bf16(C) + A @ B", "D = C + A @ B");
    check_pass(simplify, "D = f16(f8e4m3(A @ B)) + C", "D = f8e4m3(A @ B) + C");
    check_kept(simplify, "D = f8e4m3(f16(A @ B)) + C");
    check_kept(simplify, "D = f8e5m2(e) + A @ B");
    check_pass(simplify, "D = bf16(relu(bf16(A @ B))) + C", "D = relu(bf16(A @ B)) + C");
    check_pass(simplify, "D = f32(i32(u)) * (A @ B)", "D = f32(u) * (A @ B)");
    check_pass(simplify, "D = f32(i32(f32(u)) + n) * (A @ B)", "D = f32(u + n) * (A @ B)");
}

#[test]
fn a_store_rounds_by_itself() {
    check_pass(simplify, "D = bf16(A @ B)", "D = A @ B");
    check_pass(simplify, "D = f8e4m3(A @ B)", "D = A @ B");
}

#[test]
fn halves_and_pairs_undo_each_other() {
    check_pass(simplify, "a, b = halves(A @ B); D = concat(a, b)", "D = A @ B");
    check_pass(simplify, "a, b = pairs(A @ B); D = join(a, b)", "D = A @ B");
    check_kept(simplify, "a, b = pairs(A @ B); D = concat(a, b)");
    check_pass(
        simplify,
        "a, b = halves(A @ B); c, d = halves(concat(b, a)); D = c / d",
        "a, b = halves(A @ B); D = b / a",
    );
}

#[test]
fn relaxed_sums_and_products() {
    check_relaxed(relax, "D = A @ B + 0.0", "D = A @ B");
    check_relaxed(relax, "Z = A @ B; D = Z * 0.0", "Z = A @ B; D = 0.0");
    check_relaxed(relax, "Z = A @ B; D = Z - Z", "Z = A @ B; D = 0.0");
    check_relaxed(relax, "Z = A @ B; D = Z / Z", "Z = A @ B; D = 1.0");
    check_relaxed(relax, "D = 0.0 - A @ B", "D = -(A @ B)");
    check_relaxed(relax, "D = fma(A @ B, C, 0.0)", "D = A @ B * C");
    check_relaxed(relax, "z = A @ B; D = z * C + z * E", "z = A @ B; D = z * (C + E)");
}

#[test]
fn relaxed_functions() {
    check_relaxed(relax, "D = exp(A @ B) * exp(C)", "D = exp(A @ B + C)");
    check_relaxed(relax, "D = exp(A @ B) / exp(C)", "D = exp(A @ B - C)");
    check_relaxed(relax, "D = square(sqrt(A @ B))", "D = A @ B");
    check_relaxed(relax, "D = square(rsqrt(A @ B))", "D = rcp(A @ B)");
    check_relaxed(relax, "D = rcp(rcp(A @ B))", "D = A @ B");
    check_relaxed(relax, "D = rcp(exp(A @ B))", "D = exp(-(A @ B))");
    check_relaxed(relax, "D = exp(log(A @ B))", "D = A @ B");
}

#[test]
fn quotients_become_products_where_their_error_allows() {
    check_pass(reduce_strength, "D = A @ B / 6.0", "D = A @ B * 0.16666667");
    check_kept(reduce_strength, "D = f32(A @ B / 6.0)");
    check_pass(
        reduce_strength,
        "z = A @ B; D = softmax(z, N)",
        "z = A @ B; e0 = exp(z - max(z, N)); D = e0 * rcp(sum(exp(z - max(z, N)), N))",
    );
    check_fast(reduce_strength, "D = A @ B / scale[M]", "D = A @ B * rcp(scale[M])");
    check_pass(reduce_strength, "D = rcp(sqrt(A @ B))", "D = rsqrt(A @ B)");
    check_pass(reduce_strength, "D = pow(A @ B, 2.0)", "D = square(A @ B)");
    check_pass(reduce_strength, "D = pow(A @ B, -1.0)", "D = rcp(A @ B)");
}

#[test]
fn operands_that_vary_less_meet_first() {
    check_pass(
        hoist,
        "D = maximum(maximum(A @ B, a[N]), b[N])",
        "D = maximum(A @ B, maximum(a[N], b[N]))",
    );
    check_fast(hoist, "D = (A @ B * a[N]) * b[N]", "D = A @ B * (a[N] * b[N])");
    check_fast(
        hoist,
        "D = (A @ B * a[N]) * b[M] * c[N] * s",
        "D = A @ B * (a[N] * c[N] * s) * b[M]",
    );
    check_fast(hoist, "D = fma(A @ B, C, a[N]) + b[N]", "D = fma(A @ B, C, a[N] + b[N])");
    check_kept(hoist, "z = A @ B; y = maximum(z, a[N]); D = maximum(y, b[N]); E = y");
}

#[test]
fn swapped_operands_are_one_value() {
    check_pass(merge_common, "z = A @ B; D = (z + C) * (C + z)", "z = A @ B; y = z + C; D = y * y");
    check_pass(
        merge_common,
        "z = A @ B; D = maximum(fma(z, C, E), fma(C, z, E))",
        "z = A @ B; y = fma(z, C, E); D = maximum(y, y)",
    );
}

#[test]
fn contraction_under_default_math_is_done_already() {
    check_kept(form_fma, "D = relu(s * (A @ B) + C)");
}
