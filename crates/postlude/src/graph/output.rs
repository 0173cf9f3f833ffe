//! A declared output and what it stores: one value, or several along a dim of its own.

use crate::dtype::DType;
use crate::shape::Dim;

use super::NodeId;

/// A declared output and the value it stores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// Its element type in memory.
    pub dtype: DType,
    /// Its dims as declared.
    pub dims: Vec<Dim>,
    /// What is stored, before the store's rounding; of several values the first.
    pub value: NodeId,
    /// Where several values are stored along a dim of a fixed size, as `topk` gives them.
    pub stack: Option<Stack>,
}

/// A dim of an output along which each element is a value of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stack {
    /// Its place among the output's dims.
    pub dim: usize,
    /// The values behind the first one, in order.
    pub rest: Vec<NodeId>,
}

impl Stack {
    /// The dim of an output along which this many values are stacked: the last one of that size.
    pub(crate) fn dim_of(dims: &[Dim], count: usize) -> Option<usize> {
        dims.iter().rposition(|dim| matches!(dim, Dim::Size(size) if *size as usize == count))
    }
}

impl Output {
    /// Every value that is stored, in the order of the dim that they are stacked along.
    pub fn values(&self) -> impl Iterator<Item = NodeId> + '_ {
        let rest = self.stack.iter().flat_map(|stack| stack.rest.iter().copied());
        std::iter::once(self.value).chain(rest)
    }

    /// The same output of other values.
    pub fn map(&self, mut f: impl FnMut(NodeId) -> NodeId) -> Output {
        let value = f(self.value);
        let stack = self.stack.as_ref().map(|stack| Stack {
            dim: stack.dim,
            rest: stack.rest.iter().map(|node| f(*node)).collect(),
        });
        Output { value, stack, ..self.clone() }
    }

    /// What each of its values has of its dims, or of something else that there is one of for each dim.
    pub(crate) fn without_stack<T: Clone>(&self, of_dims: &[T]) -> Vec<T> {
        let stacked = self.stack.as_ref().map(|stack| stack.dim);
        let own = of_dims.iter().enumerate().filter(|(place, _)| Some(*place) != stacked);
        own.map(|(_, of_dim)| of_dim.clone()).collect()
    }

    /// One output for each value: its place in the stack, and the output without that dim.
    pub(crate) fn unstacked(&self) -> impl Iterator<Item = (Option<usize>, Output)> + '_ {
        self.values().enumerate().map(|(place, value)| {
            let (dims, stack) = (self.without_stack(&self.dims), None);
            (self.stack.as_ref().map(|_| place), Output { dims, value, stack, ..self.clone() })
        })
    }
}
