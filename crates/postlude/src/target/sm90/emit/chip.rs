//! What the epilogue asks of a chip.
//!
//! The epilogue, and what it stands on, take a chip `C` as a type and use no instruction that only the tensor cores of
//! one generation have: accumulators come in as registers. Mainloops name their chip.

use postlude_ptx::target::{Float8, Tma};

/// A chip that runs the epilogue: TMA and clusters, and conversions of 8-bit floats.
pub(crate) trait EpilogueChip: Tma + Float8 {}

impl<C: Tma + Float8> EpilogueChip for C {}
