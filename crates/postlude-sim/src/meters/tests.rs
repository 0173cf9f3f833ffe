//! Costs of single requests, by hand.

use super::{global_cost, shared_cost};

/// Pieces of 32 lanes.
fn request(bytes: u32, address: impl Fn(u64) -> u64) -> Vec<(u64, u32)> {
    (0..32).map(|lane| (address(lane), bytes)).collect()
}

fn check_shared(bytes: u32, address: impl Fn(u64) -> u64, wanted: (u64, u64)) {
    assert_eq!(shared_cost(&request(bytes, address), u32::MAX), wanted);
}

#[test]
fn neighbours_take_one_wavefront_for_each_128_bytes() {
    check_shared(4, |lane| 4 * lane, (1, 1));
    check_shared(8, |lane| 8 * lane, (2, 2));
    check_shared(16, |lane| 16 * lane, (4, 4));
    check_shared(2, |lane| 2 * lane, (1, 1));
}

#[test]
fn lanes_in_one_bank_wait_for_each_other() {
    check_shared(4, |lane| 128 * lane, (32, 1));
    check_shared(4, |lane| 8 * lane, (2, 1));
    check_shared(16, |lane| 128 * lane, (32, 4));
}

#[test]
fn a_word_that_many_want_is_sent_once() {
    check_shared(4, |_| 64, (1, 1));
    check_shared(8, |lane| 8 * (lane % 4), (1, 1));
    check_shared(16, |_| 0, (1, 1));
}

#[test]
fn rows_of_a_swizzled_matrix_are_free_of_conflicts() {
    // Row r of 128 bytes has its chunk c at c ^ r: ldmatrix of four neighbours along a row.
    check_shared(16, |lane| 128 * (lane % 8) + 16 * ((lane / 8) ^ (lane % 8)), (4, 4));
    check_shared(16, |lane| 128 * (lane % 8) + 16 * (lane / 8), (32, 4));
}

#[test]
fn lanes_that_are_off_do_not_shift_the_others() {
    let pieces: Vec<(u64, u32)> = (8..32).map(|lane| (16 * lane, 16)).collect();
    assert_eq!(shared_cost(&pieces, u32::MAX << 8), (3, 3));
}

#[test]
fn rows_of_a_tile_cost_a_line_each() {
    // The reference table: a thread a row against neighbours side by side, 8 bytes each.
    let cost = global_cost(&request(8, |lane| 256 * lane));
    assert_eq!((cost.lines, cost.sectors), ((32, 2), (32, 8)));
    let cost = global_cost(&request(8, |lane| 8 * lane));
    assert_eq!((cost.lines, cost.sectors), ((2, 2), (8, 8)));
    let cost = global_cost(&request(4, |lane| 60 + 4 * lane));
    assert_eq!((cost.lines, cost.sectors), ((2, 1), (5, 4)));
}
