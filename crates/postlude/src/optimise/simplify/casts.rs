//! Conversions that change nothing.

use crate::dtype::{DType, Elem, round_to};
use crate::graph::{Binary, Graph, NodeId, Op, Output, Unary};

use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] = &[lossless, cast_of_condition, integer_through_float];

/// How many nodes are looked through for where a value comes from.
const DEPTH: u32 = 4;

/// A value that the type holds anyway is not changed by rounding to it.
fn lossless(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Cast(to, a) if site.elem(a) == to.elem() && holds(site, to, a, DEPTH) => Some(a),
        _ => None,
    }
}

/// Whether `to` holds every value that the node can have, so that a store and a load give it back.
fn holds(site: &Site<'_>, to: DType, node: NodeId, depth: u32) -> bool {
    if matches!(to, DType::F32 | DType::I32 | DType::Bool | DType::B1) {
        return site.elem(node) == to.elem();
    }
    let Some(depth) = depth.checked_sub(1) else { return false };
    match *site.op(node) {
        Op::Cast(from, _) | Op::Round(from, ..) => includes(to, from),
        // Memory may hold an infinity of f8e5m2, which a cast to it would saturate.
        Op::Input(input) => match site.graph.inputs()[input.0 as usize].dtype {
            DType::F8E5M2 => to != DType::F8E5M2 && includes(to, DType::F8E5M2),
            from => includes(to, from),
        },
        Op::Constant(constant) => {
            let value = constant.as_f64();
            value.is_nan() || round_to(to, value).to_bits() == value.to_bits()
        }
        // A float's sign is a bit of its own; an integer's opposite may not fit.
        Op::Unary(Unary::Negate | Unary::Abs, a) => {
            to.is_float() && to != DType::F8E8M0 && holds(site, to, a, depth)
        }
        Op::Binary(Binary::Maximum | Binary::Minimum, a, b) | Op::Select(_, a, b) => {
            holds(site, to, a, depth) && holds(site, to, b, depth)
        }
        Op::Part(_, a) => holds(site, to, a, depth),
        Op::Concat(_, ref parts) => {
            let parts = parts.clone();
            parts.into_iter().all(|part| holds(site, to, part, depth))
        }
        Op::Merge(_, a, b) => holds(site, to, a, depth) && holds(site, to, b, depth),
        _ => false,
    }
}

/// Whether every value that a cast to `from` gives is a value of `to`, of the same arithmetic type.
fn includes(to: DType, from: DType) -> bool {
    match to {
        DType::F32 => from.is_float(),
        DType::TF32 => from.is_narrow_float() || matches!(from, DType::TF32 | DType::F8E8M0),
        // Eight-bit floats have fewer bits of exponent and of fraction than either.
        DType::F16 | DType::BF16 => from == to || from.is_fp8(),
        DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 => from == to,
        DType::I32 | DType::I64 => from.elem() == Elem::I32,
        DType::I8 => matches!(from, DType::I8 | DType::I4 | DType::U4),
        DType::U8 => matches!(from, DType::U8 | DType::U4),
        DType::I4 | DType::U4 => from == to,
        DType::Bool | DType::B1 => from.elem() == Elem::Bool,
    }
}

/// Every type but that of scales holds 0 and 1, so what a condition is cast through does not matter.
fn cast_of_condition(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Cast(to, a) = *op else { return None };
    let Op::Cast(through, condition) = *site.op(a) else { return None };
    if site.elem(condition) != Elem::Bool || through == DType::F8E8M0 {
        return None;
    }
    Some(if to.elem() == Elem::Bool { condition } else { site.make(Op::Cast(to, condition)) })
}

/// `i32(f32(n))` is `n` where n is a byte: f32 holds whole numbers up to 2^24.
fn integer_through_float(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Cast(DType::I32, a) = *op else { return None };
    let Op::Cast(DType::F32, n) = *site.op(a) else { return None };
    let is_byte = site.elem(n) == Elem::I32
        && (holds(site, DType::I8, n, DEPTH) || holds(site, DType::U8, n, DEPTH));
    is_byte.then_some(n)
}

/// A store rounds as a cast to its type does, and rounding twice changes nothing: the cast before it goes.
pub(super) fn strip_stores(graph: Graph) -> Graph {
    let stored = |output: &Output, value: NodeId| match graph[value].op {
        Op::Cast(to, a)
            if to == output.dtype
                && (graph.ty(a).elem == Elem::Bool) == (to.elem() == Elem::Bool) =>
        {
            a
        }
        _ => value,
    };
    let outputs: Vec<Output> =
        graph.outputs().iter().map(|output| output.map(|value| stored(output, value))).collect();
    if outputs == graph.outputs() {
        return graph;
    }
    let mut stripped = graph.without_outputs();
    for output in outputs {
        stripped.push_output(output);
    }
    super::super::prune::drop_unused(&stripped)
}
