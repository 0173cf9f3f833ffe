//! Operations that move values rather than compute them, and what an operation needs of an engine.

use crate::graph::{Op, Over, Run};

/// `row` or `col`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexAxis {
    /// The row number, i32.
    Row,
    /// The column number, i32.
    Column,
}

impl IndexAxis {
    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            IndexAxis::Row => "row",
            IndexAxis::Column => "col",
        }
    }
}

/// What an operation asks of the engine that runs it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Needs {
    /// Its operands' elements at the same place.
    Elements,
    /// A load from memory.
    Load,
    /// Other columns of the same row.
    Row,
    /// Values of other rows: partial results that are combined.
    Partials,
}

impl Op {
    /// What the operation asks of an engine.
    pub const fn needs(&self) -> Needs {
        match self {
            Op::Input(_) => Needs::Load,
            Op::Accumulator
            | Op::FurtherAccumulator(_)
            | Op::Constant(_)
            | Op::Index(_)
            | Op::Extent(_) => Needs::Elements,
            Op::Unary(..) | Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) => {
                Needs::Elements
            }
            Op::Part(..) | Op::Merge(..) | Op::Pick(..) => Needs::Row,
            Op::Reduce(
                _,
                Over { batch: false, row: false, column: Some(Run::All | Run::Group(_)) },
                _,
            ) => Needs::Row,
            Op::Reduce(..) => Needs::Partials,
            Op::Call(..) => Needs::Elements,
        }
    }
}
