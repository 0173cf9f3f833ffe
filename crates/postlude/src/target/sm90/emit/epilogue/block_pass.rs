//! Block passes: passes over a tile that finish the reductions of runs of its rows, before its elements are visited.
//!
//! A warp folds units of at most 16 rows of a block's columns and writes their partial results to shared memory. When all
//! threads of the tile have, a thread combines those of a block, in the order of rows, and writes the result in the place
//! of the first. Elements and groups of columns read it there.
//! Invariant: a tile holds whole blocks, inside the problem or outside, so that no element has to be left out.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{F32, U32};

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Environment, Evaluator, State};
use super::blocks::PlacedBlock;
use super::elements::{CHUNK, Elements, counts, of_group};
use super::partials::Terms;
use super::thread::ThreadCoordinate;
use super::{Block, Epilogue};

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
            for block in pass {
                blocks.combine(evaluator, block);
            }
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
                self.loads.give_back_all(own);
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
                (thread.batch, thread.rows[row], thread.column + (offset + column))
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
                for row in [0, 1] {
                    publish(row, of_rows(&[row]));
                }
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
