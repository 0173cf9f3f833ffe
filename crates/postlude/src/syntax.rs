//! The text front end.
//!
//! In: bytes. Out: an [`Ast`] with places, or diagnostics in the user's words. Printing an [`Ast`] and parsing the result gives the same [`Ast`].
//! Invariant: nothing here recurses without bound or panics, whatever the bytes.

mod ast;
mod span;

pub use ast::{
    Ast, Declaration, Expr, ExprId, ExprKind, Exprs, Infix, Name, Number, Prefix, Signature,
    Statement,
};
pub use span::Span;
