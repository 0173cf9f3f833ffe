//! Reads of registers that no instruction wrote.
//!
//! In: a step and the lanes that execute it. Out: a finding for each register that one of these lanes reads and never
//! wrote. Invariant: what cannot reach a result is not read: the sums of a product that starts anew, the side that a
//! selection leaves out, addresses of lanes that give no row to a matrix load, `xor` and `sub` of a register and itself.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::MatrixCount;
use postlude_ptx::operand::{Access, Operand, Register};

use crate::error::SimError;
use crate::machine::Machine;
use crate::program::Step;
use crate::report::Diagnosis;
use crate::warp::Warp;

use super::Now;

impl Machine<'_> {
    /// Finds registers that are read and were not written, and notes the registers that the step writes.
    #[inline]
    pub(super) fn check_defined(
        &mut self,
        warp: &mut Warp,
        now: Now,
        step: &Step,
    ) -> Result<(), SimError> {
        let all = step
            .facts
            .reads
            .iter()
            .fold(u32::MAX, |all, place| all & warp.defined[*place as usize]);
        if now.mask & !all != 0 {
            self.look_for_undefined(warp, now, &step.inst)?;
        }
        if let Inst::Wgmma { d, keep, .. } = &step.inst {
            let lane = now.mask.trailing_zeros() as usize;
            if self.value(warp, keep.0)[lane] & 1 == 1 {
                for register in &d.0 {
                    self.check_register(warp, now, *register, now.mask)?;
                }
            }
        }
        for place in &step.facts.writes {
            warp.defined[*place as usize] |= now.mask;
        }
        Ok(())
    }

    /// The same, register by register: some of them may be without effect.
    #[cold]
    fn look_for_undefined(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<(), SimError> {
        let mut reads = Vec::new();
        inst.visit(&mut |access, register| {
            if access == Access::Read {
                reads.push(register);
            }
        });
        for register in reads {
            let lanes = now.mask & self.lanes_that_matter(warp, inst, register);
            self.check_register(warp, now, register, lanes)?;
        }
        Ok(())
    }

    fn check_register(
        &mut self,
        warp: &mut Warp,
        now: Now,
        register: Register,
        lanes: u32,
    ) -> Result<(), SimError> {
        let place = self.program.place(register);
        if lanes & !warp.defined[place] == 0 {
            return Ok(());
        }
        self.blame_undefined(warp, now.line, register, lanes)
    }

    /// Lanes in which the value of a register that an instruction reads has an effect.
    fn lanes_that_matter(&self, warp: &Warp, inst: &Inst, register: Register) -> u32 {
        let is = |operand: &Operand| *operand == Operand::Register(register);
        match inst {
            Inst::Select { a, b, p, .. } if !is(&p.0) => {
                let chosen = self.value(warp, p.0);
                let yes = (0..32).fold(0, |set, lane| set | (chosen[lane] as u32 & 1) << lane);
                let a = if is(&a.0) { yes } else { 0 };
                a | if is(&b.0) { !yes } else { 0 }
            }
            Inst::Xor { a, b, .. } | Inst::Sub { a, b, .. } if is(&a.0) && is(&b.0) => 0,
            Inst::LoadMatrix { count, address, .. } | Inst::StoreMatrix { count, address, .. } => {
                let base = postlude_ptx::address::Base::Register(register);
                match count {
                    MatrixCount::X1 if address.base == base => 0xff,
                    MatrixCount::X2 if address.base == base => 0xffff,
                    MatrixCount::X1 | MatrixCount::X2 | MatrixCount::X4 => u32::MAX,
                }
            }
            _ => u32::MAX,
        }
    }

    /// Finds a register that lanes read and did not write; it is told once.
    #[cold]
    pub(super) fn blame_undefined(
        &mut self,
        warp: &mut Warp,
        line: u32,
        register: Register,
        lanes: u32,
    ) -> Result<(), SimError> {
        let place = self.program.place(register);
        let undefined = lanes & !warp.defined[place];
        warp.defined[place] |= lanes;
        let message = if undefined == lanes {
            format!("{register}")
        } else {
            format!("{register} in lanes {undefined:#x}")
        };
        self.blame(Self::blamed(warp), line, Diagnosis::UndefinedRegister, message)
    }
}
