//! The tensors of a call as its launches see them: which tensor, which part of it, and where that lies.

use crate::dtype::DType;
use crate::graph::Graph;
use crate::placement::{Placement, Placements};
use crate::problem::Problem;

/// Whose memory a tensor is in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Base {
    /// A declared input of the call, by place.
    Input(usize),
    /// A result of the call, by place.
    Result(usize),
    /// A value between launches.
    Stored(usize),
    /// A number that the call does not pass.
    Number(f64),
    /// None: the launch does not read it from memory.
    Nowhere,
}

/// Some of a tensor along one dim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) dim: usize,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// A tensor, or a part of one.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct View {
    pub(crate) base: Base,
    /// One part of the other.
    pub(crate) parts: Vec<Part>,
    /// Bytes from the first element of the tensor to that of the part.
    pub(crate) shift: i64,
}

impl View {
    pub(super) const fn whole(base: Base) -> View {
        View { base, parts: Vec::new(), shift: 0 }
    }
}

/// A tensor, or a number, of a call.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) view: View,
    /// Where it lies; `None` for a number.
    pub(super) placement: Option<Placement>,
}

impl Located {
    /// Some of it along a dim.
    pub(super) fn part(&self, part: Part, dtype: DType) -> Located {
        let Some(placement) = &self.placement else { return self.clone() };
        // What a list has elsewhere is in its table.
        let is_item = part.dim == 0 && placement.list.is_some();
        let steps =
            if is_item { 0 } else { part.first as i64 * placement.strides[part.dim] as i64 };
        let bytes = steps * placement.dtype(dtype).bits() as i64 / 8;
        let parts = self.view.parts.iter().copied().chain([part]).collect();
        let view = View { base: self.view.base, parts, shift: self.view.shift + bytes };
        let start = placement.start.wrapping_add_signed(bytes) % Placement::PERIOD;
        Located { view, placement: Some(Placement { start, ..placement.clone() }) }
    }
}

/// Where the tensors of a call lie: inputs that are declared, and all results.
#[derive(Clone, Debug)]
pub(crate) struct CallTensors {
    pub(super) declared: Vec<Located>,
    pub(super) results: Vec<Located>,
}

impl CallTensors {
    /// Declared inputs and results that lie so.
    pub(crate) fn of(declared: Vec<Option<Placement>>, results: Vec<Placement>) -> CallTensors {
        let located = |base, placement| Located { view: View::whole(base), placement };
        let declared = declared.into_iter().enumerate();
        let results = results.into_iter().enumerate();
        CallTensors {
            declared: declared.map(|(place, it)| located(Base::Input(place), it)).collect(),
            results: results.map(|(place, it)| located(Base::Result(place), Some(it))).collect(),
        }
    }

    /// Declared inputs as placements of a graph have them, and results without gaps.
    pub(crate) fn with_packed_results(
        graph: &Graph,
        problem: &Problem,
        mut inputs: Vec<Option<Placement>>,
    ) -> CallTensors {
        inputs.truncate(graph.declared_inputs().len());
        let results = graph.results().into_iter();
        let results = results.map(|result| Placement::packed(&problem.shape(result.dims)));
        CallTensors::of(inputs, results.collect())
    }

    /// What a view of declared inputs or results is here.
    #[cfg(feature = "cuda")]
    pub(super) fn locate(&self, view: &View, dtype: DType) -> Option<Located> {
        let whole = match view.base {
            Base::Input(place) => &self.declared[place],
            Base::Result(place) => &self.results[place],
            Base::Stored(_) | Base::Number(_) | Base::Nowhere => return None,
        };
        let parts = view.parts.iter();
        Some(parts.fold(whole.clone(), |located, part| located.part(*part, dtype)))
    }

    /// Where declared inputs lie, and where results do.
    #[cfg(feature = "cuda")]
    pub(crate) fn lie(&self) -> [impl Iterator<Item = Option<&Placement>>; 2] {
        [&self.declared, &self.results].map(|all| all.iter().map(|it| it.placement.as_ref()))
    }

    /// Where everything of a launch lies whose declared inputs these are.
    pub(super) fn placements(&self, graph: &Graph, problem: &Problem) -> Placements {
        let mut placements = Placements::packed(graph, problem);
        for (place, input) in graph.inputs().iter().enumerate() {
            match (self.declared.get(place), input.result_place()) {
                (Some(declared), _) => placements.inputs[place].clone_from(&declared.placement),
                (None, Some(result)) => {
                    placements.inputs[place].clone_from(&self.results[result].placement);
                }
                (None, None) => {}
            }
        }
        let own = graph.own_results().into_iter();
        let own = own.filter_map(|place| self.results[place].placement.clone());
        Placements { outputs: own.collect(), ..placements }
    }
}
