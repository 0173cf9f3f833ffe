//! An operand whose rows begin anywhere: copies bring in what surrounds them, threads move it to its place.
//!
//! Every eighth row begins at the same distance from a multiple of 16 bytes: eight classes of rows, a tensor map each, that
//! begins at the multiple before the class's first row. (No swizzled copy begins between two multiples: with an
//! innermost coordinate there it is an illegal instruction.) A row arrives with up to seven elements before its own. A
//! warp moves one row at a time, a lane two elements.

use postlude_ptx::kernel::{Kernel, MapParameter, NumberParameter, Reg, SharedAddress};
use postlude_ptx::ring::{Receivers, Slot};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, Pred, U32};

use crate::plan::sm90::{STAGGER, STAGGERED_ROW_BYTES};

use super::{LINE_BYTES, Part, Piece};

/// A class of rows: its map, and how many elements lie before the first of each row.
pub(in super::super) type Class<'k> = (MapParameter<'k>, NumberParameter<'k, U32>);

/// Which bytes of two neighbouring registers make one, where nothing is shifted; and how far each is from it where one
/// element is.
const UNSHIFTED: u32 = 0x3210;
const ONE_ELEMENT: u32 = 0x2222;

/// Rows of each class that a warp asks for before it stores the first.
const AT_ONCE: u32 = 2;

/// A staggered operand's part of a slot of what arrives.
pub(in super::super) struct Staggered<'a, 'k> {
    pub(super) k: Kernel<'k, Sm90a>,
    pub(super) part: Part,
    pub(super) classes: &'a [Class<'k>],
    /// Bytes from the slot's start.
    pub(super) offset: u32,
}

/// How the rows of a class are moved.
struct Shift<'k> {
    /// Bytes to the first of a lane's two registers.
    from: Reg<'k, U32>,
    /// Which of their bytes are its elements.
    bytes: Reg<'k, B32>,
    /// Whether some are the second's.
    both: Reg<'k, Pred>,
}

impl<'k> Staggered<'_, 'k> {
    fn class_rows(&self) -> u32 {
        self.part.size / STAGGER
    }

    fn class_offset(&self, class: u32) -> u32 {
        self.offset + class * self.class_rows() * STAGGERED_ROW_BYTES
    }

    /// Bytes of a slot.
    pub(in super::super) fn bytes(&self) -> u32 {
        self.part.size * STAGGERED_ROW_BYTES
    }

    /// Issues the copies of one slot.
    pub(in super::super) fn issue(
        &self,
        slot: &Slot<'_, 'k, Sm90a>,
        start: SharedAddress<'k>,
        at: Piece<'k>,
    ) {
        let first = at.first >> STAGGER.trailing_zeros();
        let bytes = self.class_rows() * STAGGERED_ROW_BYTES;
        for (class, (map, _)) in (0..).zip(self.classes) {
            let place = [at.depth, first, at.batch].map(Into::into);
            let to = start + self.class_offset(class);
            slot.load(to, map.address(), &place, bytes, Receivers::Own, None);
        }
    }

    /// What moves a lane's elements, to be known before the first row is moved.
    pub(in super::super) fn mover(&self, lane: Reg<'k, U32>) -> impl Fn(Moved<'k>) {
        let shift = |(_, before): &Class<'k>| {
            let before = before.load();
            let from = (before >> 1).mad(4, lane * 4);
            let bytes = (before & 1).mad(ONE_ELEMENT, UNSHIFTED).cast();
            Shift { from, bytes, both: (before & 1).ne(0) }
        };
        let shifts: Vec<Shift<'k>> = self.classes.iter().map(shift).collect();
        let offsets: Vec<u32> = (0..STAGGER).map(|class| self.class_offset(class)).collect();
        let (k, part, rows) = (self.k, self.part, self.class_rows());
        move |Moved { from, to, first, step }: Moved<'k>| {
            k.for_(first, rows / AT_ONCE, step, |group| {
                let from = from + group * (AT_ONCE * STAGGERED_ROW_BYTES);
                // Rows of all classes with the same number are neighbours: one pattern of the swizzle.
                let pattern_bytes = STAGGER * LINE_BYTES;
                let pattern = group.mad(AT_ONCE * pattern_bytes, lane * 4);
                let pattern = (to + part.offset + pattern).register();
                let mut words = Vec::new();
                for row in 0..AT_ONCE {
                    for (class, (shift, offset)) in (0..).zip(shifts.iter().zip(&offsets)) {
                        let from = from + shift.from + (row * STAGGERED_ROW_BYTES + offset);
                        let [low] = k.load_shared::<B32, 1>(from);
                        let [high] = k.load_shared_if::<B32, 1>(shift.both, from + 4, 0_u32);
                        words.push((row, class, low.permute(high, shift.bytes)));
                    }
                }
                for (row, class, word) in words {
                    let line = SharedAddress::from_register(pattern ^ (class * 16));
                    k.store_shared(line + (row * pattern_bytes + class * LINE_BYTES), [word]);
                }
            });
        }
    }
}

/// From where to where a warp moves rows, and which.
#[derive(Clone, Copy)]
pub(in super::super) struct Moved<'k> {
    pub(in super::super) from: SharedAddress<'k>,
    pub(in super::super) to: SharedAddress<'k>,
    /// Its first group of rows, and how many there are to the next.
    pub(in super::super) first: Reg<'k, U32>,
    pub(in super::super) step: u32,
}
