//! Launches that are repeated for one part of a dim after another, so that no value between them is stored whole.
//!
//! In: a kernel of several launches, and a dim of the values that it stores between them. Out: the same kernel, in which some
//! launches are run for each chunk of the dim:
//!
//! ```text
//! T = f(X @ W.T)          for each chunk of N:  T = f(X @ W.T)      of the chunk's rows of W
//! D = g(T @ W)                                  sum = T @ W + sum   in f32, in the order of the chunks
//! E = T.T @ X                                   E = T.T @ X         the chunk's rows
//!                         D = g(sum)
//! ```
//!
//! A launch whose values vary along the dim computes the chunk's, and its row or column numbers begin with the chunk's. A
//! product over the dim adds to a stored sum; what is made of it is computed by a launch behind the chunks. What needs the
//! whole dim otherwise (a reduction along it, its size) is not repeated.

use std::ops::Range;
use std::sync::Arc;

use crate::dtype::{DType, Elem};
use crate::graph::{
    Binary, Graph, IndexAxis, Input, InputId, NodeId, Op, Output, ProductId, free_name,
};
use crate::placement::Placement;
use crate::problem::Problem;
use crate::shape::Dim;

use super::statistics::{is_made_of, needs_whole, split};

/// The launches of a kernel that are run for one chunk of a dim after another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Chunks {
    /// The dim's name.
    pub(crate) dim: String,
    /// How many elements of the dim a chunk has; the last one may have fewer.
    pub(crate) size: usize,
    /// The repeated launches, by place in [`Graph::earlier`].
    pub(crate) launches: Range<usize>,
    /// The number that the host passes to them: the first element of the chunk.
    pub(crate) start: String,
}

impl Chunks {
    /// The chunks of a dim of this size: the first element of each, and how many there are.
    pub(crate) fn of(&self, size: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let own = self.size;
        (0..size).step_by(own).map(move |first| (first, own.min(size - first)))
    }

    /// The place of the dim among those of an input.
    pub(crate) fn place(&self, input: &Input) -> Option<usize> {
        let whole = Dim::name(self.dim.clone());
        input.dims.as_ref()?.iter().position(|dim| *dim == whole)
    }

    /// Whether a value of these launches is stored for one chunk only.
    pub(crate) fn is_partial(&self, input: &Input) -> bool {
        input.result.is_none() && self.place(input).is_some()
    }
}

/// Bytes of values between the launches of a call, beyond which they are stored in chunks.
pub(crate) const WORKSPACE: u64 = 1 << 30;

/// Sizes of chunks are multiples of the widest tile where there are as many elements, and else of what TMA copies.
const WIDEST_TILE: usize = 256;
const ALIGNED: usize = 8;

