//! Values that elements share, by way of stages: load warps bring them in, so that no warp that multiplies waits for memory.
//!
//! In: scales and zero points in memory. Out: for every run of a span, input and column of a tile, 32 bits in the stage.
//! Invariant: few words a column; where there are more, warps that multiply load them.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, U32};

use crate::graph::greatest_divisor;
use crate::target::sm90::emit::load::for_tiles;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::shared_values::SharedValues;
use crate::target::sm90::emit::tile_scheduler::TileScheduler;
use crate::target::sm90::emit::values::Value;
use crate::target::sm90::emit::widen::values;
use crate::target::sm90::plan::{K_PARTS, SPAN_BYTES, STAGED_WORDS};

/// The first load warp that brings them in, and how many do: the others load operands and tiles.
pub(in crate::target::sm90::emit) const FIRST_WARP: u32 = 2;
pub(in crate::target::sm90::emit) const WARPS: u32 = 2;

/// Which words a stage has.
#[derive(Clone, Copy)]
pub(in crate::target::sm90::emit) struct StagedValues {
    /// Elements of a span, and of a run that shares all values in a part of it.
    span: u32,
    run: u32,
    /// Inputs that lie in memory.
    inputs: u32,
    /// Columns of the tile, and bytes of a stage up to the first word.
    columns: u32,
    offset: u32,
}

impl StagedValues {
    /// Those of a kernel; `None` where they do not go by way of stages.
    pub(in crate::target::sm90::emit) fn of(
        plan: &Plan<'_>,
        parameters: &Parameters<'_>,
    ) -> Option<StagedValues> {
        let schedule = plan.schedule;
        let mainloop = schedule.needs.mainloop.as_ref().filter(|_| schedule.tile.is_swapped())?;
        let values = parameters.shared_values.as_ref()?;
        let bits = parameters.operands[1].part.load.narrow_bits()?;
        let span = SPAN_BYTES * 8 / bits;
        let run = part_run(values, span);
        let inputs = values.0.iter().flatten().filter(|shared| shared.is_in_memory()).count();
        let (columns, offset) = (schedule.tile.columns, schedule.staged_values(mainloop));
        let staged = StagedValues { span, run, inputs: inputs as u32, columns, offset };
        (inputs > 0 && staged.words() <= STAGED_WORDS).then_some(staged)
    }

    /// Words of a column.
    fn words(self) -> u32 {
        self.span / self.run * self.inputs
    }

    /// The first word of a run of a span, at a column of the tile.
    fn word<'k>(
        self,
        stage: SharedAddress<'k>,
        run: impl FnOnce(u32) -> Reg<'k, U32>,
        column: Reg<'k, U32>,
    ) -> SharedAddress<'k> {
        stage + self.offset + (run(self.inputs * self.columns) + column) * 4
    }

    /// The values of a run of a part of a span, at a column.
    pub(super) fn read<'k>(
        self,
        k: Kernel<'k, Sm90a>,
        values: &SharedValues<'k>,
        (stage, column): (SharedAddress<'k>, Reg<'k, U32>),
        (part, run): (Reg<'k, U32>, u32),
    ) -> Vec<Option<Value<'k>>> {
        let of_part = self.span / K_PARTS / self.run;
        let first = self.word(stage, |words| (part * of_part + run) * words, column);
        let word = |input: u32| k.load_shared::<B32, 1>(first + input * self.columns * 4)[0];
        let words: Vec<_> = (0..self.inputs).map(word).collect();
        values::of_words(values, k, &words)
    }

    /// The role of the warps that bring them in.
    pub(in crate::target::sm90::emit) fn load<'k>(
        self,
        k: Kernel<'k, Sm90a>,
        plan: &Plan<'_>,
        parameters: &Parameters<'k>,
        scheduler: &TileScheduler<'k, Sm90a>,
        ring: &Ring<'k, Sm90a>,
    ) {
        let Some(values) = parameters.shared_values.as_ref() else { return };
        let (stages, at) = (k.region(&plan.stages), ring.producer());
        let own = k.thread() - FIRST_WARP * 32;
        let columns: Vec<_> = (0..self.columns).step_by(32 * WARPS as usize).collect();
        let steps_of_span = self.span / parameters.operands[1].part.depth;
        let runs = || 0..self.span / self.run;
        for_tiles(k, parameters, scheduler, |steps, pieces| {
            let depth = |step: Reg<'k, U32>, run: u32| {
                (pieces(step)[1].depth + run * self.run).min(parameters.inner - 1)
            };
            let first = pieces(k.imm(0))[1];
            let loaded = |column: &u32| {
                let column = (first.first + own + *column).min(parameters.columns - 1);
                let bases = values::rows(values, k, first.batch, column);
                let load = |run| values::load(values, k, &bases, depth(k.imm(0), run));
                let pending: Vec<_> = runs().map(load).collect();
                values::prefetch(values, k, &bases, parameters.inner);
                (bases, pending)
            };
            let rows: Vec<_> = columns.iter().map(loaded).collect();
            k.for_(0, steps, steps_of_span, |step| {
                ring.produce_written(
                    &at,
                    k.thread() & 31,
                    None,
                    |_| {},
                    |number| {
                        let stage = stages + number * plan.schedule.stage_bytes();
                        for (column, (bases, pending)) in columns.iter().zip(&rows) {
                            for (run, pending) in runs().zip(pending) {
                                let words = values::words(values, k, pending);
                                let next = depth(step + steps_of_span, run);
                                values::reload(values, k, bases, pending, next);
                                let to =
                                    self.word(stage, |words| k.imm(run * words), own + *column);
                                for (input, word) in (0..).zip(words) {
                                    k.store_shared(to + input * self.columns * 4, [word]);
                                }
                            }
                        }
                    },
                );
            });
        });
    }
}

/// Elements of a part of a span that share all values.
pub(super) fn part_run(values: &SharedValues<'_>, span: u32) -> u32 {
    let own = span / K_PARTS;
    values.run().map_or(own, |run| greatest_divisor(run, own))
}
