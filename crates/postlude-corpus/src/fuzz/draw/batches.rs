//! Several batch dims in the place of one, and B as A under other dims: what becomes of a kernel once it is drawn.

use postlude::shape::Dim;

use super::super::sketch::{Form, Sketch, Statement, ValueId};
use super::Draw;
use crate::random::Random;

/// Batch dims beside L, outermost first; one-liners call them so.
const FURTHER: [&str; 2] = ["L3", "L2"];
/// The sizes of L2 and L3.
const SIZES: [usize; 5] = [1, 2, 2, 3, 3];
/// Functions whose dims are a list.
const FOLDS: [&str; 11] = [
    "sum",
    "mean",
    "max",
    "min",
    "absmax",
    "logsumexp",
    "prod",
    "argmax",
    "argmin",
    "var",
    "index",
];

impl Draw {
    /// Makes several dims of the batch, with factors and inputs that have some of them.
    pub(super) fn spread_batch(&mut self, random: &mut Random) {
        if !self.traits.batched || !random.chance(60) || !can_spread(&self.sketch) {
            return;
        }
        let original = self.sketch.clone();
        let further = &FURTHER[random.range(0, 1)..];
        let sizes = further.iter().map(|name| (*name, *random.pick(&SIZES)));
        self.sketch.further_batches = sizes.collect();
        self.spread_factors(random);
        let names = self.sketch.batch_names();
        let spread = |dims: &[Dim], keep: &dyn Fn(usize) -> bool| -> Vec<Dim> {
            let own = |dim: &Dim| -> Vec<Dim> {
                if *dim != Dim::name("L") {
                    return vec![dim.clone()];
                }
                let kept = (0..names.len()).filter(|at| keep(*at));
                kept.map(|at| Dim::name(names[at])).collect()
            };
            dims.iter().flat_map(own).collect()
        };
        for output in &mut self.sketch.outputs {
            output.dims = spread(&output.dims, &|_| true);
        }
        let whole = self.sketch.clone();
        for input in &mut self.sketch.inputs {
            let Some(dims) = &mut input.dims else { continue };
            let batched = dims.contains(&Dim::name("L"));
            let packed = input.dtype.is_packed();
            let kept = if batched && !packed && random.one_in(2) {
                1 + random.below((1 << names.len()) - 1)
            } else {
                (1 << names.len()) - 1
            };
            *dims = spread(dims, &|at| kept >> at & 1 == 1);
        }
        if folds_shared(&self.sketch) {
            for (input, whole) in self.sketch.inputs.iter_mut().zip(&whole.inputs) {
                input.dims = whole.dims.as_ref().map(|dims| spread(dims, &|_| true));
            }
        }
        // An index along one of the dims is shared along the others, whatever the inputs.
        if folds_shared(&self.sketch) {
            self.sketch = original;
            return;
        }
        let all = names.join(", ");
        for statement in &mut self.sketch.statements {
            if statement.text.starts_with("index(L)") {
                let dim = names[random.below(names.len())];
                statement.text = statement.text.replace("index(L)", &format!("index({dim})"));
            } else {
                statement.text = with_dims(&statement.text, &all);
            }
        }
    }

    /// One of two factors with all batch dims may lack some; of a one-liner those before the others.
    fn spread_factors(&mut self, random: &mut Random) {
        let dims = self.sketch.batch_names().len();
        if !self.sketch.factors.iter().all(|factor| factor.batched) || random.one_in(2) {
            return;
        }
        let lacks = match self.sketch.form {
            Form::Kernel => 1 + random.below((1 << dims) - 2),
            Form::OneLiner => 1,
        };
        self.sketch.factors[random.below(2)].lacks = lacks as u8;
    }

    /// Declares B as A, where the sizes allow it: then there are as many columns as rows.
    pub(super) fn share_operand(&mut self, random: &mut Random, sizes: &mut [usize; 4]) {
        let sketch = &mut self.sketch;
        let [a, b] = sketch.factors;
        let alike = (a.batched, a.lacks) == (b.batched, b.lacks)
            && sketch.operands[0] == sketch.operands[1]
            && sketch.form == Form::Kernel
            && sketch.base == 1;
        let fits = sizes[2].is_multiple_of(sketch.multiples()[1]);
        if !alike || !fits || !random.one_in(6) {
            return;
        }
        // The product's text follows the factors, so that of B may not change.
        if a.inner_first == b.inner_first {
            sizes[1] = sizes[2];
            sketch.shares_operand = true;
        }
    }
}

/// Whether L stands in lists of dims and in `index` only.
fn can_spread(sketch: &Sketch) -> bool {
    let lists = |statement: &Statement| {
        let function = statement.text.split('(').next().unwrap_or_default();
        !has_word(&statement.text) || FOLDS.contains(&function)
    };
    // A table has one dim.
    let is_table = |value: ValueId| {
        let takes = |one: &Statement| one.text.starts_with("take(") && one.operands[0] == value;
        sketch.statements.iter().any(takes)
    };
    let mut tables = sketch.inputs.iter().filter(|input| is_table(input.value));
    let batched = tables.any(|table| table.dims.as_deref() == Some(&[Dim::name("L")]));
    !batched && sketch.statements.iter().all(lists)
}

fn has_word(text: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric()).any(|word| word == "L")
}

/// Every L replaced by these dims.
fn with_dims(text: &str, dims: &str) -> String {
    let mut result = String::new();
    for piece in text.split_inclusive(|letter: char| !letter.is_alphanumeric()) {
        match piece.strip_prefix('L') {
            Some(rest) if !rest.starts_with(char::is_alphanumeric) => {
                result.push_str(dims);
                result.push_str(rest);
            }
            Some(_) | None => result.push_str(piece),
        }
    }
    result
}

/// Whether some statement folds batches of what has some of their dims only.
fn folds_shared(sketch: &Sketch) -> bool {
    let names = sketch.batch_names();
    let mut whole = vec![true; sketch.values.len()];
    for input in &sketch.inputs {
        let dims = input.dims.iter().flatten();
        let own = dims.filter(|dim| names.iter().any(|name| Dim::name(*name) == **dim)).count();
        whole[input.value] = own == 0 || own == names.len();
    }
    let batched = |value: ValueId| sketch.values[value].ty.axes.batch;
    for statement in &sketch.statements {
        let mut operands = statement.operands.iter().filter(|operand| batched(**operand));
        // What is made of several such values may have all dims together; that is not looked into.
        let shared = operands.any(|operand| !whole[*operand]);
        for target in &statement.targets {
            if shared && !batched(*target) {
                return true;
            }
            whole[*target] = !shared;
        }
        // An index along one of the dims is shared along the others.
        if statement.text.starts_with("index(L)") {
            statement.targets.iter().for_each(|target| whole[*target] = false);
        }
    }
    false
}
