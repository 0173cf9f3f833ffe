//! Conversions of runs of contiguous elements, for code that works on rows.
//!
//! In: a dtype, a buffer's bytes and the first element's index. Out: as many elements as the slice of values holds.
//! Invariant: every element is what `load` and `store` give, NaN payloads aside; an i32 is rounded once, never through
//! an inexact f32.

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::convert::nearest_i32;
use super::narrow::{BF16, F8E4M3, F8E5M2};
use super::{DType, nibble, scale, tf32};

/// Elements converted at a time through a buffer on the stack.
const CHUNK: usize = 256;

static E4M3_VALUES: [f32; 256] = F8E4M3.table();
static E5M2_VALUES: [f32; 256] = F8E5M2.table();

/// Loads elements `start..` as f32; an i32 rounds to the nearest.
pub fn load_f32(dtype: DType, bytes: &[u8], start: usize, out: &mut [f32]) {
    match dtype {
        DType::F32 => read(bytes, start, out, f32::from_le_bytes),
        DType::TF32 => {
            read(bytes, start, out, |code| tf32::truncated(f32::from_le_bytes(code)));
        }
        DType::F16 => load_f16(bytes, start, out),
        DType::BF16 => read(bytes, start, out, |code| {
            f32::from_bits(u32::from(u16::from_le_bytes(code)) << 16)
        }),
        DType::F8E4M3 => read(bytes, start, out, |[code]| E4M3_VALUES[usize::from(code)]),
        DType::F8E5M2 => read(bytes, start, out, |[code]| E5M2_VALUES[usize::from(code)]),
        DType::F8E8M0 => read(bytes, start, out, |[code]| scale::decode(code)),
        DType::I8 => read(bytes, start, out, |[byte]| f32::from(byte as i8)),
        DType::U8 => read(bytes, start, out, |[byte]| f32::from(byte)),
        DType::I32 => read(bytes, start, out, |code| i32::from_le_bytes(code) as f32),
        DType::I64 => read(bytes, start, out, |code| nearest_i32(i64::from_le_bytes(code)) as f32),
        DType::Bool => read(bytes, start, out, |[byte]| f32::from(u8::from(byte != 0))),
        DType::B1 => read_bits(bytes, start, out, |bit| f32::from(u8::from(bit))),
        DType::I4 => read_nibbles(bytes, start, out, |bits| nibble::signed(bits) as f32),
        DType::U4 => read_nibbles(bytes, start, out, f32::from),
    }
}

/// Loads elements `start..` as i32; floats round to the nearest and saturate, as a cast does.
pub fn load_i32(dtype: DType, bytes: &[u8], start: usize, out: &mut [i32]) {
    match dtype {
        DType::F32
        | DType::TF32
        | DType::F16
        | DType::BF16
        | DType::F8E4M3
        | DType::F8E5M2
        | DType::F8E8M0 => {
            let mut values = [0.0; CHUNK];
            for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
                let values = &mut values[..out.len()];
                load_f32(dtype, bytes, start + chunk * CHUNK, values);
                for (out, value) in out.iter_mut().zip(values) {
                    *out = round_to_i32(*value);
                }
            }
        }
        DType::I8 => read(bytes, start, out, |[byte]| i32::from(byte as i8)),
        DType::U8 => read(bytes, start, out, |[byte]| i32::from(byte)),
        DType::I32 => read(bytes, start, out, i32::from_le_bytes),
        DType::I64 => read(bytes, start, out, |code| nearest_i32(i64::from_le_bytes(code))),
        DType::Bool => read(bytes, start, out, |[byte]| i32::from(byte != 0)),
        DType::B1 => read_bits(bytes, start, out, i32::from),
        DType::I4 => read_nibbles(bytes, start, out, nibble::signed),
        DType::U4 => read_nibbles(bytes, start, out, i32::from),
    }
}

