//! What one call binds a kernel to: sizes and arguments, validated against its signature.
//!
//! In: a graph and named arguments. Out: a [`Problem`] whose sizes agree everywhere. Nothing unchecked reaches an engine.

mod argument;
mod checks;
mod error;
mod split;

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::graph::{Axes, Columns, Graph, Input, InputId, Part, ProductId, Space};
use crate::shape::Dim;
use crate::tensor::{TensorView, TensorViewMut, has_own_places};

pub use argument::Argument;
pub use error::BindError;
use split::{check_splits, with_split_sizes};

/// Named arguments of a call.
pub type Arguments<'a> = BTreeMap<String, Argument<'a>>;

/// Sizes of dims by name.
pub type Sizes = BTreeMap<String, usize>;

/// Elements of any tensor and of any pass over the product: bytes and bits of as many can be counted.
const MOST_ELEMENTS: usize = isize::MAX as usize / 64;

/// The sizes of one call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Problem {
    /// How many products; 1 without a batch dim.
    pub(crate) batch: usize,
    /// Rows of the product.
    pub(crate) rows: usize,
    /// The size of the column dim's name; a value's columns are this divided by its divisor.
    pub(crate) columns: usize,
    /// The size of the contraction.
    pub(crate) inner: usize,
    /// Every named dim.
    pub(crate) sizes: Sizes,
    /// What the product's own columns divide [`Problem::columns`] by.
    pub(crate) column_divisor: u32,
    /// The sizes of the dims that splits name.
    pub(crate) parts: Vec<usize>,
}

impl Problem {
    /// Sizes for a graph; every dim has to be known and every division to come out even.
    #[doc(hidden)]
    pub fn new(graph: &Graph, sizes: &Sizes) -> Result<Problem, BindError> {
        for dim in sizes.keys() {
            if !dim_names(graph).contains(&dim.as_str()) {
                return Err(BindError::UnknownDim { dim: dim.clone() });
            }
        }
        let sizes = &with_split_sizes(graph, sizes);
        let known = |dim: &&str| sizes.contains_key(*dim);
        let missing = dim_names(graph).into_iter().filter(|dim| !known(dim));
        let dims: Vec<String> = missing.map(str::to_owned).collect();
        if !dims.is_empty() {
            return Err(BindError::Unsized { dims });
        }
        let size = |dim: &Dim| size_of(dim, sizes);
        let problem = Problem::measure(graph, sizes)?;
        problem.check_multiples(graph)?;
        check_splits(graph, &problem)?;
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
        problem.check_indices(graph)?;
        Ok(problem)
    }

    /// The size of the dim that columns are divided from.
    fn base_size(&self, part: u16) -> usize {
        if part == 0 { self.columns } else { self.parts[part as usize - 1] }
    }

    /// How many columns these are.
    pub(crate) fn count(&self, columns: Columns) -> usize {
        self.base_size(columns.part) / columns.divisor as usize
    }

    /// The column of what it is split from that a listed part begins with; 0 for other parts.
    pub(crate) fn start(&self, space: &Space, part: Part) -> usize {
        match part {
            Part::Listed { split, index } => {
                let before = &space.splits[split as usize].parts[..index as usize];
                before.iter().map(|columns| self.count(*columns)).sum()
            }
            Part::First
            | Part::Second
            | Part::Even
            | Part::Odd
            | Part::Equal { .. }
            | Part::Repeated { .. } => 0,
        }
    }

    /// The sizes that dtypes and shapes of the inputs tell, in the order of the signature; `None` for a number.
    #[doc(hidden)]
    pub fn of_shapes(
        graph: &Graph,
        inputs: &[Option<(DType, &[usize])>],
    ) -> Result<Problem, BindError> {
        let mut sizes = Sizes::new();
        for (input, given) in graph.inputs().iter().zip(inputs) {
            let name = || input.name.clone();
            match (&input.dims, given) {
                (None, None) => {}
                (None, Some(_)) => return Err(BindError::WantsScalar { name: name() }),
                (Some(_), None) => return Err(BindError::WantsTensor { name: name() }),
                (Some(_), Some((dtype, shape))) => {
                    collect_sizes(input, *dtype, shape, &mut sizes)?;
                }
            }
        }
        let problem = Problem::new(graph, &sizes)?;
        for (input, given) in graph.inputs().iter().zip(inputs) {
            if let (Some(dims), Some((_, shape))) = (&input.dims, given) {
                problem.check_shape(&input.name, dims, shape)?;
            }
        }
        Ok(problem)
    }

