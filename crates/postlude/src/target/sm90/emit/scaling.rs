//! Block scales: the factors of a stage's sums.
//!
//! In: f32 tensors in memory, each of A's rows or B's columns, or of runs of them, and of runs of K. Out: for every stage the
//! factors of a thread's sums. A thread reads them before it waits for the stage, so that they arrive while it waits and while
//! the tensor core multiplies.
//! Invariant: rows and runs of columns beyond the edge have the last one's factors, single columns there are not read, and
//! without a contraction nothing is.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, Var};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32, U64};

use crate::target::sm90::plan::{ColumnScale, Sm90Schedule};

use super::block_scale::{Along, ScaleParameter};
use super::fragment::Fragment;
use super::memory::Memory;
use super::parameters::Parameters;
use super::tile_scheduler::WorkTile;
use super::values::run_of_row;
use super::warpgroup::WarpgroupIndex;

/// The block scales of a thread's rows and columns of a work tile.
pub(super) struct TileScales<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    scales: Vec<TileScale<'a, 'k>>,
    /// Columns that are promoted together.
    columns: u32,
    /// Whether there is anything to contract.
    contracts: Reg<'k, Pred>,
}

/// One of them, with the addresses of the next stage's factors.
struct TileScale<'a, 'k> {
    scale: &'a ScaleParameter<'k>,
    /// For every block two rows, or for every part of the columns its factor or the thread's first column.
    next: Vec<Var<'k, U64>>,
    /// The problem's columns from the thread's first one of each part on.
    remaining: Vec<Reg<'k, U32>>,
}

impl<'k> TileScale<'_, 'k> {
    /// Goes on to the next stage, which is in the same run of K where runs are several stages.
    fn advance(&self, step: Option<Reg<'k, U32>>) {
        let stride = self.scale.memory.column_stride();
        let stride = match (self.scale.stages, step) {
            (1, _) => stride,
            (_, None) => return,
            (stages, Some(step)) => {
                let done = step + 1;
                let within = done - done / stages * stages;
                stride.select(0, within.eq(0))
            }
        };
        for next in &self.next {
            next.set(next.get() + stride);
        }
    }
}

