//! Draws random kernels.
//!
//! In: a seed and how large problems may be. Out: a specimen. Half of them are shaped like the kernels that people write
//! for Hopper: the weights follow what the planner takes. The other half are free: anything that types, at small sizes,
//! every function of the catalogue on every kind of value. Magnitudes are kept where functions neither overflow nor lose
//! all accuracy, for the reference allows nearly anything of what did.

mod batches;
mod columns;
mod data;
mod defined;
mod elementwise;
mod free;
mod free_calls;
mod free_outputs;
mod functions;
mod inputs;
mod online;
mod operands;
mod outputs;
mod parts;
mod program;
mod random;
mod reductions;
mod segments;
mod tops;

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};

use super::sketch::{Factor, Form, Known, Sketch, Statement, ValueId};
use super::specimen::Specimen;
use crate::random::Random;

pub(super) use free_calls::differentiable;

/// How large problems may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// A few small tiles, for the simulator.
    Small,
    /// Several tiles each way.
    Large,
}

/// The seed of one of a run's graphs.
pub fn graph_seed(seed: u32, number: u32) -> u64 {
    u64::from(seed) * 1_000_000 + u64::from(number)
}

/// Which sort of kernels are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sort {
    /// All sorts.
    #[default]
    Any,
    /// Those of several products, whose operands may be values of others.
    Programs,
}

/// One of this many kernels of all sorts is a program.
const PROGRAMS: usize = 12;

/// The specimen of a seed.
pub fn draw(seed: u64, extent: Extent, sort: Sort) -> Specimen {
    let is_program = match sort {
        Sort::Any => Random::new(seed.rotate_left(32)).one_in(PROGRAMS),
        Sort::Programs => true,
    };
    if is_program {
        return program::draw_program(seed, extent);
    }
    let mut draw = Draw::new(seed);
    if draw.traits.free {
        draw.free_body();
    } else {
        draw.body();
    }
    draw.finish(seed, extent)
}

/// What sort of kernel is drawn.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is drawn by itself, and any of them go together.
struct Traits {
    /// Anything that types, rather than what people write for Hopper.
    free: bool,
    batched: bool,
    /// Whole numbers everywhere, and mostly operations that are exact on them.
    whole: bool,
    /// Rows meet a reduction of theirs again.
    rows_again: bool,
    /// Columns are split in two.
    halved: bool,
    /// Columns are reduced in runs.
    grouped: bool,
    /// How long runs of columns are.
    width: u32,
    /// How long runs of rows are, where they are reduced.
    height: u32,
    /// Anything meets anything.
    wild: bool,
    /// Columns are split into several parts.
    parted: bool,
}

struct Draw {
    random: Random,
    sketch: Sketch,
    traits: Traits,
    /// The accumulator.
    product: ValueId,
    /// The part whose values are drawn from: 0 for all columns of the product.
    scope: u16,
}

/// Which values may be operands.
type Fits<'a> = &'a dyn Fn(&Known) -> bool;

impl Draw {
    fn new(seed: u64) -> Draw {
        let mut random = Random::new(seed);
        let free = random.one_in(2);
        let batched = random.chance(25);
        let shared = if batched { random.below(4) } else { 0 };
        let factor = |random: &mut Random, batched| Factor {
            batched,
            lacks: 0,
            inner_first: random.one_in(2),
        };
        let factors = [
            factor(&mut random, batched && shared != 1),
            factor(&mut random, batched && shared != 2),
        ];
        let traits = Traits {
            free,
            batched,
            whole: random.chance(35),
            rows_again: random.chance(22),
            halved: random.chance(15),
            grouped: random.chance(12),
            wild: random.chance(4),
            parted: random.chance(14),
            width: 2 << random.below(7),
            height: *random.pick(&[2, 4, 8, 16, 24, 32, 64, 64, 128, 128]),
        };
        let base = if traits.halved && random.one_in(6) { 2 } else { 1 };
        let form = if base == 1 && random.one_in(6) { Form::OneLiner } else { Form::Kernel };
        let sketch = Sketch {
            form,
            operands: operands(&mut random, free),
            base,
            factors,
            further_batches: Vec::new(),
            shares_operand: false,
            is_segmented: false,
            named: None,
            inputs: Vec::new(),
            values: Vec::new(),
            statements: Vec::new(),
            outputs: Vec::new(),
            unused: Vec::new(),
        };
        Draw { random, sketch, traits, product: 0, scope: 0 }
    }

    /// How many columns a run has; seldom another number than the kernel's usual one.
    fn width(&mut self) -> u32 {
        if self.random.one_in(8) { 2 << self.random.below(7) } else { self.traits.width }
    }

    /// The axes of the whole tile.
    fn tile(&self) -> Axes {
        Axes {
            batch: self.traits.batched,
            row: Some(1),
            column: Some(self.sketch.base),
            ..Axes::SCALAR
        }
    }

    /// From the product to the outputs.
    fn body(&mut self) {
        self.multiply();
        self.declare_inputs();
        if !self.traits.whole && self.random.chance(60) {
            let product = self.product;
            self.sketch_scaled(product);
        }
        let traits = self.traits;
        let base = self.sketch.base;
        let early =
            move |known: &Known| !known.late && known.ty.axes.column.is_none_or(|by| by == base);
        let steps = self.random.range(1, 12);
        self.steps(steps, &early);
        let passes = if traits.rows_again { *self.random.pick(&[1, 1, 1, 2, 3]) } else { 0 };
        for _ in 0..passes {
            self.rows_again(base);
            let steps = self.random.range(0, 3);
            self.steps(steps, &early);
        }
        if self.random.chance(30) {
            self.second_edition(&early);
        }
        if self.random.chance(30) {
            self.online(base);
        }
        if traits.grouped {
            self.groups();
        }
        if traits.parted {
            self.parts();
        }
        if traits.halved {
            self.halves();
        }
        if self.random.chance(50) {
            // Of halves, where there are some.
            let by = if traits.halved && self.random.one_in(2) { 2 } else { base };
            self.reductions(by);
        }
        if traits.wild {
            let steps = self.random.range(1, 5);
            self.steps(steps, &|_| true);
        }
        self.draw_outputs();
    }

