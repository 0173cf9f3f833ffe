//! Tensors whose strides a launch passes once: many vectors of the same dims that lie alike.

use crate::graph::Graph;
use crate::lower::TileProgram;
use crate::placement::Placements;

use super::needs::Needs;
use super::place::EpilogueTransfer;

/// For every tensor of the epilogue, the one before it whose strides it has; `None` where it has its own.
pub(crate) struct SharedStrides {
    /// By place in [`TileProgram::body_inputs`].
    pub(crate) inputs: Vec<Option<usize>>,
    /// By place among the outputs.
    pub(crate) outputs: Vec<Option<usize>>,
    /// Outputs of long lists, which lie as far behind each other as the first two: they have no parameters.
    pub(crate) implied: Vec<bool>,
}

impl SharedStrides {
    /// Those of a launch.
    pub(crate) fn of(program: &TileProgram, needs: &Needs) -> SharedStrides {
        let graph = program.graph();
        let (inputs, outputs) = (&program.body_inputs, graph.outputs());
        let ranked = program.ranked();
        let follows = |place| ranked.as_ref().is_some_and(|ranked| ranked.follows(place));
        let implied = (0..outputs.len()).map(follows).collect();
        if !needs.shared_strides {
            return SharedStrides {
                inputs: vec![None; inputs.len()],
                outputs: vec![None; outputs.len()],
                implied,
            };
        }
        let input = |place: usize| {
            let (id, declared) = (inputs[place], &graph.inputs()[inputs[place].0 as usize]);
            let alone = program.tile_operands.contains(&id) || needs.lists.has_input(id);
            let dims = declared.dims.as_ref().filter(|_| !alone)?;
            Some((dims, declared.dtype.bits(), program.input_window(id)))
        };
        let output = |place: usize| {
            let output = &outputs[place];
            let is_finished = needs.epilogue_stores[place] == EpilogueTransfer::Finished;
            let shares = (is_finished || needs.by_elements) && !needs.lists.has_output(place);
            shares.then(|| (&output.name, output.dtype.bits(), program.output_window(place)))
        };
        SharedStrides {
            inputs: firsts(inputs.len(), input),
            outputs: firsts(outputs.len(), output),
            implied,
        }
    }

    /// Whether tensors that would have the same strides have them.
    pub(super) fn holds(&self, program: &TileProgram, placements: &Placements) -> bool {
        let graph: &Graph = program.graph();
        let input = |place: usize| &placements.input(program.body_inputs[place]).strides;
        let output = |place: usize| &placements.outputs[place].strides;
        let dims = |place: usize| &graph.outputs()[place].dims;
        let pairs = |all: &[Option<usize>]| -> Vec<(usize, usize)> {
            all.iter().enumerate().filter_map(|(place, first)| Some((place, (*first)?))).collect()
        };
        pairs(&self.inputs).iter().all(|(place, first)| input(*place) == input(*first))
            && pairs(&self.outputs)
                .iter()
                .all(|(a, b)| output(*a) == output(*b) && dims(*a) == dims(*b))
    }
}

/// For each of some, the first one before it that has the same key.
fn firsts<K: PartialEq>(count: usize, key: impl Fn(usize) -> Option<K>) -> Vec<Option<usize>> {
    let first = |place: usize| {
        let own = key(place)?;
        (0..place).find(|before| key(*before).as_ref() == Some(&own))
    };
    (0..count).map(first).collect()
}
