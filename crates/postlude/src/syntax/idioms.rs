//! Functions of other tools that the language does not have, and what does the same today.
//!
//! In: a name that is no function of the language. Out: what to write instead, with `z` for the value, `a` and `b` for
//! two, `N` for the column dim. Every expression of the table types (tested).

/// The name elsewhere, and the same here.
#[rustfmt::skip] // A table: one line a name.
pub(crate) const IDIOMS: &[(&str, &str)] = &[
    ("std", "sqrt(mean(square(z - mean(z, N)), N))"),
    ("norm", "sqrt(sum(square(z), N))"),
    ("l2norm", "sqrt(sum(square(z), N))"),
    ("l2_norm", "sqrt(sum(square(z), N))"),
    ("normalize", "z / sqrt(sum(square(z), N))"),
    ("any", "max(f32(z > 0), N) > 0"),
    ("all", "min(f32(z > 0), N) > 0"),
    ("count_nonzero", "sum(f32(z != 0), N)"),
    ("amax", "max(z, N)"),
    ("amin", "min(z, N)"),
    ("fmax", "maximum(a, b)"),
    ("fmin", "minimum(a, b)"),
    ("clip", "clamp(z, 0, 6)"),
    ("hardtanh", "clamp(z, -1, 1)"),
    ("softsign", "z / (1 + abs(z))"),
    ("log_sigmoid", "logsigmoid(z)"),
    ("tanhshrink", "z - tanh(z)"),
    ("swish", "silu(z)"),
    ("ln", "log(z)"),
    ("log10", "log(z) / log(10.0)"),
    ("exp10", "exp(z * log(10.0))"),
    ("power", "pow(a, b)"),
    ("sqr", "square(z)"),
    ("cbrt", "sign(z) * pow(abs(z), 0.3333333333)"),
    ("reciprocal", "rcp(z)"),
    ("inv", "rcp(z)"),
    ("inverse", "rcp(z)"),
    ("neg", "-z"),
    ("negative", "-z"),
    ("add", "a + b"),
    ("sub", "a - b"),
    ("subtract", "a - b"),
    ("mul", "a * b"),
    ("multiply", "a * b"),
    ("div", "a / b"),
    ("divide", "a / b"),
    ("mod", "a - b * floor(a / b)"),
    ("remainder", "a - b * floor(a / b)"),
    ("rint", "round(z)"),
    ("fabs", "abs(z)"),
    ("logaddexp", "maximum(a, b) + softplus(-abs(a - b))"),
    ("float32", "f32(z)"),
    ("float16", "f16(z)"),
    ("bfloat16", "bf16(z)"),
    ("half", "f16(z)"),
    ("int", "i32(z)"),
    ("int32", "i32(z)"),
    ("int8", "i8(z)"),
    ("uint8", "u8(z)"),
    ("select", "where(a > 0, a, b)"),
    ("isfinite", "!(isnan(z) | isinf(z))"),
];

const RESHAPED: &str = "dims are declared, and a tensor is passed in the shape that it is declared with; \
                        `q, k = split(z, [Q, KV])` and `a, b = halves(z)` cut columns";
const MEETS: &str =
    "leave it out: values meet by the names of their dims, and `[M]` with `[N]` gives `[M, N]`";
const NO_CONVOLUTION: &str =
    "there is no convolution; where it is a product of patches (im2col), write `X @ W.T`";