/// Stores f32 values as elements `start..`, rounding once.
pub fn store_f32(dtype: DType, bytes: &mut [u8], start: usize, values: &[f32]) {
    match dtype {
        DType::F32 => write(bytes, start, values, f32::to_le_bytes),
        DType::TF32 => write(bytes, start, values, |value| tf32::rounded(value).to_le_bytes()),
        DType::F16 => store_f16(bytes, start, values),
        DType::BF16 => write(bytes, start, values, |value| encode_bf16(value).to_le_bytes()),
        DType::F8E4M3 => write(bytes, start, values, |value| [encode_e4m3(value)]),
        DType::F8E5M2 => write(bytes, start, values, |value| [encode_e5m2(value)]),
        DType::F8E8M0 => write(bytes, start, values, |value| [scale::encode_f32(value)]),
        DType::I8 => {
            write(bytes, start, values, |value| [round_to_i32(value).clamp(-128, 127) as u8]);
        }
        DType::U8 => write(bytes, start, values, |value| [round_to_i32(value).clamp(0, 255) as u8]),
        DType::I32 => write(bytes, start, values, |value| round_to_i32(value).to_le_bytes()),
        DType::I64 => {
            write(bytes, start, values, |value| i64::from(round_to_i32(value)).to_le_bytes());
        }
        DType::Bool => write(bytes, start, values, |value| [u8::from(value != 0.0)]),
        DType::B1 => write_bits(bytes, start, values, |value| value != 0.0),
        DType::I4 => {
            write_nibbles(bytes, start, values, |value| nibble::clamp_signed(round_to_i32(value)));
        }
        DType::U4 => {
            write_nibbles(bytes, start, values, |value| {
                nibble::clamp_unsigned(round_to_i32(value))
            });
        }
    }
}

/// Stores i32 values as elements `start..`, rounding once.
pub fn store_i32(dtype: DType, bytes: &mut [u8], start: usize, values: &[i32]) {
    match dtype {
        DType::F32 => write(bytes, start, values, |value| (value as f32).to_le_bytes()),
        DType::TF32 => {
            write(bytes, start, values, |value| tf32::encode(f64::from(value)).to_le_bytes());
        }
        DType::F16 => store_i32_as_f16(bytes, start, values),
        DType::BF16 => {
            write(bytes, start, values, |value| BF16.encode(f64::from(value)).to_le_bytes());
        }
        DType::F8E4M3 => write(bytes, start, values, |value| [encode_e4m3(within_2_to_16(value))]),
        DType::F8E5M2 => write(bytes, start, values, |value| [encode_e5m2(within_2_to_16(value))]),
        DType::F8E8M0 => write(bytes, start, values, |value| [scale::encode(f64::from(value))]),
        DType::I8 => write(bytes, start, values, |value| [value.clamp(-128, 127) as u8]),
        DType::U8 => write(bytes, start, values, |value| [value.clamp(0, 255) as u8]),
        DType::I32 => write(bytes, start, values, i32::to_le_bytes),
        DType::I64 => write(bytes, start, values, |value| i64::from(value).to_le_bytes()),
        DType::Bool => write(bytes, start, values, |value| [u8::from(value != 0)]),
        DType::B1 => write_bits(bytes, start, values, |value| value != 0),
        DType::I4 => write_nibbles(bytes, start, values, nibble::clamp_signed),
        DType::U4 => write_nibbles(bytes, start, values, nibble::clamp_unsigned),
    }
}

/// Elements of `N` bytes each, decoded one by one.
#[inline(always)]
fn read<const N: usize, T>(
    bytes: &[u8],
    start: usize,
    out: &mut [T],
    decode: impl Fn([u8; N]) -> T,
) {
    let bytes = &bytes[start * N..(start + out.len()) * N];
    for (out, element) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = decode(*element);
    }
}

#[inline(always)]
fn write<const N: usize, T: Copy>(
    bytes: &mut [u8],
    start: usize,
    values: &[T],
    encode: impl Fn(T) -> [u8; N],
) {
    let bytes = &mut bytes[start * N..(start + values.len()) * N];
    for (element, value) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *element = encode(*value);
    }
}

fn read_bits<T>(bytes: &[u8], start: usize, out: &mut [T], decode: impl Fn(bool) -> T) {
    for (offset, out) in out.iter_mut().enumerate() {
        let index = start + offset;
        *out = decode((bytes[index / 8] >> (index % 8)) & 1 != 0);
    }
}

