//! Infinities, zeros and nan, in both engines.

use postlude::MathMode;

use super::engines::{Along, elementwise, run};

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

#[test]
fn special_values_are_those_of_ieee_and_pytorch() {
    #[rustfmt::skip] // A table: one line a fact.
    let table: &[(&str, f32, f32)] = &[
        ("relu(x)", NAN, NAN), ("relu(x)", -INF, 0.0), ("relu6(x)", NAN, NAN), ("relu6(x)", INF, 6.0),
        ("clamp(x, -1.0, 1.0)", NAN, NAN), ("maximum(x, 1.0)", NAN, NAN), ("minimum(1.0, x)", NAN, NAN),
        ("where(x > 0, 1.0, 2.0)", NAN, 2.0), ("sign(x)", NAN, NAN), ("sign(x)", -INF, -1.0), ("abs(x)", NAN, NAN),
        ("sigmoid(x)", INF, 1.0), ("sigmoid(x)", -INF, 0.0), ("sigmoid(x)", NAN, NAN), ("sigmoid(x)", 1e30, 1.0), ("sigmoid(x)", -1e30, 0.0),
        ("softplus(x)", INF, INF), ("softplus(x)", -INF, 0.0), ("softplus(x)", NAN, NAN), ("softplus(x)", 1e30, 1e30),
        ("log(sigmoid(x))", -INF, -INF), ("log(sigmoid(x))", INF, 0.0), ("log(sigmoid(x))", NAN, NAN), ("log(sigmoid(x))", -1e30, -1e30),
        ("log(1 - sigmoid(x))", INF, -INF), ("log(1 - sigmoid(x))", -INF, 0.0), ("log(1 - sigmoid(x))", 3e38, -3e38),
        ("log(1 + exp(x))", INF, INF), ("log(1 + exp(x))", -INF, 0.0), ("log(1 + exp(x))", 3e38, 3e38),
        ("exp(x) / (1 + exp(x))", 1e30, 1.0), ("exp(x) / (1 + exp(x))", INF, 1.0), ("exp(x) / (1 + exp(x))", NAN, NAN),
        ("1 - square(tanh(x))", 3e38, 0.0), ("1 - square(tanh(x))", -INF, 0.0), ("1 - square(tanh(x))", NAN, NAN),
        ("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", INF, 1.0), ("(exp(x) - exp(-x)) / (exp(x) + exp(-x))", -1e30, -1.0),
        ("sqrt(square(x))", -3e38, 3e38), ("sqrt(square(x))", -INF, INF), ("sqrt(square(x))", NAN, NAN),
        ("log(exp(x))", 3e38, 3e38), ("log(exp(x))", NAN, NAN), ("log(1 - exp(x))", -INF, 0.0), ("log(1 - exp(x))", 0.0, -INF), ("log(1 - exp(x))", 1.0, NAN), ("log(1 - exp(x))", NAN, NAN),
        ("log1p(-exp(x))", -INF, 0.0), ("log1p(-exp(x))", 0.0, -INF), ("log1p(-exp(x))", 1.0, NAN),
        ("exp(x) - 1", -INF, -1.0), ("exp(x) - 1", INF, INF), ("log(1 + x)", -1.0, -INF), ("log(1 + x)", -2.0, NAN),
        ("log1p(x)", -1.0, -INF), ("log1p(x)", -1.5, NAN), ("log(x)", 0.0, -INF), ("log(x)", -1.0, NAN), ("log2(x)", 0.0, -INF),
        ("rsqrt(x)", 0.0, INF), ("rsqrt(x)", INF, 0.0), ("rsqrt(x)", -1.0, NAN), ("rcp(x)", 0.0, INF), ("rcp(-x)", 0.0, -INF), ("rcp(x)", INF, 0.0),
        ("rsqrt(-x)", 0.0, -INF), ("sqrt(x)", -1.0, NAN), ("1 / maximum(x, 0.0)", 0.0, INF), 
        ("pow(x, 0.0)", NAN, 1.0), ("pow(x, 0.0)", 0.0, 1.0), ("pow(1.0, x)", NAN, 1.0), ("pow(x, 3.0)", -2.0, -8.0), ("pow(x, 0.5)", -2.0, NAN),
        ("pow(x, -1.0)", 0.0, INF), ("pow(-x, -1.0)", 0.0, -INF), ("pow(x, 2.0)", -INF, INF), ("pow(x, -1.0)", -INF, 0.0), ("pow(-1.0, x)", INF, 1.0), ("pow(x, 2.0)", NAN, NAN), ("pow(2.0, x)", -INF, 0.0),
        ("tanh(x)", INF, 1.0), ("erf(x)", -INF, -1.0), ("elu(x)", -INF, -1.0), ("elu(x)", NAN, NAN), ("leaky_relu(x)", NAN, NAN),
        ("selu(x)", -INF, -1.7580993), ("gelu(x)", INF, INF), ("gelu(x)", NAN, NAN), ("gelu_tanh(x)", INF, INF), ("silu(x)", INF, INF), ("mish(x)", INF, INF), ("mish(x)", 1e30, 1e30),
        ("silu(x)", -1e30, 0.0), ("mish(x)", -1e30, 0.0), ("gelu(x)", -1e30, 0.0), ("gelu_tanh(x)", -1e10, 0.0), ("gelu_tanh(x)", -3e38, 0.0), ("gelu_tanh(x)", 3e38, 3e38), ("quick_gelu(x)", -1e30, 0.0),
        ("silu(x)", -INF, NAN), ("mish(x)", -INF, NAN), ("gelu(x)", -INF, NAN), // as in PyTorch
        ("hardswish(x)", -1e30, 0.0), ("hardsigmoid(x)", INF, 1.0), ("hardsigmoid(x)", -INF, 0.0), ("hardsigmoid(x)", NAN, NAN),
        ("threshold(x, 0.5, 2.0)", NAN, NAN), ("relu2(x)", -INF, 0.0), ("relu2(x)", NAN, NAN),
        ("grad(relu)(x)", -INF, 0.0), ("grad(sigmoid)(x)", INF, 0.0), ("grad(tanh)(x)", -INF, 0.0), ("grad(softplus)(x)", INF, 1.0),
        ("grad(silu)(x)", 1e30, 1.0), ("grad(silu)(x)", -1e30, 0.0), ("grad(mish)(x)", 1e30, 1.0), ("grad(mish)(x)", -1e30, 0.0),
        ("grad(gelu)(x)", 1e30, 1.0), ("grad(gelu)(x)", -1e30, 0.0), 
        ("grad(gelu_tanh)(x)", 1e10, 1.0), ("grad(gelu_tanh)(x)", -1e10, 0.0), ("grad(quick_gelu)(x)", 1e30, 1.0), ("grad(quick_gelu)(x)", -1e30, 0.0),
        ("grad(silu)(x)", 3e38, 1.0), ("grad(mish)(x)", 3e38, 1.0), ("grad(gelu)(x)", 3e38, 1.0),
        ("grad(erf)(x)", 1e30, 0.0), ("grad(rsqrt)(x)", INF, 0.0), ("grad(log2)(x)", INF, 0.0),
    ];
    let mut wrong = Vec::new();
    for &(form, x, want) in table {
        let outcome = elementwise(form, &[x], &[])[0];
        let same = |got: f64| got == f64::from(want) || (got.is_nan() && want.is_nan());
        let ok = same(outcome.reference.nominal)
            && same(outcome.cpu)
            && outcome.reference.distance(outcome.cpu) <= 1.0;
        if !ok {
            wrong.push(format!("{form} at {x:e} is {want:e}: {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn of_two_zeros_the_positive_one_is_larger() {
    #[rustfmt::skip] // A table: one line a fact.
    let table: &[(&str, f32)] = &[
        ("1 / maximum(-x, 0.0)", INF), ("1 / maximum(0.0, -x)", INF), ("rcp(minimum(-x, 0.0))", -INF), ("rcp(minimum(0.0, -x))", -INF),
    ];
    for &(form, want) in table {
        let outcome = elementwise(form, &[0.0], &[])[0];
        assert!(outcome.reference.nominal == f64::from(want), "{form}: {outcome:?}");
        assert!(outcome.cpu == f64::from(want), "{form}: {outcome:?}");
    }
}

#[test]
fn products_with_a_vanished_log_vanish() {
    #[rustfmt::skip] // A table: one line a fact.
    let table: &[(&str, f32, f32, f32)] = &[
        ("y * log(x)", 0.0, 0.0, 0.0), ("log(x) * y", 0.0, 0.0, 0.0), ("y * log(x)", 0.0, 1.0, -INF), ("y * log(x)", NAN, 0.0, NAN),
        ("y * log2(x)", 0.0, 0.0, 0.0), ("y * log1p(x)", -1.0, 0.0, 0.0), ("y * -log(x)", 0.0, 0.0, 0.0), ("y * log(1 - x)", 1.0, 0.0, 0.0),
        ("-(y * log(x) + (1 - y) * log(1 - x))", 0.0, 0.0, 0.0), ("-(y * log(x) + (1 - y) * log(1 - x))", 1.0, 1.0, 0.0),
        ("-(y * log(x) + (1 - y) * log(1 - x))", 1.0, 0.0, INF), ("-y * log(x)", 0.0, 0.0, 0.0), ("x * log(x)", 0.0, 0.0, 0.0),
    ];
    for &(form, x, y, want) in table {
        let outcome = elementwise(form, &[x], &[("y", y)])[0];
        let same = |got: f64| got == f64::from(want) || (got.is_nan() && want.is_nan());
        assert!(
            same(outcome.reference.nominal) && same(outcome.cpu),
            "{form} at {x}, {y}: {outcome:?}"
        );
    }
}

#[test]
fn masked_rows_are_those_of_pytorch() {
    #[rustfmt::skip] // A table: one line a fact.
    let table: &[(&str, &[f32], &[f32])] = &[
        ("softmax(x, N)", &[-INF, 3.0], &[0.0, 1.0]), ("softmax(x, N)", &[-INF, -INF], &[NAN, NAN]),
        ("log_softmax(x, N)", &[-INF, 3.0], &[-INF, 0.0]), ("log(softmax(x, N))", &[-INF, 3.0], &[-INF, 0.0]),
        ("logsumexp(x, N) + 0.0 * col", &[-INF, -INF], &[-INF, -INF]), ("log(sum(exp(x), N)) + 0.0 * col", &[3e38, -INF], &[3e38, 3e38]),
        ("exp(x) / sum(exp(x), N)", &[3e38, -3e38], &[1.0, 0.0]), ("exp(x) / sum(exp(x), N)", &[-1e30, -1e30], &[0.5, 0.5]),
        ("softmax(x, N) * log(softmax(x, N))", &[-INF, 3.0], &[0.0, 0.0]), ("log(softmax(x, N)) * softmax(x, N)", &[-INF, 3.0], &[0.0, 0.0]),
        ("softmax(x, N) * log(softmax(x, N))", &[NAN, 3.0], &[NAN, NAN]),
    ];
    for &(form, row, want) in table {
        let outcomes = run(form, MathMode::Default, Along::Columns, row, &[]);
        for (outcome, want) in outcomes.iter().zip(want) {
            let same = |got: f64| got == f64::from(*want) || (got.is_nan() && want.is_nan());
            assert!(
                same(outcome.reference.nominal) && same(outcome.cpu),
                "{form} of {row:?}: {outcome:?}"
            );
        }
    }
}
