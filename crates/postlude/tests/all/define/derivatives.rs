//! Derivatives against differences of the textbook formulas, in as many digits as they need.

use postlude::catalogue::{self, Entry, Group};
use postlude::graph::{Binary, Unary};

use super::accuracy::{Allowed, Worst, judge};
use super::engines::elementwise;
use super::real::{Real, with_bits};
use super::textbook;

const SIZES: [f32; 22] = [
    1e-30, 1e-10, 1e-5, 0.1, 0.3, 0.49999, 0.50001, 0.7, 0.99999, 1.00001, 1.5, 2.0, 2.99999,
    3.00001, 4.0, 5.99999, 6.00001, 10.0, 20.0, 30.0, 88.5, 100.0,
];

/// The arguments after the first, by function.
fn others(function: &str) -> &'static [&'static [f32]] {
    match function {
        "clamp" => &[&[-1.0, 2.0]],
        "fma" => &[&[3.0, -0.5]],
        "leaky_relu" => &[&[0.01], &[0.25]],
        "elu" => &[&[], &[0.5]],
        "softplus" => &[&[], &[2.0]],
        "fmod" => &[&[0.75], &[-2.5]],
        "threshold" => &[&[0.5, 2.0]],
        "maximum" | "minimum" => &[&[0.5], &[-3.0]],
        "pow" => &[&[2.5], &[-1.5], &[3.0], &[2.0], &[1.0], &[0.0]],
        "snake" => &[&[0.75], &[2.0]],
        _ => &[&[]],
    }
}

fn has_derivative(entry: &Entry) -> bool {
    matches!(entry.group, Group::Elementwise | Group::Activation)
        && (!entry.derivative.is_empty()
            || Unary::from_name(entry.name).and_then(Unary::derivative).is_some()
            || Binary::from_name(entry.name).and_then(Binary::derivative).is_some())
}

fn in_domain(function: &str, others: &[f32], x: f32) -> bool {
    match function {
        "log" | "log2" | "sqrt" | "rsqrt" => x > 0.0,
        "log1p" => x > -1.0,
        "pow" => x > 0.0 || others[0].fract() == 0.0,
        "clamp" => !others.contains(&x),
        // Steps, at which there is no derivative.
        "round" => (f64::from(x) - f64::from(x).trunc()).abs() != 0.5,
        "floor" | "ceil" | "trunc" => x.fract() != 0.0,
        "fmod" => (x / others[0]).fract().abs() > 1e-3 && x.abs() > 1e-3,
        // The difference of the textbook's formula overflows beyond.
        "sinh" | "cosh" => x.abs() < 88.0,
        _ => true,
    }
}

/// How far off a derivative may be. Exponentials of a rounded argument err by its size; sums that cancel, absolutely.
fn allowed(function: &str, x: f32) -> Allowed {
    let size = f64::from(x.abs());
    let rounding = f64::from(f32::EPSILON);
    let (ulps, absolute) = match function {
        "silu" | "mish" => (8.0, 4.0 * rounding),
        "quick_gelu" => (8.0 + 2.0 * size, 4.0 * rounding),
        "gelu" => (8.0 + size * size, 2.0 * rounding),
        "gelu_tanh" => (8.0 + 2.0 * size + size * size * size, 4.0 * rounding),
        "erf" => (4.0 + size * size, 0.0),
        // The square of a tangent has twice its error.
        "tan" => (24.0, 4.0 * rounding),
        "sinh" | "cosh" => (8.0 + 2.0 * size, 0.0),
        "snake" => (4.0, 4.0 * (1.0 + size) * rounding),
        "hardswish" => (2.0, rounding),
        _ => (8.0, 0.0),
    };
    // A factor below the normal numbers may vanish.
    Allowed { ulps, absolute: absolute + 1e-35 }
}

