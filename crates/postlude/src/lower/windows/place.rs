//! The graph with every value at the product's columns.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::graph::fold::Gives;
use crate::graph::{
    Binary, Columns, Concat, Constant, Fold, Graph, IndexAxis, Input, InputId, Kind, NodeId, Op,
    Output, Over, Part, Run, Space,
};
use crate::lower::refusal::LowerRefusal;
use crate::lower::rules::Rule;
use crate::lower::views::{Number, View, Views};
use crate::shape::Dim;

use super::context::{Context, Contexts};

pub(super) struct Placing<'a> {
    old: &'a Graph,
    contexts: Contexts<'a>,
    new: Graph,
    views: Vec<View>,
    made: HashMap<(NodeId, Context), NodeId>,
    placed: HashMap<(InputId, Context), InputId>,
    numbers: HashMap<Number, InputId>,
}

impl<'a> Placing<'a> {
    pub(super) fn new(old: &'a Graph, contexts: Contexts<'a>) -> Placing<'a> {
        let space = Space { parts: Vec::new(), splits: Vec::new(), ..old.space().clone() };
        let (inputs, products) = (old.inputs().to_vec(), old.products().to_vec());
        let mut new = Graph::new(old.name(), inputs, space, products);
        new.take_statements(old);
        let (made, placed, numbers) = (HashMap::new(), HashMap::new(), HashMap::new());
        Placing { old, contexts, new, views: Vec::new(), made, placed, numbers }
    }

    pub(super) fn run(mut self) -> Result<(Graph, Views), LowerRefusal> {
        for (id, _) in self.old.nodes() {
            for context in self.contexts.needed[id.index()].clone() {
                let made = self.place(id, context)?;
                self.made.insert((id, context), made);
            }
        }
        let mut outputs = Vec::new();
        for (of, output) in self.old.outputs().iter().enumerate() {
            let context = self.contexts.outputs[of];
            let value = self.operand(output.value, context);
            let dims = match context {
                Some(_) if self.contexts.is_folded(context) => {
                    return Err(Rule::RunParts.at(self.old, output.value));
                }
                Some(_) if output.dtype == DType::B1 => {
                    return Err(Rule::PackedParts.at(self.old, output.value));
                }
                Some(_) => self.whole_dims(&output.dims, context, output.value)?,
                None => output.dims.clone(),
            };
            self.new.push_output(Output { dims, value, ..output.clone() });
            outputs.push(View::windowed(of, context));
        }
        let inputs = self.old.inputs().len();
        let windows = self.contexts.windows();
        Ok((self.new, Views::of_windows(inputs, self.views, outputs, windows)))
    }

    /// The node of an operand for a user in a window.
    fn operand(&self, id: NodeId, context: Context) -> NodeId {
        let context = context.filter(|_| self.old.ty(id).axes.column.is_some());
        let made = self.made.get(&(id, context)).copied();
        made.unwrap_or_else(|| panic!("compiler bug: {id} is not needed in {context:?}"))
    }

    fn place(&mut self, id: NodeId, context: Context) -> Result<NodeId, LowerRefusal> {
        self.new.continue_statement(self.old, id);
        if let Some(columns) = self.old.ty(id).axes.columns() {
            // Such as the whole of pairs that stand for a part.
            if !self.contexts.holds(columns, context) {
                return Err(Rule::NamedParts.at(self.old, id));
            }
            let run = self.contexts.run(columns, context);
            if run > 1 && self.contexts.is_folded(context) {
                return Err(Rule::RunsOfParts.at(self.old, id));
            }
            self.contexts.note_run(context, run);
        }
        let op = match &self.old[id].op {
            Op::Input(input) if context.is_some() => Op::Input(self.input(id, *input, context)?),
            Op::Extent(axes) if axes.part > 0 => {
                let dims = self.old.space().dims(*axes);
                return Ok(self.number(Number::Product(dims)));
            }
            Op::Part(Part::Even | Part::Odd, _) => {
                self.old[id].op.map(|operand| self.operand(operand, context))
            }
            Op::Part(Part::Equal { index, count, run: Some(run) }, a) => {
                let axes = self.old.ty(*a).axes;
                let parent = self.contexts.parent(context);
                let single = axes.columns().is_some_and(|it| self.contexts.run(it, parent) == 1);
                if axes.kind() != Kind::Tile || !single {
                    return Err(Rule::RunParts.at(self.old, id));
                }
                let part = Part::Repeated { index: *index, count: *count, run: *run };
                Op::Part(part, self.operand(*a, parent))
            }
            // A part is the columns of its window, wherever they are used.
            Op::Part(_, a) => return Ok(self.operand(*a, self.contexts.parent(context))),
            Op::Merge(..) | Op::Concat(..) => return self.put_together(id, context),
            Op::Reduce(fold, over @ Over { column: Some(Run::All), .. }, a) => {
                let of = self.contexts.settled(*a);
                let terms = self.operand(*a, of);
                let is_list = matches!(fold, Fold::Top(_)) && self.start(of).is_some();
                let folded = if is_list {
                    let one = self.new.make(Op::number(1.0));
                    let weights = self.counted(Fold::Sum, (*a, one), of)?;
                    self.new.make(Op::ReduceWeighted(*fold, *over, terms, weights))
                } else {
                    let counted = self.counted(*fold, (*a, terms), of)?;
                    self.new.make(Op::Reduce(*fold, *over, counted))
                };
                return self.index_in(id, folded, of);
            }
            Op::Pick(of, index) => {
                let window = self.contexts.settled(*of);
                if self.contexts.is_folded(window) {
                    return Err(Rule::RunParts.at(self.old, id));
                }
                let terms = self.operand(*of, window);
                let index = self.operand(*index, None);
                Op::Pick(terms, self.shifted(index, window))
            }
            op => op.map(|operand| self.operand(operand, context)),
        };
        Ok(self.new.make(op))
    }

    /// Values of parts, each where its window is.
    fn put_together(&mut self, id: NodeId, context: Context) -> Result<NodeId, LowerRefusal> {
        let op = &self.old[id].op;
        let Some(parts) = self.contexts.parts(op, context) else {
            let op = op.map(|operand| self.operand(operand, context));
            return Ok(self.new.make(op));
        };
        let coarse = self.old.ty(id).axes.columns();
        if coarse.is_some_and(|columns| self.contexts.run(columns, context) > 1) {
            return Err(Rule::RunsOfParts.at(self.old, id));
        }
        if let Op::Concat(Concat::Equal(Some(run)), _) = op {
            let nodes: Vec<NodeId> =
                parts.into_iter().map(|(part, window)| self.operand(part, window)).collect();
            // Vectors have no columns beside their own.
            if !nodes.iter().any(|node| self.new.ty(*node).axes.kind() == Kind::Tile) {
                return Err(Rule::RunParts.at(self.old, id));
            }
            return Ok(self.new.make(Op::Concat(Concat::Repeated(*run), nodes)));
        }
        let mut parts = parts.into_iter().rev();
        let Some((last, window)) = parts.next() else { panic!("compiler bug: {id} of nothing") };
        let mut whole = self.operand(last, window);
        for (part, window) in parts {
            let value = self.operand(part, window);
            let inside = self.ends_before(window);
            whole = self.new.make(Op::Select(inside, value, whole));
        }
        Ok(whole)
    }

    /// An input along a part: a tensor with a window.
    fn input(
        &mut self,
        id: NodeId,
        input: InputId,
        context: Context,
    ) -> Result<InputId, LowerRefusal> {
        if let Some(placed) = self.placed.get(&(input, context)) {
            return Ok(*placed);
        }
        let declared = &self.old.inputs()[input.0 as usize];
        let dims = declared.dims.as_deref().unwrap_or_default();
        let dims = Some(self.whole_dims(dims, context, id)?);
        let name = format!("{}.{}", declared.name, context.unwrap_or(0));
        let placed = self.new.push_input(Input {
            name,
            dtype: declared.dtype,
            dims,
            same_as: None,
            computed: None,
            result: None,
            in_mainloop: false,
        });
        self.views.push(View::windowed(input.0 as usize, context));
        self.placed.insert((input, context), placed);
        Ok(placed)
    }

    /// A tensor's dims with the product's columns, or runs of them, in the place of a part's.
    fn whole_dims(
        &mut self,
        dims: &[Dim],
        context: Context,
        id: NodeId,
    ) -> Result<Vec<Dim>, LowerRefusal> {
        let space = self.old.space();
        let is_other = |dim: &Dim| *dim == space.row || space.batch.contains(dim);
        let place = |dim: &Dim| -> Result<Dim, LowerRefusal> {
            let Some(columns) = space.columns(dim).filter(|_| !is_other(dim)) else {
                return Ok(dim.clone());
            };
            let run = self.contexts.run(columns, context);
            let own = Columns::of_product(space.column.divisor());
            let dim = own.divided(run).map(|columns| space.column_dim(columns));
            let named = dim.filter(|dim| !is_other(dim));
            named.ok_or_else(|| Rule::AmbiguousParts.at(self.old, id))
        };
        dims.iter().map(place).collect()
    }

    /// A number that the launch passes.
    fn number(&mut self, number: Number) -> NodeId {
        let known = self.numbers.get(&number).copied();
        let input = known.unwrap_or_else(|| {
            let dtype = match number {
                Number::Sum(_) => DType::I32,
                Number::Product(_) => DType::F32,
            };
            let name = format!("number.{}", self.numbers.len());
            let input = self.new.push_input(Input {
                name,
                dtype,
                dims: None,
                same_as: None,
                computed: None,
                result: None,
                in_mainloop: false,
            });
            self.views.push(View::of_number(number.clone()));
            self.numbers.insert(number, input);
            input
        });
        self.new.make(Op::Input(input))
    }

    /// Whether a column comes before the end of a window.
    fn ends_before(&mut self, context: Context) -> NodeId {
        let column = self.new.make(Op::Index(IndexAxis::Column));
        let end = self.end(context);
        self.new.make(Op::Binary(Binary::Less, column, end))
    }

    fn end(&mut self, context: Context) -> NodeId {
        let dims = match context {
            Some(number) => {
                let window = self.contexts.window(number);
                [window.start.as_slice(), std::slice::from_ref(&window.width)].concat()
            }
            None => vec![self.old.space().column.clone()],
        };
        self.number(Number::Sum(dims))
    }

    /// The number of the first column of a window; nothing where it is 0.
    fn start(&mut self, context: Context) -> Option<NodeId> {
        let start = self.contexts.window(context?).start.clone();
        (!start.is_empty()).then(|| self.number(Number::Sum(start)))
    }

    /// Terms of a reduction, where those outside of a window count nothing.
    fn counted(
        &mut self,
        fold: Fold,
        (old, terms): (NodeId, NodeId),
        context: Context,
    ) -> Result<NodeId, LowerRefusal> {
        let Some(columns) = self.old.ty(old).axes.columns().filter(|_| context.is_some()) else {
            return Ok(terms);
        };
        if self.contexts.is_folded(context) {
            return Err(Rule::RunParts.at(self.old, old));
        }
        if self.contexts.run(columns, context) > 1 {
            return Err(Rule::RunsOfParts.at(self.old, old));
        }
        let mut inside = self.ends_before(context);
        if let Some(start) = self.start(context) {
            let column = self.new.make(Op::Index(IndexAxis::Column));
            let begun = self.new.make(Op::Binary(Binary::LessEqual, start, column));
            inside = self.new.make(Op::Binary(Binary::And, begun, inside));
        }
        let elem = self.new.ty(terms).elem;
        let nothing = Constant::of(elem, fold.identity(elem));
        let nothing = self.new.make(Op::Constant(nothing));
        Ok(self.new.make(Op::Select(inside, terms, nothing)))
    }

    /// The index that a reduction of a window gives, counted from where the window begins.
    fn index_in(
        &mut self,
        id: NodeId,
        folded: NodeId,
        context: Context,
    ) -> Result<NodeId, LowerRefusal> {
        let Op::Reduce(fold, over, _) = self.old[id].op else { return Ok(folded) };
        let refused = Err(Rule::IndexInPart.at(self.old, id));
        let gives_index = match fold {
            Fold::Top(top) => top.gives == Gives::Index,
            other => other.uses_index(),
        };
        if context.is_none() || !gives_index {
            return Ok(folded);
        }
        if over.crosses_rows() {
            return refused;
        }
        let Some(start) = self.start(context) else { return Ok(folded) };
        // A column before the window is given where all of its elements are equal to the identity: then the first is meant.
        let own = self.new.make(Op::Binary(Binary::Subtract, folded, start));
        let zero = self.new.make(Op::Constant(Constant::I32(0)));
        Ok(self.new.make(Op::Binary(Binary::Maximum, own, zero)))
    }

    /// The index of a column of a window among all; one that is none stays none.
    fn shifted(&mut self, index: NodeId, context: Context) -> NodeId {
        let Some(number) = context else { return index };
        let width = self.contexts.window(number).width.clone();
        let width = self.number(Number::Sum(vec![width]));
        let constant = |new: &mut Graph, value| new.make(Op::Constant(Constant::I32(value)));
        let (zero, none) = (constant(&mut self.new, 0), constant(&mut self.new, -1));
        let from = self.new.make(Op::Binary(Binary::LessEqual, zero, index));
        let to = self.new.make(Op::Binary(Binary::Less, index, width));
        let valid = self.new.make(Op::Binary(Binary::And, from, to));
        let moved = match self.start(context) {
            Some(start) => self.new.make(Op::Binary(Binary::Add, index, start)),
            None => index,
        };
        self.new.make(Op::Select(valid, moved, none))
    }
}
