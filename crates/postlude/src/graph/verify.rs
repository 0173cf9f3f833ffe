//! The type rule of every operation, and the check that a graph keeps to them.

use crate::dtype::{DType, Elem};

use super::op::{Concat, Constant, Merge, Op, Over, Part, Run};
use super::ops::IndexAxis;
use super::types::{Axes, Columns, Type};
use super::{Graph, InputId, Node, NodeId, Statement};

/// How far a graph has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Typed; may hold calls.
    Checked,
    /// Calls expanded: the kernel's meaning.
    Defined,
}

/// What is wrong with a graph. A user never sees one: the checker refuses first.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// An operation does not take operands of this element type.
    #[error("`{op}` does not take {elem}")]
    Elem {
        /// The operation.
        op: &'static str,
        /// What it was given.
        elem: Elem,
    },
    /// Operands whose axes do not meet.
    #[error("operands of `{op}` do not meet")]
    Axes {
        /// The operation.
        op: &'static str,
    },
    /// Operands of different element types.
    #[error("operands of `{op}` are {left} and {right}")]
    Mixed {
        /// The operation.
        op: &'static str,
        /// The left operand's.
        left: Elem,
        /// The right operand's.
        right: Elem,
    },
    /// A further product that there is not.
    #[error("the product has no further right operand {0}")]
    Product(u32),
    /// An input whose dims are not body dims.
    #[error("input {0} does not have the body's dims")]
    Input(u32),
    /// An operand that does not come before its user.
    #[error("{0} uses {1}, which does not come before it")]
    Order(NodeId, NodeId),
    /// A node whose stored type is not what its operation gives.
    #[error("{0} has the wrong type")]
    Type(NodeId),
    /// A call after `define`.
    #[error("{0} is a call to `{1}`, which should have been expanded")]
    Call(NodeId, &'static str),
    /// An output that its value does not fit.
    #[error("output `{0}` does not fit its value")]
    Output(String),
}

impl Graph {
    /// Checks every invariant of a graph at this stage.
    pub fn verify(&self, stage: Stage) -> Result<(), Broken> {
        for (id, node) in self.nodes() {
            if let Some(late) = node.op.operands().find(|operand| *operand >= id) {
                return Err(Broken::Order(id, late));
            }
            if self.type_of(&node.op)? != node.ty {
                return Err(Broken::Type(id));
            }
            if let (Op::Call(call, _), Stage::Defined) = (&node.op, stage) {
                return Err(Broken::Call(id, call.function));
            }
        }
        for output in self.outputs() {
            let axes = self.output_axes(output);
            let fits = |value: NodeId| {
                value.index() < self.len()
                    && axes.is_some_and(|axes| self.ty(value).axes.fits(axes))
                    && (output.dtype.elem() == Elem::Bool) == (self.ty(value).elem == Elem::Bool)
            };
            if !output.values().all(fits) {
                return Err(Broken::Output(output.name.clone()));
            }
        }
        Ok(())
    }

