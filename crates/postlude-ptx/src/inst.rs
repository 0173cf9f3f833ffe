//! A table of the instructions we know: one line each, from which the enum, its printer, its reader and the walk over
//! its registers are made.
//!
//! In brackets the words of the opcode in the order of the PTX ISA, fixed ones as text and chosen ones as fields; in
//! parentheses the operands. Invariant: `Inst::read` of what was printed is what was printed.

use std::fmt;

use crate::address::{Address, Elected, Label, Sink, Special, Symbol, TensorAddress};
use crate::modifier::{
    Alignment, Approx, ArriveOrder, Compare, CopyCache, Dims, Eviction, LoadCache, MatrixCount,
    Modifier, Order, Parts, ProxySpace, Published, Reduction, RegisterChange, Rounding, Saturation,
    Scope, Seen, Shape, ShuffleMode, SumOverflow, Transposition, VectorWidth, VoteMode, WaitFor,
    Window,
};
use crate::operand::{
    Accumulators, Def, DefVector, Defs, Immediates, List, MatrixA, Rest, Slot, Trailing, Use,
    UseVector, Uses, Visitor,
};
use crate::text;
use crate::types::Scalar;

macro_rules! instructions {
    ($(
        $(#[$doc:meta])*
        $name:ident $opcode:literal $([ $( $($word:literal)? $($modifier:ident : $kind:ty)? ),* ])? ( $( $operand:ident : $slot:ty ),* );
    )*) => {
        /// One instruction as data.
        #[derive(Clone, PartialEq, Debug)]
        pub enum Inst {
            $(
                $(#[$doc])*
                $name {
                    $($($(
                        #[doc = concat!("The modifier `", stringify!($modifier), "`.")]
                        $modifier: $kind,
                    )?)*)?
                    $(
                        #[doc = concat!("The operand `", stringify!($operand), "`.")]
                        $operand: $slot,
                    )*
                },
            )*
        }

        impl fmt::Display for Inst {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                match self {
                    $(Inst::$name { $($($($modifier,)?)*)? $($operand,)* } => {
                        f.write_str($opcode)?;
                        $($( $(f.write_str(concat!(".", $word))?;)? $(Modifier::write($modifier, f)?;)? )*)?
                        #[allow(unused_variables, unused_mut, reason = "instructions without operands")]
                        let mut list = List::new(f);
                        $( Slot::write($operand, &mut list)?; )*
                    })*
                }
                f.write_str(";")
            }
        }

        impl Inst {
            /// The names of all forms, in the order of the table.
            pub const FORMS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// The name of this form.
            pub const fn form(&self) -> &'static str {
                match self {
                    $(Inst::$name { .. } => stringify!($name)),*
                }
            }

            /// The typed instruction, when the table has it; its predicate is the caller's.
            pub fn read(instruction: &text::Instruction) -> Option<Inst> {
                $({
                    let attempt = || {
                        let mut parts = Parts(&instruction.opcode);
                        parts.literal($opcode)?;
                        $($( $(parts.literal($word)?;)? $(let $modifier = <$kind as Modifier>::read(&mut parts)?;)? )*)?
                        parts.end()?;
                        #[allow(unused_mut, reason = "instructions without operands")]
                        let mut operands = Rest(&instruction.operands);
                        $( let $operand = <$slot as Slot>::read(&mut operands)?; )*
                        operands.end()?;
                        Some(Inst::$name { $($($($modifier,)?)*)? $($operand,)* })
                    };
                    if let Some(inst) = attempt() {
                        return Some(inst);
                    }
                })*
                None
            }

            /// Names every register the instruction reads and writes, in the order of the text.
            pub fn visit(&self, visitor: &mut Visitor<'_>) {
                match self {
                    $(Inst::$name { $($operand,)* .. } => {
                        $( Slot::visit($operand, visitor); )*
                    })*
                }
            }
        }
    };
}

