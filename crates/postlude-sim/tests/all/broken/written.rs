//! Small kernels written by hand with one thing wrong, and each as it should be.

use postlude_sim::Diagnosis;

/// A kernel with one thing wrong: where the good one has the first text, the broken one has the second.
pub(crate) struct Written {
    pub(crate) name: &'static str,
    pub(crate) body: &'static str,
    /// CTAs, CTAs of a cluster, and threads.
    pub(crate) launch: [u32; 3],
    pub(crate) change: [&'static str; 2],
    pub(crate) diagnosis: Diagnosis,
    /// What the blamed instruction contains.
    pub(crate) at: &'static str,
}

/// A text after a change that must apply.
pub(crate) fn changed(name: &str, body: &str, [from, to]: [&str; 2]) -> String {
    assert!(body.contains(from), "{name}");
    body.replacen(from, to, 1)
}

/// Each of two CTAs writes its number; the one that comes last adds them.
const REDUCTION: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd2, %rd0;\nadd.u32 %r2, %r1, 7;
st.global.b32 [%rd2], %r2;
fence.acq_rel.gpu; // release
atom.relaxed.gpu.global.add.u32 %r3, [%rd0+64], 1;
setp.ne.u32 %p1, %r3, 1;\n@%p1 ret;
fence.acq_rel.gpu; // acquire
ld.global.b32 %r4, [%rd0];\nld.global.b32 %r5, [%rd0+4];\nadd.u32 %r4, %r4, %r5;
st.global.b32 [%rd0+128], %r4;\nret;";

/// The same with orders on the atomic.
const ORDERED: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd2, %rd0;\nadd.u32 %r2, %r1, 7;
st.global.b32 [%rd2], %r2;
atom.acq_rel.gpu.global.add.u32 %r3, [%rd0+64], 1;
setp.ne.u32 %p1, %r3, 1;\n@%p1 ret;
ld.global.b32 %r4, [%rd0];\nld.global.b32 %r5, [%rd0+4];\nadd.u32 %r4, %r4, %r5;
st.global.b32 [%rd0+128], %r4;\nret;";

/// Two warps write a word each, and read the other's.
const EXCHANGE: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;
add.u32 %r3, %r1, %r2;\nst.shared.b32 [%r3], %r0;\nbar.sync 0;
xor.b32 %r4, %r1, 128;\nadd.u32 %r4, %r4, %r2;\nld.shared.b32 %r5, [%r4];\nret;";

/// One warp writes, another waits for it at a barrier in shared memory, and reads.
const HANDOVER: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 32;\nL1:\nbar.sync 0;
setp.ge.u32 %p1, %r0, 32;\n@%p1 bra L2;
st.shared.b32 [shared_memory+128], 5;
mbarrier.arrive.shared::cta.b64 _, [shared_memory];
ret;\nL2:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;
ld.shared.b32 %r5, [shared_memory+128];\nret;";

/// A copy of sm_80 is awaited and read.
const SMALL_COPY: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r1, %r1, %r2;
cp.async.ca.shared.global [%r1], [%rd0], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;
ld.shared.b32 %r3, [%r1];\nret;";

/// Each half of a warp waits for its own copies.
const HALVES_COPY: &str = "mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 2;\nmov.b32 %r2, shared_memory;\nadd.u32 %r1, %r1, %r2;
cp.async.ca.shared.global [%r1], [%rd0], 4;\ncp.async.commit_group;
setp.lt.u32 %p0, %r0, 16;\n@%p0 cp.async.wait_group 0;\n@!%p0 cp.async.wait_group 0;
ld.shared.b32 %r3, [%r1];\nret;";

/// One thread copies bytes out, and uses their place again.
const COPY_OUT: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
st.shared.v4.b32 [shared_memory], {1, 2, 3, 4};\nfence.proxy.async.shared::cta;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 16;\ncp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;\nst.shared.v4.b32 [shared_memory], {5, 6, 7, 8};
cp.async.bulk.wait_group 0;\nld.global.b32 %r1, [%rd0];\nret;";

/// CTAs of a cluster write each other's memory.
const NEIGHBOURS: &str = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;
mov.b32 %r3, shared_memory;\nmapa.shared::cluster.u32 %r4, %r3, %r2;\nshl.b32 %r5, %r0, 2;\nadd.u32 %r4, %r4, %r5;
st.shared::cluster.b32 [%r4], %r0;
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
add.u32 %r3, %r3, %r5;\nld.shared.b32 %r7, [%r3];\nret;";

/// CTAs of a cluster send each other words, and wait until all are there.
const SENT: &str = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;
setp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;\nmbarrier.init.shared::cta.b64 [shared_memory], 1;\nfence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory], 128;\nL1:
bar.warp.sync 4294967295;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;
mov.b32 %r3, shared_memory;\nmapa.shared::cluster.u32 %r4, %r3, %r2;\nshl.b32 %r5, %r0, 2;\nadd.u32 %r6, %r4, %r5;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r6+128], %r0, [%r4];
L2:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;
add.u32 %r3, %r3, %r5;\nld.shared.b32 %r7, [%r3+128];
bar.warp.sync 4294967295;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;";

