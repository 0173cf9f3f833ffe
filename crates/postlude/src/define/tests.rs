//! Kernels on which a rule could recurse or grow without bound.

use std::fmt::Write;

use crate::check::{self, Bindings};
use crate::graph::Graph;
use crate::syntax;

/// The meaning of a kernel or of a one-liner.
pub(crate) fn defined(source: &str) -> Graph {
    let ast = syntax::parse(source).expect("it parses");
    let ast = check::infer(&ast, &Bindings::default()).expect("it has a signature");
    super::define(&check::check(&ast).expect("it types"))
}

/// Nodes of a one-liner's meaning, found on the stack of an ordinary thread.
fn nodes(source: String) -> usize {
    let define = move || defined(&source).len();
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(define);
    thread.expect("a thread").join().expect("it is defined")
}

/// A chain of statements, each of the one before, which is `X`.
fn chain(first: &str, count: usize, step: &str, last: &str) -> String {
    let mut source = format!("z = A @ B\nc = C > 0.0\nx0 = {first}\n");
    for number in 0..count {
        let step = step.replace('X', &format!("x{number}")).replace('#', &number.to_string());
        let _ = writeln!(source, "x{} = {step}", number + 1);
    }
    source + &last.replace('X', &format!("x{count}"))
}

#[test]
fn logarithms_of_long_chains_need_no_long_stack() {
    for (first, count, step) in [
        ("z", 2300, "where(c, X, #.5)"),
        ("z", 1900, "where(c, X, exp(z))"),
        ("exp(z)", 2300, "where(c, #.5, X)"),
        ("exp(z)", 2500, "X + X"),
        ("exp(z)", 2500, "X * X"),
        ("exp(z)", 2500, "sqrt(X)"),
        ("exp(z)", 1500, "X + exp(z * #.5)"),
    ] {
        let nodes = nodes(chain(first, count, step, "D = log(X)"));
        assert!(nodes < 20 * count, "{step}: {nodes} nodes");
    }
}

#[test]
fn quotients_of_long_sums_stay_short() {
    let count = 400;
    let sums = chain("exp(z)", count, "X + exp(z * #.25)", "");
    let quotients: Vec<String> = (1..=count).map(|number| format!("exp(z) / x{number}")).collect();
    let nodes = nodes(format!("{sums}D = {}", quotients.join(" + ")));
    assert!(nodes < 200 * count, "{nodes} nodes");
}
