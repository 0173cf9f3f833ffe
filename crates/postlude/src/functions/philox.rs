//! Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3").
//!
//! In: a key of two words and a counter of four. Out: four random words. An element of a tile has the counter
//! (column / 4, row, batch, offset) and the word of its column modulo 4, so that its bits depend on its place alone.

/// What the first and the third word of the counter are multiplied by.
pub(crate) const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What is added to the key after each round.
pub(crate) const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
/// How many rounds there are.
pub(crate) const ROUNDS: u32 = 10;

/// The four words of a counter.
pub fn philox(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let wide = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        ((product >> 32) as u32, product as u32)
    };
    let mut words = counter;
    for round in 0..ROUNDS {
        let keys = [0, 1].map(|word| key[word].wrapping_add(WEYL[word].wrapping_mul(round)));
        let (high0, low0) = wide(MULTIPLIERS[0], words[0]);
        let (high1, low1) = wide(MULTIPLIERS[1], words[2]);
        words = [high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0];
    }
    words
}

/// The counter of an element, and which of its words is the element's.
pub fn element(column: i32, row: i32, batch: i32, offset: i32) -> ([u32; 4], usize) {
    let column = column as u32;
    ([column / 4, row as u32, batch as u32, offset as u32], (column % 4) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of Random123.
    #[test]
    fn words_are_those_of_random123() {
        let answers = [
            ([0; 2], [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 2], [u32::MAX; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (key, counter, words) in answers {
            assert_eq!(philox(key, counter), words);
        }
    }

    #[test]
    fn four_columns_share_a_counter() {
        assert_eq!(element(6, 2, 1, -1), ([1, 2, 1, u32::MAX], 2));
    }
}
