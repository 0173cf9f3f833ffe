//! Epilogue loads: tile operands from the slots that a load warp fills by TMA, or directly from memory.

use postlude_ptx::kernel::{Half, Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::ring::{Borrowed, Consumer, Ring};
use postlude_ptx::types::U32;

use crate::dtype::DType;
use crate::graph::{Concat, Dependence, InputId};
use crate::placement::Major;
use crate::target::sm90::plan::EpilogueTransfer;

use super::super::chip::EpilogueChip;
use super::super::memory::{Location, Memory};
use super::super::parameters::{Parameters, Source};
use super::super::plan::Plan;
use super::super::slot::{SlotLayout, half_of};
use super::super::values::{Evaluator, Value, byte_values, run_of_row, word_value};
use super::super::warpgroup::WarpgroupIndex;
use super::lanes::{Lanes, Packed, SlotAccess};
use super::thread::{EpilogueTile, ThreadCoordinate};

/// What a thread has loaded of an epilogue tile: for each operand and group of 8 columns, two columns of its two rows.
pub(super) struct LoadedOperands<'k> {
    operands: Vec<(InputId, Vec<GroupValues<'k>>)>,
    /// Of each operand, the slots that this warp has not released yet.
    slots: Vec<Vec<HeldSlot<'k>>>,
}

/// A slot that this warp has read but not released yet.
#[derive(Clone, Copy)]
pub(super) struct HeldSlot<'k> {
    pub(super) start: SharedAddress<'k>,
    pub(super) borrowed: Borrowed<'k>,
}

