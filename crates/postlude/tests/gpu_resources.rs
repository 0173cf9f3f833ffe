//! What emitted kernels take of an SM, as the driver's own compiler says it.
//!
//! `golden/sm90_resources.txt` holds what the pinned assembler says; the driver's may differ, and must not spill, use a
//! stack, serialise products or take more registers. As many CTAs as a grid has must run at a time.

#![allow(clippy::print_stderr)] // A skipped test says so.

#[path = "all/resources/kernels.rs"]
#[allow(dead_code)] // The assembler's test reads more of them.
mod kernels;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernels::{Emitted, emitted};
use postlude::cuda::chip;
use postlude::runtime::Device;
use postlude::runtime::cache::DiskCache;
use postlude::target::ENTRY;

const RECORDED: &str = include_str!("../../../golden/sm90_resources.txt");

/// Registers that the file allows a kernel.
fn allowed(name: &str) -> u32 {
    let row = RECORDED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let registers = row.and_then(|rest| rest.split(' ').next()?.parse().ok());
    registers.unwrap_or_else(|| panic!("{name} is not recorded"))
}

/// What is wrong with a kernel as the driver compiles it.
fn complaint(device: &Device, cache: &DiskCache, kernel: &Emitted) -> Option<String> {
    let name = kernel.name();
    let function = match device.load_through(cache, &kernel.text, ENTRY) {
        Ok(function) => function,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let local = function.local_bytes().expect("the driver knows its kernels");
    let registers = function.registers().expect("the driver knows its kernels");
    let resident = function.resident_blocks(&kernel.launch()).expect("the driver knows its GPU");
    let planned = chip(device).expect("a Hopper GPU").together(kernel.tile.cluster.blocks());
    if resident < planned {
        return Some(format!("{name}: {resident} CTAs run at a time, not {planned}"));
    }
    let bad = local > 0 || registers > allowed(&name) || function.log().serialises_products();
    bad.then(|| format!("{name}: {registers} registers, {local} bytes\n{}", function.log().text()))
}

#[test]
fn gpu_drivers_compiler_spills_nothing() {
    let device = match Device::open(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("SKIPPED: no GPU, so no kernel was compiled by a driver: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (kernels, cache) = (emitted(), DiskCache::at(folder.path()));
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(kernel) = kernels.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = complaint(&device, &cache, kernel);
                    complaints.lock().expect("no other thread panics").extend(found);
                }
            });
        }
    });
    let complaints = complaints.into_inner().expect("all threads are done");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
