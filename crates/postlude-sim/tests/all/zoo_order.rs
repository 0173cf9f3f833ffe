//! Order, scopes and what bytes are: kernels with one thing broken, each found under every timing, and correct ones that
//! are done in other ways.

use crate::broken::ordered::{ORDERED, RIGHT};
use crate::broken::ordered_emitted::{EMITTED, VARIANTS};
use crate::broken::written::{Written, changed};
use crate::plain::{Plain, TIMINGS, listed};
use postlude_corpus::pick;
use postlude_ptx::launch::{Buffer, Element, Parameter, Swizzle, TensorMap};
use postlude_sim::{Diagnosis, Finding, Output, Timing};

#[test]
fn every_broken_kernel_by_hand_is_found_under_every_timing() {
    let mut wrong = Vec::new();
    for Written { name, body, launch, change, diagnosis, at } in ORDERED {
        let text = changed(name, body, *change);
        for timing in TIMINGS {
            let findings = Plain::launched(&text, *launch, timing).findings();
            let fits = |each: &Finding| each.diagnosis == *diagnosis && each.text.contains(at);
            if !findings.iter().any(fits) {
                wrong.push(format!("== {name}, {timing}: {diagnosis:?}\n{}", listed(&findings)));
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
            let findings = Plain::launched(&body, launch, timing).findings();
            if !findings.is_empty() {
                wrong.push(format!("== {name}, {timing}\n{}", listed(&findings)));
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
        for timing in pick(&TIMINGS, broken.name, 2) {
            let (report, _) = bound.run(timing);
            let fits = |each: &Finding| {
                each.diagnosis == broken.diagnosis && each.text.contains(broken.at)
            };
            if !report.findings.iter().any(fits) {
                let (name, wants) = (broken.name, broken.diagnosis);
                wrong.push(format!("== {name}, {timing}: {wants:?}\n{}", listed(&report.findings)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn correct_variants_of_emitted_kernels_are_clean_under_every_timing() {
    for variant in VARIANTS {
        variant.bound().check(variant.name);
    }
}

/// A box of 16 rows of 128 bytes is brought in by one map and taken out by another.
fn passed_on(swizzles: [Swizzle; 2], between: &str, timing: Timing) -> Vec<Finding> {
    let mut plain = Plain::new(&format!(
        "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
mov.b64 %rd2, from;\ncvta.param.u64 %rd3, %rd2;\nmov.b64 %rd4, to;\ncvta.param.u64 %rd5, %rd4;
mbarrier.init.shared::cta.b64 [shared_memory+3072], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory+3072], 2048;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [shared_memory], [%rd3, {{0, 0}}], [shared_memory+3072];
L1:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+3072], 0;\n@!%p2 bra L1;\n{between}
cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd5, {{0, 16}}], [shared_memory];
cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;"
    ));
    let maps = ".param .u64 data, .param .align 64 .b8 from[128], .param .align 64 .b8 to[128]";
    plain.text = plain.text.replace(".param .u64 data", maps);
    plain.timing = timing;
    for swizzle in swizzles {
        plain.launch.parameters.push(Parameter::Map(TensorMap {
            buffer: Buffer(0),
            offset: 0,
            element: Element::F32,
            sizes: vec![32, 32],
            strides: vec![128],
            box_sizes: vec![32, 16],
            swizzle,
        }));
    }
    plain.findings()
}

#[test]
fn boxes_that_leave_with_another_swizzle_are_found() {
    use Swizzle::{B128, None};
    for timing in TIMINGS {
        for swizzles in [[B128, None], [None, B128]] {
            let findings = passed_on(swizzles, "", timing);
            let fits = |each: &Finding| each.diagnosis == Diagnosis::SwizzleMismatch;
            assert!(findings.iter().any(fits), "{swizzles:?}, {timing}: {}", listed(&findings));
        }
        for swizzle in [B128, None] {
            assert_eq!(listed(&passed_on([swizzle; 2], "", timing)), "", "{swizzle:?}, {timing}");
        }
    }
}

#[test]
fn bytes_that_a_thread_wrote_leave_with_any_swizzle() {
    let mut stores = String::from("mov.b32 %r1, shared_memory;\n");
    stores.extend(
        (0..128).map(|at| format!("st.shared.v4.b32 [%r1+{}], {{1, 2, 3, 4}};\n", at * 16)),
    );
    stores.push_str("fence.proxy.async.shared::cta;");
    for timing in TIMINGS {
        let findings = passed_on([Swizzle::B128, Swizzle::None], &stores, timing);
        assert_eq!(listed(&findings), "", "{timing}");
    }
}

#[test]
fn a_buffer_that_is_written_in_part_is_told_and_an_output_is_a_finding() {
    let body = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 8;\nadd.u64 %rd2, %rd2, %rd0;
st.global.b32 [%rd2], %r0;\nret;";
    let mut plain = Plain::new(body);
    plain.buffer.truncate(256);
    let report = plain.try_run().expect("it runs");
    assert_eq!(report.findings, []);
    let unwritten: Vec<String> = report.unwritten.iter().map(ToString::to_string).collect();
    assert_eq!(unwritten, ["128 of 256 bytes were never written, the first is byte 4"]);
    // Every second word is an element.
    let output = |count: usize| Output {
        name: "x".to_owned(),
        buffer: 0,
        offset: 0,
        element: 4,
        shape: vec![count],
        strides: vec![8],
    };
    for (count, wanted) in [(32, 0), (31, 0), (0, 0)] {
        let report = plain.run_with(vec![output(count)]).expect("it runs");
        assert_eq!((report.findings.len(), report.unwritten.len()), (wanted, wanted), "{count}");
    }
    let whole = Output::whole("x".to_owned(), 0, 256);
    let report = plain.run_with(vec![whole]).expect("it runs");
    assert_eq!(report.findings[0].diagnosis, Diagnosis::OutputUnwritten);
    assert!(report.findings[0].message.starts_with("`x`: 128 of 256"), "{}", report.findings[0]);
}
