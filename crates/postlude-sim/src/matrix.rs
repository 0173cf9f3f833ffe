//! Matrices in registers and shared memory, and their products.
//!
//! In: fragments and descriptors. Out: sums, as bits. Rows of A and of B (columns of the matrix B) are lists of elements,
//! each in the lowest bits of a word. Layouts: PTX ISA, "Register Fragments" and "Matrix Descriptor Format".

use postlude_ptx::kernel::MatrixType;
use postlude_ptx::modifier::SumOverflow;
use postlude_ptx::types::Scalar;

use crate::numerics::tensor::{
    Core, Prepared, Sign, multiply_accumulate, multiply_accumulate_half,
    multiply_accumulate_integer,
};
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
    core: Core,
    types: [MatrixType; 2],
    a: &[Vec<u32>],
    b: &[Vec<u32>],
    sums: &mut [Vec<u32>],
    sum: Scalar,
    mode: Mode,
) {
    let sign = |negate| if negate { Sign::Minus } else { Sign::Plus };
    let a = Prepared::new(types[0], sign(mode.negate[0]), a);
    let b = Prepared::new(types[1], sign(mode.negate[1]), b);
    match sum {
        Scalar::S32 => {
            let overflow = if mode.saturate { SumOverflow::Saturate } else { SumOverflow::Wrap };
            through(
                sums,
                |bits| bits as i32,
                |value| value as u32,
                |d| multiply_accumulate_integer(&a, &b, d, overflow, mode.keep),
            );
        }
        Scalar::F16 => through(
            sums,
            |bits| bits as u16,
            u32::from,
            |d| multiply_accumulate_half(core, &a, &b, d, mode.keep),
        ),
        _ => through(sums, f32::from_bits, f32::to_bits, |d| {
            multiply_accumulate(core, &a, &b, d, mode.keep);
        }),
    }
}

/// Bits to values, changed, and back.
fn through<T: Copy>(
    sums: &mut [Vec<u32>],
    read: impl Fn(u32) -> T,
    write: impl Fn(T) -> u32,
    change: impl FnOnce(&mut [Vec<T>]),
) {
    let row = |row: &Vec<u32>| row.iter().map(|bits| read(*bits)).collect();
    let mut values: Vec<Vec<T>> = sums.iter().map(row).collect();
    change(&mut values);
    for (row, values) in sums.iter_mut().zip(values) {
        for (bits, value) in row.iter_mut().zip(values) {
            *bits = write(value);
        }
    }
}
