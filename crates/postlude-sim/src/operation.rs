//! Asynchronous operations: what each will do, and when it is done.
//!
//! In: operations as warps issue them. Out: bytes and registers, when the timing says. Invariant: an operation is in the
//! machine's list from its issue to its completion, and products of a warpgroup complete in order.

mod copy;
mod product;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use postlude_ptx::launch::{Swizzle, TensorMap};
use postlude_ptx::modifier::{Reduction, Shape};
use postlude_ptx::types::Scalar;

use crate::error::SimError;
use crate::machine::Machine;
use crate::program::Pc;

use copy::Copying;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Operation {
    /// The line that issued it.
    pub(crate) line: u32,
    /// The CTA that issued it, among the resident ones.
    pub(crate) cta: usize,
    /// The warp that issued it, in its CTA.
    pub(crate) warp: u32,
    pub(crate) work: Work,
}

/// What is under way, by number.
#[derive(Default, Debug)]
pub(crate) struct Operations {
    all: BTreeMap<u64, Operation>,
    /// All but [`Work::Copy`]: a launch has thousands of those under way, and a barrier waits for none of them.
    apart_from_copies: BTreeSet<u64>,
}

impl Deref for Operations {
    type Target = BTreeMap<u64, Operation>;

    fn deref(&self) -> &BTreeMap<u64, Operation> {
        &self.all
    }
}

impl Operations {
    pub(crate) fn insert(&mut self, number: u64, operation: Operation) {
        if !matches!(operation.work, Work::Copy { .. }) {
            self.apart_from_copies.insert(number);
        }
        self.all.insert(number, operation);
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Operation> {
        self.apart_from_copies.remove(&number);
        self.all.remove(&number)
    }

    /// The oldest load, store or product that is wanted.
    pub(crate) fn find(&self, wanted: impl Fn(&Work) -> bool) -> Option<u64> {
        let mut numbers = self.apart_from_copies.iter().copied();
        numbers.find(|number| wanted(&self.all[number].work))
    }
}

/// What it does.
#[derive(Debug)]
pub(crate) enum Work {
    /// Brings bytes into shared memory of a CTA, and says so at a barrier there.
    Load { receiver: usize, to: u32, barrier: u32, from: Place },
    /// Takes bytes out of shared memory of the own CTA.
    Store { from: u32, to: Place, reduction: Option<Reduction>, data: Option<Vec<u8>> },
    /// Multiplies.
    Product(Box<Product>),
    /// Brings 4, 8 or 16 bytes into shared memory, zeros after the first `read`.
    Copy { to: u32, from: u64, bytes: u32, read: u32 },
}

/// Where a copy's bytes come from, or go to.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A box of a tensor.
    Box { map: Box<TensorMap>, corner: Vec<i32> },
    /// Bytes.
    Bytes { address: u64, bytes: u32 },
    /// No memory: a word of a register.
    Word(u32),
}

impl Place {
    /// Bytes that it has, those beyond the tensor's edge counted.
    pub(crate) fn bytes(&self) -> u32 {
        match self {
            Place::Box { map, .. } => map.box_sizes.iter().product::<u32>() * map.element.bytes(),
            Place::Bytes { bytes, .. } => *bytes,
            Place::Word(_) => 4,
        }
    }

    /// How a box lies in shared memory; bytes one after the other, and boxes of one dim, lie as their source does.
    pub(crate) fn swizzle(&self) -> Option<Swizzle> {
        match self {
            Place::Box { map, .. } => (map.sizes.len() > 1).then_some(map.swizzle),
            Place::Bytes { .. } | Place::Word(_) => None,
        }
    }
}

/// A matrix product of a warpgroup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Product {
    /// The step that issued it.
    pub(crate) pc: Pc,
    pub(crate) line: u32,
    /// The first of the four warps.
    pub(crate) first: usize,
    pub(crate) shape: Shape,
    pub(crate) sum: Scalar,
    pub(crate) types: [Scalar; 2],
    /// Registers of the sums.
    pub(crate) sums: Vec<usize>,
    pub(crate) a: Matrix,
    pub(crate) b: Matrix,
    /// Whether the sums enter.
    pub(crate) keep: bool,
    pub(crate) saturate: bool,
    pub(crate) negate: [bool; 2],
    /// Warps that have issued it, a bit each.
    pub(crate) warps: u32,
    /// `setmaxnreg` instructions that the first of them had executed.
    pub(crate) resizes: usize,
}

/// Where a matrix is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Matrix {
    /// In shared memory; transposed when its rows are contiguous, not K.
    Shared { descriptor: u64, transposed: bool },
    /// In registers of each warp.
    Registers(Vec<usize>),
}

/// Products of a warpgroup, and the registers that it asked for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Warpgroup {
    /// Products that some of the four warps have issued, by number.
    pub(crate) partial: Vec<(u64, Product)>,
    /// Products that were handed over, by their numbers among all operations.
    pub(crate) issued: Vec<u64>,
    /// Products complete.
    pub(crate) done: u64,
    /// Each `setmaxnreg`, by the first warp that executed it.
    pub(crate) resizes: Vec<Resize>,
}

/// A `setmaxnreg` that a warp executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Resize {
    pub(crate) pc: Pc,
    pub(crate) line: u32,
    /// Registers of a thread.
    pub(crate) count: u32,
}

impl Machine<'_> {
    /// Lets an operation do its next part: a copy out of shared memory first reads, then writes; all others are done.
    pub(crate) fn advance(&mut self, number: u64) -> Result<(), SimError> {
        let Some(mut operation) = self.operations.remove(number) else { return Ok(()) };
        let Operation { line, cta, warp, .. } = operation;
        let copying = Copying { number, cta, warp, line };
        self.progress += 1;
        match &mut operation.work {
            Work::Load { receiver, to, barrier, from } => {
                self.deliver(copying, *receiver, *to, from)?;
                self.hit(*receiver, *to, number);
                self.observer.completed(copying.at(), number);
                let bytes = from.bytes();
                let (receiver, barrier) = (*receiver, *barrier);
                let target = &mut self.ctas[receiver];
                match target.mbarriers.get_mut(&barrier) {
                    Some(found) => {
                        self.observer.arrived(copying.at(), target.number, barrier, found.phase);
                        found.deliver(bytes);
                    }
                    None => self.blame_missing(copying.blamed(), line, barrier)?,
                }
            }
            Work::Store { from, to, data: data @ None, .. } => {
                *data = Some(self.take(copying, *from, to)?);
                self.hit(cta, *from, number);
                self.observer.source_read(copying.at(), number);
                self.operations.insert(number, operation);
            }
            Work::Store { to, reduction, data: Some(data), .. } => {
                self.put(copying, to, *reduction, data)?;
                self.observer.completed(copying.at(), number);
            }
            Work::Product(product) => {
                self.complete_product(number, cta, product)?;
                self.observer.completed(copying.at(), number);
            }
            Work::Copy { to, from, bytes, read } => {
                self.copy(copying, (*to, *from), *bytes, *read)?;
                self.hit(cta, *to, number);
                self.observer.completed(copying.at(), number);
            }
        }
        self.gather_clashes()
    }
}
