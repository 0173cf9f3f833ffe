//! A table of the tiles that are tried.

use std::sync::OnceLock;

use crate::process;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::elements::ELEMENTS;
use super::mainloop::Mainloop;
use super::needs::Needs;
use super::operand::OperandLoad;
use super::rows::row_tiles;
use super::swapped::{SWAPPED, SWAPPED_REGISTERS};

const fn cooperative(rows: u32, columns: u32, math_warpgroups: u32, cluster: Cluster) -> Tile {
    Tile { rows, columns, kernel: KernelSchedule::Cooperative, math_warpgroups, cluster }
}

const fn ping_pong(rows: u32, columns: u32, math_warpgroups: u32, cluster: Cluster) -> Tile {
    Tile { rows, columns, kernel: KernelSchedule::PingPong, math_warpgroups, cluster }
}

const ONE: Cluster = Cluster::ONE;
const BELOW: Cluster = Cluster::tiles(2, 1);
const BESIDE: Cluster = Cluster::tiles(1, 2);
const SQUARE: Cluster = Cluster::tiles(2, 2);
const FOUR_BESIDE: Cluster = Cluster::tiles(1, 4);
const FOUR_BELOW: Cluster = Cluster::tiles(4, 1);

/// Tiles in the order of preference among equals: of a hundred that were timed on 128 problems, the set that the cost
/// model chooses from best; and two wide ping-pong tiles for large products at the full clock.
pub(crate) const CANDIDATES: &[Tile] = &[
    cooperative(128, 256, 2, BELOW),
    cooperative(128, 256, 2, ONE),
    cooperative(256, 128, 2, BESIDE),
    cooperative(128, 224, 2, BELOW),
    cooperative(192, 144, 3, BESIDE),
    cooperative(192, 128, 3, ONE),
    cooperative(192, 128, 3, BESIDE),
    cooperative(128, 192, 2, BELOW),
    cooperative(192, 112, 3, BESIDE),
    cooperative(192, 96, 3, ONE),
    cooperative(128, 144, 2, ONE),
    cooperative(128, 128, 2, ONE),
    cooperative(128, 128, 2, SQUARE),
    cooperative(192, 80, 3, FOUR_BESIDE),
    cooperative(128, 112, 2, ONE),
    cooperative(128, 96, 2, ONE),
    cooperative(128, 96, 2, SQUARE),
    cooperative(128, 80, 2, ONE),
    cooperative(128, 80, 2, FOUR_BESIDE),
    cooperative(64, 128, 1, ONE),
    cooperative(64, 128, 1, SQUARE),
    cooperative(64, 96, 1, SQUARE),
    cooperative(64, 80, 1, SQUARE),
    cooperative(64, 64, 1, ONE),
    cooperative(64, 64, 1, SQUARE),
    cooperative(64, 32, 1, ONE),
    cooperative(64, 32, 1, FOUR_BESIDE),
    ping_pong(128, 192, 2, ONE),
    ping_pong(128, 192, 2, BELOW),
    ping_pong(128, 192, 2, SQUARE),
    ping_pong(128, 160, 2, BELOW),
    ping_pong(128, 160, 2, SQUARE),
    ping_pong(128, 128, 2, BESIDE),
    ping_pong(128, 112, 2, SQUARE),
    ping_pong(128, 128, 4, BESIDE),
    cooperative(128, 96, 2, Cluster::SPLIT_K_4),
    cooperative(64, 128, 1, Cluster::SPLIT_K_4),
    cooperative(64, 96, 1, Cluster::SPLIT_K_4),
    cooperative(64, 48, 1, Cluster::SPLIT_K_4),
    cooperative(64, 32, 1, Cluster::SPLIT_K_4),
    cooperative(64, 16, 1, Cluster::SPLIT_K_4),
    LONG_ROWS[0],
    LONG_ROWS[1],
    LONG_ROWS[2],
    THREE,
    WIDENED,
    TALL,
];

