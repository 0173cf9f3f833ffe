//! Vectors and scalars that depend on no tile's values: the tiles of the first row, of the first column, or the first
//! tile of all write them; those that all batches have in common only in the first batch.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{Pred, U32};

use crate::graph::{Kind, Output};

use super::super::batch::Coordinate;
use super::super::chip::EpilogueChip;
use super::super::memory::Memory;
use super::super::parameters::Destination;
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Environment, Evaluator, Place};
use super::Epilogue;
use super::single::{begins_run, store_at};

/// Threads of a warpgroup.
const THREADS: u32 = 128;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// Writes those along columns and the scalars; those along rows go with the rows.
    pub(super) fn write_plain(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        scalars: &Environment<'k>,
    ) {
        let (columns, single) = (self.plain(Kind::AlongColumns), self.plain(Kind::Scalar));
        if columns.is_empty() && single.is_empty() {
            return;
        }
        let (k, zero) = (self.k, self.k.imm(0));
        // The first warpgroup of a tile.
        let first_row = work_tile.index[0].eq(0) & self.warpgroup.in_tile.eq(0);
        if !columns.is_empty() {
            k.if_(first_row, || {
                k.for_(self.rank, self.plan.schedule.width(), THREADS, |within| {
                    let column = work_tile.column + within;
                    let inside = column.lt(self.parameters.columns);
                    let at = (work_tile.batch, zero, column);
                    let place = Place { at, inside: Some(inside) };
                    let mut environment = scalars.clone();
                    evaluator.extend_column(&mut environment, &place);
                    self.write_all(&columns, work_tile, &place, &environment);
                });
            });
        }
        if !single.is_empty() {
            let first = first_row & work_tile.index[1].eq(0) & self.rank.eq(0);
            k.if_(first, || {
                let place = Place { at: (work_tile.batch, zero, zero), inside: None };
                self.write_all(&single, work_tile, &place, scalars);
            });
        }
    }

    /// The outputs of this kind.
    fn plain(&self, kind: Kind) -> Vec<(&Output, &Memory<'k>)> {
        let program = self.plan.program;
        let outputs = program.graph().outputs().iter().zip(&self.parameters.destinations);
        outputs
            .filter(|(output, _)| program.plain_kind(output) == Some(kind))
            .filter_map(|(output, destination)| match destination {
                Destination::Direct(memory) => Some((output, memory)),
                Destination::Map(_) | Destination::Coalesced(_) => None,
            })
            .collect()
    }

    fn write_all(
        &self,
        outputs: &[(&Output, &Memory<'k>)],
        work_tile: &WorkTile<'k>,
        place: &Place<'k>,
        environment: &Environment<'k>,
    ) {
        for (output, memory) in outputs {
            let Some(value) = environment[output.value.index()] else {
                panic!("compiler bug: an output without a value")
            };
            let run = self.plan.program.output_run(output);
            let inside = self.written(output, work_tile.batch.number, place.inside);
            store_at(self.k, (output, memory, run), place.at, value, inside);
        }
    }

    /// Where an output's element lies: the first of a run of rows that share one writes it.
    pub(super) fn at_run_of_rows(
        &self,
        output: &Output,
        (batch, row, column): Coordinate<'k>,
        inside: Option<Reg<'k, Pred>>,
    ) -> (Coordinate<'k>, Option<Reg<'k, Pred>>) {
        let run = self.plan.program.output_row_run(output);
        if run == 1 {
            return ((batch, row, column), inside);
        }
        let first = begins_run(row, run);
        let inside = inside.map_or(first, |inside| inside & first);
        ((batch, row / run, column), Some(inside))
    }

    /// Where a value that is inside is written: in the first batch only, if it is that of all.
    pub(super) fn written(
        &self,
        output: &Output,
        batch: Reg<'k, U32>,
        inside: Option<Reg<'k, Pred>>,
    ) -> Option<Reg<'k, Pred>> {
        if !self.plan.program.is_shared(output) {
            return inside;
        }
        let first = batch.eq(0);
        Some(inside.map_or(first, |inside| inside & first))
    }
}
