//! What of a body no Hopper kernel does in one launch: each with its limit and what to write instead.
//!
//! In: the rule that a node breaks. Out: a refusal that knows the statement. docs/refusals.md lists them all.

use crate::graph::{Graph, NodeId, Op};

use super::Sm90Refusal;
use super::refuse::{bytes_of, first};

/// A rule of the epilogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unsupported {
    /// `D = z - sum(z, M)`: the columns are finished after the tiles are stored.
    FinishedMeetsOther,
    /// `t = max(z, N); D = softmax(z, N); s = sum(t, M) - D`.
    FinishedMeetsPass,
    /// `D = sum(z, M)` declared `[M, N]`.
    FinishedInTile,
    /// `sum(z, L)` over batches alone, or runs of what is finished.
    FoldLeavesTile,
    /// `topk_softmax(z, 17, N)`.
    ManyLargest,
    /// `pick(z, i32(max(z, N)))`.
    PickOfFinished,
    /// Batches of size 0.
    NoBatches,
    /// Values of more columns than the product, or runs of a finished reduction used in every column.
    OtherColumns,
    /// A vector or a scalar stored as b1.
    PackedVector,
    /// Parts, merges or calls that planning did not remove.
    Whole,
    /// Parts with as many columns as there are rows or batches, by a fixed size.
    AmbiguousParts,
    /// A reduction over batches of parts that batches share.
    SharedParts,
    /// Sizes that slices of runs do not divide.
    UnevenParts,
    /// `col` beyond what a float counts, beside parts.
    ManyNumbered,
    /// A reduction of all columns beside parts of them that does not combine from parts.
    WholeFoldBesideParts,
    /// `pick` of all columns beside parts of them.
    PickBesideParts,
    /// Parts of packed bits.
    PackedParts,
    /// Parts that are no slice of what they are made of.
    NoSlice,
    /// More products than threads have accumulators for.
    ManyParts,
}

