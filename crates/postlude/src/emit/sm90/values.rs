//! The graph in registers: each node computed where it varies, and no more often.
//!
//! Scalars once a kernel, values along rows once for each of a thread's rows, values along columns once for each of its
//! columns, tiles once an element.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg};
use postlude_ptx::modifier::{Approx, LoadCache};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B16, F32, Pred, U32};

use crate::dtype::DType;
use crate::functions::machine::Machine;
use crate::functions::{self, Accuracy, Function};
use crate::graph::{Binary, Kind, NodeId, Op, Unary};

use super::Plan;
use super::machine::Registers;
use super::parameters::{Parameters, Source};
use super::ranges;

/// A value in a register.
#[derive(Clone, Copy)]
pub(super) enum Value<'k> {
    Float(Reg<'k, F32>),
    Truth(Reg<'k, Pred>),
}

impl<'k> Value<'k> {
    pub(super) fn float(self) -> Reg<'k, F32> {
        match self {
            Value::Float(value) => value,
            Value::Truth(_) => panic!("compiler bug: a condition where a number is expected"),
        }
    }

    fn truth(self) -> Reg<'k, Pred> {
        match self {
            Value::Truth(value) => value,
            Value::Float(_) => panic!("compiler bug: a number where a condition is expected"),
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
    /// Adds every live node of this kind to what is known. `accumulator` is the element's own, for tiles.
    pub(super) fn extend(
        &self,
        known: &mut Known<'k>,
        kind: Kind,
        place: &Place<'k>,
        accumulator: Option<Reg<'k, F32>>,
    ) {
        let graph = self.plan.graph;
        let live = graph.live();
        for (id, node) in graph.nodes() {
            let wanted = live[id.index()] && node.ty.axes.kind() == kind;
            if wanted && known[id.index()].is_none() {
                known[id.index()] = Some(self.node(id, known, place, accumulator));
            }
        }
    }

    /// Reads the inputs of this kind that need no conversion, whose arrival nothing waits for yet.
    pub(super) fn ask(&self, known: &mut Known<'k>, kind: Kind, place: &Place<'k>) {
        let graph = self.plan.graph;
        let live = graph.live();
        for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
            if let Op::Input(input) = node.op
                && node.ty.axes.kind() == kind
                && graph.inputs()[input.0 as usize].dtype == DType::F32
            {
                known[id.index()] = Some(Value::Float(self.input(input.0, place)));
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
        accumulator: Option<Reg<'k, F32>>,
    ) -> Value<'k> {
        let value = |node: NodeId| {
            known[node.index()].unwrap_or_else(|| panic!("compiler bug: {node} is not known yet"))
        };
        let accuracy = self.plan.accuracies[id.index()];
        match &self.plan.graph[id].op {
            Op::Accumulator => Value::Float(
                accumulator
                    .unwrap_or_else(|| panic!("compiler bug: accumulators outside the tile")),
            ),
            Op::Input(input) => Value::Float(self.input(input.0, place)),
            Op::Constant(constant) => Value::Float(self.k.imm(constant.as_f64() as f32)),
            Op::Unary(op, a) => match self.shorter(*op, accuracy, *a, &value) {
                Some(shorter) => Value::Float(shorter),
                None => self.unary(*op, accuracy, value(*a)),
            },
            Op::Binary(op, a, b) => self.binary(*op, value(*a), value(*b)),
            Op::Fma(a, b, c) => {
                Value::Float(value(*a).float().fma(value(*b).float(), value(*c).float()))
            }
            Op::Select(condition, a, b) => {
                Value::Float(value(*a).float().select(value(*b).float(), value(*condition).truth()))
            }
            Op::Cast(to, a) => Value::Float(self.round(*to, value(*a).float())),
            op => panic!("compiler bug: planning let {op:?} through"),
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
                Some(value(operand).float().approx(Approx::FlushedRcp))
            }
            // e^(cx) = 2^(c log2(e) x): one rounding and one rounded constant, as in (cx) log2(e).
            Unary::Exp => {
                let (x, scale) = ranges::scaled(self.plan.graph, operand)?;
                let scale = (scale * std::f64::consts::LOG2_E) as f32;
                Some((value(x).float() * scale).approx(Approx::FlushedEx2))
            }
            _ => None,
        }
    }

    fn unary(&self, op: Unary, accuracy: Accuracy, a: Value<'k>) -> Value<'k> {
        let machine = Registers(self.k);
        match op {
            Unary::Not => Value::Truth(machine.not(a.truth())),
            Unary::Negate => Value::Float(a.float().negate()),
            Unary::Abs => Value::Float(a.float().abs()),
            Unary::IsNan => Value::Truth(machine.not(a.float().eq(a.float()))),
            Unary::IsInf => Value::Truth(a.float().abs().eq(f32::INFINITY)),
            Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round => {
                Value::Float(self.whole(op, a.float()))
            }
            _ => {
                let Some(function) = op.function() else {
                    panic!("compiler bug: `{}` is no function", op.name())
                };
                Value::Float(self.function(function, accuracy, a.float()))
            }
        }
    }

    fn whole(&self, op: Unary, a: Reg<'k, F32>) -> Reg<'k, F32> {
        let machine = Registers(self.k);
        match op {
            Unary::Floor => machine.floor(a),
            Unary::Ceil => machine.ceil(a),
            Unary::Round => machine.round_even(a),
            _ => {
                let (one, zero) = (self.k.imm(1.0), self.k.imm(0.0));
                let side = one.select(zero, a.gt(0.0)) - one.select(zero, a.lt(0.0));
                side.select(a, a.eq(a))
            }
        }
    }

    /// The hardware's own forms where they are good enough, else the algorithms that every engine shares.
    fn function(&self, function: Function, accuracy: Accuracy, a: Reg<'k, F32>) -> Reg<'k, F32> {
        match (function, accuracy) {
            (Function::Exp2, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::FlushedEx2),
            (Function::Exp, Accuracy::Hardware | Accuracy::Fast) => {
                (a * std::f32::consts::LOG2_E).approx(Approx::FlushedEx2)
            }
            (Function::Log2, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Lg2),
            (Function::Log, Accuracy::Hardware | Accuracy::Fast) => {
                a.approx(Approx::Lg2) * std::f32::consts::LN_2
            }
            (Function::Rcp, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Rcp),
            (Function::Rsqrt, Accuracy::Hardware | Accuracy::Fast) => a.approx(Approx::Rsqrt),
            (Function::Tanh, Accuracy::Fast) => a.approx(Approx::Tanh),
            _ => functions::evaluate(&Registers(self.k), function, accuracy, a),
        }
    }

    fn binary(&self, op: Binary, a: Value<'k>, b: Value<'k>) -> Value<'k> {
        match op {
            Binary::Add => Value::Float(a.float() + b.float()),
            Binary::Subtract => Value::Float(a.float() - b.float()),
            Binary::Multiply => Value::Float(a.float() * b.float()),
            Binary::Maximum => Value::Float(a.float().max(b.float())),
            Binary::Minimum => Value::Float(a.float().min(b.float())),
            Binary::Divide | Binary::Pow => {
                panic!("compiler bug: planning let `{}` through", op.name())
            }
            Binary::Less => Value::Truth(a.float().lt(b.float())),
            Binary::LessEqual => Value::Truth(a.float().le(b.float())),
            Binary::Equal => Value::Truth(a.float().eq(b.float())),
            Binary::NotEqual => Value::Truth(Registers(self.k).not(a.float().eq(b.float()))),
            Binary::And => Value::Truth(a.truth() & b.truth()),
            Binary::Or => Value::Truth(a.truth() | b.truth()),
        }
    }

    /// Rounds to a narrower type and back.
    fn round(&self, to: DType, a: Reg<'k, F32>) -> Reg<'k, F32> {
        use postlude_ptx::kernel::Half;
        let half = match to {
            DType::F16 => Half::F16,
            DType::BF16 => Half::BF16,
            _ => return a,
        };
        self.k.f32_of_half(half, self.k.half_of_f32(half, a))
    }

    fn input(&self, input: u32, place: &Place<'k>) -> Reg<'k, F32> {
        let found = self.parameters.sources.iter().find(|(id, _)| id.0 == input);
        match found.map(|(_, source)| source) {
            Some(Source::Host(parameter)) => parameter.load(),
            Some(Source::Memory(memory)) => {
                self.load(memory.dtype, memory.element(self.k, place.at), place.inside).float()
            }
            Some(Source::Map(_)) | None => {
                panic!("compiler bug: input {input} is not read directly")
            }
        }
    }

    /// Reads one element; what is not inside the problem is zero.
    pub(super) fn load(
        &self,
        dtype: DType,
        from: GlobalPointer<'k>,
        inside: Option<Reg<'k, Pred>>,
    ) -> Value<'k> {
        use postlude_ptx::kernel::Half;
        let half = match dtype {
            DType::F16 => Half::F16,
            DType::BF16 => Half::BF16,
            _ => {
                let [value] = match inside {
                    Some(inside) => {
                        self.k.load_global_if::<F32, 1>(inside, from, LoadCache::ReadOnly, 0.0)
                    }
                    None => self.k.load_global::<F32, 1>(from, LoadCache::ReadOnly),
                };
                return Value::Float(value);
            }
        };
        let [bits] = match inside {
            Some(inside) => self.k.load_global_if::<B16, 1>(inside, from, LoadCache::ReadOnly, 0),
            None => self.k.load_global::<B16, 1>(from, LoadCache::ReadOnly),
        };
        Value::Float(self.k.f32_of_half(half, bits))
    }
}
