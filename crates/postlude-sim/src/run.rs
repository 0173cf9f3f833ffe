//! Runs a program.
//!
//! In: PTX text, the facts of a launch, and the buffers it names. Out: the buffers changed, and a report.

use postlude_ptx::launch::{Launch, Parameter, TensorMap};
use postlude_ptx::shared::Region;

use crate::error::SimError;
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
    /// The most warp instructions.
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
    check(&program, launch)?;
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

/// Whether the launch fits the program.
fn check(program: &Program, launch: &Launch) -> Result<(), SimError> {
    let refuse = |why| Err(SimError::Launch { why });
    let Launch { grid, cluster, threads, .. } = launch;
    let product =
        |sizes: &[u32; 3]| sizes.iter().try_fold(1_u32, |product, size| product.checked_mul(*size));
    if !product(grid).is_some_and(|count| (1..=1 << 24).contains(&count)) {
        return refuse("has no CTAs, or too many");
    }
    if !product(cluster).is_some_and(|count| (1..=16).contains(&count))
        || grid.iter().zip(cluster).any(|(grid, cluster)| !grid.is_multiple_of(*cluster))
    {
        return refuse("has a grid that is no multiple of its cluster");
    }
    if program.head.cluster.is_some_and(|declared| declared != *cluster) {
        return refuse("has another cluster than the text");
    }
    if !(1..=1024).contains(threads) || program.head.threads.is_some_and(|most| *threads > most) {
        return refuse("has no threads, or more than the text allows");
    }
    let fits = |parameter: &Parameter| match parameter {
        Parameter::Map(map) => is_valid(map),
        Parameter::Pointer { .. } | Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => {
            true
        }
    };
    if launch.parameters.iter().all(fits) { Ok(()) } else { refuse("has a broken tensor map") }
}

/// What `cuTensorMapEncodeTiled` takes, of sizes that a simulation can have.
fn is_valid(map: &TensorMap) -> bool {
    let dims = map.sizes.len();
    let element = u64::from(map.element.bytes());
    (1..=5).contains(&dims)
        && map.strides.len() + 1 == dims
        && map.box_sizes.len() == dims
        && map.sizes.iter().all(|size| (1..1 << 31).contains(size))
        && map.box_sizes.iter().all(|size| (1..=256).contains(size))
        && map.box_sizes.iter().map(|size| u64::from(*size)).product::<u64>() * element <= 1 << 20
        && map.strides.iter().all(|stride| stride.is_multiple_of(16) && *stride < 1 << 40)
        && map.strides.iter().zip(&map.sizes[1..]).all(|(stride, size)| stride * size <= 1 << 48)
        && map.offset % 16 == 0
        && (-16..1 << 48).contains(&map.offset)
        && (u64::from(map.box_sizes[0]) * element).is_multiple_of(16)
}
