//! What a tile program needs of a schedule: loads of the product's operands, loads and stores of the epilogue, room for its
//! values along columns.

use std::fmt;

use crate::target::tile::Tile;

use super::lists::Lists;
use super::mainloop::Mainloop;
use super::partials::FoldWords;
use super::place::EpilogueTransfer;
use super::row_needs::RowNeeds;

/// Instructions an element from which on epilogue tiles are a loop.
const HEAVY: u32 = 16;
/// As many take longer than the products of short contractions.
const BUSY: u32 = 10;

/// Slots that the tiles of one epilogue tile take.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct SlotCounts {
    /// Slots that operands are loaded into.
    pub(crate) loads: u32,
    /// Slots that outputs are stored through.
    pub(crate) stores: u32,
    /// How many of the latter could be the operands'.
    pub(crate) reusable: u32,
}

/// What a tile program needs of a schedule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Needs {
    /// What its products need; `None` where it has none.
    pub(crate) mainloop: Option<Mainloop>,
    /// Whether A and B are swapped: a tile's rows are columns of the product.
    pub(crate) swap_ab: bool,
    /// How each tile operand is loaded, in the order of the signature.
    pub(crate) epilogue_loads: Vec<EpilogueTransfer>,
    /// How each output is stored, in the order of the signature.
    pub(crate) epilogue_stores: Vec<EpilogueTransfer>,
    /// What they take of slots.
    pub(crate) slots: SlotCounts,
    /// Values along columns that tiles use: each computed once a tile and kept in shared memory.
    pub(crate) column_values: u32,
    /// What is folded.
    pub(crate) folds: FoldWords,
    /// Floats of the widest reduction along columns, for each of them.
    pub(crate) widest_fold: u32,
    /// Columns that a tile, or those of a cluster side by side, must have to hold whole rows; 0 where any will do.
    pub(crate) whole_columns: u32,
    /// Floats of a row that a pass over its tile folds: of the pass that folds most.
    pub(crate) pass_words: u32,
    /// What a tile's columns must be a multiple of, so that it holds whole groups of them.
    pub(crate) groups: u32,
    /// What a tile's rows must be a multiple of, so that it holds whole runs of them.
    pub(crate) block_rows: u32,
    /// Words in shared memory of all reductions of blocks, for 16 rows of 256 columns.
    pub(crate) block_words: u32,
    /// About how many instructions the graph takes for every element.
    pub(crate) work: u32,
    /// About how many lines of code every element takes; 0 where they are few.
    pub(crate) lines: u32,
    /// Whether vectors that lie alike share the parameters of their strides.
    pub(crate) shared_strides: bool,
    /// Which tensors are lists.
    pub(crate) lists: Lists,
    /// What a kernel whose threads hold rows needs, where one can run it.
    pub(crate) rows: Option<RowNeeds>,
    /// Bytes of the elements of an input whose rows a kernel without tiles copies as they lie, where one can; else 0.
    pub(crate) copied_bytes: u32,
    /// Whether threads compute or copy elements by themselves; then there is nothing else that it needs.
    pub(crate) by_elements: bool,
}

impl Needs {
    /// One aligned output of 16 or 32 bits and nothing else.
    #[cfg(test)]
    pub(crate) fn plain() -> Needs {
        let (epilogue_loads, epilogue_stores) = (Vec::new(), vec![EpilogueTransfer::Tma]);
        let slots = SlotCounts { loads: 0, stores: 1, reusable: 0 };
        let (column_values, folds, widest_fold) = (0, FoldWords::default(), 0);
        let (whole_columns, pass_words, groups) = (0, 0, 1);
        let (block_rows, block_words, work, lines) = (1, 0, 0, 0);
        Needs {
            mainloop: Some(Mainloop::plain()),
            swap_ab: false,
            epilogue_loads,
            epilogue_stores,
            slots,
            column_values,
            folds,
            widest_fold,
            whole_columns,
            pass_words,
            groups,
            block_rows,
            block_words,
            work,
            lines,
            shared_strides: false,
            lists: Lists::default(),
            rows: None,
            copied_bytes: 0,
            by_elements: false,
        }
    }

    /// The same with the epilogue loads that go together with how A and B are loaded.
    pub(super) fn settled(mut self) -> Needs {
        let again = self.whole_columns > 0 || self.block_words > 0;
        if self.mainloop.as_ref().is_some_and(|mainloop| mainloop.is_written() || again) {
            // All load warps are busy with the product's operands; or tiles are read more than once, and slots are
            // better left to its stages.
            self.epilogue_loads.iter_mut().for_each(EpilogueTransfer::make_direct);
        }
        self
    }

    /// Whether code for every element of a tile, one behind the other, would be long.
    pub(super) fn is_heavy(&self) -> bool {
        self.work >= HEAVY
    }

