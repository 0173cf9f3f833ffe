//! What people write who come from PyTorch, NumPy and Triton, and the words that they are answered with.
//!
//! A table: a text, the place that is underlined, words of the message, words of what to do. Each text has one diagnostic.

use postlude::{Bindings, Kernel};

/// A signature that bodies of the table stand in.
const SIGNATURE: &str = "kernel k(A: bf16[M, K], B: bf16[K, N], x: f32[M, N], z: f32[M, N], g: f32[N], b: f32[N], c: f32[M], t: i32[M], seed: i32, eps: f32) -> D: f32[M, N]";

/// Bodies, which are read inside [`SIGNATURE`].
#[rustfmt::skip] // A table: one line a text.
const BODIES: &[(&str, &str, &str, &str)] = &[
    // Statements.
    ("return relu(A @ B)", "return", "begins no statement", "write `D = relu(A @ B)`"),
    ("for i in range(4):\n  D = A @ B", "for", "begins no statement", "leave the loop out"),
    ("while x:\n  D = A @ B", "while", "begins no statement", "leave the loop out"),
    ("import torch\nD = A @ B", "import", "begins no statement", "functions are known by their names"),
    ("from torch import relu\nD = A @ B", "from", "begins no statement", "functions are known by their names"),
    ("if x > 0:\n  D = A @ B", "if", "does not choose", "where(condition, a, b)"),
    ("D = A @ B\nelse:", "else", "begins no statement", "where(condition, a, b)"),
    ("D = z if x > 0 else A @ B", "if", "does not choose", "write `where(x > 0, z, A @ B)`"),
    ("D = relu(z if x > 0 else 0.0) + A @ B", "if", "does not choose", "write `where(x > 0, z, 0.0)`"),
    ("D = A @ B\nD += z", "+=", "every name is assigned once", "`D_2 = D + z`"),
    ("D = A @ B\nD *= z + x", "*=", "every name is assigned once", "`D_2 = D * (z + x)`"),
    // Operators.
    ("D = A @ B + f32(row % 2)", "row % 2", "no operator `%`", "write `row & 1` of integers"),
    ("D = A @ B + f32(row % 3)", "row % 3", "no operator `%`", "i32(fmod(f32(row), f32(3)))"),
    ("D = A @ B + x % 2.5", "x % 2.5", "no operator `%`", "`fmod(x, 2.5)` of floats"),
    ("D = A @ B + f32(row // 4)", "row // 4", "no operator `//`", "write `row >> 2` of integers"),
    ("D = A @ B + x // 3.0", "x // 3.0", "no operator `//`", "`floor(x / 3.0)` of floats"),
    ("D = A @ B // the product", "//", "does not begin a comment", "comments begin with `#`"),
    ("D = A @ B + z**2", "z**2", "no power operator", "write `square(z)`"),
    ("D = A @ B + z ** 0.5", "z ** 0.5", "no power operator", "write `pow(z, 0.5)`"),
    ("D = where(x > 0 and z > 0, A @ B, 0.0)", "and", "`and` is not an operator", "write `&`"),
    ("D = where(not (x > 0), A @ B, 0.0)", "not", "`not` is not an operator", "write `!`"),
    // Arguments with names, and dims that are counted.
    ("s = max(z, N, keepdim=True)\nD = A @ B + s", "keepdim=True", "arguments have no names", "write `max(z, N)`: results meet other values"),
    ("s = sum(z, dim=-1, keepdim=True)\nD = A @ B + s", "dim=-1, keepdim=True", "arguments have no names", "write `sum(z, N)`"),
    ("s = mean(z, axis=0)\nD = A @ B + s", "axis=0", "arguments have no names", "write `mean(z, M)`"),
    ("D = clamp(A @ B, min=0)", "min=0", "arguments have no names", "write `maximum(A @ B, 0)`"),
    ("D = clamp(A @ B, min=0, max=6)", "min=0, max=6", "arguments have no names", "write `clamp(A @ B, 0, 6)`"),
    ("D = softmax(A @ B, dim=-1)", "dim=-1", "arguments have no names", "write `softmax(A @ B, N)`"),
    ("D = gelu(A @ B, approximate=\"tanh\")", "approximate=\"tanh\"", "arguments have no names", "write `gelu_tanh(A @ B)`"),
    ("D = leaky_relu(A @ B, negative_slope=0.1)", "negative_slope=0.1", "arguments have no names", "write `leaky_relu(A @ B, 0.1)`"),
    ("D = softmax(A @ B, 1)", "1", "dims have names", "write `softmax(A @ B, N)`"),
    ("D = softmax(A @ B, -1)", "-1", "dims have names", "write `softmax(A @ B, N)`"),
    ("D = A @ B + mean(z, -1)", "-1", "dims have names", "write `mean(z, N)`"),
    ("D = A @ B + sum(z, 0)", "0", "dims have names", "write `sum(z, M)`"),
    ("D = A @ B + max(z, 1)", "max(z, 1)", "does not compare two", "write `maximum(z, 1)` to compare, `max(z, N)` to reduce"),
    ("v, i = topk(A @ B, 4, -1)\nD = max(v, 4) + z", "-1", "dims have names", "write `topk(A @ B, 4, N)`"),
    ("D = rms_norm(A @ B, -1, 1e-6)", "-1", "dims have names", "write `rms_norm(A @ B, N, 1e-6)`"),
    // Arguments that are missing.
    ("D = softmax(A @ B)", "softmax(A @ B)", "takes 2 arguments, and 1 is given", "it is `softmax(x, dim)`, as in `softmax(A @ B, N)`"),
    ("D = dropout(A @ B, 0.1)", "dropout(A @ B, 0.1)", "takes 4 arguments, and 2 are given", "it is `dropout(x, p, seed, offset)`, as in `dropout(A @ B, 0.1, seed, 0)`"),
    ("D = layer_norm(A @ B, g, b, eps)", "layer_norm(A @ B, g, b, eps)", "takes 3 arguments, and 4 are given", "it is `layer_norm(x, dim, eps)`, as in `layer_norm(A @ B, N, eps) * g + b`"),
    ("D = clamp(A @ B)", "clamp(A @ B)", "takes 3 arguments", "it is `clamp(x, lo, hi)`"),
    ("D = relu(A @ B, 1)", "relu(A @ B, 1)", "takes 1 argument", "it is `relu(x)`"),
    // Functions of other tools.
    ("D = reshape(A @ B, N)", "reshape", "unknown function `reshape`", "split(z, [Q, KV])"),
    ("D = A @ B * one_hot(t)", "one_hot", "unknown function `one_hot`", "index(N) == t"),
    ("D = conv2d(A, B)", "conv2d", "unknown function `conv2d`", "no convolution"),
    ("D = unsqueeze(A @ B, 0)", "unsqueeze", "unknown function `unsqueeze`", "by the names of their dims"),
    ("D = embedding(t, A)", "embedding", "unknown function `embedding`", "gather(X, index)"),
    ("D = xyzzy(A @ B)", "xyzzy", "unknown function `xyzzy`", "`postlude list functions` shows them all"),
    ("D = tl.dot(A, B)", "tl.dot(A, B)", "`tl.dot(A, B)` is not known: functions belong to no module", "write `A @ B`"),
    ("D = torch.relu(A @ B)", "torch.relu(A @ B)", "functions belong to no module", "write `relu(A @ B)`"),
    ("D = F.gelu(A @ B)", "F.gelu(A @ B)", "functions belong to no module", "write `gelu(A @ B)`"),
    ("D = torch.nn.functional.silu(A @ B)", "torch.nn.functional.silu(A @ B)", "functions belong to no module", "write `silu(A @ B)`"),
    ("D = np.exp(A @ B)", "np.exp(A @ B)", "functions belong to no module", "write `exp(A @ B)`"),
    ("D = A @ B * math.pi", "math.pi", "functions belong to no module", "write `pi`"),
    ("D = torch.softmax(z, dim=-1) + A @ B", "torch.softmax(z, dim=-1)", "functions belong to no module", "write `softmax(z, N)`"),
    // Methods and attributes.
    ("D = A @ B + z.sum(1)", ".sum(1)", "`.sum(1)` is not known: values have no methods", "write `sum(z, N)`"),
    ("D = A @ B + z.mean(-1, keepdim=True)", ".mean(-1, keepdim=True)", "values have no methods", "write `mean(z, N)`"),
    ("D = A @ B + z.to(bf16)", ".to(bf16)", "values have no methods", "write `bf16(z)`"),
    ("D = A @ B + z.to(torch.bfloat16).float()", ".to(torch.bfloat16).float()", "values have no methods", "write `f32(bf16(z))`"),
    ("D = A @ B + z.float()", ".float()", "values have no methods", "write `f32(z)`"),
    ("D = A @ B + z.exp().sqrt()", ".exp().sqrt()", "values have no methods", "write `sqrt(exp(z))`"),
    ("D = A @ B + z.clamp(min=0)", ".clamp(min=0)", "values have no methods", "write `maximum(z, 0)`"),
    ("D = (A @ B).masked_fill(x > 0, -inf)", ".masked_fill(x > 0, -inf)", "values have no methods", "write `where(x > 0, -inf, A @ B)`"),
    ("D = A @ B + z.reshape(2, 3)", ".reshape(2, 3)", "values have no methods", "split(z, [Q, KV])"),
    ("D = A @ B / z.shape[1]", ".shape", "the only one is `.T`", "write `size(N)`"),
    ("D = A @ B + z.max(dim=-1).values", ".max(dim=-1).values", "values have no methods", "write `max(z, N)`"),
    ("D = A @ B + z.t()", ".t()", "values have no methods", "write `z.T`"),
    // Slices.
    ("D = z[:, :64] + A @ B", "[:, :64]", "values are not indexed: `z[:, :64]`", "`a, b = halves(z)`"),
    ("D = z[:, ::2] + A @ B", "[:, ::2]", "values are not indexed", "`even, odd = pairs(z)`"),
    ("D = A @ B + b[None, :]", "[None, :]", "values are not indexed: `b[None, :]`", "write `b`: values meet by the names of their dims, and a vector declared `f32[N]`"),
    ("D = A @ B + c[:, None]", "[:, None]", "values are not indexed", "declared `f32[M]` varies along `M`"),
    ("D = (A @ B)[:, :64]", "[", "only a name can be followed by dims", "assign the value to a name"),
    // Words for values.
    ("D = where(True, A @ B, 0.0)", "True", "`True` is not a value", "col >= 0"),
    ("D = where(x > 0, A @ B, None)", "None", "`None` is not a value", "leave it out"),
    // One mistake is told once.
    ("D = where((index(Q) & 127) < 64, A @ B, 0.0)", "index(Q)", "not along `Q`", ""),
];

