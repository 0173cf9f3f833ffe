//! What single instructions do, in small kernels written by hand.

use crate::plain::Plain;
use postlude_ptx::launch::{Buffer, Element, Parameter, Swizzle, TensorMap};
use postlude_sim::{SimError, Timing};

const TIMINGS: [Timing; 4] =
    [Timing::Eager, Timing::Lazy, Timing::Random { seed: 1 }, Timing::Random { seed: 2 }];

/// `%r0` is the thread, `%rd2` the address of its word in the buffer.
const OWN: &str = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 4;\nadd.u64 %rd2, %rd2, %rd0;\n";

fn words(body: &str) -> Vec<u32> {
    Plain::new(&format!("{OWN}{body}\nret;")).words()
}

#[test]
fn lanes_that_leave_a_loop_one_by_one_meet_again() {
    let all = words(
        "mov.u32 %r1, 0;\nL1:\nadd.u32 %r1, %r1, 1;\nsetp.le.u32 %p0, %r1, %r0;\n@%p0 bra L1;
shfl.sync.idx.b32 %r2, %r1, 31, 31, 4294967295;\nadd.u32 %r1, %r1, %r2;
st.global.b32 [%rd2], %r1;",
    );
    let want: Vec<u32> = (0..32).map(|lane| lane + 1 + 32).collect();
    assert_eq!(all[..32], want);
}

#[test]
fn lanes_of_a_warp_may_wait_for_each_other() {
    let body = "setp.eq.u32 %p0, %r0, 5;
@%p0 bra L2;\nL1:\nld.relaxed.gpu.global.u32 %r1, [%rd0+1024];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra L1;\nbra L3;
L2:\nst.relaxed.gpu.global.u32 [%rd0+1024], 9;\nmov.u32 %r1, 1;\nL3:\nst.global.b32 [%rd2], %r1;";
    for timing in TIMINGS {
        let mut plain = Plain::new(&format!("{OWN}{body}\nret;"));
        plain.timing = timing;
        let all = plain.words();
        assert_eq!((all[0], all[5], all[31]), (9, 1, 9), "{timing:?}");
    }
}

#[test]
fn lanes_tell_each_other() {
    let all = words(
        "setp.lt.u32 %p0, %r0, 3;\nvote.sync.ballot.b32 %r1, %p0, 4294967295;\npopc.b32 %r2, %r1;
elect.sync _|%p1, 4294967295;\nselp.b32 %r3, 100, 0, %p1;\nadd.u32 %r2, %r2, %r3;
vote.sync.any.pred %p2, %p0, 4294967295;\n@%p2 add.u32 %r2, %r2, 1000;
st.global.b32 [%rd2], %r2;",
    );
    assert_eq!((all[0], all[1]), (1103, 1003));
}

#[test]
fn the_last_cta_sees_what_all_wrote() {
    for timing in TIMINGS {
        // Every CTA adds its threads' numbers; the one that arrives last writes the sum.
        let mut plain = Plain::new(&format!(
            "{OWN}red.relaxed.gpu.global.add.u32 [%rd0+64], %r0;\nbar.sync 0;
setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nfence.acq_rel.gpu;
atom.relaxed.gpu.global.inc.u32 %r1, [%rd0+128], 3;\nsetp.ne.u32 %p1, %r1, 3;\n@%p1 ret;
fence.acq_rel.gpu;\nld.acquire.gpu.global.u32 %r2, [%rd0+64];\nst.global.b32 [%rd0+256], %r2;\nret;"
        ));
        plain.timing = timing;
        plain.launch.grid = [4, 1, 1];
        plain.launch.threads = 64;
        let all = plain.words();
        assert_eq!((all[64], all[32]), (4 * 63 * 32, 0), "{timing:?}");
    }
}

#[test]
fn ctas_of_a_cluster_write_each_others_memory() {
    for timing in TIMINGS {
        let mut plain = Plain::new(&format!(
            "{OWN}mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nmov.b32 %r3, shared_memory;
mapa.shared::cluster.u32 %r4, %r3, %r2;\nshl.b32 %r5, %r0, 2;\nadd.u32 %r4, %r4, %r5;
mad.lo.u32 %r6, %r1, 100, %r0;\nst.shared::cluster.b32 [%r4], %r6;
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
add.u32 %r3, %r3, %r5;\nld.shared.b32 %r7, [%r3];\nmul.wide.u32 %rd3, %r1, 128;
add.u64 %rd2, %rd2, %rd3;\nst.global.b32 [%rd2], %r7;\nret;"
        ));
        plain.timing = timing;
        plain.launch.grid = [2, 1, 1];
        plain.launch.cluster = [2, 1, 1];
        let all = plain.words();
        assert_eq!((all[3], all[32 + 3]), (103, 3), "{timing:?}");
    }
}

