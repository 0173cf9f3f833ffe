//! What emitted kernels take of an SM, as a real assembler says it: `golden/sm90_resources.txt` may only improve.
//!
//! `POSTLUDE_BLESS=1 cargo test -p postlude --test all resources` rewrites the file; without it a kernel that takes more than
//! the file says fails, and so does any spill, stack frame or serialised product.

#![allow(clippy::print_stderr)] // A skipped test says so.

mod assemble;
#[allow(dead_code)] // The driver's test reads more of them.
mod kernels;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::workspace::root;
use assemble::{Taken, assemble};
use kernels::{Emitted, emitted};

const FILE: &str = "golden/sm90_resources.txt";
const HEAD: &str = "kernel tile registers shared_bytes instructions";

/// Every kernel's name with what it takes.
fn measure(kernels: &[Emitted]) -> BTreeMap<String, Taken> {
    let next = AtomicUsize::new(0);
    let taken = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = assemble(kernel);
                    taken.lock().expect("no other thread panics").insert(kernel.name(), found);
                }
            });
        }
    });
    taken.into_inner().expect("all threads are done")
}

fn recorded() -> BTreeMap<String, Taken> {
    let text = fs::read_to_string(root().join(FILE)).unwrap_or_default();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [kernel, tile, registers, shared_bytes, instructions] = words[..] else { return None };
        let taken = Taken {
            registers: registers.parse().ok()?,
            shared_bytes: shared_bytes.parse().ok()?,
            instructions: instructions.parse().ok()?,
        };
        Some((format!("{kernel} {tile}"), taken))
    };
    text.lines().filter_map(row).collect()
}

fn written(taken: &BTreeMap<String, Taken>) -> String {
    let row = |(name, taken): (&String, &Taken)| {
        let Taken { registers, shared_bytes, instructions } = taken;
        format!("{name} {registers} {shared_bytes} {instructions}\n")
    };
    format!("{HEAD}\n{}", taken.iter().map(row).collect::<String>())
}

#[test]
fn kernels_take_no_more_than_they_did() {
    if std::env::var_os("PTXAS").is_none() {
        eprintln!("SKIPPED: PTXAS names no assembler, so no kernel was assembled");
        return;
    }
    let now = measure(&emitted());
    if std::env::var_os("POSTLUDE_BLESS").is_some_and(|value| value == "1") {
        fs::write(root().join(FILE), written(&now)).expect("the repository can be written");
        return;
    }
    let before = recorded();
    let worse: Vec<String> = now
        .iter()
        .filter(|(name, taken)| !before.get(*name).is_some_and(|before| taken.within(before)))
        .map(|(name, taken)| format!("{name}: {taken:?}, recorded {:?}", before.get(name)))
        .collect();
    assert!(worse.is_empty(), "these take more, or are new:\n{}", worse.join("\n"));
    let gone: Vec<&String> = before.keys().filter(|name| !now.contains_key(*name)).collect();
    assert!(gone.is_empty(), "these are recorded and no longer emitted: {gone:?}");
}
