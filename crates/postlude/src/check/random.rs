//! Random numbers: words of Philox by an element's place, and what is made of them.
//!
//! In: a seed and an offset. Out: primitives; the counter is made of the indices of the value that is random, so that
//! its bits depend on these, the seed and the offset alone.

use crate::dtype::{DType, Elem};
use crate::graph::{Axes, Binary, Constant, IndexAxis, NodeId, Op, Part, Unary};
use crate::syntax::{ExprId, Span};

use super::error::CheckError;
use super::{Body, Lowered};

/// 2^-24: uniform numbers are multiples of it.
const STEP: f32 = 1.0 / 16_777_216.0;

impl Body<'_> {
    /// `philox`, `uniform` or `normal` for every element of the product.
    pub(super) fn lower_random(
        &mut self,
        function: &'static str,
        seed: [ExprId; 2],
        at: Span,
    ) -> Lowered {
        let axes = self.graph.space().accumulator_axes();
        let Some(place) = self.places(function, axes, at) else { return Lowered::Poison };
        let Some(key) = self.key(function, seed) else { return Lowered::Poison };
        Lowered::Node(match function {
            "philox" => self.word(key, place),
            "uniform" => self.uniform(key, place),
            _ => self.normal(key, place),
        })
    }

    /// `where(uniform >= p, x * rcp(1 - p), 0)`, of the value's own elements.
    pub(super) fn lower_dropout(
        &mut self,
        [x, p]: [ExprId; 2],
        seed: [ExprId; 2],
        at: Span,
    ) -> Lowered {
        let [x, p] =
            [x, p].map(|id| self.convert(self.lowered[&id], Elem::F32, self.exprs[id].span));
        let key = self.key("dropout", seed);
        let (Some(x), Some(p), Some(key)) = (x, p, key) else { return Lowered::Poison };
        let axes = self.graph.ty(x).axes;
        let Some(place) = self.places("dropout", axes, at) else { return Lowered::Poison };
        let uniform = self.uniform(key, place);
        let one = self.graph.make(Op::number(1.0));
        let zero = self.graph.make(Op::number(0.0));
        let left = self.binary(Binary::Subtract, one, p, at);
        let Lowered::Node(left) = left else { return left };
        let scale = self.graph.make(Op::Unary(Unary::Rcp, left));
        let scaled = self.binary(Binary::Multiply, x, scale, at);
        let keeps = self.binary(Binary::LessEqual, p, uniform, at);
        match (keeps, scaled) {
            (Lowered::Node(keeps), Lowered::Node(scaled)) => {
                self.node(Op::Select(keeps, scaled, zero), at)
            }
            _ => Lowered::Poison,
        }
    }

    /// `bf16(x, seed, offset)`: a cast that rounds by random bits.
    pub(super) fn lower_random_cast(
        &mut self,
        to: DType,
        x: ExprId,
        seed: [ExprId; 2],
        at: Span,
    ) -> Lowered {
        if !to.is_narrow_float() {
            return self.report(CheckError::RandomCast { dtype: to, at });
        }
        let value = self.convert(self.lowered[&x], Elem::F32, self.exprs[x].span);
        let (Some(value), Some(key)) = (value, self.key(to.name(), seed)) else {
            return Lowered::Poison;
        };
        let axes = self.graph.ty(value).axes;
        let Some(place) = self.places(to.name(), axes, at) else { return Lowered::Poison };
        let word = self.word(key, place);
        self.note_like(word, value);
        self.node(Op::Round(to, value, word), at)
    }

    /// Two words of key, and the offset.
    fn key(&mut self, function: &'static str, [seed, offset]: [ExprId; 2]) -> Option<[NodeId; 3]> {
        let zero = self.graph.make(Op::Constant(Constant::I32(0)));
        let key = match self.seed_table(seed) {
            Some(table) => {
                let one = self.graph.make(Op::Constant(Constant::I32(1)));
                let word = [zero, one].map(|index| self.graph.make(Op::Take(table, index)));
                Some(word)
            }
            None => self.random_number("seed", function, seed).map(|seed| [seed, zero]),
        };
        let offset = self.random_number("offset", function, offset);
        let ([first, second], offset) = (key?, offset?);
        Some([first, second, offset])
    }

    /// An i32 that random bits are made of.
    fn random_number(
        &mut self,
        what: &'static str,
        function: &'static str,
        id: ExprId,
    ) -> Option<NodeId> {
        let at = self.exprs[id].span;
        let node = self.settle(self.lowered[&id], at)?;
        let found = self.graph.ty(node).elem;
        if found != Elem::I32 {
            self.report(CheckError::Seed { what, function: function.to_owned(), found, at });
            return None;
        }
        Some(node)
    }

    /// The numbers of the column, row and batch of a value with these axes; 0 along dims that it lacks.
    fn places(&mut self, function: &str, axes: Axes, at: Span) -> Option<[NodeId; 3]> {
        let zero = self.graph.make(Op::Constant(Constant::I32(0)));
        if let Some(run) = axes.row.filter(|run| *run > 1) {
            let dim = self.graph.space().row_dim(run).to_string();
            self.report(CheckError::RandomColumns { function: function.to_owned(), dim, at });
            return None;
        }
        let row =
            if axes.row.is_some() { self.graph.make(Op::Index(IndexAxis::Row)) } else { zero };
        let batch = if axes.batch { self.graph.make(Op::Index(IndexAxis::Batch)) } else { zero };
        let Some(columns) = axes.columns() else { return Some([zero, row, batch]) };
        let mut column = self.graph.make(Op::Index(IndexAxis::Column));
        let own = self.graph.ty(column).axes.column.unwrap_or(1);
        let fewer = columns.divisor / own;
        if columns.part != 0 || columns.divisor % own != 0 || !fewer.is_power_of_two() {
            let dim = self.graph.space().column_dim(columns).to_string();
            self.report(CheckError::RandomColumns { function: function.to_owned(), dim, at });
            return None;
        }
        // The first columns have the numbers of all columns of a value that has fewer.
        for _ in 0..fewer.trailing_zeros() {
            column = self.graph.make(Op::Part(Part::First, column));
        }
        Some([column, row, batch])
    }

    fn word(&mut self, [key0, key1, offset]: [NodeId; 3], place: [NodeId; 3]) -> NodeId {
        let [column, row, batch] = place;
        self.graph.make(Op::Philox([key0, key1, column, row, batch, offset]))
    }

    /// The upper 24 bits of a word.
    fn upper(&mut self, word: NodeId) -> NodeId {
        let eight = self.graph.make(Op::Constant(Constant::I32(8)));
        let upper = self.graph.make(Op::Binary(Binary::ShiftRightLogical, word, eight));
        self.graph.make(Op::Cast(DType::F32, upper))
    }

    fn uniform(&mut self, key: [NodeId; 3], place: [NodeId; 3]) -> NodeId {
        let word = self.word(key, place);
        let upper = self.upper(word);
        let step = self.graph.make(Op::number(STEP));
        self.graph.make(Op::Binary(Binary::Multiply, upper, step))
    }

    /// The even column of a pair has the cosine, the odd one the sine, of one angle and radius.
    fn normal(&mut self, key: [NodeId; 3], [column, row, batch]: [NodeId; 3]) -> NodeId {
        let integer = |body: &mut Self, value| body.graph.make(Op::Constant(Constant::I32(value)));
        let (mask, one) = (integer(self, -2), integer(self, 1));
        let even = self.graph.make(Op::Binary(Binary::And, column, mask));
        let odd = self.graph.make(Op::Binary(Binary::Or, column, one));
        let [first, second] = [even, odd].map(|column| {
            let word = self.word(key, [column, row, batch]);
            self.upper(word)
        });
        let number = |body: &mut Self, value| body.graph.make(Op::number(value));
        let (step, minus_two) = (number(self, STEP), number(self, -2.0));
        // In (0, 1], so that the logarithm is finite.
        let share = self.graph.make(Op::Fma(first, step, step));
        let logarithm = self.graph.make(Op::Unary(Unary::Log, share));
        let square = self.graph.make(Op::Binary(Binary::Multiply, minus_two, logarithm));
        let radius = self.graph.make(Op::Unary(Unary::Sqrt, square));
        let turn = number(self, std::f32::consts::TAU * STEP);
        let angle = self.graph.make(Op::Binary(Binary::Multiply, second, turn));
        let [sine, cosine] =
            [Unary::Sin, Unary::Cos].map(|wave| self.graph.make(Op::Unary(wave, angle)));
        let lowest = self.graph.make(Op::Binary(Binary::And, column, one));
        let is_odd = self.graph.make(Op::Binary(Binary::Equal, lowest, one));
        let wave = self.graph.make(Op::Select(is_odd, sine, cosine));
        self.graph.make(Op::Binary(Binary::Multiply, radius, wave))
    }

    /// A value of the same columns, whatever split them.
    fn note_like(&mut self, node: NodeId, like: NodeId) {
        if let Some(splits) = self.parts.get(&like).cloned() {
            self.parts.insert(node, splits);
        }
    }
}
