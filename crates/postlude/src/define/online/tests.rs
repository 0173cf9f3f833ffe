//! What becomes of sums that people write in several passes.

use crate::define::defined;
use crate::graph::{Graph, MathMode, Op};
use crate::problem::{Argument, Arguments, Problem, Sizes};
use crate::reference;
use crate::tensor::Tensor;

/// The meaning as text.
fn meaning(source: &str) -> String {
    defined(source).to_string()
}

/// Whether every reduction is made of values that need no other one.
fn is_one_pass(graph: &Graph) -> bool {
    !super::elements_meet_reductions(graph)
}

#[test]
fn a_stable_logsumexp_is_the_logsumexp() {
    let plain = meaning("z = A @ B; d = logsumexp(z, N)");
    for source in [
        "z = A @ B; m = max(z, N); d = m + log(sum(exp(z - m), N))",
        "z = A @ B; m = max(z, N); d = log(sum(exp(z - m), N)) + m",
        "z = A @ B; d = log(sum(exp(z), N))",
        "z = A @ B; m = max(z, N); p = exp(z - m); s = sum(p, N); l = log(s); d = l + m",
    ] {
        assert_eq!(meaning(source), plain, "{source}");
    }
    let both = meaning("z = A @ B; d = logsumexp(z)");
    assert_eq!(meaning("z = A @ B; m = max(z); d = m + log(sum(exp(z - m)))"), both);
    let columns = meaning("z = A @ B; d = logsumexp(z, M)");
    assert_eq!(meaning("z = A @ B; m = max(z, M); d = m + log(sum(exp(z - m), M))"), columns);
}

#[test]
fn stored_columns_are_folded_once_though_elements_wait_for_them() {
    let folds = |body: &str| {
        let graph = defined(&format!("kernel k(X: bf16[M, N]) -> Y: bf16[M, N] {{ Y = {body} }}"));
        let sums = graph.nodes().filter(|(_, node)| node.op.reduction().is_some());
        let waits =
            |op: &Op| {
                let (_, _, terms) = op.reduction()?;
                graph.made_of([terms], |_| true).iter().zip(graph.nodes()).find_map(
                    |(of, (_, node))| (*of && node.op.reduction().is_some()).then_some(()),
                )
            };
        sums.filter(|(_, node)| waits(&node.op).is_some()).count()
    };
    for body in ["softmax(X, M)", "X - logsumexp(X, M)", "(X - mean(X, M)) * rsqrt(var(X, M))"] {
        assert_eq!(folds(body), 0, "{body}");
    }
    assert_eq!(folds("exp(X - max(X)) / sum(exp(X - max(X)))"), 0);
    // Rows are held, and folded again.
    assert_eq!(folds("softmax(X, N)"), 1);
}

#[test]
fn sums_relative_to_their_own_maximum_or_mean_are_one_pass() {
    for source in [
        "z = A @ B; m = max(z, N); s = sum(exp(z - m), N)",
        "z = A @ B; m = max(z, N); s = sum(exp(0.5 * (z - m)), N)",
        "z = A @ B; m = max(z, N); s = sum(exp2(1.4426950408889634 * (z - m)), N)",
        "z = A @ B; m = max(z, N); s = sum(exp2(z - m), N)",
        "z = A @ B; m = max(z, M); s = sum(exp(z - m) * v[N], M)",
        "z = A @ B; m = max(z); s = sum(exp(z - m) * z)",
        "z = A @ B; h = -sum(softmax(z, N) * log_softmax(z, N), N)",
        "z = A @ B; p = softmax(z, N); h = -sum(p * log(p), N)",
        "z = A @ B; l = logsumexp(z, N); h = l - sum(exp(z - l) * z, N)",
        "z = A @ B; s = sum(softmax(z, N) * v[N], N)",
        "z = A @ B; s = sum(softmax(z, N) * C, N)",
        "z = A @ B; e = exp(z - max(z, N)); s = sum(e * v[N], N) / sum(e, N)",
        "z = A @ B; s = sum(softmax(C, N) * (log_softmax(C, N) - log_softmax(z / 2.0, N)), N)",
        "z = A @ B; p = log_softmax(z, N); s = 0.9 * pick(p, t[M]) + 0.1 * mean(p, N)",
        "z = A @ B; s = var(z, N)",
        "z = A @ B; s = sum(square(z - mean(z, N)), N) / (size(N) - 1)",
        "z = A @ B; s = sqrt(var(z, M)); t = mean(z, M)",
    ] {
        let source = source.replace("t[M]", "i32(r[M])");
        assert!(is_one_pass(&defined(&source)), "{source}\n{}", defined(&source));
    }
}

