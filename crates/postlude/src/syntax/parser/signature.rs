//! `kernel name(inputs) -> (outputs)`.

use crate::dtype::DType;
use crate::syntax::ast::{Declaration, Name, Signature};
use crate::syntax::error::{ReservedAction, ReservedKind, SyntaxError, Wanted};
use crate::syntax::reserved::{WORDS, is_function};
use crate::syntax::span::Span;
use crate::syntax::token::TokenKind;
use crate::syntax::{is_reserved, nearest};

use super::{Parsed, Parser};

/// How others spell the dtypes.
const FOREIGN_DTYPES: &[(&str, DType)] = &[
    ("float", DType::F32),
    ("float32", DType::F32),
    ("fp32", DType::F32),
    ("single", DType::F32),
    ("float16", DType::F16),
    ("fp16", DType::F16),
    ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("bfloat", DType::BF16),
    ("f8", DType::F8E4M3),
    ("fp8", DType::F8E4M3),
    ("float8", DType::F8E4M3),
    ("e4m3", DType::F8E4M3),
    ("e4m3fn", DType::F8E4M3),
    ("fp8e4m3", DType::F8E4M3),
    ("fp8_e4m3", DType::F8E4M3),
    ("f8e4m3fn", DType::F8E4M3),
    ("float8_e4m3", DType::F8E4M3),
    ("float8_e4m3fn", DType::F8E4M3),
    ("e5m2", DType::F8E5M2),
    ("fp8e5m2", DType::F8E5M2),
    ("fp8_e5m2", DType::F8E5M2),
    ("float8_e5m2", DType::F8E5M2),
    ("e8m0", DType::F8E8M0),
    ("ue8m0", DType::F8E8M0),
    ("fp8_e8m0", DType::F8E8M0),
    ("f8e8m0fnu", DType::F8E8M0),
    ("float8_e8m0fnu", DType::F8E8M0),
    ("int8", DType::I8),
    ("s8", DType::I8),
    ("char", DType::I8),
    ("int4", DType::I4),
    ("s4", DType::I4),
    ("uint4", DType::U4),
    ("uint8", DType::U8),
    ("byte", DType::U8),
    ("int", DType::I32),
    ("int32", DType::I32),
    ("s32", DType::I32),
    ("boolean", DType::Bool),
    ("bit", DType::B1),
    ("bits", DType::B1),
];

/// Dtypes of other tools that none of ours is the same as, and how their arrays are passed.
const PASSED: &[(&[&str], &str)] = &[
    (
        &["i64", "int64", "long", "s64"],
        "declare it `i32`: int64 arrays bind to `i32` inputs that are indices, ends or counts",
    ),
    (
        &["u64", "uint64", "u32", "uint32", "i16", "int16", "short", "u16", "uint16"],
        "declare it `i32`, and convert the array, as in `array.astype(\"int32\")`",
    ),
    (
        &["f64", "float64", "double", "fp64"],
        "declare it `f32`: float64 arrays are rounded before the call, as in `array.astype(\"float32\")`",
    ),
];

