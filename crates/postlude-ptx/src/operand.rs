//! Operands of typed instructions: registers, immediates and addresses, and which of them an instruction reads or
//! writes.
//!
//! Each kind of place in an instruction is a type that writes itself, reads itself from [`text::Operand`] and names
//! its registers, so that the instruction table says all of it once.

use std::fmt::{self, Display, Formatter};

use crate::text;
use crate::types::Class;

/// A virtual register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Register {
    /// Where it is declared.
    pub class: Class,
    /// Which of them.
    pub number: u32,
}

impl Display for Register {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{}{}", self.class.prefix(), self.number)
    }
}

impl Register {
    /// The register of that name.
    pub fn parse(name: &str) -> Option<Register> {
        Class::ALL.into_iter().find_map(|class| {
            let digits = name.strip_prefix(class.prefix())?;
            let number = digits.parse().ok().filter(|number: &u32| number.to_string() == digits)?;
            Some(Register { class, number })
        })
    }
}

/// A register or an immediate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// A register.
    Register(Register),
    /// A whole number, in decimal.
    Integer(i128),
    /// Single precision, by its bits.
    Float(u32),
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Operand::Register(register) => write!(f, "{register}"),
            Operand::Integer(value) => write!(f, "{value}"),
            Operand::Float(bits) => write!(f, "0f{bits:08X}"),
        }
    }
}

impl Operand {
    pub(crate) fn parse(operand: &text::Operand) -> Option<Operand> {
        match operand {
            text::Operand::Name(name) => Register::parse(name).map(Operand::Register),
            text::Operand::Number(number) => match number.strip_prefix("0f") {
                Some(bits) => u32::from_str_radix(bits, 16).ok().map(Operand::Float),
                None => operand.integer().map(Operand::Integer),
            },
            text::Operand::Not(_)
            | text::Operand::Pair(..)
            | text::Operand::Sum(..)
            | text::Operand::Vector(_)
            | text::Operand::Group(_)
            | text::Operand::Address(_) => None,
        }
    }
}

/// What an instruction does with a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Adds to it: an accumulator, which the instruction may also clear.
    Accumulate,
}

/// What a walk over an instruction's registers calls.
pub type Visitor<'v> = dyn FnMut(Access, Register) + 'v;

/// A place for operands in an instruction.
pub(crate) trait Slot: Sized {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result;
    fn read(input: &mut Rest<'_>) -> Option<Self>;
    fn visit(&self, visitor: &mut Visitor<'_>);
}

/// Writes operands with commas between.
pub(crate) struct List<'f, 'b> {
    formatter: &'f mut Formatter<'b>,
    empty: bool,
}

impl<'f, 'b> List<'f, 'b> {
    pub(crate) fn new(formatter: &'f mut Formatter<'b>) -> Self {
        List { formatter, empty: true }
    }

    pub(crate) fn push(&mut self, operand: impl Display) -> fmt::Result {
        self.formatter.write_str(if self.empty { " " } else { ", " })?;
        self.empty = false;
        write!(self.formatter, "{operand}")
    }
}

/// Operands that are not read yet.
pub(crate) struct Rest<'t>(pub(crate) &'t [text::Operand]);

impl<'t> Rest<'t> {
    pub(crate) fn next(&mut self) -> Option<&'t text::Operand> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

pub(crate) fn visit_operand(operand: Operand, visitor: &mut Visitor<'_>) {
    match operand {
        Operand::Register(register) => visitor(Access::Read, register),
        Operand::Integer(_) | Operand::Float(_) => {}
    }
}

/// A register that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Def(pub Register);

impl Slot for Def {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(self.0)
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        Register::parse(input.next()?.name()?).map(Def)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor(Access::Write, self.0);
    }
}

/// A register or immediate that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use(pub Operand);

impl Slot for Use {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(self.0)
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        Operand::parse(input.next()?).map(Use)
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visit_operand(self.0, visitor);
    }
}

/// An operand at the end that may be absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trailing(pub Option<Operand>);

