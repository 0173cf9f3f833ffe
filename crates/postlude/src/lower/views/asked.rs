//! Which slices of every value a graph of fewer columns computes.
//!
//! In: a graph, and what the columns of the new one divide the column name's size by. Out: for every value the slices that
//! users ask for, and for outputs and reductions of all columns the slices that they are put together from.
//! Invariant: every slice that is asked for can be made of what is asked for of the operands.

use crate::dtype::DType;
use crate::graph::{Dependence, Fold, Graph, IndexAxis, NodeId, Op, Over, ProductId, Run};
use crate::shape::Dim;

use super::slice::{MOST_DEPTH, SLICES, Slice, Way};

/// The most products that a tile has: each takes 16 columns of it at least.
pub(crate) const MOST_PRODUCTS: u32 = 8;

/// A set of slices by their numbers.
pub(super) type Slices = u64;

/// What a slice of a value takes: the slices of the product that it is made of, or nothing where it cannot be made.
type Row = [Option<Slices>; SLICES];

/// What becomes of a graph's values.
pub(super) struct Asked {
    /// The slices of each value.
    pub(super) slices: Vec<Slices>,
    /// The slices that each output is stored as.
    pub(super) outputs: Vec<Vec<Slice>>,
    /// The slices that a reduction of all columns reads.
    pub(super) folded: Vec<Option<Vec<Slice>>>,
    /// The slices of the product.
    pub(super) products: Slices,
}

/// Which columns the new graph has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// What the column name's size is divided by.
    pub(super) divisor: u32,
    /// What that size is known to be a multiple of; `None` where any slice may be asked for, and sizes are checked later.
    pub(super) multiple: Option<u64>,
}

impl Target {
    /// Whether a value of these columns, split this often, gives a slice that the new graph can hold.
    fn holds(self, graph: &Graph, column: u32, depth: u32) -> bool {
        let divisor = u64::from(column) << depth;
        let even = match graph.space().column {
            Dim::Size(size) => u64::from(size) % divisor == 0,
            Dim::Name { .. } => self.multiple.is_none_or(|multiple| multiple % divisor == 0),
        };
        u32::try_from(divisor).is_ok() && divisor.is_multiple_of(u64::from(self.divisor)) && even
    }

    /// Whether such a slice has the new graph's own columns.
    fn is_own(self, column: u32, depth: u32) -> bool {
        u64::from(column) << depth == u64::from(self.divisor)
    }
}

/// The slices that users need, or the node that makes it impossible.
pub(super) fn ask(graph: &Graph, target: Target, usual: Way) -> Result<Asked, Option<NodeId>> {
    let live = graph.live();
    let mut table: Vec<Row> = Vec::with_capacity(graph.len());
    for (id, _) in graph.nodes() {
        let row = if live[id.index()] { row(graph, target, &table, id) } else { [None; SLICES] };
        table.push(row);
    }
    let mut asking = Asking {
        graph,
        target,
        usual,
        table: &table,
        asked: Asked {
            slices: vec![0; graph.len()],
            outputs: vec![Vec::new(); graph.outputs().len()],
            folded: vec![None; graph.len()],
            products: 0,
        },
    };
    if asking.ask_outputs().is_none() {
        return Err(first_obstacle(graph, &live, &table));
    }
    asking.ask_folds();
    if asking.asked.products.count_ones() > MOST_PRODUCTS {
        return Err(None);
    }
    Ok(asking.asked)
}

/// The first value without any slice although each of its operands has one.
fn first_obstacle(graph: &Graph, live: &[bool], table: &[Row]) -> Option<NodeId> {
    let none = |id: NodeId| table[id.index()].iter().all(Option::is_none);
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let mut obstacles = nodes.filter(|(id, node)| none(*id) && !node.op.operands().any(none));
    obstacles.next().map(|(id, _)| id)
}

/// How often a value is split before the new graph can hold it.
fn least_depth(graph: &Graph, target: Target, column: u32) -> Option<u32> {
    (0..=MOST_DEPTH).find(|depth| target.holds(graph, column, *depth))
}

/// The slice of an operand that a slice of a value of these columns needs.
pub(super) fn operand_slice(
    graph: &Graph,
    operand: NodeId,
    column: Option<u32>,
    slice: Slice,
) -> Option<Slice> {
    match (graph.ty(operand).axes.column, column) {
        (None, _) => Some(Slice::WHOLE),
        (Some(own), Some(column)) if own % column == 0 => slice.of_runs(own / column),
        (Some(_), Some(_) | None) => None,
    }
}

/// Whether results of several slices can be put together before they are reduced.
pub(super) fn combines(fold: Fold) -> bool {
    match fold {
        Fold::Sum | Fold::Prod | Fold::Max | Fold::Min | Fold::AbsMax => true,
        Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => false,
    }
}

