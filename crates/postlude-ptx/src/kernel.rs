//! The builder: a kernel under construction and its registers.
//!
//! In: calls, in the order of execution. Out: an [`Entry`]. Invariants: a [`Reg`] is written once, by the call that
//! returned it; a [`Var`] is the only thing that can be set; neither leaves its kernel; labels are nowhere visible.

mod arithmetic;
mod barrier;
mod control;
mod convert;
mod copy;
mod matrix;
mod memory;
mod parameter;
mod pointer;
mod warp;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use crate::address::{Label, Special};
use crate::entry::{Condition, Entry, Item, ParameterDeclaration};
use crate::inst::Inst;
use crate::operand::{Def, Operand, Register, Use};
use crate::shared::{Plan, Region};
use crate::target::{Architecture, Clusters};
use crate::types::{B16, B32, B64, F32, Pred, S32, S64, Type, U16, U32, U64};

pub use control::{Guard, Loop};
pub use convert::{Half, Packed8};
pub use copy::Delivery;
pub use matrix::{Accumulator, DescriptorLayout, Major, MatrixSource, MatrixType, Sign, WgmmaForm};
pub use parameter::{MapParameter, NumberParameter, PointerParameter};
pub use pointer::{
    Barrier, ClusterAddress, ClusterBarrier, Descriptor, GlobalPointer, Policy, SharedAddress,
    TensorMap,
};

/// Everything emitted so far, appended through cells.
#[derive(Default)]
pub struct Code {
    items: RefCell<Vec<Item>>,
    registers: [Cell<u32>; 5],
    labels: Cell<u32>,
    condition: Cell<Option<Condition>>,
    parameters: RefCell<Vec<ParameterDeclaration>>,
    regions: RefCell<Vec<Region>>,
    /// The newest PTX version that an instruction asked for.
    version: Cell<(u32, u32)>,
}

impl Code {
    fn push(&self, inst: Inst) {
        let condition = self.condition.get();
        self.items.borrow_mut().push(Item::Inst { condition, inst });
    }

    fn fresh<T: Type>(&self) -> Reg<'_, T> {
        let counter = &self.registers[T::CLASS.index()];
        Reg { code: self, number: counter.replace(counter.get() + 1), marker: PhantomData }
    }

    fn label(&self) -> Label {
        Label(self.labels.replace(self.labels.get() + 1))
    }

    fn mark(&self, label: Label) {
        assert!(self.condition.get().is_none(), "compiler bug: control flow under a condition");
        self.items.borrow_mut().push(Item::Label(label));
    }
}

/// Ties a value to one kernel: the lifetime may neither grow nor shrink.
type Brand<'k, T> = PhantomData<(Cell<&'k ()>, fn() -> T)>;

/// A virtual register, written once, by the call that returned it.
pub struct Reg<'k, T> {
    code: &'k Code,
    number: u32,
    marker: Brand<'k, T>,
}

impl<T> Clone for Reg<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Reg<'_, T> {}

impl<'k, T: Type> Reg<'k, T> {
    /// The register as data.
    pub fn register(self) -> Register {
        Register { class: T::CLASS, number: self.number }
    }

    fn def(self) -> Def {
        Def(self.register())
    }

    fn operand(self) -> Operand {
        Operand::Register(self.register())
    }

    /// The same register, read as another type of its class.
    pub fn cast<U: Type>(self) -> Reg<'k, U> {
        assert!(T::CLASS == U::CLASS, "compiler bug: a cast between classes of registers");
        Reg { code: self.code, number: self.number, marker: PhantomData }
    }
}

/// A register that may be written again: counters, phases, accumulators.
pub struct Var<'k, T>(Reg<'k, T>);

impl<T> Clone for Var<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Var<'_, T> {}

impl<'k, T: Type> Var<'k, T> {
    /// The register itself: it shows what was last set when it is used, not when this was called.
    pub fn get(self) -> Reg<'k, T> {
        self.0
    }

    /// Writes it.
    pub fn set(self, value: impl Into<Src<'k, T>>) {
        let (ty, d, a) = (T::CLASS.declared(), self.0.def(), value.into().use_());
        self.0.code.push(Inst::Mov { ty, d, a });
    }

    /// What it holds now, in a register of its own.
    pub fn copy(self) -> Reg<'k, T> {
        let copy = Var(self.0.code.fresh());
        copy.set(self);
        copy.0
    }
}

/// A register or an immediate of type `T`.
pub struct Src<'k, T> {
    operand: Operand,
    marker: Brand<'k, T>,
}

impl<T> Clone for Src<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Src<'_, T> {}

impl<T> Src<'_, T> {
    fn new(operand: Operand) -> Self {
        Src { operand, marker: PhantomData }
    }

    fn use_(self) -> Use {
        Use(self.operand)
    }
}

impl<'k, T: Type> From<Reg<'k, T>> for Src<'k, T> {
    fn from(register: Reg<'k, T>) -> Self {
        Src::new(register.operand())
    }
}
impl<'k, T: Type> From<Var<'k, T>> for Src<'k, T> {
    fn from(variable: Var<'k, T>) -> Self {
        Src::new(variable.0.operand())
    }
}

macro_rules! immediates {
    ($($ty:ty: $rust:ty;)*) => {$(
        impl From<$rust> for Src<'_, $ty> {
            fn from(value: $rust) -> Self {
                Src::new(Operand::Integer(value.into()))
            }
        }
    )*};
}
immediates! {
    U16: u16;
    B16: u16;
    U32: u32;
    B32: u32;
    S32: i32;
    S64: i64;
    U64: u64;
    B64: u64;
}

