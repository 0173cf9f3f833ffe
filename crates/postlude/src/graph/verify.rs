//! The type rule of every operation, and the check that a graph keeps to them.

use crate::dtype::{DType, Elem};

use super::op::{Constant, Merge, Op, Over, Run};
use super::ops::IndexAxis;
use super::types::{Axes, Type};
use super::{Graph, Node, NodeId, Statement};

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
            let fits = output.value.index() < self.len()
                && self
                    .space()
                    .axes(&output.dims)
                    .is_some_and(|axes| self.ty(output.value).axes.fits(axes))
                && (output.dtype.elem() == Elem::Bool)
                    == (self.ty(output.value).elem == Elem::Bool);
            if !fits {
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
            Op::Extent(_) => Ok(scalar(Elem::F32)),
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
                let axes = over.leaves(ty.axes).ok_or(Broken::Axes { op: fold.name() })?;
                Ok(Type { elem, axes })
            }
            Op::ReduceWeighted(fold, over, a, weights) => {
                let (ty, weight) = (self.ty(*a), self.ty(*weights));
                let elem = match weight.elem {
                    Elem::F32 => fold.gives(ty.elem),
                    Elem::I32 | Elem::Bool => None,
                };
                let elem = elem.ok_or(Broken::Elem { op: fold.name(), elem: weight.elem })?;
                let own = weight.axes.column.is_none() || weight.axes.column == ty.axes.column;
                let whole = own && ty.axes.join(weight.axes) == Some(ty.axes);
                let axes = over.leaves(ty.axes).filter(|_| whole);
                Ok(Type { elem, axes: axes.ok_or(Broken::Axes { op: fold.name() })? })
            }
            Op::Pick(of, index) => self.pick_type(*of, *index),
            Op::Part(part, a) => {
                let ty = self.ty(*a);
                let halved = ty.axes.column.and_then(|divisor| divisor.checked_mul(2));
                halved
                    .map(|divisor| Type { axes: Axes { column: Some(divisor), ..ty.axes }, ..ty })
                    .ok_or(Broken::Axes { op: part.name() })
            }
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

    fn index_type(&self, axis: IndexAxis) -> Type {
        let axes = match axis {
            IndexAxis::Row => Axes { row: true, ..Axes::SCALAR },
            IndexAxis::Column => {
                Axes { column: self.space().accumulator_axes().column, ..Axes::SCALAR }
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
        let axes = Axes {
            batch: of.axes.batch || index.axes.batch,
            row: of.axes.row || index.axes.row,
            column: None,
        };
        Ok(Type { elem: Elem::F32, axes })
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

    /// The first statement because of which the columns' size must be a multiple of a number.
    pub(crate) fn statement_needing(&self, multiple: u32) -> Option<&Statement> {
        let needing = |node: &Node| {
            let run = match &node.op {
                Op::Reduce(_, Over { column: Some(Run::Group(width)), .. }, a) => {
                    self.ty(*a).axes.column.map(|divisor| divisor * width)
                }
                _ => None,
            };
            node.ty.axes.column == Some(multiple) || run == Some(multiple)
        };
        let mut nodes = self.nodes().filter(|(_, node)| needing(node));
        nodes.find_map(|(id, _)| self.statement(id))
    }

    /// Numbers that the columns' size must be a multiple of.
    pub fn column_multiples(&self) -> Vec<u32> {
        let mut divisors: Vec<u32> =
            self.nodes().filter_map(|(_, node)| node.ty.axes.column).collect();
        for (_, node) in self.nodes() {
            if let Op::Reduce(_, over, a) = &node.op
                && let (Some(Run::Group(width)), Some(divisor)) =
                    (over.column, self.ty(*a).axes.column)
            {
                divisors.push(divisor * width);
            }
        }
        divisors.sort_unstable();
        divisors.dedup();
        divisors
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
