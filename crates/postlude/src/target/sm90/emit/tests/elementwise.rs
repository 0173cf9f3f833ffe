//! Every elementwise operation of the language in an epilogue, assembled by a real assembler.

use std::collections::BTreeSet;
use std::sync::Arc;

use postlude_ptx::entry::Entry;

use crate::catalogue::{FUNCTIONS, Group};
use crate::dtype::Elem;
use crate::graph::{Axes, Binary, Graph, MathMode, Op, Output, ProductId, Unary};
use crate::kernel::{Kernel, Options};
use crate::lower::lower;
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::{Chip, Planning, Tile};

use super::assemble;

/// What an epilogue may read beside the product.
const INPUTS: &[(&str, &str)] = &[
    ("tile", "bf16[M, N]"),
    ("wide", "f32[M, N]"),
    ("bias", "f32[N]"),
    ("scale", "f16[M]"),
    ("label", "i32[M]"),
    ("zero", "i8[N]"),
    ("byte", "u8[M, N]"),
    ("count", "i32[M, N]"),
    ("keep", "bool[M, N]"),
    ("valid", "bool[N]"),
    ("small", "f8e4m3[M, N]"),
    ("smaller", "f8e5m2[M]"),
    ("memory", "f32[]"),
    ("alpha", "f32"),
    ("start", "i32"),
];

/// Bodies by name; `x` is the product.
#[rustfmt::skip] // A table: one line a body.
const BODIES: &[(&str, &str)] = &[
    ("abs", "abs(x)"), ("sign", "sign(x)"), ("sqrt", "sqrt(x)"), ("rsqrt", "rsqrt(x)"), ("rcp", "rcp(x)"),
    ("square", "square(x)"), ("exp", "exp(x)"), ("exp2", "exp2(x)"), ("log", "log(x)"), ("log2", "log2(x)"),
    ("log1p", "log1p(x)"), ("expm1", "expm1(x)"), ("sin", "sin(x)"), ("cos", "cos(x)"), ("tanh", "tanh(x)"),
    ("erf", "erf(x)"), ("floor", "floor(x)"), ("ceil", "ceil(x)"), ("round", "round(x)"),
    ("clamp", "clamp(x, -1.0, alpha)"), ("maximum", "maximum(x, bias)"), ("minimum", "minimum(x, scale)"),
    ("pow", "pow(x, bias)"), ("fma", "fma(x, bias, scale)"), ("where", "where(x < bias, x, scale)"),
    ("isnan", "where(isnan(x), 0.0, x)"), ("isinf", "where(isinf(x), 0.0, x)"),
    ("relu", "relu(x)"), ("relu6", "relu6(x)"), ("leaky_relu", "leaky_relu(x)"), ("threshold", "threshold(x, 0.5, -1.0)"),
    ("elu", "elu(x)"), ("selu", "selu(x)"), ("softplus", "softplus(x)"), ("sigmoid", "sigmoid(x)"), ("silu", "silu(x)"),
    ("mish", "mish(x)"), ("hardswish", "hardswish(x)"), ("hardsigmoid", "hardsigmoid(x)"), ("gelu", "gelu(x)"),
    ("gelu_tanh", "gelu_tanh(x)"), ("quick_gelu", "quick_gelu(x)"), ("relu2", "relu2(x)"), ("snake", "snake(x, alpha)"),
    ("trunc", "trunc(x)"), ("tan", "tan(x)"), ("atan", "atan(x)"), ("sinh", "sinh(x)"), ("cosh", "cosh(x)"), ("asinh", "asinh(x)"),
    ("fmod", "fmod(x, bias)"), ("logsigmoid", "logsigmoid(x)"),
    ("integer_bits", "x + f32((label & zero | ~start ^ byte) << 2)"), ("integer_shifts", "x + f32((label >> start) + lshr(zero, byte) + (zero << count))"),
    ("bits", "x + float(bits(x) ^ count)"), ("uniform", "x + uniform(start, 7)"), ("normal", "x + normal(start, 7)"), ("philox", "x + f32(philox(label, zero))"),
    ("dropout", "dropout(x, alpha, start, 0)"), ("round_bf16", "bf16(x, start, 0) + bias"), ("round_f16", "f16(x, start, 0) + bias"),
    ("round_e4m3", "f8e4m3(x, start, 0) + bias"), ("round_e5m2", "f8e5m2(x, start, 0) + bias"),
    ("take", "x + take(bias, label) * take(scale, zero + count)"), ("size", "x * size(K) + size(M)"),
    ("divide", "x / bias"), ("divide_into", "scale / x"), ("divide_tiles", "tile / (x - wide)"), ("negate", "-x - bias * scale"),
    ("compare", "where((x <= bias) & !keep | x != memory, x, alpha)"),
    ("equal", "where(x == bias, 1.0, x)"),
    ("conditions", "where((x < bias) == (x < scale), x, where((x < alpha) != keep, 1.0, 0.0))"),
    ("condition_selected", "where(where(x < bias, keep, valid), x, 0.0)"),
    ("condition_stored", "f32(x < bias)"),
    ("integers", "x + abs(-label - start * zero) * sign(zero)"),
    ("integer_extremes", "x * f32(maximum(label, zero) - minimum(start, byte))"),
    ("integer_comparisons", "where((label < zero) | (label <= start) & (count == col) | (byte != 3), x, 0.0)"),
    ("integer_selected", "x + where(keep, label, zero)"),
    ("integer_stored", "label * 1000003 + i32(x)"),
    ("indices", "where(col <= row + start, x, -inf)"),
    ("to_i32", "f32(i32(x)) + bias"), ("to_i8", "f32(i8(x * alpha))"), ("to_u8", "f32(u8(x) + byte)"),
    ("to_bool", "where(bool(x), 1.0, 0.0)"), ("bool_of_i32", "where(bool(count), x, 0.0)"),
    ("of_bool", "f32(keep) * x + i32(valid)"), ("to_f16", "f32(f16(x)) + bias"), ("to_bf16", "f32(bf16(x)) + bias"),
    ("to_e4m3", "f32(f8e4m3(x)) + bias"), ("to_e5m2", "f32(f8e5m2(x)) + bias"),
    ("halves_of_i32", "x + bf16(count) + f16(label)"), ("eighths_of_i32", "x + f8e4m3(count)"),
    ("of_eighths", "x * small + smaller"), ("residual", "x + tile"),
];

