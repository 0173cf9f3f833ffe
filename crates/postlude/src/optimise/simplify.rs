//! Exact algebra: no rule here changes a bit for any input, infinities, nan and negative zero included.
//!
//! A rule's comment says why. "Rounds alike" means that both sides are the rounding of the same real number. The payload
//! and the sign of a nan are not part of any value.

mod arithmetic;
mod casts;
mod extremes;
mod logic;
mod structure;

use crate::graph::Graph;

use super::Context;
use super::rules::{Rule, rewrite};

/// The graph after every exact rule.
pub(super) fn simplify(graph: &Graph, context: &Context<'_>) -> Graph {
    let rules: Vec<Rule> =
        [arithmetic::RULES, extremes::RULES, logic::RULES, casts::RULES, structure::RULES].concat();
    casts::strip_stores(rewrite(graph, context, &rules))
}
