//! Arithmetic, comparisons and bits.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Rem, Shl, Shr, Sub};

use crate::inst::Inst;
use crate::modifier::{Approx, Compare};
use crate::operand::{Def, Use};
use crate::types::{B32, F32, Integer, Kind, Logic, Number, Pred, Scalar, Type, U32, U64};

use super::{Reg, Src};

impl<'k, T: Type> Reg<'k, T> {
    fn unary<U: Type>(self, inst: impl FnOnce(Def, Use) -> Inst) -> Reg<'k, U> {
        let d = self.code.fresh::<U>();
        self.code.push(inst(d.def(), Use(self.operand())));
        d
    }

    fn binary<U: Type, V: Type>(
        self,
        other: Src<'k, V>,
        inst: impl FnOnce(Def, Use, Use) -> Inst,
    ) -> Reg<'k, U> {
        self.unary(|d, a| inst(d, a, other.use_()))
    }

    /// `self` where the predicate holds, else `other`.
    pub fn select(self, other: impl Into<Src<'k, T>>, predicate: Reg<'k, Pred>) -> Reg<'k, T> {
        let (ty, p) = (T::CLASS.declared(), Use(predicate.operand()));
        self.binary(other.into(), |d, a, b| Inst::Select { ty, d, a, b, p })
    }
}

macro_rules! numeric {
    ($($trait:ident $method:ident $integer:ident $float:ident;)*) => {$(
        impl<'k, T: Number, R: Into<Src<'k, T>>> $trait<R> for Reg<'k, T> {
            type Output = Reg<'k, T>;
            fn $method(self, other: R) -> Reg<'k, T> {
                let ty = T::SCALAR;
                self.binary(other.into(), |d, a, b| match T::KIND {
                    Kind::Integer => Inst::$integer { ty, d, a, b },
                    Kind::Float => Inst::$float { ty, d, a, b },
                    Kind::Bits => unreachable!("compiler bug: arithmetic on bits"),
                })
            }
        }
    )*};
}
numeric! {
    Add add Add AddFloat;
    Sub sub Sub SubFloat;
    Mul mul MulLow MulFloat;
}

macro_rules! bitwise {
    ($($trait:ident $method:ident $inst:ident;)*) => {$(
        impl<'k, T: Logic, R: Into<Src<'k, T>>> $trait<R> for Reg<'k, T> {
            type Output = Reg<'k, T>;
            fn $method(self, other: R) -> Reg<'k, T> {
                self.binary(other.into(), |d, a, b| Inst::$inst { ty: T::BITS, d, a, b })
            }
        }
    )*};
}
bitwise! {
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
}

impl<'k, T: Integer, R: Into<Src<'k, U32>>> Shl<R> for Reg<'k, T> {
    type Output = Reg<'k, T>;
    fn shl(self, count: R) -> Reg<'k, T> {
        self.binary(count.into(), |d, a, b| Inst::Shl { ty: T::BITS, d, a, b })
    }
}

impl<'k, T: Integer, R: Into<Src<'k, U32>>> Shr<R> for Reg<'k, T> {
    type Output = Reg<'k, T>;
    /// Signed types keep their sign.
    fn shr(self, count: R) -> Reg<'k, T> {
        self.binary(count.into(), |d, a, b| Inst::Shr { ty: T::SCALAR, d, a, b })
    }
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $method:ident $compare:ident;)*) => {
        impl<'k, T: Number> Reg<'k, T> {
            $(
                $(#[$doc])*
                pub fn $method(self, other: impl Into<Src<'k, T>>) -> Reg<'k, Pred> {
                    self.compare(Compare::$compare, other)
                }
            )*
        }
    };
}
comparisons! {
    /// Whether they are equal.
    eq Eq;
    /// Whether they differ; false with NaN.
    ne Ne;
    /// Whether this is less.
    lt Lt;
    /// Whether this is at most the other.
    le Le;
    /// Whether this is greater.
    gt Gt;
    /// Whether this is at least the other.
    ge Ge;
}

impl<'k, T: Number> Reg<'k, T> {
    /// Any comparison.
    pub fn compare(self, compare: Compare, other: impl Into<Src<'k, T>>) -> Reg<'k, Pred> {
        self.binary(other.into(), |d, a, b| Inst::Setp { compare, ty: T::SCALAR, d, a, b })
    }

    /// The smaller; NaN when a side is.
    pub fn min(self, other: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        let ty = T::SCALAR;
        self.binary(other.into(), |d, a, b| match T::KIND {
            Kind::Integer | Kind::Bits => Inst::Min { ty, d, a, b },
            Kind::Float => Inst::MinNan { ty, d, a, b },
        })
    }

    /// The larger; NaN when a side is.
    pub fn max(self, other: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        let ty = T::SCALAR;
        self.binary(other.into(), |d, a, b| match T::KIND {
            Kind::Integer | Kind::Bits => Inst::Max { ty, d, a, b },
            Kind::Float => Inst::MaxNan { ty, d, a, b },
        })
    }

    /// The smaller; of a number and NaN the number.
    pub fn min_number(self, other: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        self.binary(other.into(), |d, a, b| Inst::Min { ty: T::SCALAR, d, a, b })
    }

    /// The larger; of a number and NaN the number.
    pub fn max_number(self, other: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        self.binary(other.into(), |d, a, b| Inst::Max { ty: T::SCALAR, d, a, b })
    }
}

impl<'k, T: Integer> Reg<'k, T> {
    /// `self * b + c`, wrapping.
    pub fn mad(self, b: impl Into<Src<'k, T>>, c: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        let c = c.into().use_();
        self.binary(b.into(), |d, a, b| Inst::MadLow { ty: T::SCALAR, d, a, b, c })
    }

    /// The upper half of the product.
    pub fn mul_high(self, other: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        self.binary(other.into(), |d, a, b| Inst::MulHigh { ty: T::SCALAR, d, a, b })
    }
}

impl<'k, T: Integer, R: Into<Src<'k, T>>> Div<R> for Reg<'k, T> {
    type Output = Reg<'k, T>;
    /// Toward zero.
    fn div(self, other: R) -> Reg<'k, T> {
        self.binary(other.into(), |d, a, b| Inst::Div { ty: T::SCALAR, d, a, b })
    }
}

