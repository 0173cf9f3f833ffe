//! Whether the system gives this process another thread.

use std::thread;

use crate::failure::Mistake;

/// Whether there is one to be had now.
pub(crate) fn are_given() -> bool {
    thread::Builder::new().spawn(|| {}).is_ok()
}

/// Refuses work that other threads do.
pub(crate) fn require() -> Result<(), Mistake> {
    if are_given() {
        return Ok(());
    }
    let mistake = Mistake::new("the system gives this process no more threads");
    Err(mistake.fix("end other processes, or raise the limit (`ulimit -u`)"))
}
