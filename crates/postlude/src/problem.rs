//! What one call binds a kernel to: sizes and arguments, validated against its signature.
//!
//! In: a graph and named arguments. Out: a [`Problem`] whose sizes agree everywhere. Nothing unchecked reaches an engine.

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::graph::{Axes, Graph, Input, InputId, Product};
use crate::shape::Dim;
use crate::tensor::Tensor;

/// An argument of a call.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// A tensor in memory.
    Tensor(Tensor),
    /// A scalar that the host passes.
    Scalar(f64),
}

/// Named arguments of a call.
pub type Arguments = BTreeMap<String, Argument>;

/// Sizes of dims by name.
pub type Sizes = BTreeMap<String, usize>;

/// Why a call does not fit a kernel.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
pub enum BindError {
    #[error("input `{name}` is missing")]
    Missing { name: String },
    #[error("the kernel has no input `{name}`")]
    Unknown { name: String },
    #[error("`{name}` is a scalar passed by the host; a tensor was given")]
    WantsScalar { name: String },
    #[error("`{name}` is a tensor; a number was given")]
    WantsTensor { name: String },
    #[error("`{name}` is declared {declared}, but {given} was given")]
    DType { name: String, declared: DType, given: DType },
    #[error("`{name}` is declared with {declared} dims, but has {given}")]
    Rank { name: String, declared: usize, given: usize },
    #[error("`{name}` has size {given} along `{dim}`, which is {known}")]
    Size { name: String, dim: String, given: usize, known: String },
    #[error("size of `{dim}` is not known")]
    Unsized { dim: String },
    #[error("`{dim}` is {size}, which is not {}", multiple(*.by))]
    Multiple { dim: String, size: usize, by: u32 },
    #[error("the kernel has no dim `{dim}`")]
    UnknownDim { dim: String },
    #[error("the sizes of this problem are too large")]
    TooLarge,
}

impl BindError {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            BindError::Unsized { dim } => {
                Some(format!("give it: `--size {dim}=...`, or bind an input that has it"))
            }
            BindError::Multiple { dim, by, .. } => Some(format!("make `{dim}` {}", multiple(*by))),
            BindError::DType { declared, .. } => {
                Some(format!("convert the data to {declared}, or declare what it is"))
            }
            _ => None,
        }
    }
}

/// Elements of any tensor and of any pass over the product: bytes and bits of as many can be counted.
const MOST_ELEMENTS: usize = isize::MAX as usize / 64;

/// What a size has to be.
fn multiple(by: u32) -> String {
    if by == 2 { "even".to_owned() } else { format!("a multiple of {by}") }
}

/// The sizes of one call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Problem {
    /// How many products; 1 without a batch dim.
    pub batch: usize,
    /// Rows of the product.
    pub rows: usize,
    /// The size of the column dim's name; a value's columns are this divided by its divisor.
    pub columns: usize,
    /// The size of the contraction.
    pub inner: usize,
    /// Every named dim.
    pub sizes: Sizes,
    /// What the product's own columns divide [`Problem::columns`] by.
    pub column_divisor: u32,
}

impl Problem {
    /// Sizes for a graph; every dim has to be known and every division to come out even.
    pub fn new(graph: &Graph, sizes: &Sizes) -> Result<Problem, BindError> {
        for dim in sizes.keys() {
            if !dim_names(graph).contains(&dim.as_str()) {
                return Err(BindError::UnknownDim { dim: dim.clone() });
            }
        }
        let size = |dim: &Dim| size_of(dim, sizes);
        let product = graph.product();
        let columns = match &product.column {
            Dim::Name { name, .. } => size(&Dim::name(name.clone()))?,
            Dim::Size(size) => *size as usize,
        };
        let problem = Problem {
            batch: product.batch.as_ref().map_or(Ok(1), size)?,
            rows: size(&product.row)?,
            columns,
            inner: size(&product.inner)?,
            sizes: sizes.clone(),
            column_divisor: product.column.divisor(),
        };
        let dim = match &product.column {
            Dim::Name { name, .. } => name.clone(),
            Dim::Size(size) => size.to_string(),
        };
        for by in graph.column_multiples().into_iter().chain([problem.column_divisor]) {
            if columns % by as usize != 0 {
                return Err(BindError::Multiple { dim, size: columns, by });
            }
        }
        for dims in graph
            .inputs()
            .iter()
            .filter_map(|input| input.dims.as_ref())
            .chain(graph.outputs().iter().map(|output| &output.dims))
        {
            let elements = dims.iter().try_fold(1, |all: usize, dim| {
                all.checked_mul(size(dim)?.max(1)).ok_or(BindError::TooLarge)
            })?;
            if elements > MOST_ELEMENTS {
                return Err(BindError::TooLarge);
            }
        }
        problem.check_bits(graph)?;
        problem.check_total()?;
        Ok(problem)
    }

