//! What no launch computes: rules of a tile program, so that a refusal names the statement and its cure.

use crate::dtype::{DType, Elem};
use crate::graph::{
    Concat, Dependence, Fold, Graph, Kind, Node, NodeId, Op, Part, Run, Space, Top,
};
use crate::placement::Major;
use crate::problem::Problem;
use crate::shape::Dim;

use super::program::TileProgram;
use super::reductions::{Batches, ReductionScope, Source};
use super::refusal::{LowerRefusal, bytes_of, needing};
use super::row_pass::is_whole_row;
use super::rules::Rule;
use super::runs::is_reduction_of_run;

/// Refuses what no launch computes.
pub(super) fn refuse(program: &TileProgram) -> Result<(), LowerRefusal> {
    let graph = program.graph();
    refuse_segments(program)?;
    refuse_row_runs(program)?;
    refuse_runs(program)?;
    refuse_reductions(program)?;
    for (id, _) in graph.nodes().filter(|(id, _)| program.live[id.index()]) {
        if is_whole(graph, id) {
            return Err(Rule::Whole.at(graph, id));
        }
    }
    for output in graph.outputs() {
        let name = || output.name.clone();
        let bytes = bytes_of(graph, output.value);
        let Some(axes) = graph.space().axes(&output.dims) else {
            return Err(LowerRefusal::NotATile { name: name(), bytes });
        };
        let whole = graph.space().accumulator_axes();
        let tile = axes.row.is_some() && axes.column == whole.column;
        let own = graph.space().column.divisor();
        let grouped = axes.kind() == Kind::Tile
            && axes.column.is_some_and(|divisor| divisor > own && divisor % own == 0);
        let (of, after_reductions) =
            (graph[output.value].ty.axes, program.after_reductions[output.value.index()]);
        let own = if after_reductions { of == axes } else { of.kind() == axes.kind() };
        let finished = (after_reductions || program.passes[output.value.index()] > 0)
            && own
            && axes.kind() != Kind::Tile
            || grouped && !after_reductions;
        let finished = finished || program.plain_kind(output).is_some();
        if finished && !tile && output.dtype == DType::B1 {
            return Err(Rule::PackedVector.at(graph, output.value));
        }
        if tile && after_reductions {
            return Err(Rule::FinishedInTile.at(graph, output.value));
        }
        if !tile && !finished {
            return Err(LowerRefusal::NotATile { name: name(), bytes });
        }
        if output.dtype == DType::B1 && packed_major(graph.space(), &output.dims).is_none() {
            return Err(LowerRefusal::PackedBatches { name: name(), bytes });
        }
    }
    Ok(())
}

/// Refuses what tiles of segmented rows do not finish: rows of a segment are no block of the problem's rows, and no
/// value is a count of them.
fn refuse_segments(program: &TileProgram) -> Result<(), LowerRefusal> {
    let graph = program.graph();
    if !graph.space().is_segmented() {
        return Ok(());
    }
    for reduction in &program.reductions {
        let along_rows = |scope: ReductionScope| scope.kind == Kind::AlongRows;
        let finished = match reduction.source {
            Source::Elements | Source::Rows => reduction.scope.batches == Batches::Each,
            Source::Finished(from) => !along_rows(from),
        };
        if along_rows(reduction.scope) || !finished {
            return Err(Rule::SegmentedRows.at(graph, reduction.node));
        }
    }
    let counts = |node: &Node| matches!(node.op, Op::Extent(axes) if axes.row.is_some());
    let live = graph.nodes().filter(|(id, _)| program.live[id.index()]);
    if let Some((id, _)) = live.into_iter().find(|(_, node)| counts(node)) {
        return Err(Rule::SegmentedRows.at(graph, id));
    }
    for output in graph.outputs() {
        let axes = graph.space().axes(&output.dims);
        let bits = output.dtype == DType::B1
            && packed_major(graph.space(), &output.dims) == Some(Major::Column);
        let finished = program.after_reductions[output.value.index()];
        if !finished && axes.is_none_or(|axes| axes.row.is_none()) || bits {
            return Err(Rule::SegmentedRows.at(graph, output.value));
        }
    }
    Ok(())
}

