//! Samples against the definition.
//!
//! Some rows and columns of a problem are a problem of their own for outputs whose elements depend on their own row of A,
//! row of W and place alone. Where an element folds columns, all columns of some rows are; where it folds rows, all rows of
//! some columns. One that folds both needs the whole problem, and is left to others ([`Reach::EVERYTHING`]).

use std::collections::BTreeMap;

use postlude::graph::{Graph, NodeId, Op};
use postlude::reference;
use postlude::runtime::Stream;
use postlude::{Argument, Arguments, MathMode, Problem, Tensor};

use super::{CHUNK_BYTES, Verdict};
use crate::data::{Data, Placed};
use crate::error::YardstickError;
use crate::shuffle::Shuffler;
use crate::suite::{self, Row};

/// Rows and columns of a sample: some hundreds of elements.
const SAMPLE: usize = 20;
/// The fewest whole rows, or columns.
const FEWEST: usize = 3;
/// Products that whole rows, or columns, may take the host: a few seconds.
const MOST_PRODUCTS: usize = 3_000_000_000;

/// What an element depends on beside its own row and column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reach {
    /// All rows.
    pub rows: bool,
    /// All columns.
    pub columns: bool,
}

impl Reach {
    /// On nothing else.
    pub const ELEMENT: Reach = Reach { rows: false, columns: false };
    /// On the whole problem.
    pub const EVERYTHING: Reach = Reach { rows: true, columns: true };

    /// What a value depends on.
    pub fn of(graph: &Graph, value: NodeId) -> Reach {
        let mut reach = Reach::ELEMENT;
        let mut needed = vec![false; graph.len()];
        needed[value.index()] = true;
        for (id, node) in graph.nodes().rev() {
            if !needed[id.index()] {
                continue;
            }
            node.op.operands().for_each(|operand| needed[operand.index()] = true);
            if let Op::Reduce(_, over, _) | Op::ReduceWeighted(_, over, ..) = &node.op {
                reach.rows |= over.row.is_some();
                reach.columns |= over.column.is_some();
            }
            reach.columns |= matches!(node.op, Op::Pick(..));
        }
        reach
    }
}

/// A part of a problem.
struct Part {
    rows: Vec<usize>,
    columns: Vec<usize>,
    inner: usize,
    /// Where the second half of all columns begins.
    half: usize,
}

impl Part {
    /// A part that elements of this reach can be computed from.
    fn of(row: &Row, graph: &Graph, reach: Reach) -> Part {
        let [m, n, k] = row.sizes;
        let mut shuffler = Shuffler::new(1);
        let few = |across: usize| (MOST_PRODUCTS / (across * k).max(1)).clamp(FEWEST, SAMPLE);
        let rows = match reach {
            Reach { rows: true, .. } => (0..m).collect(),
            Reach { rows: false, columns: true } => shuffler.sample(few(n), m),
            Reach::ELEMENT => shuffler.sample(SAMPLE, m),
        };
        let cuts = graph.nodes().any(|(_, node)| matches!(node.op, Op::Part(..)));
        let columns = match reach {
            Reach { columns: true, .. } => (0..n).collect(),
            Reach { columns: false, rows: true } => shuffler.sample(few(m), n),
            // An element of a half meets the one at its place in the other.
            Reach::ELEMENT if cuts => {
                let first = shuffler.sample(SAMPLE / 2, n / 2);
                first.iter().copied().chain(first.iter().map(|column| column + n / 2)).collect()
            }
            Reach::ELEMENT => shuffler.sample(SAMPLE, n),
        };
        Part { rows, columns, inner: k, half: n / 2 }
    }

    /// The places along a dim, as kernels write it.
    fn along(&self, dim: &str) -> Vec<usize> {
        match dim {
            "M" => self.rows.clone(),
            "N" => self.columns.clone(),
            "N/2" => self.columns.iter().copied().filter(|column| *column < self.half).collect(),
            "K" => (0..self.inner).collect(),
            number => {
                let Some(size) = number.parse().ok() else {
                    panic!("compiler bug: the suite has no dim `{dim}`")
                };
                (0..size).collect()
            }
        }
    }

    /// The elements of a tensor that belong to it.
    fn gather(
        &self,
        placed: &Placed,
        set: usize,
        stream: &Stream,
    ) -> Result<Tensor, YardstickError> {
        let chosen: Vec<Vec<usize>> = placed.dims.iter().map(|dim| self.along(dim)).collect();
        let row_length = placed.shape.last().copied().unwrap_or(1);
        let row_bytes = placed.dtype.bytes_for(row_length);
        let (rows, columns): (&[usize], &[usize]) = match chosen.as_slice() {
            [] => (&[0], &[0]),
            [columns] => (&[0], columns),
            [rows, columns] => (rows, columns),
            [..] => panic!("compiler bug: the suite has no tensors of more than two dims"),
        };
        let whole = columns.len() == row_length;
        let width = placed.dtype.bytes_for(1);
        let mut kept = Vec::with_capacity(rows.len() * columns.len() * width);
        // Rows that follow one another are brought together: a contraction that comes first has thousands.
        let most_rows = (CHUNK_BYTES / row_bytes.max(1)).max(1);
        for run in rows.chunk_by(|row, next| row + 1 == *next).flat_map(|run| run.chunks(most_rows))
        {
            let mut bytes = vec![0; run.len() * row_bytes];
            placed.buffer(set).read(stream, (run[0] * row_bytes) as u64, &mut bytes)?;
            if whole {
                kept.extend_from_slice(&bytes);
                continue;
            }
            for row in bytes.chunks_exact(row_bytes) {
                for column in columns {
                    kept.extend_from_slice(&row[column * width..(column + 1) * width]);
                }
            }
        }
        let shape: Vec<usize> = chosen.iter().map(Vec::len).collect();
        let tensor = Tensor::from_bytes(placed.dtype, shape, kept);
        tensor.map_err(|error| YardstickError::Call(error.into()))
    }
}