/// The same kernel with chunks of a dim, where the values between its launches have more bytes than the limit at these sizes
/// and chunks are within it.
pub(crate) fn in_chunks(graph: &Graph, problem: &Problem, limit: u64) -> Option<(Graph, Chunks)> {
    let stored = |input: &&Input| input.computed.is_some() && !input.in_mainloop;
    let bytes = |input: &Input| bytes_between(input, problem);
    let all: u64 = graph.inputs().iter().filter(stored).map(bytes).sum();
    if all <= limit {
        return None;
    }
    let mut largest: Vec<&Input> = graph.inputs().iter().filter(stored).collect();
    largest.sort_by_key(|input| std::cmp::Reverse(bytes(input)));
    let dims = largest.iter().flat_map(|input| input.dims.iter().flatten());
    let mut names: Vec<&str> = Vec::new();
    for dim in dims {
        if let Dim::Name { name, divisor: 1 } = dim
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    let possible = names.into_iter().filter_map(|name| {
        let (chunked, chunks) = Kernel::new(graph).chunked(name)?;
        Some((sized(&chunked, chunks, problem, limit)?, chunked))
    });
    let (chunks, chunked) = possible.max_by_key(|(chunks, _)| share(chunks, problem))?;
    Some((chunked, chunks))
}

/// A chunk's share of the dim, in thousandths.
fn share(chunks: &Chunks, problem: &Problem) -> usize {
    1000 * chunks.size / problem.sizes[&chunks.dim].max(1)
}

/// Chunks that are within the limit.
fn sized(graph: &Graph, chunks: Chunks, problem: &Problem, limit: u64) -> Option<Chunks> {
    let size = problem.sizes[&chunks.dim];
    let stored = graph.inputs().iter().filter(|input| input.computed.is_some());
    let (partial, whole): (Vec<&Input>, Vec<&Input>) =
        stored.partition(|input| chunks.is_partial(input));
    let bytes = |all: &[&Input]| all.iter().map(|input| bytes_between(input, problem)).sum::<u64>();
    let room = limit.checked_sub(bytes(&whole))?;
    let most = (u128::from(room) * size as u128 / u128::from(bytes(&partial).max(1))) as usize;
    let grain = if most >= 16 * WIDEST_TILE { WIDEST_TILE } else { ALIGNED };
    let most = most / grain * grain;
    // Of like sizes, so that none is left with few elements.
    let count = size.div_ceil(most.max(1));
    let like = size.div_ceil(count.max(1)).next_multiple_of(grain);
    (most > 0).then(|| Chunks { size: like.min(most), ..chunks })
}

/// Bytes that a value between launches has; a result has none of its own.
pub(crate) fn bytes_between(input: &Input, problem: &Problem) -> u64 {
    let Some(lies) = Placement::of_computed(input, problem) else { return 0 };
    let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
    lies.bytes(input.dtype, &shape) as u64
}

/// A kernel as its launches.
struct Kernel<'a> {
    graph: &'a Graph,
    launches: Vec<Launch>,
}

/// A launch with what it gives.
#[derive(Clone)]
struct Launch {
    graph: Arc<Graph>,
    /// Outputs as inputs of later launches or results.
    gives: Vec<Input>,
}

/// What a launch has to do with the dim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Along {
    /// Nothing.
    Outside,
    /// Its values vary along it: its rows or columns.
    Mapped(IndexAxis),
    /// Its product is summed over it.
    Summed,
}

