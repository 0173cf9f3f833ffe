//! What each operation is: name, type rule, meaning, error, derivative, identity. Stages ask; they do not switch.

mod binary;
pub(crate) mod fold;
mod structure;
mod unary;

pub use binary::Binary;
pub(crate) use binary::fma;
pub use fold::{Fold, Weighted};
pub use structure::IndexAxis;
pub use unary::Unary;
