//! One problem. By the names that the sources use, A is the left operand, W or B the right one, C is `[M, N]`, bias `[N]`.

use std::collections::BTreeMap;
use std::time::Duration;

use postlude::tuning::Records;
use postlude::{Bindings, Bound, DType, Kernel, MathMode, Options, Sizes};

use crate::cublaslt::Epilogue;
use crate::effort::Effort;
use crate::error::YardstickError;
use crate::layout::{Contraction, Layout};
use crate::suite::{Suite, Total};

/// What the host passes for scalars of these names.
pub const SCALARS: &[(&str, f32)] =
    &[("alpha", 0.5), ("beta", 0.25), ("s", 0.125), ("scale", 0.5), ("sa", 0.125), ("sw", 0.125)];
/// Scalars that dequantise the operands: the product is multiplied by all of them.
const OPERAND_SCALES: [&str; 2] = ["sa", "sw"];

/// One problem.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What it belongs to.
    pub suite: Suite,
    /// What it is called, alone and in filters.
    pub name: String,
    /// The kernel, with or without a signature.
    pub source: String,
    /// M, N and K.
    pub sizes: [usize; 3],
    /// The dtype of the operands.
    pub dtype: DType,
    /// The dtype of the plain product, and of tiles beside it.
    pub result: DType,
    /// What is asked of functions, and of sums of 8-bit floats.
    pub math: MathMode,
    /// How the operands lie.
    pub layout: Layout,
    /// The epilogue of cuBLASLt that does the same; [`Epilogue::Plain`] for plain rows.
    pub library: Option<Epilogue>,
    /// M, N and K of another product of ours that runs in the same rounds.
    pub aligned: Option<[usize; 3]>,
    /// Its results that are one number for the whole problem.
    pub totals: Vec<Total>,
    /// How long it is measured.
    pub effort: Effort,
    /// Schedules that were measured before; the shipped ones are the same on every machine.
    pub records: Records,
    /// How long its kernel is tuned before it is measured, where it is; the records keep what tuning finds.
    pub tuning: Option<Duration>,
}

impl Row {
    /// The product alone, in bf16.
    pub fn plain(name: impl Into<String>, sizes: [usize; 3], layout: Layout) -> Row {
        Row::product(name, sizes, layout, [DType::BF16; 2])
    }

    /// The product alone, of these operands and with this result.
    pub fn product(
        name: impl Into<String>,
        sizes: [usize; 3],
        layout: Layout,
        [dtype, result]: [DType; 2],
    ) -> Row {
        Row {
            suite: Suite::Plain,
            name: name.into(),
            source: plain_source(layout, [dtype, result]),
            sizes,
            dtype,
            result,
            math: MathMode::Default,
            layout,
            library: Some(Epilogue::Plain),
            aligned: None,
            totals: Vec::new(),
            effort: Effort::Full,
            records: Records::Shipped,
            tuning: None,
        }
    }

    /// Whether it is the product alone.
    pub fn is_plain(&self) -> bool {
        self.source == self.plain_source()
    }

    /// The typed kernel.
    pub fn kernel(&self) -> Result<Kernel, YardstickError> {
        self.typed(&self.source)
    }

    /// The plain product of the same dtypes and layout.
    pub fn plain_kernel(&self) -> Result<Kernel, YardstickError> {
        self.typed(&self.plain_source())
    }

    fn plain_source(&self) -> String {
        plain_source(self.layout, [self.dtype, self.result])
    }

    /// How its kernels are compiled.
    pub fn options(&self) -> Options {
        Options { math: self.math, records: self.records.clone(), ..Options::default() }
    }

    /// What its operands' scales multiply the product by.
    pub fn operand_scale(&self) -> f64 {
        let scales = OPERAND_SCALES.into_iter().filter(|name| self.reads(name)).filter_map(scalar);
        scales.map(f64::from).product()
    }

    /// A kernel of the row's dtype.
    pub(crate) fn typed(&self, source: &str) -> Result<Kernel, YardstickError> {
        kernel(source, self.dtype)
            .map_err(|error| YardstickError::Kernel { row: self.name.clone(), error })
    }

    /// Its sizes by name.
    pub fn named_sizes(&self) -> Sizes {
        let [m, n, k] = self.sizes;
        [("M", m), ("N", n), ("K", k)].map(|(name, size)| (name.to_owned(), size)).into()
    }

    /// Floating-point operations of the product.
    pub fn operations(&self) -> f64 {
        2.0 * self.sizes.map(|size| size as f64).iter().product::<f64>()
    }

    /// Whether the source reads an input of that name.
    pub fn reads(&self, name: &str) -> bool {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        self.source.split(|character| !is_word(character)).any(|word| word == name)
    }
}

/// The product alone; a one-liner where all tensors have the same dtype.
fn plain_source(layout: Layout, [operands, result]: [DType; 2]) -> String {
    let product = layout.product();
    if operands == result {
        return format!("D = {product}");
    }
    let left = match layout.left() {
        Contraction::Last => "M, K",
        Contraction::First => "K, M",
    };
    let (name, right) = match layout.right() {
        Contraction::Last => ("W", "N, K"),
        Contraction::First => ("B", "K, N"),
    };
    format!(
        "kernel k(A: {operands}[{left}], {name}: {operands}[{right}]) -> D: {result}[M, N] {{ D = {product} }}"
    )
}

/// A kernel or a one-liner, typed.
pub fn kernel(source: &str, dtype: DType) -> Result<Kernel, postlude::Error> {
    let scalars = SCALARS.iter().map(|(name, _)| ((*name).to_owned(), Bound::Scalar(DType::F32)));
    Kernel::infer(source, &Bindings { names: scalars.collect::<BTreeMap<_, _>>(), dtype })
}

/// What the host passes for a scalar.
pub fn scalar(name: &str) -> Option<f32> {
    SCALARS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
