//! Calls as PyTorch, NumPy and Triton write them, in this language.
//!
//! In: a function's name and its arguments as they were written, with names or without. Out: the same call here, or what to
//! do instead. Invariant: a call that is proposed has every argument that its function needs, each in its place.

use crate::catalogue::{self, Entry, Group};
use crate::dtype::DType;

use super::idioms::{self, IDIOMS};
use super::is_name;
use super::reserved::WORDS;

/// An argument as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    /// The name before `=`.
    pub(crate) name: Option<String>,
    /// The value.
    pub(crate) text: String,
}

/// What stands for a call of another tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Instead {
    /// An expression.
    Write(String),
    /// Advice.
    Say(String),
}

impl Instead {
    /// What to do, in words.
    pub(crate) fn fix(self) -> String {
        match self {
            Instead::Write(text) => format!("write `{text}`"),
            Instead::Say(text) => text,
        }
    }
}

/// Functions that are called otherwise here, with the same arguments.
#[rustfmt::skip] // A table.
const RENAMED: &[(&str, &str)] = &[
    ("amax", "max"), ("amin", "min"), ("clip", "clamp"), ("clamp_min", "maximum"), ("clamp_max", "minimum"),
    ("fmax", "maximum"), ("fmin", "minimum"), ("swish", "silu"), ("reciprocal", "rcp"), ("power", "pow"),
    ("chunk", "split"), ("cat", "concat"), ("concatenate", "concat"), ("log_sigmoid", "logsigmoid"),
    ("fabs", "abs"), ("ln", "log"), ("rint", "round"), ("index_select", "gather"),
];

/// Casts by the names that methods and functions elsewhere have.
#[rustfmt::skip] // A table.
const CASTS: &[(&str, DType)] = &[
    ("float", DType::F32), ("float32", DType::F32), ("double", DType::F32), ("float64", DType::F32), ("half", DType::F16),
    ("float16", DType::F16), ("bfloat16", DType::BF16), ("int", DType::I32), ("long", DType::I32), ("int32", DType::I32),
    ("int64", DType::I32), ("int8", DType::I8), ("uint8", DType::U8), ("char", DType::I8), ("byte", DType::U8),
    ("float8_e4m3fn", DType::F8E4M3), ("float8_e5m2", DType::F8E5M2), ("float8e4nv", DType::F8E4M3), ("float8e5", DType::F8E5M2),
];

/// Calls that are operators here: `{0}` is the first argument, with parentheses where it needs them.
#[rustfmt::skip] // A table.
const OPERATORS: &[(&str, &str)] = &[
    ("matmul", "{0} @ {1}"), ("dot", "{0} @ {1}"), ("mm", "{0} @ {1}"), ("bmm", "{0} @ {1}"),
    ("addmm", "{0} + {1} @ {2}"), ("linear", "{0} @ {1}.T + {2}"), ("add", "{0} + {1}"), ("sub", "{0} - {1}"),
    ("subtract", "{0} - {1}"), ("mul", "{0} * {1}"), ("multiply", "{0} * {1}"), ("div", "{0} / {1}"),
    ("divide", "{0} / {1}"), ("true_divide", "{0} / {1}"), ("neg", "-{0}"), ("negative", "-{0}"), ("gt", "{0} > {1}"), ("ge", "{0} >= {1}"),
    ("lt", "{0} < {1}"), ("le", "{0} <= {1}"), ("eq", "{0} == {1}"), ("ne", "{0} != {1}"), ("logical_not", "!{0}"),
    ("logical_and", "{0} & {1}"), ("logical_or", "{0} | {1}"), ("masked_fill", "where({1}, {2}, {0})"),
    ("t", "{0}.T"), ("transpose", "{0}.T"), ("permute", "{0}.T"), ("mT", "{0}.T"), ("mt", "{0}.T"), ("trans", "{0}.T"),
    ("contiguous", "{0}"), ("values", "{0}"), ("detach", "{0}"), ("clone", "{0}"), ("zeros_like", "0.0 * {0}"), ("ones_like", "1.0 + 0.0 * {0}"),
];

/// Parameters by the names that they have elsewhere.
const PARAMETERS: &[(&str, &str)] = &[
    ("axis", "dim"),
    ("dims", "dim"),
    ("min", "lo"),
    ("a_min", "lo"),
    ("max", "hi"),
    ("a_max", "hi"),
    ("negative_slope", "slope"),
    ("input", "x"),
    ("other", "y"),
    ("exponent", "y"),
    ("variance_epsilon", "eps"),
    ("epsilon", "eps"),
];

/// Arguments that say nothing here: results meet other values by the names of their dims, and are what they are declared.
#[rustfmt::skip] // A list.
const NEEDLESS: &[&str] = &["keepdim", "keepdims", "keep_dims", "dtype", "inplace", "out", "training", "correction", "unbiased", "ddof", "sorted", "largest", "stacklevel"];

