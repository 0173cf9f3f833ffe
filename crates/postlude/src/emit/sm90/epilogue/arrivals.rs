//! Tile operands on their way in: from the load warps' slots, or straight from memory.

use postlude_ptx::kernel::{GlobalPointer, Half, Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::{LoadCache, Transposition};
use postlude_ptx::ring::{Consumer, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, U32};

use crate::dtype::DType;
use crate::graph::InputId;
use crate::plan::sm90::{Path, tile_operands};

use super::super::Plan;
use super::super::parameters::{Parameters, Source};
use super::super::values::{Evaluator, Value};
use super::lanes::{Lanes, Places};
use super::lattice::Lattice;
use super::{Spot, Subtile};

/// What a thread reads of a subtile: for each operand and group of 8 columns, two columns of its two rows.
pub(super) struct Arrived<'k>(Vec<(InputId, Vec<[Value<'k>; 4]>)>);

impl<'k> Arrived<'k> {
    /// The values of one element of a group.
    pub(super) fn element(
        &self,
        group: usize,
        element: usize,
    ) -> impl Iterator<Item = (InputId, Value<'k>)> {
        self.0.iter().map(move |(input, groups)| (*input, groups[group][element]))
    }
}

/// The tile operands of a warpgroup.
pub(super) struct Arrivals<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    lattice: Lattice,
    operands: Vec<(InputId, DType, Path)>,
    ring: Option<(Ring<'k, Sm90a>, Consumer<'k>, SharedAddress<'k>)>,
}

impl<'a, 'k> Arrivals<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: Reg<'k, U32>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let operands: Vec<(InputId, DType, Path)> = tile_operands(plan.graph)
            .into_iter()
            .zip(&plan.schedule.needs.loads)
            .map(|(input, path)| (input, plan.graph.inputs()[input.0 as usize].dtype, *path))
            .collect();
        let ring = (plan.schedule.load_bytes() > 0).then(|| {
            let ring = plan.arrivals(k, warpgroup);
            let at = ring.consumer(rank & 31);
            let bytes = plan.schedule.load_stages * plan.schedule.slot_bytes();
            (ring, at, k.region(&plan.loads) + warpgroup * bytes)
        });
        let lattice = Lattice::new(plan.schedule);
        Arrivals { k, plan, parameters, lattice, operands, ring }
    }

    /// Where a block's elements of the direct operands lie: for each operand, the thread's first column of its two rows.
    pub(super) fn pointers(&self, spot: &Spot<'k>) -> Vec<Option<[GlobalPointer<'k>; 2]>> {
        let of = |(input, _, path): &(InputId, DType, Path)| match path {
            Path::Map => None,
            Path::Contiguous | Path::Strided => {
                let memory = self.parameters.memory(*input);
                Some(spot.rows.map(|row| memory.element(self.k, [spot.batch, row, spot.column])))
            }
        };
        self.operands.iter().map(of).collect()
    }

    /// Reads a subtile of every operand.
    pub(super) fn read(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        lanes: &Lanes<'k>,
        spot: &Spot<'k>,
        subtile: Subtile,
    ) -> Arrived<'k> {
        let read = |(place, (input, dtype, path)): (usize, &(InputId, DType, Path))| {
            let values = match (path, spot.loads[place]) {
                (Path::Contiguous | Path::Strided, Some(pointers)) => {
                    self.read_direct(evaluator, *input, *dtype, *path, pointers, spot, subtile)
                }
                (Path::Map | Path::Contiguous | Path::Strided, _) => {
                    self.read_slots(lanes, *dtype, subtile)
                }
            };
            (*input, values)
        };
        Arrived(self.operands.iter().enumerate().map(read).collect())
    }

    /// From one slot of a 16-bit operand, or two of a 32-bit one.
    fn read_slots(&self, lanes: &Lanes<'k>, dtype: DType, subtile: Subtile) -> Vec<[Value<'k>; 4]> {
        let Some((ring, at, slots)) = &self.ring else {
            panic!("compiler bug: a slot without a ring")
        };
        let k = self.k;
        let groups = subtile.columns / 8;
        let mut values = Vec::new();
        let half = match dtype {
            DType::F16 => Some(Half::F16),
            DType::BF16 => Some(Half::BF16),
            _ => None,
        };
        for _ in 0..if half.is_some() { 1 } else { 2 } {
            ring.consume(at, |stage| {
                let start = *slots + stage * self.plan.schedule.slot_bytes();
                let places = lanes.within(start);
                if let (Some(half), true) = (half, self.lattice.has_chunks()) {
                    values = self.read_chunks(&places, half);
                } else if let Some(half) = half {
                    for access in 0..groups / 2 {
                        let four = k.load_matrices::<4>(places.matrix(access), Transposition::None);
                        let pairs = four.map(|pair| k.unpack_halves(half, pair));
                        for [first, second] in [[pairs[0], pairs[1]], [pairs[2], pairs[3]]] {
                            values
                                .push([first[0], first[1], second[0], second[1]].map(Value::Float));
                        }
                    }
                } else {
                    for group in 0..groups / 2 {
                        let [first, second] =
                            places.pairs(group).map(|from| k.load_shared::<F32, 2>(from));
                        values.push([first[0], first[1], second[0], second[1]].map(Value::Float));
                    }
                }
            });
        }
        values
    }

    /// A 16-bit slot whose rows a thread has in chunks.
    fn read_chunks(&self, places: &Places<'k>, half: Half) -> Vec<[Value<'k>; 4]> {
        let k = self.k;
        let chunks = places.chunks().map(|from| {
            let pairs = k.load_shared::<B32, 4>(from).map(|pair| k.unpack_halves(half, pair));
            pairs.concat()
        });
        let group = |group: usize| std::array::from_fn(|each| Value::Float(chunks[each][group]));
        (0..8).map(group).collect()
    }

    #[allow(clippy::too_many_arguments)] // All of them say where the elements are.
    fn read_direct(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        input: InputId,
        dtype: DType,
        path: Path,
        pointers: [GlobalPointer<'k>; 2],
        spot: &Spot<'k>,
        subtile: Subtile,
    ) -> Vec<[Value<'k>; 4]> {
        let memory = self.parameters.memory(input);
        let group = |group: u32| {
            std::array::from_fn(|element| {
                let column = self.lattice.column(subtile.offset, group, element as u32 % 2);
                let from = memory.along(pointers[element / 2], path, column);
                let inside = spot.inside_rows[element / 2] & spot.remaining.gt(column);
                // An output may lie in the same memory.
                evaluator.load(dtype, from, Some(inside), LoadCache::Default)
            })
        };
        (0..subtile.columns / 8).map(group).collect()
    }
}

impl<'k> Parameters<'k> {
    /// The memory of an input that is read directly.
    fn memory(&self, input: InputId) -> &super::super::parameters::Memory<'k> {
        match self.sources.iter().find(|(id, _)| *id == input) {
            Some((_, Source::Memory(memory))) => memory,
            Some((_, Source::Host(_) | Source::Map(_))) | None => {
                panic!("compiler bug: input {} is not read directly", input.0)
            }
        }
    }
}
