//! Every function at every level against an f64 oracle, over samples of all f32 and at its special values.

use postlude::functions::accuracy::ulp;
use postlude::functions::{
    Accuracy, Function, FunctionOfTwo, apply, apply_of_two, bound, pow_bound,
};

/// What rounds to infinity: half a step above the largest f32.
const OVERFLOW: f64 = 3.402823567797337e38;

fn exact(function: Function, x: f64) -> f64 {
    match function {
        Function::Exp => x.exp(),
        Function::Exp2 => x.exp2(),
        Function::Expm1 => x.exp_m1(),
        Function::Log => x.ln(),
        Function::Log2 => x.log2(),
        Function::Log1p => x.ln_1p(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tanh => x.tanh(),
        Function::Erf => libm::erf(x),
        Function::Sqrt => x.sqrt(),
        Function::Rsqrt => 1.0 / x.sqrt(),
        Function::Rcp => 1.0 / x,
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Round => x.round_ties_even(),
    }
}

/// Every 997th f32, and every 61st where the functions do something.
fn samples() -> Vec<f32> {
    let mut bits: Vec<u32> = (0..=u32::MAX).step_by(997).collect();
    let near_one = 0x3f00_0000..0x4000_0000_u32;
    bits.extend(near_one.clone().step_by(61));
    bits.extend(near_one.step_by(61).map(|bits| bits | 0x8000_0000));
    bits.into_iter().map(f32::from_bits).collect()
}

/// |got - want| as a part of the bound; over 1 is wrong.
fn part_of_bound(got: f32, want: f64, bound: f64) -> f64 {
    let difference = (f64::from(got) - want).abs();
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let overflows = want.abs() + bound >= OVERFLOW;
    if got.is_infinite() {
        return if overflows && got.is_sign_positive() == (want > 0.0) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    if difference == 0.0 { 0.0 } else { difference / bound }
}

#[test]
fn every_function_is_within_its_bound_at_every_level() {
    let inputs = samples();
    let mut output = vec![0.0; inputs.len()];
    for function in Function::ALL {
        let want: Vec<f64> = inputs.iter().map(|&x| exact(function, f64::from(x))).collect();
        for accuracy in Accuracy::ALL {
            apply(function, accuracy, &inputs, &mut output);
            for ((&x, &got), &want) in inputs.iter().zip(&output).zip(&want) {
                let part = part_of_bound(got, want, bound(function, accuracy, f64::from(x), want));
                assert!(
                    part <= 1.0,
                    "{function:?} {accuracy:?} at {x:e}: {got:e}, not {want:e}: {part}"
                );
            }
        }
    }
}

#[test]
fn accurate_bounds_are_at_most_two_units_in_the_last_place() {
    for function in Function::ALL {
        for x in samples().into_iter().step_by(101).map(f64::from) {
            let angle = matches!(function, Function::Sin | Function::Cos);
            let y = exact(function, x);
            if y.is_finite() && !(angle && x.abs() > 65536.0) {
                assert!(bound(function, Accuracy::Accurate, x, y) <= 2.0 * ulp(y));
            }
        }
    }
}

#[test]
fn large_angles_stay_within_the_unit_interval() {
    let inputs: Vec<f32> = samples().into_iter().filter(|x| x.is_finite()).collect();
    let mut output = vec![0.0; inputs.len()];
    for function in [Function::Sin, Function::Cos] {
        for accuracy in Accuracy::ALL {
            apply(function, accuracy, &inputs, &mut output);
            assert!(output.iter().all(|y| y.abs() <= 1.0), "{function:?} {accuracy:?}");
        }
    }
}

#[test]
fn large_angles_next_to_multiples_of_a_right_angle_are_accurate() {
    let nearest = |n: i32| (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
    let inputs: Vec<f32> =
        (1..41700).map(nearest).flat_map(|x| [x.next_down(), x, x.next_up(), -x]).collect();
    let mut output = vec![0.0; inputs.len()];
    for function in [Function::Sin, Function::Cos] {
        apply(function, Accuracy::Accurate, &inputs, &mut output);
        for (&x, &got) in inputs.iter().zip(&output) {
            let want = exact(function, f64::from(x));
            let error = (f64::from(got) - want).abs() / ulp(want);
            assert!(error <= 2.0, "{function:?} at {x:e}: {error}");
        }
    }
}

#[test]
fn special_values_are_those_of_c99() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    const TINY: f32 = 1e-45;
    let table: [(Function, &[(f32, f32)]); 15] = [
        (
            Function::Exp,
            &[(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (89.0, INF), (-104.0, 0.0)],
        ),
        (Function::Exp2, &[(0.0, 1.0), (10.0, 1024.0), (INF, INF), (-INF, 0.0), (128.0, INF)]),
        (
            Function::Expm1,
            &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (-TINY, -TINY), (89.0, INF)],
        ),
        (
            Function::Log,
            &[(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
        ),
        (
            Function::Log2,
            &[(1.0, 0.0), (8.0, 3.0), (0.0, -INF), (INF, INF), (-1.0, NAN), (TINY, -149.0)],
        ),
        (
            Function::Log1p,
            &[(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (TINY, TINY)],
        ),
        (Function::Sin, &[(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (TINY, TINY)]),
        (Function::Cos, &[(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (TINY, 1.0)]),
        (
            Function::Tanh,
            &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (-TINY, -TINY), (20.0, 1.0)],
        ),
        (
            Function::Erf,
            &[(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (-TINY, -TINY), (5.0, 1.0)],
        ),
        (Function::Sqrt, &[(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (4.0, 2.0)]),
        (Function::Rsqrt, &[(0.0, INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)]),
        (Function::Rcp, &[(0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, -0.0), (4.0, 0.25)]),
        (Function::Floor, &[(-0.5, -1.0), (-0.0, -0.0), (INF, INF), (1.5, 1.0)]),
        (
            Function::Round,
            &[(0.5, 0.0), (1.5, 2.0), (-0.5, -0.0), (-2.5, -2.0), (8388609.0, 8388609.0)],
        ),
    ];
    for (function, cases) in table {
        for accuracy in Accuracy::ALL {
            for &(x, want) in cases.iter().chain(&[(NAN, NAN)]) {
                let mut got = [0.0];
                apply(function, accuracy, &[x], &mut got);
                let same = got[0].to_bits() == want.to_bits() || (got[0].is_nan() && want.is_nan());
                assert!(same, "{function:?} {accuracy:?} at {x}: {} not {want}", got[0]);
            }
        }
    }
}

/// Bases and exponents that reach every size of result, and those around 1.
fn powers() -> (Vec<f32>, Vec<f32>) {
    let mut pairs = Vec::new();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    for _ in 0..1_000_000 {
        let base = f32::from_bits(next() & 0x7fff_ffff);
        let product = (f64::from(next()) / f64::from(u32::MAX) - 0.5) * 310.0;
        pairs.push((base, (product / f64::from(base).log2()) as f32));
        let near_one = f32::from_bits(0x3f00_0000 + (next() & 0x00ff_ffff));
        pairs.push((near_one, (product / f64::from(near_one).log2()) as f32));
        pairs.push((f32::from_bits(next()), f32::from_bits(next())));
        pairs.push((f32::from_bits(next() | 0x8000_0000), ((next() & 63) as f32) - 32.0));
    }
    pairs.into_iter().unzip()
}

#[test]
fn powers_are_within_their_bound_at_every_level() {
    let (bases, exponents) = powers();
    let mut output = vec![0.0; bases.len()];
    let want: Vec<f64> =
        bases.iter().zip(&exponents).map(|(&x, &y)| f64::from(x).powf(f64::from(y))).collect();
    for accuracy in Accuracy::ALL {
        apply_of_two(FunctionOfTwo::Pow, accuracy, &bases, &exponents, &mut output);
        for index in 0..bases.len() {
            let (x, y, want) = (bases[index], exponents[index], want[index]);
            let bound = pow_bound(accuracy, f64::from(x), f64::from(y), want);
            let part = part_of_bound(output[index], want, bound);
            assert!(
                part <= 1.0,
                "{accuracy:?} {x:e}^{y:e}: {:e}, not {want:e}: {part}",
                output[index]
            );
        }
    }
}

#[test]
fn special_powers_are_those_of_c99() {
    let values = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.0,
        3.0,
        4.0,
        5.0,
        1e-45,
        1e-38,
        0.99999994,
        1.0000001,
        16777215.0,
        16777216.0,
        3e38,
        f32::INFINITY,
        f32::NAN,
    ];
    for accuracy in Accuracy::ALL {
        for x in values.into_iter().flat_map(|x| [x, -x]) {
            for y in values.into_iter().flat_map(|y| [y, -y]) {
                let mut got = [0.0];
                apply_of_two(FunctionOfTwo::Pow, accuracy, &[x], &[y], &mut got);
                let want = f64::from(x).powf(f64::from(y));
                let bound = pow_bound(accuracy, f64::from(x), f64::from(y), want);
                let part = part_of_bound(got[0], want, bound);
                assert!(part <= 1.0, "{accuracy:?} {x:e}^{y:e}: {:e}, not {want:e}", got[0]);
                let rounded = want as f32;
                if want == 0.0 && !rounded.is_nan() {
                    assert_eq!(got[0].to_bits(), rounded.to_bits(), "{accuracy:?} {x:e}^{y:e}");
                }
            }
        }
    }
}
