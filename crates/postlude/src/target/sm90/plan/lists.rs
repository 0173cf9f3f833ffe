//! Tensors that a call gives as lists: which of a program's are, and where a kernel finds them.
//!
//! A list's tensors lie anywhere. Its batch stride divides the distances between them, and a table in memory has the number
//! of steps to each, which a kernel reads once it knows a work tile's batch.

use crate::graph::{Graph, InputId};
use crate::lower::TileProgram;
use crate::placement::{Placement, Placements};
use crate::shape::Dim;

use super::refusal::Sm90Refusal;
use super::widened::{Widened, widened_operand};

/// The inputs and outputs of a program that are lists.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Lists {
    pub(super) inputs: Vec<InputId>,
    /// By place among the outputs.
    pub(super) outputs: Vec<usize>,
}

impl Lists {
    /// Those of a program whose tensors lie so, inputs that it does not read left out.
    pub(super) fn of(program: &TileProgram, placements: &Placements) -> Lists {
        let graph = program.graph();
        let is_listed = |input: &InputId| {
            let placement = placements.inputs[input.0 as usize].as_ref();
            placement.is_some_and(|placement| placement.list.is_some())
        };
        let mut inputs = read(program);
        inputs.retain(is_listed);
        let outputs =
            (0..graph.outputs().len()).filter(|place| placements.outputs[*place].list.is_some());
        Lists { inputs, outputs: outputs.collect() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.outputs.is_empty()
    }

    pub(super) fn has_input(&self, input: InputId) -> bool {
        self.inputs.contains(&input)
    }

    pub(super) fn has_output(&self, place: usize) -> bool {
        self.outputs.contains(&place)
    }

    /// The number of the batch dim that an input is a list along, where it is one.
    pub(crate) fn dim_of_input(&self, graph: &Graph, input: InputId) -> Option<usize> {
        let dims = graph.inputs()[input.0 as usize].dims.as_deref()?;
        listed_dim(graph, dims).filter(|_| self.has_input(input))
    }

    /// The same of an output.
    pub(crate) fn dim_of_output(&self, graph: &Graph, place: usize) -> Option<usize> {
        let dims = &graph.outputs()[place].dims;
        listed_dim(graph, dims).filter(|_| self.has_output(place))
    }

    /// The words of a printed schedule.
    pub(super) fn words(&self) -> String {
        let inputs = self.inputs.iter().map(|input| format!("input{}", input.0));
        let outputs = self.outputs.iter().map(|place| format!("output{place}"));
        inputs.chain(outputs).collect::<Vec<_>>().join(" ")
    }

    /// The same read back.
    pub(super) fn read(text: &str) -> Option<Lists> {
        let mut lists = Lists::default();
        for word in text.split_whitespace() {
            match word.strip_prefix("input") {
                Some(number) => lists.inputs.push(InputId(number.parse().ok()?)),
                None => lists.outputs.push(word.strip_prefix("output")?.parse().ok()?),
            }
        }
        (!lists.is_empty()).then_some(lists)
    }

    /// Refuses lists that are numbered by something else than a batch dim, and lists that threads read element by element
    /// wherever they want.
    pub(super) fn refuse(
        program: &TileProgram,
        placements: &Placements,
    ) -> Result<(), Sm90Refusal> {
        let (graph, lists) = (program.graph(), Lists::of(program, placements));
        let refuse = |name: &str| Err(Sm90Refusal::List { name: name.to_owned() });
        for input in &lists.inputs {
            let declared = &graph.inputs()[input.0 as usize];
            let dims = declared.dims.as_deref().unwrap_or_default();
            if listed_dim(graph, dims).is_none() || graph.is_table(*input) || is_ends(graph, *input)
            {
                return refuse(&declared.name);
            }
        }
        for place in &lists.outputs {
            let output = &graph.outputs()[*place];
            if listed_dim(graph, &output.dims).is_none() {
                return refuse(&output.name);
            }
        }
        Ok(())
    }
}

/// Every input that a launch reads, each once.
fn read(program: &TileProgram) -> Vec<InputId> {
    let graph = program.graph();
    let products = graph.products().iter();
    let operands = products.flat_map(|product| {
        let scales = product.scales.iter().map(|scale| scale.input);
        [product.left.0, product.right.0].into_iter().chain(scales)
    });
    let widened = widened_operand(graph)
        .and_then(|(_, operand)| Widened::of(&graph.inputs()[operand.0 as usize]));
    let shared = widened.iter().flat_map(|widened| widened.graph.inputs());
    let shared = shared.map(|input| InputId(graph.place_of(&input.name) as u32));
    let ends = [graph.ends(), graph.contraction_ends(), graph.row_counts()];
    let body = program.body_inputs.iter().copied();
    let mut all: Vec<InputId> =
        operands.chain(shared).chain(ends.into_iter().flatten()).chain(body).collect();
    all.sort_unstable_by_key(|input| input.0);
    all.dedup();
    all
}

/// The number of the batch dim that a tensor's first dim is.
fn listed_dim(graph: &Graph, dims: &[Dim]) -> Option<usize> {
    graph.space().batch.iter().position(|dim| Some(dim) == dims.first())
}

/// How far the tensors of a list lie.
#[derive(Clone, Copy)]
pub(crate) struct ListSteps {
    /// The number of the batch dim that numbers them.
    pub(crate) dim: usize,
    /// One more than the most steps of that dim's stride that one of them lies from the address.
    pub(crate) count: usize,
}

impl ListSteps {
    /// Those of a tensor with these dims, where it is a list.
    pub(crate) fn of(graph: &Graph, dims: &[Dim], placement: &Placement) -> Option<ListSteps> {
        Some(ListSteps { dim: listed_dim(graph, dims)?, count: placement.list? })
    }
}

/// Whether an input has ends of segments or counts of rows.
fn is_ends(graph: &Graph, input: InputId) -> bool {
    [graph.ends(), graph.contraction_ends(), graph.row_counts()].contains(&Some(input))
}