impl<'a> Kernel<'a> {
    fn new(graph: &'a Graph) -> Kernel<'a> {
        let mut launches: Vec<Launch> = Vec::new();
        for earlier in graph.earlier() {
            let given = earlier.inputs.iter().flatten();
            let gives = given.map(|id| graph.inputs()[id.0 as usize].clone()).collect();
            launches.push(Launch { graph: earlier.graph.clone(), gives });
        }
        let own = graph.with_plain_inputs().with_read_inputs();
        let name = graph.outputs().first().map_or(graph.name(), |output| &output.name);
        let own = Arc::new(own.named(name));
        let outputs = graph.outputs().iter().zip(graph.own_results());
        let gives = outputs.map(|(output, place)| {
            let Output { name, dtype, dims, .. } = output.clone();
            Input {
                result: Some(place as u32),
                ..Input::computed_by(own.clone(), name, dtype, dims)
            }
        });
        launches.push(Launch { gives: gives.collect(), graph: own.clone() });
        Kernel { graph, launches }
    }

    /// The same kernel with chunks of a dim, of no size yet; `None` where it has a launch that cannot be repeated.
    fn chunked(&self, dim: &str) -> Option<(Graph, Chunks)> {
        if self.graph.has_operand_in_mainloop() || self.graph.has_segments() {
            return None;
        }
        if let Some(split) = self.with_statistics(&Dim::name(dim)) {
            return split.chunked(dim);
        }
        let repeated = self.repeated(dim)?;
        let after = self.after(&repeated);
        let taken = |name: &str| self.is_taken(name);
        let start = free_name("chunk_start", taken);
        let (mut before, mut within, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for (place, launch) in self.launches.iter().enumerate() {
            match repeated[place] {
                Some(Along::Mapped(axis)) => within.push(launch.of_chunk(axis, &start)),
                Some(Along::Summed) => {
                    let sum = free_name(&format!("{}_sum", launch.graph.name()), taken);
                    let (adding, rest) = launch.summed(&sum);
                    within.push(adding);
                    behind.push(rest);
                }
                Some(Along::Outside) | None if after[place] => behind.push(launch.clone()),
                Some(Along::Outside) | None => before.push(launch.clone()),
            }
        }
        // The last launch is the kernel's own.
        let last = behind.pop()?;
        let launches = before.len()..before.len() + within.len();
        let mut inputs = self.graph.declared_inputs().to_vec();
        for launch in before.iter().chain(&within).chain(&behind) {
            inputs.extend(launch.gives.iter().cloned());
        }
        let root = last.as_root(self.graph.name(), &inputs)?;
        Some((root, Chunks { dim: dim.to_owned(), size: 0, launches, start }))
    }

    /// Whether an input or a value between launches has a name.
    fn is_taken(&self, name: &str) -> bool {
        let given = self.launches.iter().flat_map(|launch| &launch.gives);
        self.graph.declared_inputs().iter().chain(given).any(|input| input.name == name)
    }

    /// The same kernel, in which a launch that stores values along a dim and needs the whole of it for them is two; `None`
    /// where there is none.
    fn with_statistics(&self, whole: &Dim) -> Option<Kernel<'a>> {
        let cannot = |launch: &Launch| {
            launch.gives.iter().any(|input| is_stored_along(input, whole))
                && along(&launch.graph, whole).is_none()
        };
        let found = self.launches.iter().enumerate().filter(|(_, launch)| cannot(launch));
        let (place, launch, split) = found.into_iter().find_map(|(place, launch)| {
            let split = split(&launch.graph, whole, &|name| self.is_taken(name))?;
            Some((place, launch, split))
        })?;
        let (along, other): (Vec<Input>, Vec<Input>) =
            launch.gives.iter().cloned().partition(|input| has(input, whole));
        let stored = split.statistics.into_iter().map(|Output { name, dtype, dims, .. }| {
            Input::computed_by(launch.graph.clone(), name, dtype, dims)
        });
        let other: Vec<Input> = other.into_iter().chain(stored).collect();
        let two = [Launch::of(split.whole, &other), Launch::of(split.part, &along)];
        let mut launches = self.launches.clone();
        launches.splice(place..=place, two);
        Some(Kernel { graph: self.graph, launches })
    }

    /// The launches that are repeated: they give or read values which are stored in chunks.
    fn repeated(&self, dim: &str) -> Option<Vec<Option<Along>>> {
        let whole = Dim::name(dim);
        let is_partial = |input: &Input| is_stored_along(input, &whole);
        let gives = |launch: &Launch| launch.gives.iter().any(is_partial);
        let reads = |launch: &Launch| {
            let given = self.launches.iter().flat_map(|launch| &launch.gives);
            given.filter(|input| is_partial(input)).any(|input| launch.reads(&input.name))
        };
        let mut found = Vec::new();
        for launch in &self.launches {
            let own = (gives(launch) || reads(launch)).then(|| along(&launch.graph, &whole));
            match own {
                Some(None | Some(Along::Outside)) => return None,
                Some(Some(along)) => found.push(Some(along)),
                None => found.push(None),
            }
        }
        // A value that varies along the dim cannot be made of a sum over it.
        let after = self.after(&found);
        let fits = found.iter().zip(&after).all(|(repeated, after)| repeated.is_none() || !after);
        (fits && found.iter().any(Option::is_some)).then_some(found)
    }

    /// Whether a launch reads what follows from sums and results of repeated launches.
    fn after(&self, repeated: &[Option<Along>]) -> Vec<bool> {
        let mut after = vec![false; self.launches.len()];
        for (place, launch) in self.launches.iter().enumerate() {
            let is_late = |earlier: usize| {
                let summed = repeated[earlier] == Some(Along::Summed);
                let result = repeated[earlier].is_some() && repeated[place].is_none();
                (summed || result || after[earlier])
                    && self.launches[earlier].gives.iter().any(|input| launch.reads(&input.name))
            };
            after[place] = (0..place).any(is_late);
        }
        after
    }
}

impl Launch {
    fn reads(&self, name: &str) -> bool {
        self.graph.inputs().iter().any(|input| input.name == name)
    }

