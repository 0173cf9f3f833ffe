//! Functions that the rules of stability speak of: kept as calls while rules look for them, expanded afterwards.
//!
//! In: nothing. Out: formulas in the language, each accurate for every argument. Invariant: a formula is stable as it
//! stands, so it is instantiated without the rules. `sigmoid`, `softplus`, `softmax` and `log_softmax` are the user's own
//! functions; the others have no name in the language. `dim` is what a function runs along.

use crate::graph::Call;

/// A function that only rules make.
pub(super) struct Basis {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
    pub(super) formula: &'static str,
}

const fn basis(
    name: &'static str,
    parameters: &'static [&'static str],
    formula: &'static str,
) -> Basis {
    Basis { name, parameters, formula }
}

/// The functions, in the language's own terms.
#[rustfmt::skip] // A table: one line a function.
const BASIS: &[Basis] = &[
    // With the rounding error of the difference or sum put back; fast math recognises both (`optimise/relax.rs`).
    basis("exp_of_difference", &["a", "b"], "where(abs(a - b) < 88.5, exp(a - b) * ((a - ((a - b) + (a - (a - b)))) + ((a - (a - b)) - b)) + exp(a - b), exp(a - b))"),
    basis("exp_of_sum", &["a", "b"], "where(abs(a + b) < 88.5, exp(a + b) * ((a - ((a + b) - ((a + b) - a))) + (b - ((a + b) - a))) + exp(a + b), exp(a + b))"),
    basis("exp_difference", &["a", "b"], "where(abs(a - b) < 0.6931471805599453, exp(b) * expm1(a - b), exp(a) - exp(b))"),
    basis("exp2_difference", &["a", "b"], "where(abs(a - b) < 1.0, exp2(b) * expm1(0.6931471805599453 * (a - b)), exp2(a) - exp2(b))"),
    // The same divided by the exponential of a third: what cancels is never rounded with it.
    basis("exp_difference_over", &["a", "b", "by"], "where(abs(a - b) < 0.6931471805599453, exp(b - by) * expm1(a - b), exp(a - by) - exp(b - by))"),
    basis("exp2_difference_over", &["a", "b", "by"], "where(abs(a - b) < 1.0, exp2(b - by) * expm1(0.6931471805599453 * (a - b)), exp2(a - by) - exp2(b - by))"),
    basis("exp2m1", &["x"], "where(abs(x) < 1.0, expm1(0.6931471805599453 * x), exp2(x) - 1.0)"),
    basis("one_minus_tanh", &["x"], "2.0 * sigmoid(-(2.0 * x))"),
    basis("one_plus_tanh", &["x"], "2.0 * sigmoid(2.0 * x)"),
    basis("one_minus_squared_sigmoid", &["x"], "where(x < 0.0, 1.0 - square(sigmoid(x)), sigmoid(-x) * (1.0 + sigmoid(x)))"),
    // 1 - tanh(x)^2 as written where nothing cancels.
    basis("sech_squared", &["x"], "where(abs(x) < 1.0, 1.0 - square(tanh(x)), 4.0 * exp(-(2.0 * abs(x))) / square(1.0 + exp(-(2.0 * abs(x)))))"),
    basis("log_add_exp", &["a", "b"], "where(a == b, a + 0.6931471805599453, maximum(a, b) + log1p(exp(-abs(a - b))))"),
    basis("log_one_minus_exp", &["x"], "where(x < -0.6931471805599453, log1p(-exp(x)), log(-expm1(x)))"),
    basis("log_expm1", &["x"], "where(x < 1.0, log(expm1(x)), x + log1p(-exp(-x)))"),
    basis("log_one_minus_tanh", &["x"], "where(x < 0.5, log1p(-tanh(x)), 0.6931471805599453 - softplus(2.0 * x))"),
    // cosh(x) - 1 is expm1(-|x|)^2 / (2 exp(-|x|)).
    basis("log_cosh", &["x"], "where(abs(x) < 1.0, log1p(0.5 * square(expm1(-abs(x))) / exp(-abs(x))), (abs(x) - 0.6931471805599453) + log1p(exp(-(2.0 * abs(x)))))"),
    // As written unless a factor cancels half of the other's digits.
    basis("sigmoid_difference", &["a", "b"], "where(minimum(sigmoid(a), sigmoid(b)) < 0.5 * maximum(sigmoid(a), sigmoid(b)), sigmoid(a) - sigmoid(b), where(a < b, expm1(a - b) * (sigmoid(b) * sigmoid(-a)), -expm1(b - a) * (sigmoid(a) * sigmoid(-b))))"),
    basis("one_minus_by_log", &["p", "log"], "where(p < 0.6, 1.0 - p, 0.0 - expm1(log))"),
    basis("exp_of_product", &["a", "b"], "where(abs(a * b) < 88.5, exp(a * b) * fma(a, b, -(a * b)) + exp(a * b), exp(a * b))"),
    // No -0, by which others may divide. Only one maximum can be above a half, and its logarithm is accurate where it is close to 0.
    basis("one_minus_softmax", &["x"], "where(softmax(x, dim) < 0.6, 1.0 - softmax(x, dim), 0.0 - expm1(log_softmax(x, dim)))"),
    basis("log_one_minus_softmax", &["x"], "where(softmax(x, dim) < 0.6, log1p(-softmax(x, dim)), where(x == max(x, dim), logsumexp(where(x == max(x, dim), -inf, x - max(x, dim)), dim) + log_softmax(x, dim), softmax(x, dim)))"),
    basis("sum_of_other_exps", &["x"], "where(exp(x) < 0.6 * sum(exp(x), dim), sum(exp(x), dim) - exp(x), sum(where(x == max(x, dim), 0.0, exp(x)), dim))"),
    basis("log_sum_of_other_exps", &["x"], "where((x == max(x, dim)) & !(softmax(x, dim) < 0.6), logsumexp(where(x == max(x, dim), -inf, x), dim), logsumexp(x, dim) + log1p(-softmax(x, dim)))"),
    // Rewritten, a text is never less accurate: it stands where what it multiplies is a normal number.
    basis("unless_out_of_range", &["text", "whole", "a", "b"], "where((abs(a) >= 1.1754943508222875e-38) & (abs(a) <= 3.4028234663852886e38) & (abs(b) >= 1.1754943508222875e-38) & (abs(b) <= 3.4028234663852886e38), text, where((abs(whole) <= 3.4028234663852886e38) | (text != text), whole, text))"),
    basis("log_softplus", &["x"], "where(x < -20.0, x, log(softplus(x)))"),
];

/// The function of that name.
pub(super) fn find(name: &str) -> Option<&'static Basis> {
    BASIS.iter().find(|basis| basis.name == name)
}

/// Whether a call is kept for the rules to see.
pub(super) fn is_basis(call: &Call) -> bool {
    !call.grad
        && (matches!(call.function, "sigmoid" | "softplus" | "softmax" | "log_softmax")
            || find(call.function).is_some())
}
