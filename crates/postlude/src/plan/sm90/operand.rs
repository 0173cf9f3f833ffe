//! How the operands of the product lie, and which way each therefore reaches shared memory.

use crate::dtype::DType;
use crate::graph::{Graph, InputId, Orientation};
use crate::problem::Problem;

use super::place::{MAP_ALIGNMENT, Placement, Placements, fits_map};

/// How an operand of the product reaches shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Feed {
    /// By tensor map; the contraction lies without gaps.
    Inner,
    /// By tensor map; rows of A, or columns of B, lie without gaps.
    Outer,
    /// The contraction lies without gaps, but rows begin anywhere. Every eighth row begins at the same distance from a
    /// multiple of 16 bytes, so eight tensor maps read them all, and threads move what arrives to its place.
    Staggered,
    /// Element by element; threads run along the contraction.
    InnerElements,
    /// Element by element; threads run along rows of A, or columns of B.
    OuterElements,
}

impl Feed {
    /// Every feed, best first.
    pub const ALL: [Feed; 5] =
        [Feed::Inner, Feed::Outer, Feed::Staggered, Feed::InnerElements, Feed::OuterElements];

    /// The word in a printed schedule.
    pub const fn name(self) -> &'static str {
        match self {
            Feed::Inner => "inner",
            Feed::Outer => "outer",
            Feed::Staggered => "staggered",
            Feed::InnerElements => "inner_elements",
            Feed::OuterElements => "outer_elements",
        }
    }

    /// Whether threads read it element by element.
    pub const fn is_by_elements(self) -> bool {
        matches!(self, Feed::InnerElements | Feed::OuterElements)
    }

    /// Whether threads of the load warpgroup write it to its stage, and not copies by tensor map.
    pub const fn is_written(self) -> bool {
        matches!(self, Feed::Staggered | Feed::InnerElements | Feed::OuterElements)
    }

    /// Whether a kernel with this feed can be used where `other` was planned.
    pub fn covers(self, other: Feed) -> bool {
        self == other || self.is_by_elements() || (self == Feed::Staggered && other == Feed::Inner)
    }
}

/// Classes of rows of a staggered operand: 16 bytes are this many 16-bit elements.
pub(crate) const STAGGER: u32 = 8;

/// Elements between neighbours of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OperandStrides {
    /// 0 where all batches have the same.
    pub(crate) batch: isize,
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
    pub(crate) strides: OperandStrides,
    /// Rows of A, or columns of B.
    pub(crate) size: usize,
}

/// A, B, and further Bs where there are several products.
pub(crate) fn operands<'a>(
    graph: &Graph,
    problem: &Problem,
    placements: &'a Placements,
) -> Vec<Operand<'a>> {
    let product = graph.product();
    let operand = |(input, orientation): (InputId, Orientation), last: Orientation, size| {
        let placement = placements.input(input);
        let [.., first, second] = placement.strides[..] else {
            panic!("compiler bug: an operand of fewer than two dims")
        };
        // The contraction is the last dim as A stands, and as B stands transposed.
        let (outer, inner) = if orientation == last { (first, second) } else { (second, first) };
        let batch = if placement.strides.len() == 3 { placement.strides[0] } else { 0 };
        let dtype = graph.inputs()[input.0 as usize].dtype;
        let strides = OperandStrides { batch, outer, inner };
        Operand { input, dtype, placement, strides, size }
    };
    let columns = problem.product_columns();
    let right = |input| operand((input, product.right.1), Orientation::Transposed, columns);
    let left = operand(product.left, Orientation::Plain, problem.rows);
    [left, right(product.right.0)]
        .into_iter()
        .chain(product.further.iter().copied().map(right))
        .collect()
}

/// How A and B travel.
pub(super) fn feeds(graph: &Graph, problem: &Problem, placements: &Placements) -> [Feed; 2] {
    let operands = operands(graph, problem, placements);
    let each: Vec<Feed> = operands.iter().map(|operand| feed(operand, problem)).collect();
    let (left, right) = (each[0], each[1]);
    let right = match &each[2..] {
        [] => right,
        // Several products take B the same way: whichever brings in all.
        further if right != Feed::Staggered && further.iter().all(|feed| *feed == right) => right,
        _ if operands[1..].iter().all(|operand| operand.strides.outer == 1) => Feed::OuterElements,
        _ => Feed::InnerElements,
    };
    let feeds = [left, right];
    if !feeds.iter().any(|feed| feed.is_by_elements()) {
        return feeds;
    }
    // The whole load warpgroup reads elements, and has nobody to spare.
    feeds.map(|feed| if feed == Feed::Staggered { Feed::InnerElements } else { feed })
}

fn feed(operand: &Operand<'_>, problem: &Problem) -> Feed {
    if problem.inner == 0 {
        // Nothing is read.
        return Feed::Inner;
    }
    let OperandStrides { batch, outer, inner } = operand.strides;
    let fits = |stride: isize| fits_map(stride, operand.dtype);
    let batches_fit = problem.batch <= 1 || batch == 0 || fits(batch);
    let (inner_unit, outer_unit) =
        (problem.inner == 1 || inner == 1, operand.size <= 1 || outer == 1);
    if batches_fit && operand.placement.alignment().is_multiple_of(MAP_ALIGNMENT) {
        if inner_unit && (operand.size <= 1 || fits(outer)) {
            return Feed::Inner;
        }
        if outer_unit && (problem.inner == 1 || fits(inner)) {
            return Feed::Outer;
        }
    }
    let step = outer.checked_mul(STAGGER as isize);
    if batches_fit && inner_unit && (operand.size <= 1 || step.is_some_and(fits)) {
        return Feed::Staggered;
    }
    if outer_unit { Feed::OuterElements } else { Feed::InnerElements }
}