    /// What a graph gives instead.
    fn of(graph: Graph, gives: &[Input]) -> Launch {
        let graph = Arc::new(graph);
        let own = |input: &Input| Input { computed: Some(graph.clone()), ..input.clone() };
        let gives = gives.iter().map(own).collect();
        Launch { graph, gives }
    }

    /// The launch of one chunk: its rows or columns are numbered from the chunk's first one on.
    fn of_chunk(&self, axis: IndexAxis, start: &str) -> Launch {
        let old = &*self.graph;
        let mut inputs = old.inputs().to_vec();
        let first = InputId(inputs.len() as u32);
        inputs.push(number(start));
        let mut new = Graph::new(old.name(), inputs, old.space().clone(), old.products().to_vec());
        let places = rebuild(old, &mut new, |new, op| match op {
            Op::Index(own) if own == axis => {
                let (number, first) = (new.make(op), new.make(Op::Input(first)));
                new.make(Op::Binary(Binary::Add, number, first))
            }
            op => new.make(op),
        });
        for output in old.outputs() {
            new.push_output(output.map(|node| places[node.index()]));
        }
        Launch::of(new.with_read_inputs(), &self.gives)
    }

    /// A launch that adds a chunk's product to a sum, and what the sum of all chunks becomes.
    fn summed(&self, name: &str) -> (Launch, Launch) {
        let old = &*self.graph;
        let space = old.space();
        let dims = space.dims(space.accumulator_axes());
        let mut inputs = old.inputs().to_vec();
        let sum = InputId(inputs.len() as u32);
        inputs.push(Input { computed: None, ..stored(name, &self.graph, dims.clone()) });
        let products = old.products().to_vec();
        let mut adding = Graph::new(name, inputs.clone(), space.clone(), products);
        let own = adding.make(Op::Accumulator(ProductId::FIRST));
        let before = adding.make(Op::Input(sum));
        let value = adding.make(Op::Binary(Binary::Add, own, before));
        let output = Output {
            name: name.to_owned(),
            dtype: DType::F32,
            dims: dims.clone(),
            value,
            stack: None,
        };
        adding.push_output(output);
        let mut rest = Graph::new(old.name(), inputs, space.clone(), Vec::new());
        let places = rebuild(old, &mut rest, |new, op| match op {
            Op::Accumulator(_) => new.make(Op::Input(sum)),
            op => new.make(op),
        });
        for output in old.outputs() {
            rest.push_output(output.map(|node| places[node.index()]));
        }
        let gives = [stored(name, &self.graph, dims)];
        let adding = Launch::of(adding.with_read_inputs(), &gives);
        (adding, Launch::of(rest.with_read_inputs(), &self.gives))
    }

