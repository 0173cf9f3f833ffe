//! How much a graph computes for every element of a tile.

use crate::functions::Accuracy;
use crate::graph::{Binary, Fold, Graph, Kind, MathMode, Op, Unary, accuracies};

/// About how many instructions an element takes.
pub(super) fn work(graph: &Graph) -> u32 {
    let (live, accuracies) = (graph.live(), accuracies(graph, MathMode::default()));
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let of_node = nodes.map(|(id, node)| match &node.op {
        Op::Reduce(fold, _, terms) if graph.ty(*terms).axes.kind() == Kind::Tile => {
            let meeting = if node.ty.axes.kind() == Kind::AlongColumns { 8 } else { 2 };
            meeting + if matches!(fold, Fold::LogSumExp | Fold::Largest(_)) { 16 } else { 1 }
        }
        Op::Pick(..) => 3,
        op if node.ty.axes.kind() == Kind::Tile => of_element(op, accuracies[id.index()]),
        _ => 0,
    });
    of_node.sum()
}

fn of_element(op: &Op, accuracy: Accuracy) -> u32 {
    let accurate = accuracy == Accuracy::Accurate;
    match op {
        Op::Unary(unary, _) => match unary {
            Unary::Negate | Unary::Not | Unary::Abs => 0,
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => 2,
            Unary::IsNan | Unary::IsInf => 1,
            Unary::Erf => 20,
            Unary::Sqrt | Unary::Rsqrt | Unary::Rcp | Unary::Exp | Unary::Exp2 if accurate => 8,
            Unary::Log | Unary::Log2 if accurate => 15,
            Unary::Log1p | Unary::Expm1 | Unary::Tanh if accurate => 20,
            Unary::Sin | Unary::Cos if accurate => 30,
            Unary::Log1p | Unary::Expm1 => 10,
            _ => 3,
        },
        Op::Binary(Binary::Divide, ..) => 8,
        Op::Binary(Binary::Pow, ..) => 30,
        Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) | Op::Input(_) => 1,
        _ => 0,
    }
}
