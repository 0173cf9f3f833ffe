//! Inputs of i32 that int64 tensors bind to: their numbers are indices, ends or counts, or are compared with integers.
//!
//! In: a kernel. Out: whether an input is one, and the graph of a launch that reads such tensors. Invariant: what is read is
//! the nearest i32, on every engine, so a kernel that computes with the numbers would compute with others than were given.

use crate::dtype::DType;

use super::ops::Binary;
use super::{Earlier, Graph, InputId, Op};

impl Graph {
    /// Whether a tensor of int64 binds to an input of this name, in this graph and in the graphs that it reads.
    pub fn takes_int64(&self, input: &str) -> bool {
        let is_integer = |own: &super::Input| own.name == input && own.dtype == DType::I32;
        if !self.inputs.iter().any(|own| is_integer(own) && own.dims.is_some()) {
            return false;
        }
        let mut names = vec![input];
        for Earlier { graph, inputs } in self.earlier() {
            let Some(stored) = graph.stored_numbers(&names) else { return false };
            for output in stored {
                // What a later launch numbers with is stored between them; a result is what the caller reads.
                match inputs[output].map(|input| &self.inputs[input.0 as usize]) {
                    Some(input) if input.result.is_none() => names.push(&input.name),
                    Some(_) | None => return false,
                }
            }
        }
        self.stored_numbers(&names).is_some_and(|stored| stored.is_empty())
    }

    /// The outputs that are the numbers of these inputs themselves; `None` where something is computed with them.
    fn stored_numbers(&self, names: &[&str]) -> Option<Vec<usize>> {
        let is_named = |input: InputId| names.contains(&&*self.inputs[input.0 as usize].name);
        let live = self.live();
        let mut numbers = vec![false; self.len()];
        for (id, node) in self.nodes().filter(|(id, _)| live[id.index()]) {
            let is_number = |operand: super::NodeId| numbers[operand.index()];
            numbers[id.index()] = match &node.op {
                Op::Input(input) | Op::Take(input, _) | Op::Entry(input, ..) => is_named(*input),
                Op::Pick(of, _) => is_number(*of),
                Op::Binary(
                    Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual,
                    ..,
                ) => false,
                // The nearest i32 of the larger is the larger of the nearest.
                Op::Binary(Binary::Maximum | Binary::Minimum, ..)
                | Op::Select(..)
                | Op::Cast(DType::I32, _)
                | Op::Part(..)
                | Op::Merge(..)
                | Op::Concat(..) => node.op.operands().any(is_number),
                op if op.operands().any(is_number) => return None,
                _ => false,
            };
        }
        let outputs = self.outputs.iter().enumerate();
        let stored = outputs.filter(|(_, it)| it.values().any(|value| numbers[value.index()]));
        Some(stored.map(|(place, _)| place).collect())
    }

    /// The same graph, some of whose inputs of i32 are tensors of int64.
    pub(crate) fn with_int64(mut self, is_int64: impl Fn(usize) -> bool) -> Graph {
        for (place, input) in self.inputs.iter_mut().enumerate() {
            if input.dtype == DType::I32 && is_int64(place) {
                input.dtype = DType::I64;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::define::defined;

    fn takes(input: &str, body: &str) -> bool {
        let text = format!(
            "kernel k(A: bf16[M, K], W: bf16[N, K], t: i32[M], T: f32[V, N], v: f32[V]) -> {body}"
        );
        defined(&text).takes_int64(input)
    }

    #[test]
    fn what_numbers_or_is_compared_takes_int64() {
        for body in [
            "p: f32[M] { p = pick(A @ W.T, t) }",
            "D: f32[M, N] { D = gather(T, t) + A @ W.T }",
            "D: f32[M, N] { D = take(v, t) * (A @ W.T) }",
            "D: f32[M, N] { D = where(t == -100, 0.0, A @ W.T) }",
            "D: f32[M, N] { D = where(col < t, A @ W.T, 0.0) }",
            "p: f32[M] { p = pick(A @ W.T, where(t < 0, 0, minimum(t, 7))) }",
            "D: f32[M, N] { D = A @ W.T }",
        ] {
            assert!(takes("t", body), "{body}");
        }
    }

    #[test]
    fn what_is_computed_with_or_stored_takes_no_int64() {
        for body in [
            "D: f32[M, N] { D = t * (A @ W.T) }",
            "D: f32[M, N] { D = where(t + 1 == col, 0.0, A @ W.T) }",
            "D: f32[M, N] { D = where(t < 0.5, 0.0, A @ W.T) }",
            "(D: f32[M, N], u: i32[M]) { D = A @ W.T; u = t }",
            "(D: f32[M, N], s: f32[]) { D = A @ W.T; s = sum(t) }",
        ] {
            assert!(!takes("t", body), "{body}");
        }
        assert!(!takes("v", "D: f32[M, N] { D = take(v, t) * (A @ W.T) }"));
    }
}
