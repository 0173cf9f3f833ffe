//! Segments of rows: which work tiles each has, found on the device.
//!
//! A kernel knows the ends of segments as data only. A warp reads 32 of them at a time and adds up the tiles before each by
//! shuffles. The numbers of a role's tiles rise, so a role keeps its window of 32 segments and moves it onward.
//! Ends that decrease or pass the rows are clamped: no row is in two segments, and no row is outside of the problem.

use postlude_ptx::kernel::{GlobalPointer, Kernel, NumberParameter, PointerParameter, Reg, Var};
use postlude_ptx::modifier::{LoadCache, ShuffleMode};
use postlude_ptx::target::Architecture;
use postlude_ptx::types::{Pred, S32, S64, U32, U64};

use crate::dtype::DType;

/// Lanes of a warp: segments of a window.
const WINDOW: u32 = 32;

/// Where segments end.
#[derive(Clone, Copy)]
pub(super) struct Ends<'k> {
    pointer: PointerParameter<'k>,
    /// Bytes between neighbours.
    stride: NumberParameter<'k, U64>,
    dtype: DType,
}

impl<'k> Ends<'k> {
    pub(super) fn declare<C: Architecture>(k: Kernel<'k, C>, dtype: DType) -> Ends<'k> {
        let (pointer, stride) = (k.parameter_pointer("ends"), k.parameter_u64("ends_stride"));
        Ends { pointer, stride, dtype }
    }

    /// A number of the list.
    fn number<C: Architecture>(self, k: Kernel<'k, C>, from: GlobalPointer<'k>) -> Reg<'k, S32> {
        if self.dtype == DType::I64 {
            let [number] = k.load_global::<S64, 1>(from, LoadCache::ReadOnly);
            return k.nearest_s32_of_s64(number);
        }
        let [number] = k.load_global::<S32, 1>(from, LoadCache::ReadOnly);
        number
    }

    /// A number of the list where it has one, else another.
    fn number_if<C: Architecture>(
        self,
        k: Kernel<'k, C>,
        inside: Reg<'k, Pred>,
        from: GlobalPointer<'k>,
        otherwise: i32,
    ) -> Reg<'k, S32> {
        let cache = LoadCache::ReadOnly;
        if self.dtype == DType::I64 {
            let [number] = k.load_global_if::<S64, 1>(inside, from, cache, i64::from(otherwise));
            return k.nearest_s32_of_s64(number);
        }
        let [number] = k.load_global_if::<S32, 1>(inside, from, cache, otherwise);
        number
    }

    /// The number of a batch, where they are counts of rows; at least 0.
    pub(super) fn count<C: Architecture>(
        self,
        k: Kernel<'k, C>,
        batch: Reg<'k, U32>,
    ) -> Reg<'k, U32> {
        self.number(k, self.address(k, batch)).max(0_i32).cast::<U32>()
    }

    fn address<C: Architecture>(
        self,
        k: Kernel<'k, C>,
        segment: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        self.pointer.load() + k.widen(segment) * self.stride.load()
    }

    /// The segment of a row, of this many: the first that ends behind it. Their count where none does.
    pub(super) fn of_row<C: Architecture>(
        self,
        k: Kernel<'k, C>,
        row: Reg<'k, U32>,
        count: Reg<'k, U32>,
    ) -> Reg<'k, U32> {
        let segment = k.var(0);
        k.while_(
            || {
                let now = segment.copy();
                let from = self.address(k, now);
                let end = self.number_if(k, now.lt(count), from, i32::MAX);
                end.max(0_i32).cast::<U32>().le(row)
            },
            || segment.set(segment.copy() + 1),
        );
        segment.copy()
    }

    /// The first row of a segment, and the row behind its last.
    pub(super) fn rows<C: Architecture>(
        self,
        k: Kernel<'k, C>,
        segment: Reg<'k, U32>,
        rows: Reg<'k, U32>,
    ) -> [Reg<'k, U32>; 2] {
        let [number, begin, end] = [(); 3].map(|()| k.var::<U32>(0));
        k.while_(
            || number.get().le(segment),
            || {
                let now = number.copy();
                let own = self.number(k, self.address(k, now));
                begin.set(end.copy());
                end.set(own.max(0_i32).cast::<U32>().min(rows).max(end.copy()));
                number.set(now + 1);
            },
        );
        [begin.copy(), end.copy()]
    }
}

/// The K of a batch's product.
#[derive(Clone, Copy)]
pub(super) struct Contraction<'k> {
    pub(super) begin: Reg<'k, U32>,
    pub(super) end: Reg<'k, U32>,
}

impl<'k> Contraction<'k> {
    /// That of a segment of a contraction. A segment that ends before it begins is empty.
    pub(super) fn of_segment<C: Architecture>(
        k: Kernel<'k, C>,
        ends: Ends<'k>,
        segment: Reg<'k, U32>,
        inner: Reg<'k, U32>,
    ) -> Contraction<'k> {
        let end = ends.number(k, ends.address(k, segment));
        let before = ends.address(k, segment.max(1) - 1);
        let begin = ends.number_if(k, segment.gt(0), before, 0);
        let [begin, end] = [begin, end].map(|it| it.max(0_i32).cast::<U32>().min(inner));
        Contraction { begin, end: end.max(begin) }
    }
}

