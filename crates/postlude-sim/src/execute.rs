//! One step of one split.
//!
//! In: a warp that was taken out of its place, and which of its splits. Out: registers and memory changed, and whether
//! the split goes on. Invariant: a split that waits has either done its part and stands after the step, or stands before
//! it and will execute it again.

mod access;
mod barrier;
mod copy;
mod lane;
mod lane_order;
mod lockstep;
mod memory;
mod product;
mod registers;
mod shared;
mod undefined;

use postlude_ptx::address::{Address, Base};
use postlude_ptx::inst::Inst;
use postlude_ptx::operand::{Access, Operand, Register};
use postlude_ptx::types::Class;

use crate::alu::Compute;
use crate::error::SimError;
use crate::machine::Machine;
use crate::program::{END, Guard, Pc};
use crate::report::Diagnosis;
use crate::warp::{Lanes, Split, Wait, Warp};

/// What a step leaves its split in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It goes on with the next step.
    Next,
    /// It goes on with the next step, and others may run first: something was handed over.
    Yield,
    /// It goes on with the next step, but asks again and again: others run first.
    Poll,
    /// It waits, and executes this step again.
    Retry(Wait),
    /// It has done its part and waits before the next step.
    Block(Wait),
    /// Its places are set.
    Placed,
}

/// Which part of the machine executes an instruction.
enum Unit {
    Lane,
    Memory,
    Shared,
    Barrier,
    Copy,
    Product,
    Control,
}

/// A step in execution.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) pc: Pc,
    pub(crate) line: u32,
    /// Lanes that execute it.
    pub(crate) mask: u32,
    /// The split, by its place.
    pub(crate) split: usize,
}