impl<'k, T: Integer, R: Into<Src<'k, T>>> Rem<R> for Reg<'k, T> {
    type Output = Reg<'k, T>;
    fn rem(self, other: R) -> Reg<'k, T> {
        self.binary(other.into(), |d, a, b| Inst::Rem { ty: T::SCALAR, d, a, b })
    }
}

impl<'k> Reg<'k, U32> {
    /// The whole product.
    pub fn mul_wide(self, other: impl Into<Src<'k, U32>>) -> Reg<'k, U64> {
        self.binary(other.into(), |d, a, b| Inst::MulWide { ty: Scalar::U32, d, a, b })
    }

    /// The whole product plus `c`.
    pub fn mad_wide(self, b: impl Into<Src<'k, U32>>, c: impl Into<Src<'k, U64>>) -> Reg<'k, U64> {
        let c = c.into().use_();
        self.binary(b.into(), |d, a, b| Inst::MadWide { ty: Scalar::U32, d, a, b, c })
    }
}

impl<'k, T: Logic> Reg<'k, T> {
    /// Every bit flipped; for predicates prefer the operator `!`, which costs nothing.
    pub fn complement(self) -> Reg<'k, T> {
        self.unary(|d, a| Inst::Not { ty: T::BITS, d, a })
    }
}

impl<'k> Reg<'k, B32> {
    /// Four bytes of `self` (0 to 3) and `upper` (4 to 7), named by the hex digits of `selector`, the lowest first.
    pub fn permute(
        self,
        upper: impl Into<Src<'k, B32>>,
        selector: impl Into<Src<'k, B32>>,
    ) -> Reg<'k, B32> {
        let c = selector.into().use_();
        self.binary(upper.into(), |d, a, b| Inst::Permute { d, a, b, c })
    }

    /// Any function of three bits: bit `4a + 2b + c` of `table`.
    pub fn lop3(
        self,
        b: impl Into<Src<'k, B32>>,
        c: impl Into<Src<'k, B32>>,
        table: u8,
    ) -> Reg<'k, B32> {
        let (c, table) = (c.into().use_(), Src::<B32>::from(u32::from(table)).use_());
        self.binary(b.into(), |d, a, b| Inst::Lop3 { d, a, b, c, table })
    }

    /// Its ones counted.
    pub fn count_ones(self) -> Reg<'k, U32> {
        self.unary(|d, a| Inst::PopulationCount { ty: Scalar::B32, d, a })
    }
}

impl<'k, T: Number> Reg<'k, T> {
    /// `self * b + c` rounded once, to nearest; floats only.
    pub fn fma(self, b: impl Into<Src<'k, T>>, c: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        assert!(T::KIND == Kind::Float, "compiler bug: fma of integers");
        let c = c.into().use_();
        self.binary(b.into(), |d, a, b| Inst::Fma { ty: T::SCALAR, d, a, b, c })
    }

    /// The negative; signed integers and floats.
    pub fn negate(self) -> Reg<'k, T> {
        self.unary(|d, a| Inst::Neg { ty: T::SCALAR, d, a })
    }

    /// The absolute value; signed integers and floats.
    pub fn abs(self) -> Reg<'k, T> {
        self.unary(|d, a| Inst::Abs { ty: T::SCALAR, d, a })
    }
}

impl<'k> Reg<'k, F32> {
    /// The quotient, off by at most 2 units in the last place, at the ends of the range too (PTX ISA, "div").
    pub fn divide_full(self, other: impl Into<Src<'k, F32>>) -> Reg<'k, F32> {
        self.binary(other.into(), |d, a, b| Inst::DivFull { ty: Scalar::F32, d, a, b })
    }

    /// A function as the hardware approximates it.
    pub fn approx(self, function: Approx) -> Reg<'k, F32> {
        self.unary(|d, a| Inst::approx(function, Scalar::F32, d, a))
    }
}
