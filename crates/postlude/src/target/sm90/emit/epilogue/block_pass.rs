//! Block passes: passes over a tile that finish the reductions of runs of its rows, before its elements are visited.
//!
//! A warp folds units of at most 16 rows of a block's columns and writes their partial results to shared memory. When all
//! threads of the tile have, a thread combines those of a block, in the order of rows, and writes the result in the place
//! of the first. Elements and groups of columns read it there.
//! Invariant: a tile holds whole blocks, inside the problem or outside, so that no element has to be left out.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::types::{B32, F32, U32};

use crate::dtype::Elem;
use crate::graph::NodeId;
use crate::lower::Reduction;
use crate::target::sm90::plan::BlockLayout;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::plan::Plan;
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Environment, Evaluator, State, Value};
use super::super::warpgroup::WarpgroupIndex;
use super::elements::{CHUNK, Elements, Groups, counts, of_group};
use super::partials::Terms;
use super::thread::ThreadCoordinate;
use super::{Block, Epilogue};

/// A reduction of blocks, and where its partial results lie.
#[derive(Clone, Copy)]
struct PlacedBlock<'k> {
    reduction: Reduction,
    layout: BlockLayout,
    /// Its first word in the tile's shared memory.
    start: SharedAddress<'k>,
    /// Words of one register of all partial results, and of those side by side.
    words: u32,
    across: u32,
}

