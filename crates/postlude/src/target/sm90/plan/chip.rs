//! What a Hopper chip offers.

/// What the chip offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sm90 {
    /// Streaming multiprocessors.
    pub(crate) processors: u32,
    /// Shared memory that one CTA may ask for, in bytes.
    pub(crate) shared_bytes: u32,
}

impl Sm90 {
    /// An H200 or H100 SXM.
    pub(crate) const H200: Sm90 = Sm90 { processors: 132, shared_bytes: 232_448 };

    /// Bytes that memory moves in a cycle, all SMs together: 4.2 TB/s at 1.75 GHz.
    pub(crate) const MEMORY_BYTES: f64 = 2400.0;

    /// CTAs, one an SM, that run at a time in clusters of this many. A cluster stays within a group of SMs: larger ones
    /// leave some of each group idle, on an H200 twelve of all.
    pub(crate) const fn together(self, blocks: u32) -> u32 {
        let whole = if blocks > 2 { self.processors / 11 * 10 } else { self.processors };
        let whole = whole - whole % blocks;
        if whole < blocks { blocks } else { whole }
    }
}
