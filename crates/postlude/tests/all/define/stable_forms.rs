//! Forms that overflow or cancel as written are right to a few units in the last place.

use super::accuracy::{Allowed, Worst, judge, worst_of};
use super::engines::{Along, elementwise, run};
use super::forms::Where::{Above, Below, Everywhere, Within};
use super::forms::{Form, Unit, VANISHES};
use super::textbook::exactly;
use postlude::MathMode;

/// Where forms are tried: both signs of each.
const SIZES: [f32; 17] = [
    0.0,
    1e-44,
    1e-38,
    1e-30,
    1e-10,
    1e-5,
    1e-3,
    0.3,
    std::f32::consts::LN_2,
    1.0,
    5.0,
    20.0,
    87.0,
    88.9,
    100.0,
    1e3,
    1e4,
];

#[rustfmt::skip] // A table: one line a form.
const FORMS: &[Form] = &[
    ("log(sigmoid(x))", 4.0, 0.0, Everywhere),
    ("log(1 - sigmoid(x))", 4.0, 0.0, Everywhere),
    ("log(1 - sigmoid(-x))", 4.0, 0.0, Everywhere),
    ("log(1 + exp(x))", 4.0, 0.0, Everywhere),
    ("log(exp(x) + 1)", 4.0, 0.0, Everywhere),
    ("log1p(exp(x))", 4.0, 0.0, Everywhere),
    ("log(1 + exp(-x))", 4.0, 0.0, Everywhere),
    ("1 - sigmoid(x)", 4.0, VANISHES, Everywhere),
    ("1 - square(tanh(x))", 8.0, VANISHES, Everywhere),
    ("1 - tanh(x) * tanh(x)", 8.0, VANISHES, Everywhere),
    ("exp(x) / (1 + exp(x))", 4.0, VANISHES, Everywhere),
    ("exp(x) / (exp(x) + 1)", 4.0, VANISHES, Everywhere),
    ("1 / (1 + exp(-x))", 4.0, VANISHES, Everywhere),
    ("rcp(1 + exp(-x))", 4.0, VANISHES, Everywhere),
    ("1 / (1 + exp(x))", 4.0, VANISHES, Everywhere),
    ("x / (1 + exp(-x))", 4.0, 100.0 * VANISHES, Everywhere),
    ("sqrt(square(x))", 0.5, 0.0, Everywhere),
    ("log(exp(x))", 0.5, 0.0, Everywhere),
    ("exp(x) - 1", 2.5, 0.0, Everywhere),
    ("1 - exp(x)", 2.5, 0.0, Everywhere),
    ("log(1 - exp(x))", 4.0, 0.0, Below),
    ("log1p(-exp(x))", 4.0, 0.0, Below),
    ("log(1 - exp(-x))", 4.0, 0.0, Above),
    ("log(1 + x)", 2.5, 0.0, Above),
    ("log(x + 1)", 2.5, 0.0, Above),
    ("log(1 + x)", 2.5, 0.0, Within(0.9)),
    ("log(1 - x)", 2.5, 0.0, Within(0.9)),
    ("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", 2.5, 0.0, Everywhere),
    ("softplus(x)", 4.0, 0.0, Everywhere),
    ("sigmoid(x)", 4.0, VANISHES, Everywhere),
    ("silu(x)", 4.0, 100.0 * VANISHES, Everywhere),
    ("mish(x)", 8.0, 100.0 * VANISHES, Everywhere),
    ("tanh(x)", 2.5, 0.0, Everywhere),
    ("log(exp(x) + exp(-x))", 4.0, 0.0, Everywhere),
    ("log(exp(x) + exp(2 * x))", 4.0, 0.0, Everywhere),
    ("exp(x) / (exp(x) + exp(-x))", 4.0, VANISHES, Everywhere),
    ("exp(-x) / (exp(x) + exp(-x))", 4.0, VANISHES, Everywhere),
];

#[test]
fn stable_forms_are_exact_to_a_few_units() {
    for &(form, ulps, absolute, range) in FORMS {
        let points = range.points(&SIZES);
        let exact: Vec<f64> =
            points.iter().map(|x| exactly(form, &[("x", &[f64::from(*x)])])[0]).collect();
        let outcomes = elementwise(form, &points, &[]);
        let worst = worst_of(outcomes, &exact, Allowed { ulps, absolute }, &points);
        assert!(worst.part <= 1.0, "{form}: {} of {ulps}: {}", worst.part, worst.place);
    }
}

#[test]
fn naive_cross_entropies_are_exact_for_any_logit() {
    let form = "-(y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x)))";
    let points = Everywhere.points(&SIZES);
    for y in [0.0, 0.25, 1.0] {
        let exact: Vec<f64> = points
            .iter()
            .map(|x| exactly(form, &[("x", &[f64::from(*x)]), ("y", &[f64::from(y)])])[0])
            .collect();
        let outcomes = elementwise(form, &points, &[("y", y)]);
        let worst = worst_of(outcomes, &exact, Allowed { ulps: 6.0, absolute: 0.0 }, &points);
        assert!(worst.part <= 1.0, "y = {y}: {}: {}", worst.part, worst.place);
    }
}

#[test]
fn forms_over_a_row_are_exact_to_a_few_units_of_the_row() {
    let rows: [&[f32]; 5] = [
        &[1e4, -1e4, 0.0],
        &[1e4, 9999.0, 9998.5],
        &[-1e4, -9999.0, -1e3],
        &[0.1, 0.2, -0.3, 5.0, 1e-30],
        &[88.9, 100.0, 20.0, -100.0],
    ];
    let forms = [
        ("log(softmax(x, N))", 4.0, Unit::Largest),
        ("log_softmax(x, N)", 4.0, Unit::Largest),
        ("log(exp(x) / sum(exp(x), N))", 4.0, Unit::Largest),
        ("x - log(sum(exp(x), N))", 4.0, Unit::Largest),
        ("exp(x) / sum(exp(x), N)", 8.0, Unit::Result),
        ("softmax(x, N)", 8.0, Unit::Result),
        ("log(sum(exp(x), N))", 2.0, Unit::Largest),
        ("logsumexp(x, N)", 2.0, Unit::Largest),
        ("log(mean(exp(x), N))", 4.0, Unit::Largest),
    ];
    for (form, ulps, unit) in forms {
        let mut worst = Worst::default();
        for row in rows {
            let values: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let allowed = Allowed { ulps, absolute: unit.absolute(ulps, row) };
            let exact = exactly(form, &[("x", &values)]);
            let outcomes = run(form, MathMode::Default, Along::Columns, row, &[]);
            for (column, outcome) in outcomes.into_iter().enumerate() {
                let exact = exact[if exact.len() == 1 { 0 } else { column }];
                judge(
                    &mut worst,
                    allowed,
                    outcome,
                    exact,
                    &format!("{:e} of {row:?}", row[column]),
                );
            }
        }
        assert!(worst.part <= 1.0, "{form}: {} of {ulps}: {}", worst.part, worst.place);
    }
}
