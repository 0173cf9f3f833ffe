//! What is left of a process after `fork`: the memory of all its threads, and one of the threads.
//!
//! In: locks and cells that threads share. Out: their guards and values.
//! Invariant: a forked child never waits for a thread that was not forked along. A lock that such a thread holds stays
//! closed for ever, so it is an answer of its own ([`open`]); cells are made outside of themselves ([`once`]); and where
//! work is shared out among threads, a forked child does it alone ([`is_forked`]).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// The process that used the library first; 0 before that.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Whether this process is a forked child of one that used the library.
pub(crate) fn is_forked() -> bool {
    is_child_of(&FIRST)
}

/// Whether another process than this one is the first that was here.
fn is_child_of(first: &AtomicU32) -> bool {
    let own = std::process::id();
    let known = first.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
    known.is_err_and(|known| known != own)
}

/// Opens the lock of something that can be done without, such as a cache. `None` in a forked child where another thread
/// holds it, perhaps one that is gone.
pub(crate) fn open<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    if FIRST.load(Ordering::Relaxed) == 0 {
        is_forked();
    }
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) if is_forked() => None,
        Err(TryLockError::WouldBlock) => Some(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The value of a cell. Threads that ask at the same time may all make it, and the first one's is kept: a cell that a
/// thread closed while it worked would be closed for ever in a forked child.
pub(crate) fn once<T>(cell: &OnceLock<T>, make: impl FnOnce() -> T) -> &T {
    if let Some(value) = cell.get() {
        return value;
    }
    let value = make();
    cell.get_or_init(|| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_is_no_child_and_every_other_one_is() {
        let first = AtomicU32::new(0);
        assert!(!is_child_of(&first));
        assert!(!is_child_of(&first), "it is the first one itself");
        assert!(is_child_of(&AtomicU32::new(std::process::id() + 1)));
    }

    #[test]
    fn a_cell_keeps_what_was_made_first() {
        let cell = OnceLock::new();
        let value = once(&cell, || {
            once(&cell, || 1);
            2
        });
        assert_eq!((*value, *once(&cell, || 3)), (1, 1));
    }
}
