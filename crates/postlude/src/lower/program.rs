//! The tile program: the graph of one launch, and what every later stage asks of it.

use std::sync::Arc;

use crate::graph::{Axes, Graph, InputId, Kind, NodeId, Op, Output};
use crate::shape::Dim;

use super::reductions::{self, Reduction, leading};
use super::runs::least_common_multiple;
use super::views::Views;
use super::{blocks, row_pass, runs, stored};

/// What one launch computes.
#[derive(Clone, PartialEq, Debug)]
pub struct TileProgram {
    pub(super) graph: Graph,
    pub(super) views: Views,
    /// Nodes before the casts that are only there because outputs are stored.
    pub(super) computed: usize,
    /// Whether threads compute it element by element: no tile holds anything of it, and columns may be split.
    pub(crate) by_elements: bool,
    /// Which nodes something uses.
    pub(crate) live: Vec<bool>,
    /// How many row passes over a tile come before a node can be computed.
    pub(crate) passes: Vec<usize>,
    /// Which nodes are computed after the reductions that other tiles contribute to are finished.
    pub(crate) after_reductions: Vec<bool>,
    /// How many columns of the product one of a node's stands for.
    pub(crate) runs: Vec<u32>,
    /// How many reductions of runs, each of the result of another, come before a node is known.
    pub(crate) levels: Vec<usize>,
    /// The lengths of runs that tiles know of, longest first.
    pub(crate) run_lengths: Vec<u32>,
    /// Vectors of fewer columns that are computed column by column, by the length of their runs, longest first.
    pub(crate) column_runs: Vec<(u32, Vec<NodeId>)>,
    /// Values along columns that a tile or an output uses as they are, in the order of the graph.
    pub(crate) column_values: Vec<NodeId>,
    /// Reductions that the launch finishes, in the order of the graph.
    pub(crate) reductions: Vec<Reduction>,
    /// Reductions of rows that each row pass finishes; the first pass is number 1 of `passes`.
    pub(crate) row_passes: Vec<Vec<Reduction>>,
    /// Reductions of runs, each finished inside a tile.
    pub(crate) run_reductions: Vec<Reduction>,
    /// Reductions of runs of rows that each pass over the blocks of a tile finishes.
    pub(crate) block_passes: Vec<Vec<Reduction>>,
    /// How many such passes come before a node can be computed.
    pub(crate) after_blocks: Vec<usize>,
    /// The lengths of runs of rows that tiles fold, longest first.
    pub(crate) row_run_lengths: Vec<u32>,
    /// Inputs that are read as tiles of the product's columns, in the order of the signature.
    pub(crate) tile_operands: Vec<InputId>,
    /// Inputs that the visit or a vector reads, tables among them, in the order of the signature.
    pub(crate) body_inputs: Vec<InputId>,
    /// Dims whose sizes are computed with or bound an index, each once.
    pub(crate) sizes: Vec<Dim>,
    /// The same with A and B swapped, where that computes the same.
    pub(super) swapped: Option<Arc<TileProgram>>,
    /// Whether A and B are swapped in this one.
    pub(crate) swap_ab: bool,
}

impl TileProgram {
    pub(super) fn new(graph: &Graph, views: Views) -> TileProgram {
        TileProgram::assembled(stored::as_stored(graph), views, graph.len())
    }