impl Parser<'_> {
    /// The signature, from `kernel` to before `{`.
    pub(super) fn signature(&mut self) -> Parsed<Signature> {
        // Newlines mean nothing before the body.
        self.free += 1;
        self.advance();
        let token = self.peek();
        if token.kind != TokenKind::Name {
            return Err(self.unexpected(Wanted::Name));
        }
        self.advance();
        let name = Name::new(self.text(token.span), token.span);
        if name.text == "kernel" {
            self.report_reserved(token.span, ReservedAction::Declared);
        }
        if self.peek().kind != TokenKind::OpenParenthesis {
            return Err(self.unexpected(Wanted::Symbol("(")));
        }
        self.refuse_unnamed(&["A", "B", "C"])?;
        let inputs = self.declarations()?;
        let inputs_end = self.previous().map_or(token.span, |last| last.span);
        if !self.eat(TokenKind::Arrow) {
            self.report(SyntaxError::MissingArrow { at: inputs_end });
        }
        let outputs = match self.peek().kind {
            TokenKind::OpenParenthesis => {
                self.refuse_unnamed(&["D", "E", "F", "G"])?;
                self.declarations()?
            }
            TokenKind::Name => vec![self.declaration()?],
            // Without `->` nothing more needs to be said.
            _ if matches!(self.errors.last(), Some(SyntaxError::MissingArrow { .. })) => Vec::new(),
            _ => return Err(self.unexpected(Wanted::Declaration)),
        };
        self.free = 0;
        let signature = Signature { fused: false, name, inputs, outputs };
        self.remember(&signature);
        Ok(signature)
    }

    /// Declarations in parentheses, from `(` on.
    fn declarations(&mut self) -> Parsed<Vec<Declaration>> {
        self.enter();
        let (level, free) = (self.open.len(), self.free);
        let mut declarations = Vec::new();
        while self.peek().kind != TokenKind::CloseParenthesis {
            if let Ok(declaration) = self.declaration() {
                declarations.push(declaration);
            } else {
                self.open.truncate(level);
                self.free = free;
                self.skip_declaration();
            }
            let next = self.peek();
            if self.eat(TokenKind::Comma) {
                continue;
            }
            if next.kind != TokenKind::Name {
                break;
            }
            let found = self.excerpt(next.span);
            self.report(SyntaxError::Expected {
                wanted: Wanted::CommaOr(')'),
                found,
                at: next.span,
            });
        }
        self.leave(Wanted::CommaOr(')'))?;
        Ok(declarations)
    }

    /// Goes to the `,` or the end of the list in which a mistake was reported.
    fn skip_declaration(&mut self) {
        loop {
            match self.peek().kind {
                TokenKind::Comma
                | TokenKind::CloseParenthesis
                | TokenKind::Arrow
                | TokenKind::OpenBrace
                | TokenKind::CloseBrace
                | TokenKind::End => return,
                _ => {}
            }
            self.position = match self.partners[self.position] {
                Some(partner) if partner as usize > self.position => partner as usize + 1,
                Some(_) | None => self.position + 1,
            };
        }
    }

    /// `name: dtype[dims]`, `name: dtype[dims] = other` or `name: dtype`.
    fn declaration(&mut self) -> Parsed<Declaration> {
        self.refuse_unnamed_type()?;
        let token = self.peek();
        if token.kind != TokenKind::Name {
            return Err(self.unexpected(Wanted::Declaration));
        }
        self.advance();
        let name = Name::new(self.text(token.span), token.span);
        if is_reserved(&name.text) {
            self.report_reserved(token.span, ReservedAction::Declared);
        }
        match self.peek().kind {
            TokenKind::Colon => _ = self.advance(),
            TokenKind::Comma
            | TokenKind::CloseParenthesis
            | TokenKind::OpenBrace
            | TokenKind::Name => {
                let name = self.excerpt(token.span);
                return Err(self.report(SyntaxError::MissingType { name, at: token.span }));
            }
            _ => return Err(self.unexpected(Wanted::Symbol(":"))),
        }
        let (dtype, written) = self.dtype()?;
        let (dims, end) = if self.peek().kind == TokenKind::OpenBracket {
            let (dims, end) = self.dims()?;
            (Some(dims), end)
        } else {
            (None, written)
        };
        let same_as = if self.eat(TokenKind::Assign) { Some(self.other_input()?) } else { None };
        Ok(Declaration { name, dtype, dims, same_as, type_span: written.to(end) })
    }

    /// The name behind `=`.
    fn other_input(&mut self) -> Parsed<Name> {
        let token = self.peek();
        if token.kind != TokenKind::Name {
            return Err(self.unexpected(Wanted::Name));
        }
        self.advance();
        Ok(Name::new(self.text(token.span), token.span))
    }

    /// A dtype. An unknown one is reported and read as any, so that what follows is still read.
    fn dtype(&mut self) -> Parsed<(DType, Span)> {
        let token = self.peek();
        if token.kind != TokenKind::Name {
            return Err(self.unexpected(Wanted::Type));
        }
        self.advance();
        let (at, text) = (token.span, self.text(token.span));
        if let Some(dtype) = DType::from_name(text) {
            return Ok((dtype, at));
        }
        let name = self.excerpt(at);
        if DType::RESERVED.contains(&text) {
            self.report(SyntaxError::DtypeNotInThisVersion { name, at });
        } else {
            let lower = text.to_lowercase();
            let passed = PASSED.iter().find(|(names, _)| names.contains(&lower.as_str()));
            let (meant, passed) = (meant_dtype(text), passed.map(|(_, how)| *how));
            self.report(SyntaxError::UnknownDtype { name, meant, passed, at });
        }
        Ok((DType::F32, at))
    }

    pub(super) fn report_reserved(&mut self, at: Span, action: ReservedAction) {
        let name = self.text(at);
        let kind = if is_function(name) {
            ReservedKind::Function
        } else if WORDS.contains(&name) {
            ReservedKind::Word
        } else {
            ReservedKind::Dtype
        };
        let name = name.to_owned();
        self.report(SyntaxError::ReservedName { name, kind, action, at });
    }
}

/// The dtype that an unknown name was probably meant to be.
fn meant_dtype(text: &str) -> Option<&'static str> {
    let lower = text.to_lowercase();
    match FOREIGN_DTYPES.iter().find(|(name, _)| *name == lower) {
        Some((_, dtype)) => Some(dtype.name()),
        None => nearest(text, DType::ALL.map(DType::name)),
    }
}
