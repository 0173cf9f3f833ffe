//! Epilogue stores: tile outputs through slots by TMA, or directly to memory.

use std::cell::{Cell, RefCell};

use postlude_ptx::kernel::{Half, Kernel, Packed8, Policy, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{Eviction, ProxySpace, WaitFor};
use postlude_ptx::ring::Borrowed;
use postlude_ptx::types::{B32, Pred, Scalar, U16, U32};

use crate::dtype::DType;
use crate::lower::packed_major;
use crate::placement::Major;
use crate::target::sm90::plan::{EpilogueTransfer, Hints, SLOT_ROWS};

use super::super::batch::Batch;
use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::memory::{Location, Memory};
use super::super::parameters::{Destination, MappedTile, Parameters};
use super::super::plan::Plan;
use super::super::slot::half_of;
use super::super::values::{Value, run_of_row, scale_code};
use super::super::warpgroup::WarpgroupIndex;
use super::bits::BitLane;
use super::coalesced::CoalescedStores;
use super::converted::{Converted, fill};
use super::lanes::Lanes;
use super::loads::HeldSlot;
use super::single::begins_run;
use super::thread::{EpilogueTile, StoreTarget, ThreadCoordinate};

/// The threads that fill a slot together; always the same lane of them issues its stores.
#[derive(Clone, Copy)]
enum StoreUnit<'k> {
    /// Each warp its own rows, which begin this many rows behind the slot's first.
    Warp { row: Reg<'k, U32> },
    /// All warps, which synchronise at a barrier; one of them issues.
    Warpgroup { barrier: Reg<'k, U32>, issues: Reg<'k, Pred> },
}

/// The tile outputs of a warpgroup.
pub(super) struct EpilogueStores<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    /// The threads that fill a slot together.
    unit: StoreUnit<'k>,
    policy: Option<Policy<'k>>,
    /// Where an output is packed bits.
    bits: Option<BitLane<'k, C>>,
    /// Where threads store slots.
    coalesced: Option<CoalescedStores<'k, C>>,
    /// Whether TMA stores an output.
    maps: bool,
    slots: SharedAddress<'k>,
    /// Which slot comes next, in bytes.
    slot: Var<'k, U32>,
    /// A filled slot whose store is delayed until the next one is filled.
    delayed: Cell<Option<TileStore<'k>>>,
    /// Stores that were issued, and which of them read operands' slots that are not released yet.
    issued: Cell<u32>,
    reused: RefCell<Vec<(u32, Borrowed<'k>)>>,
}

/// The store of a slot to an output.
#[derive(Clone, Copy)]
struct TileStore<'k> {
    output: usize,
    start: SharedAddress<'k>,
    /// Where the slot's first element belongs.
    row: Reg<'k, U32>,
    column: Reg<'k, U32>,
    batch: Batch<'k>,
    /// Whether the unit that issues it may write all of its rows, where it may not always.
    whole: Option<Reg<'k, Pred>>,
    /// Where the slot is an operand's.
    borrowed: Option<Borrowed<'k>>,
}

