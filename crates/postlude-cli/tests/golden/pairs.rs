//! The pairs of kernel and problem that are pinned.

use std::path::Path;

use postlude::graph::Graph;
use postlude::shape::Dim;
use postlude::{Bindings, DType, Kernel, Options, Sizes, problem};
use postlude_corpus::{
    Case, EPILOGUES, Epilogue, REDUCTIONS, SPLITS, bind, compile, kernels, read_folder,
};
use postlude_yardstick::suite::{SEED, Suite};

use crate::entry::Entry;

/// Sizes that fill the chip, sizes of a few tiles, and sizes at which rows fit into one tile.
const SIZES: [[usize; 3]; 3] = [[4096, 4096, 4096], [328, 1536, 200], [1000, 128, 512]];
const BATCH: usize = 3;

/// Kernels and sizes that together use every operand load: dtype, source, and M, N, K.
#[rustfmt::skip] // A table: one line a kernel.
const OPERANDS: &[(DType, &str, [usize; 3])] = &[
    (DType::BF16, "D = A @ W.T", [2048, 2048, 2048]),
    (DType::BF16, "D = A @ B", [2048, 2048, 2048]),
    (DType::BF16, "D = A.T @ W.T", [2048, 2048, 2048]),
    (DType::BF16, "D = A.T @ B", [2048, 2048, 2048]),
    (DType::F16, "D = A @ W.T", [2048, 2048, 2048]),
    (DType::F16, "D = A.T @ B", [2048, 2048, 2048]),
    (DType::BF16, "D = A @ W.T", [2048, 2048, 2047]),
    (DType::BF16, "D = A @ B", [2048, 2048, 2047]),
    (DType::BF16, "D = A.T @ W.T", [2048, 2048, 2047]),
    (DType::BF16, "D = A @ B", [2048, 2047, 2048]),
    (DType::BF16, "D = A.T @ W.T", [2047, 2048, 2048]),
    (DType::BF16, "D = A.T @ B", [2047, 2047, 2048]),
    (DType::BF16, "D = A @ W.T", [2047, 2047, 2047]),
    (DType::BF16, "D = A @ W.T + C", [2048, 2047, 2048]),
    (DType::BF16, "D = A @ W.T", [16, 4096, 4096]),
    (DType::BF16, "D = A @ W.T", [4096, 16, 4096]),
    (DType::BF16, "D = A @ W.T", [64, 64, 16384]),
    (DType::BF16, "D = A @ W.T", [1, 1, 1]),
    (DType::BF16, "D = A @ W.T", [257, 4097, 64]),
    (DType::BF16, "D = A @ W.T", [8192, 512, 8192]),
];

/// Every kernel of the library at every size that it takes.
pub(crate) fn library() -> Vec<Entry> {
    let all = kernels().iter().flat_map(|kernel| {
        let compiled = match Kernel::parse(kernel.source) {
            Ok(parsed) => parsed.compile(&Options::default()),
            Err(error) => panic!("{}: {error}", kernel.name),
        };
        SIZES.map(|sizes| {
            let names = problem::dim_names(compiled.defined());
            // The columns of a split are as many as its parts together.
            let is_split = names.contains(&"KV");
            let names = names.into_iter().filter(|dim| *dim != "N" || !is_split);
            let [m, n, k] = sizes;
            let runs = compiled.defined().row_multiples().into_iter().max().unwrap_or(1);
            let sizes = [m.next_multiple_of(runs as usize), n, k];
            // A tensor under two names has as many columns as rows.
            let same = compiled.defined().inputs().iter().any(|input| input.same_as.is_some());
            let sizes = if same { [sizes[0], sizes[0], sizes[2]] } else { sizes };
            let divisor = |dim: &str| divisors(compiled.defined(), dim);
            let sizes = names
                .map(|dim| (dim.to_owned(), size_of(dim, sizes).next_multiple_of(divisor(dim))));
            Entry::packed(kernel.name, &compiled, &sizes.collect())
        })
    });
    all.collect()
}

