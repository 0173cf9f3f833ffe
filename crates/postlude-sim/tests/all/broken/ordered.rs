//! Small kernels written by hand about order, scopes and what bytes are: each as it should be, and with one thing wrong.

use postlude_sim::Diagnosis;

use super::written::{Written, written};

/// A warpgroup writes A, each warp its own rows, and its first warp B; it multiplies, reads the sums, and multiplies again.
const MULTIPLY: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p1, %r0, %r0;
shl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r1, %r1, %r2;
st.shared.v4.b32 [%r1], {0, 0, 0, 0};
setp.ge.u32 %p0, %r0, 32;\n@%p0 bra L1;
st.shared.v4.b32 [%r1+2048], {0, 0, 0, 0};\nL1:
fence.proxy.async.shared::cta;
bar.sync 0;
mov.b64 %rd2, 68720001088;\nmov.b64 %rd3, 68720001216;
wgmma.fence.sync.aligned; // first
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p1, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p1, 1, 1, 0, 0; // again
wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;
add.rn.f32 %f9, %f0, %f1;
wgmma.fence.sync.aligned; // second
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p1, 1, 1, 0, 0; // last
wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;";

/// The same with A in registers, which change between the products.
const FRAGMENTS: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p1, %r0, %r0;
shl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r1, %r1, %r2;
st.shared.v4.b32 [%r1+2048], {0, 0, 0, 0};
fence.proxy.async.shared::cta;\nbar.sync 0;
mov.b64 %rd3, 68720001216;
mov.b32 %r10, 0;\nmov.b32 %r11, 0;\nmov.b32 %r12, 0;\nmov.b32 %r13, 0;
wgmma.fence.sync.aligned; // first
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, %rd3, %p1, 1, 1, 0;
wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;
add.u32 %r12, %r12, 1;
wgmma.fence.sync.aligned; // second
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, {%r10, %r11, %r12, %r13}, %rd3, %p1, 1, 1, 0;
wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;";

/// A copy brings B, for which every warp of the warpgroup waits.
const BROUGHT: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p1, %r0, %r0;
shl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r1, %r1, %r2;
st.shared.v4.b32 [%r1], {0, 0, 0, 0};\nfence.proxy.async.shared::cta;
setp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory+3072], 1;\nL1:\nbar.sync 0;\n@%p0 bra L2;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory+3072], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shared_memory+2048], [%rd0], 256, [shared_memory+3072];
L2:\nbar.warp.sync -1;\nshr.u32 %r3, %r0, 5;\nsetp.gt.u32 %p3, %r3, 3; // never
@%p3 bra L4;\nL3:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+3072], 0;\n@!%p2 bra L3;\nL4:
mov.b64 %rd2, 68720001088;\nmov.b64 %rd3, 68720001216;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p1, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;";

/// A CTA of a cluster hands a word over to the other at that one's barrier.
const REMOTE: &str = "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %cluster_ctarank;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 1;\nfence.mbarrier_init.release.cluster;\nL1:
barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;
setp.ne.u32 %p1, %r1, 0;\n@%p1 bra L2;\n@%p0 bra L4;
st.shared.b32 [shared_memory+128], 7;
mov.b32 %r2, shared_memory;\nmapa.shared::cluster.u32 %r3, %r2, 1;
mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];\nbra L4;\nL2:
mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;
mov.b32 %r4, shared_memory;\nmapa.shared::cluster.u32 %r5, %r4, 0;\nld.shared::cluster.b32 %r6, [%r5+128];
L4:\nbar.warp.sync -1;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;";

/// The first CTA writes a word and sets a flag; the second waits for the flag and reads.
const FLAG: &str =
    "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
setp.ne.u32 %p1, %r1, 0;\n@%p1 bra L1;
st.global.b32 [%rd0], 7;\nst.release.gpu.global.b32 [%rd0+64], 1;\nret;\nL1:
ld.acquire.gpu.global.b32 %r2, [%rd0+64];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra L1;
ld.global.b32 %r3, [%rd0];\nst.global.b32 [%rd0+128], %r3;\nret;";

