//! Programs that threads compute element by element: each element of an output by itself, from whatever elements of inputs
//! it is made of.
//!
//! In: a graph without products. Out: a program that no tile holds anything of, whatever its graph splits, puts together or
//! reduces. It is slower than one of tiles or rows, and comes after them.

use crate::graph::{Columns, Graph};
use crate::shape::Dim;

use super::program::{self, TileProgram};
use super::stored;
use super::views::{Element, Views};

/// The program of a graph with an output for each value, which is this of the kernel's; `None` of a product.
pub(super) fn by_elements(graph: &Graph, elements: &[Element]) -> Option<TileProgram> {
    graph.products().is_empty().then(|| {
        let views = Views::whole(graph).stacked(elements);
        TileProgram::by_elements(stored::as_stored(graph), views, graph.len())
    })
}

impl TileProgram {
    /// Of a graph whose outputs are as they are stored; the casts of stores begin behind this many nodes.
    pub(super) fn by_elements(graph: Graph, views: Views, computed: usize) -> TileProgram {
        let (live, count) = (graph.live(), graph.len());
        let mut sizes = program::sizes(&graph, &live);
        for dim in part_dims(&graph, &live) {
            if !sizes.contains(&dim) {
                sizes.push(dim);
            }
        }
        TileProgram {
            by_elements: true,
            swapped: None,
            swap_ab: false,
            body_inputs: program::inputs(&graph, |id| live[id.index()]),
            sizes,
            passes: vec![0; count],
            after_reductions: vec![false; count],
            runs: vec![1; count],
            levels: vec![0; count],
            after_blocks: vec![0; count],
            run_lengths: Vec::new(),
            column_runs: Vec::new(),
            column_values: Vec::new(),
            reductions: Vec::new(),
            row_passes: Vec::new(),
            run_reductions: Vec::new(),
            block_passes: Vec::new(),
            row_run_lengths: Vec::new(),
            tile_operands: Vec::new(),
            computed,
            live,
            views,
            graph,
        }
    }
}

/// The dims of columns that splits name.
fn part_dims(graph: &Graph, live: &[bool]) -> Vec<Dim> {
    let space = graph.space();
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let of_nodes = nodes.filter_map(|(_, node)| node.ty.axes.columns());
    let of_outputs =
        graph.outputs().iter().filter_map(|output| space.axes(&output.dims)?.columns());
    let of_splits = space.splits.iter().flat_map(|split| split.parts.iter().copied());
    let named = |columns: &Columns| columns.part != 0;
    let all = of_nodes.chain(of_outputs).chain(of_splits).filter(named);
    let dims = all.map(|columns| space.column_dim(columns));
    dims.filter(|dim| matches!(dim, Dim::Name { .. })).collect()
}
