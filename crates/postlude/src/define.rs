//! Gives a kernel its meaning.
//!
//! In: a checked graph. Out: a graph of primitives: composites and derivatives expanded, forms that overflow or cancel
//! replaced by ones that do not, sums of values relative to their own maximum or mean folded in one pass, products
//! contracted into sums. What comes out is what the reference evaluates, and what
//! every later pass has to agree with.

mod basis;
mod contract;
mod difference;
mod expand;
mod formula;
mod logarithm;
mod magnitude;
mod online;
mod quotient;
mod renormalise;
mod softmax;
mod stabilise;
mod vanish;
mod views;

use crate::graph::{Graph, Stage};

pub(crate) use contract::contract;

/// The kernel's meaning.
pub fn define(checked: &Graph) -> Graph {
    let stable = expand::expand_calls(checked);
    let primitive = expand::expand_basis(&stable);
    let folded = online::fold_online(&primitive);
    let defined = contract(&folded).with_computed(define);
    if let Err(broken) = defined.verify(Stage::Defined) {
        panic!("compiler bug: {broken}");
    }
    defined
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::defined;
