//! Products with A and B swapped: a warpgroup widens 64 columns of B in registers, and wgmma multiplies them from there by rows
//! of A in shared memory.
//!
//! In: stages of a span of narrow rows of B and of the same K of A. Out: sums of a tile as any other product leaves them.
//! Half of the warpgroups multiply every other span, half the rest; what they sum has rows and columns swapped, and is added up
//! in shared memory, from where the math warpgroup reads it for its epilogue.
//! Where the product has block scales of B, wgmma sums one run of K at a time, and threads add it to the tile's sums, times its
//! factor, just before wgmma begins the next run.
//! Invariant: while wgmma reads fragments of one unit, threads compute those of the next.

use postlude_ptx::kernel::{
    Descriptor, DescriptorLayout, Kernel, MatrixType, Reg, SharedAddress, Var, WgmmaForm,
};
use postlude_ptx::ring::{Consumer, Far, Receivers, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, Pred, U32};

use crate::graph::greatest_divisor;
use crate::target::sm90::plan::{
    K_PARTS, OperandElement, SWAPPED_COLUMNS, THREAD_BYTES, Widened, widened_operand,
};

use super::batch::Batch;
use super::epilogue::Epilogue;
use super::fragment::Fragment;
use super::load::for_tiles;
use super::mma::matrix_type;
use super::operand::LINE_BYTES;
use super::parameters::Parameters;
use super::plan::Plan;
use super::shared_values::SharedValues;
use super::slices::Slices;
use super::tile_scheduler::{Slice, TileScheduler, WorkTile};
use super::values::{Evaluator, Value};
use super::warpgroup::WarpgroupIndex;
use super::widen::values::{self, Pending, RowBase};
use super::widen::{Elements, Picks, SIXTY_FOURTH};

/// The named barrier of all warpgroups that multiply: others are numbered from 1.
const BARRIER: u32 = 15;
/// That of the math warpgroup.
const MATH_BARRIER: u32 = 14;
/// What one instruction sums over.
const DEPTH: u32 = 16;
/// Rows of A whose sums leave few registers.
const MANY_ROWS: u32 = 64;
/// Rows of an instruction's A that a thread has.
const ROWS: usize = 2;

/// The role of the load warp: spans of narrow rows of B, and the same K of A.
pub(super) fn load<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let schedule = plan.schedule;
    let [left, right] = [&parameters.operands[0], &parameters.operands[1]];
    let (Some(copies), Some(map), Some(bits)) =
        (left.copies(k, None, scheduler.place()), right.narrow(), right.part.load.narrow_bits())
    else {
        panic!("compiler bug: no maps of operands that are swapped")
    };
    let span_bytes = right.part.span;
    let (stages, pieces_of_span) =
        (k.region(&plan.stages), span_bytes * 8 / bits / right.part.depth);
    let bytes = schedule.tile.columns * span_bytes;
    let at = ring.producer();
    for_tiles(k, parameters, scheduler, |steps, pieces| {
        k.for_(0, steps, pieces_of_span, |step| {
            ring.produce_by_warp(&at, |slot| {
                let stage = stages + slot.stage * schedule.stage_bytes();
                let span = pieces(step)[1];
                let place = [span.depth / (8 / bits), span.first].into_iter();
                let place: Vec<_> =
                    place.chain(span.mapped_batch.places()).map(Into::into).collect();
                slot.load(stage, map, &place, bytes, Receivers::Own, None);
                for piece in 0..pieces_of_span {
                    let to = stage + bytes + piece * schedule.swapped_piece_bytes();
                    copies.issue(slot, to, pieces(step + piece)[0]);
                }
            });
        });
    });
}

/// The role of a warpgroup that only multiplies; the math warpgroup is the last of them.
pub(super) fn help<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
    number: Reg<'k, U32>,
) {
    let multiplier = Multiplier::new(k, plan, parameters, ring, number);
    let at = multiplier.first_slot(ring);
    scheduler.for_each(|work_tile| {
        multiplier.multiply(ring, &at, work_tile);
        multiplier.add_up();
        multiplier.sync();
        multiplier.sync();
    });
}

