//! A kernel in pieces: statements of one operation each, so that any of them can be left out.

use std::collections::BTreeSet;
use std::fmt::Write;

use postlude::DType;
use postlude::graph::{Axes, Type};
use postlude::shape::Dim;

use super::named::{Named, column_name};

/// A value with a name: an input, an index or what a statement assigns.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) ty: Type,
    /// Its usual magnitude.
    pub(super) about: f64,
    /// Whether it is never below zero.
    pub(super) positive: bool,
    /// Whether it is known only when a reduction is finished.
    pub(super) late: bool,
    /// How many reductions lie between it and the inputs, one after another.
    pub(super) folds: u32,
    /// Whether the matrix product is among what it is made of.
    pub(super) from_product: bool,
    /// What its columns were divided by where `halves` or `pairs` split them: it meets no value of more columns.
    pub(super) splits: Vec<u32>,
    /// How many values there are along a dim of their own, where there is one.
    pub(super) stack: Option<u32>,
}

impl Known {
    /// What is given and not computed: an input or an index.
    pub(super) fn given(name: String, ty: Type, about: f64, positive: bool) -> Known {
        let (late, folds, from_product, splits, stack) = (false, 0, false, Vec::new(), None);
        Known { name, ty, about, positive, late, folds, from_product, splits, stack }
    }

    /// Whether it is a value of the body as most are, rather than a table, a seed or the largest of rows.
    pub(super) fn is_plain(&self) -> bool {
        self.stack.is_none()
    }

    /// Whether this value and one of this many columns may be operands of one operation.
    pub(super) fn meets_columns(&self, column: Option<u32>) -> bool {
        column.is_none_or(|column| self.splits.iter().all(|split| *split <= column))
    }
}

/// How a kernel is written down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// With a signature.
    Kernel,
    /// A body alone: dtypes of inputs are bound, dims are annotated where a name is first read, outputs are inferred.
    OneLiner,
}

/// A place in the list of values.
pub(super) type ValueId = usize;

/// `targets = text`, where each `{}` of the text stands for an operand.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Statement {
    pub(super) targets: Vec<ValueId>,
    pub(super) text: String,
    pub(super) operands: Vec<ValueId>,
    /// What N has to be a multiple of, beyond what the dims of the targets say.
    pub(super) multiple: u32,
}

impl Statement {
    pub(super) fn new(targets: Vec<ValueId>, text: String, operands: Vec<ValueId>) -> Statement {
        Statement { targets, text, operands, multiple: 1 }
    }
}

/// An operand of the product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Factor {
    pub(super) batched: bool,
    /// Of several batch dims, the ones that it lacks, in bits.
    pub(super) lacks: u8,
    /// Whether K comes before the rows or columns in its declaration.
    pub(super) inner_first: bool,
}

/// An input beside the factors.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Declared {
    pub(super) value: ValueId,
    pub(super) dtype: DType,
    /// `None` for a scalar that the host passes.
    pub(super) dims: Option<Vec<Dim>>,
}

/// An output.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) dims: Vec<Dim>,
    pub(super) value: ValueId,
}

