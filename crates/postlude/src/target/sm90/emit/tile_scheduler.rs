//! The tile scheduler: which work tiles a CTA computes, in the order of the raster.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::target::Tma;
use postlude_ptx::types::{Pred, U32};

use crate::target::sm90::plan::{EpilogueTransfer, Mainloop, Sm90Schedule};
use crate::target::tile::KernelSchedule;

use super::batch::{Batch, BatchDims};
use super::divisor::{Divisor, RasterDivisors};
use super::dynamic_scheduler::DynamicScheduler;
use super::operand::grid;
use super::parameters::Parameters;
use super::plan::Plan;
use super::segments::{Contraction, Ends, Segments, Walk};

/// Parts of this size that hold all of another.
pub(super) fn up(size: Reg<'_, U32>, by: u32) -> Reg<'_, U32> {
    let size = size + (by - 1);
    if by.is_power_of_two() { size >> by.trailing_zeros() } else { size / by }
}

/// Counts of work tiles.
pub(super) struct TileScheduler<'k, C> {
    k: Kernel<'k, C>,
    schedule: Sm90Schedule,
    /// Clusters along the dim that groups extend over, and along the dim that they advance along.
    extents: [Reg<'k, U32>; 2],
    /// Whether groups advance along M.
    along_m: Reg<'k, Pred>,
    /// Clusters along columns.
    columns: Reg<'k, U32>,
    group: Reg<'k, U32>,
    /// What numbers of tiles are divided by, where the host knows it.
    divisors: Option<RasterDivisors<'k>>,
    total: Reg<'k, U32>,
    /// Tiles along rows and along columns, with those beyond the edges that fill clusters.
    tiles: [Reg<'k, U32>; 2],
    per_batch: Reg<'k, U32>,
    /// Rows of the problem.
    rows: Reg<'k, U32>,
    /// Where rows are cut into segments: the batches.
    segments: Option<Segments<'k, C>>,
    /// Where work tiles are slices: how tiles are cut.
    slices: Option<Cut<'k>>,
    /// Where clusters take tiles as they get through them.
    dynamic: Option<DynamicScheduler<'k, C>>,
    /// Where the contraction is, and how long it is.
    contraction: Option<Ends<'k>>,
    /// Where rows of a batch from a count on are not used: the counts.
    counts: Option<Ends<'k>>,
    inner: Reg<'k, U32>,
    batch_dims: BatchDims<'k>,
    rank: Reg<'k, U32>,
    /// This CTA's row and column in its cluster.
    place: [Reg<'k, U32>; 2],
    /// Steps along K, or along this CTA's part of a split K; at least one, since the first product clears the accumulators.
    /// None without a product.
    pub(super) steps: Reg<'k, U32>,
}

/// A work tile: where it starts.
pub(super) struct WorkTile<'k> {
    pub(super) row: Reg<'k, U32>,
    /// The row behind the last that it may write: the problem's, or its segment's.
    pub(super) row_end: Reg<'k, U32>,
    pub(super) column: Reg<'k, U32>,
    pub(super) batch: Batch<'k>,
    /// Its part of the contraction, where that is a segment, and its steps along it.
    pub(super) contraction: Option<Contraction<'k>>,
    pub(super) steps: Reg<'k, U32>,
    /// Its number along rows and along columns.
    pub(super) index: [Reg<'k, U32>; 2],
    /// Its cluster's number in the batch.
    pub(super) within: Reg<'k, U32>,
    /// Where rows are cut into segments: its segment's tiles along rows.
    pub(super) segment: Option<TilesOfSegment<'k>>,
    /// Its slice of K, where it has no more.
    pub(super) slice: Option<Slice<'k>>,
    /// Whether this CTA has another tile behind it; known in ping-pong, where it is asked for.
    pub(super) followed: Reg<'k, Pred>,
}

/// How the K of tiles is cut.
#[derive(Clone, Copy)]
struct Cut<'k> {
    /// Slices of a tile that is cut, and clusters of tiles before it that are not.
    count: Reg<'k, U32>,
    by_count: Divisor<'k>,
    whole: Reg<'k, U32>,
    /// Steps of a slice along K.
    steps: Reg<'k, U32>,
}

/// A slice of a tile's K, or all of it.
#[derive(Clone, Copy)]
pub(super) struct Slice<'k> {
    /// Its number, and whether it is the last: the CTA that multiplies it adds the partial sums of the others.
    pub(super) number: Reg<'k, U32>,
    pub(super) is_last: Reg<'k, Pred>,
    /// How many others it has: none where it is all of K.
    pub(super) others: Reg<'k, U32>,
    /// The number of the CTA's tile among those that are cut.
    pub(super) tile: Reg<'k, U32>,
    /// Its first step along K, and its steps.
    pub(super) first_step: Reg<'k, U32>,
    steps: Reg<'k, U32>,
}

/// A segment's tiles along rows: the number of the first among those of all segments, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct TilesOfSegment<'k> {
    pub(super) first: Reg<'k, U32>,
    pub(super) count: Reg<'k, U32>,
}