/// The blocks of a tile.
pub(super) struct Blocks<'k, C> {
    k: Kernel<'k, C>,
    /// For each pass, its reductions.
    passes: Vec<Vec<PlacedBlock<'k>>>,
    /// This thread's number among the math threads of its tile, and how many there are.
    worker: Reg<'k, U32>,
    workers: u32,
    /// The barrier of these threads.
    barrier: Reg<'k, U32>,
    /// This thread in its warp, and its first column of an 8-column group.
    lane: Reg<'k, U32>,
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
    fn sync(&self) {
        self.k.sync_named(self.barrier, self.workers);
    }

    /// A partial result's register: of a unit of rows, and of a block's columns.
    fn place(
        &self,
        block: &PlacedBlock<'k>,
        register: u32,
        unit: Reg<'k, U32>,
        across: Reg<'k, U32>,
    ) -> SharedAddress<'k> {
        block.start + 4 * block.words * register + unit.mad(block.across, across) * 4
    }

    /// The block of columns that this many columns of the tile lie before, counted from a round's first.
    fn across(
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
    fn publish(
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
                self.k.store_shared(self.place(block, register, unit, across), [*word]);
            }
        };
        match bits.iter().sum::<u32>() {
            0 => write(),
            mask => self.k.if_((self.lane & mask).eq(0), write),
        }
    }

    /// Combines the partial results of every block of a pass.
    fn combine(&self, evaluator: &Evaluator<'_, 'k, C>, block: &PlacedBlock<'k>) {
        let (k, units) = (self.k, block.layout.units());
        let count = block.words / units;
        k.for_(self.worker, count, self.workers, |number| {
            let row = number / block.across;
            let (first, across) = (row * units, number - row * block.across);
            let load = |unit: u32| -> State<'k> {
                let words = 0..block.reduction.registers();
                let unit = first + unit;
                words
                    .map(|each| k.load_shared::<F32, 1>(self.place(block, each, unit, across))[0])
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
            k.store_shared(self.place(block, 0, first, across), [bits]);
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
        let words = self.k.load_shared::<B32, N>(self.place(block, 0, first, across));
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

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// Finishes the reductions of a tile's blocks, whose rows are prepared.
    pub(super) fn pass_over_blocks(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        prepared: &[Block<'_, 'k>],
    ) {
        let Some(blocks) = &self.blocks else { return };
        // All threads have read the results of the tile before.
        blocks.sync();
        for pass in &blocks.passes {
            for block in prepared {
                if self.plan.schedule.rounds > 0 {
                    let columns = self.round_columns();
                    self.rotate_over(block.sums, columns, |before| {
                        let thread = self.thread_at(work_tile, &block.places, Some(before));
                        let part = (&*block.accumulators, columns);
                        self.fold_block(evaluator, &thread, &block.environment, part, pass);
                    });
                } else {
                    let part = (&*block.accumulators, self.plan.schedule.width());
                    self.fold_block(evaluator, &block.thread, &block.environment, part, pass);
                }
            }
            blocks.sync();
            pass.iter().for_each(|block| blocks.combine(evaluator, block));
            blocks.sync();
        }
    }

    /// Folds the first columns of 64 rows.
    fn fold_block(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (accumulators, columns): (&[Reg<'k, F32>], u32),
        pass: &[PlacedBlock<'k>],
    ) {
        let program = self.plan.program;
        let roots = || pass.iter().flat_map(|block| block.reduction.operands());
        let only = &program.terms_of(roots(), false);
        let needed = program.terms_of(roots(), true);
        let wanted = &roots().collect::<Vec<_>>();
        for span in self.spans(accumulators) {
            if span[0].0.offset >= columns {
                break;
            }
            let loaded = self.load_span(evaluator, thread, &span);
            let groups = &self.groups(evaluator, thread, environment, (&span, &loaded), &needed);
            let (span, loaded) = (&*span, &*loaded);
            let mut states: Vec<[Option<State<'k>>; 2]> = vec![[None, None]; pass.len()];
            for ((epilogue_tile, part), own) in span.iter().zip(loaded) {
                for chunk in 0..(epilogue_tile.columns / CHUNK) as usize {
                    let offset = epilogue_tile.offset + CHUNK * chunk as u32;
                    let products = &of_group(part, chunk);
                    let elements =
                        Elements { offset, products, groups, wanted, only, span, loaded };
                    let operands = self.operands(own, chunk);
                    let terms =
                        self.visit_group(evaluator, thread, environment, &elements, operands);
                    for (block, states) in pass.iter().zip(&mut states) {
                        self.fold_chunk(evaluator, thread, (block, offset, &terms), states);
                    }
                }
            }
        }
    }

    /// Adds 8 columns to a block's partial results, and publishes those that are complete.
    fn fold_chunk(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        (block, offset, terms): (&PlacedBlock<'k>, u32, &Terms<'k>),
        states: &mut [Option<State<'k>>; 2],
    ) {
        let Some(blocks) = &self.blocks else { return };
        let (reduction, layout) = (block.reduction, block.layout);
        let four = evaluator.folded_four(terms, reduction.terms);
        let run = self.plan.program.runs[reduction.terms.index()];
        let nothing = evaluator.fold_nothing(reduction);
        let term = |row: usize, column: u32| {
            let counts = counts(run, self.column, offset, column);
            let value = counts.choose(four[2 * row + column as usize], nothing);
            evaluator.fold_at(reduction, value, None, || {
                [thread.batch, thread.rows[row], thread.column + (offset + column)]
            })
        };
        let rows = thread.tile_rows();
        let both_rows = layout.unit == 16;
        let bits = Fragment::unit_bits(layout.unit);
        if layout.columns == 1 {
            let across = blocks.across(block, thread.before, offset);
            let of_rows = |rows: &[usize]| -> [State<'k>; 2] {
                [0, 1].map(|column| {
                    let own: Vec<_> = rows.iter().map(|row| term(*row, column)).collect();
                    evaluator.fold_more(reduction, &evaluator.fold_begin(reduction), &own)
                })
            };
            let publish = |row: usize, states: [State<'k>; 2]| {
                self.publish_columns(evaluator, block, (rows[row], across), states);
            };
            if both_rows {
                publish(0, of_rows(&[0, 1]));
            } else {
                [0, 1].into_iter().for_each(|row| publish(row, of_rows(&[row])));
            }
            return;
        }
        for (row, state) in states.iter_mut().enumerate() {
            let before = state.take().unwrap_or_else(|| evaluator.fold_begin(reduction));
            let own = [0, 1].map(|column| term(row, column));
            *state = Some(evaluator.fold_more(reduction, &before, &own));
        }
        let wide = layout.columns.max(CHUNK);
        if !(offset + CHUNK).is_multiple_of(wide) {
            return;
        }
        let across = blocks.across(block, thread.before, offset + CHUNK - wide);
        let bits = [Fragment::run_bits(layout.columns), bits].concat();
        if let [Some(upper), Some(lower)] = states.each_mut().map(Option::take) {
            if both_rows {
                let state = evaluator.fold_both(reduction, &upper, &lower);
                blocks.publish(evaluator, block, (rows[0], across), (state, &bits));
            } else {
                for (row, state) in rows.into_iter().zip([upper, lower]) {
                    blocks.publish(evaluator, block, (row, across), (state, &bits));
                }
            }
        }
    }

    /// Publishes two neighbouring columns: of each pair of lanes that exchange, each goes on with one of them.
    fn publish_columns(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        block: &PlacedBlock<'k>,
        (row, across): (Reg<'k, U32>, Reg<'k, U32>),
        [first, second]: [State<'k>; 2],
    ) {
        let (Some(blocks), k) = (&self.blocks, self.k) else { return };
        match Fragment::unit_bits(block.layout.unit) {
            [] => {
                blocks.publish(evaluator, block, (row, across), (first, &[]));
                blocks.publish(evaluator, block, (row, across + 1), (second, &[]));
            }
            [bit, rest @ ..] => {
                let has_bit = (blocks.lane & *bit).ne(0);
                let both = [&first, &second];
                let state = evaluator.fold_exchanged(block.reduction, both, has_bit, *bit);
                let across = across + k.imm(1).select(0, has_bit);
                blocks.publish(evaluator, block, (row, across), (state, rest));
            }
        }
    }
}
