//! A table: the problems that are measured.
//!
//! A row is a kernel, its sizes and dtype, and cuBLASLt's own way to do the same in one call where it has one. By the
//! names that the sources use, A is `[M, K]`, W `[N, K]`, C `[M, N]` and bias `[N]`.

use std::collections::BTreeMap;

use postlude::{Bindings, Bound, DType, Kernel, Sizes};

use crate::cublaslt::Epilogue;
use crate::error::YardstickError;

/// One problem.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// What it is called, alone and in filters.
    pub name: &'static str,
    /// The kernel, a one-liner.
    pub source: &'static str,
    /// M, N and K.
    pub sizes: [usize; 3],
    /// The dtype of tiles.
    pub dtype: DType,
    /// The epilogue of cuBLASLt that does the same; [`Epilogue::Plain`] for plain rows.
    pub library: Option<Epilogue>,
}

/// The plain product.
pub const PLAIN: &str = "D = A @ W.T";
const BIAS_RELU: &str = "D = relu(A @ W.T + bias[N])";
const BIAS_GELU: &str = "D = gelu_tanh(A @ W.T + bias[N])";
const LINCOMB: &str = "D = relu(alpha * (A @ W.T) + beta * C + bias[N])";

/// What the host passes for scalars of these names.
pub const SCALARS: &[(&str, f32)] = &[("alpha", 0.5), ("beta", 0.25)];

const BF16: DType = DType::BF16;

const fn row(
    name: &'static str,
    source: &'static str,
    sizes: [usize; 3],
    dtype: DType,
    library: Option<Epilogue>,
) -> Row {
    Row { name, source, sizes, dtype, library }
}

/// Every row, in the order of reports.
#[rustfmt::skip] // A table: one line a row.
pub const ROWS: &[Row] = &[
    row("P1", PLAIN, [8192, 8192, 8192], BF16, Some(Epilogue::Plain)),
    row("P2", PLAIN, [4096, 4096, 4096], BF16, Some(Epilogue::Plain)),
    row("P3", PLAIN, [2048, 2048, 2048], BF16, Some(Epilogue::Plain)),
    row("P4", PLAIN, [8192, 14336, 4096], BF16, Some(Epilogue::Plain)),
    row("P5", PLAIN, [16384, 4096, 4096], BF16, Some(Epilogue::Plain)),
    row("P6", PLAIN, [8192, 8192, 1024], BF16, Some(Epilogue::Plain)),
    row("P7", PLAIN, [16384, 16384, 512], BF16, Some(Epilogue::Plain)),
    row("P8", PLAIN, [4608, 4608, 4608], BF16, Some(Epilogue::Plain)),
    row("bias_relu_1024", BIAS_RELU, [8192, 8192, 1024], BF16, Some(Epilogue::BiasRelu)),
    row("bias_relu_8192", BIAS_RELU, [8192, 8192, 8192], BF16, Some(Epilogue::BiasRelu)),
    row("bias_gelu_1024", BIAS_GELU, [8192, 8192, 1024], BF16, Some(Epilogue::BiasGelu)),
    row("bias_gelu_8192", BIAS_GELU, [8192, 8192, 8192], BF16, Some(Epilogue::BiasGelu)),
    row("E1_1024", LINCOMB, [8192, 8192, 1024], BF16, Some(Epilogue::BiasRelu)),
    row("E1_8192", LINCOMB, [8192, 8192, 8192], BF16, Some(Epilogue::BiasRelu)),
];

impl Row {
    /// Whether it is the product alone.
    pub fn is_plain(&self) -> bool {
        self.source == PLAIN
    }

    /// The typed kernel.
    pub fn kernel(&self) -> Result<Kernel, YardstickError> {
        kernel(self.source, self.dtype)
            .map_err(|error| YardstickError::Kernel { row: self.name, error })
    }

    /// The plain product of the same dtype.
    pub fn plain_kernel(&self) -> Result<Kernel, YardstickError> {
        kernel(PLAIN, self.dtype).map_err(|error| YardstickError::Kernel { row: self.name, error })
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

/// A one-liner, typed.
pub fn kernel(source: &str, dtype: DType) -> Result<Kernel, postlude::Error> {
    let scalars = SCALARS.iter().map(|(name, _)| ((*name).to_owned(), Bound::Scalar(DType::F32)));
    Kernel::infer(source, &Bindings { names: scalars.collect::<BTreeMap<_, _>>(), dtype })
}

/// What the host passes for a scalar.
pub fn scalar(name: &str) -> Option<f32> {
    SCALARS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use postlude::Options;
    use postlude::Problem;
    use postlude::graph::Op;
    use postlude::plan::sm90::{Placements, Sm90, plan};

    use super::*;

    #[test]
    fn every_row_types_has_its_sizes_and_can_be_planned() {
        for row in ROWS {
            let compiled = row.kernel().unwrap().compile(&Options::default());
            let problem = Problem::new(compiled.defined(), &row.named_sizes()).unwrap();
            let placements = Placements::packed(compiled.optimised(), &problem);
            plan(compiled.optimised(), &problem, &placements, Sm90::H200).unwrap();
            for input in compiled.defined().inputs().iter().filter(|input| input.dims.is_none()) {
                assert!(scalar(&input.name).is_some(), "{}: {}", row.name, input.name);
            }
        }
    }

    /// What `check` takes: an element that needs more than its own row and column cannot be checked on a sample.
    #[test]
    fn every_output_is_a_tile_of_single_elements() {
        for row in ROWS {
            let kernel = row.kernel().unwrap();
            for output in kernel.defined().outputs() {
                let dims: Vec<String> = output.dims.iter().map(ToString::to_string).collect();
                assert_eq!(dims, ["M", "N"], "{}: {}", row.name, output.name);
            }
            let reduces = |op: &Op| matches!(op, Op::Reduce(..) | Op::Pick(..) | Op::Part(..));
            assert!(!kernel.defined().nodes().any(|(_, node)| reduces(&node.op)), "{}", row.name);
        }
    }

    #[test]
    fn no_two_rows_have_the_same_name() {
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn the_library_is_asked_for_what_the_row_reads() {
        for row in ROWS {
            let bias = row.library.is_some_and(Epilogue::has_bias);
            assert_eq!(bias, row.reads("bias"), "{}", row.name);
            assert_eq!(row.is_plain(), row.library == Some(Epilogue::Plain), "{}", row.name);
        }
        assert!(!ROWS[0].reads("C") && ROWS.iter().any(|row| row.reads("C")));
    }
}