/// Functions that no expression stands for, and what to do.
#[rustfmt::skip] // A table: one line a name.
const ADVICE: &[(&str, &str)] = &[
    ("matmul", "write the product as `A @ B`"),
    ("dot", "write the product as `A @ B`"),
    ("mm", "write the product as `A @ B`"),
    ("bmm", "write the product as `A @ B`, with a leading batch dim"),
    ("einsum", "write the product as `A @ B`, or `A @ B.T`"),
    ("transpose", "write `A.T`"),
    ("shape", "write `size(N)`"),
    ("len", "write `size(N)`"),
    ("rand", "pass random numbers as an input"),
    ("chunk", "`a, b, c = split(z, 3)` splits into equal parts"),
    ("cat", "`concat(a, b)` puts two halves together"),
    ("concatenate", "`concat(a, b)` puts two halves together"),
    ("stack", "`join(a, b)` interleaves two halves"),
    ("swiglu", "write `gate, up = halves(z); D = silu(gate) * up`, or run the library's `swiglu`"),
    ("geglu", "write `gate, up = halves(z); D = gelu(gate) * up`, or run the library's `geglu`"),
    ("reglu", "write `gate, up = halves(z); D = relu(gate) * up`, or run the library's `reglu`"),
    ("glu", "write `a, gate = halves(z); D = a * sigmoid(gate)`, or run the library's `glu`"),
    ("cross_entropy", "write `logsumexp(z, N) - pick(z, t)` with `t: i32[M]`"),
    ("nll_loss", "write `-pick(z, t)` with `t: i32[M]`"),
    ("sort", "there is no sort; `values, indices = topk(z, 8, N)` gives the largest in order"),
    ("cumsum", "there are no prefix sums; store the product and scan it in a second kernel"),
    ("if", "write `where(condition, a, b)`"),
    ("reshape", RESHAPED),
    ("view", RESHAPED),
    ("flatten", RESHAPED),
    ("rearrange", RESHAPED),
    ("repeat", MEETS),
    ("expand", MEETS),
    ("broadcast_to", MEETS),
    ("unsqueeze", MEETS),
    ("expand_dims", MEETS),
    ("squeeze", MEETS),
    ("repeat_interleave", MEETS),
    ("permute", "write `A.T`, or name the dims in the order in which the tensor lies in memory"),
    ("one_hot", "`pick(z, t)` reads the column that `t` numbers; the matrix is `f32(index(N) == t)`"),
    ("conv1d", NO_CONVOLUTION),
    ("conv2d", NO_CONVOLUTION),
    ("conv3d", NO_CONVOLUTION),
    ("conv_transpose2d", NO_CONVOLUTION),
    ("embedding", "`gather(X, index)` reads rows of `X: bf16[S, N]` by `index: i32[T]`"),
    ("index_add", "`scatter(x, index, S)` sums rows by their numbers"),
    ("scatter_add", "`scatter(x, index, S)` sums rows by their numbers"),
    ("arange", "`index(N)` is the place along `N`"),
    ("program_id", "leave it out: a statement says what happens to every element, and `row` and `col` are its place"),
    ("load", "leave it out: inputs are loaded where they are read"),
    ("store", "leave it out: outputs are stored where they are assigned, as in `D = ...`"),
    ("zeros", "write `0.0`: a number meets every element"),
    ("ones", "write `1.0`: a number meets every element"),
    ("full", "write the number: it meets every element"),
    ("empty", "leave it out: outputs are stored where they are assigned, as in `D = ...`"),
    ("tril", "write `where(col <= row, z, 0.0)`"),
    ("triu", "write `where(col >= row, z, 0.0)`"),
    ("scaled_dot_product_attention", "run the library's `attention`"),
    ("attention", "run the library's `attention`"),
    ("batch_norm", "run the library's `linear_batch_norm`"),
    ("group_norm", "write the mean and the variance of the group: `mean(z, N)`, `var(z, N)`"),
    ("mse_loss", "write `mean(square(a - b))`"),
    ("l1_loss", "write `mean(abs(a - b))`"),
    ("print", "leave it out: `postlude run --print D` prints an output"),
];

/// What to write for a function that the language does not have.
pub(crate) fn instead(name: &str) -> Option<String> {
    let idiom = IDIOMS.iter().find(|(known, _)| *known == name);
    let advice = ADVICE.iter().find(|(known, _)| *known == name);
    idiom
        .map(|(_, text)| format!("write `{text}`"))
        .or_else(|| advice.map(|(_, text)| (*text).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{catalogue, syntax};

    #[test]
    fn every_idiom_types() {
        for (name, text) in IDIOMS {
            let source = format!(
                "kernel k(A: bf16[M, K], B: bf16[K, N], a: f32[M, N], b: f32[M, N]) -> D: f32[M, N] \
                 {{ z = A @ B; x = {text}; D = z + a + b + f32(x) }}"
            );
            let ast = syntax::parse(&source).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
            let checked = crate::check::check(&ast);
            assert!(checked.is_ok(), "{name}: {:?}", checked.err());
        }
    }

    #[test]
    fn no_idiom_is_for_a_function_of_the_language() {
        let names = IDIOMS.iter().chain(ADVICE).map(|(name, _)| *name);
        for name in names {
            assert!(catalogue::find(name).is_none(), "{name}");
        }
    }
}