    /// The extents of the product.
    fn measure(graph: &Graph, sizes: &Sizes) -> Result<Problem, BindError> {
        let size = |dim: &Dim| size_of(dim, sizes);
        let (space, product) = (graph.space(), graph.product(ProductId::FIRST));
        let columns = match &space.column {
            Dim::Name { name, .. } => size(&Dim::name(name.clone()))?,
            Dim::Size(size) => *size as usize,
        };
        Ok(Problem {
            batch: space.batch.as_ref().map_or(Ok(1), size)?,
            rows: size(&space.row)?,
            columns,
            inner: size(&product.inner)?,
            sizes: sizes.clone(),
            column_divisor: space.column.divisor(),
            parts: space.parts.iter().map(size).collect::<Result<_, _>>()?,
        })
    }

    /// Sizes found in the arguments together with those given.
    #[doc(hidden)]
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
                (None, Argument::Tensor(_) | Argument::View(_)) => {
                    return Err(BindError::WantsScalar { name: input.name.clone() });
                }
                (Some(_), Argument::Scalar(_)) => {
                    return Err(BindError::WantsTensor { name: input.name.clone() });
                }
                (Some(_), Argument::Tensor(tensor)) => {
                    collect_sizes(input, tensor.dtype(), tensor.shape(), &mut sizes)?;
                }
                (Some(_), Argument::View(view)) => {
                    collect_sizes(input, view.dtype(), view.shape(), &mut sizes)?;
                }
            }
        }
        let problem = Problem::new(graph, &sizes)?;
        for input in graph.inputs() {
            let argument = arguments.get(&input.name).and_then(Argument::tensor);
            if let (Some(dims), Some(tensor)) = (&input.dims, argument) {
                problem.check_shape(&input.name, dims, tensor.shape())?;
            }
        }
        Ok(problem)
    }

    /// A call's arguments in the order of the signature, if they are all there and are what this problem is about.
    pub(crate) fn inputs<'a>(
        &self,
        graph: &Graph,
        arguments: &'a Arguments<'_>,
    ) -> Result<Vec<Argument<'a>>, BindError> {
        for name in arguments.keys() {
            if !graph.inputs().iter().any(|input| input.name == *name) {
                return Err(BindError::Unknown { name: name.clone() });
            }
        }
        let inputs = graph
            .inputs()
            .iter()
            .map(|input| {
                let argument = arguments.get(&input.name).map(|given| given.declared(input.dtype));
                argument.ok_or_else(|| BindError::Missing { name: input.name.clone() })
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.check_owner(graph)?;
        self.check_inputs(graph, &inputs)?;
        Ok(inputs)
    }

    /// Whether these are the sizes of a call of this kernel.
    pub(crate) fn check_owner(&self, graph: &Graph) -> Result<(), BindError> {
        match Problem::measure(graph, &self.sizes) {
            Ok(problem) if problem == *self => Ok(()),
            Ok(_) | Err(_) => Err(BindError::OtherProblem),
        }
    }

    /// Whether arguments in the order of the signature are what this problem is about.
    pub(crate) fn check_inputs(
        &self,
        graph: &Graph,
        inputs: &[Argument<'_>],
    ) -> Result<(), BindError> {
        let (wanted, given) = (graph.inputs().len(), inputs.len());
        if wanted != given {
            return Err(BindError::InputCount { wanted, given });
        }
        for (input, argument) in graph.inputs().iter().zip(inputs) {
            let name = || input.name.clone();
            match (&input.dims, argument.tensor()) {
                (None, None) => {}
                (None, Some(_)) => return Err(BindError::WantsScalar { name: name() }),
                (Some(_), None) => return Err(BindError::WantsTensor { name: name() }),
                (Some(dims), Some(tensor)) => {
                    self.check_tensor(&input.name, (input.dtype, dims), tensor)?;
                }
            }
        }
        Ok(())
    }

    /// Whether tensors in the order of the signature can take the outputs.
    pub(crate) fn check_outputs(
        &self,
        graph: &Graph,
        outputs: &[TensorViewMut<'_>],
    ) -> Result<(), BindError> {
        Problem::check_count(graph, outputs.len())?;
        for (output, tensor) in graph.outputs().iter().zip(outputs) {
            self.check_tensor(&output.name, (output.dtype, &output.dims), tensor.view())?;
            if !has_own_places(tensor.shape(), tensor.strides()) {
                let (name, strides) = (output.name.clone(), tensor.strides().to_vec());
                return Err(BindError::SelfOverlap { name, strides });
            }
        }
        Ok(())
    }

    /// Whether tensors in the order of the signature can be what a kernel wrote.
    pub(crate) fn check_results(
        &self,
        graph: &Graph,
        outputs: &[TensorView<'_>],
    ) -> Result<(), BindError> {
        Problem::check_count(graph, outputs.len())?;
        for (output, tensor) in graph.outputs().iter().zip(outputs) {
            self.check_tensor(&output.name, (output.dtype, &output.dims), *tensor)?;
        }
        Ok(())
    }

    fn check_count(graph: &Graph, given: usize) -> Result<(), BindError> {
        let wanted = graph.outputs().len();
        if wanted == given { Ok(()) } else { Err(BindError::OutputCount { wanted, given }) }
    }

    fn check_tensor(
        &self,
        name: &str,
        (declared, dims): (DType, &[Dim]),
        tensor: TensorView<'_>,
    ) -> Result<(), BindError> {
        if tensor.dtype() != declared {
            let given = tensor.dtype();
            return Err(BindError::DType { name: name.to_owned(), declared, given });
        }
        self.check_shape(name, dims, tensor.shape())
    }

    /// How many products there are; 1 without a batch dim.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Rows of the product.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The size of the column dim's name.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The size of the contraction.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// Every named dim.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Whether a shape is what the dims say.
    #[doc(hidden)]
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
    #[doc(hidden)]
    pub fn shape(&self, dims: &[Dim]) -> Vec<usize> {
        dims.iter().map(|dim| size_of(dim, &self.sizes).unwrap_or(0)).collect()
    }

    /// The sizes of a value's axes: batch, rows, columns; 1 where it does not vary.
    #[doc(hidden)]
    pub fn extents(&self, axes: Axes) -> [usize; 3] {
        let columns = axes.columns().map_or(1, |columns| self.count(columns));
        let rows = axes.row.map_or(1, |run| self.rows / run as usize);
        [if axes.batch { self.batch } else { 1 }, rows, columns]
    }

    /// The product's own columns.
    pub(crate) fn own_columns(&self) -> Columns {
        Columns::of_product(self.column_divisor)
    }

    /// How many columns the product has.
    #[doc(hidden)]
    pub fn product_columns(&self) -> usize {
        self.columns / self.column_divisor as usize
    }
}

/// Every dim name of a kernel, in the order of its signature.
pub fn dim_names(graph: &Graph) -> Vec<&str> {
    let inputs = graph.inputs().iter().filter_map(|input| input.dims.as_ref());
    let mut names: Vec<&str> = Vec::new();
    let outputs = graph.outputs().iter().map(|output| &output.dims);
    for dim in inputs.chain(outputs).flatten().chain(&graph.space().parts) {
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
            let size =
                *sizes.get(name).ok_or_else(|| BindError::Unsized { dims: vec![name.clone()] })?;
            if size % *divisor as usize != 0 {
                let (dim, by) = (name.clone(), *divisor);
                return Err(BindError::Multiple { dim, size, by, bytes: None });
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
    if dtype != input.dtype && !input.dtype.is_stored_as(dtype) {
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
pub fn body_strides(space: &Space, dims: &[Dim], strides: &[isize]) -> [isize; 3] {
    let mut result = [0; 3];
    for (dim, stride) in dims.iter().zip(strides) {
        let place = if space.batch.as_ref() == Some(dim) {
            0
        } else if space.row_run(dim).is_some() {
            1
        } else {
            2
        };
        result[place] = *stride;
    }
    result
}

/// The tensor bound to an input of a validated call.
pub(crate) fn input_tensor<'a>(inputs: &'a [Argument<'_>], input: InputId) -> TensorView<'a> {
    match inputs[input.0 as usize].tensor() {
        Some(tensor) => tensor,
        None => panic!("compiler bug: a scalar was bound to a tensor input"),
    }
}