/// A kernel in pieces.
#[derive(Clone, PartialEq, Debug)]
pub struct Sketch {
    pub(super) form: Form,
    pub(super) operands: [DType; 2],
    /// What N is divided by to give the product's columns.
    pub(super) base: u32,
    pub(super) factors: [Factor; 2],
    /// Batch dims before L, and their sizes.
    pub(super) further_batches: Vec<(&'static str, usize)>,
    /// Whether B is A under other dims.
    pub(super) shares_operand: bool,
    /// Whether L numbers segments of A's rows.
    pub(super) is_segmented: bool,
    /// The split into dims with names, where there is one.
    pub(super) named: Option<Named>,
    pub(super) inputs: Vec<Declared>,
    pub(super) values: Vec<Known>,
    pub(super) statements: Vec<Statement>,
    pub(super) outputs: Vec<Stored>,
    /// Values that are computed though no output needs them.
    pub(super) unused: Vec<ValueId>,
}

/// The dims of a value in the order batch, rows, columns.
pub(super) fn dims_of(axes: Axes) -> Vec<Dim> {
    let name = column_name(axes.part).to_owned();
    let column = axes.column.map(|divisor| Dim::Name { name, divisor });
    let row = axes.row.map(|divisor| Dim::Name { name: "M".to_owned(), divisor });
    let batch = axes.batch.then(|| Dim::name("L"));
    [batch, row, column].into_iter().flatten().collect()
}

/// What stands between brackets.
pub(super) fn list(dims: &[Dim]) -> String {
    dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ")
}

impl Sketch {
    /// What stands before the body of a kernel.
    pub(super) fn signature(&self) -> String {
        let mut text = format!("kernel k({}, {}", self.factor(0), self.factor(1));
        let live = self.live();
        for input in self.inputs.iter().filter(|input| live[input.value]) {
            let _ = write!(text, ", {}: {}", self.values[input.value].name, input.dtype);
            if let Some(dims) = &input.dims {
                let _ = write!(text, "[{}]", list(dims));
            }
        }
        if self.is_segmented {
            text.push_str(", ends: i32[L]");
        }
        let outputs = self.outputs.iter();
        let outputs =
            outputs.map(|one| format!("{}: {}[{}]", one.name, one.dtype, list(&one.dims)));
        let _ = write!(text, ") -> ({})", outputs.collect::<Vec<_>>().join(", "));
        text
    }

    fn factor(&self, which: usize) -> String {
        let Factor { inner_first, .. } = self.factors[which];
        let columns = Dim::Name { name: "N".to_owned(), divisor: self.base };
        let outer = [Dim::name("M"), columns][which].to_string();
        let dims = if inner_first { format!("K, {outer}") } else { format!("{outer}, K") };
        let batch = self.factor_batches(which).into_iter().map(|(_, name)| format!("{name}, "));
        let batch: String = batch.collect();
        let same = if which == 1 && self.shares_operand { " = A" } else { "" };
        format!("{}: {}[{batch}{dims}]{same}", ["A", "B"][which], self.operands[which])
    }

    /// The batch dims, where there are some.
    pub(super) fn batch_names(&self) -> Vec<&'static str> {
        self.further_batches.iter().map(|(name, _)| *name).chain(["L"]).collect()
    }

    /// The batch dims of a factor, with their places among all.
    pub(super) fn factor_batches(&self, which: usize) -> Vec<(usize, &'static str)> {
        let Factor { batched, lacks, .. } = self.factors[which];
        let all = self.batch_names().into_iter().enumerate();
        all.filter(|(place, _)| batched && lacks >> place & 1 == 0).collect()
    }

    /// The operands of the product; B is declared the way that needs no `.T` when K comes first.
    pub(super) fn operand_texts(factors: [Factor; 2]) -> [&'static str; 2] {
        let left = if factors[0].inner_first { "A.T" } else { "A" };
        let right = if factors[1].inner_first { "B" } else { "B.T" };
        [left, right]
    }

