//! Statements and operators.

use std::collections::{BTreeSet, HashSet};

use crate::catalogue;
use crate::dtype::{DType, Elem};
use crate::graph::{
    self, Binary, Columns, Constant, Fold, IndexAxis, InputId, NodeId, Op, Over, Run, Unary,
};
use crate::shape::{self, Dim};
use crate::syntax::{Ast, ExprId, ExprKind, Infix, Number, Prefix, Span, Statement, nearest};

use super::dims::is_dim_argument;
use super::error::CheckError;
use super::separate::is_separate;
use super::{Body, Lowered, product};

impl<'a> Body<'a> {
    /// Lowers all statements that this graph reads, and unread ones.
    pub(super) fn lower_statements(&mut self, ast: &'a Ast, elsewhere: &BTreeSet<usize>) {
        let all = (0..ast.statements.len()).filter(|index| !elsewhere.contains(index));
        self.lower_own(ast, all);
    }

    /// Lowers those of some statements that are this graph's.
    pub(super) fn lower_own(&mut self, ast: &'a Ast, places: impl Iterator<Item = usize>) {
        for place in places {
            // Values along K are the operands' own; values of other products are computed where they are read.
            let is_foreign = self.is_foreign(ast.statements[place].value);
            if !self.varying.contains(&place) && !is_foreign {
                self.lower_statement_at(ast, place);
            }
        }
    }

    /// Lowers one statement.
    pub(super) fn lower_statement_at(&mut self, ast: &'a Ast, index: usize) {
        let statement = &ast.statements[index];
        if let Some(target) = statement.targets.first() {
            let bytes = (target.span.start, self.place_of(statement.value).end);
            self.graph.begin_statement(graph::Statement { bytes });
        }
        self.lower_statement(statement);
    }

    fn lower_statement(&mut self, statement: &'a Statement) {
        let split = match &self.exprs[statement.value].kind {
            ExprKind::Call { function, grad: false, arguments }
                if matches!(function.text.as_str(), "halves" | "pairs" | "split" | "topk") =>
            {
                Some((function, arguments))
            }
            _ => None,
        };
        let at = self.exprs[statement.value].span;
        let values = match (split, statement.targets.as_slice()) {
            (Some((function, arguments)), targets @ [_, _, ..]) => {
                for (place, argument) in arguments.iter().enumerate() {
                    if !is_dim_argument(&function.text, place) {
                        self.lower_tree(*argument);
                    }
                }
                match function.text.as_str() {
                    "topk" => self.lower_top(arguments, at).to_vec(),
                    split => self.split(split, arguments, targets.len(), at),
                }
            }
            (_, [_]) => {
                self.lower_tree(statement.value);
                vec![self.lowered[&statement.value]]
            }
            (_, targets) => {
                self.report(CheckError::TargetCount { given: targets.len(), gives: 1, at });
                vec![Lowered::Poison; targets.len()]
            }
        };
        for (target, value) in statement.targets.iter().zip(values) {
            self.assign(target, value);
        }
    }

    fn assign(&mut self, target: &'a crate::syntax::Name, value: Lowered) {
        let name = target.text.as_str();
        if self.names.contains_key(name) {
            self.report(CheckError::AssignedTwice { name: name.to_owned(), at: target.span });
        } else {
            self.names.insert(name, (value, target.span));
        }
    }

