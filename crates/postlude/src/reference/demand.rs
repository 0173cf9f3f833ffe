//! Which elements of every node some elements of the outputs need.
//!
//! In: rows and columns of outputs. Out: a [`Frame`] for every node, the smallest rectangle that holds them; nothing for
//! nodes that no wanted output needs. A reduction needs all that it folds.

use std::sync::Arc;

use crate::graph::{Dependence, Graph, NodeId, Op, Over, Run};
use crate::problem::Problem;

use super::array::{Frame, Places};

/// Rows and columns of one output, by its own extents.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Wanted {
    /// The output's position in the signature.
    pub(super) output: usize,
    pub(super) rows: Places,
    pub(super) columns: Places,
}

struct Marks {
    rows: Vec<bool>,
    columns: Vec<bool>,
}

/// The needed elements of every node.
pub(super) fn frames(
    graph: &Graph,
    problem: &Problem,
    wanted: &[Wanted],
    segments: Option<&Arc<Vec<usize>>>,
) -> Vec<Option<Frame>> {
    let mut marks: Vec<Option<Marks>> = graph.nodes().map(|_| None).collect();
    for wanted in wanted {
        for value in graph.outputs()[wanted.output].values() {
            mark(&mut marks, graph, problem, value, &wanted.rows, &wanted.columns);
        }
    }
    let mut frames: Vec<Option<Frame>> = marks.iter().map(|_| None).collect();
    for (id, node) in graph.nodes().rev() {
        let Some(own) = &marks[id.index()] else { continue };
        let chosen = |marks: &[bool]| Places {
            of: marks.len(),
            chosen: (0..marks.len()).filter(|place| marks[*place]).collect(),
        };
        let [batches, ..] = problem.extents(node.ty.axes);
        // Without a segment there are no values of rows.
        let none = segments.is_some() && problem.batch == 0 && node.ty.axes.row.is_some();
        let rows = if none { vec![false; own.rows.len()] } else { own.rows.clone() };
        let frame = Frame {
            batches,
            rows: chosen(&rows),
            columns: chosen(&own.columns),
            segments: segments.filter(|_| node.ty.axes.row.is_some()).cloned(),
        };
        for operand in node.op.operands() {
            let (rows, columns) = needs(graph, problem, &node.op, operand, &frame);
            mark(&mut marks, graph, problem, operand, &rows, &columns);
        }
        frames[id.index()] = Some(frame);
    }
    frames
}

/// What an operation needs of an operand for these elements of its result.
fn needs(
    graph: &Graph,
    problem: &Problem,
    op: &Op,
    operand: NodeId,
    frame: &Frame,
) -> (Places, Places) {
    let [_, all_rows, all_columns] = problem.extents(graph.ty(operand).axes);
    let (rows, columns) = (frame.rows.clone(), frame.columns.clone());
    let distinct = |of: usize, chosen: Vec<usize>| {
        let mut chosen = chosen;
        chosen.sort_unstable();
        chosen.dedup();
        Places { of, chosen }
    };
    let of_columns = |chosen: Vec<usize>| distinct(all_columns, chosen);
    let folded = |run: Option<Run>, places: Places, of: usize| match run {
        None => places,
        Some(Run::All) => Places::all(of),
        Some(Run::Group(_)) => {
            let groups = places.chosen.iter();
            distinct(of, groups.flat_map(|at| Run::terms(run, *at, of)).collect())
        }
    };
    match op.dependence() {
        Dependence::Reduce(_, Over { row, column, .. }, _)
        | Dependence::ReduceWeighted(_, Over { row, column, .. }, ..) => {
            (folded(row, rows, all_rows), folded(column, columns, all_columns))
        }
        // Which column is picked is data.
        Dependence::Pick(of, _) if of == operand => (rows, Places::all(all_columns)),
        Dependence::Part(part, _) => {
            let start = problem.start(graph.space(), part);
            let sources = columns.chosen.iter().map(|at| part.source(*at, all_columns, start));
            (rows, of_columns(sources.collect()))
        }
        Dependence::Concat(concat) => {
            let parts: Vec<NodeId> = op.operands().collect();
            let count = |part: &NodeId| problem.extents(graph.ty(*part).axes)[2];
            let widths: Vec<usize> = parts.iter().map(count).collect();
            let source = |at: &usize| concat.source(*at, columns.of, widths.iter().copied());
            let sources = columns.chosen.iter().map(source);
            let own = sources.filter(|(which, _)| parts[*which] == operand);
            let chosen = own.map(|(_, column)| column).collect();
            (rows, of_columns(chosen))
        }
        Dependence::Merge(merge, a, b) => {
            let sources = columns.chosen.iter().map(|at| merge.source(*at, columns.of));
            let own = sources.filter(|(which, _)| [a, b][*which] == operand);
            let chosen = own.map(|(_, column)| column).collect();
            (rows, of_columns(chosen))
        }
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Pick(..)
        | Dependence::Call => (rows, columns),
    }
}

/// Marks what a node has to have for a user that sees these places.
fn mark(
    marks: &mut [Option<Marks>],
    graph: &Graph,
    problem: &Problem,
    node: NodeId,
    rows: &Places,
    columns: &Places,
) {
    let [_, own_rows, own_columns] = problem.extents(graph.ty(node).axes);
    let marks = marks[node.index()].get_or_insert_with(|| Marks {
        rows: vec![false; own_rows],
        columns: vec![false; own_columns],
    });
    let set = |own: &mut [bool], seen: &Places| {
        let of = own.len();
        for place in &seen.chosen {
            let at = if of == seen.of { *place } else { *place * of / seen.of.max(1) };
            own[at] = true;
        }
    };
    set(&mut marks.rows, rows);
    set(&mut marks.columns, columns);
}
