//! Literals: `1`, `1.0`, `.5`, `1e-5`.
//!
//! In: text that begins with a digit, or with a point and a digit. Out: its value, how far it
//! reaches, and what is wrong with it.

use super::ast::Number;
use super::error::SyntaxError;
use super::excerpt;
use super::span::Span;

/// Reads the literal that `rest` begins with; `start` is its place in the source.
pub(super) fn read_number(rest: &str, start: usize) -> (Number, usize, Option<SyntaxError>) {
    let length = extent(rest);
    let text = &rest[..length];
    let at = Span::new(start, start + length);
    if is_integer(text) {
        return match text.parse() {
            Ok(value) => (Number::Integer(value), length, None),
            Err(_) => (
                Number::Integer(0),
                length,
                Some(SyntaxError::IntegerTooLarge { text: excerpt(text), at }),
            ),
        };
    }
    match text.parse::<f64>() {
        Ok(value) if is_float(text) => {
            let error = (value as f32)
                .is_infinite()
                .then(|| SyntaxError::FloatTooLarge { text: excerpt(text), at });
            (Number::Float(if error.is_some() { 0.0 } else { value }), length, error)
        }
        Ok(_) | Err(_) => {
            let error =
                SyntaxError::MalformedNumber { text: excerpt(text), meant: meant(text), at };
            (Number::Integer(0), length, Some(error))
        }
    }
}

/// How many bytes look like one number: letters, digits, points, and a sign after the exponent's `e`.
fn extent(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let exponent_sign = matches!(byte, b'+' | b'-')
            && matches!(bytes[end - 1], b'e' | b'E')
            && bytes[..end - 1].iter().all(|before| before.is_ascii_digit() || *before == b'.')
            && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || exponent_sign) {
            break;
        }
        end += 1;
    }
    end
}

fn is_integer(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether only the characters of a float occur; the standard parser settles their order.
fn is_float(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
}

/// What was probably meant by digits that are not a number here.
fn meant(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    for (prefix, radix) in [("0x", 16), ("0b", 2), ("0o", 8)] {
        if let Some(Ok(value)) =
            lower.strip_prefix(prefix).map(|digits| i64::from_str_radix(digits, radix))
        {
            return Some(value.to_string());
        }
    }
    let plain = lower.replace('_', "");
    let plain = plain.strip_suffix('f').unwrap_or(&plain);
    if is_float(plain) && plain.parse::<f64>().is_ok() {
        return Some(excerpt(plain));
    }
    let letters =
        text.find(|character: char| character.is_ascii_alphabetic() || character == '_')?;
    let (digits, name) = text.split_at(letters);
    (is_float(digits)
        && digits.parse::<f64>().is_ok()
        && super::is_name(name)
        && !name.contains('.'))
    .then(|| format!("{} * {}", excerpt(digits), excerpt(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_their_values() {
        for (text, value) in [
            ("0", Number::Integer(0)),
            ("007", Number::Integer(7)),
            ("9223372036854775807", Number::Integer(i64::MAX)),
            ("1.0", Number::Float(1.0)),
            ("1.", Number::Float(1.0)),
            (".5", Number::Float(0.5)),
            ("1e-5", Number::Float(1e-5)),
            ("1E+5", Number::Float(1e5)),
            ("2.5e3", Number::Float(2500.0)),
            ("3.4028234663852886e38", Number::Float(f64::from(f32::MAX))),
            ("1e-400", Number::Float(0.0)),
        ] {
            assert_eq!(read_number(text, 0), (value, text.len(), None));
        }
    }

    #[test]
    fn a_number_ends_where_an_operator_begins() {
        for (text, length) in
            [("1+2", 1), ("1e5-3", 3), ("1-x", 1), ("2*x", 1), ("1.5)", 3), ("1e-x", 2)]
        {
            assert_eq!(read_number(text, 0).1, length, "{text}");
        }
    }
}
