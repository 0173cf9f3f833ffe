//! Descriptors of matrices in shared memory, as `wgmma` reads them.
//!
//! In: the 64 bits, and which element. Out: its shared address. Sources: PTX ISA, "Matrix Descriptor Format", "Strides"
//! and "Shared Memory Matrix Layout"; the canonical layouts as CUTLASS writes them at `make_gmma_desc`. Measured on an
//! H200 for the 128-byte swizzle, both majors. Invariant: elements of 16 bytes along the contiguous dim lie together.

pub use postlude_ptx::kernel::Major;
use postlude_ptx::launch::Swizzle;

use super::swizzle::{swizzled_from, width};

/// A decoded descriptor; all lengths in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Descriptor {
    /// Shared address of the first element, before the swizzle.
    pub start: u32,
    /// The leading dimension byte offset.
    pub leading: u32,
    /// The stride dimension byte offset.
    pub stride: u32,
    /// How far the pattern starts off its alignment, in rows of 128 bytes.
    pub base_offset: u32,
    /// How chunks are exchanged.
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Reads the fields; bits between them are ignored.
    pub fn decode(bits: u64) -> Descriptor {
        let field = |low: u32| (bits >> low & 0x3fff) as u32 * 16;
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        let base_offset = (bits >> 49 & 7) as u32;
        Descriptor { start: field(0), leading: field(16), stride: field(32), base_offset, swizzle }
    }

    /// The shared address of an element of `bytes` bytes: `row` counts along M or N, `k` along K from the start of one
    /// instruction's part. The contiguous dim is the one `major` names.
    ///
    /// Along K the leading offset is used without a swizzle only: with one, 32 bytes of K always lie in one row of the
    /// pattern. Along M or N the roles of both offsets are exchanged without a swizzle.
    pub fn element_address(&self, major: Major, bytes: u32, row: u32, k: u32) -> u32 {
        let width = width(self.swizzle);
        let (contiguous, across) = match major {
            Major::K => (k * bytes, row),
            Major::MN => (row * bytes, k),
        };
        let (next_contiguous, next_across) = match (major, self.swizzle) {
            (Major::K, Swizzle::None) => (self.leading, self.stride),
            // One instruction never leaves the row of the pattern.
            (Major::K, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => (width, self.stride),
            (Major::MN, Swizzle::None) => (self.stride, self.leading),
            (Major::MN, Swizzle::B32 | Swizzle::B64 | Swizzle::B128) => (self.leading, self.stride),
        };
        let linear = self.start
            + contiguous / width * next_contiguous
            + contiguous % width
            + across / 8 * next_across
            + across % 8 * width;
        swizzled_from(linear, self.swizzle, self.base_offset)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use postlude_ptx::kernel::DescriptorLayout;

    use super::*;
    use crate::numerics::swizzle::swizzled;

    fn described(start: u32, leading: u32, stride: u32, swizzle: Swizzle) -> Descriptor {
        let bits = DescriptorLayout { leading, stride, swizzle }.bits();
        Descriptor::decode(bits | u64::from(start >> 4))
    }

    #[test]
    fn fields_are_read_back() {
        for swizzle in [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128] {
            let found = described(0x3_5400, 8192, 1024, swizzle);
            let (start, leading, stride, base_offset) = (0x3_5400, 8192, 1024, 0);
            assert_eq!(found, Descriptor { start, leading, stride, base_offset, swizzle });
        }
        assert_eq!(Descriptor::decode(5 << 49).base_offset, 5);
    }

    /// Boxes that a tensor copy of 128 bytes by many rows writes, read back by one descriptor for each step.
    #[test]
    fn along_k_a_copied_tile_is_found_at_every_step() {
        for (bytes, swizzle) in [1, 2, 4]
            .into_iter()
            .flat_map(|bytes| [Swizzle::B32, Swizzle::B64, Swizzle::B128].map(|each| (bytes, each)))
        {
            let width = width(swizzle);
            for base in [0_u32, 1024, 48 * 1024] {
                for step in 0..width / 32 {
                    let found = described(base + step * 32, 16, width * 8, swizzle);
                    for (row, k) in (0..256).flat_map(|row| (0..32 / bytes).map(move |k| (row, k)))
                    {
                        let byte = step * 32 + k * bytes;
                        let want = swizzled(base + row * width + byte, swizzle);
                        assert_eq!(found.element_address(Major::K, bytes, row, k), want);
                    }
                }
            }
        }
    }

    /// Slabs of `width` bytes of M or N by 64 of K, one after the other.
    #[test]
    fn along_mn_copied_slabs_are_found_at_every_step() {
        for swizzle in [Swizzle::B32, Swizzle::B64, Swizzle::B128] {
            let width = width(swizzle);
            let (slab, base) = (width * 64, 16 * 1024);
            for step in 0..4 {
                let start = base + step * 16 * width;
                let found = described(start, slab, width * 8, swizzle);
                for (row, k) in (0..256).flat_map(|row| (0..16).map(move |k| (row, k))) {
                    let byte = row * 2;
                    let at = base + byte / width * slab + (step * 16 + k) * width + byte % width;
                    let want = swizzled(at, swizzle);
                    assert_eq!(found.element_address(Major::MN, 2, row, k), want);
                }
            }
        }
    }

    #[test]
    fn without_a_swizzle_core_matrices_lie_where_the_offsets_say() {
        let found = described(4096, 128, 256, Swizzle::None);
        for (row, k) in (0..64).flat_map(|row| (0..16).map(move |k| (row, k))) {
            let along_k = 4096 + row % 8 * 16 + row / 8 * 256 + k % 8 * 2 + k / 8 * 128;
            assert_eq!(found.element_address(Major::K, 2, row, k), along_k);
            let along_mn = 4096 + k % 8 * 16 + k / 8 * 128 + row % 8 * 2 + row / 8 * 256;
            assert_eq!(found.element_address(Major::MN, 2, row, k), along_mn);
        }
    }

    #[test]
    fn no_two_elements_share_an_address() {
        for (major, swizzle) in [Major::K, Major::MN].into_iter().flat_map(|major| {
            [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128].map(|each| (major, each))
        }) {
            let width = width(swizzle);
            let found = match (major, swizzle) {
                (Major::K | Major::MN, Swizzle::None) => described(0, 128, 256, swizzle),
                (Major::K, _) => described(0, 0, width * 8, swizzle),
                (Major::MN, _) => described(0, width * 16, width * 8, swizzle),
            };
            let all = (0..64).flat_map(|row| (0..16).map(move |k| (row, k)));
            let places = all.map(|(row, k)| found.element_address(major, 2, row, k));
            assert_eq!(places.collect::<HashSet<_>>().len(), 1024, "{major:?} {swizzle:?}");
        }
    }
}