/// CTAs count themselves.
const COUNT: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
red.relaxed.gpu.global.add.u32 [%rd0], 1;\nret;";

/// One warp hands a word to another at a barrier in shared memory.
const WORD: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory], 32;\nL1:\nbar.sync 0;
setp.ge.u32 %p1, %r0, 32;\n@%p1 bra L2;
shl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r2, %r2, %r1;
st.shared.v4.b32 [%r2+1024], {1, 2, 3, 4};
mbarrier.arrive.shared::cta.b64 _, [shared_memory];\nret;\nL2:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L2;
ld.shared.b32 %r5, [shared_memory+1024];\nret;";

/// A copy comes, and is awaited at a barrier beside it.
const COPY_IN: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
mbarrier.init.shared::cta.b64 [shared_memory], 1;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [shared_memory], 64;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shared_memory+128], [%rd0], 64, [shared_memory];
L1:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory], 0;\n@!%p2 bra L1;
ld.shared.b32 %r5, [shared_memory+128];\nret;";

/// Bytes are data, and a barrier afterwards.
const REUSED: &str = "mov.u32 %r0, %tid.x;\nmov.b32 %r1, shared_memory;\nshl.b32 %r2, %r0, 2;\nadd.u32 %r1, %r1, %r2;
st.shared.b32 [%r1], %r0;\nbar.sync 0;\nld.shared.b32 %r3, [shared_memory+128];\nbar.sync 0; // read
setp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory+128], 64;\nL1:\nbar.sync 0;
mbarrier.arrive.shared::cta.b64 _, [shared_memory+128];\nL2:
mbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+128], 0;\n@!%p2 bra L2;
bar.sync 0;\n@%p0 bra L3;
mbarrier.inval.shared::cta.b64 [shared_memory+128]; // unmade
L3:\nbar.sync 0; // after
st.shared.b32 [%r1], 5;\nret;";

/// Two warps write, and a thread copies what they wrote out.
const TOGETHER: &str = "mov.u32 %r0, %tid.x;\nmov.b32 %r1, shared_memory;\nshl.b32 %r2, %r0, 2;\nadd.u32 %r1, %r1, %r2;
st.shared.b32 [%r1], %r0;
bar.sync 0;
setp.ne.u32 %p0, %r0, 0;\n@%p0 ret;
fence.proxy.async.shared::cta; // reader
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 256;\ncp.async.bulk.commit_group;
cp.async.bulk.wait_group 0;\nret;";

/// The neighbour's barrier lies beside what this CTA writes there.
const NEIGHBOUR: &str = "mov.u32 %r0, %tid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra L1;
mbarrier.init.shared::cta.b64 [shared_memory+64], 1;\nfence.mbarrier_init.release.cluster;\nL1:
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n@%p0 bra L2;
mov.u32 %r1, %cluster_ctarank;\nxor.b32 %r2, %r1, 1;\nmov.b32 %r3, shared_memory;\nmapa.shared::cluster.u32 %r4, %r3, %r2;
st.shared::cluster.b32 [%r4], 5;\nL2:\nbar.warp.sync -1;
barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;";

const GROUP: [u32; 3] = [1, 1, 128];
const PAIR: [u32; 3] = [2, 2, 32];
const APART: [u32; 3] = [2, 1, 32];
const WARPS: [u32; 3] = [1, 1, 64];

