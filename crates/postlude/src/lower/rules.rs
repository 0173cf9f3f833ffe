//! What of a body no launch computes: each with its limit and what to write instead.
//!
//! In: the rule that a node breaks. Out: a refusal that knows the statement. docs/refusals.md lists them all.

use crate::graph::{Graph, NodeId, Op};

use super::refusal::{LowerRefusal, bytes_of, first};

/// A rule of the epilogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    /// `D = z - sum(z, M)`: the columns are finished after the tiles are stored.
    FinishedMeetsOther,
    /// `t = max(z, N); D = softmax(z, N); s = sum(t, M) - D`.
    FinishedMeetsPass,
    /// `D = sum(z, M)` declared `[M, N]`.
    FinishedInTile,
    /// `sum(z, L)` over batches alone, or runs of what is finished.
    FoldLeavesTile,
    /// `topk(z, 9, N)`.
    ManyTop,
    /// `pick(z, i32(max(z, N)))`.
    PickOfFinished,
    /// Batches of size 0.
    NoBatches,
    /// Values of more columns than the product, or runs of a finished reduction used in every column.
    OtherColumns,
    /// `max(z, M, 128, N)`, or a reduction of what runs of rows gave.
    RowRuns,
    /// `softmax(z / absmax(z, M, 128), N)`.
    RowMeetsBlock,
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
    /// Parts of packed elements.
    PackedParts,
    /// Parts that are no slice of what they are made of.
    NoSlice,
    /// More products than threads have accumulators for.
    ManyParts,
    /// Parts that are neither halves nor pairs and that meet each other.
    NamedParts,
    /// Parts inside of runs of columns that are no pairs.
    RunParts,
    /// A reduction or `concat` of runs of parts' columns.
    RunsOfParts,
    /// Parts that begin inside of a run of columns.
    UnevenWindow,
    /// Parts of the columns of a product with block scales.
    ScaledParts,
    /// Indices of several rows of a part.
    IndexInPart,
    /// `sum(D, T)` of segmented rows.
    SegmentedRows,
}

