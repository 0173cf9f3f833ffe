//! Random graphs for tests of passes: every operation, with arguments.
//!
//! The random kernels of `postlude fuzz` are text, with values that functions keep accurate. These graphs have what no text
//! spells, groups of operations that rules look for, and constants and data that are NaN, infinite or zeros of both signs.
//!
//! In: a seed. Out: a defined graph, sizes and arguments; the same for the same seed. Columns number 16, or none, so that
//! every divisor up to 16 comes out even.

mod arguments;
mod inputs;
mod motifs;

use crate::dtype::{DType, Elem};
use crate::graph::{
    Axes, Binary, Constant, Fold, Graph, IndexAxis, InputId, Merge, NodeId, Op, Output, Over, Part,
    ProductId, Run, Unary,
};
use crate::problem::{Arguments, Problem};

/// A kernel that can be run.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The kernel, defined.
    pub(super) graph: Graph,
    /// Its sizes.
    pub(super) problem: Problem,
    /// Its arguments.
    pub(super) arguments: Arguments<'static>,
}

/// The kernel of a seed.
pub(super) fn case(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let graph = graph(&mut random);
    let (problem, arguments) = arguments::arguments(&mut random, &graph);
    Case { graph, problem, arguments }
}

/// A small generator: xorshift with a multiplication (Vigna, "An experimental exploration of Marsaglia's xorshift
/// generators, scrambled").
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(super) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..4).for_each(|_| {
            random.next();
        });
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// A number below `count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    /// True once in this many times.
    pub(super) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of these.
    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

/// Constants that rules look for, and some that they do not.
const NUMBERS: [f32; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -4.0,
    3.0,
    0.1,
    -1.7,
    6.0,
    1e-3,
    100.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];
const INTEGERS: [i32; 7] = [0, 1, -1, 2, 7, i32::MIN, i32::MAX];
const FOLDS: [Fold; 10] = [
    Fold::Sum,
    Fold::Sum,
    Fold::Prod,
    Fold::Max,
    Fold::Min,
    Fold::AbsMax,
    Fold::LogSumExp,
    Fold::LogSumExpAboveMax,
    Fold::ArgMax,
    Fold::ArgMin,
];
const MERGES: [Merge; 2] = [Merge::Concat, Merge::Join];
/// Divisors of the column name's size.
const WIDEST: u32 = 16;

/// A random defined graph.
fn graph(random: &mut Random) -> Graph {
    let mut graph = inputs::signature(random);
    let mut pool = leaves(&mut graph, random);
    let steps = 4 + random.below(28);
    for _ in 0..steps {
        if random.one_in(4) {
            motifs::motif(random, &mut graph, &mut pool);
            continue;
        }
        for _ in 0..40 {
            let op = operation(random, &graph, &pool);
            let fits = graph.type_of(&op).is_ok_and(|ty| {
                ty.axes.column.is_none_or(|divisor| WIDEST.is_multiple_of(divisor))
            });
            if fits {
                let Ok(node) = graph.add(op) else { panic!("compiler bug: a type that fits") };
                pool.push(node);
                break;
            }
        }
    }
    for place in 0..=random.below(3) {
        let last = pool.len() - 1 - random.below(4).min(pool.len() - 1);
        let output = output(random, &graph, pool[last], format!("out{place}"));
        graph.push_output(output);
    }
    crate::optimise::prune::drop_unused(&graph)
}

fn leaves(graph: &mut Graph, random: &mut Random) -> Vec<NodeId> {
    let mut ops = vec![
        Op::Accumulator(ProductId::FIRST),
        Op::Index(IndexAxis::Row),
        Op::Index(IndexAxis::Column),
    ];
    ops.extend((0..graph.inputs().len()).map(|place| Op::Input(InputId(place as u32))));
    ops.push(Op::Extent(graph.space().accumulator_axes()));
    ops.push(Op::Constant(Constant::Bool(random.one_in(2))));
    for _ in 0..4 {
        ops.push(Op::number(random.of(&NUMBERS)));
    }
    ops.push(Op::Constant(Constant::I32(random.of(&INTEGERS))));
    // The operands of the product are inputs of the body only where their dims are its.
    ops.into_iter().filter_map(|op| graph.add(op).ok()).collect()
}

