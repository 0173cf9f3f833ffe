//! Order, scopes and what bytes are: kernels with one thing broken, each found under every timing, and correct ones that
//! are done in other ways.

mod bound;
mod broken;
mod plain;

use broken::ordered::{ORDERED, RIGHT};
use broken::ordered_emitted::{EMITTED, VARIANTS};
use broken::written::Written;
use plain::Plain;
use postlude_sim::{Finding, Timing};

const TIMINGS: [Timing; 6] = [
    Timing::Eager,
    Timing::Lazy,
    Timing::Random { seed: 1 },
    Timing::Random { seed: 2 },
    Timing::Random { seed: 3 },
    Timing::Random { seed: 4 },
];

fn told(findings: &[Finding]) -> String {
    findings.iter().take(6).map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn plain(launch: [u32; 3], body: &str, timing: Timing) -> Vec<Finding> {
    let mut plain = Plain::new(body);
    let [grid, cluster, threads] = launch;
    (plain.launch.grid, plain.launch.cluster) = ([grid, 1, 1], [cluster, 1, 1]);
    (plain.launch.threads, plain.timing) = (threads, timing);
    plain.findings()
}

fn changed(name: &str, body: &str, [from, to]: [&str; 2]) -> String {
    assert!(body.contains(from), "{name}");
    body.replacen(from, to, 1)
}

#[test]
fn every_broken_kernel_by_hand_is_found_under_every_timing() {
    let mut wrong = Vec::new();
    for Written { name, body, launch, change, diagnosis, at } in ORDERED {
        let text = changed(name, body, *change);
        for timing in TIMINGS {
            let findings = plain(*launch, &text, timing);
            let fits = |each: &Finding| each.diagnosis == *diagnosis && each.text.contains(at);
            if !findings.iter().any(fits) {
                wrong.push(format!("== {name}, {timing}: {diagnosis:?}\n{}", told(&findings)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn correct_kernels_by_hand_are_clean_under_every_timing() {
    let mut wrong = Vec::new();
    let good = ORDERED.iter().map(|each| (each.name, each.body.to_owned(), each.launch));
    let others = RIGHT
        .iter()
        .map(|(name, body, launch, change)| (*name, changed(name, body, *change), *launch));
    for (name, body, launch) in good.chain(others) {
        for timing in TIMINGS {
            let findings = plain(launch, &body, timing);
            if !findings.is_empty() {
                wrong.push(format!("== {name}, {timing}\n{}", told(&findings)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_broken_emitted_kernel_is_found_under_every_timing() {
    let mut wrong = Vec::new();
    for broken in EMITTED {
        let bound = broken.bound();
        for timing in TIMINGS {
            let (report, _) = bound.run(timing);
            let fits = |each: &Finding| {
                each.diagnosis == broken.diagnosis && each.text.contains(broken.at)
            };
            if !report.findings.iter().any(fits) {
                let (name, wants) = (broken.name, broken.diagnosis);
                wrong.push(format!("== {name}, {timing}: {wants:?}\n{}", told(&report.findings)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn correct_variants_of_emitted_kernels_are_clean_under_every_timing() {
    for variant in VARIANTS {
        variant.bound().check_seeds(variant.name, 1..5);
    }
}
