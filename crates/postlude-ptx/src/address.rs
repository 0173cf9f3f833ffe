//! Operands that name memory, symbols, labels and special registers.

use std::fmt::{self, Display, Formatter};

use crate::modifier::{Modifier, Parts, spelled};
use crate::operand::{
    Access, Braced, Def, List, Operand, Register, Rest, Slot, Visitor, visit_operand,
};
use crate::text;

/// What an address counts from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// A register.
    Register(Register),
    /// A symbol.
    Symbol(String),
}

impl Display for Base {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Base::Register(register) => write!(f, "{register}"),
            Base::Symbol(name) => f.write_str(name),
        }
    }
}

impl Base {
    fn parse(name: &str) -> Base {
        Register::parse(name).map_or_else(|| Base::Symbol(name.to_owned()), Base::Register)
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        match self {
            Base::Register(register) => visitor(Access::Read, *register),
            Base::Symbol(_) => {}
        }
    }
}

/// `base+offset`, and `base` alone where the offset is zero.
struct Sum<'a>(&'a Base, i64);

impl Display for Sum<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        if self.1 == 0 { write!(f, "{}", self.0) } else { write!(f, "{}+{}", self.0, self.1) }
    }
}

fn parse_sum(operand: &text::Operand) -> Option<(Base, i64)> {
    match operand {
        text::Operand::Name(name) => Some((Base::parse(name), 0)),
        text::Operand::Sum(base, offset) => {
            let offset = text::parse_integer(offset.strip_prefix('+').unwrap_or(offset))?;
            Some((Base::parse(base.name()?), i64::try_from(offset).ok()?))
        }
        text::Operand::Number(_)
        | text::Operand::Not(_)
        | text::Operand::Pair(..)
        | text::Operand::Vector(_)
        | text::Operand::Group(_)
        | text::Operand::Address(_) => None,
    }
}

/// `[base+offset]`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    /// What it counts from.
    pub base: Base,
    /// Bytes beyond.
    pub offset: i64,
}

impl Slot for Address {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(format_args!("[{}]", Sum(&self.base, self.offset)))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let [sum] = input.next()?.address()? else { return None };
        let (base, offset) = parse_sum(sum)?;
        Some(Address { base, offset })
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.base.visit(visitor);
    }
}

/// `[map, {x, y}]`: a box of a tensor, by the coordinates of its first element, innermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorAddress {
    /// The tensor map's address.
    pub map: Register,
    /// The coordinates.
    pub coordinates: Vec<Operand>,
}

impl Slot for TensorAddress {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(format_args!("[{}, {}]", self.map, Braced(&self.coordinates)))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let [map, coordinates] = input.next()?.address()? else { return None };
        let coordinates: Option<Vec<Operand>> =
            coordinates.vector()?.iter().map(Operand::parse).collect();
        Some(TensorAddress { map: Register::parse(map.name()?)?, coordinates: coordinates? })
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor(Access::Read, self.map);
        for coordinate in &self.coordinates {
            visit_operand(*coordinate, visitor);
        }
    }
}

/// `symbol+offset` as a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// Bytes beyond.
    pub offset: i64,
}

impl Slot for Symbol {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(Sum(&Base::Symbol(self.name.clone()), self.offset))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        match parse_sum(input.next()?)? {
            (Base::Symbol(name), offset) => Some(Symbol { name, offset }),
            (Base::Register(_), _) => None,
        }
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// A place that branches go to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Label(pub u32);

impl Display for Label {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "L{}", self.0)
    }
}

impl Label {
    /// The label of that name.
    pub fn parse(name: &str) -> Option<Label> {
        name.strip_prefix('L')?.parse().ok().map(Label)
    }
}

impl Slot for Label {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(self)
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        Label::parse(input.next()?.name()?)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

/// `_|p`: the predicate of an election, without the elected lane's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elected(pub Register);

impl Slot for Elected {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(format_args!("_|{}", self.0))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let text::Operand::Pair(sink, predicate) = input.next()? else { return None };
        (sink.name()? == "_").then_some(Elected(Register::parse(predicate.name()?)?))
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        Def(self.0).visit(visitor);
    }
}

/// `_`: a result that nobody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sink;

impl Slot for Sink {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push("_")
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        (input.next()?.name()? == "_").then_some(Sink)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}

spelled! {
    /// A register that the hardware fills.
    Special {
        /// The thread in its CTA.
        ThreadX "tid.x",
        /// The CTA in the grid.
        BlockX "ctaid.x",
        /// The CTA in the grid, along y.
        BlockY "ctaid.y",
        /// The CTA in the grid, along z.
        BlockZ "ctaid.z",
        /// CTAs of the grid.
        GridX "nctaid.x",
        /// CTAs of the grid along y.
        GridY "nctaid.y",
        /// CTAs of the grid along z.
        GridZ "nctaid.z",
        /// The cluster in the grid.
        ClusterX "clusterid.x",
        /// Clusters of the grid.
        ClustersX "nclusterid.x",
        /// The CTA in its cluster.
        ClusterRank "cluster_ctarank",
        /// The thread in its warp.
        Lane "laneid",
        /// The multiprocessor.
        Multiprocessor "smid",
        /// Clock cycles of the multiprocessor, 64 bits.
        Clock "clock64",
        /// Nanoseconds, 64 bits.
        Nanoseconds "globaltimer",
    }
}

impl Slot for Special {
    fn write(&self, out: &mut List<'_, '_>) -> fmt::Result {
        out.push(format_args!("%{self}"))
    }
    fn read(input: &mut Rest<'_>) -> Option<Self> {
        let words: Vec<String> =
            input.next()?.name()?.strip_prefix('%')?.split('.').map(str::to_owned).collect();
        let mut parts = Parts(&words);
        let special = <Special as Modifier>::read(&mut parts)?;
        parts.end().map(|()| special)
    }
    fn visit(&self, _: &mut Visitor<'_>) {}
}
