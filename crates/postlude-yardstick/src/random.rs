//! Random data, or ones, made on the GPU.
//!
//! In: memory, a dtype, a seed. Out: floats drawn from N(0, 1) and rounded, or integers of 8 and 4 bits that are uniform over
//! their whole range. Element pairs are numbered; two 32-bit hashes of a pair's number and the seed give two uniform numbers of
//! 24 bits, which Box and Muller's transform turns into two normal ones: `sqrt(-2 ln u) * (cos, sin)(2 pi v)`, by the
//! hardware's approximations. The largest magnitude is `sqrt(2 * 25 * ln 2)`, about 5.9. Integers are bytes of a hash.
//!
//! Invariant: the same seed gives the same data. Every float is a bf16 number, whatever the dtype (but for f16, whose
//! smallest magnitudes are rounded, and TF32): a vector kept as f32 and as bf16 holds the same values. A TF32 operand has
//! ten bits of fraction and zeros below: a kernel that truncates operands and one that rounds them multiply the same.

use postlude::DType;
use postlude::runtime::{Device, DeviceBuffer, RuntimeError, Stream};
use postlude_ptx::entry::Entry;
use postlude_ptx::kernel::{Attributes, Half, Kernel, Packed8, Reg, build};
use postlude_ptx::launch::{Launch, Parameter};
use postlude_ptx::modifier::Approx;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Scalar, U32};

use crate::program::{self, pointer};

/// Threads of a CTA.
const THREADS: u32 = 256;
/// CTAs for each SM.
const BLOCKS: u32 = 8;

/// How elements are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Store {
    /// Two 16-bit floats in 32 bits.
    Halves(Half),
    /// Single precision.
    Single,
    /// Single precision with 10 bits of fraction.
    Tf32,
    /// Two 8-bit floats in 16 bits.
    Float8(Packed8),
    /// Two 8-bit integers in 16 bits, with or without a sign.
    Integers,
    /// Four 4-bit integers in 16 bits, with or without a sign.
    HalfBytes,
}

impl Store {
    /// All of them.
    pub const ALL: [Store; 8] = [
        Store::Halves(Half::F16),
        Store::Halves(Half::BF16),
        Store::Single,
        Store::Tf32,
        Store::Float8(Packed8::E4M3),
        Store::Float8(Packed8::E5M2),
        Store::Integers,
        Store::HalfBytes,
    ];

    /// How a dtype is stored; `None` where the GPU draws none.
    pub fn of(dtype: DType) -> Option<Store> {
        match dtype {
            DType::F16 => Some(Store::Halves(Half::F16)),
            DType::BF16 => Some(Store::Halves(Half::BF16)),
            DType::F32 => Some(Store::Single),
            DType::TF32 => Some(Store::Tf32),
            DType::F8E4M3 => Some(Store::Float8(Packed8::E4M3)),
            DType::F8E5M2 => Some(Store::Float8(Packed8::E5M2)),
            DType::I8 | DType::U8 => Some(Store::Integers),
            DType::I4 | DType::U4 => Some(Store::HalfBytes),
            DType::F8E8M0 | DType::I32 | DType::I64 | DType::Bool | DType::B1 => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Store::Halves(Half::F16) => "yardstick_normal_f16",
            Store::Halves(Half::BF16) => "yardstick_normal_bf16",
            Store::Single => "yardstick_normal_f32",
            Store::Tf32 => "yardstick_normal_tf32",
            Store::Float8(Packed8::E4M3) => "yardstick_normal_e4m3",
            Store::Float8(Packed8::E5M2) => "yardstick_normal_e5m2",
            Store::Integers => "yardstick_uniform_bytes",
            Store::HalfBytes => "yardstick_uniform_half_bytes",
        }
    }

    const fn pair_bytes(self) -> u32 {
        match self {
            Store::Halves(_) => 4,
            Store::Single | Store::Tf32 => 8,
            Store::Float8(_) | Store::Integers | Store::HalfBytes => 2,
        }
    }
}