fn write_bits<T: Copy>(bytes: &mut [u8], start: usize, values: &[T], truth: impl Fn(T) -> bool) {
    for (offset, value) in values.iter().enumerate() {
        let index = start + offset;
        let byte = &mut bytes[index / 8];
        *byte = (*byte & !(1 << (index % 8))) | (u8::from(truth(*value)) << (index % 8));
    }
}

/// Whole bytes in the middle, and at the ends the halves that are left.
fn read_nibbles<T>(bytes: &[u8], start: usize, out: &mut [T], decode: impl Fn(u8) -> T) {
    let head = start % 2;
    let (first, rest) = out.split_at_mut(head.min(out.len()));
    if let [first] = first {
        *first = decode(nibble::read(bytes, start));
    }
    let from = start.div_ceil(2);
    let (pairs, last) = rest.as_chunks_mut::<2>();
    for ([low, high], byte) in pairs.iter_mut().zip(&bytes[from..]) {
        (*low, *high) = (decode(byte & 15), decode(byte >> 4));
    }
    if let [last] = last {
        *last = decode(bytes[from + pairs.len()] & 15);
    }
}

fn write_nibbles<T: Copy>(bytes: &mut [u8], start: usize, values: &[T], encode: impl Fn(T) -> i32) {
    for (offset, value) in values.iter().enumerate() {
        nibble::write(bytes, start + offset, encode(*value));
    }
}

fn load_f16(bytes: &[u8], start: usize, out: &mut [f32]) {
    let mut codes = [f16::ZERO; CHUNK];
    for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
        let codes = &mut codes[..out.len()];
        read(bytes, start + chunk * CHUNK, codes, f16::from_le_bytes);
        codes.convert_to_f32_slice(out);
    }
}

fn store_f16(bytes: &mut [u8], start: usize, values: &[f32]) {
    let mut codes = [f16::ZERO; CHUNK];
    for (chunk, values) in values.chunks(CHUNK).enumerate() {
        let codes = &mut codes[..values.len()];
        codes.convert_from_f32_slice(values);
        write(bytes, start + chunk * CHUNK, codes, |code| {
            let bits = code.to_bits();
            // One NaN, the one that the scalar path stores.
            (if bits & 0x7fff > 0x7c00 { 0x7fff } else { bits }).to_le_bytes()
        });
    }
}

fn store_i32_as_f16(bytes: &mut [u8], start: usize, values: &[i32]) {
    let mut floats = [0.0; CHUNK];
    for (chunk, values) in values.chunks(CHUNK).enumerate() {
        let floats = &mut floats[..values.len()];
        for (float, value) in floats.iter_mut().zip(values) {
            *float = within_2_to_16(*value);
        }
        store_f16(bytes, start + chunk * CHUNK, floats);
    }
}

/// An exact f32 that f16 and the 8-bit floats, all of whose finite values are smaller, round as they do the integer.
#[inline(always)]
fn within_2_to_16(value: i32) -> f32 {
    value.clamp(-65536, 65536) as f32
}

/// The nearest integer, ties to even, saturated; 0 for NaN. (Without a call where the processor has no such instruction.)
#[inline(always)]
fn round_to_i32(value: f32) -> i32 {
    const INTEGRAL: f32 = 8388608.0; // 2^23: from here on every f32 is an integer.
    let magnitude = value.abs();
    let rounded = if magnitude < INTEGRAL { (magnitude + INTEGRAL) - INTEGRAL } else { magnitude };
    rounded.copysign(value) as i32
}

#[inline(always)]
fn encode_e4m3(value: f32) -> u8 {
    encode_fp8::<3, 7, 0x43e0_0000>(value)
}

#[inline(always)]
fn encode_e5m2(value: f32) -> u8 {
    encode_fp8::<2, 15, 0x4760_0000>(value)
}

#[inline(always)]
fn encode_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = ((bits.wrapping_add(0x7fff + odd)) >> 16) as u16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff } else { rounded }
}

