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
        if self.whole {
            return None;
        }
        Some(match view.columns {
            Some((dim, slice)) => format!("{} of {}, dim {dim}", slice.name(), view.of),
            None => format!("all of {}", view.of),
        })
    }

    /// Reads them, or says which line is none.
    pub(crate) fn read(graph: &Graph, inputs: &[Line], outputs: &[Line]) -> Result<Views, Line> {
        let Some(((_, divided), views)) = inputs.split_first() else {
            return Ok(Views::whole(graph));
        };
        let bad = |line: &Line| line.clone();
        let divided = divided.strip_prefix("columns / ").and_then(|by| by.parse().ok());
        let own = graph.inputs().len().saturating_sub(views.len());
        let input = |line: &Line| {
            let (name, of, dim) = parted(&line.1)?;
            let of = graph.inputs()[..own].iter().position(|input| input.name == of)?;
            let slice = name.strip_prefix(&*graph.inputs()[of].name)?.strip_prefix('.')?;
            let rank = graph.inputs()[of].dims.as_ref().map_or(0, Vec::len);
            let dim = dim.filter(|dim| *dim < rank)?;
            Some(View { of, columns: Some((dim, named(slice)?)) })
        };
        let output = |(line, declared): (&Line, &Output)| {
            let (slice, of, dim) = parted(&line.1)?;
            let of = of.parse().ok().filter(|of| *of < graph.outputs().len())?;
            let dim = dim.filter(|dim| *dim < declared.dims.len());
            let columns = if slice == "all" { None } else { Some((dim?, named(slice)?)) };
            Some(View { of, columns })
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
            whole: false,
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
