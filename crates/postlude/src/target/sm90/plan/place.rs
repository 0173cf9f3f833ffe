//! Where tensors lie, and how the epilogue therefore loads and stores each.
//!
//! In: strides and alignments of one call. Out: an [`EpilogueTransfer`] for every tile operand and every output.

use crate::dtype::DType;
use crate::graph::{InputId, Kind};
use crate::lower::TileProgram;
use crate::placement::{Major, Placements};
use crate::problem::{BodyStrides, Problem};

use super::refusal::Sm90Refusal;

/// How the epilogue loads a tile operand or stores an output.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum EpilogueTransfer {
    /// By TMA through shared memory; row-major.
    Tma,
    /// By TMA through shared memory; column-major.
    TmaTransposed,
    /// Directly into registers; two neighbouring columns are one aligned word, and both are there or neither is.
    Pairs,
    /// Through shared memory, and from there by threads, neighbouring columns by neighbouring lanes; columns are contiguous.
    /// Outputs alone leave so.
    Coalesced,
    /// Directly between registers and memory; columns are contiguous.
    Contiguous,
    /// Directly between registers and memory, at any strides.
    Strided,
    /// No tile: a vector, a scalar or a value for each group of columns, written when the reductions that it is made of
    /// are finished.
    Finished,
}

impl EpilogueTransfer {
    /// Every one, best first.
    pub(crate) const ALL: [EpilogueTransfer; 7] = [
        EpilogueTransfer::Tma,
        EpilogueTransfer::TmaTransposed,
        EpilogueTransfer::Pairs,
        EpilogueTransfer::Coalesced,
        EpilogueTransfer::Contiguous,
        EpilogueTransfer::Strided,
        EpilogueTransfer::Finished,
    ];

    /// Directly between registers and memory, if it is not yet.
    pub(super) fn make_direct(&mut self) {
        *self = match *self {
            EpilogueTransfer::Tma | EpilogueTransfer::Coalesced | EpilogueTransfer::Contiguous => {
                EpilogueTransfer::Contiguous
            }
            EpilogueTransfer::Pairs => EpilogueTransfer::Pairs,
            EpilogueTransfer::TmaTransposed | EpilogueTransfer::Strided => {
                EpilogueTransfer::Strided
            }
            EpilogueTransfer::Finished => EpilogueTransfer::Finished,
        };
    }

    /// The word in a printed schedule.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            EpilogueTransfer::Tma => "tma",
            EpilogueTransfer::TmaTransposed => "tma_transposed",
            EpilogueTransfer::Pairs => "pairs",
            EpilogueTransfer::Coalesced => "coalesced",
            EpilogueTransfer::Contiguous => "contiguous",
            EpilogueTransfer::Strided => "strided",
            EpilogueTransfer::Finished => "finished",
        }
    }

    /// What a tensor map has innermost; `None` where there is no map.
    pub(crate) const fn major(self) -> Option<Major> {
        match self {
            EpilogueTransfer::Tma => Some(Major::Row),
            EpilogueTransfer::TmaTransposed => Some(Major::Column),
            EpilogueTransfer::Pairs
            | EpilogueTransfer::Coalesced
            | EpilogueTransfer::Contiguous
            | EpilogueTransfer::Strided
            | EpilogueTransfer::Finished => None,
        }
    }

    /// What slots of shared memory have innermost; `None` where a tile moves without them.
    pub(crate) const fn slot_major(self) -> Option<Major> {
        match self {
            EpilogueTransfer::Coalesced => Some(Major::Row),
            EpilogueTransfer::Tma
            | EpilogueTransfer::TmaTransposed
            | EpilogueTransfer::Pairs
            | EpilogueTransfer::Contiguous
            | EpilogueTransfer::Strided
            | EpilogueTransfer::Finished => self.major(),
        }
    }

    /// Whether a tile moves directly between registers and memory.
    pub(crate) const fn is_direct(self) -> bool {
        match self {
            EpilogueTransfer::Pairs | EpilogueTransfer::Contiguous | EpilogueTransfer::Strided => {
                true
            }
            EpilogueTransfer::Tma
            | EpilogueTransfer::TmaTransposed
            | EpilogueTransfer::Coalesced
            | EpilogueTransfer::Finished => false,
        }
    }

    /// Whether code for this one moves whatever the other one moves.
    pub(crate) const fn covers(self, other: EpilogueTransfer) -> bool {
        match self {
            EpilogueTransfer::Tma => matches!(other, EpilogueTransfer::Tma),
            EpilogueTransfer::TmaTransposed => matches!(other, EpilogueTransfer::TmaTransposed),
            EpilogueTransfer::Pairs => matches!(other, EpilogueTransfer::Pairs),
            EpilogueTransfer::Coalesced | EpilogueTransfer::Contiguous => matches!(
                other,
                EpilogueTransfer::Tma
                    | EpilogueTransfer::Pairs
                    | EpilogueTransfer::Coalesced
                    | EpilogueTransfer::Contiguous
            ),
            EpilogueTransfer::Strided => !matches!(other, EpilogueTransfer::Finished),
            EpilogueTransfer::Finished => matches!(other, EpilogueTransfer::Finished),
        }
    }
}

