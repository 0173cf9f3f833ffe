//! What Hopper refuses of kernels that may be several launches: nothing but limits of memory and of numbers.
//!
//! Every launch is planned, and none is run.

use std::collections::BTreeMap;
use std::path::Path;

use postlude::target::Chip;
use postlude::tuning::Records;
use postlude::{Compiled, Error, Kernel, MathMode, Options, Problem, Sizes, problem};
use postlude_corpus::fuzz::{Extent, Sort, draw, graph_seed};
use postlude_corpus::{compile, kernels, read_folder};

use crate::docs::refusals;

/// Random kernels that are planned, and how many of these are programs of several products.
const RANDOM: u32 = 300;
const PROGRAMS: u32 = 60;

/// Kernels that promise one launch.
const FUSED: &str = "fused kernel";

/// Words of the refusals that are left: sizes that no launch numbers.
const LIMITS: &[&str] = &["31 bits"];

/// Values of rows that are cut into segments, for `segments(A, ends) @ W.T` of `T`, `E`, `N` and `K`: what each stores.
#[rustfmt::skip]
const OF_SEGMENTS: &[(&str, &str)] = &[
    ("D: bf16[T, N]", "D = rms_norm(z, N, 1e-5)"),
    ("D: bf16[T, N]", "D = layer_norm(z, N, 1e-5)"),
    ("D: bf16[T, N]", "D = softmax(z, N)"),
    ("D: f32[T, N]", "D = softmax(z, T)"),
    ("D: f32[T, N]", "D = topk_softmax(z, 2, N)"),
    ("(v: f32[T, 2], i: i32[T, 2])", "v, i = topk(z, 2, N)"),
    ("s: f32[T]", "s = sum(z, N)"),
    ("s: f32[T]", "s = logsumexp(z, N) - pick(z, t)"),
    ("s: i32[T]", "s = argmax(z, N)"),
    ("(D: f8e4m3[T, N], s: f32[T])", "s = absmax(z, N) / 448.0; D = z / s"),
    ("(D: f8e4m3[T, N], s: f32[E, N])", "s = absmax(z, T) / 448.0; D = z / s"),
    ("(D: f8e4m3[T, N], s: f32[E])", "s = absmax(z, T, N) / 448.0; D = z / s"),
    ("(D: f8e4m3[T, N], s: f32[T, N/32])", "s = absmax(z, N, 32) / 448.0; D = z / s"),
    ("m: f32[E, N]", "m = mean(z, T)"),
    ("m: f32[E]", "m = mean(max(z, N), T)"),
    ("v: f32[E, N]", "v = var(z, T)"),
    ("D: f32[T, N]", "D = z - mean(z, T)"),
    ("D: f32[T, N]", "D = (z - mean(z, T)) * rsqrt(var(z, T) + 1e-5)"),
    ("D: f32[T, N]", "D = z / max(sum(z, N), T)"),
    ("(d: f32[], s: f32[N])", "d = sum(z); s = sum(sum(z, T), E)"),
    ("D: b1[N, T]", "D = z > 0"),
    ("D: b1[T, N]", "D = z > mean(z, N)"),
    ("D: bf16[T, N]", "a, b, c = split(z, 3); D = concat(c, a * b, a)"),
    ("D: bf16[T, N/2]", "a, b = halves(z, 8); D = a * b"),
    ("(v: f32[T, 64], i: i32[T, 64])", "v, i = topk(z, 64, N)"),
    ("(v: f32[E, 64], i: i32[E, 64])", "v, i = topk(mean(z, T), 64, N)"),
    ("(v: f32[T, 9], i: i32[T, 9], s: f32[E])", "v, i = topk(z, 9, N); s = mean(max(z, N), T)"),
];

fn options() -> Options {
    Options { records: Records::Off, ..Options::default() }
}

/// The refusal of a kernel at these sizes, if it is no limit.
fn refused(compiled: &Compiled, problem: &Problem) -> Option<String> {
    let error = compiled.launches(problem, Chip::STANDARD).err()?;
    let summary = error.summary();
    (!LIMITS.iter().any(|limit| summary.contains(limit))).then_some(summary)
}

/// Fails with every kernel that is refused, and where fewer were planned than there are.
fn expect_none(planned: usize, least: usize, refused: &BTreeMap<String, String>) {
    assert!(planned >= least, "{planned} kernels were planned");
    let lines: Vec<String> =
        refused.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    assert!(lines.is_empty(), "{} refused:\n{}", lines.len(), lines.join("\n"));
}

/// The library's kernels at one size of every dim; parts of columns are as many columns together.
#[test]
fn no_kernel_of_the_library_is_refused() {
    let (mut all, mut count) = (BTreeMap::new(), 0);
    for kernel in kernels() {
        let parsed = Kernel::parse(kernel.source).expect("a kernel of the library");
        if kernel.source.contains(FUSED) {
            continue;
        }
        let compiled = parsed.compile(&options());
        let names = problem::dim_names(compiled.defined());
        let is_split = names.contains(&"KV");
        let names = names.into_iter().filter(|dim| *dim != "N" || !is_split);
        let sizes: Sizes = names.map(|dim| (dim.to_owned(), 1024)).collect();
        let problem = compiled.problem(&sizes).expect("sizes of a kernel");
        count += 1;
        all.extend(refused(&compiled, &problem).map(|reason| (kernel.name.to_owned(), reason)));
    }
    expect_none(count, 100, &all);
}