/// Refuses what no tile makes of runs of rows.
fn refuse_row_runs(program: &TileProgram) -> Result<(), LowerRefusal> {
    let graph = program.graph();
    let coarse = |id: NodeId| graph.ty(id).axes.row.is_some_and(|run| run > 1);
    for (id, node) in graph.nodes().filter(|(id, _)| program.live[id.index()]) {
        let refuse = |rule: Rule| Err(rule.at(graph, id));
        if let Some((_, over, terms)) = node.op.reduction() {
            let of_runs = matches!(over.row, Some(Run::Group(_)));
            let in_tile = program.is_block(id) || is_reduction_of_run(graph, id);
            if (of_runs || coarse(terms)) && !in_tile
                || program.is_block(id) && program.after_reductions[terms.index()]
            {
                return refuse(Rule::RowRuns);
            }
        }
        // Rows are finished before blocks are.
        let before_blocks = program.passes[id.index()] > 0 && is_whole_row(graph, id);
        if before_blocks && program.after_blocks[id.index()] > 0 {
            return refuse(Rule::RowMeetsBlock);
        }
        if matches!(node.op, Op::Pick(terms, _) if coarse(terms)) {
            return refuse(Rule::RowRuns);
        }
    }
    for output in graph.outputs() {
        if output.dtype == DType::B1 && program.output_row_run(output) > 1 {
            return Err(Rule::PackedVector.at(graph, output.value));
        }
    }
    Ok(())
}

/// Refuses values of fewer columns that no tile knows.
fn refuse_runs(program: &TileProgram) -> Result<(), LowerRefusal> {
    let TileProgram { live, after_reductions, runs, .. } = program;
    let graph = program.graph();
    let own = graph.space().column.divisor();
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let fewer = || Err(Rule::OtherColumns.at(graph, id));
        // A count of elements is a scalar, and is computed from the product's columns.
        let counted = if let Op::Extent(axes) = node.op { axes.column } else { None };
        let columns = [node.ty.axes.column, counted];
        if columns.into_iter().flatten().any(|divisor| divisor % own != 0) {
            return fewer();
        }
        // The warpgroup that finishes columns has a run's result in the run's first column only.
        let along = node.ty.axes.kind() == Kind::AlongColumns;
        let coarse = |operand: NodeId| runs[operand.index()] > 1;
        let longer = |operand: NodeId| {
            after_reductions[operand.index()] && runs[operand.index()] > runs[id.index()]
        };
        if along && node.op.operands().any(longer)
            || !along && coarse(id) && after_reductions[id.index()]
        {
            return fewer();
        }
        if matches!(node.op, Op::Pick(terms, _) if coarse(terms)) {
            return fewer();
        }
    }
    let single = |id: NodeId| {
        let reduction = graph[id].op.reduction();
        reduction.is_some_and(|(_, over, _)| over.column == Some(Run::Group(1)))
    };
    let mut alone = graph.nodes().map(|(id, _)| id).filter(|id| live[id.index()] && single(*id));
    if let Some(id) = alone.next() {
        let bytes = graph.statement(id).map(|statement| statement.bytes);
        return Err(LowerRefusal::UnevenGroups { run: 1, bytes });
    }
    // Four lanes hold eight neighbouring columns, two each.
    match program.run_lengths.iter().copied().find(|run| ![2, 4].contains(run) && run % 8 != 0) {
        Some(run) => Err(LowerRefusal::UnevenGroups { run, bytes: needing(graph, run) }),
        None => Ok(()),
    }
}

/// Refuses reductions that no kernel finishes.
fn refuse_reductions(program: &TileProgram) -> Result<(), LowerRefusal> {
    let TileProgram { live, after_reductions, passes, .. } = program;
    let graph = program.graph();
    if program.ranked().is_none() {
        refuse_many_top(program)?;
    }
    for (id, node) in
        graph.nodes().filter(|(id, _)| live[id.index()] && after_reductions[id.index()])
    {
        let refuse = |rule: Rule| Err(rule.at(graph, id));
        let scope = ReductionScope::of(graph, node.ty.axes);
        if let Some((_, over, terms)) = node.op.reduction() {
            let whole = !matches!(over.column, Some(Run::Group(_)));
            // A reduction over batches alone gives a tile, and no warpgroup visits all batches' tiles again.
            if scope.kind == Kind::Tile || !whole {
                return refuse(if whole { Rule::FoldLeavesTile } else { Rule::OtherColumns });
            }
            // Weights are known where the terms are.
            if let Op::ReduceWeighted(.., weights) = node.op
                && after_reductions[weights.index()]
                && (!after_reductions[terms.index()]
                    || ReductionScope::of(graph, graph[weights].ty.axes)
                        != ReductionScope::of(graph, graph[terms].ty.axes))
            {
                return refuse(Rule::FinishedMeetsOther);
            }
            continue;
        }
        if let Op::Pick(terms, index) = node.op {
            let [of, place] = [terms, index].map(|operand| graph[operand].ty);
            let simple =
                of.axes.kind() == Kind::Tile && of.elem == Elem::F32 && place.axes.column.is_none();
            // The warpgroup that finishes a pick loads the index again, and has no results of row passes.
            let known = !after_reductions[terms.index()]
                && !after_reductions[index.index()]
                && passes[index.index()] == 0;
            if !simple || !known {
                return refuse(Rule::PickOfFinished);
            }
            continue;
        }
        if node.op.operands().any(|operand| passes[operand.index()] > 0) {
            return refuse(Rule::FinishedMeetsPass);
        }
        let apart = |operand: NodeId| {
            after_reductions[operand.index()]
                && ReductionScope::of(graph, graph[operand].ty.axes) != scope
        };
        if scope.kind == Kind::Tile || node.op.operands().any(apart) {
            return refuse(Rule::FinishedMeetsOther);
        }
    }
    Ok(())
}

