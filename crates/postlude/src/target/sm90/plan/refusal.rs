//! Why a kernel is not run on Hopper: named rules, so that `explain` can say why.

use crate::lower::LowerRefusal;

/// Why a kernel is not run on Hopper.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Sm90Refusal {
    /// What no launch computes.
    #[error(transparent)]
    Lower(#[from] LowerRefusal),
    /// Sizes beyond 32-bit coordinates.
    #[error("sm90 counts rows, columns and tiles in 31 bits; this problem has more")]
    TooLarge,
    /// A given schedule was made for another epilogue.
    #[error("the schedule does not fit this problem, which has {wanted}")]
    OtherNeeds {
        /// What they would have to be.
        wanted: String,
    },
    /// A given schedule that no kernel can be emitted for.
    #[error(
        "the schedule's knob `{knob}` has a value that sm90 kernels do not have, or that does not go with its tile"
    )]
    Knob {
        /// Its name.
        knob: &'static str,
    },
    /// A fragment that does not divide the epilogue tile.
    #[error(
        "the schedule's fragment is no multiple of 8 columns that divides its epilogue tile of {epilogue_tile}"
    )]
    Fragment {
        /// Columns of the epilogue tile.
        epilogue_tile: u32,
    },
    /// Delayed stores with one slot, which cannot be filled before it is stored.
    #[error("the schedule delays stores until the next slot is filled, but has one D stage")]
    DelayedSlot,
    /// Slots of C that no output can take over.
    #[error(
        "the schedule reuses C's slots for D, but TMA loads no tile operand in the order and the element size of an output"
    )]
    NothingToReuse,
    /// Slots of several epilogue tiles that are read before the first of them is finished.
    #[error(
        "the schedule reuses C's slots for D, but operands of {span} columns are read before their first epilogue tile is finished"
    )]
    ReuseOfSpans {
        /// Columns that are read ahead.
        span: u32,
    },
    /// Slots that the next epilogue tile would wait for.
    #[error(
        "the schedule reuses C's slots for D and needs {need} C stages for it, twice those of an epilogue tile"
    )]
    ReuseOfFewSlots {
        /// The fewest C stages.
        need: u32,
    },
    /// A given schedule that does not fit the chip.
    #[error("the schedule needs {need} bytes of shared memory; the chip has {have}")]
    SharedMemory {
        /// Bytes needed.
        need: u32,
        /// Bytes there are.
        have: u32,
    },
    /// A tile that planning leaves to schedules that name it.
    #[error("taken only when a schedule names it, so that many sizes share few modules")]
    OnRequest,
    /// A tile or cluster that the loads of A or B do not divide.
    #[error("A or B cannot be loaded for it: as they lie, this tile or cluster does not divide")]
    OperandTile,
    /// Rows that need a row pass, and are longer than the tiles of a cluster.
    #[error(
        "this row's elements meet a reduction of their own row, which sm90 finishes in rows of at most {most} columns, the tiles of a cluster; these rows have {columns} columns"
    )]
    LongRows {
        /// Columns of the product.
        columns: u32,
        /// Columns of the widest tiles side by side.
        most: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Groups of columns that no tile holds whole.
    #[error(
        "sm90 reduces groups of columns that divide a tile, which has up to 256 columns; these need a multiple of {run}"
    )]
    LongGroups {
        /// What a tile's columns would be a multiple of.
        run: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Runs of rows that no tile holds whole.
    #[error(
        "sm90 reduces runs of rows that divide a tile, which has 64, 128, 192 or 256 rows; these need a multiple of {run}"
    )]
    LongBlocks {
        /// What a tile's rows would be a multiple of.
        run: u32,
        /// The statement in the source.
        bytes: Option<(u32, u32)>,
    },
    /// Products of parts of B that no tile has the columns for.
    #[error(
        "sm90 multiplies each part of B's columns by itself; no tile holds {products} of them as B lies"
    )]
    ManyProducts {
        /// How many parts.
        products: u32,
    },
    /// More tensors and scalars than a launch takes.
    #[error(
        "sm90 passes tensors and scalars as parameters of a launch, at most {most} bytes; this kernel needs {bytes}"
    )]
    Parameters {
        /// Bytes of all.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// Code that no assembler would take in reasonable time.
    #[error(
        "sm90 kernels have at most {most} lines of PTX for a thread's elements; this body needs about {lines}"
    )]
    LongCode {
        /// About how many.
        lines: u64,
        /// The most.
        most: u64,
    },
    /// Block scales that the mainloop does not multiply with sums.
    #[error(
        "sm90 multiplies sums of f8e4m3 and f8e5m2 with block scales of 128 of K or multiples, and of single columns or runs of 32 or multiples"
    )]
    BlockScales,
    /// An operand that load warps do not compute as they load it.
    #[error(
        "load warps widen rows of 4 or 8 bits that begin at multiples of 16 bytes, along a K that is a multiple of 64"
    )]
    Widening,
    /// A list that a kernel does not look up by the number of a batch.
    #[error("`{name}` is a list of tensors, but this launch does not number it by a batch dim")]
    List {
        /// The tensor.
        name: String,
    },
    /// No tile fits.
    #[error("no tile fits this chip's shared memory")]
    NoCandidate,
}

