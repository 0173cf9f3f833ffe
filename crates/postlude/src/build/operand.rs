//! What may stand where a value is wanted: handles and literals; and what may stand for dims.

use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Infix, Number, Prefix};

use super::{Expr, KernelBuilder};

/// A value or a literal.
///
/// ```
/// use postlude::{build::{KernelBuilder, Operand}, dtype::DType::F32};
/// let k = KernelBuilder::new("k");
/// let x = k.scalar("x", F32);
/// let one: Operand = 1.into();
/// assert_eq!((x + one).to_string(), "x + 1");
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Operand<'k> {
    /// A value of the kernel.
    Value(Expr<'k>),
    /// A literal with a point.
    Float(f64),
    /// A literal without.
    Integer(i64),
}

impl<'k> From<Expr<'k>> for Operand<'k> {
    fn from(value: Expr<'k>) -> Operand<'k> {
        Operand::Value(value)
    }
}

impl From<f64> for Operand<'_> {
    fn from(value: f64) -> Self {
        Operand::Float(value)
    }
}

impl From<f32> for Operand<'_> {
    /// The shortest decimal that reads back as the same f32: 0.1 stays 0.1.
    fn from(value: f32) -> Self {
        let shortest: f64 = value.to_string().parse().unwrap_or(f64::from(value));
        Operand::Float(if shortest as f32 == value { shortest } else { f64::from(value) })
    }
}

impl From<i32> for Operand<'_> {
    fn from(value: i32) -> Self {
        Operand::Integer(i64::from(value))
    }
}

impl KernelBuilder {
    /// The node of a value or literal. What f32 cannot hold becomes `inf`, as it would when computed with.
    pub(super) fn operand(&self, operand: Operand<'_>) -> ExprId {
        let (kind, negative) = match operand {
            Operand::Value(value) => return self.own(value),
            Operand::Integer(value) => {
                let magnitude = i64::try_from(value.unsigned_abs()).unwrap_or(i64::MAX);
                (ExprKind::Number(Number::Integer(magnitude)), value < 0)
            }
            Operand::Float(value) if value.is_nan() => (ExprKind::Name("nan".to_owned()), false),
            Operand::Float(value) if (value as f32).is_infinite() => {
                (ExprKind::Name("inf".to_owned()), value < 0.0)
            }
            Operand::Float(value) => {
                (ExprKind::Number(Number::Float(value.abs())), value.is_sign_negative())
            }
        };
        let magnitude = self.push(kind).id;
        if negative { self.push(ExprKind::Prefix(Prefix::Negate, magnitude)).id } else { magnitude }
    }

    /// A dim as an argument.
    pub(super) fn dim(&self, dim: &Dim) -> ExprId {
        let (name, divisor) = match dim {
            Dim::Size(size) => return self.operand(Operand::Integer(i64::from(*size))),
            Dim::Name { name, divisor } => (name, *divisor),
        };
        let name = self.word(name).id;
        if divisor == 1 {
            return name;
        }
        let divisor = self.operand(Operand::Integer(i64::from(divisor)));
        self.push(ExprKind::Infix(Infix::Divide, name, divisor)).id
    }
}

/// Dims, written as text: `["M", "N/2"]`, `[]`, a single one as `"N"`, or made before.
///
/// ```
/// use postlude::{build::IntoDims, shape::Dim};
/// assert_eq!(["M", "128"].into_dims(), [Dim::name("M"), Dim::Size(128)]);
/// assert_eq!("N".into_dims(), ["N"].into_dims());
/// assert_eq!(vec![Dim::Size(8)].into_dims(), [Dim::Size(8)]);
/// ```
pub trait IntoDims {
    /// The dims.
    fn into_dims(self) -> Vec<Dim>;
}

impl<const RANK: usize> IntoDims for [&str; RANK] {
    fn into_dims(self) -> Vec<Dim> {
        self.map(Dim::from).to_vec()
    }
}

impl IntoDims for &str {
    fn into_dims(self) -> Vec<Dim> {
        vec![Dim::from(self)]
    }
}

impl IntoDims for Dim {
    fn into_dims(self) -> Vec<Dim> {
        vec![self]
    }
}

impl IntoDims for &[&str] {
    fn into_dims(self) -> Vec<Dim> {
        self.iter().map(|dim| Dim::from(*dim)).collect()
    }
}

impl IntoDims for Vec<Dim> {
    fn into_dims(self) -> Vec<Dim> {
        self
    }
}

impl IntoDims for &[Dim] {
    fn into_dims(self) -> Vec<Dim> {
        self.to_vec()
    }
}