/// The symmetric difference quotient, with a step so small that its own error does not count.
fn difference(function: &str, x: f32, others: &[f32]) -> f64 {
    let bits = textbook::enough_bits(&format!("{function}(x)"), &[("x", &[f64::from(x)])]);
    with_bits(bits + 256, || {
        let at = Real::from(f64::from(x));
        let step = at.abs() * Real::two_to(-60);
        let others: Vec<Real> = others.iter().map(|value| Real::from(f64::from(*value))).collect();
        let value = |x: Real| match others.as_slice() {
            [] => textbook::unary(function, &x),
            [y] => textbook::binary(function, &x, y),
            [y, z] => textbook::ternary(function, &x, y, z),
            _ => unreachable!("{function}"),
        };
        ((value(at.clone() + &step) - value(at - &step)) / (step * 2.0)).to_f64()
    })
}

#[test]
fn derivatives_are_those_of_the_textbook_formulas() {
    for entry in catalogue::FUNCTIONS.iter().filter(|entry| has_derivative(entry)) {
        let function = entry.name;
        for others in others(function) {
            let points: Vec<f32> = (SIZES.iter().flat_map(|size| [-size, *size]))
                .filter(|x| in_domain(function, others, *x))
                .filter(|x| !["gelu", "gelu_tanh", "erf"].contains(&function) || x.abs() <= 30.0)
                .collect();
            let names: Vec<(&str, f32)> =
                ["y", "z"].into_iter().zip(others.iter().copied()).collect();
            let list = ["x", "x, y", "x, y, z"][others.len()];
            let mut worst = Worst::default();
            let outcomes = elementwise(&format!("grad({function})({list})"), &points, &names);
            for (outcome, &x) in outcomes.into_iter().zip(&points) {
                let exact = if function == "round" { 0.0 } else { difference(function, x, others) };
                judge(&mut worst, allowed(function, x), outcome, exact, &format!("{x:e}"));
            }
            assert!(
                worst.part <= 1.0,
                "grad({function}){others:?}: {}: {}",
                worst.part,
                worst.place
            );
        }
    }
}

#[test]
fn derivatives_at_kinks_are_as_documented() {
    #[rustfmt::skip] // A table: one line a kink.
    let table: &[(&str, f32, f32)] = &[
        ("grad(abs)(x)", 0.0, 0.0),
        ("grad(relu)(x)", 0.0, 0.0),
        ("grad(relu6)(x)", 0.0, 0.0),
        ("grad(relu6)(x)", 6.0, 0.0),
        ("grad(leaky_relu)(x)", 0.0, 0.01),
        ("grad(threshold)(x, 0.5, 2.0)", 0.5, 0.0),
        ("grad(elu)(x)", 0.0, 1.0),
        ("grad(selu)(x)", 0.0, 1.7580993),
        ("grad(clamp)(x, -1.0, 2.0)", -1.0, 1.0),
        ("grad(clamp)(x, -1.0, 2.0)", 2.0, 1.0),
        ("grad(maximum)(x, 0.5)", 0.5, 0.5),
        ("grad(minimum)(x, 0.5)", 0.5, 0.5),
        ("grad(hardswish)(x)", -3.0, 0.0),
        ("grad(hardswish)(x)", 3.0, 1.0),
        ("grad(hardsigmoid)(x)", -3.0, 0.0),
        ("grad(hardsigmoid)(x)", 3.0, 0.0),
        ("grad(relu2)(x)", 0.0, 0.0),
        ("grad(sqrt)(x)", 0.0, f32::INFINITY),
        ("grad(log)(x)", 0.0, f32::INFINITY),
        ("grad(pow)(x, 0.0)", 0.0, 0.0),
        ("grad(pow)(x, 1.0)", 0.0, 1.0),
        ("grad(pow)(x, 2.0)", 0.0, 0.0),
        ("grad(silu)(x)", 0.0, 0.5),
        ("grad(mish)(x)", 0.0, 0.6),
        ("grad(gelu)(x)", 0.0, 0.5),
        ("grad(gelu_tanh)(x)", 0.0, 0.5),
        ("grad(tanh)(x)", 0.0, 1.0),
        ("grad(erf)(x)", 0.0, std::f32::consts::FRAC_2_SQRT_PI),
    ];
    for &(form, x, want) in table {
        let outcome = elementwise(form, &[x], &[])[0];
        let near =
            |got: f64| got == f64::from(want) || (got - f64::from(want)).abs() <= 2e-7 * got.abs();
        assert!(near(outcome.reference.nominal) && near(outcome.cpu), "{form} at {x}: {outcome:?}");
    }
}
