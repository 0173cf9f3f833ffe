//! Memory kept from one product to the next.
//!
//! In: how many elements are needed. Out: that many, starting on a cache line, their values unspecified.

/// Bytes in a cache line.
const LINE: usize = 64;

/// Memory that only grows.
#[derive(Default)]
pub(super) struct Storage<T>(Vec<T>);

impl<T: Copy + Default> Storage<T> {
    /// `count` elements of unspecified value.
    pub(super) fn take(&mut self, count: usize) -> &mut [T] {
        let spare = LINE / size_of::<T>();
        if self.0.len() < count + spare {
            // Freed before it is replaced: growing would copy what nobody reads, and hold both.
            self.0 = Vec::new();
            self.0 = vec![T::default(); count + spare];
        }
        let start = self.0.as_ptr().align_offset(LINE).min(spare);
        &mut self.0[start..][..count]
    }
}
