//! One method for each function of the language except reductions: elementwise, activations,
//! composites, rearrangements.

use crate::dtype::DType;
use crate::syntax::{ExprId, ExprKind, Name, Span};

use super::{Expr, IntoDims, Operand};

impl<'k> Expr<'k> {
    /// `function(self, rest...)`.
    pub(super) fn call(self, function: &str, rest: impl IntoIterator<Item = ExprId>) -> Expr<'k> {
        self.apply(function, false, rest)
    }

    fn apply(self, function: &str, grad: bool, rest: impl IntoIterator<Item = ExprId>) -> Expr<'k> {
        let function = Name::new(function, Span::default());
        let arguments = std::iter::once(self.id).chain(rest).collect();
        self.kernel.push(ExprKind::Call { function, grad, arguments })
    }

    /// The value rounded to a dtype.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{BF16, F32}};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.scalar("x", F32);
    /// assert_eq!(x.cast(BF16).to_string(), "bf16(x)");
    /// ```
    pub fn cast(self, dtype: DType) -> Expr<'k> {
        self.call(dtype.name(), [])
    }

    /// The derivative of a function of one argument, at this value.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.scalar("z", F32);
    /// assert_eq!(z.grad("gelu").to_string(), "grad(gelu)(z)");
    /// ```
    pub fn grad(self, function: &str) -> Expr<'k> {
        self.apply(function, true, [])
    }

    /// The derivative of a function in its first argument, at this value, with the other arguments.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.scalar("z", F32);
    /// assert_eq!(z.grad_with("leaky_relu", [0.1]).to_string(), "grad(leaky_relu)(z, 0.1)");
    /// ```
    pub fn grad_with<T: Into<Operand<'k>>>(
        self,
        function: &str,
        rest: impl IntoIterator<Item = T>,
    ) -> Expr<'k> {
        let rest: Vec<ExprId> =
            rest.into_iter().map(|argument| self.kernel.operand(argument.into())).collect();
        self.apply(function, true, rest)
    }

    /// `softmax` over all but the `k` largest along a dim, which become zero.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::F32};
    /// # let k = KernelBuilder::new("k");
    /// # let z = k.input("z", F32, ["M", "N"]);
    /// assert_eq!(z.topk_softmax(4, "N").to_string(), "topk_softmax(z, 4, N)");
    /// ```
    pub fn topk_softmax(self, k: impl Into<Operand<'k>>, dim: impl IntoDims) -> Expr<'k> {
        let mut arguments = vec![self.kernel.operand(k.into())];
        arguments.extend(self.dims(dim));
        self.call("topk_softmax", arguments)
    }

    /// Sums of rows, or of elements, by their numbers.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{F32, I32}};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.input("x", F32, ["T", "N"]);
    /// # let index = k.input("index", I32, ["T"]);
    /// assert_eq!(x.scatter(index, "S").to_string(), "scatter(x, index, S)");
    /// ```
    pub fn scatter(self, index: impl Into<Operand<'k>>, dim: impl IntoDims) -> Expr<'k> {
        let mut arguments = vec![self.kernel.operand(index.into())];
        arguments.extend(self.dims(dim));
        self.call("scatter", arguments)
    }

    /// Sums of rows by lists of numbers, with a weight for each.
    ///
    /// ```
    /// # use postlude::{build::KernelBuilder, dtype::DType::{F32, I32}};
    /// # let k = KernelBuilder::new("k");
    /// # let x = k.input("x", F32, ["T", "N"]);
    /// # let [p, w] = [("p", I32), ("w", F32)].map(|(name, dtype)| k.input(name, dtype, ["T", "2"]));
    /// assert_eq!(x.scatter_weighted(p, "S", w).to_string(), "scatter(x, p, S, w)");
    /// ```
    pub fn scatter_weighted(
        self,
        position: impl Into<Operand<'k>>,
        dim: impl IntoDims,
        weight: impl Into<Operand<'k>>,
    ) -> Expr<'k> {
        let mut arguments = vec![self.kernel.operand(position.into())];
        arguments.extend(self.dims(dim));
        arguments.push(self.kernel.operand(weight.into()));
        self.call("scatter", arguments)
    }

    /// Dims as arguments; how many a function takes is for the checker to say.
    pub(super) fn dims(self, dims: impl IntoDims) -> Vec<ExprId> {
        dims.into_dims().iter().map(|dim| self.kernel.dim(dim)).collect()
    }
}

/// Methods that pass their arguments on: `method(arguments) is "function" "what it does", "call" => "text"`.
macro_rules! functions {
    ($($method:ident($($argument:ident),*) is $function:literal: $does:literal, $call:literal => $text:literal;)*) => {
        impl<'k> Expr<'k> {$(
            #[doc = $does]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let (x, y) = (k.input(\"x\", F32, [\"M\", \"N\"]), k.input(\"y\", F32, [\"N\"]));\n",
                "assert_eq!(", $call, ".to_string(), \"", $text, "\");\n",
                "```"
            )]
            pub fn $method(self, $($argument: impl Into<Operand<'k>>),*) -> Expr<'k> {
                self.call($function, [$(self.kernel.operand($argument.into())),*])
            }
        )*}
    };
}

