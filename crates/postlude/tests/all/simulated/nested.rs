//! Parts of parts: every mixture of halves and pairs, on every tile that has room for their products, in every layout of
//! the tensors.

use postlude::DType;
use postlude_corpus::{NESTED, Random};

use super::problems::{Bound, Data, Layout, Stored};
use super::{bound, check, check_on, fitted, for_each, tiles};

#[test]
fn every_tile_tells_parts_of_parts_apart() {
    let varieties: Vec<_> = tiles(7).zip(NESTED.iter().cycle()).collect();
    for_each(&varieties, |(tile, kernel)| {
        let columns = (tile.columns as usize + 56).next_multiple_of(8);
        let sizes = [2, tile.rows as usize + 40, columns, 72];
        let bound = bound(kernel.name, sizes, Layout::Packed);
        if let Some(schedule) = fitted(&bound, **tile) {
            check_on(&[Some(2)], &bound, Some(&schedule), Layout::Packed);
        }
    });
}

#[test]
fn parts_of_parts_are_right_however_tensors_lie() {
    let ways = [
        Stored::default(),
        Stored { inner_first: true, layout: Layout::Packed },
        Stored { inner_first: true, layout: Layout::Gaps },
        Stored { inner_first: false, layout: Layout::Reversed },
    ];
    let mut varieties = Vec::new();
    for (place, kernel) in NESTED.iter().enumerate() {
        // Six products are for a B that comes in boxes of its own; as it lies elsewhere they are refused by name.
        let taken = if kernel.name == "eighths" { 1 } else { ways.len() };
        for (other, stored) in ways.into_iter().take(taken).enumerate() {
            let layout = Layout::ALL[(place + other) % Layout::ALL.len()];
            // Quarters that are whole chunks of 16 bytes, and some that are not.
            varieties.push((kernel.name, stored, layout, [96, 104, 120][(place + other) % 3]));
        }
    }
    for_each(&varieties, |(name, stored, layout, columns)| {
        let sizes = [2, 72, *columns, 72];
        let random = &mut Random::new(*columns as u64);
        let bound = Bound::with(name, [*stored; 2], DType::BF16, sizes, Data::Integers, random);
        check(&bound, None, *layout);
    });
}

/// A part of `v` varies along columns alone, so that runs of 3 and of 8 rows meet there without a value of every row.
#[test]
fn runs_of_rows_meet_beside_parts_that_have_none() {
    let text =
        "kernel k(A: tf32[M, K], B: tf32[N/2, K], x: f32[M/8], y: f32[M/3]) -> D: f32[M, N] {
        v = concat(A @ B.T, col); D = where(v >= y, x, v) }";
    for sizes in [[1, 24, 2, 1], [1, 336, 74, 130]] {
        let (stored, random) = ([Stored::default(); 2], &mut Random::new(7));
        check(
            &Bound::of("runs", text, stored, sizes, Data::Integers, random),
            None,
            Layout::Packed,
        );
    }
}
