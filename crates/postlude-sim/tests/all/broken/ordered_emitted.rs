//! Kernels of the library about order, scopes and what bytes are: with one thing broken, and changed but correct.

use postlude_ptx::launch::Swizzle;
use postlude_sim::Diagnosis;

use super::{Base, Broken, Edit, STORE, Which, broken, map};

const DESCRIPTOR: &str = "or.b64*46116862";
/// Both operands of a product lie in rows of 128 bytes; what the descriptors of other swizzles have there.
const B128: &str = "4611686293305360384";
const B64: &str = "-9223371761976803328";
const B32: &str = "-4611685743549415424";
const PLAIN: &str = "274877972480";
const SHIFTED: &str = "4612249243258781696";

/// A variant that is correct; it has no diagnosis.
const fn variant(name: &'static str, base: Base, edit: Edit) -> Broken {
    broken(name, base, edit, Diagnosis::Deadlock, "")
}

/// All broken ones.
#[rustfmt::skip]
pub(crate) const EMITTED: &[Broken] = &[
    broken("no fence of products from the second tile on", Base::Plain, Edit::Once(Which::At(0), "wgmma.fence"), Diagnosis::MissingProductFence, "wgmma.mma"),
    broken("no fence of products from the second tile on, anywhere", Base::Residual, Edit::Once(Which::All, "wgmma.fence"), Diagnosis::MissingProductFence, "wgmma.mma"),
    broken("no fence of a cluster's products but the first", Base::Bias, Edit::Once(Which::All, "wgmma.fence"), Diagnosis::MissingProductFence, "wgmma.mma"),
    broken("accumulator set after the fence", Base::Plain, Edit::After(Which::At(0), "wgmma.fence", "mov.b32 %f0, %f1;"), Diagnosis::MissingProductFence, "wgmma.mma"),
    broken("accumulator scaled after the fence", Base::Bias, Edit::After(Which::At(0), "wgmma.fence", "add.rn.f32 %f3, %f3, %f3;"), Diagnosis::MissingProductFence, "wgmma.mma"),
    broken("only the first warp waits for a full stage", Base::Plain, Edit::WaitOnly(1, 0b0001), Diagnosis::ReadUnderCopy, "wgmma.mma"),
    broken("only the last warp waits for a full stage", Base::Plain, Edit::WaitOnly(2, 0b1000), Diagnosis::ReadUnderCopy, "wgmma.mma"),
    broken("the third warp does not wait for a full stage", Base::Plain, Edit::WaitOnly(1, 0b1011), Diagnosis::ReadUnderCopy, "wgmma.mma"),
    broken("only the second warp waits for a cluster's full stage", Base::Cluster, Edit::WaitOnly(1, 0b0010), Diagnosis::ReadUnderCopy, "wgmma.mma"),
    broken("the first warp does not wait in the loop", Base::Bias, Edit::WaitOnly(2, 0b1110), Diagnosis::ReadUnderCopy, "wgmma.mma"),
    broken("rows across a cluster released to the CTA", Base::Across, Edit::Replace(Which::All, "mbarrier.arrive.release.cluster", "release.cluster.", ""), Diagnosis::UnorderedShared, "ld.shared::cluster"),
    broken("rows across a cluster released to the CTA in full", Base::Across, Edit::Replace(Which::All, "mbarrier.arrive.release.cluster", "release.cluster", "release.cta"), Diagnosis::UnorderedShared, "ld.shared::cluster"),
    broken("rows across a cluster acquired from the CTA", Base::Across, Edit::Replace(Which::All, "acquire.cluster", "acquire.cluster.", ""), Diagnosis::UnorderedShared, "ld.shared::cluster"),
    broken("words of partial results of the CTA", Base::Reduction, Edit::Replace(Which::At(0), "st.relaxed.gpu", ".gpu", ".cta"), Diagnosis::UnorderedGlobal, "relaxed"),
    broken("partial results counted within the CTA", Base::Reduction, Edit::Replace(Which::All, "atom.relaxed.gpu", ".gpu", ".cta"), Diagnosis::UnorderedGlobal, "atom"),
    broken("partial results read within the CTA", Base::Reduction, Edit::Replace(Which::All, "ld.relaxed.gpu", ".gpu", ".cta"), Diagnosis::UnorderedGlobal, "relaxed"),
    broken("partial results read within the cluster", Base::Reduction, Edit::Replace(Which::All, "ld.relaxed.gpu", ".gpu", ".cluster"), Diagnosis::UnorderedGlobal, "relaxed"),
    broken("barriers over the first stage", Base::Plain, Edit::Barriers(0), Diagnosis::BarrierBytes, "cp.async.bulk.tensor"),
    broken("barriers over the first stage of a cluster", Base::Cluster, Edit::Barriers(0), Diagnosis::BarrierBytes, "cp.async.bulk.tensor"),
    broken("barriers over slots of stores", Base::Plain, Edit::Over("stores"), Diagnosis::BarrierBytes, "stmatrix"),
    broken("barriers over slots of wide stores", Base::Wide, Edit::Over("stores"), Diagnosis::BarrierBytes, "st.shared"),
    broken("barriers over slots of C", Base::Residual, Edit::Over("tile operands"), Diagnosis::BarrierBytes, "cp.async.bulk.tensor"),
    broken("barriers over values along columns", Base::Bias, Edit::Over("values along columns"), Diagnosis::BarrierBytes, "shared"),
    broken("descriptor of A with 64 bytes", Base::Plain, Edit::Replace(Which::At(0), DESCRIPTOR, B128, B64), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("descriptor of B with 32 bytes", Base::Plain, Edit::Replace(Which::At(1), DESCRIPTOR, B128, B32), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("descriptor of A without a swizzle", Base::Cluster, Edit::Replace(Which::At(0), DESCRIPTOR, B128, PLAIN), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("descriptor with a pattern that starts late", Base::Plain, Edit::Replace(Which::At(0), DESCRIPTOR, B128, SHIFTED), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("map of A without a swizzle", Base::Plain, Edit::Launch(|bound| map(bound, 0).swizzle = Swizzle::None), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("map of B without a swizzle", Base::Plain, Edit::Launch(|bound| map(bound, 1).swizzle = Swizzle::None), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("map of a cluster's B without a swizzle", Base::Cluster, Edit::Launch(|bound| map(bound, 1).swizzle = Swizzle::None), Diagnosis::SwizzleMismatch, "wgmma.mma"),
    broken("no stores", Base::Plain, Edit::Drop(Which::All, STORE), Diagnosis::OutputUnwritten, ""),
    broken("no stores of the first output", Base::TwoOutputs, Edit::Drop(Which::At(0), STORE), Diagnosis::OutputUnwritten, ""),
    broken("all tiles stored to the first columns", Base::Wide, Edit::Coordinate(Which::All, STORE, "0"), Diagnosis::OutputUnwritten, ""),
    broken("one of many direct stores is missing", Base::Odd, Edit::Drop(Which::At(2), "st.global"), Diagnosis::OutputUnwritten, ""),
    broken("no store of reduced rows", Base::Reduction, Edit::Drop(Which::Last, "st.global"), Diagnosis::OutputUnwritten, ""),
    broken("output longer than the tensor map", Base::Plain, Edit::Launch(|bound| map(bound, 2).sizes[1] = 60), Diagnosis::OutputUnwritten, ""),
];

/// Correct ones.
#[rustfmt::skip]
pub(crate) const VARIANTS: &[Broken] = &[
    variant("two fences of products", Base::Plain, Edit::Twice(Which::All, "wgmma.fence")),
    variant("no fence in the loop, where nothing touches accumulators", Base::Plain, Edit::Drop(Which::At(1), "wgmma.fence")),
    variant("a stage is released to the cluster in full", Base::Cluster, Edit::Replace(Which::All, "mbarrier.arrive.shared::cluster", "arrive.", "arrive.release.cluster.")),
    variant("a full stage is acquired from the cluster", Base::Cluster, Edit::Replace(Which::At(1), "try_wait", "parity.", "parity.acquire.cluster.")),
    variant("partial results of the system", Base::Reduction, Edit::Replace(Which::All, "relaxed.gpu", ".gpu", ".sys")),
    variant("fences of all memory", Base::Residual, Edit::Replace(Which::All, "fence.proxy.async", ".shared::cta", "")),
    variant("barriers lie further behind", Base::Plain, Edit::Launch(|bound| bound.launch.shared_bytes += 64)),
];