#[test]
fn matrices_go_to_shared_memory_and_back() {
    for (transposed, want) in [("", 5), (".trans", 40)] {
        // Element (r, c) of the 8x8 matrix is 8 r + c; lane 2 holds (0, 4) and (0, 5), transposed (4, 0) and (5, 0).
        let all = words(&format!(
            "shr.u32 %r1, %r0, 2;\nand.b32 %r2, %r0, 3;\nshl.b32 %r3, %r1, 3;\nmad.lo.u32 %r3, %r2, 2, %r3;
add.u32 %r4, %r3, 1;\nshl.b32 %r4, %r4, 16;\nor.b32 %r3, %r3, %r4;
and.b32 %r5, %r0, 7;\nshl.b32 %r5, %r5, 4;\nmov.b32 %r6, shared_memory;\nadd.u32 %r5, %r5, %r6;
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {{%r3}};\nbar.warp.sync 4294967295;
ldmatrix.sync.aligned.m8n8.x1{transposed}.shared.b16 {{%r7}}, [%r5];
shr.u32 %r7, %r7, 16;\nst.global.b32 [%rd2], %r7;"
        ));
        assert_eq!(all[2], want, "{transposed}");
    }
}

#[test]
fn small_copies_arrive_by_their_wait() {
    for timing in TIMINGS {
        let mut plain = Plain::new(&format!(
            "{OWN}shl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r2, %r2, %r1;
mul.wide.u32 %rd3, %r0, 16;\nadd.u64 %rd3, %rd3, %rd0;
cp.async.cg.shared.global [%r2], [%rd3], 16, 8;\ncp.async.commit_group;\ncp.async.wait_group 0;
ld.shared.v4.b32 {{%r3, %r4, %r5, %r6}}, [%r2];\nadd.u32 %r3, %r4, %r6;
add.u64 %rd2, %rd2, 2048;\nst.global.b32 [%rd2], %r3;\nret;"
        ));
        plain.timing = timing;
        for (place, byte) in plain.buffer.iter_mut().enumerate().take(512) {
            *byte = if place % 4 == 0 { (place / 16) as u8 } else { 0 };
        }
        assert_eq!(plain.words()[512 + 7], 7, "{timing:?}: the upper half is zeros");
    }
}

#[test]
fn bulk_copies_go_both_ways() {
    for timing in TIMINGS {
        let mut plain = Plain::new(
            "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
mbarrier.init.shared::cta.b64 [shared_memory+1024], 1;\nfence.proxy.async.shared::cta;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory+1024], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shared_memory], [%rd0], 256, [shared_memory+1024];
L1:\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [shared_memory+1024], 0;\n@!%p1 bra L1;
ld.shared.b32 %r1, [shared_memory+4];\nadd.u32 %r1, %r1, 1;\nst.shared.b32 [shared_memory+4], %r1;
fence.proxy.async.shared::cta;\nadd.u64 %rd2, %rd0, 512;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [shared_memory], 256;
cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;",
        );
        plain.timing = timing;
        plain.buffer[4] = 41;
        plain.buffer[252] = 7;
        let all = plain.words();
        assert_eq!((all[128 + 1], all[128 + 63]), (42, 7), "{timing:?}");
    }
}

#[test]
fn a_warps_product_is_right() {
    // A is the identity over 16 rows, B(k, n) = k + n; C is 100.
    let all = words(
        "shr.u32 %r1, %r0, 2;\nand.b32 %r2, %r0, 3;\nmov.b32 %r10, 0;\nmov.b32 %r11, 0;
shl.b32 %r3, %r2, 1;\nsetp.eq.u32 %p0, %r3, %r1;\n@%p0 mov.b32 %r10, 15360;
add.u32 %r4, %r3, 1;\nsetp.eq.u32 %p0, %r4, %r1;\n@%p0 mov.b32 %r10, 1006632960;
mov.b32 %r12, %r10;\nadd.u32 %r5, %r3, %r1;\ncvt.rn.f32.u32 %f0, %r5;\nadd.rn.f32 %f1, %f0, 0f3F800000;
cvt.rn.f16x2.f32 %r20, %f1, %f0;\nadd.rn.f32 %f0, %f0, 0f41000000;\nadd.rn.f32 %f1, %f1, 0f41000000;
cvt.rn.f16x2.f32 %r21, %f1, %f0;\nmov.f32 %f2, 0f42C80000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r11, %r12}, {%r20, %r21}, {%f2, %f2, %f2, %f2};
cvt.rni.s32.f32 %r6, %f5;\ncvt.rni.s32.f32 %r7, %f6;\nmad.lo.u32 %r6, %r7, 1000, %r6;\nst.global.b32 [%rd2], %r6;",
    );
    for (lane, got) in all.iter().enumerate().take(32) {
        let (row, column) = (lane / 4, lane % 4 * 2);
        let want = 100 + row + column + 1 + 1000 * (100 + row + 8 + column);
        assert_eq!(*got as usize, want, "lane {lane}");
    }
}

