//! What lanes of a warp do together, and registers of a warpgroup.

use crate::address::Elected;
use crate::inst::Inst;
use crate::modifier::{RegisterChange, ShuffleMode, VoteMode};
use crate::operand::{Operand, Use};
use crate::target::{Architecture, RegisterReallocation, Tcgen05, Tma};
use crate::types::{B32, F32, Pred, Type, U32};

use super::{Kernel, Reg, SharedAddress, Src};

/// All lanes of a warp.
const WARP: Use = Use(Operand::Integer(0xffff_ffff));

impl<'k, A: Architecture> Kernel<'k, A> {
    /// 32 bits of another lane: the one named, or this one xor, minus or plus the number.
    pub fn shuffle<T: Type>(
        self,
        mode: ShuffleMode,
        value: Reg<'k, T>,
        lane: impl Into<Src<'k, U32>>,
    ) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        assert!(
            d.register().class.declared() != crate::types::Scalar::Pred
                && (T::BITS == B32::SCALAR || T::SCALAR == F32::SCALAR),
            "compiler bug: a shuffle of other than 32 bits"
        );
        // Lanes beyond the warp: the last one, but going up the first.
        let clamp = match mode {
            ShuffleMode::Index | ShuffleMode::Butterfly | ShuffleMode::Down => 31,
            ShuffleMode::Up => 0,
        };
        self.code.push(Inst::Shuffle {
            mode,
            d: d.def(),
            a: Use(value.operand()),
            lane: lane.into().use_(),
            clamp: Use(Operand::Integer(clamp)),
            members: WARP,
        });
        d
    }

    /// A question to all lanes.
    pub fn vote(self, mode: VoteMode, predicate: Reg<'k, Pred>) -> Reg<'k, Pred> {
        let d = self.code.fresh::<Pred>();
        let a = Use(predicate.operand());
        self.code.push(Inst::Vote { mode, d: d.def(), a, members: WARP });
        d
    }

    /// Each lane's predicate as a bit.
    pub fn ballot(self, predicate: Reg<'k, Pred>) -> Reg<'k, B32> {
        let d = self.code.fresh::<B32>();
        let a = Use(predicate.operand());
        self.code.push(Inst::Ballot { d: d.def(), a, members: WARP });
        d
    }

    /// Waits for all lanes, and orders their memory accesses.
    pub fn warp_sync(self) {
        self.code.push(Inst::WarpSync { members: WARP });
    }

    /// A value that all lanes share, said so that the compiler knows: lane 0's.
    pub fn uniform(self, value: Reg<'k, U32>) -> Reg<'k, U32> {
        self.shuffle(ShuffleMode::Index, value, 0)
    }
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// True in exactly one lane of the warp.
    pub fn elect(self) -> Reg<'k, Pred> {
        let d = self.code.fresh::<Pred>();
        self.code.push(Inst::Elect { d: Elected(d.register()), members: WARP });
        d
    }
}

impl<A: RegisterReallocation> Kernel<'_, A> {
    fn set_registers(self, change: RegisterChange, count: u32) {
        assert!(
            (24..=256).contains(&count) && count.is_multiple_of(8),
            "compiler bug: {count} registers a thread"
        );
        let count = Use(Operand::Integer(count.into()));
        self.code.push(Inst::SetMaxRegisters { change, count });
    }

    /// Gives registers of this warpgroup back, until each thread has `count`: a multiple of 8 from 24 to 256.
    pub fn decrease_registers(self, count: u32) {
        self.set_registers(RegisterChange::Decrease, count);
    }

    /// Waits for registers, until each thread of this warpgroup has `count`.
    pub fn increase_registers(self, count: u32) {
        self.set_registers(RegisterChange::Increase, count);
    }
}

impl<'k, A: Tcgen05> Kernel<'k, A> {
    /// Allocates columns of tensor memory; their address is written to shared memory at `to`.
    pub fn allocate_tensor_memory(self, to: SharedAddress<'k>, columns: u32) {
        let columns = Use(Operand::Integer(columns.into()));
        self.code.push(Inst::TensorMemoryAllocate { to: to.slot(), columns });
    }

    /// Gives columns of tensor memory back.
    pub fn free_tensor_memory(self, from: Reg<'k, B32>, columns: u32) {
        let columns = Use(Operand::Integer(columns.into()));
        self.code.push(Inst::TensorMemoryFree { from: Use(from.operand()), columns });
    }
}
