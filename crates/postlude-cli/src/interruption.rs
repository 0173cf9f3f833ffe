//! Ctrl-C in commands that have something to tell before they end.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::INTERRUPTED;

/// Set by the first Ctrl-C, after which what is known so far is printed; the second ends the process.
pub(crate) fn interruption() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    // Without a handler an interruption prints nothing: no reason not to run.
    let _ = ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(INTERRUPTED));
        }
    });
    stop
}
