//! One problem. By the names that the sources use, A is the left operand, W or B the right one, C is `[M, N]`, bias `[N]`.

use std::collections::BTreeMap;

use postlude::{Bindings, Bound, DType, Kernel, Sizes};

use crate::cublaslt::Epilogue;
use crate::effort::Effort;
use crate::error::YardstickError;
use crate::layout::Layout;
use crate::suite::{Suite, Total};

/// What the host passes for scalars of these names.
pub const SCALARS: &[(&str, f32)] = &[("alpha", 0.5), ("beta", 0.25), ("s", 0.125), ("scale", 0.5)];

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
    /// The dtype of tiles.
    pub dtype: DType,
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
}

impl Row {
    /// The product alone, in bf16.
    pub fn plain(name: impl Into<String>, sizes: [usize; 3], layout: Layout) -> Row {
        Row {
            suite: Suite::Plain,
            name: name.into(),
            source: plain_source(layout),
            sizes,
            dtype: DType::BF16,
            layout,
            library: Some(Epilogue::Plain),
            aligned: None,
            totals: Vec::new(),
            effort: Effort::Full,
        }
    }

    /// Whether it is the product alone.
    pub fn is_plain(&self) -> bool {
        self.source == plain_source(self.layout)
    }

    /// The typed kernel.
    pub fn kernel(&self) -> Result<Kernel, YardstickError> {
        self.typed(&self.source)
    }

    /// The plain product of the same dtype and layout.
    pub fn plain_kernel(&self) -> Result<Kernel, YardstickError> {
        self.typed(&plain_source(self.layout))
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

fn plain_source(layout: Layout) -> String {
    format!("D = {}", layout.product())
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
