//! Neighbouring elements of a row as they lie in memory: words of 32 bits, loaded and stored up to 16 bytes at a time.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Packed8, Reg};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::types::{B32, Pred, U32};

use crate::dtype::DType;
use crate::graph::{Kind, Node, NodeId};
use crate::lower::table_dims;
use crate::target::sm90::plan::{GatheredRows, column_inputs};

use super::super::chip::EpilogueChip;
use super::super::slot::half_of;
use super::super::values::{Environment, Place, Value, byte_values, scale_code, word_value};
use super::held::{HeldRow, HeldVector, RowWords};
use super::{Elements, RowKernel};

/// Words of one access, and its bytes.
const WORDS: usize = 4;
const BYTES: i64 = 16;
/// The selectors of `prmt` that put two bytes, and two pairs of them, side by side.
const BYTE_PAIR: u32 = 0x40;
const PAIR_OF_PAIRS: u32 = 0x5410;

/// Emits instructions for what is inside, branches excepted.
pub(super) fn where_inside<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    inside: Option<Reg<'k, Pred>>,
    body: impl FnOnce(),
) {
    match inside {
        Some(inside) => k.when(inside, body),
        None => body(),
    }
}

/// Neighbours that are all nan, or of integers 0.
fn word_of_nothing(dtype: DType) -> u32 {
    match dtype {
        DType::F32 | DType::TF32 => 0x7fff_ffff,
        DType::F16 | DType::BF16 => 0x7fff_7fff,
        DType::F8E4M3 | DType::F8E5M2 => 0x7f7f_7f7f,
        DType::F8E8M0 => u32::MAX,
        DType::I8
        | DType::U8
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::I4
        | DType::U4
        | DType::B1 => 0,
    }
}

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Words of a vector.
    pub(super) fn words(&self, dtype: DType) -> usize {
        self.needs.vector as usize * dtype.bits() / 32
    }

    /// The words of a vector of a row that begins here.
    fn load_vector(
        &self,
        dtype: DType,
        start: GlobalPointer<'k>,
        vector: &HeldVector<'k>,
        cache: LoadCache,
    ) -> Vec<Reg<'k, B32>> {
        let (k, from) = (self.k, vector.address(start, dtype.bits() as u32 / 8));
        match self.words(dtype) {
            1 => k.load_global::<B32, 1>(from, cache).to_vec(),
            2 => k.load_global::<B32, 2>(from, cache).to_vec(),
            count => (0..(count / WORDS) as i64)
                .flat_map(|part| k.load_global::<B32, WORDS>(from.offset(part * BYTES), cache))
                .collect(),
        }
    }

    /// Issues the loads of a row.
    pub(super) fn load_row(&self, row: &HeldRow<'k>) -> RowWords<'k> {
        let of_operand = |input| {
            let memory = self.parameters.memory(input);
            let start = memory.element_of_row(self.k, (row.batch, row.at, row.at)).pointer();
            let of_vector = |vector: &HeldVector<'k>| {
                self.load_vector(memory.dtype, start, vector, LoadCache::ReadOnlyStreaming)
            };
            row.vectors.iter().map(of_vector).collect()
        };
        self.plan.program.tile_operands.iter().copied().map(of_operand).collect()
    }

    /// Loads what elements have of gathered rows; nan, of integers 0, where an index is out of range.
    pub(super) fn gather(
        &self,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
        elements: &mut Elements<'k>,
    ) {
        let (k, evaluator) = (self.k, self.evaluator());
        for GatheredRows { node, table, index } in &self.gathered {
            let memory = self.parameters.memory(*table);
            let Some(at) = environment[index.index()] else {
                panic!("compiler bug: an index that is not known")
            };
            let at = at.integer().cast::<U32>();
            let inside = at.lt(evaluator.size(&table_dims(self.plan.graph, *table)[0]));
            let start = memory.element_of_row(k, (self.parameters.batch_dims.at(k.imm(0)), at, at));
            let (start, nothing) = (start.pointer(), word_of_nothing(memory.dtype));
            let words: Vec<_> = (row.vectors.iter())
                .map(|vector| self.load_vector_if(inside, memory.dtype, start, vector, nothing))
                .collect();
            for (elements, words) in elements.iter_mut().zip(words) {
                let values = self.unpack_vector(memory.dtype, &words);
                for (element, value) in elements.iter_mut().zip(values) {
                    element[node.index()] = Some(value);
                }
            }
        }
    }

    /// The words of a vector of a row that begins here, where there is one.
    fn load_vector_if(
        &self,
        inside: Reg<'k, Pred>,
        dtype: DType,
        start: GlobalPointer<'k>,
        vector: &HeldVector<'k>,
        nothing: u32,
    ) -> Vec<Reg<'k, B32>> {
        let (k, from) = (self.k, vector.address(start, dtype.bits() as u32 / 8));
        let cache = LoadCache::ReadOnly;
        match self.words(dtype) {
            1 => k.load_global_if::<B32, 1>(inside, from, cache, nothing).to_vec(),
            2 => k.load_global_if::<B32, 2>(inside, from, cache, nothing).to_vec(),
            count => (0..(count / WORDS) as i64)
                .flat_map(|part| {
                    let from = from.offset(part * BYTES);
                    k.load_global_if::<B32, WORDS>(inside, from, cache, nothing)
                })
                .collect(),
        }
    }

    /// Stores a vector where it is inside.
    pub(super) fn store_vector(
        &self,
        dtype: DType,
        start: GlobalPointer<'k>,
        vector: &HeldVector<'k>,
        words: &[Reg<'k, B32>],
        inside: Option<Reg<'k, Pred>>,
    ) {
        let (k, to) = (self.k, vector.address(start, dtype.bits() as u32 / 8));
        where_inside(k, inside, || match *words {
            [word] => k.store_global(to, [word]),
            [low, high] => k.store_global(to, [low, high]),
            _ => {
                for (part, words) in (0..).zip(words.chunks_exact(WORDS)) {
                    let four = [words[0], words[1], words[2], words[3]];
                    k.store_global(to.offset(part * BYTES), four);
                }
            }
        });
    }

    /// The elements of a vector.
    pub(super) fn unpack_vector(&self, dtype: DType, words: &[Reg<'k, B32>]) -> Vec<Value<'k>> {
        let k = self.k;
        let of_word = |word: &Reg<'k, B32>| -> Vec<Value<'k>> {
            if let Some(half) = half_of(dtype) {
                return k.unpack_halves(half, *word).map(Value::Float).to_vec();
            }
            if dtype.bits() == 32 {
                return vec![word_value(k, dtype, k.bits_to_f32(*word))];
            }
            let pairs = [word.cast() & 0xffff, word.cast() >> 16];
            pairs.into_iter().flat_map(|pair| byte_values(k, dtype, pair)).collect()
        };
        words.iter().flat_map(of_word).collect()
    }

    /// Elements as they are stored.
    pub(super) fn pack_vector(&self, dtype: DType, values: &[Value<'k>]) -> Vec<Reg<'k, B32>> {
        let k = self.k;
        if let Some(half) = half_of(dtype) {
            let pack = |pair: &[Value<'k>]| k.pack_halves(half, pair[0].float(), pair[1].float());
            return values.chunks_exact(2).map(pack).collect();
        }
        let bytes = |byte: &dyn Fn(Value<'k>) -> Reg<'k, B32>| -> Vec<Reg<'k, B32>> {
            let pack = |four: &[Value<'k>]| {
                let pair = |at: usize| byte(four[at]).permute(byte(four[at + 1]), BYTE_PAIR);
                pair(0).permute(pair(2), PAIR_OF_PAIRS)
            };
            values.chunks_exact(4).map(pack).collect()
        };
        let eighths = |format: Packed8| {
            let pack = |four: &[Value<'k>]| {
                let pair =
                    |at: usize| k.pack_float8(format, four[at].float(), four[at + 1].float());
                k.pack16(pair(0), pair(2))
            };
            values.chunks_exact(4).map(pack).collect()
        };
        match dtype {
            DType::F32 | DType::TF32 => {
                values.iter().map(|value| k.f32_to_bits(value.float())).collect()
            }
            DType::I32 => values.iter().map(|value| value.integer().cast()).collect(),
            DType::F8E4M3 => eighths(Packed8::E4M3),
            DType::F8E5M2 => eighths(Packed8::E5M2),
            DType::F8E8M0 => bytes(&|value| scale_code(k, value.float()).cast()),
            DType::I8 | DType::U8 => bytes(&|value| value.integer().cast()),
            DType::Bool => bytes(&|value| k.imm::<B32>(1).select(0, value.truth())),
            DType::I64 | DType::F16 | DType::BF16 | DType::I4 | DType::U4 | DType::B1 => {
                panic!("compiler bug: words of {dtype}")
            }
        }
    }

    /// What is known along the columns of a vector, where some of these values need it: inputs are read as vectors.
    pub(super) fn along_columns(
        &self,
        row: &HeldRow<'k>,
        vector: &HeldVector<'k>,
        environment: &Environment<'k>,
        only: &[bool],
    ) -> Option<Vec<Environment<'k>>> {
        let (k, graph) = (self.k, self.plan.graph);
        let mut nodes = graph.nodes().filter(|(_, node)| node.ty.axes.kind() == Kind::AlongColumns);
        if !nodes.any(|(id, _)| only[id.index()]) {
            return None;
        }
        let evaluator = self.evaluator();
        let mut known: Vec<Environment<'k>> =
            vec![vec![None; graph.len()]; self.needs.vector as usize];
        for input in column_inputs(self.plan.program) {
            let memory = self.parameters.memory(input);
            let at = (row.batch, k.imm(0), vector.read);
            let start = memory.element_of_row(k, at).pointer();
            let words = self.load_vector(memory.dtype, start, vector, LoadCache::ReadOnly);
            let values = self.unpack_vector(memory.dtype, &words);
            let Some(id) = graph.input_node(input) else { continue };
            for (known, value) in known.iter_mut().zip(&values) {
                known[id.index()] = Some(*value);
            }
        }
        let scalars = |(_, node): &(NodeId, &Node)| node.ty.axes.kind() == Kind::Scalar;
        for (place, known) in known.iter_mut().enumerate() {
            for (id, _) in graph.nodes().filter(scalars) {
                known[id.index()] = environment[id.index()];
            }
            let column = if self.indexed { vector.read + place as u32 } else { vector.read };
            let place = Place { at: (row.batch, k.imm(0), column), inside: None };
            evaluator.extend_column(known, &place);
        }
        Some(known)
    }
}
