//! Block scales of 8- and 16-bit floats, which the mainloop multiplies with the sums of a stage when it promotes them.
//!
//! In: a graph whose product has block scales. Out: what they need of a tile, or that the mainloop does not take them.
//! Invariant: every factor is constant over a stage, and over the columns that are promoted together unless it is of single
//! columns.

use crate::dtype::DType;
use crate::graph::{BlockScale, Graph, Product, Side, greatest_divisor};
use crate::target::tile::Tile;

use super::operand::OperandElement;
use super::refusal::Sm90Refusal;

/// Runs of columns that are a multiple of this have a tile whose promoted columns lie in one of them.
const LEAST_RUN: u32 = 32;
/// Factors of rows and of runs of columns that need no more registers than promoting takes without them, as assembled
/// kernels show (`emit/tests/scaling.rs`).
const SPARED: u32 = 8;

/// What block scales need of a tile; nothing where there are none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Scaling {
    /// Factors of rows.
    pub(crate) rows: u32,
    /// Factors of single columns.
    pub(crate) columns: u32,
    /// Factors of runs of columns.
    pub(crate) runs: u32,
    /// What divides the columns of those runs; 0 where they have all columns.
    pub(crate) run: u32,
}

/// Which columns a factor of B's columns is constant along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColumnScale {
    /// Single columns.
    Each,
    /// Runs of this many; 0 for all columns.
    Run(u32),
}

impl ColumnScale {
    /// That of a scale of B.
    pub(crate) fn of(graph: &Graph, product: &Product, scale: &BlockScale) -> ColumnScale {
        match scaled_rows(graph, product, scale) {
            Some(1) => ColumnScale::Each,
            Some(run) => ColumnScale::Run(run),
            None => ColumnScale::Run(0),
        }
    }
}

/// Rows of A or columns of B that one factor stands for; `None` for all of them.
pub(crate) fn scaled_rows(graph: &Graph, product: &Product, scale: &BlockScale) -> Option<u32> {
    let dims = graph.inputs()[scale.input.0 as usize].dims.as_deref().unwrap_or_default();
    product.scaled_rows(graph.space(), scale, dims)
}

/// Whether the mainloop multiplies the product's sums with its block scales.
pub(crate) fn scales_sums(graph: &Graph) -> bool {
    let [product] = graph.products() else { return false };
    let [left, right] = [product.left, product.right]
        .map(|(input, _)| OperandElement::of(graph.inputs()[input.0 as usize].dtype));
    let Some(element) = left else { return false };
    let floats = match element {
        OperandElement::E4M3 | OperandElement::E5M2 => {
            matches!(right, Some(OperandElement::E4M3 | OperandElement::E5M2))
        }
        OperandElement::BF16 | OperandElement::F16 => right == left,
        OperandElement::I8 | OperandElement::U8 | OperandElement::TF32 | OperandElement::F32 => {
            false
        }
    };
    let taken = |scale: &BlockScale| {
        let columns = match scale.side {
            Side::Left => true,
            Side::Right => match ColumnScale::of(graph, product, scale) {
                ColumnScale::Each => true,
                ColumnScale::Run(run) => run.is_multiple_of(LEAST_RUN),
            },
        };
        let input = &graph.inputs()[scale.input.0 as usize];
        columns && scale.run.is_multiple_of(element.stage_depth()) && input.dtype == DType::F32
    };
    floats && product.scales.iter().all(taken)
}

/// Refuses block scales that the mainloop does not take.
pub(super) fn refuse(graph: &Graph) -> Result<(), Sm90Refusal> {
    if graph.has_scales() && !scales_sums(graph) {
        return Err(Sm90Refusal::BlockScales);
    }
    Ok(())
}

impl Scaling {
    /// That of a graph's block scales.
    pub(super) fn of(graph: &Graph) -> Scaling {
        let mut all = Scaling::default();
        let Some(product) = graph.products().first() else { return all };
        for scale in &product.scales {
            match scale.side {
                Side::Left => all.rows += 1,
                Side::Right => match ColumnScale::of(graph, product, scale) {
                    ColumnScale::Each => all.columns += 1,
                    ColumnScale::Run(run) => {
                        all.runs += 1;
                        all.run = greatest_divisor(all.run, run);
                    }
                },
            }
        }
        all
    }

    /// How many factors a sum has.
    pub(crate) fn count(self) -> u32 {
        self.rows.saturating_add(self.columns).saturating_add(self.runs)
    }

    /// Whether the sums that a tile promotes together have one factor of each run of columns. CTAs that split K would
    /// begin in the middle of a run of K.
    pub(super) fn suits(self, tile: Tile) -> bool {
        self.count() == 0
            || (self.run.is_multiple_of(tile.promoted_columns()) && tile.cluster.split_k() == 1)
    }

    /// Registers that a stage's factors and where the next ones are take of a thread that promotes, beside the registers that it
    /// has to spare.
    pub(super) fn registers(self, tile: Tile) -> u32 {
        let parts = tile.columns / tile.promoted_columns();
        let rows = self.rows.saturating_mul(2 * tile.blocks());
        let factors = rows.saturating_add(self.runs.saturating_mul(parts));
        // An address has two.
        let beyond = factors.saturating_sub(SPARED).saturating_mul(3);
        // A thread has two of every eight columns.
        beyond.saturating_add(self.columns.saturating_mul(tile.columns / 4 + 2))
    }
}