    /// Of a graph whose outputs are as they are stored; the casts of stores begin behind this many nodes.
    pub(super) fn assembled(graph: Graph, views: Views, computed: usize) -> TileProgram {
        let live = graph.live();
        let passes = row_pass::passes(&graph, &live);
        let after_reductions = reductions::after_reductions(&graph, &passes);
        let reduction = |id: NodeId| Reduction::of(&graph, &after_reductions, id);
        let nodes = || graph.nodes().map(|(id, _)| id);
        let finished =
            |id: &NodeId| live[id.index()] && !reductions::is_in_tile(&graph, &passes, *id);
        let of_pass = |pass: usize| {
            let own =
                |id: &NodeId| passes[id.index()] == pass && row_pass::is_whole_row(&graph, *id);
            leading(&graph, nodes().filter(own).filter_map(reduction))
        };
        let last_pass = passes.iter().copied().max().unwrap_or(0);
        let of_run = |id: &NodeId| runs::is_reduction_of_run(&graph, *id);
        let runs = runs::runs(&graph);
        let is_block = |id: NodeId| live[id.index()] && blocks::is_block(&graph, id);
        let after_blocks = graph.depths(is_block);
        let last_block = after_blocks.iter().copied().max().unwrap_or(0);
        let of_block = |pass: usize| {
            let own = |id: &NodeId| after_blocks[id.index()] == pass && is_block(*id);
            nodes().filter(own).filter_map(reduction).collect()
        };
        TileProgram {
            reductions: leading(&graph, nodes().filter(finished).filter_map(reduction)),
            row_passes: (1..=last_pass).map(of_pass).collect(),
            block_passes: (1..=last_block).map(of_block).collect(),
            row_run_lengths: blocks::lengths(&graph, &live),
            run_reductions: nodes().filter(of_run).filter_map(reduction).collect(),
            levels: graph.depths(|id| runs::is_reduction_of_run(&graph, id)),
            run_lengths: runs::lengths(&graph, &live, &runs),
            column_runs: runs::column_runs(&graph, &live, &runs),
            column_values: column_values(&graph, &live, &after_reductions, &runs),
            tile_operands: inputs(&graph, |id| {
                let read = matches!(graph[id].op, Op::Input(_)) && live[id.index()];
                read && graph.ty(id).axes.kind() == Kind::Tile && runs[id.index()] == 1
            }),
            sizes: sizes(&graph, &live),
            body_inputs: inputs(&graph, |id| live[id.index()]),
            computed,
            by_elements: false,
            swapped: None,
            swap_ab: false,
            live,
            passes,
            after_reductions,
            after_blocks,
            runs,
            views,
            graph,
        }
    }

    /// The graph that it was made of: without parts and merges, every output as it is stored.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// What its tensors are of the kernel's.
    pub(super) fn views(&self) -> &Views {
        &self.views
    }

    /// The window of an input's columns, by its number.
    pub(crate) fn input_window(&self, input: InputId) -> Option<usize> {
        self.views.input_window(input.0 as usize)
    }

    /// The window of an output's columns, by its number.
    pub(crate) fn output_window(&self, output: usize) -> Option<usize> {
        self.views.output_window(output)
    }

    /// The columns of a run and of its part, where tensors of a window have those of one part of each run.
    pub(crate) fn fold(&self, window: usize) -> Option<[u32; 2]> {
        self.views.fold(window)
    }

    /// How many windows of columns there are.
    pub(crate) fn windows(&self) -> usize {
        self.views.windows()
    }

    /// Products that share A.
    pub(crate) fn products(&self) -> u32 {
        self.graph.products().len() as u32
    }

    /// Whether a node is computed for its own sake, and not only the cast of a store.
    pub(crate) fn is_computed(&self, node: NodeId) -> bool {
        self.live[node.index()] && node.index() < self.computed
    }

    /// All results of a reduction: several where nodes share its partial results.
    pub(crate) fn members(&self, reduction: Reduction) -> Vec<Reduction> {
        reduction.members(&self.graph, &self.live)
    }

    /// Reductions that the launch finishes whose results have this kind.
    pub(crate) fn reductions_of(&self, kind: Kind) -> impl Iterator<Item = Reduction> {
        self.reductions.iter().copied().filter(move |reduction| reduction.scope.kind == kind)
    }

    /// The run of an input's columns.
    pub(crate) fn input_run(&self, input: InputId) -> u32 {
        let columns = self.graph.input_axes(input).and_then(|axes| axes.column);
        columns.map_or(1, |divisor| divisor / self.graph.space().column.divisor())
    }

    /// The run of an output's columns.
    pub(crate) fn output_run(&self, output: &Output) -> u32 {
        runs::output_run(&self.graph, output)
    }

    /// Rows of the product that one of an input's stands for.
    pub(crate) fn input_row_run(&self, input: InputId) -> u32 {
        self.graph.input_axes(input).and_then(|axes| axes.row).unwrap_or(1)
    }

    /// Rows of the product that one of an output's stands for.
    pub(crate) fn output_row_run(&self, output: &Output) -> u32 {
        blocks::output_row_run(&self.graph, output)
    }

    /// Whether a node folds runs of rows, which a pass over the blocks of a tile finishes.
    pub(crate) fn is_block(&self, node: NodeId) -> bool {
        blocks::is_block(&self.graph, node)
    }