    /// The matrix product, the first statement of every kernel.
    fn multiply(&mut self) {
        let elem = self.sketch.operands[0].accumulator().unwrap_or(Elem::F32);
        let ty = Type { elem, axes: self.tile() };
        // Sums of K products; data are drawn later, so this is a guess.
        let about = if self.traits.whole { 60.0 } else { 8.0 };
        let product = self.product_text();
        self.product = self.assign(product, &[], ty, about);
        self.sketch.values[self.product].from_product = true;
        self.multiply_again(ty, about);
    }

    fn sketch_scaled(&mut self, value: ValueId) {
        let by = *self.random.pick(&["0.125", "0.1", "0.25", "0.03"]);
        let ty = self.sketch.values[value].ty;
        let about = self.sketch.values[value].about * 0.12;
        self.assign(format!("{{}} * {by}"), &[value], ty, about);
    }

    /// Elementwise operations on what fits.
    fn steps(&mut self, count: usize, fits: Fits<'_>) {
        for _ in 0..count {
            self.step(fits);
        }
    }

    /// A statement of one target.
    fn assign(
        &mut self,
        text: impl Into<String>,
        operands: &[ValueId],
        ty: Type,
        about: f64,
    ) -> ValueId {
        let known = self.known(operands, ty, about);
        let statement = Statement::new(vec![known], text.into(), operands.to_vec());
        self.sketch.statements.push(statement);
        known
    }

    /// A new value made of these.
    fn known(&mut self, operands: &[ValueId], ty: Type, about: f64) -> ValueId {
        let values = &mut self.sketch.values;
        let late = operands.iter().any(|operand| values[*operand].late);
        let from_product = operands.iter().any(|operand| values[*operand].from_product);
        let folds = operands.iter().map(|operand| values[*operand].folds).max().unwrap_or(0);
        let name = format!("v{}", values.len());
        let splits = operands.iter().flat_map(|operand| &values[*operand].splits).copied();
        let splits = splits.filter(|split| ty.axes.column.is_some_and(|by| *split <= by));
        let splits = splits.collect();
        let (positive, stack) = (false, None);
        values.push(Known { name, ty, about, positive, late, folds, from_product, splits, stack });
        values.len() - 1
    }

    fn ty(&self, value: ValueId) -> Type {
        self.sketch.values[value].ty
    }

    fn about(&self, value: ValueId) -> f64 {
        self.sketch.values[value].about
    }

    fn is_positive(&self, value: ValueId) -> bool {
        self.sketch.values[value].positive
    }

    fn mark_positive(&mut self, value: ValueId) -> ValueId {
        self.sketch.values[value].positive = true;
        value
    }

    /// A value of an element type that fits, more often a late one.
    fn choose(&mut self, elem: Elem, fits: Fits<'_>) -> Option<ValueId> {
        let all = self.sketch.values.iter().enumerate();
        let scope = self.scope;
        let fits = |known: &Known| known.ty.elem == elem && is_in(known, scope) && fits(known);
        let all = all.filter(|(_, known)| fits(known));
        let all: Vec<ValueId> = all.map(|(id, _)| id).collect();
        if all.is_empty() {
            return None;
        }
        let recent = all.len().min(4);
        let from = if self.random.chance(60) { all.len() - recent } else { 0 };
        Some(all[self.random.range(from, all.len() - 1)])
    }

    /// A second operand, which seldom is the first.
    fn choose_other(&mut self, than: ValueId, fits: Fits<'_>) -> Option<ValueId> {
        let elem = self.ty(than).elem;
        let other = self.choose(elem, fits)?;
        if other != than || self.random.one_in(8) {
            return Some(other);
        }
        self.choose(elem, fits)
    }

    /// The axes of values together.
    fn join(&self, values: &[ValueId]) -> Option<Axes> {
        let axes =
            values.iter().try_fold(Axes::SCALAR, |axes, value| axes.join(self.ty(*value).axes))?;
        // The parts of a split do not meet the whole.
        let meets = |value: &ValueId| self.sketch.values[*value].meets_columns(axes.column);
        values.iter().all(meets).then_some(axes)
    }
}

/// Whether a value may be drawn inside of a part: those with its columns, and those without any.
fn is_in(known: &Known, scope: u16) -> bool {
    let own = known.ty.axes.column.is_none() || known.ty.axes.part == scope;
    known.is_plain() && own
}

/// Operands of the product: half of the time of 16 bits, else any pair that types.
fn operands(random: &mut Random, free: bool) -> [DType; 2] {
    let both = |dtype| [dtype; 2];
    if random.one_in(2) {
        return both(*random.pick(&[DType::BF16, DType::F16]));
    }
    let mut pair = |dtypes: [DType; 2]| [*random.pick(&dtypes), *random.pick(&dtypes)];
    let (floats, integers) = (pair([DType::F8E4M3, DType::F8E5M2]), pair([DType::I8, DType::U8]));
    match random.below(if free { 6 } else { 4 }) {
        0 => both(DType::F32),
        1 => both(DType::TF32),
        2 | 3 => floats,
        _ => integers,
    }
}