    /// The type rule: what an operation gives.
    pub fn type_of(&self, op: &Op) -> Result<Type, Broken> {
        match op {
            Op::Accumulator(id) => {
                let product = self.products().get(id.0 as usize).ok_or(Broken::Product(id.0))?;
                Ok(Type { elem: product.elem, axes: self.space().accumulator_axes() })
            }
            Op::Input(input) => {
                let axes = self.input_axes(*input).ok_or(Broken::Input(input.0))?;
                Ok(Type { elem: self.inputs()[input.0 as usize].dtype.elem(), axes })
            }
            Op::Constant(constant) => Ok(scalar(constant.elem())),
            Op::Index(axis) => Ok(self.index_type(*axis)),
            Op::Extent(axes) => {
                // Segments have rows of their own number.
                let batch = self.space().is_segmented() && axes.row.is_some();
                Ok(Type { elem: Elem::F32, axes: Axes { batch, ..Axes::SCALAR } })
            }
            Op::Size(_) => Ok(scalar(Elem::I32)),
            Op::Round(to, a, bits) => self.round_type(*to, *a, *bits),
            Op::Philox(words) => self.philox_type(words),
            Op::Take(input, index) => self.take_type(*input, &[*index]),
            Op::Entry(input, row, column) => self.take_type(*input, &[*row, *column]),
            Op::Unary(op, a) => {
                let ty = self.ty(*a);
                let elem =
                    op.gives(ty.elem).ok_or(Broken::Elem { op: op.name(), elem: ty.elem })?;
                Ok(Type { elem, axes: ty.axes })
            }
            Op::Binary(op, a, b) => {
                let ty = self.meet(op.name(), *a, *b)?;
                let elem =
                    op.gives(ty.elem).ok_or(Broken::Elem { op: op.name(), elem: ty.elem })?;
                Ok(Type { elem, axes: ty.axes })
            }
            Op::Fma(a, b, c) => self.fma_type(*a, *b, *c),
            Op::Select(condition, a, b) => self.select_type(*condition, *a, *b),
            Op::Cast(to, a) => Ok(Type { elem: to.elem(), axes: self.ty(*a).axes }),
            Op::Reduce(fold, over, a) => {
                let ty = self.ty(*a);
                let elem =
                    fold.gives(ty.elem).ok_or(Broken::Elem { op: fold.name(), elem: ty.elem })?;
                let axes = over.leaves(ty.axes).filter(|_| self.folds_segments_apart(*over));
                Ok(Type { elem, axes: axes.ok_or(Broken::Axes { op: fold.name() })? })
            }
            Op::ReduceWeighted(fold, over, a, weights) => {
                let (ty, weight) = (self.ty(*a), self.ty(*weights));
                let elem = match weight.elem {
                    Elem::F32 => fold.gives(ty.elem),
                    Elem::I32 | Elem::Bool => None,
                };
                let elem = elem.ok_or(Broken::Elem { op: fold.name(), elem: weight.elem })?;
                let own =
                    |weight: Option<u32>, term: Option<u32>| weight.is_none() || weight == term;
                let own =
                    own(weight.axes.column, ty.axes.column) && own(weight.axes.row, ty.axes.row);
                let whole = own && ty.axes.join(weight.axes) == Some(ty.axes);
                let whole = whole && self.folds_segments_apart(*over);
                let axes = over.leaves(ty.axes).filter(|_| whole);
                Ok(Type { elem, axes: axes.ok_or(Broken::Axes { op: fold.name() })? })
            }
            Op::Pick(of, index) => self.pick_type(*of, *index),
            Op::Part(part, a) => self.part_type(*part, *a),
            Op::Concat(concat, parts) => self.concat_type(*concat, parts),
            Op::Merge(merge, a, b) => self.merge_type(*merge, *a, *b),
            Op::Call(call, arguments) => {
                let joined =
                    arguments.iter().try_fold(Axes::SCALAR, |axes, a| axes.join(self.ty(*a).axes));
                let axes = joined.ok_or(Broken::Axes { op: call.function })?;
                let reduces = call.over.filter(|_| call.function == "mean");
                let axes = reduces
                    .map_or(Some(axes), |over| over.leaves(axes))
                    .ok_or(Broken::Axes { op: call.function })?;
                Ok(Type { elem: Elem::F32, axes })
            }
        }
    }

    fn part_type(&self, part: Part, of: NodeId) -> Result<Type, Broken> {
        let ty = self.ty(of);
        let columns = ty.axes.columns().and_then(|whole| self.part_columns(part, whole));
        let columns = columns.ok_or(Broken::Axes { op: part.name() })?;
        Ok(Type { axes: ty.axes.along(Some(columns)), ..ty })
    }

    /// Whether a reduction folds rows of one segment only, and all of them: segments are folded by a reduction of their own.
    fn folds_segments_apart(&self, over: Over) -> bool {
        !self.space().is_segmented()
            || !(over.batch && over.row.is_some() || matches!(over.row, Some(Run::Group(_))))
    }

    fn index_type(&self, axis: IndexAxis) -> Type {
        let axes = match axis {
            IndexAxis::Row => Axes { batch: self.space().is_segmented(), ..Axes::ROWS },
            IndexAxis::Column => Axes::SCALAR.along(self.space().accumulator_axes().columns()),
            IndexAxis::Batch | IndexAxis::BatchDim(_) => {
                Axes { batch: !self.space().batch.is_empty(), ..Axes::SCALAR }
            }
        };
        Type { elem: Elem::I32, axes }
    }

    fn meet(&self, op: &'static str, a: NodeId, b: NodeId) -> Result<Type, Broken> {
        let (left, right) = (self.ty(a), self.ty(b));
        if left.elem != right.elem {
            return Err(Broken::Mixed { op, left: left.elem, right: right.elem });
        }
        let axes = left.axes.join(right.axes).ok_or(Broken::Axes { op })?;
        Ok(Type { elem: left.elem, axes })
    }

    fn fma_type(&self, a: NodeId, b: NodeId, c: NodeId) -> Result<Type, Broken> {
        let product = self.meet("fma", a, b)?;
        let addend = self.ty(c);
        if product.elem != Elem::F32 || addend.elem != Elem::F32 {
            return Err(Broken::Mixed { op: "fma", left: product.elem, right: addend.elem });
        }
        let axes = product.axes.join(addend.axes).ok_or(Broken::Axes { op: "fma" })?;
        Ok(Type { elem: Elem::F32, axes })
    }

