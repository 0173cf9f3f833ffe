use super::*;
use crate::numerics::random::Random;

const NO: Saturation = Saturation::None;

fn one(rounding: Rounding, saturation: Saturation, to: Scalar, from: Scalar, bits: u32) -> u64 {
    convert(rounding, saturation, to, from, bits.into()).expect("a conversion that PTX has")
}

fn floats() -> Vec<f32> {
    let mut random = Random::new(8);
    let mut all: Vec<f32> = [
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -1.5,
        126.5,
        127.5,
        127.49,
        128.0,
        -128.5,
        -129.0,
        254.5,
        255.5,
        256.0,
        65504.0,
        65519.9,
        65520.0,
        448.0,
        464.0,
        464.1,
        480.0,
        57344.0,
        61440.0,
        2147483520.0,
        2147483648.0,
        -2147483648.0,
        4294967040.0,
        4294967296.0,
        9.223372e18,
        1.8446744e19,
        3e38,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        5.9604645e-8,
        2.9802322e-8,
        2.98024e-8,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        -f32::NAN,
        8388607.5,
        -8388607.5,
        16777217.0,
    ]
    .to_vec();
    all.extend((0..300_000).map(|_| f32::from_bits(random.bits())));
    all.extend((0..100_000).map(|_| (random.bits() as i32 as f32) / 8388608.0));
    all
}

#[test]
fn halves_are_rounded_as_the_other_crate_rounds_them() {
    for x in floats() {
        let bits = x.to_bits();
        let (f16, bf16) = (half::f16::from_f32(x).to_bits(), half::bf16::from_f32(x).to_bits());
        let nan = |want: u16| if x.is_nan() { 0x7fff } else { u64::from(want) };
        assert_eq!(one(Rounding::Nearest, NO, Scalar::F16, Scalar::F32, bits), nan(f16), "{x:e}");
        assert_eq!(one(Rounding::Nearest, NO, Scalar::BF16, Scalar::F32, bits), nan(bf16), "{x:e}");
        let cut = nan((bits >> 16) as u16);
        assert_eq!(one(Rounding::Zero, NO, Scalar::BF16, Scalar::F32, bits), cut, "{x:e}");
    }
}

#[test]
fn every_half_widens_exactly() {
    for bits in 0..=u16::MAX {
        let bits32 = u32::from(bits);
        let canonical = |x: f32| if x.is_nan() { 0x7fff_ffff } else { u64::from(x.to_bits()) };
        let f16 = canonical(half::f16::from_bits(bits).to_f32());
        let bf16 = canonical(half::bf16::from_bits(bits).to_f32());
        assert_eq!(one(Rounding::None, NO, Scalar::F32, Scalar::F16, bits32), f16);
        assert_eq!(one(Rounding::None, NO, Scalar::F32, Scalar::BF16, bits32), bf16);
    }
}

#[test]
fn halves_cut_off_are_the_next_toward_zero() {
    for x in floats().into_iter().filter(|x| x.is_finite()) {
        let cut = one(Rounding::Zero, NO, Scalar::F16, Scalar::F32, x.to_bits()) as u16;
        let value = half::f16::from_bits(cut);
        assert_eq!(value.is_sign_negative(), x.is_sign_negative());
        assert!(value.to_f32().abs() <= x.abs());
        let next = half::f16::from_bits(cut + 1).to_f32().abs();
        assert!(next > x.abs(), "{x:e}");
    }
}

#[test]
fn pairs_have_the_first_source_on_top() {
    let pair = |rounding, saturation, to, x: f32, y: f32| {
        convert_pair(rounding, saturation, to, Scalar::F32, x.to_bits(), y.to_bits())
    };
    let (near, zero, finite) = (Rounding::Nearest, Rounding::Zero, Saturation::Finite);
    assert_eq!(pair(near, NO, Scalar::F16x2, 1.0, -2.0), Some(0x3c00_c000));
    assert_eq!(pair(near, NO, Scalar::BF16x2, f32::NAN, f32::INFINITY), Some(0x7fff_7f80));
    assert_eq!(pair(zero, NO, Scalar::F16x2, 1e9, -1e9), Some(0x7bff_fbff));
    assert_eq!(pair(near, finite, Scalar::F16x2, f32::INFINITY, f32::NAN), Some(0x7bff_7fff));
    assert_eq!(pair(near, finite, Scalar::E4M3x2, 1.0, -448.0), Some(0x38fe));
    assert_eq!(pair(near, finite, Scalar::E4M3x2, f32::NAN, 1e9), Some(0x7f7e));
    assert_eq!(pair(near, finite, Scalar::E5M2x2, f32::NEG_INFINITY, f32::NAN), Some(0xfb7f));
    assert_eq!(pair(near, NO, Scalar::E4M3x2, 1.0, 1.0), None);
    assert_eq!(pair(zero, finite, Scalar::E4M3x2, 1.0, 1.0), None);
    assert_eq!(pair(near, Saturation::Range, Scalar::F16x2, 1.0, 1.0), None);
    assert_eq!(pair(near, NO, Scalar::F16, 1.0, 1.0), None);
}

