//! Sums of rows and of elements by their numbers: `scatter(x, index, S)` and `scatter(x, position, S, weight)`.
//!
//! In: the call. Out: its graph. Elements are folded along their own dims, beside a dim of as many columns as there are
//! sums. Rows are multiplied with the ones, or the weights, that stand where a row is counted: sums have an order of their
//! own, and need no atomics. Invariant: numbers outside of the sums count nowhere; rows that no segment has written are 0.

use crate::dtype::{DType, Elem};
use crate::graph::{
    Binary, Constant, Fold, Graph, IndexAxis, Input, InputId, NodeId, Op, Orientation, Over,
    Product, ProductId, Run, Space,
};
use crate::shape::{self, Dim};
use crate::syntax::{ExprId, Span};

use super::dims;
use super::error::CheckError;
use super::separate::Reports;
use super::stack::MOST_TOP;

/// The function that sums by numbers.
pub(super) const SCATTER: &str = "scatter";

/// The graph of a call, and its value there.
pub(super) fn graph(
    reports: &mut Reports<'_, '_>,
    arguments: &[ExprId],
    at: Span,
) -> Option<(Graph, NodeId)> {
    let exprs = reports.exprs();
    let (x, index, dim, weight) = match arguments {
        [x, index, dim] => (x, index, dim, None),
        [x, index, dim, weight] => (x, index, dim, Some(weight)),
        _ => {
            let (given, call) = (arguments.len(), "scatter(x, index, dim, weight=1)".to_owned());
            let error = CheckError::argument_count(SCATTER, "3 to 4", given, (call, None), at);
            return reports.report(error);
        }
    };
    let Some(sums) = dims::read(exprs, *dim) else {
        return reports.report(CheckError::DimExpected { at: exprs[*dim].span });
    };
    if !reports.is_declared(&sums) {
        let (dim, nearest, at) = (sums.to_string(), None, exprs[*dim].span);
        return reports.report(CheckError::UnknownSize { dim, nearest, at });
    }
    let (x, index) = (reports.tensor(*x, "table")?, reports.tensor(*index, "index")?);
    let weight = match weight {
        Some(weight) => Some(reports.tensor(*weight, "weight")?),
        None => None,
    };
    let [own, numbers] = [&x, &index].map(|tensor| tensor.dims.clone().unwrap_or_default());
    let fits = index.dtype == DType::I32
        && x.dtype.elem() != Elem::Bool
        && !own.iter().chain(&numbers).any(|dim| dim.same_base(&sums));
    let rows = match (own.as_slice(), numbers.as_slice()) {
        ([row, column], [number, list @ ..])
            if row == number && own != numbers && !row.same_base(column) =>
        {
            let count = match list {
                [] => Some(None),
                [Dim::Size(count)] if i64::from(*count) <= MOST_TOP => Some(Some(*count)),
                _ => None,
            };
            count.map(|count| Rows { row: row.clone(), column: column.clone(), count })
        }
        _ => None,
    };
    let weighs = |weight: &Input| weight.dims == index.dims && weight.dtype.elem() == Elem::F32;
    match rows {
        Some(rows) if fits && weight.as_ref().is_none_or(weighs) => {
            rows.graph(reports, (x, index, weight), sums)
        }
        None if fits && own == numbers && (1..=3).contains(&own.len()) && weight.is_none() => {
            Some(elements(reports, [&x, &index], sums))
        }
        Some(_) | None => {
            let [x, index] = [&own, &numbers].map(|dims| shape::list(dims));
            reports.report(CheckError::Scatter { x, index, sums: sums.to_string(), at })
        }
    }
}

/// Elements that are summed by a number each.
fn elements(reports: &Reports<'_, '_>, tensors: [&Input; 2], sums: Dim) -> (Graph, NodeId) {
    let mut batch = tensors[0].dims.clone().unwrap_or_default();
    let row = batch.pop().unwrap_or(Dim::Size(1));
    let over = Over { batch: !batch.is_empty(), row: Some(Run::All), column: None };
    let (mut graph, [x, index]) = reports.graph(Space::new(batch, row, sums), tensors);
    let [x, index, column] =
        [Op::Input(x), Op::Input(index), Op::Index(IndexAxis::Column)].map(|op| graph.make(op));
    let counts = graph.make(Op::Binary(Binary::Equal, index, column));
    let x = graph.make(Op::Cast(DType::F32, x));
    let zero = graph.make(Op::number(0.0));
    let term = graph.make(Op::Select(counts, x, zero));
    let value = graph.make(Op::Reduce(Fold::Sum, over, term));
    (graph, value)
}

