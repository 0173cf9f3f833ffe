//! How much a graph computes for every element of a tile, and how long the code for it is.

use crate::functions::Accuracy;
use crate::graph::{Binary, Dependence, Fold, Graph, Kind, MathMode, Op, Unary, accuracies};

use super::limits::vector;
use super::row_pass::{passes, reductions_of_pass, terms_of};

/// About how many instructions an element takes.
pub(super) fn work(graph: &Graph) -> u32 {
    let (live, accuracies) = (graph.live(), accuracies(graph, MathMode::default()));
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let of_node = nodes.map(|(id, node)| match node.op.dependence() {
        Dependence::Reduce(fold, _, terms) if graph.ty(terms).axes.kind() == Kind::Tile => {
            let meeting = if node.ty.axes.kind() == Kind::AlongColumns { 8 } else { 2 };
            let exponentials =
                matches!(fold, Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_));
            meeting + if exponentials { 16 } else { 1 }
        }
        Dependence::Pick(..) => 3,
        Dependence::Source | Dependence::Elementwise(_) => match node.ty.axes.kind() {
            Kind::Tile => of_element(&node.op, accuracies[id.index()]),
            Kind::AlongColumns | Kind::AlongRows | Kind::Scalar => 0,
        },
        Dependence::Reduce(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Call => 0,
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
            Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Rcp
            | Unary::Exp
            | Unary::Exp2
            | Unary::Log
            | Unary::Log2
            | Unary::Tanh
            | Unary::Sin
            | Unary::Cos => 3,
        },
        Op::Binary(Binary::Divide, ..) => 8,
        Op::Binary(Binary::Pow, ..) => 30,
        Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) | Op::Input(_) => 1,
        Op::Accumulator
        | Op::FurtherAccumulator(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Reduce(..)
        | Op::Pick(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Call(..) => 0,
    }
}

/// Code for an element that is not worth counting: however many elements a thread has, they make no long kernel.
const SHORT: u32 = 40;

/// About how many lines of code an element takes in all passes over a tile; 0 where that is little.
pub(super) fn lines(graph: &Graph) -> u32 {
    let (live, accuracies) = (graph.live(), accuracies(graph, MathMode::default()));
    let passes = passes(graph);
    let last = passes.iter().copied().max().unwrap_or(0);
    let of_some = |wanted: &dyn Fn(usize) -> bool| -> u32 {
        let nodes = graph.nodes().filter(|(id, _)| live[id.index()] && wanted(id.index()));
        let of_node = nodes.map(|(id, node)| match &node.op {
            Op::Reduce(Fold::LogSumExp | Fold::LogSumExpAboveMax, ..) => 40,
            Op::Reduce(..) | Op::Pick(..) => 4,
            op => match node.ty.axes.kind() {
                Kind::Tile => lines_of(op, accuracies[id.index()]),
                Kind::AlongColumns | Kind::AlongRows | Kind::Scalar => 0,
            },
        });
        of_node.sum()
    };
    let before = (1..=last).map(|pass| {
        let roots =
            reductions_of_pass(graph, &passes, pass).into_iter().map(|reduction| reduction.terms);
        let terms = terms_of(graph, roots, true);
        of_some(&|node| terms[node])
    });
    let all = before.fold(of_some(&|_| true), u32::saturating_add);
    if all < SHORT { 0 } else { all }
}

/// About how many lines of code a row, a column and what is single take.
pub(super) fn vector_lines(graph: &Graph) -> [u64; 3] {
    let (live, accuracies) = (graph.live(), accuracies(graph, MathMode::default()));
    let mut lines = [0; 3];
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        if let Some(place) = vector(node.ty.axes.kind()) {
            lines[place] += u64::from(lines_of(&node.op, accuracies[id.index()]));
        }
    }
    lines
}

/// Lines of PTX for one element, as counted in kernels of one function each.
fn lines_of(op: &Op, accuracy: Accuracy) -> u32 {
    let or = |accurate: u32, hardware: u32| match accuracy {
        Accuracy::Accurate => accurate,
        Accuracy::Hardware | Accuracy::Fast => hardware,
    };
    match op {
        Op::Unary(unary, _) => match unary {
            Unary::Exp | Unary::Exp2 => or(37, 3),
            Unary::Log | Unary::Log2 => or(56, 2),
            Unary::Log1p => or(55, 51),
            Unary::Expm1 => or(40, 38),
            Unary::Sqrt => or(28, 1),
            Unary::Rsqrt => or(51, 1),
            Unary::Rcp => or(76, 1),
            Unary::Sin | Unary::Cos => or(46, 42),
            Unary::Tanh => or(68, 31),
            Unary::Erf => or(71, 40),
            Unary::Sign => 9,
            Unary::Negate
            | Unary::Not
            | Unary::Abs
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::IsNan
            | Unary::IsInf => 1,
        },
        Op::Binary(Binary::Divide, ..) => or(75, 2),
        Op::Binary(Binary::Pow, ..) => or(196, 94),
        Op::Cast(..) => 5,
        Op::Select(..) | Op::Input(_) => 2,
        Op::Binary(..) | Op::Fma(..) => 1,
        Op::Accumulator
        | Op::FurtherAccumulator(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Reduce(..)
        | Op::Pick(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Call(..) => 0,
    }
}
