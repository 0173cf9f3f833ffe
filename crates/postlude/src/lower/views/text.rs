//! The text of views: lines of a tile program.

use crate::graph::{Graph, Input, Output};

use crate::shape::Dim;

use super::slice::Slice;
use super::view::{View, Views};
use super::window::{Number, Window};

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
            if let Some(number) = &view.number {
                return format!("{} of {}", input.name, number_text(number));
            }
            let of = &graph.inputs()[view.of].name;
            format!("{} of {of}{}", input.name, place_text(view))
        };
        let divided = format!("columns / {}", self.divided);
        let windows = self.windows.iter().map(window_text);
        let views = self.of_inputs.iter().zip(own).map(line);
        [divided].into_iter().chain(windows).chain(views).collect()
    }

    /// What an output is of the kernel's, where that is not itself.
    pub(crate) fn output_line(&self, place: usize) -> Option<String> {
        let view = &self.of_outputs[place];
        if self.whole && self.of_outputs.iter().all(|view| view.stacked.is_none()) {
            return None;
        }
        let name = match (view.columns, view.stacked) {
            (_, Some((_, place))) => format!("element {place}"),
            (Some((_, slice)), None) => slice.name(),
            (None, None) => "all".to_owned(),
        };
        Some(format!("{name} of {}{}", view.of, place_text(view)))
    }

    /// Reads them, or says which line is none.
    pub(crate) fn read(graph: &Graph, inputs: &[Line], outputs: &[Line]) -> Result<Views, Line> {
        let bad = |line: &Line| line.clone();
        let whole = inputs.is_empty();
        if whole && outputs.iter().all(|(_, line)| line.is_empty()) {
            return Ok(Views::whole(graph));
        }
        let (first, views) = inputs.split_at(usize::from(!whole));
        let is_window = |line: &&Line| line.1.starts_with("window ");
        let count = views.iter().take_while(is_window).count();
        let (windows, views) = views.split_at(count);
        let windows: Result<Vec<Window>, Line> =
            windows.iter().map(|line| read_window(&line.1).ok_or_else(|| bad(line))).collect();
        let divided = match first {
            [(_, line)] => line.strip_prefix("columns / ").and_then(|by| by.parse().ok()),
            _ => Some(1),
        };
        let own = graph.inputs().len().saturating_sub(views.len());
        let input = |line: &Line| {
            let Parted { name, of, dim, window } = parted(&line.1)?;
            if let Some(number) = read_number(of) {
                return Some(View { number: Some(number), ..View::all(0) });
            }
            let of = graph.inputs()[..own].iter().position(|input| input.name == of)?;
            let rank = graph.inputs()[of].dims.as_ref().map_or(0, Vec::len);
            let Some(dim) = dim.filter(|dim| *dim < rank) else {
                return window.map(|_| View { window, ..View::all(of) });
            };
            let slice = named(name.rsplit_once('.')?.1)?;
            Some(View { columns: Some((dim, slice)), window, ..View::all(of) })
        };
        let output = |(line, declared): (&Line, &Output)| {
            let Parted { name: slice, of, dim, window } = parted(&line.1)?;
            let of = of.parse().ok().filter(|of| *of < graph.outputs().len())?;
            if let Some(place) = slice.strip_prefix("element ") {
                let dim = dim.filter(|dim| *dim <= declared.dims.len())?;
                let stacked = Some((dim, place.parse().ok()?));
                return Some(View { stacked, window, ..View::all(of) });
            }
            let dim = dim.filter(|dim| *dim < declared.dims.len());
            let columns = if slice == "all" { None } else { Some((dim?, named(slice)?)) };
            Some(View { columns, window, ..View::all(of) })
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
            windows: windows?,
            divided: divided.ok_or_else(|| bad(&inputs[0]))?,
            whole,
        })
    }
}

/// What a line of a view says.
struct Parted<'a> {
    name: &'a str,
    of: &'a str,
    dim: Option<usize>,
    window: Option<usize>,
}

/// What stands before ` of `, behind it, and the dim and the window if they are named.
fn parted(line: &str) -> Option<Parted<'_>> {
    let (name, rest) = line.split_once(" of ")?;
    let (rest, window) = cut(rest, ", window ");
    let (of, dim) = cut(rest, ", dim ");
    Some(Parted { name, of, dim, window })
}

fn cut<'a>(text: &'a str, word: &str) -> (&'a str, Option<usize>) {
    text.split_once(word).map_or((text, None), |(before, number)| (before, number.parse().ok()))
}

fn place_text(view: &View) -> String {
    let dim = view.stacked.map(|(dim, _)| dim).or(view.columns.map(|(dim, _)| dim));
    let dim = dim.map_or_else(String::new, |dim| format!(", dim {dim}"));
    let window = view.window.map_or_else(String::new, |window| format!(", window {window}"));
    dim + &window
}

fn window_text(window: &Window) -> String {
    let Window { start, width, multiple, fold } = window;
    let fold = fold.map_or_else(String::new, |[run, part]| format!(", {part} of {run}"));
    format!("window {width} from {}, multiple {multiple}{fold}", joined(start, " + "))
}

fn read_window(text: &str) -> Option<Window> {
    let (width, rest) = text.strip_prefix("window ")?.split_once(" from ")?;
    let (start, rest) = rest.split_once(", multiple ")?;
    let (multiple, fold) = match rest.split_once(", ") {
        Some((multiple, fold)) => {
            let (part, run) = fold.split_once(" of ")?;
            (multiple, Some([run.parse().ok()?, part.parse().ok()?]))
        }
        None => (rest, None),
    };
    let multiple = multiple.parse().ok()?;
    Some(Window { start: dims(start, " + "), width: width.into(), multiple, fold })
}

fn number_text(number: &Number) -> String {
    match number {
        Number::Sum(dims) => format!("the sum {}", joined(dims, " + ")),
        Number::Product(dims) => format!("the product {}", joined(dims, " * ")),
    }
}

fn read_number(text: &str) -> Option<Number> {
    let sum = || Some(Number::Sum(dims(text.strip_prefix("the sum ")?, " + ")));
    let product = || Some(Number::Product(dims(text.strip_prefix("the product ")?, " * ")));
    sum().or_else(product)
}

fn joined(dims: &[Dim], by: &str) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    if dims.is_empty() { "0".to_owned() } else { dims.join(by) }
}

fn dims(text: &str, by: &str) -> Vec<Dim> {
    if text == "0" { Vec::new() } else { text.split(by).map(Dim::from).collect() }
}

fn named(name: &str) -> Option<Slice> {
    Slice::all().find(|slice| slice.name() == name)
}
