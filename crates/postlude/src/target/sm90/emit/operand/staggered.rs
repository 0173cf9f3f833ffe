//! An operand whose rows begin anywhere: copies bring in what surrounds them, threads move it to its place.
//!
//! Every eighth row begins at the same distance from a multiple of 16 bytes: eight classes of rows, a tensor map each, that
//! begins at the multiple before the class's first row. (No swizzled copy begins between two multiples: with an
//! innermost coordinate there it is an illegal instruction.) A row arrives with up to seven elements before its own. A
//! warp moves one row at a time, a lane two elements.

use postlude_ptx::kernel::{Kernel, MapParameter, NumberParameter, Reg, SharedAddress, Var};
use postlude_ptx::ring::{Receivers, Slot};
use postlude_ptx::target::{Sm90a, Tma};
use postlude_ptx::types::{B32, U32};

use crate::target::sm90::plan::{STAGGER, STAGGERED_ROW_BYTES};

use super::part::{LINE_BYTES, Part, Piece};

/// What the kernel gets of a staggered operand's classes.
pub(crate) struct Classes<'k> {
    maps: Vec<MapParameter<'k>>,
    /// Bytes of a row before the word that holds its first element.
    before: Vec<NumberParameter<'k, U32>>,
    /// Which bytes of two neighbouring words are two elements, in rows of even and of odd numbers: all that have an even
    /// number of rows between them begin alike in a word.
    selectors: [NumberParameter<'k, U32>; 2],
}

impl<'k> Classes<'k> {
    pub(super) fn declare<C: Tma>(k: Kernel<'k, C>, name: &str) -> Self {
        // Maps are aligned to 64 bytes: numbers between them would cost half as much again.
        let each = 0..STAGGER;
        let maps = each.clone().map(|class| k.parameter_map(&format!("{name}{class}"))).collect();
        let before = each.map(|class| k.parameter_u32(&format!("{name}{class}_before"))).collect();
        let selectors =
            ["even", "odd"].map(|rows| k.parameter_u32(&format!("{name}_{rows}_selector")));
        Classes { maps, before, selectors }
    }

    pub(super) fn prefetch(&self) {
        self.maps.iter().for_each(|map| map.prefetch());
    }
}

/// The selector of rows that begin with a word.
const WHOLE: u32 = 0x3210;
/// The selector of rows that begin in the middle of a word.
const SPLIT_WORDS: u32 = 0x5432;

/// What a launch passes for rows that this many elements lie before: their bytes in whole words, and the selector.
pub(crate) fn shift(before: u32) -> [u32; 2] {
    [before / 2 * 4, if before.is_multiple_of(2) { WHOLE } else { SPLIT_WORDS }]
}

/// A staggered operand's part of a slot of what arrives.
pub(crate) struct Staggered<'a, 'k> {
    pub(super) k: Kernel<'k, Sm90a>,
    pub(super) part: Part,
    pub(super) classes: &'a Classes<'k>,
    /// Bytes from the slot's start.
    pub(super) offset: u32,
}

