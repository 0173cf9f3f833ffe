//! A kernel's text as a flat list of steps.
//!
//! In: PTX text. Out: typed instructions with their lines, branch targets as places in the list, and for each branch
//! the place where lanes that took different ways meet again. Invariant: every register of a step is declared, and
//! every target is a step of the list.

mod facts;
mod flow;
mod head;

use std::collections::BTreeMap;

use postlude_ptx::address::Label;
use postlude_ptx::entry::Item;
use postlude_ptx::inst::Inst;
use postlude_ptx::operand::{MatrixA, Register};
use postlude_ptx::text::{self, StatementKind};
use postlude_ptx::types::Class;

use crate::alu::{self, Compute};
use crate::error::SimError;

pub(crate) use facts::{Facts, Together};
pub(crate) use head::Head;

/// A place in the list of steps.
pub(crate) type Pc = u32;
/// The place after the kernel's end.
pub(crate) const END: Pc = Pc::MAX;

/// A predicate in front of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) register: Register,
    pub(crate) negated: bool,
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Step {
    /// Its line, from 1.
    pub(crate) line: u32,
    pub(crate) guard: Option<Guard>,
    pub(crate) inst: Inst,
    /// The register it writes and its function, where each lane computes by itself.
    pub(crate) compute: Option<(Register, Compute)>,
    /// Where a branch goes.
    pub(crate) target: Pc,
    /// Where lanes that a branch divides meet again.
    pub(crate) meet: Pc,
    /// Places of the registers it touches, being no product, that matrix products use.
    pub(crate) exposed: Vec<usize>,
    /// Which registers it reads and writes, and which lanes execute it together.
    pub(crate) facts: Facts,
}

/// A kernel, ready to run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) head: Head,
    pub(crate) steps: Vec<Step>,
    /// The first register of each class in a warp's list.
    bases: [u32; 5],
    /// Registers of all classes.
    pub(crate) registers: usize,
}

fn compute(inst: &Inst, line: usize) -> Result<Option<(Register, Compute)>, SimError> {
    let unsupported = |why| SimError::Unsupported { line, text: inst.to_string(), why };
    alu::compute(inst).map_err(unsupported)
}

impl Program {
    /// The only kernel of a text.
    pub(crate) fn read(text: &str) -> Result<Program, SimError> {
        let statements = text::read(text)?;
        let mut head = Head::default();
        let mut labels: BTreeMap<Label, Pc> = BTreeMap::new();
        let mut steps: Vec<Step> = Vec::new();
        for statement in &statements {
            let unknown =
                || SimError::Unknown { line: statement.line, text: statement.to_string() };
            match &statement.kind {
                StatementKind::Open | StatementKind::Close => {}
                StatementKind::Directive(directive) => {
                    head.directive(directive).ok_or_else(unknown)?;
                }
                StatementKind::Label(_) | StatementKind::Instruction(_) => {
                    match Item::read(statement).ok_or_else(unknown)? {
                        Item::Comment(_) | Item::NoUnroll => {}
                        Item::Label(label) => {
                            if labels.insert(label, steps.len() as Pc).is_some() {
                                return Err(unknown());
                            }
                        }
                        Item::Inst { condition, inst } => {
                            let guard = condition.map(|condition| Guard {
                                register: condition.predicate,
                                negated: condition.negated,
                            });
                            let line = statement.line as u32;
                            let compute = compute(&inst, statement.line)?;
                            let (target, meet) = (END, END);
                            let (exposed, facts) = (Vec::new(), Facts::default());
                            steps.push(Step {
                                line,
                                guard,
                                inst,
                                compute,
                                target,
                                meet,
                                exposed,
                                facts,
                            });
                        }
                    }
                }
            }
        }
        if head.entry.is_none() {
            return Err(SimError::Launch { why: "names a text without a kernel" });
        }
        let mut program = Program { head, steps, bases: [0; 5], registers: 0 };
        program.resolve(&labels)?;
        program.number()?;
        program.expose();
        program.state_facts();
        flow::meet(&mut program.steps);
        Ok(program)
    }

    /// Targets of branches.
    fn resolve(&mut self, labels: &BTreeMap<Label, Pc>) -> Result<(), SimError> {
        let count = self.steps.len() as Pc;
        for step in &mut self.steps {
            if let Inst::Branch { to } = &step.inst {
                let target = labels.get(to).copied();
                let unknown =
                    || SimError::Unknown { line: step.line as usize, text: step.inst.to_string() };
                let target = target.ok_or_else(unknown)?;
                step.target = if target < count { target } else { END };
            }
        }
        Ok(())
    }

    /// Places of registers; all that are used must be declared.
    fn number(&mut self) -> Result<(), SimError> {
        let mut next = 0;
        for class in Class::ALL {
            self.bases[class.index()] = next;
            next += self.head.registers[class.index()];
        }
        self.registers = next as usize;
        for step in &self.steps {
            let mut known = true;
            let declared = self.head.registers;
            let mut see =
                |register: Register| known &= register.number < declared[register.class.index()];
            step.inst.visit(&mut |_, register| see(register));
            if let Some(guard) = step.guard {
                see(guard.register);
                known &= guard.register.class == Class::Pred;
            }
            if !known {
                let (line, text) = (step.line as usize, step.inst.to_string());
                return Err(SimError::Unknown { line, text });
            }
        }
        Ok(())
    }

    /// Which steps touch registers that matrix products use.
    fn expose(&mut self) {
        let mut used = vec![false; self.registers];
        for step in &self.steps {
            let Inst::Wgmma { d, a, .. } = &step.inst else { continue };
            let fragments: &[Register] = match a {
                MatrixA::Descriptor(_) => &[],
                MatrixA::Fragments(registers) => registers,
            };
            d.0.iter().chain(fragments).for_each(|each| used[self.place(*each)] = true);
        }
        let exposed = |step: &Step| {
            let mut places = Vec::new();
            if let Inst::Wgmma { .. } = step.inst {
                return places;
            }
            step.inst.visit(&mut |_, register| places.push(self.place(register)));
            places.retain(|place| used[*place]);
            places
        };
        let all: Vec<Vec<usize>> = self.steps.iter().map(exposed).collect();
        for (step, exposed) in self.steps.iter_mut().zip(all) {
            step.exposed = exposed;
        }
    }

    /// A register's place in a warp's list.
    #[inline]
    pub(crate) fn place(&self, register: Register) -> usize {
        (self.bases[register.class.index()] + register.number) as usize
    }

    /// The register at a place, as the text writes it.
    pub(crate) fn register(&self, place: usize) -> String {
        let first = |class: &Class| self.bases[class.index()] as usize;
        let holds = |class: &&Class| {
            (0..self.head.registers[class.index()] as usize)
                .contains(&(place.wrapping_sub(first(class))))
        };
        let class = Class::ALL.iter().find(holds);
        class
            .map_or_else(String::new, |class| format!("{}{}", class.prefix(), place - first(class)))
    }

    /// A guard with its register's place.
    #[inline]
    pub(crate) fn place_of(&self, guard: Option<Guard>) -> Option<(usize, Guard)> {
        guard.map(|guard| (self.place(guard.register), guard))
    }

    /// A step's line as text.
    pub(crate) fn text(&self, line: u32) -> String {
        let step = self.steps.iter().find(|step| step.line == line);
        step.map_or_else(String::new, |step| step.inst.to_string())
    }
}
