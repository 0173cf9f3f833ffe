//! What of a large problem is compared: some rows or columns of each output, if they can be had for less than the whole.
//!
//! In: a graph and a problem. Out: [`Part`]s, each evaluated by itself, and the outputs that no part has. Elements are
//! never made from less than they depend on: [`demand`] finds what they need, and what that costs decides.

use std::collections::BTreeSet;

use crate::graph::{Graph, Op};
use crate::problem::Problem;

use super::array::Places;
use super::demand::{self, Wanted};
use super::progress::BODY_UNITS;

/// How much of the outputs is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// Some rows and columns of large problems, everything of small ones.
    #[default]
    Sample,
    /// Every element.
    All,
}

/// Problems that take no more than this are compared as a whole: about a second of one core.
const SMALL: u64 = 1_000_000_000;
/// What a sample may take.
const SAMPLE: u64 = 600_000_000;
/// What a whole problem may take that an output cannot be had without.
const LARGE: u64 = 20_000_000_000;
/// The most rows or columns of a sample, and the fewest worth having.
const COUNTS: [usize; 5] = [64, 32, 16, 8, 4];

/// Outputs that are evaluated together, and what of them.
pub(super) struct Part {
    pub(super) wanted: Vec<Wanted>,
    /// In multiply-adds or what takes as long.
    pub(super) cost: u64,
    /// How many values of all nodes it has.
    pub(super) elements: u64,
}

/// Which of the rows and columns of outputs a part has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    Whole,
    Rows(usize),
    Columns(usize),
}

/// The parts of a problem of these outputs; one in none of them is too much to ask for.
pub(super) fn parts(
    graph: &Graph,
    problem: &Problem,
    outputs: &[usize],
    extent: Extent,
) -> Vec<Part> {
    let whole = part(graph, problem, outputs, Choice::Whole);
    if extent == Extent::All || whole.cost <= SMALL {
        return vec![whole];
    }
    let choices: Vec<Choice> =
        outputs.iter().map(|output| choose(graph, problem, *output)).collect();
    let of = |choice: Choice| -> Vec<usize> {
        let own = outputs.iter().zip(&choices).filter(|(_, own)| **own == choice);
        own.map(|(output, _)| *output).collect()
    };
    // A part that evaluates everything for one output has every other output too.
    if choices.contains(&Choice::Whole) && whole.cost <= LARGE {
        return vec![whole];
    }
    let kinds: Vec<Choice> =
        COUNTS.iter().flat_map(|count| [Choice::Rows(*count), Choice::Columns(*count)]).collect();
    let filled = kinds.into_iter().map(|choice| (choice, of(choice)));
    let filled = filled.filter(|(_, outputs)| !outputs.is_empty());
    filled.map(|(choice, outputs)| part(graph, problem, &outputs, choice)).collect()
}

/// The largest affordable sample of an output: rows if they can be had without all the others, else columns.
fn choose(graph: &Graph, problem: &Problem, output: usize) -> Choice {
    let cost = |choice| part(graph, problem, &[output], choice).cost;
    let kinds: [fn(usize) -> Choice; 2] = [Choice::Rows, Choice::Columns];
    for kind in kinds {
        if let Some(count) = COUNTS.iter().find(|count| cost(kind(**count)) <= SAMPLE) {
            return kind(*count);
        }
    }
    // Very long rows or columns: a few of them, where that is much less than everything.
    let fewest = COUNTS[COUNTS.len() - 1];
    let whole = cost(Choice::Whole);
    let worth = kinds.into_iter().find(|kind| cost(kind(fewest)) <= (whole / 8).min(LARGE));
    worth.map_or(Choice::Whole, |kind| kind(fewest))
}

fn part(graph: &Graph, problem: &Problem, outputs: &[usize], choice: Choice) -> Part {
    let want = |output: &usize| {
        let axes = graph.output_axes(&graph.outputs()[*output]);
        let Some(axes) = axes else { panic!("compiler bug: an output has foreign dims") };
        let [_, rows, columns] = problem.extents(axes);
        let (rows, columns) = match choice {
            Choice::Whole => (Places::all(rows), Places::all(columns)),
            Choice::Rows(count) => (sample(count, rows), Places::all(columns)),
            Choice::Columns(count) => (Places::all(rows), sample(count, columns)),
        };
        Wanted { output: *output, rows, columns }
    };
    let wanted: Vec<Wanted> = outputs.iter().map(want).collect();
    let (elements, products) = count(graph, problem, &wanted);
    let product_cost = products.saturating_mul(problem.inner as u64);
    let cost = elements.saturating_mul(BODY_UNITS).saturating_add(product_cost);
    Part { wanted, cost, elements }
}

/// How many values of all nodes an evaluation makes, and how many of them are products.
fn count(graph: &Graph, problem: &Problem, wanted: &[Wanted]) -> (u64, u64) {
    let (mut elements, mut products) = (0, 0);
    for ((_, node), frame) in graph.nodes().zip(demand::frames(graph, problem, wanted, None)) {
        let count = frame.map_or(0, |frame| frame.len() as u64);
        elements += count;
        products += if matches!(node.op, Op::Accumulator(_)) { count } else { 0 };
    }
    (elements, products)
}

/// This many places of an axis, or all of them: the first and the last, some at the edges of tiles, and others drawn from
/// the size alone.
fn sample(count: usize, of: usize) -> Places {
    if of <= count {
        return Places::all(of);
    }
    let mut chosen = BTreeSet::from([0, of - 1]);
    let edges = [64, 128, 256].iter().flat_map(|tile| {
        let last = (of - 1) / tile * tile;
        [last, last.wrapping_sub(1), *tile, tile - 1]
    });
    for edge in edges.filter(|edge| *edge < of) {
        if chosen.len() < count.div_ceil(2) {
            chosen.insert(edge);
        }
    }
    let mut state = of as u64;
    while chosen.len() < count {
        chosen.insert((next(&mut state) % of as u64) as usize);
    }
    Places { of, chosen: chosen.into_iter().collect() }
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends_and_the_edges_of_tiles() {
        let places = sample(64, 1000);
        assert_eq!(places.len(), 64);
        assert!([0, 63, 64, 127, 128, 959, 960, 999].iter().all(|at| places.chosen.contains(at)));
        assert_eq!(sample(64, 1000), places);
        assert!(sample(64, 64).is_all());
        assert_eq!(sample(4, 5).len(), 4);
    }
}
