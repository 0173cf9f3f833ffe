//! Tokens to statements.

use std::fmt;

use super::operand::Operand;
use super::statement::{Guard, Instruction, Statement, StatementKind};
use super::tokens::{Token, TokenKind, tokens};

/// Text that is no PTX.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The line, from 1.
    pub line: usize,
    /// What stands there; nothing at the end of the text.
    pub found: Option<String>,
    /// What should.
    pub wanted: &'static str,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.found {
            Some(found) => {
                write!(f, "line {}: expected {}, found `{found}`", self.line, self.wanted)
            }
            None => write!(f, "line {}: expected {}, but the text ends", self.line, self.wanted),
        }
    }
}

impl std::error::Error for Error {}

/// Directives that end with their line, not with a semicolon.
const LINE_DIRECTIVES: &[&str] = &[
    ".version",
    ".target",
    ".address_size",
    ".file",
    ".loc",
    ".maxntid",
    ".reqntid",
    ".minnctapersm",
    ".maxnctapersm",
    ".maxnreg",
    ".explicitcluster",
    ".reqnctapercluster",
    ".maxclusterrank",
    ".noreturn",
];

/// The deepest operand that is read, in brackets, signs and sums inside each other. No instruction has more than four; an
/// operand is read, printed and dropped by recursion, so that a text must not choose how deep that goes.
const DEEPEST: u32 = 64;
/// What is wrong with one that is deeper.
const TOO_DEEP: &str = "an operand with at most 64 brackets and signs inside each other";

/// All statements of a text.
pub fn read(text: &str) -> Result<Vec<Statement>, Error> {
    let tokens = tokens(text);
    let mut reader = Reader { tokens: &tokens, at: 0, depth: 0 };
    let mut statements = Vec::new();
    while let Some(first) = reader.peek() {
        let kind = reader.statement(first)?;
        statements.push(Statement { line: first.line, kind });
    }
    Ok(statements)
}

struct Reader<'r, 't> {
    tokens: &'r [Token<'t>],
    at: usize,
    /// Operands around the one that is read.
    depth: u32,
}