    /// Packed bits fill whole bytes.
    fn check_bits(&self, graph: &Graph) -> Result<(), BindError> {
        let packed = graph
            .outputs()
            .iter()
            .map(|o| (o.dtype, &o.dims))
            .chain(graph.inputs().iter().filter_map(|i| Some((i.dtype, i.dims.as_ref()?))));
        for (_, dims) in packed.filter(|(dtype, _)| *dtype == DType::B1) {
            let last = dims.last().map_or(1, |dim| size_of(dim, &self.sizes).unwrap_or(1));
            if last % 8 != 0 {
                let dim = dims.last().map_or_else(String::new, Dim::to_string);
                return Err(BindError::Multiple { dim, size: last, by: 8 });
            }
        }
        Ok(())
    }

    /// No index computation may overflow.
    fn check_total(&self) -> Result<(), BindError> {
        let most = [self.rows, self.columns, self.inner];
        let fits = |a: usize, b: usize| {
            a.max(1)
                .checked_mul(b.max(1))
                .and_then(|n| n.checked_mul(self.batch.max(1)))
                .is_some_and(|n| n <= MOST_ELEMENTS)
        };
        if fits(most[0], most[1]) && fits(most[0], most[2]) && fits(most[1], most[2]) {
            Ok(())
        } else {
            Err(BindError::TooLarge)
        }
    }

    /// Sizes found in the arguments together with those given.
    pub fn bind(graph: &Graph, arguments: &Arguments, given: &Sizes) -> Result<Problem, BindError> {
        let mut sizes = given.clone();
        for name in arguments.keys() {
            if !graph.inputs().iter().any(|input| input.name == *name) {
                return Err(BindError::Unknown { name: name.clone() });
            }
        }
        for input in graph.inputs() {
            let argument = arguments
                .get(&input.name)
                .ok_or_else(|| BindError::Missing { name: input.name.clone() })?;
            match (&input.dims, argument) {
                (None, Argument::Scalar(_)) => {}
                (None, Argument::Tensor(_)) => {
                    return Err(BindError::WantsScalar { name: input.name.clone() });
                }
                (Some(_), Argument::Scalar(_)) => {
                    return Err(BindError::WantsTensor { name: input.name.clone() });
                }
                (Some(_), Argument::Tensor(tensor)) => {
                    collect_sizes(input, tensor.dtype(), tensor.shape(), &mut sizes)?;
                }
            }
        }
        let problem = Problem::new(graph, &sizes)?;
        for input in graph.inputs() {
            if let (Some(dims), Some(Argument::Tensor(tensor))) =
                (&input.dims, arguments.get(&input.name))
            {
                problem.check_shape(&input.name, dims, tensor.shape())?;
            }
        }
        Ok(problem)
    }

    /// Whether a shape is what the dims say.
    pub fn check_shape(&self, name: &str, dims: &[Dim], shape: &[usize]) -> Result<(), BindError> {
        if dims.len() != shape.len() {
            return Err(BindError::Rank {
                name: name.to_owned(),
                declared: dims.len(),
                given: shape.len(),
            });
        }
        for (dim, given) in dims.iter().zip(shape) {
            let known = size_of(dim, &self.sizes)?;
            if known != *given {
                return Err(BindError::Size {
                    name: name.to_owned(),
                    dim: dim.to_string(),
                    given: *given,
                    known: known.to_string(),
                });
            }
        }
        Ok(())
    }

