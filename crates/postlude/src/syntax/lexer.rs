//! From text to words.
//!
//! In: the source. Out: words ending in [`TokenKind::End`], and what could not be read.
//! Invariant: whatever is reported here still gives a word, so that the parser need not report it again.

use super::error::SyntaxError;
use super::number::read_number;
use super::span::Span;
use super::token::{Token, TokenKind};
use super::{MAX_DIAGNOSTICS, excerpt};

/// Words of two or one characters, longest first.
const SYMBOLS: &[(&str, TokenKind)] = &[
    ("->", TokenKind::Arrow),
    ("**", TokenKind::Power),
    ("<<", TokenKind::ShiftLeft),
    (">>", TokenKind::ShiftRight),
    ("<=", TokenKind::LessEqual),
    (">=", TokenKind::GreaterEqual),
    ("==", TokenKind::EqualEqual),
    ("!=", TokenKind::BangEqual),
    ("+=", TokenKind::AssignWith),
    ("-=", TokenKind::AssignWith),
    ("*=", TokenKind::AssignWith),
    ("/=", TokenKind::AssignWith),
    ("@=", TokenKind::AssignWith),
    ("+", TokenKind::Plus),
    ("-", TokenKind::Minus),
    ("*", TokenKind::Star),
    ("%", TokenKind::Percent),
    ("/", TokenKind::Slash),
    ("@", TokenKind::At),
    ("<", TokenKind::Less),
    (">", TokenKind::Greater),
    ("&", TokenKind::Ampersand),
    ("|", TokenKind::Bar),
    ("!", TokenKind::Bang),
    ("~", TokenKind::Tilde),
    ("^", TokenKind::Caret),
    ("=", TokenKind::Assign),
    (",", TokenKind::Comma),
    (":", TokenKind::Colon),
    (".", TokenKind::Dot),
    ("(", TokenKind::OpenParenthesis),
    (")", TokenKind::CloseParenthesis),
    ("[", TokenKind::OpenBracket),
    ("]", TokenKind::CloseBracket),
    ("{", TokenKind::OpenBrace),
    ("}", TokenKind::CloseBrace),
    (";", TokenKind::Semicolon),
    ("\n", TokenKind::Newline),
];

/// Operators of other languages and of typography, what the language writes for them, and the word
/// they are read as.
const FOREIGN: &[(&str, &str, TokenKind)] = &[
    ("&&", "&", TokenKind::Ampersand),
    ("||", "|", TokenKind::Bar),
    (":=", "=", TokenKind::Assign),
    ("<>", "!=", TokenKind::BangEqual),
    ("¬", "!", TokenKind::Bang),
    ("×", "*", TokenKind::Star),
    ("·", "*", TokenKind::Star),
    ("⋅", "*", TokenKind::Star),
    ("∙", "*", TokenKind::Star),
    ("∗", "*", TokenKind::Star),
    ("÷", "/", TokenKind::Slash),
    ("∕", "/", TokenKind::Slash),
    ("−", "-", TokenKind::Minus),
    ("–", "-", TokenKind::Minus),
    ("—", "-", TokenKind::Minus),
    ("≤", "<=", TokenKind::LessEqual),
    ("≥", ">=", TokenKind::GreaterEqual),
    ("≠", "!=", TokenKind::BangEqual),
    ("∧", "&", TokenKind::Ampersand),
    ("∨", "|", TokenKind::Bar),
    ("→", "->", TokenKind::Arrow),
    ("∞", "inf", TokenKind::Name),
    ("\u{ff08}", "(", TokenKind::OpenParenthesis),
    ("\u{ff09}", ")", TokenKind::CloseParenthesis),
    ("\u{ff0c}", ",", TokenKind::Comma),
];

const QUOTES: &[char] = &['"', '\'', '`', '“', '”', '„', '‘', '’', '«', '»'];

/// Greek letters by the names that formulas give them.
const GREEK: &[(char, &str)] = &[
    ('α', "alpha"),
    ('β', "beta"),
    ('γ', "gamma"),
    ('δ', "delta"),
    ('ε', "eps"),
    ('λ', "lambda"),
    ('μ', "mu"),
    ('µ', "mu"),
    ('π', "pi"),
    ('σ', "sigma"),
    ('τ', "tau"),
    ('Σ', "sum"),
];

/// The words of a source and what could not be read in it.
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    pub(super) errors: Vec<SyntaxError>,
}

/// Splits a source into words.
pub(super) fn lex(source: &str) -> Lexed {
    let mut lexer =
        Lexer { source, position: 0, lexed: Lexed { tokens: Vec::new(), errors: Vec::new() } };
    while let Some(first) = lexer.rest().chars().next() {
        lexer.word(first);
    }
    lexer.push(TokenKind::End, 0);
    lexer.lexed
}

