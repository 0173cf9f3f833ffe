//! Reads, writes and atomics of global and shared memory.

use crate::inst::Inst;
use crate::modifier::{
    CopyCache, LoadCache, MatrixCount, Order, ProxySpace, Reduction, Scope, Transposition,
    VectorWidth, Window,
};
use crate::operand::{DefVector, Defs, Operand, Register, Trailing, Use, UseVector, Uses};
use crate::target::{Architecture, Clusters, CpAsync, Tma};
use crate::types::{B32, Scalar, Type, U32};

use super::{
    ClusterAddress, ClusterBarrier, GlobalPointer, Guard, Kernel, Reg, SharedAddress, Src, Var,
};

const fn width(count: usize) -> VectorWidth {
    match count {
        1 => VectorWidth::V1,
        2 => VectorWidth::V2,
        4 => VectorWidth::V4,
        _ => panic!("compiler bug: accesses are of 1, 2 or 4 elements"),
    }
}

const fn matrices(count: usize) -> MatrixCount {
    match count {
        1 => MatrixCount::X1,
        2 => MatrixCount::X2,
        4 => MatrixCount::X4,
        _ => panic!("compiler bug: matrices move by 1, 2 or 4"),
    }
}

fn operands<T: Type, const N: usize>(values: [Reg<'_, T>; N]) -> Uses {
    Uses(values.iter().map(|each| each.operand()).collect::<Vec<Operand>>())
}

fn registers<T: Type>(values: &[Reg<'_, T>]) -> Vec<Register> {
    values.iter().map(|each| each.register()).collect()
}

impl<'k, A: Architecture> Kernel<'k, A> {
    fn fresh_array<T: Type, const N: usize>(self) -> [Reg<'k, T>; N] {
        std::array::from_fn(|_| self.code.fresh())
    }

    /// Reads 1, 2 or 4 neighbours.
    pub fn load_global<T: Type, const N: usize>(
        self,
        from: GlobalPointer<'k>,
        cache: LoadCache,
    ) -> [Reg<'k, T>; N] {
        let values = self.fresh_array();
        self.load_global_into(values, from, cache);
        values
    }

    fn load_global_into<T: Type, const N: usize>(
        self,
        values: [Reg<'k, T>; N],
        from: GlobalPointer<'k>,
        cache: LoadCache,
    ) {
        let (width, ty, d) = (width(N), T::CLASS.declared(), Defs(registers(&values)));
        self.code.push(Inst::LoadGlobal { cache, width, ty, d, address: from.slot() });
    }

    /// Reads 1, 2 or 4 neighbours where the guard holds; elsewhere each is `otherwise`.
    pub fn load_global_if<T: Type, const N: usize>(
        self,
        guard: impl Into<Guard<'k>>,
        from: GlobalPointer<'k>,
        cache: LoadCache,
        otherwise: impl Into<Src<'k, T>>,
    ) -> [Reg<'k, T>; N] {
        let (values, otherwise) = (self.fresh_array::<T, N>(), otherwise.into());
        for each in values {
            Var(each).set(otherwise);
        }
        self.when(guard, || self.load_global_into(values, from, cache));
        values
    }

    /// Brings the line of an address into L2.
    pub fn prefetch(self, address: GlobalPointer<'k>) {
        self.code.push(Inst::Prefetch { address: address.slot() });
    }

    /// Writes a word to a CTA of the cluster; its 4 bytes complete on a barrier there.
    pub fn store_async<T: Type>(
        self,
        to: ClusterAddress<'k>,
        value: Reg<'k, T>,
        barrier: ClusterBarrier<'k>,
    ) where
        A: Tma,
    {
        let (ty, a) = (T::CLASS.declared(), Use(value.operand()));
        let (to, barrier) = (to.slot(), barrier.slot());
        self.code.push(Inst::StoreAsync { ty, to, a, barrier });
    }

    /// Reads 8 or 16 bits, extended to 32 by the sign that `ty` has.
    pub fn load_global_narrow(
        self,
        ty: Scalar,
        from: GlobalPointer<'k>,
        cache: LoadCache,
    ) -> Reg<'k, U32> {
        let d = self.code.fresh::<U32>();
        self.load_global_narrow_into(d, ty, from, cache);
        d
    }

    /// Reads 8 or 16 bits where the guard holds, extended to 32 by the sign that `ty` has; elsewhere it is 0.
    pub fn load_global_narrow_if(
        self,
        guard: impl Into<Guard<'k>>,
        ty: Scalar,
        from: GlobalPointer<'k>,
        cache: LoadCache,
    ) -> Reg<'k, U32> {
        let d = self.imm::<U32>(0);
        self.when(guard, || self.load_global_narrow_into(d, ty, from, cache));
        d
    }

    fn load_global_narrow_into(
        self,
        d: Reg<'k, U32>,
        ty: Scalar,
        from: GlobalPointer<'k>,
        cache: LoadCache,
    ) {
        let (width, d) = (VectorWidth::V1, Defs(vec![d.register()]));
        self.code.push(Inst::LoadGlobal { cache, width, ty, d, address: from.slot() });
    }

    /// Writes 1, 2 or 4 neighbours.
    pub fn store_global<T: Type, const N: usize>(
        self,
        to: GlobalPointer<'k>,
        values: [Reg<'k, T>; N],
    ) {
        let (width, ty, a) = (width(N), T::CLASS.declared(), operands(values));
        self.code.push(Inst::StoreGlobal { width, ty, address: to.slot(), a });
    }

    /// Writes the lowest 8 or 16 bits.
    pub fn store_global_narrow(self, ty: Scalar, to: GlobalPointer<'k>, value: Reg<'k, U32>) {
        let (width, a) = (VectorWidth::V1, operands([value]));
        self.code.push(Inst::StoreGlobal { width, ty, address: to.slot(), a });
    }

    /// Reads with memory order.
    pub fn load_ordered<T: Type>(
        self,
        order: Order,
        scope: Scope,
        from: GlobalPointer<'k>,
    ) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        self.load_ordered_into(order, scope, Var(d), from);
        d
    }

    /// Reads with memory order into a variable.
    pub fn load_ordered_into<T: Type>(
        self,
        order: Order,
        scope: Scope,
        to: Var<'k, T>,
        from: GlobalPointer<'k>,
    ) {
        let (ty, d, address) = (T::CLASS.declared(), to.0.def(), from.slot());
        self.code.push(Inst::LoadOrdered { order, scope, ty, d, address });
    }

    /// Writes with memory order.
    pub fn store_ordered<T: Type>(
        self,
        order: Order,
        scope: Scope,
        to: GlobalPointer<'k>,
        value: impl Into<Src<'k, T>>,
    ) {
        let (ty, address, a) = (T::CLASS.declared(), to.slot(), value.into().use_());
        self.code.push(Inst::StoreOrdered { order, scope, ty, address, a });
    }

    /// Reads 1, 2 or 4 neighbours.
    pub fn load_shared<T: Type, const N: usize>(self, from: SharedAddress<'k>) -> [Reg<'k, T>; N] {
        let values = self.fresh_array();
        let (width, ty, d) = (width(N), T::CLASS.declared(), Defs(registers(&values)));
        let window = Window::Shared;
        self.code.push(Inst::LoadShared { window, width, ty, d, address: from.slot() });
        values
    }

    /// Reads 1, 2 or 4 neighbours into variables.
    pub fn load_shared_into<T: Type, const N: usize>(
        self,
        values: [Var<'k, T>; N],
        from: SharedAddress<'k>,
    ) {
        let (width, ty) = (width(N), T::CLASS.declared());
        let d = Defs(registers(&values.map(|each| each.0)));
        let (window, address) = (Window::Shared, from.slot());
        self.code.push(Inst::LoadShared { window, width, ty, d, address });
    }

    /// Reads 1, 2 or 4 neighbours from a CTA of the cluster.
    pub fn load_cluster<T: Type, const N: usize>(self, from: ClusterAddress<'k>) -> [Reg<'k, T>; N]
    where
        A: Clusters,
    {
        let values = self.fresh_array();
        let (width, ty, d) = (width(N), T::CLASS.declared(), Defs(registers(&values)));
        let window = Window::Cluster;
        self.code.push(Inst::LoadShared { window, width, ty, d, address: from.slot() });
        values
    }

    /// Reads 8 or 16 bits, extended to 32 by the sign that `ty` has.
    pub fn load_shared_narrow(self, ty: Scalar, from: SharedAddress<'k>) -> Reg<'k, U32> {
        let d = self.code.fresh::<U32>();
        self.code.push(Inst::LoadShared {
            window: Window::Shared,
            width: VectorWidth::V1,
            ty,
            d: Defs(vec![d.register()]),
            address: from.slot(),
        });
        d
    }

    /// Writes 1, 2 or 4 neighbours.
    pub fn store_shared<T: Type, const N: usize>(
        self,
        to: SharedAddress<'k>,
        values: [Reg<'k, T>; N],
    ) {
        let (width, ty, a) = (width(N), T::CLASS.declared(), operands(values));
        let window = Window::Shared;
        self.code.push(Inst::StoreShared { window, width, ty, address: to.slot(), a });
    }

    /// Writes the lowest 8 or 16 bits.
    pub fn store_shared_narrow(self, ty: Scalar, to: SharedAddress<'k>, value: Reg<'k, U32>) {
        let (window, width, a) = (Window::Shared, VectorWidth::V1, operands([value]));
        self.code.push(Inst::StoreShared { window, width, ty, address: to.slot(), a });
    }

    /// Changes global memory atomically and returns what was there.
    pub fn atomic<T: Type>(
        self,
        reduction: Reduction,
        order: Order,
        scope: Scope,
        at: GlobalPointer<'k>,
        value: impl Into<Src<'k, T>>,
    ) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        let (ty, address, a) = (T::SCALAR, at.slot(), value.into().use_());
        self.code.push(Inst::Atomic { order, scope, reduction, ty, d: d.def(), address, a });
        d
    }

    /// Replaces `compare` by `value` in global memory atomically and returns what was there.
    pub fn compare_and_swap<T: Type>(
        self,
        order: Order,
        scope: Scope,
        at: GlobalPointer<'k>,
        compare: impl Into<Src<'k, T>>,
        value: impl Into<Src<'k, T>>,
    ) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        let (ty, address) = (T::BITS, at.slot());
        let (compare, a) = (compare.into().use_(), value.into().use_());
        self.code.push(Inst::AtomicSwap { order, scope, ty, d: d.def(), address, compare, a });
        d
    }

    /// Changes global memory atomically.
    pub fn reduce<T: Type>(
        self,
        reduction: Reduction,
        order: Order,
        scope: Scope,
        at: GlobalPointer<'k>,
        value: impl Into<Src<'k, T>>,
    ) {
        let (ty, address, a) = (T::SCALAR, at.slot(), value.into().use_());
        self.code.push(Inst::Reduce { order, scope, reduction, ty, address, a });
    }

    /// Changes shared memory atomically and returns what was there.
    pub fn atomic_shared<T: Type>(
        self,
        reduction: Reduction,
        at: SharedAddress<'k>,
        value: impl Into<Src<'k, T>>,
    ) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        let (ty, address, a) = (T::SCALAR, at.slot(), value.into().use_());
        self.code.push(Inst::AtomicShared { reduction, ty, d: d.def(), address, a });
        d
    }

    /// A memory fence.
    pub fn fence(self, order: Order, scope: Scope) {
        self.code.push(Inst::Fence { order, scope });
    }
}

impl<'k, A: CpAsync> Kernel<'k, A> {
    /// Reads 1, 2 or 4 matrices of 8 rows of 16 bytes; lane `8i + j` names row `j` of matrix `i`.
    pub fn load_matrices<const N: usize>(
        self,
        from: SharedAddress<'k>,
        transposition: Transposition,
    ) -> [Reg<'k, B32>; N] {
        let values = self.fresh_array();
        let (count, d) = (matrices(N), DefVector(registers(&values)));
        self.code.push(Inst::LoadMatrix { count, transposition, d, address: from.slot() });
        values
    }
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// Writes 1, 2 or 4 matrices of 8 rows of 16 bytes; lane `8i + j` names row `j` of matrix `i`.
    pub fn store_matrices<const N: usize>(
        self,
        to: SharedAddress<'k>,
        values: [Reg<'k, B32>; N],
        transposition: Transposition,
    ) {
        let (count, a) = (matrices(N), UseVector(registers(&values)));
        self.code.push(Inst::StoreMatrix { count, transposition, address: to.slot(), a });
    }

    /// Orders this thread's ordinary accesses before later asynchronous copies and matrix products.
    pub fn fence_proxy_async(self, space: ProxySpace) {
        self.code.push(Inst::FenceProxyAsync { space });
    }

    /// Makes initialised barriers visible to the cluster and to copies.
    pub fn fence_barrier_init(self) {
        self.code.push(Inst::FenceBarrierInit {});
    }

    /// Waits for the grid before this one, when launched to overlap with it.
    pub fn grid_wait(self) {
        self.code.push(Inst::GridWait {});
    }

    /// Lets the grid after this one start.
    pub fn grid_launch_dependents(self) {
        self.code.push(Inst::GridLaunch {});
    }
}

impl<'k, A: CpAsync> Kernel<'k, A> {
    /// Copies 4, 8 or 16 bytes without waiting; beyond `read` bytes they are zero.
    pub fn copy_async(
        self,
        to: SharedAddress<'k>,
        from: GlobalPointer<'k>,
        bytes: u32,
        read: Option<Reg<'k, U32>>,
    ) {
        let cache = if bytes == 16 { CopyCache::Global } else { CopyCache::All };
        self.code.push(Inst::CopyAsync {
            cache,
            to: to.slot(),
            from: from.slot(),
            bytes: Use(Operand::Integer(bytes.into())),
            read: Trailing(read.map(Reg::operand)),
        });
    }

    /// Closes a group of such copies.
    pub fn copy_async_commit(self) {
        self.code.push(Inst::CopyCommit {});
    }

    /// Waits until at most `pending` groups are under way.
    pub fn copy_async_wait(self, pending: u32) {
        self.code.push(Inst::CopyWait { pending: Use(Operand::Integer(pending.into())) });
    }
}