/// What a size is divided by where a kernel declares it, at most: the divisors of a dim divide one another.
fn divisors(graph: &Graph, dim: &str) -> usize {
    let outputs = graph.outputs().iter().map(|output| &output.dims);
    let dims = graph.inputs().iter().filter_map(|input| input.dims.as_ref()).chain(outputs);
    let own = dims.flatten().filter(|it| it.same_base(&Dim::name(dim)));
    own.map(Dim::divisor).max().unwrap_or(1) as usize
}

fn size_of(dim: &str, [m, n, k]: [usize; 3]) -> usize {
    match dim {
        "M" => m,
        "N" => n,
        "K" => k,
        // Heads of 128 columns.
        "Q" => (n / 2).next_multiple_of(128),
        "KV" => (n / 4).next_multiple_of(128),
        _ => BATCH,
    }
}

/// Every case of the corpus that compiles, at its own sizes and strides.
pub(crate) fn corpus() -> Vec<Entry> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases = read_folder(&folder).expect("the corpus can be read");
    cases.iter().filter(|case| !case.expects_error()).map(case).collect()
}

fn case(case: &Case) -> Entry {
    let compiled = match compile(case, &Options::default()) {
        Ok(compiled) => compiled,
        Err(error) => panic!("{}: {error}", case.name()),
    };
    let bound = bind(case, &compiled, None);
    let (problem, arguments) = bound.unwrap_or_else(|error| panic!("{}: {error}", case.name()));
    Entry::bound(case.name(), &compiled, &problem, &arguments)
}

/// Every row of every suite, random ones included.
pub(crate) fn benchmarks() -> Vec<Entry> {
    let rows = Suite::ALL.into_iter().flat_map(|suite| suite.rows(SEED));
    let entry = |row: postlude_yardstick::suite::Row| {
        let kernel = row.kernel().unwrap_or_else(|error| panic!("{}: {error}", row.name));
        let name = format!("{}/{}", row.suite.name(), row.name);
        Entry::packed(&name, &kernel.compile(&row.options()), &row.named_sizes())
    };
    rows.map(entry).collect()
}

/// Every operand load.
pub(crate) fn operands() -> Vec<Entry> {
    let entry = |(dtype, source, [m, n, k]): &(DType, &str, [usize; 3])| {
        let bindings = Bindings { dtype: *dtype, ..Bindings::default() };
        let kernel = Kernel::infer(source, &bindings);
        let kernel = kernel.unwrap_or_else(|error| panic!("{source}: {error}"));
        let sizes = [("M", *m), ("N", *n), ("K", *k)].map(|(dim, size)| (dim.to_owned(), size));
        let name = format!("{dtype} {source}");
        Entry::packed(&name, &kernel.compile(&Options::default()), &Sizes::from(sizes))
    };
    OPERANDS.iter().map(entry).collect()
}

/// Every epilogue of the simulated tests: loads and stores, each kind of reduction, splits.
pub(crate) fn epilogues() -> Vec<Entry> {
    let all = EPILOGUES.iter().chain(REDUCTIONS).chain(SPLITS);
    all.flat_map(|epilogue| SIZES.map(|sizes| one_epilogue(epilogue, sizes))).collect()
}

fn one_epilogue(epilogue: &Epilogue, sizes: [usize; 3]) -> Entry {
    let kernel = Kernel::parse(&epilogue.source(DType::BF16));
    let kernel = kernel.unwrap_or_else(|error| panic!("{}: {error}", epilogue.name));
    let compiled = kernel.compile(&Options::default());
    let names = problem::dim_names(compiled.defined());
    let sizes = names.into_iter().map(|dim| (dim.to_owned(), size_of(dim, sizes)));
    Entry::packed(epilogue.name, &compiled, &sizes.collect())
}
