//! Where the tensors of a call lie: strides, and how their first elements are aligned.

use crate::dtype::DType;
use crate::graph::{Graph, Input, InputId};
use crate::problem::Problem;

/// Where a tensor lies in the GPU's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Elements between neighbours along each declared dim.
    pub strides: Vec<isize>,
    /// The address of the first element, in bytes beyond a multiple of [`Placement::PERIOD`].
    pub start: u64,
    /// Where the first dim numbers tensors of a list: one more than the most steps of the first stride that one of them lies
    /// from the address. A table says how many steps each does. `None` where they lie one stride apart.
    pub list: Option<usize>,
    /// Whether it is of int64, of which a kernel reads the nearest i32.
    pub is_int64: bool,
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
    /// What rows between launches are a multiple of, unless they are shorter than the second: a tensor map's strides.
    const ROW_BYTES: usize = 16;
    const LONG_ROW_BYTES: usize = 64;

    /// A tensor whose first element has this address.
    pub fn at(strides: Vec<isize>, address: u64) -> Placement {
        Placement { strides, start: address % Placement::PERIOD, list: None, is_int64: false }
    }

    /// The same as a list whose tensors lie up to as many steps of the first stride, less one, from the address.
    #[must_use]
    pub fn listed(self, steps: usize) -> Placement {
        Placement { list: Some(steps), ..self }
    }

    /// The same with elements of this type.
    #[must_use]
    pub(crate) fn of_dtype(self, dtype: DType) -> Placement {
        Placement { is_int64: dtype == DType::I64, ..self }
    }

    /// The type of its elements, which are declared as this one.
    pub(crate) fn dtype(&self, declared: DType) -> DType {
        if self.is_int64 { DType::I64 } else { declared }
    }

    /// What the address of the first element is a multiple of, in bytes.
    pub(crate) fn alignment(&self) -> u64 {
        1 << self.start.trailing_zeros().min(Placement::PERIOD.trailing_zeros())
    }

    /// A tensor that a launch stores for a later one. Rows begin where tensor maps can read them, unless they are short.
    pub fn between_launches(dtype: DType, shape: &[usize]) -> Placement {
        let packed = crate::tensor::contiguous(shape);
        let (Some(columns), 2..) = (shape.last(), shape.len()) else {
            return Placement::at(packed, 0);
        };
        let elements = Placement::ROW_BYTES * 8 / dtype.bits();
        if dtype.is_packed() || *columns < Placement::LONG_ROW_BYTES * 8 / dtype.bits() {
            return Placement::at(packed, 0);
        }
        let padded = columns.next_multiple_of(elements) as isize;
        let mut strides = vec![1; shape.len()];
        for (place, stride) in strides.iter_mut().enumerate().rev().skip(1) {
            let rows = &shape[place + 1..shape.len() - 1];
            *stride = rows.iter().fold(padded, |all, size| all * (*size).max(1) as isize);
        }
        Placement::at(strides, 0)
    }

    /// Where an input that is computed and no output of the kernel lies.
    #[doc(hidden)]
    pub fn of_computed(input: &Input, problem: &Problem) -> Option<Placement> {
        let (Some(_), None, Some(dims)) = (&input.computed, input.result, &input.dims) else {
            return None;
        };
        Some(Placement::between_launches(input.dtype, &problem.shape(dims)))
    }

    /// Bytes from the first element of such a tensor to the end of the last one's row.
    pub(crate) fn bytes(&self, dtype: DType, shape: &[usize]) -> usize {
        match (self.strides.first(), shape.first()) {
            (Some(stride), Some(count)) => dtype.bytes_for(*stride as usize * count),
            (_, None) | (None, _) => dtype.bytes_for(1),
        }
    }

    /// Rows without gaps, in memory of its own.
    pub fn packed(shape: &[usize]) -> Placement {
        Placement::at(crate::tensor::contiguous(shape), 0)
    }
}

impl Placements {
    /// Everything that a call passes without gaps, each in memory of its own.
    pub fn packed(graph: &Graph, problem: &Problem) -> Placements {
        let packed = |dims: &Vec<_>| Placement::packed(&problem.shape(dims));
        let input = |input: &Input| {
            let computed = Placement::of_computed(input, problem);
            computed.or_else(|| input.dims.as_ref().map(packed))
        };
        Placements {
            inputs: graph.inputs().iter().map(input).collect(),
            outputs: graph.outputs().iter().map(|output| packed(&output.dims)).collect(),
        }
    }

    /// The same where the inputs in these places are of int64.
    #[must_use]
    pub(crate) fn with_int64(mut self, places: &[usize]) -> Placements {
        for (place, placement) in self.inputs.iter_mut().enumerate() {
            if let Some(placement) = placement {
                placement.is_int64 = places.contains(&place);
            }
        }
        self
    }

    /// The places of inputs that are of int64.
    pub(crate) fn int64_inputs(&self) -> Vec<usize> {
        let inputs = self.inputs.iter().enumerate();
        let wide = inputs.filter(|(_, it)| it.as_ref().is_some_and(|it| it.is_int64));
        wide.map(|(place, _)| place).collect()
    }

    /// Where an input lies.
    pub(crate) fn input(&self, input: InputId) -> &Placement {
        self.inputs[input.0 as usize]
            .as_ref()
            .unwrap_or_else(|| panic!("compiler bug: input {} lies in no memory", input.0))
    }
}
