//! Values that no other value is the first argument of: sizes, indices, random numbers; and casts by random bits.

use crate::dtype::DType;
use crate::syntax::{ExprId, ExprKind, Name, Span};

use super::{Expr, IntoDims, KernelBuilder, Operand};

impl KernelBuilder {
    /// `function(arguments...)`.
    pub(super) fn function(&self, function: &str, arguments: Vec<ExprId>) -> Expr<'_> {
        let function = Name::new(function, Span::default());
        self.push(ExprKind::Call { function, grad: false, arguments })
    }

    fn of_dim(&self, function: &str, dim: impl IntoDims) -> Expr<'_> {
        let dims = dim.into_dims().iter().map(|dim| self.dim(dim)).collect();
        self.function(function, dims)
    }

    fn of_seed<'k>(&'k self, function: &str, seed: Operand<'k>, offset: Operand<'k>) -> Expr<'k> {
        self.function(function, vec![self.operand(seed), self.operand(offset)])
    }

    /// The size of a dim, as an integer literal.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!((k.size("K") / 2).to_string(), "size(K) / 2");
    /// ```
    pub fn size(&self, dim: impl IntoDims) -> Expr<'_> {
        self.of_dim("size", dim)
    }

    /// The index along a batch dim.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!(k.index("L").to_string(), "index(L)");
    /// ```
    pub fn index(&self, dim: impl IntoDims) -> Expr<'_> {
        self.of_dim("index", dim)
    }

    /// A random i32 for every element of the product.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!(k.philox(7, 0).to_string(), "philox(7, 0)");
    /// ```
    pub fn philox<'k>(
        &'k self,
        seed: impl Into<Operand<'k>>,
        offset: impl Into<Operand<'k>>,
    ) -> Expr<'k> {
        self.of_seed("philox", seed.into(), offset.into())
    }

    /// A random number in [0, 1) for every element of the product.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::I32};
    /// # let k = KernelBuilder::new("k");
    /// let seed = k.input("seed", I32, ["2"]);
    /// assert_eq!(k.uniform(seed, 3).to_string(), "uniform(seed, 3)");
    /// ```
    pub fn uniform<'k>(
        &'k self,
        seed: impl Into<Operand<'k>>,
        offset: impl Into<Operand<'k>>,
    ) -> Expr<'k> {
        self.of_seed("uniform", seed.into(), offset.into())
    }

    /// A standard normal number for every element of the product.
    ///
    /// ```
    /// # let k = postlude::build::KernelBuilder::new("k");
    /// assert_eq!(k.normal(7, 0).to_string(), "normal(7, 0)");
    /// ```
    pub fn normal<'k>(
        &'k self,
        seed: impl Into<Operand<'k>>,
        offset: impl Into<Operand<'k>>,
    ) -> Expr<'k> {
        self.of_seed("normal", seed.into(), offset.into())
    }
}

impl<'k> Expr<'k> {
    /// The value rounded up or down to a dtype, by random bits.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{BF16, F32}};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.scalar("x", F32);
    /// assert_eq!(x.cast_by_bits(BF16, 7, 0).to_string(), "bf16(x, 7, 0)");
    /// ```
    pub fn cast_by_bits(
        self,
        dtype: DType,
        seed: impl Into<Operand<'k>>,
        offset: impl Into<Operand<'k>>,
    ) -> Expr<'k> {
        let bits = [self.kernel.operand(seed.into()), self.kernel.operand(offset.into())];
        self.call(dtype.name(), bits)
    }
}
