//! Small kernels written by hand in which lanes of a warp do not do what they must, one thing wrong in each.

use postlude_sim::Diagnosis;

use super::written::{Written, written};

/// Lanes exchange words of shared memory.
const EXCHANGE: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;
mov.b32 %r8, 4294967295;\nsetp.lt.u32 %p1, %r0, 16;
st.shared.b32 [%r3], %r0;\nbar.warp.sync %r8;
xor.b32 %r4, %r1, 64;\nadd.u32 %r4, %r4, %r2;\nld.shared.b32 %r5, [%r4];
bar.warp.sync 4294967295; // again
st.shared.b32 [%r3], %r5;\nret;";

/// The same through global memory.
const GLOBAL_EXCHANGE: &str = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %rd2, %r0, 4;\nadd.u64 %rd2, %rd2, %rd0;
st.global.b32 [%rd2], %r0;\nbar.warp.sync 4294967295;
xor.b32 %r1, %r0, 1;\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd3, %rd3, %rd0;\nld.global.b32 %r5, [%rd3];\nret;";

/// Lanes fill 128 bytes, and the first copies them out.
const COPY_OUT: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;
setp.ne.u32 %p0, %r0, 0;\nst.shared.b32 [%r3], %r0;
fence.proxy.async.shared::cta;\nbar.warp.sync 4294967295;
@%p0 bra L1;\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 128;
cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nL1:
bar.warp.sync 4294967295; // read
st.shared.b32 [%r3], %r1;
@%p0 ret;\ncp.async.bulk.wait_group 0;\nret;";

/// Lanes of the first warp write, one of them tells the second warp, which reads; it is told when that is done.
const HANDOVER: &str = "mov.u32 %r0, %tid.x;\nmov.u32 %r8, %laneid;\nshl.b32 %r1, %r8, 2;\nmov.b32 %r2, shared_memory+128;\nadd.u32 %r3, %r1, %r2;
setp.ne.u32 %p0, %r0, 0;\nsetp.ne.u32 %p3, %r8, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 1;\nmbarrier.init.shared::cta.b64 [shared_memory+8], 1;\nL1:\nbar.sync 0;
setp.ge.u32 %p1, %r0, 32;\n@%p1 bra L2;
st.shared.b32 [%r3], %r0;\nbar.warp.sync 4294967295; // written
@%p3 bra L5;\nmbarrier.arrive.shared::cta.b64 _, [shared_memory];
L3:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+8], 0;\n@!%p2 bra L3;
L5:\nbar.warp.sync 4294967295; // waited
st.shared.b32 [%r3], %r1;\nret;\nL2:
@%p3 bra L4;\nL6:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L6;
L4:\nbar.warp.sync 4294967295; // full
xor.b32 %r4, %r1, 4;\nadd.u32 %r4, %r4, %r2;\nld.shared.b32 %r5, [%r4];
bar.warp.sync 4294967295; // read
@%p3 ret;\nmbarrier.arrive.shared::cta.b64 _, [shared_memory+8];\nret;";

/// Lanes of two CTAs write a row each; the CTA that comes last reads both.
const REDUCTION: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\nmov.b32 %r3, 0;
mov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, 32, %r0;\nmul.wide.u32 %rd2, %r2, 4;\nadd.u64 %rd2, %rd2, %rd0;
st.global.b32 [%rd2], %r2;\nbar.warp.sync 4294967295; // written
@%p0 bra L1;\nfence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %r3, [%rd0+1024], 1;\nfence.acq_rel.gpu;\nL1:
bar.warp.sync 4294967295; // counted
shfl.sync.idx.b32 %r3, %r3, 0, 31, 4294967295;\nsetp.ne.u32 %p1, %r3, 1;\n@%p1 ret;
xor.b32 %r4, %r0, 3;\nmul.wide.u32 %rd3, %r4, 4;\nadd.u64 %rd3, %rd3, %rd0;
ld.global.b32 %r5, [%rd3];\nld.global.b32 %r6, [%rd3+128];\nadd.u32 %r5, %r5, %r6;
bar.warp.sync 4294967295;\nst.global.b32 [%rd2+2048], %r5;\nret;";