impl Rule {
    /// What the limit is.
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Rule::FinishedMeetsOther => {
                "this needs a finished reduction before it can be computed, and varies along other dims than the result; that takes two launches"
            }
            Rule::FinishedMeetsPass => {
                "this needs the result of a reduction over all rows beside one of its own row; that takes two launches"
            }
            Rule::FinishedInTile => {
                "a finished reduction is repeated in every element of a tile, and tiles are stored before it is finished"
            }
            Rule::FoldLeavesTile => {
                "a reduction over the batch alone leaves a tile, which no launch finishes"
            }
            Rule::ManyTop => "a launch keeps at most 8 largest values of a row with their indices",
            Rule::PickOfFinished => {
                "in one launch the index and the values of `pick` are known before any reduction is finished"
            }
            Rule::NoBatches => "the batch has size 0, and no tile would write the outputs",
            Rule::OtherColumns => {
                "a launch computes a value for each column of the product, or for runs of them inside a tile; this one has other columns"
            }
            Rule::RowRuns => {
                "a tile reduces runs of rows of its elements, alone or with runs of columns; this reduces all columns, batches or a vector beside them, or reduces the result further"
            }
            Rule::RowMeetsBlock => {
                "a reduction of whole rows needs the result of runs of rows, which a tile finishes after its rows"
            }
            Rule::PackedVector => {
                "only bits of tiles are packed; this output is a vector or a scalar"
            }
            Rule::Whole => "an epilogue does not run this operation",
            Rule::AmbiguousParts => {
                "views tell dims apart by name; these parts have as many columns as there are rows or batches, by a fixed size"
            }
            Rule::SharedParts => {
                "no launch reduces over the batch what all batches share a part of"
            }
            Rule::UnevenParts => {
                "runs of columns are split into parts only where the columns are a multiple of both"
            }
            Rule::ManyNumbered => "a launch numbers at most 2^25 columns beside halves or pairs",
            Rule::WholeFoldBesideParts => {
                "a reduction of all columns that does not combine from its parts stands beside halves or pairs of the same columns"
            }
            Rule::PickBesideParts => {
                "`pick` of all columns stands beside halves or pairs of the same columns"
            }
            Rule::PackedParts => "packed elements (b1, i4, u4) have no halves or pairs in memory",
            Rule::NoSlice => {
                "halves or pairs of this value are no slices (first or second half, every other column) of the inputs and the product that it is made of, or lie more than three splits deep"
            }
            Rule::ManyParts => {
                "a launch multiplies at most 8 parts of B; these halves and pairs need more"
            }
            Rule::NamedParts => {
                "parts of a split that are neither halves nor pairs of it meet each other here, and lie in different tiles"
            }
            Rule::RunParts => {
                "parts of runs of columns are computed in one launch where they are pairs, or where each has a multiple of 8 columns and they are put together again in tiles"
            }
            Rule::RunsOfParts => {
                "no launch reduces or puts together values that have one column for each run of a part's columns"
            }
            Rule::ScaledParts => {
                "parts of the product's columns are products of their own, which have no block scales"
            }
            Rule::SegmentedRows => {
                "rows of segments are no blocks of rows of the launch; this folds many columns of each, or counts them"
            }
            Rule::IndexInPart => {
                "a launch counts columns, and these indices are counted within a part of them"
            }
            Rule::UnevenWindow => {
                "a part of the columns begins inside of a run of columns that is reduced, or between the columns of a pair"
            }
        }
    }

    /// What to write instead.
    pub(crate) const fn instead(self) -> &'static str {
        match self {
            Rule::FinishedMeetsOther | Rule::FinishedInTile => {
                "store the reduction as an output and use it in a second kernel; reductions along N of rows that a cluster holds (`softmax`, `rms_norm`, `layer_norm`) meet their rows in one launch"
            }
            Rule::FinishedMeetsPass => {
                "store one of the two reductions as an output and use it in a second kernel"
            }
            Rule::FoldLeavesTile => {
                "reduce rows or columns too (`sum(z, L, M)`), or make the batch part of K: a sum over batches is one longer product"
            }
            Rule::ManyTop => {
                "ask for 8 or fewer, or run it on the CPU; longer lists of all columns take a launch for each 8"
            }
            Rule::PickOfFinished => {
                "pass the index as an input (`t: i32[M]`), or pick in a second kernel"
            }
            Rule::NoBatches => "skip the call: there is nothing to compute",
            Rule::OtherColumns => {
                "reduce runs of the product's own columns inside the tile (`max(z, N, 128)`) and use the result there, or use it in a second kernel"
            }
            Rule::RowRuns => {
                "reduce blocks (`absmax(z, M, 128, N, 128)`), store them as an output, and reduce those in a second kernel"
            }
            Rule::RowMeetsBlock => {
                "store the result of the runs as an output and use it in a second kernel"
            }
            Rule::PackedVector => "declare the output `bool`",
            Rule::Whole => "run it on the CPU",
            Rule::AmbiguousParts => "give the columns a name (`N`) instead of a fixed size",
            Rule::SharedParts => "reduce before the split, or reduce in a second kernel",
            Rule::UnevenParts => "make N a multiple of both, or split before the runs are reduced",
            Rule::ManyNumbered => "run it on the CPU",
            Rule::WholeFoldBesideParts => {
                "combine the parts' reductions by hand, as `maximum(max(a, N/2), max(b, N/2))`, or reduce in a second kernel"
            }
            Rule::PickBesideParts => "pick in a second kernel",
            Rule::PackedParts => "pass them as whole bytes: `bool`, `i8` or `u8`",
            Rule::NoSlice => {
                "split the inputs and the product first, and compute with the parts: `a, b = pairs(A @ B)` before `concat`, not after it; take deeper parts in a second kernel"
            }
            Rule::ManyParts => "compute some of the parts in a second kernel",
            Rule::NamedParts => "run it on the CPU, or combine the parts in a second kernel",
            Rule::RunParts => {
                "put the parts together (`concat(a, b, 128)`) before they are stored or reduced, interleave the columns and write `pairs`, or run it on the CPU"
            }
            Rule::RunsOfParts => "reduce the part itself, or use the runs in a second kernel",
            Rule::ScaledParts => "take the parts in a second kernel",
            Rule::SegmentedRows => {
                "store the value, and fold it in a second kernel, or run it on the CPU"
            }
            Rule::IndexInPart => {
                "store the part and take the indices in a second kernel, write `argmax(part, dim)` of one row, or run it on the CPU"
            }
            Rule::UnevenWindow => "give the parts sizes that are multiples of the runs",
        }
    }

    /// The refusal of a node.
    pub(super) fn at(self, graph: &Graph, node: NodeId) -> LowerRefusal {
        let bytes = bytes_of(graph, node);
        LowerRefusal::Operation { message: self.message(), instead: self.instead(), bytes }
    }

    /// The refusal of the first node with such an operation, or of the whole body.
    pub(super) fn at_first(self, graph: &Graph, is_such: impl Fn(&Op) -> bool) -> LowerRefusal {
        first(graph, is_such).map_or_else(|| self.anywhere(), |node| self.at(graph, node))
    }

    /// The refusal of a whole body.
    pub(super) fn anywhere(self) -> LowerRefusal {
        LowerRefusal::Operation { message: self.message(), instead: self.instead(), bytes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every rule that an example of docs/refusals.md breaks.
    const LISTED: &[Rule] = &[
        Rule::FinishedMeetsOther,
        Rule::FinishedMeetsPass,
        Rule::FinishedInTile,
        Rule::FoldLeavesTile,
        Rule::PickOfFinished,
        Rule::NoBatches,
        Rule::OtherColumns,
        Rule::RowRuns,
        Rule::RowMeetsBlock,
        Rule::PackedVector,
        Rule::AmbiguousParts,
        Rule::SharedParts,
        Rule::UnevenParts,
        Rule::ManyNumbered,
        Rule::WholeFoldBesideParts,
        Rule::PickBesideParts,
        Rule::PackedParts,
        Rule::NoSlice,
        Rule::NamedParts,
        Rule::RunParts,
        Rule::RunsOfParts,
        Rule::UnevenWindow,
        Rule::IndexInPart,
        Rule::SegmentedRows,
    ];

    #[test]
    fn every_rule_stands_on_the_page_of_refusals() {
        let page = include_str!("../../../../docs/refusals.md");
        for rule in LISTED {
            assert!(page.contains(rule.message()) && page.contains(rule.instead()), "{rule:?}");
        }
    }
}