/// Compares samples of outputs in a set with the definition. Those that need the whole problem are passed over.
pub fn against_definition(
    graph: &Graph,
    row: &Row,
    data: &Data,
    outputs: &[Placed],
    set: usize,
    stream: &Stream,
) -> Result<Verdict, YardstickError> {
    let mut verdict = Verdict { right: true, ..Verdict::default() };
    let mut groups: BTreeMap<Reach, Vec<&str>> = BTreeMap::new();
    for output in graph.outputs() {
        groups.entry(Reach::of(graph, output.value)).or_default().push(&output.name);
    }
    groups.remove(&Reach::EVERYTHING);
    for (reach, names) in groups {
        let graph = graph.keeping(Some(&names));
        let part = Part::of(row, &graph, reach);
        let named = |name: &str| outputs.iter().find(|output| output.name == name);
        let wanted: Vec<&Placed> = names.iter().filter_map(|name| named(name)).collect();
        assert_eq!(wanted.len(), names.len(), "compiler bug: outputs without memory");
        verdict.add_sample(&compare_part((&graph, row.math), &part, data, (&wanted, set), stream)?);
    }
    Ok(verdict)
}

fn compare_part(
    (graph, math): (&Graph, MathMode),
    part: &Part,
    data: &Data,
    (outputs, set): (&[&Placed], usize),
    stream: &Stream,
) -> Result<Verdict, YardstickError> {
    let mut arguments = Arguments::new();
    for input in graph.passed_inputs() {
        let placed = data.inputs.iter().find(|placed| placed.name == input.name);
        let argument = match placed {
            Some(placed) => Argument::Tensor(part.gather(placed, set, stream)?),
            None => Argument::Scalar(suite::scalar(&input.name).unwrap_or(1.0).into()),
        };
        arguments.insert(input.name.clone(), argument);
    }
    let sizes = ["M", "N", "K"].map(|dim| (dim.to_owned(), part.along(dim).len())).into();
    let problem =
        Problem::new(graph, &sizes).map_err(|error| YardstickError::Call(error.into()))?;
    let mut verdict = Verdict { right: true, ..Verdict::default() };
    let wanted = reference::evaluate(graph, &problem, &arguments, math);
    let wanted = wanted.map_err(|error| YardstickError::Call(error.into()))?;
    for (wanted, output) in wanted.iter().zip(outputs) {
        let found = wanted.compare(&part.gather(output, set, stream)?);
        verdict.sampled += wanted.values.len();
        verdict.worst_of_bound = verdict.worst_of_bound.max(found.worst);
        // Not a number is worse than any bound.
        verdict.right &= found.worst <= 1.0;
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{SEED, Suite};

    fn row(name: &str) -> Row {
        Suite::Epilogues.rows(SEED).into_iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn folds_reach_along_what_they_fold() {
        let reaches = |name: &str| -> Vec<(String, bool, bool)> {
            let kernel = row(name).kernel().unwrap();
            let graph = kernel.defined();
            let of = |output: &postlude::graph::Output| {
                let reach = Reach::of(graph, output.value);
                (output.name.clone(), reach.rows, reach.columns)
            };
            graph.outputs().iter().map(of).collect()
        };
        let named = |name: &str, rows, columns| (name.to_owned(), rows, columns);
        assert_eq!(reaches("E3-gelu"), [named("D", false, false), named("dbias", true, false)]);
        assert_eq!(reaches("E5-2048"), [named("loss", true, true)]);
        assert_eq!(reaches("E10"), [named("lse", false, true), named("t", false, true)]);
        let amax = [named("D", false, false), named("amax", true, true)];
        assert_eq!(reaches("E9"), amax);
    }

    #[test]
    fn parts_are_problems_of_their_own() {
        let (e7, e10, e3) = (row("E7"), row("E10"), row("E3-gelu"));
        let part = |row: &Row, rows, columns| {
            Part::of(row, row.kernel().unwrap().defined(), Reach { rows, columns })
        };
        let halves = part(&e7, false, false);
        assert_eq!((halves.along("N").len(), halves.along("N/2").len()), (20, 10));
        assert!((0..10).all(|place| halves.columns[place] + 14336 == halves.columns[place + 10]));
        let statistics = part(&e10, false, true);
        assert_eq!((statistics.rows.len(), statistics.columns.len()), (5, 128_256));
        assert_eq!(statistics.rows.last(), Some(&8191));
        let gradient = part(&e3, true, false);
        assert_eq!((gradient.rows.len(), gradient.columns.len()), (16384, SAMPLE));
    }
}
