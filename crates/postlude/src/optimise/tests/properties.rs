//! Random kernels: the optimised graph means what the defined one means.

use crate::graph::{Graph, MathMode, Stage};
use crate::optimise::{Context, PASSES, optimise, optimise_keeping, random, trace};
use crate::reference;

/// What the optimised graph's nominal values are beside what the defined graph allows.
fn check(seed: u64, math: MathMode) {
    let case = random::case(seed);
    let want = reference::evaluate(&case.graph, &case.problem, &case.arguments, math);
    let optimised = optimise(&case.graph, math);
    let got = reference::evaluate(&optimised, &case.problem, &case.arguments, math);
    for (want, got) in want.iter().zip(&got) {
        for (place, (allowed, value)) in want.values.iter().zip(&got.values).enumerate() {
            if allowed.distance(value.nominal) > 1.0 {
                let culprit = blame(&case, math);
                panic!(
                    "seed {seed}, `{}` at {place}: {value:?}, not {allowed:?}\nafter {culprit}\n{}\n{optimised}",
                    want.name, case.graph
                );
            }
        }
    }
}

/// The first pass whose result leaves the bound.
fn blame(case: &random::Case, math: MathMode) -> String {
    let want = reference::evaluate(&case.graph, &case.problem, &case.arguments, math);
    let right = |graph: &Graph| {
        let got = reference::evaluate(graph, &case.problem, &case.arguments, math);
        want.iter().zip(&got).all(|(want, got)| {
            want.values.iter().zip(&got.values).all(|(a, b)| a.distance(b.nominal) <= 1.0)
        })
    };
    trace(&case.graph, math)
        .into_iter()
        .find(|(_, graph)| !right(graph))
        .map_or_else(String::new, |(name, graph)| format!("{name}\n{graph}"))
}

#[test]
fn optimised_graphs_stay_within_the_reference() {
    for seed in 0..1500 {
        check(seed, MathMode::Default);
        check(seed, MathMode::Accurate);
    }
}

#[test]
fn fast_math_keeps_the_types() {
    for seed in 0..1500 {
        let case = random::case(seed);
        let optimised = optimise(&case.graph, MathMode::Fast);
        assert_eq!(optimised.verify(Stage::Defined), Ok(()), "seed {seed}");
        assert_eq!(optimised.outputs().len(), case.graph.outputs().len());
    }
}

#[test]
fn optimising_twice_changes_nothing() {
    for seed in 0..500 {
        let once = optimise(&random::case(seed).graph, MathMode::Default);
        let twice = optimise(&once, MathMode::Default);
        assert_eq!(once, twice, "seed {seed}\n{once}\n{twice}");
    }
}

#[test]
fn every_pass_keeps_every_random_graph_well_typed() {
    for seed in 0..500 {
        let case = random::case(seed);
        for math in [MathMode::Default, MathMode::Fast] {
            for pass in PASSES {
                let after = (pass.run)(&case.graph, &Context { math, keep: None });
                assert_eq!(after.verify(Stage::Defined), Ok(()), "seed {seed}, {}", pass.name);
            }
        }
    }
}

#[test]
fn outputs_that_are_not_kept_take_their_nodes_along() {
    let source = "Z = A @ B + bias[N]\nD = gelu(Z)\nloss = sum(square(Z))";
    let graph = super::defined(source);
    let kept = optimise_keeping(&graph, MathMode::Default, Some(&["D"]));
    assert_eq!(kept.outputs().len(), 1);
    assert!(!kept.to_string().contains("sum"));
}
