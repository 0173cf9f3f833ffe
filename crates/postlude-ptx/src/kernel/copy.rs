//! Asynchronous copies of boxes of tensors and of plain bytes.

use crate::address::TensorAddress;
use crate::inst::Inst;
use crate::modifier::{Dims, Reduction, WaitFor};
use crate::operand::{Operand, Use};
use crate::target::Tma;
use crate::types::{U16, U32};

use super::{Barrier, GlobalPointer, Kernel, Policy, SharedAddress, Src, TensorMap};

/// Where a copy into shared memory goes and how it is cached.
#[derive(Clone, Copy, Default)]
pub struct Delivery<'k> {
    /// CTAs of the cluster that receive it, a bit each; none means only this one. Data and completion arrive at the
    /// same addresses of each.
    pub receivers: Option<Src<'k, U16>>,
    /// How L2 treats the source.
    pub policy: Option<Policy<'k>>,
}

fn place<'k>(map: TensorMap<'k>, coordinates: &[Src<'k, U32>]) -> (Dims, TensorAddress) {
    let dims = coordinates.len();
    assert!((1..=5).contains(&dims), "compiler bug: a copy of {dims} dims");
    let coordinates = coordinates.iter().map(|each| each.operand).collect();
    (Dims(dims as u32), TensorAddress { map: map.0.register(), coordinates })
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// Copies the box at `coordinates`, innermost first, to `to`; its bytes complete on `barrier`.
    pub fn tensor_load(
        self,
        to: SharedAddress<'k>,
        map: TensorMap<'k>,
        coordinates: &[Src<'k, U32>],
        barrier: Barrier<'k>,
        delivery: Delivery<'k>,
    ) {
        let (dims, from) = place(map, coordinates);
        let (to, barrier) = (to.slot(), barrier.0.slot());
        let policy = delivery.policy.map(|policy| Use(policy.0.operand()));
        // The mask has no immediate form.
        let receivers = delivery.receivers.map(|mask| match mask.operand {
            Operand::Register(_) => mask.use_(),
            Operand::Integer(_) | Operand::Float(_) => Use(self.imm(mask).operand()),
        });
        self.code.push(match (receivers, policy) {
            (None, None) => Inst::TensorLoad { dims, to, from, barrier },
            (None, Some(policy)) => Inst::TensorLoadHint { dims, to, from, barrier, policy },
            (Some(receivers), None) => Inst::TensorMulticast { dims, to, from, barrier, receivers },
            (Some(receivers), Some(policy)) => {
                Inst::TensorMulticastHint { dims, to, from, barrier, receivers, policy }
            }
        });
    }

    /// Copies the box at `from` out of shared memory.
    pub fn tensor_store(
        self,
        map: TensorMap<'k>,
        coordinates: &[Src<'k, U32>],
        from: SharedAddress<'k>,
        policy: Option<Policy<'k>>,
    ) {
        let ((dims, to), from) = (place(map, coordinates), from.slot());
        self.code.push(match policy {
            None => Inst::TensorStore { dims, to, from },
            Some(policy) => {
                Inst::TensorStoreHint { dims, to, from, policy: Use(policy.0.operand()) }
            }
        });
    }

    /// Combines the box at `from` with what is there.
    pub fn tensor_reduce(
        self,
        reduction: Reduction,
        map: TensorMap<'k>,
        coordinates: &[Src<'k, U32>],
        from: SharedAddress<'k>,
    ) {
        let (dims, to) = place(map, coordinates);
        self.code.push(Inst::TensorReduce { dims, reduction, to, from: from.slot() });
    }

    /// Copies bytes, a multiple of 16 at addresses that are; they complete on `barrier`.
    pub fn bulk_load(
        self,
        to: SharedAddress<'k>,
        from: GlobalPointer<'k>,
        bytes: impl Into<Src<'k, U32>>,
        barrier: Barrier<'k>,
    ) {
        let (to, from, barrier) = (to.slot(), from.slot(), barrier.0.slot());
        self.code.push(Inst::BulkLoad { to, from, bytes: bytes.into().use_(), barrier });
    }

    /// Copies bytes out of shared memory, a multiple of 16 at addresses that are.
    pub fn bulk_store(
        self,
        to: GlobalPointer<'k>,
        from: SharedAddress<'k>,
        bytes: impl Into<Src<'k, U32>>,
    ) {
        let (to, from, bytes) = (to.slot(), from.slot(), bytes.into().use_());
        self.code.push(Inst::BulkStore { to, from, bytes });
    }

    /// Closes a group of copies out of shared memory.
    pub fn bulk_commit(self) {
        self.code.push(Inst::BulkCommit {});
    }

    /// Waits until at most `pending` groups of this thread are under way, or still read their sources.
    pub fn bulk_wait(self, pending: u32, wait: WaitFor) {
        self.code.push(Inst::BulkWait { wait, pending: Use(Operand::Integer(pending.into())) });
    }
}
