//! Random words, and what rounds by them.
//!
//! A thread holds two neighbouring columns of each group of eight, the first of them even: both have one counter of
//! Philox, which is computed once for the two.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{Rounding, Saturation};
use postlude_ptx::types::{B32, F32, S32, U32};

use crate::dtype::{DType, precision};
use crate::functions::machine::Machine;
use crate::functions::philox::{MULTIPLIERS, ROUNDS, WEYL};
use crate::graph::{Binary, Constant, IndexAxis, NodeId, Op};
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::machine::Registers;

use super::evaluator::Evaluator;
use super::value::{Environment, Value};

/// `a ^ b ^ c`, as a table of bits.
const XOR: u8 = 0b1001_0110;

/// A word of the counter that two neighbouring columns share.
#[derive(Clone, Copy)]
enum Within {
    /// Each column's own.
    Own,
    /// That of the even column.
    Even,
    /// That of the odd column.
    Odd,
    /// That of the other column.
    Other,
}

/// Random words that the two columns of a pair have, by node.
pub(crate) type Pairs<'k> = Vec<(NodeId, [Value<'k>; 2])>;

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    /// The four words of a counter.
    fn philox_words(
        &self,
        key: [Reg<'k, U32>; 2],
        counter: [Reg<'k, U32>; 4],
    ) -> [Reg<'k, U32>; 4] {
        let mut words = counter;
        let wide = |a: Reg<'k, U32>, b: u32| {
            let [low, high] = self.k.unpack32(a.mul_wide(b).cast());
            (high, low)
        };
        for round in 0..ROUNDS {
            let keys = [0, 1].map(|word| match round {
                0 => key[word],
                _ => key[word] + WEYL[word].wrapping_mul(round),
            });
            let (high0, low0) = wide(words[0], MULTIPLIERS[0]);
            let (high1, low1) = wide(words[2], MULTIPLIERS[1]);
            let mixed = |high: Reg<'k, B32>, word: Reg<'k, U32>, key: Reg<'k, U32>| {
                high.lop3(word.cast::<B32>(), key.cast::<B32>(), XOR).cast::<U32>()
            };
            words = [
                mixed(high1, words[1], keys[0]),
                low1.cast(),
                mixed(high0, words[3], keys[1]),
                low0.cast(),
            ];
        }
        words
    }

    /// The word of an element: two words of key, then column, row, batch and offset.
    pub(super) fn philox_word(&self, operands: [Reg<'k, S32>; 6]) -> Reg<'k, S32> {
        let [key0, key1, column, row, batch, offset] = operands.map(Reg::cast::<U32>);
        let words = self.philox_words([key0, key1], [column >> 2, row, batch, offset]);
        let odd = (column & 1).ne(0);
        let [low, high] = [0, 2].map(|first| words[first + 1].select(words[first], odd));
        high.select(low, (column & 2).ne(0)).cast()
    }

    /// The words of a pair of columns of one row, the first of which is even, of the nodes that are computed. The
    /// environment is the row's.
    pub(crate) fn random_pairs(
        &self,
        environment: &Environment<'k>,
        column: Reg<'k, U32>,
        only: &[bool],
    ) -> Pairs<'k> {
        let mut pairs = Pairs::new();
        let mut known: Vec<([NodeId; 5], [Reg<'k, U32>; 2])> = Vec::new();
        for (id, node) in self.plan.graph.nodes().filter(|(id, _)| only[id.index()]) {
            let Op::Philox([key0, key1, of, row, batch, offset]) = node.op else { continue };
            let others = [key0, key1, row, batch, offset];
            let operand = |node: NodeId| environment[node.index()].map(Value::integer);
            let (Some(within), [Some(k0), Some(k1), Some(r), Some(b), Some(o)]) =
                (self.within_pair(of), others.map(operand))
            else {
                continue;
            };
            let seen = known.iter().find(|(same, _)| *same == others).map(|(_, two)| *two);
            let two = seen.unwrap_or_else(|| {
                let [k0, k1, r, b, o] = [k0, k1, r, b, o].map(Reg::cast::<U32>);
                let words = self.philox_words([k0, k1], [column >> 2, r, b, o]);
                let upper = (column & 2).ne(0);
                let two = [0, 1].map(|word| words[word + 2].select(words[word], upper));
                known.push((others, two));
                two
            });
            let [even, odd] = two.map(|word| Value::Integer(word.cast()));
            pairs.push((
                id,
                match within {
                    Within::Own => [even, odd],
                    Within::Even => [even, even],
                    Within::Odd => [odd, odd],
                    Within::Other => [odd, even],
                },
            ));
        }
        pairs
    }

    /// Which of a pair's words a column operand asks for, where it stays inside the pair.
    fn within_pair(&self, column: NodeId) -> Option<Within> {
        let graph = self.plan.graph;
        let is_own = |node: NodeId| graph[node].op == Op::Index(IndexAxis::Column);
        if is_own(column) {
            return Some(Within::Own);
        }
        let Op::Binary(op, a, b) = graph[column].op else { return None };
        let (own, other) = if is_own(a) { (a, b) } else { (b, a) };
        let Op::Constant(Constant::I32(mask)) = graph[other].op else { return None };
        match (op, mask) {
            (Binary::And, -2) if is_own(own) => Some(Within::Even),
            (Binary::Or, 1) if is_own(own) => Some(Within::Odd),
            (Binary::Xor, 1) if is_own(own) => Some(Within::Other),
            _ => None,
        }
    }

    /// Rounds to a narrow float by random bits: see `dtype/stochastic`.
    pub(super) fn round_randomly(
        &self,
        to: DType,
        a: Reg<'k, F32>,
        random: Reg<'k, S32>,
    ) -> Reg<'k, F32> {
        let Some((least, fraction)) = precision(to) else {
            panic!("compiler bug: {to} is not narrow")
        };
        let (k, random) = (self.k, random.cast::<U32>());
        let bits = k.f32_to_bits(a).cast::<U32>();
        let dropped = 23 - fraction as u32;
        let moved = (bits + (random >> (32 - dropped))) & (u32::MAX << dropped);
        let moved = k.bits_to_f32(moved.cast());
        let moved = if to == DType::BF16 {
            moved
        } else {
            // Below the normal numbers the step is the same everywhere.
            let step = (f64::from(least - fraction)).exp2() as f32;
            let steps = a.abs() * (1.0 / step);
            let below = Registers(k).floor(steps);
            let scaled = (steps - below) * 4294967296.0_f32;
            let part: Reg<'k, U32> = k.convert(Rounding::ZeroWhole, Saturation::None, scaled);
            let above = (part + random).lt(random);
            let near = (below + k.imm::<F32>(1.0).select(0.0, above)) * step;
            let signed = k.f32_to_bits(near).cast::<U32>() | (bits & 0x8000_0000);
            k.bits_to_f32(signed.cast()).select(moved, a.abs().lt((f64::from(least)).exp2() as f32))
        };
        self.rounded(to, moved.select(a, a.eq(a)))
    }
}
