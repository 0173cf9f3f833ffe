//! What L2 is told about the tensors of a kernel.

/// What L2 is told to keep.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Hints {
    /// Nothing.
    None,
    /// Outputs go first: nothing here reads them again.
    Outputs,
    /// Outputs go first, A and B last.
    Operands,
}

impl Hints {
    /// All of them.
    pub(crate) const ALL: [Hints; 3] = [Hints::None, Hints::Outputs, Hints::Operands];

    /// The word in a printed schedule.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Hints::None => "none",
            Hints::Outputs => "outputs",
            Hints::Operands => "operands",
        }
    }
}