/// Refuses lists that no tile's threads keep.
pub(crate) fn refuse_many_top(program: &TileProgram) -> Result<(), LowerRefusal> {
    let graph = program.graph();
    let is_long = |op: &Op| matches!(op.reduction(), Some((Fold::Top(top), ..)) if top.of > Top::MOST_IN_LAUNCH);
    let mut live = graph.nodes().filter(|(id, _)| program.live[id.index()]);
    match live.find(|(_, node)| is_long(&node.op)) {
        Some((id, _)) => Err(Rule::ManyTop.at(graph, id)),
        None => Ok(()),
    }
}

/// Refuses results of a problem without batches: no tile would write them. A problem without rows or columns still has
/// one tile. Rows that no segment has are not written.
pub(super) fn refuse_batches(graph: &Graph, problem: &Problem) -> Result<(), LowerRefusal> {
    let unwritten = |dims: &[Dim]| {
        problem.segmented && dims.iter().any(|dim| graph.space().row_run(dim).is_some())
    };
    let wanted =
        |dims: &[Dim]| problem.shape(dims).iter().all(|size| *size > 0) && !unwritten(dims);
    let output = graph.outputs().iter().find(|output| wanted(&output.dims));
    match output.filter(|_| problem.batch == 0) {
        Some(output) => Err(Rule::NoBatches.at(graph, output.value)),
        None => Ok(()),
    }
}

/// Which elements of a tile of packed bits share bytes; `None` where batches do.
pub(crate) fn packed_major(space: &Space, dims: &[Dim]) -> Option<Major> {
    let last = dims.last();
    if last == Some(&space.row) {
        Some(Major::Column)
    } else if last.is_some_and(|last| space.batch.contains(last)) {
        None
    } else {
        Some(Major::Row)
    }
}