/// The role of the math warpgroup.
pub(super) fn multiply<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let tile = plan.schedule.tile;
    let rank = k.thread() & 127;
    let multiplier = Multiplier::new(k, plan, parameters, ring, k.imm(tile.multipliers() - 1));
    let warpgroup = WarpgroupIndex::new(k, tile, k.imm(0));
    let epilogue = Epilogue::new(k, plan, parameters, scheduler, warpgroup, rank);
    let slices = Slices::of(k, plan, parameters, (warpgroup, rank));
    let at = multiplier.first_slot(ring);
    let tile_of = |work_tile: &WorkTile<'k>| {
        let prefetched = epilogue.begin(work_tile);
        multiplier.multiply(ring, &at, work_tile);
        multiplier.add_up();
        multiplier.sync();
        if let (Some(slices), Some(slice)) = (&slices, work_tile.slice) {
            // Sums stay where they are until this slice's are added to others, or written.
            multiplier.gather(slices, slice, |sums| {
                epilogue.finish(work_tile, prefetched, &[sums]);
            });
            multiplier.sync();
        } else {
            let sums = multiplier.whole_sums();
            multiplier.sync();
            epilogue.finish(work_tile, prefetched, &[sums]);
        }
    };
    if epilogue.answers_later() {
        let after = |real: Reg<'k, Pred>| epilogue.answer(real);
        scheduler.for_own_and_after(warpgroup.order, tile_of, after);
    } else {
        scheduler.for_own(warpgroup.order, tile_of);
    }
    epilogue.drain();
}

/// A thread's row of narrow elements: where values that they share begin, and what was loaded of them for the next span, by run.
struct Row<'k> {
    bases: Vec<RowBase<'k>>,
    pending: Vec<Vec<Pending<'k>>>,
}

/// A warpgroup that multiplies.
struct Multiplier<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    widened: Widened<'a>,
    /// What elements share, and behind that the block scales of columns.
    values: SharedValues<'k>,
    /// Where block scales begin among those.
    scales: usize,
    bits: u32,
    /// Which part of the spans it has.
    part: Reg<'k, U32>,
    /// Spans of all work tiles before this one, and how far its next span's slot is behind one.
    before: Var<'k, U32>,
    others: Far<'k>,
    /// The first of the thread's two columns in the tile.
    column: Reg<'k, U32>,
    lane: Reg<'k, U32>,
    picks: Picks<'k>,
    /// Bytes to the first unit of the thread's column in a stage.
    first: Reg<'k, U32>,
    form: WgmmaForm,
    /// A's rows in the first stage.
    rows: Descriptor<'k>,
    sums: Vec<Var<'k, F32>>,
    /// Where block scales multiply sums: those of runs.
    run_sums: Option<RunSums<'k>>,
    /// Whether elements are multiplied as 64ths.
    sixty_fourths: bool,
}

/// Sums of one run of K, and their factors in each of the thread's columns.
struct RunSums<'k> {
    sums: Vec<Var<'k, F32>>,
    factors: [Var<'k, F32>; ROWS],
}

