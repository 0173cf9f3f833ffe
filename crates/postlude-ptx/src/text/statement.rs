//! Statements as written.

use std::fmt;

use super::operand::{Operand, write_list};

/// One statement and where it starts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Its line, from 1.
    pub line: usize,
    /// What it is.
    pub kind: StatementKind,
}

/// What a statement is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StatementKind {
    /// `.reg .b32 %r<4>;`, `.version 8.3`, or the head of an entry: its words, with their spacing normalised.
    Directive(String),
    /// `name:`
    Label(String),
    /// An instruction.
    Instruction(Instruction),
    /// `{`
    Open,
    /// `}`
    Close,
}

/// The predicate in front of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guard {
    /// `@!p`
    pub negated: bool,
    /// The register's name.
    pub predicate: String,
}

/// An instruction of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Its predicate.
    pub guard: Option<Guard>,
    /// Opcode and modifiers: what stands between the dots.
    pub opcode: Vec<String>,
    /// Its operands, in order.
    pub operands: Vec<Operand>,
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "@{}{}", if self.negated { "!" } else { "" }, self.predicate)
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if let Some(guard) = &self.guard {
            write!(f, "{guard} ")?;
        }
        f.write_str(&self.opcode.join("."))?;
        if !self.operands.is_empty() {
            f.write_str(" ")?;
            write_list(&self.operands, f)?;
        }
        f.write_str(";")
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.kind {
            StatementKind::Directive(text) => f.write_str(text),
            StatementKind::Label(name) => write!(f, "{name}:"),
            StatementKind::Instruction(instruction) => write!(f, "{instruction}"),
            StatementKind::Open => f.write_str("{"),
            StatementKind::Close => f.write_str("}"),
        }
    }
}
