//! What somebody who watches a run is told.

use std::collections::BTreeMap;

use crate::bound::{Bound, epilogue, tile};
use postlude::DType;
use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::WaitFor;
use postlude_sim::observe::{Access, At, Kind, Observer, Operation, Space};
use postlude_sim::{Options, Timing, run_observed};

#[derive(Default)]
struct Watcher {
    executed: u64,
    products: u64,
    /// Operations under way.
    open: BTreeMap<u64, Operation>,
    completed: u64,
    loaded: u64,
    stored: u64,
    waits: u64,
    joined: u64,
}

impl Observer for Watcher {
    fn executed(&mut self, _: At, inst: &Inst) {
        self.executed += 1;
        self.products += u64::from(matches!(inst, Inst::Wgmma { .. }));
    }
    fn accessed(&mut self, at: At, access: Access<'_>) {
        let bytes: u64 = access.pieces.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let operation = at.lanes == 0;
        match (access.space, access.kind) {
            (Space::Shared { .. }, Kind::Write) if operation => self.loaded += bytes,
            (Space::Global, Kind::Write) if operation => self.stored += bytes,
            (Space::Shared { .. } | Space::Global, Kind::Read | Kind::Write | Kind::Atomic) => {}
        }
    }
    fn waited(&mut self, _: At, _: u32, _: u32, _: u64) {
        self.waits += 1;
    }
    fn issued(&mut self, _: At, operation: Operation, number: u64) {
        assert!(self.open.insert(number, operation).is_none());
    }
    fn completed(&mut self, _: At, number: u64) {
        assert!(self.open.remove(&number).is_some(), "it was issued");
        self.completed += 1;
    }
    fn joined(&mut self, _: At, numbers: &[u64], until: WaitFor) {
        if until == WaitFor::Complete {
            assert!(numbers.iter().all(|number| !self.open.contains_key(number)));
        }
        self.joined += numbers.len() as u64;
    }
}

#[test]
fn everything_that_happens_is_told() {
    let bound =
        Bound::new(&epilogue("plain", DType::BF16), [1, 256, 256, 256], tile(128, 256, 2), 2);
    for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 4 }] {
        let mut watcher = Watcher::default();
        let options = Options { timing, ..Options::default() };
        let mut buffers = bound.buffers.clone();
        let report =
            run_observed(&bound.text, &bound.launch, &mut buffers, &options, &mut watcher).unwrap();
        assert!(report.findings.is_empty() && watcher.open.is_empty());
        // Two CTAs, two warpgroups, 4 stages of 4 steps; each of 4 warps issues each product.
        assert_eq!((report.meters.products, watcher.products), (64, 4 * 64));
        // A of 128x64 and all of B for each CTA and stage.
        let stage = (128 + 256) * 64 * 2;
        assert_eq!((report.meters.bytes_loaded, watcher.loaded), (2 * 4 * stage, 2 * 4 * stage));
        assert_eq!((report.meters.bytes_stored, watcher.stored), (256 * 256 * 2, 256 * 256 * 2));
        assert!(watcher.executed <= report.instructions && watcher.waits > 0);
        assert!(watcher.joined >= 4 * 64 && watcher.completed >= 64);
    }
}
