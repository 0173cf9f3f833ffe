//! cuBLASLt, opened at run time: what a product costs with NVIDIA's own library.
//!
//! In: a product of row-major matrices in any layout, with one of the library's own epilogues. Out: the algorithms that its
//! heuristics suggest, each of which can be queued on a stream.
//!
//! The library counts columns first: a row-major `D[M, N]` is a column-major `N x M`, and `operand` says what our operands
//! are then. Its bias runs along N, as ours does.

mod library;
mod operand;
mod search;
mod types;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use postlude::runtime::{Device, DeviceBuffer, Stream};
use postlude::{DType, MathMode};

use crate::error::YardstickError;
use crate::layout::Layout;
use library::{Library, MatrixLayout, Operation, OperationAttribute, Places, Product};
use operand::{Operand, operands};
use types::{Compute, Element, Scales};

/// Algorithms that the heuristics are asked for.
const REQUESTED: usize = 64;
/// What an algorithm may use beside its matrices.
const WORKSPACE_BYTES: u64 = 32 << 20;

/// What the library can do after a product by itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Epilogue {
    /// Nothing.
    Plain,
    /// Adds a bias along N.
    Bias,
    /// Adds a bias along N, then relu.
    BiasRelu,
    /// Adds a bias along N, then gelu in its tanh form.
    BiasGelu,
    /// The same, and stores what gelu was taken of.
    BiasGeluAux,
    /// Multiplies by the derivative of gelu, in its tanh form, at a stored tile, and sums the columns.
    GeluGradient,
}

/// What an epilogue does with a second tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aux {
    /// It has none.
    None,
    /// It writes one.
    Written,
    /// It reads one.
    Read,
}

impl Epilogue {
    /// Its number (`cublasLtEpilogue_t`).
    const fn number(self) -> i32 {
        match self {
            Epilogue::Plain => 1,
            Epilogue::Bias => 4,
            Epilogue::BiasRelu => 4 | 2,
            Epilogue::BiasGelu => 4 | 32,
            Epilogue::BiasGeluAux => 4 | 32 | 128,
            Epilogue::GeluGradient => 16 | 64 | 128,
        }
    }

    /// Whether it reads a bias.
    pub const fn reads_bias(self) -> bool {
        match self {
            Epilogue::Plain | Epilogue::GeluGradient => false,
            Epilogue::Bias | Epilogue::BiasRelu | Epilogue::BiasGelu | Epilogue::BiasGeluAux => {
                true
            }
        }
    }

    /// Whether it reads or writes a vector along N.
    pub const fn has_vector(self) -> bool {
        match self {
            Epilogue::Plain => false,
            Epilogue::Bias
            | Epilogue::BiasRelu
            | Epilogue::BiasGelu
            | Epilogue::BiasGeluAux
            | Epilogue::GeluGradient => true,
        }
    }

    /// What it does with a second tile.
    pub const fn aux(self) -> Aux {
        match self {
            Epilogue::Plain | Epilogue::Bias | Epilogue::BiasRelu | Epilogue::BiasGelu => Aux::None,
            Epilogue::BiasGeluAux => Aux::Written,
            Epilogue::GeluGradient => Aux::Read,
        }
    }
}

/// A product as the library is asked for it: `epilogue(alpha * A @ W.T + beta * C)`, or the like in another layout.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Request {
    /// How A and W lie.
    pub layout: Layout,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// The contraction.
    pub k: usize,
    /// The dtype of A and W.
    pub operands: DType,
    /// The dtype of C, of the result, and of the bias.
    pub result: DType,
    /// Whether sums of 8-bit floats may stay in the tensor core.
    pub math: MathMode,
    /// What comes after the product.
    pub epilogue: Epilogue,
    /// What the product is multiplied by.
    pub alpha: f32,
    /// What C is multiplied by; 0 where there is none.
    pub beta: f32,
    /// Where the bias, or its gradient, is; 0 where there is none.
    pub vector: u64,
}

/// Where the matrices of one call are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// A.
    pub left: u64,
    /// W, or B.
    pub right: u64,
    /// C; the result's own where there is none.
    pub addend: u64,
    /// D.
    pub result: u64,
    /// The second tile; 0 where there is none.
    pub aux: u64,
}

/// The opened library, with a workspace on a GPU.
pub struct CublasLt {
    library: Arc<Library>,
    path: PathBuf,
    workspace: DeviceBuffer,
}

impl CublasLt {
    /// Opens the first library that there is.
    pub fn open(device: &Device) -> Result<CublasLt, YardstickError> {
        let (library, path) = open_first(&search::candidates(|name| std::env::var_os(name)))?;
        Ok(CublasLt { library, path, workspace: device.allocate(WORKSPACE_BYTES)? })
    }

