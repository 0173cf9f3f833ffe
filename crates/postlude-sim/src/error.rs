//! Why a program was not run, or not to its end.

use crate::report::Finding;

/// A text, a launch or a run that the simulator gives up on.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SimError {
    /// The text is no PTX.
    #[error(transparent)]
    Text(#[from] postlude_ptx::text::Error),
    /// A line that the instruction table does not have.
    #[error("line {line}: unknown: `{text}`")]
    Unknown {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A known instruction with types or operands that the simulator does not run.
    #[error("line {line}: `{text}` is not simulated: {why}")]
    Unsupported {
        /// The line, from 1.
        line: usize,
        /// What stands there.
        text: String,
        /// What is missing.
        why: &'static str,
    },
    /// The launch does not fit the program.
    #[error("the launch {why}")]
    Launch {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The launch asks for more shared memory than a CTA of the chip can have.
    #[error("the launch asks for {asked} bytes of shared memory, and a CTA has at most {most}")]
    SharedMemory {
        /// Bytes that the text declares and the launch adds.
        asked: u64,
        /// Bytes that there are.
        most: u64,
    },
    /// The launch's memory does not fit into this machine's, or into the simulator's addresses.
    #[error("{what} has {bytes} bytes, and the simulator has room for {most}")]
    Memory {
        /// A buffer, or the scratch memory.
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The most it may have.
        most: u64,
    },
    /// A tensor map that `cuTensorMapEncodeTiled` refuses.
    #[error("tensor map of parameter {parameter}: {why}")]
    TensorMap {
        /// The parameter, from 0.
        parameter: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// `trap` was executed.
    #[error("line {line}: CTA {cta}, warp {warp}: trap")]
    Trap {
        /// The line, from 1.
        line: usize,
        /// The CTA in the grid.
        cta: u32,
        /// The warp in its CTA.
        warp: u32,
    },
    /// The run took more instructions than it was allowed.
    #[error("budget of {budget} warp instructions used up; the kernel had not ended")]
    Budget {
        /// How many were allowed.
        budget: u64,
    },
    /// Something is wrong with the program, and findings were not asked for.
    #[error("{0}")]
    Found(Box<Finding>),
}
