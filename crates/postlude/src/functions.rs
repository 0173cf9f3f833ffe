//! stub
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Function { Exp, Exp2, Log, Log2, Log1p, Expm1, Sin, Cos, Tanh, Erf, Rsqrt, Rcp, Sqrt, Pow }
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accuracy { Accurate, Hardware, Fast }
pub fn bound(_f: Function, _a: Accuracy, _x: f64, y: f64) -> f64 { 2.0 * ulp_f32(y) }
pub fn ulp_f32(y: f64) -> f64 { (y.abs() as f32).max(f32::MIN_POSITIVE) as f64 * 2f64.powi(-23) }
pub fn erf_f64(x: f64) -> f64 { libm::erf(x) }
