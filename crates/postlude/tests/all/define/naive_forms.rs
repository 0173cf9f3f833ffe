//! Naive forms of exponentials, their sums and ratios, against exact values, however they are written.

use super::accuracy::{Allowed, Worst, judge, worst_of};
use super::engines::{elementwise, run_row};
use super::forms::Where::{Above, Below, Everywhere, Within};
use super::forms::{Form, Unit, VANISHES};
use super::textbook::exactly_or_quickly;
use super::variants::{to_base_two, ways};

/// Where forms are tried: both signs of each.
const SIZES: [f32; 15] =
    [0.0, 1e-38, 1e-30, 1e-10, 1e-5, 1e-3, 0.04, 0.3, 1.0, 5.0, 20.0, 87.0, 100.0, 1e3, 1e4];

#[rustfmt::skip] // A table: one line a form.
const FORMS: &[Form] = &[
    ("log1p(-sigmoid(x))", 4.0, 0.0, Everywhere),
    ("-1.0 + exp(x)", 2.5, 0.0, Everywhere),
    ("log(1.0 - square(tanh(x)))", 6.0, VANISHES, Everywhere),
    ("log((exp(x) + exp(-x)) / 2.0)", 6.0, VANISHES, Everywhere),
    ("log(0.5 * exp(x) + 0.5 * exp(-x))", 6.0, VANISHES, Everywhere),
    ("(exp(x) - exp(-x)) / 2.0", 6.0, 0.0, Within(88.0)),
    ("exp(2.0 * x) - exp(x)", 6.0, VANISHES, Within(40.0)),
    ("(1.0 - exp(-x)) / (1.0 + exp(-x))", 4.0, 0.0, Everywhere),
    ("(exp(2.0 * x) - 1.0) / (exp(2.0 * x) + 1.0)", 4.0, 0.0, Everywhere),
    ("1.0 - 2.0 / (exp(2.0 * x) + 1.0)", 4.0, 0.0, Everywhere),
    ("2.0 * sigmoid(2.0 * x) - 1.0", 4.0, 0.0, Everywhere),
    ("1.0 - tanh(x)", 4.0, VANISHES, Everywhere),
    ("1.0 + tanh(x)", 4.0, VANISHES, Everywhere),
    ("log(1.0 - tanh(x))", 6.0, 0.0, Everywhere),
    ("log(1.0 + tanh(x))", 6.0, 0.0, Everywhere),
    ("0.5 * (1.0 + tanh(x))", 4.0, VANISHES, Everywhere),
    ("log(0.5 * (1.0 - tanh(x)))", 4.0, 0.0, Everywhere),
    ("log1p(tanh(x))", 6.0, 0.0, Everywhere),
    ("1.0 - square(sigmoid(x))", 6.0, VANISHES, Everywhere),
    ("exp(x) / square(1.0 + exp(x))", 6.0, VANISHES, Everywhere),
    ("exp(-x) / ((1.0 + exp(-x)) * (1.0 + exp(-x)))", 6.0, VANISHES, Everywhere),
    ("log(sigmoid(x) * sigmoid(2.0 * x))", 6.0, 0.0, Everywhere),
    ("log(sigmoid(x) / (1.0 - sigmoid(x)))", 0.5, 0.0, Everywhere),
    ("log(square(sigmoid(x)))", 4.0, 0.0, Everywhere),
    ("log(sqrt(sigmoid(x)))", 4.0, 0.0, Everywhere),
    ("log(rcp(1.0 + exp(-x)))", 4.0, 0.0, Everywhere),
    ("log(1.0 / (1.0 + exp(-x)))", 4.0, 0.0, Everywhere),
    ("log(exp(x) / (1.0 + exp(x)))", 4.0, 0.0, Everywhere),
    ("log(exp(x) - 1.0)", 6.0, 6e-8, Above),
    ("log(1.0 - exp(x))", 4.0, 0.0, Below),
    ("log(exp(x) * exp(x))", 0.5, 0.0, Everywhere),
    ("log(sqrt(exp(x)))", 0.5, 0.0, Everywhere),
    ("sqrt(exp(x))", 2.5, VANISHES, Everywhere),
    ("exp(x) / exp(-x)", 4.0, VANISHES, Everywhere),
    ("exp(2.0 * x) / exp(x)", 4.0, VANISHES, Everywhere),
    ("exp(2.0 * x) * exp(-x)", 4.0, VANISHES, Everywhere),
    ("(1.0 + exp(x)) * exp(-x)", 6.0, VANISHES, Everywhere),
    ("exp(x) / (2.0 + exp(x))", 8.0, VANISHES, Everywhere),
    ("exp(x) / (exp(x) + exp(-x) + 1.0)", 8.0, VANISHES, Everywhere),
    ("3.0 * exp(x) / (1.0 + exp(x))", 6.0, VANISHES, Everywhere),
    ("log(2.0 + 2.0 * exp(x))", 6.0, 2e-7, Everywhere),
    ("log(3.0 + exp(x))", 6.0, 2e-7, Everywhere),
    ("log(exp(x) + exp(2.0 * x) + exp(-x))", 6.0, 2e-7, Everywhere),
    ("log(softplus(x))", 6.0, 2e-7, Everywhere),
    ("log(log(1.0 + exp(x)))", 6.0, 2e-7, Everywhere),
    ("x - log(1.0 + exp(x))", 4.0, 0.0, Everywhere),
    ("log(1.0 + exp(x)) - x", 4.0, 0.0, Everywhere),
    ("log(x * x)", 4.0, 0.0, Above),
    ("log((1.0 + x) / (1.0 - x))", 6.0, 0.0, Within(0.9)),
    ("sigmoid(x) - sigmoid(-x)", 4.0, 0.0, Everywhere),
    ("square(1.0 - sigmoid(x)) * log(sigmoid(x))", 10.0, 1e-33, Everywhere),
];

