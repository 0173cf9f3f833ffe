//! Clashes in words.
//!
//! In: two accesses. Out: which diagnosis it is, whose line is blamed, and what the other did.

use crate::observe::Space;
use crate::report::Diagnosis;

use super::clock::Id;
use super::shadow::{Does, Touch};
use super::{Clash, Fault, Order, Part};

/// A clash, told.
pub(crate) struct Told {
    pub(crate) diagnosis: Diagnosis,
    pub(crate) line: u32,
    pub(crate) cta: u32,
    pub(crate) warp: u32,
    pub(crate) space: Space,
    pub(crate) address: u64,
    pub(crate) message: String,
}

impl Order {
    /// What was found since the last time.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        let clashes = std::mem::take(&mut self.clashes);
        clashes.iter().map(|clash| self.tell(clash)).collect()
    }

    /// Whether there is anything to tell.
    pub(crate) fn has_news(&self) -> bool {
        !self.clashes.is_empty()
    }

    fn part(&self, id: Id) -> Option<Part> {
        let place = id.local.checked_sub(self.warps)?;
        Some(self.ctas[id.cta as usize].slots[place as usize].part)
    }

    /// The warp that acts, or issued what acts.
    fn responsible(&self, id: Id) -> u32 {
        match id.local.checked_sub(self.warps) {
            None => id.local,
            Some(place) => self.ctas[id.cta as usize].slots[place as usize].owner,
        }
    }

    fn name(&self, touch: &Touch) -> String {
        let (warp, cta, line) = (self.responsible(touch.by), touch.by.cta, touch.line);
        match self.part(touch.by) {
            None => format!("warp {warp} of CTA {cta} at line {line}"),
            Some(Part::Load | Part::StoreRead | Part::StoreWrite | Part::Copy) => {
                format!("the copy of line {line}, issued by warp {warp} of CTA {cta},")
            }
            Some(Part::Product) => {
                let last = warp + 3;
                format!("the product of line {line}, of warps {warp} to {last} of CTA {cta},")
            }
        }
    }

    fn tell(&self, clash: &Clash) -> Told {
        let Clash { fault, space, address, old, new, warp: lacking } = *clash;
        let swapped = new.0.time < old.0.time;
        let (first, second) = if swapped { (new, old) } else { (old, new) };
        let (diagnosis, (blamed, _), message) = match fault {
            Fault::Unordered => {
                let diagnosis = self.diagnose(first, second, space);
                let message = format!(
                    "{} {}, and nothing orders the two{}",
                    self.name(&first.0),
                    did(first.1),
                    for_warp(lacking)
                );
                (diagnosis, second, message)
            }
            Fault::Narrow => {
                let diagnosis = self.diagnose(first, second, space);
                let message = format!(
                    "{} {}, and what orders the two has .cta scope between CTAs{}",
                    self.name(&first.0),
                    did(first.1),
                    for_warp(lacking)
                );
                (diagnosis, second, message)
            }
            Fault::Unfenced => {
                let message = format!(
                    "{} then {}, and no fence.proxy.async lies between the two{}",
                    self.name(&new.0),
                    does(new.1),
                    for_warp(lacking)
                );
                (Diagnosis::MissingProxyFence, old, message)
            }
            Fault::BeforeInit => {
                let message = format!(
                    "{} made the barrier, and nothing orders this after that",
                    self.name(&old.0)
                );
                (Diagnosis::WaitBeforeInit, new, message)
            }
            Fault::InitAgain => {
                let message = format!("{} made it before", self.name(&old.0));
                (Diagnosis::InitialisedTwice, new, message)
            }
            Fault::Barrier => {
                let verb = did(new.1);
                let message = format!("{} made a barrier here, and this {verb}", self.name(&old.0));
                (Diagnosis::BarrierBytes, new, message)
            }
            Fault::Ended => {
                let message = match space {
                    Space::Shared { cta } => format!("CTA {cta} may have ended before"),
                    Space::Global => String::new(),
                };
                (Diagnosis::EndedCta, new, message)
            }
        };
        let responsible = self.responsible(blamed.by);
        let is_new = blamed.by == new.0.by;
        let (cta, warp) = (blamed.by.cta, lacking.filter(|_| is_new).unwrap_or(responsible));
        let told = Told { diagnosis, line: blamed.line, cta, warp, space, address, message };
        self.parity(first, second, lacking, &told).unwrap_or(told)
    }

    /// What it is that two unordered accesses do; the first was issued first.
    fn diagnose(&self, first: (Touch, Does), second: (Touch, Does), space: Space) -> Diagnosis {
        if space == Space::Global {
            return Diagnosis::UnorderedGlobal;
        }
        match (self.part(first.0.by), second.1) {
            (Some(Part::Load | Part::Copy), Does::Read) => Diagnosis::ReadUnderCopy,
            (Some(Part::Load | Part::Copy), Does::Write) => Diagnosis::OverwriteUnderCopy,
            (Some(Part::StoreRead | Part::StoreWrite), _) => Diagnosis::OverwriteUnderCopy,
            (Some(Part::Product), _) => Diagnosis::OverwriteUnderProduct,
            (None, _) => Diagnosis::UnorderedShared,
        }
    }

    /// A read under a copy whose reader did wait for the copy's barrier, but for the phase before: one that was complete
    /// from the start, or that it had waited for already.
    fn parity(
        &self,
        first: (Touch, Does),
        second: (Touch, Does),
        lacking: Option<u32>,
        told: &Told,
    ) -> Option<Told> {
        if told.diagnosis != Diagnosis::ReadUnderCopy {
            return None;
        }
        let place = first.0.by.local.checked_sub(self.warps)?;
        let slot = &self.ctas[first.0.by.cta as usize].slots[place as usize];
        let (cta, address, phase) = slot.barrier.filter(|_| slot.moment == first.0.moment)?;
        let reader = second.0.by;
        let warp = lacking.unwrap_or_else(|| self.responsible(reader));
        let waited = self.ctas[reader.cta as usize].warps[warp as usize].waits.get(&address)?;
        let early = waited.phase.wrapping_add(1) == phase;
        if reader.cta != cta || !early || (waited.phase != u64::MAX && waited.times < 2) {
            return None;
        }
        let message = format!(
            "the wait is over with phase {} of barrier {address:#x}, and line {} reads what {} brings for phase {phase}",
            waited.phase as i64,
            second.0.line,
            self.name(&first.0)
        );
        Some(Told { diagnosis: Diagnosis::WrongParity, line: waited.line, message, ..*told })
    }

    /// Who arrived at a barrier in the phase before and not in this one: warps with the lines where they did.
    pub(crate) fn missing(&self, cta: u32, address: u32, phase: u64) -> Vec<String> {
        let Some(phases) = self.ctas[cta as usize].barriers.get(&address) else {
            return Vec::new();
        };
        let (before, now) = phases.arrivals(phase);
        let mut missing: Vec<_> = before.iter().filter(|(id, _)| !now.contains_key(id)).collect();
        missing.sort_unstable();
        let name = |(id, line): &(&Id, &u32)| {
            format!("warp {} of CTA {} at line {line}", self.responsible(**id), id.cta)
        };
        missing.iter().filter(|(id, _)| id.local < self.warps).map(name).collect()
    }
}

/// For which warp of a product that is so.
fn for_warp(warp: Option<u32>) -> String {
    warp.map_or_else(String::new, |warp| format!(" for warp {warp}"))
}

fn did(what: Does) -> &'static str {
    match what {
        Does::Read => "reads these bytes",
        Does::Write => "writes these bytes",
    }
}

fn does(what: Does) -> &'static str {
    match what {
        Does::Read => "reads them as a copy or product does",
        Does::Write => "overwrites them as a copy does",
    }
}