/// What memory is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Random normal numbers; integers are uniform.
    Random,
    /// Ones, which switch few bits and take little power.
    Ones,
}

impl Contents {
    /// What a random number is multiplied by, and what is added.
    const fn scale_and_shift(self) -> [f32; 2] {
        match self {
            Contents::Random => [1.0, 0.0],
            Contents::Ones => [0.0, 1.0],
        }
    }
}

/// The kernel that fills with random numbers, scaled and shifted.
pub fn entry(store: Store) -> Entry {
    build::<Sm90a>(store.name(), Attributes::new(THREADS), |k| {
        let data = k.parameter_pointer("data").load();
        let pairs = k.parameter_u32("pairs").load();
        let seed = k.parameter_u32("seed").load();
        let [scale, shift] = ["scale", "shift"].map(|name| k.parameter_f32(name).load());
        let first = k.block().mad(THREADS, k.thread());
        k.for_(first, pairs, k.blocks() * THREADS, |pair| {
            let place = data.element(pair, store.pair_bytes());
            let normal = || normal_pair(k, pair, seed).map(|value| value.fma(scale, shift));
            let rounded = || {
                let [low, high] = normal();
                k.pack_halves(Half::BF16, low, high)
            };
            match store {
                Store::Halves(Half::BF16) => k.store_global(place, [rounded()]),
                Store::Halves(Half::F16) => {
                    let [low, high] = k.unpack_halves(Half::BF16, rounded());
                    k.store_global(place, [k.pack_halves(Half::F16, low, high)]);
                }
                Store::Single => k.store_global(place, k.unpack_halves(Half::BF16, rounded())),
                Store::Tf32 => k.store_global(place, normal().map(|value| k.tf32(value))),
                Store::Float8(format) => {
                    let [low, high] = normal();
                    k.store_global(place, [k.pack_float8(format, low, high)]);
                }
                Store::Integers | Store::HalfBytes => {
                    // 16 bits as one number without a sign, and ones as 0x0101 or 0x1111.
                    let bits = mix(mix(pair + 1) ^ seed) >> 16;
                    let ones = if store == Store::Integers { 0x0101_u16 } else { 0x1111 };
                    let ones = shift * f32::from(ones);
                    let bytes = k.nearest_s32(k.float_of_u32(bits).fma(scale, ones)).cast::<U32>();
                    k.store_global_narrow(Scalar::U16, place, bytes);
                }
            }
        });
    })
}

/// Two normal numbers for a pair's number.
fn normal_pair<'k>(
    k: Kernel<'k, Sm90a>,
    pair: Reg<'k, U32>,
    seed: Reg<'k, U32>,
) -> [Reg<'k, F32>; 2] {
    // Mixed before the seed comes in: sequences of two seeds are not shifts of one another.
    let first = mix(mix(pair + 1) ^ seed);
    let second = mix(first + 0x6a09_e667);
    // From 2^-25 to 1: its logarithm is finite.
    let uniform = k.float_of_u32(first >> 8).fma(1.0 / 16_777_216.0, 1.0 / 33_554_432.0);
    let squared = uniform.approx(Approx::Lg2) * (-2.0 * std::f32::consts::LN_2);
    let radius = squared.max(0.0).approx(Approx::Sqrt);
    let angle = k.float_of_u32(second >> 8) * (std::f32::consts::TAU / 16_777_216.0);
    [radius * angle.approx(Approx::Cos), radius * angle.approx(Approx::Sin)]
}