#[test]
fn naive_forms_are_exact_however_they_are_written() {
    let mut wrong = Vec::new();
    let mut tried = 0;
    for &(form, ulps, absolute, range) in FORMS {
        let points = range.points(&SIZES);
        if points.is_empty() {
            continue;
        }
        let exact: Vec<f64> = points
            .iter()
            .map(|x| exactly_or_quickly(form, &[("x", &[f64::from(*x)])])[0])
            .collect();
        let allowed = Allowed { ulps, absolute };
        for way in ways(form) {
            let worst = worst_of(elementwise(&way, &points, &[]), &exact, allowed, &points);
            tried += 1;
            if worst.part > 1.0 {
                wrong.push(format!("{way}: {} of {ulps}: {}", worst.part, worst.place));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried >= 50, "{tried} forms");
}

#[test]
fn naive_forms_to_base_two_are_exact() {
    #[rustfmt::skip] // A table: one line a form.
    let forms: &[Form] = &[
        ("exp(x) - 1.0", 4.0, 0.0, Everywhere),
        ("1.0 - exp(x)", 4.0, 0.0, Everywhere),
        ("exp(x) / (1.0 + exp(x))", 8.0, VANISHES, Everywhere),
        ("exp(x) / (exp(x) + exp(-x))", 8.0, VANISHES, Everywhere),
        ("exp(x) - exp(-x)", 6.0, 0.0, Within(100.0)),
        ("log(exp(x))", 0.5, 0.0, Everywhere),
        ("log(1.0 + exp(x))", 6.0, 4e-38, Within(100.0)),
        ("log(exp(x) + exp(-x))", 6.0, 2e-7, Everywhere),
        ("sqrt(exp(x))", 2.5, VANISHES, Everywhere),
    ];
    let mut wrong = Vec::new();
    for &(form, ulps, absolute, range) in forms {
        let form = to_base_two(form);
        let points = range.points(&SIZES);
        let exact: Vec<f64> = points
            .iter()
            .map(|x| exactly_or_quickly(&form, &[("x", &[f64::from(*x)])])[0])
            .collect();
        for way in ways(&form) {
            // The product with log(2) is rounded.
            let part = (points.iter().zip(&exact).zip(elementwise(&way, &points, &[])))
                .map(|((x, exact), outcome)| {
                    let tail = if form.contains("log2(1.0") { f64::from(x.abs()) } else { 0.0 };
                    let mut worst = Worst::default();
                    let allowed = Allowed { ulps: ulps + tail, absolute };
                    judge(&mut worst, allowed, outcome, *exact, &format!("{x:e}"));
                    worst
                })
                .max_by(|a, b| a.part.total_cmp(&b.part))
                .expect("points");
            if part.part > 1.0 {
                wrong.push(format!("{way}: {} of {ulps}: {}", part.part, part.place));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[rustfmt::skip] // A table: one line a form.
const ROW_FORMS: &[(&str, f64, Unit)] = &[
    ("-log(pick(softmax(x, N), t))", 4.0, Unit::Largest),
    ("where(y > 0.6, exp(x), 0.0) / sum(where(y > 0.6, exp(x), 0.0), N)", 8.0, Unit::Result),
    ("sum(exp(x) * y, N) / sum(exp(x), N)", 8.0, Unit::Result),
    ("exp(x) * rcp(sum(exp(x), N))", 8.0, Unit::Result),
    ("log(where(col == t, softmax(x, N), 1.0))", 4.0, Unit::Largest),
    ("log2(sum(exp2(x), N))", 4.0, Unit::Largest),
    ("exp2(x) / sum(exp2(x), N)", 8.0, Unit::Result),
    ("log(sum(exp(x) * y, N))", 4.0, Unit::Largest),
    ("log(sum(exp(x), N) / sum(exp(-x), N))", 4.0, Unit::Largest),
    ("exp(x * 0.5) / sum(exp(x * 0.5), N)", 8.0, Unit::Result),
    ("mean(exp(x) * y, N) / mean(exp(x), N)", 8.0, Unit::Result),
    ("log(pick(exp(x), t) / sum(exp(x), N))", 4.0, Unit::Largest),
    ("pick(exp(x), t) / sum(exp(x), N)", 8.0, Unit::Result),
    ("log(pick(softmax(x, N) * y, t))", 6.0, Unit::Largest),
    ("log(prod(sigmoid(x), N))", 8.0, Unit::Largest),
    ("log(1.0 + sum(exp(x), N))", 4.0, Unit::Largest),
    ("log1p(sum(exp(x), N))", 4.0, Unit::Largest),
    ("exp(x) / (1.0 + sum(exp(x), N))", 8.0, Unit::Result),
    ("f32(y > 0.6) * exp(x) / sum(f32(y > 0.6) * exp(x), N)", 8.0, Unit::Result),
    ("log(where(y > 0.6, exp(x), 0.0) / sum(where(y > 0.6, exp(x), 0.0), N))", 4.0, Unit::Largest),
    ("log(sum(where(y > 0.6, exp(x), 0.0), N))", 4.0, Unit::Largest),
    ("log(sum(f32(y > 0.6) * exp(x), N))", 4.0, Unit::Largest),
    ("-sum(y * log(softmax(x, N)), N)", 12.0, Unit::Largest),
    ("-sum(softmax(x, N) * log(softmax(x, N)), N)", 8.0, Unit::Largest),
    ("sum(exp(x), N) / exp(x)", 8.0, Unit::Result),
    ("y * exp(x) / sum(y * exp(x), N)", 8.0, Unit::Result),
    ("floor(y) * exp(x) / sum(floor(y) * exp(x), N)", 8.0, Unit::Result),
    ("log(sum(floor(y) * exp(x), N))", 4.0, Unit::Largest),
    ("(exp(x) / sum(exp(x), N)) * y", 8.0, Unit::Result),
    ("exp(x) / (sum(exp(x), N) * y)", 8.0, Unit::Result),
    ("log(mean(exp(x), N) / 2.0)", 4.0, Unit::Largest),
    ("log(1.0 / sum(exp(x), N))", 4.0, Unit::Largest),
    ("log(exp(x) / sum(exp(x), N) * y)", 6.0, Unit::Largest),
    ("log(softmax(x, N) + softmax(-x, N))", 6.0, Unit::Largest),
    ("log(exp(x - max(x, N)) / sum(exp(x - max(x, N)), N))", 4.0, Unit::Largest),
];

#[test]
fn naive_forms_over_a_row_are_exact_however_they_are_written() {
    let rows: [&[f32]; 6] = [
        &[1e4, -1e4, 0.0, 5.0],
        &[9999.0, 1e4, 9998.5, 9990.0],
        &[-1e4, -9999.0, -1e3, -9998.0],
        &[0.1, 0.2, -0.3, 5.0],
        &[88.9, 100.0, 20.0, -100.0],
        &[0.0, 1e-5, -1e-10, 1e-30],
    ];
    let (weights, label, columns) = ([0.75, 1.5, 0.5, 1.0], 1, [0.0, 1.0, 2.0, 3.0]);
    let mut wrong = Vec::new();
    for &(form, ulps, unit) in ROW_FORMS {
        for row in rows {
            let values: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
            let wide: Vec<f64> = weights.iter().map(|y| f64::from(*y)).collect();
            let names: [(&str, &[f64]); 4] =
                [("x", &values), ("y", &wide), ("t", &[f64::from(label)]), ("col", &columns)];
            let exact = exactly_or_quickly(form, &names);
            let exact: Vec<f64> =
                (0..row.len()).map(|n| exact[if exact.len() == 1 { 0 } else { n }]).collect();
            let allowed = Allowed { ulps, absolute: unit.absolute(ulps, row) };
            for way in ways(form) {
                let outcomes = run_row(&way, row, &weights, label);
                let worst = worst_of(outcomes, &exact, allowed, row);
                if worst.part > 1.0 {
                    let what = format!("{} of {ulps}: {}", worst.part, worst.place);
                    wrong.push(format!("{way} of {row:?}: {what}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn special_values_of_naive_forms_follow_ieee() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    #[rustfmt::skip] // A table: one line a fact.
    let table: &[(&str, [f32; 2], [f32; 2])] = &[
        ("where(y > 2.0, exp(x), 0.0) / sum(where(y > 2.0, exp(x), 0.0), N)", [1.0, 2.0], [NAN, NAN]),
        ("exp(x) / sum(where(y > 2.0, exp(x), 0.0), N)", [1.0, 2.0], [INF, INF]),
        ("log(sum(where(y > 2.0, exp(x), 0.0), N)) + 0.0 * x", [1.0, 2.0], [-INF, -INF]),
        ("log(where(y > 2.0, exp(x), 0.0) / sum(where(y > 2.0, exp(x), 0.0), N))", [1.0, 2.0], [NAN, NAN]),
        ("sum(exp(x) * y, N) / sum(exp(x), N)", [-INF, 0.0], [1.0, 1.0]),
        ("sum(exp(x) * y, N) / sum(exp(x), N)", [-INF, -INF], [NAN, NAN]),
        ("sum(exp(x) * y, N) / sum(exp(x), N)", [NAN, 0.0], [NAN, NAN]),
        ("exp2(x) / sum(exp2(x), N)", [-INF, 0.0], [0.0, 1.0]),
        ("-log(pick(softmax(x, N), t))", [-INF, 0.0], [0.0, 0.0]),
        ("-log(pick(softmax(x, N), t))", [0.0, -INF], [INF, INF]),
        ("-log(pick(softmax(x, N), t))", [0.0, NAN], [NAN, NAN]),
        ("-log(pick(softmax(x, N), 5 * t))", [0.0, 1.0], [NAN, NAN]),
        ("y * log(where(x > 0.0, softmax(x, N), 0.0))", [-1.0, -1.0], [-INF, -INF]),
        ("0.0 * y * log(where(x > 0.0, softmax(x, N), 0.0))", [-1.0, -1.0], [0.0, 0.0]),
        ("exp(x) - exp(2.0 * x)", [-INF, INF], [0.0, NAN]),
        ("exp(x) / exp(2.0 * x)", [-INF, 0.0], [NAN, 1.0]),
        ("exp(x) / (exp(y) + 2.0)", [INF, -INF], [INF, 0.0]),
        ("log((exp(x) + exp(-x)) / 2.0)", [-INF, NAN], [INF, NAN]),
        ("1.0 - square(tanh(x))", [INF, NAN], [0.0, NAN]),
        ("log(exp(x) - 1.0)", [0.0, -1.0], [-INF, NAN]),
        ("log(exp(x) - 1.0)", [INF, NAN], [INF, NAN]),
        ("log(1.0 - tanh(x))", [-INF, INF], [std::f32::consts::LN_2, -INF]),
        ("log(sigmoid(x) / (1.0 - sigmoid(x)))", [-INF, NAN], [-INF, NAN]),
        ("log(prod(sigmoid(x), N)) + 0.0 * y", [0.0, -INF], [-INF, -INF]),
        ("log(softmax(x, N) + 1e-6)", [-INF, 0.0], [-13.815511, 9.536739e-7]),
    ];
    let mut wrong = Vec::new();
    for &(form, row, want) in table {
        for (outcome, want) in run_row(form, &row, &[1.0, 1.0], 1).into_iter().zip(want) {
            let same = |got: f64| {
                got == f64::from(want)
                    || (got.is_nan() && want.is_nan())
                    || (got - f64::from(want)).abs() <= 1e-6 * got.abs().min(1e9)
            };
            if !same(outcome.reference.nominal)
                || !same(outcome.cpu)
                || outcome.reference.distance(outcome.cpu) > 1.0
            {
                wrong.push(format!("{form} of {row:?} is {want}: {outcome:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
