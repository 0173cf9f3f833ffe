//! The text front end.
//!
//! In: bytes. Out: an [`Ast`] with places, or diagnostics in the user's words. Printing an [`Ast`]
//! and parsing the result gives the same [`Ast`].
//! Invariant: nothing here recurses without bound or panics, whatever the bytes.

mod ast;
mod error;
mod fix;
pub(crate) mod foreign;
pub(crate) mod idioms;
mod lexer;
mod nearest;
mod number;
mod parser;
mod place;
mod print;
mod reserved;
mod span;
mod token;

pub use ast::{
    Ast, Declaration, Definition, Expr, ExprId, ExprKind, Exprs, Infix, Name, Number, Prefix,
    Signature, Statement,
};
pub use error::{Member, ReservedAction, ReservedKind, SyntaxError, Wanted};
pub use nearest::nearest;
pub use parser::{parse, parse_bytes, parse_expression};
pub use place::Place;
pub(crate) use print::{Side, level};
pub use reserved::{is_name, is_reserved};
pub use span::Span;

/// The most expressions a kernel may have.
pub const MAX_NODES: usize = 10_000;

/// The most levels that parentheses, calls and operators before an operand may nest.
pub const MAX_NESTING: usize = 256;

/// The most mistakes reported at a time.
pub const MAX_DIAGNOSTICS: usize = 5;

/// The most bytes a source may have.
pub const MAX_SOURCE: usize = 16 << 20;

/// The most characters of the source that a message quotes at a time.
const EXCERPT: usize = 60;

/// The text on one line, cut to what a message may quote.
pub(crate) fn excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == EXCERPT {
            shown.push('…');
            break;
        }
        shown.push(if character.is_control() { ' ' } else { character });
    }
    shown
}

#[cfg(test)]
mod tests;