    fn round_type(&self, to: DType, a: NodeId, bits: NodeId) -> Result<Type, Broken> {
        let (value, word) = (self.ty(a), self.ty(bits));
        if value.elem != Elem::F32 || word.elem != Elem::I32 || !to.is_narrow_float() {
            return Err(Broken::Mixed { op: to.name(), left: value.elem, right: word.elem });
        }
        let axes = value.axes.join(word.axes).ok_or(Broken::Axes { op: to.name() })?;
        Ok(Type { elem: Elem::F32, axes })
    }

    fn philox_type(&self, words: &[NodeId]) -> Result<Type, Broken> {
        let types = || words.iter().map(|word| self.ty(*word));
        if let Some(ty) = types().find(|ty| ty.elem != Elem::I32) {
            return Err(Broken::Elem { op: "philox", elem: ty.elem });
        }
        let axes: Vec<Axes> = types().map(|ty| ty.axes).collect();
        let axes = Axes::join_all(&axes).ok_or(Broken::Axes { op: "philox" })?;
        Ok(Type { elem: Elem::I32, axes })
    }

    /// An element of a table, which has an index for each dim.
    fn take_type(&self, input: InputId, indices: &[NodeId]) -> Result<Type, Broken> {
        let table = self.inputs().get(input.0 as usize).ok_or(Broken::Input(input.0))?;
        let elem = table.dtype.elem();
        let is_table = table.dims.as_ref().is_some_and(|dims| dims.len() == indices.len());
        if !is_table || elem == Elem::Bool {
            return Err(Broken::Input(input.0));
        }
        let mut all = Vec::new();
        for index in indices {
            let index = self.ty(*index);
            if index.elem != Elem::I32 {
                return Err(Broken::Elem { op: "take", elem: index.elem });
            }
            all.push(index.axes);
        }
        let axes = Axes::join_all(&all).ok_or(Broken::Axes { op: "take" })?;
        Ok(Type { elem, axes })
    }

    fn select_type(&self, condition: NodeId, a: NodeId, b: NodeId) -> Result<Type, Broken> {
        let [condition, a, b] = [condition, a, b].map(|node| self.ty(node));
        if condition.elem != Elem::Bool {
            return Err(Broken::Elem { op: "where", elem: condition.elem });
        }
        if a.elem != b.elem {
            return Err(Broken::Mixed { op: "where", left: a.elem, right: b.elem });
        }
        let axes = Axes::join_all(&[condition.axes, a.axes, b.axes]);
        Ok(Type { elem: a.elem, axes: axes.ok_or(Broken::Axes { op: "where" })? })
    }

    fn pick_type(&self, of: NodeId, index: NodeId) -> Result<Type, Broken> {
        let (of, index) = (self.ty(of), self.ty(index));
        if of.elem != Elem::F32 || index.elem != Elem::I32 {
            return Err(Broken::Mixed { op: "pick", left: of.elem, right: index.elem });
        }
        if of.axes.column.is_none() || index.axes.column.is_some() {
            return Err(Broken::Axes { op: "pick" });
        }
        let axes = of.axes.along(None).join(index.axes).ok_or(Broken::Axes { op: "pick" })?;
        Ok(Type { elem: Elem::F32, axes })
    }

    /// The columns of a part.
    fn part_columns(&self, part: Part, whole: Columns) -> Option<Columns> {
        match part {
            Part::First | Part::Second | Part::Even | Part::Odd => whole.divided(2),
            Part::Equal { index, count, run } => {
                let fits = index < count && run.is_none_or(|run| run % u32::from(count) == 0);
                whole.divided(count.into()).filter(|_| fits)
            }
            Part::Repeated { index, count, run } => {
                let fits = index < count && run > 0 && run % u32::from(count) == 0;
                fits.then_some(whole)
            }
            Part::Listed { split, index } => {
                let split = self.space().splits.get(split as usize)?;
                split.parts.get(index as usize).copied().filter(|_| split.whole == whole)
            }
        }
    }

