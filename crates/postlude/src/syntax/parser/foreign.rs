//! What people write who come from Python: arguments with names, methods, modules, slices, loops, `return`.
//!
//! In: the words of such a form. Out: one diagnostic of the whole of it, with the text that stands for it here where that can
//! be told from the words alone.
//! Invariant: nothing here is inlined into the functions that recurse, whose frames a small stack has to hold.

use crate::catalogue;
use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::ast::{Declaration, Name, Signature};
use crate::syntax::error::{Member, SyntaxError};
use crate::syntax::excerpt;
use crate::syntax::foreign::{self, Instead, Written};
use crate::syntax::span::Span;
use crate::syntax::token::TokenKind;

use super::{Failed, Operand, Parsed, Parser};

/// Where other languages keep their functions.
const MODULES: &[&str] =
    &["torch", "F", "nn", "np", "numpy", "jnp", "jax", "tl", "math", "scipy", "libdevice"];

/// Members behind members are put into one text while it is shorter.
const LONGEST_CHAIN: usize = 200;

/// Words that begin a statement elsewhere, and what stands for it here.
#[rustfmt::skip] // A table: one line a word.
const STATEMENTS: &[(&str, &str)] = &[
    ("return", "assign each output by its name, as in `D = ...`"),
    ("for", "leave the loop out: a statement says what happens to every element, and `sum(x, N)` adds along a dim"),
    ("while", "leave the loop out: a statement says what happens to every element, and `sum(x, N)` adds along a dim"),
    ("import", "leave it out: functions are known by their names"),
    ("from", "leave it out: functions are known by their names"),
    ("with", "leave it out: a body holds assignments only"),
    ("assert", "leave it out: dims that have one name have one size, which is checked at every call"),
    ("else", "write `where(condition, a, b)`"),
    ("elif", "write `where(condition, a, where(condition, b, c))`"),
    ("class", "write a kernel: `kernel name(inputs) -> (outputs) { ... }`"),
    ("del", "leave it out: memory is planned for the whole kernel"),
    ("pass", "leave it out: a body holds assignments only"),
];

