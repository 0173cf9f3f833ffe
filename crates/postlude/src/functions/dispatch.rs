//! Applies functions to slices, with the widest instructions that the processor has.
//!
//! In: a function, a level and f32 values. Out: the results; one dispatch for each slice, none for each element.
//! Invariant: every version gives the same bits: they differ in the instructions that the compiler may use.
#![allow(unsafe_code)]

use super::machine::{Machine, Scalar};
use super::{Accuracy, Function, FunctionOfTwo, Level};
use super::{exponential, logarithm, power, remainder, saturating, simple, trigonometric};

/// Calls `$call!(accurate form, hardware form)` of a function. The CPU has no third form.
macro_rules! with_forms {
    ($function:expr, $call:ident) => {
        match $function {
            Function::Exp => $call!(exponential::exp, exponential::exp_hardware),
            Function::Exp2 => $call!(exponential::exp2, exponential::exp2_hardware),
            Function::Expm1 => $call!(exponential::expm1, exponential::expm1_hardware),
            Function::Log => $call!(logarithm::log, logarithm::log_hardware),
            Function::Log2 => $call!(logarithm::log2, logarithm::log2_hardware),
            Function::Log1p => $call!(logarithm::log1p, logarithm::log1p_hardware),
            Function::Sin => $call!(trigonometric::sin, trigonometric::sin_hardware),
            Function::Cos => $call!(trigonometric::cos, trigonometric::cos_hardware),
            Function::Tanh => $call!(saturating::tanh, saturating::tanh_hardware),
            Function::Erf => $call!(saturating::erf, saturating::erf_hardware),
            Function::Sqrt => $call!(simple::sqrt, simple::sqrt),
            Function::Rsqrt => $call!(simple::rsqrt, simple::rsqrt),
            Function::Rcp => $call!(simple::rcp, simple::rcp),
            Function::Floor => $call!(simple::floor, simple::floor),
            Function::Ceil => $call!(simple::ceil, simple::ceil),
            Function::Round => $call!(simple::round, simple::round),
        }
    };
}

/// Elements copied at a time, so that the copy stays in the nearest cache.
const CHUNK: usize = 1024;

/// One value of a function on any machine.
#[inline(always)]
pub fn evaluate<M: Machine>(m: &M, function: Function, accuracy: Accuracy, x: M::F) -> M::F {
    macro_rules! call {
        ($accurate:path, $hardware:path) => {
            match accuracy {
                Accuracy::Accurate => $accurate(m, x),
                Accuracy::Hardware | Accuracy::Fast => $hardware(m, x),
            }
        };
    }
    with_forms!(function, call)
}

/// One value of a function of two on any machine.
#[inline(always)]
pub fn evaluate_of_two<M: Machine>(
    m: &M,
    function: FunctionOfTwo,
    accuracy: Accuracy,
    x: M::F,
    y: M::F,
) -> M::F {
    match (function, accuracy) {
        (FunctionOfTwo::Pow, Accuracy::Accurate) => power::pow(m, x, y),
        (FunctionOfTwo::Pow, Accuracy::Hardware | Accuracy::Fast) => power::pow_hardware(m, x, y),
        (FunctionOfTwo::Fmod, _) => remainder::fmod(m, x, y),
    }
}

/// The function of every element of `input`, into `output` of the same length.
pub fn apply(function: Function, accuracy: Accuracy, input: &[f32], output: &mut [f32]) {
    assert_eq!(
        input.len(),
        output.len(),
        "compiler bug: a function applied between slices of two lengths"
    );
    for (input, output) in input.chunks(CHUNK).zip(output.chunks_mut(CHUNK)) {
        output.copy_from_slice(input);
        apply_in_place(function, accuracy, output);
    }
}

/// Replaces every element by the function of it.
pub fn apply_in_place(function: Function, accuracy: Accuracy, data: &mut [f32]) {
    macro_rules! run {
        ($form:path) => {{
            struct Form;
            impl Unary for Form {
                #[inline(always)]
                fn at(x: f32) -> f32 {
                    $form(&Scalar, x)
                }
            }
            map::<Form>(data);
        }};
    }
    macro_rules! call {
        ($accurate:path, $hardware:path) => {
            match accuracy {
                Accuracy::Accurate => run!($accurate),
                Accuracy::Hardware | Accuracy::Fast => run!($hardware),
            }
        };
    }
    with_forms!(function, call);
}

/// A function of each two elements, into `output`; all of the same length.
pub fn apply_of_two(
    function: FunctionOfTwo,
    accuracy: Accuracy,
    first: &[f32],
    second: &[f32],
    output: &mut [f32],
) {
    output.copy_from_slice(first);
    apply_of_two_in_place(function, accuracy, output, second);
}

