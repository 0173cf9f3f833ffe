//! Evaluates operations on constants.
//!
//! Arithmetic rounds as the reference rounds, so a folded constant has the bits that running it would give. Functions are
//! evaluated in their accurate form, which is within every level's stated error and is what an engine asked for accuracy
//! computes, bit for bit.

use crate::dtype::{DType, Elem, round_randomly, round_to};
use crate::functions::machine::Scalar;
use crate::functions::{Accuracy, evaluate, evaluate_of_two};
use crate::graph::{
    Binary, Constant, Dependence, Elementwise, Graph, NodeId, Op, Unary, Value, random_word,
};

use super::Context;
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[fold];

/// The graph with constants instead of operations on constants.
pub(super) fn fold_constants(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

fn fold(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Dependence::Elementwise(function) = op.dependence() else { return None };
    let constant = match function {
        Elementwise::Unary(unary, a) => fold_unary(unary, site.constant(a)?),
        Elementwise::Binary(binary, a, b) => {
            fold_binary(binary, site.constant(a)?, site.constant(b)?)
        }
        Elementwise::Fma(a, b, c) => {
            number(site.number(a)?.mul_add(site.number(b)?, site.number(c)?))
        }
        // The condition decides; what is chosen need not be constant.
        Elementwise::Select(condition, a, b) => {
            return match site.constant(condition)? {
                Constant::Bool(true) => Some(a),
                Constant::Bool(false) => Some(b),
                Constant::F32(_) | Constant::I32(_) => None,
            };
        }
        Elementwise::Cast(to, a) => cast(to, site.constant(a)?),
        Elementwise::Round(to, a, bits) => {
            let (value, bits) = (site.constant(a)?, site.constant(bits)?);
            of(Elem::F32, round_randomly(to, value.as_f64(), bits.as_f64() as i32 as u32))
        }
        Elementwise::Philox(words) => {
            let mut known = [0; 6];
            for (known, word) in known.iter_mut().zip(words) {
                *known = site.constant(word)?.as_f64() as i32;
            }
            Constant::I32(random_word(known))
        }
        // A table is read when the kernel runs.
        Elementwise::Take(..) | Elementwise::Entry(..) => return None,
    };
    Some(site.make_constant(constant))
}

/// A float with the one nan that constants have.
pub(super) fn number(value: f32) -> Constant {
    Constant::F32(if value.is_nan() { f32::NAN } else { value }.to_bits())
}

fn of(elem: Elem, value: f64) -> Constant {
    match elem {
        Elem::F32 => number(value as f32),
        Elem::I32 | Elem::Bool => Constant::of(elem, value),
    }
}

fn fold_unary(unary: Unary, a: Constant) -> Constant {
    let elem = unary.gives(a.elem()).unwrap_or(a.elem());
    if let (Some(function), Some(x)) = (unary.function(), a.as_f32()) {
        return number(evaluate(&Scalar, function, Accuracy::Accurate, x));
    }
    let x = Value::exact(a.as_f64());
    of(elem, unary.apply(a.elem(), Accuracy::Accurate, x).nominal)
}

pub(super) fn fold_binary(binary: Binary, a: Constant, b: Constant) -> Constant {
    let elem = binary.gives(a.elem()).unwrap_or(a.elem());
    if let (Some(function), Some(x), Some(y)) = (binary.function(), a.as_f32(), b.as_f32()) {
        return number(evaluate_of_two(&Scalar, function, Accuracy::Accurate, x, y));
    }
    let (x, y) = (Value::exact(a.as_f64()), Value::exact(b.as_f64()));
    of(elem, binary.apply(a.elem(), Accuracy::Accurate, x, y).nominal)
}

/// The constant as a store to this type followed by a load would give it.
pub(super) fn cast(to: DType, a: Constant) -> Constant {
    of(to.elem(), round_to(to, a.as_f64()))
}