/// Whether planning should have made something else of a node.
fn is_whole(graph: &Graph, id: NodeId) -> bool {
    match graph[id].op.dependence() {
        Dependence::Source | Dependence::Elementwise(_) => false,
        // The caller asked before which of them finish inside a tile.
        Dependence::Reduce(..) | Dependence::ReduceWeighted(..) | Dependence::Pick(..) => false,
        Dependence::Part(Part::Repeated { .. }, _) | Dependence::Concat(Concat::Repeated(_)) => {
            false
        }
        Dependence::Part(..) | Dependence::Merge(..) | Dependence::Concat(_) | Dependence::Call => {
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define::defined;

    fn refusal(source: &str) -> Option<String> {
        super::super::lower(&defined(source)).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn what_the_epilogue_does_is_accepted() {
        for body in [
            "A @ W.T",
            "relu(A @ W.T + C + bias[N] * scale[M])",
            "silu(A @ W.T)",
            "where(isnan(A @ W.T), 0.0, 1.0)",
            "A @ W.T / scale[M]",
            "where(col < 3, A @ W.T, 0.0)",
            "f32(f8e4m3(A @ W.T))",
            "pow(A @ W.T, 3.0)",
            "tanh(A @ W.T)",
        ] {
            assert_eq!(refusal(&format!("D = {body}")), None, "{body}");
        }
        for body in [
            "s = sum(max(A @ W.T, N), M)",
            "Z = A @ W.T\ns = mean(logsumexp(Z, N)) + mean(logsumexp(Z, M)) - max(Z)",
            "Z = A @ W.T\nD = Z - max(Z, N)\nt = pick(Z, i32(max(Z, N)))\ns = mean(max(Z, N))",
        ] {
            assert_eq!(refusal(body), None, "{body}");
        }
    }

    #[test]
    fn vectors_of_fewer_columns_are_accepted() {
        for (output, value) in [
            ("d: f32[N/8]", "x * 2.0"),
            ("d: f32[N]", "x + bias"),
            ("d: f32[]", "max(x * 2.0, N/8)"),
            ("d: f32[N/8]", "x - sum(max(Z, N, 8), M)"),
            ("d: f32[]", "max(sum(max(Z, N, 8), M))"),
        ] {
            let source = format!(
                "kernel k(A: f16[M, K], W: f16[N, K], x: f32[N/8], bias: f32[N]) -> (D: f32[M, N], {output}) \
                 {{ Z = A @ W.T\nD = Z\nd = {value} }}"
            );
            assert_eq!(refusal(&source), None, "{value}");
        }
    }

    #[test]
    fn what_it_does_not_is_named() {
        // Of a run's columns only the first knows its result.
        let source = "kernel k(A: f16[M, K], W: f16[N, K], x: f32[N]) -> d: f32[N] { d = x * sum(max(A @ W.T, N, 8), M) }";
        let refusal = super::tests::refusal(source).unwrap_or_default();
        assert!(refusal.contains("this one has other columns"), "{refusal}");
        // No warpgroup visits the tiles again once their columns are finished.
        let source = "kernel k(A: f16[M, K], W: f16[N, K]) -> D: f32[M, N] { D = sum(A @ W.T, M) }";
        let refusal = super::tests::refusal(source).unwrap_or_default();
        assert!(refusal.contains("repeated in every element of a tile"), "{refusal}");
        for (body, wanted) in [
            ("s = sum(A @ W.T, N)\nt = s - max(s, M)", "varies along other dims than the result"),
            ("D = topk_softmax(A @ W.T, 9, N)", "at most 8 largest"),
            // The warpgroup that finishes the pick would not have the index.
            ("Z = A @ W.T\nt = pick(Z, i32(max(Z, N)))", "`pick`"),
        ] {
            let refusal = super::tests::refusal(body).unwrap_or_default();
            assert!(refusal.contains(wanted), "{refusal}");
        }
    }

    fn declared_refusal(dtype: DType, dims: &str) -> Option<String> {
        let source = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], keep: b1[{dims}]) -> D: {dtype}[{dims}] \
             {{ D = keep & (A @ W.T > 0.0) }}"
        );
        super::super::lower(&defined(&source)).err().map(|refusal| refusal.to_string())
    }

    fn batched_refusal(output: &str, value: &str) -> Option<String> {
        let (name, _) = output.split_once(':').expect("a name and its type");
        let source = format!(
            "kernel k(A: f16[B, M, K], W: f16[N, K], x: f16[M, N], s: f32[B]) -> (E: f32[B, M, N], {output}) \
             {{ Z = A @ W.T\nE = Z + x - max(x, N)\n{name} = {value} }}"
        );
        refusal(&source)
    }

    #[test]
    fn what_batches_share_is_written_once() {
        for (output, value) in [
            ("D: f32[M, N]", "x - max(x, N)"),
            ("d: f32[M]", "max(x, N)"),
            ("d: f32[B, M]", "max(x, N)"),
            ("g: f32[M, N/2]", "max(x, N, 2)"),
            ("v: f32[N]", "sum(Z, B, M) + sum(x, M)"),
            ("v: f32[M]", "sum(max(Z, N), B)"),
            ("v: f32[]", "mean(Z) + max(sum(Z, M, N)) + prod(s) - sum(min(Z, B, M), N)"),
        ] {
            assert_eq!(batched_refusal(output, value), None, "{value}");
        }
    }

    #[test]
    fn what_no_batch_finishes_is_refused() {
        for (output, value, wanted) in [
            ("D: f32[M, N]", "sum(Z, B)", "a reduction over the batch alone"),
            ("D: f32[B]", "sum(Z)", "output `D` is neither"),
            ("D: f32[B]", "sum(Z, M, N) / sum(Z)", "varies along other dims than the result"),
        ] {
            let refusal = batched_refusal(output, value).unwrap_or_default();
            assert!(refusal.contains(wanted), "{refusal}");
        }
    }

    #[test]
    fn bits_are_packed_along_rows_or_columns() {
        for dims in ["B, M, N", "B, N, M", "M, N, B"] {
            assert_eq!(declared_refusal(DType::Bool, dims), None, "{dims}");
        }
        for dims in ["B, M, N", "N, B, M"] {
            assert_eq!(declared_refusal(DType::B1, dims), None, "{dims}");
        }
        let refusal = declared_refusal(DType::B1, "M, N, B");
        let wanted = "bits are packed along rows or columns; output `D` has batches last";
        assert_eq!(refusal.as_deref(), Some(wanted));
    }
}
