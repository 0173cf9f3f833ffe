use super::*;
use crate::numerics::random::Random;

/// The value of a bit pattern, and the least exponent of its type, by the definition of the format.
fn value(operand: Operand, bits: u32) -> (f64, i32) {
    let (exponent_bits, fraction_bits) = match operand {
        Operand::F16 => (5, 10),
        Operand::BF16 => (8, 7),
        Operand::TF32 => (8, 23),
        Operand::E4M3 => (4, 3),
        Operand::E5M2 => (5, 2),
        Operand::S8 | Operand::U8 => unreachable!(),
    };
    let bits = if operand == Operand::TF32 { bits & 0xffff_e000 } else { bits };
    let bias = (1 << (exponent_bits - 1)) - 1;
    let sign = if bits >> (exponent_bits + fraction_bits) & 1 == 1 { -1.0 } else { 1.0 };
    let field = (bits >> fraction_bits) as i32 & ((1 << exponent_bits) - 1);
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let magnitude = if operand == Operand::E4M3 && bits & 0x7f == 0x7f {
        f64::NAN
    } else if operand != Operand::E4M3 && field == (1 << exponent_bits) - 1 {
        if fraction == 0.0 { f64::INFINITY } else { f64::NAN }
    } else if field == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(field - bias)
    };
    (sign * magnitude, 1 - bias)
}

/// Significand in [1, 2) and exponent; below the least exponent a smaller significand.
fn split(value: f64, least: i32) -> (f64, i32) {
    if value == 0.0 {
        return (0.0, -126);
    }
    let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).max(least);
    (value * 2f64.powi(-exponent), exponent)
}

/// The published model, in f64: every step of it is exact there. Returns the sum before its last step.
fn model(a: (Operand, &[u32]), b: (Operand, &[u32]), old: (f64, i32), fraction: i32) -> f64 {
    let mut special = old.0;
    let mut terms = vec![split(old.0, old.1)];
    for (&x, &y) in a.1.iter().zip(b.1) {
        let ((x, x_least), (y, y_least)) = (value(a.0, x), value(b.0, y));
        special += x * y;
        let ((s, e), (t, f)) = (split(x, x_least), split(y, y_least));
        terms.push((s * t, e + f));
    }
    if !special.is_finite() {
        return special;
    }
    let largest = terms.iter().map(|term| term.1).max().unwrap();
    let cut = |(s, e): &(f64, i32)| (s * 2f64.powi(fraction + e - largest)).trunc();
    terms.iter().map(cut).sum::<f64>() * 2f64.powi(largest - fraction)
}

fn model_f32(sum: f64, kept: i32) -> u32 {
    if sum.is_nan() {
        return 0x7fff_ffff;
    }
    if sum.is_infinite() {
        return (sum as f32).to_bits();
    }
    let (s, e) = split(sum, -126);
    let cut = (s * 2f64.powi(kept - 1)).trunc() * 2f64.powi(1 - kept) * 2f64.powi(e);
    // Beyond the largest float this is an infinity; +0 for what was cut to zero.
    (cut as f32 + 0.0).to_bits()
}

fn model_half(sum: f64) -> u16 {
    if sum.is_nan() {
        return 0x7fff;
    }
    let (s, e) = if sum.is_infinite() { (sum, 0) } else { split(sum, -14) };
    let rounded = (s * 2f64.powi(10)).round_ties_even() * 2f64.powi(e - 10);
    // Exact, or an infinity; +0 for zeros.
    half::f16::from_f64(rounded + 0.0).to_bits() & if rounded == 0.0 { 0 } else { 0xffff }
}

const FLOATS: [(Operand, Operand); 7] = [
    (Operand::F16, Operand::F16),
    (Operand::BF16, Operand::BF16),
    (Operand::TF32, Operand::TF32),
    (Operand::E4M3, Operand::E4M3),
    (Operand::E4M3, Operand::E5M2),
    (Operand::E5M2, Operand::E4M3),
    (Operand::E5M2, Operand::E5M2),
];

