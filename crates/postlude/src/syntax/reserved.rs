//! Names with a meaning of their own: they cannot be assigned or declared.

use crate::catalogue;
use crate::dtype::DType;

/// Whether the name is a function of the language; casts are dtypes.
pub(crate) fn is_function(name: &str) -> bool {
    // The derivative of a function is not in the catalogue: it takes a name, not a value.
    name == "grad" || catalogue::find(name).is_some()
}

/// Values and words that are always known.
pub(crate) const WORDS: &[&str] = &["row", "col", "inf", "nan", "pi", "kernel"];

/// Whether the name has a meaning of its own wherever it stands: a function of the first edition, a dtype, or one of `row col inf nan pi kernel`.
///
/// ```
/// use postlude::syntax::is_reserved;
/// assert!(is_reserved("gelu") && is_reserved("bf16") && is_reserved("row"));
/// assert!(!is_reserved("bias"));
/// ```
pub fn is_reserved(name: &str) -> bool {
    is_function(name) && !catalogue::CONTEXTUAL.contains(&name)
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