/// All of them.
#[rustfmt::skip]
pub(crate) const ORDERED: &[Written] = &[
    // Products need a fence after each access to their registers.
    written("no fence after the sums were read", MULTIPLY, GROUP, ["wgmma.fence.sync.aligned; // second", ""], Diagnosis::MissingProductFence, "wgmma.mma"),
    written("sum written after the fence", MULTIPLY, GROUP, ["; // second", ";\nmov.b32 %f3, %f9;"], Diagnosis::MissingProductFence, "wgmma.mma"),
    written("sum read after the fence", MULTIPLY, GROUP, ["; // second", ";\nadd.rn.f32 %f8, %f2, %f2;"], Diagnosis::MissingProductFence, "wgmma.mma"),
    written("product of another shape without a fence", MULTIPLY, GROUP, ["m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd2, %rd3, %p1, 1, 1, 0, 0; // again", "m64n16k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, %rd2, %rd3, %p1, 1, 1, 0, 0;"], Diagnosis::MissingProductFence, "m64n16"),
    written("no fence after A's registers changed", FRAGMENTS, GROUP, ["wgmma.fence.sync.aligned; // second", ""], Diagnosis::MissingProductFence, "wgmma.mma"),
    written("A's registers change after the fence", FRAGMENTS, GROUP, ["; // second", ";\nmov.b32 %r10, 3;"], Diagnosis::MissingProductFence, "wgmma.mma"),
    // Each warp must know what its part of a product reads.
    written("B read before the warps meet", MULTIPLY, GROUP, ["bar.sync 0;", ""], Diagnosis::UnorderedShared, "wgmma.mma"),
    written("half of the warps meet", MULTIPLY, GROUP, ["bar.sync 0;", "setp.ge.u32 %p2, %r0, 64;\n@%p2 bra L2;\nbar.sync 1, 64;\nL2:"], Diagnosis::UnorderedShared, "wgmma.mma"),
    written("B's writer does not fence", MULTIPLY, GROUP, ["L1:\nfence.proxy.async.shared::cta;", "fence.proxy.async.shared::cta;\nst.shared.b32 [%r1+2048], 0;\nL1:"], Diagnosis::MissingProxyFence, "st.shared"),
    written("only the first warp waits for B", BROUGHT, GROUP, ["%r3, 3; // never", "%r3, 0;"], Diagnosis::ReadUnderCopy, "wgmma.mma"),
    written("the last warp does not wait for B", BROUGHT, GROUP, ["%r3, 3; // never", "%r3, 2;"], Diagnosis::ReadUnderCopy, "wgmma.mma"),
    written("A written by other warps without a barrier", BROUGHT, GROUP, ["L4:\n", "L4:\nxor.b32 %r4, %r1, 512;\nst.shared.v4.b32 [%r4], {0, 0, 0, 0};\nfence.proxy.async.shared::cta;\n"], Diagnosis::UnorderedShared, "wgmma.mma"),
    // A scope that does not reach the other side orders nothing.
    written("handover released to its own CTA", REMOTE, PAIR, ["release.cluster.shared::cluster", "shared::cluster"], Diagnosis::UnorderedShared, "ld.shared::cluster"),
    written("handover released to its own CTA in full", REMOTE, PAIR, ["arrive.release.cluster", "arrive.release.cta"], Diagnosis::UnorderedShared, "ld.shared::cluster"),
    written("handover acquired from the own CTA", REMOTE, PAIR, ["parity.acquire.cluster", "parity"], Diagnosis::UnorderedShared, "ld.shared::cluster"),
    written("handover acquired from the own CTA in full", REMOTE, PAIR, ["parity.acquire.cluster", "parity.acquire.cta"], Diagnosis::UnorderedShared, "ld.shared::cluster"),
    written("flag released to its own CTA", FLAG, APART, ["st.release.gpu", "st.release.cta"], Diagnosis::UnorderedGlobal, "global"),
    written("flag acquired from the own CTA", FLAG, APART, ["ld.acquire.gpu", "ld.acquire.cta"], Diagnosis::UnorderedGlobal, "global"),
    written("flag released to its own cluster", FLAG, APART, ["st.release.gpu", "st.release.cluster"], Diagnosis::UnorderedGlobal, "global"),
    written("counted within the CTA", COUNT, APART, ["red.relaxed.gpu", "red.relaxed.cta"], Diagnosis::UnorderedGlobal, "red"),
    written("counted within the cluster", COUNT, APART, ["red.relaxed.gpu", "red.relaxed.cluster"], Diagnosis::UnorderedGlobal, "red"),
    // Threads arrive at the cluster's barrier and wait in turn.
    written("no arrival at the cluster's barrier", NEIGHBOUR, PAIR, ["L1:\nbarrier.cluster.arrive.aligned;", "L1:"], Diagnosis::ClusterBarrier, "cluster.wait"),
    written("no wait between two arrivals", NEIGHBOUR, PAIR, ["L1:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", "L1:\nbarrier.cluster.arrive.aligned;"], Diagnosis::ClusterBarrier, "cluster.arrive"),
    // Bytes of a barrier are not data.
    written("word stored over a barrier", WORD, WARPS, ["[%r2+1024]", "[%r2]"], Diagnosis::BarrierBytes, "st.shared"),
    written("barrier read as a word", WORD, WARPS, ["%r5, [shared_memory+1024]", "%r5, [shared_memory+4]"], Diagnosis::BarrierBytes, "ld.shared"),
    written("copy over a barrier", COPY_IN, [1, 1, 32], ["[shared_memory+128], [%rd0], 64", "[shared_memory], [%rd0], 64"], Diagnosis::BarrierBytes, "cp.async.bulk"),
    written("copy that ends in a barrier", COPY_IN, [1, 1, 32], ["[shared_memory], 1;", "[shared_memory], 1;\nmbarrier.init.shared::cta.b64 [shared_memory+184], 1;"], Diagnosis::BarrierBytes, "cp.async.bulk"),
    written("neighbour's barrier overwritten", NEIGHBOUR, PAIR, ["[%r4], 5", "[%r4+64], 5"], Diagnosis::BarrierBytes, "st.shared::cluster"),
    written("barrier that was not unmade", REUSED, WARPS, ["mbarrier.inval.shared::cta.b64 [shared_memory+128]; // unmade", ""], Diagnosis::BarrierBytes, "st.shared"),
    written("barrier made over data in use", REUSED, WARPS, ["bar.sync 0; // read", ""], Diagnosis::UnorderedShared, "shared"),
    written("barrier unmade while others write", REUSED, WARPS, ["bar.sync 0; // after", ""], Diagnosis::UnorderedShared, "shared"),
    // A fence between proxies lies between the two accesses; any thread may make it.
    written("no thread fences before a copy out", TOGETHER, WARPS, ["fence.proxy.async.shared::cta; // reader", ""], Diagnosis::MissingProxyFence, "st.shared"),
    written("the fence comes after the copy out", TOGETHER, WARPS, ["fence.proxy.async.shared::cta; // reader\ncp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 256;", "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [shared_memory], 256;\nfence.proxy.async.shared::cta;"], Diagnosis::MissingProxyFence, "st.shared"),
    written("the reader fences global memory", TOGETHER, WARPS, ["shared::cta; // reader", "global;"], Diagnosis::MissingProxyFence, "st.shared"),
    written("a warp that is not between the two fences", TOGETHER, WARPS, ["@%p0 ret;\nfence.proxy.async.shared::cta; // reader", "setp.lt.u32 %p3, %r0, 32;\n@%p3 bra L1;\nfence.proxy.async.shared::cta;\nL1:\n@%p0 ret;"], Diagnosis::MissingProxyFence, "st.shared"),
    written("only one of two writers fences", TOGETHER, WARPS, ["bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nfence.proxy.async.shared::cta; // reader", "setp.ge.u32 %p3, %r0, 32;\n@%p3 bra L1;\nfence.proxy.async.shared::cta;\nL1:\nbar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;"], Diagnosis::MissingProxyFence, "st.shared"),
];