functions! {
    abs() is "abs": "The magnitude.", "x.abs()" => "abs(x)";
    sign() is "sign": "-1, 0 or 1.", "x.sign()" => "sign(x)";
    sqrt() is "sqrt": "The square root.", "x.sqrt()" => "sqrt(x)";
    rsqrt() is "rsqrt": "One over the square root.", "x.rsqrt()" => "rsqrt(x)";
    rcp() is "rcp": "One over the value.", "x.rcp()" => "rcp(x)";
    square() is "square": "The value times itself.", "x.square()" => "square(x)";
    exp() is "exp": "e to the value.", "x.exp()" => "exp(x)";
    exp2() is "exp2": "2 to the value.", "x.exp2()" => "exp2(x)";
    log() is "log": "The natural logarithm.", "x.log()" => "log(x)";
    log2() is "log2": "The logarithm to base 2.", "x.log2()" => "log2(x)";
    log1p() is "log1p": "`log(1 + x)`, exact near 0.", "x.log1p()" => "log1p(x)";
    expm1() is "expm1": "`exp(x) - 1`, exact near 0.", "x.expm1()" => "expm1(x)";
    sin() is "sin": "The sine.", "x.sin()" => "sin(x)";
    cos() is "cos": "The cosine.", "x.cos()" => "cos(x)";
    tanh() is "tanh": "The hyperbolic tangent.", "x.tanh()" => "tanh(x)";
    erf() is "erf": "The error function.", "x.erf()" => "erf(x)";
    floor() is "floor": "The integer at or below.", "x.floor()" => "floor(x)";
    ceil() is "ceil": "The integer at or above.", "x.ceil()" => "ceil(x)";
    round() is "round": "The nearest integer, ties to even.", "x.round()" => "round(x)";
    clamp(low, high) is "clamp": "The value, no less than `low` and no more than `high`.", "x.clamp(0, 6)" => "clamp(x, 0, 6)";
    maximum(other) is "maximum": "The greater of two, element by element.", "x.maximum(y)" => "maximum(x, y)";
    minimum(other) is "minimum": "The lesser of two, element by element.", "x.minimum(1.0)" => "minimum(x, 1.0)";
    pow(exponent) is "pow": "The value to a power.", "x.pow(1.5)" => "pow(x, 1.5)";
    fma(factor, addend) is "fma": "`self * factor + addend`, rounded once.", "x.fma(y, -1)" => "fma(x, y, -1)";
    where_(then, otherwise) is "where": "`then` where this condition holds, else `otherwise`.", "x.gt(0).where_(x, f32::NEG_INFINITY)" => "where(x > 0, x, -inf)";
    isnan() is "isnan": "Whether it is nan.", "x.isnan()" => "isnan(x)";
    isinf() is "isinf": "Whether it is infinite.", "x.isinf()" => "isinf(x)";
    relu() is "relu": "`max(x, 0)`.", "x.relu()" => "relu(x)";
    relu6() is "relu6": "`relu`, no more than 6.", "x.relu6()" => "relu6(x)";
    leaky_relu(slope) is "leaky_relu": "The value, times `slope` where negative.", "x.leaky_relu(0.01)" => "leaky_relu(x, 0.01)";
    threshold(limit, value) is "threshold": "The value where above `limit`, else `value`.", "x.threshold(0.5, 0)" => "threshold(x, 0.5, 0)";
    elu() is "elu": "Exponential linear unit.", "x.elu()" => "elu(x)";
    elu_to(alpha) is "elu": "Exponential linear unit that falls to `-alpha`.", "x.elu_to(0.5)" => "elu(x, 0.5)";
    selu() is "selu": "Scaled exponential linear unit.", "x.selu()" => "selu(x)";
    softplus() is "softplus": "`log(1 + exp(x))`.", "x.softplus()" => "softplus(x)";
    softplus_of(beta) is "softplus": "`log(1 + exp(beta * x)) / beta`.", "x.softplus_of(2.0)" => "softplus(x, 2.0)";
    sigmoid() is "sigmoid": "`1 / (1 + exp(-x))`.", "x.sigmoid()" => "sigmoid(x)";
    silu() is "silu": "`x * sigmoid(x)`.", "x.silu()" => "silu(x)";
    mish() is "mish": "`x * tanh(softplus(x))`.", "x.mish()" => "mish(x)";
    hardswish() is "hardswish": "`x * relu6(x + 3) / 6`.", "x.hardswish()" => "hardswish(x)";
    hardsigmoid() is "hardsigmoid": "`relu6(x + 3) / 6`.", "x.hardsigmoid()" => "hardsigmoid(x)";
    gelu() is "gelu": "Gaussian error linear unit, by `erf`.", "x.gelu()" => "gelu(x)";
    gelu_tanh() is "gelu_tanh": "Gaussian error linear unit, by `tanh`.", "x.gelu_tanh()" => "gelu_tanh(x)";
    quick_gelu() is "quick_gelu": "`x * sigmoid(1.702 * x)`.", "x.quick_gelu()" => "quick_gelu(x)";
    relu2() is "relu2": "The square of `relu`.", "x.relu2()" => "relu2(x)";
    snake(frequency) is "snake": "`x + square(sin(a * x)) / a`.", "x.snake(0.5)" => "snake(x, 0.5)";
    logsigmoid() is "logsigmoid": "`log(sigmoid(x))`.", "x.logsigmoid()" => "logsigmoid(x)";
    tan() is "tan": "The tangent.", "x.tan()" => "tan(x)";
    atan() is "atan": "The arc tangent.", "x.atan()" => "atan(x)";
    sinh() is "sinh": "The hyperbolic sine.", "x.sinh()" => "sinh(x)";
    cosh() is "cosh": "The hyperbolic cosine.", "x.cosh()" => "cosh(x)";
    asinh() is "asinh": "The inverse of the hyperbolic sine.", "x.asinh()" => "asinh(x)";
    trunc() is "trunc": "The integer towards zero.", "x.trunc()" => "trunc(x)";
    fmod(divisor) is "fmod": "The remainder with the sign of `self`.", "x.fmod(2.0)" => "fmod(x, 2.0)";
    lshr(count) is "lshr": "An i32 shifted right, filled with zeros.", "x.lshr(3)" => "lshr(x, 3)";
    bits() is "bits": "The bits of an f32 as i32.", "x.bits()" => "bits(x)";
    float() is "float": "The f32 with these bits.", "x.float()" => "float(x)";
    dropout(p, seed, offset) is "dropout": "0 with probability `p`, else scaled by `1 / (1 - p)`.", "x.dropout(0.1, 7, 0)" => "dropout(x, 0.1, 7, 0)";
    segments(ends) is "segments": "Rows that are cut into segments which end where an input says: the left operand of a product.", "x.segments(y)" => "segments(x, y)";
    masked(count) is "masked": "Rows of each batch from its count on are 0.", "x.masked(y)" => "masked(x, y)";
    gather(index) is "gather": "Rows of an input or a stored value, by their numbers.", "x.gather(y)" => "gather(x, y)";
    combine(position, weight) is "combine": "Weighted sums of rows, by their numbers.", "x.combine(y, y)" => "combine(x, y, y)";
    take(index) is "take": "Of an input with one dim the elements at an index.", "x.take(y)" => "take(x, y)";
    pick(index) is "pick": "In each row the element at the index.", "x.pick(y)" => "pick(x, y)";
    concat(right) is "concat": "What `halves` takes apart.", "x.concat(x)" => "concat(x, x)";
    join(odd) is "join": "What `pairs` takes apart.", "x.join(x)" => "join(x, x)";
}

