//! The graph of half as many columns.

use std::borrow::Cow;

use crate::dtype::DType;
use crate::graph::{
    Axes, Binary, Constant, Fold, Graph, IndexAxis, Input, InputId, NodeId, Op, Orientation,
    Output, Over, Part, Product, Run, Unary,
};
use crate::shape::Dim;

use super::super::Sm90Refusal;
use super::ways::{Way, Ways};
use super::{View, Viewed};

pub(super) fn lower(graph: &Graph) -> Result<Viewed<'_>, Sm90Refusal> {
    let ways = Ways::of(graph)?;
    let product = graph.product();
    let mut inputs = Inputs { old: graph, full: ways.full, views: Vec::new() };
    let halved = match product_way(graph, &ways)? {
        Some(way) => {
            let (right, orientation) = product.right;
            let last = graph.inputs()[right.0 as usize].dims.as_ref().map_or(0, Vec::len) - 1;
            let column = if orientation == Orientation::Plain { last } else { last - 1 };
            let [first, second] = way.parts().map(|part| inputs.view(right, column, part));
            let column = product.column_dim(2 * ways.full);
            Product { right: (first, orientation), second: Some(second), column, ..product.clone() }
        }
        None => product.clone(),
    };
    for (id, node) in graph.nodes() {
        if let (Op::Input(input), true) = (&node.op, ways.is_full(graph, id)) {
            for way in ways.asked_of(id) {
                for part in way.parts() {
                    inputs.body_view(*input, part);
                }
            }
        }
    }
    let declared = inputs.declared(&halved);
    let new = Graph::new(graph.name(), declared, halved);
    let lowering = Lowering { old: graph, ways, inputs, new, made: Vec::new() };
    lowering.run()
}

/// The way in which the product itself is split, if it has full width.
fn product_way(graph: &Graph, ways: &Ways) -> Result<Option<Way>, Sm90Refusal> {
    if graph.product().accumulator_axes().column != Some(ways.full) {
        return Ok(None);
    }
    let accumulator = graph.nodes().find(|(_, node)| node.op == Op::Accumulator);
    match accumulator.map(|(id, _)| ways.asked_of(id)).unwrap_or_default()[..] {
        [] => Ok(Some(Way::Halves)),
        [way] => Ok(Some(way)),
        _ => Err(refused("halves and pairs of one product")),
    }
}

fn refused(what: &str) -> Sm90Refusal {
    Sm90Refusal::Operation { what: what.to_owned() }
}

/// The inputs of the new graph: the old ones, and views of some.
struct Inputs<'a> {
    old: &'a Graph,
    full: u32,
    views: Vec<View>,
}

impl Inputs<'_> {
    fn view(&mut self, input: InputId, column: usize, part: Part) -> InputId {
        let view = View { of: input.0 as usize, part: Some((column, part)) };
        let known = self.views.iter().position(|known| *known == view);
        let place = known.unwrap_or_else(|| {
            self.views.push(view);
            self.views.len() - 1
        });
        InputId((self.old.inputs().len() + place) as u32)
    }

    /// A view of what the body reads.
    fn body_view(&mut self, input: InputId, part: Part) -> InputId {
        let dims = self.old.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
        self.view(input, self.column(dims), part)
    }

    /// Which of a tensor's dims are columns of full width.
    fn column(&self, dims: &[Dim]) -> usize {
        let product = self.old.product();
        let is_column = |dim: &Dim| {
            *dim != product.row
                && product.batch.as_ref() != Some(dim)
                && product.column_divisor(dim) == Some(self.full)
        };
        let place = dims.iter().position(is_column);
        place.unwrap_or_else(|| panic!("compiler bug: a view of a tensor without columns"))
    }

    fn declared(&self, product: &Product) -> Vec<Input> {
        let half = match product.second {
            Some(_) => product.column.clone(),
            None => product.column_dim(2 * self.full),
        };
        let view = |view: &View| {
            let mut input = self.old.inputs()[view.of].clone();
            if let (Some(dims), Some((column, part))) = (&mut input.dims, view.part) {
                dims[column] = half.clone();
                input.name = format!("{}.{}", input.name, part.name());
            }
            input
        };
        self.old.inputs().iter().cloned().chain(self.views.iter().map(view)).collect()
    }
}

/// What became of a value.
#[derive(Clone, Copy)]
enum Made {
    /// It has not full width.
    One(NodeId),
    /// Its two parts, for each way in which they are asked for.
    Two([Option<[NodeId; 2]>; 2]),
}

struct Lowering<'a> {
    old: &'a Graph,
    ways: Ways,
    inputs: Inputs<'a>,
    new: Graph,
    made: Vec<Option<Made>>,
}

