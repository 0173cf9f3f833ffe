//! Where a naive form is accurate, its stable form is as accurate.

use postlude::functions::accuracy::ulp;
use postlude::functions::{self, Accuracy};
use postlude::graph::Unary;

use super::engines::elementwise;
use super::plain::{Plain, Products};
use super::textbook::exactly_or_quickly;

fn apply(function: &str, x: f32) -> f32 {
    let unary = Unary::from_name(function).and_then(Unary::function);
    let mut result = [0.0];
    functions::apply(unary.expect("a function"), Accuracy::Accurate, &[x], &mut result);
    result[0]
}

fn call(function: &str, x: f32) -> f32 {
    match function {
        "sigmoid" => apply("rcp", 1.0 + apply("exp", -x)),
        "softplus" => x.max(0.0) + apply("log1p", apply("exp", -x.abs())),
        _ => apply(function, x),
    }
}

/// The points on one stretch, over which errors are compared by their largest.
const STRETCH: usize = 12;

/// Forms, and by how many units in the last place the stable one may be worse. A sigmoid is three roundings, none of which
/// is one of a sum close to 1.
#[rustfmt::skip] // A table: one line a form.
const FORMS: &[(&str, f64)] = &[
    ("1.0 - square(tanh(x))", 0.05),
    ("1.0 - tanh(x)", 0.65),
    ("1.0 + tanh(x)", 0.65),
    ("1.0 - sigmoid(x)", 1.0),
    ("1.0 - square(sigmoid(x))", 0.35),
    ("exp(x) - 1.0", 0.15),
    ("1.0 - exp(x)", 0.15),
    ("exp(x) - exp(-x)", 0.05),
    ("exp(x) / (1.0 + exp(x))", 1.0),
    ("1.0 / (1.0 + exp(-x))", 0.05),
    ("exp(x) / (exp(x) + exp(-x))", 0.9),
    ("exp(x) / (2.0 + exp(x))", 0.9),
    ("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", 0.05),
    ("1.0 - 2.0 / (exp(2.0 * x) + 1.0)", 0.05),
    ("exp(x) / exp(2.0 * x)", 0.05),
    ("exp(3.0 * x) * exp(x)", 0.1),
    ("sqrt(exp(x))", 0.4),
    ("exp(x) / square(1.0 + exp(x))", 0.8),
    ("log(1.0 + exp(x))", 0.25),
    ("log(sigmoid(x))", 0.05),
    ("log1p(-sigmoid(x))", 0.2),
    ("log(1.0 - square(tanh(x)))", 0.05),
    ("log((exp(x) + exp(-x)) / 2.0)", 0.1),
    ("log(exp(x) + exp(2.0 * x))", 0.1),
    ("log(1.0 - tanh(x))", 0.1),
    ("log(softplus(x))", 0.05),
    ("log(sigmoid(x) * sigmoid(2.0 * x))", 0.5),
];

#[test]
fn stable_forms_are_as_accurate_as_naive_forms_that_do_not_cancel() {
    let points: Vec<f32> = (0..240).map(|step| -9.0 + 18.0 * step as f32 / 239.0 + 1e-4).collect();
    let mut wrong = Vec::new();
    for &(form, slack) in FORMS {
        let plain = Plain::parse(form);
        let outcomes = elementwise(form, &points, &[]);
        let errors: Vec<(f64, f64)> = (points.iter().zip(outcomes))
            .map(|(&x, outcome)| {
                let exact = exactly_or_quickly(form, &[("x", &[f64::from(x)])])[0];
                let error = |got: f64| (got - exact).abs() / ulp(exact);
                (error(f64::from(plain.at((x, x), Products::Contracted, call))), error(outcome.cpu))
            })
            .collect();
        let mut worst = (f64::NEG_INFINITY, String::new());
        for (stretch, errors) in errors.chunks(STRETCH).enumerate() {
            let naive = errors.iter().fold(0.0_f64, |worst, (naive, _)| worst.max(*naive));
            let stable = errors.iter().fold(0.0_f64, |worst, (_, stable)| worst.max(*stable));
            // A naive form that is off by more than three units has begun to lose digits.
            if naive <= 3.0 && stable - naive > worst.0 {
                let at = points[stretch * STRETCH];
                worst = (stable - naive, format!("{stable:.2} beside {naive:.2} from {at:.2}"));
            }
        }
        if worst.0 > slack {
            wrong.push(format!("{form}: {} > {slack}", worst.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
