//! Operators: Rust's own where it has them, methods where it has not.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Shl, Shr, Sub};

use crate::syntax::{ExprKind, Infix, Prefix};

use super::{Expr, Operand};

impl<'k> Expr<'k> {
    fn infix(self, infix: Infix, right: Operand<'k>) -> Expr<'k> {
        let right = self.kernel.operand(right);
        self.kernel.push(ExprKind::Infix(infix, self.id, right))
    }

    /// The matrix product `self @ right`. A kernel has exactly one.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let (a, b) = (k.input("A", F32, ["M", "K"]), k.input("B", F32, ["N", "K"]));
    /// assert_eq!((-a.matmul(b.t())).to_string(), "-(A @ B.T)");
    /// ```
    pub fn matmul(self, right: Expr<'k>) -> Expr<'k> {
        let right = self.kernel.own(right);
        self.kernel.push(ExprKind::Product(self.id, right))
    }

    /// Every bit of an i32 flipped, `~self`; `!` is for conditions.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::I32};
    /// # let k = KernelBuilder::new("k");
    /// # let mask = k.input("mask", I32, ["M", "N"]);
    /// assert_eq!((mask.invert() & (mask >> 3)).to_string(), "~mask & mask >> 3");
    /// ```
    pub fn invert(self) -> Expr<'k> {
        self.kernel.push(ExprKind::Prefix(Prefix::Invert, self.id))
    }

    /// The last two dims swapped.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// assert_eq!(k.input("B", F32, ["N", "K"]).t().to_string(), "B.T");
    /// ```
    pub fn t(self) -> Expr<'k> {
        self.kernel.push(ExprKind::Transpose(self.id))
    }
}

macro_rules! arithmetic {
    ($($operator:ident::$method:ident is $infix:ident;)*) => {$(
        impl<'k, R: Into<Operand<'k>>> $operator<R> for Expr<'k> {
            type Output = Expr<'k>;

            fn $method(self, right: R) -> Expr<'k> {
                self.infix(Infix::$infix, right.into())
            }
        }

        arithmetic!($operator::$method for f32);
        arithmetic!($operator::$method for f64);
        arithmetic!($operator::$method for i32);
    )*};
    ($operator:ident::$method:ident for $literal:ty) => {
        impl<'k> $operator<Expr<'k>> for $literal {
            type Output = Expr<'k>;

            fn $method(self, right: Expr<'k>) -> Expr<'k> {
                right.kernel.number(self).$method(right)
            }
        }
    };
}

arithmetic! {
    Add::add is Add;
    Sub::sub is Subtract;
    Mul::mul is Multiply;
    Div::div is Divide;
}

macro_rules! comparisons {
    ($($method:ident is $infix:ident, $words:literal, $symbol:literal;)*) => {
        impl<'k> Expr<'k> {$(
            #[doc = concat!("Whether it is ", $words, " `right`.")]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let x = k.scalar(\"x\", F32);\n",
                "assert_eq!(x.", stringify!($method), "(0).to_string(), \"x ", $symbol, " 0\");\n",
                "```"
            )]
            pub fn $method(self, right: impl Into<Operand<'k>>) -> Expr<'k> {
                self.infix(Infix::$infix, right.into())
            }
        )*}
    };
}

comparisons! {
    lt is Less, "less than", "<";
    le is LessEqual, "at most", "<=";
    gt is Greater, "greater than", ">";
    ge is GreaterEqual, "at least", ">=";
    eq is Equal, "equal to", "==";
    ne is NotEqual, "different from", "!=";
}

impl<'k> BitAnd for Expr<'k> {
    type Output = Expr<'k>;

    fn bitand(self, right: Expr<'k>) -> Expr<'k> {
        self.infix(Infix::And, right.into())
    }
}

impl<'k> BitOr for Expr<'k> {
    type Output = Expr<'k>;

    fn bitor(self, right: Expr<'k>) -> Expr<'k> {
        self.infix(Infix::Or, right.into())
    }
}

impl<'k> BitXor for Expr<'k> {
    type Output = Expr<'k>;

    fn bitxor(self, right: Expr<'k>) -> Expr<'k> {
        self.infix(Infix::Xor, right.into())
    }
}

impl<'k, R: Into<Operand<'k>>> Shl<R> for Expr<'k> {
    type Output = Expr<'k>;

    fn shl(self, right: R) -> Expr<'k> {
        self.infix(Infix::ShiftLeft, right.into())
    }
}

impl<'k, R: Into<Operand<'k>>> Shr<R> for Expr<'k> {
    type Output = Expr<'k>;

    fn shr(self, right: R) -> Expr<'k> {
        self.infix(Infix::ShiftRight, right.into())
    }
}

impl<'k> Neg for Expr<'k> {
    type Output = Expr<'k>;

    fn neg(self) -> Expr<'k> {
        self.kernel.push(ExprKind::Prefix(Prefix::Negate, self.id))
    }
}

impl<'k> Not for Expr<'k> {
    type Output = Expr<'k>;

    fn not(self) -> Expr<'k> {
        self.kernel.push(ExprKind::Prefix(Prefix::Not, self.id))
    }
}
