//! What the products of a launch need of a schedule: how their operands are loaded, and how their sums are kept.

use crate::graph::{Accumulation, Graph, InputId, ProductId};
use crate::lower::TileProgram;
use crate::placement::Placements;
use crate::problem::{BodyStrides, Problem};

use super::operand::{OperandElement, OperandLoad, STAGE_ROW_BYTES, operand_loads};
use super::place::{MAP_ALIGNMENT, fits_map};
use super::refusal::Sm90Refusal;
use super::scaling::Scaling;
use super::widened::{SPAN_BYTES, Widened, widened_operand};

/// What the products of a launch need of a schedule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(clippy::struct_excessive_bools)] // Knobs of a schedule, each by itself.
pub(crate) struct Mainloop {
    /// How A and B are loaded.
    pub(crate) operands: [OperandLoad; 2],
    /// Bytes of an element of A or B.
    pub(crate) operand_bytes: u32,
    /// Whether a stage has low parts of A and B behind the high ones.
    pub(crate) split: bool,
    /// Whether a stage's sums are added to the tile's in f32.
    pub(crate) promoted: bool,
    /// The factors that a stage's sums are multiplied with before.
    pub(crate) scaling: Scaling,
    /// Products that share A: several where parts of one are told apart.
    pub(crate) products: u32,
    /// Rows of A that are loaded where it has few; 0 for a tile's.
    pub(crate) short_rows: u32,
    /// Whether K ends with half a span of narrow elements.
    pub(crate) half_spans: bool,
    /// Whether rows are cut into segments, whose ends are known on the device only.
    pub(crate) segmented: bool,
    /// Whether the K of a batch is a segment, known on the device only.
    pub(crate) ragged: bool,
    /// Whether tiles whose rows are not used are not multiplied, known on the device only.
    pub(crate) masked: bool,
}

impl Mainloop {
    /// That of a program whose tensors lie so; `None` where it has no product.
    pub(super) fn of(
        program: &TileProgram,
        problem: &Problem,
        placements: &Placements,
    ) -> Option<Mainloop> {
        let graph = program.graph();
        if graph.products().is_empty() {
            return None;
        }
        let [element, _] = OperandElement::of_product(graph);
        let scaling = Scaling::of(graph);
        let accumulation = graph.product(ProductId::FIRST).accumulation;
        let operands = operand_loads(graph, problem, placements);
        let narrow = operands.iter().find_map(|load| load.narrow_bits());
        let span = narrow.map_or(1, |bits| (SPAN_BYTES * 8 / bits) as usize);
        Some(Mainloop {
            operands,
            operand_bytes: element.bytes(),
            split: element.is_split(),
            promoted: accumulation == Accumulation::Promoted || scaling.count() > 0,
            scaling,
            products: program.products(),
            short_rows: if problem.segmented { 0 } else { short_rows(problem.rows) },
            half_spans: !problem.inner.is_multiple_of(span),
            segmented: graph.ends().is_some(),
            ragged: graph.contraction_ends().is_some(),
            masked: graph.row_counts().is_some(),
        })
    }

    /// One product of aligned 16-bit operands, both K-major.
    #[cfg(test)]
    pub(crate) fn plain() -> Mainloop {
        let (operands, operand_bytes) = ([OperandLoad::TmaKMajor; 2], 2);
        let (split, promoted, scaling) = (false, false, Scaling::default());
        let (products, short_rows, half_spans) = (1, 0, false);
        let [segmented, ragged, masked] = [false; 3];
        Mainloop {
            operands,
            operand_bytes,
            split,
            promoted,
            scaling,
            products,
            short_rows,
            half_spans,
            segmented,
            ragged,
            masked,
        }
    }

    /// K of one stage: one swizzled row of elements.
    pub(crate) fn depth(&self) -> u32 {
        STAGE_ROW_BYTES / self.operand_bytes
    }

    /// Whether threads of the load warpgroup write A or B to its stage.
    pub(crate) fn is_written(&self) -> bool {
        self.operands.iter().any(|load| load.is_written())
    }

    /// Whether threads of the load warpgroup read A or B from memory.
    pub(crate) fn is_by_elements(&self) -> bool {
        self.operands.iter().any(|load| load.is_by_elements())
    }

    /// Whether rows of A or B begin anywhere, and load warps move them.
    pub(crate) fn is_staggered(&self) -> bool {
        self.operands.contains(&OperandLoad::Staggered)
    }

    /// Whether load warps compute A or B from narrower elements.
    pub(crate) fn is_widened(&self) -> bool {
        self.operands.iter().any(|load| load.is_widened())
    }

    /// Stages that load warps fill at a time: as many as a slot of narrow rows holds.
    pub(super) fn stages_at_once(&self) -> u32 {
        let bits = self.operands.iter().find_map(|load| load.narrow_bits());
        bits.map_or(1, |bits| SPAN_BYTES * 8 / bits / self.depth())
    }

    /// Whether TMA loads A or B into slots of their own, from where load warps bring it to its stage.
    pub(crate) fn is_staged(&self) -> bool {
        self.is_staggered() || self.is_widened()
    }

    /// Whether code for this one can be used where `other` is needed: every load at least as general.
    pub(super) fn covers(&self, other: &Mainloop) -> bool {
        let loads = self.operands.iter().zip(other.operands);
        let (operands, short_rows) = (other.operands, other.short_rows);
        // All of a tile's rows are more than a few.
        let holds = self.short_rows == 0 || (1..=self.short_rows).contains(&short_rows);
        loads.into_iter().all(|(ours, theirs)| ours.covers(theirs))
            && holds
            && Mainloop { operands, short_rows, ..self.clone() } == *other
    }
}

/// Rows of A's boxes where A has this many. TMA takes long for rows beyond a tensor's edge, and a box is a multiple of 8 rows.
fn short_rows(rows: usize) -> u32 {
    const SHORT: [u32; 3] = [8, 16, 32];
    let found = SHORT.into_iter().find(|short| (1..=*short as usize).contains(&rows));
    found.unwrap_or(0)
}

/// Refuses narrow elements that TMA does not load along K, and a contraction that ends inside a stage.
pub(super) fn refuse_widening(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
) -> Result<(), Sm90Refusal> {
    let Some((side, input)) = widened_operand(graph) else { return Ok(()) };
    let operand = &graph.inputs()[input.0 as usize];
    let Some(widened) = Widened::of(operand) else { return Err(Sm90Refusal::Widening) };
    let declared = &widened.graph.inputs()[widened.source.0 as usize];
    let placement = placements.input(InputId(graph.place_of(&declared.name) as u32));
    let space = graph.space().of_operand(&graph.products()[0], side);
    let dims = declared.dims.as_deref().unwrap_or_default();
    let strides = BodyStrides::new(&space, dims, &placement.strides);
    let bits = declared.dtype.bits() as isize;
    let fits = |stride: isize| {
        stride == 0 || (stride * bits % 128 == 0 && fits_map(stride, declared.dtype))
    };
    let depth = STAGE_ROW_BYTES as usize / 2;
    let aligned = placement.alignment().is_multiple_of(MAP_ALIGNMENT)
        && strides.column == 1
        && fits(strides.row)
        && strides.batch.iter().all(|stride| fits(*stride));
    let whole = problem.inner > 0 && problem.inner.is_multiple_of(depth);
    if aligned && whole && graph.products().len() == 1 {
        Ok(())
    } else {
        Err(Sm90Refusal::Widening)
    }
}
