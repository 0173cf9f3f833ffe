//! Reductions of values that do not vary along all that is folded: they count elements instead of reading them.

use crate::dtype::Elem;
use crate::graph::{Axes, Binary, Constant, Fold, NodeId, Op, Over, Run, Unary};

use super::super::rules::Site;

/// Whether a value with axes `value` is one number for all elements that `over` folds of a value with axes `folded`.
pub(in super::super) fn is_invariant(over: Over, folded: Axes, value: Axes) -> bool {
    let varies = Run::varies(over.row, folded.row, value.row)
        || Run::varies(over.column, folded.column, value.column);
    !(varies || over.batch && value.batch)
}

/// How many equal elements meet in one result: the size of these axes times a fixed width.
struct Count {
    axes: Axes,
    width: f32,
}

/// The reduction over `over` of `x`, standing for a value with axes `axes`; `None` when x varies along all that is
/// folded, or the result is no simpler.
pub(in super::super) fn fold_narrowed(
    site: &mut Site<'_>,
    fold: Fold,
    over: Over,
    axes: Axes,
    x: NodeId,
) -> Option<NodeId> {
    let own = site.axes(x);
    if own == axes {
        return None;
    }
    let lacks = |run: Option<Run>, own: Option<u32>, folded: Option<u32>| match (run, own) {
        (None, _) => Some(false),
        (Some(_), None) => Some(true),
        (Some(_), own) if own == folded => Some(false),
        // Coarser rows or columns: some elements repeat and some do not.
        (Some(_), Some(_)) => None,
    };
    let lacks_row = lacks(over.row, own.row, axes.row)?;
    let lacks_column = lacks(over.column, own.column, axes.column)?;
    let present = Over {
        batch: over.batch && own.batch,
        row: over.row.filter(|_| !lacks_row),
        column: over.column.filter(|_| !lacks_column),
    };
    let absent = Over {
        batch: over.batch && !own.batch,
        row: over.row.filter(|_| lacks_row),
        column: over.column.filter(|_| lacks_column),
    };
    let missing = absent.extent(axes);
    let count = Count { axes: missing, width: absent.run_elements() };
    if present == Over::NOTHING {
        let x = if fold == Fold::AbsMax { site.make_unary(Unary::Abs, x) } else { x };
        repeat(site, fold, x, &count)
    } else if absent == Over::NOTHING {
        Some(site.make(Op::Reduce(fold, over, x)))
    } else if fold_repeats(site, fold, site.elem(x)) {
        let part = site.make(Op::Reduce(fold, present, x));
        repeat(site, fold, part, &count)
    } else {
        None
    }
}

/// Whether [`repeat`] has a form for values that are not constants.
fn fold_repeats(site: &Site<'_>, fold: Fold, elem: Elem) -> bool {
    match fold {
        Fold::Max | Fold::Min | Fold::AbsMax => true,
        Fold::Sum => site.fast() && elem == Elem::F32,
        Fold::LogSumExp => site.fast(),
        Fold::Prod
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => false,
    }
}

/// The fold of `count` times the same value.
fn repeat(site: &mut Site<'_>, fold: Fold, x: NodeId, count: &Count) -> Option<NodeId> {
    match fold {
        // One of the elements, if there is one.
        Fold::Max | Fold::Min | Fold::AbsMax => Some(unless_empty(site, fold, x, count.axes)),
        Fold::Sum => repeat_sum(site, x, count),
        Fold::Prod if site.is_one(x) => Some(x),
        // An odd number of -0 makes -0, an even one 0.
        Fold::Prod if site.is(x, 0.0) || site.is_i32(x, 0) => {
            Some(unless_empty(site, fold, x, count.axes))
        }
        Fold::LogSumExp if site.fast() => {
            let count = number_of(site, count);
            let log = site.make_unary(Unary::Log, count);
            Some(site.make_binary(Binary::Add, x, log))
        }
        Fold::Prod
        | Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => None,
    }
}

/// A finite constant times the count, which is within the bound of any sum of that many terms, and exact where every
/// order of adding is. Other values are multiplied under fast math: an infinity times a count of 0 is nan.
fn repeat_sum(site: &mut Site<'_>, x: NodeId, count: &Count) -> Option<NodeId> {
    // No sum is -0.
    if site.number(x) == Some(0.0) {
        return Some(site.make_number(0.0));
    }
    if site.is_i32(x, 0) {
        return Some(x);
    }
    // Counts are floats: an integer sum would have to wrap where they round.
    if site.elem(x) != Elem::F32 {
        return None;
    }
    let finite = site.number(x).is_some_and(f32::is_finite);
    if !finite && !site.fast() {
        return None;
    }
    let count = number_of(site, count);
    Some(site.make_binary(Binary::Multiply, count, x))
}

fn number_of(site: &mut Site<'_>, count: &Count) -> NodeId {
    if count.axes.rank() == 0 {
        return site.make_number(count.width);
    }
    let extent = site.make(Op::Extent(count.axes));
    if count.width == 1.0 {
        return extent;
    }
    let width = site.make_number(count.width);
    site.make_binary(Binary::Multiply, extent, width)
}

/// `x`, or the fold's identity where these axes have no element.
pub(super) fn unless_empty(site: &mut Site<'_>, fold: Fold, x: NodeId, axes: Axes) -> NodeId {
    if axes.rank() == 0 {
        return x;
    }
    let elem = site.elem(x);
    let identity = site.make_constant(Constant::of(elem, fold.identity(elem)));
    let zero = site.make_number(0.0);
    let extent = site.make(Op::Extent(axes));
    let any = site.make_binary(Binary::Less, zero, extent);
    site.make(Op::Select(any, x, identity))
}