fn unit(inst: &Inst) -> Unit {
    match inst {
        Inst::Add { .. } | Inst::AddFloat { .. } | Inst::Sub { .. } | Inst::SubFloat { .. } => {
            Unit::Lane
        }
        Inst::MulLow { .. } | Inst::MulHigh { .. } | Inst::MulWide { .. } => Unit::Lane,
        Inst::MulFloat { .. } | Inst::MadLow { .. } | Inst::MadWide { .. } => Unit::Lane,
        Inst::Fma { .. } | Inst::Div { .. } | Inst::DivFull { .. } | Inst::Rem { .. } => Unit::Lane,
        Inst::Min { .. } | Inst::MinNan { .. } | Inst::Max { .. } | Inst::MaxNan { .. } => {
            Unit::Lane
        }
        Inst::Neg { .. } | Inst::Abs { .. } | Inst::And { .. } | Inst::Or { .. } => Unit::Lane,
        Inst::Xor { .. } | Inst::Not { .. } | Inst::Shl { .. } | Inst::Shr { .. } => Unit::Lane,
        Inst::PopulationCount { .. } | Inst::Permute { .. } | Inst::Lop3 { .. } => Unit::Lane,
        Inst::Setp { .. } | Inst::Select { .. } | Inst::Mov { .. } => Unit::Lane,
        Inst::MovSpecial { .. } | Inst::MovSymbol { .. } | Inst::Unpack { .. } => Unit::Lane,
        Inst::Pack { .. } | Inst::Convert { .. } | Inst::ConvertPair { .. } => Unit::Lane,
        Inst::ApproxEx2 { .. } | Inst::ApproxEx2Flush { .. } | Inst::ApproxLg2 { .. } => Unit::Lane,
        Inst::ApproxRcp { .. } | Inst::ApproxRsqrt { .. } | Inst::ApproxRcpFlush { .. } => {
            Unit::Lane
        }
        Inst::ApproxRsqrtFlush { .. } | Inst::ApproxSqrt { .. } | Inst::ApproxTanh { .. } => {
            Unit::Lane
        }
        Inst::ApproxSin { .. } | Inst::ApproxCos { .. } => Unit::Lane,
        Inst::Shuffle { .. } | Inst::Vote { .. } | Inst::Ballot { .. } | Inst::Elect { .. } => {
            Unit::Lane
        }
        Inst::LoadParameter { .. } | Inst::CvtaParameter { .. } | Inst::CvtaToGlobal { .. } => {
            Unit::Lane
        }
        Inst::MapAddress { .. } | Inst::CreatePolicy { .. } => Unit::Lane,
        Inst::LoadGlobal { .. } | Inst::LoadOrdered { .. } | Inst::StoreGlobal { .. } => {
            Unit::Memory
        }
        Inst::StoreOrdered { .. } | Inst::Atomic { .. } | Inst::AtomicSwap { .. } => Unit::Memory,
        Inst::Reduce { .. } => Unit::Memory,
        Inst::LoadShared { .. } | Inst::StoreShared { .. } | Inst::AtomicShared { .. } => {
            Unit::Shared
        }
        Inst::LoadMatrix { .. } | Inst::StoreMatrix { .. } => Unit::Shared,
        Inst::BarSync { .. } | Inst::BarArrive { .. } | Inst::WarpSync { .. } => Unit::Barrier,
        Inst::ClusterArrive { .. } | Inst::ClusterWait { .. } | Inst::BarrierInit { .. } => {
            Unit::Barrier
        }
        Inst::BarrierInvalidate { .. } | Inst::BarrierArrive { .. } => Unit::Barrier,
        Inst::BarrierExpect { .. } | Inst::BarrierTryWait { .. } => Unit::Barrier,
        Inst::BarrierTestWait { .. } | Inst::SetMaxRegisters { .. } => Unit::Barrier,
        Inst::CopyAsync { .. } | Inst::CopyCommit {} | Inst::CopyWait { .. } => Unit::Copy,
        Inst::BulkLoad { .. } | Inst::BulkStore { .. } | Inst::TensorLoad { .. } => Unit::Copy,
        Inst::StoreAsync { .. } => Unit::Copy,
        Inst::TensorLoadHint { .. } | Inst::TensorMulticast { .. } => Unit::Copy,
        Inst::TensorMulticastHint { .. } | Inst::TensorStore { .. } => Unit::Copy,
        Inst::TensorStoreHint { .. } | Inst::TensorReduce { .. } => Unit::Copy,
        Inst::BulkCommit {} | Inst::BulkWait { .. } => Unit::Copy,
        Inst::WgmmaFence {} | Inst::Wgmma { .. } | Inst::WgmmaCommit {} => Unit::Product,
        Inst::WgmmaWait { .. } | Inst::Mma { .. } => Unit::Product,
        Inst::TensorMemoryAllocate { .. } | Inst::TensorMemoryFree { .. } => Unit::Product,
        Inst::Fence { .. } | Inst::FenceProxyAsync { .. } | Inst::FenceBarrierInit {} => {
            Unit::Control
        }
        Inst::Prefetch { .. }
        | Inst::PrefetchMap { .. }
        | Inst::GridWait {}
        | Inst::GridLaunch {} => Unit::Control,
        Inst::Branch { .. } | Inst::Sleep { .. } | Inst::Ret {} => Unit::Control,
        Inst::Exit {} | Inst::Trap {} => Unit::Control,
    }
}

