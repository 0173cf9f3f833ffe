//! What the products of a launch need of a schedule: how their operands are loaded, and how their sums are kept.

use crate::graph::{Accumulation, ProductId};
use crate::lower::TileProgram;
use crate::placement::Placements;
use crate::problem::Problem;

use super::operand::{OperandElement, OperandLoad, STAGE_ROW_BYTES, operand_loads};
use super::scaling::Scaling;

/// What the products of a launch need of a schedule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
    /// Whether the K of a batch is a segment, known on the device only.
    pub(crate) ragged: bool,
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
        Some(Mainloop {
            operands: operand_loads(graph, problem, placements),
            operand_bytes: element.bytes(),
            split: element.is_split(),
            promoted: accumulation == Accumulation::Promoted || scaling.count() > 0,
            scaling,
            products: program.products(),
            ragged: graph.contraction_ends().is_some(),
        })
    }

    /// One product of aligned 16-bit operands, both K-major.
    #[cfg(test)]
    pub(crate) fn plain() -> Mainloop {
        let (operands, operand_bytes) = ([OperandLoad::TmaKMajor; 2], 2);
        let (split, promoted, scaling) = (false, false, Scaling::default());
        let products = 1;
        Mainloop { operands, operand_bytes, split, promoted, scaling, products, ragged: false }
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

    /// Whether code for this one can be used where `other` is needed: every load at least as general.
    pub(super) fn covers(&self, other: &Mainloop) -> bool {
        let loads = self.operands.iter().zip(other.operands);
        loads.into_iter().all(|(ours, theirs)| ours.covers(theirs))
            && Mainloop { operands: other.operands, ..self.clone() } == *other
    }
}