#[test]
fn atomics_return_what_was_there() {
    let all = words(
        "st.shared.b32 [shared_memory], 5;
bar.sync 0;\natom.shared::cta.max.u32 %r1, [shared_memory], %r0;\nbar.sync 0;
ld.shared.b32 %r1, [shared_memory];\natom.acq_rel.gpu.global.cas.b32 %r2, [%rd2], 0, %r0;
atom.relaxed.gpu.global.exch.b32 %r3, [%rd2], 7;\nadd.u32 %r3, %r3, %r1;\nst.release.gpu.global.b32 [%rd2], %r3;",
    );
    assert_eq!((all[0], all[9]), (31, 31 + 9));
}

#[test]
fn bits_and_bytes_are_chosen() {
    let all = words(
        "mov.b32 %r1, 858927408;\nprmt.b32 %r2, %r1, %r0, 17185;\nlop3.b32 %r3, %r1, %r0, %r2, 150;
xor.b32 %r4, %r1, %r0;\nxor.b32 %r4, %r4, %r2;\nsub.u32 %r3, %r3, %r4;\nmov.b32 {%h0, %h1}, %r2;
mov.b32 %r5, {%h1, %h0};\nadd.u32 %r5, %r5, %r3;\nst.global.b32 [%rd2], %r5;",
    );
    // 0x33323130 and the lane: bytes 1, 2, 3 and the lane's first, then the halves exchanged.
    assert_eq!(all[4], 0x0433_3231_u32.rotate_left(16));
}

#[test]
fn warps_arrive_without_waiting_and_ask_without_patience() {
    let body = "setp.ge.u32 %p0, %r0, 32;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 32;\nL1:\nbar.sync 0;\n@%p0 bra L3;
L2:\nnanosleep.u32 20;\nmbarrier.test_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;
bar.sync 3, 64;\nld.shared.b32 %r1, [shared_memory+64];\nst.global.b32 [%rd2], %r1;\nret;
L3:\nst.shared.b32 [shared_memory+64], 77;\nmbarrier.arrive.shared::cta.b64 _, [shared_memory];
bar.arrive 3, 64;\nret;";
    for timing in TIMINGS {
        let mut plain = Plain::new(&format!("{OWN}{body}"));
        plain.launch.threads = 64;
        plain.timing = timing;
        assert_eq!(plain.words()[..32], [77; 32], "{timing:?}");
    }
}

#[test]
fn boxes_are_added_to_what_is_there() {
    for timing in TIMINGS {
        let mut plain = Plain::new(
            "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;
add.u32 %r1, %r1, %r2;\nst.shared.b32 [%r1], %r0;\nfence.proxy.async.shared::cta;\nbar.sync 0;
setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nmov.b64 %rd2, map;\ncvta.param.u64 %rd3, %rd2;
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd3, {12, 1}], [shared_memory];
cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\ncp.async.bulk.wait_group 0;\nret;",
        );
        let declared = ".param .u64 data, .param .align 64 .b8 map[128]";
        plain.text = plain.text.replace(".param .u64 data", declared);
        plain.launch.parameters.push(Parameter::Map(TensorMap {
            buffer: Buffer(0),
            offset: 0,
            element: Element::I32,
            sizes: vec![16, 3],
            strides: vec![64],
            box_sizes: vec![8, 4],
            swizzle: Swizzle::None,
        }));
        plain.timing = timing;
        plain.buffer[112] = 100;
        // Row r and column c of the box hold 8 r + c; its last four columns and its last two rows are outside.
        let all = plain.words();
        assert_eq!(all[28..32], [100, 1, 2, 3], "{timing:?}");
        assert_eq!((all[44], all[47], all[48], all[24]), (8, 11, 0, 0), "{timing:?}");
    }
}

#[test]
fn bad_texts_are_refused_with_their_line() {
    let error = |body: &str| Plain::new(body).try_run().unwrap_err();
    let unknown = error("ret;\nfrobnicate.b32 %r0;");
    assert!(matches!(unknown, SimError::Unknown { line: 16, .. }), "{unknown}");
    assert!(matches!(error("bra L9;"), SimError::Unknown { .. }));
    assert!(matches!(error("mov.u32 %r99, 1;"), SimError::Unknown { .. }));
    assert!(matches!(error("mul.wide.u64 %rd2, %rd0, 1;"), SimError::Unsupported { .. }));
    assert!(matches!(error("trap;"), SimError::Trap { cta: 0, warp: 0, .. }));
    assert!(matches!(error("L1:\nbra L1;"), SimError::Budget { .. }));
}