impl Machine<'_> {
    /// Executes the step at which a split stands.
    pub(crate) fn step(&mut self, warp: &mut Warp, split: usize) -> Result<Outcome, SimError> {
        let program = self.program;
        let Split { pc, mask, .. } = warp.splits[split];
        let Some(step) = program.steps.get(pc as usize) else {
            return Ok(self.end(warp, split, mask));
        };
        let again = std::mem::take(&mut warp.splits[split].retrying);
        self.report.instructions += u64::from(!again);
        if let Some((place, guard)) = program.place_of(step.guard)
            && !again
            && mask & !warp.defined[place] != 0
        {
            self.blame_undefined(warp, step.line, guard.register, mask)?;
        }
        let mut mask = guarded(program.place_of(step.guard), warp, mask);
        let now = Now { pc, line: step.line, mask, split };
        if let Inst::Branch { .. } = step.inst {
            return Ok(branch(warp, now, step.target, step.meet));
        }
        if mask == 0 {
            return Ok(Outcome::Next);
        }
        if let Some(needed) = self.members(warp, step, mask) {
            match gather(warp, split, needed) {
                Some(all) => mask |= guarded(program.place_of(step.guard), warp, all),
                None => return Ok(Outcome::Retry(Wait::Members(needed))),
            }
        }
        let now = Now { mask, ..now };
        if !again {
            let at = self.at(warp, step.line, mask);
            self.check_lockstep(warp, now, step)?;
            self.check_defined(warp, now, step)?;
            if step.facts.orders {
                self.order_lanes(warp, now, &step.inst);
            }
            self.observer.executed(at, &step.inst);
        }
        if warp.busy > 0 {
            self.check_accumulators(warp, now, &step.inst)?;
        }
        if !step.exposed.is_empty() {
            warp.fence.touch(&step.exposed, step.line);
        }
        if let Some((d, compute)) = &step.compute {
            let result = self.compute(warp, compute);
            self.set(warp, *d, mask, result);
            return Ok(Outcome::Next);
        }
        let outcome = match unit(&step.inst) {
            Unit::Lane => self.execute_lane(warp, now, &step.inst),
            Unit::Memory => self.execute_memory(warp, now, &step.inst),
            Unit::Shared => self.execute_shared(warp, now, &step.inst),
            Unit::Barrier => self.execute_barrier(warp, now, &step.inst),
            Unit::Copy => self.execute_copy(warp, now, &step.inst),
            Unit::Product => self.execute_product(warp, now, &step.inst),
            Unit::Control => self.execute_control(warp, now, &step.inst),
        }?;
        if step.facts.orders && !matches!(outcome, Outcome::Retry(_)) {
            self.ordered_lanes(warp, now, &step.inst);
        }
        Ok(outcome)
    }

    fn compute(&self, warp: &Warp, compute: &Compute) -> Lanes {
        match compute {
            Compute::One(f, [a]) => f(&self.value(warp, *a)),
            Compute::Two(f, [a, b]) => f(&self.value(warp, *a), &self.value(warp, *b)),
            Compute::Three(f, [a, b, c]) => {
                f(&self.value(warp, *a), &self.value(warp, *b), &self.value(warp, *c))
            }
        }
    }

    /// A register of all lanes, or an immediate.
    #[inline]
    pub(crate) fn value(&self, warp: &Warp, operand: Operand) -> Lanes {
        match operand {
            Operand::Register(register) => warp.registers[self.program.place(register)],
            Operand::Integer(value) => [value as u64; 32],
            Operand::Float(bits) => [u64::from(bits); 32],
        }
    }

    /// Writes a register, cut to the width of its class.
    #[inline]
    pub(crate) fn set(&self, warp: &mut Warp, register: Register, mask: u32, values: Lanes) {
        let width: u64 = match register.class {
            Class::Pred => 1,
            Class::B16 => 0xffff,
            Class::B32 | Class::F32 => 0xffff_ffff,
            Class::B64 => u64::MAX,
        };
        warp.write(self.program.place(register), mask, &values.map(|value| value & width));
    }

    /// Addresses of all lanes.
    pub(crate) fn address(
        &self,
        warp: &Warp,
        address: &Address,
        line: u32,
    ) -> Result<Lanes, SimError> {
        let base = match &address.base {
            Base::Register(register) => warp.registers[self.program.place(*register)],
            Base::Symbol(name) => {
                let place = self.symbols.address(name);
                [place.ok_or_else(|| self.unsupported(line, "no such symbol"))?; 32]
            }
        };
        Ok(base.map(|base| base.wrapping_add_signed(address.offset)))
    }

    /// Who is to blame for what a warp does.
    pub(crate) fn blamed(warp: &Warp) -> (usize, Option<u32>) {
        (warp.cta, Some(warp.number))
    }

    /// Accumulators of products that nobody waited for must not be touched by anything but products.
    fn check_accumulators(&mut self, warp: &Warp, now: Now, inst: &Inst) -> Result<(), SimError> {
        if let Inst::Wgmma { .. } = inst {
            return Ok(());
        }
        let mut found: Option<Register> = None;
        inst.visit(&mut |access, register| {
            let place = self.program.place(register);
            let written = access != Access::Read;
            if warp.touched[place] > 0 || written && warp.held[place] > 0 {
                found = found.or(Some(register));
            }
        });
        let Some(register) = found else { return Ok(()) };
        let message = format!("{register} belongs to a product that was not waited for");
        self.blame(Self::blamed(warp), now.line, Diagnosis::AccumulatorTouched, message)
    }

    fn execute_control(
        &mut self,
        warp: &mut Warp,
        now: Now,
        inst: &Inst,
    ) -> Result<Outcome, SimError> {
        match inst {
            Inst::Ret {} | Inst::Exit {} => Ok(self.end(warp, now.split, now.mask)),
            Inst::Trap {} => {
                let (cta, warp) = (self.ctas[warp.cta].number, warp.number);
                Err(SimError::Trap { line: now.line as usize, cta, warp })
            }
            Inst::Sleep { .. } => Ok(Outcome::Poll),
            _ => Ok(Outcome::Next),
        }
    }

    /// Ends lanes; barriers that counted on them are looked at again.
    fn end(&mut self, warp: &mut Warp, split: usize, mask: u32) -> Outcome {
        let all = warp.splits[split].mask == mask;
        if !all {
            warp.splits[split].pc += 1;
        }
        warp.end(split, mask);
        let threads = mask.count_ones();
        let cta = &mut self.ctas[warp.cta];
        cta.live -= threads;
        if cta.live == 0 {
            self.observer.ended(cta.number);
        }
        let cluster = &mut self.clusters[cta.cluster];
        cluster.live -= threads;
        cluster.settle();
        self.progress += 1;
        Outcome::Placed
    }
}

