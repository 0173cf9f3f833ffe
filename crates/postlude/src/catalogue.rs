//! Every function of the language: one line each, the one place where a formula or a derivative is written.
//!
//! Formulas are in the language itself; `define` reads them. The documentation's table is printed from here.

/// What sort of function it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Instructions and elementary functions.
    Elementwise,
    /// Activations, as in PyTorch.
    Activation,
    /// Bits of integers and random numbers.
    Bits,
    /// Folds over dims.
    Reduction,
    /// Made of reductions and elementwise functions, along one dim.
    Composite,
    /// Moves values between columns.
    Structure,
}

/// A function of the language.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What sort it is.
    pub group: Group,
    /// Its parameters; `slope=0.01` has a default, `dim` and `k` are not values.
    pub parameters: &'static [&'static str],
    /// Its meaning in terms of other functions; empty for a primitive.
    pub formula: &'static str,
    /// The derivative in the first parameter; empty where there is none or the primitive states it.
    pub derivative: &'static str,
    /// A word on the meaning, or what the derivative is where the function has a kink.
    pub note: &'static str,
}

impl Entry {
    /// How it is called: `leaky_relu(x, slope=0.01)`.
    pub fn call(&self) -> String {
        format!("{}({})", self.name, self.parameters.join(", "))
    }

    /// How many arguments are needed at least.
    pub fn required(&self) -> usize {
        self.parameters.iter().filter(|parameter| !parameter.contains('=')).count()
    }

    /// The default of a parameter, if it has one.
    pub fn default(&self, place: usize) -> Option<f32> {
        self.parameters.get(place)?.split_once('=')?.1.parse().ok()
    }

    /// The parameter's name without its default.
    pub fn parameter(&self, place: usize) -> &'static str {
        self.parameters[place].split('=').next().unwrap_or_default()
    }
}

/// Functions of the second edition: their names are free for inputs and assigned values, and mean the function before `(` only.
#[rustfmt::skip] // A list.
pub const CONTEXTUAL: &[&str] = &[
    "argmax", "argmin", "topk", "split",
    "segments", "masked", "gather", "combine", "scatter", "lshr", "philox", "uniform", "normal", "dropout", "take", "size", "index", "bits", "float",
    "trunc", "tan", "atan", "sinh", "cosh", "asinh", "fmod", "logsigmoid", "var",
];

/// Whether the name is a function's and cannot be given to anything else.
pub fn is_reserved(name: &str) -> bool {
    find(name).is_some() && !CONTEXTUAL.contains(&name)
}

/// The function of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    FUNCTIONS.iter().find(|entry| entry.name == name)
}

const fn e(name: &'static str, parameters: &'static [&'static str], note: &'static str) -> Entry {
    Entry { name, group: Group::Elementwise, parameters, formula: "", derivative: "", note }
}

const fn f(
    name: &'static str,
    parameters: &'static [&'static str],
    formula: &'static str,
    derivative: &'static str,
    note: &'static str,
) -> Entry {
    Entry { name, group: Group::Elementwise, parameters, formula, derivative, note }
}

const fn a(
    name: &'static str,
    parameters: &'static [&'static str],
    formula: &'static str,
    derivative: &'static str,
    note: &'static str,
) -> Entry {
    Entry { name, group: Group::Activation, parameters, formula, derivative, note }
}

const fn b(name: &'static str, parameters: &'static [&'static str], note: &'static str) -> Entry {
    Entry { name, group: Group::Bits, parameters, formula: "", derivative: "", note }
}

const fn r(name: &'static str, note: &'static str) -> Entry {
    Entry {
        name,
        group: Group::Reduction,
        parameters: &["x", "dims..."],
        formula: "",
        derivative: "",
        note,
    }
}

const fn c(
    name: &'static str,
    parameters: &'static [&'static str],
    formula: &'static str,
    note: &'static str,
) -> Entry {
    Entry { name, group: Group::Composite, parameters, formula, derivative: "", note }
}

