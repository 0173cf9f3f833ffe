//! A table of the tiles that are tried.

use super::Needs;

/// The tile of a CTA, and who computes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows of the product.
    pub rows: u32,
    /// Columns of the product; a width that wgmma has.
    pub columns: u32,
    /// Warpgroups that share the rows, each a multiple of 64.
    pub consumers: u32,
    /// CTAs of a cluster, along M; they load B once for all.
    pub cluster: u32,
    /// How the warpgroups share the work.
    pub sharing: Sharing,
}

/// How the warpgroups that multiply share the work of a CTA.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sharing {
    /// Each has a part of every tile's rows.
    Rows,
    /// Each has every other tile whole, and finishes it while the other one multiplies.
    Tiles,
}

impl Sharing {
    /// Both.
    pub const ALL: [Sharing; 2] = [Sharing::Rows, Sharing::Tiles];

    /// The word in a printed schedule.
    pub const fn name(self) -> &'static str {
        match self {
            Sharing::Rows => "rows",
            Sharing::Tiles => "tiles",
        }
    }
}

const fn tile(rows: u32, columns: u32, consumers: u32, cluster: u32) -> Tile {
    Tile { rows, columns, consumers, cluster, sharing: Sharing::Rows }
}

const fn alternating(rows: u32, columns: u32, cluster: u32) -> Tile {
    Tile { rows, columns, consumers: 2, cluster, sharing: Sharing::Tiles }
}

/// Tiles in the order of preference among equals.
pub const CANDIDATES: &[Tile] = &[
    tile(128, 256, 2, 2),
    tile(256, 128, 2, 2),
    tile(128, 256, 2, 1),
    tile(256, 128, 2, 1),
    tile(128, 128, 2, 2),
    tile(128, 128, 2, 1),
    tile(64, 256, 1, 1),
    tile(64, 128, 1, 1),
    tile(64, 64, 1, 1),
    alternating(128, 128, 2),
    alternating(128, 128, 1),
    alternating(64, 256, 2),
    alternating(64, 256, 1),
];

/// Contractions up to this are short.
const SHORT: usize = 1024;

impl Tile {
    /// Whether planning takes this tile by itself for a product of so many columns and such a contraction. Few tiles do for
    /// any number of rows, so that many sizes share few modules; the others wait for a schedule that names them.
    ///
    /// After a short contraction, finishing a tile takes long enough to be hidden behind the next one's products; but
    /// where outputs go straight to memory, ptxas serialises the products of warpgroups that alternate (C7514).
    pub fn is_automatic(self, columns: usize, inner: usize, needs: &Needs) -> bool {
        let hidden = inner <= SHORT && needs.stores.iter().all(|path| path.major().is_some());
        match (self.sharing, self.rows, self.columns, self.cluster) {
            (Sharing::Tiles, 128, 128, 2) => columns > 128 && hidden,
            (Sharing::Rows, 128, 256, 2) => columns > 128 && !hidden,
            (Sharing::Rows, 256, 128, 2) => columns <= 128,
            (Sharing::Rows, 128, 128, 2) | (Sharing::Rows, 64, 128 | 64, 1) => true,
            _ => false,
        }
    }

    /// 64-row blocks of one warpgroup.
    pub const fn blocks(self) -> u32 {
        self.rows / self.sharers() / 64
    }

    /// Warpgroups that work on one tile together.
    pub const fn sharers(self) -> u32 {
        match self.sharing {
            Sharing::Rows => self.consumers,
            Sharing::Tiles => 1,
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
            assert!(tile.accumulators() <= 128, "{tile:?}");
            assert!(tile.columns % 8 == 0 && tile.columns <= 256, "{tile:?}");
        }
    }
}