impl Sm90Refusal {
    /// Every refusal of a schedule or a tile, with what causes it.
    #[rustfmt::skip] // A table.
    pub(crate) fn examples() -> Vec<(&'static str, Sm90Refusal)> {
        vec![
            ("`tile 96 x 96 x 64`", Sm90Refusal::Knob { knob: "tile" }),
            ("a schedule of another kernel", Sm90Refusal::OtherNeeds { wanted: "...".to_owned() }),
            ("`fragment 12`", Sm90Refusal::Fragment { epilogue_tile: 32 }),
            ("`delay_store 1` with `d_stages 1`", Sm90Refusal::DelayedSlot),
            ("`reuse_c 1` without a tile operand", Sm90Refusal::NothingToReuse),
            ("`reuse_c 1` beside runs of columns", Sm90Refusal::ReuseOfSpans { span: 128 }),
            ("`reuse_c 1` with `c_stages 1`", Sm90Refusal::ReuseOfFewSlots { need: 2 }),
            ("`stages 12` with a large tile", Sm90Refusal::SharedMemory { need: 300_000, have: 232_448 }),
            ("a tile of the table that is not usual", Sm90Refusal::OnRequest),
            ("a tile that the operands do not fill", Sm90Refusal::OperandTile),
            ("eight parts of B that lies in slabs", Sm90Refusal::ManyProducts { products: 8 }),
            ("a body of very many statements", Sm90Refusal::LongCode { lines: 100_000, most: 50_000 }),
            ("block scales of other runs", Sm90Refusal::BlockScales),
            ("a weight of 8 bits whose rows begin anywhere", Sm90Refusal::Widening),
            ("a list of rows", Sm90Refusal::List { name: "A".to_owned() }),
            ("no tile of the table fits", Sm90Refusal::NoCandidate),
        ]
    }

    /// The bytes of the statement that is refused, where it is one.
    pub(crate) fn bytes(&self) -> Option<(u32, u32)> {
        match self {
            Sm90Refusal::Lower(refusal) => refusal.bytes(),
            Sm90Refusal::LongRows { bytes, .. }
            | Sm90Refusal::LongGroups { bytes, .. }
            | Sm90Refusal::LongBlocks { bytes, .. } => *bytes,
            Sm90Refusal::TooLarge
            | Sm90Refusal::OtherNeeds { .. }
            | Sm90Refusal::Knob { .. }
            | Sm90Refusal::Fragment { .. }
            | Sm90Refusal::DelayedSlot
            | Sm90Refusal::NothingToReuse
            | Sm90Refusal::ReuseOfSpans { .. }
            | Sm90Refusal::ReuseOfFewSlots { .. }
            | Sm90Refusal::SharedMemory { .. }
            | Sm90Refusal::OnRequest
            | Sm90Refusal::OperandTile
            | Sm90Refusal::ManyProducts { .. }
            | Sm90Refusal::Parameters { .. }
            | Sm90Refusal::LongCode { .. }
            | Sm90Refusal::BlockScales
            | Sm90Refusal::Widening
            | Sm90Refusal::List { .. }
            | Sm90Refusal::NoCandidate => None,
        }
    }

