//! How much a tile program computes for every element of a tile, and how long the code for it is.

use crate::dtype::DType;
use crate::functions::Accuracy;
use crate::graph::{Binary, Dependence, Fold, Kind, MathMode, NodeId, Op, Unary, accuracies};
use crate::lower::{Ranked, TileProgram};

/// About how many instructions an element takes.
pub(super) fn work(program: &TileProgram) -> u32 {
    let graph = program.graph();
    let accuracies = accuracies(graph, MathMode::default());
    let ranked = ranked_work(program);
    let is_ranked = |op: &Op| ranked.is_some() && op.reduction().is_some();
    let nodes = graph.nodes().filter(|(id, node)| program.is_computed(*id) && !is_ranked(&node.op));
    let of_node = nodes.map(|(id, node)| match node.op.dependence() {
        Dependence::Reduce(fold, _, terms) | Dependence::ReduceWeighted(fold, _, terms, _)
            if graph.ty(terms).axes.kind() == Kind::Tile =>
        {
            let meeting = if node.ty.axes.kind() == Kind::AlongColumns { 8 } else { 2 };
            let exponentials = matches!(fold, Fold::LogSumExp | Fold::LogSumExpAboveMax);
            let indexed = match fold {
                // Each of the results has its part of the insertion.
                Fold::Top(_) => 2,
                _ if fold.uses_index() => 4,
                _ => 0,
            };
            let weighted = if fold.weighted().is_some() { 20 } else { 0 };
            meeting + indexed + weighted + if exponentials { 16 } else { 1 }
        }
        Dependence::Pick(..) => 3,
        Dependence::Source | Dependence::Elementwise(_) => match node.ty.axes.kind() {
            Kind::Tile => of_element(&node.op, accuracies[id.index()]),
            Kind::AlongColumns | Kind::AlongRows | Kind::Scalar => 0,
        },
        Dependence::Reduce(..)
        | Dependence::ReduceWeighted(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => 0,
    });
    of_node.sum::<u32>() + ranked.unwrap_or(0)
}

/// What an element takes of a long list that is ranked, however long it is.
fn ranked_work(program: &TileProgram) -> Option<u32> {
    program.ranked().filter(Ranked::is_long).map(|_| RANKED)
}

/// Instructions of an element whose row's largest are ranked.
const RANKED: u32 = 4;

fn of_element(op: &Op, accuracy: Accuracy) -> u32 {
    let accurate = accuracy == Accuracy::Accurate;
    match op {
        Op::Unary(unary, _) => match unary {
            Unary::Negate | Unary::Not | Unary::Abs => 0,
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => 2,
            Unary::Invert | Unary::IsNan | Unary::IsInf | Unary::Bits | Unary::Float => 1,
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
        Op::Binary(Binary::Fmod, ..) => 150,
        Op::Philox(_) => 35,
        Op::Round(..) => 4,
        Op::Take(..) | Op::Entry(..) => 6,
        Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) | Op::Input(_) => 1,
        Op::Accumulator(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Size(_)
        | Op::Reduce(..)
        | Op::ReduceWeighted(..)
        | Op::Pick(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Concat(..)
        | Op::Call(..) => 0,
    }
}

/// Code for an element that is not worth counting: however many elements a thread has, they make no long kernel.
const SHORT: u32 = 40;

/// About how many lines of code an element takes in all passes over a tile; 0 where that is little.
pub(super) fn lines(program: &TileProgram) -> u32 {
    let graph = program.graph();
    let accuracies = accuracies(graph, MathMode::default());
    let is_ranked = program.ranked().is_some_and(|ranked| ranked.is_long());
    let of_some = |wanted: &dyn Fn(NodeId) -> bool| -> u32 {
        let nodes = graph.nodes().filter(|(id, _)| program.is_computed(*id) && wanted(*id));
        let of_node = nodes.map(|(id, node)| match &node.op {
            Op::Reduce(Fold::ArgMax | Fold::ArgMin, ..) => 8,
            // Code of a vector's elements is there once, whatever is listed of them.
            Op::Reduce(Fold::Top(top), ..) if is_ranked && top.place > 0 => 0,
            Op::ReduceWeighted(Fold::Top(_), ..) => 4,
            Op::Reduce(Fold::LogSumExp | Fold::LogSumExpAboveMax, ..) | Op::ReduceWeighted(..) => {
                40
            }
            Op::Reduce(..) | Op::Pick(..) => 4,
            op => match node.ty.axes.kind() {
                Kind::Tile => lines_of(op, accuracies[id.index()]),
                Kind::AlongColumns | Kind::AlongRows | Kind::Scalar => 0,
            },
        });
        of_node.sum()
    };
    let before = program.row_passes.iter().chain(&program.block_passes).map(|pass| {
        let terms = program.terms_of(pass.iter().flat_map(|reduction| reduction.operands()), true);
        of_some(&|node| terms[node.index()])
    });
    let all = before.fold(of_some(&|_| true), u32::saturating_add);
    if all < SHORT { 0 } else { all }
}

/// About how many lines of code a row, a column and what is single take.
pub(super) fn vector_lines(program: &TileProgram) -> [u64; 3] {
    let graph = program.graph();
    let accuracies = accuracies(graph, MathMode::default());
    let mut lines = [0; 3];
    for (id, node) in graph.nodes().filter(|(id, _)| program.is_computed(*id)) {
        if let Some(place) = vector(node.ty.axes.kind()) {
            lines[place] += u64::from(lines_of(&node.op, accuracies[id.index()]));
        }
    }
    lines
}

/// The place of a kind among lines of vectors.
fn vector(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Tile => None,
        Kind::AlongRows => Some(0),
        Kind::AlongColumns => Some(1),
        Kind::Scalar => Some(2),
    }
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
            | Unary::Invert
            | Unary::Abs
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::IsNan
            | Unary::IsInf
            | Unary::Float => 1,
            Unary::Bits => 2,
        },
        Op::Binary(Binary::Divide, ..) => or(75, 2),
        Op::Binary(Binary::Pow, ..) => or(196, 94),
        Op::Binary(Binary::Fmod, ..) => 150,
        Op::Cast(..) => 5,
        Op::Philox(_) => 70,
        Op::Round(DType::BF16, ..) => 6,
        Op::Round(..) => 25,
        Op::Take(..) | Op::Entry(..) => 12,
        Op::Select(..) | Op::Input(_) => 2,
        Op::Binary(..) | Op::Fma(..) => 1,
        Op::Accumulator(_)
        | Op::Constant(_)
        | Op::Index(_)
        | Op::Extent(_)
        | Op::Size(_)
        | Op::Reduce(..)
        | Op::ReduceWeighted(..)
        | Op::Pick(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Concat(..)
        | Op::Call(..) => 0,
    }
}