/// Rows that are summed by a number each, or by several.
struct Rows {
    row: Dim,
    column: Dim,
    /// How many numbers a row has, where they are a list.
    count: Option<u32>,
}

impl Rows {
    fn graph(
        &self,
        reports: &mut Reports<'_, '_>,
        (x, index, weight): (Input, Input, Option<Input>),
        sums: Dim,
    ) -> Option<(Graph, NodeId)> {
        let x = self.operand(reports, x);
        let weights = self.weights(reports, &index, weight.as_ref(), (&sums, x.dtype));
        let space = Space::new(Vec::new(), sums, self.column.clone());
        let (graph, [left, right]) = reports.graph(space, [&weights, &x]);
        let plain = Orientation::Plain;
        let (space, product) = Product::of(graph.inputs(), (left, plain), (right, plain))?;
        let mut graph = Graph::new(graph.name(), graph.inputs().to_vec(), space, vec![product]);
        let value = graph.make(Op::Accumulator(ProductId::FIRST));
        Some((graph, value))
    }

    /// The rows as an operand: of a dtype that weights have, and 0 where no segment has written them.
    fn operand(&self, reports: &Reports<'_, '_>, x: Input) -> Input {
        let ends = reports.unit.computed.unwritten(&x.name);
        let kept = matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16);
        if kept && ends.is_none() {
            return x;
        }
        let dtype = if kept { x.dtype } else { DType::F32 };
        let space = Space::new(Vec::new(), self.row.clone(), self.column.clone());
        let (mut graph, [place]) = reports.graph(space, [&x]);
        let ends = ends.and_then(|ends| {
            let place = graph.inputs().iter().position(|input| input.name == ends)?;
            Some(InputId(place as u32))
        });
        let value = match ends {
            None => graph.make(Op::Input(place)),
            Some(ends) => written(&mut graph, place, ends),
        };
        let value = graph.make(Op::Cast(dtype, value));
        reports.store(&graph, value, "rows", dtype)
    }

    /// What each row counts in each sum.
    fn weights(
        &self,
        reports: &Reports<'_, '_>,
        index: &Input,
        weight: Option<&Input>,
        (sums, dtype): (&Dim, DType),
    ) -> Input {
        let space = Space::new(Vec::new(), sums.clone(), self.row.clone());
        let (mut graph, [numbers, weights]) =
            reports.graph(space, [index, weight.unwrap_or(index)]);
        let [own, row, one, zero] = [
            Op::Index(IndexAxis::Row),
            Op::Index(IndexAxis::Column),
            Op::number(1.0),
            Op::number(0.0),
        ]
        .map(|op| graph.make(op));
        let mut total: Option<NodeId> = None;
        for place in 0..self.count.unwrap_or(1) {
            let place = graph.make(Op::Constant(Constant::I32(place as i32)));
            let entry = |graph: &mut Graph, table: InputId| match self.count {
                Some(_) => graph.make(Op::Entry(table, row, place)),
                None => graph.make(Op::Input(table)),
            };
            let number = entry(&mut graph, numbers);
            let weight = if weight.is_some() { entry(&mut graph, weights) } else { one };
            let counts = graph.make(Op::Binary(Binary::Equal, number, own));
            let term = graph.make(Op::Select(counts, weight, zero));
            total = Some(match total {
                Some(total) => graph.make(Op::Binary(Binary::Add, total, term)),
                None => term,
            });
        }
        let value = graph.make(Op::Cast(dtype, total.unwrap_or(zero)));
        reports.store(&graph, value, "weights", dtype)
    }
}

/// The elements of rows that segments have written, and 0 in others.
fn written(graph: &mut Graph, table: InputId, ends: InputId) -> NodeId {
    let dims = graph.inputs()[ends.0 as usize].dims.clone().unwrap_or_default();
    let count = graph.make(Op::Size(dims[0].clone()));
    let [one, none] = [1, -1].map(|value| graph.make(Op::Constant(Constant::I32(value))));
    let last = graph.make(Op::Binary(Binary::Subtract, count, one));
    let end = graph.make(Op::Take(ends, last));
    let [row, column, zero] =
        [Op::Index(IndexAxis::Row), Op::Index(IndexAxis::Column), Op::number(0.0)]
            .map(|op| graph.make(op));
    let is_written = graph.make(Op::Binary(Binary::Less, row, end));
    let row = graph.make(Op::Select(is_written, row, none));
    let element = graph.make(Op::Entry(table, row, column));
    graph.make(Op::Select(is_written, element, zero))
}