impl<'a, 'k> Multiplier<'a, 'k> {
    fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        ring: &Ring<'k, Sm90a>,
        number: Reg<'k, U32>,
    ) -> Self {
        let (schedule, found) = (plan.schedule, widened_operand(plan.graph));
        let widened = found.and_then(|(_, id)| Widened::of(&plan.graph.inputs()[id.0 as usize]));
        let load = parameters.operands[1].part.load;
        let (Some(widened), Some(values), Some(bits)) =
            (widened, parameters.shared_values.as_ref(), load.narrow_bits())
        else {
            panic!("compiler bug: no operand is widened")
        };
        let blocks = schedule.tile.columns / SWAPPED_COLUMNS;
        let (block, part) = (number & (blocks - 1), number / blocks);
        let (warp, lane) = (k.uniform((k.thread() & 127) >> 5), k.thread() & 31);
        let column = block.mad(SWAPPED_COLUMNS, Fragment::row(warp, lane));
        let picks = Picks::new(k, lane);
        let span_bytes = parameters.operands[1].part.span;
        // Lines of 128 bytes are swizzled, of one narrow row or of two.
        let swizzle = (column * span_bytes / LINE_BYTES) & (span_bytes / THREAD_BYTES - 1);
        let first = column.mad(span_bytes, swizzle * THREAD_BYTES);
        // Of 8-bit elements a thread loads the four that its pair is among.
        let first = if bits == 8 { first + Fragment::half_of_group(lane) * 4 } else { first };
        let element: MatrixType = matrix_type(OperandElement::of_product(plan.graph)[0]);
        let form = WgmmaForm::new(schedule.swapped_rows(), element, element);
        let rows = k.region(&plan.stages) + schedule.tile.columns * span_bytes;
        let rows = k.descriptor(rows, DescriptorLayout::K_MAJOR_128);
        let unset = || (0..form.n / 2).map(|_| k.unset()).collect::<Vec<_>>();
        let evaluator = Evaluator { k, plan, parameters };
        let elements = Elements::new(widened, evaluator, &[]);
        let scaled = !parameters.scales.is_empty();
        let run = || RunSums { sums: unset(), factors: [k.unset(), k.unset()] };
        Multiplier {
            k,
            plan,
            parameters,
            widened,
            values: values.with_scales(&parameters.scales),
            scales: values.0.len(),
            bits,
            part,
            before: k.var(0),
            others: ring.far(k.imm(K_PARTS - 1)),
            column,
            lane,
            picks,
            first,
            form,
            rows,
            sums: unset(),
            sixty_fourths: scaled && elements.are_sixty_fourths(),
            run_sums: scaled.then(run),
        }
    }

    /// Bytes of a narrow row of a span.
    fn span_bytes(&self) -> u32 {
        self.parameters.operands[1].part.span
    }

    /// Elements of a span.
    fn span(&self) -> u32 {
        self.span_bytes() * 8 / self.bits
    }

    /// Elements of a span that share all values.
    fn run(&self) -> u32 {
        self.values.run().map_or(self.span(), |run| greatest_divisor(run, self.span()))
    }

    /// Elements of a row that are multiplied at a time: of 4 bits, as many as a thread loads.
    fn chunk(&self) -> u32 {
        let many = self.form.n >= MANY_ROWS && self.bits == 8;
        let most = if many { DEPTH } else { 2 * DEPTH };
        greatest_divisor(self.run(), most)
    }

    /// Where its first span's slot is.
    fn first_slot(&self, ring: &Ring<'k, Sm90a>) -> Consumer<'k> {
        let at = ring.consumer(self.k.thread() & 31);
        ring.skip(&at, &ring.far(self.part));
        at
    }

    /// Whether the slot of the span before is released only when a span's products are under way: while each warpgroup holds one
    /// and waits for one, others have to be on their way.
    fn holds_slot(&self) -> bool {
        self.plan.schedule.swapped_stages() > 2 * K_PARTS
    }

    /// Multiplies all spans of a tile.
    fn multiply(&self, ring: &Ring<'k, Sm90a>, at: &Consumer<'k>, work_tile: &WorkTile<'k>) {
        let k = self.k;
        let batched: Vec<_> =
            self.parameters.operands[1].batched.iter().map(|has| has.load()).collect();
        let own = work_tile.batch.of_operand(&batched);
        let batch = |place: usize| if place < self.scales { own } else { work_tile.batch };
        let pieces = self.span() / self.parameters.operands[1].part.depth;
        let spans = work_tile.steps / pieces;
        // Its slots are as far apart in all work tiles.
        let first = (self.part + self.before.get()) & (K_PARTS - 1);
        self.before.set(self.before.get() + spans);
        let (first, spans) = match work_tile.slice {
            Some(slice) => {
                let begin = slice.first_step / pieces;
                (first + begin, spans + begin)
            }
            None => (first, spans),
        };
        let rows: [Row<'k>; ROWS] = std::array::from_fn(|row| {
            let column = work_tile.column + self.column + row as u32 * Fragment::SECOND_ROW;
            self.begin(batch, column.min(self.parameters.columns - 1), [first, spans])
        });
        // Here, so that ptxas sees that no sum survives from one work tile to the next.
        self.sums.iter().for_each(|sum| sum.set(0.0));
        if let Some(run) = &self.run_sums {
            run.sums.iter().chain(&run.factors).for_each(|sum| sum.set(0.0));
        }
        k.for_(first, spans, K_PARTS, |span| {
            let span = (span, spans);
            if self.holds_slot() {
                ring.consume_releasing(at, |stage, release| {
                    self.span_of(&rows, stage, span, release);
                });
            } else {
                ring.consume(at, |stage| {
                    self.span_of(&rows, stage, span, &|| {});
                    k.wgmma_wait(0);
                });
            }
            ring.skip(at, &self.others);
        });
        k.wgmma_wait(0);
        if self.holds_slot() {
            ring.release_held(at);
        }
        self.add_run();
        if self.sixty_fourths {
            self.sums.iter().for_each(|sum| sum.set(sum.get() * (1.0 / SIXTY_FOURTH)));
        }
    }

    /// Adds the sums of a run of K to the tile's, where wgmma sums runs.
    fn add_run(&self) {
        let Some(run) = &self.run_sums else { return };
        for (place, (sum, more)) in self.sums.iter().zip(&run.sums).enumerate() {
            let factor = run.factors[place % Fragment::GROUP_ELEMENTS / 2];
            sum.set(more.get().fma(factor.get(), sum.get()));
        }
    }

    /// Begins a run of K behind the one before: what elements share there has its factors, of each of the thread's columns.
    fn begin_run(&self, shared: &[Vec<Option<Value<'k>>>; ROWS]) {
        let Some(run) = &self.run_sums else { return };
        self.k.wgmma_wait(0);
        self.add_run();
        for (to, shared) in run.factors.iter().zip(shared) {
            let factors = shared[self.scales..].iter().flatten().map(|value| value.float());
            if let Some(factor) = factors.reduce(|all, factor| all * factor) {
                to.set(factor);
            }
        }
    }

    /// Loads what the elements of a column share in its first span.
    fn begin(
        &self,
        batch: impl Fn(usize) -> Batch<'k>,
        column: Reg<'k, U32>,
        [first, end]: [Reg<'k, U32>; 2],
    ) -> Row<'k> {
        let k = self.k;
        let bases = values::rows(&self.values, k, batch, column);
        let load = |run| values::load(&self.values, k, &bases, self.depth(first, run));
        let pending = (0..self.span() / self.run()).map(load).collect();
        values::prefetch(&self.values, k, &bases, [first, end].map(|span| span * self.span()));
        Row { bases, pending }
    }

    /// The first element along the contraction of a run of a span.
    fn depth(&self, span: Reg<'k, U32>, run: u32) -> Reg<'k, U32> {
        // Behind the last span there is none to load for.
        span.mad(self.span(), self.k.imm(run * self.run())).min(self.parameters.inner - 1)
    }

    /// What elements of a run share, in each of the thread's columns, and loads the same of the span of this number.
    fn take(
        &self,
        rows: &[Row<'k>; ROWS],
        run: u32,
        (next, spans): (Reg<'k, U32>, Reg<'k, U32>),
    ) -> [Vec<Option<Value<'k>>>; ROWS] {
        // Runs lie in every span alike.
        let alike = self.values.runs().all(|run| self.span().is_multiple_of(run));
        rows.each_ref().map(|row| {
            let pending = &row.pending[run as usize];
            let taken = values::take(&self.values, self.k, pending);
            if alike && run == 0 {
                let on = (K_PARTS * self.span(), next.lt(spans));
                values::advance(&self.values, self.k, &row.bases, pending, on);
            } else if alike {
                // One address serves all runs.
                let (both, behind) = ((&pending[..], &row.pending[0][..]), run * self.run());
                values::load_behind(&self.values, self.k, &row.bases, both, behind);
            } else {
                let depth = self.depth(next, run);
                values::reload(&self.values, self.k, &row.bases, pending, depth);
            }
            taken
        })
    }

    /// Multiplies the span of this number, and loads what the elements of the next one share.
    fn span_of(
        &self,
        rows: &[Row<'k>; ROWS],
        stage: Reg<'k, U32>,
        (number, spans): (Reg<'k, U32>, Reg<'k, U32>),
        release: &dyn Fn(),
    ) {
        let k = self.k;
        let stage_bytes = self.plan.schedule.stage_bytes();
        let narrow = k.region(&self.plan.stages) + stage * stage_bytes;
        let right = self.rows.element(stage, stage_bytes);
        let evaluator = Evaluator { k, plan: self.plan, parameters: self.parameters };
        let sums = self.run_sums.as_ref().map_or(&self.sums, |run| &run.sums);
        let mut words = self.words(narrow, 0);
        for run in 0..self.span() / self.run() {
            let shared = self.take(rows, run, (number + K_PARTS, spans));
            let elements =
                shared.each_ref().map(|shared| Elements::new(self.widened, evaluator, shared));
            for first in (run * self.run()..(run + 1) * self.run()).step_by(self.chunk() as usize) {
                let next = first + self.chunk();
                let ahead = (next < self.span()).then(|| self.words(narrow, next));
                let fragments: Vec<_> =
                    words.iter().map(|words| self.fragment(&elements, *words)).collect();
                let begins = self.run_sums.is_some() && first == run * self.run();
                if begins {
                    self.begin_run(&shared);
                }
                k.wgmma_fence();
                for (step, fragment) in (0..).zip(fragments) {
                    let right = right.advance(self.offset(first + step * DEPTH));
                    k.wgmma(&self.form, sums, fragment, right, !begins || step > 0);
                }
                k.wgmma_commit();
                k.wgmma_wait(1);
                if first == 0 {
                    release();
                }
                words = ahead.unwrap_or_default();
            }
        }
    }

    /// The thread's elements of both columns for one step of K, as wgmma takes them.
    fn fragment(
        &self,
        elements: &[Elements<'_, 'k>; ROWS],
        words: [[Reg<'k, B32>; 2]; ROWS],
    ) -> [Reg<'k, B32>; 4] {
        let of_row = |row: usize| {
            if self.sixty_fourths {
                elements[row].fragment_of_64ths(&self.picks, words[row])
            } else {
                elements[row].fragment(&self.picks, words[row])
            }
        };
        let [first, second] = [of_row(0), of_row(1)];
        [first[0], second[0], first[1], second[1]]
    }

    /// Bytes from A's first element of a span to another.
    fn offset(&self, element: u32) -> u32 {
        let depth = self.parameters.operands[1].part.depth;
        let bytes = LINE_BYTES / depth;
        element / depth * self.plan.schedule.swapped_piece_bytes() + element % depth * bytes
    }

    /// Loads a chunk of both columns from an element on: for each step of K, the words that the thread's elements are in.
    fn words(&self, narrow: SharedAddress<'k>, first: u32) -> Vec<[[Reg<'k, B32>; 2]; ROWS]> {
        let k = self.k;
        let (bytes, row_bytes) = (first * self.bits / 8, Fragment::SECOND_ROW * self.span_bytes());
        let at = |unit: u32| {
            let at = narrow + (self.first ^ (bytes + unit * THREAD_BYTES));
            [at, at + row_bytes]
        };
        let word = |from: SharedAddress<'k>| k.load_shared::<B32, 1>(from)[0];
        if self.bits == 8 {
            let words = |from: SharedAddress<'k>| [from, from + THREAD_BYTES / 2].map(word);
            return (0..self.chunk() / DEPTH).map(|step| at(step).map(words)).collect();
        }
        let rows = at(0).map(|from| k.load_shared::<B32, 4>(from));
        (0..2).map(|step| rows.map(|row| [row[2 * step], row[2 * step + 1]])).collect()
    }

    /// The place of a sum of this tile in shared memory.
    fn place(&self, row: Reg<'k, U32>, column: Reg<'k, U32>) -> SharedAddress<'k> {
        let floats = self.plan.schedule.swapped_row_floats();
        self.k.region(&self.plan.partials) + row.mad(floats, column) * 4
    }

    /// Adds up the sums of all parts of the spans: warpgroups of the first write theirs, the others add theirs to them.
    fn add_up(&self) {
        let k = self.k;
        let first = self.place(Fragment::column(self.lane), self.column);
        let row_bytes = self.plan.schedule.swapped_row_floats() * 4;
        // Of each eight rows of A a thread has two neighbours, in both of its columns.
        let places = (0..self.sums.len()).map(|sum| {
            let (group, within) = (sum / Fragment::GROUP_ELEMENTS, sum % Fragment::GROUP_ELEMENTS);
            let row = group as u32 * Fragment::GROUP_COLUMNS + within as u32 % 2;
            first + row * row_bytes + within as u32 / 2 * Fragment::SECOND_ROW * 4
        });
        let places: Vec<SharedAddress<'k>> = places.collect();
        for part in 0..K_PARTS {
            k.if_(self.part.eq(part), || {
                for (sum, place) in self.sums.iter().zip(&places) {
                    let before = (part > 0).then(|| k.load_shared::<F32, 1>(*place)[0]);
                    let own = sum.get();
                    k.store_shared(*place, [before.map_or(own, |before| before + own)]);
                }
            });
            if part + 1 < K_PARTS {
                self.sync();
            }
        }
    }

    /// Lets the math warpgroup of the last slice finish a tile with the sums of all.
    fn gather(
        &self,
        slices: &Slices<'_, 'k>,
        slice: Slice<'k>,
        finish: impl FnOnce(Vec<Var<'k, F32>>),
    ) {
        let k = self.k;
        // A thread has a column of all rows.
        let own = (0..self.form.n).map(|row| self.place(k.imm(row), k.thread() & 127));
        let own: Vec<SharedAddress<'k>> = own.collect();
        let sums = own.iter().map(|place| k.var(k.load_shared::<F32, 1>(*place)[0])).collect();
        slices.gather(slice, &[sums], |all| {
            for (place, sum) in own.iter().zip(&all[0]) {
                k.store_shared(*place, [sum.get()]);
            }
            k.sync_named(MATH_BARRIER, 128);
            finish(self.whole_sums());
        });
    }

    /// All warpgroups that multiply meet.
    fn sync(&self) {
        self.k.sync_named(BARRIER, 128 * self.plan.schedule.tile.multipliers());
    }

    /// The tile's sums as a product leaves them that is not swapped.
    fn whole_sums(&self) -> Vec<Var<'k, F32>> {
        let k = self.k;
        let warp = k.uniform((k.thread() & 127) >> 5);
        let first = Fragment::row(warp, self.lane);
        // Rows behind A's have sums of others, which no output is made of.
        let places = [first, first + Fragment::SECOND_ROW]
            .map(|row| self.place(row & (self.form.n - 1), Fragment::column(self.lane)));
        let group = |group: u32| {
            let rows = places
                .map(|from| k.load_shared::<F32, 2>(from + group * Fragment::GROUP_COLUMNS * 4));
            rows.into_iter().flatten().map(|sum| k.var(sum)).collect::<Vec<_>>()
        };
        let groups = self.plan.schedule.tile.columns / Fragment::GROUP_COLUMNS;
        (0..groups).flat_map(group).collect()
    }
}