/// What lanes do together: an election, a vote, a shuffle, matrices, barriers.
const TOGETHER: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r3, %r1, %r2;
setp.lt.u32 %p0, %r0, 16;\nsetp.lt.u32 %p5, %r0, 64;\nmov.b32 %r9, 4294967295;\nmov.b32 %r10, 0;\nmov.b32 %r11, 32;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r0, %r0, %r0, %r0};
bar.warp.sync %r9;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];
elect.sync _|%p1, %r9;\nvote.sync.any.pred %p2, %p0, %r9;\nvote.sync.ballot.b32 %r12, %p0, %r9;
shfl.sync.bfly.b32 %r8, %r0, 16, 31, %r9;
bar.sync %r10, %r11;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
@%p1 mbarrier.init.shared::cta.b64 [shared_memory+1024], 1;
L7:\nst.global.b32 [%rd0], 7;\nret;";

/// Registers of all kinds.
const REGISTERS: &str = "mov.u32 %r0, %tid.x;\nsetp.lt.u32 %p0, %r0, 16;\nmov.b32 %r1, 5;\nmov.b32 %r2, 7;
@%p0 mov.b32 %r3, 1;\n@!%p0 mov.b32 %r3, 2;\nadd.u32 %r4, %r3, %r1;\nselp.b32 %r5, %r1, %r2, %p0;
mov.b64 %rd4, {%r4, %r5};\nmov.b64 {%r6, %r7}, %rd4;\nmul.wide.u32 %rd5, %r0, 4;\nadd.u64 %rd5, %rd5, %rd0;
mov.b32 %f0, 0f3F800000;\nfma.rn.f32 %f1, %f0, %f0, %f0;\ncvt.rn.bf16x2.f32 %r8, %f1, %f0;\nadd.u32 %r6, %r6, %r8;
@%p0 bra L1;\nmov.b32 %r9, 3;\nbra L2;\nL1:\nmov.b32 %r9, 4;\nL2:\nadd.u32 %r6, %r6, %r9;\nadd.u32 %r6, %r6, %r7;
st.global.b32 [%rd5], %r6;\nret;";

/// CTAs of a cluster use each other's memory.
const NEIGHBOURS: &str = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;
mov.b32 %r3, shared_memory;\nmapa.shared::cluster.u32 %r4, %r3, %r2;\nmov.b32 %r10, %r4;\nmov.b32 %r11, %r3;\nshl.b32 %r5, %r0, 4;\nadd.u32 %r4, %r4, %r5;
add.u32 %r3, %r3, %r5;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;\nmbarrier.init.shared::cta.b64 [shared_memory+2048], 1;\nL1:
st.shared.v4.b32 [%r3+1024], {%r0, %r0, %r0, %r0};
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
st.shared::cluster.b32 [%r4], %r0;\nld.shared::cluster.b32 %r6, [%r4+1024];
@%p0 bra L2;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r10+2048];\nL2:
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
mov.b32 %r20, 0;\nst.shared.b32 [%r11+2560], 0;\nbar.warp.sync 4294967295;\natom.shared::cta.add.u32 %r21, [%r11+2560], 1;\nbar.warp.sync 4294967295;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r22}, [%r3+1024];
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r11+2048], 0;
ld.shared.b32 %r7, [%r3];
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;";

/// A warpgroup gives registers back, meets, and asks for some again.
const RESIZED: &str =
    "mov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 5;\nsetp.eq.u32 %p0, %r1, 3;\nsetp.eq.u32 %p1, %r1, 0;
setmaxnreg.dec.sync.aligned.u32 104;\nbar.sync 0;\nsetmaxnreg.inc.sync.aligned.u32 168;\nL9:\nret;";

/// One warpgroup gives registers to two others.
const HANDED: &str = "mov.u32 %r0, %tid.x;\nshr.u32 %r1, %r0, 5;\nsetp.lt.u32 %p0, %r1, 4;\nsetp.ne.u32 %p1, %r1, 2;\nsetp.ne.u32 %p2, %r1, 9;
@%p0 bra L1;\nsetmaxnreg.inc.sync.aligned.u32 232;\nbar.sync 1, 256;\nret;\nL1:\nsetmaxnreg.dec.sync.aligned.u32 40;\nret;";

const ONE: [u32; 3] = [1, 1, 32];
const GROUP: [u32; 3] = [1, 1, 128];
const THREE_GROUPS: [u32; 3] = [1, 1, 384];
const TWO: [u32; 3] = [1, 1, 64];
const WARP_SYNC: &str = "bar.warp.sync 4294967295;";