/// Replaces every element of the first by the function of both; of the same length.
pub fn apply_of_two_in_place(
    function: FunctionOfTwo,
    accuracy: Accuracy,
    first: &mut [f32],
    second: &[f32],
) {
    assert_eq!(first.len(), second.len(), "compiler bug: a function of slices of two lengths");
    match (function, accuracy) {
        (FunctionOfTwo::Pow, Accuracy::Accurate) => zip::<Power>(first, second),
        (FunctionOfTwo::Pow, Accuracy::Hardware | Accuracy::Fast) => {
            zip::<PowerHardware>(first, second);
        }
        (FunctionOfTwo::Fmod, _) => zip::<Remainder>(first, second),
    }
}

/// A function of one value as a type, so that it is compiled into the loop that calls it.
trait Unary {
    fn at(x: f32) -> f32;
}

/// As [`Unary`], of two values.
trait Binary {
    fn at(x: f32, y: f32) -> f32;
}

struct Power;
struct PowerHardware;
struct Remainder;

impl Binary for Remainder {
    #[inline(always)]
    fn at(x: f32, y: f32) -> f32 {
        remainder::fmod(&Scalar, x, y)
    }
}

impl Binary for Power {
    #[inline(always)]
    fn at(x: f32, y: f32) -> f32 {
        power::pow(&Scalar, x, y)
    }
}

impl Binary for PowerHardware {
    #[inline(always)]
    fn at(x: f32, y: f32) -> f32 {
        power::pow_hardware(&Scalar, x, y)
    }
}

/// A loop, in one version for each set of instructions.
macro_rules! versions {
    ($name:ident, $kind:ident, $plain:ident, $avx512:ident, $avx2:ident, ($($argument:ident: $type:ty),*)) => {
        fn $name<F: $kind>($($argument: $type),*) {
            match Level::best() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Level::best` gives only what the processor has.
                Level::Avx512 => unsafe { $avx512::<F>($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Level::Avx2 => unsafe { $avx2::<F>($($argument),*) },
                #[cfg(not(target_arch = "x86_64"))]
                Level::Avx512 | Level::Avx2 => $plain::<F>($($argument),*),
                Level::Portable => $plain::<F>($($argument),*),
            }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
        fn $avx512<F: $kind>($($argument: $type),*) {
            $plain::<F>($($argument),*);
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $avx2<F: $kind>($($argument: $type),*) {
            $plain::<F>($($argument),*);
        }
    };
}

versions!(map, Unary, map_plain, map_avx512, map_avx2, (data: &mut [f32]));
versions!(zip, Binary, zip_plain, zip_avx512, zip_avx2, (first: &mut [f32], second: &[f32]));

#[inline(always)]
fn map_plain<F: Unary>(data: &mut [f32]) {
    for value in data {
        *value = F::at(*value);
    }
}

#[inline(always)]
fn zip_plain<F: Binary>(first: &mut [f32], second: &[f32]) {
    for (first, second) in first.iter_mut().zip(second) {
        *first = F::at(*first, *second);
    }
}

#[cfg(test)]
mod tests {
    use super::{Power, apply_in_place, apply_of_two, evaluate, zip_plain};
    use crate::functions::machine::Scalar;
    use crate::functions::{Accuracy, Function, FunctionOfTwo};

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    fn inputs() -> Vec<f32> {
        (0..=u32::MAX).step_by(262_139).map(f32::from_bits).collect()
    }

    #[test]
    fn slices_and_single_values_have_the_same_bits() {
        for function in Function::ALL {
            for accuracy in Accuracy::ALL {
                let mut got = inputs();
                apply_in_place(function, accuracy, &mut got);
                for (x, got) in inputs().into_iter().zip(got) {
                    let want = evaluate(&Scalar, function, accuracy, x);
                    assert!(
                        same(got, want),
                        "{function:?} {accuracy:?} at {x:e}: {got:e} {want:e}"
                    );
                }
            }
        }
    }

    #[test]
    fn wide_and_plain_powers_have_the_same_bits() {
        let bases = inputs();
        let exponents: Vec<f32> =
            inputs().into_iter().rev().map(|y| y.clamp(-90.0, 90.0)).collect();
        let (mut plain, mut wide) = (bases.clone(), bases.clone());
        zip_plain::<Power>(&mut plain, &exponents);
        apply_of_two(FunctionOfTwo::Pow, Accuracy::Accurate, &bases, &exponents, &mut wide);
        assert!(plain.iter().zip(&wide).all(|(a, b)| same(*a, *b)));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_narrower_version_has_the_same_bits() {
        struct Tanh;
        impl super::Unary for Tanh {
            fn at(x: f32) -> f32 {
                crate::functions::saturating::tanh(&Scalar, x)
            }
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            let mut got = inputs();
            // SAFETY: the processor has the instructions, as just asked.
            unsafe { super::map_avx2::<Tanh>(&mut got) };
            let mut want = inputs();
            apply_in_place(Function::Tanh, Accuracy::Accurate, &mut want);
            assert!(got.iter().zip(&want).all(|(a, b)| same(*a, *b)));
        }
    }
}
