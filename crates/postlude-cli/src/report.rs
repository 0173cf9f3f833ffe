//! What `run` prints: one line an output, or one JSON object.

use std::collections::BTreeMap;

use postlude::{Backend, Tensor};
use serde::Serialize;
use serde_json::Value;

use crate::comparison::CheckReport;
use crate::watch::Simulated;
use crate::{display, measure, memory, print};

/// A finished run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    pub(crate) kernel: String,
    pub(crate) backend: &'static str,
    /// Why no GPU ran it, where the backend is `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    pub(crate) sizes: BTreeMap<String, usize>,
    pub(crate) outputs: Vec<OutputReport>,
    pub(crate) check: Option<CheckReport>,
    pub(crate) seconds: Option<f64>,
    /// What took turns on a GPU while the time was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sets: Option<Sets>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulation: Option<Simulated>,
}

/// The time of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) seconds: f64,
    pub(crate) sets: Option<Sets>,
}

/// Sets of a call's tensors that launches on a GPU took in turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sets {
    pub(crate) count: usize,
    /// Of one set.
    pub(crate) bytes: u64,
    /// Whether the L2 has room for all of them.
    pub(crate) cached: bool,
}

impl Sets {
    fn text(self) -> String {
        let from = if self.cached { "the L2" } else { "memory" };
        let Sets { count, bytes, .. } = self;
        format!(
            ", {count} sets of {} in turn: tensors come from {from}",
            memory::amount(bytes.into())
        )
    }
}

/// An output in a few numbers.
#[derive(Debug, Serialize)]
pub(crate) struct OutputReport {
    name: String,
    dtype: &'static str,
    shape: Vec<usize>,
    mean: Option<f64>,
    absmax: Option<f64>,
    /// How many elements are nan.
    nan: usize,
    /// The elements, where they are to be printed: null if they are many.
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<Value>,
    #[serde(skip)]
    shown: (f64, f64),
    #[serde(skip)]
    elements: Option<String>,
}

impl OutputReport {
    /// Looks at every element.
    pub(crate) fn of(name: &str, tensor: &Tensor) -> OutputReport {
        let (mut sum, mut absmax, mut nan) = (0.0, 0.0, 0);
        tensor.view().for_each(|value| {
            sum += value;
            nan += usize::from(value.is_nan());
            // Unlike `f64::max`, nan stays.
            absmax = if value.is_nan() || value.abs() > absmax { value.abs() } else { absmax };
        });
        let mean = sum / tensor.len() as f64;
        OutputReport {
            name: name.to_owned(),
            dtype: tensor.dtype().name(),
            shape: tensor.shape().to_vec(),
            mean: finite(mean),
            absmax: finite(absmax),
            nan,
            values: None,
            shown: (mean, absmax),
            elements: None,
        }
    }

    /// The same with the tensor's elements.
    pub(crate) fn with_elements(self, tensor: &Tensor) -> OutputReport {
        let (values, elements) = (display::value(tensor), display::text(tensor));
        OutputReport { values: Some(values), elements: Some(elements), ..self }
    }
}

impl Report {
    /// For a person.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.outputs.iter().map(OutputReport::row).collect();
        let mut text = print::table(&rows);
        for output in self.outputs.iter().filter(|output| output.is_all_nan()) {
            text.push_str(&format!("WARNING: every element of `{}` is nan\n", output.name));
        }
        for output in &self.outputs {
            if let Some(elements) = &output.elements {
                text.push_str(&format!("{}: {}\n{elements}\n", output.name, output.type_text()));
            }
        }
        if let Some(check) = &self.check {
            text.push_str(&check.text());
        }
        if let Some(seconds) = self.seconds {
            let sets = self.sets.map(Sets::text).unwrap_or_default();
            let time = measure::duration(seconds);
            text.push_str(&format!("time  {time} {}{sets}\n", self.clock()));
        }
        if let Some(simulation) = &self.simulation {
            text.push_str(&simulation.text());
        }
        text
    }

    /// Where the time was taken.
    fn clock(&self) -> String {
        if self.backend == Backend::Sim.name() {
            "in the simulator: its own time, not a GPU's".to_owned()
        } else {
            format!("on {}", self.backend)
        }
    }
}

impl OutputReport {
    fn is_all_nan(&self) -> bool {
        self.nan > 0 && self.nan == self.shape.iter().product::<usize>()
    }

    pub(crate) fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.type_text(),
            format!("mean {}", number(self.shown.0)),
            format!("absmax {}", number(self.shown.1)),
        ]
    }
}

impl OutputReport {
    fn type_text(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        format!("{}[{}]", self.dtype, shape.join(", "))
    }
}

/// JSON has no infinities and no nan.
pub(crate) fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Six digits, whatever the size.
pub(crate) fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 || !value.is_finite() {
        format!("{value}").to_lowercase()
    } else if (1e-4..1e7).contains(&magnitude) {
        let digits = 5 - magnitude.log10().floor() as i32;
        let text = format!("{value:.*}", digits.clamp(0, 9) as usize);
        let text = if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.')
        } else {
            &text
        };
        text.to_owned()
    } else {
        format!("{value:.5e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postlude::DType;

    #[test]
    fn numbers_have_six_digits_at_most() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.25, "-0.25"),
            (1234567.0, "1234567"),
            (123.456789, "123.457"),
            (1.5e-9, "1.50000e-9"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn nan_and_infinity_are_not_hidden() {
        let tensor = Tensor::from_values(DType::F32, vec![3], &[1.0, f64::NAN, 2.0]).unwrap();
        let report = OutputReport::of("D", &tensor);
        assert_eq!((report.mean, report.absmax), (None, None));
        let empty = Tensor::zeros(DType::F32, vec![0]).unwrap();
        assert_eq!(OutputReport::of("D", &empty).absmax, Some(0.0));
    }
}
