//! Random kernels whose derivatives are checked.
//!
//! In: a seed. Out: the text of a kernel, and the sizes of its dims. What meets what is drawn loosely: a text that does not
//! type is drawn again by the caller.

use std::collections::BTreeMap;
use std::fmt::Write;

use postlude_corpus::Random;

/// What a drawn value varies along.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Shape {
    /// One for each run of this many rows.
    rows: Option<usize>,
    columns: Option<Columns>,
}

/// Columns, or runs of them, of a part where `part` is above 1.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Columns {
    /// The dim that they are divided from: `N`, or a part that a split names.
    base: &'static str,
    divisor: usize,
    part: usize,
}

/// A kernel that was drawn.
pub(super) struct Drawn {
    pub(super) text: String,
    pub(super) sizes: BTreeMap<String, usize>,
}

struct Drawing {
    random: Random,
    inputs: Vec<String>,
    body: Vec<String>,
    names: Vec<(String, Shape)>,
    shared: Vec<(String, Shape)>,
}

const SCALAR: Shape = Shape { rows: None, columns: None };
const TILE: Shape = Shape { rows: Some(1), columns: Some(WHOLE) };
const WHOLE: Columns = Columns { base: "N", divisor: 1, part: 1 };

impl Columns {
    /// How many there are.
    fn count(self) -> usize {
        let all = match self.base {
            "N" => 8,
            "Q" => 4,
            _ => 2,
        };
        all / self.divisor
    }
}

impl Shape {
    fn dims(self) -> Vec<String> {
        let dim = |name: &str, divisor: usize| match divisor {
            1 => name.to_owned(),
            _ => format!("{name}/{divisor}"),
        };
        let rows = self.rows.map(|rows| dim("M", rows));
        let columns = self.columns.map(|columns| dim(columns.base, columns.divisor));
        rows.into_iter().chain(columns).collect()
    }

    /// The shape of values that meet, if they do.
    fn meet(self, other: Shape) -> Option<Shape> {
        let rows = match (self.rows, other.rows) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (rows, None) | (None, rows) => rows,
        };
        let columns = match (self.columns, other.columns) {
            (Some(a), Some(b)) => {
                let (fine, coarse) = if a.divisor <= b.divisor { (a, b) } else { (b, a) };
                // A part never meets what it was split from.
                if coarse.part > fine.divisor || coarse.base != fine.base {
                    return None;
                }
                Some(Columns { part: fine.part.max(coarse.part), ..fine })
            }
            (columns, None) | (None, columns) => columns,
        };
        Some(Shape { rows, columns })
    }
}

/// Functions of one value, and how it is written so that it is in their domain.
const UNARY: &[&str] = &[
    "tanh(x)",
    "sigmoid(x)",
    "relu(x)",
    "gelu(x)",
    "gelu_tanh(x)",
    "silu(x)",
    "mish(x)",
    "softplus(x)",
    "exp(0.3 * x)",
    "square(x)",
    "sin(x)",
    "cos(x)",
    "abs(x)",
    "rcp(1.5 + square(x))",
    "sqrt(0.5 + square(x))",
    "rsqrt(0.5 + square(x))",
    "log(0.5 + square(x))",
    "log1p(square(x))",
    "log2(1.0 + abs(x))",
    "exp2(0.3 * x)",
    "expm1(0.4 * x)",
    "erf(x)",
    "atan(x)",
    "asinh(x)",
    "sinh(0.4 * x)",
    "cosh(0.4 * x)",
    "tan(0.5 * tanh(x))",
    "logsigmoid(x)",
    "elu(x)",
    "elu(x, 0.7)",
    "selu(x)",
    "leaky_relu(x)",
    "leaky_relu(x, 0.2)",
    "hardswish(2.0 * x)",
    "hardsigmoid(2.0 * x)",
    "relu6(4.0 * x)",
    "relu2(x)",
    "quick_gelu(x)",
    "snake(x, 0.8)",
    "softplus(x, 1.5)",
    "threshold(x, 0.1, 0.3)",
    "clamp(x, -0.4, 0.5)",
    "pow(1.2 + square(x), 1.3)",
    "-x",
    "0.5 * x",
    "x / 1.7",
    "1.3 - x",
    "f32(x)",
    "fmod(x, 0.77)",
    "1.0 / (2.0 + x * x)",
    "--x",
    "x * 1.0",
    "x + 0.0",
    "round(3.0 * x) + x",
    "floor(x) * x",
    "grad(gelu)(x)",
    "grad(silu)(x)",
    "grad(tanh)(x)",
    "grad(softplus)(x)",
];

