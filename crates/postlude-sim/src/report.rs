//! What a run tells beside what it wrote: findings and meters.

use std::fmt;

use crate::outputs::Unwritten;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Diagnosis {
    /// Global memory outside the buffers.
    OutOfBounds,
    /// An address that is no multiple of what it must be.
    Misaligned,
    /// Shared memory beyond what the launch asked for.
    SharedBeyond,
    /// Shared memory that nobody wrote.
    UninitialisedRead,
    /// A register of a matrix product before its `wait_group`.
    AccumulatorTouched,
    /// An arrival at a barrier whose phase has all of its arrivals.
    ArrivalOverflow,
    /// A barrier that was never made, or was unmade.
    NoBarrier,
    /// Nobody can go on.
    Deadlock,
    /// A named barrier whose users disagree about the number of threads.
    BarrierCount,
    /// `setmaxnreg` asks for more than the register file has, or in the wrong direction.
    RegisterFile,
    /// Bytes that were promised to a barrier and never arrived, or arrived and were never promised.
    TransactionMismatch,
    /// A tensor map that the hardware would refuse.
    TensorMap,
    /// Copies that still read the shared memory of a CTA that ended.
    UnfinishedCopy,
    /// A copy out of shared memory that writes its last chunk beyond a tensor's row.
    BeyondRow,
    /// Lanes that do not execute together what they must, or with operands that differ.
    Diverged,
    /// A register that is read and was never written.
    UndefinedRegister,
    /// Accesses of different lanes of a warp that nothing orders, or that one lane orders for another.
    UnorderedLanes,
    /// Another CTA's shared memory, by an instruction for the own one's.
    RemoteShared,
    /// An operand beyond what the instruction set allows.
    Limit,
    /// A read of bytes that a copy is still writing.
    ReadUnderCopy,
    /// An overwrite of bytes that a copy is still reading or writing.
    OverwriteUnderCopy,
    /// An overwrite of bytes that a matrix product is still reading.
    OverwriteUnderProduct,
    /// An ordinary access, then one by a copy or a matrix product, without a fence between the proxies.
    MissingProxyFence,
    /// Two accesses to shared memory that nothing orders.
    UnorderedShared,
    /// Two accesses to global memory that nothing orders.
    UnorderedGlobal,
    /// A wait for a phase that is over with the phase before.
    WrongParity,
    /// More promises of bytes than a phase has arrivals: its slot is filled twice.
    TwoProducers,
    /// A deadlock at a barrier in shared memory that lacks arrivals.
    ArrivalUnderflow,
    /// A barrier in shared memory that is used, and nothing orders that after it was made.
    WaitBeforeInit,
    /// A barrier in shared memory that is made where there is one.
    InitialisedTwice,
    /// A matrix product whose registers no `wgmma.fence` orders after earlier accesses.
    MissingProductFence,
    /// Shared memory of another CTA that may have ended.
    EndedCta,
    /// Scratch memory that the next launch would not find as zero.
    ScratchLeft,
    /// The cluster's barrier, awaited without an arrival or arrived at twice.
    ClusterBarrier,
    /// Bytes of a live barrier in shared memory that something else than a barrier's operation touches.
    BarrierBytes,
    /// Bytes that a tensor copy wrote with another swizzle than they are read with.
    SwizzleMismatch,
    /// Bytes of an output that the kernel did not write.
    OutputUnwritten,
}