/// Words for values that the language writes otherwise.
const VALUES: &[(&str, &str)] = &[
    ("True", "write a condition that always holds, such as `col >= 0`, or leave `where` out"),
    ("False", "write a condition that never holds, such as `col < 0`, or leave `where` out"),
    ("None", "leave it out"),
];

/// What a word for a value is written as here.
pub(crate) fn value_instead(word: &str) -> Option<&'static str> {
    VALUES.iter().find(|(known, _)| *known == word).map(|(_, fix)| *fix)
}

/// A call of `function`, where dims are counted in the order of `dims`.
pub(crate) fn call(function: &str, arguments: &[Written], dims: &[String]) -> Option<Instead> {
    let texts: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
    if let ("to" | "type" | "astype" | "cast" | "view_as" | "asarray", [value, dtype]) =
        (function, texts.as_slice())
    {
        let named = cast_named(dtype.rsplit('.').next().unwrap_or_default())?;
        return Some(Instead::Write(format!("{named}({value})")));
    }
    let by_place = arguments.iter().all(|argument| argument.name.is_none());
    if by_place && let Some(text) = operator(function, &texts) {
        return Some(Instead::Write(text));
    }
    if let ("gelu", [value, form]) = (function, arguments)
        && form.name.as_deref() == Some("approximate")
    {
        let name = if form.text.contains("tanh") { "gelu_tanh" } else { "gelu" };
        return Some(Instead::Write(format!("{name}({})", value.text)));
    }
    if let ("size", [_, place]) = (function, texts.as_slice()) {
        return Some(Instead::Write(format!("size({})", numbered(place, dims)?)));
    }
    let renamed = RENAMED.iter().find(|(known, _)| *known == function);
    let name = renamed.map_or(function, |(_, name)| name);
    if let ("pow", [base, "2" | "2.0"]) = (name, texts.as_slice()) {
        return Some(Instead::Write(format!("square({base})")));
    }
    if let (Some(cast), [value]) = (cast_named(function), texts.as_slice()) {
        return Some(Instead::Write(format!("{cast}({value})")));
    }
    if let Some(entry) = catalogue::find(name) {
        return of_entry(entry, arguments, dims).map(Instead::Write);
    }
    idiom(function, &texts, dims)
}

/// A word of another tool's module: `np.pi`, `torch.inf`.
pub(crate) fn word(name: &str) -> Option<Instead> {
    WORDS.contains(&name).then(|| Instead::Write(name.to_owned()))
}

/// The shortest call of this language with the same value: `clamp(x, min=0)` is `maximum(x, 0)`.
pub(crate) fn of_entry(entry: &Entry, arguments: &[Written], dims: &[String]) -> Option<String> {
    if let Some(norm) = affine_norm(entry.name, arguments, dims) {
        return Some(norm);
    }
    let mut slots: Vec<Option<String>> = vec![None; entry.parameters.len()];
    let mut folded: Vec<String> = Vec::new();
    let is_fold = entry.group == Group::Reduction;
    for (place, argument) in arguments.iter().enumerate() {
        let text = || argument.text.trim_matches(['"', '\'']).to_owned();
        let is_dim = |place: usize| matches!(entry.parameters.get(place), Some(&"dim"));
        match &argument.name {
            None if is_fold && place > 0 => folded.extend(listed(&argument.text, dims)?),
            None if is_dim(place) => slots[place] = Some(one_dim(&argument.text, dims)?),
            None => *slots.get_mut(place)? = Some(text()),
            Some(name) if NEEDLESS.contains(&name.as_str()) => {}
            Some(name) => {
                let known = PARAMETERS.iter().find(|(other, _)| other == name);
                let name = known.map_or(name.as_str(), |(_, own)| own);
                let slot = (0..slots.len()).find(|slot| entry.parameter(*slot) == name);
                match slot {
                    Some(slot) if is_dim(slot) => {
                        slots[slot] = Some(one_dim(&argument.text, dims)?);
                    }
                    Some(slot) => slots[slot] = Some(text()),
                    None if name == "dim" && is_fold => {
                        folded.extend(listed(&argument.text, dims)?);
                    }
                    // Parts stand side by side along columns.
                    None if name == "dim" && entry.group == Group::Structure => {}
                    None => return None,
                }
            }
        }
    }
    if let ("clamp", [Some(x), lo, hi]) = (entry.name, slots.as_slice()) {
        match (lo, hi) {
            (Some(lo), None) => return Some(format!("maximum({x}, {lo})")),
            (None, Some(hi)) => return Some(format!("minimum({x}, {hi})")),
            _ => {}
        }
    }
    let needed = if is_fold { 1 } else { entry.required() };
    let last = slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1).max(needed);
    let mut texts = Vec::new();
    for (place, slot) in slots.into_iter().enumerate().take(last) {
        texts.push(match slot {
            Some(text) => text,
            None => sample(entry, place, dims)?,
        });
    }
    texts.extend(folded);
    Some(format!("{}({})", entry.name, texts.join(", ")))
}

