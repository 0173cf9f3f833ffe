//! Reductions and composites along a dim.

use crate::catalogue::Entry;
use crate::dtype::Elem;
use crate::graph::{Binary, Call, Fold, IndexAxis, NodeId, Op, Over, Run};
use crate::shape::{self, Dim};
use crate::syntax::{ExprId, ExprKind, Number, Span};

use super::error::CheckError;
use super::stack::MOST_TOP;
use super::{Body, Lowered, dims};

/// Wider runs than any tile will ever hold are a mistake.
const WIDEST_RUN: i64 = 1 << 20;

/// The dim that an argument of a reduction names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dimension {
    Batch,
    Row,
    Column,
}

impl Body<'_> {
    pub(super) fn lower_reduction(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        let [value, dims @ ..] = arguments else {
            return self.wrong_count(entry.name, "a value and dims as", arguments, at);
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
            let elementwise =
                format!("{}imum({}, {})", entry.name, self.text(*value), self.text(*second));
            let reduced = self
                .meant_call(entry, arguments)
                .filter(|_| self.text(*second).parse::<i64>().is_ok());
            let function = entry.name.to_owned();
            return self.report(CheckError::ReducesOne { function, elementwise, reduced, at });
        }
        if self.refuse_numbered_dim(entry, arguments) {
            return Lowered::Poison;
        }
        let Some(over) = self.over(node, dims, at) else { return Lowered::Poison };
        let fold = Fold::from_name(entry.name);
        if matches!(entry.name, "mean" | "logsumexp" | "var") {
            match self.convert(Lowered::Node(node), Elem::F32, value_at) {
                Some(float) => node = float,
                None => return Lowered::Poison,
            }
        }
        if let Some(folded) = self.fold_segments(fold, entry.name, (over, node), at) {
            return folded;
        }
        if entry.name == "var" {
            return self.variance(node, over, at);
        }
        match fold {
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
            let over = Over::all(axes);
            return self.folds_batches(node, &[], over, at).then_some(over);
        }
        let mut over = Over::NOTHING;
        let mut batches = Vec::new();
        let mut previous = Dimension::Batch;
        for argument in arguments {
            let at = self.exprs[*argument].span;
            let length = match self.exprs[*argument].kind {
                ExprKind::Number(Number::Integer(length))
                    if !self.is_size(length) || previous == Dimension::Column =>
                {
                    Some(length)
                }
                _ => None,
            };
            let Some(length) = length else {
                previous = self.fold_dim(node, *argument, &mut over, &mut batches)?;
                continue;
            };
            match previous {
                Dimension::Row => over.row = Some(Run::Group(self.run_width(length, at)?)),
                Dimension::Column => over.column = Some(Run::Group(self.run_width(length, at)?)),
                Dimension::Batch => {
                    let space = self.graph.space();
                    let (row, column) = (space.row.to_string(), space.column.to_string());
                    self.report(CheckError::GroupPlace { row, column, at });
                    return None;
                }
            }
            previous = Dimension::Batch;
        }
        if !self.folds_batches(node, &batches, over, at) {
            return None;
        }
        // A run of one row beside other terms folds nothing.
        let rest = Over { row: None, ..over };
        let one_row = over.row == Some(Run::Group(1)) && rest != Over::NOTHING;
        let over = if one_row { rest } else { over };
        if self.folds_segments_alone(node, over) {
            let segments = self.graph.space().batch.iter().map(Dim::to_string).collect();
            self.report(CheckError::SegmentsAlone { segments, at });
            return None;
        }
        Some(over)
    }

    /// Whether an integer is the size of a dim that the body has.
    pub(super) fn is_size(&self, size: i64) -> bool {
        let space = self.graph.space();
        u32::try_from(size).is_ok_and(|size| space.axes(&[Dim::Size(size)]).is_some())
    }

    fn run_width(&mut self, width: i64, at: Span) -> Option<u32> {
        if (1..=WIDEST_RUN).contains(&width) {
            return Some(width as u32);
        }
        self.report(CheckError::GroupWidth { at });
        None
    }

    /// Adds one dim to what is folded; which it was. Those of the batch are listed.
    fn fold_dim(
        &mut self,
        node: NodeId,
        argument: ExprId,
        over: &mut Over,
        batches: &mut Vec<Dim>,
    ) -> Option<Dimension> {
        let at = self.exprs[argument].span;
        let Some(dim) = dims::read(self.exprs, argument) else {
            self.report(CheckError::DimExpected { at });
            return None;
        };
        let space = self.graph.space();
        let axes = self.graph.ty(node).axes;
        let (has, already, dimension) = if space.batch.contains(&dim) {
            let already = batches.contains(&dim);
            over.batch = true;
            batches.push(dim.clone());
            (axes.batch, already, Dimension::Batch)
        } else if let Some(run) = space.row_run(&dim) {
            (axes.row == Some(run), over.row.replace(Run::All).is_some(), Dimension::Row)
        } else {
            let columns = space.columns(&dim);
            (
                columns.is_some() && columns == axes.columns(),
                over.column.replace(Run::All).is_some(),
                Dimension::Column,
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
        Some(dimension)
    }

    /// Whether a reduction may fold the batch as it does; reported where not. `listed` are the batch dims that it names,
    /// none where it folds all dims.
    fn folds_batches(&mut self, node: NodeId, listed: &[Dim], over: Over, at: Span) -> bool {
        let batch = &self.graph.space().batch;
        if !over.batch || batch.len() < 2 {
            return true;
        }
        let dims = shape::list(batch);
        let bit = |(place, dim)| u8::from(listed.is_empty() || listed.contains(dim)) << place;
        let folded: u8 = (0..).zip(batch).map(bit).sum();
        if self.batch_dims(node) & folded != folded {
            self.report(CheckError::ReducesShared { dims, at });
            return false;
        }
        if folded + 1 != 1 << self.graph.space().batch.len() {
            // Folds that have a graph of their own do not come here.
            let folded = shape::list(listed);
            self.report(CheckError::SomeBatchDims { folded, dims, at });
            return false;
        }
        true
    }

    /// The batch dims that a value varies along where it is written, in bits. The graph repeats a value of some of them
    /// along the others, which a reduction along them would count.
    fn batch_dims(&mut self, node: NodeId) -> u8 {
        let space = self.graph.space();
        let all = (1 << space.batch.len()) - 1;
        for (id, each) in self.graph.nodes().skip(self.batch_dims.len()) {
            let own = match &each.op {
                _ if !each.ty.axes.batch => 0,
                Op::Accumulator(_) | Op::Index(IndexAxis::Batch) => all,
                Op::Index(IndexAxis::BatchDim(place)) => 1 << place,
                Op::Input(input) => {
                    let dims = self.graph.inputs()[input.0 as usize].dims.as_deref();
                    let has = |dim: &Dim| dims.is_some_and(|dims| dims.contains(dim));
                    let bits =
                        (0..).zip(&space.batch).map(|(place, dim)| u8::from(has(dim)) << place);
                    bits.sum()
                }
                op => op.operands().fold(0, |all, operand| all | self.batch_dims[operand.index()]),
            };
            debug_assert_eq!(id.index(), self.batch_dims.len());
            self.batch_dims.push(own);
        }
        self.batch_dims[node.index()]
    }

    pub(super) fn lower_composite(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        if arguments.len() != entry.parameters.len() {
            let takes = entry.parameters.len().to_string();
            return self.wrong_count(entry.name, &takes, arguments, at);
        }
        if self.refuse_numbered_dim(entry, arguments) {
            return Lowered::Poison;
        }
        let mut values = Vec::new();
        let mut dim = None;
        let mut count = 0;
        for (place, argument) in arguments.iter().enumerate() {
            match entry.parameter(place) {
                "dim" => dim = Some(*argument),
                "k" => match self.exprs[*argument].kind {
                    ExprKind::Number(Number::Integer(k)) if (1..=MOST_TOP).contains(&k) => {
                        count = k as u32;
                    }
                    _ => {
                        return self.report(CheckError::Count {
                            function: entry.name.to_owned(),
                            most: MOST_TOP,
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
        // The largest of a segment would be told apart by their indices, which are counted through all rows.
        if count > 0 && over.row.is_some() && self.graph.space().is_segmented() {
            let function = entry.name.to_owned();
            return self.report(CheckError::SegmentsFold { function, at });
        }
        self.node(
            Op::Call(Call { function: entry.name, grad: false, over: Some(over), count }, values),
            at,
        )
    }
}
