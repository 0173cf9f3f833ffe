//! How long simulated tiles take. Timings depend on the machine, so these run only when asked for, optimised:
//! `cargo test --release -p postlude-sim --test all speed -- --ignored --nocapture`.

#![allow(clippy::print_stderr)] // A timing is read by a person.

use std::time::Instant;

use crate::bound::{Bound, epilogue, tile};
use postlude::DType;
use postlude_sim::Timing;

fn time(about: &str, bound: &Bound, seconds: f64) {
    for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }] {
        let start = Instant::now();
        let (report, difference) = bound.run(timing);
        let taken = start.elapsed().as_secs_f64();
        eprintln!("{about}, {timing:?}: {taken:.3} s, {} warp instructions", report.instructions);
        assert!(difference.is_none() && report.findings.is_empty(), "{about}");
        assert!(taken < seconds, "{about}: {taken} s instead of {seconds}");
    }
}

#[test]
#[ignore = "depends on the machine"]
fn a_large_tile_takes_less_than_two_seconds() {
    let source = epilogue("plain", DType::BF16);
    let bound = Bound::new(&source, [1, 128, 256, 512], tile(128, 256, 1), 1);
    time("128x256x512", &bound, 2.0);
}

#[test]
#[ignore = "depends on the machine"]
fn a_whole_kernel_takes_less_than_ten_seconds() {
    let source = epilogue("plain", DType::BF16);
    let bound = Bound::new(&source, [1, 512, 512, 512], tile(128, 256, 2), 8);
    time("512x512x512", &bound, 10.0);
}

#[test]
#[ignore = "depends on the machine"]
fn a_large_tile_with_a_function_takes_less_than_two_seconds() {
    let source = epilogue("bias_relu", DType::BF16);
    let bound = Bound::new(&source, [1, 128, 256, 512], tile(128, 256, 1), 1);
    time("128x256x512, bias and relu", &bound, 2.0);
    let source = source.replace("relu(", "gelu(");
    let bound = Bound::new(&source, [1, 128, 256, 512], tile(128, 256, 1), 1);
    let start = Instant::now();
    let worst = bound.worst(Timing::Lazy);
    let taken = start.elapsed().as_secs_f64();
    eprintln!("128x256x512, bias and gelu, with the comparison: {taken:.3} s, {worst:.3} bounds");
    assert!(taken < 2.0 && worst <= 1.0);
}
