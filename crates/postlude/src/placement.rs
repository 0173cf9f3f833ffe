//! Where the tensors of a call lie: strides, and how their first elements are aligned.

use crate::graph::{Graph, InputId};
use crate::problem::Problem;

/// Where a tensor lies in the GPU's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Elements between neighbours along each declared dim.
    pub strides: Vec<isize>,
    /// The address of the first element, in bytes beyond a multiple of [`Placement::PERIOD`].
    pub start: u64,
}

/// Where everything lies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placements {
    /// By place in the signature; `None` for what the host passes.
    pub inputs: Vec<Option<Placement>>,
    /// By place in the signature.
    pub outputs: Vec<Placement>,
}

/// Whose elements are neighbours in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Major {
    /// A row's.
    Row,
    /// A column's.
    Column,
}

impl Placement {
    /// What addresses are compared to.
    pub const PERIOD: u64 = 256;

    /// A tensor whose first element has this address.
    pub fn at(strides: Vec<isize>, address: u64) -> Placement {
        Placement { strides, start: address % Placement::PERIOD }
    }

    /// What the address of the first element is a multiple of, in bytes.
    pub(crate) fn alignment(&self) -> u64 {
        1 << self.start.trailing_zeros().min(Placement::PERIOD.trailing_zeros())
    }

    /// Rows without gaps, in memory of its own.
    pub fn packed(shape: &[usize]) -> Placement {
        Placement::at(crate::tensor::contiguous(shape), 0)
    }
}

impl Placements {
    /// Everything without gaps, each in memory of its own.
    pub fn packed(graph: &Graph, problem: &Problem) -> Placements {
        let packed = |dims: &Vec<_>| Placement::packed(&problem.shape(dims));
        Placements {
            inputs: graph.inputs().iter().map(|input| input.dims.as_ref().map(packed)).collect(),
            outputs: graph.outputs().iter().map(|output| packed(&output.dims)).collect(),
        }
    }

    /// Where an input lies.
    pub(crate) fn input(&self, input: InputId) -> &Placement {
        self.inputs[input.0 as usize]
            .as_ref()
            .unwrap_or_else(|| panic!("compiler bug: input {} lies in no memory", input.0))
    }
}
