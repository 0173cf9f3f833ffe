//! Groups of operations that rules look for, which single random operations seldom make.

use crate::dtype::{DType, Elem};
use crate::graph::{
    Binary, Constant, Fold, Graph, IndexAxis, InputId, NodeId, Op, Over, ProductId, Run, Unary,
};

use super::{FOLDS, NUMBERS, Random, WIDEST, over};

/// Adds one group to the pool, as far as its operations fit.
pub(super) fn motif(random: &mut Random, graph: &mut Graph, pool: &mut Vec<NodeId>) {
    let added = match random.below(8) {
        0 | 1 => chain(random, graph, pool),
        2 => fold_of_function(random, graph, pool),
        3 => fold_of_combination(random, graph, pool),
        4 => fold_of_selection(random, graph, pool),
        5 => fold_of_fold(random, graph, pool),
        6 => one_hot(random, graph, pool),
        _ => picked(random, graph, pool),
    };
    pool.extend(added);
}

/// The node, if its type fits.
fn put(graph: &mut Graph, op: Op) -> Option<NodeId> {
    let ty = graph.type_of(&op).ok()?;
    let even = ty.axes.column.is_none_or(|divisor| WIDEST.is_multiple_of(divisor));
    even.then(|| graph.make(op))
}

/// A late f32 value that varies along something, or the accumulator as f32.
fn tile(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> NodeId {
    let fits = |node: &NodeId| {
        let ty = graph.ty(*node);
        ty.elem == Elem::F32 && ty.axes.rank() >= 1
    };
    let recent: Vec<NodeId> = pool.iter().rev().copied().filter(fits).take(6).collect();
    if recent.is_empty() || random.one_in(3) {
        let accumulator = graph.make(Op::Accumulator(ProductId::FIRST));
        return graph.make(Op::Cast(DType::F32, accumulator));
    }
    random.of(&recent)
}

/// An f32 value that varies along little.
fn light(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> NodeId {
    if random.one_in(3) {
        return graph.make(Op::number(random.of(&NUMBERS)));
    }
    let fits = |node: &NodeId| {
        let ty = graph.ty(*node);
        ty.elem == Elem::F32 && ty.axes.rank() <= 1
    };
    let all: Vec<NodeId> = pool.iter().copied().filter(fits).collect();
    if all.is_empty() { graph.make(Op::number(1.5)) } else { random.of(&all) }
}

const COMBINE: [Binary; 7] = [
    Binary::Maximum,
    Binary::Minimum,
    Binary::Maximum,
    Binary::Add,
    Binary::Multiply,
    Binary::Subtract,
    Binary::Divide,
];

/// Several values combined by one operation.
fn chain(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let op = random.of(&COMBINE);
    let mut node = tile(random, graph, pool);
    for _ in 0..2 + random.below(2) {
        let other = light(random, graph, pool);
        let swapped = random.one_in(4);
        let (a, b) = if swapped { (other, node) } else { (node, other) };
        node = put(graph, Op::Binary(op, a, b))?;
    }
    Some(node)
}

/// A reduction along some of the value's own axes.
fn fold(random: &mut Random, graph: &mut Graph, of: NodeId) -> Option<NodeId> {
    let axes = graph.ty(of).axes;
    let over = (0..8).map(|_| over(random, axes)).find(|over| over.leaves(axes).is_some())?;
    put(graph, Op::Reduce(random.of(&FOLDS), over, of))
}

fn fold_of_function(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let x = tile(random, graph, pool);
    let f = match random.below(7) {
        0 => Op::Unary(Unary::Negate, x),
        1 => Op::Unary(Unary::Abs, x),
        2 => Op::Unary(Unary::Exp, x),
        3 => Op::Unary(Unary::Tanh, x),
        4 => Op::Unary(Unary::Floor, x),
        5 => Op::Cast(DType::BF16, x),
        _ => Op::Cast(DType::F8E4M3, x),
    };
    let value = put(graph, f)?;
    fold(random, graph, value)
}

fn fold_of_combination(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let (x, y) = (tile(random, graph, pool), light(random, graph, pool));
    let op = if random.one_in(4) {
        Op::Fma(x, y, light(random, graph, pool))
    } else {
        Op::Binary(random.of(&COMBINE), x, y)
    };
    let value = put(graph, op)?;
    fold(random, graph, value)
}

fn fold_of_selection(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let conditions: Vec<NodeId> =
        pool.iter().copied().filter(|node| graph.ty(*node).elem == Elem::Bool).collect();
    let condition = random.of(&conditions);
    let (x, y) = (tile(random, graph, pool), light(random, graph, pool));
    let value = put(graph, Op::Select(condition, x, y))?;
    fold(random, graph, value)
}

fn fold_of_fold(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let x = tile(random, graph, pool);
    let inner = fold(random, graph, x)?;
    let Op::Reduce(which, ..) = graph[inner].op else { return None };
    put(graph, Op::Reduce(which, Over::all(graph.ty(inner).axes), inner))
}

/// The row's index into the columns.
fn index(graph: &mut Graph) -> Option<NodeId> {
    let place = graph.inputs().iter().position(|input| input.name == "index")?;
    Some(graph.make(Op::Input(InputId(place as u32))))
}

fn one_hot(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let (column, index) = (graph.make(Op::Index(IndexAxis::Column)), index(graph)?);
    let hot = put(graph, Op::Binary(Binary::Equal, column, index))?;
    let x = if random.one_in(3) { light(random, graph, pool) } else { tile(random, graph, pool) };
    let zero = graph.make(Op::Constant(Constant::F32(0)));
    let value = put(graph, Op::Select(hot, x, zero))?;
    let axes = graph.ty(value).axes;
    let over = if random.one_in(3) {
        Over::all(axes)
    } else {
        Over { column: Some(Run::All), ..Over::NOTHING }
    };
    put(graph, Op::Reduce(Fold::Sum, over, value))
}

fn picked(random: &mut Random, graph: &mut Graph, pool: &[NodeId]) -> Option<NodeId> {
    let (x, y) = (tile(random, graph, pool), light(random, graph, pool));
    let value = put(graph, Op::Binary(random.of(&COMBINE), x, y))?;
    let index = index(graph)?;
    put(graph, Op::Pick(value, index))
}
