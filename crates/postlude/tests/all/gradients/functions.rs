//! Functions of one element, as the textbook has them.

use super::jet::Jet;

/// The value of a function, or of its derivative in the first argument.
pub(super) fn apply(function: &str, is_grad: bool, arguments: &[Jet]) -> Jet {
    if is_grad {
        let [x, rest @ ..] = arguments else { panic!("{function} of nothing") };
        return x.derivative(|x| value(function, &[&[x], rest].concat()));
    }
    value(function, arguments)
}

fn value(function: &str, arguments: &[Jet]) -> Jet {
    let number = Jet::from;
    let one = number(1.0);
    match (function, arguments) {
        ("abs", &[x]) => x.abs(),
        ("sign", &[x]) => x.step(|x| if x == 0.0 { 0.0 } else { x.signum() }),
        ("sqrt", &[x]) => x.sqrt(),
        ("rsqrt", &[x]) => one / x.sqrt(),
        ("rcp", &[x]) => one / x,
        ("square", &[x]) => x * x,
        ("exp", &[x]) => x.exp(),
        ("exp2", &[x]) => (x * number(std::f64::consts::LN_2)).exp(),
        ("log", &[x]) => x.ln(),
        ("log2", &[x]) => x.ln() * number(std::f64::consts::LOG2_E),
        ("log1p", &[x]) => x.ln_1p(),
        ("expm1", &[x]) => x.expm1(),
        ("sin", &[x]) => x.sin(),
        ("cos", &[x]) => x.cos(),
        ("tan", &[x]) => x.sin() / x.cos(),
        ("atan", &[x]) => x.atan(),
        ("sinh", &[x]) => (x.exp() - (-x).exp()) * number(0.5),
        ("cosh", &[x]) => (x.exp() + (-x).exp()) * number(0.5),
        ("asinh", &[x]) => x.asinh(),
        ("tanh", &[x]) => x.tanh(),
        ("erf", &[x]) => x.erf(),
        ("floor", &[x]) => x.step(f64::floor),
        ("ceil", &[x]) => x.step(f64::ceil),
        ("round", &[x]) => x.step(f64::round_ties_even),
        ("trunc", &[x]) => x.step(f64::trunc),
        ("isnan", &[x]) => Jet::from(x.value.is_nan()),
        ("isinf", &[x]) => Jet::from(x.value.is_infinite()),
        ("maximum", &[x, y]) => x.max(y),
        ("minimum", &[x, y]) => x.min(y),
        ("pow", &[x, y]) => x.pow(y),
        ("fmod", &[x, y]) => x - (x / y).step(f64::trunc) * y,
        ("fma", &[x, y, z]) => x * y + z,
        ("clamp", &[x, low, high]) => x.max(low).min(high),
        ("where", &[condition, x, y]) => {
            if condition.is_true() {
                x
            } else {
                y
            }
        }
        // Casts to f32 leave numbers as they are.
        ("f32", &[x]) => x,
        _ => activation(function, arguments),
    }
}

fn activation(function: &str, arguments: &[Jet]) -> Jet {
    let number = Jet::from;
    let one = number(1.0);
    let sigmoid = |x: Jet| one / (one + (-x).exp());
    let softplus = |x: Jet| x.max(number(0.0)) + (-x.abs()).exp().ln_1p();
    match (function, arguments) {
        ("relu", &[x]) => x.max(number(0.0)),
        ("relu6", &[x]) => x.max(number(0.0)).min(number(6.0)),
        ("relu2", &[x]) => x.max(number(0.0)) * x.max(number(0.0)),
        ("leaky_relu", &[x]) => {
            if x.value > 0.0 {
                x
            } else {
                x * number(0.01)
            }
        }
        ("leaky_relu", &[x, slope]) => {
            if x.value > 0.0 {
                x
            } else {
                x * slope
            }
        }
        ("threshold", &[x, t, value]) => {
            if x.value <= t.value {
                value
            } else {
                x
            }
        }
        ("elu", &[x]) => {
            if x.value > 0.0 {
                x
            } else {
                x.expm1()
            }
        }
        ("elu", &[x, alpha]) => {
            if x.value > 0.0 {
                x
            } else {
                alpha * x.expm1()
            }
        }
        ("selu", &[x]) => {
            let inner = if x.value > 0.0 { x } else { number(1.6732632423543772) * x.expm1() };
            number(1.0507009873554805) * inner
        }
        ("softplus", &[x]) => softplus(x),
        ("softplus", &[x, beta]) => softplus(beta * x) / beta,
        ("logsigmoid", &[x]) => -softplus(-x),
        ("sigmoid", &[x]) => sigmoid(x),
        ("silu", &[x]) => x * sigmoid(x),
        ("mish", &[x]) => x * softplus(x).tanh(),
        ("hardswish", &[x]) => {
            x * (x + number(3.0)).max(number(0.0)).min(number(6.0)) / number(6.0)
        }
        ("hardsigmoid", &[x]) => (x + number(3.0)).max(number(0.0)).min(number(6.0)) / number(6.0),
        ("gelu", &[x]) => {
            number(0.5) * x * (one + (x * number(std::f64::consts::FRAC_1_SQRT_2)).erf())
        }
        ("gelu_tanh", &[x]) => {
            let inner = x + number(0.044715) * x * x * x;
            let scale = number((2.0 / std::f64::consts::PI).sqrt());
            number(0.5) * x * (one + (scale * inner).tanh())
        }
        ("quick_gelu", &[x]) => x * sigmoid(number(1.702) * x),
        ("snake", &[x, a]) => x + (a * x).sin() * (a * x).sin() / a,
        _ => {
            panic!("`{function}` of {} arguments is not known to the interpreter", arguments.len())
        }
    }
}
