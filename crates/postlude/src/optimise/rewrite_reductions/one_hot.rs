//! Sums that one column alone contributes to.

use crate::dtype::{DType, Elem};
use crate::graph::{Axes, Binary, Columns, Constant, Fold, IndexAxis, NodeId, Op, Over, Run};

use super::super::rules::Site;

/// `sum(where(col == t, z, 0), N)` is `where(0 <= t & t < N, pick(z, t), 0)`: all other terms are 0, and adding 0 to the
/// one that is left makes -0 what the sum makes of it. Under fast math `f32(col == t) * z` is read alike (0 times an
/// infinity would be nan). The number of columns is exact up to 2^24.
pub(super) fn one_hot(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::Sum, over, terms) = *op else { return None };
    let (Some(Run::All), Elem::F32) = (over.column, site.elem(terms)) else { return None };
    let (condition, z) = chosen(site, terms)?;
    let index = column_index(site, condition)?;
    let columns = site.graph.space().accumulator_axes().columns();
    let value = match site.axes(z).columns() {
        None => z,
        column if column == columns => site.make(Op::Pick(z, index)),
        Some(_) => return None,
    };
    let picked = in_range(site, index, value, columns);
    let rest = Over { column: None, ..over };
    if rest == Over::NOTHING {
        return Some(picked);
    }
    // What is summed further must vary along what it is summed over.
    rest.leaves(site.axes(picked))?;
    Some(site.make(Op::Reduce(Fold::Sum, rest, picked)))
}

/// The condition and the value of a term that is 0 unless the condition holds.
fn chosen(site: &Site<'_>, terms: NodeId) -> Option<(NodeId, NodeId)> {
    match *site.op(terms) {
        Op::Select(condition, z, zero) if site.number(zero) == Some(0.0) => Some((condition, z)),
        Op::Binary(Binary::Multiply, a, b) if site.fast() => {
            [(a, b), (b, a)].into_iter().find_map(|(mask, z)| match *site.op(mask) {
                Op::Cast(DType::F32, condition) if site.elem(condition) == Elem::Bool => {
                    Some((condition, z))
                }
                _ => None,
            })
        }
        _ => None,
    }
}

/// `t` of `col == t` or `t == col`, when it does not vary along the columns.
fn column_index(site: &Site<'_>, condition: NodeId) -> Option<NodeId> {
    let (a, b) = site.binary_of(condition, Binary::Equal)?;
    let column = Op::Index(IndexAxis::Column);
    [(a, b), (b, a)].into_iter().find_map(|(col, t)| {
        (*site.op(col) == column && site.axes(t).column.is_none()).then_some(t)
    })
}

/// The value plus 0 where the index is that of a column, else 0.
fn in_range(site: &mut Site<'_>, index: NodeId, value: NodeId, columns: Option<Columns>) -> NodeId {
    let first = site.make_constant(Constant::I32(0));
    let extent = site.make(Op::Extent(Axes::SCALAR.along(columns)));
    let end = site.make(Op::Cast(DType::I32, extent));
    let from = site.make_binary(Binary::LessEqual, first, index);
    let to = site.make_binary(Binary::Less, index, end);
    let valid = site.make_binary(Binary::And, from, to);
    let zero = site.make_number(0.0);
    let value = site.make_binary(Binary::Add, value, zero);
    site.make(Op::Select(valid, value, zero))
}
