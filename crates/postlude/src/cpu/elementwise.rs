//! Elementwise operations on runs of values.

use crate::dtype::{self, DType, Elem};
use crate::functions::philox::{element, philox as philox_words};
use crate::functions::{self, Accuracy, FunctionOfTwo};
use crate::graph::{Binary, Unary, bits_of, shift_left, shift_right, shift_right_logical};

use crate::tensor::TensorView;

use super::buffer::{Buffer, View};
use super::vectorise::{Loop, Map, Zip, Zip3, vectorised};

/// The larger, nan if either is; of two zeros the positive one.
#[inline(always)]
pub(super) fn larger(x: f32, y: f32) -> f32 {
    let other = if x == y { f32::from_bits(x.to_bits() & y.to_bits()) } else { y };
    if x > y || x.is_nan() { x } else { other }
}

/// The smaller, nan if either is; of two zeros the negative one.
#[inline(always)]
pub(super) fn smaller(x: f32, y: f32) -> f32 {
    let other = if x == y { f32::from_bits(x.to_bits() | y.to_bits()) } else { y };
    if x < y || x.is_nan() { x } else { other }
}

/// 1 or -1; 0 of both zeros, nan of nan.
#[inline(always)]
fn sign(x: f32) -> f32 {
    let side = f32::from(u8::from(x > 0.0)) - f32::from(u8::from(x < 0.0));
    if x.is_nan() { x } else { side }
}

pub(super) fn unary(op: Unary, accuracy: Accuracy, a: View<'_>, out: &mut Buffer) {
    match (op, a) {
        (Unary::Not, View::Bool(a)) => vectorised(Map(a, out.bools(), |x| 1 - x)),
        (Unary::Invert, View::I32(a)) => vectorised(Map(a, out.i32s(), |x: i32| !x)),
        (Unary::Negate, View::I32(a)) => vectorised(Map(a, out.i32s(), i32::wrapping_neg)),
        (Unary::Abs, View::I32(a)) => vectorised(Map(a, out.i32s(), i32::wrapping_abs)),
        (Unary::Sign, View::I32(a)) => vectorised(Map(a, out.i32s(), i32::signum)),
        (Unary::Negate, View::F32(a)) => vectorised(Map(a, out.f32s(), |x: f32| -x)),
        (Unary::Abs, View::F32(a)) => vectorised(Map(a, out.f32s(), f32::abs)),
        (Unary::Sign, View::F32(a)) => vectorised(Map(a, out.f32s(), sign)),
        (Unary::Floor, View::F32(a)) => vectorised(Map(a, out.f32s(), f32::floor)),
        (Unary::Ceil, View::F32(a)) => vectorised(Map(a, out.f32s(), f32::ceil)),
        (Unary::Round, View::F32(a)) => vectorised(Map(a, out.f32s(), f32::round_ties_even)),
        (Unary::IsNan, View::F32(a)) => {
            vectorised(Map(a, out.bools(), |x: f32| u8::from(x.is_nan())));
        }
        (Unary::Bits, View::F32(a)) => vectorised(Map(a, out.i32s(), bits_of)),
        (Unary::Float, View::I32(a)) => {
            vectorised(Map(a, out.f32s(), |x: i32| f32::from_bits(x as u32)));
        }
        (Unary::IsInf, View::F32(a)) => {
            vectorised(Map(a, out.bools(), |x: f32| u8::from(x.is_infinite())));
        }
        (_, View::F32(a)) => {
            let Some(function) = op.function() else {
                panic!("compiler bug: `{}` of f32", op.name())
            };
            let len = out.len();
            out.copy_from(0, len, View::F32(a));
            functions::apply_in_place(function, accuracy, out.f32s());
        }
        (_, View::I32(_) | View::Bool(_)) => {
            panic!("compiler bug: `{}` of a foreign type", op.name())
        }
    }
}

pub(super) fn binary(op: Binary, accuracy: Accuracy, a: View<'_>, b: View<'_>, out: &mut Buffer) {
    match (a, b) {
        (View::F32(a), View::F32(b)) => binary_f32(op, accuracy, a, b, out),
        (View::I32(a), View::I32(b)) => binary_i32(op, a, b, out),
        (View::Bool(a), View::Bool(b)) => {
            let out = out.bools();
            match op {
                Binary::And => vectorised(Zip(a, b, out, |x, y| x & y)),
                Binary::Or => vectorised(Zip(a, b, out, |x, y| x | y)),
                Binary::Equal => vectorised(Zip(a, b, out, |x, y| u8::from(x == y))),
                Binary::NotEqual => vectorised(Zip(a, b, out, |x, y| u8::from(x != y))),
                _ => panic!("compiler bug: `{}` of truth values", op.name()),
            }
        }
        _ => panic!("compiler bug: `{}` of two types", op.name()),
    }
}

