//! Cuts a kernel that is more than one launch into launches with stored values between them.
//!
//! In: an optimised graph. Out: one whose last launch reads what earlier ones store, as computed inputs. A value that all
//! tiles of a launch finish together meets elements in the next launch; what that reads is stored as it is, f32 unless
//! the text rounds it, or computed again where that moves fewer bytes. The meaning is the same to the bit of a store.
//! Where a launch of these is refused, too, it is cut finely: products are stored as they are, every reduction is finished by
//! a launch of its own, and threads compute the rest element by element.

mod chunks;
mod cutting;
mod levels;
mod rounds;
mod rows;
mod statistics;
mod stored;

use std::fmt;
use std::sync::Arc;

use crate::graph::Graph;
use crate::lower::Lowered;
use crate::optimise::{separate_products, without_scales};

use cutting::Cutting;
use levels::{Levels, with_rounded_outputs};

/// Another way to run a kernel whose launch was refused, with how its last launch is lowered: more launches, then smaller
/// ones, then threads that compute elements by themselves. `None` behind the last.
pub(crate) fn after_refusal(
    graph: &Arc<Graph>,
    refused: &Lowered,
) -> Option<(Arc<Graph>, Arc<Lowered>)> {
    if refused.is_by_elements() {
        return None;
    }
    let uncut = refused.uncut();
    if let (Some(cut), None) = (rows::behind_product(graph), uncut) {
        let cut = Arc::new(cut);
        let lowered = Arc::new(Lowered::of_cut(&cut, graph));
        return Some((cut, lowered));
    }
    // Rows that the launch behind a product does not hold are reduced by the product's own.
    let graph = uncut.unwrap_or(graph);
    let each = vec![1; graph.products().len()];
    let cut = separate_products(graph, &each)
        .or_else(|| partition(graph))
        .or_else(|| without_scales(graph))
        .or_else(|| finely(graph));
    if let Some(cut) = cut {
        let cut = Arc::new(cut);
        let lowered = Arc::new(Lowered::new(&cut));
        return Some((cut, lowered));
    }
    Some((graph.clone(), Arc::new(Lowered::by_elements(graph)?)))
}

/// Another partition of a kernel than its own launch.
pub(crate) struct Alternative {
    pub(crate) cut: Cut,
    pub(crate) graph: Arc<Graph>,
    pub(crate) lowered: Arc<Lowered>,
}

/// Where a kernel that may be one launch is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Between a product and the reductions of its rows.
    Rows,
    /// Between products that share A: how many each launch has.
    Products(&'static [usize]),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Rows => f.write_str("cut between the product and the reductions of its rows"),
            Cut::Products(groups) => {
                let groups: Vec<String> = groups.iter().map(usize::to_string).collect();
                write!(f, "with {} of the products that share A", groups.join(" + "))
            }
        }
    }
}

/// How products that share A are cut into launches; which of them are together does not matter, for all have the same sizes.
const GROUPS: &[&[usize]] =
    &[&[1, 1], &[2, 1], &[1, 1, 1], &[3, 1], &[2, 2], &[2, 1, 1], &[1, 1, 1, 1]];

/// Other partitions of a kernel: the sizes of a call say which one costs least.
pub(crate) fn alternatives(graph: &Arc<Graph>, lowered: &Lowered) -> Vec<Alternative> {
    let mut all = Vec::new();
    if lowered.waits_behind_product()
        && let Some(cut) = rows::behind_product(graph).map(Arc::new)
    {
        let lowered = Arc::new(Lowered::of_cut(&cut, graph));
        all.push(Alternative { cut: Cut::Rows, graph: cut, lowered });
    }
    let products = graph.products().len();
    for groups in GROUPS.iter().filter(|groups| groups.iter().sum::<usize>() == products) {
        if let Some(cut) = separate_products(graph, groups).map(Arc::new) {
            let lowered = Arc::new(Lowered::new(&cut));
            all.push(Alternative { cut: Cut::Products(groups), graph: cut, lowered });
        }
    }
    all
}

/// The same kernel in launches of which each multiplies, or reduces once; `None` where it is one of these.
fn finely(graph: &Graph) -> Option<Graph> {
    let graph = &with_rounded_outputs(graph);
    let levels = Levels::fine(graph);
    (levels.last > 0).then(|| Cutting::new(graph, &levels).cut(stored::cheapest))
}

pub(crate) use chunks::{Chunks, WORKSPACE, bytes_between, in_chunks};

/// The same kernel in several launches; `None` where it is one by its structure.
fn partition(graph: &Graph) -> Option<Graph> {
    let graph = &with_rounded_outputs(&rounds::in_rounds(graph));
    let levels = Levels::of(graph);
    (levels.last > 0).then(|| Cutting::new(graph, &levels).cut(stored::cheapest))
}
