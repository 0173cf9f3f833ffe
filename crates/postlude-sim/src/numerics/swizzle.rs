//! Where 16-byte chunks of shared memory go under a swizzle.
//!
//! In: the address that a byte would have row after row. Out: the address it has. The same for tensor copies and matrix
//! descriptors (PTX ISA, "Swizzling Modes"; CUTLASS writes it `Swizzle<B,4,3>`). Invariant: an involution that moves
//! whole chunks within the swizzle's width.

pub use postlude_ptx::launch::Swizzle;

/// How many bytes are shuffled among each other; a chunk without a swizzle.
pub const fn width(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 16,
        Swizzle::B32 => 32,
        Swizzle::B64 => 64,
        Swizzle::B128 => 128,
    }
}

/// The place of the byte at `address`: bits from 4 on, xor as many from 7 on. Addresses are absolute, so a tile need
/// not start where the pattern does.
pub const fn swizzled(address: u32, swizzle: Swizzle) -> u32 {
    swizzled_from(address, swizzle, 0)
}

/// The same when the pattern starts `rows` times 128 bytes off its natural alignment (PTX ISA, "Matrix Descriptor
/// Format", base offset).
pub const fn swizzled_from(address: u32, swizzle: Swizzle, rows: u32) -> u32 {
    let chunks = width(swizzle) / 16 - 1;
    address ^ (((address >> 7).wrapping_sub(rows) & chunks) << 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Swizzle; 4] = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];

    #[test]
    fn rows_of_128_bytes_exchange_chunks_by_their_number() {
        for row in 0..64 {
            for byte in 0..128 {
                let chunk = (byte / 16) ^ (row % 8);
                let want = row * 128 + chunk * 16 + byte % 16;
                assert_eq!(swizzled(row * 128 + byte, Swizzle::B128), want);
            }
        }
    }

    #[test]
    fn narrow_rows_exchange_every_second_or_fourth() {
        for row in 0..64_u32 {
            for byte in 0..64 {
                let chunk = (byte / 16) ^ (row / 2 % 4);
                let want = row * 64 + chunk * 16 + byte % 16;
                assert_eq!(swizzled(row * 64 + byte, Swizzle::B64), want);
            }
            for byte in 0..32 {
                let chunk = (byte / 16) ^ (row / 4 % 2);
                let want = row * 32 + chunk * 16 + byte % 16;
                assert_eq!(swizzled(row * 32 + byte, Swizzle::B32), want);
            }
        }
    }

    #[test]
    fn swizzles_undo_themselves_within_their_width() {
        for swizzle in ALL {
            for address in 0..8192 {
                let place = swizzled(address, swizzle);
                assert_eq!(swizzled(place, swizzle), address);
                assert_eq!(place / width(swizzle), address / width(swizzle));
                assert_eq!(place % 16, address % 16);
            }
        }
    }

    #[test]
    fn a_shifted_pattern_starts_where_it_says() {
        for swizzle in ALL {
            for (rows, address) in (0..8).flat_map(|rows| (0..2048).map(move |at| (rows, at))) {
                let shifted = swizzled_from(address + 128 * rows, swizzle, rows);
                assert_eq!(shifted, swizzled(address, swizzle) + 128 * rows);
            }
        }
    }
}
