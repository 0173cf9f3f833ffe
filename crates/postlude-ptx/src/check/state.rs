//! What is known before an instruction: registers written, and matrix products under way.

use std::collections::HashMap;
use std::rc::Rc;

use crate::entry::{Condition, Entry, Item};
use crate::inst::Inst;
use crate::operand::{Access, MatrixA, Operand, Register};

use super::Finding;
use super::bits::Bits;

/// Groups that are told apart; older ones are taken together.
const GROUPS: usize = 8;

/// Registers of matrix products.
#[derive(Clone, PartialEq, Eq)]
struct Products {
    /// Those that they add to.
    sums: Bits,
    /// Those that they only read.
    sources: Bits,
}

impl Products {
    fn none(bound: usize) -> Self {
        Products { sums: Bits::empty(bound), sources: Bits::empty(bound) }
    }

    fn unite(&mut self, other: &Products) -> bool {
        // Both sides have to be united, so no short cut.
        self.sums.unite(&other.sums) | self.sources.unite(&other.sources)
    }

    fn is_empty(&self) -> bool {
        self.sums.is_empty() && self.sources.is_empty()
    }

    fn forbids(&self, access: Access, register: usize) -> bool {
        let writes = match access {
            Access::Read => false,
            Access::Write | Access::Accumulate => true,
        };
        self.sums.contains(register) || writes && self.sources.contains(register)
    }
}

/// What holds on all paths to a place, or may hold on some.
#[derive(Clone)]
pub(super) struct State {
    /// The registers that the kernel names, numbered without gaps, whatever their own numbers are.
    places: Rc<HashMap<Register, usize>>,
    bound: usize,
    /// Registers of any product in the kernel.
    products: Bits,
    /// Written on all paths.
    written: Bits,
    /// Written in this block under a condition.
    conditional: Vec<(Register, Condition)>,
    /// On all paths fenced since a product's register was touched.
    fenced: bool,
    /// Perhaps issued and not committed.
    open: Products,
    /// Perhaps committed and under way, the newest last.
    groups: Vec<Products>,
}

impl State {
    /// Before the first instruction: nothing written, nothing under way.
    pub(super) fn at_entry(entry: &Entry) -> Self {
        let mut places: HashMap<Register, usize> = HashMap::new();
        let mut see = |register: Register| {
            let next = places.len();
            places.entry(register).or_insert(next);
        };
        for item in &entry.items {
            if let Item::Inst { condition, inst } = item {
                if let Some(condition) = condition {
                    see(condition.predicate);
                }
                inst.visit(&mut |_, register| see(register));
            }
        }
        let bound = places.len();
        let mut state = State {
            places: Rc::new(places),
            bound,
            products: Bits::empty(bound),
            written: Bits::empty(bound),
            conditional: Vec::new(),
            fenced: false,
            open: Products::none(bound),
            groups: Vec::new(),
        };
        for inst in entry.instructions() {
            if let Some(used) = state.of_product(inst) {
                state.products.unite(&used.sums);
                state.products.unite(&used.sources);
            }
        }
        state
    }

    fn index(&self, register: Register) -> usize {
        self.places[&register]
    }

    /// The registers of a matrix product that it uses after it was issued.
    fn of_product(&self, inst: &Inst) -> Option<Products> {
        let Inst::Wgmma { d, a, .. } = inst else { return None };
        let mut used = Products::none(self.bound);
        for register in &d.0 {
            used.sums.insert(self.index(*register));
        }
        match a {
            MatrixA::Descriptor(_) => {}
            MatrixA::Fragments(registers) => {
                for register in registers {
                    used.sources.insert(self.index(*register));
                }
            }
        }
        Some(used)
    }

    /// Joins another path; whether less is known than before.
    pub(super) fn meet(&mut self, other: &State) -> bool {
        let mut changed = self.written.intersect(&other.written);
        changed |= self.fenced && !other.fenced;
        self.fenced &= other.fenced;
        changed |= self.open.unite(&other.open);
        while self.groups.len() < other.groups.len() {
            self.groups.insert(0, Products::none(self.bound));
            changed = true;
        }
        for (mine, theirs) in self.groups.iter_mut().rev().zip(other.groups.iter().rev()) {
            changed |= mine.unite(theirs);
        }
        changed
    }

    /// Conditions are compared only within a block.
    pub(super) fn leave_block(&mut self) {
        self.conditional.clear();
    }

