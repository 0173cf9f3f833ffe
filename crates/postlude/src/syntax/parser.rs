//! From words to an [`Ast`].
//!
//! In: text. Out: the tree, or up to [`MAX_DIAGNOSTICS`] mistakes in the order of the source.
//! Invariants: one diagnostic a mistake: after one, reading goes on at the end of the statement (or
//! declaration). Recursion stops at [`MAX_NESTING`]; chains of operators are loops.

use super::ast::{Ast, ExprId, ExprKind, Exprs};
use super::error::{SyntaxError, Wanted};
use super::lexer::{Lexed, lex};
use super::span::Span;
use super::token::{Token, TokenKind, pair_brackets};
use super::{MAX_DIAGNOSTICS, MAX_NODES, MAX_SOURCE, excerpt};

mod body;
mod expression;
mod foreign;
mod signature;

/// Reads a kernel, or the body of one when the source does not begin with `kernel`.
///
/// ```
/// use postlude::syntax::parse;
/// let ast = parse("D = relu(A @ B.T + bias[N])").unwrap();
/// assert_eq!(ast.statements[0].targets[0].text, "D");
///
/// let errors = parse("D = x**2").unwrap_err();
/// assert_eq!(errors[0].fix().as_deref(), Some("write `square(x)`"));
/// ```
pub fn parse(source: &str) -> Result<Ast, Vec<SyntaxError>> {
    let mut parser = Parser::new(source)?;
    let ast = parser.file();
    parser.finish()?;
    Ok(ast)
}

/// Reads a kernel or a body from bytes that may not be text.
///
/// ```
/// use postlude::syntax::parse_bytes;
/// assert!(parse_bytes(b"D = A @ B").is_ok());
/// assert_eq!(parse_bytes(b"D = \xff").unwrap_err()[0].span().start, 4);
/// ```
pub fn parse_bytes(source: &[u8]) -> Result<Ast, Vec<SyntaxError>> {
    match std::str::from_utf8(source) {
        Ok(text) => parse(text),
        Err(error) => {
            let start = error.valid_up_to();
            Err(vec![SyntaxError::NotUtf8 {
                byte: source[start],
                at: Span::new(start, start + error.error_len().unwrap_or(source.len() - start)),
            }])
        }
    }
}

/// Reads one expression, such as a formula.
///
/// ```
/// use postlude::syntax::parse_expression;
/// let (exprs, root) = parse_expression("x * sigmoid(1.702 * x)").unwrap();
/// assert_eq!(exprs.display(root).to_string(), "x * sigmoid(1.702 * x)");
/// ```
pub fn parse_expression(source: &str) -> Result<(Exprs, ExprId), Vec<SyntaxError>> {
    let mut parser = Parser::new(source)?;
    parser.skip_separators();
    let value = parser.lone_expression();
    let root = value.ok();
    let exprs = std::mem::take(&mut parser.exprs);
    parser.finish()?;
    Ok((exprs, root.expect("compiler bug: a mistake was not reported")))
}

/// How many words may stand before `=`, so that looking for it takes no time.
const LONGEST_TARGETS: usize = 64;

/// A mistake has been reported; the statement or declaration is given up.
#[derive(Clone, Copy, Debug)]
struct Failed;

type Parsed<T> = Result<T, Failed>;

/// An expression and what it covers, parentheses included.
#[derive(Clone, Copy, Debug)]
struct Operand {
    id: ExprId,
    span: Span,
}

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    partners: Vec<Option<u32>>,
    position: usize,
    /// The brackets around the position, as indices of tokens.
    open: Vec<usize>,
    /// While positive, newlines mean nothing.
    free: usize,
    depth: usize,
    exprs: Exprs,
    errors: Vec<SyntaxError>,
    lexer_errors: Vec<SyntaxError>,
    /// The dims that values of the body have, as far as the signature tells them, and the outputs.
    dims: Vec<String>,
    outputs: Vec<String>,
    /// A limit has been passed: nothing more is read or reported.
    stopped: bool,
}