#[test]
fn elements_that_need_a_finished_reduction_anyway_leave_sums_alone() {
    let graph = defined("z = A @ B; p = exp(z - max(z, N)); D = p / sum(p, N); s = sum(p * z, N)");
    let weighted = graph.nodes().any(|(_, node)| matches!(node.op, Op::ReduceWeighted(..)));
    assert!(!weighted, "{graph}");
}

/// What the outputs are for columns of B as they are: A is 1 and K is 1, so a row has these logits.
fn evaluated(source: &str, row: &[f64]) -> Vec<f64> {
    let graph = defined(source);
    let sizes: Sizes =
        [("M", 1), ("N", row.len()), ("K", 1)].map(|(dim, size)| (dim.to_owned(), size)).into();
    let problem = Problem::new(&graph, &sizes).unwrap_or_else(|error| panic!("{error}"));
    let mut arguments = Arguments::new();
    for input in graph.inputs() {
        let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
        let count = shape.iter().product();
        let values = if input.name == "B" { row.to_vec() } else { vec![1.0; count] };
        let tensor = Tensor::from_values(input.dtype, shape, &values);
        let tensor = tensor.unwrap_or_else(|error| panic!("{error}"));
        arguments.insert(input.name.clone(), Argument::Tensor(tensor));
    }
    let outputs = reference::evaluate(&graph, &problem, &arguments, MathMode::Default);
    let outputs = outputs.expect("it is bound");
    outputs.iter().map(|output| output.values[0].nominal).collect()
}

#[test]
fn sums_of_no_columns_are_zero() {
    for source in [
        "z = A @ B; s = sum(exp(z - max(z, N)), N)",
        "z = A @ B; s = sum(exp(z - max(z, N)) * z, N)",
        "z = A @ B; s = sum(softmax(z, N) * v[N], N)",
        "z = A @ B; s = -sum(softmax(z, N) * log_softmax(z, N), N)",
        "z = A @ B; s = sum(square(z - mean(z, N)), N)",
    ] {
        assert_eq!(evaluated(source, &[]), [0.0], "{source}");
    }
    let infinite = "z = A @ B; m = max(z, N); s = m + log(sum(exp(z - m), N))";
    assert_eq!(evaluated(infinite, &[]), [f64::NEG_INFINITY]);
    assert!(evaluated("z = A @ B; s = var(z, N)", &[])[0].is_nan());
}

#[test]
fn rows_of_one_column_and_of_equal_ones_are_exact() {
    let statistics = "z = A @ B; m = max(z, N); s = sum(exp(z - m), N); q = var(z, N) + 0.0";
    assert_eq!(evaluated(statistics, &[5.0]), [1.0, 0.0]);
    assert_eq!(evaluated(statistics, &[-3.0; 4]), [4.0, 0.0]);
    let entropy = "z = A @ B; h = -sum(softmax(z, N) * log_softmax(z, N), N)";
    assert_eq!(evaluated(entropy, &[7.0]), [0.0]);
    let uniform = evaluated(entropy, &[30.0; 8])[0];
    assert!((uniform - 8.0_f64.ln()).abs() < 1e-6, "{uniform}");
}

#[test]
fn infinite_logits_give_what_the_passes_would() {
    let entropy = "z = A @ B; h = -sum(softmax(z, N) * log_softmax(z, N), N)";
    // A masked column has no probability and adds nothing.
    let masked = evaluated(entropy, &[1.0, 1.0, f64::NEG_INFINITY])[0];
    assert!((masked - 2.0_f64.ln()).abs() < 1e-6, "{masked}");
    let sum = "z = A @ B; m = max(z, N); s = sum(exp(z - m), N)";
    assert!(evaluated(sum, &[f64::NEG_INFINITY; 2])[0].is_nan());
    assert!(evaluated(sum, &[f64::INFINITY, 0.0])[0].is_nan());
    assert!(evaluated(sum, &[f64::NAN, 0.0])[0].is_nan());
    assert_eq!(evaluated(sum, &[2.0, f64::NEG_INFINITY]), [1.0]);
}
