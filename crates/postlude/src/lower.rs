//! What one launch computes, in the order of a kernel and independent of the chip.
//!
//! ```text
//! Graph ─ views ─> Graph of slices ─ stored ─> + casts of stores ─ passes, reductions, runs ─> TileProgram
//! ```
//!
//! In: an optimised graph. Out: a [`TileProgram`], or the rule that no single launch keeps. This is the last stage that
//! analyses the graph: planners, emitters and cost models read the program.
//! Invariant: the program splits no columns, and every reduction has one place where it is finished: a row pass, a run of
//! columns or a block inside a tile, or the launch.

mod bind;
mod blocks;
mod by_elements;
mod program;
mod ranked;
mod reductions;
mod refusal;
mod refuse;
mod row_pass;
mod rules;
mod runs;
mod stored;
mod swap;
mod sweeps;
mod text;
mod views;
mod windows;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use crate::graph::{Graph, Output};
use crate::process;

pub use bind::BoundProgram;
pub use program::TileProgram;
pub(crate) use program::table_dims;
pub(crate) use ranked::{Ranked, RankedList};
pub(crate) use reductions::{Batches, How, Reduction, ReductionScope, Source};
pub use refusal::LowerRefusal;
pub(crate) use refusal::needing;
pub(crate) use refuse::{packed_major, refuse_many_top};
use rules::Rule;
pub(crate) use runs::least_common_multiple;
pub(crate) use sweeps::Sweep;
pub use sweeps::{SweepProgram, Width};
pub use text::TileTextError;
pub(crate) use views::MOST_PRODUCTS;

/// Lowers a graph to what one launch computes, or says why one launch does not.
pub fn lower(graph: &Graph) -> Result<TileProgram, LowerRefusal> {
    // A launch reads computed inputs like others.
    let graph = &graph.with_plain_inputs();

    let (graph, elements) = unstacked(graph);
    let (scaled, columns) = (graph.has_scales(), graph.space().column.clone());
    let accept = |graph: &Graph, views: views::Views| {
        if scaled && graph.space().column != columns {
            return Err(Rule::ScaledParts.anywhere());
        }
        let program = TileProgram::new(graph, views.stacked(&elements));
        refuse::refuse(&program).map(|()| program.with_swapped())
    };
    if !windows::has_windows(&graph) {
        return views::sliced(&graph, accept);
    }
    let (graph, windows) = windows::windowed(&graph)?;
    views::sliced(&graph, |graph, views| accept(graph, views.of(&windows)?))
}

/// A graph with an output for each value, and what each is of the kernel's.
fn unstacked(graph: &Graph) -> (Cow<'_, Graph>, Vec<views::Element>) {
    let element = |(of, output): (usize, &Output)| {
        let dim = output.stack.as_ref().map(|stack| stack.dim);
        let places = output.unstacked().map(move |(place, _)| (of, dim.zip(place)));
        places.collect::<Vec<_>>()
    };
    let elements = graph.outputs().iter().enumerate().flat_map(element).collect();
    if graph.outputs().iter().all(|output| output.stack.is_none()) {
        return (Cow::Borrowed(graph), elements);
    }
    let mut new = graph.without_outputs();
    for (_, output) in graph.outputs().iter().flat_map(Output::unstacked) {
        new.push_output(output);
    }
    (Cow::Owned(new), elements)
}

/// A graph and, once it was asked for, what one launch computes of it.
#[derive(Debug)]
pub struct Lowered {
    graph: Arc<Graph>,
    program: OnceLock<Result<Arc<TileProgram>, LowerRefusal>>,
    /// Whether threads compute it element by element.
    by_elements: bool,
    /// The graph that it was cut from, which can be cut otherwise.
    uncut: Option<Arc<Graph>>,
}

impl Lowered {
    /// Of a graph.
    pub fn new(graph: &Arc<Graph>) -> Lowered {
        let (graph, program) = (graph.clone(), OnceLock::new());
        Lowered { graph, program, by_elements: false, uncut: None }
    }

    /// Of a graph in the place of another one, which is cut otherwise where this one is refused.
    pub(crate) fn of_cut(graph: &Arc<Graph>, uncut: &Arc<Graph>) -> Lowered {
        Lowered { uncut: Some(uncut.clone()), ..Lowered::new(graph) }
    }

    /// Whether elements behind a product wait for reductions of their rows, which the same launch finishes.
    pub(crate) fn waits_behind_product(&self) -> bool {
        let waits = |program: &Arc<TileProgram>| !program.row_passes.is_empty();
        !self.graph.products().is_empty() && self.program().is_ok_and(waits)
    }

    /// The graph that is to be cut otherwise where this one is refused.
    pub(crate) fn uncut(&self) -> Option<&Arc<Graph>> {
        self.uncut.as_ref()
    }

    /// Of a graph that threads compute element by element; `None` where they do not.
    pub(crate) fn by_elements(graph: &Arc<Graph>) -> Option<Lowered> {
        let plain = graph.with_plain_inputs();
        let (unstacked, elements) = unstacked(&plain);
        let program = by_elements::by_elements(&unstacked, &elements)?;
        let lowered = Lowered { by_elements: true, ..Lowered::new(graph) };
        lowered.program.get_or_init(|| Ok(Arc::new(program)));
        Some(lowered)
    }

    /// Whether threads compute it element by element: there is no other way behind this one.
    pub(crate) fn is_by_elements(&self) -> bool {
        self.by_elements
    }

    /// Of a graph that has to be one launch.
    pub(crate) fn in_one_launch(graph: &Arc<Graph>) -> Lowered {
        let lowered = Lowered::new(graph);
        let earlier = graph.earlier().len();
        if earlier > 0 {
            let launches = earlier + 1;
            lowered.program.get_or_init(|| Err(LowerRefusal::SeveralLaunches { launches }));
        }
        lowered
    }

    /// The program, lowered at the first call.
    pub fn program(&self) -> Result<&Arc<TileProgram>, LowerRefusal> {
        let program = process::once(&self.program, || lower(&self.graph).map(Arc::new));
        program.as_ref().map_err(Clone::clone)
    }
}
