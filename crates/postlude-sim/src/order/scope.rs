//! Scopes: with which agents an access, an arrival or a wait synchronises.
//!
//! In: the scope that an instruction states, and two agents. Out: whether each is within the other's scope. Invariant: two
//! strong accesses that are not are weak to each other (PTX ISA, "Morally Strong Operations").

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::{Published, Scope, Seen};

use super::Order;
use super::clock::Id;
use super::shadow::Touch;

/// How many of the three nested groups (CTA, cluster, GPU) are within a scope; 0 for a weak access.
pub(super) type Reach = u8;

/// What reaches every agent of the GPU.
pub(super) const GPU: Reach = 3;

/// How many of the groups are within this scope.
pub(super) fn reach(scope: Scope) -> Reach {
    match scope {
        Scope::Cta => 1,
        Scope::Cluster => 2,
        Scope::Gpu | Scope::System => GPU,
    }
}

/// Whether an arrival at a barrier in shared memory, or a wait there, synchronises with other CTAs of the cluster.
pub(super) fn is_cluster_wide(inst: &Inst) -> bool {
    match inst {
        Inst::BarrierArrive { published, .. } => match published {
            Published::Cluster => true,
            Published::Cta | Published::CtaInFull => false,
        },
        Inst::BarrierTryWait { seen, .. } => match seen {
            Seen::Cluster => true,
            Seen::Cta | Seen::CtaInFull => false,
        },
        _ => false,
    }
}

impl Order {
    /// The narrowest reach that holds both agents.
    fn distance(&self, a: Id, b: Id) -> Reach {
        if a.cta == b.cta {
            1
        } else if self.cluster(a.cta) == self.cluster(b.cta) {
            2
        } else {
            GPU
        }
    }

    /// Whether two accesses are strong and each is within the other's scope: such two never race.
    pub(super) fn are_morally_strong(&self, a: &Touch, b: &Touch) -> bool {
        let narrow = a.strong.min(b.strong);
        narrow >= GPU || narrow > 0 && narrow >= self.distance(a.by, b.by)
    }
}
