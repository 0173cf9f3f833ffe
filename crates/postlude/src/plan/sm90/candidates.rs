//! A table of the tiles that are tried.

use std::fmt;

use super::{Feed, Needs};

/// The tile of a CTA, and who computes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows of the product.
    pub rows: u32,
    /// Columns of the product; a width that wgmma has.
    pub columns: u32,
    /// Warpgroups that multiply.
    pub consumers: u32,
    /// Teams that they form. Those of a team share a tile's rows, each a multiple of 64; teams take tiles in turn, and
    /// each finishes its own while the next one multiplies.
    pub teams: u32,
    /// CTAs that share loads.
    pub cluster: Cluster,
}

/// CTAs that work together: on neighbouring tiles, or on one tile's contraction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cluster {
    rows: u32,
    columns: u32,
    parts: u32,
}

impl Cluster {
    /// Each by itself.
    pub const ONE: Cluster = Cluster::tiles(1, 1);
    /// Two CTAs compute one tile, each half of its contraction.
    pub const HALVES: Cluster = Cluster { rows: 1, columns: 1, parts: 2 };
    /// Four CTAs compute one tile, each a quarter of its contraction.
    pub const QUARTERS: Cluster = Cluster { rows: 1, columns: 1, parts: 4 };

    /// All of them.
    pub const ALL: [Cluster; 8] = [
        Cluster::ONE,
        Cluster::tiles(2, 1),
        Cluster::tiles(1, 2),
        Cluster::tiles(2, 2),
        Cluster::tiles(4, 1),
        Cluster::tiles(1, 4),
        Cluster::HALVES,
        Cluster::QUARTERS,
    ];

    /// Neighbouring tiles: those one below the other load B once for all, those side by side A.
    const fn tiles(rows: u32, columns: u32) -> Cluster {
        Cluster { rows, columns, parts: 1 }
    }

    /// Tiles one below the other; as many CTAs share B.
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// Tiles side by side; as many CTAs share A.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Parts that the contraction of a tile is computed in.
    pub const fn parts(self) -> u32 {
        self.parts
    }

    /// CTAs.
    pub const fn blocks(self) -> u32 {
        self.rows * self.columns * self.parts
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows(), self.columns())?;
        if self.parts() > 1 { write!(f, " x {}", self.parts()) } else { Ok(()) }
    }
}

const fn tile(rows: u32, columns: u32, consumers: u32, cluster: Cluster) -> Tile {
    Tile { rows, columns, consumers, teams: 1, cluster }
}

const fn alternating(rows: u32, columns: u32, consumers: u32, cluster: Cluster) -> Tile {
    Tile { rows, columns, consumers, teams: 2, cluster }
}

const ONE: Cluster = Cluster::ONE;
const BELOW: Cluster = Cluster::tiles(2, 1);
const BESIDE: Cluster = Cluster::tiles(1, 2);
const SQUARE: Cluster = Cluster::tiles(2, 2);
const FOUR_BESIDE: Cluster = Cluster::tiles(1, 4);

/// Tiles in the order of preference among equals: of a hundred that were timed on 128 problems, those that the cost
/// model chooses from best.
pub const CANDIDATES: &[Tile] = &[
    tile(128, 256, 2, BELOW),
    tile(128, 256, 2, ONE),
    tile(256, 128, 2, BESIDE),
    tile(128, 224, 2, BELOW),
    tile(192, 144, 3, BESIDE),
    tile(192, 128, 3, ONE),
    tile(192, 128, 3, BESIDE),
    tile(128, 192, 2, BELOW),
    tile(192, 112, 3, BESIDE),
    tile(192, 96, 3, ONE),
    tile(128, 144, 2, ONE),
    tile(128, 128, 2, ONE),
    tile(128, 128, 2, SQUARE),
    tile(192, 80, 3, FOUR_BESIDE),
    tile(128, 112, 2, ONE),
    tile(128, 96, 2, ONE),
    tile(128, 96, 2, SQUARE),
    tile(128, 80, 2, ONE),
    tile(128, 80, 2, FOUR_BESIDE),
    tile(64, 128, 1, ONE),
    tile(64, 128, 1, SQUARE),
    tile(64, 96, 1, SQUARE),
    tile(64, 80, 1, SQUARE),
    tile(64, 64, 1, ONE),
    tile(64, 64, 1, SQUARE),
    tile(64, 32, 1, ONE),
    tile(64, 32, 1, FOUR_BESIDE),
    alternating(128, 192, 2, ONE),
    alternating(128, 192, 2, SQUARE),
    alternating(128, 160, 2, SQUARE),
    alternating(128, 128, 2, BESIDE),
    alternating(128, 112, 2, SQUARE),
    alternating(128, 128, 4, BESIDE),
    tile(128, 96, 2, Cluster::QUARTERS),
    tile(64, 128, 1, Cluster::QUARTERS),
    tile(64, 96, 1, Cluster::QUARTERS),
    tile(64, 48, 1, Cluster::QUARTERS),
    tile(64, 32, 1, Cluster::QUARTERS),
    tile(64, 16, 1, Cluster::QUARTERS),
    ACROSS[0],
    ACROSS[1],
    ACROSS[2],
    THREE,
];