impl<'a> Lowering<'a> {
    fn run(mut self) -> Result<Viewed<'a>, Sm90Refusal> {
        let live = self.old.live();
        for (id, _) in self.old.nodes() {
            let made = match live[id.index()] {
                false => None,
                true if self.ways.is_full(self.old, id) => {
                    let mut two = [None; 2];
                    for way in self.ways.asked_of(id) {
                        let [first, second] = way.parts();
                        two[way as usize] = Some([self.part(id, first), self.part(id, second)]);
                    }
                    Some(Made::Two(two))
                }
                true => Some(Made::One(self.whole(id)?)),
            };
            self.made.push(made);
        }
        let mut output_views = Vec::new();
        for (of, output) in self.old.outputs().iter().enumerate() {
            let axes = self.old.product().axes(&output.dims);
            if axes.and_then(|axes| axes.column) != Some(self.ways.full) {
                let value = self.one(output.value);
                self.new.push_output(Output { value, ..output.clone() });
                output_views.push(View { of, part: None });
                continue;
            }
            if output.dtype == DType::B1 {
                return Err(refused("packed bits of full width beside halves or pairs"));
            }
            let way = self.ways.asked_of(output.value).first().copied();
            let values = match way {
                Some(way) => self.two(output.value, way),
                None if self.old.ty(output.value).axes.column.is_none() => {
                    [self.one(output.value); 2]
                }
                None => return Err(refused("a value repeated along columns")),
            };
            let way = way.unwrap_or(Way::Halves);
            let column = self.inputs.column(&output.dims);
            for (part, value) in way.parts().into_iter().zip(values) {
                let mut dims = output.dims.clone();
                dims[column] = self.new.product().column.clone();
                self.new.push_output(Output { dims, value, ..output.clone() });
                output_views.push(View { of, part: Some((column, part)) });
            }
        }
        Ok(Viewed {
            graph: Cow::Owned(self.new),
            inputs: self.old.inputs().len(),
            input_views: self.inputs.views,
            output_views,
        })
    }

    fn one(&self, id: NodeId) -> NodeId {
        match self.made[id.index()] {
            Some(Made::One(one)) => one,
            Some(Made::Two(_)) | None => panic!("compiler bug: {id} is not of half the width"),
        }
    }

    fn two(&self, id: NodeId, way: Way) -> [NodeId; 2] {
        match self.made[id.index()] {
            Some(Made::Two(two)) => two[way as usize],
            Some(Made::One(_)) | None => None,
        }
        .unwrap_or_else(|| panic!("compiler bug: {id} was not split"))
    }

    fn part_of(&self, id: NodeId, part: Part) -> NodeId {
        let way = Way::of_part(part);
        let [first, second] = self.two(id, way);
        if part == way.parts()[0] { first } else { second }
    }

    /// A value that has not full width.
    fn whole(&mut self, id: NodeId) -> Result<NodeId, Sm90Refusal> {
        let op = match &self.old[id].op {
            Op::Part(part, a) => return Ok(self.part_of(*a, *part)),
            Op::Reduce(fold, over, a) if self.ways.is_full(self.old, *a) => {
                return self.folded(*fold, *over, *a);
            }
            Op::Pick(a, _) if self.ways.is_full(self.old, *a) => {
                return Err(refused("pick of full width beside halves or pairs"));
            }
            Op::Extent(axes) => return Ok(self.extent(*axes)),
            op => op.map(|operand| self.one(operand)),
        };
        Ok(self.new.make(op))
    }

    /// A reduction over all columns: elements of the two parts meet first.
    fn folded(&mut self, fold: Fold, over: Over, a: NodeId) -> Result<NodeId, Sm90Refusal> {
        let way = self.ways.asked_of(a).first().copied();
        let (Some(way), Some(Run::All)) = (way, over.column) else {
            return Err(refused("runs of columns beside halves or pairs"));
        };
        let [first, second] = self.two(a, way);
        let op = match fold {
            Fold::Sum => Binary::Add,
            Fold::Prod => Binary::Multiply,
            Fold::Max | Fold::AbsMax => Binary::Maximum,
            Fold::Min => Binary::Minimum,
            Fold::LogSumExp | Fold::Largest(_) => {
                let what = format!("{} of full width beside halves or pairs", fold.name());
                return Err(Sm90Refusal::Operation { what });
            }
        };
        let [first, second] = match fold {
            Fold::AbsMax => [first, second].map(|part| self.magnitude(part)),
            _ => [first, second],
        };
        let both = self.new.make(Op::Binary(op, first, second));
        Ok(self.new.make(Op::Reduce(fold, over, both)))
    }

    fn magnitude(&mut self, id: NodeId) -> NodeId {
        self.new.make(Op::Unary(Unary::Abs, id))
    }

    /// How many elements these axes have: of a name's size as it was, of a fixed one what it was.
    fn extent(&mut self, axes: Axes) -> NodeId {
        let (Dim::Size(size), Some(divisor)) = (&self.old.product().column, axes.column) else {
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

    /// A part of a value of full width.
    fn part(&mut self, id: NodeId, part: Part) -> NodeId {
        let way = Way::of_part(part);
        let is_first = part == way.parts()[0];
        let op = match &self.old[id].op {
            Op::Accumulator if is_first => Op::Accumulator,
            Op::Accumulator => Op::SecondAccumulator,
            Op::Input(input) => Op::Input(self.inputs.body_view(*input, part)),
            Op::Index(IndexAxis::Column) => return self.column_index(part),
            Op::Merge(_, first, second) => {
                return self.one(if is_first { *first } else { *second });
            }
            op => op.map(|operand| match self.made[operand.index()] {
                Some(Made::Two(_)) => self.part_of(operand, part),
                Some(Made::One(_)) | None => self.one(operand),
            }),
        };
        self.new.make(op)
    }

    /// The number that a column of a part has among all.
    fn column_index(&mut self, part: Part) -> NodeId {
        let own = self.new.make(Op::Index(IndexAxis::Column));
        match part {
            Part::First => own,
            Part::Second => {
                let half = Axes { column: self.new.ty(own).axes.column, ..Axes::SCALAR };
                let half = self.new.make(Op::Extent(half));
                let half = self.new.make(Op::Cast(DType::I32, half));
                self.new.make(Op::Binary(Binary::Add, own, half))
            }
            Part::Even | Part::Odd => {
                let twice = self.new.make(Op::Binary(Binary::Add, own, own));
                let odd = Op::Constant(Constant::I32(i32::from(part == Part::Odd)));
                let odd = self.new.make(odd);
                self.new.make(Op::Binary(Binary::Add, twice, odd))
            }
        }
    }
}
