//! Inputs that a call passes, where some are others under other dims and some are computed.

use super::{Graph, Input};

impl Input {
    /// Whether a call passes it.
    pub fn is_passed(&self) -> bool {
        self.same_as.is_none() && self.computed.is_none()
    }
}

impl Graph {
    /// Inputs that a call passes: all but second names of other inputs and computed inputs.
    pub fn passed_inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| input.is_passed())
    }

    /// For each input, the place of its argument among the arguments of a call and, behind them, the computed inputs.
    pub(crate) fn passed_places(&self) -> Vec<usize> {
        let (mut passed, mut computed) = (0, self.passed_inputs().count());
        let mut places: Vec<usize> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let next = if input.computed.is_some() { &mut computed } else { &mut passed };
            if let Some(other) = input.same_as {
                places.push(places[other.0 as usize]);
            } else {
                places.push(*next);
                *next += 1;
            }
        }
        places
    }

    /// The input whose argument an input reads: itself, unless it is another one under other dims.
    pub fn passed_as<'a>(&'a self, input: &'a Input) -> &'a Input {
        input.same_as.map_or(input, |other| &self.inputs[other.0 as usize])
    }
}
