//! The graph in registers: each node computed where it varies, and no more often.
//!
//! Scalars once a kernel, values along rows once for each of a thread's rows, values along columns once for each of its
//! columns, tiles once an element.

mod cast;
mod float;
mod fold;
mod input;
mod integer;
mod truth;

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::{Approx, Rounding, Saturation};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, S32, U32, U64};

use crate::dtype::DType;
use crate::functions::Accuracy;
use crate::functions::logarithm::log1p_within_one;
use crate::functions::saturating::one_plus_erf_hardware;
use crate::graph::{Axes, Binary, Constant, IndexAxis, Kind, NodeId, Op, Unary};

use super::Plan;
use super::machine::Registers;
use super::parameters::Parameters;
use super::ranges;

pub(super) use fold::State;

/// A value in a register.
#[derive(Clone, Copy)]
pub(super) enum Value<'k> {
    Float(Reg<'k, F32>),
    Integer(Reg<'k, S32>),
    Truth(Reg<'k, Pred>),
}

impl<'k> Value<'k> {
    pub(super) fn float(self) -> Reg<'k, F32> {
        match self {
            Value::Float(value) => value,
            Value::Integer(_) | Value::Truth(_) => {
                panic!("compiler bug: an integer or condition where a float is expected")
            }
        }
    }

    pub(super) fn integer(self) -> Reg<'k, S32> {
        match self {
            Value::Integer(value) => value,
            Value::Float(_) | Value::Truth(_) => {
                panic!("compiler bug: a float or condition where an integer is expected")
            }
        }
    }

    pub(super) fn truth(self) -> Reg<'k, Pred> {
        match self {
            Value::Truth(value) => value,
            Value::Float(_) | Value::Integer(_) => {
                panic!("compiler bug: a number where a condition is expected")
            }
        }
    }
}

/// Values by node; `None` where a node varies along more than the scope.
pub(super) type Known<'k> = Vec<Option<Value<'k>>>;

/// Where a scope is: coordinates, and whether they are inside the problem.
#[derive(Clone, Copy)]
pub(super) struct Place<'k> {
    pub(super) at: [Reg<'k, U32>; 3],
    pub(super) inside: Option<Reg<'k, Pred>>,
}

/// Computes nodes.
pub(super) struct Evaluator<'a, 'k> {
    pub(super) k: Kernel<'k, Sm90a>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) parameters: &'a Parameters<'k>,
}

