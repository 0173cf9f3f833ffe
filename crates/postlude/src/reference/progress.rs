//! How far an evaluation is, for a caller that shows it.

use std::sync::atomic::{AtomicU64, Ordering};

/// What an element of a node of the body costs, in multiply-adds of the product.
pub(super) const BODY_UNITS: u64 = 64;

/// Is told how much of how much work is done, in multiply-adds or what takes as long; from any thread.
pub type Tell<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// Work that is under way.
pub(super) struct Progress<'a> {
    done: AtomicU64,
    total: u64,
    tell: Tell<'a>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(total: u64, tell: Tell<'a>) -> Progress<'a> {
        Progress { done: AtomicU64::new(0), total, tell }
    }

    /// For work that is a part of other work.
    pub(super) fn silent() -> Progress<'static> {
        Progress::new(0, &ignore)
    }

    /// Tells that so much more is done.
    pub(super) fn add(&self, units: u64) {
        let done = self.done.fetch_add(units, Ordering::Relaxed) + units;
        (self.tell)(done, self.total);
    }
}

/// For callers that show no progress.
pub(super) fn ignore(_done: u64, _total: u64) {}
