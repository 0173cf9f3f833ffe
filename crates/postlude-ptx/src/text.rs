//! PTX text, first layer: any statement, whether or not we know its instruction.
//!
//! In: text. Out: statements with their line numbers. Invariant: printing what was read gives the same tokens, and
//! the same text for what this crate printed.

mod operand;
mod statement;

pub use operand::Operand;
pub(crate) use operand::parse_integer;
pub use statement::{Guard, Instruction, Statement, StatementKind};