fn binary_f32(op: Binary, accuracy: Accuracy, a: &[f32], b: &[f32], out: &mut Buffer) {
    match op {
        Binary::Add => vectorised(Zip(a, b, out.f32s(), |x: f32, y: f32| x + y)),
        Binary::Subtract => vectorised(Zip(a, b, out.f32s(), |x: f32, y: f32| x - y)),
        Binary::Multiply => vectorised(Zip(a, b, out.f32s(), |x: f32, y: f32| x * y)),
        Binary::Divide => vectorised(Zip(a, b, out.f32s(), |x: f32, y: f32| x / y)),
        Binary::Maximum => vectorised(Zip(a, b, out.f32s(), larger)),
        Binary::Minimum => vectorised(Zip(a, b, out.f32s(), smaller)),
        Binary::Less => vectorised(Zip(a, b, out.bools(), |x: f32, y: f32| u8::from(x < y))),
        Binary::LessEqual => vectorised(Zip(a, b, out.bools(), |x: f32, y: f32| u8::from(x <= y))),
        Binary::Equal => vectorised(Zip(a, b, out.bools(), |x: f32, y: f32| u8::from(x == y))),
        Binary::NotEqual => vectorised(Zip(a, b, out.bools(), |x: f32, y: f32| u8::from(x != y))),
        Binary::Pow => of_two(FunctionOfTwo::Pow, accuracy, a, b, out),
        Binary::Fmod => of_two(FunctionOfTwo::Fmod, accuracy, a, b, out),
        Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::ShiftRightLogical => panic!("compiler bug: `{}` of f32", op.name()),
    }
}

fn of_two(function: FunctionOfTwo, accuracy: Accuracy, a: &[f32], b: &[f32], out: &mut Buffer) {
    let len = out.len();
    let mut second = Buffer::new(Elem::F32, len);
    second.copy_from(0, len, View::F32(b));
    out.copy_from(0, len, View::F32(a));
    functions::apply_of_two_in_place(function, accuracy, out.f32s(), second.f32s());
}

fn binary_i32(op: Binary, a: &[i32], b: &[i32], out: &mut Buffer) {
    match op {
        Binary::Add => vectorised(Zip(a, b, out.i32s(), i32::wrapping_add)),
        Binary::Subtract => vectorised(Zip(a, b, out.i32s(), i32::wrapping_sub)),
        Binary::Multiply => vectorised(Zip(a, b, out.i32s(), i32::wrapping_mul)),
        Binary::Maximum => vectorised(Zip(a, b, out.i32s(), Ord::max)),
        Binary::Minimum => vectorised(Zip(a, b, out.i32s(), Ord::min)),
        Binary::Less => vectorised(Zip(a, b, out.bools(), |x: i32, y: i32| u8::from(x < y))),
        Binary::LessEqual => vectorised(Zip(a, b, out.bools(), |x: i32, y: i32| u8::from(x <= y))),
        Binary::Equal => vectorised(Zip(a, b, out.bools(), |x: i32, y: i32| u8::from(x == y))),
        Binary::NotEqual => vectorised(Zip(a, b, out.bools(), |x: i32, y: i32| u8::from(x != y))),
        Binary::And => vectorised(Zip(a, b, out.i32s(), |x: i32, y: i32| x & y)),
        Binary::Or => vectorised(Zip(a, b, out.i32s(), |x: i32, y: i32| x | y)),
        Binary::Xor => vectorised(Zip(a, b, out.i32s(), |x: i32, y: i32| x ^ y)),
        Binary::ShiftLeft => vectorised(Zip(a, b, out.i32s(), shift_left)),
        Binary::ShiftRight => vectorised(Zip(a, b, out.i32s(), shift_right)),
        Binary::ShiftRightLogical => vectorised(Zip(a, b, out.i32s(), shift_right_logical)),
        Binary::Divide | Binary::Pow | Binary::Fmod => {
            panic!("compiler bug: `{}` of i32", op.name())
        }
    }
}

pub(super) fn fma(a: View<'_>, b: View<'_>, c: View<'_>, out: &mut Buffer) {
    vectorised(Zip3(a.f32s(), b.f32s(), c.f32s(), out.f32s(), f32::mul_add));
}