/// More tiles for products whose epilogue computes little, with their columns: of 330 that were timed on 119 short products, those
/// that were fastest, or that the cost model chooses. Only short launches take them by themselves: there a wave that is not full
/// costs most.
#[rustfmt::skip] // A table: one line a row.
const MORE: &[(Tile, &[u32])] = &[
    (cooperative(64, 0, 1, ONE), &[16, 48, 80, 96, 160, 192, 224, 240]),
    (cooperative(64, 0, 1, BELOW), &[96, 112]),
    (cooperative(64, 0, 1, SQUARE), &[16, 32, 48, 112]),
    (cooperative(64, 0, 1, FOUR_BESIDE), &[16, 48, 64, 80]),
    (cooperative(64, 0, 1, FOUR_BELOW), &[64, 96, 128, 160]),
    (cooperative(128, 0, 2, ONE), &[64, 160, 224]),
    (cooperative(128, 0, 2, BESIDE), &[80, 96, 112, 192]),
    (cooperative(128, 0, 2, SQUARE), &[64, 80, 112, 144, 160, 176, 192, 224, 256]),
    (cooperative(128, 0, 2, FOUR_BESIDE), &[64, 96, 112, 160, 208, 224]),
    (cooperative(128, 0, 2, FOUR_BELOW), &[96, 128, 160, 256]),
    (cooperative(192, 0, 3, ONE), &[64, 160, 192]),
    (cooperative(192, 0, 3, BELOW), &[144, 192]),
    (cooperative(192, 0, 3, BESIDE), &[64, 80, 96, 160, 176, 192]),
    (cooperative(192, 0, 3, SQUARE), &[64, 80, 96, 112, 128, 144, 160, 192]),
    (cooperative(192, 0, 3, FOUR_BESIDE), &[48, 64, 96, 112, 128, 144, 160, 192]),
    (cooperative(256, 0, 2, ONE), &[128]),
    (ping_pong(128, 0, 2, ONE), &[128, 160]),
    (ping_pong(128, 0, 2, BELOW), &[144]),
    (ping_pong(128, 0, 2, BESIDE), &[96, 160, 176, 192]),
    (ping_pong(128, 0, 2, SQUARE), &[96, 128, 144, 176]),
    (ping_pong(128, 0, 2, FOUR_BESIDE), &[96, 128, 160, 192]),
    (ping_pong(128, 0, 2, FOUR_BELOW), &[96, 128, 160, 192]),
];

fn more_tiles() -> &'static [Tile] {
    static MORE_TILES: OnceLock<Vec<Tile>> = OnceLock::new();
    let of = |(tile, columns): &(Tile, &'static [u32])| {
        let tile = *tile;
        columns.iter().map(move |columns| Tile { columns: *columns, ..tile })
    };
    process::once(&MORE_TILES, || MORE.iter().flat_map(of).collect()).as_slice()
}

/// Tiles for whole rows where there is no product: no instruction limits their columns.
const WHOLE_ROWS: &[Tile] = &[
    cooperative(64, 512, 1, ONE),
    cooperative(128, 512, 2, ONE),
    cooperative(64, 512, 1, FOUR_BESIDE),
    cooperative(128, 512, 2, FOUR_BESIDE),
    cooperative(64, 1024, 1, ONE),
    cooperative(128, 1024, 2, ONE),
    cooperative(64, 1024, 1, FOUR_BESIDE),
    cooperative(128, 1024, 2, FOUR_BESIDE),
    cooperative(64, 2048, 1, FOUR_BESIDE),
    cooperative(128, 2048, 2, FOUR_BESIDE),
];

/// For three products with a B that threads load: 64 columns each, and no cluster.
const THREE: Tile = cooperative(128, 192, 2, ONE);

/// For an operand that seven load warps widen, each 16 rows of a stage at a time.
const WIDENED: Tile = cooperative(64, 112, 1, ONE);

/// For segments of rows: the others of ping-pong have fewer rows or more columns.
pub(super) const TALL: Tile = ping_pong(192, 128, 2, BESIDE);

/// Those of the table that are there for rows longer than a tile.
const LONG_ROWS: [Tile; 3] = [
    cooperative(128, 128, 2, FOUR_BESIDE),
    cooperative(128, 256, 2, BESIDE),
    cooperative(128, 256, 2, FOUR_BESIDE),
];
/// Columns of the widest product that ptxas compiles for four warpgroups.
const WIDEST_OF_FOUR: u32 = 192;

/// Registers of a thread that promotes, beside its sums: addresses, barriers and loop counters.
const PROMOTING_REGISTERS: u32 = 32;

