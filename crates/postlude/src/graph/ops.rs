//! What each operation is: name, type rule, meaning, error, derivative, identity. Stages ask; they do not switch.

mod binary;
mod bits;
pub(crate) mod fold;
mod random;
mod structure;
mod unary;

pub use binary::Binary;
pub(crate) use binary::fma;
pub(crate) use bits::{NAN_BITS, bits_of, shift_left, shift_right, shift_right_logical};
pub use fold::{Fold, Gives, Top, Weighted};
pub(crate) use random::{philox_of, random_word, rounded_by};
pub use structure::IndexAxis;
pub use unary::Unary;
