//! Random kernels of two to four products: operands are inputs or values of earlier products, values of products with the
//! same dims meet, and outputs are values of any of them.

use std::collections::BTreeMap;

use postlude::DType;

use super::super::place::Place;
use super::super::program::{Origin, Program, Stored, Value, ValueId};
use super::super::specimen::{Drawn, Specimen};
use super::Extent;
use super::data::{size, way};
use crate::fill::Fill;
use crate::random::{Random, fingerprint};

/// Dims of matrices.
const DIMS: [&str; 5] = ["M", "N", "K", "E", "F"];
/// What is done to an element; `#` stands for it.
const UNARY: [&str; 10] = [
    "relu(#)",
    "tanh(#)",
    "silu(#)",
    "gelu(#)",
    "sigmoid(#)",
    "abs(#) * 0.5",
    "exp(minimum(#, 1.0))",
    "where(# > 0.5, #, # * 0.25)",
    "clamp(#, -2.0, 2.0)",
    "# * 0.5 - 0.25",
];
/// The same where numbers stay whole.
const WHOLE_UNARY: [&str; 4] = ["relu(#)", "-#", "abs(#)", "clamp(#, -8.0, 8.0)"];
/// What depends on an element's place in the product.
const MASKS: [&str; 3] = ["where(col <= row, #, 0.0)", "where(row == col, 1.0, #)", "# + f32(col)"];
/// What follows from a reduction along the dim `@`.
const NORMS: [&str; 6] = [
    "# * rsqrt(mean(square(#), @) + 1.0)",
    "softmax(#, @)",
    "# - max(#, @)",
    "# / (absmax(#, @) + 1.0)",
    "exp(# - logsumexp(#, @))",
    "layer_norm(#, @, 0.5)",
];
const WHOLE_NORMS: [&str; 2] = ["# - max(#, @)", "maximum(#, min(#, @) + 1.0)"];
const REDUCTIONS: [&str; 7] = [
    "sum(#, @) * 0.125",
    "mean(#, @)",
    "max(#, @)",
    "min(#, @)",
    "absmax(#, @)",
    "logsumexp(#, @)",
    "mean(square(#), @)",
];
const WHOLE_REDUCTIONS: [&str; 4] = ["sum(#, @)", "max(#, @)", "min(#, @)", "absmax(#, @)"];

/// What is done to an operand, which is rounded behind it; `@` is the dim that its product sums over.
const OPERANDS: [&str; 5] = [
    "relu(#)",
    "# * rsqrt(mean(square(#), @) + 1.0)",
    "# * 0.5 + 0.25",
    "tanh(#)",
    "# - max(#, @)",
];
const WHOLE_OPERANDS: [&str; 3] = ["relu(#)", "-#", "# - max(#, @)"];

const FILLS: [Fill; 5] = [Fill::Normal, Fill::Normal, Fill::Normal, Fill::Uniform, Fill::Integers];

/// The specimen of a seed that is a program.
pub(in super::super) fn draw_program(seed: u64, extent: Extent) -> Specimen {
    // By numbers of their own: the kernel of one product that a seed has is another one.
    let mut random = Random::new(seed ^ 0x70_72_6f_67);
    let batched = random.chance(20);
    let whole = random.chance(35);
    let operand = operand(&mut random);
    let program = Program { operand, values: Vec::new(), outputs: Vec::new() };
    let mut draw =
        DrawProgram { random, program, batched, whole, spaces: Vec::new(), products: Vec::new() };
    draw.body();
    draw.finish(seed, extent)
}

fn operand(random: &mut Random) -> DType {
    match random.below(12) {
        0..=4 => DType::BF16,
        5..=7 => DType::F16,
        8 => DType::F8E4M3,
        9 => DType::TF32,
        10 => DType::F32,
        _ => DType::I8,
    }
}

