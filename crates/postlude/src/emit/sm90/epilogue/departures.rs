//! Tile outputs on their way out: through slots and copies by tensor map, or straight to memory.

use std::cell::{Cell, RefCell};

use postlude_ptx::kernel::{Half, Kernel, Packed8, Policy, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{Eviction, ProxySpace, WaitFor};
use postlude_ptx::ring::Borrowed;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, Pred, S32, Scalar, U16, U32};

use crate::dtype::DType;
use crate::plan::sm90::{Hints, Major, Path, SLOT_ROWS, is_shared, packed_major};

use super::super::Plan;
use super::super::parameters::{Destination, Location, Memory, Parameters};
use super::super::slot::WARP_ROWS;
use super::super::values::Value;
use super::super::warpgroup::WarpgroupIndex;
use super::arrivals::KeptSlot;
use super::bits::{BitLane, ByteTarget};
use super::lanes::{Floats, Lanes, Packed};
use super::{Spot, Subtile};

/// Two columns of a thread's two rows, as they leave.
#[derive(Clone, Copy)]
pub(super) enum Ready<'k> {
    /// 16-bit pairs, one a row: packed at once, so that they take half the registers.
    Packed(Packed<'k>),
    /// As they were computed.
    Whole(Floats<'k>),
    /// Integers of 32 bits.
    Integers([Reg<'k, S32>; 4]),
    /// Pairs of bytes, one a row: the first column's lowest.
    Bytes([Reg<'k, U32>; 2]),
    /// Bits that other lanes have to be added to.
    Bits(Reg<'k, U32>),
}

/// Where a block's elements of a direct output go.
#[derive(Clone, Copy)]
pub(super) enum Target<'k> {
    /// The thread's first column of its two rows.
    Elements([Location<'k>; 2]),
    /// Bytes of packed bits, each from several threads.
    Bits(Major, ByteTarget<'k>),
}

impl<'k> Ready<'k> {
    fn packed(self) -> Packed<'k> {
        match self {
            Ready::Packed(pairs) => pairs,
            Ready::Whole(_) | Ready::Integers(_) | Ready::Bytes(_) | Ready::Bits(_) => {
                panic!("compiler bug: 16-bit slots take pairs")
            }
        }
    }

    fn whole(self) -> Floats<'k> {
        match self {
            Ready::Whole(values) => values,
            Ready::Packed(_) | Ready::Integers(_) | Ready::Bytes(_) | Ready::Bits(_) => {
                panic!("compiler bug: 32-bit slots take floats")
            }
        }
    }

    fn bytes(self) -> [Reg<'k, U32>; 2] {
        match self {
            Ready::Bytes(pairs) => pairs,
            Ready::Packed(_) | Ready::Whole(_) | Ready::Integers(_) | Ready::Bits(_) => {
                panic!("compiler bug: 8-bit slots take pairs of bytes")
            }
        }
    }

    fn bits(self) -> Reg<'k, U32> {
        match self {
            Ready::Bits(bits) => bits,
            Ready::Packed(_) | Ready::Whole(_) | Ready::Integers(_) | Ready::Bytes(_) => {
                panic!("compiler bug: bytes are put together from bits")
            }
        }
    }
}

/// Who fills a slot together, and issues its copies; always the same lane does.
#[derive(Clone, Copy)]
enum Senders<'k> {
    /// Each warp its own rows, which begin this many rows behind the slot's first.
    Warp { row: Reg<'k, U32> },
    /// All warps, which meet at a barrier; one of them issues.
    Warpgroup { barrier: Reg<'k, U32>, issues: Reg<'k, Pred> },
}

/// The tile outputs of a warpgroup.
pub(super) struct Departures<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    /// Who fills a slot together, and issues its copies.
    senders: Senders<'k>,
    policy: Option<Policy<'k>>,
    /// Where an output is packed bits.
    bits: Option<BitLane<'k>>,
    slots: SharedAddress<'k>,
    /// Which slot comes next, in bytes.
    slot: Var<'k, U32>,
    /// A filled slot whose copy is still to be issued.
    waiting: Cell<Option<Outgoing<'k>>>,
    /// Copies that were issued, and which of them are of operands' slots that are still to be released.
    copies: Cell<u32>,
    reused: RefCell<Vec<(u32, Borrowed<'k>)>>,
}

/// A copy of a slot to an output.
#[derive(Clone, Copy)]
struct Outgoing<'k> {
    output: usize,
    start: SharedAddress<'k>,
    /// Where the slot's first element belongs.
    row: Reg<'k, U32>,
    column: Reg<'k, U32>,
    batch: Reg<'k, U32>,
    /// Where the slot is an operand's.
    borrowed: Option<Borrowed<'k>>,
}

impl<'a, 'k> Departures<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let bytes = plan.schedule.store_stages * plan.schedule.slot_bytes();
        let slots = k.region(&plan.stores) + warpgroup.in_cta * bytes;
        let packs_bits = plan.graph.outputs().iter().any(|output| output.dtype == DType::B1);
        Departures {
            k,
            plan,
            parameters,
            senders: if plan.schedule.needs.stores_by_warps() {
                Senders::Warp { row: k.uniform(rank >> 5) * WARP_ROWS }
            } else {
                Senders::Warpgroup {
                    barrier: warpgroup.barrier(),
                    issues: k.uniform(rank >> 5).eq(0),
                }
            },
            policy: (plan.schedule.hints != Hints::None).then(|| k.policy(Eviction::First)),
            bits: packs_bits.then(|| BitLane::new(k, rank)),
            slots,
            slot: k.var(0),
            waiting: Cell::new(None),
            copies: Cell::new(0),
            reused: RefCell::default(),
        }
    }

    /// Where a block's elements of the direct outputs go.
    pub(super) fn targets(&self, spot: &Spot<'k>) -> Vec<Option<Target<'k>>> {
        let of = |(output, destination): (usize, &Destination<'k>)| match destination {
            Destination::Map(_) => None,
            Destination::Direct(memory) if memory.dtype == DType::B1 => {
                let major = self.packed(output);
                let target = self.bits().target(major, memory, self.parameters, spot);
                Some(Target::Bits(major, target))
            }
            Destination::Direct(memory) => {
                let location = |row| memory.element(self.k, [spot.batch, row, spot.column]);
                Some(Target::Elements(spot.rows.map(location)))
            }
        };
        self.parameters.destinations.iter().enumerate().map(of).collect()
    }

    fn bits(&self) -> &BitLane<'k> {
        self.bits.as_ref().unwrap_or_else(|| panic!("compiler bug: no output is packed bits"))
    }

    /// Which elements of an output of packed bits share bytes.
    fn packed(&self, output: usize) -> Major {
        let graph = self.plan.graph;
        packed_major(graph.product(), &graph.outputs()[output].dims)
            .unwrap_or_else(|| panic!("compiler bug: planning let packed batches through"))
    }

    /// An output's values of one group as they will leave.
    pub(super) fn ready(&self, output: usize, values: [Value<'k>; 4]) -> Ready<'k> {
        let k = self.k;
        let eighth = |format| {
            let floats = values.map(Value::float);
            let pack = |row: usize| k.pack_float8(format, floats[row], floats[row + 1]);
            Ready::Bytes([pack(0), pack(2)].map(|pair| k.widen_u16(pair.cast::<U16>())))
        };
        match (&self.parameters.destinations[output], self.plan.graph.outputs()[output].dtype) {
            (Destination::Map(_), DType::F16 | DType::BF16) => {
                let (half, floats) = (self.half(output), values.map(Value::float));
                let half = half.unwrap_or_else(|| panic!("compiler bug: no type of 16 bits"));
                let pack = |row: usize| k.pack_halves(half, floats[row], floats[row + 1]);
                Ready::Packed([pack(0), pack(2)])
            }
            (_, DType::F32 | DType::F16 | DType::BF16) => Ready::Whole(values.map(Value::float)),
            (_, DType::F8E4M3) => eighth(Packed8::E4M3),
            (_, DType::F8E5M2) => eighth(Packed8::E5M2),
            (_, DType::I32) => Ready::Integers(values.map(Value::integer)),
            (_, DType::I8 | DType::U8) => {
                let integers = values.map(|value| value.integer().cast::<B32>());
                let pack = |row: usize| integers[row].permute(integers[row + 1], 0x40);
                Ready::Bytes([pack(0), pack(2)].map(Reg::cast))
            }
            (_, DType::Bool) => {
                let truths = values.map(Value::truth);
                let byte = |element: usize, one: u32| k.imm(one).select(0, truths[element]);
                Ready::Bytes([0, 2].map(|row| byte(row, 1) | byte(row + 1, 1 << 8)))
            }
            (_, DType::B1) => {
                Ready::Bits(self.bits().spread(self.packed(output), values.map(Value::truth)))
            }
        }
    }

    fn half(&self, output: usize) -> Option<Half> {
        match self.plan.graph.outputs()[output].dtype {
            DType::F16 => Some(Half::F16),
            DType::BF16 => Some(Half::BF16),
            _ => None,
        }
    }

    /// Sends a subtile of an output out, group of 8 columns by group, through slots of its own or these.
    pub(super) fn send(
        &self,
        lanes: &Lanes<'k>,
        spot: &Spot<'k>,
        subtile: Subtile,
        (output, reused): (usize, Option<&[KeptSlot<'k>]>),
        groups: &[Ready<'k>],
    ) {
        let half = self.half(output);
        match (&self.parameters.destinations[output], spot.stores[output]) {
            (Destination::Direct(memory), Some(target)) => {
                let path = self.plan.schedule.needs.stores[output];
                let store = || match target {
                    Target::Elements(locations) => {
                        self.store(memory, path, half, locations, spot, subtile, groups);
                    }
                    Target::Bits(major, target) => {
                        let groups: Vec<_> = groups.iter().map(|ready| ready.bits()).collect();
                        self.bits().store(major, memory, path, &target, subtile, &groups);
                    }
                };
                // A tile that all batches share is written by the first; where there are more, no map writes it.
                let graph = self.plan.graph;
                if is_shared(graph, &graph.outputs()[output]) {
                    self.k.if_(spot.batch.eq(0), store);
                } else {
                    store();
                }
            }
            (Destination::Map(tile), _) => {
                let columns = tile.layout.columns();
                let access = lanes.of(tile.layout.major);
                for (place, groups) in groups.chunks_exact(columns as usize / 8).enumerate() {
                    let column = spot.tile_column + subtile.offset + place as u32 * columns;
                    let reused = reused.map(|slots| slots[place]);
                    self.send_slot((output, column), spot, reused, |start| {
                        if tile.layout.element_bytes() == 1 {
                            let bytes = groups.iter().map(|ready| ready.bytes());
                            access.write_bytes(start, &bytes.collect::<Vec<_>>());
                        } else if half.is_some() {
                            let packed = groups.iter().map(|ready| ready.packed());
                            access.write_packed(start, &packed.collect::<Vec<_>>());
                        } else {
                            let whole = groups.iter().map(|ready| ready.whole());
                            access.write_floats(start, &whole.collect::<Vec<_>>());
                        }
                    });
                }
            }
            (Destination::Direct(_), None) => panic!("compiler bug: an output without a place"),
        }
    }

    /// Fills an operand's slot or a free one and copies it, or the one before where copies are delayed.
    fn send_slot(
        &self,
        (output, column): (usize, Reg<'k, U32>),
        spot: &Spot<'k>,
        reused: Option<KeptSlot<'k>>,
        fill: impl FnOnce(SharedAddress<'k>),
    ) {
        let (k, schedule) = (self.k, self.plan.schedule);
        let before = self.waiting.take();
        if reused.is_none() {
            self.await_reads(schedule.store_stages - 1 - u32::from(before.is_some()));
        }
        if before.is_some() {
            k.fence_proxy_async(ProxySpace::SharedCta);
        }
        match (reused, before) {
            // A warp overwrites what its own lanes have read.
            (Some(_), None) => k.warp_sync(),
            (Some(_), Some(_)) | (None, _) => self.meet(),
        }
        let start = reused.map_or_else(|| self.slots + self.slot.get(), |kept| kept.start);
        fill(start);
        let (row, batch) = (spot.block_row, spot.batch);
        let borrowed = reused.map(|kept| kept.borrowed);
        let outgoing = Outgoing { output, start, row, column, batch, borrowed };
        if schedule.delay {
            // Those that filled it met for this slot.
            if let Some(before) = before {
                self.copy_out(before);
            }
            self.waiting.set(Some(outgoing));
        } else {
            self.meet_and_copy(outgoing);
        }
        if reused.is_none() {
            let slot_bytes = schedule.slot_bytes();
            let next = self.slot.get() + slot_bytes;
            let wrapped = next.eq(schedule.store_stages * slot_bytes);
            self.slot.set(k.imm(0).select(next, wrapped));
        }
    }

    /// Sends what waits for the slot behind it.
    pub(super) fn flush(&self) {
        if let Some(outgoing) = self.waiting.take() {
            self.meet_and_copy(outgoing);
        }
    }

    /// Waits until copies have read all operands' slots but this many, and says which.
    pub(super) fn left(&self, kept: usize) -> Vec<Borrowed<'k>> {
        let waiting = self.waiting.get().is_some_and(|outgoing| outgoing.borrowed.is_some());
        let mut reused = self.reused.borrow_mut();
        let many = (reused.len() + usize::from(waiting)).saturating_sub(kept);
        let left: Vec<_> = reused.drain(..many).collect();
        if let Some((number, _)) = left.last() {
            self.await_reads(self.copies.get() - number - 1);
            if matches!(self.senders, Senders::Warpgroup { .. }) {
                // One warp has waited for all of them.
                self.meet();
            }
        }
        left.into_iter().map(|(_, borrowed)| borrowed).collect()
    }

    fn meet_and_copy(&self, outgoing: Outgoing<'k>) {
        self.k.fence_proxy_async(ProxySpace::SharedCta);
        self.meet();
        self.copy_out(outgoing);
    }

    /// Issues the copies of a slot that is filled.
    fn copy_out(&self, outgoing: Outgoing<'k>) {
        let k = self.k;
        let Outgoing { output, start, row: first, column, batch, borrowed } = outgoing;
        let Destination::Map(tile) = &self.parameters.destinations[output] else {
            panic!("compiler bug: a slot of an output without a map")
        };
        self.issue(|| {
            let map = tile.map.address();
            match self.senders {
                Senders::Warp { row } => {
                    // The same part of a slot whatever lies in it: nobody else's copies read it.
                    let bytes = self.plan.schedule.slot_bytes() / SLOT_ROWS;
                    let coordinates = [column, first + row, batch].map(Into::into);
                    k.tensor_store(map, &coordinates, start + row * bytes, self.policy);
                }
                Senders::Warpgroup { .. } => {
                    tile.layout.boxes(first, column, batch).for_each(|each| {
                        let from = start + each.offset;
                        k.tensor_store(map, &each.coordinates, from, self.policy);
                    });
                }
            }
            k.bulk_commit();
        });
        let number = self.copies.replace(self.copies.get() + 1);
        self.reused.borrow_mut().extend(borrowed.map(|borrowed| (number, borrowed)));
    }

    /// Waits until all but the latest copies have read their slots.
    fn await_reads(&self, latest: u32) {
        let k = self.k;
        if self.plan.schedule.tile.is_ping_pong() {
            // Who has sent nothing has nothing to wait for: no branch.
            k.bulk_wait(latest, WaitFor::Read);
        } else {
            // Over a branch ptxas moves less ahead, and large tiles have no registers for it.
            self.issue(|| k.bulk_wait(latest, WaitFor::Read));
        }
    }

    #[allow(clippy::too_many_arguments)] // All of them say where the elements go.
    fn store(
        &self,
        memory: &Memory<'k>,
        path: Path,
        half: Option<Half>,
        locations: [Location<'k>; 2],
        spot: &Spot<'k>,
        subtile: Subtile,
        groups: &[Ready<'k>],
    ) {
        let k = self.k;
        for (group, ready) in groups.iter().enumerate() {
            for element in 0..4 {
                let column = subtile.offset + 8 * group as u32 + element as u32 % 2;
                let to = memory.along(locations[element / 2], path, column).pointer();
                let inside = spot.inside_rows[element / 2] & spot.remaining.gt(column);
                match (*ready, half) {
                    (Ready::Whole(values), Some(half)) => {
                        let value = k.half_of_f32(half, values[element]);
                        k.when(inside, || k.store_global(to, [value]));
                    }
                    (Ready::Whole(values), None) => {
                        k.when(inside, || k.store_global(to, [values[element]]));
                    }
                    (Ready::Integers(values), _) => {
                        k.when(inside, || k.store_global(to, [values[element]]));
                    }
                    (Ready::Bytes(pairs), _) => {
                        let pair = pairs[element / 2];
                        let byte = if element % 2 == 0 { pair } else { pair >> 8 };
                        k.when(inside, || k.store_global_narrow(Scalar::U8, to, byte));
                    }
                    (Ready::Packed(_) | Ready::Bits(_), _) => {
                        panic!("compiler bug: no elements of an output that is stored directly")
                    }
                }
            }
        }
    }

    /// What one thread does for all that fill a slot.
    fn issue(&self, body: impl FnOnce()) {
        match self.senders {
            Senders::Warp { .. } => self.k.if_(self.k.elect(), body),
            Senders::Warpgroup { issues, .. } => {
                self.k.if_(issues, || self.k.if_(self.k.elect(), body));
            }
        }
    }

    /// They meet.
    fn meet(&self) {
        match self.senders {
            Senders::Warp { .. } => self.k.warp_sync(),
            Senders::Warpgroup { barrier, .. } => self.k.sync_named(barrier, 128),
        }
    }

    /// Waits until everything has left.
    pub(super) fn drain(&self) {
        self.issue(|| self.k.bulk_wait(0, WaitFor::Complete));
    }
}
