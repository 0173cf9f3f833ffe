//! Programs with one thing wrong, and what is said of each.

use crate::bound::{Bound, epilogue, tile};
use crate::plain::Plain;
use postlude::DType;
use postlude_ptx::launch::{Buffer, Element, Parameter, Swizzle, TensorMap};
use postlude_sim::{Diagnosis, Finding, Timing};

/// Two tiles of a plain product, twice as deep as its ring.
fn product() -> Bound {
    Bound::new(&epilogue("plain", DType::BF16), [1, 128, 256, 512], tile(128, 128, 1), 1)
}

/// What is found when a line that contains `from` has `to` instead, in every such line.
fn found(mut bound: Bound, from: &str, to: &str, timing: Timing) -> Vec<Finding> {
    assert!(bound.text.contains(from), "no `{from}`");
    bound.text = bound.text.replace(from, to);
    bound.run(timing).0.findings
}

fn has(findings: &[Finding], diagnosis: Diagnosis) {
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    let any = findings.iter().any(|finding| finding.diagnosis == diagnosis);
    assert!(any, "no {diagnosis:?} among: {}", told.join("\n"));
}

#[test]
fn a_good_kernel_has_no_findings() {
    product().check("plain");
}

#[test]
fn an_output_that_is_too_small_is_out_of_bounds() {
    let mut bound = product();
    bound.buffers.last_mut().expect("an output").truncate(1000);
    let findings = found(bound, "ret", "ret", Timing::Eager);
    has(&findings, Diagnosis::OutOfBounds);
    assert!(findings[0].message.contains("which has 1000"), "{}", findings[0]);
}

#[test]
fn shared_memory_beyond_the_launch_is_found() {
    let mut bound = product();
    bound.launch.shared_bytes -= 8;
    has(&found(bound, "ret", "ret", Timing::Eager), Diagnosis::SharedBeyond);
}

#[test]
fn accumulators_are_not_to_be_touched_before_the_wait() {
    for timing in [Timing::Eager, Timing::Lazy] {
        let removed = "fence.proxy.async.shared::cta;";
        let findings = found(product(), "wgmma.wait_group.sync.aligned 0;", removed, timing);
        has(&findings, Diagnosis::AccumulatorTouched);
    }
}

#[test]
fn a_slot_that_nobody_releases_is_a_deadlock_that_names_its_barrier() {
    let mut bound = product();
    let lines = bound.text.lines().filter(|line| !line.contains("mbarrier.arrive.shared"));
    bound.text = lines.collect::<Vec<_>>().join("\n");
    for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 5 }] {
        let (report, _) = bound.run(timing);
        assert!(!report.finished);
        has(&report.findings, Diagnosis::ArrivalUnderflow);
        let message = &report.findings[0].message;
        assert!(message.contains("CTA 0 warp 0, line"), "{message}");
        assert!(message.contains("in phase 0, 0 of 2 arrivals"), "{message}");
    }
}

#[test]
fn named_barriers_must_agree_about_their_threads() {
    let mut plain = Plain::new(
        "mov.u32 %r0, %tid.x;\nshr.u32 %r0, %r0, 5;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra L1;
bar.sync 1, 96;\nret;\nL1:\nbar.sync 1, 64;\nret;",
    );
    plain.launch.threads = 64;
    has(&plain.findings(), Diagnosis::BarrierCount);
}

#[test]
fn more_registers_than_there_are_is_found() {
    let findings = found(
        product(),
        "setmaxnreg.inc.sync.aligned.u32 232;",
        "setmaxnreg.inc.sync.aligned.u32 256;",
        Timing::Eager,
    );
    has(&findings, Diagnosis::RegisterFile);
}

#[test]
fn registers_that_no_warp_gives_back_are_a_deadlock_that_counts_them() {
    // 512 threads start with 128 registers each, which is all of them.
    let body = "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 384;\n@%p0 bra L1;
setmaxnreg.inc.sync.aligned.u32 160;\nL1:\nret;";
    for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: 5 }] {
        let mut plain = Plain::new(body);
        (plain.launch.threads, plain.timing) = (512, timing);
        let findings = plain.findings();
        has(&findings, Diagnosis::RegisterFile);
        let message = &findings[0].message;
        let wanted = "deadlock: 4 warps of CTA 0 wait for 4096 registers, 0 are free";
        assert!(message.starts_with(wanted), "{message}");
    }
}