const fn s(name: &'static str, parameters: &'static [&'static str], note: &'static str) -> Entry {
    Entry { name, group: Group::Structure, parameters, formula: "", derivative: "", note }
}

/// The functions, in the order of the documentation.
#[rustfmt::skip] // A table: one line a function.
pub const FUNCTIONS: &[Entry] = &[
    e("abs", &["x"], "derivative 0 at 0"),
    e("sign", &["x"], "0 at 0, nan of nan"),
    e("sqrt", &["x"], "correctly rounded"),
    e("rsqrt", &["x"], "1 / sqrt(x)"),
    e("rcp", &["x"], "1 / x"),
    f("square", &["x"], "x * x", "2.0 * x", ""),
    e("exp", &["x"], ""),
    e("exp2", &["x"], ""),
    e("log", &["x"], ""),
    e("log2", &["x"], ""),
    e("log1p", &["x"], "log(1 + x), accurate near 0"),
    e("expm1", &["x"], "exp(x) - 1, accurate near 0"),
    e("sin", &["x"], "for |x| <= 65536"),
    e("cos", &["x"], "for |x| <= 65536"),
    e("tanh", &["x"], ""),
    e("erf", &["x"], ""),
    e("floor", &["x"], ""),
    e("ceil", &["x"], ""),
    e("round", &["x"], "ties to even"),
    f("trunc", &["x"], "where(x < 0.0, ceil(x), floor(x))", "0.0", "toward zero"),
    f("tan", &["x"], "sin(x) / cos(x)", "1.0 + square(sin(x) / cos(x))", "for |x| <= 65536"),
    f("atan", &["x"], "where(x == 0.0, x, where(x < 0.0, -(where(abs(x) > 2.414213562373095, 1.5707963267948966, where(abs(x) > 0.41421356237309503, 0.7853981633974483, 0.0)) + ((((0.0805374449538 * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) - 0.138776856032) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) + 0.199777106478) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) - 0.333329491539) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) * (where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) + where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x))))), where(abs(x) > 2.414213562373095, 1.5707963267948966, where(abs(x) > 0.41421356237309503, 0.7853981633974483, 0.0)) + ((((0.0805374449538 * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) - 0.138776856032) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) + 0.199777106478) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) - 0.333329491539) * square(where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) * (where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x)))) + where(abs(x) > 2.414213562373095, -rcp(abs(x)), where(abs(x) > 0.41421356237309503, (abs(x) - 1.0) / (abs(x) + 1.0), abs(x))))))", "rcp(1.0 + square(x))", ""),
    f("sinh", &["x"], "where(abs(x) < 1.0, 0.5 * (expm1(x) - expm1(-x)), sign(x) * (exp(0.5 * abs(x)) * (0.5 * exp(0.5 * abs(x))) - 0.5 * exp(-abs(x))))", "cosh(x)", ""),
    f("cosh", &["x"], "exp(0.5 * abs(x)) * (0.5 * exp(0.5 * abs(x))) + 0.5 * exp(-abs(x))", "sinh(x)", ""),
    f("asinh", &["x"], "where(x == 0.0, x, sign(x) * where(abs(x) > 4096.0, log(abs(x)) + 0.6931471805599453, log1p(abs(x) + square(x) / (1.0 + sqrt(square(x) + 1.0)))))", "rsqrt(1.0 + square(x))", ""),
    f("clamp", &["x", "lo", "hi"], "minimum(maximum(x, lo), hi)", "where((x >= lo) & (x <= hi), 1.0, 0.0)", "derivative 1 at both ends"),
    e("maximum", &["x", "y"], "nan if either is; derivative a half where equal"),
    e("minimum", &["x", "y"], "nan if either is; derivative a half where equal"),
    e("pow", &["x", "y"], ""),
    e("fmod", &["x", "y"], "the remainder with the sign of x, exact, as in C and PyTorch"),
    Entry { derivative: "y", ..e("fma", &["x", "y", "z"], "x * y + z, rounded once") },
    e("where", &["condition", "x", "y"], "selects, never mixes"),
    e("isnan", &["x"], "a condition"),
    e("isinf", &["x"], "a condition"),
    b("lshr", &["x", "count"], "i32 shifted right, filled with zeros; 0 for a count outside 0..31"),
    b("bits", &["x"], "the bits of an f32 as i32; those of nan are 2143289344"),
    b("float", &["bits"], "the f32 with these bits"),
    b("philox", &["seed", "offset"], "the i32 of an element: Philox 4x32-10, counter (col div 4, row, batch, offset), word col mod 4"),
    b("uniform", &["seed", "offset"], "f32 in [0, 1): the upper 24 bits of `philox`"),
    b("normal", &["seed", "offset"], "standard normal, by Box and Muller from the words of two columns"),
    b("dropout", &["x", "p", "seed", "offset"], "0 where `uniform < p`, else x * rcp(1 - p); its own gradient: `dropout(dD, p, seed, offset)`"),
    b("size", &["dim"], "the size of any dim, as an integer literal"),
    b("index", &["dim"], "i32, the place along the batch dim, as `row` and `col` along theirs"),
    a("relu", &["x"], "maximum(x, 0.0)", "where(x <= 0.0, 0.0, 1.0)", "derivative 0 at 0"),
    a("relu6", &["x"], "minimum(maximum(x, 0.0), 6.0)", "where((x <= 0.0) | (x >= 6.0), 0.0, 1.0)", "derivative 0 at 0 and 6"),
    a("leaky_relu", &["x", "slope=0.01"], "where(x > 0.0, x, slope * x)", "where(x > 0.0, 1.0, slope)", "derivative slope at 0"),
    a("threshold", &["x", "t", "value"], "where(x <= t, value, x)", "where(x <= t, 0.0, 1.0)", "derivative 0 at t"),
    a("elu", &["x", "alpha=1.0"], "where(x > 0.0, x, alpha * expm1(x))", "where(x > 0.0, 1.0, alpha * exp(x))", "derivative alpha at 0"),
    a("selu", &["x"], "1.0507009873554805 * where(x > 0.0, x, 1.6732632423543772 * expm1(x))", "1.0507009873554805 * where(x > 0.0, 1.0, 1.6732632423543772 * exp(x))", "derivative 1.758 at 0"),
    a("softplus", &["x", "beta=1.0"], "maximum(x, 0.0) + log1p(exp(-abs(x)))", "sigmoid(x)", "with beta: softplus(beta * x) / beta"),
    a("logsigmoid", &["x"], "-softplus(-x)", "sigmoid(-x)", ""),
    a("sigmoid", &["x"], "rcp(1.0 + exp(-x))", "sigmoid(x) * sigmoid(-x)", ""),
    a("silu", &["x"], "x * sigmoid(x)", "sigmoid(x) * (1.0 + x * sigmoid(-x))", ""),
    a("mish", &["x"], "x * tanh(softplus(x))", "tanh(softplus(x)) + x * sigmoid(x) * (1.0 - square(tanh(softplus(x))))", ""),
    a("hardswish", &["x"], "x * minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0", "where(x <= -3.0, 0.0, where(x < 3.0, x / 3.0 + 0.5, 1.0))", "derivative 0 at -3, 1 at 3"),
    a("hardsigmoid", &["x"], "minimum(maximum(x + 3.0, 0.0), 6.0) / 6.0", "where((x > -3.0) & (x < 3.0), 0.16666666666666666, 0.0)", "derivative 0 at -3 and 3"),
    a("gelu", &["x"], "0.5 * x * (1.0 + erf(0.7071067811865476 * x))", "0.5 * (1.0 + erf(0.7071067811865476 * x)) + 0.3989422804014327 * x * exp(-0.5 * square(x))", "the erf form"),
    a("gelu_tanh", &["x"], "x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * square(x)))", "sigmoid(1.5957691216057308 * (x + 0.044715 * x * square(x))) + x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * square(x))) * sigmoid(-(1.5957691216057308 * (x + 0.044715 * x * square(x)))) * (1.5957691216057308 * (1.0 + 0.134145 * square(x)))", "the tanh form: 0.5 * (1 + tanh(u)) is sigmoid(2 * u)"),
    a("quick_gelu", &["x"], "x * sigmoid(1.702 * x)", "sigmoid(1.702 * x) * (1.0 + 1.702 * x * sigmoid(-1.702 * x))", ""),
    a("relu2", &["x"], "square(maximum(x, 0.0))", "2.0 * maximum(x, 0.0)", "derivative 0 at 0"),
    a("snake", &["x", "a"], "x + square(sin(a * x)) / a", "1.0 + sin(2.0 * a * x)", ""),
    r("sum", "0 when empty"),
    r("mean", "nan when empty; f32 also of i32"),
    r("var", "mean(square(x - mean(x))); nan when empty; f32 also of i32"),
    r("max", "-inf when empty; nan if any is"),
    r("min", "inf when empty; nan if any is"),
    r("absmax", "largest magnitude; 0 when empty; nan if any is"),
    r("prod", "1 when empty"),
    r("argmax", "the index of the largest, i32; the lowest of equal ones, the first of nan"),
    r("argmin", "the index of the smallest, i32; the lowest of equal ones, the first of nan"),
    r("logsumexp", "log(sum(exp(x))) without overflow; -inf when empty"),
    c("softmax", &["x", "dim"], "exp(x - max(x, dim)) / sum(exp(x - max(x, dim)), dim)", ""),
    c("log_softmax", &["x", "dim"], "x - logsumexp(x, dim)", ""),
    c("rms_norm", &["x", "dim", "eps"], "x * rsqrt(mean(square(x), dim) + eps)", ""),
    c("layer_norm", &["x", "dim", "eps"], "(x - mean(x, dim)) * rsqrt(mean(square(x - mean(x, dim)), dim) + eps)", ""),
    c("topk_softmax", &["x", "k", "dim"], "softmax(where(x < value | (x == value & index < place), -inf, x), dim)", "keeps what `topk` gives, at most k elements: `value` and `index` are its last ones, `place` is the index of x along dim; k is 1 to 64, and where there are fewer elements all are kept"),
    s("halves", &["x"], "`a, b = halves(x)`: the first and the second half of the columns; `halves(x, 128)` inside each run of 128"),
    s("pairs", &["x"], "`a, b = pairs(x)`: the even and the odd columns; `pairs(x, 128)` is the same"),
    s("split", &["x", "parts"], "`q, k, v = split(x, 3)`: equal parts; `split(x, [Q, KV, KV])`: parts of these dims; `split(x, 3, 192)` inside each run of 192"),
    s("concat", &["x", "y"], "undoes halves and splits: `concat(q, k, v)`; `concat(a, b, 128)` inside each run of 128; `concat(q, 0.0, v, [Q, KV, KV])`: parts of these dims, of which those without columns are repeated"),
    s("join", &["x", "y"], "undoes pairs"),
    s("topk", &["x", "k", "dim"], "`values, indices = topk(x, k, N)`: the k largest of each row in order, nan first, and where they are; of equal ones the lower index first; k is 1 to 64, and the results have dims [M, k]"),
    s("take", &["table", "index"], "table[index] of an input with one dim; nan for an index outside of it"),
    s("segments", &["x", "ends"], "`segments(A, ends) @ W.T` with `ends: i32[E]`, `W: bf16[E, N, K]`: the rows of A up to `ends[0]` meet `W[0]`, those up to `ends[1]` meet `W[1]`; rows behind the last end are not written"),
    s("masked", &["x", "count"], "rows of each batch from its count on are 0: `masked(A, count) @ W.T` with `A: bf16[E, C, K]`, `count: i32[E]`, `W: bf16[E, N, K]` does not multiply them"),
    s("gather", &["x", "index"], "rows of x: `gather(X, index)` with `X: bf16[S, N]`, `index: i32[T]` has dims [T, N], also as an operand of `@`; nan for an index outside of X's rows"),
    s("combine", &["x", "position", "weight"], "`combine(D, position, weight)` with `position: i32[T, 2]`, `weight: f32[T, 2]`: the sum of `weight[t, j] * D[position[t, j]]` in the order of j; nan for a position outside of D's rows"),
    s("scatter", &["x", "index", "dim", "weight=1"], "what `gather` reads is summed: `scatter(x, index, S)` with `x: f32[T, N]`, `index: i32[T]` has dims [S, N], `scatter(x, position, S, weight)` with `position: i32[T, 2]`, `weight: f32[T, 2]` counts each row twice, and elements with as many numbers give [S]; numbers outside of S count nowhere"),
    s("pick", &["x", "index"], "x[m, index[m]]; nan for an index outside the columns"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (place, entry) in FUNCTIONS.iter().enumerate() {
            assert!(
                FUNCTIONS[..place].iter().all(|other| other.name != entry.name),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn defaults_come_last_and_are_numbers() {
        for entry in FUNCTIONS {
            for place in 0..entry.parameters.len() {
                let has_default = entry.parameters[place].contains('=');
                assert_eq!(has_default, entry.default(place).is_some(), "{}", entry.name);
                assert!(!has_default || place >= entry.required(), "{}", entry.name);
            }
        }
    }
}