/// Functions of two values.
const BINARY: &[&str] = &[
    "a + b",
    "a - b",
    "a * b",
    "a * b",
    "a + b",
    "a / (1.5 + square(b))",
    "maximum(a, b)",
    "minimum(a, b)",
    "fma(a, b, a)",
    "a * sigmoid(b)",
    "a * exp(-square(b))",
    "where(a > b, a, 0.5 * b)",
    "where(b > 0.1, a, 0.5 * a)",
    "where(a < 0.2, b, a * b)",
    "pow(0.7 + square(a), 0.5 * tanh(b))",
    "leaky_relu(a, b)",
    "snake(a, 0.6 + square(b))",
    "a * (a - b)",
    "where((a > 0.0) & (b < 0.3), a * b, b)",
    "clamp(a, -0.5 - square(b), 0.6)",
    "fmod(a, 0.6 + square(b))",
    "elu(a, b)",
    "softplus(a, 0.5 + square(b))",
];

/// The text of a random kernel.
pub(super) fn draw(seed: u64) -> Drawn {
    let random = Random::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(seed));
    let mut drawing = Drawing {
        random,
        inputs: vec!["A: f32[M, K]".to_owned(), "W: f32[N, K]".to_owned()],
        body: vec!["z = A @ W.T".to_owned()],
        names: vec![("z".to_owned(), TILE)],
        shared: Vec::new(),
    };
    let steps = drawing.random.range(1, 4);
    for step in 0..steps {
        drawing.statement(step);
    }
    let sizes = [("M", 8), ("N", 8), ("K", 3), ("S", 5), ("Q", 4), ("KV", 2)];
    let sizes = sizes.into_iter().map(|(name, size)| (name.to_owned(), size)).collect();
    Drawn { text: drawing.finish(), sizes }
}

impl Drawing {
    /// A statement: a value, or the parts of one.
    fn statement(&mut self, step: usize) {
        if self.random.chance(40) {
            return self.split(step);
        }
        let (value, shape) = self.value(3);
        let name = format!("y{step}");
        self.body.push(format!("{name} = {value}"));
        self.names.push((name, shape));
    }

    fn split(&mut self, step: usize) {
        let (value, shape) = self.value(2);
        let Some(columns) = shape.columns else { return };
        let run = columns.count();
        if run < 2 {
            return;
        }
        if columns == WHOLE && self.random.one_in(4) {
            let bases = ["Q", "KV", "KV"];
            let names: Vec<String> = (0..3).map(|place| format!("p{step}{place}")).collect();
            self.body.push(format!("{} = split({value}, [Q, KV, KV])", names.join(", ")));
            let parts = names.into_iter().zip(bases).map(|(name, base)| {
                let columns = Some(Columns { base, ..WHOLE });
                (name, Shape { columns, ..shape })
            });
            return self.names.extend(parts);
        }
        let (form, count) = match self.random.below(6) {
            0 | 1 => (format!("halves({value})"), 2),
            2 => (format!("pairs({value})"), 2),
            3 if run >= 4 => (format!("halves({value}, {})", run / 2), 2),
            4 if run >= 4 => (format!("split({value}, 4)"), 4),
            5 if run >= 8 => (format!("split({value}, 2, 4)"), 2),
            _ => (format!("split({value}, 2)"), 2),
        };
        let divisor = columns.divisor * count;
        let part = Shape { columns: Some(Columns { divisor, part: divisor, ..columns }), ..shape };
        let names: Vec<String> = (0..count).map(|place| format!("p{step}{place}")).collect();
        self.body.push(format!("{} = {form}", names.join(", ")));
        self.names.extend(names.into_iter().map(|name| (name, part)));
    }

    /// A value of some shape.
    fn value(&mut self, depth: usize) -> (String, Shape) {
        if depth == 0 || self.random.one_in(6) {
            return self.leaf();
        }
        match self.random.below(12) {
            0..=3 => {
                let (x, shape) = self.value(depth - 1);
                let form = *self.random.pick(UNARY);
                (placed(form, &[("x", &x)]), shape)
            }
            4..=7 => self.binary(depth),
            8 => self.reduction(depth),
            9 => self.normalised(depth),
            10 => self.merged(depth),
            _ => self.read(depth),
        }
    }

