//! Elements in the dtype of an output, on their way to its slots or to memory.

use postlude_ptx::kernel::{Reg, SharedAddress};
use postlude_ptx::types::{S32, U32};

use super::super::chip::EpilogueChip;
use super::lanes::{Floats, Packed, SlotAccess};

/// Two columns of a thread's two rows, converted to an output's dtype.
#[derive(Clone, Copy)]
pub(super) enum Converted<'k> {
    /// 16-bit pairs, one a row: packed at once, so that they take half the registers.
    Packed(Packed<'k>),
    /// As they were computed.
    Whole(Floats<'k>),
    /// Integers of 32 bits.
    Integers([Reg<'k, S32>; 4]),
    /// Pairs of bytes, one a row: the first column's lowest.
    Bytes([Reg<'k, U32>; 2]),
    /// Bits to which other lanes' bits have to be added.
    Bits(Reg<'k, U32>),
}

impl<'k> Converted<'k> {
    pub(super) fn packed(self) -> Packed<'k> {
        match self {
            Converted::Packed(pairs) => pairs,
            Converted::Whole(_)
            | Converted::Integers(_)
            | Converted::Bytes(_)
            | Converted::Bits(_) => {
                panic!("compiler bug: 16-bit slots take pairs")
            }
        }
    }

    pub(super) fn whole(self) -> Floats<'k> {
        match self {
            Converted::Whole(values) => values,
            Converted::Packed(_)
            | Converted::Integers(_)
            | Converted::Bytes(_)
            | Converted::Bits(_) => {
                panic!("compiler bug: 32-bit slots take floats")
            }
        }
    }

    pub(super) fn bytes(self) -> [Reg<'k, U32>; 2] {
        match self {
            Converted::Bytes(pairs) => pairs,
            Converted::Packed(_)
            | Converted::Whole(_)
            | Converted::Integers(_)
            | Converted::Bits(_) => {
                panic!("compiler bug: 8-bit slots take pairs of bytes")
            }
        }
    }

    pub(super) fn bits(self) -> Reg<'k, U32> {
        match self {
            Converted::Bits(bits) => bits,
            Converted::Packed(_)
            | Converted::Whole(_)
            | Converted::Integers(_)
            | Converted::Bytes(_) => {
                panic!("compiler bug: bytes are put together from bits")
            }
        }
    }
}

/// Writes groups of 8 columns to a slot of elements of so many bytes.
pub(super) fn fill<'k, C: EpilogueChip>(
    access: &dyn SlotAccess<'k, C>,
    element_bytes: u32,
    start: SharedAddress<'k>,
    groups: &[Converted<'k>],
) {
    match element_bytes {
        1 => {
            let bytes: Vec<_> = groups.iter().map(|ready| ready.bytes()).collect();
            access.write_bytes(start, &bytes);
        }
        2 => {
            let packed: Vec<_> = groups.iter().map(|ready| ready.packed()).collect();
            access.write_packed(start, &packed);
        }
        _ => {
            let whole: Vec<_> = groups.iter().map(|ready| ready.whole()).collect();
            access.write_floats(start, &whole);
        }
    }
}
