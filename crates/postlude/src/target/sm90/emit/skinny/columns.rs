//! Columns of B as `mma` takes them: as they lie, or computed from narrower elements.
//!
//! In: a lane's words of a chunk. Out: pairs of 16-bit elements, and the factors of sums of a run of K. A lane loads the values
//! that a column's elements share for all lanes, a chunk ahead, and leaves them behind the chunk's pieces.

use std::cell::Cell;

use postlude_ptx::kernel::{Kernel, MatrixType, Packed8, Reg, SharedAddress};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, S32, U32};

use crate::dtype::Elem;
use crate::graph::greatest_divisor;
use crate::target::sm90::emit::fragment::Fragment;
use crate::target::sm90::emit::mma::matrix_type;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::shared_values::{SharedGiven, SharedValue, SharedValues};
use crate::target::sm90::emit::tile_scheduler::WorkTile;
use crate::target::sm90::emit::values::{Evaluator, Value};
use crate::target::sm90::emit::widen::Elements;
use crate::target::sm90::emit::widen::values::{self, Pending, RowBase};
use crate::target::sm90::plan::{
    MMA_COLUMNS, OperandElement, Skinny, WARP_COLUMNS, Widened, widened_operand,
};

use super::ring::{Chunk, Stream, WarpPlace};

/// Narrow elements that are computed at a time.
const EIGHT: usize = 8;

/// How a lane gets its columns' elements.
pub(super) struct Columns<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    shape: Skinny,
    widened: Option<Widened<'a>>,
    /// What elements share, and behind that the block scales of columns.
    values: SharedValues<'k>,
    /// Where block scales begin among those.
    scales: usize,
    warp: WarpPlace<'k>,
    sixty_fourths: bool,
    /// The formats of 8-bit floats, which are multiplied in half precision: it holds their products.
    floats: Option<[Packed8; 2]>,
}

/// The elements of a block's columns for a lane: pairs along K of both, and the factors of their sums.
pub(super) struct Fragments<'k> {
    pub(super) columns: [Vec<Reg<'k, B32>>; 2],
    pub(super) factors: [Option<Reg<'k, F32>>; 2],
}

/// What elements of a tile's columns share: of each of the lane's columns and runs of a chunk.
pub(super) struct TileValues<'k> {
    shared: Vec<ColumnValues<'k>>,
}

struct ColumnValues<'k> {
    run: u32,
    bases: Vec<RowBase<'k>>,
    /// Loaded for the first chunks, and for the one that is copied next.
    ahead: Vec<Vec<Pending<'k>>>,
}

