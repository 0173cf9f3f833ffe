//! The spaces of memory: global buffers with real bounds, and a CTA's shared memory that starts poisoned.
//!
//! In: addresses as the program computes them. Out: bytes, or a [`Fault`]. Invariant: no address outside a buffer or
//! outside what a launch asked for reaches a byte of anything else.

use crate::outputs::Written;
use crate::swizzles::{self, Reads, Swizzles};

/// Where parameters lie in generic addresses.
pub(crate) const PARAMETER_BASE: u64 = 0x6000_0000_0000;
/// Where the first buffer lies.
const GLOBAL_BASE: u64 = 0x7000_0000_0000;
/// From one buffer to the next: what runs past the end of one never meets another.
const GLOBAL_SPACING_BITS: u32 = 36;
/// The most bytes of a buffer: half of its room, so that what lies just before the next buffer is told as that.
pub const MOST_BUFFER_BYTES: u64 = 1 << (GLOBAL_SPACING_BITS - 1);
/// Where a CTA's shared memory starts in its window: what lies below is the system's own.
pub(crate) const SHARED_BASE: u32 = 1024;
/// Bits of an address in shared memory that are not the CTA's rank in the cluster.
const RANK_SHIFT: u32 = 24;
/// What memory holds that nobody wrote: not a number in every float format.
pub(crate) const POISON: u8 = 0xff;

/// What is wrong with an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Outside every buffer, or outside the shared memory that was asked for.
    Outside,
    /// Not a multiple of its size.
    Misaligned,
    /// Nobody wrote these bytes.
    Uninitialised,
}

/// Buffers that a launch reads and writes; the last is the launch's own scratch memory.
#[derive(Debug, Default)]
pub(crate) struct Global {
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Which of their bytes were written.
    written: Vec<Written>,
}

impl Global {
    /// Buffers that the kernel has not written.
    pub(crate) fn new(buffers: Vec<Vec<u8>>) -> Self {
        let written = vec![Written::default(); buffers.len()];
        Global { buffers, written }
    }

    /// Which bytes of a buffer were written.
    pub(crate) fn written(&self, buffer: usize) -> Option<&Written> {
        self.written.get(buffer)
    }

    /// The address of a buffer's first byte.
    pub(crate) fn address(buffer: usize) -> u64 {
        GLOBAL_BASE + ((buffer as u64) << GLOBAL_SPACING_BITS)
    }

    /// The buffer and the place in it, when all bytes lie inside.
    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), Fault> {
        let from = address.checked_sub(GLOBAL_BASE).ok_or(Fault::Outside)?;
        let (buffer, offset) =
            (from >> GLOBAL_SPACING_BITS, from & ((1 << GLOBAL_SPACING_BITS) - 1));
        let size = self.buffers.get(buffer as usize).map_or(0, Vec::len) as u64;
        if offset + bytes as u64 > size {
            return Err(Fault::Outside);
        }
        Ok((buffer as usize, offset as usize))
    }

    /// So many bytes at an address.
    pub(crate) fn bytes(&self, address: u64, count: usize) -> Result<&[u8], Fault> {
        let (buffer, offset) = self.locate(address, count)?;
        Ok(&self.buffers[buffer][offset..offset + count])
    }

    /// The same, to write.
    pub(crate) fn bytes_mut(&mut self, address: u64, count: usize) -> Result<&mut [u8], Fault> {
        let (buffer, offset) = self.locate(address, count)?;
        self.written[buffer].note(offset, count, self.buffers[buffer].len());
        Ok(&mut self.buffers[buffer][offset..offset + count])
    }

    /// In words: which buffer, and how far into it.
    pub(crate) fn describe(&self, address: u64) -> String {
        let Some(from) = address.checked_sub(GLOBAL_BASE) else {
            return format!("address {address:#x}, below every buffer");
        };
        let (buffer, offset) =
            (from >> GLOBAL_SPACING_BITS, from & ((1 << GLOBAL_SPACING_BITS) - 1));
        match self.buffers.get(buffer as usize) {
            // An address below a buffer looks like one far beyond the end of the buffer before.
            Some(bytes) if offset < 1 << (GLOBAL_SPACING_BITS - 1) => {
                format!("byte {offset} of buffer {buffer}, which has {}", bytes.len())
            }
            Some(_) | None => {
                let below = (1u64 << GLOBAL_SPACING_BITS) - offset;
                format!("{below} bytes before buffer {}", buffer + 1)
            }
        }
    }
}

/// Shared memory of one CTA.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: Vec<u8>,
    written: Vec<bool>,
    swizzles: Swizzles,
}

impl Shared {
    /// So many poisoned bytes.
    pub(crate) fn new(bytes: u32) -> Self {
        Shared {
            bytes: vec![POISON; bytes as usize],
            written: vec![false; bytes as usize],
            swizzles: Swizzles::default(),
        }
    }

    /// The place of an address, when all bytes lie inside.
    fn locate(&self, address: u32, count: usize) -> Result<usize, Fault> {
        let offset = address.checked_sub(SHARED_BASE).ok_or(Fault::Outside)? as usize;
        if offset + count > self.bytes.len() { Err(Fault::Outside) } else { Ok(offset) }
    }

    /// So many bytes at an address, and whether all of them were written.
    #[inline]
    pub(crate) fn bytes(&self, address: u32, count: usize) -> Result<(&[u8], bool), Fault> {
        let offset = self.locate(address, count)?;
        let range = offset..offset + count;
        Ok((&self.bytes[range.clone()], self.written[range].iter().all(|written| *written)))
    }

    /// Writes bytes at an address.
    #[inline]
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Fault> {
        self.write_swizzled(address, bytes, None)
    }

    /// The same, by a tensor copy that has a swizzle.
    #[inline]
    pub(crate) fn write_swizzled(
        &mut self,
        address: u32,
        bytes: &[u8],
        swizzle: Option<swizzles::Written>,
    ) -> Result<(), Fault> {
        let offset = self.locate(address, bytes.len())?;
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.written[offset..offset + bytes.len()].fill(true);
        self.swizzles.note(offset, bytes.len(), swizzle);
        Ok(())
    }

    /// The write of the chunk at an address with which a reader's swizzle disagrees.
    #[inline]
    pub(crate) fn disagrees(&self, address: u32, reads: Reads) -> Option<swizzles::Written> {
        let offset = address.checked_sub(SHARED_BASE)? as usize;
        self.swizzles.disagrees(offset, address, reads)
    }

    /// Forgets that bytes were written.
    pub(crate) fn forget(&mut self, address: u32, count: usize) -> Result<(), Fault> {
        let offset = self.locate(address, count)?;
        self.bytes[offset..offset + count].fill(POISON);
        self.written[offset..offset + count].fill(false);
        self.swizzles.note(offset, count, None);
        Ok(())
    }
}

/// The address in any CTA's window of what has `address` in the own one's.
pub(crate) fn of_rank(address: u32, rank: u32) -> u32 {
    (address & ((1 << RANK_SHIFT) - 1)) | (rank + 1) << RANK_SHIFT
}

/// Which CTA of the cluster an address is in, nothing for the own one, and the address in that CTA.
pub(crate) fn rank_of(address: u32) -> (Option<u32>, u32) {
    let rank = (address >> RANK_SHIFT).checked_sub(1);
    (rank, address & ((1 << RANK_SHIFT) - 1))
}
