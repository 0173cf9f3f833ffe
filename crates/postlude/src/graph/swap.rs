//! A product with A and B swapped: `B.T @ A.T`, whose rows are the product's columns.
//!
//! In: a graph. Out: one that stores the same elements in the same places, where no operation tells rows from columns. Tensors
//! keep their dims, so those that were row-major for the graph are column-major for the other one.

use crate::graph::{Axes, Dependence, Graph, IndexAxis, Kind, Op, Orientation, Product, Space};

impl Graph {
    /// The same kernel with A and B swapped, nodes in the same order; `None` where something reads or folds along one dim only.
    pub(crate) fn swapped(&self) -> Option<Graph> {
        let [product] = &self.products[..] else { return None };
        let space = self.space.swapped()?;
        let whole = |dims: &[_]| self.space.axes(dims).filter(|axes| axes.has_no_runs());
        let stores_tiles = self.outputs.iter().all(|output| {
            let tile = whole(&output.dims).is_some_and(|axes| axes.kind() == Kind::Tile);
            tile && output.stack.is_none()
        });
        if !stores_tiles {
            return None;
        }
        let (name, inputs) = (self.name.clone(), self.inputs.clone());
        let mut new = Graph::new(name, inputs, space, vec![product.swapped()?]);
        new.take_statements(self);
        for (id, node) in self.nodes() {
            let op = match (&node.op, node.op.dependence()) {
                (Op::Index(IndexAxis::Row), _) => Op::Index(IndexAxis::Column),
                (Op::Index(IndexAxis::Column), _) => Op::Index(IndexAxis::Row),
                (Op::Input(input), _) => {
                    let dims = self.inputs[input.0 as usize].dims.as_deref();
                    dims.is_none_or(|dims| whole(dims).is_some()).then(|| node.op.clone())?
                }
                (Op::Extent(_) | Op::Take(..) | Op::Entry(..), _) => return None,
                (op, Dependence::Source | Dependence::Elementwise(_)) => op.clone(),
                (
                    _,
                    Dependence::Reduce(..)
                    | Dependence::ReduceWeighted(..)
                    | Dependence::Pick(..)
                    | Dependence::Part(..)
                    | Dependence::Merge(..)
                    | Dependence::Concat(_)
                    | Dependence::Call,
                ) => return None,
            };
            new.continue_statement(self, id);
            // Swapping joins no two nodes, so each keeps its number.
            new.add(op).ok().filter(|own| *own == id)?;
        }
        self.outputs.iter().for_each(|output| new.push_output(output.clone()));
        Some(new)
    }
}

impl Axes {
    /// Whether it has one element for each row and each column that it varies along.
    fn has_no_runs(self) -> bool {
        self.row.is_none_or(|run| run == 1)
            && self.column.is_none_or(|by| by == 1)
            && self.part == 0
    }
}

impl Space {
    /// The same space with rows and columns swapped; `None` where columns are split or rows cut.
    fn swapped(&self) -> Option<Space> {
        let whole = self.row.divisor() == 1 && self.column.divisor() == 1;
        let plain = self.parts.is_empty() && self.splits.is_empty() && !self.is_segmented();
        let fits = whole && plain && !self.row.same_base(&self.column);
        fits.then(|| Space::new(self.batch.clone(), self.column.clone(), self.row.clone()))
    }
}

impl Product {
    /// The product of the transposed operands; `None` where a dim of it is cut or scaled.
    fn swapped(&self) -> Option<Product> {
        let whole = self.scales.is_empty() && self.segments.is_none() && self.masked.is_none();
        let turned = |(input, orientation): (_, Orientation)| (input, orientation.turned());
        let (left, right) = (turned(self.right), turned(self.left));
        whole.then(|| Product { left, right, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use crate::define::defined;

    #[test]
    fn swapping_twice_gives_the_same_graph() {
        let text =
            "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N], s: f32[M], C: bf16[M, N], a: f32)
            -> D: bf16[M, N] { D = gelu(a * (A @ W.T) + b + s + row - col * C) }";
        let graph = defined(text);
        let swapped = graph.swapped().expect("nothing tells rows from columns");
        assert_eq!(swapped.to_string().matches("product W @ A.T").count(), 1);
        assert_eq!(swapped.swapped().expect("nor does it now").to_string(), graph.to_string());
    }

    #[test]
    fn what_folds_or_splits_one_dim_is_not_swapped() {
        for text in [
            "D = softmax(A @ W.T, N)",
            "kernel k(A: bf16[M, K], W: bf16[N, K]) -> s: f32[N] { s = sum(A @ W.T, M) }",
            "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N/2] { g, u = halves(A @ W.T); D = g * u }",
            "kernel k(A: bf16[M, K], W: bf16[N, K], s: f32[M, N/32]) -> D: bf16[M, N] { D = (A @ W.T) * s }",
        ] {
            assert!(defined(text).swapped().is_none(), "{text}");
        }
    }
}