    fn concat_type(&self, concat: Concat, parts: &[NodeId]) -> Result<Type, Broken> {
        let wrong = Broken::Axes { op: "concat" };
        let [first, ..] = parts else { return Err(wrong) };
        let elem = self.ty(*first).elem;
        if let Some(other) = parts.iter().map(|part| self.ty(*part).elem).find(|it| *it != elem) {
            return Err(Broken::Mixed { op: "concat", left: elem, right: other });
        }
        let columns: Option<Vec<Columns>> =
            parts.iter().map(|part| self.ty(*part).axes.columns()).collect();
        let columns = columns.ok_or(wrong.clone())?;
        let count = parts.len() as u32;
        let whole = match concat {
            Concat::Equal(run) => {
                let own = columns[0];
                let fits = columns.iter().all(|other| *other == own)
                    && own.divisor % count == 0
                    && run.is_none_or(|run| run > 0 && run % count == 0);
                fits.then(|| Columns { divisor: own.divisor / count, ..own })
            }
            Concat::Repeated(run) => {
                let own = columns[0];
                let same = columns.iter().all(|other| *other == own);
                (same && run > 0 && run % count == 0).then_some(own)
            }
            Concat::Listed(split) => {
                let split = self.space().splits.get(split as usize);
                split.filter(|split| split.parts == columns).map(|split| split.whole)
            }
        };
        let whole = whole.ok_or(wrong)?;
        let others: Vec<Axes> = parts.iter().map(|part| self.ty(*part).axes.along(None)).collect();
        let axes = Axes::join_all(&others).ok_or(Broken::Axes { op: "concat" })?;
        Ok(Type { elem, axes: axes.along(Some(whole)) })
    }

    fn merge_type(&self, merge: Merge, a: NodeId, b: NodeId) -> Result<Type, Broken> {
        let ty = self.meet(merge.name(), a, b)?;
        let same = self.ty(a).axes.column == self.ty(b).axes.column;
        match ty.axes.column {
            Some(divisor) if same && divisor % 2 == 0 => {
                Ok(Type { axes: Axes { column: Some(divisor / 2), ..ty.axes }, ..ty })
            }
            Some(_) | None => Err(Broken::Axes { op: merge.name() }),
        }
    }

    /// The first statement because of which the product's rows must be a multiple of a number.
    pub(crate) fn statement_needing_rows(&self, multiple: u32) -> Option<&Statement> {
        let mut nodes = self.nodes().filter(|(_, node)| node.ty.axes.row == Some(multiple));
        nodes.find_map(|(id, _)| self.statement(id))
    }

    /// Numbers that the product's rows must be a multiple of.
    pub fn row_multiples(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.nodes().filter_map(|(_, node)| node.ty.axes.row).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The first statement because of which a dim's size must be a multiple of a number.
    pub(crate) fn statement_needing(&self, multiple: Columns) -> Option<&Statement> {
        let needing = |node: &Node| {
            let needed = self.needed_multiples(node);
            needed.into_iter().flatten().any(|needed| needed == multiple)
        };
        let mut nodes = self.nodes().filter(|(_, node)| needing(node));
        nodes.find_map(|(id, _)| self.statement(id))
    }

    /// What a node divides evenly: its own columns, and the runs of what it reads or writes.
    fn needed_multiples(&self, node: &Node) -> [Option<Columns>; 2] {
        let runs_of = |columns: Option<Columns>, run: u32| columns.and_then(|it| it.divided(run));
        let run = match &node.op {
            Op::Reduce(_, Over { column: Some(Run::Group(width)), .. }, a) => {
                runs_of(self.ty(*a).axes.columns(), *width)
            }
            Op::Part(Part::Equal { run: Some(run), .. } | Part::Repeated { run, .. }, a) => {
                runs_of(self.ty(*a).axes.columns(), *run)
            }
            Op::Concat(Concat::Equal(Some(run)) | Concat::Repeated(run), _) => {
                runs_of(node.ty.axes.columns(), *run)
            }
            _ => None,
        };
        [node.ty.axes.columns(), run]
    }

    /// Numbers that the size of the columns' dim, or of a part's, must be a multiple of.
    pub fn multiples(&self) -> Vec<Columns> {
        let mut all: Vec<Columns> =
            self.nodes().flat_map(|(_, node)| self.needed_multiples(node)).flatten().collect();
        let splits = self.space().splits.iter();
        all.extend(splits.flat_map(|split| split.parts.iter().copied().chain([split.whole])));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Numbers that the columns' size must be a multiple of.
    pub fn column_multiples(&self) -> Vec<u32> {
        let own = self.multiples().into_iter().filter(|columns| columns.part == 0);
        own.map(|columns| columns.divisor).collect()
    }
}

fn scalar(elem: Elem) -> Type {
    Type { elem, axes: Axes::SCALAR }
}

impl Constant {
    /// What arithmetic it takes part in.
    pub const fn elem(self) -> Elem {
        match self {
            Constant::F32(_) => Elem::F32,
            Constant::I32(_) => Elem::I32,
            Constant::Bool(_) => Elem::Bool,
        }
    }

    /// The constant that holds a value of this element type.
    pub fn of(elem: Elem, value: f64) -> Constant {
        match elem {
            Elem::F32 => Constant::F32((value as f32).to_bits()),
            Elem::I32 => Constant::I32(crate::dtype::round_to(DType::I32, value) as i32),
            Elem::Bool => Constant::Bool(value != 0.0),
        }
    }
}
