//! Tables: what each backend refuses, with an example that is refused so, and the cure.

use postlude::placement::Placements;
use postlude::plan::Refusal;
use postlude::target::{Chip, Planned, TargetRefusal};
use postlude::{Compiled, Error, Kernel, Options, Problem, Sizes};

/// One line of a table of refusals.
pub(crate) struct Refused {
    pub(crate) cause: String,
    pub(crate) message: String,
    pub(crate) fix: String,
}

/// A signature for bodies alone.
const SIGNATURE: &str =
    "kernel k(A: f16[M, K], W: f16[N, K], x: f32[N], t: i32[M], keep: b1[M, N])";
/// Sizes where an example does not ask for others.
const SIZES: &[(&str, usize)] = &[("M", 64), ("N", 64), ("K", 64), ("L", 2)];

/// What a body stores, the body, what differs in the sizes, and words of the refusal.
type Body = (&'static str, &'static str, &'static [(&'static str, usize)], &'static str);

#[rustfmt::skip]
const BODIES: &[Body] = &[
    ("t1: f32[M]", "s = sum(A @ W.T, N); t1 = s - max(s, M)", &[], "varies along other dims"),
    ("D: f32[M, N]", "z = A @ W.T; D = z - mean(z, M)", &[], "varies along other dims"),
    ("D: f32[M, N]", "D = sum(A @ W.T, M)", &[], "repeated in every element"),
    ("(D: f32[M, N], d: f32[M])", "z = A @ W.T; D = softmax(z, N); d = max(z, N) + sum(z)", &[], "beside one of its own row"),
    ("(v: f32[M, 9], i: i32[M, 9])", "v, i = topk(A @ W.T, 9, N)", &[], "8 largest values of a row with their indices"),
    ("d: f32[M]", "z = A @ W.T; d = pick(z, i32(max(z, N)))", &[], "the index and the values of `pick`"),
    ("d: f32[N]", "d = x * sum(max(A @ W.T, N, 8), M)", &[], "other columns"),
    ("d: b1[M]", "d = max(A @ W.T, N) > 0", &[], "only bits of tiles are packed"),
    ("(D: f32[M, N/2], s: f32[M, N/8])", "a, b = halves(A @ W.T); D = a * b; s = max(concat(b, a), N, 8)", &[("N", 24)], "a multiple of both"),
    ("D: f32[M, N/2]", "a, b = halves(col); c, d = halves(A @ W.T); D = where(a < 9, c, d)", &[("N", 1 << 26), ("M", 1)], "2^25 columns"),
    ("(D: f32[M, N/2], s: f32[M])", "z = A @ W.T; a, b = halves(z); D = a * b; s = logsumexp(z, N)", &[], "does not combine from its parts"),
    ("(D: f32[M, N/2], s: f32[M])", "z = A @ W.T; a, b = halves(z); D = a * b; s = pick(z, t)", &[], "`pick` of all columns"),
    ("D: f32[M, N/2]", "p, q = halves(keep); a, b = halves(A @ W.T); D = where(p, a, b)", &[], "packed elements"),
    ("D: f32[M, N/16]", "a, b = halves(A @ W.T); c, d = halves(a); e, f = halves(c); g, h = halves(e); D = g * h", &[], "more than three splits deep"),
    ("D: f32[M, N/3]", "a, b, c = split(A @ W.T, 3); D = a * b + c", &[("N", 48)], "lie in different tiles"),
    ("D: f32[M, N/2]", "a, b = halves(A @ W.T, 8); D = a * b", &[], "put together again in tiles"),
    ("s: f32[M]", "a, b, c = split(A @ W.T, 3); s = sum(max(a, N/3, 8), N/24)", &[("N", 48)], "each run of a part's columns"),
    ("s: i32[]", "a, b, c = split(A @ W.T, 3); s = argmax(c)", &[("N", 48)], "counted within a part"),
    ("s: f32[M, N/16]", "a, b = pairs(max(A @ W.T, N, 8)); s = a * b", &[], "are no slices"),
    ("D: f32[M, N]", "D = softmax(A @ W.T, N)", &[("N", 2048)], "at most 1024 columns"),
    ("s: f32[M, N/3]", "s = max(A @ W.T, N, 3)", &[("N", 24)], "groups of 2, 4 or a multiple of 8"),
    ("s: f32[M, N/512]", "s = max(A @ W.T, N, 512)", &[("N", 1024)], "divide a tile"),
    ("s: f32[M/512, N]", "s = max(A @ W.T, M, 512)", &[("M", 1024)], "64, 128, 192 or 256 rows"),
    ("s: f32[M/8]", "s = max(A @ W.T, M, 8, N)", &[], "alone or with runs of columns"),
    ("D: f32[M, N]", "z = A @ W.T; D = softmax(z / absmax(z, M, 8), N)", &[], "after its rows"),
    ("D: f32[M, N]", "D = A @ W.T", &[("M", 1 << 33)], "31 bits"),
];

