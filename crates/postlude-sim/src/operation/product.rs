//! The completion of a matrix product: reads shared memory and registers, and writes the sums.

use postlude_ptx::kernel::MatrixType;
use postlude_ptx::types::Scalar;

use crate::error::SimError;
use crate::machine::Machine;
use crate::matrix::{self, Mode, matrix_type};
use crate::memory::Fault;
use crate::numerics::descriptor::{Descriptor, Major};
use crate::numerics::tensor::Core;
use crate::observe::{Access, Agent, At, Kind, Space};
use crate::report::{Diagnosis, Finding};
use crate::scalar::little;
use crate::swizzles::{self, Reads, Written};

use super::{Matrix, Product};

/// Bytes that lie together whatever the layout.
const CHUNK: u32 = 16;
/// Rows of A that a warp multiplies.
const WARP_ROWS: u32 = 16;

/// Which matrix of a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// Each warp reads its own rows.
    A,
    /// Every warp reads all of it.
    B,
}

/// A product under way and the warpgroup that issued it.
#[derive(Clone, Copy)]
struct Issuer {
    number: u64,
    cta: usize,
    /// The first of its four warps, by number in the CTA.
    first: u32,
    line: u32,
}

impl Side {
    /// Which of the four lists of reads a row belongs to.
    fn part(self, row: u32) -> usize {
        match self {
            Side::A => (row / WARP_ROWS) as usize,
            Side::B => 0,
        }
    }
}

