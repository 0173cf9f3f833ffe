//! Releases and acquires in global and shared memory: atomics, ordered accesses and fences.
//!
//! In: what an instruction does to order, and where. Out: clocks joined. Invariant: a releaser is known to an acquirer of
//! the same address when each is within the other's scope (PTX ISA, "Release and Acquire Patterns").

use std::collections::HashMap;

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::{Order as Semantics, Scope};

use crate::observe::Space;

use super::clock::{Clock, Id};
use super::scope::{Reach, reach};

/// Scopes, the narrowest first.
const SCOPES: usize = 3;

/// What an access does to what it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Read,
    Write,
    Change,
}

/// What an instruction does to order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Strength {
    access: Access,
    order: Semantics,
    scope: Scope,
}

impl Strength {
    /// Of an instruction that has any.
    pub(super) fn of(inst: &Inst) -> Option<Self> {
        let (access, order, scope) = match inst {
            Inst::LoadOrdered { order, scope, .. } => (Access::Read, *order, *scope),
            Inst::StoreOrdered { order, scope, .. } => (Access::Write, *order, *scope),
            Inst::Atomic { order, scope, .. }
            | Inst::AtomicSwap { order, scope, .. }
            | Inst::Reduce { order, scope, .. } => (Access::Change, *order, *scope),
            Inst::AtomicShared { .. } => (Access::Change, Semantics::Relaxed, Scope::Cluster),
            _ => return None,
        };
        Some(Strength { access, order, scope })
    }

    /// The agents among which it is strong.
    pub(super) fn reach(self) -> Reach {
        reach(self.scope)
    }
}

fn acquires(order: Semantics) -> bool {
    match order {
        Semantics::Acquire | Semantics::AcqRel => true,
        Semantics::Release | Semantics::Relaxed => false,
    }
}

fn releases(order: Semantics) -> bool {
    match order {
        Semantics::Release | Semantics::AcqRel => true,
        Semantics::Acquire | Semantics::Relaxed => false,
    }
}

/// What fences make of a warp's relaxed accesses, by scope.
#[derive(Default, Debug)]
pub(super) struct State {
    /// What relaxed writes publish.
    released: [Clock; SCOPES],
    /// What relaxed reads have found.
    found: [Clock; SCOPES],
}

impl State {
    pub(super) fn fence(&mut self, order: Semantics, scope: Scope, seen: &mut Clock) {
        for scope in 0..usize::from(reach(scope)) {
            if acquires(order) {
                seen.join(&self.found[scope]);
            }
        }
        for scope in 0..usize::from(reach(scope)) {
            if releases(order) {
                self.released[scope].clone_from(seen);
            }
        }
    }
}

/// Where: an address, a scope, and which CTA or cluster it is the scope of.
type Place = (u64, usize, u32);

/// What was released at each address.
#[derive(Default, Debug)]
pub(super) struct Published(HashMap<Place, Clock>);

impl super::Order {
    /// A warp's strong access to addresses.
    pub(super) fn order_by(
        &mut self,
        id: Id,
        strength: Strength,
        space: Space,
        pieces: &[(u64, u32)],
    ) {
        let cluster = self.cluster(id.cta);
        let warp = &mut self.ctas[id.cta as usize].warps[id.local as usize];
        // The same address in shared memory of two CTAs is two places.
        let window = match space {
            Space::Global => 0,
            Space::Shared { cta } => 1 << 63 | u64::from(cta) << 32,
        };
        let mut addresses: Vec<u64> = pieces.iter().map(|(address, _)| window | *address).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let wide = usize::from(strength.reach());
        for address in addresses {
            let place = |scope: usize| (address, scope, [id.cta, cluster, 0][scope]);
            if strength.access != Access::Write && !self.published.0.is_empty() {
                for scope in 0..wide {
                    let Some(clock) = self.published.0.get(&place(scope)) else { continue };
                    if acquires(strength.order) {
                        warp.seen.join(clock);
                    } else {
                        warp.strong.found[scope].join(clock);
                    }
                }
            }
            if strength.access == Access::Read {
                continue;
            }
            // A plain write ends what earlier releases began.
            if strength.access == Access::Write && !self.published.0.is_empty() {
                (0..SCOPES).for_each(|scope| drop(self.published.0.remove(&place(scope))));
            }
            for scope in 0..wide {
                let own = if releases(strength.order) {
                    &warp.seen
                } else {
                    &warp.strong.released[scope]
                };
                if !own.is_empty() {
                    self.published.0.entry(place(scope)).or_default().join(own);
                }
            }
        }
        self.tick(id);
    }
}
