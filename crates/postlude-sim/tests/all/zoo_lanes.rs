//! The zoo of lanes: kernels in which lanes break the rules of common execution or of order, and similar kernels that
//! keep them. Each under every kind of timing.

use std::collections::BTreeMap;

use crate::bound::Bound;
use crate::broken::lanes::LANES;
use crate::broken::written::changed;
use crate::broken::{Base, Which, map, places};
use crate::plain::{Plain, TIMINGS, listed};
use postlude_corpus::pick;
use postlude_ptx::launch::{Swizzle, TensorMap};
use postlude_sim::{Diagnosis, Finding, Options, SimError, run};

#[test]
fn every_kernel_of_lanes_has_its_diagnosis_under_every_timing() {
    let mut wrong = Vec::new();
    for written in LANES {
        let body = changed(written.name, written.body, written.change);
        for timing in TIMINGS {
            let findings = Plain::launched(&body, written.launch, timing).findings();
            let fits = |finding: &Finding| {
                finding.diagnosis == written.diagnosis && finding.text.contains(written.at)
            };
            if !findings.iter().any(fits) {
                let (name, wants, told) = (written.name, written.diagnosis, listed(&findings));
                wrong.push(format!("== {name}, {timing:?}, wants {wants:?}\n{told}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} are missed\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn kernels_of_lanes_are_clean_as_they_should_be() {
    for written in LANES {
        for timing in TIMINGS {
            let findings = Plain::launched(written.body, written.launch, timing).findings();
            assert_eq!(listed(&findings), "", "{}, {timing:?}", written.name);
        }
    }
}

/// Kernels that are right although a simpler rule would refuse them: body, CTAs, CTAs of a cluster, threads.
#[rustfmt::skip]
const RIGHT: &[(&str, &str, [u32; 3])] = &[
    ("a guard that is the same in all lanes", "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 64;\nsetp.ge.u32 %p1, %r0, 64;
@%p0 bar.sync 0;\n@%p1 bar.sync 0;\n@%p0 shfl.sync.bfly.b32 %r1, %r0, 1, 31, 4294967295;\n@%p1 elect.sync _|%p2, 15;\nret;", [1, 1, 32]),
    ("lanes that part and meet", "mov.u32 %r0, %tid.x;\nmov.b32 %r1, 0;\nL1:\nsetp.ge.u32 %p0, %r1, %r0;\n@%p0 bra L2;\nadd.u32 %r1, %r1, 1;\nbra L1;\nL2:
shfl.sync.bfly.b32 %r2, %r1, 1, 31, 4294967295;\nbar.warp.sync 4294967295;\nret;", [1, 1, 32]),
    ("a shuffle in each half", "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 16;\nselp.b32 %r3, 65535, 4294901760, %p0;\nshfl.sync.bfly.b32 %r2, %r0, 1, 31, %r3;
@%p0 bra L1;\nshfl.sync.bfly.b32 %r2, %r0, 2, 31, 4294901760;\nL1:\nret;", [1, 1, 32]),
    ("lanes that ended are not members", "mov.u32 %r0, %tid.x;\nsetp.ge.u32 %p0, %r0, 16;\n@%p0 ret;\nshfl.sync.bfly.b32 %r2, %r0, 1, 31, 4294967295;\nbar.sync 0;\nret;", [1, 1, 32]),
    ("one elected lane writes and reads", "elect.sync _|%p0, 4294967295;\n@!%p0 bra L1;\nst.shared.b32 [shared_memory], 5;\nld.shared.b32 %r1, [shared_memory];\nst.global.b32 [%rd0], %r1;\nL1:\nret;", [1, 1, 32]),
    ("the elected lane fences for the lanes it met", "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r0;\nbar.warp.sync 4294967295;
elect.sync _|%p0, 4294967295;\n@!%p0 bra L1;\nfence.proxy.async.shared::cta;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 128;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nL1:\nret;", [1, 1, 32]),
    ("lanes that meet in pairs", "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r0;\nand.b32 %r4, %r0, 30;\nshl.b32 %r5, 3, %r4;\nbar.warp.sync %r5;
xor.b32 %r6, %r1, 4;\nadd.u32 %r6, %r6, %r2;\nld.shared.b32 %r7, [%r6];\nret;", [1, 1, 32]),
    ("lanes that meet at a barrier in shared memory", "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;\nmbarrier.init.shared::cta.b64 [shared_memory], 32;\nL1:\nbar.warp.sync 4294967295;
shl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory+128;\nadd.u32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r0;\nmbarrier.arrive.shared::cta.b64 _, [shared_memory];\nL2:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;\nxor.b32 %r4, %r1, 4;\nadd.u32 %r4, %r4, %r2;\nld.shared.b32 %r5, [%r4];\nret;", [1, 1, 32]),
    ("a chain of lanes that release and acquire", "mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p0, %r0, 0;\nsetp.eq.u32 %p1, %r0, 1;\n@!%p0 bra L1;\nst.global.b32 [%rd0], 9;\nst.release.gpu.global.u32 [%rd0+64], 1;\nL1:\n@!%p1 bra L3;\nL2:
ld.acquire.gpu.global.u32 %r1, [%rd0+64];\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra L2;\nld.global.b32 %r2, [%rd0];\nL3:\nret;", [1, 1, 32]),
    ("halves of a word by two lanes", "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 1;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;\nmov.b16 %h0, 3;\nst.shared.b16 [%r3], %h0;\nld.shared.b16 %h1, [%r3];\nret;", [1, 1, 32]),
    ("a register that the read lanes wrote", "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 16;\n@%p0 mov.b32 %r1, 1;\nselp.b32 %r2, %r1, 4, %p0;\n@%p0 add.u32 %r3, %r1, 1;\nxor.b32 %r9, %r9, %r9;\nret;", [1, 1, 32]),
    ("the own memory as the cluster's", "mov.u32 %r1, %cluster_ctarank;\nmov.u32 %r0, %tid.x;\nshl.b32 %r4, %r0, 2;\nmov.b32 %r2, shared_memory;\nmapa.shared::cluster.u32 %r3, %r2, %r1;\nadd.u32 %r3, %r3, %r4;\nst.shared::cluster.b32 [%r3], 4;\nld.shared.b32 %r5, [%r3];\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;", [2, 2, 32]),
    ("registers handed over by warpgroups apart", "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 128;\n@%p0 bra L1;\nsetmaxnreg.inc.sync.aligned.u32 232;\nret;\nL1:\nsetmaxnreg.dec.sync.aligned.u32 40;\nret;", [1, 1, 384]),
    ("registers handed back and forth in a loop", "mov.b32 %r1, 0;\nL1:\nsetmaxnreg.dec.sync.aligned.u32 40;\nbar.sync 0;\nsetmaxnreg.inc.sync.aligned.u32 128;\nbar.sync 0;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 3;\n@%p0 bra L1;\nret;", [2, 1, 256]),
    ("registers of fewer warps than a warpgroup has", "setmaxnreg.dec.sync.aligned.u32 24;\nbar.sync 0;\nsetmaxnreg.inc.sync.aligned.u32 240;\nret;", [1, 1, 96]),
    ("registers behind a guard that a warpgroup shares", "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 128;\n@%p0 setmaxnreg.dec.sync.aligned.u32 40;\n@!%p0 setmaxnreg.inc.sync.aligned.u32 232;\nret;", [1, 1, 256]),
    ("registers that warps ask for one after the other", "mov.u32 %r0, %tid.x;\nmov.b32 %r1, 0;\nL1:\nsetp.ge.u32 %p0, %r1, %r0;\n@%p0 bra L2;\nadd.u32 %r1, %r1, 32;\nbra L1;\nL2:\nsetmaxnreg.dec.sync.aligned.u32 64;\nret;", [1, 1, 128]),
    ("lanes with a barrier each of several warps", "mov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 5;\nbar.sync %r1, 32;\nret;", [1, 1, 96]),
];

#[test]
fn right_kernels_stay_clean_under_every_timing() {
    for (name, body, launch) in RIGHT {
        for timing in TIMINGS {
            let findings = Plain::launched(body, *launch, timing).findings();
            assert_eq!(listed(&findings), "", "{name}, {timing:?}");
        }
    }
}

/// What happens to an emitted kernel.
#[derive(Clone, Copy)]
enum Harm {
    /// Lines that match are executed by half of each warp.
    Half(Which),
    /// By the first lane.
    First(Which),
    /// By these warps of each warpgroup, a bit each.
    Warps(Which, u32),
    /// They are dropped.
    Drop(Which),
    /// They have another text.
    Replace(Which, &'static str, &'static str),
    /// The first, second or third operand behind the sums of a product differs between lanes.
    PerLane(Which, usize),
}

/// Declares one more register of a class; its name.
fn declare(lines: &mut [String], class: &str, prefix: &str) -> String {
    let start = format!(".reg {class} {prefix}<");
    let line = lines.iter_mut().find(|line| line.contains(&start)).expect("it has such");
    let (before, count) = line.split_once('<').expect("a count");
    let count: u32 = count.trim_end_matches(">;").parse().expect("a number");
    *line = format!("{before}<{}>;", count + 1);
    format!("{prefix}{count}")
}

/// A text after the harm.
fn harmed(text: &str, pattern: &str, harm: Harm) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let lane = declare(&mut lines, ".b32", "%r");
    let guard = declare(&mut lines, ".pred", "%p");
    let [wide, sum] = [0, 1].map(|_| declare(&mut lines, ".b64", "%rd"));
    let which = match harm {
        Harm::Half(which) | Harm::First(which) | Harm::Drop(which) => which,
        Harm::Replace(which, ..) | Harm::PerLane(which, _) | Harm::Warps(which, _) => which,
    };
    for place in places(&lines, which, pattern).into_iter().rev() {
        let line = lines[place].trim().to_owned();
        let lanes = format!("mov.u32 {lane}, %laneid;");
        lines[place] = match harm {
            Harm::Half(_) => format!("{lanes}\nsetp.lt.u32 {guard}, {lane}, 16;\n@{guard} {line}"),
            Harm::First(_) => format!("{lanes}\nsetp.eq.u32 {guard}, {lane}, 0;\n@{guard} {line}"),
            Harm::Warps(_, warps) => format!(
                "mov.u32 {lane}, %tid.x;\nshr.u32 {lane}, {lane}, 5;\nand.b32 {lane}, {lane}, 3;
shr.u32 {lane}, {warps}, {lane};\nand.b32 {lane}, {lane}, 1;\nsetp.ne.u32 {guard}, {lane}, 0;\n@{guard} {line}"
            ),
            Harm::Drop(_) => String::new(),
            Harm::Replace(_, from, to) => {
                assert!(line.contains(from), "`{from}` in {line}");
                line.replacen(from, to, 1)
            }
            Harm::PerLane(_, operand) => {
                let (sums, rest) = line.split_once("}, ").expect("a product");
                let mut rest: Vec<String> = rest.split(", ").map(str::to_owned).collect();
                let varied = if operand == 2 {
                    rest[2].clone_from(&guard);
                    format!("setp.lt.u32 {guard}, {lane}, 16;")
                } else {
                    let old = std::mem::replace(&mut rest[operand], sum.clone());
                    format!("cvt.u64.u32 {wide}, {lane};\nadd.u64 {sum}, {old}, {wide};")
                };
                format!("{lanes}\n{varied}\n{sums}}}, {}", rest.join(", "))
            }
        };
    }
    lines.join("\n") + "\n"
}

/// Emitted kernels: base, pattern, harm, diagnosis and what the blamed instruction contains.
#[rustfmt::skip]
const EMITTED: &[(Base, &str, Harm, Diagnosis, &str)] = &[
    (Base::Plain, "wgmma.mma_async", Harm::Half(Which::At(0)), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Plain, "wgmma.fence", Harm::Half(Which::At(0)), Diagnosis::Diverged, "wgmma.fence"),
    (Base::Plain, "wgmma.commit_group", Harm::Half(Which::At(0)), Diagnosis::Diverged, "wgmma.commit"),
    (Base::Plain, "wgmma.wait_group", Harm::Half(Which::Last), Diagnosis::Diverged, "wgmma.wait"),
    (Base::Plain, "stmatrix", Harm::Half(Which::At(0)), Diagnosis::Diverged, "stmatrix"),
    (Base::Residual, "ldmatrix", Harm::Half(Which::At(0)), Diagnosis::Diverged, "ldmatrix"),
    (Base::Plain, "setmaxnreg.inc", Harm::Half(Which::All), Diagnosis::Diverged, "setmaxnreg"),
    (Base::Plain, "setmaxnreg.dec", Harm::Half(Which::All), Diagnosis::Diverged, "setmaxnreg"),
    (Base::Plain, "setmaxnreg.inc", Harm::Warps(Which::All, 0b0111), Diagnosis::Diverged, "setmaxnreg.inc"),
    (Base::Plain, "setmaxnreg.inc", Harm::Warps(Which::All, 0b0001), Diagnosis::Diverged, "setmaxnreg.inc"),
    (Base::Plain, "setmaxnreg.dec", Harm::Warps(Which::All, 0b1110), Diagnosis::Diverged, "setmaxnreg.dec"),
    (Base::Cluster, "setmaxnreg.inc", Harm::Warps(Which::All, 0b1011), Diagnosis::Diverged, "setmaxnreg.inc"),
    (Base::Cluster, "setmaxnreg.dec", Harm::Warps(Which::All, 0b1101), Diagnosis::Diverged, "setmaxnreg.dec"),
    (Base::Residual, "setmaxnreg.dec", Harm::Warps(Which::All, 0b0001), Diagnosis::Diverged, "setmaxnreg.dec"),
    (Base::Wide, "setmaxnreg.inc", Harm::Warps(Which::All, 0b1000), Diagnosis::Diverged, "setmaxnreg.inc"),
    (Base::Cluster, "setmaxnreg.inc", Harm::Replace(Which::All, "232", "240"), Diagnosis::RegisterFile, "setmaxnreg.inc"),
    (Base::Plain, "bar.sync", Harm::Half(Which::At(0)), Diagnosis::Diverged, "bar.sync"),
    (Base::Columns, "bar.sync %r", Harm::Half(Which::At(0)), Diagnosis::Diverged, "bar.sync"),
    (Base::Plain, "shfl.sync", Harm::Half(Which::At(0)), Diagnosis::Diverged, "shfl"),
    (Base::Plain, "elect.sync", Harm::Half(Which::At(0)), Diagnosis::Diverged, "elect"),
    (Base::Plain, "elect.sync", Harm::Replace(Which::Last, "4294967295", "1"), Diagnosis::Diverged, "elect"),
    (Base::Plain, "bar.warp.sync", Harm::Replace(Which::Last, "4294967295", "65535"), Diagnosis::Diverged, "bar.warp"),
    (Base::Cluster, "barrier.cluster.arrive", Harm::Half(Which::At(0)), Diagnosis::Diverged, "barrier.cluster"),
    (Base::Plain, "wgmma.mma_async", Harm::PerLane(Which::At(0), 0), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Plain, "wgmma.mma_async", Harm::PerLane(Which::At(1), 1), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Plain, "wgmma.mma_async", Harm::PerLane(Which::At(1), 2), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Cluster, "wgmma.mma_async", Harm::PerLane(Which::Last, 0), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Wide, "wgmma.mma_async", Harm::PerLane(Which::Last, 1), Diagnosis::Diverged, "wgmma.mma"),
    (Base::Plain, "%tid.x", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, ""),
    (Base::Plain, "wgmma.mma_async", Harm::Replace(Which::At(0), ", 0, 1, 1, 0, 0;", ", 1, 1, 1, 0, 0;"), Diagnosis::UndefinedRegister, "wgmma.mma"),
    (Base::Plain, "cvt.rn.bf16x2.f32", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, "stmatrix"),
    (Base::Plain, "elect.sync", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, "bra"),
    (Base::Plain, "mbarrier.try_wait", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, "bra"),
    (Base::Plain, "mad.wide.u32", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, "wgmma.mma"),
    (Base::Plain, "mov.pred", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, ""),
    (Base::Plain, "shfl.sync", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, ""),
    (Base::Wide, "ld.param.u32", Harm::Drop(Which::At(0)), Diagnosis::UndefinedRegister, ""),
    (Base::Plain, "bar.warp.sync", Harm::Drop(Which::Last), Diagnosis::UnorderedLanes, "cp.async.bulk"),
    (Base::Plain, "bar.warp.sync", Harm::Replace(Which::Last, "bar.warp.sync 4294967295", "fence.acq_rel.cta"), Diagnosis::UnorderedLanes, "cp.async.bulk"),
    (Base::Wide, "bar.warp.sync", Harm::Drop(Which::Last), Diagnosis::UnorderedLanes, "cp.async.bulk"),
    (Base::TwoOutputs, "bar.warp.sync", Harm::Drop(Which::Last), Diagnosis::UnorderedLanes, "cp.async.bulk"),
    (Base::Residual, "bar.warp.sync", Harm::Drop(Which::Last), Diagnosis::UnorderedLanes, "cp.async.bulk"),
    (Base::Plain, "fence.proxy.async", Harm::First(Which::All), Diagnosis::MissingProxyFence, "cp.async.bulk"),
    (Base::Plain, "fence.proxy.async", Harm::Half(Which::All), Diagnosis::MissingProxyFence, "cp.async.bulk"),
    (Base::Wide, "fence.proxy.async", Harm::First(Which::All), Diagnosis::MissingProxyFence, "cp.async.bulk"),
    (Base::Columns, "fence.proxy.async", Harm::First(Which::All), Diagnosis::MissingProxyFence, "cp.async.bulk"),
    (Base::TwoOutputs, "fence.proxy.async", Harm::First(Which::Last), Diagnosis::MissingProxyFence, "cp.async.bulk"),
    (Base::Plain, "mbarrier.init", Harm::Replace(Which::At(0), ", 1;", ", 0;"), Diagnosis::Limit, "mbarrier.init"),
    (Base::Cluster, "mbarrier.init", Harm::Replace(Which::Last, ";", "000000;"), Diagnosis::Limit, "mbarrier.init"),
];

#[test]
fn every_emitted_kernel_with_broken_lanes_has_its_diagnosis_under_every_timing() {
    let mut wrong = Vec::new();
    let mut bounds: BTreeMap<Base, Bound> = BTreeMap::new();
    for (base, pattern, harm, diagnosis, at) in EMITTED {
        let bound = bounds.entry(*base).or_insert_with(|| base.bound());
        let text = harmed(&bound.text, pattern, *harm);
        let good = std::mem::replace(&mut bound.text, text);
        for timing in pick(&TIMINGS, &format!("{base:?} {pattern} {at}"), 2) {
            let (report, _) = bound.run(timing);
            let fits =
                |finding: &Finding| finding.diagnosis == *diagnosis && finding.text.contains(at);
            if !report.findings.iter().any(fits) {
                let told = listed(&report.findings);
                wrong.push(format!(
                    "== {base:?} {pattern}, {timing:?}, wants {diagnosis:?}\n{told}"
                ));
            }
        }
        bound.text = good;
    }
    assert!(wrong.is_empty(), "{} are missed\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_multicast_beyond_the_cluster_is_found() {
    let mut bound = Base::Cluster.bound();
    let good = bound.text.clone();
    for mask in [4_u32, 8, 0x8000, 0xfffc, 7] {
        let mut lines: Vec<String> = good.lines().map(str::to_owned).collect();
        let place = places(&lines, Which::At(0), "multicast::cluster")[0];
        let line = lines[place].trim_end_matches(';').to_owned();
        let (before, _) = line.rsplit_once(", ").expect("a mask");
        lines[place] = format!("{before}, {mask};");
        bound.text = lines.join("\n") + "\n";
        for timing in TIMINGS {
            let findings = bound.run(timing).0.findings;
            let found = findings.iter().any(|each| each.diagnosis == Diagnosis::Limit);
            assert!(found, "{mask:#x}, {timing:?}\n{}", listed(&findings));
        }
    }
}

/// What a launch is refused with after a change.
fn refused(base: Base, change: impl FnOnce(&mut Bound)) -> SimError {
    let mut bound = base.bound();
    change(&mut bound);
    let result = run(&bound.text, &bound.launch, &mut bound.buffers, &Options::default());
    result.expect_err("it is refused")
}

#[test]
fn tensor_maps_beyond_their_limits_are_refused_by_name() {
    let wrong = |change: fn(&mut TensorMap)| {
        let error = refused(Base::Plain, |bound| change(map(bound, 0)));
        assert!(matches!(error, SimError::TensorMap { .. }), "{error}");
        error.to_string()
    };
    assert!(wrong(|map| map.box_sizes[0] *= 2).contains("span of its swizzle"));
    assert!(wrong(|map| map.swizzle = Swizzle::B64).contains("span of its swizzle"));
    assert!(wrong(|map| map.swizzle = Swizzle::B32).contains("span of its swizzle"));
    assert!(wrong(|map| map.box_sizes[1] = 257).contains("256 elements"));
    assert!(wrong(|map| map.box_sizes[1] = 0).contains("256 elements"));
    assert!(wrong(|map| map.box_sizes[0] = 4).contains("multiples of 16 bytes"));
    assert!(wrong(|map| map.offset = 8).contains("multiple of 16 bytes"));
    assert!(wrong(|map| map.strides[0] += 2).contains("multiples of 16 bytes"));
}

#[test]
fn more_shared_memory_than_the_chip_has_is_refused() {
    let error = refused(Base::Plain, |bound| bound.launch.shared_bytes = 232_449);
    assert_eq!(error, SimError::SharedMemory { asked: 232_449, most: 232_448 });
    for bytes in [1 << 18, 1 << 20, u32::MAX] {
        let error = refused(Base::Wide, |bound| bound.launch.shared_bytes = bytes);
        assert!(matches!(error, SimError::SharedMemory { .. }), "{error}");
    }
    let mut plain = Plain::new("ret;");
    plain.text = plain.text.replace(".visible", ".shared .align 4 .b8 fixed[49156];\n.visible");
    let error = plain.try_run().expect_err("it is refused");
    assert_eq!(error, SimError::SharedMemory { asked: 49_156, most: 49_152 });
    let mut plain = Plain::new("ret;");
    plain.launch.shared_bytes = 232_448;
    assert!(plain.try_run().is_ok(), "all that there is");
}
