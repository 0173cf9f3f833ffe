//! Matrix products as warps issue them and wait for them.

use postlude_ptx::inst::Inst;
use postlude_ptx::kernel::MatrixType;
use postlude_ptx::modifier::{Shape, SumOverflow, WaitFor};
use postlude_ptx::operand::{MatrixA, Register};
use postlude_ptx::types::Scalar;

use crate::error::SimError;
use crate::machine::Machine;
use crate::matrix::{self, matrix_type};
use crate::numerics::tensor::Core;
use crate::operation::{Matrix, Product, Work};
use crate::product_fence::Lacking;
use crate::report::Diagnosis;
use crate::warp::{Wait, Warp};

use super::{Now, Outcome};

impl Machine<'_> {
    pub(super) fn execute_product(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        match inst {
            Inst::WgmmaFence {} => {
                warp.fence.fence();
                Ok(Outcome::Next)
            }
            Inst::Wgmma { .. } => self.multiply(warp, now, inst),
            Inst::WgmmaCommit {} => {
                warp.product_groups.push(warp.products);
                Ok(Outcome::Next)
            }
            Inst::WgmmaWait { pending } => {
                let pending = self.value(warp, pending.0)[0] as usize;
                Ok(self.wait_products(warp, now, pending))
            }
            Inst::Mma { .. } => self.multiply_warp(warp, now, inst),
            _ => Err(self.unsupported(now.line, "not for Hopper")),
        }
    }

    /// A warp's part of a product; the last of the four warps hands it over.
    fn multiply(&mut self, warp: &mut Warp, now: Now, inst: &Inst) -> Result<Outcome, SimError> {
        if self.warps_of_group(warp) != 0xf {
            return Err(self.unsupported(now.line, "a warpgroup has four warps"));
        }
        let product = self.product(warp, now, inst)?;
        let (sums, fragments) = self.lent(inst);
        self.check_fence(warp, now, product.shape, (&sums, &fragments))?;
        let number = warp.products;
        warp.products += 1;
        warp.unawaited.push((number, now.pc));
        warp.busy += 1;
        for place in sums {
            warp.touched[place] += 1;
        }
        for place in fragments {
            warp.held[place] += 1;
        }
        let own = 1 << (warp.number % 4);
        let group = &mut self.ctas[warp.cta].warpgroups[warp.number as usize / 4];
        let known = group.partial.iter().position(|(each, _)| *each == number);
        let place = known.unwrap_or_else(|| {
            group.partial.push((number, Product { warps: 0, ..product.clone() }));
            group.partial.len() - 1
        });
        let (_, held) = &mut group.partial[place];
        let resizes = held.resizes;
        let same = Product { warps: 0, resizes, ..product } == Product { warps: 0, ..held.clone() };
        held.warps |= own;
        if !same {
            let message = format!("another warp of the warpgroup issued line {}", held.line);
            self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message)?;
        }
        if resizes != warp.resizes {
            self.compare_resizes(warp, now, resizes)?;
        }
        let group = &mut self.ctas[warp.cta].warpgroups[warp.number as usize / 4];
        if group.partial[place].1.warps != 0xf {
            return Ok(Outcome::Next);
        }
        let (_, ready) = group.partial.remove(place);
        self.report.meters.products += 1;
        let operation = self.issue(warp, now, Work::Product(Box::new(ready)));
        let group = &mut self.ctas[warp.cta].warpgroups[warp.number as usize / 4];
        group.issued.push(operation);
        self.progress += 1;
        Ok(Outcome::Yield)
    }

    /// Finds registers of a product that no `wgmma.fence` orders after earlier accesses.
    fn check_fence(
        &mut self,
        warp: &mut Warp,
        now: Now,
        shape: Shape,
        (sums, fragments): (&[usize], &[usize]),
    ) -> Result<(), SimError> {
        let Some(lacking) = warp.fence.multiply(shape, sums, fragments) else { return Ok(()) };
        let name = |place| self.program.register(place);
        let message = match lacking {
            Lacking::Any => "no wgmma.fence came before the first product".to_owned(),
            Lacking::Ordinary { place, line } => {
                let register = name(place);
                format!("line {line} touches {register}, and no wgmma.fence comes between")
            }
            Lacking::Product { place } => format!(
                "a product of another shape, or one that reads it as A, has {}, and no wgmma.fence comes between",
                name(place)
            ),
        };
        self.blame(Self::blamed(warp), now.line, Diagnosis::MissingProductFence, message)
    }

    /// Registers that a product has until it is waited for: those of its sums, and those it only reads.
    fn lent(&self, inst: &Inst) -> (Vec<usize>, Vec<usize>) {
        let Inst::Wgmma { d, a, .. } = inst else { return (Vec::new(), Vec::new()) };
        let places = |registers: &[Register]| -> Vec<usize> {
            registers.iter().map(|each| self.program.place(*each)).collect()
        };
        let fragments = match a {
            MatrixA::Descriptor(_) => Vec::new(),
            MatrixA::Fragments(registers) => places(registers),
        };
        (places(&d.0), fragments)
    }

    /// Bits of the warps that the warpgroup has.
    fn warps_of_group(&self, warp: &Warp) -> u32 {
        let count = self.ctas[warp.cta].warps.len() as u32;
        let group = warp.number / 4 * 4;
        (1 << (count - group).min(4)) - 1
    }

    fn product(&self, warp: &Warp, now: Now, inst: &Inst) -> Result<Product, SimError> {
        let Inst::Wgmma { shape, overflow, sum, a_type, b_type, d, a, b, keep, immediates } = inst
        else {
            return Err(self.unsupported(now.line, "no product"));
        };
        let refuse = |why| Err(self.unsupported(now.line, why));
        let (Some(left), Some(_)) = (matrix_type(*a_type), matrix_type(*b_type)) else {
            return refuse("no such type");
        };
        let per_register = if *sum == Scalar::F16 { 2 } else { 1 };
        if shape.m != 64
            || shape.k != left.k()
            || shape.n == 0
            || !shape.n.is_multiple_of(8)
            || shape.n > 256
            || d.0.len() as u32 * per_register * 2 != shape.n
        {
            return refuse("no such shape");
        }
        let lane = now.mask.trailing_zeros() as usize;
        let integer = matches!(left, MatrixType::S8 | MatrixType::U8);
        let given = &immediates.0;
        let in_registers = matches!(a, MatrixA::Fragments(_));
        let wanted = match (integer, left.bytes(), in_registers) {
            (true, _, _) => 0,
            (false, 2, false) => 4,
            (false, 2, true) => 3,
            (false, _, _) => 2,
        };
        if given.len() != wanted {
            return refuse("another number of immediates");
        }
        let flag = |at: usize| given.get(at).is_some_and(|value| *value == 1);
        let a = match a {
            MatrixA::Descriptor(register) => Matrix::Shared {
                descriptor: warp.registers[self.program.place(*register)][lane],
                transposed: flag(2),
            },
            MatrixA::Fragments(registers) => {
                if registers.len() != 4 {
                    return refuse("another number of fragments");
                }
                Matrix::Registers(registers.iter().map(|each| self.program.place(*each)).collect())
            }
        };
        let transposed = flag(if in_registers { 2 } else { 3 });
        let descriptor = self.value(warp, b.0)[lane];
        Ok(Product {
            pc: now.pc,
            line: now.line,
            first: self.ctas[warp.cta].warps.start + warp.number as usize / 4 * 4,
            shape: *shape,
            sum: *sum,
            types: [*a_type, *b_type],
            sums: d.0.iter().map(|each| self.program.place(*each)).collect(),
            a,
            b: Matrix::Shared { descriptor, transposed },
            keep: self.value(warp, keep.0)[lane] & 1 == 1,
            resizes: warp.resizes,
            saturate: *overflow == SumOverflow::Saturate,
            negate: [0, 1].map(|at| given.get(at) == Some(&-1)),
            warps: 0,
        })
    }

    fn wait_products(&mut self, warp: &mut Warp, now: Now, pending: usize) -> Outcome {
        let groups = warp.product_groups.len();
        let Some(last) = groups.checked_sub(pending.saturating_add(1)) else {
            return Outcome::Next;
        };
        let count = warp.product_groups[last];
        let group = &self.ctas[warp.cta].warpgroups[warp.number as usize / 4];
        if group.done < count {
            return Outcome::Retry(Wait::Products { count });
        }
        warp.product_groups.drain(..=last);
        let (done, rest): (Vec<_>, Vec<_>) =
            warp.unawaited.drain(..).partition(|(number, _)| *number < count);
        warp.unawaited = rest;
        warp.busy -= done.len() as u32;
        for (_, pc) in &done {
            let (sums, fragments) = self.lent(&self.program.steps[*pc as usize].inst);
            for place in sums {
                warp.touched[place] -= 1;
            }
            for place in fragments {
                warp.held[place] -= 1;
            }
        }
        let issued = &self.ctas[warp.cta].warpgroups[warp.number as usize / 4].issued;
        let numbers = done.iter().filter_map(|(number, _)| issued.get(*number as usize));
        let numbers: Vec<u64> = numbers.copied().collect();
        self.observer.joined(self.at(warp, now.line, now.mask), &numbers, WaitFor::Complete);
        Outcome::Next
    }

    /// A product of one warp, at once.
    fn multiply_warp(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        let Inst::Mma { shape, sum, a_type, b_type, d, a, b, c, .. } = inst else {
            return Err(self.unsupported(now.line, "no product"));
        };
        let (Some(left), Some(right)) = (matrix_type(*a_type), matrix_type(*b_type)) else {
            return Err(self.unsupported(now.line, "no such type"));
        };
        let counts = [d.0.len(), a.0.len(), b.0.len(), c.0.len()] == [4, 4, 2, 4];
        let wide = matches!(sum, Scalar::F32 | Scalar::S32);
        if !counts || !wide || (shape.m, shape.n, shape.k) != (16, 8, left.k()) {
            return Err(self.unsupported(now.line, "no such shape"));
        }
        let take = |each: &Register| warp.registers[self.program.place(*each)];
        let [a, b, c] = [a, b, c].map(|list| list.0.iter().map(take).collect::<Vec<_>>());
        let rows = matrix::warp_a(&a, left);
        let columns = matrix::warp_b(&b, right);
        let mut sums = matrix::warp_sums(&c);
        let mode = matrix::Mode { keep: true, saturate: false, negate: [false; 2] };
        let types = [left, right];
        matrix::accumulate(Core::HopperWarp, types, &rows, &columns, &mut sums, *sum, mode);
        for (part, register) in d.0.iter().enumerate() {
            let value = std::array::from_fn(|lane| {
                let (row, column) = matrix::sum_place(part, lane);
                u64::from(sums[row][column])
            });
            self.set(warp, *register, now.mask, value);
        }
        Ok(Outcome::Next)
    }
}
