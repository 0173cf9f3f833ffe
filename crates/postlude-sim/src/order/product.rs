//! Matrix products: what each of the four warps knew when it issued its part.
//!
//! In: products as warps issue them. Out: a clock for each warp of a product. Invariant: each warp that a
//! product reads for must know that the bytes are written; a wait by another warp does not count (PTX ISA,
//! "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": each warp holds 16 of the 64 rows).

use crate::observe::Agent;

use super::clock::{Clock, Id};
use super::{Cta, Order};

impl Order {
    /// A warp issues its part of its warpgroup's next product.
    pub(super) fn multiplies(&mut self, id: Id) {
        self.warp(id.cta, id.local);
        let Cta { warps, products, .. } = &mut self.ctas[id.cta as usize];
        let group = &mut products[id.local as usize / 4];
        let warp = &mut warps[id.local as usize];
        let place = warp.products - group.issued;
        while group.next.len() <= place {
            group.next.push_back(<[Clock; 4]>::default());
        }
        group.next[place][id.local as usize % 4].clone_from(&warp.seen);
        warp.products += 1;
        self.tick(id);
    }

    /// What the warps of a warpgroup knew that have issued its next product.
    pub(super) fn issued_product(&mut self, cta: u32, warp: u32) -> Vec<Clock> {
        let group = &mut self.ctas[cta as usize].products[warp as usize / 4];
        group.issued += 1;
        group.next.pop_front().map_or_else(Vec::new, Vec::from)
    }

    /// The warps that a product reads for, with what they knew; no warps if this is not a product's read.
    pub(super) fn readers(&self, agent: Agent, warp: Option<u32>) -> Vec<(u32, Clock)> {
        let Agent::Operation(number) = agent else { return Vec::new() };
        let Some(agents) = self.operations.get(&number) else { return Vec::new() };
        let Some((place, _)) = agents.slots.first() else { return Vec::new() };
        let slot = &self.ctas[agents.cta as usize].slots[*place as usize];
        let all = slot.warps.iter().zip(slot.owner..);
        let chosen = all.filter(|(_, each)| warp.is_none_or(|warp| slot.owner + warp == *each));
        chosen.map(|(seen, warp)| (warp, seen.clone())).collect()
    }
}