/// By search: the number of the format that is nearest, ties to the even one.
#[test]
fn eight_bits_are_the_nearest_of_all() {
    for (to, single, largest) in
        [(Scalar::E4M3x2, Format::E4M3, 0x7e_u64), (Scalar::E5M2x2, Format::E5M2, 0x7b)]
    {
        let value = |bits: u64| match single.decode(bits) {
            Number::Finite { significand, exponent, .. } => {
                significand as f64 * 2f64.powi(exponent)
            }
            Number::Nan | Number::Infinite { .. } => unreachable!(),
        };
        for x in floats().into_iter().step_by(7).filter(|x| x.is_finite()) {
            let (finite, near) = (Saturation::Finite, Rounding::Nearest);
            let got = convert_pair(near, finite, to, Scalar::F32, x.to_bits(), 0).unwrap() >> 8;
            // What is far beyond the largest is nearest to it.
            let magnitude = f64::from(x).abs().min(1e6);
            let distance = |bits: u64| (value(bits) - magnitude).abs();
            let want = (0..=largest).min_by(|&a, &b| {
                distance(a).total_cmp(&distance(b)).then_with(|| (a % 2).cmp(&(b % 2)))
            });
            let sign = u64::from(x.is_sign_negative()) << 7;
            assert_eq!(u64::from(got), sign | want.unwrap(), "{x:e}");
        }
    }
}

#[test]
fn every_pair_of_eight_bits_widens_and_comes_back() {
    for (pair, nan) in [(Scalar::E4M3x2, 0x7f_u32), (Scalar::E5M2x2, 0x7f)] {
        for bits in 0..=u16::MAX {
            let bits = u32::from(bits);
            let wide = one(Rounding::Nearest, NO, Scalar::F16x2, pair, bits) as u32;
            let back = one(Rounding::Nearest, Saturation::Finite, pair, Scalar::F16x2, wide) as u32;
            let want = |byte: u32| match byte & 0x7f {
                0x7d..=0x7f if pair == Scalar::E5M2x2 => nan,
                0x7c if pair == Scalar::E5M2x2 => byte - 1,
                0x7f => nan,
                _ => byte,
            };
            assert_eq!(back, want(bits >> 8) << 8 | want(bits & 0xff), "{bits:x}");
        }
    }
    assert_eq!(one(Rounding::Nearest, NO, Scalar::F16x2, Scalar::E4M3x2, 0xff38), 0x7fff_3c00);
    assert_eq!(one(Rounding::Nearest, NO, Scalar::F16x2, Scalar::E5M2x2, 0xfc01), 0xfc00_0100);
}

#[test]
fn tf32_ties_go_away_from_zero_and_lower_bits_are_zero() {
    for x in floats() {
        let bits = x.to_bits();
        let got = one(Rounding::NearestAway, NO, Scalar::TF32, Scalar::F32, bits);
        let want = match x {
            x if x.is_nan() => 0x7fff_ffff,
            x if x.is_infinite() => bits,
            // Half of the last bit kept, added to the magnitude.
            _ => (bits + 0x1000) & 0xffff_e000,
        };
        assert_eq!(got, u64::from(want), "{x:e}");
        let cut = one(Rounding::Zero, NO, Scalar::TF32, Scalar::F32, bits);
        let want = if x.is_nan() { 0x7fff_ffff } else { bits & 0xffff_e000 };
        assert_eq!(cut, u64::from(want));
    }
    let largest =
        one(Rounding::NearestAway, Saturation::Finite, Scalar::TF32, Scalar::F32, 0x7f80_0000);
    assert_eq!(largest, 0x7f7f_e000);
    assert_eq!(convert(Rounding::Up, NO, Scalar::TF32, Scalar::F32, 0), None);
    assert_eq!(convert(Rounding::NearestAway, NO, Scalar::BF16, Scalar::F32, 0), None);
}