struct DrawProgram {
    random: Random,
    program: Program,
    batched: bool,
    /// Whole numbers, and mostly operations that are exact on them.
    whole: bool,
    /// The dims of each product.
    spaces: Vec<Vec<&'static str>>,
    /// What each product multiplies: one that is written twice is one.
    products: Vec<u64>,
}

impl DrawProgram {
    fn body(&mut self) {
        let products = self.random.range(2, 4);
        let mut ends = Vec::new();
        for _ in 0..products {
            let mut value = self.multiply();
            for _ in 0..self.random.below(4) {
                value = self.step(value).unwrap_or(value);
            }
            if self.random.chance(40) {
                value = self.rounded(value);
            }
            ends.push(value);
        }
        self.outputs(&ends);
    }

    fn value(&self, id: ValueId) -> &Value {
        &self.program.values[id]
    }

    fn push(&mut self, name: &str, dims: Vec<&'static str>, origin: Origin, about: f64) -> ValueId {
        let values = &mut self.program.values;
        let (name, last) = (format!("{name}{}", values.len()), None);
        values.push(Value { name, dims, origin, about, last, rounded: None });
        values.len() - 1
    }

    fn input(&mut self, dtype: DType, dims: Vec<&'static str>) -> ValueId {
        self.push("x", dims, Origin::Input(dtype), 1.0)
    }

    /// A statement on values, each of which stands for some `#` of the text, in order.
    fn assign(&mut self, text: &str, operands: &[ValueId], dims: Vec<&'static str>) -> ValueId {
        let about = operands.iter().map(|id| self.value(*id).about).fold(0.0, f64::max);
        let last = operands.iter().filter_map(|id| self.value(*id).last).max();
        let operands = operands.to_vec();
        let id = self.push("v", dims, Origin::Statement { text: text.to_owned(), operands }, about);
        self.program.values[id].last = last;
        id
    }

    /// A statement on one value, which each `#` stands for.
    fn apply(&mut self, form: &str, value: ValueId, dims: Vec<&'static str>) -> ValueId {
        let operands = vec![value; form.matches('#').count()];
        self.assign(&form.replace('#', "{}"), &operands, dims)
    }

    /// A product of what there is or of new inputs.
    fn multiply(&mut self) -> ValueId {
        let left = self.left();
        let [mut rows, mut inner] = self.value(left).matrix().unwrap_or(["M", "K"]);
        let turned = self.random.one_in(3);
        if turned {
            (rows, inner) = (inner, rows);
        }
        let right = self.right(rows, inner);
        let [first, second] = self.value(right).matrix().unwrap_or([inner, "N"]);
        let columns = if first == inner { second } else { first };
        let mut sides = [(left, turned), (right, first != inner)];
        let mut matrix = [rows, columns];
        if self.random.one_in(3) {
            // The transposed product.
            sides = [(right, first == inner), (left, !turned)];
            matrix = [columns, rows];
        }
        let texts = sides.map(|(value, turned)| self.operand_text(value, turned, inner));
        let [left_about, right_about] = sides.map(|(value, _)| self.value(value).about.max(0.1));
        let mut about = 8.0 * left_about * right_about;
        let is_batched = sides.iter().any(|(value, _)| self.value(*value).dims.contains(&"L"));
        let dims: Vec<&'static str> = is_batched.then_some("L").into_iter().chain(matrix).collect();
        let mut text = texts.join(" @ ");
        if self.program.operand == DType::I8 {
            text = format!("f32({text})");
        }
        if about > 4.0 && self.random.chance(85) {
            let scale = 0.5_f64.powi(about.log2().ceil() as i32);
            text = format!("{text} * {scale}");
            about *= scale;
        }
        let read = sides.iter().zip(&texts);
        let read = read.flat_map(|((value, _), text)| vec![*value; text.matches("{}").count()]);
        let read: Vec<ValueId> = read.collect();
        let meaning = self.meaning(&texts.join(" @ "), &read);
        let known = self.products.iter().position(|known| *known == meaning);
        let number = known.unwrap_or_else(|| {
            self.products.push(meaning);
            self.spaces.push(dims.clone());
            self.spaces.len() - 1
        });
        let value = self.assign(&text, &read, dims);
        self.program.values[value].last = Some(number);
        self.program.values[value].about = about;
        value
    }

