//! The graph of fewer columns, made of the slices that are asked for.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::graph::{
    Axes, Binary, Columns, Constant, Fold, Graph, IndexAxis, Input, InputId, NodeId, Op,
    Orientation, Output, Over, Product, ProductId, Run, Space, Unary,
};
use crate::shape::Dim;

use super::super::refusal::LowerRefusal;
use super::super::rules::Rule;
use super::asked::{Asked, operand_slice, reduced_slices};
use super::slice::{SLICES, Slice};
use super::view::{View, Views};

/// The graph in which the number of columns is the column name's size divided by this.
pub(super) fn narrow(
    graph: &Graph,
    divisor: u32,
    asked: Asked,
) -> Result<(Graph, Views), LowerRefusal> {
    let mut inputs = Inputs { old: graph, views: Vec::new() };
    let (space, products) = inputs.products(divisor, &asked);
    for (id, node) in graph.nodes() {
        if let Op::Input(input) = node.op {
            numbers(asked.slices[id.index()]).for_each(|slice| {
                inputs.body_view(input, slice);
            });
        }
    }
    let declared = inputs.declared();
    let mut new = Graph::new(graph.name(), declared, space, products);
    new.take_statements(graph);
    if inputs.is_ambiguous(&new) {
        return Err(Rule::AmbiguousParts.at_first(graph, |op| matches!(op, Op::Part(..))));
    }
    let narrowing = Narrowing { old: graph, divisor, asked, inputs, new, made: HashMap::new() };
    narrowing.run()
}

/// The slices of a set, in order.
pub(super) fn numbers(set: u64) -> impl Iterator<Item = Slice> {
    (0..SLICES).filter(move |number| set >> number & 1 == 1).map(Slice::numbered)
}

/// The inputs of the new graph: the old ones, and views of some.
struct Inputs<'a> {
    old: &'a Graph,
    views: Vec<View>,
}

impl Inputs<'_> {
    /// The products that are left: one for each slice that is asked for, and one where none is; none of a graph without.
    fn products(&mut self, divisor: u32, asked: &Asked) -> (Space, Vec<Product>) {
        let space = self.old.space();
        let narrow =
            Space { column: space.column_dim(Columns::of_product(divisor)), ..space.clone() };
        let Some(product) = self.old.products().first() else { return (narrow, Vec::new()) };
        let (right, orientation) = product.right;
        let dims = self.old.inputs()[right.0 as usize].dims.as_ref().map_or(0, Vec::len);
        let column = if orientation == Orientation::Plain { dims - 1 } else { dims - 2 };
        let own = space.accumulator_axes().column.unwrap_or(1);
        let halvings = (divisor / own).trailing_zeros();
        let unused = Slice { halvings, ..Slice::WHOLE };
        let mut slices: Vec<Slice> = numbers(asked.products).collect();
        if slices.is_empty() {
            slices.push(unused);
        }
        let of_slice = |slice| Product {
            right: (self.view(right, column, slice), orientation),
            ..product.clone()
        };
        (narrow, slices.into_iter().map(of_slice).collect())
    }

    fn view(&mut self, input: InputId, column: usize, slice: Slice) -> InputId {
        if slice == Slice::WHOLE {
            return input;
        }
        let view = View { columns: Some((column, slice)), ..View::all(input.0 as usize) };
        let known = self.views.iter().position(|known| *known == view);
        let place = known.unwrap_or_else(|| {
            self.views.push(view);
            self.views.len() - 1
        });
        InputId((self.old.inputs().len() + place) as u32)
    }

    /// A view of what the body reads.
    fn body_view(&mut self, input: InputId, slice: Slice) -> InputId {
        match self.old.inputs()[input.0 as usize].dims.as_deref() {
            Some(dims) if slice != Slice::WHOLE => self.view(input, self.column(dims), slice),
            Some(_) | None => input,
        }
    }

    /// Which of a tensor's dims are columns.
    fn column(&self, dims: &[Dim]) -> usize {
        let space = self.old.space();
        let is_column = |dim: &Dim| {
            *dim != space.row && !space.batch.contains(dim) && space.column_divisor(dim).is_some()
        };
        let place = dims.iter().position(is_column);
        place.unwrap_or_else(|| panic!("compiler bug: a view of a tensor without columns"))
    }

    fn declared(&self) -> Vec<Input> {
        let view = |view: &View| {
            let mut input = self.old.inputs()[view.of].clone();
            if let (Some(dims), Some((column, slice))) = (&mut input.dims, view.columns) {
                dims[column] = narrowed(&dims[column], slice);
                input.name = format!("{}.{}", input.name, slice.name());
            }
            input
        };
        self.old.inputs().iter().cloned().chain(self.views.iter().map(view)).collect()
    }

    /// Whether a fixed size that was divided is that of another dim.
    fn is_ambiguous(&self, new: &Graph) -> bool {
        let space = new.space();
        let fixed = matches!(space.column, Dim::Size(_));
        let other = |dim: &Dim| *dim == space.row || space.batch.contains(dim);
        let views = &new.inputs()[self.old.inputs().len()..];
        let columns = self.views.iter().zip(views).filter_map(|(view, input)| {
            let (column, _) = view.columns?;
            Some(&input.dims.as_ref()?[column])
        });
        fixed && columns.chain([&space.column]).any(other)
    }
}

