//! Expressions, by precedence climbing.
//!
//! Loosest first: `|` · `^` · `&` · comparisons · `<< >>` · `+ -` · `* /` · operators before an operand · `@` · calls, `.T`, `[dims]`.

use crate::shape::Dim;
use crate::syntax::ast::{ExprKind, Infix, Name, Number, Prefix};
use crate::syntax::error::{ReservedAction, SyntaxError, Wanted};
use crate::syntax::span::Span;
use crate::syntax::token::TokenKind;
use crate::syntax::{MAX_NESTING, is_reserved};

use super::{Operand, Parsed, Parser};

/// How tightly an operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    Xor,
    And,
    Comparison,
    Shift,
    Sum,
    Term,
    Product,
    Power,
    Operand,
}

#[derive(Clone, Copy, PartialEq)]
enum Operator {
    Infix(Infix),
    Product,
    Power,
    /// `%` or `//`.
    Foreign,
}

impl Operator {
    fn level(self) -> Level {
        match self {
            Operator::Infix(Infix::Or) => Level::Or,
            Operator::Infix(Infix::Xor) => Level::Xor,
            Operator::Infix(Infix::And) => Level::And,
            Operator::Infix(
                Infix::Less
                | Infix::LessEqual
                | Infix::Greater
                | Infix::GreaterEqual
                | Infix::Equal
                | Infix::NotEqual,
            ) => Level::Comparison,
            Operator::Infix(Infix::ShiftLeft | Infix::ShiftRight) => Level::Shift,
            Operator::Infix(Infix::Add | Infix::Subtract) => Level::Sum,
            Operator::Infix(Infix::Multiply | Infix::Divide) | Operator::Foreign => Level::Term,
            Operator::Product => Level::Product,
            Operator::Power => Level::Power,
        }
    }
}

impl Level {
    fn tighter(self) -> Level {
        match self {
            Level::Or => Level::Xor,
            Level::Xor => Level::And,
            Level::And => Level::Comparison,
            Level::Comparison => Level::Shift,
            Level::Shift => Level::Sum,
            Level::Sum => Level::Term,
            Level::Term => Level::Product,
            Level::Product => Level::Power,
            Level::Power | Level::Operand => Level::Operand,
        }
    }
}