impl From<f32> for Src<'_, F32> {
    fn from(value: f32) -> Self {
        Src::new(Operand::Float(value.to_bits()))
    }
}
impl From<bool> for Src<'_, Pred> {
    fn from(value: bool) -> Self {
        Src::new(Operand::Integer(value.into()))
    }
}

/// What a kernel declares beside its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes<A> {
    threads: u32,
    cluster: Option<[u32; 3]>,
    blocks_per_multiprocessor: Option<u32>,
    target: PhantomData<A>,
}

impl<A: Architecture> Attributes<A> {
    /// A kernel of CTAs with this many threads.
    pub fn new(threads: u32) -> Self {
        Attributes { threads, cluster: None, blocks_per_multiprocessor: None, target: PhantomData }
    }

    /// Registers are limited so that this many CTAs fit one multiprocessor.
    pub fn blocks_per_multiprocessor(self, blocks: u32) -> Self {
        Attributes { blocks_per_multiprocessor: Some(blocks), ..self }
    }
}

impl<A: Clusters> Attributes<A> {
    /// CTAs come in clusters of this shape.
    pub fn cluster(self, shape: [u32; 3]) -> Self {
        Attributes { cluster: Some(shape), ..self }
    }
}

/// The kernel under construction: a handle to pass anywhere and capture in closures.
pub struct Kernel<'k, A> {
    code: &'k Code,
    marker: Brand<'k, A>,
}

impl<A> Clone for Kernel<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A> Copy for Kernel<'_, A> {}

/// Runs `body` on a new kernel and returns what it emitted.
pub fn build<A: Architecture>(
    name: &str,
    attributes: Attributes<A>,
    body: impl for<'k> FnOnce(Kernel<'k, A>),
) -> Entry {
    let code = Code::default();
    body(Kernel { code: &code, marker: PhantomData });
    code.push(Inst::Ret {});
    Entry {
        name: name.to_owned(),
        target: A::TARGET,
        version: A::TARGET.version.max(code.version.get()),
        cluster: attributes.cluster,
        threads: attributes.threads,
        blocks_per_multiprocessor: attributes.blocks_per_multiprocessor,
        parameters: code.parameters.take(),
        registers: code.registers.map(Cell::into_inner),
        regions: code.regions.take(),
        items: code.items.take(),
    }
}

impl<'k, A: Architecture> Kernel<'k, A> {
    /// A variable with a first value.
    pub fn var<T: Type>(self, value: impl Into<Src<'k, T>>) -> Var<'k, T> {
        let variable = self.unset();
        variable.set(value);
        variable
    }

    /// A variable without a value: one that a matrix product clears, or that both sides of a branch set.
    pub fn unset<T: Type>(self) -> Var<'k, T> {
        Var(self.code.fresh())
    }

    /// A value in a register, for instructions without immediates.
    pub fn imm<T: Type>(self, value: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        self.var(value).get()
    }

    /// A remark in the text.
    pub fn comment(self, text: &str) {
        self.code.items.borrow_mut().push(Item::Comment(text.replace('\n', " ")));
    }

    /// Declares the regions of shared memory, for the checks and for diagnoses.
    pub fn use_plan(self, plan: &Plan) {
        self.code.regions.borrow_mut().extend_from_slice(plan.regions());
    }

    fn special<T: Type>(self, special: Special) -> Reg<'k, T> {
        let d = self.code.fresh::<T>();
        self.code.push(Inst::MovSpecial { ty: T::SCALAR, d: d.def(), special });
        d
    }

    /// The thread in its CTA, `%tid.x`.
    pub fn thread(self) -> Reg<'k, U32> {
        self.special(Special::ThreadX)
    }

    /// The CTA in the grid, `%ctaid.x`.
    pub fn block(self) -> Reg<'k, U32> {
        self.special(Special::BlockX)
    }

    /// CTAs of the grid, `%nctaid.x`.
    pub fn blocks(self) -> Reg<'k, U32> {
        self.special(Special::GridX)
    }

    /// Any special register of 32 bits.
    pub fn special_register(self, special: Special) -> Reg<'k, U32> {
        self.special(special)
    }

    /// The thread in its warp, `%laneid`.
    pub fn lane(self) -> Reg<'k, U32> {
        self.special(Special::Lane)
    }

    /// Clock cycles of the multiprocessor, `%clock64`.
    pub fn clock(self) -> Reg<'k, U64> {
        self.special(Special::Clock)
    }

    /// Nanoseconds since some start, `%globaltimer`.
    pub fn nanoseconds(self) -> Reg<'k, U64> {
        self.special(Special::Nanoseconds)
    }
}

impl<'k, A: Clusters> Kernel<'k, A> {
    /// The cluster in the grid, `%clusterid.x`.
    pub fn cluster(self) -> Reg<'k, U32> {
        self.special(Special::ClusterX)
    }

    /// Clusters of the grid, `%nclusterid.x`.
    pub fn clusters(self) -> Reg<'k, U32> {
        self.special(Special::ClustersX)
    }

    /// The CTA in its cluster, `%cluster_ctarank`.
    pub fn cluster_rank(self) -> Reg<'k, U32> {
        self.special(Special::ClusterRank)
    }
}
