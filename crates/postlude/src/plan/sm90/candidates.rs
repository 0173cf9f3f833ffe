//! A table of the tiles that are tried.

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
}

const fn tile(rows: u32, columns: u32, consumers: u32, cluster: u32) -> Tile {
    Tile { rows, columns, consumers, cluster }
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
];

impl Tile {
    /// Whether planning takes this tile by itself for a product of so many columns. Few tiles do for any number of rows,
    /// so that many sizes share few modules; the others wait for a schedule that names them.
    pub const fn is_automatic(self, columns: usize) -> bool {
        match (self.rows, self.columns, self.cluster) {
            (128, 256, 2) => columns > 128,
            (256, 128, 2) => columns <= 128,
            (128, 128, 2) | (64, 128 | 64, 1) => true,
            _ => false,
        }
    }

    /// 64-row blocks of one warpgroup.
    pub const fn blocks(self) -> u32 {
        self.rows / self.consumers / 64
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
            assert!(tile.blocks() >= 1 && tile.rows % (64 * tile.consumers) == 0, "{tile:?}");
            assert!(tile.accumulators() <= 128, "{tile:?}");
            assert!(tile.columns % 8 == 0 && tile.columns <= 256, "{tile:?}");
        }
    }
}
