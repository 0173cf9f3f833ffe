//! Products of few rows: every warp streams its part of K through a ring of its own, and multiplies it with `mma`.
//!
//! In: columns of B and rows of A in memory, 16 bytes of K at a time. Out: sums of a tile as any other product leaves them. The
//! columns of B are an instruction's rows, so that few rows of A waste little of it.
//! Warps that have the same part of K share its rows of A. When all have multiplied, they add up their sums through shared
//! memory, in the order of the parts of K; the CTA of the last slice adds those of the others, and one warpgroup runs the
//! epilogue.
//! Invariant: which elements of K a warp adds, and in which order, does not depend on the number of rows.

mod columns;
mod ring;

use postlude_ptx::kernel::{Accumulator, Kernel, MatrixType, Reg, SharedAddress, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, Pred, S32, U32};

use crate::target::sm90::plan::{MMA_COLUMNS, MMA_ROWS, SKINNY_WARPS, Skinny, WARP_COLUMNS};

use super::epilogue::Epilogue;
use super::fragment::Fragment;
use super::parameters::Parameters;
use super::plan::Plan;
use super::slices::Slices;
use super::tile_scheduler::{Slice, TileScheduler, WorkTile};
use super::warpgroup::WarpgroupIndex;
use super::widen::SIXTY_FOURTH;
use columns::{Columns, Fragments};
use ring::{Chunk, Stream, WarpPlace, WarpRing};

/// The named barrier of all warps: others are numbered from 1.
const BARRIER: u32 = 15;
/// Sixteens of a warp's columns.
const BLOCKS: u32 = WARP_COLUMNS / MMA_COLUMNS;
/// Floats that a thread adds up at a time.
const VECTOR: u32 = 4;

/// All warps of a CTA: its tiles, one after the other.
pub(super) fn multiply<'k>(k: Kernel<'k, Sm90a>, plan: &Plan<'_>, parameters: &Parameters<'k>) {
    let Some(shape) = plan.schedule.skinny() else { panic!("compiler bug: a tile of many rows") };
    let scheduler = TileScheduler::new(k, plan, parameters);
    let warp = k.uniform(k.thread() >> 5);
    let is_math = warp.ge(4 * plan.schedule.loaders());
    let warpgroup = WarpgroupIndex::new(k, plan.schedule.tile, k.imm(0));
    let epilogue = Epilogue::new(k, plan, parameters, &scheduler, warpgroup, k.thread() & 127);
    let multiplier = Multiplier::new(k, plan, parameters, shape, warp);
    let slices = Slices::of(k, plan, parameters, (warpgroup, k.thread()));
    let tile_of = |work_tile: &WorkTile<'k>| {
        let stream = multiplier.ring.begin(work_tile);
        let prefetched = epilogue.begin(work_tile);
        multiplier.multiply(&stream, work_tile);
        multiplier.add_up();
        let finish = || {
            let sums = multiplier.whole_sums();
            multiplier.sync();
            k.if_(is_math, || epilogue.finish(work_tile, prefetched, &[sums]));
        };
        match (&slices, work_tile.slice) {
            (Some(slices), Some(slice)) => multiplier.gather(slices, slice, finish),
            _ => finish(),
        }
    };
    if epilogue.answers_later() {
        let after = |real: Reg<'k, Pred>| k.if_(is_math, || epilogue.answer(real));
        scheduler.for_own_and_after(warpgroup.order, tile_of, after);
    } else {
        scheduler.for_own(warpgroup.order, tile_of);
    }
    k.if_(is_math, || epilogue.drain());
}

/// Four of a thread's sums.
fn array<T: Copy>(four: impl Iterator<Item = T>) -> [T; 4] {
    let four: Vec<T> = four.collect();
    std::array::from_fn(|place| four[place])
}

/// A warp that multiplies.
struct Multiplier<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    shape: Skinny,
    ring: WarpRing<'a, 'k>,
    columns: Columns<'a, 'k>,
    warp: WarpPlace<'k>,
    /// Of each block of columns and each group of rows, four.
    sums: Vec<Var<'k, F32>>,
}