    /// A number for an expression, the same for equal ones.
    fn meaning(&self, text: &str, operands: &[ValueId]) -> u64 {
        let own = operands.iter().map(|operand| match &self.value(*operand).origin {
            Origin::Statement { text, operands } => self.meaning(text, operands),
            Origin::Input(_) | Origin::Host => fingerprint(self.value(*operand).name.as_bytes()),
        });
        let own: Vec<String> = own.map(|number| number.to_string()).collect();
        fingerprint(format!("{text} {}", own.join(" ")).as_bytes())
    }

    /// Matrices that may be operands.
    fn matrices(&self, fits: impl Fn(&Value) -> bool) -> Vec<ValueId> {
        let is_operand = |value: &Value| match value.origin {
            Origin::Input(dtype) => dtype == self.program.operand,
            Origin::Host => false,
            Origin::Statement { .. } => true,
        };
        let all = self.program.values.iter().enumerate();
        all.filter(|(_, value)| value.matrix().is_some() && is_operand(value) && fits(value))
            .map(|(id, _)| id)
            .collect()
    }

    fn left(&mut self) -> ValueId {
        let computed = self.matrices(|value| matches!(value.origin, Origin::Statement { .. }));
        if !computed.is_empty() && self.random.chance(65) {
            let from = computed.len().saturating_sub(3);
            return computed[self.random.range(from, computed.len() - 1)];
        }
        let inputs = self.matrices(|value| matches!(value.origin, Origin::Input(_)));
        if !inputs.is_empty() && self.random.chance(60) {
            return *self.random.pick(&inputs);
        }
        let first = *self.random.pick(&DIMS);
        let second = self.other_dim(&[first]);
        self.matrix([first, second])
    }

    /// An operand with K, and a dim that is neither.
    fn right(&mut self, rows: &'static str, inner: &'static str) -> ValueId {
        let fits = |value: &Value| {
            value.matrix().is_some_and(|dims| dims.contains(&inner) && !dims.contains(&rows))
        };
        let known = self.matrices(fits);
        if !known.is_empty() && self.random.chance(45) {
            return *self.random.pick(&known);
        }
        // Often the dims of an earlier product, whose values this one's meet.
        let spaces =
            self.spaces.iter().filter(|dims| dims.contains(&rows) && !dims.contains(&inner));
        let others: Vec<&'static str> = spaces
            .flat_map(|dims| dims.iter().copied())
            .filter(|dim| *dim != rows && *dim != "L")
            .collect();
        let columns = if !others.is_empty() && self.random.chance(60) {
            *self.random.pick(&others)
        } else {
            self.other_dim(&[rows, inner])
        };
        let mut dims = [inner, columns];
        if self.random.one_in(2) {
            dims.swap(0, 1);
        }
        self.matrix(dims)
    }

