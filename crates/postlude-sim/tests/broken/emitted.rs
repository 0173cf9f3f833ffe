//! Kernels of the library with one thing broken, one entry a line or two.

use postlude_sim::Diagnosis;

use super::{Base, Broken, Edit, Which};

const LOAD: &str = "cp.async.bulk.tensor.3d.shared::cluster";
const STORE: &str = "cp.async.bulk.tensor.3d.global";
const RELEASE: &str = "mbarrier.arrive.shared::cta.b64";
const PROXY: &str = "fence.proxy.async";
const MEET: &str = "bar.sync %r";

const fn broken(
    name: &'static str,
    base: Base,
    edit: Edit,
    diagnosis: Diagnosis,
    at: &'static str,
    region: Option<&'static str>,
) -> Broken {
    Broken { name, base, edit, diagnosis, at, region }
}

/// All of them.
#[rustfmt::skip]
pub(crate) const BROKEN: &[Broken] = &[
    broken("no wait for a full stage", Base::Plain, Edit::NoWait(1), Diagnosis::ReadUnderCopy, "wgmma.mma", Some("stages")),
    broken("no wait for a full stage in a cluster", Base::Cluster, Edit::NoWait(1), Diagnosis::ReadUnderCopy, "wgmma.mma", Some("stages")),
    broken("no wait for an empty stage", Base::Plain, Edit::NoWait(0), Diagnosis::TwoProducers, "expect_tx", None),
    broken("no wait for a full slot of C", Base::Residual, Edit::NoWait(4), Diagnosis::ReadUnderCopy, "ldmatrix", Some("tile operands")),
    broken("no wait for an empty slot of C", Base::Residual, Edit::NoWait(1), Diagnosis::TwoProducers, "expect_tx", None),
    broken("consumer starts with the other parity", Base::Plain, Edit::OtherParity(1), Diagnosis::WrongParity, "try_wait", Some("stages")),
    broken("producer starts with the other parity", Base::Plain, Edit::OtherParity(0), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("consumer keeps its parity", Base::Plain, Edit::SameParity(2), Diagnosis::WrongParity, "try_wait", Some("stages")),
    broken("producer keeps its parity", Base::Plain, Edit::SameParity(0), Diagnosis::TwoProducers, "expect_tx", None),
    broken("consumer of C starts with the other parity", Base::Residual, Edit::OtherParity(4), Diagnosis::WrongParity, "try_wait", Some("tile operands")),
    broken("more bytes promised", Base::Plain, Edit::Replace(Which::All, "expect_tx", "16384", "16400"), Diagnosis::TransactionMismatch, "try_wait", None),
    broken("fewer bytes promised", Base::Plain, Edit::Replace(Which::All, "expect_tx", "16384", "16368"), Diagnosis::TransactionMismatch, "try_wait", None),
    broken("only A's bytes promised", Base::Plain, Edit::Replace(Which::All, "expect_tx", "16384", "8192"), Diagnosis::ReadUnderCopy, "wgmma.mma", Some("stages")),
    broken("no bytes promised", Base::Plain, Edit::Replace(Which::All, "expect_tx", ", 16384", ", 0"), Diagnosis::ReadUnderCopy, "wgmma.mma", Some("stages")),
    broken("no promise and no arrival", Base::Plain, Edit::Drop(Which::All, "expect_tx"), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("promise made twice", Base::Plain, Edit::Twice(Which::All, "expect_tx"), Diagnosis::TwoProducers, "expect_tx", None),
    broken("B never loaded", Base::Plain, Edit::Drop(Which::At(1), LOAD), Diagnosis::TransactionMismatch, "try_wait", None),
    broken("A loaded where B goes", Base::Plain, Edit::Replace(Which::At(0), LOAD, "], [%rd", "+8192], [%rd"), Diagnosis::OverwriteUnderCopy, LOAD, Some("stages")),
    broken("load to an address between rows", Base::Plain, Edit::Replace(Which::At(1), LOAD, "+8192]", "+8208]"), Diagnosis::Misaligned, LOAD, Some("stages")),
    broken("load from between two chunks", Base::Plain, Edit::Coordinate(Which::At(0), LOAD, "4"), Diagnosis::Misaligned, LOAD, None),
    broken("no fence before a store", Base::Plain, Edit::Drop(Which::All, PROXY), Diagnosis::MissingProxyFence, "stmatrix", Some("stores")),
    broken("no fence before a wide store", Base::Wide, Edit::Drop(Which::All, PROXY), Diagnosis::MissingProxyFence, "st.shared", Some("stores")),
    broken("no fence before the first of two outputs", Base::TwoOutputs, Edit::Drop(Which::At(0), PROXY), Diagnosis::MissingProxyFence, "st.shared", Some("stores")),
    broken("fence for global memory only", Base::Plain, Edit::Replace(Which::At(0), PROXY, "fence.proxy.async.shared::cta", "fence.proxy.async.global"), Diagnosis::MissingProxyFence, "stmatrix", Some("stores")),
    broken("no fence before C is released", Base::Residual, Edit::Drop(Which::At(0), PROXY), Diagnosis::MissingProxyFence, "ldmatrix", Some("tile operands")),
    broken("stage released under its products", Base::Plain, Edit::Replace(Which::At(1), "wgmma.wait_group", " 1;", " 2;"), Diagnosis::OverwriteUnderProduct, LOAD, Some("stages")),
    broken("no wait for products in the loop", Base::Plain, Edit::Drop(Which::At(1), "wgmma.wait_group"), Diagnosis::OverwriteUnderProduct, LOAD, Some("stages")),
    broken("stage of the cluster released under its products", Base::Cluster, Edit::Replace(Which::At(1), "wgmma.wait_group", " 1;", " 2;"), Diagnosis::OverwriteUnderProduct, LOAD, Some("stages")),
    broken("no wait for the last products", Base::Plain, Edit::Drop(Which::At(2), "wgmma.wait_group"), Diagnosis::AccumulatorTouched, "cvt", None),
    broken("accumulator touched in the loop", Base::Plain, Edit::After(Which::At(0), "wgmma.commit_group", "mov.b32 %f0, %f1;"), Diagnosis::AccumulatorTouched, "mov", None),
    broken("no fence of products", Base::Plain, Edit::Drop(Which::All, "wgmma.fence"), Diagnosis::MissingProductFence, "wgmma.mma", None),
    broken("empty barrier waits for one more", Base::Plain, Edit::Replace(Which::All, "mbarrier.init*+64]", ", 1;", ", 2;"), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("full barrier waits for one more", Base::Plain, Edit::Replace(Which::At(0), "mbarrier.init", ", 1;", ", 2;"), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("empty barriers count one arrival too few", Base::Cluster, Edit::Replace(Which::All, "mbarrier.init", ", 4;", ", 3;"), Diagnosis::OverwriteUnderProduct, LOAD, Some("stages")),
    broken("empty barriers of C count two warps of four", Base::Residual, Edit::Replace(Which::All, "mbarrier.init", ", 4;", ", 2;"), Diagnosis::ReadUnderCopy, "ldmatrix", Some("tile operands")),
    broken("stage never released", Base::Plain, Edit::Drop(Which::All, RELEASE), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("last stage of a tile not released", Base::Plain, Edit::Drop(Which::At(1), RELEASE), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("stage of the cluster never released", Base::Cluster, Edit::Drop(Which::All, "mbarrier.arrive.shared::cluster"), Diagnosis::ArrivalUnderflow, "try_wait", None),
    broken("C released twice", Base::Residual, Edit::Twice(Which::Last, RELEASE), Diagnosis::ReadUnderCopy, "ldmatrix", Some("tile operands")),
    broken("store slot not awaited", Base::Plain, Edit::Drop(Which::All, "wait_group.read"), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("store slot awaited one too late", Base::Plain, Edit::Replace(Which::All, "wait_group.read", "read 1", "read 2"), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("stores not in a group", Base::Plain, Edit::Drop(Which::All, "cp.async.bulk.commit_group"), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("last stores not awaited", Base::Plain, Edit::Drop(Which::Last, "cp.async.bulk.wait_group 0"), Diagnosis::UnfinishedCopy, STORE, None),
    broken("no barrier before the store", Base::Columns, Edit::Drop(Which::At(1), MEET), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("no barrier before a slot is filled", Base::Columns, Edit::Drop(Which::At(0), MEET), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("barrier of too many threads", Base::Columns, Edit::Replace(Which::At(0), MEET, ", 128;", ", 160;"), Diagnosis::Deadlock, "bar.sync", None),
    broken("barrier of too few threads", Base::Columns, Edit::Replace(Which::At(1), MEET, ", 128;", ", 96;"), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("arrives where it should wait", Base::Columns, Edit::Replace(Which::At(1), MEET, "sync", "arrive"), Diagnosis::OverwriteUnderCopy, "stmatrix", Some("stores")),
    broken("column values not awaited", Base::Bias, Edit::Drop(Which::At(1), "bar.sync*, 256;"), Diagnosis::UninitialisedRead, "ld.shared", Some("values along columns")),
    broken("column values overwritten under readers", Base::Bias, Edit::Drop(Which::At(0), "bar.sync*, 256;"), Diagnosis::UnorderedShared, "st.shared", Some("values along columns")),
    broken("column values never written", Base::Bias, Edit::Drop(Which::All, "st.shared.b32"), Diagnosis::UninitialisedRead, "ld.shared", Some("values along columns")),
    broken("more registers than there are", Base::Cluster, Edit::Replace(Which::All, "setmaxnreg.inc", "232", "256"), Diagnosis::RegisterFile, "setmaxnreg", None),
    broken("cluster does not meet at its end", Base::Cluster, Edit::Drop(Which::Last, "barrier.cluster.wait"), Diagnosis::EndedCta, "mbarrier.arrive.shared::cluster", None),
    broken("multicast to one CTA of two", Base::Cluster, Edit::Replace(Which::All, "mov.b16", ", 3;", ", 1;"), Diagnosis::TransactionMismatch, "try_wait", None),
    broken("barriers used before they are made", Base::Plain, Edit::Drop(Which::At(0), "bar.sync 0"), Diagnosis::WaitBeforeInit, "mbarrier", None),
    broken("barriers of a cluster not fenced", Base::Cluster, Edit::Drop(Which::All, "fence.mbarrier_init"), Diagnosis::WaitBeforeInit, "mbarrier", None),
    broken("barrier made twice", Base::Plain, Edit::Twice(Which::At(3), "mbarrier.init"), Diagnosis::InitialisedTwice, "mbarrier.init", Some("barriers")),
    broken("barrier never made", Base::Plain, Edit::Drop(Which::At(3), "mbarrier.init"), Diagnosis::NoBarrier, "mbarrier", None),
    broken("two CTAs store one tile", Base::Pair, Edit::Replace(Which::All, "%clusterid.x", "%clusterid.x", "0"), Diagnosis::UnorderedGlobal, STORE, None),
    broken("two CTAs store one element", Base::Odd, Edit::Replace(Which::All, "%clusterid.x", "%clusterid.x", "0"), Diagnosis::UnorderedGlobal, "st.global", None),
    broken("output smaller than its map", Base::Plain, Edit::Launch(|bound| bound.buffers[2].truncate(1000)), Diagnosis::OutOfBounds, STORE, None),
    broken("bias shorter than the columns", Base::Bias, Edit::Launch(|bound| bound.buffers[2].truncate(64)), Diagnosis::OutOfBounds, "ld.global", None),
    broken("operand smaller than its map", Base::Plain, Edit::Launch(|bound| bound.buffers[0].truncate(1000)), Diagnosis::OutOfBounds, LOAD, None),
    broken("words of partial results not left", Base::Reduction, Edit::Drop(Which::At(0), "st.relaxed.gpu"), Diagnosis::Deadlock, "", None),
    broken("words of partial results not cleared", Base::Reduction, Edit::Drop(Which::All, "@*st.relaxed.gpu"), Diagnosis::ScratchLeft, "", None),
    broken("less shared memory than needed", Base::Plain, Edit::Launch(|bound| bound.launch.shared_bytes -= 64), Diagnosis::SharedBeyond, "mbarrier.init", None),
];