impl Machine<'_> {
    pub(super) fn complete_product(
        &mut self,
        number: u64,
        cta: usize,
        product: &Product,
    ) -> Result<(), SimError> {
        let types = product.types.map(matrix_type);
        let [Some(left), Some(right)] = types else { return Ok(()) };
        let first = (product.first - self.ctas[cta].warps.start) as u32;
        let issuer = Issuer { number, cta, first, line: product.line };
        let a = match &product.a {
            Matrix::Shared { descriptor, transposed } => {
                self.matrix(issuer, (*descriptor, *transposed), left, (Side::A, 64))?
            }
            Matrix::Registers(registers) => {
                let warps = &self.warps[product.first..product.first + 4];
                let fragments = |warp: &crate::warp::Warp| {
                    let held: Vec<_> = registers.iter().map(|each| warp.registers[*each]).collect();
                    matrix::warp_a(&held, left)
                };
                warps.iter().flat_map(fragments).collect()
            }
        };
        let Matrix::Shared { descriptor, transposed } = product.b else { return Ok(()) };
        let n = product.shape.n;
        let b = self.matrix(issuer, (descriptor, transposed), right, (Side::B, n))?;
        let mut sums = self.sums(product);
        let Product { keep, saturate, negate, .. } = *product;
        let mode = Mode { keep, saturate, negate };
        let types = [left, right];
        matrix::accumulate(Core::Warpgroup, types, &a, &b, &mut sums, product.sum, mode);
        self.set_sums(product, &sums);
        let cta = &mut self.ctas[cta];
        cta.warpgroups[(product.first - cta.warps.start) / 4].done += 1;
        Ok(())
    }

    /// Rows of a matrix in shared memory.
    fn matrix(
        &mut self,
        issuer: Issuer,
        (descriptor, transposed): (u64, bool),
        of: MatrixType,
        (side, rows): (Side, u32),
    ) -> Result<Vec<Vec<u32>>, SimError> {
        let Issuer { number, cta, first, line } = issuer;
        let (bytes, depth) = (of.bytes(), of.k());
        let decoded = Descriptor::decode(descriptor);
        let major = if transposed { Major::MN } else { Major::K };
        let mut matrix = vec![vec![0; depth as usize]; rows as usize];
        let each = CHUNK / bytes;
        let (outer, inner) = if transposed { (depth, rows) } else { (rows, depth) };
        let mut pieces: [Vec<(u64, u32)>; 4] = Default::default();
        let mut wrong: Option<(Fault, u32)> = None;
        let Descriptor { swizzle, base_offset, .. } = decoded;
        let reads = Reads { swizzle, base_offset };
        let mut other = None;
        for across in 0..outer {
            for along in (0..inner).step_by(each as usize) {
                let (row, k) = if transposed { (along, across) } else { (across, along) };
                let at = decoded.element_address(major, bytes, row, k);
                pieces[side.part(row)].push((u64::from(at), CHUNK));
                let shared = &self.ctas[cta].shared;
                if other.is_none() {
                    other = shared.disagrees(at, reads).map(|written| (at, written));
                }
                let held = match shared.bytes(at, CHUNK as usize) {
                    Ok((held, written)) => {
                        if !written {
                            wrong = wrong.or(Some((Fault::Uninitialised, at)));
                        }
                        held
                    }
                    Err(fault) => {
                        wrong = wrong.or(Some((fault, at)));
                        continue;
                    }
                };
                for (place, element) in held.chunks(bytes as usize).enumerate() {
                    let place = place as u32;
                    let (row, k) = if transposed { (row + place, k) } else { (row, k + place) };
                    if let Some(slot) = matrix[row as usize].get_mut(k as usize) {
                        *slot = little(element) as u32;
                    }
                }
            }
        }
        self.watch_matrix(issuer, side, &pieces);
        for part in pieces.iter().filter(|part| !part.is_empty()) {
            self.touch_product((cta, first), (line, number), part)?;
        }
        if let Some((fault, at)) = wrong {
            self.blame_shared((cta, None), line, fault, at)?;
        }
        if let Some((at, written)) = other {
            self.blame_swizzle((cta, None), line, at, (written, reads))?;
        }
        Ok(matrix)
    }

    /// Tells the observer what each warp of a product reads.
    fn watch_matrix(
        &mut self,
        Issuer { number, cta, line, .. }: Issuer,
        side: Side,
        pieces: &[Vec<(u64, u32)>; 4],
    ) {
        let at = At { agent: Agent::Operation(number), line, lanes: 0 };
        let space = Space::Shared { cta: self.ctas[cta].number };
        for (pieces, part) in pieces.iter().zip(0..) {
            let warp = match side {
                Side::A => Some(part),
                Side::B => None,
            };
            if !pieces.is_empty() {
                let access = Access { space, kind: Kind::Read, pieces };
                self.observer.multiplied(at, access, warp);
            }
        }
    }

    /// Bytes that a tensor copy wrote are read with another swizzle.
    pub(super) fn blame_swizzle(
        &mut self,
        (cta, warp): (usize, Option<u32>),
        line: u32,
        address: u32,
        (written, reads): (Written, Reads),
    ) -> Result<(), SimError> {
        let (diagnosis, region) = (Diagnosis::SwizzleMismatch, self.region(address));
        let [wrote, read] = [written.swizzle, reads.swizzle].map(swizzles::name);
        let shift = match reads.base_offset {
            0 => String::new(),
            rows => format!(" that starts {rows} rows late"),
        };
        let message = format!(
            "shared address {address:#x}: the copy of line {} wrote these bytes with {wrote}, and this reads them with {read}{shift}",
            written.line
        );
        let (cta, text) = (self.ctas[cta].number, self.program.text(line));
        let address = Some(u64::from(address));
        self.find(Finding { diagnosis, line, text, cta, warp, region, address, message })
    }

    /// The sums that the four warps hold.
    fn sums(&self, product: &Product) -> Vec<Vec<u32>> {
        let mut rows = Vec::with_capacity(64);
        for warp in &self.warps[product.first..product.first + 4] {
            let held: Vec<_> = product.sums.iter().map(|each| warp.registers[*each]).collect();
            rows.extend(if product.sum == Scalar::F16 {
                half_sums(&held)
            } else {
                matrix::warp_sums(&held)
            });
        }
        rows
    }

    fn set_sums(&mut self, product: &Product, new: &[Vec<u32>]) {
        let warps = &mut self.warps[product.first..product.first + 4];
        for (warp, rows) in warps.iter_mut().zip(new.chunks(16)) {
            for (number, register) in product.sums.iter().enumerate() {
                warp.registers[*register] = std::array::from_fn(|lane| {
                    if product.sum == Scalar::F16 {
                        let [(row, column), _] = half_places(number, lane);
                        u64::from(rows[row][column]) | u64::from(rows[row][column + 1]) << 16
                    } else {
                        let (row, column) = matrix::sum_place(number, lane);
                        u64::from(rows[row][column])
                    }
                });
            }
        }
    }
}

/// Rows and columns of the two sums of half precision in a register: two registers for each 8 columns.
fn half_places(register: usize, lane: usize) -> [(usize, usize); 2] {
    let (row, column) = (lane / 4 + register % 2 * 8, register / 2 * 8 + lane % 4 * 2);
    [(row, column), (row, column + 1)]
}

fn half_sums(registers: &[crate::warp::Lanes]) -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0; registers.len() * 4]; 16];
    for (number, register) in registers.iter().enumerate() {
        for (lane, value) in register.iter().enumerate() {
            for (half, (row, column)) in half_places(number, lane).into_iter().enumerate() {
                rows[row][column] = (value >> (16 * half) & 0xffff) as u32;
            }
        }
    }
    rows
}