/// As `Format::encode`, from f32 and without branches. `LARGEST` is the bits of the largest finite value.
#[inline(always)]
fn encode_fp8<const MANTISSA_BITS: u32, const BIAS: u32, const LARGEST: u32>(value: f32) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let finite = if magnitude > LARGEST { LARGEST } else { magnitude };
    let dropped = 23 - MANTISSA_BITS;
    let odd = (finite >> dropped) & 1;
    let normal =
        (finite.wrapping_sub((127 - BIAS) << 23).wrapping_add((1 << (dropped - 1)) - 1 + odd))
            >> dropped;
    // The spacing of f32 just above `magic` is the spacing of the format's subnormals.
    let magic = (127 + 1 - BIAS + dropped) << 23;
    let subnormal = (f32::from_bits(finite) + f32::from_bits(magic)).to_bits().wrapping_sub(magic);
    let code = if finite < (128 - BIAS) << 23 { subnormal } else { normal };
    let signed = code | ((bits >> 24) & 0x80);
    (if magnitude > 0x7f80_0000 { 0x7f } else { signed }) as u8
}

#[cfg(test)]
mod tests {
    use super::{load_f32, load_i32, store_f32, store_i32};
    use crate::dtype::{DType, load, round_to, store};

    const START: usize = 3;

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    /// A buffer in which every byte value follows every other.
    fn every_pair_of_bytes() -> Vec<u8> {
        (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
    }

    /// Floats spread over all bit patterns, with the ties and the edges of the narrow formats.
    fn probes() -> Vec<f32> {
        let mut values: Vec<f32> = (0..=u32::MAX).step_by(40961).map(f32::from_bits).collect();
        for exponent in 0..=255u32 {
            for top in 0..=2048u32 {
                values.push(f32::from_bits((exponent << 23) | (top << 12)));
                values.push(f32::from_bits(0x8000_0001 | (exponent << 23) | (top << 12)));
            }
        }
        values.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0]);
        values
    }

    #[test]
    fn loads_of_slices_agree_with_single_loads() {
        let bytes = every_pair_of_bytes();
        for dtype in DType::ALL {
            let count = bytes.len() * 8 / dtype.bits() - START;
            let mut floats = vec![0.0; count];
            let mut integers = vec![0; count];
            load_f32(dtype, &bytes, START, &mut floats);
            load_i32(dtype, &bytes, START, &mut integers);
            for index in 0..count {
                let want = load(dtype, &bytes, START + index);
                assert!(same(f64::from(floats[index]), f64::from(want as f32)), "{dtype} {index}");
                assert!(
                    f64::from(integers[index]) == round_to(DType::I32, want),
                    "{dtype} {index}"
                );
            }
        }
    }

    #[test]
    fn stores_of_floats_agree_with_single_stores_to_the_bit() {
        let values = probes();
        for dtype in DType::ALL {
            let mut got = vec![0x5a; dtype.bytes_for(START + values.len() + 9)];
            let mut want = got.clone();
            store_f32(dtype, &mut got, START, &values);
            for (index, value) in values.iter().enumerate() {
                store(dtype, &mut want, START + index, f64::from(*value));
            }
            if matches!(dtype, DType::F32 | DType::TF32) {
                for index in 0..values.len() + START {
                    assert!(same(load(dtype, &got, index), load(dtype, &want, index)));
                }
            } else {
                assert!(got == want, "{dtype}");
            }
        }
    }

    #[test]
    fn stores_of_integers_round_once() {
        let mut values: Vec<i32> = (i32::MIN..=i32::MAX).step_by(65521).collect();
        values.extend(-70000..70000);
        values.extend([i32::MIN, i32::MAX, (1 << 24) + 1, (1 << 30) + (1 << 22) + 1, 65519, 65520]);
        for dtype in DType::ALL {
            let mut got = vec![0; dtype.bytes_for(START + values.len())];
            let mut want = got.clone();
            store_i32(dtype, &mut got, START, &values);
            for (index, value) in values.iter().enumerate() {
                store(dtype, &mut want, START + index, f64::from(*value));
            }
            assert!(got == want, "{dtype}");
        }
    }
}
