//! Small kernels of any element type, one for each way in which an epilogue reads and writes.
//!
//! They are what tests bind to sizes and data of their own; the kernels for users are those of the library.

use postlude::DType;

/// A kernel whose operands and tiles are of a type yet to be named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epilogue {
    /// What it has beside the product.
    pub name: &'static str,
    /// Its text; `T` is the type.
    pub text: &'static str,
}

impl Epilogue {
    /// Its text with that type.
    ///
    /// ```
    /// use postlude::DType;
    /// let plain = postlude_corpus::find_epilogue("plain").unwrap();
    /// let source = "kernel k(A: f16[M, K], W: f16[N, K]) -> D: f16[M, N] { D = A @ W.T }";
    /// assert_eq!(plain.source(DType::F16), source);
    /// ```
    pub fn source(&self, dtype: DType) -> String {
        self.text.replace("T[", &format!("{dtype}["))
    }
}

const fn epilogue(name: &'static str, text: &'static str) -> Epilogue {
    Epilogue { name, text }
}

/// All of them. Tests draw from this list by seed: another length changes what they draw.
#[rustfmt::skip] // A table: one line a kernel.
pub const EPILOGUES: &[Epilogue] = &[
    epilogue("plain", "kernel k(A: T[M, K], W: T[N, K]) -> D: T[M, N] { D = A @ W.T }"),
    epilogue("wide", "kernel k(A: T[M, K], W: T[N, K]) -> D: f32[M, N] { D = A @ W.T }"),
    epilogue("bias_relu", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> D: T[M, N] { D = relu(A @ W.T + bias) }"),
    epilogue("residual", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: T[M, N] { D = A @ W.T + C }"),
    epilogue("two_outputs", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> (Z: f32[M, N], D: T[M, N]) {\n    Z = A @ W.T + bias\n    D = relu(Z)\n}"),
    epilogue("row_scale", "kernel k(A: T[M, K], W: T[N, K], scale: f32[M]) -> D: T[M, N] { D = (A @ W.T) * scale }"),
    epilogue("batch", "kernel k(A: T[B, M, K], W: T[B, N, K], bias: f32[N]) -> D: T[B, M, N] { D = A @ W.T + bias }"),
    epilogue("shared_weights", "kernel k(A: T[B, M, K], W: T[N, K], C: T[B, M, N]) -> D: T[B, M, N] { D = A @ W.T - C }"),
    epilogue("host_scalars", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N], alpha: f32, beta: f32) -> D: T[M, N] {\n    D = alpha * (A @ W.T) + beta * C\n}"),
    epilogue("memory_scalar", "kernel k(A: T[M, K], W: T[N, K], alpha: f32[]) -> D: f32[M, N] { D = alpha * (A @ W.T) }"),
    epilogue("mask", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> D: T[M, N] { D = where(C > 0.0, A @ W.T, 0.0) }"),
];

/// Those with reductions.
#[rustfmt::skip] // A table: one line a kernel.
pub const REDUCTIONS: &[Epilogue] = &[
    epilogue("reductions", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> (D: T[M, N], rows: f32[M], columns: f32[N], count: f32[], peak: f32[M]) {\n    Z = A @ W.T + bias\n    D = relu(Z)\n    rows = sum(Z, N)\n    columns = max(D, M) + bias\n    count = sum(where(Z > 0.0, 1.0, 0.0))\n    peak = absmax(Z, N)\n}"),
    epilogue("loss", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> (low: f32[N], worst: f32[]) {\n    Z = A @ W.T - C\n    low = min(Z, M)\n    worst = absmax(Z) * 2.0\n}"),
    epilogue("rows_again", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], C: T[M, N]) -> (D: f32[M, N], peak: f32[M], total: f32[]) {\n    Z = A @ W.T + bias + C\n    peak = max(Z, N)\n    D = (Z - peak) * sum(where(Z == peak, 1.0, 0.0), N)\n    total = absmax(D)\n}"),
    epilogue("batch_reductions", "kernel k(A: T[B, M, K], W: T[B, N, K]) -> (rows: f32[B, M], columns: T[B, N]) {\n    Z = A @ W.T\n    rows = sum(Z, N)\n    columns = max(Z, M)\n}"),
    epilogue("further", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], scale: f32[M]) -> (total: f32[], peaks: f32[M], spread: f32[], known: f32[]) {\n    Z = A @ W.T + bias\n    peaks = max(Z, N) + scale\n    total = sum(peaks, M)\n    spread = max(peaks) - min(min(Z, M) - bias) + absmax(Z)\n    known = sum(bias, N) + max(scale, M)\n}"),
    epilogue("further_rows", "kernel k(A: T[M, K], W: T[N, K]) -> total: f32[] {\n    Z = A @ W.T\n    total = sum(max(Z, N) - pick(Z, row - row + 3), M)\n}"),
    epilogue("further_again", "kernel k(A: T[M, K], W: T[N, K]) -> (D: T[M, N], total: f32[], picked: f32[M], low: f32[]) {\n    Z = A @ W.T\n    peak = max(Z, N)\n    D = Z - peak\n    picked = peak - pick(Z, row - row + 5)\n    total = sum(picked, M) * 2.0\n    low = sum(min(Z, M), N) - total\n}"),
    epilogue("batch_further", "kernel k(A: T[B, M, K], W: T[B, N, K]) -> (rows: f32[B, M], total: f32[B]) {\n    Z = A @ W.T\n    rows = max(Z, N)\n    total = sum(rows, M) - sum(min(Z, M), N)\n}"),
    epilogue("all_batches", "kernel k(A: T[B, M, K], W: T[B, N, K], C: T[M, N]) -> (D: T[B, M, N], loss: f32[], columns: f32[N], rows: f32[M], own: f32[B], once: f32[N]) {\n    Z = A @ W.T\n    D = relu(Z + C)\n    loss = sum(Z)\n    columns = max(Z, B, M) + sum(C, M)\n    rows = absmax(Z, B, N)\n    own = min(Z, M, N)\n    once = sum(C, M) * 2.0\n}"),
    epilogue("all_batches_further", "kernel k(A: T[B, M, K], W: T[B, N, K], bias: f32[N], scale: f32[B, M]) -> (total: f32[], rows: f32[M], columns: f32[N], own: f32[B], peak: f32[], twice: f32[N]) {\n    Z = A @ W.T\n    rows = sum(max(Z, N), B) + max(scale, B)\n    columns = max(min(Z, M) + bias, B)\n    own = sum(Z, M, N)\n    total = sum(own) + sum(max(Z, B, M)) + sum(bias) - sum(scale)\n    peak = max(min(Z, N)) - sum(rows)\n    twice = bias * 2.0\n}"),
    epilogue("integers", "kernel k(A: T[B, M, K], W: T[B, N, K], n: i32[N]) -> (rows: i32[B, M], columns: i32[N], total: i32[B], most: f32[], runs: i32[B, N/8]) {\n    Z = A @ W.T\n    z = i32(Z)\n    rows = sum(z, N) - 1\n    columns = max(z, B, M) - n\n    total = sum(z * n - 1, M, N)\n    most = f32(max(rows)) - sum(Z)\n    runs = sum(min(z, N, 8), M)\n}"),
    epilogue("groups", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N], bias: f32[N]) -> (D: f32[M, N], peaks: f32[M, N/32], rows: f32[M]) {\n    Z = A @ W.T + C + bias\n    peaks = max(Z, N, 32) * 2.0\n    D = Z - peaks\n    rows = sum(peaks, N/32)\n}"),
    epilogue("small_groups", "kernel k(A: T[M, K], W: T[N, K], s: f32[M, N/4], t: f32[N/8]) -> (D: T[M, N], two: f32[M, N/2], four: i32[M, N/4], eight: T[M, N/8], top: f32[]) {\n    Z = A @ W.T\n    two = sum(Z, N, 2)\n    four = i32(max(Z - two, N, 4) + s)\n    eight = min(Z + s, N, 8) - t\n    D = Z * s - eight\n    top = max(eight)\n}"),
    epilogue("groups_again", "kernel k(A: T[B, M, K], W: T[B, N, K]) -> (D: f32[B, M, N], low: f32[B, M, N/16]) {\n    Z = A @ W.T\n    low = min(Z - max(Z, N), N, 16)\n    D = Z - sum(low, N/16)\n}"),
    epilogue("top", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> (D: f32[M, N], total: f32[M]) {\n    D = where(topk_softmax(0.125 * (A @ W.T + C), 3, N) > 0.0, 1.0, 0.0)\n    total = sum(D, N)\n}"),
];

/// Those that split columns.
#[rustfmt::skip] // A table: one line a kernel.
pub const SPLITS: &[Epilogue] = &[
    epilogue("halves", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N]) -> (D: T[M, N/2], Z: T[M, N], columns: f32[N/2], peak: f32[M]) {\n    Z = A @ W.T + bias\n    gate, up = halves(Z)\n    D = relu(gate) - up\n    columns = max(D, M)\n    peak = absmax(Z, N)\n}"),
    epilogue("pairs", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N/2], scale: f32[N]) -> D: f32[M, N/2] {\n    even, odd = pairs(A @ W.T * scale)\n    D = where(C > 0.0, even, odd)\n}"),
    epilogue("backward", "kernel k(A: T[B, M, K], W: T[N/2, K], C: T[B, M, N]) -> (D: T[B, M, N], total: f32[B, N]) {\n    dy = A @ W.T\n    gate, up = halves(C)\n    D = concat(dy * grad(relu)(gate), dy - up)\n    total = sum(D, M)\n}"),
    epilogue("rotary", "kernel k(A: T[M, K], W: T[N, K], cosine: T[M, N/2], sine: T[M, N/2]) -> D: f32[M, N] {\n    x, y = pairs(A @ W.T)\n    D = join(x * cosine - y * sine, x * sine + y * cosine)\n}"),
    epilogue("reordered", "kernel k(A: T[M, K], W: T[N, K], scale: f32[N]) -> D: T[N, M] {\n    even, odd = pairs(where(col < 37, 0.0, A @ W.T))\n    D = concat(odd, even) + scale\n}"),
];

/// Epilogues that split a part of the columns again; the number of columns is a multiple of 8.
#[rustfmt::skip] // A table: one line a kernel.
pub const NESTED: &[Epilogue] = &[
    epilogue("quarters", "kernel k(A: T[M, K], W: T[N, K], bias: f32[N], C: T[M, N/4]) -> (D: f32[M, N/4], E: T[M, N/4], Z: T[M, N]) {\n    Z = A @ W.T + bias\n    a, b = halves(Z)\n    i, f = halves(a)\n    g, o = halves(b)\n    D = relu(f) * C + i - g\n    E = o - D\n}"),
    epilogue("unused", "kernel k(A: T[M, K], W: T[N, K]) -> (D: T[M, N/2], E: f32[M, N/4], rows: f32[M]) {\n    a, b = halves(A @ W.T)\n    c, d = halves(a)\n    D = b\n    E = d\n    rows = max(b, N/2)\n}"),
    epilogue("mixed", "kernel k(A: T[B, M, K], W: T[B, N, K], x: f32[N/2]) -> (D: T[B, M, N/2], E: f32[B, M, N], columns: f32[B, N/4]) {\n    a, b = halves(A @ W.T)\n    c, d = pairs(a + x)\n    e, f = halves(b)\n    D = join(c - e, d + f)\n    E = concat(join(f, c), concat(d, e))\n    columns = max(c, M)\n}"),
    epilogue("both_ways", "kernel k(A: T[M, K], W: T[N, K]) -> (D: f32[M, N/2], total: f32[]) {\n    z = A @ W.T\n    a, b = halves(z)\n    c, d = pairs(z)\n    D = a - b + c - d\n    total = sum(z)\n}"),
    epilogue("vectors", "kernel k(A: T[M, K], W: T[N, K], h: f32[N/2], x: f32[N]) -> (D: T[M, N], o: f32[N/4], p: T[N/2], q: f32[N/8], s: f32[]) {\n    D = A @ W.T + x\n    a, o = pairs(h)\n    p = h\n    b, c = halves(x)\n    d, e = pairs(c)\n    q, r = halves(e + o)\n    s = max(join(d, a))\n}"),
    epilogue("eighths", "kernel k(A: T[M, K], W: T[N, K], C: T[M, N]) -> (D: T[M, N/8], s: f32[M, N/4]) {\n    a, b = pairs(A @ W.T + C)\n    c, d = halves(a)\n    e, f = pairs(c)\n    D = f - e\n    s = max(b, N/2, 2)\n}"),
];

/// The kernel of that name.
pub fn find_epilogue(name: &str) -> Option<&'static Epilogue> {
    let all = EPILOGUES.iter().chain(REDUCTIONS).chain(SPLITS).chain(NESTED);
    all.into_iter().find(|epilogue| epilogue.name == name)
}
