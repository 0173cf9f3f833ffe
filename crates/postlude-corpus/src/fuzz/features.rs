//! What a random kernel has in it: functions by position, dtypes by role, and what else once went untested.
//!
//! In: a specimen. Out: the names of its features; [`wanted`] lists the features that a long enough run must have. Both
//! follow the catalogue and the dtypes, so that a new function or dtype is wanted too.

mod frequent;

use std::collections::BTreeSet;

use postlude::DType;
use postlude::catalogue::{FUNCTIONS, Group};
use postlude::graph::{Axes, Kind};

use super::draw::differentiable;
use super::sketch::{Form, Known, Sketch, Statement, ValueId};
use super::specimen::{Drawn, Specimen};

pub use frequent::FREQUENT;

/// The features of a specimen.
pub fn features(specimen: &Specimen) -> BTreeSet<String> {
    let sketch = match &specimen.drawn {
        Drawn::Kernel(sketch) => sketch,
        Drawn::Program(program) => {
            return program.features().into_iter().map(str::to_owned).collect();
        }
    };
    let mut found = Found { sketch, all: BTreeSet::new() };
    let live = sketch.live();
    for statement in &sketch.statements {
        if statement.targets.iter().any(|target| live[*target]) {
            found.statement(statement, &live);
        }
    }
    found.declarations(&live);
    found.shape(specimen);
    found.all
}

/// Positions at which a function of one element is called.
const ELEMENTS: [&str; 7] =
    ["tile", "vector along N", "vector along M", "scalar", "fraction", "finished", "further"];
/// Positions of values that have columns.
const COLUMNS: [&str; 5] = ["tile", "vector along N", "fraction", "finished", "further"];

/// The features that a long enough run has.
pub fn wanted() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut on = |function: &str, positions: &[&str]| {
        all.extend(positions.iter().map(|position| format!("{function} on {position}")));
    };
    let reduced = ELEMENTS.iter().copied().filter(|position| *position != "scalar");
    let reduced: Vec<&str> = reduced.collect();
    for entry in FUNCTIONS {
        match (entry.group, entry.name) {
            (Group::Bits, name) if PLACELESS.contains(&name) => {}
            // Integers are rarely reduced twice.
            (Group::Bits, name @ ("lshr" | "float")) => {
                let drawn = ELEMENTS.iter().copied().filter(|position| *position != "further");
                on(name, &drawn.collect::<Vec<_>>());
            }
            (Group::Elementwise | Group::Activation | Group::Bits, name) => on(name, &ELEMENTS),
            // Segments are drawn as batches of the product; tables of rows are in the corpus.
            (Group::Structure, "segments" | "masked" | "gather" | "combine" | "scatter") => {}
            (Group::Structure, "take") => on("take", &["vector along N", "vector along M"]),
            (Group::Composite | Group::Reduction, name) => on(name, &reduced),
            (Group::Structure, name @ ("concat" | "join")) => {
                on(name, &["fraction", "finished", "further"]);
            }
            (Group::Structure, name) => on(name, &COLUMNS),
        }
    }
    for entry in differentiable() {
        on(&format!("grad({})", entry.name), &ELEMENTS);
    }
    for entry in FUNCTIONS {
        let along: &[&str] = match entry.group {
            Group::Reduction => &["N", "M", "L", "M and N", "everything", "runs", "runs of 1"],
            Group::Composite => &["N", "M"],
            Group::Elementwise | Group::Activation | Group::Bits | Group::Structure => &[],
        };
        all.extend(along.iter().map(|along| format!("{} along {along}", entry.name)));
    }
    for dtype in DType::ALL {
        all.extend(["tile", "vector"].map(|what| format!("{dtype} input {what}")));
        if dtype.is_stored() {
            all.extend(["tile", "vector"].map(|what| format!("{dtype} output {what}")));
        }
        all.insert(format!("cast to {dtype}"));
        if !dtype.is_packed() {
            all.extend(["input", "output"].map(|role| format!("{dtype} {role} scalar")));
        }
        if dtype.accumulator().is_some() {
            all.insert(format!("{dtype} operand"));
        }
    }
    all.extend(PLACELESS.map(str::to_owned));
    all.extend(OTHERS.map(str::to_owned));
    all.extend(FREQUENT.map(str::to_owned));
    all
}

/// Functions of an element's place alone.
const PLACELESS: [&str; 4] = ["philox", "uniform", "normal", "index"];

