//! A graph without its names: the text that measurements of a launch are kept under.
//!
//! In: a graph. Out: its text with tensors and dims numbered in the order in which they appear. Kernels that differ in names
//! alone have one text.

use std::sync::Arc;

use crate::shape::Dim;

use super::{Graph, Input, Op, Output};

/// A graph's text without its names.
pub(crate) struct Canonical {
    /// The text.
    pub(crate) text: String,
    /// The names of the dims, in the order of their numbers.
    pub(crate) dims: Vec<String>,
}

impl Graph {
    /// The graph's text with tensors and dims numbered.
    pub(crate) fn canonical(&self) -> Canonical {
        let mut numbers = Numbers::default();
        let graph = numbers.graph(self).named("kernel");
        Canonical { text: graph.to_string(), dims: numbers.dims }
    }
}

/// Names that were met, in order.
#[derive(Default)]
struct Numbers {
    tensors: Vec<String>,
    dims: Vec<String>,
}

impl Numbers {
    fn graph(&mut self, graph: &Graph) -> Graph {
        let mut numbered = graph.clone();
        for input in &mut numbered.inputs {
            self.input(input);
        }
        let space = &mut numbered.space;
        let own = [&mut space.row, &mut space.column];
        for dim in space.batch.iter_mut().chain(own).chain(&mut space.parts) {
            self.dim(dim);
        }
        if let Some(ends) = &mut space.segments {
            self.tensor(ends);
        }
        for product in &mut numbered.products {
            self.dim(&mut product.inner);
            if let Some(ends) = &mut product.segments {
                self.tensor(ends);
            }
        }
        for node in &mut numbered.nodes {
            if let Op::Size(dim) = &mut node.op {
                self.dim(dim);
            }
        }
        for Output { name, dims, .. } in &mut numbered.outputs {
            self.tensor(name);
            for dim in dims {
                self.dim(dim);
            }
        }
        numbered
    }

    fn input(&mut self, input: &mut Input) {
        // What computes it comes first in the text.
        if let Some(graph) = &input.computed {
            let mut name = graph.name().to_owned();
            self.tensor(&mut name);
            input.computed = Some(Arc::new(self.graph(graph).named(&name)));
        }
        self.tensor(&mut input.name);
        for dim in input.dims.iter_mut().flatten() {
            self.dim(dim);
        }
    }

    fn tensor(&mut self, name: &mut String) {
        *name = format!("t{}", place(&mut self.tensors, name));
    }

    fn dim(&mut self, dim: &mut Dim) {
        let Dim::Name { name, .. } = dim else { return };
        *name = match Dim::factors(name) {
            Some((count, mut of)) => {
                self.dim(&mut of);
                format!("{count}*({of})")
            }
            None => format!("d{}", place(&mut self.dims, name)),
        };
    }
}

/// The number of a name, the next one where it is new.
fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use crate::define::defined;

    #[test]
    fn names_change_nothing_and_everything_else_does() {
        let first = defined("D = relu(A @ W.T + bias[N])").canonical();
        let other = "kernel f(x: bf16[T, D], w: bf16[F, D], b: f32[F]) -> y: bf16[T, F] { y = relu(x @ w.T + b) }";
        let other = defined(other).canonical();
        assert_eq!(first.text, other.text);
        assert_eq!((first.dims.join(" "), other.dims.join(" ")), ("M K N".into(), "T D F".into()));
        for source in ["D = A @ W.T + bias[N]", "D = relu(A @ W.T + bias[M])", "D = relu(A @ W)"] {
            assert_ne!(defined(source).canonical().text, first.text, "{source}");
        }
    }
}