    fn binary(&mut self, depth: usize) -> (String, Shape) {
        let (a, left) = self.value(depth - 1);
        for _ in 0..8 {
            let (b, right) = self.value(depth - 1);
            if let Some(shape) = left.meet(right) {
                let form = *self.random.pick(BINARY);
                return (format!("({})", placed(form, &[("a", &a), ("b", &b)])), shape);
            }
        }
        (a, left)
    }

    /// A reduction over rows, columns, both, or runs of them.
    fn reduction(&mut self, depth: usize) -> (String, Shape) {
        let (x, shape) = self.value(depth - 1);
        let functions =
            ["sum", "mean", "max", "min", "absmax", "logsumexp", "var", "sum", "mean", "prod"];
        let function = *self.random.pick(&functions);
        let x = if function == "prod" { format!("1.0 + 0.2 * tanh({x})") } else { x };
        let dims = shape.dims();
        match (shape.rows, shape.columns, self.random.below(5)) {
            (_, Some(_), 0) => {
                let of = format!("{function}({x}, {})", dims[dims.len() - 1]);
                (of, Shape { columns: None, ..shape })
            }
            (Some(_), _, 1) => {
                (format!("{function}({x}, {})", dims[0]), Shape { rows: None, ..shape })
            }
            (_, Some(columns), 2) if columns.count() >= 2 => {
                let run = if columns.count() >= 4 { *self.random.pick(&[2, 4]) } else { 2 };
                let divisor = columns.divisor * run;
                let of = format!("{function}({x}, {}, {run})", dims[dims.len() - 1]);
                (of, Shape { columns: Some(Columns { divisor, ..columns }), ..shape })
            }
            (Some(rows), _, 3) if rows <= 2 => {
                let run = *self.random.pick(&[2, 4]);
                let of = format!("{function}({x}, {}, {run})", dims[0]);
                (of, Shape { rows: Some(rows * run), ..shape })
            }
            (Some(_), Some(_), 4) => (format!("{function}({x}, {}, {})", dims[0], dims[1]), SCALAR),
            _ => (x, shape),
        }
    }

    /// Softmax and norms along rows or columns.
    fn normalised(&mut self, depth: usize) -> (String, Shape) {
        let (x, shape) = self.value(depth - 1);
        let dims = shape.dims();
        if dims.is_empty() {
            return (x, shape);
        }
        let dim = self.random.pick(&dims).clone();
        let form = match self.random.below(4) {
            0 => format!("softmax({x}, {dim})"),
            1 => format!("log_softmax({x}, {dim})"),
            2 => format!("rms_norm({x}, {dim}, 1e-1)"),
            _ => format!("layer_norm({x}, {dim}, 1e-1)"),
        };
        (form, shape)
    }

    /// Parts that are put together.
    fn merged(&mut self, depth: usize) -> (String, Shape) {
        let (a, left) = self.value(depth - 1);
        let (b, right) = self.value(depth - 1);
        let (Some(columns), Some(shape)) = (left.columns, left.meet(right)) else {
            return (a, left);
        };
        if right.columns != left.columns || columns.part == 1 || columns.divisor < 2 {
            return (a, left);
        }
        let divisor = columns.divisor / 2;
        let whole = Columns { divisor, part: divisor, ..columns };
        let form = match self.random.below(3) {
            0 => format!("join({a}, {b})"),
            1 if columns.count() >= 4 => format!("concat({a}, {b}, 4)"),
            _ => format!("concat({a}, {b})"),
        };
        (form, Shape { columns: Some(whole), ..shape })
    }

    /// Elements by their numbers.
    fn read(&mut self, depth: usize) -> (String, Shape) {
        match self.random.below(4) {
            0 => {
                self.declare("index: i32[M]");
                self.declare("G: f32[S, N]");
                ("gather(G, index)".to_owned(), TILE)
            }
            1 => {
                self.declare("index: i32[M]");
                self.declare("table: f32[S]");
                ("take(table, index)".to_owned(), Shape { rows: Some(1), columns: None })
            }
            _ => {
                let (x, shape) = self.value(depth - 1);
                if shape != TILE {
                    return (x, shape);
                }
                self.declare("target: i32[M]");
                (format!("pick({x}, target)"), Shape { columns: None, ..shape })
            }
        }
    }

