//! Streamed rows: each passes through a ring in shared memory, chunk by chunk, and is read from memory once.
//!
//! The first traversal of a row waits for its chunks, the last one gives their slots to chunks of rows to come; where these are
//! two, the ring holds the CTA's part of a row between them. Each thread copies and reads its own vectors, and waits for its
//! own copies. Every step of a first or last traversal closes one group of copies, of nothing where it gives no slot away, so that a
//! wait is always for the same number of groups.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::modifier::{Alignment, ArriveOrder};
use postlude_ptx::types::U32;

use crate::graph::Kind;
use crate::target::sm90::plan::{EpilogueTransfer, row_folds};

use super::super::chip::EpilogueChip;
use super::super::values::{Environment, Place};
use super::held::HeldRow;
use super::{Elements, RowKernel, shared_row};

/// The chunk that is copied next.
struct Ahead<'k> {
    row: Var<'k, U32>,
    chunk: Var<'k, U32>,
}

/// Rows as a CTA goes through them.
pub(super) struct Stream<'k> {
    ahead: Ahead<'k>,
    /// Chunks of a row, and the way to the next row.
    chunks: Reg<'k, U32>,
    step: Reg<'k, U32>,
}

/// Which traversal of a row it is.
#[derive(Clone, Copy)]
pub(super) struct Traversal {
    pub(super) first: bool,
    pub(super) last: bool,
}

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Computes one row after the other, with chunks of what follows under way.
    pub(super) fn stream(&self) {
        let (k, shares) = (self.k, self.holder.rank.is_some());
        let (first, step) =
            if shares { (k.cluster(), k.clusters()) } else { (k.block(), k.blocks()) };
        let ahead = Ahead { row: k.var(first), chunk: k.var(0) };
        let stream = Stream { ahead, chunks: self.holder.chunks(), step };
        let ranks = self.plan.schedule.ranks_rows();
        if shares {
            if !ranks {
                // A fence of its own orders the barriers: an arrival that releases would wait for all copies.
                shared_row::initialise(k, self.plan);
            }
            k.cluster_arrive(ArriveOrder::Relaxed, Alignment::Aligned);
        }
        self.staging().begin_chunks(|| self.copy_ahead(&stream));
        let ranking = self.plan.program.ranked().filter(|_| ranks);
        let ranking = ranking.map(|ranked| self.ranking(ranked));
        if shares {
            k.cluster_wait(Alignment::Aligned);
        }
        let shared = self.shared_scalars();
        let number = k.var(first);
        k.while_(
            || number.get().lt(self.holder.tiles),
            || {
                let now = number.copy();
                let row = self.holder.chunk(now, k.imm(0));
                let scalars = shared.clone().unwrap_or_else(|| self.scalars(&row));
                match &ranking {
                    Some(ranking) => self.rank_row(ranking, &stream, now, (&row, scalars)),
                    None => self.finish_streamed(&stream, now, &row, scalars),
                }
                number.set(now + step);
            },
        );
        if shares {
            // Words may be on their way to a CTA until all have read theirs.
            k.cluster_arrive(ArriveOrder::Relaxed, Alignment::Any);
            k.cluster_wait(Alignment::Any);
        }
    }

    /// Copies the chunk that comes next into the slot.
    fn copy_ahead(&self, stream: &Stream<'k>) {
        let (k, Ahead { row, chunk }) = (self.k, &stream.ahead);
        let tiles = self.holder.tiles;
        let (number, place) = (row.copy(), chunk.copy());
        let held = self.holder.chunk(number.min(tiles - 1), place);
        self.staging().copy_chunk(self.parameters, &held, number.lt(tiles));
        let next = place + 1;
        let wraps = next.ge(stream.chunks);
        chunk.set(k.imm(0).select(next, wraps));
        row.set((number + stream.step).select(number, wraps));
    }

    /// Goes through a row once.
    pub(super) fn traverse(
        &self,
        stream: &Stream<'k>,
        number: Reg<'k, U32>,
        Traversal { first, last }: Traversal,
        visit: impl FnOnce(&HeldRow<'k>, &mut Elements<'k>),
    ) {
        let (k, staging) = (self.k, self.staging());
        let begin = staging.chunk_slot();
        k.for_(0, stream.chunks, 1, |chunk| {
            if first {
                staging.wait_chunk();
            }
            let row = self.holder.chunk(number, chunk);
            visit(&row, &mut self.unknown());
            if last {
                self.copy_ahead(stream);
            } else if first {
                staging.skip_chunk();
            }
            staging.next_chunk();
        });
        if !last {
            staging.return_to(begin);
        }
    }

    /// Runs all passes over a row, and stores its outputs.
    fn finish_streamed(
        &self,
        stream: &Stream<'k>,
        number: Reg<'k, U32>,
        row: &HeldRow<'k>,
        scalars: Environment<'k>,
    ) {
        let evaluator = self.evaluator();
        let mut environment = scalars;
        let place = Place { at: (row.batch, row.at, self.k.imm(0)), inside: None };
        evaluator.extend(&mut environment, Kind::AlongRows, &place, &[]);
        let stores = &self.plan.schedule.needs.epilogue_stores;
        let visits = stores.iter().any(|transfer| *transfer != EpilogueTransfer::Finished);
        let folds = row_folds(self.plan.program);
        let traversals = folds.len() + usize::from(visits);
        let traversal =
            |place: usize| Traversal { first: place == 0, last: place + 1 == traversals };
        for (pass, reductions) in folds.into_iter().enumerate() {
            let totals = self.begin_totals(reductions);
            self.traverse(stream, number, traversal(pass), |row, elements| {
                self.fold_row(row, &environment, elements, (reductions, &totals));
            });
            self.finish_pass((pass, reductions), &totals, &place, &mut environment);
        }
        self.write_rows(&place, row, &environment);
        if visits {
            self.traverse(stream, number, traversal(traversals - 1), |row, elements| {
                self.visit(row, &environment, elements);
            });
        }
    }
}