    /// What a tile's rows must be a multiple of, so that it holds whole runs of them.
    pub(crate) fn row_run_multiple(&self) -> u32 {
        self.row_run_lengths.iter().copied().fold(1, least_common_multiple)
    }

    /// What a tile's columns must be a multiple of, so that it holds whole runs.
    pub(crate) fn run_multiple(&self) -> u32 {
        self.run_lengths.iter().copied().fold(1, least_common_multiple)
    }

    /// Whether all batches have an output in common, which the first one's tiles write.
    pub(crate) fn is_shared(&self, output: &Output) -> bool {
        let space = self.graph.space();
        let own = space.axes(&output.dims).is_some_and(|axes| axes.batch);
        !space.batch.is_empty() && !own
    }

    /// Where an output lives that is neither a tile nor made of reductions; `None` for all others.
    pub(crate) fn plain_kind(&self, output: &Output) -> Option<Kind> {
        let axes = self.graph.space().axes(&output.dims)?;
        let node = output.value.index();
        let own_columns =
            axes.column.is_none_or(|by| by % self.graph.space().column.divisor() == 0);
        let plain = axes.kind() != Kind::Tile
            && own_columns
            && !self.after_reductions[node]
            && self.passes[node] == 0;
        plain.then_some(axes.kind())
    }

    /// Which nodes have to be computed for some values of a tile. Reductions of blocks are there already, and values of
    /// runs of columns, unless `through` says that they are to be computed, too.
    pub(crate) fn terms_of(&self, roots: impl Iterator<Item = NodeId>, through: bool) -> Vec<bool> {
        self.graph.made_of(roots, |id| {
            let coarse = self.runs[id.index()] > 1;
            let element = self.graph.ty(id).axes.kind() == Kind::Tile && !coarse;
            (element || through && coarse) && !self.is_block(id)
        })
    }
}

/// Inputs that some nodes read, in the order of the signature.
pub(super) fn inputs(graph: &Graph, reads: impl Fn(NodeId) -> bool) -> Vec<InputId> {
    let nodes = graph.nodes().filter(|(id, _)| reads(*id));
    let input = |op: &Op| match op {
        Op::Input(input) | Op::Take(input, _) | Op::Entry(input, ..) => Some(*input),
        _ => None,
    };
    let mut inputs: Vec<InputId> = nodes.filter_map(|(_, node)| input(&node.op)).collect();
    inputs.sort_unstable();
    inputs.dedup();
    inputs
}

/// The named dims whose sizes something needs to know.
pub(super) fn sizes(graph: &Graph, live: &[bool]) -> Vec<Dim> {
    let mut sizes: Vec<Dim> = Vec::new();
    for (_, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let dims = if let Op::Size(dim) = &node.op {
            std::slice::from_ref(dim)
        } else {
            node.op.table().map_or(&[][..], |table| table_dims(graph, table))
        };
        for dim in dims {
            if matches!(dim, Dim::Name { .. }) && !sizes.contains(dim) {
                sizes.push(dim.clone());
            }
        }
    }
    sizes
}

/// The dims of a table.
pub(crate) fn table_dims(graph: &Graph, table: InputId) -> &[Dim] {
    graph.inputs()[table.0 as usize].dims.as_deref().unwrap_or_default()
}

fn column_values(
    graph: &Graph,
    live: &[bool],
    after_reductions: &[bool],
    runs: &[u32],
) -> Vec<NodeId> {
    let mut used = vec![false; graph.len()];
    for (_, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        // A reduction reads its weights where its terms are, in every element.
        let weighs = matches!(node.op, Op::ReduceWeighted(_, _, terms, _) if graph.ty(terms).axes.kind() == Kind::Tile);
        if node.ty.axes.kind() == Kind::Tile || weighs {
            node.op.operands().for_each(|operand| used[operand.index()] = true);
        }
    }
    let of_tile = |axes: Axes| axes.kind() == Kind::Tile;
    let tiles =
        graph.outputs().iter().filter(|one| graph.space().axes(&one.dims).is_some_and(of_tile));
    tiles.for_each(|output| used[output.value.index()] = true);
    let along = |id: &NodeId| {
        let node = &graph[*id];
        used[id.index()]
            && !after_reductions[id.index()]
            && runs[id.index()] == 1
            && node.ty.axes.kind() == Kind::AlongColumns
            && !matches!(node.op, Op::Constant(_))
    };
    graph.nodes().map(|(id, _)| id).filter(along).collect()
}
