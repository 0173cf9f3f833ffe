//! The blocks of a tile in shared memory: partial results of units of rows, and the results that take their place.
//!
//! In: what lanes have folded of a unit of rows and a block's columns. Out: a block's result, at every element and group of
//! columns that is in it. Threads synchronise between the two.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::types::{B32, F32, U32};

use crate::dtype::Elem;
use crate::graph::NodeId;
use crate::lower::Reduction;
use crate::target::sm90::plan::BlockLayout;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::plan::Plan;
use super::super::values::{Evaluator, State, Value};
use super::super::warpgroup::WarpgroupIndex;
use super::elements::{CHUNK, Groups};
use super::thread::ThreadCoordinate;

/// A reduction of blocks, and where its partial results lie.
#[derive(Clone, Copy)]
pub(super) struct PlacedBlock<'k> {
    pub(super) reduction: Reduction,
    pub(super) layout: BlockLayout,
    /// Its first word in the tile's shared memory.
    start: SharedAddress<'k>,
    /// Words of one register of all partial results, and of those side by side.
    words: u32,
    across: u32,
}

impl<'k> PlacedBlock<'k> {
    /// A partial result's register: of a unit of rows, and of a block's columns.
    fn place(&self, register: u32, unit: Reg<'k, U32>, across: Reg<'k, U32>) -> SharedAddress<'k> {
        self.start + 4 * self.words * register + unit.mad(self.across, across) * 4
    }
}

/// The blocks of a tile.
pub(super) struct Blocks<'k, C> {
    k: Kernel<'k, C>,
    /// For each pass, its reductions.
    pub(super) passes: Vec<Vec<PlacedBlock<'k>>>,
    /// This thread's number among the math threads of its tile, and how many there are.
    worker: Reg<'k, U32>,
    workers: u32,
    /// The barrier of these threads.
    barrier: Reg<'k, U32>,
    /// This thread in its warp, and its first column of an 8-column group.
    pub(super) lane: Reg<'k, U32>,
    column: Reg<'k, U32>,
}