#[test]
fn copies_that_nobody_waits_for_are_found_at_the_end() {
    let mut bound = product();
    let lines = bound.text.lines().filter(|line| !line.contains("cp.async.bulk.wait_group"));
    bound.text = lines.collect::<Vec<_>>().join("\n");
    has(&bound.run(Timing::Lazy).0.findings, Diagnosis::UnfinishedCopy);
}

#[test]
fn an_overwritten_slot_shows_in_the_result_when_copies_are_lazy() {
    let mut bound = product();
    let lines = bound.text.lines().filter(|line| !line.contains("cp.async.bulk.wait_group.read 1"));
    bound.text = lines.collect::<Vec<_>>().join("\n");
    let (_, eager) = bound.run(Timing::Eager);
    let (_, lazy) = bound.run(Timing::Lazy);
    assert!(eager.is_none() && lazy.is_some(), "{eager:?} {lazy:?}");
}

#[test]
fn shared_memory_that_nobody_wrote_is_found() {
    let findings = Plain::new("ld.shared.b32 %r0, [shared_memory+16];").findings();
    has(&findings, Diagnosis::UninitialisedRead);
    assert_eq!(findings[0].region.as_deref(), Some("numbers"));
    let findings =
        Plain::new("st.shared.b32 [shared_memory+16], 1;\nld.shared.b32 %r0, [shared_memory+16];");
    assert_eq!(findings.findings(), []);
}

#[test]
fn misaligned_addresses_are_found() {
    has(&Plain::new("st.shared.b32 [shared_memory+2], 1;").findings(), Diagnosis::Misaligned);
    has(&Plain::new("st.global.b32 [%rd0+2], 1;").findings(), Diagnosis::Misaligned);
}

#[test]
fn barriers_are_watched() {
    let made = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 1;\n";
    let with = |rest: &str| Plain::new(&format!("{made}{rest}\nL1:\nret;")).findings();
    assert_eq!(with("mbarrier.arrive.shared::cta.b64 _, [shared_memory];"), []);
    has(&with("mbarrier.arrive.shared::cta.b64 _, [shared_memory+8];"), Diagnosis::NoBarrier);
    has(
        &with("mbarrier.arrive.shared::cta.b64 _, [shared_memory], 2;"),
        Diagnosis::ArrivalOverflow,
    );
    has(
        &with("mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory], 64;"),
        Diagnosis::TransactionMismatch,
    );
    let wait = "mbarrier.try_wait.parity.shared::cta.b64 %p0, [shared_memory], 0;";
    has(&with(&format!("L2:\n{wait}\n@!%p0 bra L2;")), Diagnosis::ArrivalUnderflow);
}

/// A box of 8 elements, stored from this element on of a tensor of this size.
fn stored_box(first: i32, size: u64) -> Vec<Finding> {
    let mut plain = Plain::new(&format!(
        "mov.u32 %r0, %tid.x;\nst.shared.b32 [shared_memory], 7;\nsetp.ne.u32 %p0, %r0, 0;
@%p0 bra L1;\nmov.b64 %rd2, map;\ncvta.param.u64 %rd3, %rd2;
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd3, {{{first}}}], [shared_memory];
cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nL1:\nret;",
    ));
    plain.text =
        plain.text.replace(".param .u64 data", ".param .u64 data, .param .align 64 .b8 map[128]");
    plain.launch.parameters.push(Parameter::Map(TensorMap {
        buffer: Buffer(0),
        offset: 0,
        element: Element::F32,
        sizes: vec![size],
        strides: Vec::new(),
        box_sizes: vec![8],
        swizzle: Swizzle::None,
    }));
    plain.findings()
}

#[test]
fn a_store_that_writes_whole_chunks_beyond_a_row_is_found() {
    has(&stored_box(0, 6), Diagnosis::BeyondRow);
}

#[test]
fn a_store_that_begins_before_its_tensor_is_found() {
    has(&stored_box(-4, 8), Diagnosis::Limit);
    has(&stored_box(-64, 8), Diagnosis::Limit);
    assert!(stored_box(8, 8).iter().all(|finding| finding.diagnosis != Diagnosis::Limit));
}
