//! A table: the problems that are measured, suite by suite.
//!
//! A row is a kernel, its sizes, dtypes and layout, and cuBLASLt's own way to do the same in one call where it has one.

mod drawn;
mod epilogues;
mod operands;
mod row;
mod vocabulary;

use postlude::DType;

use crate::cublaslt::Epilogue;
use crate::layout::Layout;

pub use drawn::SEED;
pub use epilogues::{Fold, Total};
pub use row::{Row, SCALARS, kernel, scalar};

/// The plain product in the usual layout.
pub const PLAIN: &str = "D = A @ W.T";

/// Rows that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Suite {
    /// No rows: what a first call takes, and what a launch takes the host.
    FirstUse,
    /// Plain products, P1 to P8.
    Plain,
    /// Products with a bias, an activation or another tile.
    Fused,
    /// The public suite's fused rows, E1 to E10.
    Epilogues,
    /// P1 in all four layouts.
    Layouts,
    /// P1 to P8 in f16.
    F16,
    /// Products whose rows do not lie at multiples of 16 bytes, beside one whose rows do.
    Unaligned,
    /// Aligned products of random sizes.
    Random,
    /// Large products of language models.
    Large,
    /// What is computed of a vocabulary's logits and folds each row of them.
    Vocabulary,
    /// Products of 8-bit floats, F1 to F5.
    Fp8,
    /// Products of 8-bit integers, I1 to I4 and E11.
    I8,
    /// Products of TF32 operands, T1 to T4.
    Tf32,
    /// Products of few rows, as in decoding: D1 to D12, and the same with a bias and an activation.
    Decode,
}

impl Suite {
    /// All of them, in the order of reports.
    pub const ALL: [Suite; 14] = [
        Suite::FirstUse,
        Suite::Plain,
        Suite::Fused,
        Suite::Epilogues,
        Suite::Layouts,
        Suite::F16,
        Suite::Unaligned,
        Suite::Random,
        Suite::Large,
        Suite::Vocabulary,
        Suite::Fp8,
        Suite::I8,
        Suite::Tf32,
        Suite::Decode,
    ];
    /// What is measured when nobody says what.
    pub const USUAL: [Suite; 3] = [Suite::FirstUse, Suite::Plain, Suite::Fused];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Suite::FirstUse => "first_use",
            Suite::Plain => "plain",
            Suite::Fused => "fused",
            Suite::Epilogues => "epilogues",
            Suite::Layouts => "layouts",
            Suite::F16 => "f16",
            Suite::Unaligned => "unaligned",
            Suite::Random => "random",
            Suite::Large => "large",
            Suite::Vocabulary => "vocabulary",
            Suite::Fp8 => "fp8",
            Suite::I8 => "i8",
            Suite::Tf32 => "tf32",
            Suite::Decode => "decode",
        }
    }

    /// The suite of that name.
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// Its rows, in the order of reports; random ones are drawn from the seed.
    pub fn rows(self, seed: u64) -> Vec<Row> {
        match self {
            Suite::FirstUse => Vec::new(),
            Suite::Plain => plain_rows("", DType::BF16),
            Suite::Fused => FUSED.iter().map(|line| fused_row(*line)).collect(),
            Suite::Epilogues => epilogues::rows(),
            Suite::Layouts => Layout::ALL.map(layout_row).into(),
            Suite::F16 => plain_rows("-f16", DType::F16),
            Suite::Unaligned => UNALIGNED.iter().map(|line| unaligned_row(*line)).collect(),
            Suite::Random => drawn::rows(seed),
            Suite::Large => LARGE.iter().map(|sizes| large_row(*sizes)).collect(),
            Suite::Vocabulary => vocabulary::rows(),
            Suite::Fp8 => operands::fp8(),
            Suite::I8 => operands::i8(),
            Suite::Tf32 => operands::tf32(),
            Suite::Decode => decode_rows(),
        }
        .into_iter()
        .map(|row| Row { suite: self, ..row })
        .collect()
    }
}

/// Names, and M, N and K.
#[rustfmt::skip] // A table: one line a row.
const PRODUCTS: &[(&str, [usize; 3])] = &[
    ("P1", [8192, 8192, 8192]),
    ("P2", [4096, 4096, 4096]),
    ("P3", [2048, 2048, 2048]),
    ("P4", [8192, 14336, 4096]),
    ("P5", [16384, 4096, 4096]),
    ("P6", [8192, 8192, 1024]),
    ("P7", [16384, 16384, 512]),
    ("P8", [4608, 4608, 4608]),
];