    fn other_dim(&mut self, than: &[&str]) -> &'static str {
        let others: Vec<&'static str> =
            DIMS.iter().copied().filter(|dim| !than.contains(dim)).collect();
        let chosen: &&'static str = self.random.pick(&others);
        chosen
    }

    /// A new operand.
    fn matrix(&mut self, dims: [&'static str; 2]) -> ValueId {
        let batch = self.batched && self.random.chance(75);
        let dims = batch.then_some("L").into_iter().chain(dims).collect();
        self.input(self.program.operand, dims)
    }

    /// An operand in the dtype of all of them, with math on it in some products.
    fn operand_text(&mut self, value: ValueId, turned: bool, inner: &str) -> String {
        let operand = self.program.operand;
        let is_input = matches!(self.value(value).origin, Origin::Input(_));
        let is_rounded = is_input || self.value(value).rounded == Some(operand);
        let is_float = operand.elem() == postlude::dtype::Elem::F32;
        let text = if is_float && self.random.one_in(10) {
            let forms: &[&str] = if self.whole { &WHOLE_OPERANDS } else { &OPERANDS };
            let form = *self.random.pick(forms);
            format!("{operand}({})", form.replace('#', "{}").replace('@', inner))
        } else if is_rounded {
            "{}".to_owned()
        } else {
            format!("{operand}({{}})")
        };
        if turned { format!("{text}.T") } else { text }
    }

    /// One operation on a value, or none where nothing fits.
    fn step(&mut self, value: ValueId) -> Option<ValueId> {
        let dims = self.value(value).dims.clone();
        let pick = |random: &mut Random, all: &[&'static str]| *random.pick(all);
        match self.random.below(10) {
            0 if self.random.one_in(3) && self.is_whole_tile(value) => {
                let form = pick(&mut self.random, &MASKS);
                Some(self.apply(form, value, dims))
            }
            0..=2 => {
                let all: &[&str] = if self.whole { &WHOLE_UNARY } else { &UNARY };
                let form = pick(&mut self.random, all);
                Some(self.apply(form, value, dims))
            }
            3..=5 => self.meet(value),
            6 => {
                let all: &[&str] = if self.whole { &WHOLE_NORMS } else { &NORMS };
                let form = pick(&mut self.random, all).replace('@', self.folded(value)?);
                Some(self.apply(&form, value, dims))
            }
            7 | 8 => {
                let all: &[&str] = if self.whole { &WHOLE_REDUCTIONS } else { &REDUCTIONS };
                let along = self.folded(value)?;
                let form = pick(&mut self.random, all).replace('@', along);
                let left = dims.into_iter().filter(|dim| *dim != along).collect();
                self.apply(&form, value, left);
                None
            }
            _ => {
                let number = self.push("s", Vec::new(), Origin::Host, 1.0);
                let operator = *self.random.pick(&["*", "+"]);
                Some(self.assign(&format!("{{}} {operator} {{}}"), &[value, number], dims))
            }
        }
    }

    /// Whether a value has an element for each of its product's.
    fn is_whole_tile(&self, value: ValueId) -> bool {
        let Value { last, dims, .. } = self.value(value);
        last.is_some_and(|last| self.spaces[last] == *dims)
    }

    /// The dim that a reduction goes along, more often columns.
    fn folded(&mut self, value: ValueId) -> Option<&'static str> {
        let [rows, columns] = self.value(value).matrix()?;
        Some(if self.random.one_in(4) { rows } else { columns })
    }

    /// A value with another: one of any product with its dims, a vector or a tile of the caller's.
    fn meet(&mut self, value: ValueId) -> Option<ValueId> {
        let dims = self.value(value).dims.clone();
        let others: Vec<ValueId> = (0..self.program.values.len())
            .filter(|id| *id != value && self.may_meet(value, *id))
            .collect();
        let other = if !others.is_empty() && self.random.chance(60) {
            *self.random.pick(&others)
        } else {
            let own = match self.random.below(3) {
                0 => dims.clone(),
                1 => vec![*dims.last()?],
                _ => vec![*dims.iter().rev().nth(1)?],
            };
            let dtype = *self.random.pick(&[DType::F32, DType::BF16, DType::F16]);
            self.input(dtype, own)
        };
        let product = self.value(value).about * self.value(other).about;
        let forms: &[&str] = if product < 8.0 {
            &["{} + {}", "{} - {}", "{} * {}", "maximum({}, {})", "{} * {}"]
        } else {
            &["{} + {}", "{} - {}", "maximum({}, {})"]
        };
        let form = *self.random.pick(forms);
        let met = self.assign(form, &[value, other], dims);
        if form == "{} * {}" {
            self.program.values[met].about = product.max(0.1);
        }
        Some(met)
    }

    /// Whether values may be operands of one operation whose result has the first one's dims.
    fn may_meet(&self, value: ValueId, other: ValueId) -> bool {
        let [value, other] = [value, other].map(|id| self.value(id));
        let is_number = match other.origin {
            Origin::Input(dtype) => {
                dtype.elem() == postlude::dtype::Elem::F32 && !dtype.is_packed()
            }
            Origin::Host | Origin::Statement { .. } => true,
        };
        let last = value.last.max(other.last);
        let within = last.is_none_or(|last| {
            let space = &self.spaces[last];
            value.dims.iter().all(|dim| space.contains(dim))
        });
        is_number && within && other.dims.iter().all(|dim| value.dims.contains(dim))
    }

    fn rounded(&mut self, value: ValueId) -> ValueId {
        let operand = self.program.operand;
        let dtype = if self.random.one_in(5) { DType::BF16 } else { operand };
        let dims = self.value(value).dims.clone();
        let rounded = self.apply(&format!("{dtype}(#)"), value, dims);
        self.program.values[rounded].rounded = Some(dtype);
        rounded
    }

    /// The last product's value, some others, and as many as two products at least are needed for.
    fn outputs(&mut self, ends: &[ValueId]) {
        let Some((last, others)) = ends.split_last() else { return };
        let computed = |value: &Value| matches!(value.origin, Origin::Statement { .. });
        let mut chosen = vec![*last];
        for id in 0..self.program.values.len() {
            let share = if others.contains(&id) { 35 } else { 8 };
            let reduced = self.value(id).matrix().is_none();
            let share = if reduced { 45 } else { share };
            if computed(self.value(id)) && id != *last && self.random.chance(share) {
                chosen.push(id);
            }
        }
        for value in &chosen {
            self.store(*value);
        }
        for other in others.iter().rev() {
            if self.program.live_products().len() < 2 && !chosen.contains(other) {
                self.store(*other);
            }
        }
    }

    fn store(&mut self, value: ValueId) {
        let mut dims = self.value(value).dims.clone();
        if self.value(value).matrix().is_some() && self.random.one_in(6) {
            let last = dims.len() - 1;
            dims.swap(last - 1, last);
        }
        let dtype = match self.random.below(6) {
            0 | 1 => DType::F32,
            2 | 3 => DType::BF16,
            4 => DType::F16,
            _ => self.program.operand,
        };
        let name = format!("d{}", self.program.outputs.len());
        self.program.outputs.push(Stored { name, dtype, dims, value });
    }

    fn finish(mut self, seed: u64, extent: Extent) -> Specimen {
        let most = match extent {
            Extent::Small if self.random.one_in(6) => 144,
            Extent::Small => 56,
            Extent::Large => 400,
        };
        let mut sizes = vec![self.random.range(1, 3)];
        sizes.extend(DIMS.map(|_| size(&mut self.random, most)));
        if self.random.one_in(40) {
            sizes[self.random.range(0, DIMS.len())] = 0;
        }
        let (mut fills, mut set, mut places) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let plain = self.random.one_in(3);
        let Program { values, outputs, .. } = &self.program;
        for value in values {
            let kinds: &[Fill] = if self.whole { &[Fill::Integers] } else { &FILLS };
            match value.origin {
                Origin::Input(_) => {
                    fills.insert(value.name.clone(), *self.random.pick(kinds));
                    let place = Place::any(&mut self.random, value.dims.len(), true);
                    places.insert(value.name.clone(), place);
                }
                Origin::Host => {
                    let number =
                        if self.whole { 2.0 } else { *self.random.pick(&[0.5, -1.25, 1.5]) };
                    set.insert(value.name.clone(), number);
                }
                Origin::Statement { .. } => {}
            }
        }
        for output in outputs {
            let place = Place::any(&mut self.random, output.dims.len(), false);
            places.insert(output.name.clone(), place);
        }
        places.retain(|_, place| !plain && !place.is_packed());
        let way = way(&mut self.random, seed);
        Specimen { seed, sizes, fills, set, places, way, drawn: Drawn::Program(self.program) }
    }
}
