//! Operands as written.

use std::fmt::{self, Write};

/// An operand of any instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register, special register, symbol, label or `_`.
    Name(String),
    /// A number as written: `12`, `-3`, `0xff`, `0f3F800000`, `1.0`.
    Number(String),
    /// `!a`
    Not(Box<Operand>),
    /// `a|b`
    Pair(Box<Operand>, Box<Operand>),
    /// `a+8`; the offset as written, with its sign.
    Sum(Box<Operand>, String),
    /// `{a, b}`
    Vector(Vec<Operand>),
    /// `(a, b)`: what a call passes.
    Group(Vec<Operand>),
    /// `[a]` or `[a, {b, c}]`
    Address(Vec<Operand>),
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Operand::Name(text) | Operand::Number(text) => f.write_str(text),
            Operand::Not(of) => write!(f, "!{of}"),
            Operand::Pair(first, second) => write!(f, "{first}|{second}"),
            Operand::Sum(base, offset) => write!(f, "{base}{offset}"),
            Operand::Vector(parts) => write_between('{', parts, '}', f),
            Operand::Group(parts) => write_between('(', parts, ')', f),
            Operand::Address(parts) => write_between('[', parts, ']', f),
        }
    }
}

fn write_between(
    open: char,
    parts: &[Operand],
    close: char,
    f: &mut fmt::Formatter,
) -> fmt::Result {
    f.write_char(open)?;
    write_list(parts, f)?;
    f.write_char(close)
}

/// Operands with commas between.
pub(super) fn write_list(parts: &[Operand], f: &mut fmt::Formatter) -> fmt::Result {
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{part}")?;
    }
    Ok(())
}

impl Operand {
    /// The name, when it is one.
    pub fn name(&self) -> Option<&str> {
        if let Operand::Name(text) = self { Some(text) } else { None }
    }

    /// The whole number, when it is one.
    pub fn integer(&self) -> Option<i128> {
        if let Operand::Number(text) = self { parse_integer(text) } else { None }
    }

    /// What stands between braces, when it is a vector.
    pub fn vector(&self) -> Option<&[Operand]> {
        if let Operand::Vector(parts) = self { Some(parts) } else { None }
    }

    /// What stands between brackets, when it is an address.
    pub fn address(&self) -> Option<&[Operand]> {
        if let Operand::Address(parts) = self { Some(parts) } else { None }
    }
}

/// Decimal, hexadecimal, octal or binary, with a sign and the suffix `U`.
pub(crate) fn parse_integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = digits.strip_suffix(['U', 'u']).unwrap_or(digits);
    let value = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        i128::from_str_radix(hex, 16).ok()?
    } else if let Some(binary) = digits.strip_prefix("0b").or_else(|| digits.strip_prefix("0B")) {
        i128::from_str_radix(binary, 2).ok()?
    } else if digits.len() > 1 && digits.starts_with('0') {
        i128::from_str_radix(&digits[1..], 8).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -value } else { value })
}
