//! Nobody can go on: who waits for what.

use crate::error::SimError;
use crate::machine::{Cta, Machine};
use crate::report::Diagnosis;
use crate::warp::{Split, Wait, Warp};

/// Waits that are told one by one.
const MOST_TOLD: usize = 24;

/// Why nobody can go on.
struct Cause {
    diagnosis: Diagnosis,
    cta: usize,
    warp: u32,
    line: u32,
    message: String,
}

impl Machine<'_> {
    /// Notes a deadlock: all waits in words, at the line of the first.
    pub(super) fn report_deadlock(&mut self, running: &[usize]) -> Result<(), SimError> {
        for cluster in running {
            for cta in self.clusters[*cluster].ctas.clone() {
                self.check_resizes(cta)?;
            }
        }
        let mut told = Vec::new();
        let mut first = None;
        let (mut named, mut polling) = (false, None);
        let mut diagnosis = Diagnosis::Deadlock;
        let cause = self.cause(running);
        for place in self.warps_of(running).collect::<Vec<_>>() {
            let warp = &self.warps[place];
            for split in &warp.splits {
                let Some(wait) = &split.wait else {
                    let line =
                        self.program.steps.get(split.pc as usize).map_or(0, |step| step.line);
                    let cta = self.ctas[warp.cta].number;
                    let who = format!("CTA {cta} warp {}", warp.number);
                    polling = polling.or(Some((warp.cta, warp.number, line)));
                    told.push(format!("{who}, line {line}: asks again and again"));
                    continue;
                };
                // A split that has done its part stands after the step.
                let behind = matches!(wait, Wait::Named { .. });
                let pc = split.pc as usize - usize::from(behind);
                let line = self.program.steps.get(pc).map_or(0, |step| step.line);
                first = first.or(Some((warp.cta, warp.number, line)));
                if let (Wait::Named { .. }, false) = (wait, named) {
                    named = true;
                    first = Some((warp.cta, warp.number, line));
                }
                if let Wait::Registers { .. } = wait {
                    diagnosis = Diagnosis::RegisterFile;
                    first = Some((warp.cta, warp.number, line));
                }
                let cta = self.ctas[warp.cta].number;
                let about = self.describe(warp, wait);
                let lanes = if split.mask == warp.live {
                    String::new()
                } else {
                    format!(" lanes {:#x}", split.mask)
                };
                told.push(format!("CTA {cta} warp {}{lanes}, line {line}: {about}", warp.number));
            }
        }
        let absent = self.waits_for_lanes(running);
        if let (Some(place), None, Diagnosis::Deadlock) = (absent, &cause, diagnosis) {
            diagnosis = Diagnosis::Diverged;
            first = Some(place);
        }
        if let (Some(cause), Diagnosis::Deadlock) = (cause, diagnosis) {
            diagnosis = cause.diagnosis;
            first = Some((cause.cta, cause.warp, cause.line));
            told.insert(0, cause.message);
        }
        if let Some(short) = self.short_of_registers(running) {
            told.insert(0, short);
        }
        let first = if diagnosis == Diagnosis::RegisterFile { first } else { polling.or(first) };
        let (cta, warp, line) = first.unwrap_or((self.clusters[running[0]].ctas.start, 0, 0));
        let more = told.len().saturating_sub(MOST_TOLD);
        told.truncate(MOST_TOLD);
        if more > 0 {
            told.push(format!("and {more} more"));
        }
        self.blame((cta, Some(warp)), line, diagnosis, told.join("; "))
    }

    /// That warps wait for registers which no warp will give back, if so.
    fn short_of_registers(&self, running: &[usize]) -> Option<String> {
        let short = |wait: &Option<Wait>, limit: u32| match wait {
            Some(Wait::Registers { count }) => Some(count.saturating_sub(limit) * 32),
            Some(_) | None => None,
        };
        let warps = self.warps_of(running).map(|place| &self.warps[place]);
        let wanted = warps.filter_map(|warp| {
            let more = warp.splits.iter().find_map(|split| short(&split.wait, warp.limit))?;
            Some((warp.cta, more))
        });
        let wanted: Vec<(usize, u32)> = wanted.collect();
        let cta = wanted.first()?.0;
        let own = wanted.iter().filter(|(other, _)| *other == cta);
        let (count, more) = own.fold((0, 0), |(count, all), (_, more)| (count + 1, all + more));
        let Cta { number, free_registers: free, .. } = self.ctas[cta];
        Some(format!(
            "deadlock: {count} warps of CTA {number} wait for {more} registers, {free} are free, and no warp gives any back"
        ))
    }

    /// Lanes that wait for others of their warp: CTA, warp and line.
    fn waits_for_lanes(&self, running: &[usize]) -> Option<(usize, u32, u32)> {
        self.warps_of(running).find_map(|place| {
            let warp = &self.warps[place];
            let waits = |split: &&Split| matches!(split.wait, Some(Wait::Members(_)));
            let split = warp.splits.iter().find(waits)?;
            let line = self.program.steps.get(split.pc as usize).map_or(0, |step| step.line);
            Some((warp.cta, warp.number, line))
        })
    }

    /// The barrier in shared memory at which it all hangs, where nobody waits at a named one.
    fn cause(&self, running: &[usize]) -> Option<Cause> {
        let mut found: Option<(u32, Cause)> = None;
        for place in self.warps_of(running) {
            let warp = &self.warps[place];
            for split in &warp.splits {
                match &split.wait {
                    Some(Wait::Phases(open)) => {
                        let line = self.program.steps.get(split.pc as usize)?.line;
                        for (address, _) in open {
                            let Some(next) = self.blocked(warp, line, *address) else { continue };
                            if found.as_ref().is_none_or(|(rank, _)| next.0 < *rank) {
                                found = Some(next);
                            }
                        }
                    }
                    Some(Wait::Named { .. }) => return None,
                    Some(
                        Wait::Members(_)
                        | Wait::Cluster { .. }
                        | Wait::Products { .. }
                        | Wait::Bulk { .. }
                        | Wait::Copies { .. }
                        | Wait::Registers { .. },
                    )
                    | None => {}
                }
            }
        }
        found.map(|(_, cause)| cause)
    }

    /// What a barrier lacks that a warp waits for; the first rank is the likeliest cause.
    fn blocked(&self, warp: &Warp, line: u32, address: u32) -> Option<(u32, Cause)> {
        let cta = &self.ctas[warp.cta];
        let barrier = cta.mbarriers.get(&address)?;
        let order = self.observer.order.as_ref();
        let missing =
            order.map_or_else(Vec::new, |order| order.missing(cta.number, address, barrier.phase));
        let region = self.region(address).map_or_else(String::new, |name| format!(" (`{name}`)"));
        let about =
            format!("barrier {address:#x}{region} of CTA {}, phase {}", cta.number, barrier.phase);
        let lacking = |diagnosis, message| Cause {
            diagnosis,
            cta: warp.cta,
            warp: warp.number,
            line,
            message,
        };
        if barrier.pending == 0 {
            let (bytes, much) = (barrier.bytes.unsigned_abs(), barrier.bytes > 0);
            let (more, less) = if much { ("promised", "arrived") } else { ("arrived", "promised") };
            let message = format!("{about}: {bytes} bytes more were {more} than {less}");
            return Some((0, lacking(Diagnosis::TransactionMismatch, message)));
        }
        let rank = match (barrier.pending < barrier.count, missing.is_empty()) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        let who = if missing.is_empty() {
            "nobody has ever arrived who could still come".to_owned()
        } else {
            format!("in the phase before came {}", missing.join(" and "))
        };
        let (pending, count) = (barrier.pending, barrier.count);
        let message = format!("{about}: {pending} of {count} arrivals are missing; {who}");
        Some((rank, lacking(Diagnosis::ArrivalUnderflow, message)))
    }

    fn describe(&self, warp: &Warp, wait: &Wait) -> String {
        let cta = &self.ctas[warp.cta];
        match wait {
            Wait::Members(members) => {
                format!("waits for lanes {:#x} of its warp", members & warp.live)
            }
            Wait::Named { barrier, .. } => {
                let (arrived, wanted) = cta.named[*barrier].state();
                format!("waits at named barrier {barrier}: {arrived} of {wanted} threads are there")
            }
            Wait::Cluster { .. } => {
                let cluster = &self.clusters[cta.cluster];
                let (arrived, live) = (cluster.barrier.arrived, cluster.live);
                format!(
                    "waits for cluster {}: {arrived} of {live} threads are there",
                    cluster.number
                )
            }
            Wait::Phases(open) => {
                let all = open
                    .iter()
                    .map(|(address, parity)| self.describe_phase(warp, *address, *parity));
                all.collect::<Vec<_>>().join(", ")
            }
            Wait::Products { count } => {
                let done = cta.warpgroups[warp.number as usize / 4].done;
                format!("waits for {count} products of its warpgroup, {done} are done")
            }
            Wait::Bulk { pending, .. } => {
                format!("waits until {pending} groups of its copies are under way")
            }
            Wait::Copies { pending, .. } => {
                format!("waits until {pending} groups of cp.async are under way")
            }
            Wait::Registers { count } => {
                let free = cta.free_registers;
                format!("waits for {count} registers a thread, the CTA has {free} left")
            }
        }
    }

    fn describe_phase(&self, warp: &Warp, address: u32, parity: u64) -> String {
        let region = self.region(address).map_or_else(String::new, |name| format!(" (`{name}`)"));
        let Some(barrier) = self.ctas[warp.cta].mbarriers.get(&address) else {
            return format!("waits for {address:#x}{region}, which is no barrier");
        };
        let arrived = barrier.count - barrier.pending;
        format!(
            "waits for parity {parity} of barrier {address:#x}{region}: in phase {}, {arrived} of {} arrivals, {} bytes open",
            barrier.phase, barrier.count, barrier.bytes
        )
    }
}
