//! The zoo: good kernels with one thing broken, and the diagnosis of each.

use crate::broken::Base;
use crate::broken::emitted::BROKEN;
use crate::broken::written::{WRITTEN, changed};
use crate::plain::{Plain, listed};
use postlude_corpus::{is_thorough, pick};
use postlude_ptx::launch::Parameter;
use postlude_sim::{Diagnosis, Finding, Options, SimError, Timing, run};

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
        // What is not there yet may be missed before it is clear why; a barrier of warps is one of lanes too.
        let missed =
            [Diagnosis::UninitialisedRead, Diagnosis::NoBarrier, Diagnosis::UnorderedLanes];
        let told_first =
            |diagnosis: &Diagnosis| *diagnosis == broken.diagnosis || !missed.contains(diagnosis);
        let first = report.findings.iter().map(|finding| finding.diagnosis).find(told_first);
        if !report.findings.iter().any(fits) || first != Some(broken.diagnosis) {
            let short: Vec<_> = report.findings.iter().take(6).cloned().collect();
            wrong.push(format!(
                "== {}, wants {:?}\n{}",
                broken.name,
                broken.diagnosis,
                listed(&short)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), BROKEN.len(), wrong.join("\n"));
}

#[test]
fn the_kernels_they_come_from_are_clean_under_every_timing() {
    for base in Base::ALL {
        base.bound().check_seeds(&format!("{base:?}"), 0..if is_thorough() { 20 } else { 2 });
    }
}

#[test]
fn every_written_kernel_has_its_diagnosis() {
    let mut wrong = Vec::new();
    for written in WRITTEN {
        let body = changed(written.name, written.body, written.change);
        let findings = Plain::launched(&body, written.launch, Timing::Lazy).findings();
        let fits = |finding: &Finding| {
            finding.diagnosis == written.diagnosis && finding.text.contains(written.at)
        };
        if !findings.iter().any(fits) {
            wrong.push(format!(
                "== {}, wants {:?}\n{}",
                written.name,
                written.diagnosis,
                listed(&findings)
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), WRITTEN.len(), wrong.join("\n"));
}

#[test]
fn written_kernels_are_clean_as_they_should_be() {
    for written in WRITTEN {
        let random = (0..20).map(|seed| Timing::Random { seed });
        let all: Vec<Timing> = [Timing::Eager, Timing::Lazy].into_iter().chain(random).collect();
        for timing in pick(&all, written.name, 6) {
            let findings = Plain::launched(written.body, written.launch, timing).findings();
            assert_eq!(listed(&findings), "", "{}, {timing:?}", written.name);
        }
    }
}

#[test]
fn a_tensor_map_with_a_stride_between_chunks_is_refused() {
    let mut bound = Base::Plain.bound();
    let strides = bound.launch.parameters.iter_mut().find_map(|parameter| match parameter {
        Parameter::Map(map) => Some(&mut map.strides),
        Parameter::Pointer { .. } | Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => {
            None
        }
    });
    strides.expect("a map")[0] += 2;
    let result = run(&bound.text, &bound.launch, &mut bound.buffers, &Options::default());
    assert!(matches!(result, Err(SimError::TensorMap { .. })), "{result:?}");
}
