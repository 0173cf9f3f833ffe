//! PTX text, first layer: any statement, whether or not we know its instruction.
//!
//! In: text. Out: statements with their line numbers. Invariant: printing what was read gives the same tokens, and
//! the same text for what this crate printed.

mod operand;
mod read;
mod statement;
mod tokens;

pub use operand::Operand;
pub(crate) use operand::parse_integer;
pub use read::{Error, read};
pub use statement::{Guard, Instruction, Statement, StatementKind};

use std::fmt::{self, Display, Formatter};

/// Statements as text, indented by their braces.
pub struct Program<'s>(pub &'s [Statement]);

impl Display for Program<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let mut depth = 0;
        for statement in self.0 {
            let indent = match &statement.kind {
                StatementKind::Open => {
                    depth += 1;
                    depth - 1
                }
                StatementKind::Close => {
                    depth = depth.max(1) - 1;
                    depth
                }
                StatementKind::Label(_) => 0,
                StatementKind::Directive(_) | StatementKind::Instruction(_) => depth,
            };
            writeln!(f, "{:width$}{statement}", "", width = 4 * indent)?;
        }
        Ok(())
    }
}