const fn diverged(name: &'static str, change: [&'static str; 2], at: &'static str) -> Written {
    written(name, TOGETHER, ONE, change, Diagnosis::Diverged, at)
}

const fn undefined(name: &'static str, change: [&'static str; 2], at: &'static str) -> Written {
    written(name, REGISTERS, ONE, change, Diagnosis::UndefinedRegister, at)
}

const fn lanes(
    name: &'static str,
    body: &'static str,
    launch: [u32; 3],
    change: [&'static str; 2],
    at: &'static str,
) -> Written {
    written(name, body, launch, change, Diagnosis::UnorderedLanes, at)
}

const fn resized(name: &'static str, change: [&'static str; 2]) -> Written {
    written(name, RESIZED, GROUP, change, Diagnosis::Diverged, "setmaxnreg")
}

const fn handed(
    name: &'static str,
    change: [&'static str; 2],
    diagnosis: Diagnosis,
    at: &'static str,
) -> Written {
    written(name, HANDED, THREE_GROUPS, change, diagnosis, at)
}

const fn remote(name: &'static str, change: [&'static str; 2], at: &'static str) -> Written {
    written(name, NEIGHBOURS, [2, 2, 32], change, Diagnosis::RemoteShared, at)
}

/// All of them.
#[rustfmt::skip]
pub(crate) const LANES: &[Written] = &[
    diverged("half a warp stores matrices", ["stmatrix", "@%p0 stmatrix"], "stmatrix"),
    diverged("half a warp loads matrices", ["ldmatrix", "@%p0 ldmatrix"], "ldmatrix"),
    diverged("half a warp elects", ["elect", "@%p0 elect"], "elect"),
    diverged("half a warp votes", ["vote.sync.any", "@!%p0 vote.sync.any"], "vote"),
    diverged("half a warp counts votes", ["vote.sync.ballot", "@%p0 vote.sync.ballot"], "vote"),
    diverged("half a warp shuffles", ["shfl", "@%p0 shfl"], "shfl"),
    diverged("half a warp is at the CTA's barrier", ["bar.sync", "@%p0 bar.sync"], "bar.sync"),
    diverged("half a warp is at the warp's barrier", ["bar.warp.sync", "@%p0 bar.warp.sync"], "bar.warp.sync"),
    diverged("half a warp arrives at the cluster's barrier", ["barrier.cluster.arrive", "@%p0 barrier.cluster.arrive"], "cluster.arrive"),
    diverged("half a warp waits for the cluster", ["barrier.cluster.wait", "@%p0 barrier.cluster.wait"], "cluster.wait"),
    diverged("half a warp branches around matrices", ["stmatrix", "@%p0 bra L7;\nstmatrix"], "stmatrix"),
    diverged("lanes elect among others", ["elect.sync _|%p1, %r9", "elect.sync _|%p1, 15"], "elect"),
    diverged("lanes vote among others", ["vote.sync.any.pred %p2, %p0, %r9", "vote.sync.any.pred %p2, %p0, 4294901760"], "vote"),
    diverged("a lane is not in its own mask", ["shfl.sync.bfly.b32 %r8, %r0, 16, 31, %r9", "shfl.sync.bfly.b32 %r8, %r0, 16, 31, 4294967294"], "shfl"),
    diverged("a mask for each lane", ["bar.warp.sync %r9;", "shl.b32 %r13, 1, %r0;\nor.b32 %r13, %r13, 1;\nbar.warp.sync %r13;"], "bar.warp.sync"),
    diverged("members that ended", ["ldmatrix", "@%p0 ret;\nldmatrix"], "ldmatrix"),
    diverged("a barrier for each lane", ["mov.b32 %r10, 0;", "and.b32 %r10, %r0, 1;"], "bar.sync"),
    diverged("a number of threads for each lane", ["mov.b32 %r11, 32;", "and.b32 %r11, %r0, 1;\nadd.u32 %r11, %r11, 32;"], "bar.sync"),
    resized("one warp gives no registers back", ["setmaxnreg.dec", "@!%p0 setmaxnreg.dec"]),
    resized("one warp alone gives registers back", ["setmaxnreg.dec", "@%p1 setmaxnreg.dec"]),
    resized("one warp asks for no registers", ["setmaxnreg.inc", "@!%p0 setmaxnreg.inc"]),
    resized("one warp branches around setmaxnreg", ["setmaxnreg.inc", "@%p1 bra L9;\nsetmaxnreg.inc"]),
    resized("one warp ends before setmaxnreg", ["setmaxnreg.inc", "@%p0 ret;\nsetmaxnreg.inc"]),
    resized("one warp has its own setmaxnreg", ["setmaxnreg.dec.sync.aligned.u32 104;", "@%p0 setmaxnreg.dec.sync.aligned.u32 104;\n@!%p0 setmaxnreg.dec.sync.aligned.u32 104;"]),
    resized("one warp asks for another number", ["setmaxnreg.inc.sync.aligned.u32 168;", "@%p0 setmaxnreg.inc.sync.aligned.u32 160;\n@!%p0 setmaxnreg.inc.sync.aligned.u32 168;"]),
    handed("one warp keeps what others wait for", ["setmaxnreg.dec", "@%p1 setmaxnreg.dec"], Diagnosis::Diverged, "setmaxnreg.dec"),
    handed("one warp asks for nothing where others do", ["setmaxnreg.inc", "@%p2 setmaxnreg.inc"], Diagnosis::Diverged, "setmaxnreg.inc"),
    handed("no warp gives registers back", ["setmaxnreg.dec.sync.aligned.u32 40;", ""], Diagnosis::RegisterFile, "setmaxnreg.inc"),
    handed("too few registers are given back", ["u32 40;", "u32 48;"], Diagnosis::RegisterFile, "setmaxnreg.inc"),
    handed("more registers than there ever are", ["u32 232;", "u32 240;"], Diagnosis::RegisterFile, "setmaxnreg.inc"),
    undefined("a register that no instruction writes", ["mov.b32 %r1, 5;", ""], "add.u32 %r4"),
    undefined("the other side of a selection", ["mov.b32 %r2, 7;", ""], "selp"),
    undefined("a register that half a warp writes", ["@!%p0 mov.b32 %r3, 2;", ""], "add.u32 %r4"),
    undefined("a predicate in front of an instruction", ["setp.lt.u32 %p0, %r0, 16;", ""], "mov.b32 %r3"),
    undefined("half of a pair", ["mov.b64 %rd4, {%r4, %r5}", "mov.b64 %rd4, {%r4, %r30}"], "mov.b64 %rd4"),
    undefined("an address", ["add.u64 %rd5, %rd5, %rd0;", "add.u64 %rd6, %rd5, %rd9;"], "add.u64"),
    undefined("a float", ["mov.b32 %f0, 0f3F800000;", ""], "fma"),
    undefined("one way around writes it", ["L1:\nmov.b32 %r9, 4;", "L1:"], "add.u32 %r6, %r6, %r9"),
    undefined("the stored value", ["[%rd5], %r6", "[%rd5], %r40"], "st.global"),
    lanes("exchange without a meeting", EXCHANGE, ONE, ["bar.warp.sync %r8;", ""], "ld.shared"),
    lanes("exchange behind a vote", EXCHANGE, ONE, ["bar.warp.sync %r8;", "vote.sync.any.pred %p2, %p1, 4294967295;"], "ld.shared"),
    lanes("exchange behind a shuffle", EXCHANGE, ONE, ["bar.warp.sync %r8;", "shfl.sync.bfly.b32 %r9, %r0, 1, 31, 4294967295;"], "ld.shared"),
    lanes("exchange behind a fence", EXCHANGE, ONE, ["bar.warp.sync %r8;", "fence.acq_rel.cta;"], "ld.shared"),
    lanes("exchange between halves that meet apart", EXCHANGE, ONE, ["mov.b32 %r8, 4294967295;\nsetp.lt.u32 %p1, %r0, 16;", "setp.lt.u32 %p1, %r0, 16;\nselp.b32 %r8, 65535, 4294901760, %p1;"], "ld.shared"),
    lanes("overwritten before it is read", EXCHANGE, ONE, ["bar.warp.sync 4294967295; // again", ""], "st.shared"),
    lanes("exchange through global memory", GLOBAL_EXCHANGE, ONE, [WARP_SYNC, ""], "ld.global"),
    lanes("copied out before others have written", COPY_OUT, ONE, [WARP_SYNC, ""], "cp.async.bulk"),
    lanes("overwritten while another lane waits", COPY_OUT, ONE, ["bar.warp.sync 4294967295; // read", ""], "st.shared"),
    written("fence of one lane", COPY_OUT, ONE, ["fence.proxy.async", "@!%p0 fence.proxy.async"], Diagnosis::MissingProxyFence, "cp.async.bulk"),
    written("fence of half a warp", COPY_OUT, ONE, ["fence.proxy.async", "setp.lt.u32 %p4, %r0, 16;\n@%p4 fence.proxy.async"], Diagnosis::MissingProxyFence, "cp.async.bulk"),
    written("fence of all but the first", COPY_OUT, ONE, ["fence.proxy.async", "@%p0 fence.proxy.async"], Diagnosis::MissingProxyFence, "cp.async.bulk"),
    written("fence of one lane before a branch", COPY_OUT, ONE, ["fence.proxy.async.shared::cta;", "@%p0 bra L9;\nfence.proxy.async.shared::cta;\nL9:"], Diagnosis::MissingProxyFence, "cp.async.bulk"),
    written("fence before the last write", COPY_OUT, ONE, ["fence.proxy.async.shared::cta;\nbar", "fence.proxy.async.shared::cta;\nst.shared.b32 [%r3], %r1;\nbar"], Diagnosis::MissingProxyFence, "shared"),
    lanes("one lane arrives for others", HANDOVER, TWO, ["bar.warp.sync 4294967295; // written", ""], "ld.shared"),
    lanes("one lane waits for others", HANDOVER, TWO, ["bar.warp.sync 4294967295; // full", ""], "ld.shared"),
    lanes("one lane releases for others", HANDOVER, TWO, ["bar.warp.sync 4294967295; // read", ""], "st.shared"),
    lanes("one lane waits for the release", HANDOVER, TWO, ["bar.warp.sync 4294967295; // waited", ""], "st.shared"),
    lanes("one lane counts for others", REDUCTION, [2, 1, 32], ["bar.warp.sync 4294967295; // written", ""], "ld.global"),
    lanes("one lane knows for others", REDUCTION, [2, 1, 32], ["bar.warp.sync 4294967295; // counted", ""], "ld.global"),
    remote("store to a neighbour as to the own", ["st.shared::cluster.b32 [%r4]", "st.shared.b32 [%r4]"], "st.shared"),
    remote("store to a neighbour as to the own, in full", ["st.shared::cluster.b32 [%r4]", "st.shared::cta.b32 [%r4]"], "st.shared"),
    remote("load of a neighbour's as of the own", ["ld.shared::cluster.b32 %r6, [%r4+1024]", "ld.shared.b32 %r6, [%r4+1024]"], "ld.shared"),
    remote("arrival at a neighbour's barrier as at the own", ["mbarrier.arrive.release.cluster.shared::cluster.b64", "mbarrier.arrive.shared::cta.b64"], "mbarrier.arrive"),
    remote("wait for a neighbour's barrier", ["%p2, [%r11+2048]", "%p2, [%r10+2048]"], "try_wait"),
    remote("atomic in a neighbour's memory", ["atom.shared::cta.add.u32 %r21, [%r11+2560]", "atom.shared::cta.add.u32 %r21, [%r10+2560]"], "atom"),
    remote("matrix of a neighbour", ["{%r22}, [%r3+1024]", "{%r22}, [%r10+1024]"], "ldmatrix"),
    remote("a neighbour's barrier made", ["[shared_memory+2048], 1;", "[shared_memory+2048], 1;\nmbarrier.init.shared::cta.b64 [%r10+3072], 1;"], "mbarrier.init"),
    written("barrier of no arrivals", TOGETHER, ONE, ["[shared_memory+1024], 1", "[shared_memory+1024], 0"], Diagnosis::Limit, "mbarrier.init"),
    written("barrier of a million arrivals", TOGETHER, ONE, ["[shared_memory+1024], 1", "[shared_memory+1024], 1048576"], Diagnosis::Limit, "mbarrier.init"),
    written("barrier of a negative number of arrivals", TOGETHER, ONE, ["[shared_memory+1024], 1", "[shared_memory+1024], -1"], Diagnosis::Limit, "mbarrier.init"),
    written("no arrivals at once", HANDOVER, TWO, ["_, [shared_memory];", "_, [shared_memory], 0;"], Diagnosis::Limit, "mbarrier.arrive"),
    written("a million bytes promised", HANDOVER, TWO, ["mbarrier.arrive.shared::cta.b64 _, [shared_memory];", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory], 1048576;"], Diagnosis::Limit, "expect_tx"),
];
