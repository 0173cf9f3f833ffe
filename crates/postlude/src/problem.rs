//! What one call binds a kernel to: sizes and arguments, validated against its signature.
//!
//! In: a graph and named arguments. Out: a [`Problem`] whose sizes agree everywhere. Nothing unchecked reaches an engine.

mod argument;
mod checks;
mod error;
mod same;
mod segments;
mod split;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::graph::{Axes, Columns, Graph, Input, InputId, Part, Space};
use crate::shape::Dim;
use crate::tensor::{TensorView, TensorViewMut, has_own_places};

pub use argument::Argument;
use checks::check_dtype;
pub use error::BindError;
use same::with_same_sizes;
pub(crate) use segments::Segments;
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
    /// The sizes of the batch dims.
    pub(crate) batch_sizes: Vec<usize>,
    /// Rows of the product.
    pub(crate) rows: usize,
    /// The size of the column dim's name; a value's columns are this divided by its divisor.
    pub(crate) columns: usize,
    /// The size of the contraction; 0 where no product is.
    pub(crate) inner: usize,
    /// Every named dim.
    pub(crate) sizes: Sizes,
    /// What the product's own columns divide [`Problem::columns`] by.
    pub(crate) column_divisor: u32,
    /// The sizes of the dims that splits name.
    pub(crate) parts: Vec<usize>,
    /// Whether rows are cut into segments, which the batch numbers: each row has one batch.
    pub(crate) segmented: bool,
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
        let sizes = &with_split_sizes(graph, &with_same_sizes(graph, sizes)?);
        let known = |dim: &&str| sizes.contains_key(*dim);
        let missing = dim_names(graph).into_iter().filter(|dim| !known(dim));
        let dims: Vec<String> = missing.map(str::to_owned).collect();
        if !dims.is_empty() {
            return Err(BindError::Unsized { dims });
        }
        let problem = Problem::of_sizes(graph, sizes)?;
        problem.check_indices(graph)?;
        Ok(problem)
    }

    /// The same with every size, and perhaps others.
    fn of_sizes(graph: &Graph, sizes: &Sizes) -> Result<Problem, BindError> {
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
        problem.check_packed(graph)?;
        problem.check_total()?;
        for earlier in graph.earlier() {
            Problem::of_sizes(earlier.graph, sizes)?;
        }
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

    /// The sizes that dtypes and shapes of the inputs tell, in the order of the signature; `None` for a number. Inputs that
    /// are others are not among them.
    #[doc(hidden)]
    pub fn of_shapes(
        graph: &Graph,
        inputs: &[Option<(DType, &[usize])>],
    ) -> Result<Problem, BindError> {
        let mut sizes = Sizes::new();
        for (input, given) in graph.passed_inputs().zip(inputs) {
            let name = || input.name.clone();
            match (&input.dims, given) {
                (None, None) => {}
                (None, Some(_)) => return Err(BindError::WantsScalar { name: name() }),
                (Some(_), None) => return Err(BindError::WantsTensor { name: name() }),
                (Some(_), Some((dtype, shape))) => {
                    collect_sizes(graph, input, (*dtype, shape), &mut sizes)?;
                }
            }
        }
        let problem = Problem::new(graph, &sizes)?;
        for (input, given) in graph.passed_inputs().zip(inputs) {
            if let (Some(dims), Some((_, shape))) = (&input.dims, given) {
                problem.check_shape(&input.name, dims, shape)?;
            }
        }
        Ok(problem)
    }

    /// The same, or where A and B are swapped that of a graph whose rows are these columns; both are whole dims.
    pub(crate) fn with_swap(&self, swap_ab: bool) -> Cow<'_, Problem> {
        if !swap_ab {
            return Cow::Borrowed(self);
        }
        let (rows, columns) = (self.product_columns(), self.rows);
        Cow::Owned(Problem { rows, columns, column_divisor: 1, ..self.clone() })
    }

    /// The sizes of a graph that computes an input of a call with these.
    pub(crate) fn of_computing(&self, graph: &Graph) -> Result<Problem, BindError> {
        Problem::of_sizes(graph, &self.sizes)
    }

    /// The same where a dim has another size: that of one of its chunks.
    pub(crate) fn of_chunk(
        &self,
        graph: &Graph,
        dim: &str,
        size: usize,
    ) -> Result<Problem, BindError> {
        let mut sizes = self.sizes.clone();
        sizes.insert(dim.to_owned(), size);
        Problem::of_sizes(graph, &sizes)
    }

    /// The extents of the product.
    fn measure(graph: &Graph, sizes: &Sizes) -> Result<Problem, BindError> {
        let size = |dim: &Dim| size_of(dim, sizes);
        let (space, product) = (graph.space(), graph.products().first());
        let columns = match &space.column {
            Dim::Name { name, .. } => size(&Dim::name(name.clone()))?,
            Dim::Size(size) => *size as usize,
        };
        let batch_sizes = space.batch.iter().map(size).collect::<Result<Vec<_>, _>>()?;
        // Sizes that multiply to nothing or to little may be beyond all counts on the way.
        let count = batch_sizes.iter().try_fold(1, |all: usize, size| all.checked_mul(*size));
        let none = batch_sizes.contains(&0).then_some(0);
        Ok(Problem {
            batch: none.or(count).ok_or(BindError::TooLarge)?,
            batch_sizes,
            rows: size(&space.row)?,
            columns,
            inner: product.map_or(Ok(0), |product| size(&product.inner))?,
            sizes: sizes.clone(),
            column_divisor: space.column.divisor(),
            parts: space.parts.iter().map(size).collect::<Result<_, _>>()?,
            segmented: space.is_segmented(),
        })
    }

    /// Sizes found in the arguments together with those given.
    #[doc(hidden)]
    pub fn bind(graph: &Graph, arguments: &Arguments, given: &Sizes) -> Result<Problem, BindError> {
        let mut sizes = given.clone();
        arguments.keys().try_for_each(|name| check_passed(graph, name))?;
        for input in graph.declared_inputs() {
            let passed = &graph.passed_as(input).name;
            let argument =
                arguments.get(passed).ok_or_else(|| BindError::Missing { name: passed.clone() })?;
            let name = || input.name.clone();
            match (&input.dims, argument.tensor()) {
                (None, None) => {}
                (None, Some(_)) => return Err(BindError::WantsScalar { name: name() }),
                (Some(_), None) => return Err(BindError::WantsTensor { name: name() }),
                (Some(_), Some(tensor)) => {
                    let given = (tensor.dtype(), tensor.shape());
                    collect_sizes(graph, input, given, &mut sizes)?;
                }
            }
        }
        let problem = Problem::new(graph, &sizes)?;
        for input in graph.declared_inputs() {
            let argument = arguments.get(&graph.passed_as(input).name).and_then(Argument::tensor);
            if let (Some(dims), Some(tensor)) = (&input.dims, argument) {
                problem.check_shape(&input.name, dims, tensor.shape())?;
            }
        }
        Ok(problem)
    }

    /// A call's arguments in the order of the signature, if they are all there and are what this problem is about. Inputs
    /// that are computed have none.
    pub(crate) fn inputs<'a>(
        &self,
        graph: &Graph,
        arguments: &'a Arguments<'_>,
    ) -> Result<Vec<Argument<'a>>, BindError> {
        arguments.keys().try_for_each(|name| check_passed(graph, name))?;
        let inputs = graph
            .declared_inputs()
            .iter()
            .map(|input| {
                let passed = &graph.passed_as(input).name;
                let argument = arguments.get(passed).map(|given| given.declared(input.dtype));
                argument.ok_or_else(|| BindError::Missing { name: passed.clone() })
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
        let declared = graph.declared_inputs();
        let (wanted, given) = (declared.len(), inputs.len());
        if wanted != given {
            return Err(BindError::InputCount { wanted, given });
        }
        for (input, argument) in declared.iter().zip(inputs) {
            let name = || input.name.clone();
            match (&input.dims, argument.tensor()) {
                (None, None) => {}
                (None, Some(_)) => return Err(BindError::WantsScalar { name: name() }),
                (Some(_), None) => return Err(BindError::WantsTensor { name: name() }),
                (Some(dims), Some(tensor)) => {
                    check_dtype(graph, input, tensor.dtype())?;
                    self.check_shape(&input.name, dims, tensor.shape())?;
                }
            }
        }
        self.check_segments(graph, inputs)
    }

    /// Whether tensors in the order of the signature can take the outputs.
    pub(crate) fn check_outputs(
        &self,
        graph: &Graph,
        outputs: &[TensorViewMut<'_>],
    ) -> Result<(), BindError> {
        Problem::check_count(graph, outputs.len())?;
        for (output, tensor) in graph.results().iter().zip(outputs) {
            self.check_tensor(output.name, (output.dtype, output.dims), tensor.view())?;
            if !has_own_places(tensor.shape(), tensor.strides()) {
                let (name, strides) = (output.name.to_owned(), tensor.strides().to_vec());
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
        for (output, tensor) in graph.results().iter().zip(outputs) {
            self.check_tensor(output.name, (output.dtype, output.dims), *tensor)?;
        }
        Ok(())
    }

    fn check_count(graph: &Graph, given: usize) -> Result<(), BindError> {
        let wanted = graph.results().len();
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

    /// The place of a batch along each batch dim; the last one advances fastest.
    pub(crate) fn batch_place(&self, batch: usize) -> [usize; Space::MOST_BATCH_DIMS] {
        let mut place = [0; Space::MOST_BATCH_DIMS];
        if self.batch_sizes.len() <= 1 {
            place[0] = batch;
            return place;
        }
        let mut rest = batch;
        for (at, size) in place.iter_mut().zip(&self.batch_sizes).rev() {
            *at = rest % size.max(&1);
            rest /= size.max(&1);
        }
        place
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

    /// The sizes of a value's axes: batch, rows, columns; 1 where it does not vary. Rows that are cut into segments are
    /// those of all batches together.
    #[doc(hidden)]
    pub fn extents(&self, axes: Axes) -> [usize; 3] {
        let columns = axes.columns().map_or(1, |columns| self.count(columns));
        let rows = axes.row.map_or(1, |run| self.rows / run as usize);
        let own_batch = axes.batch && !(self.segmented && axes.row.is_some());
        [if own_batch { self.batch } else { 1 }, rows, columns]
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

/// Whether a call passes an input of this name.
pub(crate) fn check_passed(graph: &Graph, name: &str) -> Result<(), BindError> {
    let name = || name.to_owned();
    match graph.inputs().iter().find(|input| input.name == name()) {
        None => Err(BindError::Unknown { name: name() }),
        Some(input) if input.computed.is_some() => Err(BindError::Unknown { name: name() }),
        Some(input) if input.same_as.is_some() => {
            Err(BindError::SameAs { name: name(), of: graph.passed_as(input).name.clone() })
        }
        Some(_) => Ok(()),
    }
}

/// Every dim name of a kernel, in the order of its signature. Multiples of dims have no names of their own.
pub fn dim_names(graph: &Graph) -> Vec<&str> {
    let inputs = graph.inputs().iter().filter_map(|input| input.dims.as_ref());
    let mut names: Vec<&str> = Vec::new();
    let outputs = graph.outputs().iter().map(|output| &output.dims);
    // Earlier graphs may split what the last one does not see.
    let earlier = graph.inputs().iter().filter_map(|input| input.computed.as_deref());
    let parts = earlier.chain([graph]).flat_map(|graph| &graph.space().parts);
    for dim in inputs.chain(outputs).flatten().chain(parts) {
        if let Dim::Name { name, .. } = dim
            && Dim::factors(name).is_none()
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
            let size = match (sizes.get(name), Dim::factors(name)) {
                (Some(size), _) => *size,
                (None, Some((count, of))) => {
                    size_of(&of, sizes)?.checked_mul(count).ok_or(BindError::TooLarge)?
                }
                (None, None) => return Err(BindError::Unsized { dims: vec![name.clone()] }),
            };
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
/// let graph = kernel.defined();
/// problem::collect_sizes(graph, &graph.inputs()[0], (DType::BF16, &[2, 3]), &mut sizes)?;
/// assert_eq!(sizes["M"], 2);
/// # Ok::<(), postlude::Error>(())
/// ```
pub fn collect_sizes(
    graph: &Graph,
    input: &Input,
    (dtype, shape): (DType, &[usize]),
    sizes: &mut Sizes,
) -> Result<(), BindError> {
    let name = || input.name.clone();
    let Some(dims) = &input.dims else { return Err(BindError::WantsScalar { name: name() }) };
    if !input.dtype.is_stored_as(dtype) {
        check_dtype(graph, input, dtype)?;
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

/// How the body steps through a tensor, in elements; 0 where the tensor does not vary.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BodyStrides {
    /// Along each batch dim, in the order of [`Space::batch`].
    pub batch: [isize; Space::MOST_BATCH_DIMS],
    /// Along rows.
    pub row: isize,
    /// Along columns.
    pub column: isize,
}

impl BodyStrides {
    /// Those of a tensor with these dims.
    pub fn new(space: &Space, dims: &[Dim], strides: &[isize]) -> BodyStrides {
        let mut result = BodyStrides::default();
        for (dim, stride) in dims.iter().zip(strides) {
            if let Some(place) = space.batch.iter().position(|batch| batch == dim) {
                result.batch[place] = *stride;
            } else if space.row_run(dim).is_some() {
                result.row = *stride;
            } else {
                result.column = *stride;
            }
        }
        result
    }

    /// Those of an operand of a product; its rows and columns are as declared, the contraction among them.
    pub(crate) fn of_operand(space: &Space, dims: &[Dim], strides: &[isize]) -> BodyStrides {
        let leading = dims.len() - 2;
        let batch = BodyStrides::new(space, &dims[..leading], strides).batch;
        BodyStrides { batch, row: strides[leading], column: strides[leading + 1] }
    }

    /// Every stride changed.
    #[must_use]
    pub(crate) fn map(self, change: impl Fn(isize) -> isize) -> BodyStrides {
        let batch = self.batch.map(&change);
        BodyStrides { batch, row: change(self.row), column: change(self.column) }
    }

    /// The steps to a batch, given its place along each batch dim.
    pub(crate) fn to_batch(self, place: [usize; Space::MOST_BATCH_DIMS]) -> isize {
        place.iter().zip(self.batch).map(|(at, stride)| *at as isize * stride).sum()
    }

    /// The steps to an element: batch, row, column.
    pub(crate) fn to_element(self, problem: &Problem, [batch, row, column]: [usize; 3]) -> isize {
        self.to_batch(problem.batch_place(batch))
            + row as isize * self.row
            + column as isize * self.column
    }
}

/// The tensor bound to an input of a validated call.
pub(crate) fn input_tensor<'a>(inputs: &'a [Argument<'_>], input: InputId) -> TensorView<'a> {
    match inputs[input.0 as usize].tensor() {
        Some(tensor) => tensor,
        None => panic!("compiler bug: a scalar was bound to a tensor input"),
    }
}