    fn declare(&mut self, declaration: &str) {
        if !self.inputs.iter().any(|input| input == declaration) {
            self.inputs.push(declaration.to_owned());
        }
    }

    /// An earlier value, an input, or a number.
    fn leaf(&mut self) -> (String, Shape) {
        if self.random.chance(55) {
            let names = self.names.clone();
            return self.random.pick(&names).clone();
        }
        if !self.shared.is_empty() && self.random.chance(40) {
            let shared = self.shared.clone();
            return self.random.pick(&shared).clone();
        }
        let columns = |divisor: usize| Some(Columns { divisor, ..WHOLE });
        let shape = match self.random.below(10) {
            0 | 1 => Shape { rows: Some(1), columns: None },
            2 | 3 => Shape { rows: None, columns: columns(1) },
            4 => TILE,
            5 => SCALAR,
            6 => Shape { rows: Some(1), columns: columns(*self.random.pick(&[2, 4])) },
            7 => Shape { rows: Some(*self.random.pick(&[2, 4])), columns: columns(1) },
            8 => Shape { rows: None, columns: columns(*self.random.pick(&[2, 4])) },
            _ => Shape { rows: Some(2), columns: columns(4) },
        };
        let name = format!("x{}", self.shared.len());
        self.inputs.push(format!("{name}: f32[{}]", shape.dims().join(", ")));
        self.shared.push((name.clone(), shape));
        (name, shape)
    }

    /// The kernel, with the last values as outputs.
    fn finish(mut self) -> String {
        let mut outputs = Vec::new();
        let count = if self.random.one_in(3) { 2 } else { 1 };
        for output in 0..count {
            let mut last: Vec<(String, Shape)> = self.names.iter().rev().take(4).cloned().collect();
            let (value, shape) = last.swap_remove(self.random.below(last.len()));
            let (other, other_shape) = self.value(1);
            let (value, shape) = match shape.meet(other_shape) {
                Some(shape) if self.random.chance(70) => (format!("{value} + {other}"), shape),
                _ => (format!("0.7 * {value}"), shape),
            };
            self.body.push(format!("o{output} = {value}"));
            outputs.push(format!("o{output}: f32[{}]", shape.dims().join(", ")));
        }
        if self.random.chance(85) {
            self.inputs.push("B: f32[M, N]".to_owned());
            self.body.push("other = 0.5 * B".to_owned());
            outputs.push("other: f32[M, N]".to_owned());
        }
        let mut text = String::new();
        let (inputs, outputs) = (self.inputs.join(", "), outputs.join(", "));
        let _ = writeln!(text, "kernel p({inputs}) -> ({outputs}) {{");
        for line in &self.body {
            let _ = writeln!(text, "    {line}");
        }
        text.push_str("}\n");
        text
    }
}

/// A form with values in the places of its letters.
fn placed(form: &str, values: &[(&str, &str)]) -> String {
    let (mut out, mut word) = (String::new(), String::new());
    for letter in form.chars().chain(['\n']) {
        if letter.is_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        match values.iter().find(|(name, _)| *name == word) {
            Some((_, value)) => {
                let _ = write!(out, "({value})");
            }
            None => out.push_str(&word),
        }
        word.clear();
        if letter != '\n' {
            out.push(letter);
        }
    }
    out
}

/// Kernels that read the derivative of each function, in its domain.
pub(super) fn second_derivatives() -> impl Iterator<Item = String> {
    let has_derivative = |function: &str| {
        let is_step = ["f32", "floor", "round", "where"].contains(&function);
        postlude::catalogue::find(function).is_some() && !is_step
    };
    let of_grad = move |form: &str| {
        let (function, rest) = form.split_once('(')?;
        has_derivative(function).then(|| format!("grad({function})({rest}"))
    };
    let one = UNARY.iter().filter_map(move |form| of_grad(form));
    let two = BINARY.iter().filter_map(move |form| of_grad(form));
    let one = one.map(|form| placed(&form, &[("x", "A @ W.T")]));
    let two = two.map(|form| placed(&form, &[("a", "A @ W.T"), ("b", "X")]));
    one.chain(two).map(|value| {
        format!("kernel p(A: f32[M, K], W: f32[N, K], X: f32[M, N]) -> o: f32[M, N] {{\n    o = {value} * A @ W.T + X\n}}\n")
    })
}
