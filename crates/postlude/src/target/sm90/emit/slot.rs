//! How tiles of the epilogue lie in slots, and which boxes of a tensor map fill or empty one.
//!
//! A slot holds 64 rows of an epilogue tile of 16-bit elements, or of half of one of 32-bit elements; a wide epilogue
//! tile takes two slots, one of bytes half of one. A row-major tile's slot is one box, whose rows are the tile's, or
//! one for the rows of each warp. A column-major tile's slot has a row of 128 bytes for each column: 64 elements of 16
//! bits in one box, or 32 of 32 bits in two, the upper rows' and the lower's; of 8 bits, a row of 64 bytes.
//! Invariant: boxes start at multiples of their swizzle's pattern.

use postlude_ptx::kernel::{Half, Reg, Src};
use postlude_ptx::launch::Swizzle;
use postlude_ptx::types::U32;

use crate::dtype::DType;
use crate::placement::Major;
use crate::target::sm90::plan::{SLOT_ROWS, Sm90Schedule};

use super::batch::Batch;
use super::fragment::Fragment;

/// Bytes of a row of a column-major tile's slot: the widest that is swizzled.
pub(super) const COLUMN_BYTES: u32 = 128;

/// How a tile operand or a tile output lies in its slots.
#[derive(Clone, Copy)]
pub(super) struct SlotLayout {
    pub(super) major: Major,
    element_bytes: u32,
    epilogue_tile: u32,
    /// Rows of a box of a row-major tile.
    rows: u32,
}

/// One copy between a slot and memory.
pub(super) struct SlotBox<'k> {
    /// Where it starts in the slot, and how long it is.
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// Innermost first.
    pub(super) coordinates: Vec<Src<'k, U32>>,
}

impl SlotLayout {
    pub(super) fn new(schedule: &Sm90Schedule, dtype: DType, major: Major) -> SlotLayout {
        let element_bytes = dtype.bits() as u32 / 8;
        assert!(matches!(element_bytes, 1 | 2 | 4), "compiler bug: a slot of {dtype}");
        SlotLayout { major, element_bytes, epilogue_tile: schedule.epilogue_tile, rows: SLOT_ROWS }
    }

    /// For an output, which leaves by warps or by warpgroups.
    pub(super) fn of_output(schedule: &Sm90Schedule, dtype: DType, major: Major) -> SlotLayout {
        let rows = if schedule.needs.stores_by_warps() { Fragment::WARP_ROWS } else { SLOT_ROWS };
        SlotLayout { rows, ..SlotLayout::new(schedule, dtype, major) }
    }

    /// Bytes of an element.
    pub(super) fn element_bytes(self) -> u32 {
        self.element_bytes
    }

    /// Slots of an epilogue tile, from left to right.
    pub(super) fn slots(self) -> u32 {
        self.element_bytes.div_ceil(2)
    }

    /// Columns of the tile in one slot.
    pub(super) fn columns(self) -> u32 {
        self.epilogue_tile / self.slots()
    }

    /// Rows of the tile in one box.
    fn box_rows(self) -> u32 {
        match self.major {
            Major::Row => self.rows,
            Major::Column => (COLUMN_BYTES / self.element_bytes).min(SLOT_ROWS),
        }
    }

    /// Elements of a box, innermost first.
    pub(super) fn box_sizes(self) -> [u32; 2] {
        match self.major {
            Major::Row => [self.columns(), self.box_rows()],
            Major::Column => [self.box_rows(), self.columns()],
        }
    }

    pub(super) fn swizzle(self) -> Swizzle {
        match self.box_sizes()[0] * self.element_bytes {
            128 => Swizzle::B128,
            64 => Swizzle::B64,
            32 => Swizzle::B32,
            16 => Swizzle::None,
            bytes => panic!("compiler bug: rows of {bytes} bytes"),
        }
    }

    /// The copies of the slot whose first element is in this row, column and batch.
    pub(super) fn boxes<'k>(
        self,
        row: Reg<'k, U32>,
        column: Reg<'k, U32>,
        batch: Batch<'k>,
    ) -> impl Iterator<Item = SlotBox<'k>> {
        let (rows, bytes) =
            (self.box_rows(), self.box_rows() * self.columns() * self.element_bytes);
        (0..SLOT_ROWS / rows).map(move |place| {
            let row = if place == 0 { row } else { row + place * rows };
            let coordinates = match self.major {
                Major::Row => [column, row],
                Major::Column => [row, column],
            };
            let coordinates = coordinates.into_iter().chain(batch.places()).map(Into::into);
            SlotBox { offset: place * bytes, bytes, coordinates: coordinates.collect() }
        })
    }
}

/// The 16-bit float of a dtype, whose elements move through slots in pairs.
pub(super) fn half_of(dtype: DType) -> Option<Half> {
    match dtype {
        DType::F16 => Some(Half::F16),
        DType::BF16 => Some(Half::BF16),
        DType::F32
        | DType::TF32
        | DType::F8E4M3
        | DType::F8E5M2
        | DType::F8E8M0
        | DType::I8
        | DType::U8
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1
        | DType::I4
        | DType::U4 => None,
    }
}