/// M, N and K of layers of language models; the first four are compared in all regimes.
#[rustfmt::skip] // A table: one line a row.
const LARGE: &[[usize; 3]] = &[
    [8192, 8192, 8192],
    [4096, 8192, 28672],
    [4096, 12288, 4096],
    [8192, 14336, 4096],
    [8192, 6144, 4096],
    [8192, 4096, 14336],
    [8192, 28672, 8192],
    [8192, 10240, 8192],
    [16384, 5120, 5120],
    [16384, 27648, 5120],
    [4096, 7168, 18432],
    [4096, 36864, 7168],
    [32768, 3072, 768],
    [8192, 128_256, 4096],
];

fn large_row([m, n, k]: [usize; 3]) -> Row {
    Row::plain(format!("L-{m}-{n}-{k}"), [m, n, k], Layout::Tn)
}

/// Rows of A, and N and K of layers that weights are read for.
const DECODE_ROWS: [usize; 4] = [1, 16, 64, 128];
const DECODE_LAYERS: [[usize; 2]; 3] = [[4096, 4096], [14336, 4096], [4096, 14336]];
const BIAS_SILU: &str = "D = silu(A @ W.T + bias[N])";

fn decode_rows() -> Vec<Row> {
    let sizes = DECODE_ROWS.iter().flat_map(|m| DECODE_LAYERS.map(|[n, k]| [*m, n, k]));
    let plain =
        (1..).zip(sizes).map(|(number, sizes)| Row::plain(format!("D{number}"), sizes, Layout::Tn));
    let fused = |row: &Row| Row {
        name: format!("{}-silu", row.name),
        source: BIAS_SILU.to_owned(),
        library: None,
        ..row.clone()
    };
    plain.flat_map(|row| [fused(&row), row]).collect()
}

const BIAS_RELU: &str = "D = relu(A @ W.T + bias[N])";
const BIAS_GELU: &str = "D = gelu_tanh(A @ W.T + bias[N])";
const LINCOMB: &str = "D = relu(alpha * (A @ W.T) + beta * C + bias[N])";

type FusedLine = (&'static str, &'static str, [usize; 3], Epilogue);

/// Names, kernels, M, N and K, and what the library does instead.
#[rustfmt::skip] // A table: one line a row.
const FUSED: &[FusedLine] = &[
    ("bias_relu_1024", BIAS_RELU, [8192, 8192, 1024], Epilogue::BiasRelu),
    ("bias_relu_8192", BIAS_RELU, [8192, 8192, 8192], Epilogue::BiasRelu),
    ("bias_gelu_1024", BIAS_GELU, [8192, 8192, 1024], Epilogue::BiasGelu),
    ("bias_gelu_8192", BIAS_GELU, [8192, 8192, 8192], Epilogue::BiasGelu),
    ("E1_1024", LINCOMB, [8192, 8192, 1024], Epilogue::BiasRelu),
    ("E1_8192", LINCOMB, [8192, 8192, 8192], Epilogue::BiasRelu),
];

