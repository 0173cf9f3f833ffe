//! Bad inputs, one line each: exit code 2, nothing on standard output, no panic, a place where there is one, and words that
//! name what is wrong.

use super::postlude;

/// Kernels and one-liners that are wrong, and words of the error message. Each message names a place in the source.
#[rustfmt::skip]
const SOURCES: &[(&str, &str)] = &[
    // Functions of other tools.
    ("D = argmax(A @ B > 0, N)", "arithmetic"),
    ("D = argmin(A @ B, K)", "`K`"),
    ("D = grad(argmax)(A @ B, N)", "derivative"),
    ("D = std(A @ B, N)", "sqrt(mean(square"),
    ("D = swish(A @ B)", "silu(z)"),
    ("D = ln(A @ B)", "log(z)"),
    ("D = clip(A @ B, 0, 1)", "clamp"),
    ("D = matmul(A, B)", "A @ B"),
    ("D = dot(A, B)", "A @ B"),
    ("D = einsum(A, B)", "A @ B"),
    ("D = transpose(A) @ B", "A.T"),
    ("D = dropout(A @ B, 0.1)", "takes 4 arguments"),
    ("D = swiglu(A @ B)", "halves(z)"),
    ("D = cross_entropy(A @ B, t[M])", "logsumexp(z, N)"),
    ("D = float(A @ B)", "f32(x)"),
    ("D = bfloat16(A @ B)", "bf16(z)"),
    ("D = reciprocal(A @ B)", "rcp(z)"),
    ("D = normalize(A @ B, N)", "unknown function"),
    ("D = cumsum(A @ B, N)", "prefix sums"),
    ("D = sort(A @ B, N)", "no sort"),
    ("D = topk(A @ B, 4, N)", "values, indices = topk"),
    ("D = shape(A)", "size(N)"),
    ("D = xyzzy(A @ B)", "unknown function `xyzzy`"),
    ("D = grad(xyzzy)(A @ B)", "unknown function `xyzzy`"),
    ("D = rsqt(A @ B)", "rsqrt"),
    ("D = Relu(A @ B)", "relu"),
    // Dims as values.
    ("D = A @ B * rsqrt(K)", "`K` is a dim"),
    ("D = A @ B / N", "`N` is a dim"),
    ("D = M + A @ B", "`M` is a dim"),
    ("s = sum(A @ B, N) / N", "mean(x, N)"),
    ("s = sum(A @ B, M) / M", "mean(x, M)"),
    ("D = A @ B - log(N)", "size(N)"),
    // Several products.
    ("D = relu(A @ B) @ C", "cast it"),
    ("kernel k(A: bf16[M, K], B: bf16[K, F], C: bf16[F, N]) -> D: bf16[M, N] { h = bf16(A @ B); D = h @ C + h }", "dims among [M, N]"),
    // Operands.
    ("D = exp(A) @ B", "cast it"),
    ("D = A @ (B + C)", "cast it"),
    ("D = 2 @ B", "reads a tensor with two dims"),
    ("kernel k(a: f32) -> d: f32[] { d = relu(a) }", "no `@`"),
    ("kernel k(A: i32[M, K], B: i32[K, N]) -> D: i32[M, N] { D = A @ B }", "cannot be an operand"),
    ("kernel k(A: f16[M, K], B: bf16[K, N]) -> D: f32[M, N] { D = A @ B }", "operands of `@` differ"),
    ("kernel k(A: f16[M, K], B: f16[N, K]) -> D: f32[M, N] { D = A @ B }", "write `B.T`"),
    ("kernel k(A: f16[M, K], B: f16[P, N]) -> D: f32[M, N] { D = A @ B }", "dims disagree"),
    ("kernel k(A: f16[M], B: f16[K, N]) -> D: f32[M, N] { D = A @ B }", "has 1 dims"),
    ("kernel k(A: f16[K, K], B: f16[K, N]) -> D: f32[K, N] { D = A @ B }", "three different names"),
    ("kernel k(A: f16[L, M, K], B: f16[P, K, N]) -> D: f32[L, M, N] { D = A @ B }", "the batch is"),
    // Signatures.
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> () { z = A @ B }", "no output"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D { D = A @ B }", "has no type"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) { D = A @ B }", "expected `->`"),
    ("kernel k(A: f16[M, K], A: f16[K, N]) -> D: f32[M, N] { D = A @ A }", "declared twice"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32 { D = A @ B }", "needs dims"),
    ("kernel k(A: f16[M, K], B: f16[K, N], s: f16) -> D: f32[M, N] { D = A @ B * s }", "f32 or i32"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32[M, N] { E = A @ B }", "never assigned"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32[M, P] { D = A @ B }", "dims disagree"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32[N] { D = A @ B }", "dims disagree"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f31[M, N] { D = A @ B }", "unknown dtype"),
    ("kernel k(A: f4e2m1[M, K], B: f4e2m1[K, N]) -> D: f32[M, N] { D = A @ B }", "not in this version"),
    ("kernel k(A: i8[M, K], B: i4[K, N]) -> D: u4[M, N] { D = A @ B }", "store whole bytes"),
    ("kernel k(A: f16[M, K], B: i4[K, N]) -> D: f32[M, N] { D = A @ B }", "`B` is i4"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32[M, N] { D = A @ B } }", "closes nothing"),
    ("kernel k(A: f16[M, K], B: f16[K, N]) -> D: f32[M, N] { D = A @ B", "never closed"),
    ("kernel k(A: f16[M, K, B: f16[K, N]) -> D: f32[M, N] { D = A @ B }", "error"),
    ("kernel k(A: f16[M, K+1], B: f16[K, N]) -> D: f32[M, N] { D = A @ B }", "is not a dim"),
    ("kernel k(A: f16[M, K/0], B: f16[K, N]) -> D: f32[M, N] { D = A @ B }", "divided by zero"),
    ("kernel relu(A: f16[M, K], B: f16[K, N]) -> D: f32[M, N] { D = A @ B; D = A @ B }", "error"),
    ("kernel k(A: f16[M, K], B: f16[K, N], x: f32[P]) -> D: f32[M, N] { D = A @ B + x }", "varies along `P`"),
    ("kernel k(A: f16[M, K], B: f16[K, N], x: f32[K]) -> D: f32[M, N] { D = A @ B + x }", "sums over"),
    // Parts that meet the whole.
    ("x, y = halves(C); D = A @ B + x", "concat(a, b)"),
    ("x, y = pairs(C); D = A @ B * y", "a part of a split"),
    ("z = A @ B; x, y = halves(z); D = where(z > 0, x, y)", "a part of a split"),
    ("z = A @ B; x, y = halves(z); D = fma(z, x, y)", "a part of a split"),
    ("z = A @ B; x, y = halves(z); p, q = halves(x); D = p + y", "a part of a split"),
    ("z = A @ B; x, y = halves(z); D = z / max(x, N/2, 4)", "a part of a split"),
    ("x, y = halves(A @ B); D = x + col", "a part of a split"),
    ("x, y = halves(i32(A @ B)); D = 1.0 * x + C", "a part of a split"),
    ("x, y = halves(A @ B); D = x + bias[N]", "a part of a split"),
    // Splits and merges.
    ("D = halves(A @ B)", "gives two values"),
    ("x, y, z = halves(A @ B); D = x", "names are assigned"),
    ("D, E = relu(A @ B)", "names are assigned"),
    ("D = concat(A @ B, C)", "joins two halves"),
    ("x, y = halves(A @ B); p, q = halves(x); D = concat(x, p)", "joins two halves"),
    ("x, y = halves(s[M]); D = A @ B + x", "has no dim `N`"),
    // Reductions.
    ("s = max(A @ B, 0)", "does not compare two"),
    ("s = sum(A @ B, K)", "has no dim `K`"),
    ("s = sum(A @ B, M, M)", "reduced twice"),
    ("s = mean(A @ B, M, 0)", "1 to 1048576"),
    ("s = mean(A @ B, N, 0)", "1 to 1048576"),
    ("s = sum(A @ B > 0, N)", "bool takes no part"),
    ("D = softmax(A @ B)", "takes 2 arguments"),
    ("D = softmax(A @ B, 0)", "error"),
    ("D = topk_softmax(A @ B, 2.5, N)", "keeps 1 to"),
    ("D = pick(A @ B, x[M])[N]", "only a name"),
    ("d = pick(A @ B, C)", "index of `pick`"),
    // Types and operators.
    ("D = (A @ B > 0) * 2", "bool takes no part"),
    ("D = where(A @ B, 1, 0)", "is not a condition"),
    ("D = A @ B & 1", "is not a condition"),
    ("D = A @ B + row / 2", "i32 / i32"),
    ("D = A @ B + 1e39", "beyond the largest f32"),
    ("D = A @ B + 99999999999999999999", "out of range"),
    ("D = A @ B ** 2", "square"),
    ("D = A @ B ^ 2", "power operator"),
    ("D = 0 < A @ B < 1", "cannot be chained"),
    ("D = A @ B and C", "is not an operator"),
    ("D = A @ B if C else 0", "where"),
    ("D = A @ B; D = C", "assigned twice"),
    ("A = A @ B", "error"),
    ("D += A @ B", "assigned once"),
    ("D == A @ B", "does not assign"),
    ("D = relu", "error"),
    ("D = A @ B + relu", "needs arguments"),
    ("D = relu(A @ B, 1, 2)", "takes 1 argument"),
    ("D = leaky_relu(A @ B, slope=0.1)", "arguments have no names"),
    ("relu(A @ B)", "not assigned to a name"),
    ("D = A @ B + bias", "neither set, bound nor annotated"),
    ("D = (A @ B", "never closed"),
    ("D = A @ B)", "closes nothing"),
    ("D = relu(A @ B]", "does not close"),
    ("D = A @ B // x", "no operator `//`"),
    ("D = A @ B $", "has no meaning"),
    ("D = α * A @ B", "is not a name"),
    ("D = A @ B 'x'", "quotation marks"),
    ("D = 1.2.3 * A @ B", "is not a number"),
    ("D = 0x10 * A @ B", "is not a number"),
    ("D = A @", "expected a value"),
    ("D = @ B", "expected a value"),
    ("D =", "expected a value"),
    ("= A @ B", "error"),
    ("D = A @ B.sum()", "is not known"),
    ("D = A.t @ B", "`.T`"),
    ("D = A @ B[M]", "error"),
    ("let D = A @ B", "has no meaning before"),
    ("D: f32 = A @ B", "declared in the kernel's signature"),
    ("f(x) = A @ B", "cannot be assigned"),
    ("return A @ B", "error"),
];

