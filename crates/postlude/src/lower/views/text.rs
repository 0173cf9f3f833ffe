//! The text of views: lines of a tile program.

use crate::graph::{Graph, Input, Output};

use super::slice::Slice;
use super::view::{View, Views};

/// A line of a text: its number and what stands there.
type Line = (usize, String);

impl Views {
    /// A line for each view of an input, and one that says what a fixed size was divided by.
    pub(crate) fn input_lines(&self, graph: &Graph) -> Vec<String> {
        if self.whole {
            return Vec::new();
        }
        let own = &graph.inputs()[self.inputs..];
        let line = |(view, input): (&View, &Input)| {
            let dim = view.columns.map_or(0, |(dim, _)| dim);
            format!("{} of {}, dim {dim}", input.name, graph.inputs()[view.of].name)
        };
        let divided = format!("columns / {}", self.divided);
        [divided].into_iter().chain(self.of_inputs.iter().zip(own).map(line)).collect()
    }

    /// What an output is of the kernel's, where that is not itself.
    pub(crate) fn output_line(&self, place: usize) -> Option<String> {
        let view = self.of_outputs[place];
        if self.whole && self.of_outputs.iter().all(|view| view.stacked.is_none()) {
            return None;
        }
        Some(match (view.columns, view.stacked) {
            (_, Some((dim, place))) => format!("element {place} of {}, dim {dim}", view.of),
            (Some((dim, slice)), None) => format!("{} of {}, dim {dim}", slice.name(), view.of),
            (None, None) => format!("all of {}", view.of),
        })
    }

    /// Reads them, or says which line is none.
    pub(crate) fn read(graph: &Graph, inputs: &[Line], outputs: &[Line]) -> Result<Views, Line> {
        let bad = |line: &Line| line.clone();
        let whole = inputs.is_empty();
        if whole && outputs.iter().all(|(_, line)| line.is_empty()) {
            return Ok(Views::whole(graph));
        }
        let (first, views) = inputs.split_at(usize::from(!whole));
        let divided = match first {
            [(_, line)] => line.strip_prefix("columns / ").and_then(|by| by.parse().ok()),
            _ => Some(1),
        };
        let own = graph.inputs().len().saturating_sub(views.len());
        let input = |line: &Line| {
            let (name, of, dim) = parted(&line.1)?;
            let of = graph.inputs()[..own].iter().position(|input| input.name == of)?;
            let slice = name.strip_prefix(&*graph.inputs()[of].name)?.strip_prefix('.')?;
            let rank = graph.inputs()[of].dims.as_ref().map_or(0, Vec::len);
            let dim = dim.filter(|dim| *dim < rank)?;
            Some(View { of, columns: Some((dim, named(slice)?)), stacked: None })
        };
        let output = |(line, declared): (&Line, &Output)| {
            let (slice, of, dim) = parted(&line.1)?;
            let of = of.parse().ok().filter(|of| *of < graph.outputs().len())?;
            if let Some(place) = slice.strip_prefix("element ") {
                let dim = dim.filter(|dim| *dim <= declared.dims.len())?;
                let stacked = Some((dim, place.parse().ok()?));
                return Some(View { of, columns: None, stacked });
            }
            let dim = dim.filter(|dim| *dim < declared.dims.len());
            let columns = if slice == "all" { None } else { Some((dim?, named(slice)?)) };
            Some(View { of, columns, stacked: None })
        };
        let read = |line, view: Option<View>| view.ok_or_else(|| bad(line));
        Ok(Views {
            inputs: own,
            of_inputs: views
                .iter()
                .map(|line| read(line, input(line)))
                .collect::<Result<_, _>>()?,
            of_outputs: outputs
                .iter()
                .zip(graph.outputs())
                .map(|(line, declared)| read(line, output((line, declared))))
                .collect::<Result<_, _>>()?,
            divided: divided.ok_or_else(|| bad(&inputs[0]))?,
            whole,
        })
    }
}

/// What stands before ` of `, behind it, and the dim if one is named.
fn parted(line: &str) -> Option<(&str, &str, Option<usize>)> {
    let (name, rest) = line.split_once(" of ")?;
    let (of, dim) = rest.split_once(", dim ").map_or((rest, None), |(of, dim)| (of, Some(dim)));
    Some((name, of, dim.and_then(|dim| dim.parse().ok())))
}

fn named(name: &str) -> Option<Slice> {
    Slice::all().find(|slice| slice.name() == name)
}