impl Tile {
    /// Whether planning may take this tile by itself; the others wait for a schedule that names them.
    ///
    /// Ping-pong hides a tile's epilogue behind the next tile's products; but where outputs go straight to memory,
    /// ptxas serialises its wgmma (C7514).
    pub(crate) fn is_automatic(self, needs: &Needs) -> bool {
        if self.is_by_elements() {
            return needs.by_elements || needs.copies_rows();
        }
        if self.streams_rows() {
            return needs.rows.is_some_and(|rows| rows.are_long());
        }
        if !self.has_blocks() {
            return true;
        }
        let Some(mainloop) = &needs.mainloop else {
            let alone = self.cluster == Cluster::ONE;
            let row = self.cluster.rows() == 1 && self.reduces_over_cluster(needs);
            let wide = WHOLE_ROWS.contains(&self) && needs.whole_columns == 0;
            // Rows that threads hold are read once, and no warp waits for another to load them. Threads that copy rows wait
            // for many loads at a time.
            let tiles = !needs.is_held() && !needs.copies_rows();
            return !self.is_ping_pong() && (alone || row) && !wide && tiles;
        };
        // The CTAs of a cluster reduction wait for one another: only where no single tile holds whole rows.
        let avoidable = self.reduces_over_cluster(needs) && needs.whole_columns <= needs.widest();
        let hidden = needs.epilogue_stores.iter().all(|transfer| !transfer.is_direct());
        // Some pay only where threads bring A or B in.
        let large =
            [cooperative(128, 256, 2, ONE), cooperative(256, 128, 2, BESIDE)].contains(&self);
        let written = mainloop.is_written();
        let special = LONG_ROWS.contains(&self) && !self.reduces_over_cluster(needs)
            || self == THREE && mainloop.products != 3
            || self == WIDENED && !mainloop.is_widened()
            || self == TALL && !mainloop.segmented;
        // Better a crowded tile than none.
        let crowded = !self.has_room(needs)
            && CANDIDATES.iter().any(|other| other.has_room(needs) && other.takes(needs));
        // Twice as many math warps pay where they compute much, but not where each writes partial results of its own.
        let busy = needs.is_busy() && needs.folds.rows + needs.folds.columns == 0;
        // Wide ping-pong tiles leave few registers to an epilogue that computes much or reduces.
        let wide = self.cluster == BELOW || self == TALL;
        let full = self.is_ping_pong() && wide && (needs.is_busy() || needs.folds.any());
        match (self.is_ping_pong(), self.warpgroups_per_tile()) {
            _ if avoidable || special || crowded || full => false,
            (false, _) => !large || written,
            (true, 1) => hidden && !(busy && self.has_twin()),
            // Lists of several values with their indices spill there, as assembled.
            (true, _) => hidden && busy && needs.pass_words <= 4,
        }
    }

    /// Whether only short launches take this tile by themselves.
    pub(super) fn is_for_short(self) -> bool {
        more_tiles().contains(&self)
    }

    /// Whether a tile of this size holds what is computed, and A and B can be brought in for it.
    pub(crate) fn takes(self, needs: &Needs) -> bool {
        if needs.by_elements || self.is_by_elements() {
            return self.is_by_elements() && (needs.by_elements || needs.copied_bytes > 0);
        }
        if self.holds_rows() {
            return needs.holds(self);
        }
        if needs.has_long_lists() {
            return false;
        }
        let width = needs.width(self);
        let multiplies = match &needs.mainloop {
            Some(mainloop) => self.multiplies(mainloop, needs),
            // No products to alternate with, and no K to split.
            None => !self.is_ping_pong() && self.cluster.split_k() == 1,
        };
        multiplies
            && self.columns.is_multiple_of(needs.parts())
            && self.row_columns(needs) >= needs.whole_columns
            && width.is_multiple_of(needs.groups)
            && self.rows.is_multiple_of(needs.block_rows)
            // Epilogue tiles are that wide at least.
            && width.is_multiple_of(16)
    }

