//! Folds: how reductions make one value of many.

mod candidates;
mod enclosure;
mod numbers;
mod order;
mod ranked;
mod reduction;
mod weighted;
mod weighted_enclosure;

use crate::dtype::Elem;

pub(crate) use candidates::Candidates;
pub(crate) use enclosure::{lowest_bit, sums_exactly};
pub(crate) use numbers::F64;
pub(crate) use ranked::{Arrival, Ranking, combine_ranked, insert_ranked, pairs};
pub use ranked::{Gives, Top};
pub(crate) use reduction::{
    Arithmetic, Extreme, Peak, Selection, Transcendental, Words, combine_indexed, exponentials,
    extend_indexed,
};
pub use weighted::Weighted;

/// How a reduction folds its elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest; nan if any is.
    Max,
    /// The smallest; nan if any is.
    Min,
    /// The largest magnitude; nan if any is.
    AbsMax,
    /// `log(sum(exp(x)))`, without overflow.
    LogSumExp,
    /// `logsumexp(x) - max(x)`: `log1p` of the sum of `exp(x - max(x))` without one maximum, accurate where that is small; nan
    /// where the maximum is infinite. It has no name in the language.
    LogSumExpAboveMax,
    /// Where the largest is: its index among all that are folded, row by row; of equal ones the lowest, of nan the first.
    ArgMax,
    /// Where the smallest is; of nan the first.
    ArgMin,
    /// One of the largest values in order, nan first, or where it is.
    Top(Top),
    /// A fold of terms with weights, which has no name in the language.
    Weighted(Weighted),
}

impl Fold {
    /// Every fold, those that keep several with the first.
    pub(crate) const ALL: [Fold; 11] = [
        Fold::Sum,
        Fold::Prod,
        Fold::Max,
        Fold::Min,
        Fold::AbsMax,
        Fold::LogSumExp,
        Fold::LogSumExpAboveMax,
        Fold::ArgMax,
        Fold::ArgMin,
        Fold::Top(Top { place: 0, of: 1, gives: Gives::Value }),
        Fold::Top(Top { place: 0, of: 1, gives: Gives::Index }),
    ];

    /// The folds of terms with weights.
    const WEIGHTED: [Weighted; 4] = [
        Weighted::Exponentials,
        Weighted::ExponentialsBelowMax,
        Weighted::ExponentialsBelowOwnMax,
        Weighted::Deviations,
    ];

    /// What is folded of terms and weights, if it takes those.
    pub(crate) const fn weighted(self) -> Option<Weighted> {
        match self {
            Fold::Weighted(weighted) => Some(weighted),
            Fold::Sum
            | Fold::Prod
            | Fold::Max
            | Fold::Min
            | Fold::AbsMax
            | Fold::LogSumExp
            | Fold::LogSumExpAboveMax
            | Fold::ArgMax
            | Fold::ArgMin
            | Fold::Top(_) => None,
        }
    }

    /// Whether terms may have weights. Those of `topk` say which terms count: all but those of weight 0.
    pub(crate) const fn takes_weights(self) -> bool {
        self.weighted().is_some() || matches!(self, Fold::Top(_))
    }

