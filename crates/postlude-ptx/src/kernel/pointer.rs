//! Things that registers point to, each a type of its own.

use std::ops::Add;

use crate::address::{Address, Base, Symbol};
use crate::entry::SHARED_SYMBOL;
use crate::inst::Inst;
use crate::modifier::Eviction;
use crate::operand::Use;
use crate::shared::Region;
use crate::target::{Architecture, Clusters, Tma};
use crate::types::{Scalar, Type, U32, U64};

use super::{Kernel, Reg, Src};

fn address<T: Type>(base: Reg<'_, T>, offset: i64) -> Address {
    Address { base: Base::Register(base.register()), offset }
}

/// An address in the CTA's shared memory; constant offsets are part of the instructions that use it.
#[derive(Clone, Copy)]
pub struct SharedAddress<'k> {
    base: Reg<'k, U32>,
    offset: u32,
}

impl<'k> SharedAddress<'k> {
    /// The address that a register holds.
    pub fn from_register(base: Reg<'k, U32>) -> Self {
        SharedAddress { base, offset: 0 }
    }

    /// The whole address in a register.
    pub fn register(self) -> Reg<'k, U32> {
        if self.offset == 0 { self.base } else { self.base + self.offset }
    }

    pub(super) fn slot(self) -> Address {
        address(self.base, self.offset.into())
    }
}

impl Add<u32> for SharedAddress<'_> {
    type Output = Self;
    fn add(self, bytes: u32) -> Self {
        SharedAddress { offset: self.offset + bytes, ..self }
    }
}

impl<'k> Add<Reg<'k, U32>> for SharedAddress<'k> {
    type Output = Self;
    fn add(self, bytes: Reg<'k, U32>) -> Self {
        SharedAddress { base: self.base + bytes, ..self }
    }
}

/// An address in global memory; constant offsets are part of the instructions that use it.
#[derive(Clone, Copy)]
pub struct GlobalPointer<'k> {
    base: Reg<'k, U64>,
    offset: i64,
}

impl<'k> GlobalPointer<'k> {
    /// The address that a register holds.
    pub fn from_register(base: Reg<'k, U64>) -> Self {
        GlobalPointer { base, offset: 0 }
    }

    /// The whole address in a register.
    pub fn register(self) -> Reg<'k, U64> {
        if self.offset == 0 { self.base } else { self.base + self.offset as u64 }
    }

    /// The element at `index`, each of this many bytes.
    pub fn element(self, index: Reg<'k, U32>, bytes: u32) -> Self {
        GlobalPointer { base: index.mad_wide(bytes, self.base), ..self }
    }

    /// So many bytes on, or back.
    pub fn offset(self, bytes: i64) -> Self {
        GlobalPointer { offset: self.offset + bytes, ..self }
    }

    pub(super) fn slot(self) -> Address {
        address(self.base, self.offset)
    }
}

impl<'k> Add<Reg<'k, U64>> for GlobalPointer<'k> {
    type Output = Self;
    fn add(self, bytes: Reg<'k, U64>) -> Self {
        GlobalPointer { base: self.base + bytes, ..self }
    }
}

/// A barrier in the CTA's shared memory.
#[derive(Clone, Copy)]
pub struct Barrier<'k>(pub(super) SharedAddress<'k>);

impl<'k> Barrier<'k> {
    /// The barrier at an address, which takes 8 bytes aligned to 8.
    pub fn at(address: SharedAddress<'k>) -> Self {
        Barrier(address)
    }
}

/// A barrier in the shared memory of a CTA of the cluster.
#[derive(Clone, Copy)]
pub struct ClusterBarrier<'k> {
    base: Reg<'k, U32>,
    offset: u32,
}

impl ClusterBarrier<'_> {
    pub(super) fn slot(self) -> Address {
        address(self.base, self.offset.into())
    }
}

impl<'k> ClusterBarrier<'k> {
    /// The barrier this many bytes on.
    pub fn advance(self, bytes: impl Into<Src<'k, U32>>) -> Self {
        ClusterBarrier { base: self.base + bytes.into(), ..self }
    }
}

/// An address in the shared memory of a CTA of the cluster.
#[derive(Clone, Copy)]
pub struct ClusterAddress<'k> {
    base: Reg<'k, U32>,
    offset: u32,
}

impl ClusterAddress<'_> {
    pub(super) fn slot(self) -> Address {
        address(self.base, self.offset.into())
    }

    /// The address this many bytes on.
    pub fn advance(self, bytes: u32) -> Self {
        ClusterAddress { offset: self.offset + bytes, ..self }
    }
}

/// A descriptor of a matrix in shared memory.
#[derive(Clone, Copy)]
pub struct Descriptor<'k>(pub(super) Reg<'k, U64>);

impl<'k> Descriptor<'k> {
    /// The matrix this many bytes on: a multiple of 16.
    pub fn advance(self, bytes: u32) -> Self {
        assert!(bytes.is_multiple_of(16), "compiler bug: a descriptor between 16-byte units");
        if bytes == 0 { self } else { Descriptor(self.0 + u64::from(bytes / 16)) }
    }

    /// The matrix `index` times this many bytes on: a multiple of 16.
    pub fn element(self, index: Reg<'k, U32>, bytes: u32) -> Self {
        assert!(bytes.is_multiple_of(16), "compiler bug: a descriptor between 16-byte units");
        Descriptor(index.mad_wide(bytes / 16, self.0))
    }
}

/// The address of a tensor map.
#[derive(Clone, Copy)]
pub struct TensorMap<'k>(pub(super) Reg<'k, U64>);

/// How L2 treats what a copy touches.
#[derive(Clone, Copy)]
pub struct Policy<'k>(pub(super) Reg<'k, U64>);

impl<'k, A: Architecture> Kernel<'k, A> {
    /// The address of a byte of dynamic shared memory.
    pub fn shared(self, offset: u32) -> SharedAddress<'k> {
        let d = self.code.fresh::<U32>();
        let symbol = Symbol { name: SHARED_SYMBOL.to_owned(), offset: offset.into() };
        self.code.push(Inst::MovSymbol { ty: Scalar::U32, d: d.def(), symbol });
        SharedAddress::from_register(d)
    }

    /// The address of a region.
    pub fn region(self, region: &Region) -> SharedAddress<'k> {
        self.shared(region.offset)
    }
}

impl<'k, A: Clusters> Kernel<'k, A> {
    /// The same barrier of another CTA of the cluster.
    pub fn remote(self, barrier: Barrier<'k>, rank: impl Into<Src<'k, U32>>) -> ClusterBarrier<'k> {
        let d = self.code.fresh::<U32>();
        let (a, rank) = (Use(barrier.0.register().operand()), rank.into().use_());
        self.code.push(Inst::MapAddress { d: d.def(), a, rank });
        ClusterBarrier { base: d, offset: 0 }
    }

    /// The same address of another CTA of the cluster.
    pub fn remote_address(
        self,
        address: SharedAddress<'k>,
        rank: impl Into<Src<'k, U32>>,
    ) -> ClusterAddress<'k> {
        let d = self.code.fresh::<U32>();
        let (a, rank) = (Use(address.register().operand()), rank.into().use_());
        self.code.push(Inst::MapAddress { d: d.def(), a, rank });
        ClusterAddress { base: d, offset: 0 }
    }
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// A cache policy for copies.
    pub fn policy(self, eviction: Eviction) -> Policy<'k> {
        let d = self.code.fresh::<U64>();
        self.code.push(Inst::CreatePolicy { eviction, d: d.def() });
        Policy(d)
    }
}