impl<'a, 'k, C: EpilogueChip> EpilogueStores<'a, 'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let bytes = plan.schedule.d_stages * plan.schedule.slot_bytes();
        let slots = k.region(&plan.d_slots) + warpgroup.in_cta * bytes;
        let any = |is: fn(&Destination<'k>) -> bool| parameters.destinations.iter().any(is);
        let packs_bits = plan.graph.outputs().iter().any(|output| output.dtype == DType::B1);
        EpilogueStores {
            k,
            plan,
            parameters,
            unit: if plan.schedule.needs.stores_by_warps() {
                StoreUnit::Warp { row: k.uniform(rank >> 5) * Fragment::WARP_ROWS }
            } else {
                StoreUnit::Warpgroup {
                    barrier: warpgroup.barrier(),
                    issues: k.uniform(rank >> 5).eq(0),
                }
            },
            policy: (plan.schedule.hints != Hints::None).then(|| k.policy(Eviction::First)),
            bits: packs_bits.then(|| BitLane::new(k, rank)),
            coalesced: any(|to| matches!(to, Destination::Coalesced(_)))
                .then(|| CoalescedStores::new(k, rank, parameters.columns)),
            maps: any(|to| matches!(to, Destination::Map(_))),
            slots,
            slot: k.var(0),
            delayed: Cell::new(None),
            issued: Cell::new(0),
            reused: RefCell::default(),
        }
    }

    /// Where a block's elements of the direct outputs are stored.
    pub(super) fn targets(&self, thread: &ThreadCoordinate<'k>) -> Vec<Option<StoreTarget<'k>>> {
        let of = |(output, destination): (usize, &Destination<'k>)| match destination {
            Destination::Map(_) | Destination::Coalesced(_) => None,
            Destination::Direct(memory) if memory.dtype == DType::B1 => {
                let major = self.packed(output);
                let target = self.bits().target(major, memory, self.parameters, thread);
                Some(StoreTarget::Bits(major, target))
            }
            Destination::Direct(memory) => {
                let run = self.row_run(output);
                let location = |row| {
                    memory.element(self.k, (thread.batch, run_of_row(row, run), thread.column))
                };
                Some(StoreTarget::Elements(thread.rows.map(location)))
            }
        };
        self.parameters.destinations.iter().enumerate().map(of).collect()
    }

    /// Rows of the product that one of an output's stands for.
    fn row_run(&self, output: usize) -> u32 {
        self.plan.program.output_row_run(&self.plan.graph.outputs()[output])
    }

    fn bits(&self) -> &BitLane<'k, C> {
        self.bits.as_ref().unwrap_or_else(|| panic!("compiler bug: no output is packed bits"))
    }

    /// Which elements of an output of packed bits share bytes.
    fn packed(&self, output: usize) -> Major {
        let graph = self.plan.graph;
        packed_major(graph.space(), &graph.outputs()[output].dims)
            .unwrap_or_else(|| panic!("compiler bug: planning let packed batches through"))
    }

    /// An output's values of one group in its dtype.
    pub(super) fn convert(&self, output: usize, values: [Value<'k>; 4]) -> Converted<'k> {
        let k = self.k;
        let eighth = |format| {
            let floats = values.map(Value::float);
            let pack = |row: usize| k.pack_float8(format, floats[row], floats[row + 1]);
            Converted::Bytes([pack(0), pack(2)].map(|pair| k.widen_u16(pair.cast::<U16>())))
        };
        match (&self.parameters.destinations[output], self.plan.graph.outputs()[output].dtype) {
            (Destination::Map(_) | Destination::Coalesced(_), DType::F16 | DType::BF16) => {
                let (half, floats) = (self.half(output), values.map(Value::float));
                let half = half.unwrap_or_else(|| panic!("compiler bug: no type of 16 bits"));
                let pack = |row: usize| k.pack_halves(half, floats[row], floats[row + 1]);
                Converted::Packed([pack(0), pack(2)])
            }
            (_, DType::F32 | DType::TF32 | DType::F16 | DType::BF16) => {
                Converted::Whole(values.map(Value::float))
            }
            (_, DType::F8E4M3) => eighth(Packed8::E4M3),
            (_, DType::F8E5M2) => eighth(Packed8::E5M2),
            (_, DType::F8E8M0) => {
                let codes = values.map(|value| scale_code(k, value.float()).cast::<B32>());
                let pack = |row: usize| codes[row].permute(codes[row + 1], 0x40);
                Converted::Bytes([pack(0), pack(2)].map(Reg::cast))
            }
            (Destination::Map(_) | Destination::Coalesced(_), DType::I32) => {
                let bits = |value: Value<'k>| k.bits_to_f32(value.integer().cast());
                Converted::Whole(values.map(bits))
            }
            (_, DType::I32) => Converted::Integers(values.map(Value::integer)),
            (_, DType::I8 | DType::U8) => {
                let integers = values.map(|value| value.integer().cast::<B32>());
                let pack = |row: usize| integers[row].permute(integers[row + 1], 0x40);
                Converted::Bytes([pack(0), pack(2)].map(Reg::cast))
            }
            (_, DType::Bool) => {
                let truths = values.map(Value::truth);
                let byte = |element: usize, one: u32| k.imm(one).select(0, truths[element]);
                Converted::Bytes([0, 2].map(|row| byte(row, 1) | byte(row + 1, 1 << 8)))
            }
            (_, DType::B1) => {
                Converted::Bits(self.bits().spread(self.packed(output), values.map(Value::truth)))
            }
            (_, dtype @ (DType::I4 | DType::U4 | DType::I64)) => {
                panic!("compiler bug: an output of {dtype}")
            }
        }
    }

    fn half(&self, output: usize) -> Option<Half> {
        half_of(self.plan.graph.outputs()[output].dtype)
    }

    /// Stores an epilogue tile of an output, group of 8 columns by group, through slots of its own or these.
    pub(super) fn store_tile(
        &self,
        lanes: &Lanes<'k, C>,
        thread: &ThreadCoordinate<'k>,
        epilogue_tile: EpilogueTile,
        (output, reused): (usize, Option<&[HeldSlot<'k>]>),
        groups: &[Converted<'k>],
    ) {
        let half = self.half(output);
        match (&self.parameters.destinations[output], thread.stores[output]) {
            (Destination::Direct(memory), Some(target)) => {
                let transfer = self.plan.schedule.needs.epilogue_stores[output];
                let store = || match target {
                    StoreTarget::Elements(locations) => {
                        self.store_elements(
                            (memory, self.row_run(output)),
                            transfer,
                            half,
                            locations,
                            thread,
                            epilogue_tile,
                            groups,
                        );
                    }
                    StoreTarget::Bits(major, target) => {
                        let groups: Vec<_> = groups.iter().map(|ready| ready.bits()).collect();
                        self.bits().store(major, memory, transfer, &target, epilogue_tile, &groups);
                    }
                };
                // A tile that all batches share is written by the first; where there are more, no map writes it.
                let program = self.plan.program;
                if program.is_shared(&program.graph().outputs()[output]) {
                    self.k.if_(thread.batch.number.eq(0), store);
                } else {
                    store();
                }
            }
            (Destination::Map(tile), _) => {
                let columns = tile.layout.columns();
                let access = lanes.of(tile.layout.major);
                if let (Some(memory), Some(whole)) = (&tile.cut, self.whole(tile, thread)) {
                    self.k.if_(!whole, || self.store_cut(memory, thread, epilogue_tile, groups));
                }
                for (place, groups) in groups.chunks_exact(columns as usize / 8).enumerate() {
                    let column = thread.tile_column + epilogue_tile.offset + place as u32 * columns;
                    let column = tile.column(column);
                    let reused = reused.map(|slots| slots[place]);
                    self.store_slot((output, column), thread, reused, |start| {
                        fill(access, tile.layout.element_bytes(), start, groups);
                    });
                }
            }
            (Destination::Coalesced(tile), _) => {
                let columns = tile.layout.columns();
                let access = lanes.of(tile.layout.major);
                for (place, groups) in groups.chunks_exact(columns as usize / 8).enumerate() {
                    let column = thread.tile_column + epilogue_tile.offset + place as u32 * columns;
                    let start = self.await_own_slot();
                    fill(access, tile.layout.element_bytes(), start, groups);
                    self.k.warp_sync();
                    if let Some(coalesced) = &self.coalesced {
                        coalesced.store(self.plan, tile, thread, (start, column));
                    }
                    self.pass_slot();
                }
            }
            (Destination::Direct(_), None) => panic!("compiler bug: an output without a place"),
        }
    }

    /// Fills an operand's slot or a free one and issues its store, or that of the slot before where stores are delayed.
    fn store_slot(
        &self,
        (output, column): (usize, Reg<'k, U32>),
        thread: &ThreadCoordinate<'k>,
        reused: Option<HeldSlot<'k>>,
        fill: impl FnOnce(SharedAddress<'k>),
    ) {
        let (k, schedule) = (self.k, self.plan.schedule);
        let before = self.delayed.take();
        if reused.is_none() {
            self.await_reads(schedule.d_stages - 1 - u32::from(before.is_some()));
        }
        if before.is_some() {
            k.fence_proxy_async(ProxySpace::SharedCta);
        }
        match (reused, before) {
            // A warp overwrites what its own lanes have read.
            (Some(_), None) => k.warp_sync(),
            (Some(_), Some(_)) | (None, _) => self.sync(),
        }
        let start = reused.map_or_else(|| self.slots + self.slot.get(), |slot| slot.start);
        fill(start);
        let (row, batch) = (thread.block_row, thread.batch.of_tiles(k, self.plan.graph.space()));
        let borrowed = reused.map(|slot| slot.borrowed);
        let whole = match &self.parameters.destinations[output] {
            Destination::Map(tile) => self.whole(tile, thread),
            Destination::Coalesced(_) | Destination::Direct(_) => None,
        };
        let store = TileStore { output, start, row, column, batch, whole, borrowed };
        if schedule.delay_store {
            // The threads that filled it have synchronised for this slot.
            if let Some(before) = before {
                self.issue_store(before);
            }
            self.delayed.set(Some(store));
        } else {
            self.sync_and_issue(store);
        }
        if reused.is_none() {
            self.advance();
        }
    }

    /// Goes on to the next slot.
    fn advance(&self) {
        let (schedule, slot_bytes) = (self.plan.schedule, self.plan.schedule.slot_bytes());
        let next = self.slot.get() + slot_bytes;
        let wrapped = next.eq(schedule.d_stages * slot_bytes);
        self.slot.set(self.k.imm(0).select(next, wrapped));
    }

    /// A free slot, which the warps that fill it store themselves.
    fn await_own_slot(&self) -> SharedAddress<'k> {
        self.flush();
        if self.maps {
            self.await_reads(self.plan.schedule.d_stages - 1);
        }
        self.sync();
        self.slots + self.slot.get()
    }

    /// Goes on from a slot that warps have stored themselves. Where TMA stores others, it counts among them.
    fn pass_slot(&self) {
        if self.maps {
            self.issue(|| self.k.bulk_commit());
            self.issued.set(self.issued.get() + 1);
        }
        self.advance();
    }

    /// Whether the threads that store a slot together may write all of its rows; `None` where that is always so, since the
    /// problem's last row is the tensor's.
    fn whole(&self, tile: &MappedTile<'k>, thread: &ThreadCoordinate<'k>) -> Option<Reg<'k, Pred>> {
        tile.cut.as_ref()?;
        let end = match self.unit {
            StoreUnit::Warp { row } => thread.block_row + row + Fragment::WARP_ROWS,
            StoreUnit::Warpgroup { .. } => thread.block_row + SLOT_ROWS,
        };
        Some(end.le(thread.row_end))
    }

    /// Stores the rows of an epilogue tile that its segment has, two neighbouring columns at a time: such tensors lie as
    /// tensor maps want them, so that pairs are aligned and are inside as wholes.
    fn store_cut(
        &self,
        memory: &Memory<'k>,
        thread: &ThreadCoordinate<'k>,
        epilogue_tile: EpilogueTile,
        groups: &[Converted<'k>],
    ) {
        let k = self.k;
        for row in 0..2 {
            let start = memory.element(k, (thread.batch, thread.rows[row], thread.column));
            for (group, ready) in (0..).zip(groups) {
                let column = epilogue_tile.offset + 8 * group;
                let to = memory.along(start, EpilogueTransfer::Contiguous, column).pointer();
                let inside = thread.inside_rows[row] & thread.remaining.gt(column);
                let own = memory.inside(|| thread.column + column, Some(inside));
                k.when(own.unwrap_or(inside), || match *ready {
                    Converted::Packed(pairs) => k.store_global(to, [pairs[row]]),
                    Converted::Whole(values) => {
                        k.store_global(to, [values[2 * row], values[2 * row + 1]]);
                    }
                    Converted::Bytes(pairs) => {
                        k.store_global_narrow(Scalar::U16, to, pairs[row]);
                    }
                    Converted::Integers(_) | Converted::Bits(_) => {
                        panic!("compiler bug: no slots of an output that is stored directly")
                    }
                });
            }
        }
    }

    /// Issues a delayed store.
    pub(super) fn flush(&self) {
        if let Some(store) = self.delayed.take() {
            self.sync_and_issue(store);
        }
    }

    /// Waits until stores have read all operands' slots but this many, and returns the slots that were read.
    pub(super) fn reclaim(&self, held: usize) -> Vec<Borrowed<'k>> {
        let delayed = self.delayed.get().is_some_and(|store| store.borrowed.is_some());
        let mut reused = self.reused.borrow_mut();
        let many = (reused.len() + usize::from(delayed)).saturating_sub(held);
        let read: Vec<_> = reused.drain(..many).collect();
        if let Some((number, _)) = read.last() {
            self.await_reads(self.issued.get() - number - 1);
            if matches!(self.unit, StoreUnit::Warpgroup { .. }) {
                // One warp has waited for all warps.
                self.sync();
            }
        }
        read.into_iter().map(|(_, borrowed)| borrowed).collect()
    }

    fn sync_and_issue(&self, store: TileStore<'k>) {
        self.k.fence_proxy_async(ProxySpace::SharedCta);
        self.sync();
        self.issue_store(store);
    }

    /// Issues the stores of a slot that is filled.
    fn issue_store(&self, store: TileStore<'k>) {
        let k = self.k;
        let TileStore { output, start, row: first, column, batch, whole, borrowed } = store;
        let Destination::Map(tile) = &self.parameters.destinations[output] else {
            panic!("compiler bug: a slot of an output without a map")
        };
        let copy = || {
            let map = tile.map.address();
            let batch = tile.list.map_or(batch, |list| list.look_up(k, batch));
            match self.unit {
                StoreUnit::Warp { row } => {
                    // A warp has the same part of a slot whatever its layout: no other warp's stores read it.
                    let bytes = self.plan.schedule.slot_bytes() / SLOT_ROWS;
                    let coordinates = [column, first + row].into_iter().chain(batch.places());
                    let coordinates: Vec<_> = coordinates.map(Into::into).collect();
                    k.tensor_store(map, &coordinates, start + row * bytes, self.policy);
                }
                StoreUnit::Warpgroup { .. } => {
                    tile.layout.boxes(first, column, batch).for_each(|each| {
                        let from = start + each.offset;
                        k.tensor_store(map, &each.coordinates, from, self.policy);
                    });
                }
            }
        };
        self.issue(|| {
            let overlaps = tile.overlaps(column);
            let stored = overlaps.map(|it| whole.map_or(it, |whole| it & whole)).or(whole);
            match stored {
                Some(stored) => k.if_(stored, copy),
                None => copy(),
            }
            // A slot counts as issued also where it had nothing to store.
            k.bulk_commit();
        });
        let number = self.issued.replace(self.issued.get() + 1);
        self.reused.borrow_mut().extend(borrowed.map(|borrowed| (number, borrowed)));
    }

    /// Waits until all but the latest stores have read their slots.
    fn await_reads(&self, latest: u32) {
        let k = self.k;
        if self.plan.schedule.tile.is_ping_pong() {
            // A thread that has issued no store waits for none, so all threads may run this: no branch.
            k.bulk_wait(latest, WaitFor::Read);
        } else {
            // Over a branch ptxas moves less ahead, and large tiles have no registers for it.
            self.issue(|| k.bulk_wait(latest, WaitFor::Read));
        }
    }

    #[allow(clippy::too_many_arguments)] // All of them say where the elements go.
    fn store_elements(
        &self,
        (memory, row_run): (&Memory<'k>, u32),
        transfer: EpilogueTransfer,
        half: Option<Half>,
        locations: [Location<'k>; 2],
        thread: &ThreadCoordinate<'k>,
        epilogue_tile: EpilogueTile,
        groups: &[Converted<'k>],
    ) {
        let k = self.k;
        let inside_rows = [0, 1].map(|row| {
            let first = (row_run > 1).then(|| begins_run(thread.rows[row], row_run));
            first.map_or(thread.inside_rows[row], |first| thread.inside_rows[row] & first)
        });
        for (group, ready) in groups.iter().enumerate() {
            for element in 0..4 {
                let column = epilogue_tile.offset + 8 * group as u32 + element as u32 % 2;
                let to = memory.along(locations[element / 2], transfer, column).pointer();
                let inside = inside_rows[element / 2] & thread.remaining.gt(column);
                let inside =
                    memory.inside(|| thread.column + column, Some(inside)).unwrap_or(inside);
                match (*ready, half) {
                    (Converted::Whole(values), Some(half)) => {
                        let value = k.half_of_f32(half, values[element]);
                        k.when(inside, || k.store_global(to, [value]));
                    }
                    (Converted::Whole(values), None) => {
                        k.when(inside, || k.store_global(to, [values[element]]));
                    }
                    (Converted::Integers(values), _) => {
                        k.when(inside, || k.store_global(to, [values[element]]));
                    }
                    (Converted::Bytes(pairs), _) => {
                        let pair = pairs[element / 2];
                        let byte = if element % 2 == 0 { pair } else { pair >> 8 };
                        k.when(inside, || k.store_global_narrow(Scalar::U8, to, byte));
                    }
                    (Converted::Packed(_) | Converted::Bits(_), _) => {
                        panic!("compiler bug: no elements of an output that is stored directly")
                    }
                }
            }
        }
    }

    /// What one thread does for all threads that fill a slot.
    fn issue(&self, body: impl FnOnce()) {
        match self.unit {
            StoreUnit::Warp { .. } => self.k.if_(self.k.elect(), body),
            StoreUnit::Warpgroup { issues, .. } => {
                self.k.if_(issues, || self.k.if_(self.k.elect(), body));
            }
        }
    }

    /// The threads that fill a slot synchronise.
    fn sync(&self) {
        match self.unit {
            StoreUnit::Warp { .. } => self.k.warp_sync(),
            StoreUnit::Warpgroup { barrier, .. } => self.k.sync_named(barrier, 128),
        }
    }

    /// Waits until stores have read all slots: memory holds what they write when the launch has ended.
    pub(super) fn drain(&self) {
        self.issue(|| self.k.bulk_wait(0, WaitFor::Read));
    }
}
