//! The graph in registers: each node computed where it varies, and no more often.
//!
//! Scalars once a kernel, values along rows once for each of a thread's rows, values along columns once for each of its
//! columns, tiles once an element.

mod candidate;
mod cast;
mod evaluator;
mod exponentials;
mod float;
mod fold;
mod input;
mod integer;
mod random;
mod scale;
mod slot;
mod truth;
mod value;

pub(super) use evaluator::{Evaluator, select};
pub(super) use input::run_of_row;
pub(super) use random::Pairs;
pub(super) use scale::{scale_code, scale_value};
pub(super) use slot::{byte_values, tf32_value, word_value};
pub(super) use value::{Environment, Place, State, Term, Value, fill};
