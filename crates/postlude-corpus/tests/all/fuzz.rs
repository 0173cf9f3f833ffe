//! Random kernels on the simulator and the CPU, against the reference.
//!
//! The seed is fixed, so that every run is the same; `POSTLUDE_FUZZ` multiplies how many there are, and
//! `postlude fuzz --only SEED` runs one of them again.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use postlude::Backend;
use postlude_corpus::fuzz::{Campaign, Engine, Extent, Found, Kind, Sort, Summary, Until, run};

/// Whoever changes how kernels are drawn changes which ones these are.
const SEED: u32 = 90;

fn check(backend: Backend, extent: Extent, graphs: u32) -> Summary {
    let times = std::env::var("POSTLUDE_FUZZ").ok().and_then(|times| times.parse().ok());
    let campaign = Campaign {
        engine: Engine { backend, cache: None, until: Until::Compared },
        extent,
        sort: Sort::Any,
        seed: SEED,
        first: 0,
        graphs: graphs * times.unwrap_or(1),
        only: None,
        timing: None,
        jobs: Some(2),
        shrink: Duration::from_secs(5),
        limit: Duration::from_mins(2),
    };
    let summary = run(&campaign, &AtomicBool::new(false), &|_| {});
    let about = |found: &Found| {
        let ((drawn, wrong), (small, still)) = (&found.drawn, &found.small);
        format!("seed {}: {wrong}\n{drawn}\nsmaller: {still}\n{small}", drawn.seed)
    };
    let failures: Vec<String> = summary.failures.iter().map(about).collect();
    assert!(failures.is_empty(), "{} failed\n{}", failures.len(), failures.join("\n\n"));
    assert!(summary.tally.meaningful() > 0.9, "bounds say little: {:?}", summary.tally);
    summary
}

#[test]
fn random_kernels_in_the_simulator_agree_with_the_reference() {
    let summary = check(Backend::Sim, Extent::Small, 200);
    assert!(summary.accepted() > 0.6, "most are refused: {:?}", summary.refused);
}

#[test]
fn random_kernels_on_the_processor_agree_with_the_reference() {
    let summary = check(Backend::Cpu, Extent::Small, 2000);
    assert!(summary.refused.is_empty(), "{:?}", summary.refused);
}

#[test]
fn kernels_without_an_end_are_counted_and_the_others_go_on() {
    let campaign = Campaign {
        engine: Engine { backend: Backend::Cpu, cache: None, until: Until::Compared },
        extent: Extent::Small,
        sort: Sort::Any,
        seed: SEED,
        first: 0,
        graphs: 10,
        only: None,
        timing: None,
        jobs: Some(1),
        shrink: Duration::ZERO,
        // Every kernel that still runs when the clock is checked has exceeded the limit.
        limit: Duration::ZERO,
    };
    let summary = run(&campaign, &AtomicBool::new(false), &|_| {});
    // A worker that was given up may hold the last kernels when the others are done.
    assert!((1..=10).contains(&summary.graphs), "{}", summary.graphs);
    let ended = summary.agreed + summary.failed_by(Kind::Hang);
    assert_eq!(ended, summary.graphs, "{:?}", summary.failures);
}