    /// Lowers an expression and everything under it, children first.
    pub(super) fn lower_tree(&mut self, root: ExprId) {
        let mut tree = Vec::new();
        let mut seen: HashSet<ExprId> = HashSet::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            // An argument of a definition stands in several places.
            if !seen.insert(id) {
                continue;
            }
            tree.push(id);
            if self.is_stored_elsewhere(id) {
                continue;
            }
            match &self.exprs[id].kind {
                ExprKind::Number(_)
                | ExprKind::Name(_)
                | ExprKind::Annotated(..)
                | ExprKind::Dims(_) => {}
                ExprKind::Product(..) => open.extend(self.factor_expressions()),
                ExprKind::Call { .. } if is_separate(&self.exprs[id].kind) => {}
                ExprKind::Transpose(a) | ExprKind::Prefix(_, a) => open.push(*a),
                ExprKind::Infix(_, a, b) => open.extend([*a, *b]),
                ExprKind::Call { function, arguments, .. } => {
                    let values = arguments.iter().enumerate().filter(|(place, _)| {
                        let is_list =
                            matches!(self.exprs[arguments[*place]].kind, ExprKind::Dims(_));
                        let is_no_value = is_dim_argument(&function.text, *place)
                            || is_list && function.text == "concat"
                            || self.is_table_argument(&function.text, arguments, *place);
                        !is_no_value
                    });
                    open.extend(values.map(|(_, id)| *id));
                }
            }
        }
        // Children have smaller numbers than their parents.
        tree.sort_unstable();
        for id in tree {
            if !self.lowered.contains_key(&id) {
                let mut lower = |body: &mut Self| body.lower_one(id);
                let stacked = self.lower_stacked(id, &mut lower);
                let lowered = stacked.unwrap_or_else(|| lower(self));
                self.note_matrix(id, lowered);
                self.lowered.insert(id, lowered);
            }
        }
    }

    /// Where an expression stands in the kernel, also where a definition says what it is.
    fn place_of(&self, id: ExprId) -> Span {
        let call = self.calls.and_then(|calls| calls.get(&id));
        call.map_or(self.exprs[id].span, |call| call.at)
    }

    fn lower_one(&mut self, id: ExprId) -> Lowered {
        self.call = self.calls.and_then(|calls| calls.get(&id)).cloned();
        let is_name = matches!(self.exprs[id].kind, ExprKind::Name(_) | ExprKind::Annotated(..));
        let lowered = if self.is_stored_elsewhere(id) && !is_name {
            self.lower_foreign(id)
        } else {
            self.lower_form(id)
        };
        self.call = None;
        lowered
    }

    fn lower_form(&mut self, id: ExprId) -> Lowered {
        let exprs = self.exprs;
        let expr = &exprs[id];
        let at = expr.span;
        match &expr.kind {
            ExprKind::Number(Number::Integer(value)) => Lowered::Integer(*value),
            ExprKind::Number(Number::Float(value)) => self.float(*value, at),
            ExprKind::Name(name) => self.lower_name(name, at),
            ExprKind::Annotated(name, dims) => self.lower_annotated(name, dims, at),
            ExprKind::Dims(_) => self.report(CheckError::DimList { at }),
            ExprKind::Transpose(a) => self.lower_transpose(*a, at),
            ExprKind::Product(..) => self.lower_product(at),
            ExprKind::Prefix(prefix, a) => self.lower_prefix(*prefix, *a, at),
            ExprKind::Infix(infix, a, b) => self.lower_infix(*infix, *a, *b, at),
            ExprKind::Call { .. } if is_separate(&expr.kind) => {
                self.own.map_or(Lowered::Poison, Lowered::Node)
            }
            ExprKind::Call { function, grad, arguments } => {
                self.lower_call(function, *grad, arguments, at)
            }
        }
    }

    fn float(&mut self, value: f64, at: Span) -> Lowered {
        if value.is_finite() && (value as f32).is_infinite() {
            return self.report(CheckError::LiteralRange {
                text: format!("{value:?}"),
                elem: Elem::F32,
                at,
            });
        }
        self.node(Op::number(value as f32), at)
    }

    fn lower_name(&mut self, name: &str, at: Span) -> Lowered {
        if let Some(&(lowered, _)) = self.names.get(name) {
            return lowered;
        }
        if let Some(lowered) = self.lower_foreign_name(name) {
            return lowered;
        }
        if self.varying_names.contains(&name) {
            return self.report_summed(name, at);
        }
        if let Some(place) = self.inputs.iter().position(|input| input.name.text == name) {
            return self.input(place, at);
        }
        match name {
            "row" => return self.node(Op::Index(IndexAxis::Row), at),
            "col" => return self.node(Op::Index(IndexAxis::Column), at),
            "inf" => return self.node(Op::number(f32::INFINITY), at),
            "nan" => return self.node(Op::number(f32::NAN), at),
            "pi" => return self.node(Op::number(std::f32::consts::PI), at),
            _ => {}
        }
        let name_text = name.to_owned();
        if catalogue::find(name).is_some() || DType::from_name(name).is_some() || name == "grad" {
            return self.report(CheckError::FunctionAsValue { name: name_text, at });
        }
        let space = self.graph.space();
        let inner = self.graph.products().iter().map(|product| &product.inner);
        let dims = [&space.row, &space.column].into_iter().chain(inner);
        let dims = dims.chain(&space.batch).chain(&space.parts);
        if dims.into_iter().any(|dim| dim.same_base(&Dim::name(name))) {
            let divides = product::divided_sum(self.exprs, &name_text, at);
            return self.report(CheckError::DimAsValue { name: name_text, divides, at });
        }
        let known = self
            .inputs
            .iter()
            .map(|input| input.name.text.as_str())
            .chain(self.names.keys().copied());
        let nearest = nearest(name, known.collect::<Vec<_>>()).map(str::to_owned);
        self.report(CheckError::UnknownName { name: name_text, nearest, at })
    }

    /// A value of the operands in the math after the product.
    fn report_summed(&mut self, name: &str, at: Span) -> Lowered {
        let inner = self.graph.products().first().map(|product| product.inner.to_string());
        let (name, dim) = (name.to_owned(), inner.unwrap_or_default());
        let space = self.graph.space();
        let known = shape::list(&space.dims(space.accumulator_axes()));
        self.report(CheckError::SummedDim { name, dim, known, is_vector: false, at })
    }

    fn input(&mut self, place: usize, at: Span) -> Lowered {
        if self.graph.input_axes(InputId(place as u32)).is_some() {
            return self.node(Op::Input(InputId(place as u32)), at);
        }
        if let Some(list) = self.declared_list(place) {
            return list;
        }
        if self.blamed_inputs.contains(&place) {
            return Lowered::Poison;
        }
        self.blamed_inputs.push(place);
        let declaration = &self.inputs[place];
        let space = self.graph.space();
        let known = shape::list(&space.dims(space.accumulator_axes()));
        let name = declaration.name.text.clone();
        let dims = declaration.dims.as_deref().unwrap_or_default();
        let is_vector = dims.len() == 1;
        let foreign = dims.iter().find(|dim| space.axes(std::slice::from_ref(dim)).is_none());
        let error = match foreign {
            Some(dim) if self.graph.products().iter().any(|product| product.inner == *dim) => {
                CheckError::SummedDim { name, dim: dim.to_string(), known, is_vector, at }
            }
            Some(dim) => {
                CheckError::NotBodyDims { name, dim: dim.to_string(), known, is_vector, at }
            }
            // Each is the body's, so two of them are one and the same.
            None => {
                let repeated = dims.iter().enumerate().find(|(place, dim)| {
                    dims[..*place].iter().any(|earlier| earlier.same_base(dim))
                });
                let dim = repeated.map_or_else(String::new, |(_, dim)| dim.to_string());
                CheckError::SameDimTwice { name, dim, at }
            }
        };
        self.report(error)
    }

    fn lower_annotated(&mut self, name: &str, dims: &[Dim], at: Span) -> Lowered {
        let lowered = self.lower_name(name, at);
        let declared = match self.inputs.iter().find(|input| input.name.text == name) {
            Some(input) => input.dims.clone().unwrap_or_default(),
            None => match lowered {
                Lowered::Node(node) => self.graph.space().dims(self.graph.ty(node).axes),
                Lowered::Stack(stack) => self.stored_dims(&self.stacks[stack], true),
                Lowered::Integer(_) | Lowered::Size(_) => Vec::new(),
                Lowered::Poison => return Lowered::Poison,
            },
        };
        if declared == dims {
            return lowered;
        }
        if let Lowered::Node(node) = lowered
            && let Some(node) = self.repeated(node, dims)
        {
            return self.node(self.graph[node].op.clone(), at);
        }
        self.report(CheckError::Annotation {
            name: name.to_owned(),
            declared: shape::list(&declared),
            written: shape::list(dims),
            at,
        })
    }

    /// A value with all of these dims, of which it may lack some: it is the same along those.
    fn repeated(&mut self, node: NodeId, dims: &[Dim]) -> Option<NodeId> {
        let space = self.graph.space();
        let (own, wanted) = (self.graph.ty(node).axes, space.axes(dims)?);
        if space.is_segmented() || own == wanted || own.join(wanted) != Some(wanted) {
            return None;
        }
        let all = space.column.divisor().max(1);
        let columns = wanted.columns().filter(|columns| Some(*columns) != own.columns());
        let rows = wanted.row.filter(|rows| Some(*rows) != own.row);
        let mut value = node;
        if wanted.batch && !own.batch {
            let batch = self.graph.make(Op::Index(IndexAxis::Batch));
            value = self.graph.spread(value, batch);
        }
        if let Some(run) = rows {
            let row = self.graph.make(Op::Index(IndexAxis::Row));
            let over = Over { row: Some(Run::Group(run)), ..Over::NOTHING };
            let first = Op::Reduce(Fold::Min, over, row);
            let like = if run == 1 { row } else { self.graph.make(first) };
            value = self.graph.spread(value, like);
        }
        if let Some(Columns { part, divisor }) = columns {
            // Columns of a part are the split's to say.
            if part != 0 || divisor % all != 0 {
                return None;
            }
            let column = self.graph.make(Op::Index(IndexAxis::Column));
            let over = Over { column: Some(Run::Group(divisor / all)), ..Over::NOTHING };
            let first = Op::Reduce(Fold::Min, over, column);
            let like = if divisor == all { column } else { self.graph.make(first) };
            value = self.graph.spread(value, like);
        }
        Some(value)
    }

    /// Dims meet by name, so a transposed tile is the same value; only its place in memory differs.
    fn lower_transpose(&mut self, a: ExprId, at: Span) -> Lowered {
        match self.lowered[&a] {
            Lowered::Node(node) if self.graph.ty(node).axes.rank() >= 2 => Lowered::Node(node),
            Lowered::Node(_) | Lowered::Integer(_) | Lowered::Size(_) | Lowered::Stack(_) => {
                self.report(CheckError::Transpose { at })
            }
            Lowered::Poison => Lowered::Poison,
        }
    }

    fn lower_prefix(&mut self, prefix: Prefix, a: ExprId, at: Span) -> Lowered {
        let operand = self.lowered[&a];
        match (prefix, operand) {
            (_, Lowered::Poison | Lowered::Stack(_)) => Lowered::Poison,
            (Prefix::Negate, Lowered::Integer(value)) => {
                value.checked_neg().map_or(Lowered::Poison, Lowered::Integer)
            }
            (Prefix::Negate, Lowered::Size(_)) => match self.settle(operand, at) {
                Some(node) => self.node(Op::Unary(Unary::Negate, node), at),
                None => Lowered::Poison,
            },
            (Prefix::Negate, Lowered::Node(node)) => match self.graph.ty(node).elem {
                Elem::Bool => self.report(CheckError::BoolArithmetic { at: self.exprs[a].span }),
                Elem::F32 | Elem::I32 => self.node(Op::Unary(Unary::Negate, node), at),
            },
            (Prefix::Not, _) => match self.condition(a) {
                Some(node) => self.node(Op::Unary(Unary::Not, node), at),
                None => Lowered::Poison,
            },
            (Prefix::Invert, Lowered::Integer(value)) => Lowered::Integer(!value),
            (Prefix::Invert, Lowered::Node(_) | Lowered::Size(_)) => {
                match self.whole_number("~", a) {
                    Some(node) => self.node(Op::Unary(Unary::Invert, node), at),
                    None => Lowered::Poison,
                }
            }
        }
    }

    fn lower_infix(&mut self, infix: Infix, a: ExprId, b: ExprId, at: Span) -> Lowered {
        let (op, swapped) = match infix {
            Infix::Add => (Binary::Add, false),
            Infix::Subtract => (Binary::Subtract, false),
            Infix::Multiply => (Binary::Multiply, false),
            Infix::Divide => (Binary::Divide, false),
            Infix::Less => (Binary::Less, false),
            Infix::LessEqual => (Binary::LessEqual, false),
            Infix::Greater => (Binary::Less, true),
            Infix::GreaterEqual => (Binary::LessEqual, true),
            Infix::Equal => (Binary::Equal, false),
            Infix::NotEqual => (Binary::NotEqual, false),
            Infix::And => (Binary::And, false),
            Infix::Or => (Binary::Or, false),
            Infix::Xor => (Binary::Xor, false),
            Infix::ShiftLeft => (Binary::ShiftLeft, false),
            Infix::ShiftRight => (Binary::ShiftRight, false),
        };
        if self.is_of_bits(op, a, b) {
            return self.lower_bits(op, infix.symbol(), [a, b], at);
        }
        if matches!(op, Binary::And | Binary::Or) {
            // What was reported may be an integer.
            if [a, b].iter().any(|operand| matches!(self.lowered[operand], Lowered::Poison)) {
                return Lowered::Poison;
            }
            if self.bits_meet_comparison(a, b) {
                let operator = infix.symbol();
                return self.report(CheckError::BitsMeetComparison { operator, at });
            }
            let (left, right) = (self.condition(a), self.condition(b));
            return match (left, right) {
                (Some(left), Some(right)) => self.binary(op, left, right, at),
                _ => Lowered::Poison,
            };
        }
        let Some((left, right)) = self.alike(op, a, b, at) else { return Lowered::Poison };
        if swapped { self.binary(op, right, left, at) } else { self.binary(op, left, right, at) }
    }

    /// Both operands brought to one element type.
    pub(super) fn alike(
        &mut self,
        op: Binary,
        a: ExprId,
        b: ExprId,
        at: Span,
    ) -> Option<(NodeId, NodeId)> {
        let (left, right) = (self.lowered[&a], self.lowered[&b]);
        let elem = |body: &Body<'_>, lowered| match lowered {
            Lowered::Node(node) => Some(body.graph.ty(node).elem),
            Lowered::Integer(_) | Lowered::Size(_) | Lowered::Stack(_) | Lowered::Poison => None,
        };
        let (left_elem, right_elem) = (elem(self, left), elem(self, right));
        let compares = matches!(op, Binary::Equal | Binary::NotEqual);
        if left_elem == Some(Elem::Bool) && right_elem == Some(Elem::Bool) && compares {
            return Some((self.settle(left, at)?, self.settle(right, at)?));
        }
        if let Some((place, other)) = match (left_elem, right_elem) {
            (Some(Elem::Bool), other) => Some((a, other)),
            (other, Some(Elem::Bool)) => Some((b, other)),
            _ => None,
        } {
            let at = self.exprs[place].span;
            let other = other.unwrap_or(Elem::I32);
            let comparison = matches!(op, Binary::Less | Binary::LessEqual) || compares;
            let error = if comparison && other != Elem::Bool {
                CheckError::BoolComparison { other, at }
            } else {
                CheckError::BoolArithmetic { at }
            };
            self.report(error);
            return None;
        }
        // Two literals are divided as numbers, not as i32: `1 / 2` is a half.
        let literal = |lowered| matches!(lowered, Lowered::Integer(_) | Lowered::Size(_));
        let literals = literal(left) && literal(right);
        let float_only = op.function().is_some() || (op == Binary::Divide && literals);
        let to = if left_elem == Some(Elem::F32) || right_elem == Some(Elem::F32) || float_only {
            Elem::F32
        } else {
            Elem::I32
        };
        if op == Binary::Divide
            && to == Elem::I32
            && !matches!((left, right), (Lowered::Poison, _) | (_, Lowered::Poison))
        {
            self.report(CheckError::IntegerDivision { at });
            return None;
        }
        Some((
            self.convert(left, to, self.exprs[a].span)?,
            self.convert(right, to, self.exprs[b].span)?,
        ))
    }

    /// A condition, or a report that it is none.
    pub(super) fn condition(&mut self, id: ExprId) -> Option<NodeId> {
        let at = self.exprs[id].span;
        match self.lowered[&id] {
            Lowered::Node(node) if self.graph.ty(node).elem == Elem::Bool => Some(node),
            Lowered::Node(node) => {
                let found = self.graph.ty(node).elem;
                self.report(CheckError::NotACondition { found, at });
                None
            }
            Lowered::Integer(_) | Lowered::Size(_) => {
                self.report(CheckError::NotACondition { found: Elem::I32, at });
                None
            }
            Lowered::Stack(_) | Lowered::Poison => self.settle(self.lowered[&id], at),
        }
    }

    /// A node; an integer literal that met nothing is i32.
    pub(super) fn settle(&mut self, lowered: Lowered, at: Span) -> Option<NodeId> {
        match lowered {
            Lowered::Node(node) => Some(node),
            Lowered::Integer(_) | Lowered::Size(_) => self.convert(lowered, Elem::I32, at),
            Lowered::Stack(_) => {
                self.report(CheckError::StackAsValue { at });
                None
            }
            Lowered::Poison => None,
        }
    }

    /// A value as f32 or i32; bool is reported.
    pub(super) fn convert(&mut self, lowered: Lowered, to: Elem, at: Span) -> Option<NodeId> {
        match lowered {
            Lowered::Stack(_) | Lowered::Poison => self.settle(lowered, at),
            Lowered::Integer(value) if to == Elem::I32 => {
                if let Ok(value) = i32::try_from(value) {
                    Some(self.graph.make(Op::Constant(Constant::I32(value))))
                } else {
                    self.report(CheckError::LiteralRange { text: value.to_string(), elem: to, at });
                    None
                }
            }
            Lowered::Integer(value) => Some(self.graph.make(Op::number(value as f32))),
            Lowered::Size(place) => {
                let size = self.graph.make(Op::Size(self.sizes[place].clone()));
                self.convert(Lowered::Node(size), to, at)
            }
            Lowered::Node(node) => match (self.graph.ty(node).elem, to) {
                (Elem::Bool, _) => {
                    self.report(CheckError::BoolArithmetic { at });
                    None
                }
                (Elem::I32, Elem::F32) => {
                    let cast = self.graph.make(Op::Cast(DType::F32, node));
                    self.note_parts(cast, &[node]);
                    Some(cast)
                }
                _ => Some(node),
            },
        }
    }

    pub(super) fn binary(&mut self, op: Binary, a: NodeId, b: NodeId, at: Span) -> Lowered {
        self.node(Op::Binary(op, a, b), at)
    }

    /// Adds a node; the only type rule that can still fail is that dims meet.
    pub(super) fn node(&mut self, op: Op, at: Span) -> Lowered {
        let operands: Vec<NodeId> = op.operands().collect();
        if let Some((part, whole)) = self.part_and_whole(&operands) {
            let [part, whole] = [part, whole].map(|operand| self.dims_text(operand));
            return self.report(CheckError::PartMeetsWhole { part, whole, at });
        }
        if let Ok(node) = self.graph.add(op) {
            self.note_parts(node, &operands);
            Lowered::Node(node)
        } else {
            let axes = |operand: NodeId| self.graph.ty(operand).axes;
            let pairs = operands.iter().flat_map(|a| operands.iter().map(move |b| (*a, *b)));
            let apart = pairs.into_iter().find(|(a, b)| axes(*a).join(axes(*b)).is_none());
            let (left, right) = apart.unwrap_or((operands[0], operands[operands.len() - 1]));
            let error = self.named_part_and_whole(left, right);
            let [left, right] = [left, right].map(|operand| self.dims_text(operand));
            if let Some((part, whole)) = error {
                return self.report(CheckError::PartMeetsWhole { part, whole, at });
            }
            self.report(CheckError::DimsDisagree { left, right, at })
        }
    }
}
