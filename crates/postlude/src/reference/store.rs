//! The store: an output's elements after its rounding.

use std::collections::BTreeMap;

use crate::problem::BodyStrides;
use crate::tensor;

use super::alternatives::{self, Alternatives, MOST_INDICES};
use super::array::{Array, Frame, View};
use super::demand::Wanted;
use super::evaluate::{Call, CutRows};
use super::{Coverage, Evaluated, convert};

/// The wanted elements of an output, in the order of a contiguous tensor.
pub(super) fn store(
    call: Call<'_>,
    cut: Option<&CutRows>,
    wanted: &Wanted,
    arrays: &[&Array],
) -> Evaluated {
    let Call { graph, problem, .. } = call;
    let output = &graph.outputs()[wanted.output];
    let shape = problem.shape(&output.dims);
    let strides = tensor::contiguous(&shape);
    let apart = output.stack.as_ref().map_or(0, |stack| strides[stack.dim]);
    let dims = output.without_stack(&output.dims);
    let strides = BodyStrides::new(graph.space(), &dims, &output.without_stack(&strides));
    let Some(axes) = graph.space().axes(&dims) else {
        panic!("compiler bug: output `{}` has foreign dims", output.name)
    };
    let [batches, ..] = problem.extents(axes);
    let Wanted { rows, columns, .. } = wanted.clone();
    let segments = cut.filter(|_| axes.row.is_some()).map(|cut| cut.of_rows.clone());
    let frame = Frame { batches, rows, columns, segments };
    let views: Vec<View<'_>> = arrays.iter().map(|array| array.view(&frame)).collect();
    let elem = graph.ty(output.value).elem;
    let mut elements = Vec::with_capacity(frame.len() * views.len());
    for batch in 0..batches {
        for (row, row_place) in frame.rows.chosen.iter().enumerate() {
            for (column, column_place) in frame.columns.chosen.iter().enumerate() {
                let first = strides.to_element(problem, [batch, *row_place, *column_place]);
                for (number, view) in (0..).zip(&views) {
                    let index = view.index([batch, row, column]);
                    elements.push(((first + number * apart) as usize, number as usize, index));
                }
            }
        }
    }
    // Dims may be declared in another order than batch, rows, columns.
    elements.sort_unstable();
    let mut values = Vec::with_capacity(elements.len());
    let mut kept: BTreeMap<usize, Alternatives> = BTreeMap::new();
    for (at, (_, number, index)) in elements.iter().enumerate() {
        let array = arrays[*number];
        let mut value = convert(output.dtype, elem, array.values[*index]);
        if let Some(pieces) = array.alternatives.get(index) {
            let stored = pieces.iter().map(|piece| convert(output.dtype, elem, *piece)).collect();
            let (hull, found) = alternatives::enclose_to(MOST_INDICES, value.nominal, stored);
            value = hull;
            kept.extend(found.map(|found| (at, found)));
        }
        values.push(value);
    }
    let coverage = Coverage {
        checked: values.len(),
        elements: shape.iter().product(),
        rows: (frame.rows.len(), frame.rows.of),
        columns: (frame.columns.len(), frame.columns.of),
    };
    let places =
        (!coverage.is_whole()).then(|| elements.iter().map(|(place, ..)| *place).collect());
    let (name, dtype) = (output.name.clone(), output.dtype);
    Evaluated { name, dtype, shape, values, alternatives: kept, places, coverage }
}