#[test]
fn no_case_of_the_corpus_is_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let (mut all, mut count) = (BTreeMap::new(), 0);
    for case in read_folder(&folder).expect("the corpus") {
        if case.source.contains(FUSED) || case.expects_error() {
            continue;
        }
        let Ok(compiled) = compile(&case, &options()) else { continue };
        let Ok(problem) = compiled.problem(&case.sizes) else { continue };
        count += 1;
        all.extend(refused(&compiled, &problem).map(|reason| (case.name(), reason)));
    }
    expect_none(count, 500, &all);
}

#[test]
fn no_random_kernel_is_refused() {
    let mut all = BTreeMap::new();
    for number in 0..RANDOM + PROGRAMS {
        let sort = if number < RANDOM { Sort::Any } else { Sort::Programs };
        let mut specimen = draw(graph_seed(77, number), Extent::Small, sort);
        specimen.way.math = MathMode::Default;
        let kernel = specimen.kernel().expect("what is drawn types");
        let compiled = kernel.compile(&options());
        let sizes = specimen.named_sizes(&compiled);
        let problem = compiled.problem(&sizes).expect("sizes of a kernel");
        let name = || format!("{}\n{}", specimen.seed, specimen.drawn.text());
        all.extend(refused(&compiled, &problem).map(|reason| (name(), reason)));
    }
    expect_none((RANDOM + PROGRAMS) as usize, 360, &all);
}

#[test]
fn no_value_of_segmented_rows_is_refused() -> Result<(), Error> {
    let mut all = BTreeMap::new();
    for columns in [96, 4608] {
        let sizes = [("T", 96), ("E", 3), ("N", columns), ("K", 64)];
        let sizes: Sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        for (outputs, body) in OF_SEGMENTS {
            let text = format!(
                "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E], t: i32[T]) -> {outputs} \
                 {{ z = segments(A, ends) @ W.T; {body} }}"
            );
            let compiled = Kernel::parse(&text)?.compile(&options());
            let problem = compiled.problem(&sizes)?;
            all.extend(refused(&compiled, &problem).map(|reason| (text, reason)));
        }
    }
    expect_none(OF_SEGMENTS.len(), OF_SEGMENTS.len(), &all);
    Ok(())
}

/// Kernels of very many tensors, values of a list and statements.
#[test]
fn no_kernel_is_refused_for_its_length() -> Result<(), Error> {
    let all = |count: usize, text: &dyn Fn(usize) -> String| -> String {
        (0..count).map(text).collect::<Vec<_>>().concat()
    };
    let tiles = format!(
        "{}) -> D: f32[M, N] {{ D = A @ W.T{} }}",
        all(1100, &|place| format!(", X{place}: f32[M, N]")),
        all(1100, &|place| format!(" + X{place}")),
    );
    let lists = format!(
        ") -> (s: f32[M]{}) {{ z = A @ W.T; s = sum(z, N){} }}",
        all(5, &|place| format!(", v{place}: f32[M, 64], at{place}: i32[M, 64]")),
        all(5, &|place| format!("; v{place}, at{place} = topk(z * {place}.5, 64, N)")),
    );
    let statements = format!(
        ") -> D: f32[M, N] {{ x0 = A @ W.T{}; D = x2000 }}",
        all(2000, &|place| format!("; x{} = gelu(x{place})", place + 1)),
    );
    let sizes: Sizes =
        [("M", 64), ("N", 96), ("K", 64)].map(|(dim, size)| (dim.to_owned(), size)).into();
    let mut refusals = BTreeMap::new();
    for (name, rest) in [("tiles", tiles), ("lists", lists), ("statements", statements)] {
        let text = format!("kernel k(A: f16[M, K], W: f16[N, K]{rest}");
        let compiled = Kernel::parse(&text)?.compile(&options());
        let problem = compiled.problem(&sizes)?;
        refusals.extend(refused(&compiled, &problem).map(|reason| (name.to_owned(), reason)));
    }
    expect_none(3, 3, &refusals);
    Ok(())
}

/// Elements of all rows are not numbered in 32 bits, only rows and columns are.
#[test]
fn no_kernel_of_many_elements_is_refused() -> Result<(), Error> {
    let text = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> (D: bf16[M, N/3], s: f32[]) \
                { a, b, c = split(A @ W.T, 3); D = a * b + c; s = sum(max(b, N/3, 8)) }";
    let sizes = [("M", 131_072), ("N", 98_304), ("K", 64)];
    let sizes: Sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
    let compiled = Kernel::parse(text)?.compile(&options());
    let problem = compiled.problem(&sizes)?;
    compiled.launches(&problem, Chip::STANDARD)?;
    Ok(())
}

/// What the page of refusals lists for one launch runs as several, but for limits.
#[test]
fn what_one_launch_refuses_runs_as_several() {
    let examples = refusals::kernels();
    let mut all = BTreeMap::new();
    for (source, sizes) in &examples {
        let compiled = Kernel::parse(source).expect("an example").compile(&options());
        let problem = compiled.problem(sizes).expect("sizes of an example");
        all.extend(refused(&compiled, &problem).map(|reason| (source.clone(), reason)));
    }
    expect_none(examples.len(), 30, &all);
}