impl<'s> Parser<'s> {
    fn new(source: &'s str) -> Result<Parser<'s>, Vec<SyntaxError>> {
        if source.len() > MAX_SOURCE {
            let at = Span::new(MAX_SOURCE, MAX_SOURCE + 1);
            return Err(vec![SyntaxError::SourceTooLong { limit: MAX_SOURCE, at }]);
        }
        if let Some(place) = source.find('\0') {
            return Err(vec![SyntaxError::NulByte { at: Span::new(place, place + 1) }]);
        }
        let Lexed { tokens, errors } = lex(source);
        let is_empty = tokens.iter().all(|token| {
            matches!(token.kind, TokenKind::Newline | TokenKind::Semicolon | TokenKind::End)
        });
        if is_empty && errors.is_empty() {
            return Err(vec![SyntaxError::Empty { at: Span::new(0, source.len()) }]);
        }
        Ok(Parser {
            source,
            partners: pair_brackets(&tokens),
            tokens,
            position: 0,
            open: Vec::new(),
            free: 0,
            depth: 0,
            exprs: Exprs::default(),
            errors: Vec::new(),
            lexer_errors: errors,
            dims: ["M", "N"].map(str::to_owned).to_vec(),
            outputs: Vec::new(),
            stopped: false,
        })
    }

    /// What was wrong, in the order of the source.
    fn finish(mut self) -> Result<(), Vec<SyntaxError>> {
        let whole = |error: &SyntaxError| error.is_whole().then(|| error.span());
        let wholes: Vec<Span> = self.errors.iter().filter_map(whole).collect();
        self.lexer_errors.retain(|error| !wholes.iter().any(|whole| whole.contains(error.span())));
        self.errors.append(&mut self.lexer_errors);
        if self.errors.is_empty() {
            return Ok(());
        }
        self.errors.sort_by_key(|error| error.span().start);
        self.errors.truncate(MAX_DIAGNOSTICS);
        Err(self.errors)
    }

    fn text(&self, span: Span) -> &'s str {
        &self.source[span.start as usize..span.end as usize]
    }

    fn excerpt(&self, span: Span) -> String {
        excerpt(self.text(span))
    }

    /// The next word; newlines are passed over where they mean nothing.
    fn peek(&mut self) -> Token {
        while self.free > 0 && self.tokens[self.position].kind == TokenKind::Newline {
            self.position += 1;
        }
        self.tokens[self.position]
    }

    /// The kind of the word `ahead` places after the next one, newlines included.
    fn kind_ahead(&self, ahead: usize) -> TokenKind {
        self.tokens.get(self.position + ahead).map_or(TokenKind::End, |token| token.kind)
    }

    /// The next word, which is then behind. The end stays.
    fn advance(&mut self) -> Token {
        let token = self.peek();
        if token.kind != TokenKind::End {
            self.position += 1;
        }
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek().kind == kind;
        if found {
            self.advance();
        }
        found
    }

    fn at_word(&mut self, word: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Name && self.text(token.span) == word
    }

    fn skip_newlines(&mut self) {
        while self.tokens[self.position].kind == TokenKind::Newline {
            self.position += 1;
        }
    }

    fn skip_separators(&mut self) {
        while matches!(self.tokens[self.position].kind, TokenKind::Newline | TokenKind::Semicolon) {
            self.position += 1;
        }
    }

    /// The last word that is not a newline before the next one.
    fn previous(&self) -> Option<Token> {
        self.tokens[..self.position]
            .iter()
            .rev()
            .find(|token| token.kind != TokenKind::Newline)
            .copied()
    }

    /// Takes the opening bracket that comes next.
    fn enter(&mut self) -> Token {
        self.peek();
        self.open.push(self.position);
        self.free += usize::from(self.partners[self.position].is_some());
        self.advance()
    }

    /// Takes the closing bracket of the innermost open one, or reports what stands there instead.
    fn leave(&mut self, wanted: Wanted) -> Parsed<Token> {
        let innermost = *self.open.last().expect("compiler bug: no bracket is open");
        let token = self.peek();
        if self.partners[innermost] != Some(self.position as u32) {
            return Err(self.unexpected(wanted));
        }
        self.open.pop();
        self.free -= 1;
        self.advance();
        Ok(token)
    }

    fn push(&mut self, kind: ExprKind, span: Span, cover: Span) -> Parsed<Operand> {
        if self.exprs.len() == MAX_NODES {
            let error = SyntaxError::TooManyNodes { limit: MAX_NODES, at: span };
            return Err(self.stop(error));
        }
        Ok(Operand { id: self.exprs.push(kind, span), span: cover })
    }

