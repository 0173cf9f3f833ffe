//! Math on the operands of the product, and further products of the same operands.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::Type;

use super::super::sketch::Sketch;
use super::Draw;

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

    /// A further product in some kernels: a value like the first one's.
    pub(super) fn multiply_again(&mut self, ty: Type, about: f64) {
        if self.random.one_in(12) {
            let text = self.product_text();
            let value = self.assign(text, &[], ty, about);
            self.sketch.values[value].from_product = true;
        }
    }
}
