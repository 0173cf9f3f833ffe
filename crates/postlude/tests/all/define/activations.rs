//! Activations are PyTorch's functional forms with their defaults.

use postlude::catalogue::{self, Group};

use super::accuracy::{Allowed, Worst, judge};
use super::engines::elementwise;
use super::textbook::exactly;

const SIZES: [f32; 20] = [
    0.0, 1e-30, 1e-5, 0.1, 0.3, 0.5, 1.0, 1.5, 2.0, 2.9999998, 3.0, 3.0000002, 4.0, 5.0, 6.0,
    6.0000005, 10.0, 20.0, 30.0, 40.0,
];

/// How the activation is called, and how far off it may be at `x`.
fn call(function: &str, x: f32) -> (String, Allowed) {
    let size = f64::from(x.abs());
    let rounding = f64::from(f32::EPSILON);
    let arguments = match function {
        "threshold" => ", 0.5, 2.0",
        "snake" => ", 0.75",
        _ => "",
    };
    let (ulps, absolute) = match function {
        // 1 + erf cancels below 0, as in PyTorch: right to a unit in the last place of x, not of the result.
        "gelu" => (4.0, size * rounding),
        // The sigmoid's argument is rounded, and its error grows with it.
        "gelu_tanh" => (8.0 + 2.0 * (size + size * size * size / 16.0), 1e-36),
        "quick_gelu" => (8.0 + 2.0 * size, 1e-36),
        "snake" => (4.0, size * rounding),
        "hardswish" | "hardsigmoid" => (2.0, rounding),
        _ => (6.0, 0.0),
    };
    (format!("{function}(x{arguments})"), Allowed { ulps, absolute })
}

#[test]
fn activations_are_those_of_pytorch() {
    let points: Vec<f32> = SIZES.iter().flat_map(|size| [-size, *size]).collect();
    for entry in catalogue::FUNCTIONS.iter().filter(|entry| entry.group == Group::Activation) {
        let mut worst = Worst::default();
        let (form, _) = call(entry.name, 0.0);
        for (outcome, &x) in elementwise(&form, &points, &[]).into_iter().zip(&points) {
            let exact = exactly(&form, &[("x", &[f64::from(x)])])[0];
            judge(&mut worst, call(entry.name, x).1, outcome, exact, &format!("{x:e}"));
        }
        assert!(worst.part <= 1.0, "{form}: {}: {}", worst.part, worst.place);
    }
}
