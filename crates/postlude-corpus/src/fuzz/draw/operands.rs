//! Math on the operands of the product, and further products of the same operands.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};
use postlude::shape::Dim;

use super::super::sketch::{Declared, Form, Known, Sketch, ValueId, least_common};
use super::Draw;
use crate::random::Random;

/// What is done to an operand whose numbers stay whole; `#` is the operand.
const WHOLE: &[&str] = &["relu(#)", "(-#)", "abs(#)", "(# * 2.0)"];
/// What is done to others; `@` is the operand's dtype.
const FLOATS: &[&str] = &[
    "relu(#)",
    "(-#)",
    "(# * 0.5)",
    "(# / 2.0)",
    "@(tanh(#))",
    "@(# + 1.0)",
    "(relu(#) * 0.25)",
    "@(# * 0.5, 7, 1)",
    "(# * rsqrt(mean(square(#), K) + 1.0))",
];
const INTEGERS: &[&str] = &["maximum(#, 0)", "minimum(#, 3)", "@(# + 1)", "@(f32(#) * 0.5)"];

impl Draw {
    /// The product, of operands that math is done to in some kernels.
    pub(super) fn product_text(&mut self) -> String {
        let [left, right] = Sketch::operand_texts(self.sketch.factors);
        let [a, b] = self.sketch.operands;
        let left = self.operand_text(left, a);
        let right = self.operand_text(right, b);
        format!("{left} @ {right}")
    }

    fn operand_text(&mut self, operand: &str, dtype: DType) -> String {
        if !self.random.one_in(8) {
            return operand.to_owned();
        }
        let forms = match dtype.elem() {
            Elem::F32 if self.traits.whole => WHOLE,
            Elem::F32 => FLOATS,
            Elem::I32 | Elem::Bool => INTEGERS,
        };
        let form = *self.random.pick(forms);
        // Only narrow floats are rounded by random bits.
        let form = if form.contains(", 7,") && !dtype.is_narrow_float() { "relu(#)" } else { form };
        form.replace('#', operand).replace('@', dtype.name())
    }

    /// Scales runs of K of 8-bit floats in some kernels: one operand or both, along rows, columns or runs of them.
    pub(super) fn scale_blocks(&mut self, random: &mut Random, sizes: &mut [usize; 4]) {
        let sketch = &self.sketch;
        let [left, right] = Sketch::operand_texts(sketch.factors);
        let plain = sketch.statements[0].text == format!("{left} @ {right}");
        let fp8 = sketch.operands.iter().all(|dtype| dtype.is_fp8()) && !sketch.shares_operand;
        let used = sketch.live()[self.product] && sketch.form == Form::Kernel;
        if !plain || !fp8 || !used || random.one_in(3) {
            return;
        }
        let sides = *random.pick(&[1, 2, 3, 3, 3]);
        let mut texts = [left, right].map(str::to_owned);
        let (mut operands, mut inner) = (Vec::new(), 128);
        for (which, text) in
            texts.iter_mut().enumerate().filter(|(which, _)| sides >> which & 1 > 0)
        {
            // Some that elements have to be scaled for.
            let depth = *random.pick(&[128, 128, 128, 256, 384, 64, 32]);
            let run = *random.pick(&[[1, 1, 2, 16, 128], [1, 1, 32, 128, 16]][which]);
            inner = least_common(inner, depth as usize);
            operands.push(self.scale(random, which, [run, depth]));
            *text = match text.strip_suffix(".T") {
                Some(name) => format!("({name} * {{}}).T"),
                None => format!("({text} * {{}})"),
            };
        }
        let statement = &mut self.sketch.statements[0];
        statement.text = texts.join(" @ ");
        statement.operands = operands;
        let multiples = self.sketch.multiples();
        for (size, multiple) in sizes.iter_mut().zip(multiples) {
            *size = size.next_multiple_of(multiple);
        }
        sizes[3] = if sizes[3] == 0 { 0 } else { inner * random.range(1, 2) };
    }

    /// A scale of an operand's runs of rows and of K.
    fn scale(&mut self, random: &mut Random, which: usize, [run, depth]: [u32; 2]) -> ValueId {
        let dim = |name: &str, divisor| Dim::Name { name: name.to_owned(), divisor };
        let outer = [dim("M", run), dim("N", run * self.sketch.base)][which].clone();
        let mut dims = vec![outer, dim("K", depth)];
        if random.one_in(4) {
            dims.swap(0, 1);
        }
        if random.one_in(2) {
            let batches = self.sketch.factor_batches(which);
            dims.splice(0..0, batches.into_iter().map(|(_, name)| Dim::name(name)));
        }
        let (name, about) = (format!("x{}", self.sketch.inputs.len()), 1.0);
        let ty = Type { elem: Elem::F32, axes: Axes::SCALAR };
        self.sketch.values.push(Known::given(name, ty, about, false));
        let value = self.sketch.values.len() - 1;
        self.sketch.inputs.push(Declared { value, dtype: DType::F32, dims: Some(dims) });
        value
    }

    /// A further product in some kernels: a value like the first one's.
    pub(super) fn multiply_again(&mut self, ty: Type, about: f64) {
        if self.random.one_in(12) {
            let text = self.product_text();
            let value = self.assign(text, &[], ty, about);
            self.sketch.values[value].from_product = true;
        }
    }
}
