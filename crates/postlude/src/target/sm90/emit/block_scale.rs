//! Block scales as a kernel gets them: f32 tensors with runs of K as columns.

use postlude_ptx::kernel::Kernel;
use postlude_ptx::target::Tma;

use crate::dtype::DType;
use crate::graph::{BlockScale, Graph, Product, Side};
use crate::target::sm90::plan::{ColumnScale, Lists, OperandElement, scaled_rows};

use super::batch::Batching;
use super::memory::Memory;

/// A block scale as the kernel gets it.
pub(super) struct ScaleParameter<'k> {
    pub(super) memory: Memory<'k>,
    pub(super) along: Along,
    /// K of a run, and its stages.
    pub(super) run: u32,
    pub(super) stages: u32,
}

/// What a factor varies along beside K.
#[derive(Clone, Copy)]
pub(super) enum Along {
    /// Runs of rows of A.
    Rows(u32),
    /// Columns of B, or runs of them.
    Columns(ColumnScale),
}

impl<'k> ScaleParameter<'k> {
    /// Declares the block scales of a product, in its order.
    pub(super) fn declare_all<C: Tma>(k: Kernel<'k, C>, graph: &Graph, lists: &Lists) -> Vec<Self> {
        let Some(product) = graph.products().first() else { return Vec::new() };
        let [element, _] = OperandElement::of_product(graph);
        let declare = |(place, scale): (usize, &BlockScale)| {
            let batching = Batching::of(graph.space(), lists.dim_of_input(graph, scale.input));
            let name = format!("scale{place}");
            ScaleParameter {
                memory: Memory::declare(k, &name, (DType::F32, batching), None),
                along: Along::of(graph, product, scale),
                run: scale.run,
                stages: scale.run / element.stage_depth(),
            }
        };
        product.scales.iter().enumerate().map(declare).collect()
    }
}

impl Along {
    fn of(graph: &Graph, product: &Product, scale: &BlockScale) -> Along {
        match scale.side {
            Side::Left => Along::Rows(scaled_rows(graph, product, scale).unwrap_or(1)),
            Side::Right => Along::Columns(ColumnScale::of(graph, product, scale)),
        }
    }
}
