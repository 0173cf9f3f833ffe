//! Every rule before and after, and whole graphs against the reference.

mod elementwise;
mod graphs;
mod properties;
mod random;
mod reductions;

use super::Context;
use super::fold_constants::fold_constants;
use crate::check::{Bindings, Bound, check, infer};
use crate::define::define;
use crate::dtype::DType;
use crate::graph::{Graph, MathMode, NodeId, Op, Output};
use crate::syntax;

type Run = fn(&Graph, &Context<'_>) -> Graph;

/// Names that one-liners here use beside capital ones: `t` is i32[M], `p`, `q` conditions, `k`, `j` i32 and `s` f32 from the host, `u` bytes.
fn bindings() -> Bindings {
    let names = [
        ("t", Bound::Tensor(DType::I32, 1)),
        ("p", Bound::Tensor(DType::Bool, 2)),
        ("q", Bound::Tensor(DType::Bool, 2)),
        ("rows", Bound::Tensor(DType::Bool, 1)),
        ("u", Bound::Tensor(DType::I8, 2)),
        ("e", Bound::Tensor(DType::F8E5M2, 2)),
        ("n", Bound::Tensor(DType::I32, 2)),
        ("k", Bound::Scalar(DType::I32)),
        ("j", Bound::Scalar(DType::I32)),
        ("s", Bound::Scalar(DType::F32)),
    ];
    let names = names.into_iter().map(|(name, bound)| (name.to_owned(), bound)).collect();
    Bindings { names, dtype: DType::BF16 }
}

/// The defined graph of a one-liner.
fn defined(source: &str) -> Graph {
    let ast = syntax::parse(source).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    let ast = infer(&ast, &bindings()).unwrap_or_else(|errors| panic!("{source}: {errors:?}"));
    define(&check(&ast).unwrap_or_else(|errors| panic!("{source}: {errors:?}")))
}

/// The nodes and outputs of a graph, inputs by name, numbered in the order that outputs reach them.
fn text(graph: &Graph) -> String {
    fn place(from: &Graph, to: &mut Graph, node: NodeId, places: &mut [Option<NodeId>]) -> NodeId {
        if let Some(placed) = places[node.index()] {
            return placed;
        }
        let op: Op = from[node].op.map(|operand| place(from, to, operand, places));
        let placed = to.make(op);
        places[node.index()] = Some(placed);
        placed
    }
    let mut ordered = graph.emptied();
    let mut places = vec![None; graph.len()];
    for output in graph.outputs() {
        let value = place(graph, &mut ordered, output.value, &mut places);
        ordered.push_output(Output { value, dims: Vec::new(), ..output.clone() });
    }
    let printed = ordered.to_string();
    let body = printed.lines().skip(2).map(|line| line.split('#').next().unwrap_or("").trim_end());
    let body = body.map(|line| match line.trim().strip_prefix("output ") {
        // Dims and dtypes are inferred from the value and so differ where the value does.
        Some(output) => {
            let (declaration, value) = output.split_once(" = ").unwrap_or((output, ""));
            format!("{} = {value}", declaration.split(':').next().unwrap_or(""))
        }
        None => line.to_owned(),
    });
    body.collect::<Vec<_>>().join("\n")
}

fn check_math(run: Run, math: MathMode, before: &str, after: &str) {
    let context = Context { math, keep: None };
    // A negative literal is a negated one until it is folded.
    let folded = |source| fold_constants(&defined(source), &context);
    let got = run(&folded(before), &context);
    got.verify(crate::graph::Stage::Defined).unwrap_or_else(|broken| panic!("{before}: {broken}"));
    let want = folded(after);
    assert_eq!(text(&got), text(&want), "\n{before}\nbecame\n{got}\nand not\n{want}");
}

/// That a pass makes one one-liner of the other, under default math.
fn check_pass(run: Run, before: &str, after: &str) {
    check_math(run, MathMode::Default, before, after);
}

/// That a pass that runs under fast math only makes one one-liner of the other.
fn check_relaxed(run: Run, before: &str, after: &str) {
    check_math(run, MathMode::Fast, before, after);
}

/// That a pass makes one one-liner of the other, under fast math, and leaves it alone under default math.
fn check_fast(run: Run, before: &str, after: &str) {
    check_math(run, MathMode::Fast, before, after);
    check_math(run, MathMode::Default, before, before);
}

/// That a pass leaves a one-liner alone.
fn check_kept(run: Run, source: &str) {
    check_math(run, MathMode::Default, source, source);
}
