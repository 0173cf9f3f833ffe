//! Reductions: along dims, over everything, or in groups along a dim.

use crate::shape::Dim;

use super::{Expr, IntoDims};

impl<'k> Expr<'k> {
    fn reduce(self, function: &str, dims: impl IntoDims) -> Expr<'k> {
        self.call(function, self.dims(dims))
    }
}

macro_rules! reductions {
    ($($name:ident, $all:ident, $groups:ident: $what:literal;)*) => {
        impl<'k> Expr<'k> {$(
            #[doc = concat!($what, " along dims.")]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let x = k.input(\"x\", F32, [\"M\", \"N\"]);\n",
                "assert_eq!(x.", stringify!($name), "([\"M\"]).to_string(), \"", stringify!($name), "(x, M)\");\n",
                "```"
            )]
            pub fn $name(self, dims: impl IntoDims) -> Expr<'k> {
                self.reduce(stringify!($name), dims)
            }

            #[doc = concat!($what, " along every dim, the batch included.")]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let x = k.input(\"x\", F32, [\"M\", \"N\"]);\n",
                "assert_eq!(x.", stringify!($all), "().to_string(), \"", stringify!($name), "(x)\");\n",
                "```"
            )]
            pub fn $all(self) -> Expr<'k> {
                self.reduce(stringify!($name), Vec::new())
            }

            #[doc = concat!($what, " of each run of `size` elements along a dim.")]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let x = k.input(\"x\", F32, [\"M\", \"N\"]);\n",
                "assert_eq!(x.", stringify!($groups), "(\"N\", 128).to_string(), \"", stringify!($name), "(x, N, 128)\");\n",
                "```"
            )]
            pub fn $groups(self, dim: impl IntoDims, size: u32) -> Expr<'k> {
                let mut dims = dim.into_dims();
                dims.push(Dim::Size(size));
                self.reduce(stringify!($name), dims)
            }
        )*}
    };
}

reductions! {
    sum, sum_all, sum_groups: "The sum";
    mean, mean_all, mean_groups: "The mean";
    var, var_all, var_groups: "The variance, not corrected";
    max, max_all, max_groups: "The greatest value";
    min, min_all, min_groups: "The least value";
    absmax, absmax_all, absmax_groups: "The greatest magnitude";
    argmax, argmax_all, argmax_groups: "The index of the greatest value";
    argmin, argmin_all, argmin_groups: "The index of the least value";
    prod, prod_all, prod_groups: "The product";
    logsumexp, logsumexp_all, logsumexp_groups: "The logarithm of the sum of exponentials";
}