fn bits_of(operand: Operand) -> u32 {
    match operand {
        Operand::F16 | Operand::BF16 => 16,
        Operand::TF32 => 32,
        Operand::E4M3 | Operand::E5M2 | Operand::S8 | Operand::U8 => 8,
    }
}

/// Rows of any bits, of bits without infinities, of ordinary sizes, and with many zeros.
fn rows(random: &mut Random, operand: Operand, count: usize, style: u32) -> Vec<Vec<u32>> {
    let mut element = || {
        let bits = random.bits() >> (32 - bits_of(operand));
        let exponent = match operand {
            Operand::F16 => 0x7c00,
            Operand::BF16 => 0x7f80,
            Operand::TF32 => 0x7f80_0000,
            Operand::E4M3 => 0x78,
            Operand::E5M2 => 0x7c,
            Operand::S8 | Operand::U8 => 0,
        };
        let top = exponent & !(exponent >> 1);
        match style {
            0 => bits,
            1 if bits & exponent == exponent => bits & !top,
            1 => bits,
            // About one: the exponent field is 0111..., or 1000... of it the half.
            2 => bits & !exponent | if random.bits() & 1 == 0 { exponent & !top } else { top },
            3 if random.below(4) == 0 => 0,
            3 => bits & !top,
            _ => unreachable!(),
        }
    };
    let row = |_| (0..operand.k()).map(|_| element()).collect();
    (0..count).map(row).collect()
}

fn accumulators(random: &mut Random, rows: usize, columns: usize, style: u32) -> Vec<Vec<f32>> {
    let mut one = || {
        let bits = random.bits();
        match style {
            0 => f32::from_bits(bits),
            1 | 3 => f32::from_bits(bits & 0xbfff_ffff),
            2 => f32::from_bits(bits & 0x81ff_ffff | 0x3e00_0000),
            _ => unreachable!(),
        }
    };
    (0..rows).map(|_| (0..columns).map(|_| one()).collect()).collect()
}

fn both(core: Core, a: Operand, b: Operand) -> (i32, i32) {
    let narrow = matches!(a, Operand::E4M3 | Operand::E5M2);
    let _ = b;
    match core {
        Core::Warpgroup if narrow => (13, 14),
        Core::Warpgroup | Core::HopperWarp => (25, 24),
        Core::AmpereWarp => (24, 24),
    }
}

#[test]
fn sums_equal_the_published_model_in_exact_arithmetic() {
    let mut random = Random::new(1);
    for core in [Core::Warpgroup, Core::HopperWarp, Core::AmpereWarp] {
        for (a, b) in FLOATS {
            let (fraction, kept) = both(core, a, b);
            for round in 0..80 {
                let style = round % 4;
                let (x, y) =
                    (rows(&mut random, a, 9, style), rows(&mut random, b, 8, (round / 4) % 4));
                let mut d = accumulators(&mut random, 9, 8, style);
                let old = d.clone();
                let prepared = (Prepared::new(a, Sign::Plus, &x), Prepared::new(b, Sign::Plus, &y));
                multiply_accumulate(core, &prepared.0, &prepared.1, &mut d, true);
                let parts = if core == Core::AmpereWarp { 2 } else { 1 };
                let length = x[0].len() / parts;
                for (i, j) in (0..9).flat_map(|i| (0..8).map(move |j| (i, j))) {
                    let mut want = old[i][j];
                    for (x, y) in x[i].chunks(length).zip(y[j].chunks(length)) {
                        let sum = model((a, x), (b, y), (f64::from(want), -126), fraction);
                        want = f32::from_bits(model_f32(sum, kept));
                    }
                    let case = (core, a, b, &x[i], &y[j], old[i][j]);
                    assert_eq!(d[i][j].to_bits(), want.to_bits(), "{case:x?}");
                }
            }
        }
    }
}

