//! What a call writes: the outputs of the kernel's graph, and the outputs that earlier graphs compute.

use std::sync::Arc;

use crate::dtype::DType;
use crate::shape::Dim;

use super::{Graph, Input};

/// A result as the signature declares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultOf<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its element type in memory.
    pub dtype: DType,
    /// Its dims.
    pub dims: &'a [Dim],
}

impl Input {
    /// Its place among the results, where an earlier graph computes it as one.
    pub(crate) fn result_place(&self) -> Option<usize> {
        self.result.filter(|_| self.computed.is_some()).map(|place| place as usize)
    }
}

impl Graph {
    /// What a call writes, in the order of the signature.
    pub fn results(&self) -> Vec<ResultOf<'_>> {
        let own = self.outputs.iter().map(|output| ResultOf {
            name: &output.name,
            dtype: output.dtype,
            dims: &output.dims,
        });
        let own = self.own_results().into_iter().zip(own);
        let computed = self.inputs.iter().filter_map(|input| {
            let dims = input.dims.as_deref().unwrap_or_default();
            let result = ResultOf { name: &input.name, dtype: input.dtype, dims };
            Some((input.result_place()?, result))
        });
        let mut all: Vec<(usize, ResultOf<'_>)> = own.chain(computed).collect();
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, result)| result).collect()
    }

    /// For each output of the graph itself, its place among the results.
    pub(crate) fn own_results(&self) -> Vec<usize> {
        let computed: Vec<usize> = self.inputs.iter().filter_map(Input::result_place).collect();
        let own = (0..).filter(|place| !computed.contains(place));
        own.take(self.outputs.len()).collect()
    }

    /// The same graph, which stores nothing itself.
    pub(crate) fn without_outputs(&self) -> Graph {
        Graph { outputs: Vec::new(), ..self.clone() }
    }

    /// The same kernel with only the results of these names; all of them for `None`.
    pub fn keeping(&self, keep: Option<&[&str]>) -> Graph {
        let Some(keep) = keep else { return self.clone() };
        let mut kept = self.clone();
        kept.outputs.retain(|output| keep.contains(&output.name.as_str()));
        let results = self.results();
        let names = results.iter().map(|result| result.name).filter(|name| keep.contains(name));
        let names: Vec<&str> = names.collect();
        for input in kept.inputs.iter_mut().filter(|input| input.result_place().is_some()) {
            let place = names.iter().position(|name| *name == input.name);
            input.result = place.map(|place| place as u32);
        }
        let kept = if kept.outputs.is_empty() { kept.of_last_source() } else { kept };
        kept.without_unread()
    }

    /// The same kernel, whose own graph stores nothing, as that of the last graph that stores results.
    fn of_last_source(self) -> Graph {
        let last = self.inputs.iter().rposition(|input| input.result_place().is_some());
        let Some(computed) = last.and_then(|last| self.inputs[last].computed.clone()) else {
            return self;
        };
        let mut inputs = self.inputs.clone();
        let mut places: Vec<(u32, String)> = Vec::new();
        for input in &mut inputs {
            let own = input.computed.as_ref().is_some_and(|graph| Arc::ptr_eq(graph, &computed));
            if let (true, Some(place)) = (own, input.result) {
                places.push((place, input.name.clone()));
                input.result = None;
            }
        }
        places.sort();
        let mut root = computed.on_inputs(&inputs).named(self.name());
        let own = std::mem::take(&mut root.outputs);
        let named = |name: &String| own.iter().find(|output| output.name == *name).cloned();
        root.outputs = places.iter().filter_map(|(_, name)| named(name)).collect();
        root
    }
}