impl<'k> Evaluator<'_, 'k> {
    /// Adds every live node of this kind to what is known that needs no finished reduction. `accumulators` are the
    /// element's own, for tiles, which know the reductions of their rows.
    pub(super) fn extend(
        &self,
        known: &mut Known<'k>,
        kind: Kind,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
    ) {
        let early = |id: NodeId| {
            !self.plan.late[id.index()] && (kind == Kind::Tile || self.plan.passes[id.index()] == 0)
        };
        self.extend_some(known, kind, place, accumulators, early);
    }

    /// Adds those of them that are chosen.
    pub(super) fn extend_some(
        &self,
        known: &mut Known<'k>,
        kind: Kind,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
        chosen: impl Fn(NodeId) -> bool,
    ) {
        let graph = self.plan.graph;
        let live = graph.live();
        for (id, node) in graph.nodes() {
            let whole = live[id.index()] && self.plan.runs[id.index()] == 1;
            let wanted = whole && node.ty.axes.kind() == kind && chosen(id);
            if wanted && known[id.index()].is_none() {
                known[id.index()] = Some(self.node(id, known, place, accumulators));
            }
        }
    }

    /// Adds what is chosen of the live nodes that have one value for so many columns, for a group of them. The place's
    /// column is the group's number.
    pub(super) fn extend_group(
        &self,
        known: &mut Known<'k>,
        run: u32,
        place: &Place<'k>,
        chosen: impl Fn(NodeId) -> bool,
    ) {
        let live = self.plan.graph.live();
        for (id, _) in self.plan.graph.nodes().filter(|(id, _)| live[id.index()]) {
            let wanted = self.plan.runs[id.index()] == run && chosen(id);
            if wanted && known[id.index()].is_none() {
                known[id.index()] = Some(self.node(id, known, place, &[]));
            }
        }
    }

    /// Adds every live node of this kind that is computed from finished reductions, which are known.
    pub(super) fn extend_late(&self, known: &mut Known<'k>, kind: Kind, place: &Place<'k>) {
        self.extend_some(known, kind, place, &[], |id| self.plan.late[id.index()]);
    }

    /// Reads the inputs of this kind that need no conversion, whose arrival nothing waits for yet.
    pub(super) fn ask(&self, known: &mut Known<'k>, kind: Kind, place: &Place<'k>) {
        let graph = self.plan.graph;
        let live = graph.live();
        for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
            if let Op::Input(input) = node.op
                && node.ty.axes.kind() == kind
                && self.plan.runs[id.index()] == 1
                && graph.inputs()[input.0 as usize].dtype == DType::F32
            {
                known[id.index()] = Some(self.input(input, place));
            }
        }
    }

    /// Adds what is known in a wider scope.
    pub(super) fn fill(known: &mut Known<'k>, wider: &Known<'k>) {
        for (value, wider) in known.iter_mut().zip(wider) {
            *value = value.or(*wider);
        }
    }

    fn node(
        &self,
        id: NodeId,
        known: &Known<'k>,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
    ) -> Value<'k> {
        let value = |node: NodeId| {
            known[node.index()].unwrap_or_else(|| panic!("compiler bug: {node} is not known yet"))
        };
        let accuracy = self.plan.accuracies[id.index()];
        match &self.plan.graph[id].op {
            op @ (Op::Accumulator | Op::SecondAccumulator) => {
                let own = accumulators.get(usize::from(*op == Op::SecondAccumulator));
                let own = own.unwrap_or_else(|| panic!("compiler bug: no accumulator here"));
                Value::Float(*own)
            }
            Op::Input(input) => self.input(*input, place),
            Op::Constant(constant) => self.constant(*constant),
            Op::Index(IndexAxis::Row) => Value::Integer(place.at[1].cast()),
            Op::Index(IndexAxis::Column) => Value::Integer(place.at[2].cast()),
            Op::Extent(axes) => Value::Float(self.extent(*axes)),
            Op::Unary(op, a) => match self.shorter(*op, accuracy, *a, &value) {
                Some(shorter) => Value::Float(shorter),
                None => self.unary(*op, accuracy, value(*a)),
            },
            Op::Binary(op, a, b) => match self.shorter_sum(*op, [*a, *b], &value) {
                Some(shorter) => Value::Float(shorter),
                None => self.binary(*op, accuracy, value(*a), value(*b)),
            },
            Op::Fma(a, b, c) => {
                Value::Float(value(*a).float().fma(value(*b).float(), value(*c).float()))
            }
            Op::Select(condition, a, b) => select(value(*condition).truth(), value(*a), value(*b)),
            Op::Cast(to, a) => self.cast(*to, value(*a)),
            op @ (Op::Reduce(..) | Op::Pick(..) | Op::Part(..) | Op::Merge(..) | Op::Call(..)) => {
                panic!("compiler bug: planning let {op:?} through")
            }
        }
    }

    fn constant(&self, constant: Constant) -> Value<'k> {
        match constant {
            Constant::F32(bits) => Value::Float(self.k.imm(f32::from_bits(bits))),
            Constant::I32(value) => Value::Integer(self.k.imm(value)),
            Constant::Bool(value) => Value::Truth(self.k.imm(value)),
        }
    }

    /// Forms that the operand's own node makes shorter, where the hardware's accuracy is enough.
    fn shorter(
        &self,
        op: Unary,
        accuracy: Accuracy,
        operand: NodeId,
        value: &impl Fn(NodeId) -> Value<'k>,
    ) -> Option<Reg<'k, F32>> {
        if accuracy == Accuracy::Accurate {
            return None;
        }
        match op {
            // What is never subnormal needs no care for it.
            Unary::Rcp if ranges::is_normal(self.plan.graph, operand) => {
                Some(value(operand).float().approx(Approx::RcpFlush))
            }
            Unary::Log1p if ranges::is_within_one(self.plan.graph, operand) => {
                Some(log1p_within_one(&Registers(self.k), value(operand).float()))
            }
            // e^(cx) = 2^(c log2(e) x)
            Unary::Exp => {
                let (x, scale) = ranges::scaled(self.plan.graph, operand)?;
                if !ranges::is_moderate(scale) {
                    return None;
                }
                let scale = (scale * std::f64::consts::LOG2_E) as f32;
                Some((value(x).float() * scale).approx(Approx::Ex2Flush))
            }
            _ => None,
        }
    }

    /// 1 + erf(cx), where the hardware's accuracy is enough for erf: as one function, which knows that the sum needs no
    /// more of it than the 1 does.
    fn shorter_sum(
        &self,
        op: Binary,
        [a, b]: [NodeId; 2],
        value: &impl Fn(NodeId) -> Value<'k>,
    ) -> Option<Reg<'k, F32>> {
        let graph = self.plan.graph;
        let erf = |node: NodeId| match graph[node].op {
            Op::Unary(Unary::Erf, x) if self.plan.accuracies[node.index()] != Accuracy::Accurate => {
                Some(x)
            }
            _ => None,
        };
        let x = match (ranges::constant(graph, a), ranges::constant(graph, b)) {
            (Some(1.0), None) if op == Binary::Add => erf(b)?,
            (None, Some(1.0)) if op == Binary::Add => erf(a)?,
            _ => return None,
        };
        let scaled = ranges::scaled(graph, x).filter(|(_, scale)| ranges::is_moderate(*scale));
        let (x, scale) = scaled.unwrap_or((x, 1.0));
        Some(one_plus_erf_hardware(&Registers(self.k), value(x).float(), scale))
    }

    fn unary(&self, op: Unary, accuracy: Accuracy, a: Value<'k>) -> Value<'k> {
        match a {
            Value::Float(a) => self.unary_float(op, accuracy, a),
            Value::Integer(a) => Value::Integer(integer::unary(op, a)),
            Value::Truth(a) => Value::Truth(truth::unary(op, a)),
        }
    }

    fn binary(&self, op: Binary, accuracy: Accuracy, a: Value<'k>, b: Value<'k>) -> Value<'k> {
        match (a, b) {
            (Value::Float(a), Value::Float(b)) => self.binary_float(op, accuracy, a, b),
            (Value::Integer(a), Value::Integer(b)) => integer::binary(op, a, b),
            (Value::Truth(a), Value::Truth(b)) => Value::Truth(truth::binary(op, a, b)),
            (Value::Float(_) | Value::Integer(_) | Value::Truth(_), _) => {
                panic!("compiler bug: `{}` of two types", op.name())
            }
        }
    }

    /// How many elements these axes have, rounded once.
    fn extent(&self, axes: Axes) -> Reg<'k, F32> {
        let own = self.plan.graph.product().column.divisor();
        let columns = axes.column.map(|divisor| match (divisor / own, own / divisor) {
            (0, more) => self.parameters.columns * more,
            (1, _) => self.parameters.columns,
            (fewer, _) => self.parameters.columns / fewer,
        });
        let rows = axes.row.then_some(self.parameters.rows);
        let batches = axes.batch.then_some(self.parameters.batches);
        let mut product: Option<Reg<'k, U64>> = None;
        for size in [batches, rows, columns].into_iter().flatten() {
            let size = self.k.widen(size);
            product = Some(product.map_or(size, |product| product * size));
        }
        match product {
            Some(product) => self.k.convert(Rounding::Nearest, Saturation::None, product),
            None => self.k.imm(1.0),
        }
    }
}

fn select<'k>(condition: Reg<'k, Pred>, a: Value<'k>, b: Value<'k>) -> Value<'k> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => Value::Float(a.select(b, condition)),
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.select(b, condition)),
        (Value::Truth(a), Value::Truth(b)) => Value::Truth(truth::select(condition, a, b)),
        (Value::Float(_) | Value::Integer(_) | Value::Truth(_), _) => {
            panic!("compiler bug: `where` of two types")
        }
    }
}
