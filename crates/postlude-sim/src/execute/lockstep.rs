//! What lanes must do together: which lanes execute an instruction, with which members, and with which equal operands.
//!
//! In: a step and the lanes that execute it. Out: findings. Invariant: a lane that an instruction needs is a
//! finding if it is predicated off, or if a member mask names it and it does not execute the instruction. Lanes that ended
//! are needed only by instructions that need the whole warp.

use postlude_ptx::address::Address;
use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::Window;
use postlude_ptx::operand::{MatrixA, Operand};

use crate::error::SimError;
use crate::machine::Machine;
use crate::memory::rank_of;
use crate::program::{Step, Together};
use crate::report::Diagnosis;
use crate::warp::{Lanes, Warp, lanes};

use super::Now;
use super::lane::shuffle_source;

/// What a barrier in shared memory can count: arrivals, and bytes (PTX ISA, "Contents of the mbarrier object").
const MOST_COUNTED: u64 = (1 << 20) - 1;

impl Machine<'_> {
    /// Lanes that must execute a step together with the lanes of `mask`.
    #[inline]
    pub(super) fn members(&self, warp: &Warp, step: &Step, mask: u32) -> Option<u32> {
        match step.facts.together {
            Together::Alone => None,
            Together::Warp | Together::WholeWarp => Some(warp.live),
            Together::Members => {
                let named = self.value(warp, members(&step.inst)?);
                let all = lanes(mask).fold(0, |all, lane| all | named[lane] as u32);
                Some(all & warp.live)
            }
        }
    }

    /// Finds what is wrong with the lanes that execute a step, and with operands that have limits.
    #[inline]
    pub(super) fn check_lockstep(
        &mut self,
        warp: &Warp,
        now: Now,
        step: &Step,
    ) -> Result<(), SimError> {
        match step.facts.together {
            Together::Alone => {}
            Together::Members => self.check_members(warp, now, &step.inst)?,
            Together::Warp => self.check_present(warp, now, warp.live)?,
            Together::WholeWarp => self.check_present(warp, now, warp.whole)?,
        }
        if step.facts.limited { self.check_operands(warp, now, &step.inst) } else { Ok(()) }
    }

    /// Every lane of the warp must be there.
    fn check_present(&mut self, warp: &Warp, now: Now, needed: u32) -> Result<(), SimError> {
        let missing = needed & !now.mask;
        if missing == 0 {
            return Ok(());
        }
        let why = if missing & warp.live == 0 { "ended" } else { "do not execute it" };
        let message =
            format!("all lanes of the warp must execute it, and lanes {missing:#x} {why}");
        self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message)
    }

    /// Every lane must be among its members, all of which must be there and name the same ones.
    fn check_members(&mut self, warp: &Warp, now: Now, inst: &Inst) -> Result<(), SimError> {
        let Some(operand) = members(inst) else { return Ok(()) };
        let named = self.value(warp, operand);
        for lane in lanes(now.mask) {
            let mask = named[lane] as u32;
            let missing = mask & warp.live & !now.mask;
            let other = lanes(mask & now.mask).find(|other| named[*other] as u32 != mask);
            let message = if mask >> lane & 1 == 0 {
                format!("lane {lane} is not in its own member mask {mask:#x}")
            } else if missing != 0 {
                format!(
                    "the member mask {mask:#x} names lanes {missing:#x}, which do not execute it"
                )
            } else if let Some(other) = other {
                format!("lane {lane} has the member mask {mask:#x}, and lane {other} another")
            } else {
                continue;
            };
            return self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message);
        }
        Ok(())
    }

    fn check_operands(&mut self, warp: &Warp, now: Now, inst: &Inst) -> Result<(), SimError> {
        match inst {
            Inst::Wgmma { a, b, keep, .. } => {
                if let MatrixA::Descriptor(register) = a {
                    self.check_uniform(warp, now, Operand::Register(*register))?;
                }
                self.check_uniform(warp, now, b.0)?;
                self.check_uniform(warp, now, keep.0)
            }
            Inst::SetMaxRegisters { count, .. } => self.check_uniform(warp, now, count.0),
            Inst::BarSync { barrier, threads } => {
                self.check_uniform(warp, now, barrier.0)?;
                threads.0.map_or(Ok(()), |threads| self.check_uniform(warp, now, threads))
            }
            Inst::BarArrive { barrier, threads } => {
                self.check_uniform(warp, now, barrier.0)?;
                self.check_uniform(warp, now, threads.0)
            }
            Inst::BarrierInit { barrier, count } => {
                self.check_own(warp, now, barrier)?;
                self.check_count(warp, now, count.0, 1, "count of arrivals")
            }
            Inst::BarrierArrive { window, barrier, count, .. } => {
                if *window != Window::Cluster {
                    self.check_own(warp, now, barrier)?;
                }
                let count = count.0.unwrap_or(Operand::Integer(1));
                self.check_count(warp, now, count, 1, "count of arrivals")
            }
            Inst::BarrierExpect { window, barrier, bytes, .. } => {
                if *window != Window::Cluster {
                    self.check_own(warp, now, barrier)?;
                }
                self.check_count(warp, now, bytes.0, 0, "number of bytes")
            }
            Inst::BarrierTryWait { barrier, .. } | Inst::BarrierTestWait { barrier, .. } => {
                self.check_own(warp, now, barrier)
            }
            Inst::Shuffle { mode, lane, clamp, .. } => {
                let [lane, clamp] = [lane, clamp].map(|each| self.value(warp, each.0));
                let absent = lanes(now.mask).find_map(|own| {
                    let source = shuffle_source(*mode, own, lane[own], clamp[own]);
                    (now.mask >> source & 1 == 0).then_some((own, source))
                });
                let Some((own, source)) = absent else { return Ok(()) };
                let message = format!("lane {own} reads lane {source}, which does not execute it");
                self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message)
            }
            Inst::TensorMulticast { receivers, .. }
            | Inst::TensorMulticastHint { receivers, .. } => {
                self.check_receivers(warp, now, receivers.0)
            }
            Inst::TensorLoad { to, barrier, .. }
            | Inst::TensorLoadHint { to, barrier, .. }
            | Inst::StoreAsync { to, barrier, .. }
            | Inst::BulkLoad { to, barrier, .. } => self.check_pair(warp, now, to, barrier),
            _ => Ok(()),
        }
    }

    /// An operand must be the same in all lanes.
    fn check_uniform(&mut self, warp: &Warp, now: Now, operand: Operand) -> Result<(), SimError> {
        let Operand::Register(register) = operand else { return Ok(()) };
        let values = self.value(warp, operand);
        let first = values[now.mask.trailing_zeros() as usize % 32];
        let Some(lane) = lanes(now.mask).find(|lane| values[*lane] != first) else {
            return Ok(());
        };
        let message = format!(
            "{register} must be the same in all lanes: it is {first:#x}, and {:#x} in lane {lane}",
            values[lane]
        );
        self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message)
    }

    fn check_count(
        &mut self,
        warp: &Warp,
        now: Now,
        operand: Operand,
        least: u64,
        what: &str,
    ) -> Result<(), SimError> {
        let values = self.value(warp, operand);
        let value = |lane: usize| u64::from(values[lane] as u32);
        let beyond = |lane: &usize| !(least..=MOST_COUNTED).contains(&value(*lane));
        let Some(lane) = lanes(now.mask).find(beyond) else { return Ok(()) };
        let message = format!("a {what} is {least} to {MOST_COUNTED}, not {}", value(lane));
        self.blame(Self::blamed(warp), now.line, Diagnosis::Limit, message)
    }

    /// CTAs that receive a copy must be of the cluster.
    fn check_receivers(&mut self, warp: &Warp, now: Now, operand: Operand) -> Result<(), SimError> {
        let size: u32 = self.launch.cluster.iter().product();
        let values = self.value(warp, operand);
        let beyond = |lane: &usize| u32::from(values[*lane] as u16) >> size != 0;
        let Some(lane) = lanes(now.mask).find(beyond) else { return Ok(()) };
        let mask = values[lane] as u16;
        let message =
            format!("the multicast mask {mask:#x} names CTAs beyond the {size} of a cluster");
        self.blame(Self::blamed(warp), now.line, Diagnosis::Limit, message)
    }

    /// An address of the own CTA's shared memory must not be another CTA's.
    fn check_own(&mut self, warp: &Warp, now: Now, address: &Address) -> Result<(), SimError> {
        let at = self.address(warp, address, now.line)?;
        let own = self.ctas[warp.cta].rank;
        let other = |lane: &usize| rank_of(at[*lane] as u32).0.is_some_and(|rank| rank != own);
        match lanes(now.mask).find(other) {
            Some(lane) => self.blame_remote(warp, now, at[lane] as u32),
            None => Ok(()),
        }
    }

    /// A copy's barrier must be in the CTA that receives its bytes.
    fn check_pair(
        &mut self,
        warp: &Warp,
        now: Now,
        to: &Address,
        barrier: &Address,
    ) -> Result<(), SimError> {
        let [to, barrier]: [Lanes; 2] =
            [self.address(warp, to, now.line)?, self.address(warp, barrier, now.line)?];
        let own = self.ctas[warp.cta].rank;
        let rank = |address: u64| rank_of(address as u32).0.unwrap_or(own);
        match lanes(now.mask).find(|lane| rank(to[*lane]) != rank(barrier[*lane])) {
            Some(lane) => self.blame_remote(warp, now, barrier[lane] as u32),
            None => Ok(()),
        }
    }

    /// Finds an address of another CTA's shared memory where only the own one's may be.
    pub(super) fn blame_remote(
        &mut self,
        warp: &Warp,
        now: Now,
        address: u32,
    ) -> Result<(), SimError> {
        let (rank, place) = rank_of(address);
        let rank = rank.unwrap_or(self.ctas[warp.cta].rank);
        let message = format!("shared address {place:#x} of CTA {rank} of the cluster");
        self.blame(Self::blamed(warp), now.line, Diagnosis::RemoteShared, message)
    }
}

/// The operand that names the lanes of an instruction.
fn members(inst: &Inst) -> Option<Operand> {
    match inst {
        Inst::Shuffle { members, .. }
        | Inst::Vote { members, .. }
        | Inst::Ballot { members, .. }
        | Inst::Elect { members, .. }
        | Inst::WarpSync { members } => Some(members.0),
        _ => None,
    }
}

/// Whether an instruction reaches shared memory of other CTAs.
pub(super) fn reaches_cluster(inst: &Inst) -> bool {
    match inst {
        Inst::LoadShared { window, .. } | Inst::StoreShared { window, .. } => {
            *window == Window::Cluster
        }
        _ => false,
    }
}