/// A slice's share of a dim.
fn narrowed(dim: &Dim, slice: Slice) -> Dim {
    let parts = 1 << slice.depth();
    match dim {
        Dim::Name { name, divisor } => Dim::Name { name: name.clone(), divisor: divisor * parts },
        Dim::Size(size) => Dim::Size(size / parts),
    }
}

struct Narrowing<'a> {
    old: &'a Graph,
    divisor: u32,
    asked: Asked,
    inputs: Inputs<'a>,
    new: Graph,
    /// The new node of each slice of a value.
    made: HashMap<(NodeId, Slice), NodeId>,
}

impl Narrowing<'_> {
    fn run(mut self) -> Result<(Graph, Views), LowerRefusal> {
        for (id, _) in self.old.nodes() {
            for slice in numbers(self.asked.slices[id.index()]) {
                let made = self.slice(id, slice)?;
                self.made.insert((id, slice), made);
            }
        }
        let mut output_views = Vec::new();
        for (of, output) in self.old.outputs().iter().enumerate() {
            let axes = self.old.space().axes(&output.dims);
            let column = axes.and_then(|axes| axes.column);
            for slice in std::mem::take(&mut self.asked.outputs[of]) {
                let value = self.operand(output.value, column, slice);
                let mut dims = output.dims.clone();
                let mut view = View::all(of);
                if slice != Slice::WHOLE {
                    let column = self.inputs.column(&dims);
                    dims[column] = narrowed(&dims[column], slice);
                    view.columns = Some((column, slice));
                }
                self.new.push_output(Output { dims, value, ..output.clone() });
                output_views.push(view);
            }
        }
        // A fixed size is not divided: it is another one.
        let fixed = matches!(self.old.space().column, Dim::Size(_));
        let views = Views {
            inputs: self.old.inputs().len(),
            of_inputs: self.inputs.views,
            of_outputs: output_views,
            windows: Vec::new(),
            divided: if fixed { self.divisor as usize } else { 1 },
            whole: false,
        };
        Ok((self.new, views))
    }

    fn made(&self, id: NodeId, slice: Slice) -> NodeId {
        let made = self.made.get(&(id, slice)).copied();
        made.unwrap_or_else(|| panic!("compiler bug: {slice:?} of {id} was not asked for"))
    }

    /// The node of an operand's slice for a slice of a value of these columns.
    fn operand(&self, id: NodeId, column: Option<u32>, slice: Slice) -> NodeId {
        let met = operand_slice(self.old, id, column, slice);
        self.made(id, met.unwrap_or_else(|| panic!("compiler bug: {id} meets no {slice:?}")))
    }

    fn slice(&mut self, id: NodeId, slice: Slice) -> Result<NodeId, LowerRefusal> {
        self.new.continue_statement(self.old, id);
        let column = self.old.ty(id).axes.column;
        let op = match &self.old[id].op {
            Op::Accumulator(_) => self.accumulator(slice),
            Op::Input(input) => Op::Input(self.inputs.body_view(*input, slice)),
            Op::Index(IndexAxis::Column) => return Ok(self.column_index(slice)),
            Op::Extent(axes) => return Ok(self.extent(*axes)),
            Op::Part(part, a) => return Ok(self.made(*a, slice.of_part(*part))),
            Op::Merge(merge, a, b) => {
                let of = slice.of_merge(*merge);
                let (place, inner) =
                    of.unwrap_or_else(|| panic!("compiler bug: {slice:?} lies in both of {id}"));
                return Ok(self.made([*a, *b][place], inner));
            }
            Op::Reduce(fold, over @ Over { column: Some(Run::All), .. }, a) => {
                let slices = self.asked.folded[id.index()].take().unwrap_or_default();
                return self.folded(*fold, *over, *a, &slices);
            }
            Op::Reduce(fold, over @ Over { column: Some(Run::Group(run)), .. }, a) => {
                let read = reduced_slices(self.old, self.divisor, *a, *fold, *run, slice);
                let (slices, left) =
                    read.unwrap_or_else(|| panic!("compiler bug: no runs for {slice:?} of {id}"));
                let column = (left > 1).then_some(Run::Group(left));
                return self.folded(*fold, Over { column, ..*over }, *a, &slices);
            }
            Op::Reduce(fold, over @ Over { column: None, .. }, a) => {
                let terms = self.operand(*a, column, slice);
                return self.reduced(*fold, *over, (*a, terms));
            }
            op @ (Op::Pick(..) | Op::ReduceWeighted(_, Over { column: Some(_), .. }, ..)) => {
                op.map(|operand| self.made(operand, Slice::WHOLE))
            }
            Op::Concat(..) => panic!("compiler bug: {id} has parts that are no slices"),
            op @ (Op::Constant(_)
            | Op::Size(_)
            | Op::Index(IndexAxis::Row | IndexAxis::Batch | IndexAxis::BatchDim(_))
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Round(..)
            | Op::Philox(_)
            | Op::Take(..)
            | Op::Entry(..)
            | Op::ReduceWeighted(_, Over { column: None, .. }, ..)
            | Op::Call(..)) => op.map(|operand| self.operand(operand, column, slice)),
        };
        self.met(id, &op)
    }

    /// An operation on slices. They may vary along less than the values that they are of: where their runs of rows do not meet,
    /// they are repeated in every row.
    fn met(&mut self, id: NodeId, op: &Op) -> Result<NodeId, LowerRefusal> {
        if let Ok(made) = self.new.add(op.clone()) {
            return Ok(made);
        }
        if !self.old.ty(id).axes.has_each_row() {
            return Err(Rule::RowRuns.at(self.old, id));
        }
        let op = op.map(|operand| match self.new.ty(operand).axes.row {
            Some(run) if run > 1 => self.repeated(operand),
            Some(_) | None => operand,
        });
        Ok(self.new.make(op))
    }

    fn accumulator(&self, slice: Slice) -> Op {
        let place = numbers(self.asked.products).position(|each| each == slice);
        Op::Accumulator(ProductId(place.unwrap_or(0) as u32))
    }

    /// A reduction of several slices of a value: their elements meet first.
    fn folded(
        &mut self,
        fold: Fold,
        over: Over,
        a: NodeId,
        slices: &[Slice],
    ) -> Result<NodeId, LowerRefusal> {
        let mut terms: Vec<NodeId> = slices.iter().map(|slice| self.made(a, *slice)).collect();
        let left = over != Over::NOTHING;
        if fold.uses_index() && !left {
            return Err(Rule::WholeFoldBesideParts.at(&self.new, terms[0]));
        }
        if fold == Fold::AbsMax && (terms.len() > 1 || !left) {
            for term in &mut terms {
                *term = self.new.make(Op::Unary(Unary::Abs, *term));
            }
        }
        let op = match fold {
            Fold::Sum => Binary::Add,
            Fold::Prod => Binary::Multiply,
            // What does not combine is read as one slice.
            Fold::Max
            | Fold::AbsMax
            | Fold::LogSumExp
            | Fold::LogSumExpAboveMax
            | Fold::ArgMax
            | Fold::ArgMin
            | Fold::Top(_)
            | Fold::Weighted(_) => Binary::Maximum,
            Fold::Min => Binary::Minimum,
        };
        let both = |first: NodeId, second: &NodeId| self.new.make(Op::Binary(op, first, *second));
        let all = terms[1..].iter().fold(terms[0], both);
        if left { self.reduced(fold, over, (a, all)) } else { Ok(all) }
    }

    /// A reduction of terms that may be a part of merged values (`of`) and vary along less than the other part: they are
    /// repeated in every row.
    fn reduced(
        &mut self,
        fold: Fold,
        over: Over,
        (of, terms): (NodeId, NodeId),
    ) -> Result<NodeId, LowerRefusal> {
        let (axes, whole) = (self.new.ty(terms).axes, self.old.ty(of).axes);
        if over.batch && !axes.batch {
            return Err(Rule::SharedParts.at(&self.new, terms));
        }
        let fewer_rows = over.row.is_some() && axes.row != whole.row;
        if fewer_rows && !whole.has_each_row() {
            return Err(Rule::RowRuns.at(&self.new, terms));
        }
        let terms = if fewer_rows { self.repeated(terms) } else { terms };
        Ok(self.new.make(Op::Reduce(fold, over, terms)))
    }

    /// A value in every row.
    fn repeated(&mut self, id: NodeId) -> NodeId {
        let row = self.new.make(Op::Index(IndexAxis::Row));
        let condition = self.new.make(Op::Binary(Binary::Equal, row, row));
        self.new.make(Op::Select(condition, id, id))
    }

    /// How many elements these axes have: of a name's size as it was, of a fixed one what it was.
    fn extent(&mut self, axes: Axes) -> NodeId {
        let (Dim::Size(size), Some(divisor)) = (&self.old.space().column, axes.column) else {
            return self.new.make(Op::Extent(axes));
        };
        let columns = self.new.make(Op::number((size / divisor) as f32));
        let rest = Axes { column: None, ..axes };
        if rest == Axes::SCALAR {
            return columns;
        }
        let rest = self.new.make(Op::Extent(rest));
        self.new.make(Op::Binary(Binary::Multiply, rest, columns))
    }

    /// The number that a column of a slice has among all.
    fn column_index(&mut self, slice: Slice) -> NodeId {
        let mut index = self.new.make(Op::Index(IndexAxis::Column));
        if slice.half > 0 {
            let own = Axes { column: self.new.ty(index).axes.column, ..Axes::SCALAR };
            let own = self.new.make(Op::Extent(own));
            let own = self.new.make(Op::Cast(DType::I32, own));
            let before = self.times(own, slice.half);
            index = self.new.make(Op::Binary(Binary::Add, index, before));
        }
        if slice.pairings > 0 {
            let strided = self.times(index, 1 << slice.pairings);
            let first = self.new.make(Op::Constant(Constant::I32(slice.pair as i32)));
            index = self.new.make(Op::Binary(Binary::Add, strided, first));
        }
        index
    }

    /// An integer multiplied by a factor.
    fn times(&mut self, id: NodeId, times: u32) -> NodeId {
        match times {
            1 => id,
            2 => self.new.make(Op::Binary(Binary::Add, id, id)),
            _ => {
                let times = self.new.make(Op::Constant(Constant::I32(times as i32)));
                self.new.make(Op::Binary(Binary::Multiply, id, times))
            }
        }
    }
}
