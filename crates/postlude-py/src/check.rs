//! Outputs of a call beside the reference.

use postlude::{Arguments, Error, Extent, Tensor};
use pyo3::prelude::*;

use crate::array;
use crate::call::Arrays;
use crate::error::mistake;
use crate::host::stacked;
use crate::kernel::{Given, Kernel, Typed};
use crate::list;

/// Compares outputs with the reference.
pub(crate) fn check(
    py: Python<'_>,
    kernel: &Kernel,
    typed: &Typed,
    given: &[Given<'_>],
    outputs: &[Bound<'_, PyAny>],
) -> PyResult<Vec<(String, usize, usize, f64)>> {
    let graph = typed.compiled.defined();
    let mut arrays = Arrays::of(graph, given);
    let names = typed.output_names();
    if outputs.len() != names.len() {
        let message = format!("{} arrays are given for {} outputs", outputs.len(), names.len());
        return Err(mistake(py, &message, Some(&format!("give {}", names.join(", ")))));
    }
    for (output, object) in graph.results().into_iter().zip(outputs) {
        let array = if let Some(items) = list::items(object) {
            list::read(py, output.name, &items)?.placed
        } else {
            let Some(protocol) = array::protocol(object) else {
                return Err(array::not_an_array(output.name, object));
            };
            array::read_named(output.name, object, protocol)?.array.into()
        };
        arrays.outputs.push(array.read_as(output.dtype));
    }
    let compare = || -> Result<Vec<(String, usize, usize, f64)>, Error> {
        let problem = arrays.problem(typed)?;
        // SAFETY: callers hold every array, and nothing writes while they are compared.
        let inputs = unsafe { arrays.arguments()? };
        let names = graph.passed_inputs().map(|input| input.name.clone());
        let arguments: Arguments<'_> = names.zip(inputs).collect();
        // SAFETY: as above.
        let results = arrays.outputs.iter().map(|array| unsafe { stacked(array) });
        let results: Vec<Tensor> = results.collect::<Result<_, _>>()?;
        let all =
            typed.compiled.check_extent(&problem, &arguments, &results, Extent::All, &|_, _| {})?;
        let names = graph.results().into_iter().map(|output| output.name.to_owned());
        Ok(names
            .zip(all)
            .map(|(name, one)| (name, one.coverage.elements, one.wrong, one.worst))
            .collect())
    };
    py.detach(compare).map_err(|error| kernel.call_error(py, &error))
}
