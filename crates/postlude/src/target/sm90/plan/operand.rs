//! Where the operands of the product lie in memory, and how each is therefore loaded into shared memory.

use crate::dtype::DType;
use crate::graph::{Graph, InputId, Orientation, ProductId, Side, Space};
use crate::placement::{Placement, Placements};
use crate::problem::{BodyStrides, Problem};

use super::lists::ListSteps;
use super::place::{MAP_ALIGNMENT, fits_map};
use super::widened::{Widened, widened_operand};

/// How an operand of the product is loaded into shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum OperandLoad {
    /// By TMA; K-major: elements along K are contiguous.
    TmaKMajor,
    /// By TMA; MN-major: rows of A, or columns of B, are contiguous.
    TmaMnMajor,
    /// K-major, but rows begin anywhere. Every eighth row begins at the same distance from a multiple of 16 bytes, so
    /// eight tensor maps read them all, and load warps move what arrived to its place.
    Staggered,
    /// Element by element; the threads of a warp read along K.
    ElementsKMajor,
    /// Element by element; the threads of a warp read along rows of A, or columns of B.
    ElementsMnMajor,
    /// By threads, 16 bytes at a time along K.
    VectorsKMajor,
    /// Elements of 4 bits by TMA, from which load warps compute those of the stage.
    Widened4,
    /// The same of 8 bits.
    Widened8,
}

impl OperandLoad {
    /// Every one, best first.
    pub(crate) const ALL: [OperandLoad; 8] = [
        OperandLoad::TmaKMajor,
        OperandLoad::TmaMnMajor,
        OperandLoad::Staggered,
        OperandLoad::ElementsKMajor,
        OperandLoad::ElementsMnMajor,
        OperandLoad::VectorsKMajor,
        OperandLoad::Widened4,
        OperandLoad::Widened8,
    ];

    /// The word in a printed schedule.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            OperandLoad::TmaKMajor => "tma_k_major",
            OperandLoad::TmaMnMajor => "tma_mn_major",
            OperandLoad::Staggered => "staggered",
            OperandLoad::ElementsKMajor => "elements_k_major",
            OperandLoad::ElementsMnMajor => "elements_mn_major",
            OperandLoad::VectorsKMajor => "vectors_k_major",
            OperandLoad::Widened4 => "widened_4",
            OperandLoad::Widened8 => "widened_8",
        }
    }

    /// Whether threads of the load warpgroup read it from memory.
    pub(crate) const fn is_by_elements(self) -> bool {
        matches!(
            self,
            OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor | OperandLoad::VectorsKMajor
        )
    }

    /// Whether load warps compute it from narrower elements.
    pub(crate) const fn is_widened(self) -> bool {
        self.narrow_bits().is_some()
    }

    /// Bits of the elements that load warps compute it from.
    pub(crate) const fn narrow_bits(self) -> Option<u32> {
        match self {
            OperandLoad::Widened4 => Some(4),
            OperandLoad::Widened8 => Some(8),
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::Staggered
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => None,
        }
    }

    /// Whether threads of the load warpgroup write it to its stage, and not TMA.
    pub(crate) const fn is_written(self) -> bool {
        matches!(self, OperandLoad::Staggered) || self.is_by_elements() || self.is_widened()
    }

    /// Whether a kernel that loads it so can be used where `other` was planned.
    pub(crate) fn covers(self, other: OperandLoad) -> bool {
        self == other
            || (matches!(self, OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor)
                && !other.is_widened())
            || (self == OperandLoad::Staggered && other == OperandLoad::TmaKMajor)
    }
}

/// An element type that wgmma multiplies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum OperandElement {
    F16,
    BF16,
    E4M3,
    E5M2,
    I8,
    U8,
    TF32,
    /// Multiplied as two TF32 numbers, a high and a low part.
    F32,
}

impl OperandElement {
    /// That of a tensor, if wgmma multiplies it.
    pub(crate) const fn of(dtype: DType) -> Option<OperandElement> {
        match dtype {
            DType::F16 => Some(OperandElement::F16),
            DType::BF16 => Some(OperandElement::BF16),
            DType::F8E4M3 => Some(OperandElement::E4M3),
            DType::F8E5M2 => Some(OperandElement::E5M2),
            DType::I8 => Some(OperandElement::I8),
            DType::U8 => Some(OperandElement::U8),
            DType::TF32 => Some(OperandElement::TF32),
            DType::F32 => Some(OperandElement::F32),
            DType::F8E8M0
            | DType::I32
            | DType::I64
            | DType::Bool
            | DType::B1
            | DType::I4
            | DType::U4 => None,
        }
    }

