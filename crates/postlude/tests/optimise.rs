//! Many random kernels: whatever the optimiser does, the reference allows it.

use postlude::graph::MathMode;
use postlude::optimise::{optimise, random};
use postlude::reference;

const KERNELS: u64 = 20_000;

/// Where an optimised graph leaves what its defined graph allows.
fn fault(seed: u64, math: MathMode) -> Option<String> {
    let case = random::case(seed);
    let want = reference::evaluate(&case.graph, &case.problem, &case.arguments, math)
        .expect("it is bound");
    let graph = optimise(&case.graph, math);
    let got =
        reference::evaluate(&graph, &case.problem, &case.arguments, math).expect("it is bound");
    for (want, got) in want.iter().zip(&got) {
        for (allowed, value) in want.values.iter().zip(&got.values) {
            if allowed.distance(value.nominal) > 1.0 {
                return Some(format!(
                    "seed {seed} {math:?}: {value:?}, not {allowed:?}\n{}{graph}",
                    case.graph
                ));
            }
        }
    }
    None
}

#[test]
fn random_kernels_stay_within_the_reference() {
    let faults: Vec<String> = (0..KERNELS)
        .flat_map(|seed| [fault(seed, MathMode::Default), fault(seed, MathMode::Accurate)])
        .flatten()
        .collect();
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults[..faults.len().min(4)].join("\n")
    );
}
