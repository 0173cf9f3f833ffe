//! What a fair share of all random kernels has: the parts of the language that interact with everything else.
//!
//! In: a kernel's statements. Out: the names of [`FREQUENT`] that they have.

use super::super::definitions::DEFINITIONS;
use super::super::sketch::{Sketch, Statement, ValueId};
use super::functions;

/// Features that at least two of a hundred kernels have.
pub const FREQUENT: [&str; 21] = [
    "a program",
    "equal parts",
    "more than two parts",
    "parts in runs",
    "parts with named dims",
    "a merge in runs",
    "a definition",
    "a seed in memory",
    "a random number",
    "a dropout or a stochastic rounding",
    "bits of a number",
    "a take",
    "a size",
    "a topk",
    "an argmax or an argmin",
    "a variance",
    "exponentials below a maximum",
    "a weighted sum of exponentials",
    "a softmax times weights",
    "an entropy or a divergence",
    "a sum of squared deviations",
];

/// Those of a statement.
pub(super) fn frequent(sketch: &Sketch, statement: &Statement) -> Vec<&'static str> {
    let mut found = Vec::new();
    let called = functions(&statement.text);
    let calls = |names: &[&str]| called.iter().any(|one| names.contains(&one.as_str()));
    let mut add = |is: bool, name: &'static str| {
        if is {
            found.push(name);
        }
    };
    let text = statement.text.as_str();
    let splits = calls(&["split", "halves", "pairs"]);
    let named = text.contains(", [");
    add(splits && !named, "equal parts");
    add(splits && statement.targets.len() > 2, "more than two parts");
    add(splits && is_in_runs(text), "parts in runs");
    add(named, "parts with named dims");
    add(calls(&["concat", "join"]) && ends_in_number(text), "a merge in runs");
    let defined = DEFINITIONS.map(|one| one.name);
    add(calls(&defined), "a definition");
    let stochastic = ["bf16", "f16", "f8e4m3", "f8e5m2"];
    let stochastic = calls(&stochastic) && text.matches(", ").count() == 2;
    let random = calls(&["philox", "uniform", "normal"]);
    let masked = calls(&["dropout"]) || stochastic;
    let seed = statement.operands.iter().any(|one| {
        sketch.values[*one].stack == Some(2)
            && sketch.inputs.iter().any(|input| input.value == *one)
    });
    add((random || masked) && seed, "a seed in memory");
    add(random, "a random number");
    add(masked, "a dropout or a stochastic rounding");
    let bits = ["<<", ">>", " ^ ", "~"].iter().any(|one| text.contains(one));
    add(bits || calls(&["bits", "float", "lshr"]), "bits of a number");
    add(calls(&["take"]), "a take");
    add(calls(&["size"]), "a size");
    add(calls(&["topk"]), "a topk");
    add(calls(&["argmax", "argmin"]), "an argmax or an argmin");
    add(calls(&["var"]), "a variance");
    online(sketch, statement, &mut add);
    found
}

/// Folds relative to their own maximum or mean.
fn online(sketch: &Sketch, statement: &Statement, add: &mut impl FnMut(bool, &'static str)) {
    let made = |value: ValueId| sketch.statements.iter().find(|one| one.targets.contains(&value));
    let starts =
        |value: ValueId, with: &str| made(value).is_some_and(|one| one.text.starts_with(with));
    let operand = |value: ValueId, place: usize| made(value)?.operands.get(place).copied();
    let difference = |value: ValueId, from: &str| {
        let below = made(value).is_some_and(|one| one.text.contains("{} - {}"));
        below && operand(value, 1).is_some_and(|other| starts(other, from))
    };
    let exponential = |value: ValueId| {
        starts(value, "exp(") && operand(value, 0).is_some_and(|inner| difference(inner, "max("))
    };
    let text = statement.text.as_str();
    let Some(&x) = statement.operands.first() else { return };
    let is_sum = text.starts_with("sum(") || text.starts_with("-sum(") || text.starts_with("mean(");
    if !is_sum {
        return;
    }
    add(exponential(x), "exponentials below a maximum");
    let deviates =
        starts(x, "square(") && operand(x, 0).is_some_and(|inner| difference(inner, "mean("));
    add(deviates, "a sum of squared deviations");
    let Some(product) = made(x).filter(|one| one.text == "{} * {}") else { return };
    let any = |is: &dyn Fn(ValueId) -> bool| product.operands.iter().any(|one| is(*one));
    add(any(&exponential), "a weighted sum of exponentials");
    let logarithmic = |value: ValueId| {
        let apart = made(value).is_some_and(|one| one.text == "{} - {}");
        starts(value, "log") || apart && operand(value, 0).is_some_and(|one| starts(one, "log"))
    };
    let weighs = any(&|value| starts(value, "softmax("));
    add(weighs && any(&logarithmic), "an entropy or a divergence");
    add(weighs && !any(&logarithmic), "a softmax times weights");
}

/// Whether a call's last argument is a number.
fn ends_in_number(text: &str) -> bool {
    let last = text.trim_end_matches(')').rsplit(", ").next();
    last.is_some_and(|last| last.parse::<u32>().is_ok())
}

fn is_in_runs(text: &str) -> bool {
    ends_in_number(text) && (!text.starts_with("split") || text.matches(", ").count() == 2)
}