impl<'t> Reader<'_, 't> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    fn peek_mark(&self, mark: char) -> bool {
        self.peek().is_some_and(|token| token.kind == TokenKind::Mark(mark))
    }

    fn take_mark(&mut self, mark: char) -> bool {
        let found = self.peek_mark(mark);
        self.at += usize::from(found);
        found
    }

    fn fail<T>(&self, wanted: &'static str) -> Result<T, Error> {
        let last = self.tokens.last().map_or(1, |token| token.line);
        let found = self.peek();
        let line = found.map_or(last, |token| token.line);
        Err(Error { line, found: found.map(|token| token.text.to_owned()), wanted })
    }

    fn mark(&mut self, mark: char, wanted: &'static str) -> Result<(), Error> {
        if self.take_mark(mark) { Ok(()) } else { self.fail(wanted) }
    }

    fn word(&mut self, wanted: &'static str) -> Result<&'t str, Error> {
        match self.peek() {
            Some(Token { kind: TokenKind::Word, text, .. }) => {
                self.at += 1;
                Ok(text)
            }
            Some(_) | None => self.fail(wanted),
        }
    }

    fn statement(&mut self, first: Token<'t>) -> Result<StatementKind, Error> {
        match first.kind {
            TokenKind::Mark('{') => {
                self.at += 1;
                Ok(StatementKind::Open)
            }
            TokenKind::Mark('}') => {
                self.at += 1;
                Ok(StatementKind::Close)
            }
            TokenKind::Word if first.text.starts_with('.') => self.directive(),
            TokenKind::Word => {
                let next = self.tokens.get(self.at + 1);
                if next.is_some_and(|token| token.kind == TokenKind::Mark(':')) {
                    self.at += 2;
                    return Ok(StatementKind::Label(first.text.to_owned()));
                }
                self.instruction().map(StatementKind::Instruction)
            }
            TokenKind::Mark('@') => self.instruction().map(StatementKind::Instruction),
            TokenKind::Mark(_) | TokenKind::Number | TokenKind::Quoted => self.fail("a statement"),
        }
    }

    fn instruction(&mut self) -> Result<Instruction, Error> {
        let guard = if self.take_mark('@') {
            let negated = self.take_mark('!');
            Some(Guard { negated, predicate: self.word("a predicate")?.to_owned() })
        } else {
            None
        };
        let opcode = self.word("an opcode")?.split('.').map(str::to_owned).collect();
        let operands = if self.peek_mark(';') { Vec::new() } else { self.operands()? };
        self.mark(';', "a comma or `;`")?;
        Ok(Instruction { guard, opcode, operands })
    }

    fn operands(&mut self) -> Result<Vec<Operand>, Error> {
        let mut operands = vec![self.operand()?];
        while self.take_mark(',') {
            operands.push(self.operand()?);
        }
        Ok(operands)
    }

    fn operand(&mut self) -> Result<Operand, Error> {
        let mut operand = self.primary()?;
        let mut terms = self.depth;
        loop {
            if terms > DEEPEST {
                return self.fail(TOO_DEEP);
            }
            terms += 1;
            if self.take_mark('|') {
                operand = Operand::Pair(Box::new(operand), Box::new(self.primary()?));
            } else if self.peek_mark('+') || self.peek_mark('-') {
                let plus = if self.take_mark('+') { "+" } else { "" };
                let offset = plus.to_owned() + &self.signed_number()?;
                operand = Operand::Sum(Box::new(operand), offset);
            } else {
                return Ok(operand);
            }
        }
    }

    fn primary(&mut self) -> Result<Operand, Error> {
        if self.depth >= DEEPEST {
            return self.fail(TOO_DEEP);
        }
        self.depth += 1;
        let operand = self.inner_primary();
        self.depth -= 1;
        operand
    }

    fn inner_primary(&mut self) -> Result<Operand, Error> {
        if self.take_mark('!') {
            return Ok(Operand::Not(Box::new(self.primary()?)));
        }
        if self.take_mark('{') {
            return Ok(Operand::Vector(self.until('}')?));
        }
        if self.take_mark('[') {
            return Ok(Operand::Address(self.until(']')?));
        }
        if self.take_mark('(') {
            return Ok(Operand::Group(self.until(')')?));
        }
        if let Some(Token { kind: TokenKind::Word, text, .. }) = self.peek() {
            self.at += 1;
            return Ok(Operand::Name(text.to_owned()));
        }
        self.signed_number().map(Operand::Number)
    }

    /// A list and its closing mark.
    fn until(&mut self, close: char) -> Result<Vec<Operand>, Error> {
        if self.take_mark(close) {
            return Ok(Vec::new());
        }
        let operands = self.operands()?;
        self.mark(close, "a comma or a closing bracket")?;
        Ok(operands)
    }

    fn signed_number(&mut self) -> Result<String, Error> {
        let sign = if self.take_mark('-') { "-" } else { "" };
        match self.peek() {
            Some(Token { kind: TokenKind::Number, text, .. }) => {
                self.at += 1;
                Ok(format!("{sign}{text}"))
            }
            Some(_) | None => self.fail("an operand"),
        }
    }

    /// A directive: to the end of its line, to the end of an entry's parameters, or to its semicolon.
    fn directive(&mut self) -> Result<StatementKind, Error> {
        let first = self.tokens[self.at];
        let ends_with_line = LINE_DIRECTIVES.contains(&first.text);
        let mut head = false;
        let (start, mut depth, mut closed) = (self.at, 0_u32, false);
        loop {
            let Some(token) = self.peek() else {
                if ends_with_line {
                    break;
                }
                return self.fail("`;`");
            };
            let after_equals = self.at > start && self.tokens[self.at - 1].text == "=";
            let opens_body = token.kind == TokenKind::Mark('{') && !after_equals && depth == 0;
            let next_line = token.line != first.line && ends_with_line;
            let attribute = head && closed && depth == 0 && token.text.starts_with('.');
            if opens_body || next_line || attribute {
                break;
            }
            head |= matches!(token.text, ".entry" | ".func");
            match token.kind {
                TokenKind::Mark('(' | '{') => depth += 1,
                TokenKind::Mark(')' | '}') => {
                    depth = depth.saturating_sub(1);
                    closed = true;
                }
                TokenKind::Mark(_) | TokenKind::Word | TokenKind::Number | TokenKind::Quoted => {}
            }
            self.at += 1;
            if token.kind == TokenKind::Mark(';') {
                break;
            }
        }
        Ok(StatementKind::Directive(spaced(&self.tokens[start..self.at])))
    }
}

/// Tokens with the spaces that this crate puts between them.
fn spaced(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    let mut glued = true;
    for token in tokens {
        let tight =
            matches!(token.kind, TokenKind::Mark('(' | ')' | '[' | ']' | '<' | '>' | ',' | ';'));
        if !glued && !tight {
            text.push(' ');
        }
        text.push_str(token.text);
        glued = matches!(token.kind, TokenKind::Mark('(' | '[' | '<' | '-' | '@'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_inside_each_other_without_end_are_an_error() {
        let many = 200_000;
        let nested = |open: &str, close: &str| {
            format!("mov.b32 %r0, {}%r1{};", open.repeat(many), close.repeat(many))
        };
        let texts = [
            nested("(", ")"),
            nested("{", "}"),
            nested("[", "]"),
            nested("!", ""),
            nested("(", ""),
            nested("", "|%r1"),
            nested("", "+4"),
            nested("([{!", "}])"),
        ];
        for text in texts {
            let error = read(&text).expect_err("it is too deep");
            assert!(error.to_string().contains("at most 64"), "{error}");
        }
        assert!(read("mov.b32 %r0, ((((%r1))));").is_ok());
        assert!(read(&"{".repeat(many)).is_ok(), "blocks do not nest in what is read");
    }
}
