//! Applies functions to slices, with the widest instructions that the processor has.
//!
//! In: a function, a level and f32 values. Out: the results; one dispatch for each slice, none for each element.
//! Invariant: every version gives the same bits: they differ in the instructions that the compiler may use.
#![allow(unsafe_code)]

use super::machine::{Machine, Scalar};
use super::{Accuracy, Function};
use super::{exponential, logarithm, power, saturating, simple, trigonometric};

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

/// One value of x^y on any machine.
#[inline(always)]
pub fn evaluate_pow<M: Machine>(m: &M, accuracy: Accuracy, x: M::F, y: M::F) -> M::F {
    match accuracy {
        Accuracy::Accurate => power::pow(m, x, y),
        Accuracy::Hardware | Accuracy::Fast => power::pow_hardware(m, x, y),
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
    macro_rules! call {
        ($accurate:path, $hardware:path) => {
            match accuracy {
                Accuracy::Accurate => map($accurate, data),
                Accuracy::Hardware | Accuracy::Fast => map($hardware, data),
            }
        };
    }
    with_forms!(function, call);
}

/// Every base to the power of its exponent, into `output`; all of the same length.
pub fn apply_pow(accuracy: Accuracy, bases: &[f32], exponents: &[f32], output: &mut [f32]) {
    output.copy_from_slice(bases);
    apply_pow_in_place(accuracy, output, exponents);
}

/// Replaces every base by its power; bases and exponents of the same length.
pub fn apply_pow_in_place(accuracy: Accuracy, bases: &mut [f32], exponents: &[f32]) {
    assert_eq!(bases.len(), exponents.len(), "compiler bug: powers of slices of two lengths");
    match accuracy {
        Accuracy::Accurate => zip(power::pow, bases, exponents),
        Accuracy::Hardware | Accuracy::Fast => zip(power::pow_hardware, bases, exponents),
    }
}

/// The loop for functions of one value, in one version for each set of instructions.
macro_rules! versions {
    ($name:ident, $loop:ident, $avx512:ident, $avx2:ident, ($($argument:ident: $type:ty),*), $($bound:tt)*) => {
        fn $name<F: $($bound)*>(function: F, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("fma")
                {
                    // SAFETY: the processor has the instructions, as just asked.
                    return unsafe { $avx512(function, $($argument),*) };
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: as above.
                    return unsafe { $avx2(function, $($argument),*) };
                }
            }
            $loop(function, $($argument),*);
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,fma")]
        fn $avx512<F: $($bound)*>(function: F, $($argument: $type),*) {
            $loop(function, $($argument),*);
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        fn $avx2<F: $($bound)*>(function: F, $($argument: $type),*) {
            $loop(function, $($argument),*);
        }
    };
}

versions!(map, map_loop, map_avx512, map_avx2, (data: &mut [f32]), Fn(&Scalar, f32) -> f32);
versions!(zip, zip_loop, zip_avx512, zip_avx2, (first: &mut [f32], second: &[f32]), Fn(&Scalar, f32, f32) -> f32);

#[inline(always)]
fn map_loop<F: Fn(&Scalar, f32) -> f32>(function: F, data: &mut [f32]) {
    for value in data {
        *value = function(&Scalar, *value);
    }
}

#[inline(always)]
fn zip_loop<F: Fn(&Scalar, f32, f32) -> f32>(function: F, first: &mut [f32], second: &[f32]) {
    for (first, second) in first.iter_mut().zip(second) {
        *first = function(&Scalar, *first, *second);
    }
}

#[cfg(test)]
mod tests {
    use super::{evaluate, map, map_loop};
    use crate::functions::machine::Scalar;
    use crate::functions::{Accuracy, Function};

    #[test]
    fn every_version_gives_the_same_bits() {
        for function in Function::ALL {
            for accuracy in Accuracy::ALL {
                let inputs: Vec<f32> =
                    (0..=u32::MAX).step_by(262_139).map(f32::from_bits).collect();
                let form = |_: &Scalar, x: f32| evaluate(&Scalar, function, accuracy, x);
                let (mut plain, mut wide) = (inputs.clone(), inputs.clone());
                map_loop(form, &mut plain);
                map(form, &mut wide);
                let mut applied = inputs.clone();
                super::apply_in_place(function, accuracy, &mut applied);
                for index in 0..inputs.len() {
                    let (a, b, c) = (plain[index], wide[index], applied[index]);
                    let same = a.to_bits() == b.to_bits() && b.to_bits() == c.to_bits();
                    assert!(
                        same || (a.is_nan() && b.is_nan() && c.is_nan()),
                        "{function:?} {}",
                        inputs[index]
                    );
                }
            }
        }
    }
}