/// What is neither a function nor a dtype.
const OTHERS: [&str; 40] = [
    "rows cut into segments",
    "a split of a split",
    "a split of an input",
    "a split of an input's fraction",
    "a split of a reduction",
    "a split of a condition",
    "a merge of split parts",
    "an unused part",
    "an unused statement",
    "an unused product",
    "an input that is an output",
    "an output with more dims than its value",
    "an output with its dims in another order",
    "an input with its dims in another order",
    "a where of a where",
    "a one-liner",
    "f32 from the host",
    "i32 from the host",
    "row",
    "col",
    "a batch on A alone",
    "a batch on B alone",
    "a batch on both",
    "several batch dims",
    "an operand with some batch dims",
    "an input with some batch dims",
    "one tensor twice",
    "A transposed",
    "B transposed",
    "no batches",
    "no rows",
    "no columns",
    "a K of 0",
    "a size of 1",
    "a size of 3",
    "a product of a computed value",
    "products of one operand",
    "outputs of several products",
    "a reduction between products",
    "a computed value transposed",
];

struct Found<'a> {
    sketch: &'a Sketch,
    all: BTreeSet<String>,
}

/// Where a value stands, in one word or two.
fn positions(known: &Known) -> Vec<&'static str> {
    let axes = known.ty.axes;
    let fraction = [axes.row, axes.column].into_iter().flatten().any(|by| by > 1);
    let plain = match axes.kind() {
        Kind::Tile => "tile",
        Kind::AlongColumns => "vector along N",
        Kind::AlongRows => "vector along M",
        Kind::Scalar => "scalar",
    };
    let finished = ["", "finished", "further"][known.folds.min(2) as usize];
    vec![if fraction { "fraction" } else { plain }, finished]
}

/// The functions that a text calls, `grad(f)` as one.
fn functions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut derivative = false;
    for (place, letter) in text.char_indices() {
        if letter.is_ascii_alphanumeric() || letter == '_' {
            continue;
        }
        let name = &text[start..place];
        if derivative {
            found.push(format!("grad({name})"));
        } else if letter == '(' && !name.is_empty() && name != "grad" {
            found.push(name.to_owned());
        }
        derivative = letter == '(' && name == "grad";
        start = place + letter.len_utf8();
    }
    found
}

fn is_split(statement: &Statement) -> bool {
    ["halves(", "pairs(", "split("].iter().any(|one| statement.text.starts_with(one))
}