/// MurmurHash3's finaliser: every bit of the input changes every bit of the output with a chance of about one half.
fn mix(value: Reg<'_, U32>) -> Reg<'_, U32> {
    let value = (value ^ (value >> 16)) * 0x85eb_ca6b;
    let value = (value ^ (value >> 13)) * 0xc2b2_ae35;
    value ^ (value >> 16)
}

/// Queues the filling of a whole buffer.
pub fn fill(
    device: &Device,
    stream: &Stream,
    buffer: &DeviceBuffer,
    store: Store,
    contents: Contents,
    seed: u32,
) -> Result<(), RuntimeError> {
    let launch = launch(device.processors() * BLOCKS, store, contents, seed, buffer.len());
    program::prepare(device, &entry(store), launch, &[buffer.address()])?.launch(stream)
}

/// The launch that fills this many bytes.
fn launch(blocks: u32, store: Store, contents: Contents, seed: u32, bytes: u64) -> Launch {
    let pairs = (bytes / u64::from(store.pair_bytes())) as u32;
    let mut parameters = vec![pointer(0), Parameter::U32(pairs), Parameter::U32(seed)];
    parameters.extend(contents.scale_and_shift().map(Parameter::F32));
    program::launch(blocks, THREADS, 0, parameters)
}

#[cfg(test)]
mod tests {
    use postlude::dtype;

    use super::*;
    use crate::program::assembled::assemble;
    use crate::program::simulated::simulate;

    const COUNT: usize = 1 << 13;
    const DTYPES: [DType; 10] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::TF32,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::I8,
        DType::U8,
        DType::I4,
        DType::U4,
    ];

    /// What some elements are filled with.
    fn filled(dtype: DType, contents: Contents) -> (Vec<f64>, Vec<u8>) {
        let store = Store::of(dtype).unwrap();
        let bytes = dtype.bytes_for(COUNT);
        let launch = launch(4, store, contents, 9, bytes as u64);
        let bytes = simulate(&entry(store), &launch, vec![vec![0xff; bytes]]).remove(0);
        ((0..COUNT).map(|place| dtype::load(dtype, &bytes, place)).collect(), bytes)
    }

    #[test]
    fn ones_are_ones_in_every_dtype() {
        for dtype in DTYPES {
            let (found, _) = filled(dtype, Contents::Ones);
            assert!(found.iter().all(|value| *value == 1.0), "{dtype}: {:?}", &found[..4]);
        }
    }

    /// Within six deviations of each moment.
    #[test]
    fn floats_are_normal_and_integers_uniform() {
        for dtype in DTYPES {
            let (found, _) = filled(dtype, Contents::Random);
            let (mean, variance, fourth) = match dtype {
                DType::I8 => (-0.5, 65_535.0 / 12.0, 1.8),
                DType::U8 => (127.5, 65_535.0 / 12.0, 1.8),
                DType::I4 => (-0.5, 255.0 / 12.0, 1.8),
                DType::U4 => (7.5, 255.0 / 12.0, 1.8),
                DType::F16
                | DType::BF16
                | DType::F32
                | DType::TF32
                | DType::F8E4M3
                | DType::F8E5M2
                | DType::F8E8M0
                | DType::I32
                | DType::I64
                | DType::Bool
                | DType::B1 => (0.0, 1.0, 3.0),
            };
            let count = COUNT as f64;
            let moment = |power: i32| {
                found.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count
            };
            let deviation = (variance / count).sqrt();
            assert!(moment(1).abs() < 6.0 * deviation, "{dtype}: mean {}", moment(1));
            // Rounding to two bits of fraction adds about a hundredth.
            let spread = 6.0 * ((fourth - 1.0) / count).sqrt() + 0.01;
            let found = moment(2) / variance;
            assert!((found - 1.0).abs() < spread, "{dtype}: variance {found}");
        }
    }

    #[test]
    fn tf32_operands_have_ten_bits_of_fraction_and_zeros_below() {
        let (_, bytes) = filled(DType::TF32, Contents::Random);
        let low = bytes.chunks_exact(4).map(|four| u16::from_le_bytes([four[0], four[1]]));
        assert!(low.clone().all(|bits| bits.trailing_zeros() >= 13));
        assert!(low.clone().any(|bits| bits & 0x2000 != 0));
    }

    #[test]
    fn integers_reach_both_ends_of_their_range() {
        let (found, _) = filled(DType::I8, Contents::Random);
        assert!(found.contains(&-128.0) && found.contains(&127.0));
    }

    #[test]
    fn the_kernels_that_draw_numbers_assemble() {
        for store in Store::ALL {
            assemble(&entry(store));
        }
    }
}
