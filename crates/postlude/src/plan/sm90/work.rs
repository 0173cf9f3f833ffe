//! How much a graph computes for every element of a tile.

use crate::graph::{Binary, Fold, Graph, Kind, Op, Unary};

/// About how many instructions an element takes.
pub(super) fn work(graph: &Graph) -> u32 {
    let live = graph.live();
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let of_node = nodes.map(|(_, node)| match &node.op {
        Op::Reduce(fold, _, terms) if graph.ty(*terms).axes.kind() == Kind::Tile => {
            let meeting = if node.ty.axes.kind() == Kind::AlongColumns { 8 } else { 2 };
            meeting + if matches!(fold, Fold::LogSumExp | Fold::Largest(_)) { 10 } else { 1 }
        }
        Op::Pick(..) => 3,
        op if node.ty.axes.kind() == Kind::Tile => of_element(op),
        _ => 0,
    });
    of_node.sum()
}

fn of_element(op: &Op) -> u32 {
    match op {
        Op::Unary(unary, _) => match unary {
            Unary::Negate | Unary::Not | Unary::Abs => 0,
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => 2,
            Unary::IsNan | Unary::IsInf => 1,
            Unary::Sqrt | Unary::Rsqrt | Unary::Rcp | Unary::Exp | Unary::Exp2 => 4,
            Unary::Log | Unary::Log2 => 8,
            Unary::Log1p | Unary::Expm1 | Unary::Tanh | Unary::Erf => 20,
            Unary::Sin | Unary::Cos => 30,
        },
        Op::Binary(Binary::Divide, ..) => 8,
        Op::Binary(Binary::Pow, ..) => 30,
        Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) | Op::Input(_) => 1,
        _ => 0,
    }
}