    /// What to do about it.
    pub(crate) fn fix(&self) -> &'static str {
        match self {
            Sm90Refusal::Lower(refusal) => refusal.fix(),
            Sm90Refusal::TooLarge => "split the batch, the rows or the columns over several calls",
            Sm90Refusal::Knob { .. }
            | Sm90Refusal::OtherNeeds { .. }
            | Sm90Refusal::Fragment { .. }
            | Sm90Refusal::DelayedSlot
            | Sm90Refusal::NothingToReuse
            | Sm90Refusal::ReuseOfSpans { .. }
            | Sm90Refusal::ReuseOfFewSlots { .. } => {
                "print one that works: `postlude explain ... --target sm90 --stage schedule`"
            }
            Sm90Refusal::SharedMemory { .. } => "take fewer stages, or a smaller tile",
            Sm90Refusal::OnRequest | Sm90Refusal::OperandTile => {
                "name another tile in a schedule: `--schedule FILE`"
            }
            Sm90Refusal::LongRows { .. } => {
                "store the reduction as an output (`logsumexp(z, N)`, `mean(square(z), N)`) and apply it in a second kernel, or run it on the CPU"
            }
            Sm90Refusal::LongGroups { .. } => {
                "reduce groups of at most 256 columns (`max(z, N, 128)`), store them, and reduce those further afterwards"
            }
            Sm90Refusal::LongBlocks { .. } => {
                "reduce runs of at most 256 rows (`absmax(z, M, 128)`), store them, and reduce those further afterwards"
            }
            Sm90Refusal::ManyProducts { .. } => "compute some of the parts in a second kernel",
            Sm90Refusal::Parameters { .. } | Sm90Refusal::LongCode { .. } => {
                "split the kernel in two, or run it on the CPU"
            }
            Sm90Refusal::BlockScales => "scale the operands' elements, and cast them to bf16",
            Sm90Refusal::Widening => {
                "leave out `fused`, so that a launch before the product widens it, or pad its rows"
            }
            Sm90Refusal::List { .. } => "stack the tensors of the list into one",
            Sm90Refusal::NoCandidate => "split the kernel in two, or run it on the CPU",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new variant does not compile until it is listed here: as one that `examples` shows, or one that a kernel of
    /// docs/refusals.md meets.
    fn is_example(refusal: &Sm90Refusal) -> bool {
        match refusal {
            Sm90Refusal::Knob { .. }
            | Sm90Refusal::OtherNeeds { .. }
            | Sm90Refusal::Fragment { .. }
            | Sm90Refusal::DelayedSlot
            | Sm90Refusal::NothingToReuse
            | Sm90Refusal::ReuseOfSpans { .. }
            | Sm90Refusal::ReuseOfFewSlots { .. }
            | Sm90Refusal::SharedMemory { .. }
            | Sm90Refusal::OnRequest
            | Sm90Refusal::OperandTile
            | Sm90Refusal::ManyProducts { .. }
            | Sm90Refusal::LongCode { .. }
            | Sm90Refusal::BlockScales
            | Sm90Refusal::Widening
            | Sm90Refusal::List { .. }
            | Sm90Refusal::NoCandidate => true,
            Sm90Refusal::Lower(_)
            | Sm90Refusal::TooLarge
            | Sm90Refusal::LongRows { .. }
            | Sm90Refusal::LongGroups { .. }
            | Sm90Refusal::LongBlocks { .. }
            | Sm90Refusal::Parameters { .. } => false,
        }
    }

    #[test]
    fn examples_are_refusals_of_schedules_and_tiles_each_once() {
        let all = Sm90Refusal::examples();
        assert!(all.iter().all(|(_, refusal)| is_example(refusal)));
        let kinds: std::collections::HashSet<_> =
            all.iter().map(|(_, refusal)| std::mem::discriminant(refusal)).collect();
        assert_eq!(kinds.len(), 16);
    }
}