    /// Whether A and B can be brought in for this tile: copies write whole pieces of swizzled shared memory.
    fn multiplies(self, mainloop: &Mainloop, needs: &Needs) -> bool {
        if self.is_swapped() {
            return self.swaps(mainloop);
        }
        let width = needs.width(self);
        let sides = [(self.rows, self.cluster.columns()), (width, self.cluster.rows())];
        let whole = |(load, (size, multicast)): (OperandLoad, (u32, u32))| match load {
            OperandLoad::TmaKMajor => size % (8 * multicast) == 0,
            OperandLoad::TmaMnMajor
            | OperandLoad::Staggered
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => size % 64 == 0,
            // A warp widens 16 rows of a stage at a time, or 8.
            OperandLoad::Widened4 | OperandLoad::Widened8 => size % 16 == 0,
        };
        let written = mainloop.is_written();
        // Many accumulators leave the load warpgroup few registers.
        let roomy = self.accumulators() <= 128
            || mainloop
                .operands
                .iter()
                .all(|load| matches!(load, OperandLoad::TmaKMajor | OperandLoad::TmaMnMajor));
        let staged = mainloop.operands.iter().filter(|load| load.is_widened()).count();
        let mixed = mainloop.is_staggered() && mainloop.is_by_elements()
            || (staged > 0
                && mainloop.operands.iter().filter(|load| load.is_written()).count() > 1);
        // Only the first CTA of a split K runs the epilogue, and only there would tile operands be read.
        let splits = self.cluster.split_k() == 1
            || (!self.is_ping_pong() && self.accumulators() <= 64 && !needs.has_tma_loads());
        // In ping-pong a warpgroup would have to know the steps of the others' tiles.
        let uneven = mainloop.ragged || mainloop.masked;
        let even = !uneven || !self.is_ping_pong() && self.cluster.split_k() == 1;
        let promotes = !mainloop.promoted || self.promotes(mainloop, needs);
        roomy
            && promotes
            && even
            && splits
            && !mixed
            && mainloop.operands.into_iter().zip(sides).all(whole)
            && (!written
                || ((self.cluster.split_k() == 1 || mainloop.is_widened())
                    && (self.cluster == Cluster::ONE
                        || (mainloop.is_widened() && self.cluster.split_k() > 1)
                        || mainloop.operands == [OperandLoad::Staggered; 2])
                    && !self.is_ping_pong()
                    && self.math_warpgroups <= 2))
    }

    /// Columns whose sums are promoted at a time: half of a wide tile's, so that registers hold them beside the tile's.
    pub(super) const fn promoted_columns(self) -> u32 {
        if self.columns > 128 { self.columns / 2 } else { self.columns }
    }

    /// Whether registers hold sums that are promoted beside the tile's. In ping-pong one warpgroup multiplies at a time, and
    /// the tensor core would wait for its additions.
    fn promotes(self, mainloop: &Mainloop, needs: &Needs) -> bool {
        let (columns, scaling) = (self.promoted_columns(), mainloop.scaling);
        // Slabs of MN-major columns are promoted whole.
        let whole = columns == self.columns
            || mainloop.operands[1] != OperandLoad::TmaMnMajor
            || columns.is_multiple_of(64);
        let sums = self.accumulators() + columns / 2;
        let beside = scaling.registers(self).saturating_add(PROMOTING_REGISTERS);
        !self.is_ping_pong()
            && columns.is_multiple_of(8)
            && whole
            && scaling.suits(self)
            && beside.saturating_add(sums) <= self.registers(needs)[1]
    }

    /// Columns of the tiles that a cluster has side by side: as many hold whole rows.
    pub(super) fn row_columns(self, needs: &Needs) -> u32 {
        needs.width(self) * self.cluster.columns()
    }

    /// Whether whole rows are needed that only a cluster's tiles together hold.
    pub(super) fn reduces_over_cluster(self, needs: &Needs) -> bool {
        needs.whole_columns > needs.width(self)
    }

    /// Whether what is reduced fits the registers that large tiles and three warpgroups have beside their accumulators.
    pub(crate) fn has_room(self, needs: &Needs) -> bool {
        let words = needs.folds.rows + needs.folds.columns + needs.folds.scalars;
        needs.mainloop.is_none() || words <= 4 || (self.math_warpgroups != 3 && self.columns <= 128)
    }

    /// Whether the table has the same tile with another number of math warpgroups.
    fn has_twin(self) -> bool {
        let twin = |other: &Tile| Tile { math_warpgroups: self.math_warpgroups, ..*other } == self;
        CANDIDATES.iter().any(|other| other.math_warpgroups != self.math_warpgroups && twin(other))
    }

    /// Warpgroups that load: staggered and narrow rows keep two busy.
    ///
    /// But 512 threads start with 128 registers each, and in as many ptxas compiles no product of 128 accumulators,
    /// whatever `setmaxnreg` says (C7602).
    pub(crate) fn loaders(self, needs: &Needs) -> u32 {
        if !self.has_blocks() {
            return 0;
        }
        if self.is_swapped() {
            return self.multipliers();
        }
        let wide = self.columns > WIDEST_OF_FOUR && self.math_warpgroups > 1;
        let staged = needs.mainloop.as_ref().is_some_and(Mainloop::is_staged);
        if staged && !wide { 2 } else { 1 }
    }