    /// The statements that reach an output.
    pub(super) fn lines(&self) -> Vec<String> {
        let live = self.live();
        let mut lines = Vec::new();
        let mut read = BTreeSet::new();
        for (place, statement) in self.statements.iter().enumerate() {
            // A kernel without its product is none.
            if place > 0 && !statement.targets.iter().any(|target| live[*target]) {
                continue;
            }
            let names = statement.targets.iter().map(|target| self.values[*target].name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            lines.push(format!("{names} = {}", self.value_text(statement, &mut read)));
        }
        for stored in &self.outputs {
            lines.push(format!("{} = {}", stored.name, self.read(stored.value, &mut read)));
        }
        lines
    }

    /// A value's name; in a one-liner with its dims where an input is read for the first time.
    fn read(&self, value: ValueId, read: &mut BTreeSet<ValueId>) -> String {
        let name = &self.values[value].name;
        let input = self.inputs.iter().find(|input| input.value == value);
        match input.and_then(|input| input.dims.as_ref()) {
            Some(dims) if self.form == Form::OneLiner && read.insert(value) => {
                format!("{name}[{}]", list(dims))
            }
            Some(_) | None => name.clone(),
        }
    }

    fn value_text(&self, statement: &Statement, read: &mut BTreeSet<ValueId>) -> String {
        let mut text = String::new();
        let mut operands = statement.operands.iter();
        for (place, part) in statement.text.split("{}").enumerate() {
            if place > 0
                && let Some(operand) = operands.next()
            {
                text.push_str(&self.read(*operand, read));
            }
            text.push_str(part);
        }
        text
    }

    /// Which values reach an output, or are computed all the same.
    pub(super) fn live(&self) -> Vec<bool> {
        let mut live = vec![false; self.values.len()];
        self.unused.iter().for_each(|value| live[*value] = true);
        self.outputs.iter().for_each(|output| live[output.value] = true);
        for statement in self.statements.iter().rev() {
            // The dims of parts are there where the split is.
            let names_dims = statement.targets.iter().any(|one| self.values[*one].ty.axes.part > 0)
                && statement.text.starts_with("split");
            if names_dims
                && (0..live.len()).any(|one| live[one] && self.values[one].ty.axes.part > 0)
            {
                live[statement.targets[0]] = true;
            }
            if statement.targets.iter().any(|target| live[*target]) {
                statement.operands.iter().for_each(|operand| live[*operand] = true);
            }
        }
        live
    }

    /// The same with another value in a value's place.
    pub(super) fn replaced(&self, old: ValueId, new: ValueId) -> Sketch {
        let mut sketch = self.clone();
        let swap = |value: &mut ValueId| {
            if *value == old {
                *value = new;
            }
        };
        for statement in &mut sketch.statements {
            statement.operands.iter_mut().for_each(swap);
        }
        sketch.outputs.iter_mut().for_each(|output| swap(&mut output.value));
        sketch
    }

    /// Whether some statement gives an index, which there is none of among no elements.
    pub(super) fn gives_indices(&self) -> bool {
        let gives = |one: &Statement| {
            ["argmax(", "argmin(", "topk("].iter().any(|f| one.text.starts_with(f))
        };
        self.statements.iter().any(gives)
    }

    /// What N has to be at least: as many columns as the largest that are asked for.
    pub(super) fn least_columns(&self) -> usize {
        let least = |one: &Statement| {
            let (count, dim) = one.text.strip_prefix("topk({}, ")?.split_once(", N")?;
            let by = dim.trim_matches(['/', ')']).parse::<usize>().unwrap_or(1);
            Some(count.parse::<usize>().ok()? * by)
        };
        self.statements.iter().filter_map(least).max().unwrap_or(0)
    }

    /// What the sizes of L, M and N have to be multiples of: of widths that divide columns, and of whole bytes.
    pub(super) fn multiples(&self) -> [usize; 3] {
        let mut multiples = [1, 1, self.base as usize];
        let live = self.live();
        let mut need = |dim: &Dim, whole: usize| {
            if let Dim::Name { name, divisor } = dim {
                let place = ["L", "M", "N"].iter().position(|one| one == name);
                if let Some(place) = place {
                    multiples[place] = least_common(multiples[place], *divisor as usize * whole);
                }
            }
        };
        // All parts of a split have their dims, whether or not anything reads them.
        let used = self.statements.iter().filter(|one| one.targets.iter().any(|id| live[*id]));
        let used: Vec<&Statement> = used.collect();
        for statement in &used {
            need(&Dim::name("N"), statement.multiple as usize);
        }
        if let Some(named) = &self.named {
            need(&Dim::name("N"), named.align as usize);
        }
        let targets = used.into_iter().flat_map(|one| one.targets.iter().copied());
        let given = self.inputs.iter().map(|input| input.value).filter(|id| live[*id]);
        for value in targets.chain(given) {
            for dim in &dims_of(self.values[value].ty.axes) {
                need(dim, 1);
            }
        }
        let inputs = self.inputs.iter().filter(|input| live[input.value]);
        let inputs = inputs.filter_map(|input| Some((input.dtype, input.dims.as_ref()?)));
        for (dtype, dims) in inputs.chain(self.outputs.iter().map(|one| (one.dtype, &one.dims))) {
            for dim in dims {
                need(dim, 1);
            }
            if let Some(last) = dims.last() {
                need(last, dtype.per_byte());
            }
        }
        multiples
    }
}

pub(super) fn least_common(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x * b
}
