//! How tensor copies laid out the bytes of shared memory.
//!
//! In: boxes as copies bring them, and other writes. Out: whether a reader's swizzle agrees with the one that a chunk was
//! written with. Invariant: a chunk that anything but a box of two dims or more wrote last has no swizzle: its
//! writer may have permuted the chunks in its own code.

use postlude_ptx::launch::Swizzle;

use crate::numerics::swizzle::{swizzled, swizzled_from};

/// Bytes that move together under every swizzle.
const CHUNK: usize = 16;

/// A swizzle with which a tensor copy wrote, and the copy's line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    pub(crate) swizzle: Swizzle,
    pub(crate) line: u32,
}

/// A swizzle with which a copy or a matrix product reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reads {
    pub(crate) swizzle: Swizzle,
    /// How far the pattern starts off its alignment, in rows of 128 bytes.
    pub(crate) base_offset: u32,
}

/// The swizzle of every chunk of a CTA's shared memory.
#[derive(Clone, Default, Debug)]
pub(crate) struct Swizzles(Vec<Option<Written>>);

impl Swizzles {
    /// Notes what bytes from `offset` on were written with.
    #[inline]
    pub(crate) fn note(&mut self, offset: usize, bytes: usize, written: Option<Written>) {
        let end = (offset + bytes).div_ceil(CHUNK);
        if self.0.len() < end {
            // Memory that no box was brought into has nothing to forget.
            if written.is_none() && self.0.is_empty() {
                return;
            }
            self.0.resize(end, None);
        }
        self.0[offset / CHUNK..end].fill(written);
    }

    /// The write with which a reader of the chunk at `offset`, which has this address, disagrees: the two would put
    /// different bytes of a row there.
    #[inline]
    pub(crate) fn disagrees(&self, offset: usize, address: u32, reads: Reads) -> Option<Written> {
        let written = (*self.0.get(offset / CHUNK)?)?;
        if written.swizzle == reads.swizzle && reads.base_offset == 0 {
            return None;
        }
        let [wrote, read] = [
            swizzled(address, written.swizzle),
            swizzled_from(address, reads.swizzle, reads.base_offset),
        ];
        (wrote != read).then_some(written)
    }
}

/// A swizzle as `launch.toml` writes it.
pub(crate) fn name(swizzle: Swizzle) -> &'static str {
    match swizzle {
        Swizzle::None => "no swizzle",
        Swizzle::B32 => "the 32B swizzle",
        Swizzle::B64 => "the 64B swizzle",
        Swizzle::B128 => "the 128B swizzle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_disagree_where_another_chunk_would_lie_there() {
        let mut swizzles = Swizzles::default();
        let written = Written { swizzle: Swizzle::B128, line: 3 };
        swizzles.note(0, 1024, Some(written));
        let reads = |swizzle| Reads { swizzle, base_offset: 0 };
        assert_eq!(swizzles.disagrees(128, 1152, reads(Swizzle::B128)), None);
        // The fifth row is the first that the 64B swizzle lays out in another way.
        assert_eq!(swizzles.disagrees(128, 1152, reads(Swizzle::B64)), None);
        assert_eq!(swizzles.disagrees(512, 1536, reads(Swizzle::B64)), Some(written));
        // The first row lies the same way under every swizzle.
        assert_eq!(swizzles.disagrees(16, 1040, reads(Swizzle::None)), None);
        swizzles.note(130, 4, None);
        assert_eq!(swizzles.disagrees(128, 1152, reads(Swizzle::None)), None);
        assert_eq!(swizzles.disagrees(256, 1280, reads(Swizzle::None)), Some(written));
    }
}