pub(super) fn select(condition: View<'_>, a: View<'_>, b: View<'_>, out: &mut Buffer) {
    let condition = condition.bools();
    match (a, b) {
        (View::F32(a), View::F32(b)) => {
            vectorised(Zip3(condition, a, b, out.f32s(), |c: u8, x, y| if c != 0 { x } else { y }));
        }
        (View::I32(a), View::I32(b)) => {
            vectorised(Zip3(condition, a, b, out.i32s(), |c: u8, x, y| if c != 0 { x } else { y }));
        }
        (View::Bool(a), View::Bool(b)) => {
            vectorised(Zip3(
                condition,
                a,
                b,
                out.bools(),
                |c: u8, x, y| if c != 0 { x } else { y },
            ));
        }
        _ => panic!("compiler bug: `where` of two types"),
    }
}

/// Rounds to a narrow float by random bits.
pub(super) fn round(to: DType, a: View<'_>, bits: View<'_>, out: &mut Buffer) {
    let (a, bits, out) = (a.f32s(), bits.i32s(), out.f32s());
    if to == DType::BF16 {
        return vectorised(Zip(a, bits, out, round_to_bf16));
    }
    vectorised(Zip(a, bits, out, |x: f32, bits: i32| {
        dtype::round_randomly(to, f64::from(x), bits as u32) as f32
    }));
}

/// The fraction of a bf16 is the upper part of that of f32, below its normal numbers too.
#[inline(always)]
fn round_to_bf16(x: f32, bits: i32) -> f32 {
    let moved = x.to_bits().wrapping_add(bits as u32 >> 16) & 0xffff_0000;
    if x.is_nan() { x } else { f32::from_bits(moved) }
}

/// Words of Philox: two of key, then column, row, batch and offset. Four columns share a counter.
pub(super) fn philox(words: [View<'_>; 6], out: &mut Buffer) {
    let words = words.map(View::i32s);
    let at = |word: usize, index: usize| {
        let values = words[word];
        if values.len() == 1 { values[0] } else { values[index] }
    };
    let mut known: Option<([u32; 2], [u32; 4], [u32; 4])> = None;
    for (index, out) in out.i32s().iter_mut().enumerate() {
        let key = [at(0, index) as u32, at(1, index) as u32];
        let (counter, word) = element(at(2, index), at(3, index), at(4, index), at(5, index));
        let four = match known {
            Some((of, from, four)) if of == key && from == counter => four,
            Some(_) | None => philox_words(key, counter),
        };
        known = Some((key, counter, four));
        *out = four[word] as i32;
    }
}

/// Elements of a table; nan, of integers 0, for an index out of range.
pub(super) fn take(table: TensorView<'_>, index: View<'_>, out: &mut Buffer) {
    let (count, stride) = (table.shape()[0], table.strides()[0]);
    let at = |place: i32| {
        let place = usize::try_from(place).ok().filter(|place| *place < count)?;
        let element = (table.offset() as isize + place as isize * stride) as usize;
        Some(dtype::load(table.dtype(), table.bytes(), element))
    };
    match out {
        Buffer::F32(out) => {
            Map(index.i32s(), out, |place| at(place).map_or(f32::NAN, |value| value as f32)).run();
        }
        Buffer::I32(out) => {
            Map(index.i32s(), out, |place| at(place).map_or(0, |value| value as i32)).run();
        }
        Buffer::Bool(_) => panic!("compiler bug: a table of truth values"),
    }
}

/// Elements of a table with two dims; nan, of integers 0, where an index is out of range.
pub(super) fn entry(table: TensorView<'_>, [row, column]: [View<'_>; 2], out: &mut Buffer) {
    let (shape, strides) = (table.shape(), table.strides());
    let (rows, columns) = (row.i32s(), column.i32s());
    let at = |index: usize| {
        let place = [rows, columns].map(|all| if all.len() == 1 { all[0] } else { all[index] });
        let mut element = table.offset() as isize;
        for dim in 0..2 {
            let place = usize::try_from(place[dim]).ok().filter(|place| *place < shape[dim])?;
            element += place as isize * strides[dim];
        }
        Some(dtype::load(table.dtype(), table.bytes(), element as usize))
    };
    match out {
        Buffer::F32(out) => {
            let all = out.iter_mut().enumerate();
            all.for_each(|(index, out)| *out = at(index).map_or(f32::NAN, |value| value as f32));
        }
        Buffer::I32(out) => {
            let all = out.iter_mut().enumerate();
            all.for_each(|(index, out)| *out = at(index).map_or(0, |value| value as i32));
        }
        Buffer::Bool(_) => panic!("compiler bug: a table of truth values"),
    }
}

