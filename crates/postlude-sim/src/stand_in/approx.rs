//! Functions that the hardware approximates, here rounded once.

fn flushed(x: f32, flush: bool) -> f32 {
    if flush && x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

fn through(x: f32, flush: bool, f: impl Fn(f64) -> f64) -> f32 {
    flushed(f(f64::from(flushed(x, flush))) as f32, flush)
}

pub(crate) fn ex2(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::exp2)
}

pub(crate) fn lg2(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::log2)
}

pub(crate) fn rcp(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::recip)
}

pub(crate) fn rsqrt(x: f32, flush: bool) -> f32 {
    through(x, flush, |x| x.sqrt().recip())
}

pub(crate) fn sqrt(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::sqrt)
}

pub(crate) fn tanh(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::tanh)
}

pub(crate) fn sin(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::sin)
}

pub(crate) fn cos(x: f32, flush: bool) -> f32 {
    through(x, flush, f64::cos)
}

pub(crate) fn div_full(a: f32, b: f32) -> f32 {
    (f64::from(a) / f64::from(b)) as f32
}
