//! Folds in f64: what the CPU sums in, and the reference without bounds.

use crate::graph::value::{larger, smaller};

use super::ranked::Ranking;
use super::reduction::{Arithmetic, Selection, Transcendental};

/// The arithmetic of f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct F64;

impl Arithmetic for F64 {
    type Word = f64;

    #[inline(always)]
    fn add(&self, a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn mul(&self, a: f64, b: f64) -> f64 {
        a * b
    }
    fn max(&self, a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { larger(a, b) }
    }
    fn min(&self, a: f64, b: f64) -> f64 {
        if a.is_nan() || b.is_nan() { f64::NAN } else { smaller(a, b) }
    }
    fn abs(&self, a: f64) -> f64 {
        a.abs()
    }
}

impl Selection for F64 {
    type Truth = bool;

    #[inline(always)]
    fn select(&self, condition: bool, yes: f64, no: f64) -> f64 {
        if condition { yes } else { no }
    }
    #[inline(always)]
    fn canonical(&self, a: f64) -> f64 {
        // The sum of zeros of either sign is 0.
        if a.is_nan() { f64::NAN } else { a + 0.0 }
    }
    #[inline(always)]
    fn same(&self, a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits()
    }
    #[inline(always)]
    fn lower_index(&self, a: f64, b: f64) -> f64 {
        a.min(b)
    }
}

/// A key is the canonical value; no term has an index that is higher than all.
impl Ranking for F64 {
    #[inline(always)]
    fn key(&self, value: f64) -> f64 {
        self.canonical(value)
    }
    fn value(&self, key: f64) -> f64 {
        key
    }
    fn nothing(&self) -> [f64; 2] {
        [f64::NEG_INFINITY, f64::INFINITY]
    }
    #[inline(always)]
    fn precedes(&self, a: [f64; 2], b: [f64; 2]) -> bool {
        let above = a[0] > b[0] || (a[0].is_nan() && !b[0].is_nan());
        above || (self.same(a[0], b[0]) && a[1] < b[1])
    }
    #[inline(always)]
    fn exceeds(&self, a: [f64; 2], b: [f64; 2]) -> bool {
        self.precedes(a, b)
    }
}

impl Transcendental for F64 {
    fn constant(&self, value: f32) -> f64 {
        value.into()
    }
    fn sub(&self, a: f64, b: f64) -> f64 {
        a - b
    }
    fn is_finite(&self, a: f64) -> bool {
        a.is_finite()
    }
    fn equal(&self, a: f64, b: f64) -> bool {
        a == b
    }
    fn select_or(&self, condition: bool, yes: f64, no: f32) -> f64 {
        if condition { yes } else { no.into() }
    }
    fn exp(&self, a: f64) -> f64 {
        // One of two partial sums is the peak's own.
        if a == 0.0 { 1.0 } else { a.exp() }
    }
    fn log(&self, a: f64) -> f64 {
        a.ln()
    }
    fn log1p(&self, a: f64) -> f64 {
        a.ln_1p()
    }
    fn rcp(&self, a: f64) -> f64 {
        1.0 / a
    }
    fn mul_add(&self, a: f64, b: f64, c: f64) -> f64 {
        a * b + c
    }
}
