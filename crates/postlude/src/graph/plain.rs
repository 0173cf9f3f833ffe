//! The product of a graph, without what is computed of it.

use super::{Graph, Input, InputId, Op, Output, Product, ProductId};

impl Graph {
    /// The product alone, stored as the one output is: its schedules serve light epilogues, too. `None` where the graph has
    /// several products or outputs, an output of another shape, or operands that are not whole tensors of a call.
    pub(crate) fn plain(&self) -> Option<Graph> {
        let ([product], [output]) = (self.products(), self.outputs()) else { return None };
        let cut = self.ends().or(self.contraction_ends()).or(self.row_counts()).is_some();
        let (left, right) = (product.left.0, product.right.0);
        let inputs = [left, right].map(|id| self.inputs()[id.0 as usize].clone());
        let passed = |input: &Input| input.computed.is_none() && input.same_as.is_none();
        let tile = self.space().dims(self.space().accumulator_axes());
        let is_tile = output.dims == tile && output.stack.is_none();
        if cut || self.has_scales() || left == right || !inputs.iter().all(passed) || !is_tile {
            return None;
        }
        let (left, right) = ((InputId(0), product.left.1), (InputId(1), product.right.1));
        let product = Product { left, right, ..product.clone() };
        let space = self.space().clone();
        let mut plain = Graph::new(self.name(), inputs.to_vec(), space, vec![product]);
        let value = plain.make(Op::Accumulator(ProductId::FIRST));
        plain.push_output(Output { value, ..output.clone() });
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use crate::define::defined;

    #[test]
    fn an_epilogue_leaves_the_product_and_its_output() {
        let plain = defined("D = A @ W.T").canonical().text;
        let sources = [
            "D = silu(A @ W.T + bias[N])",
            "kernel k(x: bf16[T, D], c: f32[T, F], w: bf16[F, D]) -> y: bf16[T, F] { y = x @ w.T + c }",
        ];
        for source in sources {
            let of = defined(source).plain().expect("it has one");
            assert_eq!(of.canonical().text, plain, "{source}");
        }
    }

    #[test]
    fn other_products_and_outputs_have_none() {
        let sources = [
            "kernel k(A: bf16[M, K], B: bf16[N, K] = A) -> D: bf16[M, N] { D = A @ B.T }",
            "D = sum(A @ W.T, N)",
            "kernel k(A: bf16[M, K], W: bf16[N, K]) -> (D: bf16[M, N], s: f32[M]) { D = A @ W.T; s = sum(D, N) }",
            "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E]) -> D: bf16[T, N] { D = segments(A, ends) @ W.T }",
        ];
        for source in sources {
            assert!(defined(source).plain().is_none(), "{source}");
        }
    }
}