impl Diagnosis {
    /// In few words.
    pub const fn title(self) -> &'static str {
        match self {
            Diagnosis::OutOfBounds => "global memory out of bounds",
            Diagnosis::Misaligned => "misaligned access",
            Diagnosis::SharedBeyond => "shared memory beyond what was asked for",
            Diagnosis::UninitialisedRead => "read of uninitialised shared memory",
            Diagnosis::AccumulatorTouched => "accumulators touched before wait_group",
            Diagnosis::ArrivalOverflow => "more arrivals than the phase waits for",
            Diagnosis::NoBarrier => "no barrier at this address",
            Diagnosis::Deadlock => "deadlock",
            Diagnosis::BarrierCount => "named barrier with the wrong number of threads",
            Diagnosis::RegisterFile => "setmaxnreg beyond the register file",
            Diagnosis::TransactionMismatch => "bytes of a barrier that never balance",
            Diagnosis::TensorMap => "tensor map that no hardware takes",
            Diagnosis::UnfinishedCopy => "copy from shared memory of a CTA that ended",
            Diagnosis::BeyondRow => "copy that writes beyond a tensor's row",
            Diagnosis::Diverged => "lanes diverged where they must not",
            Diagnosis::UndefinedRegister => "read of a register that was never written",
            Diagnosis::UnorderedLanes => "unordered accesses of lanes of a warp",
            Diagnosis::RemoteShared => {
                "shared memory of another CTA, where only the own one's can be reached"
            }
            Diagnosis::Limit => "operand beyond what the instruction set allows",
            Diagnosis::ReadUnderCopy => "read of bytes that a copy is still writing",
            Diagnosis::OverwriteUnderCopy => "overwrite of bytes that a copy is still using",
            Diagnosis::OverwriteUnderProduct => {
                "overwrite of bytes that a matrix product is still reading"
            }
            Diagnosis::MissingProxyFence => "missing fence between proxies",
            Diagnosis::UnorderedShared => "unordered accesses to shared memory",
            Diagnosis::UnorderedGlobal => "unordered accesses to global memory",
            Diagnosis::WrongParity => "wait for the wrong parity",
            Diagnosis::TwoProducers => "two producers in one phase",
            Diagnosis::ArrivalUnderflow => "barrier that lacks arrivals",
            Diagnosis::WaitBeforeInit => "barrier used before it was made",
            Diagnosis::InitialisedTwice => "barrier made twice",
            Diagnosis::MissingProductFence => "missing wgmma.fence",
            Diagnosis::EndedCta => "shared memory of a CTA that may have ended",
            Diagnosis::ScratchLeft => "scratch memory that is not left at zero",
            Diagnosis::ClusterBarrier => "cluster barrier out of step",
            Diagnosis::BarrierBytes => "bytes of a barrier used as data",
            Diagnosis::SwizzleMismatch => "swizzles that disagree",
            Diagnosis::OutputUnwritten => "output that is not written whole",
        }
    }
}

/// Something wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is.
    pub diagnosis: Diagnosis,
    /// The line of the instruction, from 1; 0 for the program as a whole.
    pub line: u32,
    /// The instruction.
    pub text: String,
    /// The CTA in the grid.
    pub cta: u32,
    /// The warp in its CTA, where one is to blame.
    pub warp: Option<u32>,
    /// The region of shared memory, where it has a name.
    pub region: Option<String>,
    /// The address, as the program computes it.
    pub address: Option<u64>,
    /// The rest in words.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "line {}: CTA {}", self.line, self.cta)?;
        if let Some(warp) = self.warp {
            write!(f, ", warp {warp}")?;
        }
        write!(f, ": {}", self.diagnosis.title())?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        if let Some(region) = &self.region {
            write!(f, " (`{region}`)")?;
        }
        if !self.text.is_empty() {
            write!(f, "\n    {}", self.text)?;
        }
        Ok(())
    }
}

/// Counts of what the program did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Meters {
    /// Warp instructions that read or write global memory.
    pub global_requests: u64,
    /// Warp instructions that read or write shared memory.
    pub shared_requests: u64,
    /// Bytes that tensor and bulk copies brought into shared memory, once for each receiver.
    pub bytes_loaded: u64,
    /// Bytes that they took out of it.
    pub bytes_stored: u64,
    /// Matrix products of warpgroups.
    pub products: u64,
}

/// What a run tells.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Report {
    /// What is wrong, in the order in which it was found; each line once for each diagnosis.
    pub findings: Vec<Finding>,
    /// What it did.
    pub meters: Meters,
    /// Warp instructions executed.
    pub instructions: u64,
    /// Whether every thread came to its end.
    pub finished: bool,
    /// Buffers that were written in part, and outputs that were not written whole.
    pub unwritten: Vec<Unwritten>,
}
