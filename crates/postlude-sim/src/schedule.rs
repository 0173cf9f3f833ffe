//! Who runs next, and what happens when nobody can.
//!
//! In: a machine. Out: a finished run, or a finding that says who waits for what. Invariant: as long as a split can run or
//! an operation can complete, the run goes on.

mod deadlock;
mod polls;

use postlude_ptx::inst::Inst;

use crate::error::SimError;
use crate::execute::Outcome;
use crate::machine::Machine;
use crate::operation::Work;
use crate::report::Diagnosis;
use crate::warp::{Split, Wait, Warp, lanes};

use polls::Polls;

/// CTAs that run at a time: one for each multiprocessor.
const RESIDENT: u32 = 132;
/// Instructions without a change that anybody could see, after which operations complete although somebody runs.
const PATIENCE: u64 = 20_000;
/// The most ended clusters with copies under way, for each running cluster; beyond it, these copies complete.
const LINGERING: usize = 4;
/// Times that all waits lose their patience in vain before nobody believes in a change.
const VAIN: u32 = 3;

/// How a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Something was handed over; the split could go on.
    Paused,
    /// The split waits.
    Over,
    /// The split has polled.
    Polled,
    /// The split used up its share of instructions.
    Spent,
}

impl Machine<'_> {
    /// Runs all clusters of the grid.
    pub(crate) fn run(&mut self) -> Result<(), SimError> {
        let size: u32 = self.launch.cluster.iter().product();
        let total = self.launch.grid.iter().product::<u32>() / size;
        let resident = (RESIDENT / size).max(1) as usize;
        let mut running: Vec<usize> = Vec::new();
        let (mut started, mut last, mut vain) = (0, 0, 0);
        let mut seen = u64::MAX;
        let mut polls = Polls::default();
        let mut turn = Turn::Over;
        loop {
            while running.len() < resident && started < total {
                self.make_room(resident)?;
                running.push(self.start_cluster(started));
                started += 1;
            }
            polls.look(self.progress, self.report.instructions);
            let ready = self.ready(&running);
            if ready.is_empty() || polls.are_all(&ready) {
                if running.is_empty() {
                    break;
                }
                polls.forget();
                if self.complete_needed(&running)? {
                    continue;
                }
                vain = if self.progress == seen { vain + 1 } else { 0 };
                seen = self.progress;
                if vain >= VAIN || !self.lose_patience(&running) {
                    return self.report_deadlock(&running);
                }
                continue;
            }
            last = self.clock.next(ready.len(), last, turn != Turn::Paused);
            let (warp, split) = ready[last];
            turn = self.turn(warp, split)?;
            if self.report.instructions > self.options.budget {
                return self.give_up();
            }
            polls.look(self.progress, self.report.instructions);
            let late = polls.is_late(self.report.instructions);
            // A loop that does not poll may be intended. After a finding it is a consequence of that error.
            let asks = match turn {
                Turn::Polled => true,
                Turn::Spent => !self.report.findings.is_empty(),
                Turn::Paused | Turn::Over => false,
            };
            if late && !self.complete_needed(&running)? && asks {
                polls.note(warp, split, &self.warps[warp]);
            }
            self.complete_some()?;
            if self.warps[warp].is_done() {
                self.retire(&mut running)?;
            }
        }
        while let Some(number) = self.operations.keys().next().copied() {
            self.advance(number)?;
        }
        self.report.finished = true;
        Ok(())
    }

    /// The budget is used up: an error, or where something was found, one more finding.
    fn give_up(&mut self) -> Result<(), SimError> {
        let error = SimError::Budget { budget: self.options.budget };
        if self.report.findings.is_empty() {
            return Err(error);
        }
        self.blame((0, None), 0, Diagnosis::Deadlock, error.to_string())
    }

    fn warps_of(&self, running: &[usize]) -> impl Iterator<Item = usize> {
        let ctas = running.iter().flat_map(|cluster| self.clusters[*cluster].ctas.clone());
        ctas.flat_map(|cta| self.ctas[cta].warps.clone())
    }

    /// Splits that can run, after those whose waits are over were woken.
    fn ready(&mut self, running: &[usize]) -> Vec<(usize, usize)> {
        let mut ready = Vec::new();
        let mut woken = Vec::new();
        for warp in self.warps_of(running) {
            for (split, state) in self.warps[warp].splits.iter().enumerate() {
                match &state.wait {
                    None => ready.push((warp, split)),
                    Some(wait) if self.is_over(&self.warps[warp], state, wait) => {
                        woken.push((warp, split));
                        ready.push((warp, split));
                    }
                    Some(_) => {}
                }
            }
        }
        for (warp, split) in woken {
            self.warps[warp].splits[split].wait = None;
        }
        ready
    }

    /// Whether what a split waits for has happened.
    fn is_over(&self, warp: &Warp, split: &Split, wait: &Wait) -> bool {
        let cta = &self.ctas[warp.cta];
        match wait {
            Wait::Members(members) => {
                let here = |other: &&Split| {
                    other.pc == split.pc && matches!(other.wait, Some(Wait::Members(_)))
                };
                let present = warp.splits.iter().filter(here).fold(0, |all, each| all | each.mask);
                members & warp.live & !present == 0
            }
            Wait::Named { barrier, round } => cta.named[*barrier].round > *round,
            Wait::Cluster { round } => self.clusters[cta.cluster].barrier.round > *round,
            Wait::Phases(open) => open.iter().all(|(address, parity)| {
                cta.mbarriers.get(address).is_none_or(|barrier| barrier.passed(*parity))
            }),
            Wait::Products { count } => cta.warpgroups[warp.number as usize / 4].done >= *count,
            Wait::Bulk { lanes, pending, until } => self.bulk_done(warp, *lanes, *pending, *until),
            // The instruction is executed again, and waits for another copy where there is one.
            Wait::Copies { open, .. } => !self.operations.contains_key(open),
            Wait::Registers { count } => {
                cta.free_registers >= count.saturating_sub(warp.limit) * 32
            }
        }
    }

    /// Runs a split until it waits, hands something over or has had its share.
    fn turn(&mut self, place: usize, split: usize) -> Result<Turn, SimError> {
        let mut warp = std::mem::take(&mut self.warps[place]);
        let result = self.turn_of(&mut warp, split);
        self.warps[place] = warp;
        result
    }

    fn turn_of(&mut self, warp: &mut Warp, split: usize) -> Result<Turn, SimError> {
        let share = self.clock.slice();
        for _ in 0..share {
            if warp.at_meeting(split) {
                warp.meet(split);
                return Ok(Turn::Paused);
            }
            let splits = warp.splits.len();
            let outcome = self.step(warp, split)?;
            self.gather_clashes()?;
            match outcome {
                Outcome::Next => warp.splits[split].pc += 1,
                Outcome::Placed => {
                    if warp.splits.len() != splits {
                        return Ok(Turn::Paused);
                    }
                }
                Outcome::Yield => {
                    warp.splits[split].pc += 1;
                    return Ok(Turn::Paused);
                }
                Outcome::Poll => {
                    // A `try_wait` that timed out is executed again, and the second time its split waits for the barrier.
                    let step = &self.program.steps[warp.splits[split].pc as usize];
                    let waits = matches!(step.inst, Inst::BarrierTryWait { .. });
                    warp.splits[split].pc += 1;
                    return Ok(if waits { Turn::Over } else { Turn::Polled });
                }
                Outcome::Retry(wait) => {
                    // Lanes that wait for others of their warp have not begun.
                    warp.splits[split].retrying = !matches!(wait, Wait::Members(_));
                    warp.splits[split].wait = Some(wait);
                    return Ok(Turn::Over);
                }
                Outcome::Block(wait) => {
                    warp.splits[split].pc += 1;
                    warp.splits[split].wait = Some(wait);
                    return Ok(Turn::Over);
                }
            }
        }
        Ok(Turn::Spent)
    }

    /// Completes as many operations as the timing wants by itself.
    fn complete_some(&mut self) -> Result<(), SimError> {
        for _ in 0..self.clock.spontaneous() {
            if self.operations.is_empty() {
                break;
            }
            let number = self.any_completable();
            self.advance(number)?;
        }
        Ok(())
    }

    /// An operation that may complete now, all but products behind others of their warpgroup, without a list of all:
    /// thousands may be under way.
    fn any_completable(&mut self) -> u64 {
        let bounds = (self.operations.first_key_value(), self.operations.last_key_value());
        let (Some((&first, _)), Some((&last, _))) = bounds else {
            panic!("compiler bug: no operation is under way")
        };
        let from = first + self.clock.pick((last - first + 1) as usize) as u64;
        let found = self.operations.range(from..).next().map_or(last, |(number, _)| *number);
        let Work::Product(product) = &self.operations[&found].work else { return found };
        let group = product.first;
        let same = |work: &Work| matches!(work, Work::Product(product) if product.first == group);
        self.operations.find(same).unwrap_or(found)
    }

    /// Completes an operation that somebody waits for, or any; whether there was one.
    fn complete_needed(&mut self, running: &[usize]) -> Result<bool, SimError> {
        if self.operations.is_empty() {
            return Ok(false);
        }
        let all: Vec<(usize, usize)> = self
            .warps_of(running)
            .flat_map(|warp| (0..self.warps[warp].splits.len()).map(move |split| (warp, split)))
            .filter(|(warp, split)| self.warps[*warp].splits[*split].wait.is_some())
            .collect();
        // Finding what a wait needs takes long where thousands of operations are under way: one wait is asked, and others
        // only where it needs none.
        let first = if all.is_empty() { 0 } else { self.clock.pick(all.len()) };
        let needed = all[first..].iter().chain(&all[..first]).find_map(|(warp, split)| {
            let warp = &self.warps[*warp];
            self.needed(warp, warp.splits[*split].wait.as_ref()?)
        });
        let number = match needed {
            Some(number) => number,
            None => self.any_completable(),
        };
        self.advance(number)?;
        Ok(true)
    }

    /// The oldest operation that a wait needs.
    fn needed(&self, warp: &Warp, wait: &Wait) -> Option<u64> {
        match wait {
            Wait::Members(_)
            | Wait::Named { .. }
            | Wait::Cluster { .. }
            | Wait::Registers { .. } => None,
            Wait::Phases(open) => self.operations.find(|work| match work {
                Work::Load { receiver, barrier, .. } => {
                    *receiver == warp.cta && open.iter().any(|(address, _)| address == barrier)
                }
                Work::Store { .. } | Work::Product(_) | Work::Copy { .. } => false,
            }),
            Wait::Products { .. } => self.operations.find(|work| match work {
                Work::Product(product) => {
                    let first = self.ctas[warp.cta].warps.start + warp.number as usize / 4 * 4;
                    product.first == first
                }
                Work::Load { .. } | Work::Store { .. } | Work::Copy { .. } => false,
            }),
            Wait::Bulk { lanes: mask, pending, until } => {
                let mut all = lanes(*mask).flat_map(|lane| warp.bulk[lane].before(*pending));
                all.find(|number| match self.operations.get(number).map(|each| &each.work) {
                    Some(Work::Store { data, .. }) => {
                        *until == postlude_ptx::modifier::WaitFor::Complete || data.is_none()
                    }
                    Some(Work::Load { .. } | Work::Product(_) | Work::Copy { .. }) | None => false,
                })
            }
            Wait::Copies { lanes: mask, pending, .. } => {
                let mut all = lanes(*mask).flat_map(|lane| warp.copies[lane].before(*pending));
                all.find(|number| self.operations.contains_key(number))
            }
        }
    }

    /// Lets waits with patience lose it; whether there were any.
    fn lose_patience(&mut self, running: &[usize]) -> bool {
        let warps: Vec<usize> = self.warps_of(running).collect();
        let mut any = false;
        for warp in warps {
            for split in &mut self.warps[warp].splits {
                if let Some(Wait::Phases(_)) = split.wait {
                    split.wait = None;
                    split.impatient = true;
                    any = true;
                }
            }
        }
        any
    }

    /// Takes clusters whose threads have all ended out of the run.
    fn retire(&mut self, running: &mut Vec<usize>) -> Result<(), SimError> {
        let ended: Vec<usize> =
            running.iter().copied().filter(|cluster| self.clusters[*cluster].live == 0).collect();
        for cluster in ended {
            running.retain(|each| *each != cluster);
            for cta in self.clusters[cluster].ctas.clone() {
                self.close(cta)?;
                self.check_resizes(cta)?;
            }
            for cta in self.clusters[cluster].ctas.clone() {
                self.check_barriers(cta)?;
                let warps = self.ctas[cta].warps.clone();
                self.warps[warps].iter_mut().for_each(|warp| *warp = Warp::default());
                self.ctas[cta].shared = crate::memory::Shared::new(0);
                let number = self.ctas[cta].number;
                if let Some(order) = &mut self.observer.order {
                    order.forget(number);
                }
                if let Some(lanes) = &mut self.observer.lanes {
                    lanes.forget(number);
                }
                self.absent.retain(|(place, _), _| *place != cta);
            }
            if self.lingering(cluster).is_empty() {
                self.free_clusters.push(cluster);
            } else {
                self.ended_clusters.push(cluster);
            }
        }
        Ok(())
    }

    /// Copies under way that CTAs of a cluster issued, which has ended.
    fn lingering(&self, cluster: usize) -> Vec<u64> {
        let ctas = &self.clusters[cluster].ctas;
        let all = self.operations.iter().filter(|(_, each)| ctas.contains(&each.cta));
        all.map(|(number, _)| *number).collect()
    }

    /// Completes copies of clusters that ended where there are too many of these, and takes their places back.
    fn make_room(&mut self, resident: usize) -> Result<(), SimError> {
        if !self.free_clusters.is_empty() || self.ended_clusters.len() < LINGERING * resident {
            return Ok(());
        }
        for cluster in std::mem::take(&mut self.ended_clusters) {
            // A copy out of shared memory has one part left after its source is read.
            for number in self.lingering(cluster) {
                self.advance(number)?;
            }
            self.free_clusters.push(cluster);
        }
        Ok(())
    }

    /// Copies that still need the shared memory of a CTA that ended.
    fn close(&mut self, cta: usize) -> Result<(), SimError> {
        let late = |work: &Work, issuer: usize| match work {
            Work::Load { receiver, .. } => *receiver == cta,
            Work::Store { data, .. } => issuer == cta && data.is_none(),
            Work::Product(_) | Work::Copy { .. } => issuer == cta,
        };
        let all = self.operations.iter();
        let all = all.filter(|(_, each)| late(&each.work, each.cta));
        let all: Vec<(u64, u32, u32)> =
            all.map(|(number, each)| (*number, each.line, each.warp)).collect();
        for (number, line, warp) in all {
            let message = "nobody waited for it".to_owned();
            self.blame((cta, Some(warp)), line, Diagnosis::UnfinishedCopy, message)?;
            self.advance(number)?;
        }
        Ok(())
    }

    /// Barriers whose bytes do not balance at the end.
    fn check_barriers(&mut self, cta: usize) -> Result<(), SimError> {
        let open = self.ctas[cta].mbarriers.iter().find(|(_, barrier)| barrier.bytes != 0);
        let Some((address, barrier)) = open else { return Ok(()) };
        let (address, bytes, phase) = (*address, barrier.bytes, barrier.phase);
        let region = self.region(address).map_or_else(String::new, |name| format!(" (`{name}`)"));
        let message = format!("barrier {address:#x}{region}, phase {phase}: {bytes} bytes open");
        self.blame((cta, None), 0, Diagnosis::TransactionMismatch, message)
    }
}