/// Composites along a dim: `method(arguments after the dim)`.
macro_rules! composites {
    ($($method:ident($($argument:ident),*): $does:literal, $call:literal => $text:literal;)*) => {
        impl<'k> Expr<'k> {$(
            #[doc = $does]
            ///
            #[doc = concat!(
                "```\n",
                "# use postlude::{build::KernelBuilder, dtype::DType::F32};\n",
                "# let k = KernelBuilder::new(\"k\");\n",
                "# let x = k.input(\"x\", F32, [\"M\", \"N\"]);\n",
                "assert_eq!(", $call, ".to_string(), \"", $text, "\");\n",
                "```"
            )]
            pub fn $method(self, dim: impl IntoDims, $($argument: impl Into<Operand<'k>>),*) -> Expr<'k> {
                let arguments = self.dims(dim).into_iter();
                self.call(stringify!($method), arguments.chain([$(self.kernel.operand($argument.into())),*]))
            }
        )*}
    };
}

composites! {
    softmax(): "Exponentials along a dim, divided by their sum.", "x.softmax(\"N\")" => "softmax(x, N)";
    log_softmax(): "The logarithm of `softmax`.", "x.log_softmax(\"N/2\")" => "log_softmax(x, N / 2)";
    rms_norm(eps): "Divided by the root of the mean square along a dim.", "x.rms_norm(\"N\", 1e-5)" => "rms_norm(x, N, 1e-5)";
    layer_norm(eps): "Less the mean, divided by the deviation along a dim.", "x.layer_norm(\"N\", 1e-5)" => "layer_norm(x, N, 1e-5)";
}