#[test]
fn half_sums_equal_the_published_model_in_exact_arithmetic() {
    let mut random = Random::new(2);
    for (a, b) in FLOATS.into_iter().filter(|(a, _)| bits_of(*a) == 8 || *a == Operand::F16) {
        let fraction = if bits_of(a) == 8 { 13 } else { 25 };
        for round in 0..400 {
            let (x, y) =
                (rows(&mut random, a, 4, round % 4), rows(&mut random, b, 4, (round / 4) % 4));
            let halves = rows(&mut random, Operand::F16, 4, (round / 16) % 4);
            let old: Vec<Vec<u16>> = halves
                .iter()
                .map(|row| row[..4].iter().map(|&bits| bits as u16).collect())
                .collect();
            let mut d = old.clone();
            let prepared = (Prepared::new(a, Sign::Plus, &x), Prepared::new(b, Sign::Plus, &y));
            multiply_accumulate_half(Core::Warpgroup, &prepared.0, &prepared.1, &mut d, true);
            for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
                let old = value(Operand::F16, u32::from(old[i][j]));
                let sum = model((a, &x[i]), (b, &y[j]), old, fraction);
                assert_eq!(d[i][j], model_half(sum), "{a:?} {b:?} {:x?} {:x?} {old:?}", x[i], y[j]);
            }
        }
    }
}

fn one(operand: Operand, x: &[u32], y: &[u32], old: f32) -> u32 {
    let pad = |part: &[u32]| {
        let mut row = part.to_vec();
        row.resize(operand.k() as usize, 0);
        Prepared::new(operand, Sign::Plus, &[row])
    };
    let mut d = vec![vec![old]];
    multiply_accumulate(Core::Warpgroup, &pad(x), &pad(y), &mut d, true);
    d[0][0].to_bits()
}

const ONE: u32 = 0x3f80;
const INFINITE: u32 = 0x7f80;

#[test]
fn special_values_become_infinities_and_the_one_nan() {
    let sum = |x: &[u32], y: &[u32], old| one(Operand::BF16, x, y, old);
    let nan = 0x7fff_ffff;
    assert_eq!(sum(&[0xffc1], &[ONE], 1.0), nan);
    assert_eq!(sum(&[ONE], &[0x7f81], 1.0), nan);
    assert_eq!(sum(&[INFINITE], &[0], 1.0), nan);
    assert_eq!(sum(&[INFINITE], &[ONE], 1.0), 0x7f80_0000);
    assert_eq!(sum(&[INFINITE], &[ONE | 0x8000], 1.0), 0xff80_0000);
    assert_eq!(sum(&[INFINITE], &[ONE], f32::NEG_INFINITY), nan);
    assert_eq!(sum(&[ONE], &[ONE], f32::NEG_INFINITY), 0xff80_0000);
    assert_eq!(sum(&[INFINITE, INFINITE], &[ONE, ONE | 0x8000], 0.0), nan);
    assert_eq!(sum(&[ONE], &[ONE], f32::from_bits(0xffc0_1234)), nan);
    assert_eq!(one(Operand::E4M3, &[0x7f], &[0x38], 0.0), nan);
    assert_eq!(one(Operand::E4M3, &[0x7e], &[0x38], 0.0), 448f32.to_bits());
    assert_eq!(one(Operand::E5M2, &[0xfc], &[0x3c], 0.0), 0xff80_0000);
}

#[test]
fn sums_beyond_the_largest_float_are_infinite() {
    let huge = 0x7f7f;
    assert_eq!(one(Operand::BF16, &[huge], &[huge], 0.0), 0x7f80_0000);
    assert_eq!(one(Operand::BF16, &[huge], &[huge | 0x8000], 0.0), 0xff80_0000);
    assert_eq!(one(Operand::BF16, &[huge, huge], &[huge, huge | 0x8000], 7.0), 0);
    assert_eq!(one(Operand::BF16, &[ONE], &[ONE], f32::MAX), f32::MAX.to_bits());
}

