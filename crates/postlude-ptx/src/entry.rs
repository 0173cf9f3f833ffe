//! A finished kernel: parameters, attributes and code, and its text.
//!
//! In: what the builder gathered. Out: a module's text, one instruction a line. Invariant: the parameters are in the
//! order in which they were declared, which is the order of [`launch::Parameter`].

use std::fmt::{self, Display, Formatter};

use crate::address::Label;
use crate::inst::Inst;
use crate::launch;
use crate::operand::Register;
use crate::shared::Region;
use crate::target::Target;
use crate::text::{self, StatementKind};
use crate::types::Class;

/// The symbol of a kernel's dynamic shared memory.
pub const SHARED_SYMBOL: &str = "shared_memory";
/// Its alignment, which the 128-byte swizzle's pattern of 8 rows needs.
pub const SHARED_ALIGNMENT: u32 = 1024;

/// A predicate in front of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Whether it must be false.
    pub negated: bool,
    /// The register.
    pub predicate: Register,
}

/// One line of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A place that branches go to.
    Label(Label),
    /// A remark.
    Comment(String),
    /// At the head of a loop: the assembler leaves it a loop.
    NoUnroll,
    /// An instruction, perhaps under a condition.
    Inst {
        /// When it is executed.
        condition: Option<Condition>,
        /// What is executed.
        inst: Inst,
    },
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Item::Label(label) => write!(f, "{label}:"),
            Item::Comment(text) => write!(f, "    // {text}"),
            Item::NoUnroll => f.write_str("    .pragma \"nounroll\";"),
            Item::Inst { condition: None, inst } => write!(f, "    {inst}"),
            Item::Inst { condition: Some(condition), inst } => {
                let sign = if condition.negated { "!" } else { "" };
                write!(f, "    @{sign}{} {inst}", condition.predicate)
            }
        }
    }
}

impl Item {
    /// The typed line of a statement: a label or a known instruction.
    pub fn read(statement: &text::Statement) -> Option<Item> {
        match &statement.kind {
            StatementKind::Label(name) => Label::parse(name).map(Item::Label),
            StatementKind::Instruction(instruction) => {
                let condition = match &instruction.guard {
                    Some(guard) => {
                        let predicate = Register::parse(&guard.predicate)?;
                        Some(Condition { negated: guard.negated, predicate })
                    }
                    None => None,
                };
                Some(Item::Inst { condition, inst: Inst::read(instruction)? })
            }
            StatementKind::Directive(_) | StatementKind::Open | StatementKind::Close => None,
        }
    }
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterKind {
    /// A tensor map by value.
    Map,
    /// An address in global memory.
    Pointer,
    /// A 32-bit number.
    U32,
    /// A 64-bit number.
    U64,
    /// A float.
    F32,
}

impl ParameterKind {
    /// Whether a launch may pass `parameter` here.
    pub fn accepts(self, parameter: &launch::Parameter) -> bool {
        match parameter {
            launch::Parameter::Map(_) => self == ParameterKind::Map,
            launch::Parameter::Pointer { .. } => self == ParameterKind::Pointer,
            launch::Parameter::U32(_) => self == ParameterKind::U32,
            launch::Parameter::U64(_) => self == ParameterKind::U64,
            launch::Parameter::F32(_) => self == ParameterKind::F32,
        }
    }
}

/// A declared parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterDeclaration {
    /// Its symbol.
    pub name: String,
    /// What it is.
    pub kind: ParameterKind,
}

impl Display for ParameterDeclaration {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let name = &self.name;
        match self.kind {
            ParameterKind::Map => write!(f, ".param .align 64 .b8 {name}[128]"),
            ParameterKind::Pointer | ParameterKind::U64 => write!(f, ".param .u64 {name}"),
            ParameterKind::U32 => write!(f, ".param .u32 {name}"),
            ParameterKind::F32 => write!(f, ".param .f32 {name}"),
        }
    }
}

/// A kernel as data, and as a module's text by its `Display`.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub target: Target,
    /// The PTX version it needs.
    pub version: (u32, u32),
    /// CTAs of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Threads of a CTA.
    pub threads: u32,
    /// CTAs that must fit one multiprocessor together.
    pub blocks_per_multiprocessor: Option<u32>,
    /// Its parameters, in order.
    pub parameters: Vec<ParameterDeclaration>,
    /// Registers declared of each class, in the order of [`Class::ALL`].
    pub registers: [u32; 5],
    /// Named regions of shared memory.
    pub regions: Vec<Region>,
    /// Its code.
    pub items: Vec<Item>,
}

impl Entry {
    /// Whether a launch with these parameters has the declared number and kinds.
    pub fn accepts(&self, parameters: &[launch::Parameter]) -> bool {
        self.parameters.len() == parameters.len()
            && self.parameters.iter().zip(parameters).all(|(each, given)| each.kind.accepts(given))
    }

    /// Its instructions in order, without labels and comments.
    pub fn instructions(&self) -> impl Iterator<Item = &Inst> {
        self.items.iter().filter_map(|item| match item {
            Item::Inst { inst, .. } => Some(inst),
            Item::Label(_) | Item::Comment(_) | Item::NoUnroll => None,
        })
    }

    fn write_head(&self, f: &mut Formatter) -> fmt::Result {
        let (major, minor) = self.version;
        writeln!(f, ".version {major}.{minor}")?;
        writeln!(f, ".target {}", self.target)?;
        writeln!(f, ".address_size 64")?;
        writeln!(f, ".extern .shared .align {SHARED_ALIGNMENT} .b8 {SHARED_SYMBOL}[];")?;
        let parameters: Vec<String> =
            self.parameters.iter().map(ParameterDeclaration::to_string).collect();
        writeln!(f, ".visible .entry {}({})", self.name, parameters.join(", "))?;
        if let Some([x, y, z]) = self.cluster {
            writeln!(f, ".explicitcluster")?;
            writeln!(f, ".reqnctapercluster {x}, {y}, {z}")?;
        }
        writeln!(f, ".maxntid {}, 1, 1", self.threads)?;
        if let Some(blocks) = self.blocks_per_multiprocessor {
            writeln!(f, ".minnctapersm {blocks}")?;
        }
        Ok(())
    }
}

impl Display for Entry {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        self.write_head(f)?;
        writeln!(f, "{{")?;
        for (class, count) in Class::ALL.into_iter().zip(self.registers) {
            if count > 0 {
                writeln!(f, "    .reg .{} {}<{count}>;", class.declared(), class.prefix())?;
            }
        }
        for item in &self.items {
            writeln!(f, "{item}")?;
        }
        writeln!(f, "}}")
    }
}