    /// Its bytes.
    pub(crate) const fn bytes(self) -> u32 {
        match self {
            OperandElement::F16 | OperandElement::BF16 => 2,
            OperandElement::E4M3
            | OperandElement::E5M2
            | OperandElement::I8
            | OperandElement::U8 => 1,
            OperandElement::TF32 | OperandElement::F32 => 4,
        }
    }

    /// K of a stage.
    pub(crate) const fn stage_depth(self) -> u32 {
        STAGE_ROW_BYTES / self.bytes()
    }

    /// Whether threads write a low part of it beside the high one.
    pub(crate) const fn is_split(self) -> bool {
        matches!(self, OperandElement::F32)
    }

    /// Whether wgmma reads it MN-major, too.
    const fn transposes(self) -> bool {
        matches!(self, OperandElement::F16 | OperandElement::BF16)
    }

    /// Those of the product's operands, which have one width; planning refuses others.
    pub(crate) fn of_product(graph: &Graph) -> [OperandElement; 2] {
        let product = graph.product(ProductId::FIRST);
        [product.left, product.right].map(|(input, _)| {
            let dtype = graph.inputs()[input.0 as usize].dtype;
            OperandElement::of(dtype)
                .unwrap_or_else(|| panic!("compiler bug: planning let operands of {dtype} through"))
        })
    }
}

/// Bytes of the elements of staggered rows.
pub(crate) const MOVED_BYTES: u32 = 2;

/// Classes of rows of a staggered operand: 16 bytes are this many 16-bit elements.
pub(crate) const STAGGER: u32 = 8;

/// Bytes of a row of a stage: one swizzled row of shared memory.
pub(crate) const STAGE_ROW_BYTES: u32 = 128;
/// K of one stage of 16-bit elements.
pub(crate) const MOVED_DEPTH: u32 = STAGE_ROW_BYTES / MOVED_BYTES;
/// Slots of staggered operands: TMA fills one while load warps empty the other.
pub(crate) const STAGING_SLOTS: u32 = 2;
/// Bytes of a staggered row as TMA loads it: a stage's, and up to seven elements before them.
pub(crate) const STAGGERED_ROW_BYTES: u32 = STAGE_ROW_BYTES + STAGGER * MOVED_BYTES;
/// Elements of 32 bits that a thread reads at a time.
const VECTOR: usize = 4;

/// Elements between neighbours of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OperandStrides {
    /// Along each batch dim; 0 where all batches have the same.
    pub(crate) batch: [isize; Space::MOST_BATCH_DIMS],
    /// Along rows of A, or columns of B.
    pub(crate) outer: isize,
    /// Along the contraction.
    pub(crate) inner: isize,
}

/// An operand of the product.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) input: InputId,
    pub(crate) dtype: DType,
    pub(crate) placement: &'a Placement,
    /// Where it is a list.
    pub(crate) list: Option<ListSteps>,
    pub(crate) strides: OperandStrides,
    /// Rows of A, or columns of B.
    pub(crate) size: usize,
}

/// A, and B of every product; all of them share A. Nothing where there is no product.
pub(crate) fn operands<'a>(
    graph: &Graph,
    problem: &Problem,
    placements: &'a Placements,
) -> Vec<Operand<'a>> {
    let operand = |(input, orientation): (InputId, Orientation), last: Orientation, size| {
        let input = narrow_source(graph, input).unwrap_or(input);
        let placement = placements.input(input);
        let declared = &graph.inputs()[input.0 as usize];
        let dims = declared.dims.as_deref().unwrap_or_default();
        let strides = BodyStrides::of_operand(graph.space(), dims, &placement.strides);
        let (first, second) = (strides.row, strides.column);
        // The contraction is the last dim as A stands, and as B stands transposed.
        let (outer, inner) = if orientation == last { (first, second) } else { (second, first) };
        let strides = OperandStrides { batch: strides.batch, outer, inner };
        let list = ListSteps::of(graph, dims, placement);
        Operand { input, dtype: declared.dtype, placement, list, strides, size }
    };
    let Some(first) = graph.products().first() else { return Vec::new() };
    let columns = problem.product_columns();
    let left = operand(first.left, Orientation::Plain, problem.rows);
    let rights = graph.products().iter();
    let rights = rights.map(|product| operand(product.right, Orientation::Transposed, columns));
    [left].into_iter().chain(rights).collect()
}

/// The tensor of narrow elements that load warps compute an operand from.
pub(crate) fn narrow_source(graph: &Graph, operand: InputId) -> Option<InputId> {
    let operand = &graph.inputs()[operand.0 as usize];
    let widened = Widened::of(operand).filter(|_| operand.in_mainloop)?;
    let source = &widened.graph.inputs()[widened.source.0 as usize];
    Some(InputId(graph.place_of(&source.name) as u32))
}

