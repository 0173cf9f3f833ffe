//! Rows that are cut into segments: batched kernels whose batches are segments of A's rows.

use postlude::Kernel;
use postlude::shape::Dim;

use super::super::sketch::{Form, Sketch};
use super::super::specimen::Drawn;
use super::Draw;
use crate::random::Random;

impl Draw {
    /// Cuts the rows of some batched kernels: what varies along L and M varies along M, and L numbers the segments.
    pub(super) fn cut_rows(&mut self, random: &mut Random) {
        let sketch = &self.sketch;
        let [left, right] = Sketch::operand_texts(sketch.factors);
        let plain = format!("{left} @ {right}");
        let products = sketch.statements.iter().filter(|statement| statement.text.contains('@'));
        let alone = products.clone().all(|statement| statement.text == plain);
        let batched = sketch.factors.iter().any(|factor| factor.batched)
            && sketch.further_batches.is_empty()
            && !sketch.shares_operand;
        if !alone || !batched || sketch.form != Form::Kernel || random.one_in(3) {
            return;
        }
        let mut cut = sketch.clone();
        cut.is_segmented = true;
        cut.factors[0].batched = false;
        cut.factors[1].batched = !random.one_in(6);
        let segmented = format!("segments({left}, ends) @ {right}");
        for statement in cut.statements.iter_mut().filter(|one| one.text == plain) {
            statement.text.clone_from(&segmented);
        }
        let inputs = cut.inputs.iter_mut().filter_map(|input| input.dims.as_mut());
        for dims in inputs.chain(cut.outputs.iter_mut().map(|output| &mut output.dims)) {
            if dims.iter().any(|dim| dim.same_base(&Dim::name("M"))) {
                // Elements may be packed along the last dim, whose size is a multiple then.
                if dims.last() == Some(&Dim::name("L")) {
                    return;
                }
                // Beside segments, math of runs of rows is a graph of its own: splits divide the last dim of its first
                // tensor.
                let is_run = |dim: &Dim| dim.divisor() > 1 && dim.same_base(&Dim::name("M"));
                if dims.len() > 1 && dims.last().is_some_and(is_run) {
                    return;
                }
                dims.retain(|dim| *dim != Dim::name("L"));
            }
        }
        // Runs of rows, means along them and reductions over batches alone do not go with segments.
        if Kernel::parse(&Drawn::Kernel(cut.clone()).text()).is_ok() {
            self.sketch = cut;
        }
    }
}
