//! The words of the language: what the lexer hands to the parser.
//!
//! The parser asks a word whether it is one of a few; any other word, also one yet to be added, is
//! a diagnostic there.
//! Invariant: the last token of a source is always [`TokenKind::End`], and there is only one.

use super::ast::Number;
use super::span::Span;

/// One word of the source and where it stands.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) span: Span,
}

/// What a word is. Names carry no text: the span has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TokenKind {
    Name,
    Number(Number),
    Plus,
    Minus,
    Star,
    Slash,
    At,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    EqualEqual,
    BangEqual,
    Ampersand,
    Bar,
    Bang,
    Tilde,
    Caret,
    ShiftLeft,
    ShiftRight,
    /// `**`, which the language does not have.
    Power,
    /// `%`, which the language does not have.
    Percent,
    /// `//` between operands, which the language does not have.
    SlashSlash,
    Assign,
    /// `+=` and the like, which the language does not have.
    AssignWith,
    Comma,
    Colon,
    Dot,
    Arrow,
    OpenParenthesis,
    CloseParenthesis,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Semicolon,
    Newline,
    /// Something the lexer has already reported.
    Bad,
    End,
}

const BRACKETS: [(TokenKind, TokenKind); 3] = [
    (TokenKind::OpenParenthesis, TokenKind::CloseParenthesis),
    (TokenKind::OpenBracket, TokenKind::CloseBracket),
    (TokenKind::OpenBrace, TokenKind::CloseBrace),
];

impl TokenKind {
    /// Whether a newline right after this word does not end the statement.
    pub(super) const fn continues_line(self) -> bool {
        match self {
            TokenKind::Plus
            | TokenKind::Minus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::At
            | TokenKind::Less
            | TokenKind::LessEqual
            | TokenKind::Greater
            | TokenKind::GreaterEqual
            | TokenKind::EqualEqual
            | TokenKind::BangEqual
            | TokenKind::Ampersand
            | TokenKind::Bar
            | TokenKind::Bang
            | TokenKind::Tilde
            | TokenKind::Caret
            | TokenKind::ShiftLeft
            | TokenKind::ShiftRight
            | TokenKind::Power
            | TokenKind::Percent
            | TokenKind::SlashSlash
            | TokenKind::Assign
            | TokenKind::AssignWith
            | TokenKind::Comma => true,
            TokenKind::Name
            | TokenKind::Number(_)
            | TokenKind::Colon
            | TokenKind::Dot
            | TokenKind::Arrow
            | TokenKind::OpenParenthesis
            | TokenKind::CloseParenthesis
            | TokenKind::OpenBracket
            | TokenKind::CloseBracket
            | TokenKind::OpenBrace
            | TokenKind::CloseBrace
            | TokenKind::Semicolon
            | TokenKind::Newline
            | TokenKind::Bad
            | TokenKind::End => false,
        }
    }

    /// The bracket that closes this one.
    pub(super) fn closer(self) -> Option<TokenKind> {
        BRACKETS.into_iter().find(|&(opener, _)| opener == self).map(|(_, closer)| closer)
    }

    /// Whether this is `)`, `]` or `}`.
    pub(super) const fn is_closer(self) -> bool {
        matches!(
            self,
            TokenKind::CloseParenthesis | TokenKind::CloseBracket | TokenKind::CloseBrace
        )
    }

    /// Whether an operand may begin with this word.
    pub(super) const fn begins_operand(self) -> bool {
        matches!(self, TokenKind::Name | TokenKind::Number(_) | TokenKind::OpenParenthesis)
    }

    /// Whether a statement that is not the first may have been cut off before this word.
    pub(super) const fn is_operator(self) -> bool {
        self.continues_line() && !matches!(self, TokenKind::Comma)
    }
}

/// For every bracket, the index of the bracket it pairs with; `None` for brackets without partner
/// and other words.
///
/// `}` closes everything since its `{`; a closing bracket passes over unclosed ones of another kind
/// only if its own kind is open.
pub(super) fn pair_brackets(tokens: &[Token]) -> Vec<Option<u32>> {
    let mut partners = vec![None; tokens.len()];
    let mut open: Vec<(usize, TokenKind)> = Vec::new();
    // How many `(` and `[` are open since each open `{`, and before the first.
    let mut counts = vec![[0_usize; 2]];
    for (index, token) in tokens.iter().enumerate() {
        if let Some(closer) = token.kind.closer() {
            open.push((index, closer));
            match counted(closer) {
                Some(kind) => {
                    let innermost = open_braces(&counts);
                    counts[innermost][kind] += 1;
                }
                None => counts.push([0; 2]),
            }
        } else if token.kind.is_closer() {
            let is_open = match counted(token.kind) {
                Some(kind) => counts[open_braces(&counts)][kind] > 0,
                None => open_braces(&counts) > 0,
            };
            while is_open && let Some((opener, closer)) = open.pop() {
                match counted(closer) {
                    Some(kind) => {
                        let innermost = open_braces(&counts);
                        counts[innermost][kind] -= 1;
                    }
                    None => _ = counts.pop(),
                }
                if closer == token.kind {
                    partners[opener] = Some(index as u32);
                    partners[index] = Some(opener as u32);
                    break;
                }
            }
        }
    }
    partners
}

fn open_braces(counts: &[[usize; 2]]) -> usize {
    counts.len() - 1
}

/// Where a closing bracket is counted; `None` for `}`.
fn counted(closer: TokenKind) -> Option<usize> {
    [TokenKind::CloseParenthesis, TokenKind::CloseBracket].iter().position(|&kind| kind == closer)
}
