//! The epilogue loop: each round finds its accumulators in the registers of the first round.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::{F32, U32};

use super::super::chip::EpilogueChip;
use super::Epilogue;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// Runs `body` for every few spans of a block in a loop: with the columns before it, whose accumulators are in the
    /// place of the block's first. Code that all spans share is fetched once, and assembled in a fraction of the time.
    pub(super) fn loop_over(
        &self,
        blocks: &[&[Var<'k, F32>]],
        columns: u32,
        body: impl FnOnce(Reg<'k, U32>),
    ) {
        let (k, width) = (self.k, self.plan.schedule.width());
        k.for_rolled(width, columns, |before| {
            body(before);
            let half = width as usize / 2;
            for product in blocks.iter().flat_map(|block| block.chunks_exact(half)) {
                for (to, from) in product.iter().zip(&product[columns as usize / 2..]) {
                    to.set(from.get());
                }
            }
        });
    }

    /// The same for a block that needs its accumulators afterwards: the loop ends with them in their first registers.
    pub(super) fn rotate_over(
        &self,
        block: &[Var<'k, F32>],
        columns: u32,
        body: impl FnOnce(Reg<'k, U32>),
    ) {
        let (k, width) = (self.k, self.plan.schedule.width());
        let (half, round) = (width as usize / 2, columns as usize / 2);
        k.for_rolled(width, columns, |before| {
            body(before);
            for product in block.chunks_exact(half) {
                let first: Vec<_> = product[..round].iter().map(|sum| k.var(sum.get())).collect();
                for (to, from) in product.iter().zip(&product[round..]) {
                    to.set(from.get());
                }
                for (to, from) in product[half - round..].iter().zip(first) {
                    to.set(from.get());
                }
            }
        });
    }

    /// Columns of one round of the loop: whole spans, half of the tile at most, so that there is a loop, and as many as
    /// that, so that few accumulators are moved often.
    pub(super) fn round_columns(&self) -> u32 {
        let schedule = self.plan.schedule;
        if let Some(columns) = schedule.width().checked_div(schedule.rounds) {
            return columns;
        }
        let span = schedule.span();
        let spans = schedule.width() / span;
        let rounds = (2..=spans).find(|rounds| spans.is_multiple_of(*rounds));
        span * spans / rounds.unwrap_or(1)
    }
}