/// A thread's four elements of a group.
#[derive(Clone, Copy)]
enum GroupValues<'k> {
    /// 16-bit pairs as they were loaded, which take half the registers.
    Packed(Half, Packed<'k>),
    /// 8-bit pairs as they were loaded.
    Bytes(DType, [Reg<'k, U32>; 2]),
    Values([Value<'k>; 4]),
}

impl<'k> LoadedOperands<'k> {
    /// The values of a group's four elements.
    pub(super) fn group<C: EpilogueChip>(
        &self,
        k: Kernel<'k, C>,
        group: usize,
    ) -> Vec<(InputId, [Value<'k>; 4])> {
        let values = |group: GroupValues<'k>| match group {
            GroupValues::Values(values) => values,
            GroupValues::Bytes(dtype, pairs) => {
                let [upper, lower] = pairs.map(|pair| byte_values(k, dtype, pair));
                [upper[0], upper[1], lower[0], lower[1]]
            }
            GroupValues::Packed(half, packed) => {
                let [upper, lower] = packed.map(|pair| k.unpack_halves(half, pair));
                [upper[0], upper[1], lower[0], lower[1]].map(Value::Float)
            }
        };
        // Operands that are read later have none.
        let operands = self.operands.iter().filter(|(_, groups)| !groups.is_empty());
        operands.map(|(input, groups)| (*input, values(groups[group]))).collect()
    }

    /// The slots of an operand.
    pub(super) fn slots(&self, operand: usize) -> &[HeldSlot<'k>] {
        &self.slots[operand]
    }
}

/// The tile operands of a warpgroup.
pub(super) struct EpilogueLoads<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    operands: Vec<(InputId, DType, EpilogueTransfer)>,
    ring: Option<(Ring<'k, C>, Consumer<'k>, SharedAddress<'k>)>,
    /// Operands that are read group by group as elements are visited, and not with their span: nothing needs them before.
    late: Vec<bool>,
    /// Whether slots are released only when an epilogue tile is computed, so that no instruction waits for their reads.
    holds: bool,
}

impl<'a, 'k, C: EpilogueChip> EpilogueLoads<'a, 'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let operands: Vec<(InputId, DType, EpilogueTransfer)> = plan
            .program
            .tile_operands
            .iter()
            .zip(&plan.schedule.needs.epilogue_loads)
            .map(|(input, transfer)| {
                (*input, plan.graph.inputs()[input.0 as usize].dtype, *transfer)
            })
            .collect();
        let ring = (plan.schedule.c_bytes() > 0).then(|| {
            let ring = plan.load_ring(k, warpgroup.in_cta);
            let at = ring.consumer(rank & 31);
            let bytes = plan.schedule.c_stages * plan.schedule.slot_bytes();
            (ring, at, k.region(&plan.c_slots) + warpgroup.in_cta * bytes)
        });
        let slots = operands.iter().filter_map(|(_, dtype, transfer)| {
            transfer.major().map(|major| SlotLayout::new(plan.schedule, *dtype, major).slots())
        });
        // A span of several epilogue tiles is read whole before its first is computed; and while slots are held, the
        // load warp needs as many others to fill.
        let holds = plan.schedule.span() == plan.schedule.epilogue_tile
            && 2 * slots.sum::<u32>() <= plan.schedule.c_stages;
        let late = late(plan);
        EpilogueLoads { k, plan, parameters, operands, ring, late, holds }
    }

    /// Where a block's elements of the direct operands lie: for each operand, the thread's first column of its two
    /// rows.
    pub(super) fn locations(
        &self,
        thread: &ThreadCoordinate<'k>,
    ) -> Vec<Option<[Location<'k>; 2]>> {
        let of = |(input, _, transfer): &(InputId, DType, EpilogueTransfer)| match transfer {
            EpilogueTransfer::Tma | EpilogueTransfer::TmaTransposed => None,
            EpilogueTransfer::Pairs
            | EpilogueTransfer::Coalesced
            | EpilogueTransfer::Contiguous
            | EpilogueTransfer::Strided
            | EpilogueTransfer::Finished => {
                let memory = self.parameters.memory(*input);
                let run = self.plan.program.input_row_run(*input);
                Some(thread.rows.map(|row| {
                    memory.element(self.k, (thread.batch, run_of_row(row, run), thread.column))
                }))
            }
        };
        self.operands.iter().map(of).collect()
    }

    /// Releases the slots of an epilogue tile that no output is stored through.
    pub(super) fn give_back(&self, loaded: &LoadedOperands<'k>) {
        let operands = loaded.slots.iter().enumerate();
        let read = operands.filter(|(operand, _)| !self.plan.reused.contains(&Some(*operand)));
        let slots: Vec<_> = read.flat_map(|(_, slots)| slots).map(|slot| slot.borrowed).collect();
        self.release(&slots);
    }

    /// Releases all slots of an epilogue tile that a pass has read.
    pub(super) fn give_back_all(&self, loaded: &LoadedOperands<'k>) {
        let slots: Vec<_> = loaded.slots.iter().flatten().map(|slot| slot.borrowed).collect();
        self.release(&slots);
    }

    /// Releases slots that no thread of the warp and no store reads any more.
    pub(super) fn release(&self, slots: &[Borrowed<'k>]) {
        if let Some((ring, at, _)) = &self.ring {
            ring.give_back(at, slots);
        }
    }

    /// Reads an epilogue tile of every operand.
    pub(super) fn read(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        lanes: &Lanes<'k, C>,
        thread: &ThreadCoordinate<'k>,
        epilogue_tile: EpilogueTile,
    ) -> LoadedOperands<'k> {
        let mut slots = Vec::new();
        let read =
            |(place, (input, dtype, transfer)): (usize, &(InputId, DType, EpilogueTransfer))| {
                let mut held = Vec::new();
                let values = match transfer.major() {
                    Some(major) => self.read_slots(lanes.of(major), *dtype, major, &mut held),
                    None if self.late[place] => Vec::new(),
                    None => {
                        let groups = 0..epilogue_tile.columns / 8;
                        let offset = |group| epilogue_tile.offset + 8 * group;
                        let read =
                            |group| self.read_direct(evaluator, place, thread, offset(group));
                        groups.map(read).map(GroupValues::Values).collect()
                    }
                };
                slots.push(held);
                (*input, values)
            };
        let operands = self.operands.iter().enumerate().map(read).collect();
        LoadedOperands { operands, slots }
    }

    /// Reads the group of the late operands that begins at a column.
    pub(super) fn read_late(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        offset: u32,
    ) -> Vec<(InputId, [Value<'k>; 4])> {
        let late = self.operands.iter().enumerate().filter(|(place, _)| self.late[*place]);
        let read = |place| self.read_direct(evaluator, place, thread, offset);
        late.map(|(place, (input, ..))| (*input, read(place))).collect()
    }

    /// From one slot of an operand of 8 or 16 bits, or two of a 32-bit one.
    fn read_slots(
        &self,
        access: &dyn SlotAccess<'k, C>,
        dtype: DType,
        major: Major,
        held: &mut Vec<HeldSlot<'k>>,
    ) -> Vec<GroupValues<'k>> {
        let Some((ring, at, slots)) = &self.ring else {
            panic!("compiler bug: a slot without a ring")
        };
        let layout = SlotLayout::new(self.plan.schedule, dtype, major);
        let groups = layout.columns() / 8;
        let mut values: Vec<GroupValues<'k>> = Vec::new();
        for _ in 0..layout.slots() {
            let mut first = None;
            let read = |stage: Reg<'k, U32>| {
                let start = *slots + stage * self.plan.schedule.slot_bytes();
                first = Some(start);
                let packed = |half| -> Vec<GroupValues<'k>> {
                    let packed = access.read_packed(start, groups).into_iter();
                    packed.map(|packed| GroupValues::Packed(half, packed)).collect()
                };
                values.extend(match half_of(dtype) {
                    Some(half) => packed(half),
                    None if layout.element_bytes() == 1 => {
                        let pairs = access.read_bytes(start, groups).into_iter();
                        pairs.map(|pairs| GroupValues::Bytes(dtype, pairs)).collect()
                    }
                    None => {
                        let words = access.read_floats(start, groups).into_iter();
                        let value = |word| word_value(self.k, dtype, word);
                        words.map(|four| GroupValues::Values(four.map(value))).collect()
                    }
                });
            };
            if self.holds {
                let borrowed = ring.borrow(at, read);
                held.extend(first.map(|start| HeldSlot { start, borrowed }));
            } else {
                ring.consume(at, read);
            }
        }
        values
    }

    /// A thread's four elements of an operand in the group that begins at a column.
    fn read_direct(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        place: usize,
        thread: &ThreadCoordinate<'k>,
        offset: u32,
    ) -> [Value<'k>; 4] {
        let (input, dtype, transfer) = self.operands[place];
        let Some(locations) = thread.loads[place] else {
            panic!("compiler bug: an operand without a place")
        };
        let memory = self.parameters.memory(input);
        let at = |row: usize, column: u32| {
            let from = memory.along(locations[row], transfer, memory.columns(column));
            let inside = thread.inside_rows[row] & thread.remaining.gt(column);
            (from, memory.inside(|| thread.column + column, Some(inside)))
        };
        // An output may lie in the same memory.
        let cache = LoadCache::Default;
        if let (EpilogueTransfer::Pairs, Some(half)) = (transfer, half_of(dtype)) {
            let [upper, lower] = [0, 1].map(|row| {
                let (from, inside) = at(row, offset);
                evaluator.load_pair(half, from, inside, cache)
            });
            return [upper[0], upper[1], lower[0], lower[1]];
        }
        std::array::from_fn(|element| {
            let (from, inside) = at(element / 2, offset + element as u32 % 2);
            evaluator.load(dtype, from, inside, cache)
        })
    }
}

