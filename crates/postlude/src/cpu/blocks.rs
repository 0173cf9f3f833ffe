//! How much of a product is worked on at once.
//!
//! In: the problem's extents, the microkernel's tile, the caches. Out: [`Blocks`].
//! Invariant: no extent is zero, and none changes a result.

/// Bytes of cache one thread can count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Caches {
    /// First level, data.
    pub(crate) l1: usize,
    /// Second level.
    pub(crate) l2: usize,
    /// A thread's share of the last level.
    pub(crate) l3: usize,
}

impl Default for Caches {
    /// What one core of a server has.
    fn default() -> Self {
        Caches { l1: 48 << 10, l2: 1 << 20, l3: 4 << 20 }
    }
}

/// Extents of the loops around the microkernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    /// Rows of the microkernel's tile.
    pub(crate) mr: usize,
    /// Columns of the microkernel's tile.
    pub(crate) nr: usize,
    /// Depth of a block of K: a panel of B of this depth stays in L1 while A's panels pass by.
    pub(crate) kc: usize,
    /// Rows of A that stay in L2 while B's panels pass by, a multiple of `mr`.
    pub(crate) mc: usize,
    /// Columns of B that stay in L3 while A's blocks pass by, a multiple of `nr`.
    pub(crate) nc: usize,
}

impl Blocks {
    /// Blocks for a product of `m` by `n` by `k` whose kernel takes at most `longest` of K at once.
    pub(crate) fn pick(
        (mr, nr): (usize, usize),
        [m, n, k]: [usize; 3],
        longest: usize,
        caches: Caches,
    ) -> Self {
        const ELEMENT: usize = size_of::<f32>();
        let deepest = (caches.l1 / (nr * ELEMENT)).clamp(64, 1024).min(longest);
        // Equal blocks rather than a short last one.
        let kc = k.div_ceil(k.div_ceil(deepest).max(1)).max(1);
        let fit = |cache: usize, unit: usize, extent: usize| {
            let units = (cache / 2 / (kc * ELEMENT) / unit).max(1);
            units.min(extent.div_ceil(unit).max(1)) * unit
        };
        Blocks { mr, nr, kc, mc: fit(caches.l2, mr, m), nc: fit(caches.l3, nr, n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_their_caches_and_the_problem() {
        let caches = Caches::default();
        for extents in [[0, 0, 0], [1, 1, 1], [2048, 2048, 2048], [7, 131072, 4097]] {
            let [m, n, k] = extents;
            let blocks = Blocks::pick((14, 32), extents, usize::MAX, caches);
            assert!(blocks.kc * blocks.nr * 4 <= caches.l1);
            assert!(blocks.kc * blocks.mc * 4 <= caches.l2 && blocks.mc.is_multiple_of(14));
            assert!(blocks.kc * blocks.nc * 4 <= caches.l3 && blocks.nc.is_multiple_of(32));
            assert!(
                blocks.kc <= k.max(1) && blocks.mc < m.max(1) + 14 && blocks.nc < n.max(1) + 32
            );
        }
    }

    #[test]
    fn integer_blocks_stay_exact() {
        assert!(Blocks::pick((6, 16), [64, 64, 4096], 256, Caches::default()).kc <= 256);
    }
}