/// Rounds as a store of that type and a load would.
pub(super) fn cast(to: DType, a: View<'_>, out: &mut Buffer) {
    match (to, a) {
        (DType::F32, View::F32(_))
        | (DType::I32, View::I32(_))
        | (DType::Bool | DType::B1, View::Bool(_)) => {
            let len = out.len();
            out.copy_from(0, len, a);
        }
        (DType::F32, View::I32(a)) => vectorised(Map(a, out.f32s(), |x: i32| x as f32)),
        (DType::I32, View::Bool(a)) => vectorised(Map(a, out.i32s(), i32::from)),
        (DType::F32, View::Bool(a)) => vectorised(Map(a, out.f32s(), |x: u8| f32::from(x))),
        (DType::Bool | DType::B1, View::F32(a)) => {
            vectorised(Map(a, out.bools(), |x: f32| u8::from(x != 0.0)));
        }
        (DType::Bool | DType::B1, View::I32(a)) => {
            vectorised(Map(a, out.bools(), |x: i32| u8::from(x != 0)));
        }
        (DType::F8E8M0, View::Bool(a)) => {
            let [zero, one] = [0.0, 1.0].map(|x| dtype::round_to(to, x) as f32);
            vectorised(Map(a, out.f32s(), |x: u8| if x == 0 { zero } else { one }));
        }
        // 0 and 1 are exact in every other type.
        (_, View::Bool(a)) if to.is_float() => vectorised(Map(a, out.f32s(), |x: u8| f32::from(x))),
        (_, View::Bool(a)) => vectorised(Map(a, out.i32s(), i32::from)),
        (_, View::F32(_) | View::I32(_)) => cast_through_bytes(to, a, out),
    }
}

/// Elements that are converted at a time, in memory on the stack: whole bytes of packed bits.
const AT_ONCE: usize = 256;

fn cast_through_bytes(to: DType, a: View<'_>, out: &mut Buffer) {
    let mut bytes = [0; 4 * AT_ONCE];
    let single = a.len() == 1;
    let mut from = 0;
    while from < out.len() {
        let some = AT_ONCE.min(out.len() - from);
        let part = if single { a } else { a.slice(from..from + some) };
        store(to, &mut bytes, 0, part);
        match out {
            Buffer::F32(out) => {
                dtype::load_f32(to, &bytes, 0, &mut out[from..from + part.len()]);
            }
            Buffer::I32(out) => {
                dtype::load_i32(to, &bytes, 0, &mut out[from..from + part.len()]);
            }
            Buffer::Bool(_) => panic!("compiler bug: a cast of numbers to truth values"),
        }
        if single {
            return out.repeat_first();
        }
        from += some;
    }
}

/// Stores contiguous elements.
pub(super) fn store(dtype: DType, bytes: &mut [u8], start: usize, values: View<'_>) {
    match values {
        View::F32(values) => dtype::store_f32(dtype, bytes, start, values),
        View::I32(values) => dtype::store_i32(dtype, bytes, start, values),
        View::Bool(values) if dtype == DType::Bool => {
            bytes[start..start + values.len()].copy_from_slice(values);
        }
        View::Bool(values) => {
            let mut wide = [0; AT_ONCE];
            for (part, values) in values.chunks(AT_ONCE).enumerate() {
                let wide = &mut wide[..values.len()];
                wide.iter_mut().zip(values).for_each(|(wide, value)| *wide = i32::from(*value));
                dtype::store_i32(dtype, bytes, start + part * AT_ONCE, wide);
            }
        }
    }
}

/// Loads contiguous elements.
pub(super) fn load(dtype: DType, bytes: &[u8], start: usize, out: &mut Buffer) {
    match out {
        Buffer::F32(out) => dtype::load_f32(dtype, bytes, start, out),
        Buffer::I32(out) => dtype::load_i32(dtype, bytes, start, out),
        Buffer::Bool(out) if dtype == DType::Bool => {
            for (out, byte) in out.iter_mut().zip(&bytes[start..]) {
                *out = u8::from(*byte != 0);
            }
        }
        Buffer::Bool(out) => {
            for (index, out) in out.iter_mut().enumerate() {
                *out = u8::from(dtype::load(dtype, bytes, start + index) != 0.0);
            }
        }
    }
}