type UnalignedLine = (&'static str, [usize; 3], [usize; 3]);

/// Names, M, N and K, and those of the aligned product of ours that runs in the same rounds.
#[rustfmt::skip] // A table: one line a row.
const UNALIGNED: &[UnalignedLine] = &[
    ("P2-k4095", [4096, 4096, 4095], [4096, 4096, 4096]),
    ("P2-k4094", [4096, 4096, 4094], [4096, 4096, 4096]),
    ("P2-n4095", [4096, 4095, 4096], [4096, 4096, 4096]),
];

fn plain_rows(suffix: &str, dtype: DType) -> Vec<Row> {
    let row = |(name, sizes): &(&str, [usize; 3])| {
        Row::product(format!("{name}{suffix}"), *sizes, Layout::Tn, [dtype; 2])
    };
    PRODUCTS.iter().map(row).collect()
}

fn fused_row((name, source, sizes, epilogue): FusedLine) -> Row {
    let plain = Row::plain(name, sizes, Layout::Tn);
    Row { source: source.to_owned(), library: Some(epilogue), ..plain }
}

fn layout_row(layout: Layout) -> Row {
    let (name, sizes) = PRODUCTS[0];
    Row::plain(format!("{name}-{}", layout.name()), sizes, layout)
}

fn unaligned_row((name, sizes, aligned): UnalignedLine) -> Row {
    Row { aligned: Some(aligned), ..Row::plain(name, sizes, Layout::Tn) }
}

#[cfg(test)]
mod tests {
    use postlude::Problem;
    use postlude::target::Chip;

    use super::*;
    use crate::check::Reach;
    use crate::cublaslt::Aux;
    use crate::effort::Effort;
    use crate::measure::refusal;

    fn all() -> Vec<Row> {
        Suite::ALL.iter().flat_map(|suite| suite.rows(SEED)).collect()
    }

    #[test]
    fn every_row_types_and_has_its_sizes_and_scalars() {
        for row in all() {
            let kernel = row.kernel().unwrap();
            Problem::new(kernel.defined(), &row.named_sizes()).unwrap();
            row.plain_kernel().unwrap();
            for input in kernel.defined().inputs().iter().filter(|input| input.dims.is_none()) {
                assert!(scalar(&input.name).is_some(), "{}: {}", row.name, input.name);
            }
        }
    }

    fn planned(row: &Row, kernel: &postlude::Kernel) -> Result<(), String> {
        let problem = Problem::new(kernel.defined(), &row.named_sizes()).unwrap();
        refusal(kernel, &problem, row, Chip::STANDARD).map_or(Ok(()), Err)
    }

    /// Rows in other layouts and unaligned ones may be refused, and say so.
    #[test]
    fn every_aligned_row_in_the_usual_layout_can_be_planned() {
        for row in all() {
            let usual = row.layout == Layout::Tn && row.aligned.is_none();
            let planned = planned(&row, &row.kernel().unwrap());
            assert!(planned.is_ok() || !usual, "{}: {planned:?}", row.name);
        }
    }

    /// What is one number for the whole problem cannot be checked on a sample.
    #[test]
    fn every_total_has_terms_that_can_be_planned() {
        for row in all() {
            let kernel = row.kernel().unwrap();
            let outputs = kernel.defined().outputs().iter();
            let totals: Vec<&str> = outputs
                .filter(|output| Reach::of(kernel.defined(), output.value) == Reach::EVERYTHING)
                .map(|output| output.name.as_str())
                .collect();
            let known: Vec<&str> = row.totals.iter().map(|total| total.output).collect();
            assert_eq!(totals, known, "{}", row.name);
            for total in &row.totals {
                let terms = row.typed(&total.terms).unwrap();
                let [output] = terms.defined().outputs() else { panic!("{}", total.terms) };
                let reach = Reach::of(terms.defined(), output.value);
                assert_eq!((output.dtype, reach), (DType::F32, Reach::ELEMENT), "{}", row.name);
                assert_eq!(planned(&row, &terms), Ok(()), "{}", row.name);
            }
        }
    }

    #[test]
    fn no_two_rows_have_the_same_name() {
        let rows = all();
        let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
    }

    #[test]
    fn the_library_is_asked_for_what_the_row_reads() {
        for row in all() {
            if let Some(library) = row.library {
                assert_eq!(library.reads_bias(), row.reads("bias"), "{}", row.name);
                assert_eq!(library.aux() != Aux::None, row.reads("Z"), "{}", row.name);
            }
            assert_eq!(row.is_plain(), row.library == Some(Epilogue::Plain), "{}", row.name);
        }
        assert!(all().iter().any(|row| row.reads("C")));
    }

    #[test]
    fn suites_are_found_by_their_names_and_rows_know_theirs() {
        for suite in Suite::ALL {
            assert_eq!(Suite::from_name(suite.name()), Some(suite));
            assert!(suite.rows(SEED).iter().all(|row| row.suite == suite));
        }
        assert_eq!(Suite::from_name("no such suite"), None);
    }

    #[test]
    fn only_random_rows_are_brief() {
        let brief = |row: &Row| row.effort == Effort::Brief;
        assert!(all().iter().all(|row| brief(row) == (row.suite == Suite::Random)));
    }
}