/// What an argument that is missing may be.
fn sample(entry: &Entry, place: usize, dims: &[String]) -> Option<String> {
    Some(match entry.parameter(place) {
        "dim" => dims.last()?.clone(),
        "eps" => "1e-5".to_owned(),
        "k" => "8".to_owned(),
        "offset" => "0".to_owned(),
        "parts" => "2".to_owned(),
        _ if entry.default(place).is_some() => {
            entry.parameters[place].split_once('=')?.1.to_owned()
        }
        name => name.to_owned(),
    })
}

/// `layer_norm(x, gamma, beta, eps)`, perhaps with the shape of a row: weights are math behind the norm.
fn affine_norm(function: &str, arguments: &[Written], dims: &[String]) -> Option<String> {
    let texts: Vec<&str> = arguments.iter().map(|argument| argument.text.as_str()).collect();
    let along = dims.last()?;
    let is_shape = |text: &str| text.starts_with(['(', '[']) || text.ends_with("shape");
    match (function, texts.as_slice()) {
        ("layer_norm", [x, gamma, beta, eps]) if !is_shape(gamma) => {
            Some(format!("layer_norm({x}, {along}, {eps}) * {gamma} + {beta}"))
        }
        ("layer_norm", [x, _, gamma, beta, eps]) => {
            Some(format!("layer_norm({x}, {along}, {eps}) * {gamma} + {beta}"))
        }
        ("layer_norm", [x, _, gamma, beta]) => {
            Some(format!("layer_norm({x}, {along}, 1e-5) * {gamma} + {beta}"))
        }
        ("rms_norm", [x, _, gamma, eps]) => {
            Some(format!("rms_norm({x}, {along}, {eps}) * {gamma}"))
        }
        _ => None,
    }
}

/// A dim that is counted, from the front or from behind: `-1` is the last one.
pub(crate) fn numbered(text: &str, dims: &[String]) -> Option<String> {
    let place: i64 = text.trim().parse().ok()?;
    let place = if place < 0 { place + dims.len() as i64 } else { place };
    dims.get(usize::try_from(place).ok()?).cloned()
}

/// A dim, by its number or as it was written.
fn one_dim(text: &str, dims: &[String]) -> Option<String> {
    let mut all = listed(text, dims)?;
    (all.len() == 1).then(|| all.remove(0))
}

/// Dims in parentheses, one, or none: `(0, 1)`, `-1`, `None`.
fn listed(text: &str, dims: &[String]) -> Option<Vec<String>> {
    let inside = text.trim_matches(['(', ')', '[', ']', ' ']);
    let parts = inside.split(',').map(str::trim).filter(|part| !part.is_empty() && *part != "None");
    let dim = |part: &str| {
        let plain = part.trim_matches(['"', '\'']);
        let base = plain.split('/').next().unwrap_or_default();
        numbered(plain, dims).or_else(|| is_name(base).then(|| plain.to_owned()))
    };
    parts.map(dim).collect()
}

fn cast_named(name: &str) -> Option<DType> {
    let cast = CASTS.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    cast.or_else(|| DType::from_name(name))
}

/// The operator that stands for a call, if it has the operator's operands.
fn operator(function: &str, texts: &[&str]) -> Option<String> {
    let (_, pattern) = OPERATORS.iter().find(|(known, _)| *known == function)?;
    let operands = pattern.matches('{').count();
    // The places of transposed dims go: there are two.
    let is_whole = texts.len() == operands || operands == 1 && !texts.is_empty();
    is_whole.then(|| filled(pattern, texts))
}

fn filled(pattern: &str, texts: &[&str]) -> String {
    let mut filled = pattern.to_owned();
    for (place, text) in texts.iter().enumerate() {
        let hole = format!("{{{place}}}");
        let is_argument = pattern.contains('(') || pattern == hole;
        let text = if is_argument { (*text).to_owned() } else { operand(text) };
        filled = filled.replace(&hole, &text);
    }
    filled
}

/// A text as an operand: in parentheses, unless it is a name, a number or a call.
pub(crate) fn operand(text: &str) -> String {
    let is_call = text.ends_with(')')
        && text.split_once('(').is_some_and(|(name, rest)| {
            let mut depth = 1_i32;
            let closes = |character: char| {
                depth += i32::from(character == '(') - i32::from(character == ')');
                depth == 0
            };
            is_name(name) && rest.find(closes) == Some(rest.len() - 1)
        });
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_.".contains(character);
    if is_call || text.chars().all(is_plain) { text.to_owned() } else { format!("({text})") }
}

