//! Sizes of an input that is another one under other dims: each of its dims is as long as the other's.

use crate::graph::Graph;
use crate::shape::Dim;

use super::{BindError, Sizes, size_of};

/// Sizes, and the sizes that follow because two inputs are one tensor; they have to agree.
pub(super) fn with_same_sizes(graph: &Graph, sizes: &Sizes) -> Result<Sizes, BindError> {
    let mut sizes = sizes.clone();
    let pairs: Vec<(&str, &Dim, &Dim)> = graph
        .inputs()
        .iter()
        .filter(|input| input.same_as.is_some())
        .flat_map(|input| {
            let (own, other) = (input.dims.iter().flatten(), &graph.passed_as(input).dims);
            own.zip(other.iter().flatten()).map(|(own, other)| (input.name.as_str(), own, other))
        })
        .collect();
    // A size may follow from one that another pair tells.
    for _ in &pairs {
        for (_, own, other) in &pairs {
            for (unknown, known) in [(own, other), (other, own)] {
                if let (Dim::Name { name, divisor }, Ok(size)) = (unknown, size_of(known, &sizes))
                    && !sizes.contains_key(name)
                {
                    let size = size.checked_mul(*divisor as usize).ok_or(BindError::TooLarge)?;
                    sizes.insert(name.clone(), size);
                }
            }
        }
    }
    for (name, own, other) in pairs {
        if let (Ok(given), Ok(known)) = (size_of(other, &sizes), size_of(own, &sizes))
            && given != known
        {
            let (name, dim, known) = (name.to_owned(), own.to_string(), known.to_string());
            return Err(BindError::Size { name, dim, given, known });
        }
    }
    Ok(sizes)
}