/// The segments of a problem, as tiles divide them.
#[derive(Clone, Copy)]
pub(super) struct Segments<'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) ends: Ends<'k>,
    pub(super) count: Reg<'k, U32>,
    /// Rows of the problem.
    pub(super) rows: Reg<'k, U32>,
    /// Rows of a cluster's tiles.
    pub(super) tile_rows: u32,
    /// Clusters' tiles along columns.
    pub(super) columns: Reg<'k, U32>,
    /// Whether a segment without rows has tiles, too, so that its reductions are finished.
    pub(super) empty_too: bool,
}

/// A work tile's segment, the same in all lanes.
pub(super) struct Segment<'k> {
    pub(super) number: Reg<'k, U32>,
    /// Its first row, and the row behind its last.
    pub(super) begin: Reg<'k, U32>,
    pub(super) end: Reg<'k, U32>,
    /// Clusters' tiles along its rows.
    pub(super) clusters: Reg<'k, U32>,
    /// The number of the first tile that is its own.
    pub(super) first_tile: Reg<'k, U32>,
}

/// One segment of a window a lane.
struct Lane<'k> {
    begin: Reg<'k, U32>,
    end: Reg<'k, U32>,
    /// Clusters' tiles along rows.
    clusters: Reg<'k, U32>,
    /// Tiles of all segments before this one, and with it.
    before: Reg<'k, U32>,
    through: Reg<'k, U32>,
}

/// What comes before a window.
#[derive(Clone, Copy)]
struct Start<'k> {
    segment: Reg<'k, U32>,
    row: Reg<'k, U32>,
    tiles: Reg<'k, U32>,
}

/// A role's place among the segments.
pub(super) struct Walk<'k, C> {
    segments: Segments<'k, C>,
    segment: Var<'k, U32>,
    row: Var<'k, U32>,
    tiles: Var<'k, U32>,
}

impl<'k, C: Architecture> Segments<'k, C> {
    /// This lane's segment of a window.
    fn lane(&self, start: Start<'k>) -> Lane<'k> {
        let k = self.k;
        let lane = k.thread() & (WINDOW - 1);
        let number = start.segment + lane;
        let from = self.ends.address(k, number);
        let end = self.ends.number_if(k, number.lt(self.count), from, 0);
        let distances = || [1_u32, 2, 4, 8, 16].into_iter();
        // Lanes without such a neighbour get their own value back.
        let up = |value: Reg<'k, U32>, distance: u32| k.shuffle(ShuffleMode::Up, value, distance);
        let end = end.max(0_i32).cast::<U32>().min(self.rows).max(start.row);
        let end = distances().fold(end, |end, distance| end.max(up(end, distance)));
        let begin = start.row.select(up(end, 1), lane.eq(0));
        let clusters = (end - begin + (self.tile_rows - 1)) / self.tile_rows;
        let least = self.empty_too.then(|| k.imm::<U32>(1).select(0, number.lt(self.count)));
        let clusters = least.map_or(clusters, |least| clusters.max(least));
        let own = clusters * self.columns;
        let through = distances()
            .fold(own, |sum, distance| sum + up(sum, distance).select(0, lane.ge(distance)));
        let through = through + start.tiles;
        Lane { begin, end, clusters, before: through - own, through }
    }

    /// What comes before the next window.
    fn behind(&self, start: Start<'k>, lane: &Lane<'k>) -> Start<'k> {
        let last = |value| self.k.shuffle(ShuffleMode::Index, value, WINDOW - 1);
        let segment = start.segment + WINDOW;
        Start { segment, row: last(lane.end), tiles: last(lane.through) }
    }

    /// Tiles of all segments.
    pub(super) fn total(&self) -> Reg<'k, U32> {
        let walk = self.walk();
        let k = self.k;
        k.while_(
            || walk.segment.get().lt(self.count),
            || {
                let start = walk.start();
                walk.set(self.behind(start, &self.lane(start)));
            },
        );
        walk.tiles.copy()
    }

    /// The place before all segments.
    pub(super) fn walk(&self) -> Walk<'k, C> {
        let [segment, row, tiles] = [(); 3].map(|()| self.k.var(0));
        Walk { segments: *self, segment, row, tiles }
    }
}

impl<'k, C: Architecture> Walk<'k, C> {
    fn start(&self) -> Start<'k> {
        let [segment, row, tiles] = [self.segment, self.row, self.tiles].map(Var::copy);
        Start { segment, row, tiles }
    }

    fn set(&self, start: Start<'k>) {
        self.segment.set(start.segment);
        self.row.set(start.row);
        self.tiles.set(start.tiles);
    }

    /// The segment of a tile, whose number is not less than that of the tile before.
    pub(super) fn find(&self, tile: Reg<'k, U32>) -> Segment<'k> {
        let (k, segments) = (self.segments.k, &self.segments);
        let found = [(); 5].map(|()| k.var::<U32>(0));
        k.do_while(|| {
            let start = self.start();
            let lane = segments.lane(start);
            let next = segments.behind(start, &lane);
            let place = k.ballot(lane.through.le(tile)).count_ones();
            let own = |value| k.shuffle(ShuffleMode::Index, value, place & (WINDOW - 1));
            let values = [start.segment + place, lane.begin, lane.end, lane.clusters, lane.before];
            let [number, rest @ ..] = values;
            found[0].set(number);
            for (found, value) in found[1..].iter().zip(rest) {
                found.set(own(value));
            }
            let passed = next.tiles.le(tile);
            k.if_(passed, || self.set(next));
            passed & self.segment.get().lt(segments.count)
        });
        let [number, begin, end, clusters, first_tile] = found.map(Var::copy);
        Segment { number, begin, end, clusters, first_tile }
    }
}