/// Command lines that are wrong, and words of the error message.
#[rustfmt::skip]
const LINES: &[(&[&str], &str)] = &[
    (&["run"], "<SRC>"),
    (&["run", "D = A @ B"], "sizes of `M`, `K` and `N`"),
    (&["run", "D = A @ B", "--size", "M=2"], "sizes of `K` and `N`"),
    (&["run", "D = A @ B", "--size", "M=1e3,N=2,K=2"], "whole number"),
    (&["run", "D = A @ B", "--size", "M=2.5"], "whole number"),
    (&["run", "D = A @ B", "--size", "M="], "a name, `=` and a value"),
    (&["run", "D = A @ B", "--size", "=2"], "a name, `=` and a value"),
    (&["run", "D = A @ B", "--size", "M:2"], "a name, `=` and a value"),
    (&["run", "D = A @ B", "--size", "m=2,N=2,K=2"], "no dim `m`"),
    (&["run", "D = A @ B", "--size", "M=99999999999999999999"], "whole number"),
    (&["run", "D = a * A @ B", "--set", "a=1e400"], "beyond the largest f32"),
    (&["run", "D = a * A @ B", "--set", "a=0x10"], "is not a number"),
    (&["run", "D = a * A @ B", "--set", "a=1,5"], "is not a number"),
    (&["run", "D = a * A @ B", "--set", "a"], "a name, `=` and a value"),
    (&["run", "D = A @ B", "--set", "a=1", "--size", "M=2,N=2,K=2"], "no input `a`"),
    (&["run", "D = A @ B", "--set", "A=1", "--size", "M=2,N=2,K=2"], "error"),
    (&["run", "D = A @ B", "--in", "A=/nowhere.npy"], "nowhere"),
    (&["run", "D = A @ B", "--in", "A=/dev/null"], "error"),
    (&["run", "D = A @ B", "--fill", "A=gauss"], "normal"),
    (&["run", "D = A @ B", "--only", "E", "--size", "M=2,N=2,K=2"], "no output `E`"),
    (&["run", "D = A @ B", "--out", "E=/tmp/x.npy", "--size", "M=2,N=2,K=2"], "no output `E`"),
    (&["run", "D = A @ B", "--threads", "0"], "0"),
    (&["run", "D = A @ B", "--backend", "tpu"], "cpu"),
    (&["run", "D = A @ B", "--math", "sloppy"], "sloppy"),
    (&["run", "D = A @ B", "--dtype", "float16"], "f16"),
    (&["run", "D = A @ B", "--check=some"], "all"),
    (&["run", "D = A @ B", "--budget", "0", "--backend", "sim"], "0"),
    (&["run", "D = A @ B", "--timing", "soon"], "timing"),
    (&["run", "no_such_kernel"], "no kernel `no_such_kernel`"),
    (&["run", "swigluu"], "swiglu"),
    (&["run", "/nowhere/x.post"], "no such file"),
    (&["run", "s = max(A @ B, N, 3)", "--size", "M=2,N=8,K=2"], "not a multiple of 3"),
    (&["run", "x, y = halves(A @ B); D = x", "--size", "M=2,N=7,K=2"], "not even"),
    (&["run", "D = A @ B", "--schedule", "/nowhere"], "nowhere"),
    (&["emit", "D = A @ W.T"], "sizes of"),
    (
        &["emit", "D = softmax(A @ W.T, N)", "--size", "M=8,N=2048,K=8", "--one-launch"],
        "at most 1024 columns",
    ),
    (
        &["emit", "z = A @ W.T; D = z - mean(z, M)", "--size", "M=8,N=8,K=8", "--one-launch"],
        "two launches",
    ),
    (&["explain", "D = A @ B", "--stage", "nothing"], "schedule"),
    (&["sim", "/nowhere.ptx"], "--launch"),
    (&["show", "no_such_kernel"], "no kernel"),
    (&["corpus", "--backend", "none"], "cpu"),
    (&["fuzz", "--graphs", "0"], "0"),
    (&["completions", "tcsh"], "bash"),
    (&["--no-such-flag"], "--no-such-flag"),
    (&["rn", "D = A @ B"], "unrecognized subcommand"),
];