    /// The kernel whose own launch it is; `None` where a later launch would read what it gives.
    fn as_root(&self, name: &str, inputs: &[Input]) -> Option<Graph> {
        let mut outputs: Vec<(u32, Output)> = Vec::new();
        for input in &self.gives {
            let own = self.graph.outputs().iter().find(|output| output.name == input.name)?;
            outputs.push((input.result?, own.clone()));
        }
        outputs.sort_by_key(|(place, _)| *place);
        let root = self.graph.on_inputs(inputs).named(name);
        let mut root = root.without_outputs();
        for (_, output) in outputs {
            root.push_output(output);
        }
        Some(root)
    }
}

/// A number that the host passes.
fn number(name: &str) -> Input {
    Input {
        name: name.to_owned(),
        dtype: DType::I32,
        dims: None,
        same_as: None,
        computed: None,
        result: None,
        in_mainloop: false,
    }
}

/// A sum that launches store.
fn stored(name: &str, graph: &Arc<Graph>, dims: Vec<Dim>) -> Input {
    Input::computed_by(graph.clone(), name.to_owned(), DType::F32, dims)
}

/// Whether an input varies along a dim.
fn has(input: &Input, whole: &Dim) -> bool {
    input.dims.iter().flatten().any(|dim| dim == whole)
}

/// Whether a value between launches does.
fn is_stored_along(input: &Input, whole: &Dim) -> bool {
    input.result.is_none() && has(input, whole)
}

/// Makes all nodes of a graph in another one, and says where they are.
fn rebuild(
    old: &Graph,
    new: &mut Graph,
    mut make: impl FnMut(&mut Graph, Op) -> NodeId,
) -> Vec<NodeId> {
    new.take_statements(old);
    let mut places = Vec::with_capacity(old.len());
    for (id, node) in old.nodes() {
        new.continue_statement(old, id);
        let op = node.op.map(|operand: NodeId| places[operand.index()]);
        places.push(make(new, op));
    }
    places
}

/// What a graph has to do with a dim; `None` where it needs the whole of it.
fn along(graph: &Graph, whole: &Dim) -> Option<Along> {
    let space = graph.space();
    let inputs = graph.inputs().iter().flat_map(|input| input.dims.iter().flatten());
    let outputs = graph.outputs().iter().flat_map(|output| &output.dims);
    let inner = || graph.products().iter().map(|product| &product.inner);
    let own = [&space.row, &space.column].into_iter().chain(&space.batch).chain(&space.parts);
    let all = inputs.chain(outputs).chain(inner()).chain(own);
    let mentioned: Vec<&Dim> = all.filter(|dim| is_made_of(dim, whole)).collect();
    if mentioned.is_empty() {
        return Some(Along::Outside);
    }
    let cut = |dims: &[Dim]| dims.contains(whole);
    let is_packed =
        |input: &Input| input.dtype.is_packed() && input.dims.as_deref().is_some_and(cut);
    let is_plain = mentioned.iter().all(|dim| **dim == *whole)
        && !graph.inputs().iter().any(is_packed)
        && !graph.outputs().iter().any(|output| output.dtype.is_packed())
        && space.splits.is_empty()
        && !space.is_segmented()
        && !space.batch.contains(whole)
        && graph.products().iter().all(|it| it.scales.is_empty() && it.segments.is_none());
    if !is_plain {
        return None;
    }
    match (space.row == *whole, space.column == *whole, inner().any(|inner| inner == whole)) {
        (true, false, false) => mapped(graph, whole, IndexAxis::Row),
        (false, true, false) => mapped(graph, whole, IndexAxis::Column),
        (false, false, true) => summed(graph, whole),
        _ => None,
    }
}

fn mapped(graph: &Graph, whole: &Dim, axis: IndexAxis) -> Option<Along> {
    let is_row = axis == IndexAxis::Row;
    let live = graph.live();
    let mut nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let all = nodes.all(|(_, node)| !needs_whole(graph, &node.op, whole, is_row));
    let outputs = graph.outputs().iter().all(|it| it.stack.is_none() && it.dims.contains(whole));
    (all && outputs).then_some(Along::Mapped(axis))
}

fn summed(graph: &Graph, whole: &Dim) -> Option<Along> {
    let [product] = graph.products() else { return None };
    let varies = |op: &Op| match op {
        Op::Input(input) | Op::Take(input, _) | Op::Entry(input, ..) => {
            graph.inputs()[input.0 as usize].dims.iter().flatten().any(|dim| dim == whole)
        }
        _ => false,
    };
    let reads = graph.nodes().any(|(_, node)| varies(&node.op));
    (product.elem == Elem::F32 && !reads).then_some(Along::Summed)
}
