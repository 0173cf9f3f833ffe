//! Tile outputs on their way out: through slots and copies by tensor map, or straight to memory.

use postlude_ptx::kernel::{GlobalPointer, Half, Kernel, Policy, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{Eviction, ProxySpace, WaitFor};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::dtype::DType;
use crate::plan::sm90::{Hints, Path};

use super::super::Plan;
use super::super::parameters::{Destination, MappedTile, Memory, Parameters};
use super::lanes::{Floats, Lanes, Packed};
use super::{Spot, Subtile};

/// Two columns of a thread's two rows, as they leave.
#[derive(Clone, Copy)]
pub(super) enum Ready<'k> {
    /// 16-bit pairs, one a row: packed at once, so that they take half the registers.
    Packed(Packed<'k>),
    /// As they were computed.
    Whole(Floats<'k>),
}

impl<'k> Ready<'k> {
    fn packed(self) -> Packed<'k> {
        match self {
            Ready::Packed(pairs) => pairs,
            Ready::Whole(_) => panic!("compiler bug: 16-bit slots take pairs"),
        }
    }

    fn whole(self) -> Floats<'k> {
        match self {
            Ready::Whole(values) => values,
            Ready::Packed(_) => panic!("compiler bug: packed values go through 16-bit slots"),
        }
    }
}

/// The tile outputs of a warpgroup.
pub(super) struct Departures<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    /// The warpgroup's own barrier.
    barrier: Reg<'k, U32>,
    /// Whether this is the warp that issues the warpgroup's copies; always the same lane of it does.
    issues: Reg<'k, Pred>,
    policy: Option<Policy<'k>>,
    slots: SharedAddress<'k>,
    /// Which slot comes next, in bytes.
    slot: Var<'k, U32>,
}

impl<'a, 'k> Departures<'a, 'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        warpgroup: Reg<'k, U32>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let bytes = plan.schedule.store_stages * plan.schedule.slot_bytes();
        let slots = k.region(&plan.stores) + warpgroup * bytes;
        Departures {
            k,
            plan,
            parameters,
            barrier: warpgroup + 1,
            issues: k.uniform(rank >> 5).eq(0),
            policy: (plan.schedule.hints != Hints::None).then(|| k.policy(Eviction::First)),
            slots,
            slot: k.var(0),
        }
    }

    /// Where a block's elements of the direct outputs go: for each output, the thread's first column of its two rows.
    pub(super) fn pointers(&self, spot: &Spot<'k>) -> Vec<Option<[GlobalPointer<'k>; 2]>> {
        let of = |destination: &Destination<'k>| match destination {
            Destination::Map(_) => None,
            Destination::Direct(memory) => {
                Some(spot.rows.map(|row| memory.element(self.k, [spot.batch, row, spot.column])))
            }
        };
        self.parameters.destinations.iter().map(of).collect()
    }

    /// An output's values of one group as they will leave.
    pub(super) fn ready(&self, output: usize, values: [Reg<'k, F32>; 4]) -> Ready<'k> {
        match (&self.parameters.destinations[output], self.half(output)) {
            (Destination::Map(_), Some(half)) => {
                let pack = |row: usize| self.k.pack_halves(half, values[row], values[row + 1]);
                Ready::Packed([pack(0), pack(2)])
            }
            (Destination::Map(_) | Destination::Direct(_), _) => Ready::Whole(values),
        }
    }

    fn half(&self, output: usize) -> Option<Half> {
        match self.plan.graph.outputs()[output].dtype {
            DType::F16 => Some(Half::F16),
            DType::BF16 => Some(Half::BF16),
            _ => None,
        }
    }

    /// Sends a subtile of an output out, group of 8 columns by group.
    pub(super) fn send(
        &self,
        lanes: &Lanes<'k>,
        spot: &Spot<'k>,
        subtile: Subtile,
        output: usize,
        groups: &[Ready<'k>],
    ) {
        let half = self.half(output);
        match (&self.parameters.destinations[output], spot.stores[output]) {
            (Destination::Direct(memory), Some(pointers)) => {
                let path = self.plan.schedule.needs.stores[output];
                self.store(memory, path, half, pointers, spot, subtile, groups);
            }
            (Destination::Map(tile), _) => {
                let columns = tile.layout.columns();
                let access = lanes.of(tile.layout.major);
                for (place, groups) in groups.chunks_exact(columns as usize / 8).enumerate() {
                    let column = spot.tile_column + subtile.offset + place as u32 * columns;
                    self.send_slot(tile, column, spot, |start| {
                        if half.is_some() {
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

    /// Frees a slot, fills it and copies it.
    fn send_slot(
        &self,
        tile: &MappedTile<'k>,
        column: Reg<'k, U32>,
        spot: &Spot<'k>,
        fill: impl FnOnce(SharedAddress<'k>),
    ) {
        let (k, stages) = (self.k, self.plan.schedule.store_stages);
        let slot_bytes = self.plan.schedule.slot_bytes();
        self.issue(|| k.bulk_wait(stages - 1, WaitFor::Read));
        k.sync_named(self.barrier, 128);
        let start = self.slots + self.slot.get();
        fill(start);
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.sync_named(self.barrier, 128);
        self.issue(|| {
            let map = tile.map.address();
            for each in tile.layout.boxes(spot.block_row, column, spot.batch) {
                k.tensor_store(map, &each.coordinates, start + each.offset, self.policy);
            }
            k.bulk_commit();
        });
        let next = self.slot.get() + slot_bytes;
        let wrapped = next.eq(stages * slot_bytes);
        self.slot.set(k.imm(0).select(next, wrapped));
    }

    #[allow(clippy::too_many_arguments)] // All of them say where the elements go.
    fn store(
        &self,
        memory: &Memory<'k>,
        path: Path,
        half: Option<Half>,
        pointers: [GlobalPointer<'k>; 2],
        spot: &Spot<'k>,
        subtile: Subtile,
        groups: &[Ready<'k>],
    ) {
        let k = self.k;
        for (group, ready) in groups.iter().enumerate() {
            for (element, value) in ready.whole().iter().enumerate() {
                let column = subtile.offset + 8 * group as u32 + element as u32 % 2;
                let to = memory.along(pointers[element / 2], path, column);
                let inside = spot.inside_rows[element / 2] & spot.remaining.gt(column);
                match half {
                    Some(half) => {
                        let value = k.half_of_f32(half, *value);
                        k.when(inside, || k.store_global(to, [value]));
                    }
                    None => k.when(inside, || k.store_global(to, [*value])),
                }
            }
        }
    }

    /// What one thread does for the warpgroup.
    fn issue(&self, body: impl FnOnce()) {
        self.k.if_(self.issues, || self.k.if_(self.k.elect(), body));
    }

    /// Waits until everything has left.
    pub(super) fn drain(&self) {
        self.issue(|| self.k.bulk_wait(0, WaitFor::Complete));
    }
}
