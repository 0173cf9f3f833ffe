//! Files and statements.

use crate::syntax::ast::{Ast, Definition, ExprId, ExprKind, Infix, Name, Signature, Statement};
use crate::syntax::error::{ReservedAction, SyntaxError, Wanted};
use crate::syntax::reserved::is_function;
use crate::syntax::token::TokenKind;
use crate::syntax::{excerpt, is_reserved};

use super::{Operand, Parsed, Parser};

impl Parser<'_> {
    /// The whole source: a kernel or a body.
    pub(super) fn file(&mut self) -> Ast {
        self.skip_separators();
        // What is imported stands before the kernel.
        while self.at_foreign_statement() {
            self.refuse_statement();
            self.recover();
            self.skip_separators();
        }
        let mut ast = Ast { definitions: self.definitions(), ..Ast::default() };
        let fused = self.at_fused_kernel();
        if fused || self.at_word("kernel") && self.kind_ahead(1) != TokenKind::Assign {
            self.kernel(&mut ast, fused);
        } else {
            self.body(&mut ast, None);
        }
        ast.exprs = std::mem::take(&mut self.exprs);
        ast
    }

    /// `def name(x, y) = value`, as many as there are; `def` is a word before a name only.
    fn definitions(&mut self) -> Vec<Definition> {
        let mut definitions = Vec::new();
        while self.at_word("def") && self.kind_ahead(1) == TokenKind::Name {
            match self.definition() {
                Ok(definition) => definitions.push(definition),
                Err(_) => self.recover(),
            }
            self.skip_separators();
        }
        definitions
    }

    fn definition(&mut self) -> Parsed<Definition> {
        self.advance();
        let token = self.advance();
        let name = Name::new(self.text(token.span), token.span);
        if is_reserved(&name.text) || is_function(&name.text) {
            self.report_reserved(token.span, ReservedAction::Declared);
        }
        if self.peek().kind != TokenKind::OpenParenthesis {
            return Err(self.unexpected(Wanted::Symbol("(")));
        }
        self.enter();
        let mut parameters = Vec::new();
        while self.peek().kind != TokenKind::CloseParenthesis {
            let token = self.peek();
            if token.kind != TokenKind::Name {
                return Err(self.unexpected(Wanted::Name));
            }
            self.advance();
            if is_reserved(self.text(token.span)) {
                self.report_reserved(token.span, ReservedAction::Declared);
            }
            parameters.push(Name::new(self.text(token.span), token.span));
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.leave(Wanted::CommaOr(')'))?;
        if !self.eat(TokenKind::Assign) {
            return Err(self.unexpected(Wanted::Symbol("=")));
        }
        self.skip_newlines();
        let outer = std::mem::take(&mut self.exprs);
        let value = self.expression();
        let exprs = std::mem::replace(&mut self.exprs, outer);
        let value = value?.id;
        // What follows on the line is the kernel, or does not belong here.
        if !self.at_word("kernel") && !self.at_fused_kernel() {
            self.end_of_statement()?;
        }
        Ok(Definition { name, parameters, exprs, value })
    }

    /// Whether `fused kernel` comes next; `fused` is a word before `kernel` only.
    fn at_fused_kernel(&mut self) -> bool {
        let next = self.tokens.get(self.position + 1).map(|next| next.span);
        self.at_word("fused") && next.is_some_and(|next| self.text(next) == "kernel")
    }

    fn kernel(&mut self, ast: &mut Ast, fused: bool) {
        if fused {
            self.advance();
        }
        ast.signature = self.signature().ok().map(|signature| Signature { fused, ..signature });
        let failed = ast.signature.is_none();
        if failed {
            self.open.clear();
            while !matches!(self.peek().kind, TokenKind::OpenBrace | TokenKind::End) {
                self.position += 1;
            }
            if self.peek().kind == TokenKind::End {
                return;
            }
        }
        self.free = 0;
        self.skip_newlines();
        let brace = self.position;
        if self.peek().kind == TokenKind::OpenBrace {
            self.advance();
            self.body(ast, Some(brace));
        } else {
            self.unexpected(Wanted::Symbol("{"));
            self.recover();
            self.body(ast, Some(brace));
        }
        if self.eat(TokenKind::CloseBrace) {
            self.after_kernel();
        } else if self.tokens[brace].kind == TokenKind::OpenBrace && !self.stopped {
            let (at, end) = (self.tokens[brace].span, self.peek().span);
            self.report(SyntaxError::Unclosed { opener: '{', at, end });
        }
    }

    /// Nothing may follow the kernel.
    fn after_kernel(&mut self) {
        self.skip_separators();
        let first = self.peek();
        if first.kind == TokenKind::End || first.kind == TokenKind::Bad {
            return;
        }
        if self.at_word("kernel") {
            self.report_second_kernel();
        } else if first.kind == TokenKind::CloseBrace {
            self.report(SyntaxError::StrayCloser { closer: '}', at: first.span });
        } else {
            self.position = self.tokens.len() - 1;
            let last = self.previous().unwrap_or(first);
            self.report(SyntaxError::TrailingText { at: first.span.to(last.span) });
        }
    }

    fn report_second_kernel(&mut self) {
        let word = self.advance();
        let name = self.peek();
        let end = if name.kind == TokenKind::Name { name.span } else { word.span };
        self.report(SyntaxError::SecondKernel { at: word.span.to(end) });
        self.position = self.tokens.len() - 1;
    }

    /// Statements to the end of the source, or to the `}` of the kernel whose `{` is given.
    fn body(&mut self, ast: &mut Ast, brace: Option<usize>) {
        loop {
            self.skip_separators();
            let next = self.peek();
            match next.kind {
                TokenKind::End => return,
                TokenKind::CloseBrace if brace.is_some() => return,
                TokenKind::CloseBrace => {
                    self.advance();
                    self.report(SyntaxError::StrayCloser { closer: '}', at: next.span });
                    continue;
                }
                TokenKind::Name
                    if self.at_word("kernel") && self.kind_ahead(1) == TokenKind::Name =>
                {
                    self.report_second_kernel();
                    self.stopped = true;
                    return;
                }
                _ => {}
            }
            match self.statement(ast.statements.is_empty() && self.errors.is_empty()) {
                Ok(statement) => ast.statements.push(statement),
                Err(_) => self.recover(),
            }
        }
    }

    fn statement(&mut self, first: bool) -> Parsed<Statement> {
        if self.at_foreign_statement() {
            return Err(self.refuse_statement());
        }
        let token = self.peek();
        if token.kind.is_operator() && !first {
            let operator = self.excerpt(token.span);
            return Err(self.report(SyntaxError::LeadingOperator { operator, at: token.span }));
        }
        if token.kind != TokenKind::Name
            && !token.kind.begins_operand()
            && !token.kind.is_operator()
        {
            return Err(self.unexpected(Wanted::Statement));
        }
        let word_first = token.kind == TokenKind::Name
            && self.kind_ahead(1) == TokenKind::Name
            && self.kind_ahead(2) == TokenKind::Assign;
        if word_first {
            let name = self.excerpt(self.tokens[self.position + 1].span);
            let word = self.excerpt(token.span);
            self.report(SyntaxError::WordBeforeAssignment { word, name, at: token.span });
            self.advance();
        }
        let targets = self.targets()?;
        self.skip_newlines();
        let value = self.expression()?;
        self.end_of_statement()?;
        Ok(Statement { targets, value: value.id })
    }

    /// The names before `=`, and the `=`.
    fn targets(&mut self) -> Parsed<Vec<Name>> {
        let Some(length) = self.assigned_names() else { return Err(self.refuse_targets()) };
        let mut targets = Vec::new();
        for _ in 0..length {
            let token = self.tokens[self.position];
            self.position += 1;
            if token.kind == TokenKind::Name {
                let name = Name::new(self.text(token.span), token.span);
                if is_reserved(&name.text) {
                    self.report_reserved(token.span, ReservedAction::Assigned);
                }
                targets.push(name);
            }
        }
        self.advance();
        Ok(targets)
    }

    /// Reports why a statement does not begin with names and `=`.
    fn refuse_targets(&mut self) -> super::Failed {
        let first = self.peek();
        let name = self.excerpt(first.span);
        let next = self.tokens[(self.position + 1).min(self.tokens.len() - 1)];
        if first.kind == TokenKind::Name {
            let at = next.span;
            match next.kind {
                TokenKind::Colon => {
                    let at = first.span.to(at);
                    return self.report(SyntaxError::TypedAssignment { name, at });
                }
                TokenKind::AssignWith => {
                    return self.refuse_compound(name, at);
                }
                TokenKind::Comma => {
                    return self.refuse_target_list();
                }
                TokenKind::Name | TokenKind::Number(_)
                    if !matches!(self.text(at), "and" | "or" | "if")
                        && !matches!(name.as_str(), "not" | "if") =>
                {
                    return self.report(SyntaxError::MissingAssign { name, at: first.span });
                }
                _ => {}
            }
        }
        match self.expression() {
            Ok(value) => self.refuse_value(value),
            Err(failed) => failed,
        }
    }

    /// Reports a list on the left side that is not one of names.
    fn refuse_target_list(&mut self) -> super::Failed {
        while self.eat(TokenKind::Name) && self.eat(TokenKind::Comma) {
            self.skip_newlines();
        }
        let next = self.peek();
        let is_list_end = matches!(
            next.kind,
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End
        );
        let after_comma = self.previous().is_some_and(|token| token.kind == TokenKind::Comma);
        self.unexpected(if after_comma && (is_list_end || next.kind != TokenKind::Name) {
            Wanted::Name
        } else {
            Wanted::Symbol("=")
        })
    }

    /// Reports a value where a statement should be.
    fn refuse_value(&mut self, value: Operand) -> super::Failed {
        let at = value.span;
        let text = self.excerpt(at);
        let token = self.peek();
        let kind = &self.exprs[value.id].kind;
        match token.kind {
            TokenKind::Assign | TokenKind::AssignWith => {
                let name = annotated_name(kind);
                self.report(SyntaxError::TargetNotName { text, name, at })
            }
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End => {
                if let Some(left) = compared_with(kind)
                    && let ExprKind::Name(name) = &self.exprs[left].kind
                {
                    let name = excerpt(name);
                    return self.report(SyntaxError::ComparisonForAssignment { name, at });
                }
                self.report(SyntaxError::NotAssigned { text, at })
            }
            _ => self.unexpected(Wanted::OperatorOrEnd),
        }
    }

    /// Reports what follows a whole statement on its line.
    fn end_of_statement(&mut self) -> Parsed<()> {
        let token = self.peek();
        match token.kind {
            TokenKind::Newline | TokenKind::Semicolon | TokenKind::CloseBrace | TokenKind::End => {
                Ok(())
            }
            TokenKind::Assign => {
                Err(self.report(SyntaxError::AssignmentInExpression { at: token.span }))
            }
            TokenKind::Name if self.begins_assignment() => {
                let name = self.excerpt(token.span);
                self.report(SyntaxError::MissingSeparator { name, at: token.span });
                Ok(())
            }
            _ => Err(self.unexpected(Wanted::OperatorOrEnd)),
        }
    }

    /// One expression and nothing else.
    pub(super) fn lone_expression(&mut self) -> Parsed<ExprId> {
        let value = self.expression()?;
        self.skip_separators();
        match self.peek().kind {
            TokenKind::End => Ok(value.id),
            _ => Err(self.unexpected(Wanted::End)),
        }
    }
}

fn annotated_name(kind: &ExprKind) -> Option<String> {
    if let ExprKind::Annotated(name, _) = kind { Some(excerpt(name)) } else { None }
}

/// The left side of `left == right`.
fn compared_with(kind: &ExprKind) -> Option<ExprId> {
    if let ExprKind::Infix(Infix::Equal, left, _) = kind { Some(*left) } else { None }
}
