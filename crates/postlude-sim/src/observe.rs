//! What a run shows to those who watch it: a tracker of what happens before what, meters, a timeline.
//!
//! In: calls from the machine as things happen. Out: nothing; an observer never changes a run. Invariant: an agent's calls
//! come in its program's order, and an asynchronous operation's `issued` comes before its `completed`.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::WaitFor;

/// Who does something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Agent {
    /// A warp, by its CTA in the grid and its number there.
    Warp {
        /// The CTA.
        cta: u32,
        /// The warp.
        warp: u32,
    },
    /// A copy or a matrix product under way, by its number in the run.
    Operation(u64),
}

/// An agent at a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Who.
    pub agent: Agent,
    /// The PTX line; of an operation the line that issued it.
    pub line: u32,
    /// Lanes that execute it; none of an operation.
    pub lanes: u32,
}

/// Which memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// All buffers.
    Global,
    /// Shared memory of a CTA of the grid.
    Shared {
        /// The CTA.
        cta: u32,
    },
}

/// What happens to memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Read and write at once.
    Atomic,
}

/// One access of all lanes of an instruction, or of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// Which memory.
    pub space: Space,
    /// What happens to it.
    pub kind: Kind,
    /// Address and bytes, one for each lane or each piece of a box.
    pub pieces: &'a [(u64, u32)],
}

/// What an asynchronous operation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A copy into shared memory that completes on a barrier.
    Load,
    /// A copy out of shared memory.
    Store,
    /// A matrix product of a warpgroup.
    Product,
    /// A copy of sm_80.
    Copy,
    /// A word for shared memory of any CTA of the cluster, which completes on a barrier.
    Word,
}

/// What may be watched. Every method does nothing unless it is written.
pub trait Observer {
    /// A warp executes an instruction.
    fn executed(&mut self, _at: At, _inst: &Inst) {}
    /// Memory is read or written.
    fn accessed(&mut self, _at: At, _access: Access<'_>) {}
    /// A barrier in shared memory of a CTA is made, or unmade.
    fn made(&mut self, _at: At, _cta: u32, _address: u32, _exists: bool) {}
    /// Arrivals at the barrier in shared memory of a CTA; `phase` is the one they count for.
    fn arrived(&mut self, _at: At, _cta: u32, _address: u32, _phase: u64) {}
    /// A wait for a phase of a barrier in shared memory is over; `u64::MAX` is the one before the first, which is complete
    /// from the start.
    fn waited(&mut self, _at: At, _cta: u32, _address: u32, _phase: u64) {}
    /// A warp arrives at a named barrier, in that round; with `waits` it goes on when the round is complete.
    fn met(&mut self, _at: At, _barrier: u32, _round: u64, _waits: bool) {}
    /// A warp arrives at the cluster's barrier.
    fn cluster_arrived(&mut self, _at: At, _round: u64) {}
    /// A warp's wait for the cluster's barrier is over.
    fn cluster_waited(&mut self, _at: At, _round: u64) {}
    /// An operation is handed over.
    fn issued(&mut self, _at: At, _operation: Operation, _number: u64) {}
    /// A copy out of shared memory has read its source.
    fn source_read(&mut self, _at: At, _number: u64) {}
    /// An operation is complete; a load's bytes are on their barrier after this.
    fn completed(&mut self, _at: At, _number: u64) {}
    /// A warp's wait for its own copies or products is over: they are complete, or have read their sources.
    fn joined(&mut self, _at: At, _numbers: &[u64], _until: WaitFor) {}
    /// All threads of a CTA have ended.
    fn ended(&mut self, _cta: u32) {}
}

/// Watches nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nobody;

impl Observer for Nobody {}