/// Which operands are read late: of spans of several epilogue tiles, operands that are read directly and that neither another
/// column nor a reduction is made of.
fn late(plan: &Plan<'_>) -> Vec<bool> {
    let crosses = |dependence: Dependence| match dependence {
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Concat(Concat::Repeated(_)) => false,
        Dependence::Reduce(..)
        | Dependence::ReduceWeighted(..)
        | Dependence::Pick(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(Concat::Equal(_) | Concat::Listed(_))
        | Dependence::Call => true,
    };
    let crossing = plan.graph.nodes().filter(|(_, node)| crosses(node.op.dependence()));
    let across = plan.program.terms_of(crossing.flat_map(|(_, node)| node.op.operands()), true);
    let spans = plan.schedule.span() > plan.schedule.epilogue_tile;
    let is_late = |(input, transfer): (&InputId, &EpilogueTransfer)| {
        let node = plan.graph.input_node(*input);
        spans && transfer.major().is_none() && node.is_some_and(|node| !across[node.index()])
    };
    let operands = plan.program.tile_operands.iter().zip(&plan.schedule.needs.epilogue_loads);
    operands.map(is_late).collect()
}

impl<'k> Parameters<'k> {
    /// The memory of an input that is read directly.
    pub(crate) fn memory(&self, input: InputId) -> &Memory<'k> {
        match self.sources.iter().find(|(id, _)| *id == input) {
            Some((_, Source::Memory(memory))) => memory,
            Some((_, Source::Host(_) | Source::Map(_))) | None => {
                panic!("compiler bug: input {} is not read directly", input.0)
            }
        }
    }
}
