//! Tile outputs that threads store from slots: neighbouring columns of a row by neighbouring lanes.
//!
//! The fragment of a warp has few columns of many rows, and stored as it is, it touches eight lines of memory with two or four
//! elements each. From a slot, lanes store runs of 32 elements at any alignment. A warp stores the rows that it has filled
//! itself, so that no other warp is waited for.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, SharedAddress};
use postlude_ptx::types::{B32, Pred, Scalar, U32};

use crate::target::sm90::plan::SLOT_ROWS;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::parameters::CoalescedTile;
use super::super::plan::Plan;
use super::lanes::{CHUNK, Exchange};
use super::thread::ThreadCoordinate;

/// Lanes of a warp.
const LANES: u32 = 32;
/// Elements that a lane has in registers at a time.
const AT_ONCE: usize = 16;

/// The lanes of a warp, as they store its rows of a slot.
pub(super) struct CoalescedStores<'k, C> {
    k: Kernel<'k, C>,
    lane: Reg<'k, U32>,
    /// The warp's first row of a block.
    warp_row: Reg<'k, U32>,
    /// Columns of the problem.
    columns: Reg<'k, U32>,
}

/// An element that a lane stores.
struct Element<'k> {
    from: SharedAddress<'k>,
    to: GlobalPointer<'k>,
    inside: Reg<'k, Pred>,
}

impl<'k, C: EpilogueChip> CoalescedStores<'k, C> {
    /// For the thread of this rank in its warpgroup.
    pub(super) fn new(k: Kernel<'k, C>, rank: Reg<'k, U32>, columns: Reg<'k, U32>) -> Self {
        let warp_row = k.uniform(rank >> 5) * Fragment::WARP_ROWS;
        CoalescedStores { k, lane: rank & (LANES - 1), warp_row, columns }
    }

    /// Stores the warp's rows of a slot that is filled, whose first element is in this column.
    pub(super) fn store(
        &self,
        plan: &Plan<'_>,
        tile: &CoalescedTile<'k>,
        thread: &ThreadCoordinate<'k>,
        (start, column): (SharedAddress<'k>, Reg<'k, U32>),
    ) {
        let k = self.k;
        let (columns, bytes) = (tile.layout.columns(), tile.layout.element_bytes());
        // Lanes have a run of a row, or whole rows that are short.
        let run = columns.min(LANES);
        let together = LANES / run;
        let row_bytes = columns * bytes;
        let [own_row, own_column] = [self.lane >> run.trailing_zeros(), self.lane & (run - 1)];
        // Where warps send their rows by themselves, each has the same part of a slot whatever lies in it.
        let part = if plan.schedule.needs.stores_by_warps() {
            plan.schedule.slot_bytes() / SLOT_ROWS
        } else {
            row_bytes
        };
        let exchange = Exchange::of(row_bytes);
        let first = start.register()
            + self.warp_row * part
            + own_row * row_bytes
            + ((own_column * bytes) ^ (exchange.with(k, own_row) * CHUNK));
        let row = thread.block_row + self.warp_row + own_row;
        let rows = thread.row_end.max(row) - row;
        let place = column + own_column;
        let remaining = self.columns.max(place) - place;
        let inside_columns: Vec<Reg<'k, Pred>> = (0..columns / run)
            .map(|number| {
                let inside = remaining.gt(number * run);
                let own = tile.memory.inside(|| place + number * run, Some(inside));
                own.unwrap_or(inside)
            })
            .collect();
        let mut to = tile.memory.element(k, (thread.batch, row, place)).pointer();
        let stride = tile.memory.row_stride() * u64::from(together);
        let mut elements = Vec::new();
        for below in (0..Fragment::WARP_ROWS).step_by(together as usize) {
            if below > 0 {
                to = to + stride;
            }
            let inside_row = rows.gt(below);
            for (number, inside) in (0..).zip(&inside_columns) {
                let from = first ^ ((exchange.at(below) * CHUNK) ^ (number * run * bytes));
                elements.push(Element {
                    from: SharedAddress::from_register(from) + below * row_bytes,
                    to: to.offset(i64::from(number * run * bytes)),
                    inside: inside_row & *inside,
                });
            }
            if elements.len() >= AT_ONCE {
                self.move_all(&elements, bytes);
                elements.clear();
            }
        }
        self.move_all(&elements, bytes);
    }

    fn move_all(&self, elements: &[Element<'k>], bytes: u32) {
        let k = self.k;
        let narrow = match bytes {
            1 => Some(Scalar::U8),
            2 => Some(Scalar::U16),
            _ => None,
        };
        let Some(narrow) = narrow else {
            let words: Vec<_> =
                elements.iter().map(|element| k.load_shared::<B32, 1>(element.from)).collect();
            for (Element { to, inside, .. }, word) in elements.iter().zip(words) {
                k.when(*inside, || k.store_global(*to, word));
            }
            return;
        };
        let values: Vec<_> =
            elements.iter().map(|element| k.load_shared_narrow(narrow, element.from)).collect();
        for (Element { to, inside, .. }, value) in elements.iter().zip(values) {
            k.when(*inside, || k.store_global_narrow(narrow, *to, value));
        }
    }
}
