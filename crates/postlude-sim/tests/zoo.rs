//! The zoo: good kernels with one thing broken, and the diagnosis of each.

mod bound;
mod broken;

use broken::Base;
use broken::emitted::BROKEN;
use postlude_sim::{Diagnosis, Finding, Timing};

fn told(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_broken_kernel_has_its_diagnosis() {
    let mut wrong = Vec::new();
    for broken in BROKEN {
        let bound = broken.bound();
        let (report, _) = bound.run(Timing::Lazy);
        let fits = |finding: &Finding| {
            finding.diagnosis == broken.diagnosis
                && finding.text.contains(broken.at)
                && (broken.region.is_none() || finding.region.as_deref() == broken.region)
        };
        // What is not there yet may be missed before it is clear why.
        let missed = [Diagnosis::UninitialisedRead, Diagnosis::NoBarrier];
        let first = report.findings.iter().find(|finding| !missed.contains(&finding.diagnosis));
        let first = first.map_or(broken.diagnosis, |finding| finding.diagnosis);
        if !report.findings.iter().any(fits) || first != broken.diagnosis {
            let short: Vec<_> = report.findings.iter().take(6).cloned().collect();
            wrong.push(format!(
                "== {}, wants {:?}\n{}",
                broken.name,
                broken.diagnosis,
                told(&short)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), BROKEN.len(), wrong.join("\n"));
}

#[test]
fn the_kernels_they_come_from_are_clean_under_every_timing() {
    for base in Base::ALL {
        let bound = base.bound();
        let random = (0..20).map(|seed| Timing::Random { seed });
        for timing in [Timing::Eager, Timing::Lazy].into_iter().chain(random) {
            let (report, difference) = bound.run(timing);
            assert!(report.finished, "{base:?}, {timing:?}");
            assert_eq!(
                (told(&report.findings), difference),
                (String::new(), None),
                "{base:?}, {timing:?}"
            );
        }
    }
}
