//! Single pairs of `topk`: keys that tiles share as bounds, and the insertion of one pair.
//!
//! A slot is a key as an unsigned number in the order of the values: 0 is the key of nothing, and nan has the highest.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{B32, F32, Pred, U32};

use crate::graph::fold::{Arrival, Ranking, insert_ranked, pairs};
use crate::lower::Reduction;
use crate::target::sm90::emit::chip::EpilogueChip;

use super::evaluator::Evaluator;
use super::fold::{arrival, integer};
use super::value::{State, Term};

/// The bit in which a key and its slot differ.
const SIGN: u32 = 1 << 31;

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    /// A key as a slot.
    pub(crate) fn slot_of_key(&self, key: Reg<'k, F32>) -> Reg<'k, U32> {
        self.k.f32_to_bits(key).cast::<U32>() ^ SIGN
    }

    /// A value's key as a slot.
    pub(crate) fn slot_of_value(&self, reduction: Reduction, value: Reg<'k, F32>) -> Reg<'k, U32> {
        self.slot_of_key(self.floats(reduction).key(value))
    }

    /// The value of a slot; of an empty one nan, which no value is below.
    pub(crate) fn value_of_slot(&self, reduction: Reduction, slot: Reg<'k, U32>) -> Reg<'k, F32> {
        let key = self.k.bits_to_f32((slot ^ SIGN).cast::<B32>());
        self.floats(reduction).value(key)
    }

    /// How many pairs a list has.
    pub(crate) fn count_pairs(&self, state: &State<'k>) -> Reg<'k, U32> {
        let k = self.k;
        let one = |key: Reg<'k, F32>| k.imm::<U32>(1).select(0, integer(k, key).ne(i32::MIN));
        let keys = state.iter().step_by(2).map(|key| one(*key));
        keys.reduce(|sum, one| sum + one).unwrap_or_else(|| k.imm(0))
    }

    /// A list with one more term where it counts, which comes behind all before it.
    pub(crate) fn fold_candidate(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        term: &Term<'k>,
        counts: Reg<'k, Pred>,
    ) -> State<'k> {
        let on = self.floats(reduction);
        let [value, index] = term.pair();
        let key = on.key(value).select(on.nothing()[0], counts);
        let mut kept = pairs(state);
        insert_ranked(&on, arrival(reduction), &mut kept, [key, index]);
        kept.concat()
    }

    /// A list with one more pair of a key and an index, in any order.
    pub(crate) fn fold_pair(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        pair: [Reg<'k, F32>; 2],
    ) -> State<'k> {
        let mut kept = pairs(state);
        insert_ranked(&self.floats(reduction), Arrival::Any, &mut kept, pair);
        kept.concat()
    }
}