/// The kernel of a body with the inputs that it names.
pub(super) fn graph(body: &str, output: &str) -> Graph {
    let words: BTreeSet<&str> =
        body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
    let mut inputs = vec!["A: bf16[M, K]".to_owned(), "W: bf16[N, K]".to_owned()];
    let named = INPUTS.iter().filter(|(name, _)| words.contains(name));
    inputs.extend(named.map(|(name, ty)| format!("{name}: {ty}")));
    let inputs = inputs.join(", ");
    let source = format!(
        "kernel case({inputs}) -> D: {output}[M, N] {{\n    x = A @ W.T\n    D = {body}\n}}"
    );
    let kernel = Kernel::parse(&source).unwrap_or_else(|error| panic!("{source}\n{error}"));
    kernel.compile(&Options::default()).optimised().clone()
}

/// The code of a graph whose tensors are all aligned, with a tile.
fn emitted(graph: &Graph, tile: Tile, math: MathMode) -> Entry {
    let sizes = ["M", "N", "K"].map(|dim| (dim.to_owned(), 512)).into();
    let problem = Problem::new(graph, &sizes).expect("sizes of every dim");
    let placements = Placements::packed(graph, &problem);
    let program = Arc::new(lower(graph).expect("it is one launch"));
    let chip = Chip::STANDARD;
    let planning = Planning { program: &program, problem: &problem, placements: &placements, chip };
    let schedule = planning.fit(tile).expect("it is not refused").expect("candidates fit");
    planning.accept(&schedule).expect("it fits").emit(math)
}

pub(super) fn tile(rows: u32, columns: u32) -> Tile {
    let found =
        Chip::STANDARD.tiles().iter().find(|tile| tile.rows == rows && tile.columns == columns);
    *found.unwrap_or_else(|| panic!("no tile of {rows} x {columns}"))
}

/// Whose accurate forms are the longest.
const LONG: &[&str] = &[
    "rsqrt",
    "rcp",
    "log",
    "log2",
    "log1p",
    "expm1",
    "sin",
    "tanh",
    "erf",
    "pow",
    "mish",
    "gelu",
    "snake",
    "divide",
    "divide_tiles",
    "integer_stored",
];

