//! Values in registers, and where they are known.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{F32, Pred, S32};

use crate::target::sm90::emit::batch::Coordinate;

/// A value in a register.
#[derive(Clone, Copy)]
pub(crate) enum Value<'k> {
    Float(Reg<'k, F32>),
    Integer(Reg<'k, S32>),
    Truth(Reg<'k, Pred>),
}

impl<'k> Value<'k> {
    pub(crate) fn float(self) -> Reg<'k, F32> {
        match self {
            Value::Float(value) => value,
            Value::Integer(_) | Value::Truth(_) => {
                panic!("compiler bug: an integer or condition where a float is expected")
            }
        }
    }

    pub(crate) fn integer(self) -> Reg<'k, S32> {
        match self {
            Value::Integer(value) => value,
            Value::Float(_) | Value::Truth(_) => {
                panic!("compiler bug: a float or condition where an integer is expected")
            }
        }
    }

    pub(crate) fn truth(self) -> Reg<'k, Pred> {
        match self {
            Value::Truth(value) => value,
            Value::Float(_) | Value::Integer(_) => {
                panic!("compiler bug: a number where a condition is expected")
            }
        }
    }
}

/// Values by node; `None` where a node varies along more than the scope.
pub(crate) type Environment<'k> = Vec<Option<Value<'k>>>;

/// Adds the values of a wider scope.
pub(crate) fn fill<'k>(environment: &mut Environment<'k>, wider: &Environment<'k>) {
    for (value, wider) in environment.iter_mut().zip(wider) {
        *value = value.or(*wider);
    }
}

/// Where a scope is: coordinates, and whether they are inside the problem.
#[derive(Clone, Copy)]
pub(crate) struct Place<'k> {
    pub(crate) at: Coordinate<'k>,
    pub(crate) inside: Option<Reg<'k, Pred>>,
}

/// A value as a reduction folds it: an integer as the float with its bits.
#[derive(Clone, Copy)]
pub(crate) struct Term<'k> {
    pub(crate) value: Reg<'k, F32>,
    /// The index among all that are folded together, where the reduction gives one: as the float with its bits.
    pub(crate) index: Option<Reg<'k, F32>>,
    /// The weight, where the reduction takes one.
    pub(crate) weight: Option<Reg<'k, F32>>,
}

impl<'k> Term<'k> {
    /// The value and its index.
    pub(crate) fn pair(&self) -> [Reg<'k, F32>; 2] {
        match self.index {
            Some(index) => [self.value, index],
            None => panic!("compiler bug: a term without an index"),
        }
    }
}

/// The registers of a partial result.
pub(crate) type State<'k> = Vec<Reg<'k, F32>>;