/// What does the same as a function that the language does not have: with the arguments where they are names, else as its
/// table says it.
fn idiom(function: &str, texts: &[&str], dims: &[String]) -> Option<Instead> {
    let known = IDIOMS.iter().find(|(known, _)| *known == function);
    let Some((_, pattern)) = known else { return idioms::instead(function).map(Instead::Say) };
    let (Some(first), Some(column)) = (texts.first(), dims.last()) else {
        return Some(Instead::Write((*pattern).to_owned()));
    };
    let is_binary = words(pattern).any(|word| word == "b");
    let second = if is_binary { texts.get(1).copied() } else { Some("b") };
    let (true, Some(second)) = (is_name(first), second.filter(|text| is_name(text))) else {
        return Some(Instead::Write((*pattern).to_owned()));
    };
    let along = texts.get(1).filter(|_| !is_binary).and_then(|text| one_dim(text, dims));
    let mut text = String::new();
    for word in words(pattern) {
        text.push_str(match word {
            "z" | "a" => first,
            "b" => second,
            "N" => along.as_deref().unwrap_or(column),
            other => other,
        });
    }
    Some(Instead::Write(text))
}

/// A text cut into its names and what lies between them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive(|character: char| !is_letter(character)).flat_map(|part| {
        let name = part.trim_end_matches(|character| !is_letter(character));
        [name, &part[name.len()..]]
    })
}

fn is_letter(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call as it is written elsewhere, and what is proposed.
    #[rustfmt::skip] // A table: one line a call.
    const CALLS: &[(&str, &[&str], &str)] = &[
        ("max", &["z", "N", "keepdim=True"], "max(z, N)"),
        ("max", &["z", "dim=-1"], "max(z, N)"),
        ("sum", &["z", "axis=(0, 1)"], "sum(z, M, N)"),
        ("mean", &["z", "-1", "keepdim=True"], "mean(z, N)"),
        ("amax", &["z", "dim=0"], "max(z, M)"),
        ("softmax", &["z", "dim=-1", "dtype=torch.float32"], "softmax(z, N)"),
        ("softmax", &["z"], "softmax(z, N)"),
        ("clamp", &["x", "min=0"], "maximum(x, 0)"),
        ("clamp", &["x", "max=6.0"], "minimum(x, 6.0)"),
        ("clamp", &["x", "min=0", "max=1"], "clamp(x, 0, 1)"),
        ("clip", &["x", "0", "1"], "clamp(x, 0, 1)"),
        ("leaky_relu", &["x", "negative_slope=0.1"], "leaky_relu(x, 0.1)"),
        ("gelu", &["x", "approximate=\"tanh\""], "gelu_tanh(x)"),
        ("gelu", &["x", "approximate=\"none\""], "gelu(x)"),
        ("layer_norm", &["x", "g", "b", "eps"], "layer_norm(x, N, eps) * g + b"),
        ("layer_norm", &["x", "(N,)", "g", "b", "1e-6"], "layer_norm(x, N, 1e-6) * g + b"),
        ("dropout", &["x", "0.1"], "dropout(x, 0.1, seed, 0)"),
        ("to", &["x", "torch.bfloat16"], "bf16(x)"),
        ("to", &["x", "bf16"], "bf16(x)"),
        ("float", &["x"], "f32(x)"),
        ("dot", &["a", "b + c"], "a @ (b + c)"),
        ("pow", &["x", "2"], "square(x)"),
        ("masked_fill", &["x", "m", "-inf"], "where(m, -inf, x)"),
        ("size", &["x", "0"], "size(M)"),
        ("chunk", &["x", "2", "dim=-1"], "split(x, 2)"),
        ("norm", &["x", "-1"], "sqrt(sum(square(x), N))"),
        ("detach", &["x"], "x"),
        ("neg", &["a + b"], "-(a + b)"),
    ];

    #[test]
    fn calls_of_other_tools_are_whole_calls_here() {
        let dims = ["M", "N"].map(str::to_owned);
        for (function, arguments, wanted) in CALLS {
            let arguments = arguments.iter().map(|text| match text.split_once('=') {
                Some((name, text)) => {
                    Written { name: Some(name.to_owned()), text: text.to_owned() }
                }
                None => Written { name: None, text: (*text).to_owned() },
            });
            let arguments: Vec<Written> = arguments.collect();
            let found = call(function, &arguments, &dims);
            assert_eq!(found, Some(Instead::Write((*wanted).to_owned())), "{function}");
        }
    }
}