/// A kernel's text, the sizes of its problem, and what the table says of it.
type Example = (&'static str, &'static [(&'static str, usize)], &'static str);

/// Whole kernels.
#[rustfmt::skip]
const KERNELS: &[Example] = &[
    ("kernel k(A: f16[L, M, K], W: f16[N, K]) -> D: f32[M, N] { D = sum(A @ W.T, L) }", &[], "the batch alone"),
    ("kernel k(A: f16[L, M, K], W: f16[N, K]) -> s: f32[M] { s = sum(A @ W.T, L, N) }", &[("L", 0)], "size 0"),
    ("kernel k(A: f16[M, K], W: f16[L, N, K], ends: i32[L]) -> b: f32[L, N] { b = mean(segments(A, ends) @ W.T, M) }", &[], "rows of segments"),
    ("kernel k(A: f16[L, M, K], W: f16[N/2, K], C: f32[M, N/2]) -> s: f32[N] { s = max(concat(A @ W.T, C), L, M) }", &[], "share a part"),
    ("kernel k(A: f16[M, K], W: f16[N, K]) -> d: f32[M, R/8] { a, b, c = split(A @ W.T, [Q, R, P]); d = max(b, R, 8) }", &[("N", 32), ("Q", 12), ("R", 16), ("P", 4)], "begins inside of a run"),
    ("kernel k(A: f16[32, K], W: f16[64, K]) -> s: f32[] { a, b = halves(A @ W.T); s = sum(a * b) }", &[], "by a fixed size"),
    ("kernel k(A: f16[L, M, K], W: f16[N, K]) -> D: b1[M, N, L] { D = A @ W.T > 0 }", &[("L", 8)], "batches last"),
    ("kernel k(A: f16[L, M, K], W: f16[N, K]) -> d: f32[L, M] { d = max(A @ W.T, L, N) }", &[], "is neither"),
];

/// An example's sizes of the dims that its kernel has.
fn sizes_of(kernel: &Kernel, sizes: &[(&str, usize)]) -> Sizes {
    let all = SIZES.iter().chain(sizes).map(|(dim, size)| ((*dim).to_owned(), *size));
    let mut all: Sizes = all.collect();
    let names = postlude::problem::dim_names(kernel.defined());
    all.retain(|dim, _| names.contains(&dim.as_str()));
    all
}

/// The refusal of a kernel on Hopper, at sizes that are changed as the example wants.
fn refusal(source: &str, sizes: &[(&str, usize)]) -> Result<Error, String> {
    let kernel = Kernel::parse(source).map_err(|error| error.to_string())?;
    let compiled = kernel.compile(&Options::default());
    let all = sizes_of(&kernel, sizes);
    let problem = Problem::new(compiled.defined(), &all).map_err(|error| error.to_string())?;
    planned(&compiled, &problem).err().ok_or_else(|| "it is planned".to_owned())
}

/// Every example as a kernel, and its sizes.
pub(crate) fn kernels() -> Vec<(String, Sizes)> {
    let bodies =
        BODIES.iter().map(|(stored, body, sizes, _)| (with_signature(stored, body), *sizes));
    let kernels = KERNELS.iter().map(|(source, sizes, _)| ((*source).to_owned(), *sizes));
    let sized = |(source, sizes): (String, &[(&str, usize)])| {
        let kernel = Kernel::parse(&source).expect("an example");
        let sizes = sizes_of(&kernel, sizes);
        (source, sizes)
    };
    bodies.chain(kernels).map(sized).collect()
}

/// A body as a kernel: inputs that it does not read are left out, as a user would.
fn with_signature(stored: &str, body: &str) -> String {
    let mut signature = SIGNATURE.to_owned();
    for input in ["x: f32[N]", "t: i32[M]", "keep: b1[M, N]"] {
        let name = input.split(':').next().unwrap_or_default();
        let words: Vec<&str> = body.split(|c: char| !c.is_alphanumeric()).collect();
        if !words.contains(&name) {
            signature = signature.replace(&format!(", {input}"), "");
        }
    }
    format!("{signature} -> {stored} {{ {body} }}")
}

fn planned(compiled: &Compiled, problem: &Problem) -> Result<Planned, Error> {
    let placements = Placements::packed(compiled.optimised(), problem);
    Ok(compiled.planning(problem, &placements, Chip::STANDARD)?.best()?)
}

fn example(cause: String, found: Result<Error, String>, words: &str) -> Result<Refused, String> {
    let error = found.map_err(|why| format!("{cause}: {why}"))?;
    let first = &error.diagnostics()[0];
    let (message, fix) = (first.message(), first.fix().unwrap_or_default());
    if message.contains(words) && !fix.is_empty() {
        Ok(Refused { cause, message, fix })
    } else {
        Err(format!("{cause}: {message}, not {words}"))
    }
}

fn at(sizes: &[(&str, usize)]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|(dim, size)| format!("{dim}={size}")).collect();
    if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(",")) }
}

