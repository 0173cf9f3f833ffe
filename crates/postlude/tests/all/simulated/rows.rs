//! Rows that meet their reductions again and are longer than a tile.

use postlude::target::{Chip, Cluster, Tile};
use postlude::{Backend, Options};

use super::problems::Layout;
use super::{bound, check_on, fitted, for_each, is_thorough, pick};

/// Rows that only the tiles of a cluster hold together, on every tile that does, and on some that would hold them alone.
#[test]
fn rows_across_a_cluster_are_right() {
    let table = Chip::STANDARD.tiles();
    let beside = Cluster::ALL.into_iter().filter(|cluster| [2, 4].contains(&cluster.columns()));
    let narrow = table.iter().filter(|tile| [64, 128, 192].contains(&tile.columns));
    let others = narrow
        .flat_map(|tile| beside.clone().map(|cluster| Tile { cluster, ..*tile }))
        .filter(|tile| !table.contains(tile));
    let wide = table.iter().copied().filter(|tile| tile.cluster.columns() > 1);
    let names = ["rows_again", "further_again", "top"].into_iter().cycle();
    let step = if is_thorough() { 1 } else { 3 };
    let varieties: Vec<_> = wide.chain(others).step_by(step).zip(names).collect();
    for_each(&varieties, |(tile, name)| {
        let columns = (tile.columns * tile.cluster.columns()) as usize - 5;
        let bound = bound(name, [1, tile.rows as usize + 40, columns, 72], Layout::Packed);
        if let Some(schedule) = fitted(&bound, *tile) {
            let grids = pick(&[None, Some(2)], &format!("{tile:?}"), 1);
            check_on(&grids, &bound, Some(&schedule), Layout::Packed);
        }
    });
}

#[test]
fn rows_that_no_cluster_holds_take_a_second_launch() {
    let bound = bound("rows_again", [1, 64, 1032, 64], Layout::Packed);
    let compiled = bound.kernel.compile(&Options { backend: Backend::Sim, ..Options::default() });
    let outputs = bound.run(&Options::default()).expect("the processor runs it");
    let last = compiled.simulated(&bound.problem, &bound.arguments, &outputs);
    let last = last.expect("several launches run it");
    assert!(!last.text().contains("wgmma"), "the last launch multiplies nothing");
}