impl<'k, C: Tma> TileScheduler<'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &Plan<'_>,
        parameters: &Parameters<'k>,
    ) -> TileScheduler<'k, C> {
        let schedule = plan.schedule;
        let tile = schedule.tile;
        let rows = up(parameters.rows, tile.rows * tile.cluster.rows());
        let columns = up(parameters.columns, schedule.width() * tile.cluster.columns());
        // What tiles finish has a value where there is nothing, too: one tile without elements writes it.
        let finishes = schedule.needs.epilogue_stores.contains(&EpilogueTransfer::Finished);
        let [rows, columns] =
            [rows, columns].map(|count| if finishes { count.max(1) } else { count });
        let along_m = parameters.along_m.ne(0);
        let extents = [columns.select(rows, along_m), rows.select(columns, along_m)];
        let per_batch = rows * columns;
        let ragged = schedule.needs.mainloop.as_ref().is_some_and(|mainloop| mainloop.ragged);
        let masked = schedule.needs.mainloop.as_ref().is_some_and(|mainloop| mainloop.masked);
        let segments = parameters.ends.filter(|_| !ragged && !masked).map(|ends| Segments {
            k,
            ends,
            count: parameters.batches,
            rows: parameters.rows,
            tile_rows: tile.rows * tile.cluster.rows(),
            columns,
            empty_too: schedule.needs.folds.any(),
        });
        let total = match &segments {
            Some(segments) => segments.total(),
            None => per_batch * parameters.batches,
        };
        let slices = parameters.slices.as_ref();
        let total = slices.map_or(total, |cut| (total - cut.whole).mad(cut.count, cut.whole));
        // Partial results are numbered through all segments.
        let rows = match &segments {
            Some(_) if schedule.needs.folds.any() => total / columns,
            Some(_) | None => rows,
        };
        let steps = match &schedule.needs.mainloop {
            Some(mainloop) => up(parameters.inner, mainloop.depth()).max(1),
            None => k.imm(0),
        };
        // Every CTA of a split K has as many steps; those beyond K add zeros.
        let splits = tile.cluster.split_k();
        let steps = if splits > 1 { up(steps, splits) } else { steps };
        let slices = slices.map(|cut| Cut {
            count: cut.count,
            by_count: cut.by_count,
            whole: cut.whole,
            steps: match schedule.steps_at_once() {
                1 => cut.by_count.divide(steps + (cut.count - 1)),
                unit => cut.by_count.divide(steps / unit + (cut.count - 1)) * unit,
            },
        });
        let rank = k.cluster_rank();
        TileScheduler {
            k,
            schedule: schedule.clone(),
            extents,
            along_m,
            columns,
            group: parameters.group,
            divisors: parameters.divisors,
            total,
            tiles: [rows * tile.cluster.rows(), columns * tile.cluster.columns()],
            per_batch,
            rows: parameters.rows,
            segments,
            slices,
            dynamic: parameters
                .counter
                .map(|counter| DynamicScheduler::new(k, plan, counter, rank)),
            contraction: parameters.ends.filter(|_| ragged),
            counts: parameters.ends.filter(|_| masked),
            inner: parameters.inner,
            batch_dims: parameters.batch_dims,
            rank,
            place: grid(tile.cluster).place(rank),
            steps,
        }
    }

    /// The first step of this CTA's part of a split K.
    pub(super) fn first_step(&self) -> Option<Reg<'k, U32>> {
        (self.schedule.tile.cluster.split_k() > 1).then(|| self.rank * self.steps)
    }

    /// Whether rows are cut into segments, which end within tiles.
    pub(super) fn cuts_rows(&self) -> bool {
        self.segments.is_some()
    }

    /// This CTA's number in its cluster.
    pub(super) fn rank(&self) -> Reg<'k, U32> {
        self.rank
    }

    /// This CTA's row and column in its cluster.
    pub(super) fn place(&self) -> [Reg<'k, U32>; 2] {
        self.place
    }

    /// Tiles along rows and along columns.
    pub(super) fn tiles(&self) -> [Reg<'k, U32>; 2] {
        self.tiles
    }

    /// Clusters' tiles in a batch.
    pub(super) fn batch_tiles(&self) -> Reg<'k, U32> {
        self.per_batch
    }

    /// How far apart the tiles of a math warpgroup are.
    pub(super) fn apart(&self) -> Reg<'k, U32> {
        self.k.clusters() * self.schedule.tile.tiles_in_flight()
    }

    /// Runs `body` for every tile of this CTA: the role that loads A and B, which publishes a dynamic scheduler's tiles. All
    /// CTAs of a cluster make the same number of steps.
    pub(super) fn for_each(&self, body: impl FnOnce(&WorkTile<'k>)) {
        let k = self.k;
        if let Some(dynamic) = &self.dynamic {
            let publisher = dynamic.publisher();
            let publish = || dynamic.publish(&publisher, self.total);
            return self.for_taken(dynamic, (k.imm(0), 1), publish, body);
        }
        let walk = self.walk();
        k.for_(k.cluster(), self.total, k.clusters(), |number| {
            body(&self.work_tile(walk.as_ref(), number, None));
        });
    }

    /// Runs `body` for every tile of a math warpgroup: all of this CTA's, or in ping-pong every other one.
    pub(super) fn for_own(&self, order: Reg<'k, U32>, body: impl FnOnce(&WorkTile<'k>)) {
        if let Some(dynamic) = &self.dynamic {
            let in_flight = self.schedule.tile.tiles_in_flight();
            return self.for_taken(dynamic, (order, in_flight), || {}, body);
        }
        let ((start, step), walk) = (self.own(order), self.walk());
        self.k.for_(start, self.total, step, |number| {
            body(&self.work_tile(walk.as_ref(), number, None));
        });
    }

    /// Runs `body` for tiles that the cluster takes: one of every `in_flight`, from the one of this order on. `before` comes
    /// before each.
    fn for_taken(
        &self,
        dynamic: &DynamicScheduler<'k, C>,
        (order, in_flight): (Reg<'k, U32>, u32),
        before: impl FnOnce(),
        body: impl FnOnce(&WorkTile<'k>),
    ) {
        let (k, walk, at) = (self.k, self.walk(), dynamic.reader());
        let number = k.var(k.cluster());
        let is_tile = || number.get().lt(self.total);
        for others in 1..in_flight {
            k.if_(order.ge(others) & is_tile(), || number.set(dynamic.next(&at)));
        }
        k.while_(is_tile, || {
            before();
            // Kept in a register beside a tile's sums only where it is asked for.
            let next = (in_flight > 1).then(|| dynamic.next(&at));
            let followed = next.map_or_else(|| k.imm(true), |next| next.lt(self.total));
            body(&self.work_tile(walk.as_ref(), number.copy(), Some(followed)));
            number.set(next.unwrap_or_else(|| dynamic.next(&at)));
            for _ in 1..in_flight {
                k.if_(is_tile(), || number.set(dynamic.next(&at)));
            }
        });
    }

    /// The same with `after` behind every tile, and once more behind the last: whether there was a tile is its argument.
    pub(super) fn for_own_and_after(
        &self,
        order: Reg<'k, U32>,
        body: impl FnOnce(&WorkTile<'k>),
        after: impl FnOnce(Reg<'k, Pred>),
    ) {
        assert!(self.dynamic.is_none(), "compiler bug: reductions of dynamic tiles");
        let k = self.k;
        let ((start, step), walk) = (self.own(order), self.walk());
        let number = k.var(start);
        k.do_while(|| {
            let real = number.get().lt(self.total);
            k.if_(real, || {
                let number = number.copy();
                body(&self.work_tile(walk.as_ref(), number, None));
            });
            number.set(number.get() + step);
            after(real);
            real
        });
    }

    /// The number of a math warpgroup's first tile, and how far the next one is.
    fn own(&self, order: Reg<'k, U32>) -> (Reg<'k, U32>, Reg<'k, U32>) {
        let k = self.k;
        match self.schedule.tile.kernel {
            KernelSchedule::Cooperative
            | KernelSchedule::Swapped
            | KernelSchedule::Rows
            | KernelSchedule::StreamedRows
            | KernelSchedule::Strips
            | KernelSchedule::Elements => (k.cluster(), k.clusters()),
            KernelSchedule::PingPong => (order.mad(k.clusters(), k.cluster()), self.apart()),
        }
    }

    /// A role's place among segments, where rows are cut into some.
    fn walk(&self) -> Option<Walk<'k, C>> {
        self.segments.as_ref().map(Segments::walk)
    }

    /// The work tile of a number. A static scheduler knows which number follows.
    fn work_tile(
        &self,
        walk: Option<&Walk<'k, C>>,
        number: Reg<'k, U32>,
        followed: Option<Reg<'k, Pred>>,
    ) -> WorkTile<'k> {
        let tile = self.schedule.tile;
        let work_tile = number;
        let slice = self.slices.map(|cut| self.slice(cut, work_tile));
        let number = slice.map_or(work_tile, |(cluster, _)| cluster);
        let segment = walk.map(|walk| walk.find(number));
        let (batch, within, [grouped, other]) = if let Some(segment) = &segment {
            let (rows, columns) = (segment.clusters, self.columns);
            let extents = [columns.select(rows, self.along_m), rows.select(columns, self.along_m)];
            (segment.number, number - segment.first_tile, extents)
        } else {
            let batch = match self.divisors {
                Some(by) => by.batch.divide(number),
                None => number / self.per_batch,
            };
            (batch, number - batch * self.per_batch, self.extents)
        };
        let per_group = other * self.group;
        let group_number = match self.divisors {
            Some(by) => by.group.divide(within),
            None => within / per_group,
        };
        let first = group_number * self.group;
        let left = grouped - first;
        let height = left.min(self.group);
        let place = within - group_number * per_group;
        let along = match self.divisors {
            Some(by) => by.last_height.select(by.height, left.lt(self.group)).divide(place),
            None => place / height,
        };
        let across = place - along * height + first;
        let row = along.select(across, self.along_m);
        let column = across.select(along, self.along_m);
        let followed = followed.unwrap_or_else(|| (work_tile + self.k.clusters()).lt(self.total));
        let beside = |number: Reg<'k, U32>, count: u32, place: Reg<'k, U32>| match count {
            1 => number,
            count => number.mad(count, place),
        };
        let [below, right] = self.place;
        // All CTAs of a cluster have as many steps.
        let used = self.counts.map(|counts| {
            let cluster_row = row * (tile.rows * tile.cluster.rows());
            cluster_row.lt(counts.count(self.k, batch))
        });
        let row = beside(row, tile.cluster.rows(), below);
        let column = beside(column, tile.cluster.columns(), right);
        let first_row = row * tile.rows;
        let (first_row, row_end) = match &segment {
            Some(segment) => (first_row + segment.begin, segment.end),
            None => (first_row, self.rows),
        };
        let segment = segment.filter(|_| self.schedule.needs.folds.any()).map(|segment| {
            let [first, count] = [segment.first_tile / self.columns, segment.clusters];
            let [first, count] = [first, count].map(|it| it * tile.cluster.rows());
            TilesOfSegment { first, count }
        });
        let contraction =
            self.contraction.map(|ends| Contraction::of_segment(self.k, ends, batch, self.inner));
        let depth = self.schedule.needs.mainloop.as_ref().map_or(1, Mainloop::depth);
        let steps = slice.map_or(self.steps, |(_, slice)| slice.steps);
        let steps = contraction.map_or(steps, |of| {
            ((of.end - of.begin + (depth - 1)) >> depth.trailing_zeros()).max(1)
        });
        let steps = used.map_or(steps, |used| steps.select(1, used));
        WorkTile {
            row: first_row,
            row_end,
            contraction,
            steps,
            column: column * self.schedule.width(),
            index: [row, column],
            within,
            segment,
            batch: self.batch_dims.batch(batch),
            slice: slice.map(|(_, slice)| slice),
            followed,
        }
    }

    /// The cluster and the slice of a work tile: slices of a cluster's tiles follow one another, behind whole tiles.
    fn slice(&self, cut: Cut<'k>, number: Reg<'k, U32>) -> (Reg<'k, U32>, Slice<'k>) {
        let Cut { count, by_count, whole, steps } = cut;
        let is_whole = number.lt(whole);
        let behind = number - whole;
        let among = by_count.divide(behind);
        let part = behind - among * count;
        let cluster = number.select(among + whole, is_whole);
        let part = self.k.imm(0).select(part, is_whole);
        let others = self.k.imm(0).select(count - 1, is_whole);
        let first_step = part * steps;
        // Steps beyond K add zeros, but where narrow elements of a span share values, there are none.
        let steps = if self.schedule.tile.is_swapped() {
            steps.min(self.steps.max(first_step) - first_step)
        } else {
            steps
        };
        let slice = Slice {
            number: part,
            is_last: part.eq(others),
            others,
            tile: among.mad(self.schedule.tile.cluster.blocks(), self.rank),
            first_step,
            steps: self.steps.select(steps, is_whole),
        };
        (cluster, slice)
    }
}
