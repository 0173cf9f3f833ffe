//! Shared-memory plan: which bytes each tile and barrier owns.
//!
//! In: names, sizes and alignments. Out: aligned, disjoint regions and their total. Invariant: the total is at most
//! the target's limit; a plan that does not fit is never built.

use std::fmt;

use crate::entry::SHARED_ALIGNMENT;
use crate::target::Target;

/// Bytes of shared memory with a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// What it is for, as diagnoses say it.
    pub name: String,
    /// Bytes from the start of dynamic shared memory.
    pub offset: u32,
    /// Its size.
    pub bytes: u32,
}

impl Region {
    /// The first byte after it.
    pub fn end(&self) -> u32 {
        self.offset + self.bytes
    }

    /// Whether they share a byte.
    pub fn overlaps(&self, other: &Region) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

/// A plan under construction: regions in the order they were asked for.
#[derive(Clone, Default, Debug)]
pub struct Planner {
    regions: Vec<Region>,
    end: u64,
}

/// Regions that fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    regions: Vec<Region>,
    total: u32,
}

/// A plan that does not fit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overflow {
    /// The target's name.
    pub target: &'static str,
    /// What it has.
    pub limit: u32,
    /// What the plan needs.
    pub needed: u64,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Overflow { target, limit, needed } = self;
        write!(f, "{target} has {limit} bytes of shared memory; this plan needs {needed}")
    }
}

impl std::error::Error for Overflow {}

impl Planner {
    /// An empty plan.
    pub fn new() -> Self {
        Planner::default()
    }

    /// Reserves `bytes` at the next multiple of `alignment`, a power of two of at most 1024.
    ///
    /// What lies beyond 4 GiB has no offset; such a plan is refused when it is finished.
    pub fn reserve(&mut self, name: &str, bytes: u32, alignment: u32) -> Region {
        assert!(
            alignment.is_power_of_two() && alignment <= SHARED_ALIGNMENT,
            "compiler bug: alignment {alignment} of `{name}`"
        );
        let offset = self.end.next_multiple_of(u64::from(alignment));
        self.end = offset + u64::from(bytes);
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let region = Region { name: name.to_owned(), offset, bytes };
        self.regions.push(region.clone());
        region
    }

    /// Bytes so far.
    pub fn total(&self) -> u64 {
        self.end
    }

    /// The plan, if the target has the memory.
    pub fn finish(self, target: Target) -> Result<Plan, Overflow> {
        let limit = target.shared_limit;
        match u32::try_from(self.end) {
            Ok(total) if total <= limit => Ok(Plan { regions: self.regions, total }),
            Ok(_) | Err(_) => Err(Overflow { target: target.name, limit, needed: self.end }),
        }
    }
}

impl Plan {
    /// The regions, by rising offset.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Dynamic shared memory that a launch must ask for.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The region that holds the byte at `offset`.
    pub fn region_at(&self, offset: u32) -> Option<&Region> {
        self.regions.iter().find(|region| (region.offset..region.end()).contains(&offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{Architecture, Sm90a};

    #[test]
    fn regions_are_aligned_and_disjoint() {
        let mut planner = Planner::new();
        let tiles = planner.reserve("tiles", 1000, 1024);
        let barriers = planner.reserve("barriers", 64, 8);
        let staging = planner.reserve("staging", 8192, 1024);
        assert_eq!([tiles.offset, barriers.offset, staging.offset], [0, 1000, 2048]);
        let plan = planner.finish(Sm90a::TARGET).unwrap();
        assert_eq!(plan.total(), 10240);
        assert_eq!(plan.region_at(1001).unwrap().name, "barriers");
        assert!(plan.region_at(1064).is_none());
        for (at, region) in plan.regions().iter().enumerate() {
            assert!(!plan.regions()[at + 1..].iter().any(|other| other.overlaps(region)));
        }
    }

    #[test]
    fn a_plan_over_the_limit_is_refused_with_both_numbers() {
        let mut planner = Planner::new();
        planner.reserve("tiles", 232_448, 1024);
        planner.reserve("barriers", 8, 8);
        let refused = planner.finish(Sm90a::TARGET).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "sm_90a has 232448 bytes of shared memory; this plan needs 232456"
        );
    }
}