#[test]
fn what_is_cut_to_zero_is_plus_zero() {
    assert_eq!(one(Operand::BF16, &[0x8001], &[1], -0.0), 0);
    assert_eq!(one(Operand::F16, &[0x8000], &[0x3c00], -0.0), 0);
}

#[test]
fn ones_in_eight_bits_stop_at_two_to_the_fourteenth() {
    let ones = [0x38; 32];
    let mut sum = 0.0;
    for _ in 0..1024 {
        sum = f32::from_bits(one(Operand::E4M3, &ones, &ones, sum));
    }
    // From there on each one lies below the last bit that is aligned.
    assert_eq!(sum, 16384.0);
}

#[test]
fn dropped_accumulators_and_signs() {
    let row = |bits: u32| vec![vec![bits; 16]];
    let a = Prepared::new(Operand::BF16, Sign::Minus, &row(ONE));
    let b = Prepared::new(Operand::BF16, Sign::Plus, &row(0x4000));
    let mut d = vec![vec![f32::NAN]];
    multiply_accumulate(Core::Warpgroup, &a, &b, &mut d, false);
    assert_eq!(d[0][0], -32.0);
    let b = Prepared::new(Operand::BF16, Sign::Minus, &row(0x4000));
    multiply_accumulate(Core::Warpgroup, &a, &b, &mut d, true);
    assert_eq!(d[0][0], 0.0);
}

#[test]
fn integers_are_exact_and_wrap_or_stop() {
    let mut random = Random::new(3);
    let kinds = [Operand::S8, Operand::U8];
    for (a, b) in kinds.into_iter().flat_map(|a| kinds.map(|b| (a, b))) {
        for round in 0..200 {
            let (x, y) = (rows(&mut random, a, 3, 0), rows(&mut random, b, 5, 0));
            let near = [0, i32::MAX - 1000, i32::MIN + 1000][round % 3];
            let old = vec![vec![near; 5]; 3];
            let prepared = (Prepared::new(a, Sign::Plus, &x), Prepared::new(b, Sign::Plus, &y));
            let (mut wrapped, mut stopped) = (old.clone(), old);
            let (wrap, stop) = (SumOverflow::Wrap, SumOverflow::Saturate);
            multiply_accumulate_integer(&prepared.0, &prepared.1, &mut wrapped, wrap, true);
            multiply_accumulate_integer(&prepared.0, &prepared.1, &mut stopped, stop, true);
            let integer = |kind, bits: u32| match kind {
                Operand::S8 => i64::from(bits as u8 as i8),
                _ => i64::from(bits as u8),
            };
            for (i, j) in (0..3).flat_map(|i| (0..5).map(move |j| (i, j))) {
                let products = x[i].iter().zip(&y[j]).map(|(&x, &y)| integer(a, x) * integer(b, y));
                let want = i64::from(near) + products.sum::<i64>();
                assert_eq!(wrapped[i][j], want as i32);
                assert_eq!(i64::from(stopped[i][j]), want.clamp(i32::MIN.into(), i32::MAX.into()));
            }
        }
    }
}

#[test]
#[ignore = "a measurement; run it alone, with --release --nocapture"]
fn speed_of_the_largest_instructions() {
    let mut random = Random::new(4);
    for operand in [Operand::BF16, Operand::F16, Operand::TF32, Operand::E4M3] {
        let (a, b) = (rows(&mut random, operand, 64, 2), rows(&mut random, operand, 256, 2));
        let mut d = vec![vec![0.0; 256]; 64];
        let start = std::time::Instant::now();
        for _ in 0..100 {
            let a = Prepared::new(operand, Sign::Plus, &a);
            let b = Prepared::new(operand, Sign::Plus, &b);
            multiply_accumulate(Core::Warpgroup, &a, &b, &mut d, true);
        }
        let each = start.elapsed() / 100;
        let k = operand.k();
        std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("m64n256k{k} {operand:?}: {each:?}\n"),
        )
        .unwrap();
    }
}