    /// Registers of a thread that loads, and of one that multiplies, which together fill an SM's.
    pub(crate) fn registers(self, needs: &Needs) -> [u32; 2] {
        if self.is_swapped() {
            let [load, _, math] = SWAPPED_REGISTERS;
            [load, math]
        } else if self.loaders(needs) == 2 {
            match self.math_warpgroups {
                1 => [128, 240],
                // Elements pass through registers of the load warpgroups.
                _ if needs.mainloop.as_ref().is_some_and(Mainloop::is_widened) => [72, 184],
                _ => [40, 216],
            }
        } else if needs.mainloop.as_ref().is_some_and(Mainloop::is_written) {
            // Elements pass through registers of the load warpgroup.
            if self.math_warpgroups == 1 { [128, 224] } else { [72, 216] }
        } else if self.math_warpgroups > 2 {
            if self.math_warpgroups == 3 { [32, 160] } else { [32, 112] }
        } else if self.accumulators() > 128 {
            [24, 240]
        } else {
            [40, 232]
        }
    }
}

impl Needs {
    /// The tiles that are tried.
    pub(super) fn tiles(&self) -> impl Iterator<Item = &'static Tile> + use<> {
        let whole_rows: &[Tile] = if self.mainloop.is_none() { WHOLE_ROWS } else { &[] };
        let held = self.rows.is_some();
        let held = row_tiles().filter(move |_| held);
        let elements: &[Tile] =
            if self.by_elements || self.copied_bytes > 0 { &[ELEMENTS] } else { &[] };
        let widened = self.mainloop.as_ref().is_some_and(Mainloop::is_widened);
        let swapped: &[Tile] = if widened { &SWAPPED } else { &[] };
        let more: &[Tile] = if self.is_light() { more_tiles() } else { &[] };
        swapped.iter().chain(CANDIDATES).chain(more).chain(whole_rows).chain(held).chain(elements)
    }

    /// Whether TMA brings in both operands of one product and takes away its outputs, and the epilogue computes little.
    pub(super) fn is_light(&self) -> bool {
        let plain = |mainloop: &Mainloop| {
            let uneven = mainloop.ragged || mainloop.masked || mainloop.split;
            let summed = mainloop.promoted || mainloop.scaling.count() > 0;
            mainloop.products == 1 && !mainloop.is_written() && !uneven && !summed
        };
        let hidden = self.epilogue_stores.iter().all(|transfer| !transfer.is_direct());
        let held = self.folds.any() || self.whole_columns > 0 || self.is_busy();
        // Any tile takes what it computes: what only one of these could take is refused by its reason, whatever the sizes.
        let any = self.groups == 1 && self.block_rows == 1 && self.parts() <= 2;
        self.mainloop.as_ref().is_some_and(plain) && hidden && !held && any
    }

    /// Columns of the widest tile of the epilogue.
    pub(super) fn widest(&self) -> u32 {
        let whole = |tile: &&Tile| tile.columns.is_multiple_of(self.parts());
        self.tiles().filter(whole).map(|tile| self.width(*tile)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tile_is_twice_in_the_table() {
        let all = || CANDIDATES.iter().chain(more_tiles());
        for (place, tile) in all().enumerate() {
            assert!(all().skip(place + 1).all(|other| other != tile), "{tile:?}");
        }
    }

    #[test]
    fn accumulators_leave_registers_for_the_epilogue() {
        for tile in CANDIDATES.iter().chain(more_tiles()) {
            assert!(
                tile.blocks() >= 1 && tile.rows % (64 * tile.warpgroups_per_tile()) == 0,
                "{tile:?}"
            );
            assert!(tile.accumulators() <= 192, "{tile:?}");
            assert!(tile.columns % 8 == 0 && tile.columns <= 256, "{tile:?}");
        }
    }

    #[test]
    fn registers_are_those_that_a_cta_starts_with() {
        const FILE: u32 = 65536;
        for load in OperandLoad::ALL {
            let operands = [load, OperandLoad::TmaKMajor];
            let mainloop = Some(Mainloop { operands, ..Mainloop::plain() });
            let needs = Needs { mainloop, ..Needs::plain() };
            for tile in CANDIDATES.iter().filter(|tile| tile.takes(&needs)) {
                let [loading, multiplying] = tile.registers(&needs);
                let groups = [tile.loaders(&needs), tile.math_warpgroups];
                let threads = 128 * (groups[0] + groups[1]);
                let start = (FILE / threads).min(255) / 8 * 8;
                let wanted = 128 * (groups[0] * loading + groups[1] * multiplying);
                assert!(wanted <= start * threads && loading <= start, "{tile:?} {load:?}");
                assert!(loading % 8 == 0 && multiplying % 8 == 0, "{tile:?} {load:?}");
            }
        }
    }
}
