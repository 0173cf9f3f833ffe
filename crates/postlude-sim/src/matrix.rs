//! Matrices in registers and shared memory, and their products.
//!
//! In: fragments and descriptors. Out: sums, as bits. Rows of A and of B (columns of the matrix B) are lists of elements,
//! each in the lowest bits of a word. Layouts: PTX ISA, "Register Fragments" and "Matrix Descriptor Format".

use postlude_ptx::kernel::MatrixType;
use postlude_ptx::types::Scalar;

use crate::stand_in::convert::{f16_of, of_f16};
use crate::stand_in::tensor;
use crate::warp::Lanes;

/// What is done beside multiplying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mode {
    pub(crate) keep: bool,
    pub(crate) saturate: bool,
    pub(crate) negate: [bool; 2],
}

/// The type of a matrix's elements.
pub(crate) fn matrix_type(ty: Scalar) -> Option<MatrixType> {
    let all = [
        MatrixType::F16,
        MatrixType::BF16,
        MatrixType::TF32,
        MatrixType::E4M3,
        MatrixType::E5M2,
        MatrixType::S8,
        MatrixType::U8,
    ];
    all.into_iter().find(|each| each.scalar() == ty)
}

/// Element `at` of a register.
fn element(register: u64, at: u32, bytes: u32) -> u32 {
    let bits = 8 * bytes;
    ((register >> (at * bits)) & ((1 << bits) - 1)) as u32
}

/// 16 rows from a warp's four registers of A.
pub(crate) fn warp_a(registers: &[Lanes], of: MatrixType) -> Vec<Vec<u32>> {
    let (bytes, each) = (of.bytes(), 4 / of.bytes());
    let mut rows = vec![vec![0; of.k() as usize]; 16];
    for (number, register) in registers.iter().enumerate() {
        let (below, right) = (number % 2 * 8, number as u32 / 2 * 4 * each);
        for (lane, value) in register.iter().enumerate() {
            for at in 0..each {
                let k = right + lane as u32 % 4 * each + at;
                rows[below + lane / 4][k as usize] = element(*value, at, bytes);
            }
        }
    }
    rows
}

/// 8 columns from a warp's two registers of B.
pub(crate) fn warp_b(registers: &[Lanes], of: MatrixType) -> Vec<Vec<u32>> {
    let (bytes, each) = (of.bytes(), 4 / of.bytes());
    let mut columns = vec![vec![0; of.k() as usize]; 8];
    for (number, register) in registers.iter().enumerate() {
        for (lane, value) in register.iter().enumerate() {
            for at in 0..each {
                let k = number as u32 * 4 * each + lane as u32 % 4 * each + at;
                columns[lane / 4][k as usize] = element(*value, at, bytes);
            }
        }
    }
    columns
}

/// Row and column of a lane's sum in a register of 32-bit sums: four registers for each 8 columns.
pub(crate) fn sum_place(register: usize, lane: usize) -> (usize, usize) {
    let (block, part) = (register / 4, register % 4);
    (lane / 4 + part / 2 * 8, 8 * block + lane % 4 * 2 + part % 2)
}

/// 16 rows of sums from a warp's registers of 32-bit sums.
pub(crate) fn warp_sums(registers: &[Lanes]) -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0; registers.len() * 2]; 16];
    for (number, register) in registers.iter().enumerate() {
        for (lane, value) in register.iter().enumerate() {
            let (row, column) = sum_place(number, lane);
            rows[row][column] = *value as u32;
        }
    }
    rows
}

/// `a * b + (keep ? old : 0)` in the type of the sums, as bits.
pub(crate) fn accumulate(
    types: [MatrixType; 2],
    a: &[Vec<u32>],
    b: &[Vec<u32>],
    old: &[Vec<u32>],
    sum: Scalar,
    mode: Mode,
) -> Vec<Vec<u32>> {
    let sums = tensor::sums(types, a, b, mode.negate);
    let finish = |dot: f64, old: u32| match sum {
        Scalar::S32 => {
            let old = if mode.keep { old as i32 } else { 0 };
            let dot = dot as i32;
            let new = if mode.saturate { old.saturating_add(dot) } else { old.wrapping_add(dot) };
            new as u32
        }
        Scalar::F16 => {
            let old = if mode.keep { f64::from(of_f16(old as u16)) } else { 0.0 };
            u32::from(f16_of((old + dot) as f32))
        }
        _ => {
            let old = if mode.keep { f64::from(f32::from_bits(old)) } else { 0.0 };
            ((old + dot) as f32).to_bits()
        }
    };
    let row = |(sums, old): (Vec<f64>, &Vec<u32>)| {
        sums.into_iter().zip(old).map(|(dot, old)| finish(dot, *old)).collect()
    };
    sums.into_iter().zip(old).map(row).collect()
}