impl Unsupported {
    /// What the limit is.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Unsupported::FinishedMeetsOther => {
                "this needs a finished reduction before it can be computed, and varies along other dims than the result; on sm90 that takes two launches"
            }
            Unsupported::FinishedMeetsPass => {
                "this needs the result of a reduction over all rows beside one of its own row; on sm90 that takes two launches"
            }
            Unsupported::FinishedInTile => {
                "a finished reduction is repeated in every element of a tile, and on sm90 the tiles are stored before it is finished"
            }
            Unsupported::FoldLeavesTile => {
                "a reduction over the batch alone leaves a tile, which sm90 does not finish"
            }
            Unsupported::ManyLargest => "sm90 keeps at most 16 largest values of a row",
            Unsupported::PickOfFinished => {
                "on sm90 the index and the values of `pick` are known before any reduction is finished"
            }
            Unsupported::NoBatches => "the batch has size 0, and no tile would write the outputs",
            Unsupported::OtherColumns => {
                "sm90 computes a value for each column of the product, or for runs of them inside a tile; this one has other columns"
            }
            Unsupported::PackedVector => {
                "sm90 packs bits of tiles; this output is a vector or a scalar"
            }
            Unsupported::Whole => "sm90 does not run this operation in the epilogue",
            Unsupported::AmbiguousParts => {
                "sm90 tells dims apart by name; these parts have as many columns as there are rows or batches, by a fixed size"
            }
            Unsupported::SharedParts => {
                "sm90 does not reduce over the batch what all batches share a part of"
            }
            Unsupported::UnevenParts => {
                "sm90 splits runs of columns into parts only where the columns are a multiple of both"
            }
            Unsupported::ManyNumbered => "sm90 numbers at most 2^25 columns beside halves or pairs",
            Unsupported::WholeFoldBesideParts => {
                "a reduction of all columns that does not combine from its parts stands beside halves or pairs of the same columns"
            }
            Unsupported::PickBesideParts => {
                "`pick` of all columns stands beside halves or pairs of the same columns"
            }
            Unsupported::PackedParts => "sm90 does not take halves or pairs of packed bits",
            Unsupported::NoSlice => {
                "halves or pairs of this value are no slices (first or second half, every other column) of the inputs and the product that it is made of, or lie more than three splits deep"
            }
            Unsupported::ManyParts => {
                "sm90 multiplies at most 8 parts of B; these halves and pairs need more"
            }
        }
    }

    /// What to write instead.
    pub(crate) const fn instead(self) -> &'static str {
        match self {
            Unsupported::FinishedMeetsOther | Unsupported::FinishedInTile => {
                "store the reduction as an output and use it in a second kernel; reductions along N of rows that a cluster holds (`softmax`, `rms_norm`, `layer_norm`) meet their rows in one launch"
            }
            Unsupported::FinishedMeetsPass => {
                "store one of the two reductions as an output and use it in a second kernel"
            }
            Unsupported::FoldLeavesTile => {
                "reduce rows or columns too (`sum(z, L, M)`), or make the batch part of K: a sum over batches is one longer product"
            }
            Unsupported::ManyLargest => "ask for 16 or fewer, or run it on the CPU",
            Unsupported::PickOfFinished => {
                "pass the index as an input (`t: i32[M]`), or pick in a second kernel"
            }
            Unsupported::NoBatches => "skip the call: there is nothing to compute",
            Unsupported::OtherColumns => {
                "reduce runs of the product's own columns inside the tile (`max(z, N, 128)`) and use the result there, or use it in a second kernel"
            }
            Unsupported::PackedVector => "declare the output `bool`",
            Unsupported::Whole => "run it on the CPU",
            Unsupported::AmbiguousParts => "give the columns a name (`N`) instead of a fixed size",
            Unsupported::SharedParts => "reduce before the split, or reduce in a second kernel",
            Unsupported::UnevenParts => {
                "make N a multiple of both, or split before the runs are reduced"
            }
            Unsupported::ManyNumbered => "run it on the CPU",
            Unsupported::WholeFoldBesideParts => {
                "combine the parts' reductions by hand, as `maximum(max(a, N/2), max(b, N/2))`, or reduce in a second kernel"
            }
            Unsupported::PickBesideParts => "pick in a second kernel",
            Unsupported::PackedParts => "pass the mask as `bool`",
            Unsupported::NoSlice => {
                "split the inputs and the product first, and compute with the parts: `a, b = pairs(A @ B)` before `concat`, not after it; take deeper parts in a second kernel"
            }
            Unsupported::ManyParts => "compute some of the parts in a second kernel",
        }
    }

    /// The refusal of a node.
    pub(super) fn at(self, graph: &Graph, node: NodeId) -> Sm90Refusal {
        let bytes = bytes_of(graph, node);
        Sm90Refusal::Operation { message: self.message(), instead: self.instead(), bytes }
    }

    /// The refusal of the first node with such an operation, or of the whole body.
    pub(super) fn at_first(self, graph: &Graph, is_such: impl Fn(&Op) -> bool) -> Sm90Refusal {
        first(graph, is_such).map_or_else(|| self.anywhere(), |node| self.at(graph, node))
    }

    /// The refusal of a whole body.
    pub(super) fn anywhere(self) -> Sm90Refusal {
        Sm90Refusal::Operation { message: self.message(), instead: self.instead(), bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule that an example of docs/refusals.md breaks.
    const LISTED: &[Unsupported] = &[
        Unsupported::FinishedMeetsOther,
        Unsupported::FinishedMeetsPass,
        Unsupported::FinishedInTile,
        Unsupported::FoldLeavesTile,
        Unsupported::ManyLargest,
        Unsupported::PickOfFinished,
        Unsupported::NoBatches,
        Unsupported::OtherColumns,
        Unsupported::PackedVector,
        Unsupported::AmbiguousParts,
        Unsupported::SharedParts,
        Unsupported::UnevenParts,
        Unsupported::ManyNumbered,
        Unsupported::WholeFoldBesideParts,
        Unsupported::PickBesideParts,
        Unsupported::PackedParts,
        Unsupported::NoSlice,
    ];

    #[test]
    fn every_rule_stands_on_the_page_of_refusals() {
        let page = include_str!("../../../../../docs/refusals.md");
        for rule in LISTED {
            assert!(page.contains(rule.message()) && page.contains(rule.instead()), "{rule:?}");
        }
    }
}