/// What tensor maps want of addresses and strides, in bytes.
pub(super) const MAP_ALIGNMENT: u64 = 16;
/// Strides of tensor maps are below this (CUDA Driver API, `cuTensorMapEncodeTiled`).
const MAP_STRIDES: i128 = 1 << 40;
/// Coordinates are signed 32-bit numbers, and a tile may begin before a size ends and end after it.
const MOST_ELEMENTS: usize = i32::MAX as usize - 1024;
/// The most columns of a slot, and a multiple of those of every slot.
const SLOT_COLUMNS: usize = 64;

/// How every tile operand is loaded, in the order of the signature.
pub(super) fn epilogue_loads(
    program: &TileProgram,
    problem: &Problem,
    placements: &Placements,
    windows: &[[u32; 2]],
) -> Vec<EpilogueTransfer> {
    let graph = program.graph();
    let transfer = |input: InputId| {
        let declared = &graph.inputs()[input.0 as usize];
        let placement = placements.input(input);
        let dims = declared.dims.as_deref().unwrap_or_default();
        let strides = BodyStrides::new(graph.space(), dims, &placement.strides);
        // Beside a product, shared memory is better spent on its stages than on slots of these.
        let mapped = is_mapped(declared.dtype)
            || program.products() == 0 && matches!(declared.dtype.bits(), 8 | 16 | 32);
        let window = program.input_window(input);
        // A box has neighbouring columns, and a part of each run does not.
        let mapped = mapped && window.and_then(|window| program.fold(window)).is_none();
        // Threads read single elements of tables.
        let mapped = mapped && !graph.is_table(input);
        // Rows of the product that share one of the tensor's are no box.
        let mapped = mapped && program.input_row_run(input) == 1;
        let [first, columns] = columns(problem, windows, window);
        // The TMA unit loads a box that begins before its tensor only where that is whole chunks before.
        let mapped = mapped && has_whole_chunks(declared.dtype, first);
        let lies = (strides, [first, columns]);
        let transfer = transfer(declared.dtype, mapped, lies, placement.alignment(), problem);
        let part = window.and_then(|window| program.fold(window)).map_or(2, |[_, part]| part);
        let even = program.products() > 0
            && program.input_run(input) == 1
            && part.is_multiple_of(2)
            && problem.product_columns().is_multiple_of(2)
            && are_pairs(declared.dtype, lies, placement.alignment());
        match transfer {
            EpilogueTransfer::Contiguous if even => EpilogueTransfer::Pairs,
            other => other,
        }
    };
    program.tile_operands.iter().copied().map(transfer).collect()
}

/// Whether two neighbouring columns of 16 bits, the first of them even, are always an aligned word.
fn are_pairs(dtype: DType, lies: (BodyStrides, [usize; 2]), alignment: u64) -> bool {
    let (BodyStrides { batch, row, .. }, [first, columns]) = lies;
    let even = [first, columns].into_iter().all(|count| count.is_multiple_of(2));
    let strides = batch.into_iter().chain([row]).all(|stride| stride % 2 == 0);
    matches!(dtype, DType::F16 | DType::BF16) && alignment.is_multiple_of(4) && even && strides
}

