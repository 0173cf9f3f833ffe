//! Random nests and the points at which they are judged.

use std::fmt;

pub(super) use postlude_corpus::Random;

/// An expression of `x` and `y`.
#[derive(Clone, Debug)]
pub(super) enum Nest {
    Leaf(&'static str),
    Number(f32),
    Call(&'static str, Vec<Nest>),
    Infix(&'static str, Box<[Nest; 2]>),
    /// A comparison of the first two, and what it chooses between.
    Choice(&'static str, Box<[Nest; 4]>),
}

#[rustfmt::skip]
const OF_ONE: &[&str] = &[
    "exp", "expm1", "exp2", "log", "log1p", "log2", "sinh", "cosh", "tanh", "asinh", "sigmoid", "softplus", "sqrt", "square",
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "softplus", "sqrt", "square", "abs", "-",
    "rsqrt", "rcp", "sin", "cos", "tan", "atan", "erf", "floor", "ceil", "round", "trunc", "sign",
    "silu", "relu", "logsigmoid", "elu", "mish", "gelu",
];
const OF_TWO: &[&str] = &["maximum", "minimum", "maximum", "minimum", "fmod", "pow"];
const INFIX: &[&str] = &["+", "-", "*", "/", "+", "-", "*", "/", "*", "/"];
const COMPARISONS: &[&str] = &["<", ">", "<=", ">="];
#[rustfmt::skip]
const NUMBERS: &[f32] = &[
    0.5, 1.0, 2.0, 3.0, 0.1, -1.0, -2.0, -0.5, 10.0, 100.0, 1e-5, 1e-10, 1e-20, 1e5, 1e10, 1e20, 1.0, 2.0, 0.5, 0.25, 1.5, 88.0, 1e-3, -1e-20, -1e20, 0.0,
];

impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nest::Leaf(name) => f.write_str(name),
            Nest::Number(value) if *value < 0.0 => write!(f, "({value:?})"),
            Nest::Number(value) => write!(f, "{value:?}"),
            Nest::Call("-", arguments) => write!(f, "(-{})", arguments[0]),
            Nest::Call(name, arguments) => {
                write!(f, "{name}(")?;
                for (place, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if place > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
            Nest::Infix(op, sides) => write!(f, "({} {op} {})", sides[0], sides[1]),
            Nest::Choice(op, sides) => {
                let [a, b, yes, no] = &**sides;
                write!(f, "where({a} {op} {b}, {yes}, {no})")
            }
        }
    }
}

impl Nest {
    pub(super) fn parts(&self) -> &[Nest] {
        match self {
            Nest::Leaf(_) | Nest::Number(_) => &[],
            Nest::Call(_, parts) => parts,
            Nest::Infix(_, parts) => &parts[..],
            Nest::Choice(_, parts) => &parts[..],
        }
    }

    /// The calls in it of functions that jump.
    pub(super) fn parts_that_jump(&self) -> Vec<&Nest> {
        let mut all: Vec<&Nest> = self.parts().iter().flat_map(Nest::parts_that_jump).collect();
        if matches!(self, Nest::Call("floor" | "ceil" | "round" | "trunc" | "sign", _)) {
            all.push(self);
        }
        all
    }

    fn parts_mut(&mut self) -> &mut [Nest] {
        match self {
            Nest::Leaf(_) | Nest::Number(_) => &mut [],
            Nest::Call(_, parts) => parts,
            Nest::Infix(_, parts) => &mut parts[..],
            Nest::Choice(_, parts) => &mut parts[..],
        }
    }

    /// The nests that this one is with one part of it made smaller.
    pub(super) fn smaller(&self) -> Vec<Nest> {
        let mut all: Vec<Nest> = self.parts().to_vec();
        if !self.parts().is_empty() {
            all.extend([Nest::Leaf("x"), Nest::Number(1.0)]);
        }
        for place in 0..self.parts().len() {
            for part in self.parts()[place].smaller() {
                let mut other = self.clone();
                other.parts_mut()[place] = part;
                all.push(other);
            }
        }
        all
    }
}

/// A nest three to six functions deep.
pub(super) fn draw_nest(random: &mut Random) -> Nest {
    let depth = random.range(3, 6);
    draw_to(random, depth)
}

fn draw_to(random: &mut Random, depth: usize) -> Nest {
    if depth == 0 || (depth < 3 && random.chance(20)) {
        return match random.below(8) {
            0..4 => Nest::Leaf("x"),
            4 | 5 => Nest::Leaf("y"),
            _ => Nest::Number(*random.pick(NUMBERS)),
        };
    }
    let part = |random: &mut Random| draw_to(random, depth - 1);
    // A deep side beside a shallow one: nests have few nodes for their depth.
    let sides = |random: &mut Random| {
        let other = random.below(depth.min(3));
        let mut sides = [part(random), draw_to(random, other)];
        if random.one_in(2) {
            sides.swap(0, 1);
        }
        sides
    };
    match random.below(100) {
        0..52 => {
            let name = *random.pick(OF_ONE);
            Nest::Call(name, vec![part(random)])
        }
        52..84 => Nest::Infix(random.pick::<&str>(INFIX), Box::new(sides(random))),
        84..93 => Nest::Call(random.pick::<&str>(OF_TWO), sides(random).to_vec()),
        _ => {
            let [yes, no] = sides(random);
            let left = Nest::Leaf(random.pick::<&str>(&["x", "y"]));
            let right = Nest::Number(*random.pick(NUMBERS));
            Nest::Choice(random.pick::<&str>(COMPARISONS), Box::new([left, right, yes, no]))
        }
    }
}

#[rustfmt::skip]
const PLACES: &[f32] = &[
    -0.2, 0.2, 1e-10, -1e-10, 1e-20, 22.5, 29.675_276, 100.0, -100.0, 2.5, -3e38, 3e38, 1e-40, 65504.0, 88.5, -88.5, 0.0, 1.0, -1.0, 4.6, 1e4, -1e4, 1e20, 1e-30,
];

/// Ordinary, tiny, huge and zero.
pub(super) fn draw_point(random: &mut Random, place: usize) -> (f32, f32) {
    let one = |random: &mut Random| {
        let unit = (random.bits() >> 40) as f32 / (1u64 << 24) as f32;
        match random.below(6) {
            0 | 1 => 10.0 * unit - 5.0,
            2 => 200.0 * unit - 100.0,
            3 => {
                let size = 10f32.powf(60.0 * unit - 30.0);
                if random.one_in(2) { size } else { -size }
            }
            4 => *random.pick(PLACES),
            _ => 2.0 * unit - 1.0,
        }
    };
    let x = if place < PLACES.len() { PLACES[place] } else { one(random) };
    (x, one(random))
}
