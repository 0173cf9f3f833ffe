//! Checks of bound sizes: even divisions, whole bytes of packed elements, indices and products that do not overflow.
//!
//! In: a graph and a problem whose sizes are known. Out: the first rule that they break.

use crate::dtype::DType;
use crate::graph::{Axes, Binary, Columns, Fold, Graph, Input, Node, NodeId, Op, Over, Run, Top};
use crate::shape::Dim;

use super::{BindError, MOST_ELEMENTS, Problem, size_of};

impl Problem {
    /// Runs of rows and columns divide them.
    pub(super) fn check_multiples(&self, graph: &Graph) -> Result<(), BindError> {
        let own = Columns::of_product(self.column_divisor);
        for multiple in graph.multiples().into_iter().chain([own]) {
            let (size, by) = (self.base_size(multiple.part), multiple.divisor);
            if size % by as usize != 0 {
                let dim = graph.space().base_dim(multiple.part).to_string();
                let bytes = graph.statement_needing(multiple).map(|statement| statement.bytes);
                return Err(BindError::Multiple { dim, size, by, bytes });
            }
        }
        for run in graph.row_multiples() {
            if !self.rows.is_multiple_of(run as usize) {
                let Dim::Name { name, divisor } = &graph.space().row else { continue };
                let size = self.rows * *divisor as usize;
                let bytes = graph.statement_needing_rows(run).map(|statement| statement.bytes);
                let by = divisor.saturating_mul(run);
                return Err(BindError::Multiple { dim: name.clone(), size, by, bytes });
            }
        }
        Ok(())
    }

    /// Packed elements fill whole bytes.
    pub(super) fn check_packed(&self, graph: &Graph) -> Result<(), BindError> {
        let packed = graph
            .outputs()
            .iter()
            .map(|o| (o.dtype, &o.dims))
            .chain(graph.inputs().iter().filter_map(|i| Some((i.dtype, i.dims.as_ref()?))));
        for (dtype, dims) in packed.filter(|(dtype, _)| dtype.is_packed()) {
            let by = dtype.per_byte() as u32;
            let last = dims.last().map_or(1, |dim| size_of(dim, &self.sizes).unwrap_or(1));
            if !last.is_multiple_of(dtype.per_byte()) {
                let dim = dims.last().map_or_else(String::new, Dim::to_string);
                return Err(BindError::Multiple { dim, size: last, by, bytes: None });
            }
        }
        Ok(())
    }

    /// Indices that folds give are i32, and each is of an element. What a launch hands to another may be of none.
    pub(super) fn check_indices(&self, graph: &Graph) -> Result<(), BindError> {
        for (id, node) in graph.nodes() {
            let Op::Reduce(fold, over, terms) = node.op else { continue };
            if !fold.uses_index() {
                continue;
            }
            let function = if let Fold::Top(_) = fold { "topk" } else { fold.name() };
            let bytes = graph.statement(id).map(|one| one.bytes);
            let count = self.folded(over, graph.ty(terms).axes);
            if count > i32::MAX as usize {
                return Err(BindError::IndexRange { function, count, bytes });
            }
            let results: usize = self.extents(node.ty.axes).iter().product();
            if results == 0 || is_met_by_terms_only(graph, id, over) {
                continue;
            }
            if let Fold::Top(Top { of: wanted, .. }) = fold
                && count < wanted as usize
            {
                return Err(BindError::TooFew { wanted, count, bytes });
            }
            if count == 0 {
                return Err(BindError::NoIndex { function, bytes });
            }
        }
        for earlier in graph.earlier() {
            self.of_computing(earlier.graph)?.check_indices(earlier.graph)?;
        }
        Ok(())
    }

    /// How many elements of a value a reduction folds together.
    fn folded(&self, over: Over, axes: Axes) -> usize {
        let [batches, rows, columns] = self.extents(axes);
        let (rows, columns) = (Run::count(over.row, rows), Run::count(over.column, columns));
        let batches = if over.batch { batches } else { 1 };
        batches * rows * columns
    }

    /// No index computation may overflow.
    pub(super) fn check_total(&self) -> Result<(), BindError> {
        let most = [self.rows, self.columns, self.inner];
        let fits = |a: usize, b: usize| {
            a.max(1)
                .checked_mul(b.max(1))
                .and_then(|n| n.checked_mul(self.batch.max(1)))
                .is_some_and(|n| n <= MOST_ELEMENTS)
        };
        if fits(most[0], most[1]) && fits(most[0], most[2]) && fits(most[1], most[2]) {
            Ok(())
        } else {
            Err(BindError::TooLarge)
        }
    }
}

/// Whether an input takes elements of this type: its own, or int64 where it takes that.
pub(super) fn check_dtype(graph: &Graph, input: &Input, given: DType) -> Result<(), BindError> {
    let (name, declared) = (input.name.clone(), input.dtype);
    match (declared, given) {
        _ if declared == given => Ok(()),
        (DType::I32, DType::I64) if graph.takes_int64(&name) => Ok(()),
        (DType::I32, DType::I64) => Err(BindError::Int64 { name }),
        _ => Err(BindError::DType { name, declared, given }),
    }
}

/// Whether only elements along the folded dims use a result, as in `topk_softmax`: those are there, however few. They may
/// use an index of runs times their length.
fn is_met_by_terms_only(graph: &Graph, result: NodeId, over: Over) -> bool {
    let varies = |axes: Axes| {
        (!over.batch || axes.batch)
            && (over.row.is_none() || axes.row.is_some())
            && (over.column.is_none() || axes.column.is_some())
    };
    let is_stored = |id: NodeId| graph.outputs().iter().any(|output| output.value == id);
    let users = |id: NodeId| {
        graph.nodes().filter(move |(_, node)| node.op.operands().any(|operand| operand == id))
    };
    let is_number = |id: NodeId| matches!(graph[id].op, Op::Constant(_));
    let is_multiple = |id: NodeId, node: &Node| {
        matches!(node.op, Op::Binary(Binary::Multiply, a, b) if is_number(a) || is_number(b))
            && !is_stored(id)
            && users(id).all(|(_, user)| varies(user.ty.axes))
    };
    !is_stored(result)
        && users(result).all(|(id, node)| varies(node.ty.axes) || is_multiple(id, node))
}
