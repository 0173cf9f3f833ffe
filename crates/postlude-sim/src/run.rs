//! Runs a program.
//!
//! In: PTX text, the facts of a launch, and the buffers it names. Out: the buffers changed, and a report.

use postlude_ptx::launch::Launch;
use postlude_ptx::shared::Region;

use crate::error::SimError;
use crate::limits::check;
use crate::machine::Machine;
use crate::observe::{Nobody, Observer};
use crate::outputs::Output;
use crate::program::Program;
use crate::report::Report;
use crate::timing::Timing;

/// How a program is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// When asynchronous operations complete.
    pub timing: Timing,
    /// Whether what is wrong is gathered in the report; otherwise the first of it ends the run as an error.
    pub findings: bool,
    /// The most warp instructions: a kernel that has not ended by then is given up with [`SimError::Budget`].
    pub budget: u64,
    /// Names for parts of dynamic shared memory.
    pub regions: Vec<Region>,
    /// Outputs that the launch must write whole.
    pub outputs: Vec<Output>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            timing: Timing::Eager,
            findings: true,
            budget: 1 << 32,
            regions: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

/// Runs the kernel of `text` on the CPU. Buffers are those that the launch numbers; its own scratch memory is made here.
pub fn run(
    text: &str,
    launch: &Launch,
    buffers: &mut [Vec<u8>],
    options: &Options,
) -> Result<Report, SimError> {
    run_observed(text, launch, buffers, options, &mut Nobody)
}

/// The same, with somebody who watches.
pub fn run_observed(
    text: &str,
    launch: &Launch,
    buffers: &mut [Vec<u8>],
    options: &Options,
    observer: &mut dyn Observer,
) -> Result<Report, SimError> {
    let program = Program::read(text)?;
    let sizes: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
    check(&program, launch, &sizes)?;
    let mut machine = Machine::new(&program, launch, options, observer, buffers.len())?;
    for (buffer, held) in buffers.iter_mut().zip(&mut machine.global.buffers) {
        std::mem::swap(buffer, held);
    }
    let result = machine.run().and_then(|()| machine.check_scratch());
    let result = result.and_then(|()| machine.check_outputs());
    for (buffer, held) in buffers.iter_mut().zip(machine.global.buffers) {
        *buffer = held;
    }
    result.map(|()| machine.report)
}
