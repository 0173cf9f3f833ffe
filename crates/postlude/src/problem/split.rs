//! Sizes of the parts of a split: those that follow from others, and whether all parts are the whole.

use crate::graph::Graph;
use crate::shape::Dim;

use super::{BindError, Problem, Sizes, size_of};

/// Sizes together with those that follow from them because the parts of a split are all of it.
pub(super) fn with_split_sizes(graph: &Graph, sizes: &Sizes) -> Sizes {
    let space = graph.space();
    let mut sizes = sizes.clone();
    // A split of a part may need the sizes that another one tells.
    for _ in &space.splits {
        for split in &space.splits {
            let whole = size_of(&space.column_dim(split.whole), &sizes);
            let dims: Vec<Dim> = split.parts.iter().map(|part| space.column_dim(*part)).collect();
            let (known, unknown): (Vec<&Dim>, Vec<&Dim>) =
                dims.iter().partition(|dim| size_of(dim, &sizes).is_ok());
            let total = known.iter().try_fold(0usize, |total, dim| {
                total.checked_add(size_of(dim, &sizes).unwrap_or(0))
            });
            match (whole, unknown.as_slice(), total) {
                (Ok(whole), [Dim::Name { name, divisor }, ..], Some(total))
                    if unknown.iter().all(|dim| *dim == unknown[0])
                        && !sizes.contains_key(name)
                        && whole >= total
                        && (whole - total) % unknown.len() == 0 =>
                {
                    let own = (whole - total) / unknown.len();
                    let size = own.saturating_mul(*divisor as usize);
                    sizes.insert(name.clone(), size);
                }
                (Err(_), [], Some(total)) => {
                    if let Dim::Name { name, divisor } = space.column_dim(split.whole)
                        && !sizes.contains_key(&name)
                    {
                        sizes.insert(name, total.saturating_mul(divisor as usize));
                    }
                }
                _ => {}
            }
        }
    }
    sizes
}

/// The parts of a split are all of it.
pub(super) fn check_splits(graph: &Graph, problem: &Problem) -> Result<(), BindError> {
    let space = graph.space();
    for split in &space.splits {
        let sizes = split.parts.iter().map(|part| problem.count(*part));
        let total = sizes.fold(0, usize::saturating_add);
        let whole = problem.count(split.whole);
        if total != whole {
            let dim = space.column_dim(split.whole).to_string();
            let parts: Vec<String> =
                split.parts.iter().map(|part| space.column_dim(*part).to_string()).collect();
            let parts = parts.join(" + ");
            return Err(BindError::SplitSize { dim, whole, parts, total });
        }
    }
    Ok(())
}