    /// The shape that dims have in this problem.
    pub fn shape(&self, dims: &[Dim]) -> Vec<usize> {
        dims.iter().map(|dim| size_of(dim, &self.sizes).unwrap_or(0)).collect()
    }

    /// The sizes of a value's axes: batch, rows, columns; 1 where it does not vary.
    pub fn extents(&self, axes: Axes) -> [usize; 3] {
        let columns = axes.column.map_or(1, |divisor| self.columns / divisor as usize);
        [if axes.batch { self.batch } else { 1 }, if axes.row { self.rows } else { 1 }, columns]
    }

    /// How many columns the product has.
    pub fn product_columns(&self) -> usize {
        self.columns / self.column_divisor as usize
    }
}

/// Every dim name of a kernel, in the order of its signature.
pub fn dim_names(graph: &Graph) -> Vec<&str> {
    let inputs = graph.inputs().iter().filter_map(|input| input.dims.as_ref());
    let mut names: Vec<&str> = Vec::new();
    for dim in inputs.chain(graph.outputs().iter().map(|output| &output.dims)).flatten() {
        if let Dim::Name { name, .. } = dim
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    names
}

fn size_of(dim: &Dim, sizes: &Sizes) -> Result<usize, BindError> {
    match dim {
        Dim::Size(size) => Ok(*size as usize),
        Dim::Name { name, divisor } => {
            let size = *sizes.get(name).ok_or_else(|| BindError::Unsized { dim: name.clone() })?;
            if size % *divisor as usize != 0 {
                return Err(BindError::Multiple { dim: name.clone(), size, by: *divisor });
            }
            Ok(size / *divisor as usize)
        }
    }
}

/// Adds the sizes that a tensor for an input tells; they have to agree with those that are known.
///
/// ```
/// use postlude::{DType, Kernel, Sizes, problem};
/// let kernel = Kernel::infer("D = A @ B", &Default::default())?;
/// let mut sizes = Sizes::from([("K".to_owned(), 3)]);
/// problem::collect_sizes(&kernel.defined().inputs()[0], DType::BF16, &[2, 3], &mut sizes)?;
/// assert_eq!(sizes["M"], 2);
/// # Ok::<(), postlude::Error>(())
/// ```
pub fn collect_sizes(
    input: &Input,
    dtype: DType,
    shape: &[usize],
    sizes: &mut Sizes,
) -> Result<(), BindError> {
    let name = || input.name.clone();
    let Some(dims) = &input.dims else { return Err(BindError::WantsScalar { name: name() }) };
    if dtype != input.dtype {
        return Err(BindError::DType { name: name(), declared: input.dtype, given: dtype });
    }
    if shape.len() != dims.len() {
        return Err(BindError::Rank { name: name(), declared: dims.len(), given: shape.len() });
    }
    for (dim, &given) in dims.iter().zip(shape) {
        let Dim::Name { name: dim_name, divisor } = dim else { continue };
        let whole = given.checked_mul(*divisor as usize).ok_or(BindError::TooLarge)?;
        match sizes.get(dim_name) {
            Some(known) if *known != whole => {
                return Err(BindError::Size {
                    name: name(),
                    dim: dim.to_string(),
                    given,
                    known: (known / *divisor as usize).to_string(),
                });
            }
            Some(_) => {}
            None => {
                sizes.insert(dim_name.clone(), whole);
            }
        }
    }
    Ok(())
}

/// How an operand of the body reads a tensor: the strides of batch, row and column in elements; 0 where it does not vary.
pub fn body_strides(product: &Product, dims: &[Dim], strides: &[isize]) -> [isize; 3] {
    let mut result = [0; 3];
    for (dim, stride) in dims.iter().zip(strides) {
        let place = if product.batch.as_ref() == Some(dim) {
            0
        } else if product.row == *dim {
            1
        } else {
            2
        };
        result[place] = *stride;
    }
    result
}

impl Graph {
    /// The tensor bound to an input.
    pub(crate) fn tensor<'a>(&self, arguments: &'a Arguments, input: InputId) -> &'a Tensor {
        match &arguments[&self.inputs()[input.0 as usize].name] {
            Argument::Tensor(tensor) => tensor,
            Argument::Scalar(_) => panic!("compiler bug: a scalar was bound to a tensor input"),
        }
    }
}