/// The slices that a reduction of runs reads for one of its own, and how many columns of a run are left in each.
pub(super) fn reduced_slices(
    graph: &Graph,
    target: u32,
    terms: NodeId,
    fold: Fold,
    run: u32,
    slice: Slice,
) -> Option<(Vec<Slice>, u32)> {
    let column = graph.ty(terms).axes.column?;
    let holds = |(slices, _): &(Vec<Slice>, u32)| {
        slices.iter().all(|each| (u64::from(column) << each.depth()).is_multiple_of(target.into()))
    };
    let possible = (0..=MOST_DEPTH).filter_map(|pairings| slice.of_reduced(run, pairings));
    possible.filter(|it| it.0.len() == 1 || combines(fold)).find(holds)
}

fn row(graph: &Graph, target: Target, table: &[Row], id: NodeId) -> Row {
    let column = graph.ty(id).axes.column;
    let mut row = [None; SLICES];
    for (number, slice) in Slice::all().enumerate() {
        let held = match column {
            Some(column) => target.holds(graph, column, slice.depth()),
            None => slice == Slice::WHOLE,
        };
        if held {
            row[number] = entry(graph, target, table, id, slice);
        }
    }
    row
}

/// The slices of the product that a slice of a value is made of.
fn entry(graph: &Graph, target: Target, table: &[Row], id: NodeId, slice: Slice) -> Option<Slices> {
    let own = |id: NodeId| graph.ty(id).axes.column;
    let is_own = || own(id).is_some_and(|column| target.is_own(column, slice.depth()));
    let of = |operand: NodeId, slice: Slice| table[operand.index()][slice.number()?];
    match &graph[id].op {
        Op::Accumulator(ProductId::FIRST) => is_own().then(|| 1 << slice.number().unwrap_or(0)),
        Op::Accumulator(_) | Op::Call(..) | Op::Concat(..) => None,
        Op::Index(IndexAxis::Column) => is_own().then_some(0),
        // A view begins with a byte.
        Op::Input(input) if graph.inputs()[input.0 as usize].dtype.is_packed() => {
            (slice == Slice::WHOLE).then_some(0)
        }
        Op::Input(_)
        | Op::Constant(_)
        | Op::Extent(_)
        | Op::Size(_)
        | Op::Index(IndexAxis::Row | IndexAxis::Batch | IndexAxis::BatchDim(_)) => Some(0),
        Op::Part(part, a) => of(*a, slice.of_part(*part)),
        Op::Merge(merge, a, b) => {
            let (place, inner) = slice.of_merge(*merge)?;
            of([*a, *b][place], inner)
        }
        Op::Reduce(fold, Over { column: Some(Run::All), .. }, a) => {
            fold_cover(graph, target, &table[a.index()], *fold, own(*a)?, 0, Way::Halves).map(|_| 0)
        }
        Op::Reduce(fold, Over { column: Some(Run::Group(run)), .. }, a) => {
            let read = reduced_slices(graph, target.divisor, *a, *fold, *run, slice)?;
            read.0.into_iter().try_fold(0, |all, slice| Some(all | of(*a, slice)?))
        }
        Op::Pick(a, b) | Op::ReduceWeighted(_, Over { column: Some(Run::All), .. }, a, b) => {
            Some(of(*a, Slice::WHOLE)? | of(*b, Slice::WHOLE)?)
        }
        Op::ReduceWeighted(_, Over { column: Some(Run::Group(_)), .. }, ..) => None,
        op @ (Op::Unary(..)
        | Op::Binary(..)
        | Op::Fma(..)
        | Op::Select(..)
        | Op::Cast(..)
        | Op::Round(..)
        | Op::Philox(_)
        | Op::Take(..)
        | Op::Entry(..)
        | Op::Reduce(_, Over { column: None, .. }, _)
        | Op::ReduceWeighted(_, Over { column: None, .. }, ..)) => {
            op.operands().try_fold(0, |all, operand| {
                Some(all | of(operand, operand_slice(graph, operand, own(id), slice)?)?)
            })
        }
    }
}

/// Slices that together are a value of these columns, such that few products are added to the known ones.
fn best_cover(
    graph: &Graph,
    target: Target,
    row: &Row,
    column: u32,
    known: Slices,
    usual: Way,
) -> Option<Vec<Slice>> {
    let least = least_depth(graph, target, column)?;
    let covers = (least..=MOST_DEPTH).filter_map(|depth| {
        let (cover, products) = cover(row, Slice::WHOLE, depth, known, usual)?;
        Some((cover, (products & !known).count_ones()))
    });
    covers.min_by_key(|(_, added)| *added).map(|(cover, _)| cover)
}

/// The slices that a reduction of all columns reads.
fn fold_cover(
    graph: &Graph,
    target: Target,
    row: &Row,
    fold: Fold,
    column: u32,
    known: Slices,
    usual: Way,
) -> Option<Vec<Slice>> {
    if combines(fold) {
        best_cover(graph, target, row, column, known, usual)
    } else {
        row[0].map(|_| vec![Slice::WHOLE])
    }
}