struct Lexer<'s> {
    source: &'s str,
    position: usize,
    lexed: Lexed,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.position..]
    }

    /// The next `length` bytes, which are then behind.
    fn take(&mut self, length: usize) -> (Span, &'s str) {
        let start = self.position;
        self.position += length;
        (Span::new(start, self.position), &self.source[start..self.position])
    }

    /// The next characters while they belong, which are then behind.
    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> (Span, &'s str) {
        let rest = self.rest();
        self.take(rest.find(|character| !belongs(character)).unwrap_or(rest.len()))
    }

    fn push(&mut self, kind: TokenKind, length: usize) {
        let (span, _) = self.take(length);
        self.lexed.tokens.push(Token { kind, span });
    }

    fn report(&mut self, error: SyntaxError) {
        if self.lexed.errors.len() < MAX_DIAGNOSTICS {
            self.lexed.errors.push(error);
        }
    }

    fn word(&mut self, first: char) {
        match first {
            ' ' | '\t' | '\r' | '\u{c}' => _ = self.take(1),
            '\u{feff}' if self.position == 0 => _ = self.take(first.len_utf8()),
            '#' => _ = self.take_while(|character| character != '\n'),
            'a'..='z' | 'A'..='Z' | '_' => self.name(),
            '0'..='9' => self.number(),
            '.' if self.rest()[1..].starts_with(|next: char| next.is_ascii_digit()) => {
                self.number();
            }
            '/' if self.rest().starts_with("//") && self.divides() => {
                self.push(TokenKind::SlashSlash, 2);
            }
            '/' if self.rest().starts_with("//") => self.foreign_comment("//"),
            '/' if self.rest().starts_with("/*") => self.foreign_comment("/*"),
            '?' => {
                let (at, found) = self.take(1);
                self.bad(
                    at,
                    SyntaxError::Conditional { found: found.to_owned(), choice: None, at },
                );
            }
            _ if QUOTES.contains(&first) => self.quoted(first),
            _ => self.symbol(first),
        }
    }

    fn bad(&mut self, at: Span, error: SyntaxError) {
        self.report(error);
        self.lexed.tokens.push(Token { kind: TokenKind::Bad, span: at });
    }

    /// A name; letters outside ASCII are reported and the whole still counts as a name.
    fn name(&mut self) {
        let (span, text) =
            self.take_while(|character| character.is_alphanumeric() || character == '_');
        if !text.is_ascii() {
            self.report(SyntaxError::NameNotAscii {
                text: excerpt(text),
                ascii: spell_greek(text),
                at: span,
            });
        }
        self.lexed.tokens.push(Token { kind: TokenKind::Name, span });
    }

    fn number(&mut self) {
        let start = self.position;
        let (number, length, error) = read_number(self.rest(), start);
        if let Some(error) = error {
            self.report(error);
        }
        self.push(TokenKind::Number(number), length);
    }

    /// Whether `//` stands between operands: no two words behind it stand beside each other, as those of a sentence do.
    fn divides(&self) -> bool {
        let before = self.lexed.tokens.last().map(|token| token.kind);
        let is_behind_operand = matches!(
            before,
            Some(
                TokenKind::Name
                    | TokenKind::Number(_)
                    | TokenKind::CloseParenthesis
                    | TokenKind::CloseBracket
            )
        );
        let line = self.rest()[2..].split('\n').next().unwrap_or_default();
        let line = line.split(['#', ';', '}']).next().unwrap_or_default().trim();
        let is_letter = |character: char| character.is_alphanumeric() || "_'".contains(character);
        let parts: Vec<&str> = line.split_whitespace().collect();
        let is_sentence = parts
            .windows(2)
            .any(|two| two[0].ends_with(is_letter) && two[1].starts_with(is_letter));
        let begins = line.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '(');
        is_behind_operand && begins && !is_sentence
    }

    /// The rest of the line is a comment in another language; it is one here too, once reported.
    fn foreign_comment(&mut self, found: &'static str) {
        let at = Span::new(self.position, self.position + found.len());
        self.report(SyntaxError::ForeignComment { found, at });
        self.take_while(|character| character != '\n');
    }

    fn quoted(&mut self, first: char) {
        let inside = &self.rest()[first.len_utf8()..];
        let line = inside.split('\n').next().unwrap_or_default();
        let length = match line.char_indices().find(|(_, character)| QUOTES.contains(character)) {
            Some((end, quote)) => first.len_utf8() + end + quote.len_utf8(),
            None => first.len_utf8(),
        };
        let (at, _) = self.take(length);
        self.bad(at, SyntaxError::Quoted { at });
    }

    fn symbol(&mut self, first: char) {
        let rest = self.rest();
        if let Some(&(text, wanted, kind)) =
            FOREIGN.iter().find(|(text, ..)| rest.starts_with(text))
        {
            let at = Span::new(self.position, self.position + text.len());
            let found = text.to_owned();
            self.report(
                if text.is_ascii() && text.len() == 2 && wanted.len() == 1 && wanted != "=" {
                    SyntaxError::WordOperator { found, wanted, at }
                } else {
                    SyntaxError::ForeignOperator { found, wanted, at }
                },
            );
            self.push(kind, text.len());
        } else if let Some(&(text, kind)) = SYMBOLS.iter().find(|(text, _)| rest.starts_with(text))
        {
            self.push(kind, text.len());
        } else if first.is_alphabetic() {
            self.name();
        } else if first.is_whitespace() {
            let (at, _) = self.take_while(|character| character == first);
            self.report(SyntaxError::ForeignSpace { character: first, at });
        } else {
            let (at, _) = self.take_while(is_unknown);
            let at = if at.start == at.end { self.take(first.len_utf8()).0 } else { at };
            self.bad(at, SyntaxError::UnexpectedCharacter { character: first, at });
        }
    }
}

/// Whether no word of the language or of its neighbours begins with the character.
fn is_unknown(character: char) -> bool {
    !(character.is_alphanumeric()
        || character.is_whitespace()
        || character == '_'
        || character == '#'
        || character == '?'
        || QUOTES.contains(&character)
        || SYMBOLS.iter().any(|(text, _)| text.starts_with(character))
        || FOREIGN.iter().any(|(text, ..)| text.starts_with(character)))
}

/// The name with Greek letters spelled out; `None` if other letters remain.
fn spell_greek(text: &str) -> Option<String> {
    let mut spelled = String::new();
    for character in text.chars() {
        match GREEK.iter().find(|(letter, _)| *letter == character) {
            Some((_, name)) => spelled.push_str(name),
            None if character.is_ascii() => spelled.push(character),
            None => return None,
        }
    }
    (spelled.len() <= super::EXCERPT).then_some(spelled)
}