impl Found<'_> {
    fn add(&mut self, feature: impl Into<String>) {
        self.all.insert(feature.into());
    }

    fn known(&self, value: ValueId) -> &Known {
        &self.sketch.values[value]
    }

    /// The statement that makes a value; `None` of what is given.
    fn made_by(&self, value: ValueId) -> Option<&Statement> {
        self.sketch.statements.iter().find(|one| one.targets.contains(&value))
    }

    fn statement(&mut self, statement: &Statement, live: &[bool]) {
        for function in functions(&statement.text) {
            let operands = statement.operands.first().map(|operand| self.known(*operand));
            for position in operands.map(positions).unwrap_or_default() {
                self.add(format!("{function} on {position}"));
            }
            if PLACELESS.contains(&function.as_str()) {
                self.add(function.clone());
            }
            if DType::from_name(&function).is_some() {
                self.add(format!("cast to {function}"));
            }
            let entry = FUNCTIONS.iter().find(|entry| entry.name == function);
            if entry.is_some_and(|one| matches!(one.group, Group::Reduction | Group::Composite)) {
                self.dims(&function, statement);
            }
        }
        for operand in &statement.operands {
            let name = self.known(*operand).name.clone();
            if name == "row" || name == "col" {
                self.add(name);
            }
            let selects = |one: &Statement| one.text.starts_with("where");
            if selects(statement) && self.made_by(*operand).is_some_and(selects) {
                self.add("a where of a where");
            }
        }
        for name in frequent::frequent(self.sketch, statement) {
            self.add(name);
        }
        if is_split(statement) {
            self.split(statement, live);
        }
        let merges = statement.text.starts_with("concat") || statement.text.starts_with("join");
        let of_parts = |id: &ValueId| self.made_by(*id).is_some_and(is_split);
        if merges && statement.operands.iter().any(of_parts) {
            self.add("a merge of split parts");
        }
    }

    fn split(&mut self, statement: &Statement, live: &[bool]) {
        let x = statement.operands[0];
        match self.made_by(x) {
            Some(made) if is_split(made) => self.add("a split of a split"),
            Some(_) => {}
            None => {
                self.add("a split of an input");
                if self.known(x).ty.axes.column.is_some_and(|by| by > 1) {
                    self.add("a split of an input's fraction");
                }
            }
        }
        if self.known(x).folds > 0 {
            self.add("a split of a reduction");
        }
        if self.known(x).ty.elem == postlude::dtype::Elem::Bool {
            self.add("a split of a condition");
        }
        if statement.targets.iter().any(|target| !live[*target]) {
            self.add("an unused part");
        }
    }

    /// What a reduction or a composite runs along.
    fn dims(&mut self, function: &str, statement: &Statement) {
        let Some((_, rest)) = statement.text.split_once('(') else { return };
        let dims: Vec<&str> = rest.trim_end_matches(')').split(", ").skip(1).collect();
        let is_column = |dim: &&str| dim.starts_with('N');
        let run = dims.windows(2).find(|pair| is_column(&pair[0])).map(|pair| pair[1]);
        let run = run.and_then(|run| run.parse::<u32>().ok());
        let has = |dim: &str| dims.contains(&dim);
        if dims.is_empty() {
            self.add(format!("{function} along everything"));
        }
        if let Some(run) = run {
            self.add(format!("{function} along runs"));
            if run == 1 {
                self.add(format!("{function} along runs of 1"));
            }
        } else if dims.iter().any(is_column) {
            self.add(format!("{function} along N"));
            if has("M") {
                self.add(format!("{function} along M and N"));
            }
        }
        for dim in ["M", "L"] {
            if has(dim) {
                self.add(format!("{function} along {dim}"));
            }
        }
    }

    fn declarations(&mut self, live: &[bool]) {
        let sketch = self.sketch;
        let shape = |rank: usize, axes: Axes| match (rank, axes.kind()) {
            (_, Kind::Tile) => "tile",
            (0, Kind::AlongColumns | Kind::AlongRows | Kind::Scalar) => "scalar",
            (_, Kind::AlongColumns | Kind::AlongRows | Kind::Scalar) => "vector",
        };
        for input in sketch.inputs.iter().filter(|input| live[input.value]) {
            let Some(dims) = &input.dims else {
                self.add(format!("{} from the host", input.dtype));
                continue;
            };
            let axes = sketch.values[input.value].ty.axes;
            self.add(format!("{} input {}", input.dtype, shape(dims.len(), axes)));
            let batches = sketch.batch_names();
            let own = dims.iter().filter(|dim| batches.contains(&dim.to_string().as_str())).count();
            if (1..batches.len()).contains(&own) {
                self.add("an input with some batch dims");
            }
            if sketch.further_batches.is_empty() && *dims != super::sketch::dims_of(axes) {
                self.add("an input with its dims in another order");
            }
        }
        for output in &sketch.outputs {
            let known = &sketch.values[output.value];
            let axes = known.ty.axes;
            let further = if axes.batch { sketch.further_batches.len() } else { 0 };
            let extra = output.dims.len() > axes.rank() + further;
            // What is repeated along rows and columns is stored as a tile.
            let tile = output.dims.iter().any(|dim| dim.to_string() == "M")
                && output.dims.iter().any(|dim| dim.to_string().starts_with('N'));
            let what = if tile { "tile" } else { shape(output.dims.len(), axes) };
            self.add(format!("{} output {what}", output.dtype));
            if extra {
                self.add("an output with more dims than its value");
            } else if further == 0 && output.dims != super::sketch::dims_of(axes) {
                self.add("an output with its dims in another order");
            }
            if self.made_by(output.value).is_none() {
                self.add("an input that is an output");
            }
        }
        if sketch.outputs.iter().all(|output| !sketch.values[output.value].from_product) {
            self.add("an unused product");
        }
        if !sketch.unused.is_empty() {
            self.add("an unused statement");
        }
    }

    fn shape(&mut self, specimen: &Specimen) {
        let sketch = self.sketch;
        for dtype in sketch.operands {
            self.add(format!("{dtype} operand"));
        }
        if sketch.form == Form::OneLiner {
            self.add("a one-liner");
        }
        if sketch.is_segmented {
            self.add("rows cut into segments");
        }
        let [a, b] = sketch.factors;
        match (a.batched, b.batched) {
            (true, true) => self.add("a batch on both"),
            (true, false) => self.add("a batch on A alone"),
            (false, true) => self.add("a batch on B alone"),
            (false, false) => {}
        }
        if !sketch.further_batches.is_empty() {
            self.add("several batch dims");
        }
        if a.lacks | b.lacks != 0 {
            self.add("an operand with some batch dims");
        }
        if sketch.shares_operand {
            self.add("one tensor twice");
        }
        if a.inner_first {
            self.add("A transposed");
        }
        if b.inner_first {
            self.add("B transposed");
        }
        let names = ["no batches", "no rows", "no columns", "a K of 0"];
        for (place, size) in specimen.sizes.iter().enumerate() {
            match size {
                0 => self.add(names[place]),
                1 if place > 0 => self.add("a size of 1"),
                3 if place > 0 => self.add("a size of 3"),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn derivatives_are_functions_of_their_own() {
        assert_eq!(functions("grad(gelu)({})"), ["grad(gelu)"]);
        assert_eq!(functions("tanh({}) * 0.01 + 1.0"), ["tanh"]);
        assert_eq!(functions("where({}, {}, -inf)"), ["where"]);
        assert_eq!(functions("{} + {}"), Vec::<String>::new());
    }
}