impl<'a, 'k> TileScales<'a, 'k> {
    /// Those of a work tile; `None` where the product has none. `rank` counts in the warpgroup.
    pub(super) fn of(
        k: Kernel<'k, Sm90a>,
        parameters: &'a Parameters<'k>,
        schedule: &Sm90Schedule,
        (warpgroup, rank): (WarpgroupIndex<'k>, Reg<'k, U32>),
        work_tile: &WorkTile<'k>,
    ) -> Option<Self> {
        let columns = schedule.promoted_columns().filter(|_| !parameters.scales.is_empty())?;
        let (tile, lane) = (schedule.tile, rank & 31);
        let last = [parameters.rows - 1, parameters.columns - 1];
        let first_row = warpgroup.in_tile.mad(tile.blocks() * 64, work_tile.row);
        let first_row = first_row + Fragment::row(rank >> 5, lane);
        let parts = || (0..tile.columns / columns).map(|part| work_tile.column + part * columns);
        let scale = |scale: &'a ScaleParameter<'k>| {
            let at = |row: Reg<'k, U32>| {
                let place = (work_tile.batch, row, k.imm(0));
                k.var(scale.memory.element(k, place).pointer().register())
            };
            let mut remaining = Vec::new();
            let next = match scale.along {
                Along::Rows(run) => {
                    let rows = (0..tile.blocks())
                        .flat_map(|block| [block * 64, block * 64 + Fragment::SECOND_ROW]);
                    rows.map(|row| at(run_of_row((first_row + row).min(last[0]), run))).collect()
                }
                Along::Columns(ColumnScale::Run(run)) => {
                    parts().map(|column| at(run_of_row(column.min(last[1]), run.max(1)))).collect()
                }
                Along::Columns(ColumnScale::Each) => parts()
                    .map(|column| {
                        let column = column + Fragment::column(lane);
                        remaining.push(parameters.columns.max(column) - column);
                        at(column)
                    })
                    .collect(),
            };
            TileScale { scale, next, remaining }
        };
        let scales = parameters.scales.iter().map(scale).collect();
        Some(TileScales { k, scales, columns, contracts: parameters.inner.gt(0) })
    }

    /// Reads the factors of the next stage, which is a tile's first where it has no number.
    pub(super) fn load(&self, step: Option<Reg<'k, U32>>) -> StageFactors<'k> {
        let mut factors = StageFactors::default();
        for tile_scale in &self.scales {
            let TileScale { scale, next, remaining } = tile_scale;
            match scale.along {
                Along::Rows(_) => {
                    let loaded: Vec<_> = next.iter().map(|from| self.factor(*from)).collect();
                    factors.rows.push(loaded);
                }
                Along::Columns(ColumnScale::Run(_)) => {
                    let loaded: Vec<_> = next.iter().map(|from| self.factor(*from)).collect();
                    factors.runs.push(loaded);
                }
                Along::Columns(ColumnScale::Each) => {
                    let parts = next.iter().zip(remaining);
                    let loaded = parts.map(|(from, remaining)| {
                        self.each_column(&scale.memory, from.get(), *remaining)
                    });
                    factors.columns.push(loaded.collect());
                }
            }
            tile_scale.advance(step);
        }
        factors
    }

    fn factor(&self, from: Var<'k, U64>) -> Reg<'k, F32> {
        let from = GlobalPointer::from_register(from.get());
        let [factor] = self.k.load_global_if(self.contracts, from, LoadCache::ReadOnly, 0.0);
        factor
    }

    /// The factors of a thread's columns of a part, two of every group.
    fn each_column(
        &self,
        memory: &Memory<'k>,
        first: Reg<'k, U64>,
        remaining: Reg<'k, U32>,
    ) -> Vec<Reg<'k, F32>> {
        let (stride, mut from) = (memory.row_stride(), GlobalPointer::from_register(first));
        let to_next = [stride, stride * u64::from(Fragment::GROUP_COLUMNS - 1)];
        let mut factors = Vec::new();
        for group in 0..self.columns / Fragment::GROUP_COLUMNS {
            for (place, to_next) in (0..).zip(to_next) {
                let inside = remaining.gt(group * Fragment::GROUP_COLUMNS + place) & self.contracts;
                let [factor] = self.k.load_global_if(inside, from, LoadCache::ReadOnly, 0.0);
                factors.push(factor);
                from = from + to_next;
            }
        }
        factors
    }
}

/// The factors of a stage's sums that a thread has.
#[derive(Default)]
pub(super) struct StageFactors<'k> {
    /// For every scale of A, two of each block.
    rows: Vec<Vec<Reg<'k, F32>>>,
    /// For every scale of runs of columns, one of each part.
    runs: Vec<Vec<Reg<'k, F32>>>,
    /// For every scale of single columns and each part, two of each group.
    columns: Vec<Vec<Vec<Reg<'k, F32>>>>,
}

impl<'k> StageFactors<'k> {
    /// Those of a block's sums of a part of the columns.
    pub(super) fn of(&self, block: usize, part: usize) -> Factors<'k> {
        let runs = || self.runs.iter().map(|parts| parts[part]);
        let rows = [0, 1].map(|row| {
            let rows = self.rows.iter().map(|rows| rows[2 * block + row]);
            rows.chain(runs()).reduce(|all, factor| all * factor)
        });
        let count = self.columns.first().map_or(0, |parts| parts[part].len());
        let column = |place: usize| {
            let scales = self.columns.iter().map(|parts| parts[part][place]);
            scales.reduce(|all, factor| all * factor)
        };
        Factors { rows, columns: (0..count).filter_map(column).collect() }
    }
}

/// The factors of 64 rows of sums of some columns.
pub(super) struct Factors<'k> {
    rows: [Option<Reg<'k, F32>>; 2],
    /// Of single columns, two of each group.
    columns: Vec<Reg<'k, F32>>,
}

impl<'k> Factors<'k> {
    /// That of the accumulator in this place of the fragment.
    pub(super) fn at(&self, place: usize) -> Reg<'k, F32> {
        let (group, within) = (place / Fragment::GROUP_ELEMENTS, place % Fragment::GROUP_ELEMENTS);
        let row = self.rows[within / 2];
        let column = self.columns.get(2 * group + within % 2).copied();
        let factors = row.into_iter().chain(column).reduce(|row, column| row * column);
        factors.unwrap_or_else(|| panic!("compiler bug: sums without factors are scaled"))
    }
}
