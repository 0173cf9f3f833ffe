//! Comparisons.

use std::cmp::Ordering;

use postlude_ptx::modifier::Compare;
use postlude_ptx::types::Scalar;

use super::float::read;
use super::{Binary, two};

/// Whether a comparison holds; nothing for an order where a side is NaN.
fn holds(compare: Compare, order: Option<Ordering>) -> bool {
    let unordered = order.is_none();
    let is = |wanted: fn(Ordering) -> bool| order.is_some_and(wanted);
    match compare {
        Compare::Eq => is(Ordering::is_eq),
        Compare::Ne => is(Ordering::is_ne),
        Compare::Lt => is(Ordering::is_lt),
        Compare::Le => is(Ordering::is_le),
        Compare::Gt => is(Ordering::is_gt),
        Compare::Ge => is(Ordering::is_ge),
        Compare::EqOrNan => unordered || is(Ordering::is_eq),
        Compare::NeOrNan => unordered || is(Ordering::is_ne),
        Compare::LtOrNan => unordered || is(Ordering::is_lt),
        Compare::LeOrNan => unordered || is(Ordering::is_le),
        Compare::GtOrNan => unordered || is(Ordering::is_gt),
        Compare::GeOrNan => unordered || is(Ordering::is_ge),
        Compare::BothNumbers => !unordered,
        Compare::AnyNan => unordered,
    }
}

/// The comparison of a type.
pub(super) fn compare(compare: Compare, ty: Scalar) -> Option<Binary> {
    let by = |order: fn(u64, u64) -> Option<Ordering>| {
        two(move |a, b| u64::from(holds(compare, order(a, b))))
    };
    match ty {
        Scalar::F32 => Some(by(|a, b| read(a).partial_cmp(&read(b)))),
        Scalar::U16 | Scalar::B16 => Some(by(|a, b| Some((a as u16).cmp(&(b as u16))))),
        Scalar::S16 => Some(by(|a, b| Some((a as i16).cmp(&(b as i16))))),
        Scalar::U32 | Scalar::B32 => Some(by(|a, b| Some((a as u32).cmp(&(b as u32))))),
        Scalar::S32 => Some(by(|a, b| Some((a as i32).cmp(&(b as i32))))),
        Scalar::U64 | Scalar::B64 => Some(by(|a, b| Some(a.cmp(&b)))),
        Scalar::S64 => Some(by(|a, b| Some((a as i64).cmp(&(b as i64))))),
        Scalar::U8
        | Scalar::S8
        | Scalar::B8
        | Scalar::F16
        | Scalar::BF16
        | Scalar::TF32
        | Scalar::E4M3
        | Scalar::E5M2
        | Scalar::F16x2
        | Scalar::BF16x2
        | Scalar::E4M3x2
        | Scalar::E5M2x2
        | Scalar::Pred => None,
    }
}
