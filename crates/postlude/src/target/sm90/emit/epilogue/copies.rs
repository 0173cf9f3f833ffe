//! Vectors along rows that are stored as an input has them: what earlier launches stored of a long `topk`.
//!
//! The first tile of a row copies some at a time, and no thread holds them beside its elements.

use postlude_ptx::modifier::LoadCache;

use crate::graph::Op;

use super::super::chip::EpilogueChip;
use super::super::memory::Memory;
use super::super::parameters::{Destination, Source};
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Evaluator, Place};
use super::Epilogue;
use super::single::store;

/// Loads in flight at a time.
const AT_ONCE: usize = 8;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// Copies the vectors of a thread's two rows.
    pub(super) fn write_copies(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        places: &[Place<'k>; 2],
    ) {
        let outputs = self.plan.graph.outputs().iter().zip(&self.parameters.destinations);
        let copies = outputs.zip(&self.plan.copied).filter_map(|((output, to), from)| {
            let Op::Input(input) = self.plan.graph[(*from)?].op else { return None };
            let source = self.parameters.sources.iter().find(|(id, _)| *id == input);
            let (Some((_, Source::Memory(from))), Destination::Direct(to)) = (source, to) else {
                panic!("compiler bug: a vector that is not in memory")
            };
            Some((output, from, to))
        });
        let copies: Vec<_> = copies.collect();
        if copies.is_empty() {
            return;
        }
        let k = self.k;
        // The first of the four lanes that have the row.
        let first = self.column.eq(0) & work_tile.index[1].eq(0);
        k.if_(first, || {
            for some in copies.chunks(AT_ONCE) {
                for place in places {
                    let load = |from: &Memory<'k>| {
                        let from_row = from.element_of_row(k, place.at);
                        // Loads of read-only memory would be moved before stores, into more registers.
                        evaluator.load(from.dtype, from_row, place.inside, LoadCache::Default)
                    };
                    let loaded: Vec<_> = some.iter().map(|(_, from, _)| load(from)).collect();
                    for ((output, _, to), value) in some.iter().zip(loaded) {
                        let inside = self.written(output, work_tile.batch.number, place.inside);
                        store(k, output.dtype, to.element_of_row(k, place.at), value, inside);
                    }
                }
            }
        });
    }
}
