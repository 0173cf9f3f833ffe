//! Checks of a finished kernel that an assembler does not make.
//!
//! In: an [`Entry`]. Out: findings, in the order of the code; none when nothing is wrong. Registers and matrix
//! products are followed along every path through the code; a loop's body is taken to run zero times, too.

mod bits;
mod flow;
mod state;

use std::collections::BTreeSet;
use std::fmt;

use crate::entry::{Entry, Item};
use crate::inst::Inst;
use crate::operand::{Operand, Register};

use flow::Flow;
use state::State;

/// Threads of a warp.
const WARP: i128 = 32;

/// Something wrong; `item` counts in [`Entry::items`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Finding {
    /// A register is read where some path has not written it.
    ReadBeforeWrite {
        /// Where.
        item: usize,
        /// Which.
        register: Register,
    },
    /// A matrix product where some path has no fence since its registers were touched.
    ProductWithoutFence {
        /// Where.
        item: usize,
    },
    /// A wait, or the end of the kernel, with matrix products that no group holds.
    ProductNotCommitted {
        /// Where.
        item: usize,
    },
    /// The end of the kernel with matrix products under way.
    ProductNotAwaited {
        /// Where.
        item: usize,
    },
    /// A register is touched that a matrix product under way still uses.
    TouchedInFlight {
        /// Where.
        item: usize,
        /// Which.
        register: Register,
    },
    /// Two regions of shared memory share bytes.
    OverlappingRegions {
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// A region ends beyond the shared memory of the target.
    RegionBeyondLimit {
        /// Which.
        region: String,
        /// Its end.
        end: u32,
        /// What the target has.
        limit: u32,
    },
    /// A named barrier that the target does not have.
    BarrierOutOfRange {
        /// Where.
        item: usize,
        /// Its number.
        barrier: i128,
    },
    /// A named barrier for a number of threads that is not whole warps.
    BarrierOfPartialWarps {
        /// Where.
        item: usize,
        /// The number.
        threads: i128,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Finding::ReadBeforeWrite { item, register } => {
                write!(f, "item {item} reads {register}, which some path has not written")
            }
            Finding::ProductWithoutFence { item } => {
                write!(f, "item {item} is a matrix product without a fence before it on some path")
            }
            Finding::ProductNotCommitted { item } => {
                write!(f, "item {item} finds matrix products that were not committed")
            }
            Finding::ProductNotAwaited { item } => {
                write!(f, "item {item} ends the kernel with matrix products under way")
            }
            Finding::TouchedInFlight { item, register } => {
                write!(f, "item {item} touches {register}, which a matrix product under way uses")
            }
            Finding::OverlappingRegions { first, second } => {
                write!(f, "the regions `{first}` and `{second}` share bytes")
            }
            Finding::RegionBeyondLimit { region, end, limit } => {
                write!(f, "the region `{region}` ends at byte {end} of {limit}")
            }
            Finding::BarrierOutOfRange { item, barrier } => {
                write!(f, "item {item} names barrier {barrier}, which does not exist")
            }
            Finding::BarrierOfPartialWarps { item, threads } => {
                write!(f, "item {item} waits for {threads} threads, which are not whole warps")
            }
        }
    }
}

/// Everything found wrong with a kernel.
pub fn check(entry: &Entry) -> Vec<Finding> {
    let mut findings = BTreeSet::new();
    regions(entry, &mut findings);
    for (item, line) in entry.items.iter().enumerate() {
        if let Item::Inst { inst, .. } = line {
            named_barrier(entry, item, inst, &mut findings);
        }
    }
    registers_and_products(entry, &mut findings);
    findings.into_iter().collect()
}

fn regions(entry: &Entry, findings: &mut BTreeSet<Finding>) {
    let limit = entry.target.shared_limit;
    for (at, region) in entry.regions.iter().enumerate() {
        if region.end() > limit {
            let (region, end) = (region.name.clone(), region.end());
            findings.insert(Finding::RegionBeyondLimit { region, end, limit });
        }
        for other in entry.regions[at + 1..].iter().filter(|other| other.overlaps(region)) {
            let (first, second) = (region.name.clone(), other.name.clone());
            findings.insert(Finding::OverlappingRegions { first, second });
        }
    }
}

fn named_barrier(entry: &Entry, item: usize, inst: &Inst, findings: &mut BTreeSet<Finding>) {
    let (barrier, threads) = if let Inst::BarSync { barrier, threads } = inst {
        (barrier.0, threads.0)
    } else if let Inst::BarArrive { barrier, threads } = inst {
        (barrier.0, Some(threads.0))
    } else {
        return;
    };
    let count = i128::from(entry.target.named_barriers);
    if let Operand::Integer(barrier) = barrier
        && !(0..count).contains(&barrier)
    {
        findings.insert(Finding::BarrierOutOfRange { item, barrier });
    }
    if let Some(Operand::Integer(threads)) = threads
        && (threads <= 0 || threads % WARP != 0)
    {
        findings.insert(Finding::BarrierOfPartialWarps { item, threads });
    }
}

/// Follows every path until nothing changes, then collects what each block finds.
fn registers_and_products(entry: &Entry, findings: &mut BTreeSet<Finding>) {
    let flow = Flow::new(&entry.items);
    let count = flow.blocks.len();
    let mut before: Vec<Option<State>> = vec![None; count];
    let Some(first) = before.first_mut() else { return };
    *first = Some(State::at_entry(entry));
    let mut waiting: BTreeSet<usize> = BTreeSet::from([0]);
    while let Some(block) = waiting.pop_first() {
        let Some(mut state) = before[block].clone() else { continue };
        for item in flow.blocks[block].items.clone() {
            state.step(item, &entry.items[item], &mut |_| {});
        }
        state.leave_block();
        for next in flow.blocks[block].next.iter().copied() {
            let changed = match &mut before[next] {
                Some(known) => known.meet(&state),
                unknown @ None => {
                    *unknown = Some(state.clone());
                    true
                }
            };
            if changed {
                waiting.insert(next);
            }
        }
    }
    for (block, state) in flow.blocks.iter().zip(before) {
        let Some(mut state) = state else { continue };
        for item in block.items.clone() {
            state.step(item, &entry.items[item], &mut |finding| {
                findings.insert(finding);
            });
        }
    }
}