/// Whole kernels and one-liners.
#[rustfmt::skip] // A table: one line a text.
const TEXTS: &[(&str, &str, &str, &str)] = &[
    ("kernel k(A: bf16[M, K], B: bf16[K, N], t: i64[M]) -> d: f32[M] { d = pick(A @ B, t) }", "i64", "unknown dtype `i64`", "declare it `i32`: int64 arrays bind to `i32`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N], t: long[M]) -> d: f32[M] { d = pick(A @ B, t) }", "long", "unknown dtype `long`", "declare it `i32`"),
    ("kernel k(A: float64[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B }", "float64", "unknown dtype `float64`", "declare it `f32`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N]) -> (bf16[M, N], f32[]) { D = A @ B; s = sum(D) }", "(bf16[M, N], f32[])", "have names", "write `(D: bf16[M, N], E: f32[])`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N]) -> bf16[M, N] { D = A @ B }", "bf16[M, N]", "have names", "write `D: bf16[M, N]`"),
    ("kernel k(bf16[M, K], bf16[K, N]) -> D: bf16[M, N] { D = A @ B }", "(bf16[M, K], bf16[K, N])", "have names", "write `(A: bf16[M, K], B: bf16[K, N])`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N], b: f32[K]) -> D: bf16[M, N] { D = A @ B + b }", "b", "which `@` sums over", "declare it along [M, N], as in `b: f32[N]`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N], c: f32[M, 64]) -> D: bf16[M, N] { x = A @ B; D = x * c }", "D", "a tile for each element of a list", "declare `c: f32[M, N]`"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N//2]) -> D: bf16[M, N/2] { D = A @ B }", "N//2", "is not a dim", "write `N/2`"),
    ("import torch\nkernel k(A: bf16[M, K], B: bf16[K, N]) -> D: bf16[M, N] { D = A @ B }", "import", "begins no statement", "functions are known"),
    ("kernel k(A: bf16[M, K], B: bf16[K, N]) -> (D: bf16[M, N], s: f32[M]) { z = A @ B\n return z, z }", "return", "begins no statement", "write `D = z; s = z`"),
    ("D = where(True, A @ B, 0)", "True", "`True` is not a value", "col >= 0"),
    ("D = A @ B + b[None, :]", "[None, :]", "values are not indexed", "write `b`"),
    ("D = softmax(A @ W.T, dim=-1)", "dim=-1", "arguments have no names", "write `softmax(A @ W.T, N)`"),
    ("q, k = split(A @ B, [Q, KV]); D = where((index(Q) & 127) < 64, q, 0)", "index(Q)", "not along `Q`", ""),
];

/// What is wrong with the answer to a text.
fn wrong(source: &str, underlined: &str, message: &str, fix: &str) -> Option<String> {
    let Err(error) = Kernel::infer(source, &Bindings::default()) else {
        return Some("it is a kernel".to_owned());
    };
    let [diagnostic] = error.diagnostics() else {
        return Some(format!("several diagnostics: {error}"));
    };
    let place = diagnostic.span().map(|span| &source[span.start as usize..span.end as usize]);
    let is_right = place == Some(underlined)
        && diagnostic.message().contains(message)
        && diagnostic.fix().unwrap_or_default().contains(fix);
    (!is_right).then(|| format!("{place:?} is underlined; {error}"))
}

#[test]
fn habits_from_other_tools_are_answered_with_the_right_text() {
    let bodies = BODIES.iter().map(|(body, place, message, fix)| {
        (format!("{SIGNATURE} {{\n{body}\n}}"), *place, *message, *fix)
    });
    let texts = TEXTS
        .iter()
        .map(|(text, place, message, fix)| ((*text).to_owned(), *place, *message, *fix));
    let mut failed = Vec::new();
    for (source, place, message, fix) in bodies.chain(texts) {
        if let Some(wrong) = wrong(&source, place, message, fix) {
            failed.push(format!("{source}\n  wanted {place:?}, {message:?}, {fix:?}\n  {wrong}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn a_call_that_is_proposed_types() {
    let mut failed = Vec::new();
    for (body, underlined, _, _) in BODIES {
        let source = format!("{SIGNATURE} {{\n{body}\n}}");
        let Err(error) = Kernel::infer(&source, &Bindings::default()) else { continue };
        let diagnostic = &error.diagnostics()[0];
        let (Some(fix), Some(span)) = (diagnostic.fix(), diagnostic.span()) else { continue };
        let proposed = fix.strip_prefix("write `").and_then(|text| text.split('`').next());
        // Calls and operators stand for the whole value of these statements.
        let (Some(proposed), true) = (proposed, body.starts_with("D = ")) else { continue };
        let is_whole = underlined.contains(['(', '%', '*'])
            || diagnostic.message().starts_with("arguments have no names");
        let whole = is_whole && !proposed.contains("condition");
        if !whole || span.start == span.end {
            continue;
        }
        let mended = format!("{SIGNATURE} {{\nD = A @ B + f32({proposed})\n}}");
        if let Err(error) = Kernel::infer(&mended, &Bindings::default()) {
            failed.push(format!("{body}\n  {proposed}\n  {error}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}