/// For three products with a B that threads load: 64 columns each, and no cluster.
const THREE: Tile = tile(128, 192, 2, ONE);

/// Those of the table that are there for rows longer than a tile.
const ACROSS: [Tile; 3] =
    [tile(128, 128, 2, FOUR_BESIDE), tile(128, 256, 2, BESIDE), tile(128, 256, 2, FOUR_BESIDE)];
/// Columns of the widest product that ptxas compiles for four warpgroups.
const WIDEST_OF_FOUR: u32 = 192;

impl Tile {
    /// Whether planning may take this tile by itself; the others wait for a schedule that names them.
    ///
    /// Warpgroups that take tiles in turn hide the end of one behind the products of the next; but where outputs go
    /// straight to memory, ptxas serialises their products (C7514).
    pub fn is_automatic(self, needs: &Needs) -> bool {
        let hidden = needs.stores.iter().all(|path| !path.is_direct());
        // Some pay only where threads bring A or B in.
        let large = [tile(128, 256, 2, ONE), tile(256, 128, 2, BESIDE)].contains(&self);
        let written = needs.operands.iter().any(|feed| feed.is_written());
        // Rows across a cluster wait for one another: where no tile holds them.
        let across = self.has_rows_across(needs) && needs.whole_columns <= needs.widest();
        let only_across = ACROSS.contains(&self) && !self.has_rows_across(needs)
            || self == THREE && needs.products != 3;
        // Better a crowded tile than none.
        let crowded = !self.has_room(needs)
            && CANDIDATES.iter().any(|other| other.has_room(needs) && other.takes(needs));
        // Twice as many warps pay where they compute much, but not where each leaves partial results of its own.
        let busy = needs.is_busy() && needs.folds.rows + needs.folds.columns == 0;
        match (self.takes_turns(), self.sharers()) {
            _ if across || only_across || crowded => false,
            (false, _) => !large || written,
            (true, 1) => hidden && !(busy && self.has_twin()),
            (true, _) => hidden && busy,
        }
    }

    /// Whether A and B can be brought in for this tile: copies write whole pieces of swizzled shared memory.
    pub fn takes(self, needs: &Needs) -> bool {
        let width = needs.width(self);
        let sides = [(self.rows, self.cluster.columns()), (width, self.cluster.rows())];
        let whole = |(feed, (size, sharers)): (Feed, (u32, u32))| match feed {
            Feed::Inner => size % (8 * sharers) == 0,
            Feed::Outer | Feed::Staggered | Feed::InnerElements | Feed::OuterElements => {
                size % 64 == 0
            }
        };
        let written = needs.operands.iter().any(|feed| feed.is_written());
        // Many accumulators leave the load warpgroup few registers.
        let roomy = self.accumulators() <= 128
            || needs.operands.iter().all(|feed| matches!(feed, Feed::Inner | Feed::Outer));
        let mixed = needs.operands.contains(&Feed::Staggered)
            && needs.operands.iter().any(|feed| feed.is_by_elements());
        // Only one of the CTAs that share a contraction finishes its tile, and only there would tile operands be read.
        let parts = self.cluster.parts() == 1
            || (!self.takes_turns() && self.accumulators() <= 64 && !needs.maps_loads());
        roomy
            && parts
            && self.columns.is_multiple_of(needs.products)
            && self.row_columns(needs) >= needs.whole_columns
            && width.is_multiple_of(needs.groups)
            // Subtiles are that wide at least.
            && width.is_multiple_of(16)
            && !mixed
            && needs.operands.into_iter().zip(sides).all(whole)
            && (!written
                || (self.cluster.parts() == 1
                    && (self.cluster == Cluster::ONE || needs.operands == [Feed::Staggered; 2])
                    && !self.takes_turns()
                    && self.consumers <= 2))
    }

