//! Calls: casts, functions, derivatives, structure.

use crate::catalogue::{self, Entry, Group};
use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Call, NodeId, Op, Unary};
use crate::shape::Dim;
use crate::syntax::foreign::{self, Written};
use crate::syntax::{ExprId, Name, Span};

use super::error::CheckError;
use super::{Body, Lowered, masked, scatter, segments};

impl Body<'_> {
    pub(super) fn lower_call(
        &mut self,
        function: &Name,
        grad: bool,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        let name = function.text.as_str();
        if let (Some(dtype), false) = (DType::from_name(name), grad) {
            return self.cast(dtype, arguments, at);
        }
        // What is no function was reported before the body was looked at.
        let Some(entry) = catalogue::find(name) else { return Lowered::Poison };
        if grad {
            return self.lower_grad(entry, function.span, arguments, at);
        }
        match entry.group {
            Group::Reduction => self.lower_reduction(entry, arguments, at),
            Group::Composite => self.lower_composite(entry, arguments, at),
            Group::Structure => self.lower_structure(entry, arguments, at),
            Group::Bits => self.lower_function_of_bits(entry, arguments, at),
            Group::Elementwise | Group::Activation => {
                if !self.count_fits(entry, arguments, at) {
                    return Lowered::Poison;
                }
                self.lower_elementwise(entry, arguments, at)
            }
        }
    }

    pub(super) fn wrong_count(
        &mut self,
        function: &str,
        takes: &str,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        let calls = match catalogue::find(function) {
            Some(entry) => (entry.call(), self.meant_call(entry, arguments)),
            None => (format!("{function}(x)"), None),
        };
        self.report(CheckError::argument_count(function, takes, arguments.len(), calls, at))
    }

    /// The call of a function with these arguments, where each has its place and dims may be numbers.
    pub(super) fn meant_call(&self, entry: &Entry, arguments: &[ExprId]) -> Option<String> {
        let written =
            arguments.iter().map(|argument| Written { name: None, text: self.text(*argument) });
        let value = arguments.first().and_then(|value| self.lowered.get(value));
        let space = self.graph.space();
        let dims = match value {
            Some(Lowered::Node(node)) => space.dims(self.graph.ty(*node).axes),
            _ => vec![space.row.clone(), space.column.clone()],
        };
        let dims: Vec<String> = dims.iter().map(Dim::to_string).collect();
        foreign::of_entry(entry, &written.collect::<Vec<_>>(), &dims)
    }

    /// Reports a dim that is a number, as in `softmax(x, -1)`.
    pub(super) fn refuse_numbered_dim(&mut self, entry: &Entry, arguments: &[ExprId]) -> bool {
        let place = match entry.group {
            Group::Reduction => Some(1),
            _ => entry.parameters.iter().position(|parameter| *parameter == "dim"),
        };
        let Some(&argument) = place.and_then(|place| arguments.get(place)) else { return false };
        let number = self.text(argument);
        let Ok(size) = number.parse::<i64>() else { return false };
        if self.is_size(size) {
            return false;
        }
        let Some(call) = self.meant_call(entry, arguments) else { return false };
        self.report(CheckError::NumberedDim { number, call, at: self.exprs[argument].span });
        true
    }

    pub(super) fn count_fits(&mut self, entry: &Entry, arguments: &[ExprId], at: Span) -> bool {
        let (least, most) = (entry.required(), entry.parameters.len());
        if (least..=most).contains(&arguments.len()) {
            return true;
        }
        let takes = if least == most { most.to_string() } else { format!("{least} to {most}") };
        self.wrong_count(entry.name, &takes, arguments, at);
        false
    }

    fn cast(&mut self, dtype: DType, arguments: &[ExprId], at: Span) -> Lowered {
        if let [value, seed, offset] = *arguments {
            return self.lower_random_cast(dtype, value, [seed, offset], at);
        }
        let [argument] = arguments else {
            return self.wrong_count(dtype.name(), "1 or 3", arguments, at);
        };
        match self.lowered[argument] {
            Lowered::Poison | Lowered::Stack(_) => Lowered::Poison,
            lowered @ (Lowered::Integer(_) | Lowered::Size(_)) => {
                let Some(node) =
                    self.convert(lowered, if dtype.is_float() { Elem::F32 } else { Elem::I32 }, at)
                else {
                    return Lowered::Poison;
                };
                self.node(Op::Cast(dtype, node), at)
            }
            Lowered::Node(node) => self.node(Op::Cast(dtype, node), at),
        }
    }

    /// Arguments as f32, defaults filled in.
    fn floats(&mut self, entry: &Entry, arguments: &[ExprId]) -> Option<Vec<NodeId>> {
        let mut nodes = Vec::with_capacity(entry.parameters.len());
        for argument in arguments {
            nodes.push(self.convert(self.lowered[argument], Elem::F32, self.exprs[*argument].span));
        }
        for place in arguments.len()..entry.parameters.len() {
            nodes.push(entry.default(place).map(|value| self.graph.make(Op::number(value))));
        }
        nodes.into_iter().collect()
    }

    fn lower_elementwise(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        match entry.name {
            "where" => return self.lower_where(arguments, at),
            "maximum" | "minimum" => {
                let op = if entry.name == "maximum" { Binary::Maximum } else { Binary::Minimum };
                return match self.alike(op, arguments[0], arguments[1], at) {
                    Some((a, b)) => self.binary(op, a, b, at),
                    None => Lowered::Poison,
                };
            }
            "abs" | "sign" => {
                let Some(node) = self.settle(self.lowered[&arguments[0]], at) else {
                    return Lowered::Poison;
                };
                if self.graph.ty(node).elem == Elem::Bool {
                    return self
                        .report(CheckError::BoolArithmetic { at: self.exprs[arguments[0]].span });
                }
                let op = if entry.name == "abs" { Unary::Abs } else { Unary::Sign };
                return self.node(Op::Unary(op, node), at);
            }
            "softplus" => return self.lower_softplus(false, arguments, at),
            "square" | "clamp" if self.all_integers(arguments) => {
                return self.lower_integer_composite(entry.name, arguments, at);
            }
            _ => {}
        }
        let Some(nodes) = self.floats(entry, arguments) else { return Lowered::Poison };
        if !entry.formula.is_empty() {
            let call = Call { function: entry.name, grad: false, over: None, count: 0 };
            return self.node(Op::Call(call, nodes), at);
        }
        match nodes.as_slice() {
            [a] => match Unary::from_name(entry.name) {
                Some(op) => self.node(Op::Unary(op, *a), at),
                None => {
                    panic!("compiler bug: `{}` has neither a formula nor an operation", entry.name)
                }
            },
            [a, b] => match Binary::from_name(entry.name) {
                Some(op) => self.binary(op, *a, *b, at),
                None => {
                    panic!("compiler bug: `{}` has neither a formula nor an operation", entry.name)
                }
            },
            [a, b, c] => self.node(Op::Fma(*a, *b, *c), at),
            _ => panic!("compiler bug: `{}` has no operands", entry.name),
        }
    }

    /// `softplus(beta * x) / beta`, or its derivative; the rules of stability know the function without beta.
    fn lower_softplus(&mut self, grad: bool, arguments: &[ExprId], at: Span) -> Lowered {
        let mut floats = [None; 2];
        for (float, argument) in floats.iter_mut().zip(arguments) {
            let node = self.convert(self.lowered[argument], Elem::F32, self.exprs[*argument].span);
            let Some(node) = node else { return Lowered::Poison };
            *float = Some(node);
        }
        let [Some(x), beta] = floats else { return Lowered::Poison };
        let scaled = match beta {
            Some(beta) => self.binary(Binary::Multiply, beta, x, at),
            None => Lowered::Node(x),
        };
        let Lowered::Node(scaled) = scaled else { return scaled };
        let call = Call { function: "softplus", grad, over: None, count: 0 };
        let value = self.node(Op::Call(call, vec![scaled]), at);
        match (value, beta) {
            (Lowered::Node(value), Some(beta)) if !grad => {
                self.binary(Binary::Divide, value, beta, at)
            }
            _ => value,
        }
    }

    fn all_integers(&self, arguments: &[ExprId]) -> bool {
        arguments.iter().all(|argument| match self.lowered[argument] {
            Lowered::Node(node) => self.graph.ty(node).elem == Elem::I32,
            Lowered::Integer(_) | Lowered::Size(_) => true,
            Lowered::Stack(_) | Lowered::Poison => false,
        })
    }

    /// Integers stay integers where the formula is one of integers too.
    fn lower_integer_composite(&mut self, name: &str, arguments: &[ExprId], at: Span) -> Lowered {
        let mut nodes = Vec::new();
        for argument in arguments {
            match self.convert(self.lowered[argument], Elem::I32, at) {
                Some(node) => nodes.push(node),
                None => return Lowered::Poison,
            }
        }
        if name == "square" {
            return self.binary(Binary::Multiply, nodes[0], nodes[0], at);
        }
        match self.binary(Binary::Maximum, nodes[0], nodes[1], at) {
            Lowered::Node(raised) => self.binary(Binary::Minimum, raised, nodes[2], at),
            other => other,
        }
    }

    fn lower_where(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let condition = self.condition(arguments[0]);
        let bools = |body: &Body<'_>, id: ExprId| matches!(body.lowered[&id], Lowered::Node(node) if body.graph.ty(node).elem == Elem::Bool);
        let chosen = if bools(self, arguments[1]) && bools(self, arguments[2]) {
            let (a, b) = (
                self.settle(self.lowered[&arguments[1]], at),
                self.settle(self.lowered[&arguments[2]], at),
            );
            a.zip(b)
        } else {
            self.alike(Binary::Maximum, arguments[1], arguments[2], at)
        };
        match (condition, chosen) {
            (Some(condition), Some((a, b))) => self.node(Op::Select(condition, a, b), at),
            _ => Lowered::Poison,
        }
    }

    fn lower_grad(
        &mut self,
        entry: &'static Entry,
        name_span: Span,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        let primitive = Unary::from_name(entry.name)
            .and_then(Unary::derivative)
            .or_else(|| Binary::from_name(entry.name).and_then(Binary::derivative));
        if entry.derivative.is_empty() && primitive.is_none() {
            return self.report(CheckError::NoDerivative {
                function: entry.name.to_owned(),
                at: name_span,
            });
        }
        if !self.count_fits(entry, arguments, at) {
            return Lowered::Poison;
        }
        if entry.name == "softplus" {
            return self.lower_softplus(true, arguments, at);
        }
        let Some(nodes) = self.floats(entry, arguments) else { return Lowered::Poison };
        self.node(
            Op::Call(Call { function: entry.name, grad: true, over: None, count: 0 }, nodes),
            at,
        )
    }

    fn lower_structure(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        match entry.name {
            "halves" | "pairs" | "topk" => {
                self.report(CheckError::TwoValues { function: entry.name.to_owned(), at })
            }
            "split" => self.report(CheckError::SeveralValues { at }),
            segments::SEGMENTS => self.lower_segments(arguments, at),
            "concat" => self.lower_concat(arguments, at),
            "join" => self.lower_join(arguments, at),
            _ if !self.count_fits(entry, arguments, at) => Lowered::Poison,
            "take" => self.lower_take(arguments, at),
            masked::MASKED => self.lower_masked(arguments, at),
            "gather" => self.lower_gather(arguments, at),
            "combine" => self.lower_combine(arguments, at),
            scatter::SCATTER => Lowered::Poison,
            _ => self.lower_pick(arguments, at),
        }
    }

    fn lower_pick(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let of =
            self.convert(self.lowered[&arguments[0]], Elem::F32, self.exprs[arguments[0]].span);
        let index_at = self.exprs[arguments[1]].span;
        let index = self.settle(self.lowered[&arguments[1]], index_at);
        let (Some(of), Some(index)) = (of, index) else { return Lowered::Poison };
        if self.graph.ty(of).axes.column.is_none() {
            let has = self.dims_text(of);
            let column = self.graph.space().column.to_string();
            let function = "pick".to_owned();
            return self.report(CheckError::NoColumns { function, column, has, at });
        }
        let ty = self.graph.ty(index);
        if ty.elem != Elem::I32 || ty.axes.column.is_some() {
            let has = self.dims_text(index);
            return self.report(CheckError::PickIndex { elem: ty.elem, has, at: index_at });
        }
        self.node(Op::Pick(of, index), at)
    }
}
