//! Names with a meaning of their own: they cannot be assigned or declared.

use crate::dtype::DType;

/// Every function of the language except casts, in the order of the documentation.
pub(crate) const FUNCTIONS: &[&str] = &[
    // Elementwise.
    "abs",
    "sign",
    "sqrt",
    "rsqrt",
    "rcp",
    "square",
    "exp",
    "exp2",
    "log",
    "log2",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "tanh",
    "erf",
    "floor",
    "ceil",
    "round",
    "clamp",
    "maximum",
    "minimum",
    "pow",
    "fma",
    "where",
    "isnan",
    "isinf",
    // Activations.
    "relu",
    "relu6",
    "leaky_relu",
    "threshold",
    "elu",
    "selu",
    "softplus",
    "sigmoid",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "gelu",
    "gelu_tanh",
    "quick_gelu",
    "relu2",
    "snake",
    // The derivative of a function.
    "grad",
    // Reductions.
    "sum",
    "mean",
    "max",
    "min",
    "absmax",
    "prod",
    "logsumexp",
    // Composites.
    "softmax",
    "log_softmax",
    "rms_norm",
    "layer_norm",
    "topk_softmax",
    // Rearrangements.
    "halves",
    "pairs",
    "concat",
    "join",
    "pick",
];

/// Values and words that are always known.
pub(crate) const WORDS: &[&str] = &["row", "col", "inf", "nan", "pi", "kernel"];

/// Whether the name has a meaning of its own: a function, a dtype, or one of `row col inf nan pi kernel`.
///
/// ```
/// use postlude::syntax::is_reserved;
/// assert!(is_reserved("gelu") && is_reserved("bf16") && is_reserved("row"));
/// assert!(!is_reserved("bias"));
/// ```
pub fn is_reserved(name: &str) -> bool {
    FUNCTIONS.contains(&name)
        || WORDS.contains(&name)
        || DType::from_name(name).is_some()
        || DType::RESERVED.contains(&name)
}

/// Whether the text is a name as the language writes it: ASCII letters, digits and `_`, not
/// beginning with a digit.
///
/// ```
/// use postlude::syntax::is_name;
/// assert!(is_name("bias_2") && !is_name("2bias") && !is_name("my bias"));
/// ```
pub fn is_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
