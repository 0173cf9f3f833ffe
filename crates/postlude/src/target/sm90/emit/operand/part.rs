//! An operand's part of a stage, and which CTAs of a cluster it is multicast to.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::launch::Swizzle;
use postlude_ptx::ring::{Grid, Receivers};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::target::sm90::emit::batch::Batch;
use crate::target::sm90::plan::{OperandLoad, SPAN_BYTES, STAGE_ROW_BYTES, STAGGER, Sm90Schedule};
use crate::target::tile::Cluster;

/// Bytes of a row or a line of a stage.
pub(crate) const LINE_BYTES: u32 = STAGE_ROW_BYTES;
/// Rows of a slab.
pub(super) const BLOCK: u32 = 64;

/// An operand's part of a stage.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) load: OperandLoad,
    /// Rows of A's tile, or columns of B's.
    pub(crate) size: u32,
    /// Those of them that TMA loads: fewer where A has few.
    pub(crate) loaded: u32,
    /// CTAs that it is multicast to, each of which loads a part for all: A over a row of the cluster, B over a column.
    pub(crate) multicast: u32,
    pub(crate) along: Along,
    /// Bytes from the stage's start.
    pub(crate) offset: u32,
    /// K of the stage.
    pub(crate) depth: u32,
    /// Bytes of a narrow row.
    pub(crate) span: u32,
    /// Bytes from a row to its low part, where threads write one.
    pub(crate) low: Option<u32>,
}

/// Which CTAs of a cluster an operand is multicast to.
#[derive(Clone, Copy)]
pub(crate) enum Along {
    Row(Grid),
    Column(Grid),
}

impl Part {
    /// A's of a stage, and B's of every product, one behind the other; nothing where there is no product.
    pub(crate) fn of(schedule: &Sm90Schedule) -> Vec<Part> {
        let Some(mainloop) = &schedule.needs.mainloop else { return Vec::new() };
        let (tile, size, depth) = (schedule.tile, schedule.width(), mainloop.depth());
        let [left, load] = mainloop.operands;
        let grid = grid(tile.cluster);
        let span = if tile.is_swapped() { schedule.swapped_span_bytes() } else { SPAN_BYTES };
        let low = mainloop.split.then(|| schedule.part_bytes());
        let left = Part {
            load: left,
            size: tile.rows,
            loaded: schedule.short_rows().unwrap_or(tile.rows),
            multicast: grid.columns,
            along: Along::Row(grid),
            offset: 0,
            depth,
            span,
            low,
        };
        let right = |product: u32| Part {
            load,
            size,
            loaded: size,
            multicast: grid.rows,
            along: Along::Column(grid),
            offset: (tile.rows + product * size) * LINE_BYTES,
            depth,
            span,
            low,
        };
        [left].into_iter().chain((0..mainloop.products).map(right)).collect()
    }

    /// For the CTA at this row and column of its cluster: its number among the CTAs that receive the operand, and all of
    /// them.
    pub(super) fn receivers<'k>(
        &self,
        k: Kernel<'k, Sm90a>,
        [row, column]: [Reg<'k, U32>; 2],
    ) -> Option<(Reg<'k, U32>, Receivers<'k>)> {
        let count = self.multicast;
        if count == 1 {
            return None;
        }
        let (own, among, others, step) = match self.along {
            Along::Row(grid) => (column, row, grid.rows, grid.rows),
            Along::Column(grid) => (row, column * grid.rows, grid.columns, 1),
        };
        let first: u16 = (0..count).map(|each| 1 << (each * step)).sum();
        let mask = match others {
            1 => first.into(),
            _ => k.truncate_u16(k.imm(u32::from(first)) << among).into(),
        };
        Some((own, Receivers::Multicast { mask, count }))
    }

    /// The swizzle of its TMA loads.
    pub(crate) fn swizzle(&self) -> Swizzle {
        match self.load {
            OperandLoad::Staggered => Swizzle::None,
            OperandLoad::Widened4 | OperandLoad::Widened8 if self.span < SPAN_BYTES => Swizzle::B64,
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => Swizzle::B128,
        }
    }

    /// The box of one copy: innermost first, without the batch.
    pub(crate) fn box_sizes(&self) -> [u32; 2] {
        match self.load {
            OperandLoad::TmaKMajor => [self.depth, self.loaded / self.multicast],
            OperandLoad::TmaMnMajor => [BLOCK, self.depth / self.multicast],
            OperandLoad::Staggered => [self.depth + STAGGER, self.size / STAGGER],
            // Bytes.
            OperandLoad::Widened4 | OperandLoad::Widened8 => [self.span, self.size],
            OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => {
                panic!("compiler bug: a box of what no map copies")
            }
        }
    }
}

/// Which piece of an operand a stage holds.
#[derive(Clone, Copy)]
pub(crate) struct Piece<'k> {
    /// The first row of A or column of B.
    pub(crate) first: Reg<'k, U32>,
    /// The first element along the contraction.
    pub(crate) depth: Reg<'k, U32>,
    /// The element behind the contraction's last.
    pub(crate) end: Reg<'k, U32>,
    pub(crate) batch: Batch<'k>,
    /// The same in the operand's tensor maps.
    pub(crate) mapped_batch: Batch<'k>,
}

/// The CTAs of a cluster as loads are multicast to them.
pub(crate) fn grid(cluster: Cluster) -> Grid {
    Grid { rows: cluster.rows(), columns: cluster.columns() }
}
