//! Naive forms as losses, activations and probabilities are written in practice: right to 1e-5 of the result for logits of
//! any size.

use super::accuracy::{Allowed, Worst, judge};
use super::engines::{elementwise, run_row};
use super::textbook::exactly_or_quickly;
use super::variants::ways;

/// 1e-5 of the result, in units of its last place, which are at most 2^-23 of it.
const ULPS: f64 = 84.0;
/// Results below the normal numbers, and those of a factor that is, may vanish.
const VANISHES: f64 = 1.2e-38;

/// Forms of `x` and a constant `y`.
#[rustfmt::skip] // A table: one line a form.
const ELEMENTWISE: &[&str] = &[
    // Sums and products of two exponentials.
    "log(exp(x) + exp(y))",
    "log(exp(x) * exp(y))",
    "exp(x) * exp(y)",
    "exp(x) / (exp(x) + exp(y))",
    "log(sqrt(exp(x) * exp(y)))",
    "log(maximum(exp(x), exp(y)))",
    "log(minimum(exp(x), exp(y)))",
    "log(exp(x) + exp(y) + 1.0)",
    "exp(x) / (exp(x) + exp(y) + 1.0)",
    "sqrt(exp(2.0 * x) + exp(2.0 * y))",
    "exp(x) / sqrt(exp(2.0 * x) + exp(2.0 * y))",
    "log((1.0 + exp(x)) / (1.0 + exp(y)))",
    "exp(maximum(x, y)) / (exp(x) + exp(y))",
    "maximum(exp(x), exp(y)) / (exp(x) + exp(y))",
    // Powers.
    "pow(exp(x), 0.5)",
    "pow(exp(x), 3.0)",
    "pow(2.0, x) / (1.0 + pow(2.0, x))",
    "log(pow(1.0 + exp(x), 2.0))",
    "log(pow(sigmoid(x), 3.0))",
    // Losses.
    "-pow(1.0 - sigmoid(x), 2.0) * log(sigmoid(x))",
    "-0.25 * square(1.0 - sigmoid(x)) * log(sigmoid(x))",
    "-0.75 * square(sigmoid(x)) * log(1.0 - sigmoid(x))",
    "-(y * log(sigmoid(x)) + (1.0 - y) * log1p(-sigmoid(x)))",
    "-log(1.0 - 1.0 / (1.0 + exp(x)))",
    "sigmoid(x + 0.5) - sigmoid(x - 0.5)",
    "log(sigmoid(x + 0.5) - sigmoid(x - 0.5))",
    "1.0 - sigmoid(x) * sigmoid(x + 1.0)",
    "log(1.0 - sigmoid(x) * sigmoid(y))",
    "1.0 - pow(sigmoid(x), 3.0)",
    "1.0 - where(x > 1.0, sigmoid(x), 0.0)",
    "1.0 - clamp(sigmoid(x), 1e-6, 1.0)",
    "log(where(x > 0.0, exp(x), exp(-x)))",
    // Activations.
    "x * (square(1.0 + exp(x)) - 1.0) / (square(1.0 + exp(x)) + 1.0)",
    "x * tanh(log(1.0 + exp(x)))",
    "x * exp(x) / (1.0 + exp(x))",
    "x / (1.0 + exp(-1.5 * x))",
    "0.5 * x * (1.0 + tanh(0.75 * x))",
    "2.0 / (1.0 + exp(-2.0 * x)) - 1.0",
    "(1.0 - exp(-2.0 * x)) / (1.0 + exp(-2.0 * x))",
    "rcp(1.0 + exp(-x)) * rcp(1.0 + exp(x))",
    "log(1.0 + exp(2.0 * x)) / 2.0",
    "log(exp(x) + 1.0) - log(exp(-x) + 1.0)",
    // Base 2.
    "1.0 / (1.0 + exp2(-x))",
    "log2(exp2(x) + exp2(y))",
    "exp2(x) / (exp2(x) + exp2(y))",
];

/// Forms of a row `x` with weights `y` and a label `t`.
#[rustfmt::skip] // A table: one line a form.
const ROWS: &[&str] = &[
    // Complements.
    "1.0 - softmax(x, N)",
    "1.0 - exp(x) / sum(exp(x), N)",
    "log(1.0 - softmax(x, N))",
    "log1p(-softmax(x, N))",
    "log(1.0 - exp(log_softmax(x, N)))",
    "exp(x) / (sum(exp(x), N) - exp(x))",
    "log(sum(exp(x), N) - exp(x))",
    "softmax(x, N) * (1.0 - softmax(x, N))",
    "softmax(x, N) / (1.0 - softmax(x, N))",
    "1.0 - max(softmax(x, N), N)",
    "1.0 - pick(softmax(x, N), t)",
    "-log(1.0 - pick(softmax(x, N), t))",
    "log(pick(softmax(x, N), t) / (1.0 - pick(softmax(x, N), t)))",
    "-log(where(col == t, softmax(x, N), 1.0 - softmax(x, N)))",
    "1.0 - prod(1.0 - sigmoid(x), N)",
    // Cross entropies.
    "-log(softmax(x, N))",
    "-log_softmax(x, N)",
    "-log(pick(softmax(x, N), t))",
    "-pick(log_softmax(x, N), t)",
    "-sum(where(col == t, log(softmax(x, N)), 0.0), N)",
    "-log(pick(exp(x), t) / sum(exp(x), N))",
    "-square(1.0 - pick(softmax(x, N), t)) * log(pick(softmax(x, N), t))",
    "-square(1.0 - exp(pick(log_softmax(x, N), t))) * pick(log_softmax(x, N), t)",
    "-(0.875 * pick(log(softmax(x, N)), t) + 0.125 * mean(log(softmax(x, N)), N))",
    "-log(exp(pick(x, t)) / (sum(exp(x), N) - exp(pick(x, t))))",
    "-log(max(softmax(x, N), N))",
    "log(softmax(x * 0.5, N))",
    // Entropies and divergences.
    "-sum(softmax(x, N) * log(softmax(x, N)), N)",
    "-sum(exp(log_softmax(x, N)) * log_softmax(x, N), N)",
    // Extremes, products, normalisations.
    "log(max(exp(x), N))",
    "log(min(exp(x), N))",
    "max(exp(x), N) / sum(exp(x), N)",
    "exp(x) / max(exp(x), N)",
    "prod(exp(x), N)",
    "log(prod(exp(x), N))",
    "log(prod(softmax(x, N), N))",
    "exp(x) / sqrt(sum(exp(2.0 * x), N))",
    "log(sqrt(sum(exp(x), N)))",
    "exp(x) * y / sum(exp(x) * y, N)",
    "f32(y > 0.6) * softmax(x, N) / sum(f32(y > 0.6) * softmax(x, N), N)",
    "where(y > 0.6, softmax(x, N), 0.0) / sum(where(y > 0.6, softmax(x, N), 0.0), N)",
    "exp(x - max(x, N)) / sum(exp(x - max(x, N)), N)",
    "exp(x - logsumexp(x, N))",
    "log2(sum(exp2(x), N))",
];

