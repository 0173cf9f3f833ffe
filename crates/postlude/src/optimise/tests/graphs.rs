//! Random well-typed graphs: the optimised against the defined, the CPU against the reference, text against graph.
//!
//! `POSTLUDE_FUZZ` says how many; the ordinary run is short.

use std::sync::Arc;

use super::random;
use crate::graph::{self, MathMode, Value};
use crate::lower::SweepProgram;
use crate::optimise::optimise;
use crate::reference::{self, Evaluated};
use crate::{Argument, Arguments, DType, Kernel, Options, Prepared, Problem, Sizes, Tensor, plan};

fn count() -> u64 {
    std::env::var("POSTLUDE_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(1_500)
}

/// An element of an engine's result that the reference does not allow.
fn mismatch(wanted: &Evaluated, got: &Tensor) -> Option<(usize, Value, f64)> {
    let comparison = wanted.compare(got);
    (comparison.worst > 1.0)
        .then(|| (comparison.at, wanted.values[comparison.at], got.values()[comparison.at]))
}

/// Runs a graph with a schedule of the test's own.
fn run(
    program: &Arc<SweepProgram>,
    schedule: plan::Schedule,
    problem: &Problem,
    arguments: &Arguments<'_>,
    outputs: &mut [Tensor],
) {
    let math = MathMode::Default;
    let prepared = Prepared::with_schedule(program, problem, schedule, math).expect("threads");
    let named = program.graph().inputs().iter().map(|input| arguments[&input.name].borrowed());
    let inputs: Vec<Argument<'_>> = named.collect();
    let mut outputs: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    prepared.run(&inputs, &mut outputs).expect("they fit");
}

#[test]
fn optimised_graphs_on_the_cpu_agree_with_the_reference() {
    for seed in 0..count() {
        let case = random::case(seed);
        let wanted =
            reference::evaluate(&case.graph, &case.problem, &case.arguments, MathMode::Default)
                .expect("it is bound");
        for (name, graph) in [
            ("defined", case.graph.clone()),
            ("optimised", optimise(&case.graph, MathMode::Default)),
        ] {
            let program = Arc::new(SweepProgram::new(&Arc::new(graph)));
            let graph = program.graph();
            let schedule = plan::plan(&program, &case.problem, Some(2))
                .expect("small problems are never refused");
            let mut outputs: Vec<Tensor> = graph
                .outputs()
                .iter()
                .map(|output| {
                    Tensor::zeros(output.dtype, case.problem.shape(&output.dims))
                        .expect("a small tensor")
                })
                .collect();
            run(&program, schedule, &case.problem, &case.arguments, &mut outputs);
            for (wanted, got) in wanted.iter().zip(&outputs) {
                if let Some((at, value, got)) = mismatch(wanted, got) {
                    panic!(
                        "seed {seed}, {name}, {}[{at}]: got {got}, want {value:?}\n{}\n{graph}",
                        wanted.name, case.graph
                    );
                }
            }
        }
    }
}

#[test]
fn optimised_graphs_stay_within_the_defined_ones_bound() {
    for seed in 0..count() {
        let case = random::case(seed);
        let wanted =
            reference::evaluate(&case.graph, &case.problem, &case.arguments, MathMode::Default)
                .expect("it is bound");
        let optimised = optimise(&case.graph, MathMode::Default);
        let got =
            reference::evaluate(&optimised, &case.problem, &case.arguments, MathMode::Default)
                .expect("it is bound");
        for (wanted, got) in wanted.iter().zip(&got) {
            let got = got.tensor().expect("a small tensor");
            if let Some((at, value, got)) = mismatch(wanted, &got) {
                panic!(
                    "seed {seed}, {}[{at}]: got {got}, want {value:?}\n{}\n{optimised}",
                    wanted.name, case.graph
                );
            }
        }
    }
}

#[test]
fn printed_graphs_read_back() {
    for seed in 0..count() {
        let graph = random::case(seed).graph;
        assert_eq!(graph::parse(&graph.to_string()).as_ref(), Ok(&graph), "seed {seed}");
    }
}

#[test]
#[should_panic(expected = "the schedule does not suit this problem")]
fn a_schedule_whose_regions_would_share_bytes_is_not_run() {
    let source = "kernel k(A: f32[M, K], B: f32[K, N]) -> D: b1[M, N] { D = A @ B > 0 }";
    let compiled = Kernel::parse(source).expect("a kernel").compile(&Options::default());
    let zeros = |shape: [usize; 2]| {
        Argument::Tensor(Tensor::zeros(DType::F32, shape).expect("a small tensor"))
    };
    let arguments =
        Arguments::from([("A".to_owned(), zeros([2, 3])), ("B".to_owned(), zeros([3, 16]))]);
    let problem = compiled.bind(&arguments, &Sizes::new()).expect("sizes that agree");
    let mut outputs = compiled.outputs(&problem).expect("a small output");
    let program = Arc::new(SweepProgram::new(&Arc::new(compiled.optimised().clone())));
    let planned = plan::plan(&program, &problem, Some(2)).expect("a small problem");
    let schedule = plan::Schedule { columns: 5, ..planned };
    run(&program, schedule, &problem, &arguments, &mut outputs);
}