    /// Executes an item and reports what is wrong with it.
    pub(super) fn step(&mut self, item: usize, line: &Item, report: &mut dyn FnMut(Finding)) {
        let Item::Inst { condition, inst } = line else { return };
        if let Some(condition) = condition {
            self.read(item, condition.predicate, None, report);
        }
        self.reads(item, inst, *condition, report);
        self.products(item, inst, report);
        inst.visit(&mut |access, register| match access {
            Access::Read => {}
            Access::Write | Access::Accumulate => self.write(register, *condition),
        });
    }

    fn reads(
        &self,
        item: usize,
        inst: &Inst,
        condition: Option<Condition>,
        report: &mut dyn FnMut(Finding),
    ) {
        let keeps = matches!(inst, Inst::Wgmma { keep, .. } if keep.0 == Operand::Integer(1));
        inst.visit(&mut |access, register| match access {
            Access::Read => self.read(item, register, condition, report),
            Access::Accumulate if keeps => self.read(item, register, condition, report),
            Access::Accumulate | Access::Write => {}
        });
    }

    fn read(
        &self,
        item: usize,
        register: Register,
        condition: Option<Condition>,
        report: &mut dyn FnMut(Finding),
    ) {
        let here =
            condition.is_some_and(|condition| self.conditional.contains(&(register, condition)));
        if !here && !self.written.contains(self.index(register)) {
            report(Finding::ReadBeforeWrite { item, register });
        }
    }

    fn write(&mut self, register: Register, condition: Option<Condition>) {
        // What was written under the old value of a predicate says nothing under the new one.
        self.conditional.retain(|(_, condition)| condition.predicate != register);
        match condition {
            None => self.written.insert(self.index(register)),
            Some(condition) => {
                let other = Condition { negated: !condition.negated, ..condition };
                if self.conditional.contains(&(register, other)) {
                    self.written.insert(self.index(register));
                }
                self.conditional.push((register, condition));
            }
        }
    }

    fn products(&mut self, item: usize, inst: &Inst, report: &mut dyn FnMut(Finding)) {
        if let Inst::WgmmaFence {} = inst {
            self.fenced = true;
        } else if let Some(used) = self.of_product(inst) {
            if !self.fenced {
                report(Finding::ProductWithoutFence { item });
            }
            self.open.unite(&used);
        } else if let Inst::WgmmaCommit {} = inst {
            self.commit();
        } else if let Inst::WgmmaWait { pending } = inst {
            self.wait(item, pending.0, report);
        } else if let Inst::Ret {} | Inst::Exit {} = inst {
            self.end(item, report);
        } else {
            self.touch(item, inst, report);
        }
    }

    fn wait(&mut self, item: usize, pending: Operand, report: &mut dyn FnMut(Finding)) {
        if !self.open.is_empty() {
            report(Finding::ProductNotCommitted { item });
        }
        let keep = match pending {
            Operand::Integer(count) => usize::try_from(count).unwrap_or(0),
            Operand::Register(_) | Operand::Float(_) => 0,
        };
        let done = self.groups.len().saturating_sub(keep);
        self.groups.drain(..done);
    }

    fn end(&self, item: usize, report: &mut dyn FnMut(Finding)) {
        if !self.open.is_empty() {
            report(Finding::ProductNotCommitted { item });
        }
        if self.groups.iter().any(|group| !group.is_empty()) {
            report(Finding::ProductNotAwaited { item });
        }
    }

    fn commit(&mut self) {
        let group = std::mem::replace(&mut self.open, Products::none(self.bound));
        self.groups.push(group);
        if self.groups.len() > GROUPS {
            let oldest = self.groups.remove(0);
            self.groups[0].unite(&oldest);
        }
    }

    /// All that is no part of the protocol must keep away from registers in use; what it touches needs a new fence.
    fn touch(&mut self, item: usize, inst: &Inst, report: &mut dyn FnMut(Finding)) {
        let mut fenced = self.fenced;
        inst.visit(&mut |access, register| {
            let index = self.index(register);
            let forbidden = self.open.forbids(access, index)
                || self.groups.iter().any(|group| group.forbids(access, index));
            if forbidden {
                report(Finding::TouchedInFlight { item, register });
            }
            fenced &= !self.products.contains(index);
        });
        self.fenced = fenced;
    }
}
