//! Reductions and composites along a dim.

use crate::catalogue::Entry;
use crate::dtype::Elem;
use crate::graph::{Binary, Call, Fold, NodeId, Op, Over, Run};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Number, Span};

use super::error::CheckError;
use super::{Body, Lowered, dims};

/// Wider runs than any tile will ever hold are a mistake.
const WIDEST_RUN: i64 = 1 << 20;

impl Body<'_> {
    pub(super) fn lower_reduction(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        let [value, dims @ ..] = arguments else {
            return self.wrong_count(entry.name, "a value and dims as", 0, at);
        };
        let value_at = self.exprs[*value].span;
        let Some(mut node) = self.settle(self.lowered[value], value_at) else {
            return Lowered::Poison;
        };
        if self.graph.ty(node).elem == Elem::Bool {
            return self.report(CheckError::BoolArithmetic { at: value_at });
        }
        if let (true, [second]) = (matches!(entry.name, "max" | "min"), dims)
            && self.is_value(*second)
        {
            let function = entry.name.to_owned();
            return self.report(CheckError::ReducesOne { function, at });
        }
        let Some(over) = self.over(node, dims, at) else { return Lowered::Poison };
        if matches!(entry.name, "mean" | "logsumexp" | "var") {
            match self.convert(Lowered::Node(node), Elem::F32, value_at) {
                Some(float) => node = float,
                None => return Lowered::Poison,
            }
        }
        if entry.name == "var" {
            return self.variance(node, over, at);
        }
        match Fold::from_name(entry.name) {
            Some(fold) => self.node(Op::Reduce(fold, over, node), at),
            None => self.node(
                Op::Call(
                    Call { function: entry.name, grad: false, over: Some(over), count: 0 },
                    vec![node],
                ),
                at,
            ),
        }
    }

    /// `mean(square(x - mean(x)))` along the same dims.
    fn variance(&mut self, node: NodeId, over: Over, at: Span) -> Lowered {
        let call = |function: &'static str, over: Option<Over>, operand: NodeId| {
            Op::Call(Call { function, grad: false, over, count: 0 }, vec![operand])
        };
        let mean = self.node(call("mean", Some(over), node), at);
        let Lowered::Node(mean) = mean else { return mean };
        let apart = self.binary(Binary::Subtract, node, mean, at);
        let Lowered::Node(apart) = apart else { return apart };
        let square = self.node(call("square", None, apart), at);
        let Lowered::Node(square) = square else { return square };
        self.node(call("mean", Some(over), square), at)
    }

    /// Whether what stands where a dim belongs can only be meant as a value.
    fn is_value(&self, argument: ExprId) -> bool {
        let space = self.graph.space();
        match dims::read(self.exprs, argument) {
            None => true,
            Some(dim) if space.axes(std::slice::from_ref(&dim)).is_some() => false,
            Some(Dim::Size(_)) => true,
            Some(Dim::Name { name, .. }) => {
                self.names.contains_key(name.as_str())
                    || self.inputs.iter().any(|input| input.name.text == name)
            }
        }
    }

    /// What the dims of a reduction fold; all of the value's when none are given.
    pub(super) fn over(&mut self, node: NodeId, arguments: &[ExprId], at: Span) -> Option<Over> {
        let axes = self.graph.ty(node).axes;
        if axes.rank() == 0 {
            self.report(CheckError::NothingToReduce { at });
            return None;
        }
        if arguments.is_empty() {
            return Some(Over::all(axes));
        }
        let mut over = Over { batch: false, row: false, column: None };
        let mut previous_was_column = false;
        for argument in arguments {
            let at = self.exprs[*argument].span;
            let width = match self.exprs[*argument].kind {
                ExprKind::Number(Number::Integer(width))
                    if self.graph.space().columns(&Dim::Size(width as u32)).is_none()
                        || previous_was_column =>
                {
                    Some(width)
                }
                _ => None,
            };
            match width {
                Some(width) if previous_was_column => {
                    over.column = Some(Run::Group(self.run_width(width, at)?));
                    previous_was_column = false;
                }
                Some(_) => {
                    let column = self.graph.space().column.to_string();
                    self.report(CheckError::GroupPlace { column, at });
                    return None;
                }
                None => previous_was_column = self.fold_dim(node, *argument, &mut over)?,
            }
        }
        Some(over)
    }

    fn run_width(&mut self, width: i64, at: Span) -> Option<u32> {
        if (1..=WIDEST_RUN).contains(&width) {
            return Some(width as u32);
        }
        self.report(CheckError::GroupWidth { at });
        None
    }

    /// Adds one dim to what is folded; whether it was the columns.
    fn fold_dim(&mut self, node: NodeId, argument: ExprId, over: &mut Over) -> Option<bool> {
        let at = self.exprs[argument].span;
        let Some(dim) = dims::read(self.exprs, argument) else {
            self.report(CheckError::DimExpected { at });
            return None;
        };
        let space = self.graph.space();
        let axes = self.graph.ty(node).axes;
        let (has, already, is_column) = if space.batch.as_ref() == Some(&dim) {
            (axes.batch, std::mem::replace(&mut over.batch, true), false)
        } else if space.row == dim {
            (axes.row, std::mem::replace(&mut over.row, true), false)
        } else {
            let columns = space.columns(&dim);
            (
                columns.is_some() && columns == axes.columns(),
                over.column.replace(Run::All).is_some(),
                true,
            )
        };
        if !has {
            let has = self.dims_text(node);
            self.report(CheckError::NoSuchDim { dim: dim.to_string(), has, at });
            return None;
        }
        if already {
            self.report(CheckError::DimTwice { dim: dim.to_string(), at });
            return None;
        }
        Some(is_column)
    }

    pub(super) fn lower_composite(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        if arguments.len() != entry.parameters.len() {
            return self.wrong_count(
                entry.name,
                &entry.parameters.len().to_string(),
                arguments.len(),
                at,
            );
        }
        let mut values = Vec::new();
        let mut dim = None;
        let mut count = 0;
        for (place, argument) in arguments.iter().enumerate() {
            match entry.parameter(place) {
                "dim" => dim = Some(*argument),
                "k" => match self.exprs[*argument].kind {
                    ExprKind::Number(Number::Integer(k)) if (1..=WIDEST_RUN).contains(&k) => {
                        count = k as u32;
                    }
                    _ => {
                        return self.report(CheckError::Count {
                            function: entry.name.to_owned(),
                            most: WIDEST_RUN,
                            at: self.exprs[*argument].span,
                        });
                    }
                },
                _ => match self.convert(
                    self.lowered[argument],
                    Elem::F32,
                    self.exprs[*argument].span,
                ) {
                    Some(node) => values.push(node),
                    None => return Lowered::Poison,
                },
            }
        }
        let Some(dim) = dim else { panic!("compiler bug: `{}` has no dim", entry.name) };
        let Some(over) = self.over(values[0], &[dim], at) else { return Lowered::Poison };
        self.node(
            Op::Call(Call { function: entry.name, grad: false, over: Some(over), count }, values),
            at,
        )
    }
}
