//! `setmaxnreg`: registers that warpgroups hand to each other through the CTA's pool.
//!
//! In: warps that ask for more registers, or give some back. Out: what each may use, and findings. Invariant: all warps of
//! a warpgroup execute the same `setmaxnreg` instructions, in the same order and with the same counts (PTX ISA,
//! "setmaxnreg"): a warp that is known to have left one out is found when it multiplies, executes another one or ends,
//! and in a deadlock.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::RegisterChange;

use crate::error::SimError;
use crate::machine::Machine;
use crate::operation::Resize;
use crate::program::{Pc, Step};
use crate::report::Diagnosis;
use crate::warp::{Wait, Warp};

use super::{Now, Outcome};

/// Warps of a warpgroup.
const WARPS: usize = 4;

impl Machine<'_> {
    /// Registers go back to the CTA's pool, or come from it, a warp at a time.
    pub(super) fn resize(
        &mut self,
        warp: &mut Warp,
        now: Now,
        change: RegisterChange,
        count: u32,
    ) -> Result<Outcome, SimError> {
        let valid = (24..=256).contains(&count) && count.is_multiple_of(8);
        // What a thread starts with is the assembler's choice, at most its share of the file: less than that may be more
        // than it had.
        let direction = match change {
            RegisterChange::Increase => true,
            RegisterChange::Decrease => count <= warp.limit,
        };
        if !valid || !direction {
            let message = format!("{count} registers a thread, which has {}", warp.limit);
            self.blame(Self::blamed(warp), now.line, Diagnosis::RegisterFile, message)?;
            self.note_resize(warp, now, count)?;
            return Ok(Outcome::Next);
        }
        let free = &mut self.ctas[warp.cta].free_registers;
        if count > warp.limit {
            let more = (count - warp.limit) * 32;
            if *free < more {
                return Ok(Outcome::Retry(Wait::Registers { count }));
            }
            *free -= more;
        } else {
            *free += (warp.limit - count) * 32;
        }
        warp.limit = count;
        self.progress += 1;
        self.note_resize(warp, now, count)?;
        Ok(Outcome::Next)
    }

    /// Compares a warp's next `setmaxnreg` with that of the warp of its warpgroup that came first.
    fn note_resize(&mut self, warp: &mut Warp, now: Now, count: u32) -> Result<(), SimError> {
        let group = &mut self.ctas[warp.cta].warpgroups[warp.number as usize / WARPS];
        let place = warp.resizes;
        warp.resizes += 1;
        let Some(first) = group.resizes.get(place).copied() else {
            group.resizes.push(Resize { pc: now.pc, line: now.line, count });
            return Ok(());
        };
        if (first.pc, first.count) == (now.pc, count) {
            return Ok(());
        }
        let message = format!(
            "all warps of a warpgroup must execute the same setmaxnreg: here {count} registers, and another warp has {} from line {}",
            first.count, first.line
        );
        self.blame(Self::blamed(warp), now.line, Diagnosis::Diverged, message)
    }

    /// A warp issues its part of a product, which another warp issued after this many `setmaxnreg`.
    pub(super) fn compare_resizes(
        &mut self,
        warp: &Warp,
        now: Now,
        other: usize,
    ) -> Result<(), SimError> {
        let group = &self.ctas[warp.cta].warpgroups[warp.number as usize / WARPS];
        let Some(lacking) = group.resizes.get(warp.resizes.min(other)).copied() else {
            return Ok(());
        };
        let who = if warp.resizes < other { "this warp" } else { "another warp" };
        let message = format!(
            "all warps of a warpgroup must execute it, and {who} issues the product of line {} without it",
            now.line
        );
        self.blame(Self::blamed(warp), lacking.line, Diagnosis::Diverged, message)
    }

    /// Finds warps of a CTA that left out a `setmaxnreg` of their warpgroup: they ended, or no way leads them there.
    pub(crate) fn check_resizes(&mut self, cta: usize) -> Result<(), SimError> {
        for place in self.ctas[cta].warps.clone() {
            let warp = &self.warps[place];
            let group = &self.ctas[cta].warpgroups[warp.number as usize / WARPS];
            let Some(lacking) = group.resizes.get(warp.resizes).copied() else { continue };
            let starts: Vec<Pc> = warp.places().collect();
            if reaches(&self.program.steps, starts, lacking.pc) {
                continue;
            }
            let why = if warp.is_done() { "ended without it" } else { "has left it out" };
            let number = warp.number;
            let message =
                format!("all warps of a warpgroup must execute it, and warp {number} {why}");
            self.blame((cta, Some(number)), lacking.line, Diagnosis::Diverged, message)?;
        }
        Ok(())
    }
}

/// Whether a way leads from one of these steps to another.
fn reaches(steps: &[Step], starts: Vec<Pc>, wanted: Pc) -> bool {
    let mut seen = vec![false; steps.len()];
    let mut open = starts;
    while let Some(pc) = open.pop() {
        let Some(step) = steps.get(pc as usize) else { continue };
        if pc == wanted {
            return true;
        }
        if std::mem::replace(&mut seen[pc as usize], true) {
            continue;
        }
        let (jumps, ends) = match step.inst {
            Inst::Branch { .. } => (true, false),
            Inst::Ret {} | Inst::Exit {} | Inst::Trap {} => (false, true),
            _ => (false, false),
        };
        if jumps {
            open.push(step.target);
        }
        if !jumps && !ends || step.guard.is_some() {
            open.push(pc + 1);
        }
    }
    false
}