#[test]
fn bad_kernels_are_told_with_their_place() {
    for (source, words) in SOURCES {
        let errors = postlude(&["check", "--", source]).mistake();
        assert!(errors.starts_with("error: "), "{source}: {errors}");
        assert!(errors.contains(" --> <text>:"), "{source}: {errors}");
        assert!(errors.contains(words), "{source}: {errors}");
    }
}

#[test]
fn bad_command_lines_are_mistakes() {
    for (arguments, words) in LINES {
        let errors = postlude(arguments).mistake();
        assert!(errors.contains("error: ") && errors.contains(words), "{arguments:?}: {errors}");
    }
}

#[test]
fn a_refusal_underlines_its_statement_and_names_the_cure() {
    let sizes = ["--size", "M=64,N=2048,K=64", "--one-launch"];
    for (source, statement) in [
        ("z = A @ W.T; D = softmax(z, N)", "^^^^^^^^^^^^^^^^^"),
        ("z = A @ W.T; D = z - mean(z, M)", "^^^^^^^^^^^^^^^^^^"),
        ("z = A @ W.T; d = max(z, N, 512)", "^^^^^^^^^^^^^^^^^^"),
    ] {
        let errors = postlude(&[&["emit", source][..], &sizes].concat()).mistake();
        assert!(errors.contains("<text>:1:14") && errors.contains(statement), "{errors}");
        assert!(errors.contains("help: "), "{errors}");
    }
}