    /// Columns of the tiles that a cluster has side by side: as many hold whole rows.
    pub(super) fn row_columns(self, needs: &Needs) -> u32 {
        needs.width(self) * self.cluster.columns()
    }

    /// Whether whole rows are needed that only a cluster's tiles together hold.
    pub(super) fn has_rows_across(self, needs: &Needs) -> bool {
        needs.whole_columns > needs.width(self)
    }

    /// 64-row blocks of one warpgroup.
    pub const fn blocks(self) -> u32 {
        self.rows / self.sharers() / 64
    }

    /// Whether what is reduced fits the registers that large tiles and three warpgroups have beside their accumulators.
    pub fn has_room(self, needs: &Needs) -> bool {
        let words = needs.folds.rows + needs.folds.columns + needs.folds.scalars;
        words <= 4 || (self.consumers != 3 && self.columns <= 128)
    }

    /// Whether there is the same tile for teams of several warpgroups.
    fn has_twin(self) -> bool {
        let twin = |other: &Tile| Tile { consumers: self.consumers, ..*other } == self;
        CANDIDATES.iter().any(|other| other.consumers != self.consumers && twin(other))
    }

    /// Whether some finish a tile while others multiply.
    pub const fn takes_turns(self) -> bool {
        self.teams > 1
    }

    /// Warpgroups that work on one tile together.
    pub const fn sharers(self) -> u32 {
        self.consumers / self.teams
    }

    /// Warpgroups that load: staggered rows keep two busy.
    ///
    /// But 512 threads start with 128 registers each, and in as many ptxas compiles no product of 128 accumulators,
    /// whatever `setmaxnreg` says (C7602).
    pub(crate) fn loaders(self, needs: &Needs) -> u32 {
        let wide = self.columns > WIDEST_OF_FOUR && self.consumers > 1;
        if needs.operands.contains(&Feed::Staggered) && !wide { 2 } else { 1 }
    }

    /// Registers of a thread that loads, and of one that multiplies, which together fill an SM's.
    pub(crate) fn registers(self, needs: &Needs) -> [u32; 2] {
        if self.loaders(needs) == 2 {
            if self.consumers == 1 { [128, 240] } else { [40, 216] }
        } else if needs.operands.iter().any(|feed| feed.is_written()) {
            // Elements pass through registers of those that load.
            if self.consumers == 1 { [128, 224] } else { [72, 216] }
        } else if self.consumers > 2 {
            if self.consumers == 3 { [32, 160] } else { [32, 112] }
        } else if self.accumulators() > 128 {
            [24, 240]
        } else {
            [40, 232]
        }
    }

    /// Accumulators of one thread.
    pub const fn accumulators(self) -> u32 {
        self.blocks() * self.columns / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulators_leave_registers_for_the_epilogue() {
        for tile in CANDIDATES {
            assert!(tile.blocks() >= 1 && tile.rows % (64 * tile.sharers()) == 0, "{tile:?}");
            assert!(tile.accumulators() <= 192, "{tile:?}");
            assert!(tile.columns % 8 == 0 && tile.columns <= 256, "{tile:?}");
        }
    }

    #[test]
    fn registers_are_those_that_a_cta_starts_with() {
        const FILE: u32 = 65536;
        for feed in Feed::ALL {
            let needs = Needs { operands: [feed, Feed::Inner], ..Needs::plain() };
            for tile in CANDIDATES.iter().filter(|tile| tile.takes(&needs)) {
                let [loading, multiplying] = tile.registers(&needs);
                let groups = [tile.loaders(&needs), tile.consumers];
                let threads = 128 * (groups[0] + groups[1]);
                let start = (FILE / threads).min(255) / 8 * 8;
                let wanted = 128 * (groups[0] * loading + groups[1] * multiplying);
                assert!(wanted <= start * threads && loading <= start, "{tile:?} {feed:?}");
                assert!(loading % 8 == 0 && multiplying % 8 == 0, "{tile:?} {feed:?}");
            }
        }
    }
}
