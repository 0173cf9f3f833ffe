//! Sizes of dims from the shapes of files.
//!
//! In: the declared inputs with the files that are bound to them, and sizes that are known. Out: those sizes and the files'.
//! Invariant: a file with more or fewer dims than declared differs in dims of size 1 alone, and fits in one way alone.

use postlude::graph::{Graph, Input};
use postlude::shape::Dim;
use postlude::{DType, Error, Sizes, problem};

use crate::failure::Mistake;
use crate::files::Stored;

/// Why shapes do not fit.
#[derive(Debug)]
pub(crate) enum Misfit {
    /// A shape with the declared number of dims.
    Declared(Error),
    /// Another number of dims.
    Rank(Mistake),
}

/// Adds the sizes that files tell. Shapes with the declared number of dims come first: they may decide about the others.
pub(crate) fn collect(
    graph: &Graph,
    files: &[(&Input, &Stored)],
    sizes: &mut Sizes,
) -> Result<(), Misfit> {
    let rank = |input: &Input| input.dims.as_ref().map(Vec::len);
    let (same, mut others): (Vec<_>, Vec<_>) = files.iter().partition(|(input, stored)| {
        rank(input) == Some(stored.shape.len()) || is_foreign(input, stored)
    });
    for (input, stored) in same {
        problem::collect_sizes(graph, input, (stored.dtype, &stored.shape), sizes)
            .map_err(|error| Misfit::Declared(error.into()))?;
    }
    while !others.is_empty() {
        let mut undecided = Vec::new();
        for &(input, stored) in &others {
            let mut fitting = fitting(graph, input, stored, sizes);
            match fitting.len() {
                0 => return Err(Misfit::Rank(no_way(input, stored, sizes))),
                1 => *sizes = fitting.remove(0).1,
                _ => undecided.push((input, stored)),
            }
        }
        if undecided.len() == others.len() {
            let (input, stored) = undecided[0];
            return Err(Misfit::Rank(several_ways(graph, input, stored, sizes)));
        }
        others = undecided;
    }
    Ok(())
}

/// Whether something other than the shape is wrong.
fn is_foreign(input: &Input, stored: &Stored) -> bool {
    let is_kept = stored.dtype == DType::I64;
    input.dims.is_none() || (input.dtype != stored.dtype && !is_kept)
}

/// The shapes that a file's can mean, each with all sizes that are known then.
fn fitting(
    graph: &Graph,
    input: &Input,
    stored: &Stored,
    sizes: &Sizes,
) -> Vec<(Vec<usize>, Sizes)> {
    let dims = input.dims.as_deref().unwrap_or_default();
    let fits = |shape: Vec<usize>| {
        let mut known = sizes.clone();
        let is_fixed = |(dim, size): (&Dim, &usize)| match dim {
            Dim::Size(fixed) => *fixed as usize == *size,
            Dim::Name { .. } => true,
        };
        let collected = problem::collect_sizes(graph, input, (stored.dtype, &shape), &mut known);
        (collected.is_ok() && dims.iter().zip(&shape).all(is_fixed)).then_some((shape, known))
    };
    reshaped(&stored.shape, dims.len()).into_iter().filter_map(fits).collect()
}

/// Every shape of this many dims that adds dims of size 1, or leaves some out.
fn reshaped(shape: &[usize], rank: usize) -> Vec<Vec<usize>> {
    let others: Vec<usize> = shape.iter().copied().filter(|size| *size != 1).collect();
    if others.len() > rank {
        return Vec::new();
    }
    let mut all = Vec::new();
    place_ones(&others, rank, &mut Vec::new(), &mut all);
    all.retain(|one| is_part(one, shape) || is_part(shape, one));
    all
}

/// Every shape of this many dims that begins with `start`, with the other sizes in their order and ones between them.
fn place_ones(others: &[usize], rank: usize, start: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    let left = rank - start.len();
    if left == 0 {
        all.push(start.clone());
        return;
    }
    if others.len() < left {
        start.push(1);
        place_ones(others, rank, start, all);
        start.pop();
    }
    if let Some((first, rest)) = others.split_first() {
        start.push(*first);
        place_ones(rest, rank, start, all);
        start.pop();
    }
}

/// Whether all sizes of a shape are among those of another, in order.
fn is_part(shape: &[usize], other: &[usize]) -> bool {
    let mut sizes = other.iter();
    shape.iter().all(|size| sizes.any(|other| other == size))
}

fn no_way(input: &Input, stored: &Stored, sizes: &Sizes) -> Mistake {
    let (name, dims) = (&input.name, expected(input, sizes));
    let what = format!("`{name}` is declared with dims {dims}, but has shape {:?}", stored.shape);
    let mistake = Mistake::file(stored.path(), what);
    mistake.fix("only dims of size 1 may be more or fewer than declared; reshape the tensor")
}

fn several_ways(graph: &Graph, input: &Input, stored: &Stored, sizes: &Sizes) -> Mistake {
    let (name, dims, shape) = (&input.name, expected(input, sizes), &stored.shape);
    let ways: Vec<String> = fitting(graph, input, stored, sizes)
        .into_iter()
        .map(|(shape, _)| format!("{shape:?}"))
        .collect();
    let ways = ways.join(" or ");
    let what =
        format!("`{name}` is declared with dims {dims}, and shape {shape:?} may mean {ways}");
    let missing = input.dims.iter().flatten().find_map(|dim| match dim {
        Dim::Name { name, .. } if !sizes.contains_key(name) => Some(name.as_str()),
        Dim::Name { .. } | Dim::Size(_) => None,
    });
    let fix = format!("give its sizes: `--size {}=8`", missing.unwrap_or("M"));
    Mistake::file(stored.path(), what).fix(fix)
}

/// The declared dims, with the sizes that are known.
fn expected(input: &Input, sizes: &Sizes) -> String {
    let dims = input.dims.iter().flatten().map(|dim| match dim {
        Dim::Name { name, divisor } => match sizes.get(name) {
            Some(size) => format!("{dim}={}", size / (*divisor).max(1) as usize),
            None => dim.to_string(),
        },
        Dim::Size(_) => dim.to_string(),
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_added_and_left_out_in_every_way() {
        for (shape, rank, wanted) in [
            (&[1][..], 0, vec![vec![]]),
            (&[], 1, vec![vec![1]]),
            (&[5, 1], 1, vec![vec![5]]),
            (&[1, 5], 1, vec![vec![5]]),
            (&[1, 1, 5], 2, vec![vec![1, 5]]),
            (&[1, 5, 1], 2, vec![vec![1, 5], vec![5, 1]]),
            (&[4, 5], 3, vec![vec![1, 4, 5], vec![4, 1, 5], vec![4, 5, 1]]),
            (&[4, 5], 1, vec![]),
            (&[1, 4, 5], 2, vec![vec![4, 5]]),
            (&[0, 1], 1, vec![vec![0]]),
        ] {
            assert_eq!(reshaped(shape, rank), wanted, "{shape:?} {rank}");
        }
        assert_eq!(reshaped(&[1; 1_000], 2), [[1, 1]]);
    }
}