impl Slot for Trailing {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        self.0.map_or(Ok(()), |operand| out.push(operand))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        match input.next() {
            Some(operand) => Some(Trailing(Some(Operand::parse(operand)?))),
            None => Some(Trailing(None)),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(operand) = self.0 {
            visit_operand(operand, visitor);
        }
    }
}

/// `{a, b}`, or `a` alone where there is one.
struct Bare<'a, T>(&'a [T]);

impl<T: Display> Display for Bare<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self.0 {
            [one] => write!(f, "{one}"),
            many => Braced(many).fmt(f),
        }
    }
}

/// `{a, b}`
pub(crate) struct Braced<'a, T>(pub(crate) &'a [T]);

impl<T: Display> Display for Braced<'_, T> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str("{")?;
        for (at, each) in self.0.iter().enumerate() {
            write!(f, "{}{each}", if at > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

fn registers(operands: &[text::Operand]) -> Option<Vec<Register>> {
    operands.iter().map(|each| Register::parse(each.name()?)).collect()
}

macro_rules! lists {
    ($($(#[$doc:meta])* $name:ident $item:ty, $shape:ident, $access:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name(pub Vec<$item>);

        impl Slot for $name {
            fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
                out.push($shape(&self.0))
            }
            fn read(input: &mut Rest<'_>) -> Option<Self> {
                let first = input.next()?;
                let operands = first.vector().unwrap_or(std::slice::from_ref(first));
                let items: Option<Vec<$item>> = operands.iter().map(<$item as Parse>::parse).collect();
                items.map($name)
            }
            fn visit(&self, visitor: &mut Visitor<'_>) {
                for each in &self.0 {
                    if let Some(register) = each.register() {
                        visitor(Access::$access, register);
                    }
                }
            }
        }
    )*};
}

/// An element of a list of operands.
trait Parse: Sized {
    fn parse(operand: &text::Operand) -> Option<Self>;
    fn register(&self) -> Option<Register>;
}

impl Parse for Register {
    fn parse(operand: &text::Operand) -> Option<Self> {
        Register::parse(operand.name()?)
    }
    fn register(&self) -> Option<Register> {
        Some(*self)
    }
}

impl Parse for Operand {
    fn parse(operand: &text::Operand) -> Option<Self> {
        Operand::parse(operand)
    }
    fn register(&self) -> Option<Register> {
        match self {
            Operand::Register(register) => Some(*register),
            Operand::Integer(_) | Operand::Float(_) => None,
        }
    }
}

lists! {
    /// Registers that a load fills; one alone has no braces.
    Defs Register, Bare, Write;
    /// Operands that a store takes; one alone has no braces.
    Uses Operand, Bare, Read;
    /// Registers that a matrix load fills, in braces.
    DefVector Register, Braced, Write;
    /// Registers that a matrix store takes, in braces.
    UseVector Register, Braced, Read;
    /// Registers that a matrix product adds to, in braces.
    Accumulators Register, Braced, Accumulate;
}

/// Where a matrix product finds A.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MatrixA {
    /// In shared memory, by descriptor.
    Descriptor(Register),
    /// In registers.
    Fragments(Vec<Register>),
}

impl Slot for MatrixA {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        match self {
            MatrixA::Descriptor(register) => out.push(register),
            MatrixA::Fragments(registers) => out.push(Braced(registers)),
        }
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let operand = input.next()?;
        match operand.vector() {
            Some(operands) => registers(operands).map(MatrixA::Fragments),
            None => Register::parse(operand.name()?).map(MatrixA::Descriptor),
        }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        match self {
            MatrixA::Descriptor(register) => visitor(Access::Read, *register),
            MatrixA::Fragments(registers) => {
                for register in registers {
                    visitor(Access::Read, *register);
                }
            }
        }
    }
}

/// Small numbers that end a matrix product: signs of A and B, then transpositions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Immediates(pub Vec<i32>);

impl Slot for Immediates {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        self.0.iter().try_for_each(|value| out.push(value))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let mut values = Vec::new();
        while let Some(operand) = input.next() {
            values.push(i32::try_from(operand.integer()?).ok()?);
        }
        Some(Immediates(values))
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
