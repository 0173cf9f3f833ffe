//! An operand that load warps compute from narrower elements.
//!
//! In: slots of rows of 128 bytes, swizzled, as TMA loads them: several stages' K. Out: 16-bit elements in a stage. A lane
//! widens 16 bytes of one row: it decodes elements to f32, applies the operand's graph, and rounds.
//! Invariant: a lane's elements share all values but themselves, and those are loaded a stage ahead.

mod decode;
mod elements;
pub(super) mod values;

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, U32};

use crate::target::sm90::plan::{SPAN_BYTES, THREAD_BYTES, Widened};

use super::operand::{LINE_BYTES, Part, Piece};
use super::shared_values::SharedValues;
use super::values::{Evaluator, Value};
pub(super) use decode::{Picks, SIXTY_FOURTH};
pub(super) use elements::Elements;
use values::{Pending, RowBase};

/// Bytes of a chunk of a stage's row, and its elements of 16 bits.
const CHUNK_BYTES: u32 = 16;
const CHUNK: usize = 8;

/// A load warp that widens rows.
pub(super) struct Widener<'a, 'k> {
    pub(super) k: Kernel<'k, Sm90a>,
    pub(super) part: Part,
    pub(super) widened: Widened<'a>,
    pub(super) values: &'a SharedValues<'k>,
    pub(super) evaluator: Evaluator<'a, 'k, Sm90a>,
    pub(super) lane: Reg<'k, U32>,
    /// Warps that widen, and this one's number among them.
    pub(super) warps: u32,
    pub(super) warp: Reg<'k, U32>,
    /// Elements of the contraction.
    pub(super) inner: Reg<'k, U32>,
    /// Whether spans begin at multiples of their elements.
    pub(super) aligned: bool,
}

/// A warp's rows of a tile: for each of its rounds, where shared values of the lane's row begin, and what was loaded of them.
pub(super) struct Rows<'k> {
    rounds: Vec<(Vec<RowBase<'k>>, Vec<Vec<Pending<'k>>>)>,
}

impl<'k> Widener<'_, 'k> {
    fn bits(&self) -> u32 {
        self.part.load.narrow_bits().unwrap_or(8)
    }

    /// Stages of a slot.
    pub(super) fn stages(&self) -> u32 {
        SPAN_BYTES * 8 / self.bits() / self.part.depth
    }

    /// Narrow elements of a byte.
    pub(super) fn elements_of_byte(&self) -> u32 {
        8 / self.bits()
    }

    /// Lanes that widen one row of a stage.
    fn lanes(&self) -> u32 {
        SPAN_BYTES / self.stages() / THREAD_BYTES
    }

    /// Rows that a warp widens at a time.
    fn unit(&self) -> u32 {
        32 / self.lanes()
    }

    /// How often a warp widens rows of one stage.
    fn rounds(&self) -> u32 {
        (self.part.size / self.unit()).div_ceil(self.warps)
    }

    /// The lane's row of the tile at a round, and its place among the lanes of the row.
    fn place(&self, round: u32) -> [Reg<'k, U32>; 2] {
        let unit = self.warp + round * self.warps;
        [unit.mad(self.unit(), self.lane & (self.unit() - 1)), self.lane / self.unit()]
    }

    /// The first element of the lane's along the contraction, in a stage of a span.
    fn first(&self, span: Piece<'k>, stage: u32) -> Reg<'k, U32> {
        let lane = (self.lane / self.unit()).mad(THREAD_BYTES * 8 / self.bits(), span.depth);
        // Behind the last span there is none to load for.
        (lane + stage * self.part.depth).min(self.inner - 1)
    }

    /// The stages of a span whose shared values are loaded: others have those of the last one of these before.
    fn loads(&self) -> Vec<u32> {
        let (stages, depth) = (self.stages(), self.part.depth);
        let apart = match self.values.run().filter(|run| run % (stages * depth) != 0) {
            None => stages,
            // Runs begin where stages do, and end where spans do.
            Some(run) if run % depth == 0 && (stages * depth) % run == 0 => run / depth,
            Some(_) => 1,
        };
        let apart = if self.aligned { apart } else { 1 };
        (0..self.stages()).filter(|stage| stage.is_multiple_of(apart)).collect()
    }

    /// Begins a tile whose first span is this piece; `rows` is how many the operand has.
    pub(super) fn begin(&self, span: Piece<'k>, rows: Reg<'k, U32>) -> Rows<'k> {
        let round = |round: u32| {
            let [row, _] = self.place(round);
            let row = (span.first + row).min(rows - 1);
            let bases = values::rows(self.values, self.k, |_| span.batch, row);
            let load = |stage| values::load(self.values, self.k, &bases, self.first(span, stage));
            let pending = self.loads().into_iter().map(load).collect();
            (bases, pending)
        };
        Rows { rounds: (0..self.rounds()).map(round).collect() }
    }

    /// Widens this warp's rows of a span, `count` stages of it, and loads what the one at `next` will share.
    pub(super) fn widen(
        &self,
        rows: &Rows<'k>,
        next: Piece<'k>,
        slot: SharedAddress<'k>,
        (count, stages): (Reg<'k, U32>, &[SharedAddress<'k>]),
    ) {
        let (k, units) = (self.k, self.part.size / self.unit());
        let loads = self.loads();
        for (round, (bases, pending)) in (0..).zip(&rows.rounds) {
            let body = || {
                let shared: Vec<_> =
                    pending.iter().map(|one| values::take(self.values, k, one)).collect();
                for (stage, pending) in loads.iter().zip(pending) {
                    values::reload(self.values, k, bases, pending, self.first(next, *stage));
                }
                let stage = |(number, to): (u32, &SharedAddress<'k>)| {
                    let own = loads.iter().rposition(|load| *load <= number).unwrap_or(0);
                    self.widen_row(round, &shared[own], (slot, number), *to);
                };
                let all = || (0..).zip(stages);
                k.if_else(
                    count.eq(stages.len() as u32),
                    || all().for_each(stage),
                    || all().for_each(|each| k.if_(count.gt(each.0), || stage(each))),
                );
            };
            if (round + 1) * self.warps <= units {
                body();
            } else {
                k.if_((self.warp + round * self.warps).lt(units), body);
            }
        }
    }

    fn widen_row(
        &self,
        round: u32,
        shared: &[Option<Value<'k>>],
        (slot, within): (SharedAddress<'k>, u32),
        stage: SharedAddress<'k>,
    ) {
        let (k, [row, column]) = (self.k, self.place(round));
        let line = row * LINE_BYTES;
        let swizzle = row & (LINE_BYTES / CHUNK_BYTES - 1);
        let from = (column + within * self.lanes()) ^ swizzle;
        let words = k.load_shared::<B32, 4>(slot + from.mad(THREAD_BYTES, line));
        let chunks = THREAD_BYTES * 8 / self.bits() / CHUNK as u32;
        let to = ((column * chunks) ^ swizzle).mad(CHUNK_BYTES, line);
        let elements = Elements::new(self.widened, self.evaluator, shared);
        let per_chunk = words.len() / chunks as usize;
        for (chunk, words) in (0..).zip(words.chunks(per_chunk)) {
            let stored = elements.packed(&|narrow, less| narrow.decode(k, words, less));
            let stored: [Reg<'k, B32>; CHUNK / 2] = std::array::from_fn(|pair| stored[pair]);
            let to = if chunk == 0 { to } else { to ^ (chunk * CHUNK_BYTES) };
            k.store_shared(stage + self.part.offset + to, stored);
        }
    }
}
