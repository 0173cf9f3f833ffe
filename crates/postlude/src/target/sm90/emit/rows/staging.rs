//! Chunks of rows on their way: each thread copies its own vectors of the next chunks to shared memory, and reads them from
//! there.
//!
//! No thread reads what another one copied, so that no barrier is needed: a thread waits for its own copies. A slot has,
//! piece by piece of up to 16 bytes, those of all threads side by side.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::types::{B32, Pred, U32};

use crate::dtype::DType;
use crate::graph::InputId;

use super::super::chip::EpilogueChip;
use super::super::parameters::Parameters;
use super::super::plan::Plan;
use super::held::{HeldRow, Holder};

/// The most bytes of one copy.
const PIECE: u32 = 16;

pub(super) struct Staging<'k, C> {
    k: Kernel<'k, C>,
    operands: Vec<Staged<'k>>,
    stages: u32,
    slot_bytes: u32,
    /// The slot that is read.
    slot: Var<'k, U32>,
}

/// A tile operand in a slot.
struct Staged<'k> {
    input: InputId,
    dtype: DType,
    /// Bytes of a piece, pieces of a vector, and bytes of a piece of all threads.
    piece: u32,
    pieces: u32,
    all: u32,
    /// The thread's first piece in the first slot.
    start: SharedAddress<'k>,
}

impl<'k, C: EpilogueChip> Staging<'k, C> {
    pub(super) fn new(k: Kernel<'k, C>, plan: &Plan<'_>, holder: &Holder<'k>, vector: u32) -> Self {
        let (schedule, thread) = (plan.schedule, k.thread());
        let mut offset = 0;
        let operand = |input: &InputId| {
            let dtype = plan.graph.inputs()[input.0 as usize].dtype;
            let bytes = vector * dtype.bits() as u32 / 8;
            let piece = bytes.min(PIECE);
            let (pieces, all) = (bytes / piece, piece * schedule.threads());
            let start = k.region(&plan.held_stages) + offset + thread * piece;
            offset += holder.vectors * pieces * all;
            Staged { input: *input, dtype, piece, pieces, all, start }
        };
        let operands = plan.program.tile_operands.iter().map(operand).collect();
        Staging {
            k,
            operands,
            stages: schedule.c_stages,
            slot_bytes: schedule.held_stage_bytes(),
            slot: k.var(0),
        }
    }

    fn copy(
        &self,
        parameters: &Parameters<'k>,
        row: &HeldRow<'k>,
        slot: Reg<'k, U32>,
        exists: Reg<'k, Pred>,
    ) {
        let k = self.k;
        for operand in &self.operands {
            let memory = parameters.memory(operand.input);
            let start = memory.element_of_row(k, (row.batch, row.at, row.at)).pointer();
            let slot = operand.start + slot;
            for (number, vector) in (0..).zip(&row.vectors) {
                let from = vector.address(start, operand.dtype.bits() as u32 / 8);
                for piece in 0..operand.pieces {
                    let to = slot + (number * operand.pieces + piece) * operand.all;
                    let from = from.offset(i64::from(piece * operand.piece));
                    k.when(exists, || k.copy_async(to, from, operand.piece, None));
                }
            }
        }
        k.copy_async_commit();
    }

    /// Fills a whole ring of chunks: `issue` copies the next chunk into the slot that is next.
    pub(super) fn begin_chunks(&self, issue: impl FnOnce()) {
        self.k.for_(0, self.stages, 1, |_| {
            issue();
            self.next_chunk();
        });
    }

    /// Waits for the chunk in this slot, behind which all other slots are filled, or groups of nothing were.
    pub(super) fn wait_chunk(&self) {
        self.k.copy_async_wait(self.stages - 1);
    }

    /// Copies a chunk of a row into the slot, if there is the row.
    pub(super) fn copy_chunk(
        &self,
        parameters: &Parameters<'k>,
        row: &HeldRow<'k>,
        exists: Reg<'k, Pred>,
    ) {
        self.copy(parameters, row, self.slot.copy(), exists);
    }

    /// Keeps the number of groups in step while nothing is copied.
    pub(super) fn skip_chunk(&self) {
        self.k.copy_async_commit();
    }

    /// Goes on to the next slot.
    pub(super) fn next_chunk(&self) {
        let next = self.slot.get() + self.slot_bytes;
        let wraps = next.eq(self.stages * self.slot_bytes);
        self.slot.set(self.k.imm(0).select(next, wraps));
    }

    /// The slot, and a return to it.
    pub(super) fn chunk_slot(&self) -> Reg<'k, U32> {
        self.slot.copy()
    }

    pub(super) fn return_to(&self, slot: Reg<'k, U32>) {
        self.slot.set(slot);
    }

    /// A thread's vector of this number of an operand, as it was copied.
    pub(super) fn read(&self, operand: usize, number: usize) -> Vec<Reg<'k, B32>> {
        let (k, operand) = (self.k, &self.operands[operand]);
        let slot = operand.start + self.slot.get();
        let pieces = (0..operand.pieces).flat_map(|piece| {
            let from = slot + (number as u32 * operand.pieces + piece) * operand.all;
            match operand.piece / 4 {
                1 => k.load_shared::<B32, 1>(from).to_vec(),
                2 => k.load_shared::<B32, 2>(from).to_vec(),
                _ => k.load_shared::<B32, 4>(from).to_vec(),
            }
        });
        pieces.collect()
    }
}