const OPERATORS: &[(TokenKind, Operator)] = &[
    (TokenKind::Plus, Operator::Infix(Infix::Add)),
    (TokenKind::Minus, Operator::Infix(Infix::Subtract)),
    (TokenKind::Star, Operator::Infix(Infix::Multiply)),
    (TokenKind::Slash, Operator::Infix(Infix::Divide)),
    (TokenKind::Less, Operator::Infix(Infix::Less)),
    (TokenKind::LessEqual, Operator::Infix(Infix::LessEqual)),
    (TokenKind::Greater, Operator::Infix(Infix::Greater)),
    (TokenKind::GreaterEqual, Operator::Infix(Infix::GreaterEqual)),
    (TokenKind::EqualEqual, Operator::Infix(Infix::Equal)),
    (TokenKind::BangEqual, Operator::Infix(Infix::NotEqual)),
    (TokenKind::Ampersand, Operator::Infix(Infix::And)),
    (TokenKind::Bar, Operator::Infix(Infix::Or)),
    (TokenKind::Caret, Operator::Infix(Infix::Xor)),
    (TokenKind::ShiftLeft, Operator::Infix(Infix::ShiftLeft)),
    (TokenKind::ShiftRight, Operator::Infix(Infix::ShiftRight)),
    (TokenKind::At, Operator::Product),
    (TokenKind::Power, Operator::Power),
    (TokenKind::Percent, Operator::Foreign),
    (TokenKind::SlashSlash, Operator::Foreign),
];

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Operand> {
        let value = self.chain(Level::Or)?;
        if self.at_word("if") {
            return Err(self.conditional(value));
        }
        Ok(value)
    }

    /// Operands joined by operators that bind at least as tightly as `loosest`.
    fn chain(&mut self, loosest: Level) -> Parsed<Operand> {
        let mut left = self.prefixed()?;
        // The operand before the last one, while the chain so far is a comparison.
        let mut compared: Option<Span> = None;
        let mut reported = false;
        while let Some(operator) = self.operator() {
            let level = operator.level();
            if level < loosest {
                break;
            }
            let symbol = self.advance().span;
            self.skip_newlines();
            let right = self.chain(level.tighter())?;
            let span = left.span.to(right.span);
            if let (Level::Comparison, Some(middle), false) = (level, compared, reported) {
                let split = format!(
                    "{} & {} {} {}",
                    self.excerpt(left.span),
                    self.excerpt(middle),
                    self.text(symbol),
                    self.excerpt(right.span)
                );
                self.report(SyntaxError::ChainedComparison { split, at: span });
                reported = true;
            }
            compared = (level == Level::Comparison).then_some(right.span);
            let kind = match operator {
                Operator::Infix(infix) => ExprKind::Infix(infix, left.id, right.id),
                Operator::Product => ExprKind::Product(left.id, right.id),
                Operator::Power => {
                    self.report_power(left, symbol, right);
                    ExprKind::Infix(Infix::Multiply, left.id, right.id)
                }
                Operator::Foreign => {
                    self.report_operator(left, symbol, right);
                    ExprKind::Infix(Infix::Multiply, left.id, right.id)
                }
            };
            left = self.push(kind, span, span)?;
        }
        Ok(left)
    }

    /// The operator that comes next. Words of other languages are reported and read as what they mean.
    fn operator(&mut self) -> Option<Operator> {
        let token = self.peek();
        if token.kind == TokenKind::Name {
            let (wanted, operator) = match self.text(token.span) {
                "and" => ("&", Operator::Infix(Infix::And)),
                "or" => ("|", Operator::Infix(Infix::Or)),
                _ => return None,
            };
            let found = self.text(token.span).to_owned();
            let already = self.errors.iter().any(|error| error.span().start == token.span.start);
            if !already {
                self.report(SyntaxError::WordOperator { found, wanted, at: token.span });
            }
            return Some(operator);
        }
        OPERATORS.iter().find(|(kind, _)| *kind == token.kind).map(|&(_, operator)| operator)
    }

    fn report_power(&mut self, base: Operand, symbol: Span, exponent: Operand) {
        let is_two = matches!(
            self.exprs[exponent.id].kind,
            ExprKind::Number(Number::Integer(2) | Number::Float(2.0))
        );
        let plain_base = self.excerpt(self.exprs[base.id].span);
        let plain_exponent = self.excerpt(self.exprs[exponent.id].span);
        let call = if is_two {
            format!("square({plain_base})")
        } else {
            format!("pow({plain_base}, {plain_exponent})")
        };
        let operator = self.text(symbol).to_owned();
        self.report(SyntaxError::Power { operator, call, at: base.span.to(exponent.span) });
    }

    /// An operand with the operators before it, which take the products after it along.
    fn prefixed(&mut self) -> Parsed<Operand> {
        let token = self.peek();
        let prefix = match token.kind {
            TokenKind::Minus => Prefix::Negate,
            TokenKind::Bang => Prefix::Not,
            TokenKind::Tilde => Prefix::Invert,
            TokenKind::Name if self.kind_ahead(1).begins_operand() && self.at_word("not") => {
                let found = "not".to_owned();
                self.report(SyntaxError::WordOperator { found, wanted: "!", at: token.span });
                Prefix::Not
            }
            _ => return self.postfixed(),
        };
        self.advance();
        self.skip_newlines();
        self.deeper(token.span)?;
        let operand = self.chain(Level::Product)?;
        self.depth -= 1;
        let span = token.span.to(operand.span);
        self.push(ExprKind::Prefix(prefix, operand.id), span, span)
    }

    /// One level further in; the caller comes back out.
    fn deeper(&mut self, at: Span) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.report(SyntaxError::TooDeep { limit: MAX_NESTING, at }));
        }
        Ok(())
    }

    /// A primary with `.T` after it.
    fn postfixed(&mut self) -> Parsed<Operand> {
        let mut operand = self.primary()?;
        loop {
            let token = self.peek();
            match token.kind {
                TokenKind::Dot => {
                    self.advance();
                    let member = self.peek();
                    if member.kind != TokenKind::Name {
                        return Err(self.unexpected(Wanted::Symbol("T")));
                    }
                    if !self.at_word("T") {
                        return Err(self.foreign_member(operand, token.span));
                    }
                    self.advance();
                    let span = operand.span.to(member.span);
                    operand = self.push(ExprKind::Transpose(operand.id), span, span)?;
                }
                TokenKind::OpenBracket => {
                    return Err(self.report(SyntaxError::DimsOnValue { at: token.span }));
                }
                TokenKind::OpenParenthesis => {
                    return Err(self.report(SyntaxError::CallOfValue { at: token.span }));
                }
                _ => return Ok(operand),
            }
        }
    }

    fn primary(&mut self) -> Parsed<Operand> {
        let token = self.peek();
        match token.kind {
            TokenKind::Number(number) => {
                self.advance();
                self.push(ExprKind::Number(number), token.span, token.span)
            }
            TokenKind::Name => self.named(),
            TokenKind::OpenParenthesis => {
                self.deeper(token.span)?;
                self.enter();
                let inner = self.expression()?;
                self.refuse_assignment()?;
                let close = self.leave(Wanted::Symbol(")"))?;
                self.depth -= 1;
                Ok(Operand { id: inner.id, span: token.span.to(close.span) })
            }
            _ => Err(self.unexpected(Wanted::Value)),
        }
    }

    /// A name, a call, or a name with dims.
    fn named(&mut self) -> Parsed<Operand> {
        let token = self.advance();
        let text = self.text(token.span);
        match self.peek().kind {
            TokenKind::OpenParenthesis if text == "grad" => self.grad(token.span),
            TokenKind::OpenParenthesis => self.call(Name::new(text, token.span), token.span, false),
            TokenKind::OpenBracket => {
                if is_reserved(text) {
                    self.report_reserved(token.span, ReservedAction::Declared);
                }
                self.refuse_index(token.span)?;
                let (dims, close) = self.dims()?;
                let span = token.span.to(close);
                self.push(ExprKind::Annotated(text.to_owned(), dims), span, span)
            }
            TokenKind::Name if text == "if" => {
                let found = text.to_owned();
                Err(self.report(SyntaxError::Conditional { found, choice: None, at: token.span }))
            }
            _ if self.refuse_word(token.span).is_err() => Err(super::Failed),
            _ => self.push(ExprKind::Name(text.to_owned()), token.span, token.span),
        }
    }

    /// The rest of `grad(f)(x, ...)`.
    fn grad(&mut self, word: Span) -> Parsed<Operand> {
        self.enter();
        let function = self.peek();
        if function.kind != TokenKind::Name {
            return Err(self.report(SyntaxError::MalformedGrad { at: word }));
        }
        self.advance();
        if self.peek().kind != TokenKind::CloseParenthesis {
            return Err(self.report(SyntaxError::MalformedGrad { at: word }));
        }
        self.leave(Wanted::Symbol(")"))?;
        if self.peek().kind != TokenKind::OpenParenthesis {
            return Err(self.report(SyntaxError::MalformedGrad { at: word }));
        }
        self.call(Name::new(self.text(function.span), function.span), word, true)
    }

    /// The arguments of a call, from `(` on.
    fn call(&mut self, function: Name, start: Span, grad: bool) -> Parsed<Operand> {
        let opener = self.peek().span;
        self.refuse_keywords(&function)?;
        self.deeper(opener)?;
        self.enter();
        let mut arguments = Vec::new();
        while self.peek().kind != TokenKind::CloseParenthesis {
            let argument = match self.peek().kind {
                TokenKind::OpenBracket => self.dim_list()?,
                _ => self.expression()?,
            };
            arguments.push(argument.id);
            self.refuse_assignment()?;
            if !self.eat(TokenKind::Comma) {
                break;
            }
            self.skip_newlines();
        }
        let close = self.leave(Wanted::CommaOr(')'))?;
        self.depth -= 1;
        let span = start.to(close.span);
        self.push(ExprKind::Call { function, grad, arguments }, span, span)
    }

    /// `[Q, KV, KV]` as an argument.
    fn dim_list(&mut self) -> Parsed<Operand> {
        let open = self.peek().span;
        let (dims, close) = self.dims()?;
        let span = open.to(close);
        self.push(ExprKind::Dims(dims), span, span)
    }

    /// Reports `=` after an expression in parentheses or an argument.
    fn refuse_assignment(&mut self) -> Parsed<()> {
        let token = self.peek();
        if token.kind == TokenKind::Assign {
            return Err(self.report(SyntaxError::AssignmentInExpression { at: token.span }));
        }
        Ok(())
    }

    /// `[M, N/2]`, from `[` on, and where it ends.
    pub(super) fn dims(&mut self) -> Parsed<(Vec<Dim>, Span)> {
        self.enter();
        let mut dims = Vec::new();
        while self.peek().kind != TokenKind::CloseBracket {
            dims.extend(self.dim()?);
            if !self.eat(TokenKind::Comma) {
                break;
            }
            self.skip_newlines();
        }
        let close = self.leave(Wanted::CommaOr(']'))?;
        Ok((dims, close.span))
    }

    /// One dim; `None` when it was reported and passed over.
    fn dim(&mut self) -> Parsed<Option<Dim>> {
        let first = self.peek();
        let start = self.position;
        let dim = match first.kind {
            TokenKind::Name => self.named_dim(),
            TokenKind::Number(Number::Integer(size)) => {
                self.advance();
                self.size(size, first.span).map(Dim::Size)
            }
            TokenKind::Number(Number::Float(_))
            | TokenKind::Minus
            | TokenKind::Colon
            | TokenKind::OpenParenthesis => {
                self.advance();
                None
            }
            _ => return Err(self.unexpected(Wanted::Dim)),
        };
        let next = self.peek().kind;
        let reported = dim.is_none()
            && self.errors.last().is_some_and(|error| error.span().start >= first.span.start);
        if matches!(next, TokenKind::Comma | TokenKind::CloseBracket) && (dim.is_some() || reported)
        {
            return Ok(dim);
        }
        let unclosed = self.open.last().is_some_and(|&index| self.partners[index].is_none());
        if next == TokenKind::Bad || unclosed {
            return Err(self.unexpected(Wanted::CommaOr(']')));
        }
        self.invalid_dim(start);
        Ok(None)
    }

    /// Reports what stands between commas, and passes over it.
    fn invalid_dim(&mut self, start: usize) {
        let end = self
            .open
            .last()
            .and_then(|&index| self.partners[index])
            .map_or(self.position, |end| end as usize);
        while self.position < end && self.tokens[self.position].kind != TokenKind::Comma {
            self.position = match self.partners[self.position] {
                Some(partner) if partner as usize > self.position => partner as usize + 1,
                Some(_) | None => self.position + 1,
            };
        }
        let at = self.tokens[start].span.to(self.tokens[self.position - 1].span);
        let text = self.excerpt(at);
        self.report(SyntaxError::InvalidDim { text, at });
    }

    /// `N` or `N/2`.
    fn named_dim(&mut self) -> Option<Dim> {
        let name = self.advance().span;
        if self.peek().kind != TokenKind::Slash {
            return Some(Dim::name(self.text(name)));
        }
        let TokenKind::Number(Number::Integer(divisor)) = self.kind_ahead(1) else { return None };
        self.advance();
        let number = self.advance().span;
        if divisor == 0 {
            let name_text = self.excerpt(name);
            self.report(SyntaxError::DimDividedByZero { name: name_text, at: name.to(number) });
            return None;
        }
        let divisor = self.size(divisor, name.to(number))?;
        Some(Dim::Name { name: self.text(name).to_owned(), divisor })
    }

    /// An integer as the size of a dim.
    fn size(&mut self, value: i64, at: Span) -> Option<u32> {
        let size = u32::try_from(value).ok();
        if size.is_none() {
            let text = self.excerpt(at);
            self.report(SyntaxError::DimTooLarge { text, at });
        }
        size
    }
}