/// The same for a slice that is split this often.
fn cover(
    row: &Row,
    slice: Slice,
    depth: u32,
    known: Slices,
    usual: Way,
) -> Option<(Vec<Slice>, Slices)> {
    if depth == 0 {
        return row[slice.number()?].map(|products| (vec![slice], products));
    }
    let ways = [usual, usual.other()].into_iter().filter_map(|way| {
        let [first, second] =
            way.parts().map(|part| cover(row, slice.split(part), depth - 1, known, usual));
        let ((mut slices, products), (more, others)) = (first?, second?);
        slices.extend(more);
        Some((slices, products | others))
    });
    ways.min_by_key(|(_, products)| (products & !known).count_ones())
}

struct Asking<'a> {
    graph: &'a Graph,
    target: Target,
    usual: Way,
    table: &'a [Row],
    asked: Asked,
}

impl Asking<'_> {
    /// Asks for what outputs store: first outputs with the new graph's own columns, because they leave no choice.
    fn ask_outputs(&mut self) -> Option<()> {
        let graph = self.graph;
        let column_of = |place: usize| {
            let axes = graph.space().axes(&graph.outputs()[place].dims);
            axes.and_then(|axes| axes.column)
        };
        let own =
            |place: &usize| column_of(*place).is_none_or(|column| self.target.is_own(column, 0));
        let (first, then): (Vec<usize>, Vec<usize>) = (0..graph.outputs().len()).partition(own);
        for place in first.into_iter().chain(then) {
            let output = &graph.outputs()[place];
            let Some(column) = column_of(place) else {
                self.table[output.value.index()][0]?;
                self.ask(output.value, Slice::WHOLE);
                self.asked.outputs[place] = vec![Slice::WHOLE];
                continue;
            };
            let mut row: Row = [None; SLICES];
            for (number, slice) in Slice::all().enumerate() {
                let packed = output.dtype == DType::B1 && slice != Slice::WHOLE;
                if !packed && self.target.holds(graph, column, slice.depth()) {
                    let met = operand_slice(graph, output.value, Some(column), slice);
                    let met = met.and_then(Slice::number);
                    row[number] = met.and_then(|met| self.table[output.value.index()][met]);
                }
            }
            let known = self.asked.products;
            let cover = best_cover(graph, self.target, &row, column, known, self.usual)?;
            for slice in &cover {
                let met = operand_slice(graph, output.value, Some(column), *slice)?;
                self.ask(output.value, met);
            }
            self.asked.outputs[place] = cover;
        }
        Some(())
    }

    /// Asks for what reductions of all columns read, the last ones first.
    fn ask_folds(&mut self) {
        for (id, node) in self.graph.nodes().rev() {
            let Op::Reduce(fold, Over { column: Some(Run::All), .. }, a) = node.op else {
                continue;
            };
            if self.asked.slices[id.index()] == 0 {
                continue;
            }
            let column = self.graph.ty(a).axes.column.unwrap_or(1);
            let row = &self.table[a.index()];
            let known = self.asked.products;
            let (graph, target) = (self.graph, self.target);
            let cover = fold_cover(graph, target, row, fold, column, known, self.usual)
                .unwrap_or_else(|| panic!("compiler bug: {a} has no slices"));
            for slice in &cover {
                self.ask(a, *slice);
            }
            self.asked.folded[id.index()] = Some(cover);
        }
    }

    /// Asks for a slice of a value, and for all that it is made of but what reductions of all columns read.
    fn ask(&mut self, id: NodeId, slice: Slice) {
        let mut open = vec![(id, slice)];
        while let Some((id, slice)) = open.pop() {
            let bit = 1 << slice.number().unwrap_or(0);
            if self.asked.slices[id.index()] & bit != 0 {
                continue;
            }
            self.asked.slices[id.index()] |= bit;
            let column = self.graph.ty(id).axes.column;
            let op = &self.graph[id].op;
            if matches!(op, Op::Accumulator(_)) {
                self.asked.products |= bit;
            }
            match op.dependence() {
                Dependence::Part(part, a) => open.push((a, slice.of_part(part))),
                Dependence::Merge(merge, a, b) => {
                    let of = slice.of_merge(merge).map(|(place, inner)| ([a, b][place], inner));
                    open.extend(of);
                }
                Dependence::Reduce(_, Over { column: Some(Run::All), .. }, _)
                | Dependence::Concat(_) => {}
                Dependence::Reduce(fold, Over { column: Some(Run::Group(run)), .. }, a) => {
                    let (graph, divisor) = (self.graph, self.target.divisor);
                    let read = reduced_slices(graph, divisor, a, fold, run, slice);
                    let slices = read.map(|(slices, _)| slices).unwrap_or_default();
                    open.extend(slices.into_iter().map(|slice| (a, slice)));
                }
                Dependence::Pick(a, b)
                | Dependence::ReduceWeighted(_, Over { column: Some(_), .. }, a, b) => {
                    open.extend([a, b].map(|operand| (operand, Slice::WHOLE)));
                }
                Dependence::Source
                | Dependence::Elementwise(_)
                | Dependence::Reduce(_, Over { column: None, .. }, _)
                | Dependence::ReduceWeighted(_, Over { column: None, .. }, ..)
                | Dependence::Call => open.extend(op.operands().filter_map(|operand| {
                    Some((operand, operand_slice(self.graph, operand, column, slice)?))
                })),
            }
        }
    }
}
