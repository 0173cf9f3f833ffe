//! Whether this process is a forked child of one that opened the driver.
//!
//! The C library tells by a handler, so that a call asks no more than a word of memory; asking for the process's number would
//! be a system call each time.

use std::sync::atomic::{AtomicBool, Ordering};

static CHILD: AtomicBool = AtomicBool::new(false);

/// Whether it is such a child.
pub(super) fn is_child() -> bool {
    CHILD.load(Ordering::Relaxed)
}

/// Marks children that are forked from now on.
pub(super) fn watch() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        mark_children();
    }
}

#[cfg(unix)]
fn mark_children() {
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }
    extern "C" fn mark() {
        CHILD.store(true, Ordering::Relaxed);
    }
    // SAFETY: the handler stores one word, and this code is never unloaded. Without memory for it, children are not marked.
    unsafe { pthread_atfork(None, None, Some(mark)) };
}

#[cfg(not(unix))]
fn mark_children() {}