    /// Its version, as in `13.2.0`.
    pub fn version(&self) -> String {
        version_text(self.library.version())
    }

    /// What was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Asks for a product.
    pub fn matmul(&self, request: &Request) -> Result<Matmul<'_>, YardstickError> {
        let Request { m, n, k, .. } = *request;
        let [first, second] = operands(request.layout, [m, n, k]);
        let compute = Compute::of(request.operands);
        let operation = Operation::new(&self.library, compute)?;
        operation.set(OperationAttribute::TransposeLeft, first.transposition as i32)?;
        operation.set(OperationAttribute::TransposeRight, second.transposition as i32)?;
        operation.set(OperationAttribute::Epilogue, request.epilogue.number())?;
        if request.operands.is_fp8() && request.math == MathMode::Fast {
            operation.set_byte(OperationAttribute::FastAccumulation, 1)?;
        }
        let [operand, result] = [request.operands, request.result].map(Element::of);
        if request.epilogue.has_vector() {
            operation.set(OperationAttribute::BiasType, result as i32)?;
            operation.set_wide(OperationAttribute::BiasPointer, request.vector)?;
        }
        if request.epilogue.aux() != Aux::None {
            operation.set_wide(OperationAttribute::AuxLeading, n as u64)?;
            // The heuristics only look at how it is aligned; every launch sets its own.
            operation.set_wide(OperationAttribute::AuxPointer, request.vector)?;
        }
        let matrix =
            |element, rows, columns| MatrixLayout::new(&self.library, element, rows, columns);
        let stored = |matrix_of: Operand| matrix(operand, matrix_of.rows, matrix_of.columns);
        let product = Product {
            operation,
            left: stored(first)?,
            right: stored(second)?,
            addend: matrix(result, n, m)?,
            result: matrix(result, n, m)?,
        };
        let algorithms = product.suggestions(REQUESTED, WORKSPACE_BYTES)?;
        if algorithms.is_empty() {
            return Err(YardstickError::NoAlgorithm { m, n, k });
        }
        let scales = compute.scales(request.alpha, request.beta);
        Ok(Matmul { owner: self, product, algorithms, scales, epilogue: request.epilogue })
    }
}

/// A product that can be queued.
pub struct Matmul<'a> {
    owner: &'a CublasLt,
    product: Product,
    algorithms: Vec<library::Algorithm>,
    scales: Scales,
    epilogue: Epilogue,
}

impl Matmul<'_> {
    /// How many algorithms the library suggests; the first is its best guess.
    pub fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    /// What comes after the product.
    pub fn epilogue(&self) -> Epilogue {
        self.epilogue
    }

    /// Queues it by the algorithm of that number. The memory outlives the work, which is the caller's to see to.
    pub fn launch(
        &self,
        algorithm: usize,
        addresses: &Addresses,
        stream: &Stream,
    ) -> Result<(), YardstickError> {
        if self.epilogue.aux() != Aux::None {
            self.product.operation.set_wide(OperationAttribute::AuxPointer, addresses.aux)?;
        }
        let places = Places {
            left: addresses.right,
            right: addresses.left,
            addend: addresses.addend,
            result: addresses.result,
            workspace: self.owner.workspace.address(),
            workspace_bytes: WORKSPACE_BYTES as usize,
        };
        self.product.multiply(&self.algorithms[algorithm], &self.scales, &places, stream)
    }
}

fn open_first(candidates: &[PathBuf]) -> Result<(Arc<Library>, PathBuf), YardstickError> {
    for path in candidates {
        if let Some(opened) = Library::open(path) {
            return Ok((opened?, path.clone()));
        }
    }
    let tried = candidates.iter().map(|path| path.display().to_string()).collect();
    Err(YardstickError::NoLibrary { tried })
}

/// 130200 and 120805 as people write them.
fn version_text(number: usize) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_says_what_to_do() {
        let error =
            open_first(&[PathBuf::from("libno-such-library.so.1")]).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("libno-such-library.so.1"), "{error}");
        assert!(error.fix().is_some_and(|fix| fix.contains(search::VARIABLE)));
    }

    #[test]
    fn epilogues_have_the_numbers_of_the_header() {
        let all = [Epilogue::Plain, Epilogue::Bias, Epilogue::BiasRelu, Epilogue::BiasGelu];
        assert_eq!(all.map(Epilogue::number), [1, 4, 6, 36]);
        let tiles = [Epilogue::BiasGeluAux, Epilogue::GeluGradient];
        assert_eq!(tiles.map(Epilogue::number), [164, 208]);
    }

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(version_text(130_200), "13.2.0");
        assert_eq!(version_text(120_805), "12.8.5");
    }
}
