//! What threads compute of an operand's elements: the operand's graph, on elements that share all values but themselves.

use std::cell::RefCell;

use postlude_ptx::kernel::{Half, Reg};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32};

use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Constant, InputId, NodeId, Op};
use crate::target::sm90::emit::values::{Evaluator, Value};
use crate::target::sm90::plan::Widened;

use super::decode::{Narrow, Picks};

/// Gives narrow elements as floats, less a small integer.
pub(crate) type Decode<'d, 'k> = dyn Fn(Narrow, Option<Reg<'k, F32>>) -> Vec<Reg<'k, F32>> + 'd;

/// What a thread computes of elements that share their other values.
pub(crate) struct Elements<'a, 'k> {
    widened: Widened<'a>,
    evaluator: Evaluator<'a, 'k, Sm90a>,
    /// Values that they share, by input of the operand's graph.
    shared: &'a [Option<Value<'k>>],
    /// Nodes that they share, as far as they have been computed.
    known: RefCell<Vec<Option<Reg<'k, F32>>>>,
}

/// Integers as they are, or less their zero point.
struct Integers {
    zero: Option<NodeId>,
}

impl<'a, 'k> Elements<'a, 'k> {
    pub(crate) fn new(
        widened: Widened<'a>,
        evaluator: Evaluator<'a, 'k, Sm90a>,
        shared: &'a [Option<Value<'k>>],
    ) -> Self {
        let known = RefCell::new(vec![None; widened.graph.len()]);
        Elements { widened, evaluator, shared, known }
    }

    /// What is packed: packing rounds.
    fn unrounded(&self) -> NodeId {
        let graph = self.widened.graph;
        let output = &graph.outputs()[0];
        if let Op::Cast(to, of) = graph[output.value].op
            && to == output.dtype
            && graph.ty(of).elem == Elem::F32
        {
            return of;
        }
        output.value
    }

    /// Those that `decode` gives, rounded to the operand's type: pairs of them.
    pub(crate) fn packed(&self, decode: &Decode<'_, 'k>) -> Vec<Reg<'k, B32>> {
        let graph = self.widened.graph;
        let output = &graph.outputs()[0];
        let half = if output.dtype == DType::F16 { Half::F16 } else { Half::BF16 };
        let all = self.tile(self.unrounded(), decode, &mut vec![None; graph.len()]);
        all.chunks_exact(2)
            .map(|pair| self.evaluator.k.pack_halves(half, pair[0], pair[1]))
            .collect()
    }

    /// The four elements of a lane in 16 of a row, rounded to the operand's type: pairs of them.
    pub(crate) fn fragment(
        &self,
        picks: &Picks<'k>,
        words: [Reg<'k, B32>; 2],
    ) -> Vec<Reg<'k, B32>> {
        match self.scaled_nibbles() {
            Some((offset, half, [less, scale])) => {
                let value = |node: Option<NodeId>| node.map(|node| self.value(node));
                let [less, scale] = [less, scale].map(value);
                picks.scaled_nibbles((offset, half), words, less, scale).to_vec()
            }
            None => self.packed(&|narrow, less| picks.decode(narrow, words, less)),
        }
    }

    /// The same as 64ths, where they are [`Elements::are_sixty_fourths`].
    pub(crate) fn fragment_of_64ths(
        &self,
        picks: &Picks<'k>,
        words: [Reg<'k, B32>; 2],
    ) -> Vec<Reg<'k, B32>> {
        let Some(Integers { zero }) = self.integers() else {
            panic!("compiler bug: no integers are widened")
        };
        picks.sixty_fourths(self.narrow(), words, zero.map(|zero| self.value(zero))).to_vec()
    }

    /// Whether they are integers in bf16, with a zero point of 8 bits at most or none.
    pub(crate) fn are_sixty_fourths(&self) -> bool {
        self.widened.graph.outputs()[0].dtype == DType::BF16 && self.integers().is_some()
    }

    /// Integers that nothing but a zero point is taken from.
    fn integers(&self) -> Option<Integers> {
        let graph = self.widened.graph;
        if !self.narrow().is_integer() {
            return None;
        }
        let value = self.unrounded();
        if self.is_elements(value) {
            return Some(Integers { zero: None });
        }
        let Op::Binary(Binary::Subtract, a, b) = graph[value].op else { return None };
        // What signed ones are moved up by is subtracted with it, and bf16 holds 8 bits of both.
        let exact = |zero| self.narrow().offset() == 0 || zero != DType::U8;
        let suits = self.is_elements(a) && self.small(b).is_some_and(exact);
        suits.then_some(Integers { zero: Some(b) })
    }

    /// Integers of 4 bits with a zero point of as many or none, and a scale of the operand's type or none: 16-bit arithmetic
    /// rounds their product as often as f32 does, once. What signed ones are moved up by, the type, zero point and scale.
    fn scaled_nibbles(&self) -> Option<(u32, Half, [Option<NodeId>; 2])> {
        let Narrow::Nibbles { offset } = self.narrow() else { return None };
        let graph = self.widened.graph;
        let output = &graph.outputs()[0];
        let half = if output.dtype == DType::F16 { Half::F16 } else { Half::BF16 };
        let dtype = |node: NodeId| {
            let Op::Input(input) = graph[node].op else { return None };
            Some(graph.inputs()[input.0 as usize].dtype)
        };
        let mut value = self.unrounded();
        let mut scale = None;
        if let Op::Binary(Binary::Multiply, a, b) = graph[value].op {
            let is_scale =
                |node: NodeId| node != self.source() && dtype(node) == Some(output.dtype);
            (value, scale) = match (is_scale(a), is_scale(b)) {
                (false, true) => (a, Some(b)),
                (true, false) => (b, Some(a)),
                (true, true) | (false, false) => return None,
            };
        }
        let mut less = None;
        if let Op::Binary(Binary::Subtract, a, b) = graph[value].op {
            let Op::Cast(_, of) = graph[b].op else { return None };
            if !matches!(dtype(of), Some(DType::I4 | DType::U4)) {
                return None;
            }
            (value, less) = (a, Some(b));
        }
        self.is_elements(value).then_some((offset, half, [less, scale]))
    }

    fn source(&self) -> NodeId {
        let Widened { graph, source } = self.widened;
        let found = graph.input_node(source);
        found.unwrap_or_else(|| panic!("compiler bug: an operand of no elements"))
    }

    /// Whether a node is the narrow elements, as they are.
    fn is_elements(&self, node: NodeId) -> bool {
        let graph = self.widened.graph;
        let source = self.source();
        let exact = |of: NodeId| of == source && graph.ty(of).elem == Elem::I32;
        node == source || matches!(graph[node].op, Op::Cast(_, of) if exact(of))
    }

    /// A small integer that all elements share, which decoding subtracts for free.
    fn zero_point(&self, node: NodeId) -> Option<Reg<'k, F32>> {
        self.small(node).filter(|_| self.narrow().is_integer()).map(|_| self.value(node))
    }

    /// The type of a node that is an input of small integers, as floats.
    fn small(&self, node: NodeId) -> Option<DType> {
        let graph = self.widened.graph;
        let Op::Cast(_, of) = graph[node].op else { return None };
        let Op::Input(input) = graph[of].op else { return None };
        let dtype = graph.inputs()[input.0 as usize].dtype;
        matches!(dtype, DType::I4 | DType::U4 | DType::I8 | DType::U8).then_some(dtype)
    }

    fn narrow(&self) -> Narrow {
        let Widened { graph, source } = self.widened;
        Narrow::of(graph.inputs()[source.0 as usize].dtype)
    }

    /// A node of the elements.
    fn tile(
        &self,
        node: NodeId,
        decode: &Decode<'_, 'k>,
        memo: &mut Vec<Option<Vec<Reg<'k, F32>>>>,
    ) -> Vec<Reg<'k, F32>> {
        if let Some(known) = &memo[node.index()] {
            return known.clone();
        }
        let graph = self.widened.graph;
        let varies = graph.ty(node).axes.column == Some(graph.space().column.divisor());
        let all = if !varies {
            // Beside elements, one value serves all of them.
            vec![self.value(node)]
        } else if self.is_elements(node) {
            decode(self.narrow(), None)
        } else {
            let evaluator = &self.evaluator;
            let mut of = |node: NodeId| self.tile(node, decode, memo);
            match graph[node].op {
                Op::Binary(Binary::Subtract, a, b)
                    if self.is_elements(a) && self.zero_point(b).is_some() =>
                {
                    decode(self.narrow(), self.zero_point(b))
                }
                Op::Unary(op, a) => {
                    of(a).into_iter().map(|a| evaluator.unary_exact(op, a)).collect()
                }
                Op::Binary(op, a, b) => {
                    let [a, b] = alike([of(a), of(b)]);
                    let both = a.into_iter().zip(b);
                    both.map(|(a, b)| evaluator.binary_exact(op, a, b)).collect()
                }
                Op::Fma(a, b, c) => {
                    let [a, b, c] = alike([of(a), of(b), of(c)]);
                    let all = a.into_iter().zip(b).zip(c);
                    all.map(|((a, b), c)| a.fma(b, c)).collect()
                }
                Op::Cast(to, a) => of(a).into_iter().map(|a| evaluator.rounded(to, a)).collect(),
                ref op => panic!("compiler bug: load warps do not compute {op:?}"),
            }
        };
        memo[node.index()] = Some(all.clone());
        all
    }

    /// A node that all elements share.
    fn value(&self, node: NodeId) -> Reg<'k, F32> {
        let known = self.known.borrow()[node.index()];
        known.unwrap_or_else(|| {
            let value = self.computed(node);
            self.known.borrow_mut()[node.index()] = Some(value);
            value
        })
    }

    fn computed(&self, node: NodeId) -> Reg<'k, F32> {
        let graph = self.widened.graph;
        let evaluator = &self.evaluator;
        let shared = |input: InputId| {
            self.shared[input.0 as usize]
                .unwrap_or_else(|| panic!("compiler bug: input {} is not shared", input.0))
        };
        match graph[node].op {
            Op::Input(input) => shared(input).float(),
            Op::Constant(Constant::F32(bits)) => self.evaluator.k.imm(f32::from_bits(bits)),
            Op::Unary(op, a) => evaluator.unary_exact(op, self.value(a)),
            Op::Binary(op, a, b) => evaluator.binary_exact(op, self.value(a), self.value(b)),
            Op::Fma(a, b, c) => self.value(a).fma(self.value(b), self.value(c)),
            Op::Cast(to, a) => {
                if let Op::Input(input) = graph[a].op {
                    evaluator.cast(to, shared(input)).float()
                } else {
                    evaluator.rounded(to, self.value(a))
                }
            }
            ref op => panic!("compiler bug: load warps do not compute {op:?}"),
        }
    }
}

/// As many of each as there are of any: one value serves all elements.
fn alike<const N: usize>(all: [Vec<Reg<'_, F32>>; N]) -> [Vec<Reg<'_, F32>>; N] {
    let count = all.iter().map(Vec::len).max().unwrap_or(0);
    all.map(|each| if each.len() == 1 { vec![each[0]; count] } else { each })
}
