//! Floats: the hardware's own forms where they are good enough, else the algorithms that every engine shares.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{Approx, Compare};
use postlude_ptx::types::{F32, S32};

use crate::functions::machine::Machine;
use crate::functions::{self, Accuracy, Function, FunctionOfTwo};
use crate::graph::{Binary, NAN_BITS, Unary};
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::machine::Registers;

use super::evaluator::Evaluator;
use super::value::Value;

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    pub(super) fn unary_float(&self, op: Unary, accuracy: Accuracy, a: Reg<'k, F32>) -> Value<'k> {
        let machine = Registers(self.k);
        match op {
            Unary::Negate => Value::Float(a.negate()),
            Unary::Abs => Value::Float(a.abs()),
            Unary::Sign => Value::Float(self.sign(a)),
            Unary::Floor => Value::Float(machine.floor(a)),
            Unary::Ceil => Value::Float(machine.ceil(a)),
            Unary::Round => Value::Float(machine.round_even(a)),
            Unary::IsNan => Value::Truth(a.compare(Compare::AnyNan, a)),
            Unary::IsInf => Value::Truth(a.abs().eq(f32::INFINITY)),
            Unary::Bits => {
                let bits = self.k.f32_to_bits(a).cast::<S32>();
                Value::Integer(bits.select(NAN_BITS, a.eq(a)))
            }
            Unary::Not | Unary::Invert | Unary::Float => {
                panic!("compiler bug: `{}` of a float", op.name())
            }
            Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Rcp
            | Unary::Exp
            | Unary::Exp2
            | Unary::Log
            | Unary::Log2
            | Unary::Log1p
            | Unary::Expm1
            | Unary::Sin
            | Unary::Cos
            | Unary::Tanh
            | Unary::Erf => {
                let Some(function) = op.function() else {
                    panic!("compiler bug: `{}` is no function", op.name())
                };
                Value::Float(self.function(function, accuracy, a))
            }
        }
    }

    /// 1 or -1; 0 of both zeros, nan of nan.
    fn sign(&self, a: Reg<'k, F32>) -> Reg<'k, F32> {
        let (one, zero) = (self.k.imm(1.0), self.k.imm(0.0));
        let side = one.select(zero, a.gt(0.0)) - one.select(zero, a.lt(0.0));
        side.select(a, a.eq(a))
    }

    fn function(&self, function: Function, accuracy: Accuracy, a: Reg<'k, F32>) -> Reg<'k, F32> {
        match (function, accuracy) {
            (Function::Exp2, Accuracy::Hardware | Accuracy::Fast) => {
                Registers(self.k).exp2_hardware(a)
            }
            (Function::Log2, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Lg2),
            (Function::Log, Accuracy::Hardware | Accuracy::Fast) => {
                a.approx(Approx::Lg2) * std::f32::consts::LN_2
            }
            (Function::Sqrt, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Sqrt),
            (Function::Rcp, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Rcp),
            (Function::Rsqrt, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Rsqrt),
            (Function::Tanh, Accuracy::Fast) => a.approx(Approx::Tanh),
            (
                Function::Exp
                | Function::Exp2
                | Function::Expm1
                | Function::Log
                | Function::Log2
                | Function::Log1p
                | Function::Sin
                | Function::Cos
                | Function::Tanh
                | Function::Erf
                | Function::Sqrt
                | Function::Rsqrt
                | Function::Rcp
                | Function::Floor
                | Function::Ceil
                | Function::Round,
                Accuracy::Accurate | Accuracy::Hardware | Accuracy::Fast,
            ) => functions::evaluate(&Registers(self.k), function, accuracy, a),
        }
    }

    /// An operation that is exact or correctly rounded on every machine.
    pub(crate) fn unary_exact(&self, op: Unary, a: Reg<'k, F32>) -> Reg<'k, F32> {
        self.unary_float(op, Accuracy::Accurate, a).float()
    }

    /// The same of two operands.
    pub(crate) fn binary_exact(
        &self,
        op: Binary,
        a: Reg<'k, F32>,
        b: Reg<'k, F32>,
    ) -> Reg<'k, F32> {
        self.binary_float(op, Accuracy::Accurate, a, b).float()
    }

    fn of_two(
        &self,
        function: FunctionOfTwo,
        accuracy: Accuracy,
        a: Reg<'k, F32>,
        b: Reg<'k, F32>,
    ) -> Reg<'k, F32> {
        functions::evaluate_of_two(&Registers(self.k), function, accuracy, a, b)
    }

    pub(super) fn binary_float(
        &self,
        op: Binary,
        accuracy: Accuracy,
        a: Reg<'k, F32>,
        b: Reg<'k, F32>,
    ) -> Value<'k> {
        match op {
            Binary::Add => Value::Float(a + b),
            Binary::Subtract => Value::Float(a - b),
            Binary::Multiply => Value::Float(a * b),
            Binary::Divide => Value::Float(match accuracy {
                Accuracy::Accurate => Registers(self.k).div(a, b),
                Accuracy::Hardware | Accuracy::Fast => a.divide_full(b),
            }),
            // Of two zeros the positive one is larger (PTX ISA, "max").
            Binary::Maximum => Value::Float(a.max(b)),
            Binary::Minimum => Value::Float(a.min(b)),
            Binary::Pow => Value::Float(self.of_two(FunctionOfTwo::Pow, accuracy, a, b)),
            Binary::Fmod => Value::Float(self.of_two(FunctionOfTwo::Fmod, accuracy, a, b)),
            Binary::Less => Value::Truth(a.lt(b)),
            Binary::LessEqual => Value::Truth(a.le(b)),
            Binary::Equal => Value::Truth(a.eq(b)),
            Binary::NotEqual => Value::Truth(a.compare(Compare::NeOrNan, b)),
            Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::ShiftRightLogical => panic!("compiler bug: `{}` of floats", op.name()),
        }
    }
}