/// Lanes of a mask whose guard holds.
fn guarded(guard: Option<(usize, Guard)>, warp: &Warp, mask: u32) -> u32 {
    let Some((place, guard)) = guard else { return mask };
    let held = &warp.registers[place];
    let set = (0..32).fold(0_u32, |set, lane| set | (held[lane] as u32 & 1) << lane);
    mask & if guard.negated { !set } else { set }
}

fn branch(warp: &mut Warp, now: Now, target: Pc, meet: Pc) -> Outcome {
    let mask = warp.splits[now.split].mask;
    let after = now.pc + 1;
    if now.mask == mask {
        warp.splits[now.split].pc = target;
    } else if now.mask == 0 {
        warp.splits[now.split].pc = after;
    } else {
        warp.divide(now.split, now.mask, target, after, meet);
    }
    debug_assert!(target != END || meet == END);
    Outcome::Placed
}

/// Lanes of all splits that stand here, once `needed` are among them; the others then go on with this one.
fn gather(warp: &mut Warp, split: usize, needed: u32) -> Option<u32> {
    let own = &warp.splits[split];
    if needed & !own.mask == 0 {
        return Some(own.mask);
    }
    let pc = own.pc;
    let here = |other: &Split| other.pc == pc && matches!(other.wait, Some(Wait::Members(_)));
    let others = warp.splits.iter().enumerate();
    let others = others.filter(|(place, other)| *place == split || here(other));
    let all = others.fold(0, |all, (_, other)| all | other.mask);
    if needed & !all != 0 {
        return None;
    }
    for (place, other) in warp.splits.iter_mut().enumerate() {
        if place != split && here(other) {
            other.wait = None;
            other.pc += 1;
        }
    }
    Some(all)
}
