//! Contracts products that relaxed rules have brought next to sums.
//!
//! The defining step contracted every product that the contract speaks of, so what stands uncontracted in a graph under
//! default math has to stay so: rounding it once less would change bits. Under fast math nothing is lost by it.

use crate::define::contract;
use crate::graph::Graph;

use super::Context;

/// The graph with every product that is added or subtracted fused into the sum.
pub(super) fn form_fma(graph: &Graph, _: &Context<'_>) -> Graph {
    contract(graph)
}