impl<'a, 'k> Multiplier<'a, 'k> {
    fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        shape: Skinny,
        number: Reg<'k, U32>,
    ) -> Self {
        let warp = WarpPlace::new(shape, number, k.thread() & 31);
        let columns = Columns::new(k, plan, parameters, shape, warp);
        let ring = WarpRing::new((k, plan, parameters), shape, columns.units(), (number, warp));
        let sums = (0..BLOCKS * shape.groups * 4).map(|_| k.unset()).collect();
        Multiplier { k, plan, shape, ring, columns, warp, sums }
    }

    /// Multiplies this warp's part of K of a tile.
    fn multiply(&self, stream: &Stream<'_, '_, 'k>, work_tile: &WorkTile<'k>) {
        let k = self.k;
        self.sums.iter().for_each(|sum| sum.set(0.0));
        k.if_(stream.exists(), || {
            let values = self.columns.begin(stream, work_tile);
            for (stage, number) in (0..).zip(stream.numbers(0)) {
                self.columns.keep(&values, Some(stage), (number, &stream.stage(stage)));
            }
            stream.for_each(
                |next, chunk| self.columns.keep(&values, None, (next, chunk)),
                |chunk| self.multiply_chunk(chunk),
            );
        });
        if self.columns.are_sixty_fourths() {
            self.sums.iter().for_each(|sum| sum.set(sum.get() * (1.0 / SIXTY_FOURTH)));
        }
    }

    fn multiply_chunk(&self, chunk: &Chunk<'k>) {
        let k = self.k;
        let elements = self.columns.matrix_types();
        let scaled = self.columns.scales_sums();
        for unit in 0..self.columns.units() {
            let words = |group| self.columns.rows(&self.ring.row_words(chunk, group, unit));
            let rows: Vec<_> = (0..self.shape.groups).map(words).collect();
            for block in 0..BLOCKS {
                let words = self.ring.column(chunk, block, unit);
                let Fragments { columns, factors } =
                    self.columns.fragments(chunk, (block, unit), &words);
                for (group, row) in (0..).zip(&rows) {
                    let first = ((block * self.shape.groups + group) * 4) as usize;
                    let sums = &self.sums[first..first + 4];
                    let pairs = columns[0].chunks(2).zip(columns[1].chunks(2)).zip(row.chunks(2));
                    let products = pairs.map(|((first, second), row)| {
                        ([first[0], second[0], first[1], second[1]], [row[0], row[1]])
                    });
                    if elements[0].is_integer() {
                        let before = sums.iter().map(|sum| k.f32_to_bits(sum.get()).cast());
                        let all = self.chain::<S32>(elements, products, array(before));
                        for (sum, all) in sums.iter().zip(all) {
                            sum.set(k.bits_to_f32(all.cast()));
                        }
                        continue;
                    }
                    let before = sums.iter().map(|sum| if scaled { k.imm(0.0) } else { sum.get() });
                    let all = self.chain::<F32>(elements, products, array(before));
                    for (place, (sum, more)) in sums.iter().zip(all).enumerate() {
                        sum.set(match factors[place / 2] {
                            Some(factor) => more.fma(factor, sum.get()),
                            None => more,
                        });
                    }
                }
            }
        }
    }

    /// Products added to sums, one after the other.
    fn chain<T: Accumulator>(
        &self,
        elements: [MatrixType; 2],
        products: impl Iterator<Item = ([Reg<'k, B32>; 4], [Reg<'k, B32>; 2])>,
        sums: [Reg<'k, T>; 4],
    ) -> [Reg<'k, T>; 4] {
        products.fold(sums, |sums, (a, b)| self.k.mma(elements, a, b, sums))
    }

    /// A sum of two.
    fn add(&self, sum: Reg<'k, F32>, more: Reg<'k, F32>) -> Reg<'k, F32> {
        if !self.columns.matrix_types()[0].is_integer() {
            return sum + more;
        }
        let [sum, more] = [sum, more].map(|sum| self.k.f32_to_bits(sum).cast::<S32>());
        self.k.bits_to_f32((sum + more).cast())
    }

    /// The place of a sum of a part in shared memory.
    fn place(&self, row: Reg<'k, U32>, column: Reg<'k, U32>) -> SharedAddress<'k> {
        self.k.region(&self.plan.stages) + row.mad(self.shape.row_floats(), column) * 4
    }

    /// Adds up the sums of all parts, in their order.
    fn add_up(&self) {
        let (k, shape) = (self.k, self.shape);
        let part_bytes = shape.part_floats() * 4;
        self.sync();
        let column = self.warp.column() + self.warp.column_in_eight();
        let own = self.place(Fragment::column(self.warp.lane), column);
        let own = own + self.warp.part * part_bytes;
        for (number, sum) in (0..).zip(&self.sums) {
            let (block, group) = (number / 4 / shape.groups, number / 4 % shape.groups);
            let row = group * MMA_ROWS + number % 2;
            let column = block * MMA_COLUMNS + number % 4 / 2 * (MMA_COLUMNS / 2);
            k.store_shared(own + (row * shape.row_floats() + column) * 4, [sum.get()]);
        }
        self.sync();
        if shape.parts() == 1 {
            return;
        }
        let vectors = shape.columns() / VECTOR;
        k.for_(k.thread(), shape.rows() * vectors, 32 * SKINNY_WARPS, |vector| {
            let row = vector / vectors;
            let at = self.place(row, (vector - row * vectors) * VECTOR);
            let of_part = |part: u32| k.load_shared::<F32, 4>(at + part * part_bytes);
            let parts: Vec<_> = (0..shape.parts()).map(of_part).collect();
            let add = |all: [Reg<'k, F32>; 4], more: [Reg<'k, F32>; 4]| {
                std::array::from_fn(|place| self.add(all[place], more[place]))
            };
            if let Some(all) = parts.into_iter().reduce(add) {
                k.store_shared(at, all);
            }
        });
        self.sync();
    }

    /// Lets the CTA of the last slice finish a tile with the sums of all.
    fn gather(&self, slices: &Slices<'_, 'k>, slice: Slice<'k>, finish: impl FnOnce()) {
        let (k, columns) = (self.k, self.shape.columns());
        let threads = 32 * SKINNY_WARPS;
        let place = |number: u32| {
            let at = k.thread() + number * threads;
            let row = at / columns;
            self.place(row, at - row * columns)
        };
        let places: Vec<_> = (0..self.shape.rows() * columns / threads).map(place).collect();
        let own = places.iter().map(|place| k.var(k.load_shared::<F32, 1>(*place)[0])).collect();
        slices.gather(slice, &[own], |all| {
            for (place, sum) in places.iter().zip(&all[0]) {
                k.store_shared(*place, [sum.get()]);
            }
            self.sync();
            finish();
        });
        // The next tile's chunks are copied to where these sums are.
        self.sync();
    }

    /// The tile's sums as a product leaves them whose rows are A's.
    fn whole_sums(&self) -> Vec<Var<'k, F32>> {
        let k = self.k;
        let warp = k.uniform((k.thread() & 127) >> 5);
        let lane = self.warp.lane;
        let first = Fragment::row(warp, lane);
        // Rows behind A's have sums of others, which no output is made of.
        let rows = self.shape.rows() - 1;
        let places = [first, first + Fragment::SECOND_ROW]
            .map(|row| self.place(row & rows, Fragment::column(lane)));
        let group = |group: u32| {
            let rows = places
                .map(|from| k.load_shared::<F32, 2>(from + group * Fragment::GROUP_COLUMNS * 4));
            rows.into_iter().flatten().map(|sum| k.var(sum)).collect::<Vec<_>>()
        };
        (0..self.shape.columns() / Fragment::GROUP_COLUMNS).flat_map(group).collect()
    }

    /// All warps meet.
    fn sync(&self) {
        self.k.sync_named(BARRIER, 32 * SKINNY_WARPS);
    }
}