pub(crate) const fn written(
    name: &'static str,
    body: &'static str,
    launch: [u32; 3],
    change: [&'static str; 2],
    diagnosis: Diagnosis,
    at: &'static str,
) -> Written {
    Written { name, body, launch, change, diagnosis, at }
}

/// All of them.
#[rustfmt::skip]
pub(crate) const WRITTEN: &[Written] = &[
    written("reduction without a release", REDUCTION, [2, 1, 32], ["fence.acq_rel.gpu; // release", ""], Diagnosis::UnorderedGlobal, "ld.global"),
    written("reduction without an acquire", REDUCTION, [2, 1, 32], ["fence.acq_rel.gpu; // acquire", ""], Diagnosis::UnorderedGlobal, "ld.global"),
    written("reduction released to its CTA", REDUCTION, [2, 1, 32], ["fence.acq_rel.gpu; // release", "fence.acq_rel.cta;"], Diagnosis::UnorderedGlobal, "ld.global"),
    written("reduction through an atomic of its CTA", REDUCTION, [2, 1, 32], ["atom.relaxed.gpu", "atom.relaxed.cta"], Diagnosis::UnorderedGlobal, "ld.global"),
    written("ordered reduction without a release", ORDERED, [2, 1, 32], ["acq_rel", "acquire"], Diagnosis::UnorderedGlobal, "ld.global"),
    written("ordered reduction without an acquire", ORDERED, [2, 1, 32], ["acq_rel", "release"], Diagnosis::UnorderedGlobal, "ld.global"),
    written("reduction that every CTA finishes", ORDERED, [2, 1, 32], ["setp.ne.u32 %p1, %r3, 1;", "setp.ne.u32 %p1, %r3, %r3;"], Diagnosis::UnorderedGlobal, "global"),
    written("exchange without a barrier", EXCHANGE, [1, 1, 64], ["bar.sync 0;", ""], Diagnosis::UnorderedShared, "shared"),
    written("exchange at another barrier for each warp", EXCHANGE, [1, 1, 64], ["bar.sync 0;", "shr.u32 %r6, %r0, 5;\nbar.sync %r6, 32;"], Diagnosis::UnorderedShared, "shared"),
    written("barrier with another count in each warp", EXCHANGE, [1, 1, 64], ["bar.sync 0;", "and.b32 %r6, %r0, 32;\nadd.u32 %r6, %r6, 64;\nbar.sync 0, %r6;"], Diagnosis::BarrierCount, "bar.sync"),
    written("barrier that waits for half a warp", EXCHANGE, [1, 1, 64], ["bar.sync 0;", "bar.sync 0, 48;"], Diagnosis::BarrierCount, "bar.sync"),
    written("handover before the barrier is made", HANDOVER, [1, 1, 64], ["L1:\nbar.sync 0;", "L1:"], Diagnosis::WaitBeforeInit, "mbarrier"),
    written("handover without a wait", HANDOVER, [1, 1, 64], ["mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;", ""], Diagnosis::UnorderedShared, "shared"),
    written("handover with the other parity", HANDOVER, [1, 1, 64], ["[shared_memory], 0;\n@!%p2", "[shared_memory], 1;\n@!%p2"], Diagnosis::ArrivalUnderflow, "try_wait"),
    written("write after the handover", HANDOVER, [1, 1, 64], ["_, [shared_memory];", "_, [shared_memory];\nst.shared.b32 [shared_memory+128], 6;"], Diagnosis::UnorderedShared, "shared"),
    written("handover that nobody makes", HANDOVER, [1, 1, 64], ["mbarrier.arrive.shared::cta.b64 _, [shared_memory];", ""], Diagnosis::ArrivalUnderflow, "try_wait"),
    written("handover made twice", HANDOVER, [1, 1, 64], ["_, [shared_memory];", "_, [shared_memory], 33;"], Diagnosis::ArrivalOverflow, "mbarrier.arrive"),
    written("barrier made where there is one", HANDOVER, [1, 1, 64], ["[shared_memory], 32;", "[shared_memory], 32;\nmbarrier.init.shared::cta.b64 [shared_memory], 32;"], Diagnosis::InitialisedTwice, "mbarrier.init"),
    written("small copy without a wait", SMALL_COPY, [1, 1, 32], ["cp.async.wait_group 0;", ""], Diagnosis::ReadUnderCopy, "ld.shared"),
    written("small copy waits for the group before", SMALL_COPY, [1, 1, 32], ["cp.async.wait_group 0;", "cp.async.wait_group 1;"], Diagnosis::ReadUnderCopy, "ld.shared"),
    written("small copy that half a warp waits for", HALVES_COPY, [1, 1, 32], ["@!%p0 cp.async.wait_group 0;", ""], Diagnosis::ReadUnderCopy, "ld.shared"),
    written("small copy to an odd address", SMALL_COPY, [1, 1, 32], ["mov.b32 %r2, shared_memory;", "mov.b32 %r2, shared_memory+2;"], Diagnosis::Misaligned, "cp.async"),
    written("copy out without a fence", COPY_OUT, [1, 1, 32], ["fence.proxy.async.shared::cta;", ""], Diagnosis::MissingProxyFence, "st.shared"),
    written("copy out overwritten", COPY_OUT, [1, 1, 32], ["cp.async.bulk.wait_group.read 0;", ""], Diagnosis::OverwriteUnderCopy, "st.shared"),
    written("copy out read before it is written", COPY_OUT, [1, 1, 32], ["cp.async.bulk.wait_group 0;", ""], Diagnosis::UnorderedGlobal, "ld.global"),
    written("neighbours that do not meet", NEIGHBOURS, [2, 2, 32], ["barrier.cluster.wait.aligned;", ""], Diagnosis::UnorderedShared, "shared"),
    written("neighbours that meet without order", NEIGHBOURS, [2, 2, 32], ["arrive.aligned", "arrive.relaxed.aligned"], Diagnosis::UnorderedShared, "shared"),
    written("neighbour written after it may have ended", NEIGHBOURS, [2, 2, 32], ["ld.shared.b32 %r7, [%r3];", "st.shared::cluster.b32 [%r4+512], %r0;"], Diagnosis::EndedCta, "st.shared::cluster"),
    written("words that nobody waits for", SENT, [2, 2, 32], ["mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;", ""], Diagnosis::ReadUnderCopy, "ld.shared"),
    written("fewer words than were promised", SENT, [2, 2, 32], ["[shared_memory], 128;", "[shared_memory], 132;"], Diagnosis::TransactionMismatch, "try_wait"),
    written("words for another CTA than the barrier's", SENT, [2, 2, 32], ["%r0, [%r4];", "%r0, [shared_memory];"], Diagnosis::RemoteShared, "st.async"),
    written("shared memory that nobody wrote", EXCHANGE, [1, 1, 64], ["xor.b32 %r4, %r1, 128;", "xor.b32 %r4, %r1, 512;"], Diagnosis::UninitialisedRead, "ld.shared"),
    written("global memory beyond the buffer", REDUCTION, [2, 1, 32], ["[%rd0+128]", "[%rd0+4096]"], Diagnosis::OutOfBounds, "st.global"),
    written("global address between words", REDUCTION, [2, 1, 32], ["[%rd0+128]", "[%rd0+129]"], Diagnosis::Misaligned, "st.global"),
];
