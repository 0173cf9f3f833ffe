//! Formulas of the catalogue, instantiated in a graph.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::catalogue;
use crate::dtype::Elem;
use crate::graph::{Binary, Call, Fold, Graph, NodeId, Op, Over, Unary};
use crate::process;
use crate::syntax::{self, ExprId, ExprKind, Exprs, Infix, Number, Prefix};

type Parsed = (Exprs, ExprId);

/// Each formula is parsed once in a process.
static PARSED: Mutex<BTreeMap<&'static str, Arc<Parsed>>> = Mutex::new(BTreeMap::new());

fn parsed(formula: &'static str) -> Arc<Parsed> {
    let parse = || match syntax::parse_expression(formula) {
        Ok(parsed) => Arc::new(parsed),
        Err(errors) => panic!("compiler bug: formula `{formula}`: {errors:?}"),
    };
    match process::open(&PARSED) {
        Some(mut known) => known.entry(formula).or_insert_with(parse).clone(),
        None => parse(),
    }
}

/// What a formula's names stand for.
pub(super) struct Scope<'a> {
    /// Parameters by name.
    pub(super) values: &'a [(&'a str, NodeId)],
    /// What `dim` reduces.
    pub(super) over: Option<Over>,
    /// How a node is made: with or without the rules of stability.
    pub(super) make: fn(&mut Graph, Op) -> NodeId,
}

/// The formula's value in this scope.
pub(super) fn instantiate(graph: &mut Graph, formula: &'static str, scope: &Scope<'_>) -> NodeId {
    let parsed = parsed(formula);
    let (exprs, root) = &*parsed;
    let mut nodes: HashMap<ExprId, NodeId> = HashMap::new();
    for (id, expr) in exprs.iter() {
        let made = match &expr.kind {
            ExprKind::Number(Number::Float(value)) => {
                Some((scope.make)(graph, Op::number(*value as f32)))
            }
            ExprKind::Number(Number::Integer(value)) => {
                Some((scope.make)(graph, Op::number(*value as f32)))
            }
            ExprKind::Name(name) => name_value(graph, name, scope),
            ExprKind::Prefix(Prefix::Negate, a) => {
                Some((scope.make)(graph, Op::Unary(Unary::Negate, nodes[a])))
            }
            ExprKind::Prefix(Prefix::Not, a) => {
                Some((scope.make)(graph, Op::Unary(Unary::Not, nodes[a])))
            }
            ExprKind::Prefix(Prefix::Invert, a) => {
                Some((scope.make)(graph, Op::Unary(Unary::Invert, nodes[a])))
            }
            ExprKind::Infix(infix, a, b) => {
                Some(infix_value(graph, *infix, nodes[a], nodes[b], scope))
            }
            ExprKind::Call { function, arguments, .. } => {
                let values: Vec<NodeId> =
                    arguments.iter().filter_map(|argument| nodes.get(argument).copied()).collect();
                Some(call_value(graph, &function.text, &values, scope))
            }
            ExprKind::Annotated(..)
            | ExprKind::Dims(_)
            | ExprKind::Transpose(_)
            | ExprKind::Product(..) => {
                panic!("compiler bug: formula `{formula}`")
            }
        };
        if let Some(node) = made {
            nodes.insert(id, node);
        }
    }
    nodes[root]
}

/// The value of a name; `dim` has none.
fn name_value(graph: &mut Graph, name: &str, scope: &Scope<'_>) -> Option<NodeId> {
    match (scope.values.iter().find(|(known, _)| *known == name), name) {
        (Some((_, node)), _) => Some(*node),
        (None, "inf") => Some((scope.make)(graph, Op::number(f32::INFINITY))),
        (None, "dim") => None,
        (None, _) => panic!("compiler bug: unknown name `{name}` in a formula"),
    }
}

fn infix_value(graph: &mut Graph, infix: Infix, a: NodeId, b: NodeId, scope: &Scope<'_>) -> NodeId {
    let op = match infix {
        Infix::Add => Op::Binary(Binary::Add, a, b),
        Infix::Subtract => Op::Binary(Binary::Subtract, a, b),
        Infix::Multiply => Op::Binary(Binary::Multiply, a, b),
        Infix::Divide => Op::Binary(Binary::Divide, a, b),
        Infix::Less => Op::Binary(Binary::Less, a, b),
        Infix::LessEqual => Op::Binary(Binary::LessEqual, a, b),
        Infix::Greater => Op::Binary(Binary::Less, b, a),
        Infix::GreaterEqual => Op::Binary(Binary::LessEqual, b, a),
        Infix::Equal => Op::Binary(Binary::Equal, a, b),
        Infix::NotEqual => Op::Binary(Binary::NotEqual, a, b),
        Infix::And => Op::Binary(Binary::And, a, b),
        Infix::Or => Op::Binary(Binary::Or, a, b),
        Infix::Xor => Op::Binary(Binary::Xor, a, b),
        Infix::ShiftLeft => Op::Binary(Binary::ShiftLeft, a, b),
        Infix::ShiftRight => Op::Binary(Binary::ShiftRight, a, b),
    };
    (scope.make)(graph, op)
}

fn call_value(graph: &mut Graph, function: &str, values: &[NodeId], scope: &Scope<'_>) -> NodeId {
    let Some(entry) = catalogue::find(function) else {
        panic!("compiler bug: unknown function `{function}` in a formula")
    };
    let op = if !entry.formula.is_empty() || entry.name == "mean" {
        Op::Call(
            Call { function: entry.name, grad: false, over: scope.over, count: 0 },
            values.to_vec(),
        )
    } else if let Some(fold) = Fold::from_name(function) {
        let Some(over) = scope.over else {
            panic!("compiler bug: `{function}` without a dim in a formula")
        };
        Op::Reduce(fold, over, values[0])
    } else {
        match *values {
            [a] => Op::Unary(
                Unary::from_name(function)
                    .unwrap_or_else(|| panic!("compiler bug: `{function}` in a formula")),
                a,
            ),
            [a, b] => Op::Binary(
                Binary::from_name(function)
                    .unwrap_or_else(|| panic!("compiler bug: `{function}` in a formula")),
                a,
                b,
            ),
            [a, b, c] if graph.ty(a).elem == Elem::Bool => Op::Select(a, b, c),
            [a, b, c] => Op::Fma(a, b, c),
            _ => panic!("compiler bug: `{function}` in a formula"),
        }
    };
    (scope.make)(graph, op)
}