/// Other ways to be right: the name, the kernel, its launch, and what is changed.
pub(crate) type Right = (&'static str, &'static str, [u32; 3], [&'static str; 2]);

#[rustfmt::skip]
pub(crate) const RIGHT: &[Right] = &[
    ("each warp brings its own rows of A without a barrier", BROUGHT, GROUP, ["L4:\n", "L4:\nst.shared.v4.b32 [%r1], {0, 0, 0, 0};\nfence.proxy.async.shared::cta;\nbar.warp.sync -1;\n"]),
    ("two products of one shape after one fence", MULTIPLY, GROUP, ["add.rn.f32 %f9, %f0, %f1;\nwgmma.fence.sync.aligned; // second", ""]),
    ("other registers are touched between products", MULTIPLY, GROUP, ["; // second", ";\nmov.b32 %f9, 0f00000000;"]),
    ("A's registers are read by two products", FRAGMENTS, GROUP, ["add.u32 %r12, %r12, 1;\nwgmma.fence.sync.aligned; // second", ""]),
    ("one warp waits and the others meet it", BROUGHT, GROUP, ["%r3, 3; // never\n@%p3 bra L4;\nL3:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+3072], 0;\n@!%p2 bra L3;\nL4:", "%r3, 0;\n@%p3 bra L4;\nL3:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [shared_memory+3072], 0;\n@!%p2 bra L3;\nL4:\nbar.sync 0;"]),
    ("one fence for all warps behind a barrier", MULTIPLY, GROUP, ["L1:\nfence.proxy.async.shared::cta;\nbar.sync 0;", "L1:\nbar.sync 0;\nfence.proxy.async.shared::cta;"]),
    ("both writers fence", TOGETHER, WARPS, ["bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nfence.proxy.async.shared::cta; // reader", "fence.proxy.async.shared::cta;\nbar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;"]),
    ("a warp between the two fences", TOGETHER, WARPS, ["bar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;\nfence.proxy.async.shared::cta; // reader", "bar.sync 0;\nsetp.lt.u32 %p3, %r0, 32;\n@%p3 bra L1;\nfence.proxy.async.shared::cta;\nL1:\nbar.sync 0;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 ret;"]),
    ("the reader fences all memory", TOGETHER, WARPS, ["fence.proxy.async.shared::cta; // reader", "fence.proxy.async;"]),
    ("one warp arrives for all after a barrier", WORD, WARPS, ["[shared_memory], 32;", "[shared_memory], 32; // each of the first warp"]),
    ("one thread arrives for its warp", WORD, WARPS, ["[shared_memory], 32;\nL1:\nbar.sync 0;", "[shared_memory], 1;\nL1:\nbar.sync 0;\nsetp.ge.u32 %p4, %r0, 32;\n@%p4 bra L2;\nshl.b32 %r1, %r0, 4;\nmov.b32 %r2, shared_memory;\nadd.u32 %r2, %r2, %r1;\nst.shared.v4.b32 [%r2+1024], {1, 2, 3, 4};\nbar.warp.sync -1;\nsetp.ne.u32 %p5, %r0, 0;\n@%p5 ret;\nmbarrier.arrive.shared::cta.b64 _, [shared_memory];\nret;"]),
    ("arrival that publishes further than it must", WORD, WARPS, ["mbarrier.arrive.shared::cta.b64 _, [shared_memory];", "mbarrier.arrive.release.cluster.shared::cta.b64 _, [shared_memory];"]),
    ("wait that sees further than it must", WORD, WARPS, ["try_wait.parity.shared::cta", "try_wait.parity.acquire.cluster.shared::cta"]),
    ("flag within one cluster", FLAG, PAIR, ["st.release.gpu", "st.release.cluster"]),
    ("count within one cluster", COUNT, PAIR, ["red.relaxed.gpu", "red.relaxed.cluster"]),
    ("count of one CTA", COUNT, [1, 1, 32], ["red.relaxed.gpu", "red.relaxed.cta"]),
    ("flag for the system", FLAG, APART, ["st.release.gpu", "st.release.sys"]),
    ("barrier kept to the end", REUSED, WARPS, ["st.shared.b32 [%r1], 5;", ""]),
    ("copy that ends before a barrier", COPY_IN, [1, 1, 32], ["[shared_memory], 1;", "[shared_memory], 1;\nmbarrier.init.shared::cta.b64 [shared_memory+192], 1;"]),
];
