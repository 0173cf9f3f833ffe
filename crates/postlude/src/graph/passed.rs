//! Inputs that a call passes, where some are others under other dims.

use super::{Graph, Input};

impl Graph {
    /// Inputs that a call passes: all but second names of other inputs.
    pub fn passed_inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| input.same_as.is_none())
    }

    /// For each input, the place of its argument among the arguments of a call.
    pub(crate) fn passed_places(&self) -> Vec<usize> {
        let mut passed = 0;
        let mut places: Vec<usize> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            if let Some(other) = input.same_as {
                places.push(places[other.0 as usize]);
            } else {
                places.push(passed);
                passed += 1;
            }
        }
        places
    }

    /// The input whose argument an input reads: itself, unless it is another one under other dims.
    pub fn passed_as<'a>(&'a self, input: &'a Input) -> &'a Input {
        input.same_as.map_or(input, |other| &self.inputs[other.0 as usize])
    }
}