/// An operand, more often a late one.
fn operand(random: &mut Random, pool: &[NodeId]) -> NodeId {
    let back = if random.one_in(2) { random.below(pool.len()) } else { random.below(5) };
    pool[pool.len() - 1 - back.min(pool.len() - 1)]
}

/// A second operand of the same element type, if one is found.
fn partner(random: &mut Random, graph: &Graph, pool: &[NodeId], of: NodeId) -> NodeId {
    if random.one_in(8) {
        return of;
    }
    (0..8)
        .map(|_| operand(random, pool))
        .find(|node| graph.ty(*node).elem == graph.ty(of).elem)
        .unwrap_or(of)
}

fn operation(random: &mut Random, graph: &Graph, pool: &[NodeId]) -> Op {
    let a = operand(random, pool);
    let axes = graph.ty(a).axes;
    match random.below(24) {
        0..=4 => Op::Unary(random.of(&Unary::ALL), a),
        5..=11 => Op::Binary(random.of(&Binary::ALL), a, partner(random, graph, pool, a)),
        12 => {
            let (b, c) = (partner(random, graph, pool, a), partner(random, graph, pool, a));
            Op::Fma(a, b, c)
        }
        13 | 14 => Op::Select(operand(random, pool), a, partner(random, graph, pool, a)),
        15 | 16 => Op::Cast(random.of(&DType::ALL), a),
        17 => Op::Constant(match graph.ty(a).elem {
            Elem::F32 => Constant::F32(random.of(&NUMBERS).to_bits()),
            Elem::I32 => Constant::I32(random.of(&INTEGERS)),
            Elem::Bool => Constant::Bool(random.one_in(2)),
        }),
        18 | 19 => Op::Reduce(random.of(&FOLDS), over(random, axes), a),
        20 => Op::Pick(a, operand(random, pool)),
        21 => Op::Part(random.of(&Part::HALVES), a),
        22 => Op::Merge(random.of(&MERGES), a, partner(random, graph, pool, a)),
        _ => one_hot(random, graph, pool, a),
    }
}

/// A condition that one column meets, or a term that only it has.
fn one_hot(random: &mut Random, graph: &Graph, pool: &[NodeId], a: NodeId) -> Op {
    let columns = pool.iter().copied().find(|node| graph[*node].op == Op::Index(IndexAxis::Column));
    let columns = columns.unwrap_or(a);
    let zero = pool.iter().copied().find(|node| graph[*node].op == Op::number(0.0));
    let hot = pool.iter().copied().find(|node| {
        matches!(graph[*node].op, Op::Binary(Binary::Equal, x, y) if x == columns || y == columns)
    });
    match (hot, zero) {
        (Some(hot), Some(zero)) if random.one_in(2) => Op::Select(hot, a, zero),
        _ => Op::Binary(Binary::Equal, columns, a),
    }
}

fn over(random: &mut Random, axes: Axes) -> Over {
    if random.one_in(4) {
        return Over::all(axes);
    }
    let column = match random.below(4) {
        0 => None,
        1 => Some(Run::Group(random.of(&[2, 4]))),
        _ => Some(Run::All),
    };
    Over { batch: random.one_in(3), row: random.one_in(2).then_some(Run::All), column }
}

fn output(random: &mut Random, graph: &Graph, value: NodeId, name: String) -> Output {
    let ty = graph.ty(value);
    let floats =
        [DType::F32, DType::F32, DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::I8];
    let dtype = match ty.elem {
        Elem::Bool if ty.axes.column == Some(1) && random.one_in(2) => DType::B1,
        Elem::Bool => DType::Bool,
        Elem::I32 if random.one_in(2) => DType::I32,
        Elem::F32 | Elem::I32 => random.of(&floats),
    };
    let whole = graph.space().accumulator_axes();
    let spreads = dtype != DType::B1 && ty.axes.fits(whole) && random.one_in(4);
    let mut dims = graph.space().dims(if spreads { whole } else { ty.axes });
    // Bits stay packed along the columns, whose number is right for them.
    if dtype != DType::B1 && random.one_in(4) {
        dims.reverse();
    }
    Output { name, dtype, dims, value, stack: None }
}