    /// The name in the language, or in printed graphs.
    pub const fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Prod => "prod",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::AbsMax => "absmax",
            Fold::LogSumExp => "logsumexp",
            Fold::LogSumExpAboveMax => "logsumexp_above_max",
            Fold::ArgMax => "argmax",
            Fold::ArgMin => "argmin",
            Fold::Top(Top { gives: Gives::Value, .. }) => "top_value",
            Fold::Top(Top { gives: Gives::Index, .. }) => "top_index",
            Fold::Weighted(Weighted::Exponentials) => "weighted_exp",
            Fold::Weighted(Weighted::ExponentialsBelowMax) => "weighted_exp_below_max",
            Fold::Weighted(Weighted::ExponentialsBelowOwnMax) => "exp_below_max",
            Fold::Weighted(Weighted::Deviations) => "squared_deviations",
        }
    }

    /// The fold of that name.
    pub fn from_name(name: &str) -> Option<Fold> {
        Fold::ALL
            .into_iter()
            .chain(Fold::WEIGHTED.map(Fold::Weighted))
            .find(|fold| fold.name() == name)
    }

    /// Type rule: what it gives for elements of this type; `None` when it does not take them.
    pub const fn gives(self, elem: Elem) -> Option<Elem> {
        match (self, elem) {
            (_, Elem::Bool)
            | (
                Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Top(_) | Fold::Weighted(_),
                Elem::I32,
            ) => None,
            (Fold::ArgMax | Fold::ArgMin | Fold::Top(Top { gives: Gives::Index, .. }), _)
            | (_, Elem::I32) => Some(Elem::I32),
            (_, Elem::F32) => Some(Elem::F32),
        }
    }

    /// Whether it needs the index of each term.
    pub const fn uses_index(self) -> bool {
        match self {
            Fold::ArgMax | Fold::ArgMin | Fold::Top(_) => true,
            Fold::Sum
            | Fold::Prod
            | Fold::Max
            | Fold::Min
            | Fold::AbsMax
            | Fold::LogSumExp
            | Fold::LogSumExpAboveMax
            | Fold::Weighted(_) => false,
        }
    }

    /// What an empty reduction gives, and what a lane out of range contributes. (Nothing at all is nan above its maximum.)
    /// Of a fold that gives an index, and of one with weights, it is a term: there is no index among nothing, which a call is refused for.
    pub const fn identity(self, elem: Elem) -> f64 {
        match (self, elem) {
            (Fold::Sum | Fold::AbsMax | Fold::Weighted(Weighted::Deviations), _) => 0.0,
            (Fold::Prod, _) => 1.0,
            (Fold::Max | Fold::ArgMax, Elem::I32) => i32::MIN as f64,
            (Fold::Min | Fold::ArgMin, Elem::I32) => i32::MAX as f64,
            (
                Fold::Max
                | Fold::ArgMax
                | Fold::LogSumExp
                | Fold::LogSumExpAboveMax
                | Fold::Top(_)
                | Fold::Weighted(
                    Weighted::Exponentials
                    | Weighted::ExponentialsBelowMax
                    | Weighted::ExponentialsBelowOwnMax,
                ),
                _,
            ) => f64::NEG_INFINITY,
            (Fold::Min | Fold::ArgMin, _) => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::Accuracy;
    use crate::graph::Value;

    fn exact(values: &[f64]) -> Vec<Value> {
        values.iter().copied().map(Value::exact).collect()
    }

    #[test]
    fn empty_reductions_give_the_identity() {
        for fold in [Fold::Sum, Fold::Prod, Fold::Max, Fold::Min, Fold::AbsMax, Fold::LogSumExp] {
            assert_eq!(
                fold.apply(Elem::F32, Accuracy::Accurate, &[]),
                Value::exact(fold.identity(Elem::F32)),
                "{}",
                fold.name()
            );
        }
    }

    #[test]
    fn whole_numbers_sum_exactly() {
        assert!(
            Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[1.0, 2.0, -3.0, 0.5]))
                .is_exact()
        );
        assert!(
            !Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[0.1f32 as f64, 1e10]))
                .is_exact()
        );
    }

    #[test]
    fn nan_and_infinity_reach_the_result() {
        assert!(
            Fold::Max.apply(Elem::F32, Accuracy::Accurate, &exact(&[1.0, f64::NAN])).is_only_nan()
        );
        let infinite =
            Fold::Sum.apply(Elem::F32, Accuracy::Accurate, &exact(&[0.1, f64::INFINITY, 7.3]));
        assert_eq!((infinite.low, infinite.high), (f64::INFINITY, f64::INFINITY));
        assert!(
            Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[f64::NEG_INFINITY, f64::INFINITY]))
                .is_only_nan()
        );
    }

    #[test]
    fn a_sum_of_uncertain_counts_lies_between_the_sums_of_their_ends() {
        let uncertain = Value::truth(true, true, true);
        let terms = [exact(&[1.0; 5]), vec![uncertain; 3]].concat();
        let count = Fold::Sum.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!((count.nominal, count.low, count.high), (8.0, 5.0, 8.0));
        let product = Fold::Prod.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!((product.low, product.high), (0.0, 1.0));
    }

    #[test]
    fn integer_sums_wrap() {
        let terms = exact(&[2147483647.0, 2147483647.0, 3.0]);
        let total = Fold::Sum.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!(total, Value::exact(1.0));
    }

    #[test]
    fn log_sum_exp_does_not_overflow() {
        let value = Fold::LogSumExp.apply(Elem::F32, Accuracy::Accurate, &exact(&[1e4, 1e4]));
        assert!((value.nominal - (1e4 + 2f64.ln())).abs() < 1e-2 && value.bound() < 1e-2);
    }
}