/// The same, whose terms cancel in ways that have nothing to do with the size of logits: right to 2e-7 beside that.
#[rustfmt::skip] // A table: one line a form.
const CANCELLING_ROWS: &[&str] = &[
    "-log(sum(where(y > 0.6, exp(x), 0.0), N) / sum(exp(x), N))",
    "softmax(x, N) * (log(softmax(x, N)) - log(softmax(-x, N)))",
    "softmax(x, N) * log(softmax(x, N) / (0.5 * softmax(x, N) + 0.5 * softmax(-x, N)))",
    "log(sum(where(y > 0.6, softmax(x, N), 0.0), N))",
    "x - max(x, N) - log(sum(exp(x - max(x, N)), N))",
    "sum(softmax(x, N) * log(softmax(x, N) / softmax(y, N)), N)",
];

const SIZES: [f32; 10] = [0.0, 1e-4, 0.01, 0.5, 3.0, 10.0, 30.0, 90.0, 1e3, 1e4];

#[test]
fn elementwise_forms_of_practice_are_right_for_any_logit() {
    let points: Vec<f32> = SIZES.iter().flat_map(|size| [-size, *size]).collect();
    let allowed = Allowed { ulps: ULPS, absolute: 100.0 * VANISHES };
    let mut wrong = Vec::new();
    for form in ELEMENTWISE {
        for y in [0.75_f32, 9.5] {
            let exact: Vec<f64> = (points.iter())
                .map(|x| {
                    exactly_or_quickly(form, &[("x", &[f64::from(*x)]), ("y", &[f64::from(y)])])[0]
                })
                .collect();
            for way in ways(form) {
                let computed = elementwise(&way, &points, &[("y", y)]);
                let mut worst = Worst::default();
                for ((computed, exact), x) in computed.into_iter().zip(&exact).zip(&points) {
                    judge(&mut worst, allowed, computed, *exact, &format!("{x:e}, {y}"));
                }
                if worst.part > 1.0 {
                    wrong.push(format!("{way}: {:.2e}: {}", worst.part, worst.place));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn forms_of_practice_over_a_row_are_right_for_any_logit() {
    let rows: [&[f32]; 9] = [
        &[1e4, -1e4, 0.0, 5.0],
        &[9999.0, 1e4, 9998.5, 9990.0],
        &[-1e4, -9999.0, -1e3, -9998.0],
        &[0.1, 7.5, -3.3, 5.0],
        &[-9.5, 10.0, 8.25, -2.0],
        &[1e-4, -2e-4, 5e-5, 0.0],
        &[3.0, 3.0, 1.0, -2.0],
        &[-20.0, 20.0, -18.0, 0.0],
        &[-60.0, 30.0, -30.0, -25.0],
    ];
    let (weights, label, columns) = ([0.75, 1.5, 0.5, 1.0], 1, [0.0, 1.0, 2.0, 3.0]);
    let mut wrong = Vec::new();
    let forms = ROWS.iter().map(|form| (form, 100.0 * VANISHES));
    for (form, absolute) in forms.chain(CANCELLING_ROWS.iter().map(|form| (form, 2e-7))) {
        let allowed = Allowed { ulps: ULPS, absolute };
        for row in rows {
            let values: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let wide: Vec<f64> = weights.iter().map(|y| f64::from(*y)).collect();
            let names: [(&str, &[f64]); 4] =
                [("x", &values), ("y", &wide), ("t", &[f64::from(label)]), ("col", &columns)];
            let exact = exactly_or_quickly(form, &names);
            for way in ways(form) {
                let mut worst = Worst::default();
                let computed = run_row(&way, row, &weights, label);
                for (column, computed) in computed.into_iter().enumerate() {
                    let exact = exact[if exact.len() == 1 { 0 } else { column }];
                    judge(&mut worst, allowed, computed, exact, &format!("column {column}"));
                }
                if worst.part > 1.0 {
                    let what = format!("{:.2e}: {}", worst.part, worst.place);
                    wrong.push(format!("{way} of {row:?}: {what}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
