//! What an SM does for rows that threads hold or stream, beside what memory moves: instructions, and bytes through L1 and shared
//! memory. The constants are fitted with those of `row_cost`.

use super::row_needs::RowNeeds;

/// Instructions of a thread for each pass, and for each word of it and shuffle.
const PASS: f64 = 40.0;
const SHUFFLE: f64 = 9.0;
/// Threads for which an SM issues an instruction in a cycle, and its warps that hide the latency of instructions.
const ISSUED: f64 = 106.0;
const WARPS: f64 = 9.0;
/// Bytes that L1 and shared memory move in a cycle, and those of a vector along columns for each element.
const L1_BYTES: f64 = 128.0;
const VECTOR_BYTES: u32 = 4;
/// How much of the less busy of the two does not overlap.
const NOT_OVERLAPPED: f64 = 0.1;

impl RowNeeds {
    /// Times that a thread reads its elements.
    pub(super) fn traversals(&self) -> u32 {
        self.passes + u32::from(self.moved > self.loaded)
    }

    /// Instructions of a thread for its passes over a row, beside those of its elements.
    pub(super) fn pass_instructions(&self, threads_of_row: u32) -> f64 {
        let shuffles = f64::from(threads_of_row.max(1).ilog2().min(5) * self.words);
        f64::from(self.passes) * (PASS + SHUFFLE * shuffles)
    }

    /// Cycles in which an SM moves these elements through L1 and shared memory, from which they are read so often.
    pub(super) fn l1_cycles(&self, elements: f64, traversals: u32) -> f64 {
        let bytes = self.moved + self.loaded * traversals + self.vectors * VECTOR_BYTES;
        elements * f64::from(bytes) / L1_BYTES
    }
}

/// Cycles in which an SM's threads execute this many instructions with these warps, while L1 is busy for as many.
pub(super) fn executed(instructions: f64, warps: f64, l1: f64) -> f64 {
    let issued = instructions / (ISSUED * (warps / WARPS).min(1.0));
    issued.max(l1) + NOT_OVERLAPPED * issued.min(l1)
}
