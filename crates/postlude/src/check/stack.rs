//! Values that are stacked along a dim of a fixed size: what `topk` gives, inputs `[M, 8]`, and what is computed from them.
//!
//! A stack is a list of values of the body, one for each element of its dim, and what is computed from it is computed from
//! each of them. In: an expression with a stack among its operands. Out: a stack, or one value where its dim is reduced.
//! Invariant: all values of a stack have one type; those with columns are folded along the stack, or along columns, before
//! they are stored.

use crate::catalogue;
use crate::dtype::Elem;
use crate::graph::{
    Binary, Constant, Fold, Gives, IndexAxis, InputId, NodeId, Op, Over, Run, Stack, Top, Unary,
};
use crate::shape::{self, Dim};
use crate::syntax::{Declaration, ExprId, ExprKind, Number, Span};

use super::dims::{self, is_dim_argument};
use super::error::CheckError;
use super::separate::is_separate;
use super::{Body, Lowered};

/// The most values that `topk` keeps.
pub(super) const MOST_TOP: i64 = 64;

impl Body<'_> {
    /// Adds a stack.
    fn stack(&mut self, nodes: Vec<NodeId>) -> Lowered {
        self.stacks.push(nodes);
        Lowered::Stack(self.stacks.len() - 1)
    }

    /// The operands of an expression that are values.
    fn value_operands(&self, id: ExprId) -> Vec<ExprId> {
        match &self.exprs[id].kind {
            kind if is_separate(kind) => Vec::new(),
            ExprKind::Number(_)
            | ExprKind::Name(_)
            | ExprKind::Annotated(..)
            | ExprKind::Dims(_)
            | ExprKind::Product(..) => Vec::new(),
            ExprKind::Transpose(a) | ExprKind::Prefix(_, a) => vec![*a],
            ExprKind::Infix(_, a, b) => vec![*a, *b],
            ExprKind::Call { function, arguments, .. } => {
                let values = arguments.iter().enumerate();
                let values = values.filter(|(place, _)| !is_dim_argument(&function.text, *place));
                values.map(|(_, id)| *id).collect()
            }
        }
    }

    /// An expression of stacks; `None` where it has none.
    pub(super) fn lower_stacked(
        &mut self,
        id: ExprId,
        lower: &mut dyn FnMut(&mut Self) -> Lowered,
    ) -> Option<Lowered> {
        let at = self.exprs[id].span;
        let mut stacked: Vec<(ExprId, usize)> = Vec::new();
        for operand in self.value_operands(id) {
            if let Some(Lowered::Stack(stack)) = self.lowered.get(&operand) {
                stacked.push((operand, *stack));
            }
        }
        let &(first, stack) = stacked.first()?;
        let count = self.stacks[stack].len();
        if let Some((_, other)) = stacked.iter().find(|(_, one)| self.stacks[*one].len() != count) {
            let [left, right] = [stack, *other].map(|one| self.stack_text(one));
            return Some(self.report(CheckError::DimsDisagree { left, right, at }));
        }
        if let ExprKind::Call { function, arguments, grad: false } = &self.exprs[id].kind
            && let [value, dims @ ..] = arguments.as_slice()
            && *value == first
            && dims.iter().enumerate().any(|(place, _)| is_dim_argument(&function.text, place + 1))
        {
            let along = dims.iter().map(|dim| dims::read(self.exprs, *dim)).collect::<Vec<_>>();
            if along == [Some(Dim::Size(count as u32))] {
                return Some(self.reduce_stack(&function.text, stack, at));
            }
        }
        Some(self.lower_each(&stacked, count, lower))
    }

    /// The expression of each of the values.
    fn lower_each(
        &mut self,
        stacked: &[(ExprId, usize)],
        count: usize,
        lower: &mut dyn FnMut(&mut Self) -> Lowered,
    ) -> Lowered {
        let mut nodes = Vec::with_capacity(count);
        for place in 0..count {
            for (operand, stack) in stacked {
                let node = self.stacks[*stack][place];
                self.lowered.insert(*operand, Lowered::Node(node));
            }
            match lower(self) {
                Lowered::Node(node) => nodes.push(node),
                Lowered::Integer(_) | Lowered::Size(_) | Lowered::Stack(_) | Lowered::Poison => {
                    break;
                }
            }
        }
        for (operand, stack) in stacked {
            self.lowered.insert(*operand, Lowered::Stack(*stack));
        }
        if nodes.len() < count {
            return Lowered::Poison;
        }
        self.stack(nodes)
    }

    /// A declared input with a dim of a fixed size that is not the body's, `[M, 8]`: a list of as many values. `None` where
    /// it is none.
    pub(super) fn declared_list(&mut self, place: usize) -> Option<Lowered> {
        let input = &self.inputs[place];
        let dims = input.dims.as_deref()?;
        let space = self.graph.space();
        let is_own = |dim: &Dim| space.axes(std::slice::from_ref(dim)).is_some();
        let (count, has_row) = match dims {
            [Dim::Size(count)] => (*count, false),
            [row, Dim::Size(count)] | [Dim::Size(count), row] if *row == space.row => {
                (*count, true)
            }
            _ => return None,
        };
        let fits = (1..=MOST_TOP).contains(&i64::from(count)) && !is_own(&Dim::Size(count));
        if !fits || input.dtype.elem() == Elem::Bool {
            return None;
        }
        let (table, behind) = (InputId(place as u32), matches!(dims.last(), Some(Dim::Size(_))));
        let nodes = (0..count as i32).map(|place| {
            let place = self.graph.make(Op::Constant(Constant::I32(place)));
            if !has_row {
                return self.graph.make(Op::Take(table, place));
            }
            let row = self.graph.make(Op::Index(IndexAxis::Row));
            let (first, second) = if behind { (row, place) } else { (place, row) };
            self.graph.make(Op::Entry(table, first, second))
        });
        let nodes = nodes.collect();
        Some(self.stack(nodes))
    }

    /// A stack along its own dim: its values put together in order.
    fn reduce_stack(&mut self, function: &str, stack: usize, at: Span) -> Lowered {
        let nodes = self.stacks[stack].clone();
        let elem = self.graph.ty(nodes[0]).elem;
        if elem == Elem::Bool {
            return self.report(CheckError::BoolArithmetic { at });
        }
        let value = match function {
            "sum" => self.chain(Binary::Add, &nodes),
            "prod" => self.chain(Binary::Multiply, &nodes),
            "max" => self.chain(Binary::Maximum, &nodes),
            "min" => self.chain(Binary::Minimum, &nodes),
            "absmax" => {
                let magnitude = |node: &NodeId| self.graph.make(Op::Unary(Unary::Abs, *node));
                let magnitudes: Vec<NodeId> = nodes.iter().map(magnitude).collect();
                self.chain(Binary::Maximum, &magnitudes)
            }
            "mean" | "softmax" => {
                let float =
                    |body: &mut Self, node| body.convert(Lowered::Node(node), Elem::F32, at);
                let nodes: Option<Vec<NodeId>> =
                    nodes.into_iter().map(|node| float(self, node)).collect();
                let Some(nodes) = nodes else { return Lowered::Poison };
                if function == "softmax" {
                    return self.softmax_of(&nodes);
                }
                let total = self.chain(Binary::Add, &nodes);
                let count = self.graph.make(Op::number(nodes.len() as f32));
                self.graph.make(Op::Binary(Binary::Divide, total, count))
            }
            _ => {
                let (function, stack) = (function.to_owned(), self.stack_text(stack));
                return self.report(CheckError::StackFunction { function, stack, at });
            }
        };
        Lowered::Node(value)
    }

    fn chain(&mut self, op: Binary, nodes: &[NodeId]) -> NodeId {
        let both = |all: NodeId, node: &NodeId| self.graph.make(Op::Binary(op, all, *node));
        nodes[1..].iter().fold(nodes[0], both)
    }

    fn softmax_of(&mut self, nodes: &[NodeId]) -> Lowered {
        let peak = self.chain(Binary::Maximum, nodes);
        let exponential = |node: &NodeId| {
            let below = self.graph.make(Op::Binary(Binary::Subtract, *node, peak));
            self.graph.make(Op::Unary(Unary::Exp, below))
        };
        let terms: Vec<NodeId> = nodes.iter().map(exponential).collect();
        let total = self.chain(Binary::Add, &terms);
        let share = |term: &NodeId| self.graph.make(Op::Binary(Binary::Divide, *term, total));
        let shares = terms.iter().map(share).collect();
        self.stack(shares)
    }

    /// `values, indices = topk(x, k, N)`.
    pub(super) fn lower_top(&mut self, arguments: &[ExprId], at: Span) -> [Lowered; 2] {
        let poison = [Lowered::Poison; 2];
        let [value, count, dim] = arguments else {
            self.wrong_count("topk", "3", arguments, at);
            return poison;
        };
        if catalogue::find("topk").is_some_and(|entry| self.refuse_numbered_dim(entry, arguments)) {
            return poison;
        }
        let value_at = self.exprs[*value].span;
        let Some(node) = self.convert(self.lowered[value], Elem::F32, value_at) else {
            return poison;
        };
        let count = match self.exprs[*count].kind {
            ExprKind::Number(Number::Integer(count)) if (1..=MOST_TOP).contains(&count) => count,
            _ => {
                let at = self.exprs[*count].span;
                self.report(CheckError::Count { function: "topk".to_owned(), most: MOST_TOP, at });
                return poison;
            }
        };
        let Some(over) = self.over(node, &[*dim], at) else { return poison };
        if over != (Over { column: Some(Run::All), ..Over::NOTHING }) {
            let (column, at) = (self.graph.space().column.to_string(), self.exprs[*dim].span);
            self.report(CheckError::TopAlong { column, at });
            return poison;
        }
        [Gives::Value, Gives::Index].map(|gives| {
            let top = |place: u32| Fold::Top(Top { place, of: count as u32, gives });
            let places =
                (0..count as u32).map(|place| self.node(Op::Reduce(top(place), over, node), at));
            let nodes: Vec<NodeId> = places
                .filter_map(|lowered| match lowered {
                    Lowered::Node(node) => Some(node),
                    Lowered::Integer(_)
                    | Lowered::Size(_)
                    | Lowered::Stack(_)
                    | Lowered::Poison => None,
                })
                .collect();
            if nodes.len() < count as usize { Lowered::Poison } else { self.stack(nodes) }
        })
    }

    /// The values that a name stands for, and whether they are stacked.
    pub(super) fn stored_values(
        &mut self,
        lowered: Lowered,
        at: Span,
    ) -> Option<(Vec<NodeId>, bool)> {
        match lowered {
            Lowered::Stack(stack) => {
                let first = self.stacks[stack][0];
                if self.graph.ty(first).axes.column.is_some() {
                    let dims = self.stack_text(stack);
                    let declared = self.declared_as_list(self.stacks[stack].len());
                    self.report(CheckError::StackOfTiles { dims, declared, at });
                    return None;
                }
                Some((self.stacks[stack].clone(), true))
            }
            Lowered::Node(_) | Lowered::Integer(_) | Lowered::Size(_) | Lowered::Poison => {
                self.settle(lowered, at).map(|node| (vec![node], false))
            }
        }
    }

    /// An input that is a list of `count` elements: its name, its list's dim, and its type with columns in their place.
    fn declared_as_list(&self, count: usize) -> Option<[String; 3]> {
        let list = Dim::Size(count as u32);
        let is_list =
            |input: &&Declaration| input.dims.as_ref().is_some_and(|dims| dims.contains(&list));
        let input = self.inputs.iter().find(is_list)?;
        let column = &self.graph.space().column;
        let dims: Vec<Dim> = input.dims.iter().flatten().cloned().collect();
        let whole = dims.into_iter().map(|dim| if dim == list { column.clone() } else { dim });
        let whole = format!("{}[{}]", input.dtype, shape::list(&whole.collect::<Vec<_>>()));
        Some([input.name.text.clone(), list.to_string(), whole])
    }

    /// The dims of a value, or of several that are stacked.
    pub(super) fn stored_dims(&self, values: &[NodeId], is_stacked: bool) -> Vec<Dim> {
        let mut dims = self.graph.space().dims(self.graph.ty(values[0]).axes);
        if is_stacked {
            dims.push(Dim::Size(values.len() as u32));
        }
        dims
    }

    /// The dims of a stack as the user writes them.
    fn stack_text(&self, stack: usize) -> String {
        shape::list(&self.stored_dims(&self.stacks[stack], true))
    }

    /// Which dim of an output holds the values of a stack, and which are behind the first.
    pub(super) fn stack_of(dims: &[Dim], values: &[NodeId], is_stacked: bool) -> Option<Stack> {
        let dim = Stack::dim_of(dims, values.len()).filter(|_| is_stacked)?;
        Some(Stack { dim, rest: values[1..].to_vec() })
    }
}