instructions! {
    /// Sum of integers.
    Add "add" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Sum of floats, rounded to nearest.
    AddFloat "add" ["rn", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Difference of integers.
    Sub "sub" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Difference of floats, rounded to nearest.
    SubFloat "sub" ["rn", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Lower half of a product.
    MulLow "mul" ["lo", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Upper half of a product.
    MulHigh "mul" ["hi", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Product of twice the width.
    MulWide "mul" ["wide", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Product of floats, rounded to nearest.
    MulFloat "mul" ["rn", ty: Scalar] (d: Def, a: Use, b: Use);
    /// `a * b + c`, lower half.
    MadLow "mad" ["lo", ty: Scalar] (d: Def, a: Use, b: Use, c: Use);
    /// `a * b + c` of twice the width.
    MadWide "mad" ["wide", ty: Scalar] (d: Def, a: Use, b: Use, c: Use);
    /// `a * b + c`, rounded once.
    Fma "fma" ["rn", ty: Scalar] (d: Def, a: Use, b: Use, c: Use);
    /// Quotient of integers.
    Div "div" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Quotient of floats, off by at most 2 units in the last place.
    DivFull "div" ["full", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Remainder of integers.
    Rem "rem" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// The smaller; of floats the one that is a number.
    Min "min" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// The smaller, or NaN when a side is.
    MinNan "min" ["NaN", ty: Scalar] (d: Def, a: Use, b: Use);
    /// The larger; of floats the one that is a number.
    Max "max" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// The larger, or NaN when a side is.
    MaxNan "max" ["NaN", ty: Scalar] (d: Def, a: Use, b: Use);
    /// Negation.
    Neg "neg" [ty: Scalar] (d: Def, a: Use);
    /// Absolute value.
    Abs "abs" [ty: Scalar] (d: Def, a: Use);
    /// Bitwise and.
    And "and" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Bitwise or.
    Or "or" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Bitwise xor.
    Xor "xor" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Bitwise complement.
    Not "not" [ty: Scalar] (d: Def, a: Use);
    /// Shift to the left.
    Shl "shl" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Shift to the right.
    Shr "shr" [ty: Scalar] (d: Def, a: Use, b: Use);
    /// Ones counted.
    PopulationCount "popc" [ty: Scalar] (d: Def, a: Use);
    /// Bytes of two registers, chosen by a third.
    Permute "prmt" ["b32"] (d: Def, a: Use, b: Use, c: Use);
    /// Any function of three bits, by its table.
    Lop3 "lop3" ["b32"] (d: Def, a: Use, b: Use, c: Use, table: Use);
    /// Comparison.
    Setp "setp" [compare: Compare, ty: Scalar] (d: Def, a: Use, b: Use);
    /// `a` where the predicate holds, else `b`.
    Select "selp" [ty: Scalar] (d: Def, a: Use, b: Use, p: Use);
    /// Copy of a register or immediate.
    Mov "mov" [ty: Scalar] (d: Def, a: Use);
    /// Read of a special register.
    MovSpecial "mov" [ty: Scalar] (d: Def, special: Special);
    /// Address of a symbol.
    MovSymbol "mov" [ty: Scalar] (d: Def, symbol: Symbol);
    /// Two registers from one of twice the width.
    Unpack "mov" [ty: Scalar] (d: DefVector, a: Use);
    /// One register from two of half the width.
    Pack "mov" [ty: Scalar] (d: Def, a: UseVector);
    /// Conversion.
    Convert "cvt" [rounding: Rounding, saturation: Saturation, to: Scalar, from: Scalar] (d: Def, a: Use);
    /// Conversion of two values into one register: `a` the upper, `b` the lower half.
    ConvertPair "cvt" [rounding: Rounding, saturation: Saturation, to: Scalar, from: Scalar] (d: Def, a: Use, b: Use);
    /// An approximate function.
    ApproxEx2 "ex2" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function, whose denormals are zero.
    ApproxEx2Flush "ex2" ["approx", "ftz", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxLg2 "lg2" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxRcp "rcp" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxRsqrt "rsqrt" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function, whose denormals are zero.
    ApproxRcpFlush "rcp" ["approx", "ftz", ty: Scalar] (d: Def, a: Use);
    /// An approximate function, whose denormals are zero.
    ApproxRsqrtFlush "rsqrt" ["approx", "ftz", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxSqrt "sqrt" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxTanh "tanh" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxSin "sin" ["approx", ty: Scalar] (d: Def, a: Use);
    /// An approximate function.
    ApproxCos "cos" ["approx", ty: Scalar] (d: Def, a: Use);
    /// A register of another lane.
    Shuffle "shfl" ["sync", mode: ShuffleMode, "b32"] (d: Def, a: Use, lane: Use, clamp: Use, members: Use);
    /// A question to all lanes.
    Vote "vote" ["sync", mode: VoteMode, "pred"] (d: Def, a: Use, members: Use);
    /// Each lane's predicate as a bit.
    Ballot "vote" ["sync", "ballot", "b32"] (d: Def, a: Use, members: Use);
    /// True in one lane of the warp.
    Elect "elect" ["sync"] (d: Elected, members: Use);

    /// Read of global memory.
    LoadGlobal "ld" ["global", cache: LoadCache, width: VectorWidth, ty: Scalar] (d: Defs, address: Address);
    /// Ordered read of global memory.
    LoadOrdered "ld" [order: Order, scope: Scope, "global", ty: Scalar] (d: Def, address: Address);
    /// Write of global memory.
    StoreGlobal "st" ["global", width: VectorWidth, ty: Scalar] (address: Address, a: Uses);
    /// Ordered write of global memory.
    StoreOrdered "st" [order: Order, scope: Scope, "global", ty: Scalar] (address: Address, a: Use);
    /// Read of shared memory.
    LoadShared "ld" [window: Window, width: VectorWidth, ty: Scalar] (d: Defs, address: Address);
    /// Write of shared memory.
    StoreShared "st" [window: Window, width: VectorWidth, ty: Scalar] (address: Address, a: Uses);
    /// Write of shared memory of any CTA of the cluster, which completes on a barrier there.
    StoreAsync "st" ["async", "shared::cluster", "mbarrier::complete_tx::bytes", ty: Scalar] (to: Address, a: Use, barrier: Address);
    /// Read of a kernel parameter.
    LoadParameter "ld" ["param", ty: Scalar] (d: Def, address: Address);
    /// Generic address of a kernel parameter.
    CvtaParameter "cvta" ["param", "u64"] (d: Def, a: Use);
    /// Global address from a generic one.
    CvtaToGlobal "cvta" ["to", "global", "u64"] (d: Def, a: Use);
    /// Atomic change of global memory, returning what was there.
    Atomic "atom" [order: Order, scope: Scope, "global", reduction: Reduction, ty: Scalar] (d: Def, address: Address, a: Use);
    /// Atomic compare and swap of global memory.
    AtomicSwap "atom" [order: Order, scope: Scope, "global", "cas", ty: Scalar] (d: Def, address: Address, compare: Use, a: Use);
    /// Atomic change of global memory.
    Reduce "red" [order: Order, scope: Scope, "global", reduction: Reduction, ty: Scalar] (address: Address, a: Use);
    /// Atomic change of shared memory, returning what was there.
    AtomicShared "atom" ["shared::cta", reduction: Reduction, ty: Scalar] (d: Def, address: Address, a: Use);
    /// Memory fence.
    Fence "fence" [order: Order, scope: Scope] ();
    /// Order between ordinary accesses and those of asynchronous copies and matrix products.
    FenceProxyAsync "fence" ["proxy", "async", space: ProxySpace] ();
    /// Makes initialised barriers visible to the cluster.
    FenceBarrierInit "fence" ["mbarrier_init", "release", "cluster"] ();

    /// Named barrier of the CTA.
    BarSync "bar" ["sync"] (barrier: Use, threads: Trailing);
    /// Arrival at a named barrier without waiting.
    BarArrive "bar" ["arrive"] (barrier: Use, threads: Use);
    /// Barrier of the warp.
    WarpSync "bar" ["warp", "sync"] (members: Use);
    /// Arrival at the cluster's barrier.
    ClusterArrive "barrier" ["cluster", "arrive", order: ArriveOrder, alignment: Alignment] ();
    /// Wait for the cluster's barrier.
    ClusterWait "barrier" ["cluster", "wait", alignment: Alignment] ();
    /// Makes a barrier in shared memory.
    BarrierInit "mbarrier" ["init", "shared::cta", "b64"] (barrier: Address, count: Use);
    /// Unmakes a barrier in shared memory.
    BarrierInvalidate "mbarrier" ["inval", "shared::cta", "b64"] (barrier: Address);
    /// Arrival at a barrier.
    BarrierArrive "mbarrier" ["arrive", published: Published, window: Window, "b64"] (sink: Sink, barrier: Address, count: Trailing);
    /// Arrival at a barrier that first promises bytes.
    BarrierExpect "mbarrier" ["arrive", "expect_tx", window: Window, "b64"] (sink: Sink, barrier: Address, bytes: Use);
    /// Asks, with patience, whether the phase of that parity is complete.
    BarrierTryWait "mbarrier" ["try_wait", "parity", seen: Seen, "shared::cta", "b64"] (d: Def, barrier: Address, parity: Use);
    /// Asks whether the phase of that parity is complete.
    BarrierTestWait "mbarrier" ["test_wait", "parity", "shared::cta", "b64"] (d: Def, barrier: Address, parity: Use);
    /// A shared address of another CTA of the cluster.
    MapAddress "mapa" ["shared::cluster", "u32"] (d: Def, a: Use, rank: Use);

    /// Asynchronous copy of 4, 8 or 16 bytes.
    CopyAsync "cp" ["async", cache: CopyCache, "shared", "global"] (to: Address, from: Address, bytes: Use, read: Trailing);
    /// Closes a group of such copies.
    CopyCommit "cp" ["async", "commit_group"] ();
    /// Waits until this many groups are pending.
    CopyWait "cp" ["async", "wait_group"] (pending: Use);
    /// Copy of bytes into shared memory.
    BulkLoad "cp" ["async", "bulk", "shared::cluster", "global", "mbarrier::complete_tx::bytes"] (to: Address, from: Address, bytes: Use, barrier: Address);
    /// Copy of bytes out of shared memory.
    BulkStore "cp" ["async", "bulk", "global", "shared::cta", "bulk_group"] (to: Address, from: Address, bytes: Use);
    /// Copy of a box into shared memory.
    TensorLoad "cp" ["async", "bulk", "tensor", dims: Dims, "shared::cluster", "global", "mbarrier::complete_tx::bytes"] (to: Address, from: TensorAddress, barrier: Address);
    /// With a cache policy.
    TensorLoadHint "cp" ["async", "bulk", "tensor", dims: Dims, "shared::cluster", "global", "mbarrier::complete_tx::bytes", "L2::cache_hint"] (to: Address, from: TensorAddress, barrier: Address, policy: Use);
    /// Into several CTAs of the cluster.
    TensorMulticast "cp" ["async", "bulk", "tensor", dims: Dims, "shared::cluster", "global", "mbarrier::complete_tx::bytes", "multicast::cluster"] (to: Address, from: TensorAddress, barrier: Address, receivers: Use);
    /// Into several CTAs of the cluster, with a cache policy.
    TensorMulticastHint "cp" ["async", "bulk", "tensor", dims: Dims, "shared::cluster", "global", "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"] (to: Address, from: TensorAddress, barrier: Address, receivers: Use, policy: Use);
    /// Copy of a box out of shared memory.
    TensorStore "cp" ["async", "bulk", "tensor", dims: Dims, "global", "shared::cta", "bulk_group"] (to: TensorAddress, from: Address);
    /// With a cache policy.
    TensorStoreHint "cp" ["async", "bulk", "tensor", dims: Dims, "global", "shared::cta", "bulk_group", "L2::cache_hint"] (to: TensorAddress, from: Address, policy: Use);
    /// Copy of a box out of shared memory that combines with what is there.
    TensorReduce "cp" ["reduce", "async", "bulk", "tensor", dims: Dims, "global", "shared::cta", reduction: Reduction, "bulk_group"] (to: TensorAddress, from: Address);
    /// Closes a group of copies out of shared memory.
    BulkCommit "cp" ["async", "bulk", "commit_group"] ();
    /// Waits until this many groups are pending.
    BulkWait "cp" ["async", "bulk", "wait_group", wait: WaitFor] (pending: Use);
    /// Brings the line of an address into L2.
    Prefetch "prefetch" ["global", "L2"] (address: Address);
    /// Brings a tensor map, given as a parameter, into the cache.
    PrefetchMap "prefetch" ["param", "tensormap"] (map: Address);
    /// Makes a cache policy.
    CreatePolicy "createpolicy" ["fractional", eviction: Eviction, "b64"] (d: Def);
    /// Waits for the grid before this one.
    GridWait "griddepcontrol" ["wait"] ();
    /// Lets the grid after this one start.
    GridLaunch "griddepcontrol" ["launch_dependents"] ();

    /// Orders registers and shared memory before matrix products.
    WgmmaFence "wgmma" ["fence", "sync", "aligned"] ();
    /// Matrix product of a warpgroup.
    Wgmma "wgmma" ["mma_async", "sync", "aligned", shape: Shape, overflow: SumOverflow, sum: Scalar, a_type: Scalar, b_type: Scalar] (d: Accumulators, a: MatrixA, b: Use, keep: Use, immediates: Immediates);
    /// Closes a group of matrix products.
    WgmmaCommit "wgmma" ["commit_group", "sync", "aligned"] ();
    /// Waits until this many groups are pending.
    WgmmaWait "wgmma" ["wait_group", "sync", "aligned"] (pending: Use);
    /// Matrix product of a warp.
    Mma "mma" ["sync", "aligned", shape: Shape, "row", "col", sum: Scalar, a_type: Scalar, b_type: Scalar, from: Scalar] (d: DefVector, a: UseVector, b: UseVector, c: UseVector);
    /// 8x8 matrices from shared memory.
    LoadMatrix "ldmatrix" ["sync", "aligned", "m8n8", count: MatrixCount, transposition: Transposition, "shared", "b16"] (d: DefVector, address: Address);
    /// 8x8 matrices into shared memory.
    StoreMatrix "stmatrix" ["sync", "aligned", "m8n8", count: MatrixCount, transposition: Transposition, "shared", "b16"] (address: Address, a: UseVector);
    /// Changes how many registers each thread of the warpgroup has.
    SetMaxRegisters "setmaxnreg" [change: RegisterChange, "sync", "aligned", "u32"] (count: Use);
    /// Allocates columns of tensor memory; their address is written to shared memory.
    TensorMemoryAllocate "tcgen05" ["alloc", "cta_group::1", "sync", "aligned", "shared::cta", "b32"] (to: Address, columns: Use);
    /// Gives columns of tensor memory back.
    TensorMemoryFree "tcgen05" ["dealloc", "cta_group::1", "sync", "aligned", "b32"] (from: Use, columns: Use);

    /// Jump.
    Branch "bra" (to: Label);
    /// Sleep of about this many nanoseconds.
    Sleep "nanosleep" ["u32"] (nanoseconds: Use);
    /// End of the kernel for this thread.
    Ret "ret" ();
    /// End of this thread, anywhere.
    Exit "exit" ();
    /// Stops the kernel with an error.
    Trap "trap" ();
}

impl Inst {
    /// The instruction of an approximate function.
    pub fn approx(function: Approx, ty: Scalar, d: Def, a: Use) -> Inst {
        match function {
            Approx::Ex2 => Inst::ApproxEx2 { ty, d, a },
            Approx::Ex2Flush => Inst::ApproxEx2Flush { ty, d, a },
            Approx::Lg2 => Inst::ApproxLg2 { ty, d, a },
            Approx::Rcp => Inst::ApproxRcp { ty, d, a },
            Approx::Rsqrt => Inst::ApproxRsqrt { ty, d, a },
            Approx::RcpFlush => Inst::ApproxRcpFlush { ty, d, a },
            Approx::RsqrtFlush => Inst::ApproxRsqrtFlush { ty, d, a },
            Approx::Sqrt => Inst::ApproxSqrt { ty, d, a },
            Approx::Tanh => Inst::ApproxTanh { ty, d, a },
            Approx::Sin => Inst::ApproxSin { ty, d, a },
            Approx::Cos => Inst::ApproxCos { ty, d, a },
        }
    }
}