impl Parser<'_> {
    /// Keeps what the signature says of dims and outputs, for texts that are proposed.
    pub(super) fn remember(&mut self, signature: &Signature) {
        self.outputs = signature.outputs.iter().map(|output| excerpt(&output.name.text)).collect();
        let dims = |declared: &Declaration| -> Vec<String> {
            declared.dims.iter().flatten().map(Dim::to_string).collect()
        };
        let widest = signature.outputs.iter().map(dims).max_by_key(Vec::len).unwrap_or_default();
        let mut tensors = signature.inputs.iter().map(dims).filter(|dims| dims.len() > 1);
        self.dims = match (tensors.next(), tensors.next()) {
            _ if widest.len() > 1 => widest,
            (Some(left), Some(right)) => {
                let rows = left.iter().filter(|dim| !right.contains(dim) || left.len() > 2);
                let columns = right.iter().filter(|dim| !left.contains(dim));
                rows.chain(columns).cloned().collect()
            }
            (Some(only), None) => only,
            (None, _) => widest,
        };
    }

    /// The arguments between a bracket and its partner, cut at commas.
    fn written(&self, opener: usize) -> Option<Vec<(Written, Span)>> {
        let end = self.partners[opener]? as usize;
        let mut arguments = Vec::new();
        let mut start = opener + 1;
        let mut position = start;
        while position <= end {
            let kind = self.tokens[position].kind;
            if position == end || kind == TokenKind::Comma {
                let own = &self.tokens[start..position];
                let mut words = own.iter().filter(|token| token.kind != TokenKind::Newline);
                if let (Some(first), Some(last)) = (words.next(), words.next_back().or(own.last()))
                {
                    let span = first.span.to(last.span);
                    arguments.push((self.argument(first.span, words.next(), span), span));
                }
                start = position + 1;
            }
            position = match self.partners[position] {
                Some(partner) if partner as usize > position => partner as usize,
                Some(_) | None => position + 1,
            };
        }
        Some(arguments)
    }

    /// An argument that covers `span`, and may begin with a name and `=`.
    fn argument(
        &self,
        first: Span,
        second: Option<&crate::syntax::token::Token>,
        span: Span,
    ) -> Written {
        match second {
            Some(assign) if assign.kind == TokenKind::Assign => Written {
                name: Some(self.excerpt(first)),
                text: excerpt(&self.source[assign.span.end as usize..span.end as usize]),
            },
            Some(_) | None => Written { name: None, text: self.excerpt(span) },
        }
    }

    /// Reports the named arguments of a call, whose `(` comes next, if it has some.
    #[inline(never)]
    pub(super) fn refuse_keywords(&mut self, function: &Name) -> Parsed<()> {
        let opener = self.position;
        let Some(arguments) = self.written(opener) else { return Ok(()) };
        let is_named = |argument: &&(Written, Span)| argument.0.name.is_some();
        let (Some((first, from)), Some((_, to))) =
            (arguments.iter().find(is_named), arguments.iter().rfind(is_named))
        else {
            return Ok(());
        };
        let name = function.text.as_str();
        // `where(a = b, 1, 2)` compares.
        if name == "where" && arguments.len() == 3 {
            let at = *from;
            return Err(self.report(SyntaxError::AssignmentInExpression { at }));
        }
        let keyword = first.name.clone().unwrap_or_default();
        let drops_dim = arguments.iter().any(|(argument, _)| {
            argument.name.as_deref().is_some_and(|name| name.starts_with("keep"))
        });
        let at = from.to(*to);
        let written: Vec<Written> = arguments.into_iter().map(|(argument, _)| argument).collect();
        let known = foreign::call(name, &written, &self.dims);
        let fix = match (known, catalogue::find(name)) {
            (Some(known), _) if drops_dim => {
                format!("{}: results meet other values by the names of their dims", known.fix())
            }
            (Some(known), _) => known.fix(),
            (None, Some(entry)) => format!("it is `{}`", entry.call()),
            (None, None) => {
                let texts: Vec<&str> =
                    written.iter().map(|argument| argument.text.as_str()).collect();
                format!("write `{}({})`", excerpt(name), texts.join(", "))
            }
        };
        Err(self.report(SyntaxError::NamedArgument { name: keyword, fix, at }))
    }

    /// Reports `.name` behind a value or a module, and the members behind it, as one call.
    #[cold]
    pub(super) fn foreign_member(&mut self, operand: Operand, dot: Span) -> Failed {
        let root = self.excerpt(self.exprs[operand.id].span);
        let in_module = MODULES.contains(&root.as_str());
        let first = self.peek();
        let mut meant = None;
        let (mut text, mut at) = (root, dot.to(first.span));
        let mut what = if in_module { Member::Function } else { Member::Attribute };
        let mut is_function = in_module;
        loop {
            let member = self.peek().span;
            let name = self.text(member);
            self.position += 1;
            let called = self.tokens[self.position].kind == TokenKind::OpenParenthesis;
            let arguments = if called { self.written(self.position) } else { None };
            let is_first = at.end == first.span.end && meant.is_none();
            let found = match (&arguments, is_function) {
                (None, true) => foreign::word(name),
                (Some(arguments), true) => {
                    let own: Vec<Written> =
                        arguments.iter().map(|(argument, _)| argument.clone()).collect();
                    foreign::call(name, &own, &self.dims)
                }
                (arguments, false) => {
                    let value = Written { name: None, text: text.clone() };
                    let rest = arguments.iter().flatten().map(|(argument, _)| argument.clone());
                    let own: Vec<Written> = std::iter::once(value).chain(rest).collect();
                    foreign::call(name, &own, &self.dims)
                }
            };
            let mut end = member;
            if let (Some(_), Some(close)) = (&arguments, self.partners[self.position]) {
                self.position = close as usize + 1;
                end = self.tokens[close as usize].span;
                if is_first && !in_module {
                    what = Member::Method;
                }
            }
            let is_path = is_function && arguments.is_none() && found.is_none();
            at = at.to(end);
            is_function = is_path;
            let more =
                self.kind_ahead(0) == TokenKind::Dot && self.kind_ahead(1) == TokenKind::Name;
            if !is_path {
                meant = found;
            }
            match &meant {
                Some(Instead::Write(known)) if more && known.len() < LONGEST_CHAIN => {
                    text.clone_from(known);
                }
                None if more && is_path => {}
                _ => break,
            }
            self.position += 1;
        }
        let at = if in_module { operand.span.to(at) } else { at };
        let name = self.excerpt(at).trim_start_matches('.').trim().to_owned();
        let fix = meant.map(Instead::fix);
        self.report(SyntaxError::UnknownMember { name, what, fix, at })
    }

    /// Reports `a if condition else b`, of which `a` was read.
    #[cold]
    pub(super) fn conditional(&mut self, value: Operand) -> Failed {
        let word = self.peek().span;
        let start = self.position + 1;
        let condition = self.part(start);
        let has_else = condition.is_some_and(|(_, end)| self.text(self.tokens[end].span) == "else");
        let choice = match condition {
            Some((condition, end)) if has_else => self.part(end + 1).map(|(other, _)| {
                let [condition, value, other] =
                    [condition, value.span, other].map(|span| self.excerpt(span));
                format!("where({condition}, {value}, {other})")
            }),
            Some(_) | None => None,
        };
        self.report(SyntaxError::Conditional { found: "if".to_owned(), choice, at: word })
    }

    /// The words from a place on, up to `else`, a comma, or the end of the statement or of the brackets around it; and where
    /// that is.
    fn part(&self, start: usize) -> Option<(Span, usize)> {
        let mut position = start;
        loop {
            let token = self.tokens[position];
            let is_end = match token.kind {
                TokenKind::Comma | TokenKind::Semicolon | TokenKind::End => true,
                TokenKind::Newline => self.free == 0,
                TokenKind::Name => self.text(token.span) == "else",
                kind => kind.is_closer(),
            };
            if is_end {
                let last = self.tokens[start..position].last()?;
                return Some((self.tokens[start].span.to(last.span), position));
            }
            position = match self.partners[position] {
                Some(partner) if partner as usize > position => partner as usize + 1,
                Some(_) | None => position + 1,
            };
        }
    }

    /// The words from a place on to the end of the statement.
    fn rest_of_statement(&self, start: usize) -> String {
        let mut end = start;
        while !matches!(
            self.tokens[end].kind,
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End
        ) {
            end = match self.partners[end] {
                Some(partner) if partner as usize > end => partner as usize + 1,
                Some(_) | None => end + 1,
            };
        }
        let words = &self.tokens[start..end];
        let whole = words.first().zip(words.last()).map(|(first, last)| first.span.to(last.span));
        whole.map_or_else(String::new, |span| self.excerpt(span))
    }

    /// Whether the next word begins a statement of another language.
    pub(super) fn at_foreign_statement(&mut self) -> bool {
        let token = self.peek();
        let text = self.text(token.span);
        token.kind == TokenKind::Name
            && STATEMENTS.iter().any(|(word, _)| *word == text)
            && !matches!(
                self.kind_ahead(1),
                TokenKind::Assign | TokenKind::AssignWith | TokenKind::Comma
            )
    }

    /// Reports a statement of another language.
    #[cold]
    pub(super) fn refuse_statement(&mut self) -> Failed {
        let at = self.peek().span;
        let word = self.text(at).to_owned();
        let rest = self.rest_of_statement(self.position + 1);
        let advice = STATEMENTS.iter().find(|(known, _)| *known == word);
        let advice = advice.map_or(String::new(), |(_, advice)| (*advice).to_owned());
        let inside = rest.trim_start_matches('(').trim_end_matches(')');
        let values: Vec<&str> = inside.split(',').map(str::trim).collect();
        let fix = match (word.as_str(), self.outputs.as_slice()) {
            ("return", []) if !rest.is_empty() => format!("write `D = {rest}`"),
            ("return", [output]) if !rest.is_empty() => format!("write `{output} = {rest}`"),
            // A comma inside a call is no comma between results.
            ("return", outputs) if outputs.len() == values.len() && !inside.contains('(') => {
                let pairs = outputs.iter().zip(values);
                let lines: Vec<String> =
                    pairs.map(|(name, text)| format!("{name} = {text}")).collect();
                format!("write `{}`", lines.join("; "))
            }
            _ => advice,
        };
        self.report(SyntaxError::ForeignStatement { word, fix, at })
    }

    /// Reports `D += x`.
    #[cold]
    pub(super) fn refuse_compound(&mut self, name: String, at: Span) -> Failed {
        let operator = self.excerpt(at);
        let value = self.rest_of_statement(self.position + 2);
        let plain = operator.trim_end_matches('=');
        let value = if plain == "+" { value } else { foreign::operand(&value) };
        let whole = format!("{name}_2 = {name} {plain} {value}");
        self.report(SyntaxError::CompoundAssignment { operator, name, whole, at })
    }

    /// Reports `x[:, :64]` and `x[None, :]`, whose `[` comes next.
    #[inline(never)]
    pub(super) fn refuse_index(&mut self, value: Span) -> Parsed<()> {
        let opener = self.position;
        let Some(close) = self.partners[opener] else { return Ok(()) };
        let own = &self.tokens[opener + 1..close as usize];
        let is_none = |span: Span| self.text(span) == "None";
        let has_none = own.iter().any(|token| is_none(token.span));
        if !has_none && own.iter().all(|token| token.kind != TokenKind::Colon) {
            return Ok(());
        }
        let name = self.excerpt(value);
        let places = self.text(self.tokens[opener].span.to(self.tokens[close as usize].span));
        let is_bound = own.iter().any(|token| matches!(token.kind, TokenKind::Number(_)));
        let fix = if has_none {
            let dim = match (places.starts_with("[None"), self.dims.as_slice()) {
                (true, [.., column]) => column.as_str(),
                (false, [.., row, _]) => row.as_str(),
                (_, _) => "N",
            };
            format!(
                "write `{name}`: values meet by the names of their dims, and a vector declared `f32[{dim}]` varies along `{dim}`"
            )
        } else if places.contains("::") {
            format!("write `even, odd = pairs({name})` for every second column")
        } else if is_bound {
            format!(
                "split the columns: `a, b = halves({name})`, or `q, k = split({name}, [Q, KV])` where these dims are declared"
            )
        } else {
            format!("write `{name}`: a statement says what happens to every element")
        };
        let text = self.excerpt(value.to(self.tokens[close as usize].span));
        let at = self.tokens[opener].span.to(self.tokens[close as usize].span);
        Err(self.report(SyntaxError::Indexed { text, fix, at }))
    }

    /// Reports a list of types without names, whose `(` comes next: `-> (bf16[M, N], f32[])`.
    pub(super) fn refuse_unnamed(&mut self, names: &[&str]) -> Parsed<()> {
        let opener = self.position;
        let Some(close) = self.partners[opener] else { return Ok(()) };
        let first = self.tokens[opener + 1];
        let is_type = first.kind == TokenKind::Name
            && DType::from_name(self.text(first.span)).is_some()
            && self.tokens[opener + 2].kind != TokenKind::Colon;
        if !is_type {
            return Ok(());
        }
        let types = self.written(opener).unwrap_or_default();
        let named: Vec<String> = types
            .iter()
            .enumerate()
            .map(|(place, (written, _))| {
                let name =
                    names.get(place).map_or_else(|| format!("x{place}"), ToString::to_string);
                if written.text.contains(':') {
                    written.text.clone()
                } else {
                    format!("{name}: {}", written.text)
                }
            })
            .collect();
        let list = format!("({})", named.join(", "));
        let at = self.tokens[opener].span.to(self.tokens[close as usize].span);
        self.position = close as usize + 1;
        Err(self.report(SyntaxError::UnnamedDeclarations { list, at }))
    }

    /// Reports an operator that the language does not have, with the call that computes it.
    #[cold]
    pub(super) fn report_operator(&mut self, left: Operand, symbol: Span, right: Operand) {
        let operator = self.text(symbol).to_owned();
        let [a, b] = [left, right].map(|operand| self.excerpt(operand.span));
        let number = b.parse::<u32>().ok().filter(|number| number.is_power_of_two());
        let of_bits = match (operator.as_str(), number) {
            ("%", Some(number)) => Some(format!("{a} & {}", number - 1)),
            ("//", Some(number)) => Some(format!("{a} >> {}", number.trailing_zeros())),
            _ => None,
        };
        let (of_floats, of_integers) = if operator == "%" {
            (format!("fmod({a}, {b})"), format!("i32(fmod(f32({a}), f32({b})))"))
        } else {
            (format!("floor({a} / {b})"), format!("i32(floor(f32({a}) / f32({b})))"))
        };
        let of_integers = of_bits.unwrap_or(of_integers);
        let comment = if operator == "//" { "; comments begin with `#`" } else { "" };
        let fix = format!("write `{of_integers}` of integers, `{of_floats}` of floats{comment}");
        let at = left.span.to(right.span);
        self.report(SyntaxError::NoOperator { operator, fix, at });
    }

    /// Reports a dtype that stands alone where a declaration should.
    pub(super) fn refuse_unnamed_type(&mut self) -> Parsed<()> {
        let token = self.peek();
        let is_type = token.kind == TokenKind::Name
            && DType::from_name(self.text(token.span)).is_some()
            && self.kind_ahead(1) == TokenKind::OpenBracket;
        let (true, Some(close)) =
            (is_type, self.partners.get(self.position + 1).copied().flatten())
        else {
            return Ok(());
        };
        let at = token.span.to(self.tokens[close as usize].span);
        let list = format!("D: {}", self.excerpt(at));
        self.position = close as usize + 1;
        Err(self.report(SyntaxError::UnnamedDeclarations { list, at }))
    }

    /// A value's word of another language: `True`, `None`.
    #[inline(never)]
    pub(super) fn refuse_word(&mut self, at: Span) -> Parsed<()> {
        match foreign::value_instead(self.text(at)) {
            Some(fix) => {
                let (word, fix) = (self.text(at).to_owned(), fix.to_owned());
                Err(self.report(SyntaxError::ForeignValue { word, fix, at }))
            }
            None => Ok(()),
        }
    }
}
