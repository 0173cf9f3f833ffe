//! The elementwise functions, each written once for every target, with a stated error.
//!
//! In: a function, how accurate it must be, and f32 values. Out: the results, within [`bound`] of the exact ones.
//! Invariant: the accurate forms give the same bits on every [`machine::Machine`], NaN payloads aside.

pub mod accuracy;
mod dispatch;
pub mod exponential;
pub mod logarithm;
pub mod machine;
pub mod philox;
pub mod power;
mod processor;
pub mod remainder;
pub mod rounded;
pub mod saturating;
pub mod simple;
pub mod trigonometric;

pub use accuracy::{Bound, ONE_PLUS_ERF, bound, pow_bound};
pub use dispatch::{
    apply, apply_in_place, apply_of_two, apply_of_two_in_place, evaluate, evaluate_of_two,
};
pub(crate) use processor::Level;

/// How good a function must be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Accuracy {
    /// At most 2 units in the last place, and the same bits everywhere.
    Accurate,
    /// Built from the hardware's 2^x, log2, reciprocal and reciprocal root: about 2^-20.
    Hardware,
    /// Anything the hardware has.
    Fast,
}

impl Accuracy {
    /// Every level, the strictest first.
    pub const ALL: [Accuracy; 3] = [Accuracy::Accurate, Accuracy::Hardware, Accuracy::Fast];

    /// The name in text.
    pub const fn name(self) -> &'static str {
        match self {
            Accuracy::Accurate => "accurate",
            Accuracy::Hardware => "hardware",
            Accuracy::Fast => "fast",
        }
    }
}

/// A function of two f32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // Each is named as in the language.
pub enum FunctionOfTwo {
    Pow,
    Fmod,
}

/// A function of one f32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Function {
    /// e^x
    Exp,
    /// 2^x
    Exp2,
    /// e^x - 1
    Expm1,
    /// The natural logarithm.
    Log,
    /// The logarithm to base 2.
    Log2,
    /// log(1 + x)
    Log1p,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// The square root.
    Sqrt,
    /// 1 / sqrt(x)
    Rsqrt,
    /// 1 / x
    Rcp,
    /// The largest integer not above x.
    Floor,
    /// The smallest integer not below x.
    Ceil,
    /// The nearest integer, ties to even.
    Round,
}

impl Function {
    /// Every function.
    pub const ALL: [Function; 16] = [
        Function::Exp,
        Function::Exp2,
        Function::Expm1,
        Function::Log,
        Function::Log2,
        Function::Log1p,
        Function::Sin,
        Function::Cos,
        Function::Tanh,
        Function::Erf,
        Function::Sqrt,
        Function::Rsqrt,
        Function::Rcp,
        Function::Floor,
        Function::Ceil,
        Function::Round,
    ];

    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Function::Exp => "exp",
            Function::Exp2 => "exp2",
            Function::Expm1 => "expm1",
            Function::Log => "log",
            Function::Log2 => "log2",
            Function::Log1p => "log1p",
            Function::Sin => "sin",
            Function::Cos => "cos",
            Function::Tanh => "tanh",
            Function::Erf => "erf",
            Function::Sqrt => "sqrt",
            Function::Rsqrt => "rsqrt",
            Function::Rcp => "rcp",
            Function::Floor => "floor",
            Function::Ceil => "ceil",
            Function::Round => "round",
        }
    }
}
