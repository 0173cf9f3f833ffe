//! Computes nodes from what is known of a place.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::{Rounding, Saturation};
use postlude_ptx::types::{F32, Pred, U64};

use crate::dtype::{DType, Elem};
use crate::functions::Accuracy;
use crate::graph::{Axes, Binary, Constant, IndexAxis, Kind, NodeId, Op, Unary};
use crate::lower::ReductionScope;
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::short::Short;

use super::value::{Environment, Place, Value};
use super::{integer, truth};

/// Computes nodes.
#[derive(Clone, Copy)]
pub(crate) struct Evaluator<'a, 'k, C> {
    pub(crate) k: Kernel<'k, C>,
    pub(crate) plan: &'a Plan<'a>,
    pub(crate) parameters: &'a Parameters<'k>,
}

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    /// Adds every used node of this kind that needs no finished reduction to an environment. `accumulators` are the
    /// element's own, for tiles, whose environments have the reductions of their rows.
    pub(crate) fn extend(
        &self,
        environment: &mut Environment<'k>,
        kind: Kind,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
    ) {
        let early = |id: NodeId| {
            !self.plan.program.after_reductions[id.index()]
                && (kind == Kind::Tile || self.plan.program.passes[id.index()] == 0)
        };
        self.extend_some(environment, kind, place, accumulators, early);
    }

    /// The same along columns, where a run of them may have one value.
    pub(crate) fn extend_column(&self, environment: &mut Environment<'k>, place: &Place<'k>) {
        self.extend_runs(environment, place, |id| !self.plan.program.after_reductions[id.index()]);
        self.extend(environment, Kind::AlongColumns, place, &[]);
    }

    /// Adds what is chosen of the vectors that have one value for a run of columns, at a column.
    fn extend_runs(
        &self,
        environment: &mut Environment<'k>,
        place: &Place<'k>,
        chosen: impl Fn(NodeId) -> bool,
    ) {
        let (batch, row, column) = place.at;
        for (run, nodes) in &self.plan.program.column_runs {
            let of_run = Place { at: (batch, row, column / *run), ..*place };
            self.extend_group(environment, *run, &of_run, |id| nodes.contains(&id) && chosen(id));
        }
    }

    /// Adds those of them that are chosen.
    pub(crate) fn extend_some(
        &self,
        environment: &mut Environment<'k>,
        kind: Kind,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
        chosen: impl Fn(NodeId) -> bool,
    ) {
        for (id, node) in self.plan.graph.nodes() {
            let whole = self.plan.used[id.index()] && self.plan.program.runs[id.index()] == 1;
            let wanted = whole && node.ty.axes.kind() == kind && chosen(id);
            if wanted && environment[id.index()].is_none() {
                environment[id.index()] = Some(self.node(id, environment, place, accumulators));
            }
        }
    }

    /// Adds what is chosen of the nodes that are used that have one value for this many columns, for a group of them.
    /// The place's column is the group's number.
    pub(crate) fn extend_group(
        &self,
        environment: &mut Environment<'k>,
        run: u32,
        place: &Place<'k>,
        chosen: impl Fn(NodeId) -> bool,
    ) {
        for (id, _) in self.plan.graph.nodes().filter(|(id, _)| self.plan.used[id.index()]) {
            let wanted = self.plan.program.runs[id.index()] == run && chosen(id);
            if wanted && environment[id.index()].is_none() {
                environment[id.index()] = Some(self.node(id, environment, place, &[]));
            }
        }
    }

    /// Adds every used node of this scope that is computed after reductions, whose results the environment has.
    pub(crate) fn extend_after_reductions(
        &self,
        environment: &mut Environment<'k>,
        scope: ReductionScope,
        place: &Place<'k>,
    ) {
        let graph = self.plan.graph;
        let lives = |id: NodeId| ReductionScope::of(graph, graph.ty(id).axes) == scope;
        let after_reductions =
            |id: NodeId| self.plan.program.after_reductions[id.index()] && lives(id);
        if scope.kind == Kind::AlongColumns {
            self.extend_runs(environment, place, after_reductions);
        }
        self.extend_some(environment, scope.kind, place, &[], after_reductions);
    }

    /// Issues the loads of inputs of this kind that need no conversion; no instruction waits for them yet.
    pub(crate) fn issue_loads(
        &self,
        environment: &mut Environment<'k>,
        kind: Kind,
        place: &Place<'k>,
    ) {
        let graph = self.plan.graph;
        for (id, node) in graph.nodes().filter(|(id, _)| self.plan.used[id.index()]) {
            if let Op::Input(input) = node.op
                && node.ty.axes.kind() == kind
                && self.plan.program.runs[id.index()] == 1
                && graph.inputs()[input.0 as usize].dtype == DType::F32
            {
                environment[id.index()] = Some(self.input(input, place));
            }
        }
    }

    /// A node at a place, from an environment that has its operands.
    pub(crate) fn node(
        &self,
        id: NodeId,
        environment: &Environment<'k>,
        place: &Place<'k>,
        accumulators: &[Reg<'k, F32>],
    ) -> Value<'k> {
        let value = |node: NodeId| {
            environment[node.index()]
                .unwrap_or_else(|| panic!("compiler bug: {node} is not known yet"))
        };
        if let Some(short) = Short::of(self.plan.graph, &self.plan.accuracies, id) {
            return Value::Float(short.value(self.k, value(short.of).float()));
        }
        let accuracy = self.plan.accuracies[id.index()];
        match &self.plan.graph[id].op {
            Op::Accumulator(product) => {
                let sum = accumulator(accumulators, product.0 as usize);
                match self.plan.graph.product(*product).elem {
                    Elem::I32 => Value::Integer(self.k.f32_to_bits(sum).cast()),
                    Elem::F32 | Elem::Bool => Value::Float(sum),
                }
            }
            Op::Input(input) => self.input(*input, place),
            Op::Constant(constant) => self.constant(*constant),
            Op::Index(IndexAxis::Row) => Value::Integer(place.at.1.cast()),
            Op::Index(IndexAxis::Column) => Value::Integer(place.at.2.cast()),
            Op::Index(IndexAxis::Batch) => Value::Integer(place.at.0.number.cast()),
            Op::Index(IndexAxis::BatchDim(dim)) => {
                Value::Integer(place.at.0.along(*dim as usize).cast())
            }
            Op::Size(dim) => Value::Integer(self.size(dim).cast()),
            Op::Round(to, a, bits) => {
                Value::Float(self.round_randomly(*to, value(*a).float(), value(*bits).integer()))
            }
            Op::Philox(words) => {
                Value::Integer(self.philox_word(words.map(|word| value(word).integer())))
            }
            Op::Take(table, index) => self.take(*table, *index, value(*index).integer()),
            Op::Entry(table, row, column) => {
                self.entry(*table, [*row, *column].map(|index| (index, value(index).integer())))
            }
            Op::Extent(axes) => Value::Float(self.extent(*axes)),
            Op::Unary(op, a) => self.unary(*op, accuracy, value(*a)),
            Op::Binary(op, a, b) => self.binary(*op, accuracy, value(*a), value(*b)),
            Op::Fma(a, b, c) => {
                Value::Float(value(*a).float().fma(value(*b).float(), value(*c).float()))
            }
            Op::Select(condition, a, b) => select(value(*condition).truth(), value(*a), value(*b)),
            Op::Cast(to, a) => self.cast(*to, value(*a)),
            op @ (Op::Reduce(..)
            | Op::ReduceWeighted(..)
            | Op::Pick(..)
            | Op::Part(..)
            | Op::Merge(..)
            | Op::Concat(..)
            | Op::Call(..)) => {
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

    fn unary(&self, op: Unary, accuracy: Accuracy, a: Value<'k>) -> Value<'k> {
        match a {
            Value::Float(a) => self.unary_float(op, accuracy, a),
            Value::Integer(a) if op == Unary::Float => Value::Float(self.k.bits_to_f32(a.cast())),
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
        let own = self.plan.graph.space().column.divisor();
        let columns = axes.column.map(|divisor| match (divisor / own, own / divisor) {
            (0, more) => self.parameters.columns * more,
            (1, _) => self.parameters.columns,
            (fewer, _) => self.parameters.columns / fewer,
        });
        let rows = axes.row.map(|run| match run {
            1 => self.parameters.rows,
            run => self.parameters.rows / run,
        });
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

/// One of two values of the same type.
pub(crate) fn select<'k>(condition: Reg<'k, Pred>, a: Value<'k>, b: Value<'k>) -> Value<'k> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => Value::Float(a.select(b, condition)),
        (Value::Integer(a), Value::Integer(b)) => Value::Integer(a.select(b, condition)),
        (Value::Truth(a), Value::Truth(b)) => Value::Truth(truth::select(condition, a, b)),
        (Value::Float(_) | Value::Integer(_) | Value::Truth(_), _) => {
            panic!("compiler bug: `where` of two types")
        }
    }
}

/// The accumulator of an element's product of this number.
fn accumulator<'k>(accumulators: &[Reg<'k, F32>], product: usize) -> Reg<'k, F32> {
    let own = accumulators.get(product).copied();
    own.unwrap_or_else(|| panic!("compiler bug: no accumulator here"))
}