/// How every output is stored, in the order of the signature.
pub(super) fn epilogue_stores(
    program: &TileProgram,
    problem: &Problem,
    placements: &Placements,
    windows: &[[u32; 2]],
) -> Vec<EpilogueTransfer> {
    let graph = program.graph();
    let outputs = graph.outputs().iter().zip(&placements.outputs);
    outputs
        .enumerate()
        .map(|(place, (output, placement))| {
            let axes = graph.space().axes(&output.dims);
            if axes.is_some_and(|axes| axes.kind() != Kind::Tile) || program.output_run(output) > 1
            {
                return EpilogueTransfer::Finished;
            }
            let strides = BodyStrides::new(graph.space(), &output.dims, &placement.strides);
            let [first, columns] = columns(problem, windows, program.output_window(place));
            // The TMA unit stores no box that begins before its tensor (an illegal instruction): none may lie across the
            // first column of a part.
            let has_slots = (matches!(output.dtype.bits(), 8 | 32) || is_mapped(output.dtype))
                && program.output_row_run(output) == 1;
            let mapped = has_slots && first.is_multiple_of(SLOT_COLUMNS);
            let lies = (strides, [first, columns]);
            let transfer = transfer(output.dtype, mapped, lies, placement.alignment(), problem);
            // Copies out of shared memory write whole 16-byte chunks, even beyond the last element.
            let whole = |elements: usize| has_whole_chunks(output.dtype, elements);
            // Columns of a part of each run are no neighbours.
            let window = program.output_window(place);
            let whole_window = window.and_then(|window| program.fold(window)).is_none();
            let coalesced = has_slots && whole_window && !program.is_shared(output);
            let direct =
                if coalesced { EpilogueTransfer::Coalesced } else { EpilogueTransfer::Contiguous };
            match transfer {
                EpilogueTransfer::Tma if !whole(columns) => direct,
                EpilogueTransfer::Contiguous => direct,
                // Tiles of bytes are stored by TMA row-major only.
                EpilogueTransfer::TmaTransposed
                    if !whole(problem.rows) || output.dtype.bits() == 8 =>
                {
                    EpilogueTransfer::Strided
                }
                other => other,
            }
        })
        .collect()
}

/// The first column and the number of columns of a tensor with this window.
fn columns(problem: &Problem, windows: &[[u32; 2]], window: Option<usize>) -> [usize; 2] {
    let all = [0, problem.product_columns()];
    window.map_or(all, |window| windows[window].map(|size| size as usize))
}

/// Whether this many elements are whole chunks of 16 bytes.
fn has_whole_chunks(dtype: DType, elements: usize) -> bool {
    (elements * dtype.bits()).is_multiple_of(8 * MAP_ALIGNMENT as usize)
}

/// Whether TMA moves such elements, row-major and column-major.
fn is_mapped(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// How a tensor that lies so is loaded or stored: by TMA only where its elements are `mapped`.
fn transfer(
    dtype: DType,
    mapped: bool,
    (strides, [first, columns]): (BodyStrides, [usize; 2]),
    alignment: u64,
    problem: &Problem,
) -> EpilogueTransfer {
    let BodyStrides { batch, row, column } = strides;
    let mut batches = problem.batch_sizes.iter().zip(batch);
    // Rows of all segments lie in one matrix.
    let batches_fit =
        problem.segmented || batches.all(|(size, stride)| *size <= 1 || fits_map(stride, dtype));
    // No map has an empty dim, and a tile of nothing must touch nothing.
    let mappable = problem.rows > 0
        && columns > 0
        && mapped
        && alignment.is_multiple_of(MAP_ALIGNMENT)
        && batches_fit;
    // A single column lies next to itself, unless it is counted from before the tensor begins.
    if column == 1 || columns <= 1 && first == 0 {
        let mapped = mappable && (problem.rows <= 1 || fits_map(row, dtype));
        return if mapped { EpilogueTransfer::Tma } else { EpilogueTransfer::Contiguous };
    }
    // Boxes along rows begin with whole chunks of 16 bytes, and segments anywhere.
    let mapped = mappable && !problem.segmented && row == 1 && fits_map(column, dtype);
    if mapped { EpilogueTransfer::TmaTransposed } else { EpilogueTransfer::Strided }
}

/// Whether a map can step by this stride.
pub(super) fn fits_map(stride: isize, dtype: DType) -> bool {
    let bytes = stride as i128 * dtype.bits() as i128 / 8;
    (1..MAP_STRIDES).contains(&bytes) && bytes % i128::from(MAP_ALIGNMENT) == 0
}

/// Refuses sizes beyond 32-bit coordinates.
pub(super) fn refuse(problem: &Problem) -> Result<(), Sm90Refusal> {
    let sizes = [problem.batch, problem.rows, problem.product_columns(), problem.inner];
    if sizes.into_iter().any(|size| size > MOST_ELEMENTS) {
        return Err(Sm90Refusal::TooLarge);
    }
    // Where there are no rows, columns or batches, there may still be a tile for each of the others.
    let smallest_tiles = problem.rows.div_ceil(64).max(1) as u128
        * problem.product_columns().div_ceil(64).max(1) as u128
        * problem.batch.max(1) as u128;
    if smallest_tiles > i32::MAX as u128 {
        return Err(Sm90Refusal::TooLarge);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