/// Rust's own casts stop at the limits and make NaN 0.
#[test]
fn integers_of_floats_stop_at_the_limits() {
    type Round = fn(f32) -> f32;
    let modes: [(Rounding, Round); 4] = [
        (Rounding::NearestWhole, f32::round_ties_even),
        (Rounding::ZeroWhole, f32::trunc),
        (Rounding::DownWhole, f32::floor),
        (Rounding::UpWhole, f32::ceil),
    ];
    for x in floats() {
        for (rounding, round) in modes {
            let y = round(x);
            let of = |to| one(rounding, NO, to, Scalar::F32, x.to_bits());
            assert_eq!(of(Scalar::S32), i64::from(y as i32) as u64, "{x:e} {rounding}");
            assert_eq!(of(Scalar::U32), u64::from(y as u32), "{x:e} {rounding}");
            assert_eq!(of(Scalar::S8), i64::from(y as i8) as u64, "{x:e} {rounding}");
            assert_eq!(of(Scalar::U8), u64::from(y as u8), "{x:e} {rounding}");
            assert_eq!(of(Scalar::S16), i64::from(y as i16) as u64, "{x:e} {rounding}");
            let sat = one(rounding, Saturation::Range, Scalar::S8, Scalar::F32, x.to_bits());
            assert_eq!(sat, i64::from(y as i8) as u64, "{x:e} {rounding}");
            let (s64, u64) =
                if x.is_nan() { (1 << 63, 1 << 63) } else { (y as i64 as u64, y as u64) };
            assert_eq!((of(Scalar::S64), of(Scalar::U64)), (s64, u64), "{x:e} {rounding}");
            let canonical = if x.is_nan() { 0x7fff_ffff } else { y.to_bits() };
            assert_eq!(of(Scalar::F32), canonical.into(), "{x:e} {rounding}");
        }
        let limited = one(Rounding::None, Saturation::Range, Scalar::F32, Scalar::F32, x.to_bits());
        let want = if x.is_nan() || x <= 0.0 { 0.0 } else { x.min(1.0) };
        assert_eq!(limited, want.to_bits().into(), "{x:e}");
    }
    assert_eq!(convert(Rounding::None, NO, Scalar::S32, Scalar::F32, 0), None);
    assert_eq!(convert(Rounding::Nearest, NO, Scalar::S32, Scalar::F32, 0), None);
}

#[test]
fn floats_of_integers_are_the_nearest_or_cut_off() {
    let mut random = Random::new(9);
    for round in 0..200_000_u32 {
        let wide = u64::from(random.bits()) << 32 | u64::from(random.bits());
        let bits = wide >> (round % 64);
        let of = |rounding, from| convert(rounding, NO, Scalar::F32, from, bits).unwrap() as u32;
        let near = Rounding::Nearest;
        assert_eq!(of(near, Scalar::S32), (bits as i32 as f32).to_bits());
        assert_eq!(of(near, Scalar::U32), (bits as u32 as f32).to_bits());
        assert_eq!(of(near, Scalar::U64), (bits as f32).to_bits());
        assert_eq!(of(near, Scalar::S64), (bits as i64 as f32).to_bits());
        assert_eq!(of(near, Scalar::S8), f32::from(bits as i8).to_bits());
        let cut = f32::from_bits(of(Rounding::Zero, Scalar::U64));
        let next = f32::from_bits(cut.to_bits() + 1);
        let exact = cut as u128 == u128::from(bits);
        assert!(cut as u128 <= u128::from(bits) && (exact || next as u128 > u128::from(bits)));
        assert_eq!(of(Rounding::Down, Scalar::U64), cut.to_bits());
        let up = if exact { cut } else { next };
        assert_eq!(of(Rounding::Up, Scalar::U64), up.to_bits());
    }
    assert_eq!(convert(Rounding::None, NO, Scalar::F32, Scalar::S32, 0), None);
}

#[test]
fn integers_are_cut_extended_or_limited() {
    let of = |to, from, bits| convert(Rounding::None, NO, to, from, bits).unwrap();
    assert_eq!(of(Scalar::U64, Scalar::U32, 0xffff_ffff_8000_0001), 0x8000_0001);
    assert_eq!(of(Scalar::S64, Scalar::S32, 0x8000_0001), 0xffff_ffff_8000_0001);
    assert_eq!(of(Scalar::U32, Scalar::U64, 0x1_2345_6789), 0x2345_6789);
    assert_eq!(of(Scalar::U16, Scalar::U32, 0x1_2345), 0x2345);
    assert_eq!(of(Scalar::S8, Scalar::S32, 0x80), 0xffff_ffff_ffff_ff80);
    assert_eq!(of(Scalar::U32, Scalar::S8, 0x80), 0xffff_ff80);
    let sat = |to, from, bits| convert(Rounding::None, Saturation::Range, to, from, bits).unwrap();
    assert_eq!(sat(Scalar::S8, Scalar::S32, 300), 127);
    assert_eq!(sat(Scalar::U8, Scalar::S32, 0xffff_ffff), 0);
    assert_eq!(sat(Scalar::S32, Scalar::U32, 0xffff_ffff), 0x7fff_ffff);
    assert_eq!(convert(Rounding::Nearest, NO, Scalar::U32, Scalar::U64, 0), None);
    assert_eq!(convert(Rounding::None, NO, Scalar::U32, Scalar::B32, 0), None);
}
