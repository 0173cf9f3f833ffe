//! What the tracker of lanes asks the tracker of warps.
//!
//! In: warps and operations. Out: moments, and how much of a warp's past another agent knows. No query changes the tracker.

use super::clock::{Clock, Id};
use super::{Agents, Order};

/// What an agent knows at a moment.
#[derive(Clone, Default, Debug)]
pub(crate) struct Knowledge(Clock);

impl Knowledge {
    /// The last moment of an agent of a CTA that is known, 0 for none.
    pub(crate) fn of(&self, (cta, local): (u32, u32)) -> u32 {
        self.0.get(Id { cta, local })
    }

    /// Learns what another knows.
    pub(crate) fn join(&mut self, other: &Knowledge) {
        self.0.join(&other.0);
    }
}

impl Order {
    /// A warp's moment: an agent that knows this moment knows what the warp does now.
    pub(crate) fn moment(&mut self, cta: u32, warp: u32) -> u32 {
        self.warp(cta, warp).moment
    }

    /// The last moment of an agent that a warp knows.
    pub(crate) fn known_to(&mut self, (cta, warp): (u32, u32), of: (u32, u32)) -> u32 {
        self.warp(cta, warp).seen.get(Id { cta: of.0, local: of.1 })
    }

    /// All that a warp knows.
    pub(crate) fn knowledge(&mut self, cta: u32, warp: u32) -> Knowledge {
        Knowledge(self.warp(cta, warp).seen.clone())
    }

    /// The agent that an operation's first part is, and its moment.
    pub(crate) fn agent(&self, operation: u64) -> Option<((u32, u32), u32)> {
        let Agents { cta, slots, .. } = self.operations.get(&operation)?;
        let (place, moment) = *slots.first()?;
        Some(((*cta, self.warps + place), moment))
    }

    /// The last moment of an agent that an operation started with.
    pub(crate) fn known_to_operation(&self, operation: u64, of: (u32, u32)) -> Option<u32> {
        let Agents { cta, slots, .. } = self.operations.get(&operation)?;
        let (place, _) = *slots.first()?;
        let slot = &self.ctas[*cta as usize].slots[place as usize];
        Some(slot.seen.get(Id { cta: of.0, local: of.1 }))
    }
}
