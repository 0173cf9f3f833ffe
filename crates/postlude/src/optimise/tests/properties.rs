//! Random kernels: the optimised graph means what the defined one means.

use super::random;
use crate::graph::{Graph, MathMode, Stage};
use crate::optimise::{Context, PASSES, optimise, optimise_keeping, trace};
use crate::problem::{Argument, Arguments, Problem, Sizes};
use crate::reference;
use crate::tensor::Tensor;

/// What the optimised graph's nominal values are beside what the defined graph allows.
fn check(seed: u64, math: MathMode) {
    let case = random::case(seed);
    let want = reference::evaluate(&case.graph, &case.problem, &case.arguments, math)
        .expect("it is bound");
    let optimised = optimise(&case.graph, math);
    let got =
        reference::evaluate(&optimised, &case.problem, &case.arguments, math).expect("it is bound");
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
    let want = reference::evaluate(&case.graph, &case.problem, &case.arguments, math)
        .expect("it is bound");
    let right = |graph: &Graph| {
        let got =
            reference::evaluate(graph, &case.problem, &case.arguments, math).expect("it is bound");
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
    for seed in 0..20_000 {
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

/// Kernels that relaxed rules change.
const RELAXED: &[&str] = &[
    "D = f32((A @ B * a[N]) * b[M] * c[N] * s)",
    "z = A @ B; D = f32(z * C + z * E)",
    "D = f32(exp(A @ B / 8.0) * exp(C) / exp(E))",
    "D = f32(square(sqrt(A @ B)) + square(rsqrt(C)))",
    "D = f32(rcp(exp(C)) + rcp(rcp(A @ B)) + rcp(rsqrt(E)))",
    "D = f32(exp(log(A @ B)) + (C - C) + E / E)",
    "D = f32(A @ B / r[M] / 3.0 + (C + 0.0) * 1.0)",
    "o = sum((A @ B + bias[N]) * r[M], N)",
    "o = sum(A @ B * s + bias[N])",
    "o = sum(A @ B / r[M] + r[M], M, N)",
    "o = mean(mean(A @ B * a[N] * s, N))",
    "o = logsumexp(A @ B + r[M] + 2.0, N)",
    "o = logsumexp(logsumexp(A @ B, N), M)",
    "o = max(A @ B + r[M], N)",
    "o = sum(f32(col == t[M]) * (A @ B), N)",
    "D = f32(layer_norm(A @ B + bias[N], N, 1e-5) * g[N] * h[N] + b[N] + c[N])",
    "D = f32(rms_norm(A @ B, N, 1e-5) * g[N] * s * 2.0)",
    "D = f32(softmax(A @ B * s, N) * r[M])",
    "o = sum(where(rows[M], A @ B * s, 0.0), N)",
    "o = sum(sum(A @ B, N, 4) * 2.0, N/4)",
];

/// Positive numbers of moderate size for every input.
fn moderate(graph: &Graph) -> (Problem, Arguments<'static>) {
    let sizes: Sizes =
        [("M", 5), ("N", 8), ("K", 3)].map(|(dim, size)| (dim.to_owned(), size)).into();
    let problem = Problem::new(graph, &sizes).unwrap_or_else(|error| panic!("{error}"));
    let mut random = random::Random::new(7);
    let mut number = || 0.5 + random.below(1000) as f64 / 1000.0;
    let mut arguments = Arguments::new();
    for input in graph.inputs() {
        let argument = match &input.dims {
            None => Argument::Scalar(number()),
            Some(dims) => {
                let shape = problem.shape(dims);
                let values: Vec<f64> = (0..shape.iter().product()).map(|_| number()).collect();
                let tensor = Tensor::from_values(input.dtype, shape, &values);
                Argument::Tensor(tensor.unwrap_or_else(|error| panic!("{error}")))
            }
        };
        arguments.insert(input.name.clone(), argument);
    }
    (problem, arguments)
}

/// Some hundred roundings, of numbers between 2^-6 and 2^6.
const TOLERANCE: f64 = 1.0 / 16384.0;

#[test]
fn relaxed_rules_hold_for_real_numbers() {
    for source in RELAXED {
        let graph = super::defined(source);
        let (problem, arguments) = moderate(&graph);
        let relaxed = optimise(&graph, MathMode::Fast);
        assert_ne!(relaxed, graph, "{source} is not changed");
        let want =
            reference::evaluate(&graph, &problem, &arguments, MathMode::Fast).expect("it is bound");
        let got = reference::evaluate(&relaxed, &problem, &arguments, MathMode::Fast)
            .expect("it is bound");
        for (want, got) in want[0].values.iter().zip(&got[0].values) {
            let off = (want.nominal - got.nominal).abs();
            assert!(
                off <= TOLERANCE * want.nominal.abs().max(1.0),
                "{source}: {got:?}, not {want:?}\n{relaxed}"
            );
        }
    }
}

#[test]
fn random_kernels_exercise_every_pass() {
    let mut changed = std::collections::BTreeMap::new();
    for seed in 0..2500 {
        for (name, _) in trace(&random::case(seed).graph, MathMode::Fast) {
            *changed.entry(name).or_insert(0) += 1;
        }
    }
    // The random graphs are pruned already; what later passes leave behind they drop themselves.
    for pass in PASSES.iter().filter(|pass| pass.name != "prune") {
        assert!(
            changed.get(pass.name).is_some_and(|count| *count > 50),
            "{}: {changed:?}",
            pass.name
        );
    }
}

#[test]
fn the_largest_kernels_take_no_longer_than_a_blink() {
    let mut graph = super::defined("D = A @ B");
    let mut node = graph.outputs()[0].value;
    let mut other = graph.make(crate::graph::Op::number(1.5));
    for step in 0..5000u32 {
        let op = crate::graph::Binary::ALL[(step % 6) as usize];
        let next = graph.make(crate::graph::Op::Binary(op, node, other));
        (other, node) = (if step % 7 == 0 { node } else { other }, next);
    }
    graph.push_output(crate::graph::Output {
        name: "E".to_owned(),
        value: node,
        ..graph.outputs()[0].clone()
    });
    // Its time may grow with the size alone: what did not would not end.
    optimise(&graph, MathMode::Fast);
}