/// Bodies that no Hopper kernel computes.
pub(crate) fn body_rows() -> Vec<Refused> {
    let mut rows = Vec::new();
    for (stored, body, sizes, words) in BODIES {
        let cause = format!("`{body}`{}", at(sizes));
        rows.push(example(cause, refusal(&with_signature(stored, body), sizes), words));
    }
    for (source, sizes, words) in KERNELS {
        let cause = format!("`{source}`{}", at(sizes));
        rows.push(example(cause, refusal(source, sizes), words));
    }
    let all = |text: fn(usize) -> String| (0..1100).map(text).collect::<Vec<_>>().concat();
    let inputs = all(|place| format!(", x{place}: f32[M, N]"));
    let sum = all(|place| format!(" + x{place}"));
    let source = format!(
        "kernel k(A: f16[M, K], W: f16[N, K]{inputs}) -> D: f32[M, N] {{ D = A @ W.T{sum} }}"
    );
    rows.push(example("1100 tiles".to_owned(), refusal(&source, &[]), "parameters of a launch"));
    let (good, bad): (Vec<_>, Vec<_>) = rows.into_iter().partition(Result::is_ok);
    let bad: Vec<String> = bad.into_iter().filter_map(Result::err).collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
    good.into_iter().filter_map(Result::ok).collect()
}

fn shown(cause: &str, refusal: TargetRefusal) -> Refused {
    let error = Error::from(refusal);
    let first = &error.diagnostics()[0];
    let fix = first.fix().unwrap_or_default();
    assert!(!fix.is_empty(), "{cause}");
    Refused { cause: cause.to_owned(), message: first.message(), fix }
}

/// Refusals of schedules and tiles.
pub(crate) fn schedule_rows() -> Vec<Refused> {
    let all = TargetRefusal::examples().into_iter();
    all.map(|(cause, refusal)| shown(cause, refusal)).collect()
}

/// Refusals of the CPU.
pub(crate) fn cpu_rows() -> Vec<Refused> {
    let memory = Refusal::Memory { what: "retained accumulators", need: 1 << 50, have: 1 << 40 };
    let all = [
        ("sizes that no memory holds", memory),
        ("`--threads 1024`", Refusal::Threads { threads: 1024 }),
    ];
    let row = |(cause, refusal): (&str, Refusal)| Refused {
        cause: cause.to_owned(),
        message: refusal.to_string(),
        fix: refusal.fix().unwrap_or_default(),
    };
    all.into_iter().map(row).collect()
}
