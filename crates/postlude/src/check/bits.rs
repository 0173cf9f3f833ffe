//! Operators on the bits of i32, and what is said where `^` was meant as a power.

use std::fmt::{self, Write};

use crate::catalogue::Entry;
use crate::dtype::Elem;
use crate::graph::{Binary, NodeId, Op, Unary};
use crate::syntax::{ExprId, ExprKind, Infix, Number, Span, excerpt};

use super::error::CheckError;
use super::{Body, Lowered};

impl Body<'_> {
    /// Whether an operator works on bits here: `&` and `|` of conditions do not, and stay what they are for floats too,
    /// which are told to be compared.
    pub(super) fn is_of_bits(&self, op: Binary, a: ExprId, b: ExprId) -> bool {
        match op {
            Binary::Xor | Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical => {
                true
            }
            Binary::And | Binary::Or => [a, b].iter().all(|operand| self.is_integer(*operand)),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Maximum
            | Binary::Minimum
            | Binary::Pow
            | Binary::Fmod
            | Binary::Less
            | Binary::LessEqual
            | Binary::Equal
            | Binary::NotEqual => false,
        }
    }

    /// Whether one operand is an integer and the other a comparison: `x & 1 == 1` compares first.
    pub(super) fn bits_meet_comparison(&self, a: ExprId, b: ExprId) -> bool {
        let compares = |id: ExprId| match self.exprs[id].kind {
            ExprKind::Infix(infix, ..) => is_comparison(infix),
            _ => false,
        };
        self.is_integer(a) && compares(b) || compares(a) && self.is_integer(b)
    }

    fn is_integer(&self, id: ExprId) -> bool {
        match self.lowered[&id] {
            Lowered::Node(node) => self.graph.ty(node).elem == Elem::I32,
            Lowered::Integer(_) | Lowered::Size(_) => true,
            Lowered::Stack(_) | Lowered::Poison => false,
        }
    }

    /// A function of bits.
    pub(super) fn lower_function_of_bits(
        &mut self,
        entry: &'static Entry,
        arguments: &[ExprId],
        at: Span,
    ) -> Lowered {
        if !self.count_fits(entry, arguments, at) {
            return Lowered::Poison;
        }
        match (entry.name, arguments) {
            ("size", &[dim]) => self.lower_size(dim, at),
            ("bits", &[x]) => match self.convert(self.lowered[&x], Elem::F32, self.exprs[x].span) {
                Some(node) => self.node(Op::Unary(Unary::Bits, node), at),
                None => Lowered::Poison,
            },
            ("float", &[x]) => match self.whole_number("float", x) {
                Some(node) => self.node(Op::Unary(Unary::Float, node), at),
                None => Lowered::Poison,
            },
            ("index", &[dim]) => self.lower_index(dim, at),
            ("lshr", &[x, count]) => {
                self.lower_bits(Binary::ShiftRightLogical, entry.name, [x, count], at)
            }
            (_, &[seed, offset]) => self.lower_random(entry.name, [seed, offset], at),
            (_, &[x, p, seed, offset]) => self.lower_dropout([x, p], [seed, offset], at),
            _ => panic!("compiler bug: `{}` of so many arguments", entry.name),
        }
    }

    /// An operator on bits, or a report of the operand that has none.
    pub(super) fn lower_bits(
        &mut self,
        op: Binary,
        operator: &'static str,
        [a, b]: [ExprId; 2],
        at: Span,
    ) -> Lowered {
        let is_float = |body: &Body<'_>, id: ExprId| matches!(body.lowered[&id], Lowered::Node(node) if body.graph.ty(node).elem == Elem::F32);
        if op == Binary::Xor && (is_float(self, a) || is_float(self, b)) {
            let call = self.power([a, b], at);
            return self.report(CheckError::FloatPower { call, at });
        }
        match (self.whole_number(operator, a), self.whole_number(operator, b)) {
            (Some(left), Some(right)) => self.binary(op, left, right, at),
            _ => Lowered::Poison,
        }
    }

    /// An i32, or a report that it is none.
    pub(super) fn whole_number(&mut self, operator: &'static str, id: ExprId) -> Option<NodeId> {
        let at = self.exprs[id].span;
        match self.lowered[&id] {
            Lowered::Node(node) if self.graph.ty(node).elem != Elem::I32 => {
                let found = self.graph.ty(node).elem;
                self.report(CheckError::NotInteger { operator, found, at });
                None
            }
            lowered @ (Lowered::Node(_)
            | Lowered::Integer(_)
            | Lowered::Size(_)
            | Lowered::Stack(_)
            | Lowered::Poison) => self.settle(lowered, at),
        }
    }

    /// The call that a power is, of the operands that stand right beside `^`: it binds less tightly than a power would.
    fn power(&self, [a, b]: [ExprId; 2], at: Span) -> String {
        let (base, exponent) = (self.last_operand(a, at), self.first_operand(b, at));
        let text = |id: ExprId| self.text(id);
        let is_two = matches!(
            self.exprs[exponent].kind,
            ExprKind::Number(Number::Integer(2) | Number::Float(2.0))
        );
        if is_two {
            format!("square({})", text(base))
        } else {
            format!("pow({}, {})", text(base), text(exponent))
        }
    }

    /// An expression as a message quotes it.
    pub(super) fn text(&self, id: ExprId) -> String {
        let mut shown = Shown(String::new());
        // It ends early where the text is long: an argument of a definition may be read many times.
        let _ = write!(shown, "{}", self.exprs.display(id));
        excerpt(&shown.0)
    }

    /// What stands last in an expression; parentheses show by a parent that reaches further.
    fn last_operand(&self, whole: ExprId, parent: Span) -> ExprId {
        let mut last = whole;
        if parent.start < self.exprs[whole].span.start {
            return whole;
        }
        loop {
            let (ExprKind::Infix(_, _, inner)
            | ExprKind::Product(_, inner)
            | ExprKind::Prefix(_, inner)) = self.exprs[last].kind
            else {
                return last;
            };
            if self.exprs[inner].span.end < self.exprs[last].span.end {
                return inner;
            }
            last = inner;
        }
    }

    /// What stands first in an expression; a sign stays with its number.
    fn first_operand(&self, whole: ExprId, parent: Span) -> ExprId {
        let mut first = whole;
        if parent.end > self.exprs[whole].span.end {
            return whole;
        }
        loop {
            let (ExprKind::Infix(_, inner, _) | ExprKind::Product(inner, _)) =
                self.exprs[first].kind
            else {
                return first;
            };
            if self.exprs[inner].span.start > self.exprs[first].span.start {
                return inner;
            }
            first = inner;
        }
    }
}

/// More characters than a message quotes.
const MOST_SHOWN: usize = 200;

/// The beginning of a text.
struct Shown(String);

impl Write for Shown {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(text);
        if self.0.len() > MOST_SHOWN { Err(fmt::Error) } else { Ok(()) }
    }
}

fn is_comparison(infix: Infix) -> bool {
    match infix {
        Infix::Less
        | Infix::LessEqual
        | Infix::Greater
        | Infix::GreaterEqual
        | Infix::Equal
        | Infix::NotEqual => true,
        Infix::Add
        | Infix::Subtract
        | Infix::Multiply
        | Infix::Divide
        | Infix::And
        | Infix::Or
        | Infix::Xor
        | Infix::ShiftLeft
        | Infix::ShiftRight => false,
    }
}
