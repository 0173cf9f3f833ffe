//! Products of matrices, summed in double precision.

use postlude_ptx::kernel::MatrixType;

use super::convert::{of_bf16, of_e4m3, of_e5m2, of_f16};

/// An element as a number.
fn value(of: MatrixType, bits: u32) -> f64 {
    match of {
        MatrixType::F16 => of_f16(bits as u16).into(),
        MatrixType::BF16 => of_bf16(bits as u16).into(),
        MatrixType::TF32 => f32::from_bits(bits & !0x1fff).into(),
        MatrixType::E4M3 => of_e4m3(bits as u8).into(),
        MatrixType::E5M2 => of_e5m2(bits as u8).into(),
        MatrixType::S8 => f64::from(bits as i8),
        MatrixType::U8 => f64::from(bits as u8),
    }
}

fn values(of: MatrixType, rows: &[Vec<u32>], negate: bool) -> Vec<Vec<f64>> {
    let sign = if negate { -1.0 } else { 1.0 };
    let row = |row: &Vec<u32>| row.iter().map(|bits| sign * value(of, *bits)).collect();
    rows.iter().map(row).collect()
}

/// The sums of all products: one for each row of A and of B.
pub(crate) fn sums(
    types: [MatrixType; 2],
    a: &[Vec<u32>],
    b: &[Vec<u32>],
    negate: [bool; 2],
) -> Vec<Vec<f64>> {
    let (a, b) = (values(types[0], a, negate[0]), values(types[1], b, negate[1]));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum();
    a.iter().map(|a| b.iter().map(|b| dot(a, b)).collect()).collect()
}
