//! The threads that work is spread over which names none.
//!
//! In: nothing. Out: rayon's pool of the process, which exists. Invariant: where the system gives fewer threads than there
//! are cores, the pool has those, and at the least the caller's own: it is never a panic.

use std::sync::Once;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};

use rayon::ThreadPoolBuilder;

/// Makes the pool, once; one that is there already stays.
pub fn claim_threads() {
    static CLAIMED: Once = Once::new();
    CLAIMED.call_once(|| {
        let wanted =
            rayon::max_num_threads().min(thread::available_parallelism().map_or(1, usize::from));
        let builder = match granted(wanted) {
            0 => ThreadPoolBuilder::new().num_threads(1).use_current_thread(),
            all if all == wanted => return,
            some => ThreadPoolBuilder::new().num_threads(some),
        };
        // A program that made it before keeps its own.
        let _ = builder.build_global();
    });
}

/// How many of the requested threads the system starts at a time.
fn granted(wanted: usize) -> usize {
    let mut waiting: Vec<JoinHandle<()>> = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..wanted {
        let (sender, receiver) = channel::<()>();
        let wait = move || receiver.recv().unwrap_or_default();
        let Ok(thread) = thread::Builder::new().spawn(wait) else { break };
        waiting.push(thread);
        senders.push(sender);
    }
    drop(senders);
    let granted = waiting.len();
    for thread in waiting {
        drop(thread.join());
    }
    granted
}
