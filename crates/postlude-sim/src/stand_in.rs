//! Stands in for arithmetic that the numerics module will have to the bit: the same calls, plain answers.
//!
//! Products of small whole numbers are exact here; other sums are rounded in another order than the hardware's.

pub(crate) mod approx;
pub(crate) mod convert;
pub(crate) mod copies;
pub(crate) mod tensor;