impl<'k> Staggered<'_, 'k> {
    fn class_rows(&self) -> u32 {
        self.part.size / STAGGER
    }

    fn class_offset(&self, class: u32) -> u32 {
        self.offset + class * self.class_rows() * STAGGERED_ROW_BYTES
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(&self) -> u32 {
        self.part.size * STAGGERED_ROW_BYTES
    }

    /// For the CTA at this row and column of its cluster, what issues the copies of one slot. Where the operand is
    /// multicast, each receiver copies some of the classes for all.
    pub(crate) fn copies(
        &self,
        place: [Reg<'k, U32>; 2],
    ) -> impl Fn(&Slot<'_, 'k, Sm90a>, SharedAddress<'k>, Piece<'k>) {
        let multicast = self.part.receivers(self.k, place);
        let bytes = self.class_rows() * STAGGERED_ROW_BYTES;
        move |slot, start, at| {
            let first = at.first >> STAGGER.trailing_zeros();
            let copy = |class: u32, receivers| {
                let place = [at.depth, first].into_iter().chain(at.mapped_batch.places());
                let place: Vec<_> = place.map(Into::into).collect();
                let to = start + self.class_offset(class);
                let map = self.classes.maps[class as usize].address();
                slot.load(to, map, &place, bytes, receivers, None);
            };
            let Some((own, Receivers::Multicast { mask, .. })) = multicast else {
                return (0..STAGGER).for_each(|class| copy(class, Receivers::Own));
            };
            let each = STAGGER / self.part.multicast;
            for receiver in 0..self.part.multicast {
                let receivers = Receivers::Multicast { mask, count: 1 };
                self.k.if_(own.eq(receiver), || {
                    let classes = receiver * each..(receiver + 1) * each;
                    classes.for_each(|class| copy(class, receivers));
                });
            }
        }
    }

    /// Moves those groups of rows that are the warp's; then `next` counts from the operand behind.
    pub(crate) fn move_rows(&self, mover: &Mover<'k>, [from, to]: [SharedAddress<'k>; 2]) {
        let (k, next, deep) = (self.k, mover.next, mover.group_rows);
        let groups = self.class_rows() / deep;
        assert!(groups * deep == self.class_rows(), "compiler bug: rows that are in no group");
        let both = self.classes.selectors.map(|selector| selector.load().ne(WHOLE));
        // Rows of all classes with the same number are neighbours: one pattern of the swizzle.
        let pattern_bytes = STAGGER * LINE_BYTES;
        k.while_(
            || next.get().lt(groups),
            || {
                let from = from + next.get().mad(deep * STAGGERED_ROW_BYTES, mover.lane);
                let pattern = next.get().mad(deep * pattern_bytes, mover.lane);
                let pattern = (to + self.part.offset + pattern).register();
                let word = |(number, second): (u32, Var<'k, B32>)| {
                    let (row, class) = (number / STAGGER, number % STAGGER);
                    let from = from + self.classes.before[class as usize].load();
                    let from = from + (self.class_offset(class) + row * STAGGERED_ROW_BYTES);
                    let [first] = k.load_shared::<B32, 1>(from);
                    let parity = (class % 2) as usize;
                    k.when(both[parity], || k.load_shared_into([second], from + 4));
                    let selector = self.classes.selectors[parity];
                    let line = SharedAddress::from_register(pattern ^ (class * 16));
                    let to = line + (row * pattern_bytes + class * LINE_BYTES);
                    (to, first, second, selector)
                };
                // All loads are issued before the first store waits for one.
                let words: Vec<_> = (0..).zip(mover.second.iter().copied()).map(word).collect();
                for (to, first, second, selector) in words {
                    let word = first.permute(second, selector.load().cast::<B32>());
                    k.store_shared(to, [word]);
                }
                next.set(next.get() + mover.warps);
            },
        );
        next.set(next.get() - groups);
    }
}

/// A lane of a warp that moves rows. A group has some of each class; the groups of all operands are one list, which is
/// dealt to warps in turn.
pub(crate) struct Mover<'k> {
    /// Bytes to its words of a row.
    lane: Reg<'k, U32>,
    /// Warps that move.
    warps: u32,
    /// Rows of a class in a group.
    group_rows: u32,
    /// The next of the warp's groups.
    next: Var<'k, U32>,
    /// The second words of a group's rows, where they need two; elsewhere no instruction reads them, but they have a value.
    second: Vec<Var<'k, B32>>,
}

impl<'k> Mover<'k> {
    pub(crate) fn new(
        k: Kernel<'k, Sm90a>,
        lane: Reg<'k, U32>,
        warps: u32,
        group_rows: u32,
    ) -> Self {
        let second = (0..STAGGER * group_rows).map(|_| k.var(0_u32)).collect();
        Mover { lane: lane * 4, warps, group_rows, next: k.var(0), second }
    }

    /// Goes to the first group of a slot, for the moving warp of this number.
    pub(crate) fn begin(&self, warp: Reg<'k, U32>) {
        self.next.set(warp);
    }
}
