//! Rewrites a defined graph into one that costs less and means the same.
//!
//! In: a defined graph (products already contracted) and what the user asked of the math. Out: a graph whose value is the
//! defined one's: to the bit for exact rules, within the reference's bound for rules on functions, and as real numbers for
//! the relaxed rules, which run under [`MathMode::Fast`] only.
//! Invariant: the graph keeps every type rule after every pass.

mod copy_operands;
mod fold_constants;
mod form_fma;
mod hoist;
mod in_mainloop;
mod merge_common;
mod prune;
mod reduce_strength;
mod relax;
mod rewrite_reductions;
mod rules;
mod scale_elements;
mod separate_products;
mod share_operand;
mod simplify;
mod split_operators;

use crate::graph::{Graph, MathMode, Stage};

pub(crate) use copy_operands::copy_operands;
pub(crate) use in_mainloop::operands_in_mainloop;
pub(crate) use scale_elements::{scale_elements, turn_scaled_operands, without_scales};
pub(crate) use separate_products::separate_products;
pub(crate) use share_operand::share_operand;

/// What every pass may know beside the graph.
#[derive(Clone, Copy, Debug)]
struct Context<'a> {
    /// What the user asked of the math.
    math: MathMode,
    /// The outputs that are wanted; all when `None`.
    keep: Option<&'a [&'a str]>,
}

/// One rewrite of the whole graph.
struct Pass {
    name: &'static str,
    run: fn(&Graph, &Context<'_>) -> Graph,
    /// Whether it changes values by more than the default contract allows.
    only_fast: bool,
}

const fn always(name: &'static str, run: fn(&Graph, &Context<'_>) -> Graph) -> Pass {
    Pass { name, run, only_fast: false }
}

const fn fast(name: &'static str, run: fn(&Graph, &Context<'_>) -> Graph) -> Pass {
    Pass { name, run, only_fast: true }
}

/// The passes, in the order they run.
const PASSES: &[Pass] = &[
    always("prune", prune::prune),
    always("fold_constants", fold_constants::fold_constants),
    always("simplify", simplify::simplify),
    fast("relax", relax::relax),
    always("reduce_strength", reduce_strength::reduce_strength),
    always("rewrite_reductions", rewrite_reductions::rewrite_reductions),
    always("split_operators", split_operators::split_operators),
    always("hoist", hoist::hoist),
    always("merge_common", merge_common::merge_common),
    fast("form_fma", form_fma::form_fma),
];

/// The list runs again while it changes something, but no more often than this.
const MOST_ROUNDS: usize = 8;

/// The same kernel, cheaper.
pub fn optimise(defined: &Graph, math: MathMode) -> Graph {
    optimise_keeping(defined, math, None)
}

/// As [`optimise`], with the outputs named in `keep` alone, and without what only the others need.
pub fn optimise_keeping(defined: &Graph, math: MathMode, keep: Option<&[&str]>) -> Graph {
    let mut result = defined.clone();
    run(defined, &Context { math, keep }, |_, graph| result = graph.clone());
    result.with_computed(|graph| optimise(graph, math))
}

/// The graph after each pass that changed it, in order, with the pass's name.
pub fn trace(defined: &Graph, math: MathMode) -> Vec<(&'static str, Graph)> {
    let mut steps = Vec::new();
    run(defined, &Context { math, keep: None }, |name, graph| steps.push((name, graph.clone())));
    steps
}

/// Runs the passes to a fixed point, showing `changed` every graph that differs from the one before.
fn run(defined: &Graph, context: &Context<'_>, mut changed: impl FnMut(&'static str, &Graph)) {
    let mut graph = defined.clone();
    for _ in 0..MOST_ROUNDS {
        let mut settled = true;
        for pass in PASSES {
            if pass.only_fast && context.math != MathMode::Fast {
                continue;
            }
            let next = (pass.run)(&graph, context);
            if let Err(broken) = next.verify(Stage::Defined) {
                panic!("compiler bug: after {}: {broken}", pass.name);
            }
            if next != graph {
                settled = false;
                changed(pass.name, &next);
                graph = next;
            }
        }
        if settled {
            break;
        }
    }
}

#[cfg(test)]
mod tests;