    /// Whether threads compute enough for more of them to pay.
    pub(crate) fn is_busy(&self) -> bool {
        self.work >= BUSY
    }

    /// The fewest stages of a schedule: fewer than two do not overlap loads with products.
    pub(super) fn fewest_stages(&self, tile: Tile) -> u32 {
        self.mainloop.as_ref().map_or(0, |mainloop| tile.stages_at_once(mainloop).max(2))
    }

    /// Products of a tile; 0 where there is no mainloop.
    pub(crate) fn products(&self) -> u32 {
        self.mainloop.as_ref().map_or(0, |mainloop| mainloop.products)
    }

    /// Parts that a tile's columns are divided into: one for each product, or one where there is none.
    pub(super) fn parts(&self) -> u32 {
        self.products().max(1)
    }

    /// Columns of a tile of the epilogue.
    pub(super) fn width(&self, tile: Tile) -> u32 {
        tile.columns / self.parts()
    }

    /// Whether TMA loads a tile operand, through slots.
    pub(crate) fn has_tma_loads(&self) -> bool {
        self.epilogue_loads.iter().any(|transfer| transfer.major().is_some())
    }

    /// Whether each warp stores its own rows of an output and waits for no other warp: rows of different warps that lie
    /// in one line of a slot are stored together.
    pub(crate) fn stores_by_warps(&self) -> bool {
        self.epilogue_stores.iter().all(|transfer| *transfer != EpilogueTransfer::TmaTransposed)
    }

    /// Whether an output is stored through slots.
    pub(crate) fn stores_through_slots(&self) -> bool {
        self.epilogue_stores.iter().any(|transfer| transfer.slot_major().is_some())
    }

    /// Whether a kernel for these needs can be used where `other` is needed: every load and store at least as general.
    pub(crate) fn covers(&self, other: &Needs) -> bool {
        let general = |ours: &[EpilogueTransfer], theirs: &[EpilogueTransfer]| {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| ours.covers(*theirs))
        };
        let products = match (&self.mainloop, &other.mainloop) {
            (Some(ours), Some(theirs)) => ours.covers(theirs),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let rows = match (&self.rows, &other.rows) {
            (None, _) => true,
            (Some(ours), Some(theirs)) => ours.covers(theirs),
            (Some(_), None) => false,
        };
        let elements = match self.copied_bytes {
            0 => self.by_elements == other.by_elements,
            bytes => bytes == other.copied_bytes,
        };
        products
            && rows
            && elements
            && general(&self.epilogue_loads, &other.epilogue_loads)
            && general(&self.epilogue_stores, &other.epilogue_stores)
            && self.swap_ab == other.swap_ab
            && self.column_values == other.column_values
            // Where threads hold rows whole, no partial result leaves a CTA.
            && (self.rows.is_some() && !self.folds.any() || self.folds == other.folds)
            && self.groups == other.groups
            && self.block_rows == other.block_rows
            && self.block_words == other.block_words
            && (self.whole_columns > 0) == (other.whole_columns > 0)
            && self.whole_columns >= other.whole_columns
            && self.pass_words == other.pass_words
            && self.shared_strides == other.shared_strides
            && self.lists == other.lists
    }

    /// Whether the counts that a schedule may leave out are those of a graph that needs `other` and takes `slots`.
    pub(super) fn counts_agree(&self, other: &Needs, slots: SlotCounts) -> bool {
        let agrees = |ours: u32, theirs: u32| ours == 0 || ours == theirs;
        (self.slots == SlotCounts::default() || self.slots == slots)
            && agrees(self.widest_fold, other.widest_fold)
            && agrees(self.work, other.work)
            && agrees(self.lines, other.lines)
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = |transfers: &[EpilogueTransfer]| {
            transfers.iter().map(|transfer| transfer.name()).collect::<Vec<_>>().join(" ")
        };
        if let Some(Mainloop { operands: [left, right], .. }) = &self.mainloop {
            write!(f, "operands {} {}, ", left.name(), right.name())?;
        }
        write!(
            f,
            "epilogue_loads {}, epilogue_stores {}, column_values {}, products {}, folds {} {} {}, whole_columns {}, pass_words {}, groups {}, block_rows {}, block_words {}, slots {} {} {}, widest_fold {}, work {}, lines {}",
            words(&self.epilogue_loads),
            words(&self.epilogue_stores),
            self.column_values,
            self.products(),
            self.folds.rows,
            self.folds.columns,
            self.folds.scalars,
            self.whole_columns,
            self.pass_words,
            self.groups,
            self.block_rows,
            self.block_words,
            self.slots.loads,
            self.slots.stores,
            self.slots.reusable,
            self.widest_fold,
            self.work,
            self.lines
        )?;
        if self.lists.is_empty() { Ok(()) } else { write!(f, ", lists {}", self.lists.words()) }
    }
}
