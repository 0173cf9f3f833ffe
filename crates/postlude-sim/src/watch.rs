//! All observers of a run: the trackers of order, if findings are asked for, and the caller's observer.
//!
//! In: what the machine does. Out: the same, to both; and findings of the tracker.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::WaitFor;

use crate::error::SimError;
use crate::lane_order::LaneOrder;
use crate::machine::Machine;
use crate::observe::{Access, At, Observer, Operation, Space};
use crate::operation::Work;
use crate::order::{Aim, Order};
use crate::report::Finding;
use crate::warp::Warp;

/// The observers of a run.
pub(crate) struct Watch<'r> {
    pub(crate) order: Option<Box<Order>>,
    pub(crate) lanes: Option<Box<LaneOrder>>,
    pub(crate) observer: &'r mut dyn Observer,
}

/// Tells both.
macro_rules! told {
    ($($method:ident($($argument:ident: $ty:ty),*);)*) => {
        impl Watch<'_> {
            $(#[inline]
            pub(crate) fn $method(&mut self, $($argument: $ty),*) {
                if let Some(order) = &mut self.order {
                    order.$method($($argument),*);
                }
                self.observer.$method($($argument),*);
            })*
        }
    };
}

told! {
    executed(at: At, inst: &Inst);
    accessed(at: At, access: Access<'_>);
    made(at: At, cta: u32, address: u32, exists: bool);
    arrived(at: At, cta: u32, address: u32, phase: u64);
    waited(at: At, cta: u32, address: u32, phase: u64);
    met(at: At, barrier: u32, round: u64, waits: bool);
    cluster_arrived(at: At, round: u64);
    cluster_waited(at: At, round: u64);
    issued(at: At, operation: Operation, number: u64);
    joined(at: At, numbers: &[u64], until: WaitFor);
    ended(cta: u32);
}

impl Watch<'_> {
    /// A matrix product reads for one of its four warps, or for all of them.
    pub(crate) fn multiplied(&mut self, at: At, access: Access<'_>, warp: Option<u32>) {
        if let Some(order) = &mut self.order {
            order.read_by(at, access, warp);
        }
        self.observer.accessed(at, access);
    }

    pub(crate) fn source_read(&mut self, at: At, number: u64) {
        self.observer.source_read(at, number);
    }

    pub(crate) fn completed(&mut self, at: At, number: u64) {
        if let Some(order) = &mut self.order {
            order.completed(number);
        }
        self.observer.completed(at, number);
    }
}

impl Machine<'_> {
    /// Tells the tracker which shared memory a new copy will use.
    pub(crate) fn aim(&mut self, warp: &Warp, number: u64, work: &Work) {
        let Some(order) = &mut self.observer.order else { return };
        let range = |start: u32, bytes: u32| u64::from(start)..u64::from(start) + u64::from(bytes);
        let (cta, bytes, writes, barrier) = match work {
            Work::Load { receiver, to, barrier, from } => {
                let found = self.ctas[*receiver].mbarriers.get(barrier);
                let barrier = found.map(|found| (*barrier, found.phase));
                (*receiver, range(*to, from.bytes()), true, barrier)
            }
            Work::Store { from, to, .. } => (warp.cta, range(*from, to.bytes()), false, None),
            Work::Copy { to, bytes, .. } => (warp.cta, range(*to, *bytes), true, None),
            Work::Product(_) => return,
        };
        order.aims(self.ctas[cta].number, Aim { number, bytes, writes, barrier });
    }

    /// Tells the tracker that a copy has used its shared memory, which begins there.
    pub(crate) fn hit(&mut self, cta: usize, start: u32, number: u64) {
        if let Some(order) = &mut self.observer.order {
            order.hits(self.ctas[cta].number, start.into(), number);
        }
    }

    /// Makes findings of what the tracker found.
    pub(crate) fn gather_clashes(&mut self) -> Result<(), SimError> {
        let Some(order) = self.observer.order.as_mut().filter(|order| order.has_news()) else {
            return Ok(());
        };
        for told in order.told() {
            let (region, whereabouts) = match told.space {
                Space::Shared { .. } => {
                    let address = told.address as u32;
                    (self.region(address), format!("shared address {address:#x}"))
                }
                Space::Global => (None, self.global.describe(told.address)),
            };
            let message = format!("{whereabouts}: {}", told.message);
            self.find(Finding {
                diagnosis: told.diagnosis,
                line: told.line,
                text: self.program.text(told.line),
                cta: told.cta,
                warp: Some(told.warp),
                region,
                address: Some(told.address),
                message,
            })?;
        }
        Ok(())
    }
}
