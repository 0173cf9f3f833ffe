//! The tracker's CTAs, of which a grid may have millions: only resident CTAs have state.
//!
//! In: numbers in the grid. Out: a CTA's state, which is empty until it is changed. Invariant: of a CTA that
//! ended only the state is kept that later accesses to global memory need.

use std::ops::{Index, IndexMut};

use super::{Cta, Order, Shadow, Warp};

/// By number in the grid.
#[derive(Debug)]
pub(super) struct Ctas {
    all: Vec<Option<Box<Cta>>>,
    empty: Box<Cta>,
}

impl Ctas {
    pub(super) fn new(count: u32) -> Self {
        let all = (0..count).map(|_| None).collect();
        Ctas { all, empty: Box::default() }
    }
}

impl Index<usize> for Ctas {
    type Output = Cta;

    fn index(&self, cta: usize) -> &Cta {
        self.all[cta].as_ref().unwrap_or(&self.empty)
    }
}

impl IndexMut<usize> for Ctas {
    fn index_mut(&mut self, cta: usize) -> &mut Cta {
        self.all[cta].get_or_insert_default()
    }
}

impl Order {
    /// Drops a CTA's state: its cluster has ended, and no agent accesses its shared memory any more.
    pub(crate) fn forget(&mut self, cta: u32) {
        self.operations.retain(|_, agents| agents.cta != cta || !agents.complete);
        let cluster = self.cluster(cta);
        self.clusters.remove(&cluster);
        let place = &mut self.ctas.all[cta as usize];
        let Some(state) = place else { return };
        if state.slots.is_empty() {
            *place = None;
            return;
        }
        state.shared = Shadow::default();
        state.barriers.clear();
        state.span = 0..0;
        state.named.clear();
        state.aims.clear();
        state.products.clear();
        state.guests.clear();
        for warp in &mut state.warps {
            *warp = Warp { moment: warp.moment, ..Warp::default() };
        }
    }
}