impl<'k, C: EpilogueChip> Blocks<'k, C> {
    /// `None` where nothing is reduced over runs of rows.
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &Plan<'_>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Option<Self> {
        let (schedule, program) = (plan.schedule, plan.program);
        if program.block_passes.is_empty() {
            return None;
        }
        let first = k.region(&plan.blocks) + warpgroup.order * schedule.tile_block_bytes();
        let mut before = 0;
        let mut place = |reduction: &Reduction| {
            let layout = BlockLayout::of(program, *reduction);
            let (words, across) = (layout.words(schedule), layout.across(schedule));
            let start = first + 4 * before;
            before += reduction.registers() * words;
            PlacedBlock { reduction: *reduction, layout, start, words, across }
        };
        let passes = program.block_passes.iter();
        let passes = passes.map(|pass| pass.iter().map(&mut place).collect()).collect();
        assert!(4 * before <= schedule.tile_block_bytes(), "compiler bug: blocks without memory");
        let lane = rank & 31;
        Some(Blocks {
            k,
            passes,
            worker: warpgroup.in_tile.mad(128, rank),
            workers: 128 * schedule.tile.warpgroups_per_tile(),
            // As the barrier of values along columns: warpgroups' own barriers come first.
            barrier: warpgroup.order + (schedule.math_warpgroups() + 1),
            lane,
            column: Fragment::column(lane),
        })
    }

    /// All math threads of the tile synchronise.
    pub(super) fn sync(&self) {
        self.k.sync_named(self.barrier, self.workers);
    }

    /// The block of columns that this many columns of the tile lie before, counted from a round's first.
    pub(super) fn across(
        &self,
        block: &PlacedBlock<'k>,
        before: Option<Reg<'k, U32>>,
        offset: u32,
    ) -> Reg<'k, U32> {
        let columns = block.layout.columns;
        // Lanes that have blocks of their own each have their own number.
        let own = match columns {
            1 => self.column + offset,
            columns if columns < CHUNK => (self.column + offset) / columns,
            columns => self.k.imm(offset / columns),
        };
        match before {
            Some(before) if columns > 1 => own + before / columns,
            Some(before) => own + before,
            None => own,
        }
    }

    /// Writes what some lanes have folded: of all that have the same rows and columns the first writes.
    pub(super) fn publish(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        block: &PlacedBlock<'k>,
        (row, across): (Reg<'k, U32>, Reg<'k, U32>),
        (state, bits): (State<'k>, &[u32]),
    ) {
        let state = evaluator.fold_lanes(block.reduction, state, bits);
        let unit = row / block.layout.unit;
        let write = || {
            for (register, word) in (0..).zip(&state) {
                self.k.store_shared(block.place(register, unit, across), [*word]);
            }
        };
        match bits.iter().sum::<u32>() {
            0 => write(),
            mask => self.k.if_((self.lane & mask).eq(0), write),
        }
    }

    /// Combines the partial results of every block of a pass.
    pub(super) fn combine(&self, evaluator: &Evaluator<'_, 'k, C>, block: &PlacedBlock<'k>) {
        let (k, units) = (self.k, block.layout.units());
        let count = block.words / units;
        k.for_(self.worker, count, self.workers, |number| {
            let row = number / block.across;
            let (first, across) = (row * units, number - row * block.across);
            let load = |unit: u32| -> State<'k> {
                let words = 0..block.reduction.registers();
                let unit = first + unit;
                words
                    .map(|each| k.load_shared::<F32, 1>(block.place(each, unit, across))[0])
                    .collect()
            };
            let both =
                |all: State<'k>, unit| evaluator.fold_both(block.reduction, &all, &load(unit));
            let state = (1..units).fold(load(0), both);
            let bits = match evaluator.fold_end(block.reduction, &state) {
                Value::Float(value) => k.f32_to_bits(value),
                Value::Integer(value) => value.cast(),
                Value::Truth(_) => panic!("compiler bug: a reduction of conditions"),
            };
            k.store_shared(block.place(0, first, across), [bits]);
        });
    }

    /// The results of a finished block at this row of the tile: `N` neighbours, one for each column or block of columns.
    fn results<const N: usize>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        block: &PlacedBlock<'k>,
        row: Reg<'k, U32>,
        across: Reg<'k, U32>,
    ) -> [Value<'k>; N] {
        let first = row / block.layout.rows * block.layout.units();
        let words = self.k.load_shared::<B32, N>(block.place(0, first, across));
        words.map(|bits| match evaluator.plan.graph.ty(block.reduction.node).elem {
            Elem::F32 => Value::Float(self.k.bits_to_f32(bits)),
            Elem::I32 => Value::Integer(bits.cast()),
            Elem::Bool => panic!("compiler bug: a reduction gives a condition"),
        })
    }

    /// Those that are chosen, of blocks of one column or of several.
    fn finished(&self, chosen: &[bool], of_runs: bool) -> impl Iterator<Item = &PlacedBlock<'k>> {
        self.passes.iter().flatten().filter(move |block| {
            chosen[block.reduction.node.index()] && (block.layout.columns > 1) == of_runs
        })
    }

    /// Adds the results of blocks of several columns to a span's groups.
    pub(super) fn fill_groups(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        needed: &[bool],
        groups: &mut Groups<'k>,
    ) {
        let offset = groups.offset;
        for block in self.finished(needed, true) {
            let run = block.layout.columns;
            for group in 0..groups.of(run).len() {
                let across =
                    self.across(block, thread.before, offset + group as u32 * run.max(CHUNK));
                for row in 0..2 {
                    let at = thread.tile_rows()[row];
                    let [value] = self.results(evaluator, block, at, across);
                    groups.set(run, group, row, block.reduction.node, value);
                }
            }
        }
    }

    /// The results of blocks of one column at a group's four elements.
    pub(super) fn of_elements(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        only: &[bool],
        offset: u32,
    ) -> Vec<(NodeId, [Value<'k>; 4])> {
        let of = |block: &PlacedBlock<'k>| {
            let across = self.across(block, thread.before, offset);
            let [upper, lower] =
                thread.tile_rows().map(|row| self.results::<2>(evaluator, block, row, across));
            (block.reduction.node, [upper[0], upper[1], lower[0], lower[1]])
        };
        self.finished(only, false).map(of).collect()
    }
}
