//! A table: the rules of stability, one line a rule, each checked by comparing what both sides mean.

use postlude::Kernel;
use postlude::graph::{Binary, Graph, NodeId, Op, Over, Run, Unary};

use crate::workspace::{read, root};

/// A rule's name in the source, what a user may write, and what it is computed as. `x`, `y` are tiles, `t` labels.
#[rustfmt::skip]
pub(crate) const RULES: &[(&str, &str, &str)] = &[
    ("double_negation", "-(-x)", "x"),
    ("root_of_square", "sqrt(square(x))", "abs(x)"),
    ("difference_that_cancels", "exp(x) - 1.0", "expm1(x)"),
    ("difference_that_cancels", "-1.0 + exp(x)", "expm1(x)"),
    ("difference_that_cancels", "1.0 - exp(x)", "-expm1(x)"),
    ("difference_that_cancels", "exp(x) - exp(y)", "where(abs(x - y) < 0.6931472, exp(y) * expm1(x - y), exp(x) - exp(y))"),
    ("difference_that_cancels", "1.0 - sigmoid(x)", "sigmoid(-x)"),
    ("difference_that_cancels", "2.0 * sigmoid(x) - 1.0", "tanh(0.5 * x)"),
    ("difference_that_cancels", "1.0 + tanh(x)", "2.0 * sigmoid(2.0 * x)"),
    ("difference_that_cancels", "1.0 - square(tanh(x))", "where(abs(x) < 1.0, fma(-tanh(x), tanh(x), 1.0), 4.0 * exp(-(2.0 * abs(x))) / ((1.0 + exp(-(2.0 * abs(x)))) * (1.0 + exp(-(2.0 * abs(x))))))"),
    ("difference_that_cancels", "1.0 - softmax(x, N)", "where(softmax(x, N) < 0.6, 1.0 - softmax(x, N), 0.0 - expm1(log_softmax(x, N)))"),
    ("difference_from_logsumexp", "x - logsumexp(x, N)", "x - max(x, N) - logsumexp_above_max(x, N)"),
    ("logsumexp_by_hand", "max(x, N) + log(sum(exp(x - max(x, N)), N))", "logsumexp(x, N)"),
    ("expm1_of_log_softmax", "expm1(log_softmax(x, N))", "-(1.0 - softmax(x, N))"),
    ("pick_of_log_softmax", "pick(log_softmax(x, N), t)", "pick(x, t) - max(x, N) - logsumexp_above_max(x, N)"),
    ("half_of_one_plus_tanh", "0.5 * (1.0 + tanh(x))", "sigmoid(2.0 * x)"),
    ("difference_that_cancels", "softplus(x) - x", "softplus(-x)"),
    ("power_of_exponential", "sqrt(exp(x))", "exp(0.5 * x)"),
    ("power_of_exponential", "rcp(exp(x))", "exp(-x)"),
    ("product_of_exponentials", "prod(exp(x), N)", "where(sum(abs(x), N) < 80.0, prod(exp(x), N), exp(sum(x, N)))"),
    ("quotient_of_exponentials", "1.0 / (1.0 + exp(-x))", "sigmoid(x)"),
    ("quotient_of_exponentials", "exp(x) / (1.0 + exp(x))", "sigmoid(x)"),
    ("quotient_of_exponentials", "exp(x) / (exp(x) + exp(y))", "sigmoid(x - y)"),
    ("quotient_of_exponentials", "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "tanh(x)"),
    ("quotient_of_exponentials", "exp(x) / sum(exp(x), N)", "softmax(x, N)"),
    ("quotient_of_exponentials", "exp(x) * rcp(sum(exp(x), N))", "softmax(x, N)"),
    ("quotient_of_exponentials", "sum(exp(x) * y, N) / sum(exp(x), N)", "sum(exp(x - peak(x)) * y, N) / sum(exp(x - peak(x)), N)"),
    ("quotient_of_exponentials", "exp2(x) / sum(exp2(x), N)", "exp2(x - peak(x)) / sum(exp2(x - peak(x)), N)"),
    ("quotient_of_one_softmax", "y * softmax(x, N) / sum(y * softmax(x, N), N)", "exp(x) * y / sum(exp(x) * y, N)"),
    ("log_of_exponentials", "log(exp(x))", "x"),
    ("log_of_exponentials", "log(sigmoid(x))", "-softplus(-x)"),
    ("log_of_exponentials", "log1p(-sigmoid(x))", "-softplus(x)"),
    ("log_of_exponentials", "log(sigmoid(x) / (1.0 - sigmoid(x)))", "x"),
    ("log_of_exponentials", "log(1.0 + exp(x))", "softplus(x)"),
    ("log_of_exponentials", "log(exp(x) + exp(y))", "where(x == y, x + 0.6931472, maximum(x, y) + log1p(exp(-abs(x - y))))"),
    ("log_of_exponentials", "log(1.0 - exp(x))", "where(x < -0.6931472, log1p(-exp(x)), log(-expm1(x)))"),
    ("log_of_exponentials", "log(exp(x) - 1.0)", "where(x < 1.0, log(expm1(x)), x + log1p(-exp(-x)))"),
    ("log_of_exponentials", "log((exp(x) + exp(-x)) / 2.0)", "where(abs(x) < 1.0, log1p(0.5 * (expm1(-abs(x)) * expm1(-abs(x))) / exp(-abs(x))), abs(x) - 0.6931472 + log1p(exp(-(2.0 * abs(x)))))"),
    ("log_of_exponentials", "log(sum(exp(x), N))", "logsumexp(x, N)"),
    ("log_of_exponentials", "log2(sum(exp2(x), N))", "1.442695 * logsumexp(0.6931472 * x, N)"),
    ("log_of_exponentials", "log(sum(exp(x), N) / 8.0)", "logsumexp(x, N) - 2.0794415"),
    ("log_of_exponentials", "log(prod(sigmoid(x), N))", "sum(-softplus(-x), N)"),
    ("log_of_exponentials", "log(softmax(x, N))", "log_softmax(x, N)"),
    ("log_of_exponentials", "-log(pick(softmax(x, N), t))", "-(pick(x, t) - max(x, N) - logsumexp_above_max(x, N))"),
    ("log_of_exponentials", "log(max(exp(x), N))", "max(x, N)"),
    ("log_of_exponentials", "log(1.0 - softmax(x, N))", "where(softmax(x, N) < 0.6, log1p(-softmax(x, N)), where(x == max(x, N), logsumexp(where(x == max(x, N), -inf, x - max(x, N)), N) + log_softmax(x, N), softmax(x, N)))"),
    ("log_of_exponentials", "log(where(0.0 < y, softmax(x, N), 1.0))", "where(0.0 < y, log_softmax(x, N), 0.0)"),
    ("log_of_sum_with_one", "log(1.0 + x)", "log1p(x)"),
    ("log_of_sum_with_one", "log(1.0 - x)", "log1p(-x)"),
    ("product_with_log", "y * log(x)", "where((y == 0.0) & !isnan(x), 0.0, y * log(x))"),
    ("product_with_log_softmax", "y * log(softmax(x, N))", "where((y == 0.0) & (x == -inf), 0.0, y * log_softmax(x, N))"),
    ("product_with_masked_log", "y * log(where(0.0 < y, exp(x), 0.0))", "where((y == 0.0) & isinf(where(0.0 < y, x, -inf)), 0.0, y * where(0.0 < y, x, -inf))"),
];

/// What `peak(x)` stands for in the table.
const PEAK: &str = "where(isinf(max(x, N)), 0.0, max(x, N))";

/// What the softmaxes in the table are made of.
const LOG_SOFTMAX: &str = "(x - max(x, N) - logsumexp_above_max(x, N))";
const SOFTMAX: &str = "(exp(x - max(x, N)) / sum(exp(x - max(x, N)), N))";

const ALONG_N: Over = Over { column: Some(Run::All), ..Over::NOTHING };

/// A value written out from its leaves, so that the numbering of nodes does not matter.
fn written_out(graph: &Graph, node: NodeId) -> String {
    let op = &graph[node].op;
    let operands: Vec<String> = op.operands().map(|operand| written_out(graph, operand)).collect();
    let list = operands.join(", ");
    match op {
        Op::Accumulator(_) => "x".to_owned(),
        Op::Input(input) => graph.inputs()[input.0 as usize].name.clone(),
        Op::Constant(constant) => constant.to_string(),
        Op::Unary(Unary::Negate, _) => format!("-{list}"),
        Op::Unary(Unary::Not, _) => format!("!{list}"),
        Op::Unary(unary, _) => format!("{}({list})", unary.name()),
        Op::Binary(binary, ..) => match symbol(*binary) {
            Some(symbol) => format!("({})", operands.join(symbol)),
            None => format!("{}({list})", binary.name()),
        },
        Op::Fma(..) => format!("fma({list})"),
        Op::Select(..) => format!("where({list})"),
        Op::Reduce(fold, over, _) if *over == ALONG_N => format!("{}({list}, N)", fold.name()),
        Op::Reduce(fold, over, _) => format!("{}({list}, {over:?})", fold.name()),
        Op::ReduceWeighted(fold, over, ..) => format!("{}({list}, {over:?})", fold.name()),
        Op::Pick(..) => format!("pick({list})"),
        Op::Extent(axes) => format!("extent({axes:?})"),
        Op::Index(_)
        | Op::Size(_)
        | Op::Cast(..)
        | Op::Round(..)
        | Op::Philox(_)
        | Op::Take(..)
        | Op::Entry(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Concat(..) => {
            panic!("no rule of stability makes {op:?}")
        }
        Op::Call(call, _) => panic!("`{}` was not expanded", call.function),
    }
}

fn symbol(binary: Binary) -> Option<&'static str> {
    match binary {
        Binary::Add => Some(" + "),
        Binary::Subtract => Some(" - "),
        Binary::Multiply => Some(" * "),
        Binary::Divide => Some(" / "),
        Binary::Less => Some(" < "),
        Binary::LessEqual => Some(" <= "),
        Binary::Equal => Some(" == "),
        Binary::NotEqual => Some(" != "),
        Binary::And => Some(" & "),
        Binary::Or => Some(" | "),
        Binary::Xor => Some(" ^ "),
        Binary::ShiftLeft => Some(" << "),
        Binary::ShiftRight => Some(" >> "),
        Binary::Maximum
        | Binary::Minimum
        | Binary::Pow
        | Binary::Fmod
        | Binary::ShiftRightLogical => None,
    }
}

/// The text without what only groups: for forms that a rule would recognise again if they were read back.
fn ungrouped(text: &str) -> String {
    text.replace(['(', ')', ' '], "")
}

fn meaning(value: &str) -> String {
    let kernel = Kernel::parse(&format!(
        "kernel k(A: f32[M, K], B: f32[K, N], y: f32[M, N], t: i32[M]) -> D: f32[M, N] {{ x = A @ B; D = {value} }}"
    ))
    .unwrap_or_else(|error| panic!("{value}: {error}"));
    let graph = kernel.defined();
    written_out(graph, graph.outputs()[0].value)
}

/// The names in the list of rules that `define` tries.
fn names_in_source() -> Vec<String> {
    let source = read(&root().join("crates/postlude/src/define/stabilise.rs"));
    let start = source.find("const RULES").expect("a list of rules");
    let list = &source[start..start + source[start..].find("];").expect("the end of the list")];
    let open = list.rfind('[').expect("the beginning of the list");
    list[open + 1..]
        .split(',')
        .map(|name| name.trim().to_owned())
        .filter(|n| !n.is_empty())
        .collect()
}

#[test]
fn every_rule_of_stability_is_in_the_table_and_holds() {
    let names = names_in_source();
    for name in &names {
        assert!(RULES.iter().any(|(rule, ..)| rule == name), "`{name}` is not in the table");
    }
    for (rule, naive, stable) in RULES {
        assert!(names.iter().any(|name| name == rule), "there is no rule `{rule}`");
        let computed = meaning(naive);
        let stable = stable.replace("peak(x)", PEAK);
        let expanded =
            stable.replace("log_softmax(x, N)", LOG_SOFTMAX).replace("softmax(x, N)", SOFTMAX);
        let holds = ungrouped(&computed) == ungrouped(&expanded) || computed == meaning(&stable);
        assert!(holds, "{naive} is computed as {computed}, not {stable}");
    }
}