impl<'a, 'k> Columns<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        shape: Skinny,
        warp: WarpPlace<'k>,
    ) -> Self {
        let widened = widened_operand(plan.graph);
        let widened = widened.and_then(|(_, id)| Widened::of(&plan.graph.inputs()[id.0 as usize]));
        let none = SharedValues(Vec::new());
        let values = parameters.shared_values.as_ref().unwrap_or(&none);
        let scales = values.0.len();
        let values = values.with_scales(&parameters.scales);
        let all = Columns {
            k,
            plan,
            parameters,
            shape,
            widened,
            values,
            scales,
            warp,
            sixty_fourths: false,
            floats: floats(OperandElement::of_product(plan.graph)),
        };
        let sixty_fourths = all.elements(&[]).is_some_and(|it| it.are_sixty_fourths());
        Columns { sixty_fourths: sixty_fourths && all.scales_sums(), ..all }
    }

    fn elements<'e>(&'e self, shared: &'e [Option<Value<'k>>]) -> Option<Elements<'e, 'k>> {
        let evaluator = Evaluator { k: self.k, plan: self.plan, parameters: self.parameters };
        self.widened.map(|widened| Elements::new(widened, evaluator, shared))
    }

    /// What columns and rows are made of.
    pub(super) fn matrix_types(&self) -> [MatrixType; 2] {
        let [rows, columns] = OperandElement::of_product(self.plan.graph);
        self.floats.map_or([columns, rows].map(matrix_type), |_| [MatrixType::F16; 2])
    }

    /// Elements of 8-bit floats in half precision.
    fn halves(&self, format: Packed8, words: &[Reg<'k, B32>]) -> Vec<Reg<'k, B32>> {
        let pairs = words.iter().flat_map(|word| self.k.unpack16(*word));
        pairs.map(|pair| self.k.unpack_float8(format, pair)).collect()
    }

    /// Whether block scales multiply sums.
    pub(super) fn scales_sums(&self) -> bool {
        !self.parameters.scales.is_empty()
    }

    /// Whether elements are multiplied as 64ths.
    pub(super) fn are_sixty_fourths(&self) -> bool {
        self.sixty_fourths
    }

    /// Units of a chunk's K: a lane has elements of one side by side, whose sums have one factor.
    pub(super) fn units(&self) -> u32 {
        let runs = self.parameters.scales.iter().map(|scale| scale.run);
        let run = runs.fold(self.shape.depth(), greatest_divisor);
        (self.shape.depth() / run).max(2)
    }

    /// Runs of a chunk's K that share all values.
    fn runs(&self) -> u32 {
        let run = self.values.run().unwrap_or(0);
        self.shape.depth() / greatest_divisor(run, self.shape.depth())
    }

    /// The first element along the contraction of a run of a chunk.
    fn depth(&self, number: Reg<'k, U32>, run: u32) -> Reg<'k, U32> {
        let within = run * (self.shape.depth() / self.runs());
        // Behind the last chunk there is none to load for.
        number.mad(self.shape.depth(), within).min(self.parameters.inner.max(1) - 1)
    }

    /// Begins a tile.
    pub(super) fn begin(
        &self,
        stream: &Stream<'_, '_, 'k>,
        work_tile: &WorkTile<'k>,
    ) -> TileValues<'k> {
        if self.shape.words == 0 {
            return TileValues { shared: Vec::new() };
        }
        let k = self.k;
        let batched: Vec<_> =
            self.parameters.operands[1].batched.iter().map(|has| has.load()).collect();
        let own = work_tile.batch.of_operand(&batched);
        let batch = |place: usize| if place < self.scales { own } else { work_tile.batch };
        let column = work_tile.column + (self.warp.column() + self.warp.lane);
        let column = column.min(self.parameters.columns.max(1) - 1);
        let bases = values::rows(&self.values, k, batch, column);
        let shared = (0..self.runs()).map(|run| {
            let numbers = stream.numbers(1);
            let load = |number| values::load(&self.values, k, &bases, self.depth(number, run));
            ColumnValues { run, bases: bases.clone(), ahead: numbers.map(load).collect() }
        });
        TileValues { shared: shared.collect() }
    }

    /// Leaves what the elements of a chunk share behind its pieces: of one of the first, or of one for which it was loaded
    /// beside the one before.
    pub(super) fn keep(
        &self,
        all: &TileValues<'k>,
        first: Option<u32>,
        (number, chunk): (Reg<'k, U32>, &Chunk<'k>),
    ) {
        let k = self.k;
        for one in &all.shared {
            let last = one.ahead.len() - 1;
            let pending = &one.ahead[first.map_or(last, |first| first as usize)];
            let words = values::take(&self.values, k, pending);
            let mut place = 0;
            for (shared, word) in self.values.0.iter().zip(words) {
                let Some(word) = word.filter(|_| shared.as_ref().is_some_and(in_memory)) else {
                    continue;
                };
                let bits = match word {
                    Value::Float(value) => k.f32_to_bits(value),
                    Value::Integer(value) => value.cast(),
                    Value::Truth(_) => panic!("compiler bug: a condition is shared"),
                };
                let at = self.word(chunk, place, one.run) + self.warp.lane * 4;
                k.store_shared(at, [bits]);
                place += 1;
            }
            if first.is_none() {
                let next = number + self.shape.parts();
                values::reload(&self.values, k, &one.bases, pending, self.depth(next, one.run));
            }
        }
    }

    /// Where the words of a value begin, of all columns in a run.
    fn word(&self, chunk: &Chunk<'k>, value: u32, run: u32) -> SharedAddress<'k> {
        let words = (value * self.runs() + run) * WARP_COLUMNS;
        chunk.words() + words * 4
    }

    /// A row's words, in the order in which columns have their elements.
    pub(super) fn rows(&self, words: &[Reg<'k, B32>]) -> Vec<Reg<'k, B32>> {
        if let Some([format, _]) = self.floats {
            return self.halves(format, words);
        }
        let apart = self.elements(&[]).is_some_and(|it| it.pairs_apart(self.sixty_fourths));
        if !apart {
            return words.to_vec();
        }
        // The lower halves of two words, and the upper ones.
        let pair = |low: Reg<'k, B32>, high: Reg<'k, B32>| {
            [0x5410_u32, 0x7632].map(|halves| low.permute(high, halves))
        };
        let eight =
            |words: &[Reg<'k, B32>]| [pair(words[0], words[2]), pair(words[1], words[3])].concat();
        words.chunks(EIGHT / 2).flat_map(eight).collect()
    }

    /// A block's elements in a unit of a chunk.
    pub(super) fn fragments(
        &self,
        chunk: &Chunk<'k>,
        (block, unit): (u32, u32),
        words: &[Vec<Reg<'k, B32>>; 2],
    ) -> Fragments<'k> {
        let both = [0, 1].map(|half| {
            let column = block * MMA_COLUMNS + half * Fragment::SECOND_ROW;
            let shared = self.shared(chunk, unit, column);
            let factors = shared[self.scales..].iter().flatten().map(|value| value.float());
            let factor = factors.reduce(|all, factor| all * factor);
            let words = &words[half as usize];
            let elements = self.elements(&shared[..self.scales]);
            let pairs = match (&elements, self.floats) {
                (Some(elements), _) => {
                    let eights = words.chunks(EIGHT * self.shape.bits as usize / 32);
                    eights.flat_map(|words| elements.eight(words, self.sixty_fourths)).collect()
                }
                (None, Some([_, format])) => self.halves(format, words),
                (None, None) => words.clone(),
            };
            (pairs, factor)
        });
        let [(first, first_factor), (second, second_factor)] = both;
        Fragments { columns: [first, second], factors: [first_factor, second_factor] }
    }

    /// What the elements of one of the lane's columns share.
    fn shared(&self, chunk: &Chunk<'k>, unit: u32, column: u32) -> Vec<Option<Value<'k>>> {
        let (k, runs) = (self.k, self.runs());
        let quarter = Fragment::lane_in_row(self.warp.lane);
        // Runs of the lane's elements, behind the unit's first.
        let within = match runs / self.units() {
            0 | 1 => k.imm(0),
            each => quarter * each / Fragment::LANES_OF_ROW as u32,
        };
        let own = within.mad(WARP_COLUMNS, self.warp.column_in_eight() + column);
        let first = unit * runs / self.units();
        let place = Cell::new(0);
        let value = |shared: &Option<SharedValue<'k>>| {
            let shared = shared.as_ref()?;
            if !in_memory(shared) {
                return values::host_value(k, shared);
            }
            let at = self.word(chunk, place.replace(place.get() + 1), first);
            let at = at + own * 4;
            Some(match shared.dtype.elem() {
                Elem::F32 => Value::Float(k.load_shared::<F32, 1>(at)[0]),
                Elem::I32 | Elem::Bool => Value::Integer(k.load_shared::<S32, 1>(at)[0]),
            })
        };
        self.values.0.iter().map(value).collect()
    }
}

/// The formats of operands of 8-bit floats.
fn floats(elements: [OperandElement; 2]) -> Option<[Packed8; 2]> {
    let format = |element| match element {
        OperandElement::E4M3 => Some(Packed8::E4M3),
        OperandElement::E5M2 => Some(Packed8::E5M2),
        OperandElement::F16
        | OperandElement::BF16
        | OperandElement::I8
        | OperandElement::U8
        | OperandElement::TF32
        | OperandElement::F32 => None,
    };
    Some([format(elements[0])?, format(elements[1])?])
}

/// Whether a value lies in memory.
fn in_memory(shared: &SharedValue<'_>) -> bool {
    matches!(shared.given, SharedGiven::Memory { .. })
}
