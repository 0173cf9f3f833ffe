//! The tile of a CTA: its size, the warpgroups that compute it, and the cluster that it belongs to.

use std::fmt;

/// The tile of a CTA, and the warpgroups that compute it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// Rows of the product.
    pub rows: u32,
    /// Columns of the product; a width that wgmma has.
    pub columns: u32,
    /// How its math warpgroups share the work.
    pub kernel: KernelSchedule,
    /// Math warpgroups of a CTA, which issue wgmma and run the epilogue.
    pub math_warpgroups: u32,
    /// CTAs that multicast A or B to one another, or split K.
    pub cluster: Cluster,
}

/// How the math warpgroups of a CTA share work tiles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelSchedule {
    /// All of them compute each work tile together, a multiple of 64 rows each.
    Cooperative,
    /// Two halves of them compute work tiles alternately: one runs its epilogue while the other issues wgmma.
    PingPong,
    /// A and B are swapped: each of several warpgroups computes 64 columns of B in registers and multiplies them by rows of
    /// A, over a part of K; the math warpgroup is one of them, adds up the parts and runs the epilogue.
    Swapped,
    /// No product: each of a tile's rows is held in the registers of as many threads as the tile has for it.
    Rows,
    /// No product: the rows of tiles of one row pass through a ring in shared memory, a tile's columns at a time, and each CTA
    /// of a cluster has its part of them.
    StreamedRows,
    /// No product: each CTA folds a share of the rows of a strip of columns, and a thread has the same few columns of all its
    /// rows.
    Strips,
    /// No product and no tile: threads compute one element of an output after the other.
    Elements,
}

impl KernelSchedule {
    /// All of them.
    pub const ALL: [KernelSchedule; 7] = [
        KernelSchedule::Cooperative,
        KernelSchedule::PingPong,
        KernelSchedule::Swapped,
        KernelSchedule::Rows,
        KernelSchedule::StreamedRows,
        KernelSchedule::Strips,
        KernelSchedule::Elements,
    ];

    /// The word in a printed schedule.
    pub const fn name(self) -> &'static str {
        match self {
            KernelSchedule::Cooperative => "cooperative",
            KernelSchedule::PingPong => "ping-pong",
            KernelSchedule::Swapped => "swapped",
            KernelSchedule::Rows => "rows",
            KernelSchedule::StreamedRows => "streamed-rows",
            KernelSchedule::Strips => "strips",
            KernelSchedule::Elements => "elements",
        }
    }

    /// Work tiles that a CTA computes at a time.
    pub const fn tiles_in_flight(self) -> u32 {
        match self {
            KernelSchedule::Cooperative
            | KernelSchedule::Swapped
            | KernelSchedule::Rows
            | KernelSchedule::StreamedRows
            | KernelSchedule::Strips
            | KernelSchedule::Elements => 1,
            KernelSchedule::PingPong => 2,
        }
    }
}

/// CTAs that work together: on neighbouring tiles with multicast loads, or on one tile with split K.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cluster {
    rows: u32,
    columns: u32,
    split_k: u32,
}

impl Cluster {
    /// No cluster: one CTA.
    pub const ONE: Cluster = Cluster::tiles(1, 1);
    /// Two CTAs compute one tile, each half of K.
    pub const SPLIT_K_2: Cluster = Cluster { rows: 1, columns: 1, split_k: 2 };
    /// Four CTAs compute one tile, each a quarter of K.
    pub const SPLIT_K_4: Cluster = Cluster { rows: 1, columns: 1, split_k: 4 };

    /// All of them.
    pub const ALL: [Cluster; 9] = [
        Cluster::ONE,
        Cluster::tiles(2, 1),
        Cluster::tiles(1, 2),
        Cluster::tiles(2, 2),
        Cluster::tiles(4, 1),
        Cluster::tiles(1, 4),
        Cluster::tiles(1, 8),
        Cluster::SPLIT_K_2,
        Cluster::SPLIT_K_4,
    ];

    /// By its numbers; only those of `ALL` are planned and accepted.
    pub(crate) const fn new(rows: u32, columns: u32, split_k: u32) -> Cluster {
        Cluster { rows, columns, split_k }
    }

    /// Neighbouring tiles: B is multicast to those one below the other, A to those side by side.
    pub(crate) const fn tiles(rows: u32, columns: u32) -> Cluster {
        Cluster { rows, columns, split_k: 1 }
    }

    /// Tiles one below the other: CTAs that B is multicast to.
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// Tiles side by side: CTAs that A is multicast to.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// CTAs that split the K of one tile.
    pub const fn split_k(self) -> u32 {
        self.split_k
    }

    /// CTAs.
    pub const fn blocks(self) -> u32 {
        self.rows * self.columns * self.split_k
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows(), self.columns())?;
        if self.split_k() > 1 { write!(f, ", split_k {}", self.split_k()) } else { Ok(()) }
    }
}

impl Tile {
    /// Threads that hold one row, where no 64-row blocks are computed.
    pub const fn threads_per_row(self) -> u32 {
        128 * self.math_warpgroups / self.rows
    }

    /// A thread's elements of a row that it holds.
    pub const fn row_elements(self) -> u32 {
        self.columns / self.threads_per_row()
    }

    /// Whether threads load rows by themselves, into registers or shared memory: no products, no 64-row blocks, no warps that
    /// only load.
    pub const fn holds_rows(self) -> bool {
        matches!(
            self.kernel,
            KernelSchedule::Rows | KernelSchedule::StreamedRows | KernelSchedule::Strips
        )
    }

    /// Whether rows pass through shared memory, a tile's columns at a time.
    pub const fn streams_rows(self) -> bool {
        matches!(self.kernel, KernelSchedule::StreamedRows)
    }

    /// Whether strips of columns are folded along their rows.
    pub const fn folds_strips(self) -> bool {
        matches!(self.kernel, KernelSchedule::Strips)
    }

    /// Whether threads compute elements by themselves.
    pub const fn is_by_elements(self) -> bool {
        matches!(self.kernel, KernelSchedule::Elements)
    }

    /// Whether math warpgroups compute 64-row blocks, and other warps load for them.
    pub const fn has_blocks(self) -> bool {
        matches!(
            self.kernel,
            KernelSchedule::Cooperative | KernelSchedule::PingPong | KernelSchedule::Swapped
        )
    }

    /// Whether A and B are swapped.
    pub const fn is_swapped(self) -> bool {
        matches!(self.kernel, KernelSchedule::Swapped)
    }

    /// 64-row blocks of one warpgroup.
    pub const fn blocks(self) -> u32 {
        self.rows / self.warpgroups_per_tile() / 64
    }

    /// Whether half of the math warpgroups run a tile's epilogue while the others issue wgmma for the next.
    pub const fn is_ping_pong(self) -> bool {
        matches!(self.kernel, KernelSchedule::PingPong)
    }

    /// Work tiles that a CTA computes at a time.
    pub const fn tiles_in_flight(self) -> u32 {
        self.kernel.tiles_in_flight()
    }

    /// Math warpgroups that compute one tile together.
    pub const fn warpgroups_per_tile(self) -> u32 {
        self.math_warpgroups / self.tiles_in_flight()
    }

    /// Partial results along columns that a tile leaves: one of each warpgroup, or of a CTA that folds a strip.
    pub const fn partials_per_tile(self) -> u32 {
        if self.folds_strips() { 1 } else { self.warpgroups_per_tile() }
    }

    /// Accumulators of one thread.
    pub const fn accumulators(self) -> u32 {
        self.blocks() * self.columns / 2
    }
}