    fn report(&mut self, error: SyntaxError) -> Failed {
        if !self.stopped && self.errors.len() < MAX_DIAGNOSTICS {
            self.errors.push(error);
        }
        Failed
    }

    /// Reports that a limit has been passed and gives up the rest of the source.
    fn stop(&mut self, error: SyntaxError) -> Failed {
        self.report(error);
        self.stopped = true;
        self.position = self.tokens.len() - 1;
        Failed
    }

    /// Reports that the next word is not what was wanted.
    fn unexpected(&mut self, wanted: Wanted) -> Failed {
        let token = self.peek();
        let at = token.span;
        let open = self.open.last().map(|&index| (index, self.tokens[index].span));
        let unclosed = open.filter(|&(index, _)| self.partners[index].is_none());
        let paired = self.partners[self.position].is_some();
        let ends = matches!(
            token.kind,
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End
        );
        if token.kind == TokenKind::Bad {
            return Failed;
        }
        let error = match unclosed {
            Some((_, opener_at)) if !ends && token.kind.is_closer() && !paired => {
                SyntaxError::Mismatched {
                    opener: self.bracket(opener_at),
                    opener_at,
                    closer: self.bracket(at),
                    at,
                }
            }
            Some((_, opener))
                if ends || matches!(wanted, Wanted::CommaOr(_) | Wanted::Symbol(_)) =>
            {
                SyntaxError::Unclosed { opener: self.bracket(opener), at: opener, end: at }
            }
            Some(_) | None if token.kind.is_closer() && !paired => {
                SyntaxError::StrayCloser { closer: self.bracket(at), at }
            }
            Some(_) | None => match self.previous() {
                Some(previous)
                    if ends && token.kind != TokenKind::Semicolon || at.start == at.end =>
                {
                    let previous = previous.span;
                    SyntaxError::ExpectedAfter {
                        wanted,
                        after: self.excerpt(previous),
                        at: previous,
                    }
                }
                Some(_) | None => SyntaxError::Expected { wanted, found: self.excerpt(at), at },
            },
        };
        self.report(error)
    }

    fn bracket(&self, span: Span) -> char {
        self.text(span).chars().next().unwrap_or('(')
    }

    /// Goes to the end of the statement in which a mistake was reported.
    fn recover(&mut self) {
        let outermost = self.open.iter().find_map(|&index| self.partners[index]);
        if let Some(closer) = outermost {
            self.position = self.position.max(closer as usize + 1);
        }
        self.open.clear();
        self.free = 0;
        self.depth = 0;
        let unclosed = matches!(self.errors.last(), Some(SyntaxError::Unclosed { .. }));
        loop {
            let token = self.tokens[self.position];
            match token.kind {
                TokenKind::End | TokenKind::CloseBrace => return,
                TokenKind::Semicolon | TokenKind::Newline if unclosed => {
                    self.skip_separators();
                    if self.begins_assignment() {
                        return;
                    }
                    continue;
                }
                TokenKind::Semicolon => return,
                TokenKind::Newline => {
                    if self.previous().is_none_or(|token| !token.kind.continues_line()) {
                        return;
                    }
                    self.skip_newlines();
                    continue;
                }
                _ => {}
            }
            // Over a bracket to its partner.
            self.position = match self.partners[self.position] {
                Some(partner) if partner as usize > self.position => partner as usize + 1,
                Some(_) | None => self.position + 1,
            };
        }
    }

    /// Whether `name =` or `name, name =` comes next.
    fn begins_assignment(&self) -> bool {
        self.assigned_names().is_some()
    }

    /// How many words the left side of the assignment that comes next has, if it is one of names only.
    fn assigned_names(&self) -> Option<usize> {
        let mut ahead = 0;
        loop {
            if self.kind_ahead(ahead) != TokenKind::Name || ahead > LONGEST_TARGETS {
                return None;
            }
            ahead += 1;
            match self.kind_ahead(ahead) {
                TokenKind::Assign => return Some(ahead),
                TokenKind::Comma => ahead += 1,
                _ => return None,
            }
            while self.kind_ahead(ahead) == TokenKind::Newline {
                ahead += 1;
            }
        }
    }
}