/// The bodies that spill, as `name output`, and how many bytes; `None` without an assembler.
fn spills(tile: Tile, wanted: impl Fn(&str, &str) -> bool) -> Option<Vec<(String, u32)>> {
    let jobs: Vec<(&str, &str, &str)> = BODIES
        .iter()
        .flat_map(|(name, body)| ["f32", "bf16"].map(|output| (*name, *body, output)))
        .filter(|(name, _, output)| wanted(name, output))
        .collect();
    let run = |(name, body, output): &(&str, &str, &str)| {
        let graph = graph(body, output);
        let entry = emitted(&graph, tile, MathMode::Default);
        let log = assemble(&format!("{name}-{output}-{}", tile.columns), &entry)?;
        assert!(!log.contains("C75") && !log.contains("warning"), "{name} {output}: {log}");
        let bytes: u32 =
            log.split(" bytes spill stores").next()?.rsplit(' ').next()?.parse().ok()?;
        Some((format!("{name} {output}"), bytes))
    };
    let every_other =
        |first: usize| jobs.iter().skip(first).step_by(2).map(run).collect::<Option<Vec<_>>>();
    let [first, second] = std::thread::scope(|scope| {
        [0, 1]
            .map(|first| scope.spawn(move || every_other(first)))
            .map(|thread| thread.join().expect("every body assembles"))
    });
    Some(first?.into_iter().chain(second?).filter(|(_, bytes)| *bytes > 0).collect())
}

#[test]
fn small_tiles_never_spill() {
    if let Some(spills) = spills(tile(64, 64), |_, _| true) {
        assert!(spills.is_empty(), "{spills:?}");
    }
}

/// With 128 accumulators a thread there is room for little else. A kernel that spills is dropped for the next tile; how many
/// are may only get less.
#[test]
fn few_spill_on_large_tiles() {
    let wanted = |name: &str, output: &str| output == "bf16" || LONG.contains(&name);
    if let Some(spills) = spills(tile(128, 256), wanted) {
        assert!(spills.len() <= 5 && spills.iter().all(|(_, bytes)| *bytes <= 36), "{spills:?}");
    }
}

/// Sizes appear when a reduction is simplified away; here one is put in.
#[test]
fn sizes_of_dims_are_emitted() {
    let whole = graph("x", "f32");
    let mut graph = whole.emptied();
    let accumulator = graph.make(Op::Accumulator(ProductId::FIRST));
    let axes = graph.space().accumulator_axes();
    let mut value = accumulator;
    for axes in [axes, Axes { row: None, ..axes }, Axes { column: None, ..axes }] {
        let size = graph.make(Op::Extent(axes));
        value = graph.make(Op::Binary(Binary::Divide, value, size));
    }
    graph.push_output(Output { value, ..whole.outputs()[0].clone() });
    let entry = emitted(&graph, tile(64, 64), MathMode::Accurate);
    assemble("sizes", &entry);
}

#[test]
fn every_function_of_the_language_has_a_body() {
    let elementwise = |group| matches!(group, Group::Elementwise | Group::Activation);
    for function in FUNCTIONS.iter().filter(|function| elementwise(function.group)) {
        assert!(BODIES.iter().any(|(name, _)| *name == function.name), "{}", function.name);
    }
}

#[test]
fn every_operation_on_every_type_is_emitted() {
    let mut unary: BTreeSet<String> = BTreeSet::new();
    let mut binary: BTreeSet<String> = BTreeSet::new();
    for (_, body) in BODIES {
        let graph = graph(body, "f32");
        for (_, node) in graph.nodes() {
            match &node.op {
                Op::Unary(op, a) => {
                    unary.insert(format!("{} of {}", op.name(), graph.ty(*a).elem));
                }
                Op::Binary(op, a, _) => {
                    binary.insert(format!("{} of {}", op.name(), graph.ty(*a).elem));
                }
                _ => {}
            }
        }
    }
    for elem in [Elem::F32, Elem::I32, Elem::Bool] {
        for op in Unary::ALL.into_iter().filter(|op| op.gives(elem).is_some()) {
            assert!(unary.contains(&format!("{} of {elem}", op.name())), "{} of {elem}", op.name());
        }
        for op in Binary::ALL.into_iter().filter(|op| op.gives(elem).is_some()) {
            assert!(
                binary.contains(&format!("{} of {elem}", op.name())),
                "{} of {elem}",
                op.name()
            );
        }
    }
}
