//! What a launch computes with A and B swapped: a tile's rows are columns of the product.

use std::sync::Arc;

use super::program::TileProgram;
use super::refuse::refuse;
use super::views::Views;

impl TileProgram {
    /// The same that knows what it is with A and B swapped, where that computes the same.
    pub(super) fn with_swapped(mut self) -> TileProgram {
        let is_whole = self.views == Views::whole(&self.graph) && !self.by_elements;
        let graph = if is_whole { self.graph.swapped() } else { None };
        let swapped = graph.map(|graph| {
            let program = TileProgram::assembled(graph, self.views.clone(), self.computed);
            TileProgram { swap_ab: true, ..program }
        });
        self.swapped = swapped.filter(|program| refuse(program).is_ok()).map(Arc::new);
        self
    }
}