/// How A and B are loaded.
pub(super) fn operand_loads(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
) -> [OperandLoad; 2] {
    let operands = operands(graph, problem, placements);
    let ragged = graph.contraction_ends().is_some();
    let load = |operand: &Operand<'_>| match operand_load(operand, problem) {
        // Boxes have whole lines of K, and threads clear those behind a segment; single elements they do not read.
        OperandLoad::TmaKMajor | OperandLoad::Staggered | OperandLoad::VectorsKMajor if ragged => {
            OperandLoad::ElementsKMajor
        }
        load => load,
    };
    let mut each: Vec<OperandLoad> = operands.iter().map(load).collect();
    if let Some((side, input)) = widened_operand(graph) {
        let widened = Widened::of(&graph.inputs()[input.0 as usize]);
        let place = match side {
            Side::Left => 0,
            Side::Right => 1,
        };
        each[place] = match widened.and_then(Widened::bits) {
            Some(4) => OperandLoad::Widened4,
            Some(_) => OperandLoad::Widened8,
            None => each[place],
        };
    }
    let (left, right) = (each[0], each[1]);
    let left = match left {
        // Staggered rows are every eighth one from a tile's first, and segments begin anywhere.
        OperandLoad::Staggered if problem.segmented => OperandLoad::ElementsKMajor,
        // So do boxes along rows, which begin with whole chunks of 16 bytes.
        OperandLoad::TmaMnMajor if problem.segmented => OperandLoad::ElementsMnMajor,
        left => left,
    };
    let right = match &each[2..] {
        [] => right,
        // Every product loads its B by the same code: one that loads all of them.
        further if right != OperandLoad::Staggered && further.iter().all(|load| *load == right) => {
            right
        }
        _ if operands[1..].iter().all(|operand| operand.strides.outer == 1) => {
            OperandLoad::ElementsMnMajor
        }
        _ => OperandLoad::ElementsKMajor,
    };
    let loads = [left, right];
    if !loads.iter().any(|load| load.is_by_elements()) {
        return loads;
    }
    // The whole load warpgroup reads elements: no warp is left to move staggered rows.
    loads
        .map(|load| if load == OperandLoad::Staggered { OperandLoad::ElementsKMajor } else { load })
}

/// How an operand is loaded: wgmma reads only 16-bit elements MN-major, and threads move only 16-bit staggered rows.
pub(super) fn operand_load(operand: &Operand<'_>, problem: &Problem) -> OperandLoad {
    let load = placed_load(operand, problem);
    if OperandElement::of(operand.dtype).is_none_or(OperandElement::transposes) {
        return load;
    }
    match load {
        // Whole vectors. Without a contraction nothing is read, but threads write zeros.
        OperandLoad::TmaKMajor if operand.dtype == DType::F32 => match problem.inner % VECTOR {
            0 if problem.inner > 0 => OperandLoad::VectorsKMajor,
            _ => OperandLoad::ElementsKMajor,
        },
        OperandLoad::TmaMnMajor => OperandLoad::ElementsMnMajor,
        OperandLoad::Staggered => OperandLoad::ElementsKMajor,
        OperandLoad::TmaKMajor
        | OperandLoad::ElementsKMajor
        | OperandLoad::ElementsMnMajor
        | OperandLoad::VectorsKMajor
        | OperandLoad::Widened4
        | OperandLoad::Widened8 => load,
    }
}

fn placed_load(operand: &Operand<'_>, problem: &Problem) -> OperandLoad {
    if problem.inner == 0 {
        // Nothing is read.
        return OperandLoad::TmaKMajor;
    }
    let OperandStrides { batch, outer, inner } = operand.strides;
    let fits = |stride: isize| fits_map(stride, operand.dtype);
    let mut batches = problem.batch_sizes.iter().zip(batch);
    let batches_fit = batches.all(|(size, stride)| *size <= 1 || stride == 0 || fits(stride));
    let (inner_unit, outer_unit) =
        (problem.inner == 1 || inner == 1, operand.size <= 1 || outer == 1);
    if batches_fit && operand.placement.alignment().is_multiple_of(MAP_ALIGNMENT) {
        if inner_unit && (operand.size <= 1 || fits(outer)) {
            return OperandLoad::TmaKMajor;
        }
        if outer_unit && (problem.inner == 1 || fits(inner)) {
            return OperandLoad::TmaMnMajor;
        }
    }
    let step = outer.checked_mul(STAGGER as isize);
    if batches_fit && inner_unit && (operand.size <= 1 || step.is_some_and(fits)) {
        return OperandLoad::Staggered;
    }
    if outer_unit { OperandLoad::ElementsMnMajor } else { OperandLoad::ElementsKMajor }
}
