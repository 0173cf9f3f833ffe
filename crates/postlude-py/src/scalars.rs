//! Numbers that the host passes.

use postlude::DType;
use pyo3::prelude::*;

use crate::error::mistake;

/// Integers that the host passes are whole numbers that i32 holds.
pub(crate) fn whole_numbers(
    py: Python<'_>,
    graph: &postlude::graph::Graph,
    scalars: &[Option<f64>],
) -> PyResult<()> {
    for (input, scalar) in graph.passed_inputs().zip(scalars) {
        let Some(value) = scalar else { continue };
        let fits =
            value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(value);
        if input.dtype == DType::I32 && !fits {
            let message = format!("`{}` is {value}, and i32 does not hold it", input.name);
            return Err(mistake(
                py,
                &message,
                Some("give a whole number of 32 bits, or declare it f32"),
            ));
        }
    }
    Ok(())
}
