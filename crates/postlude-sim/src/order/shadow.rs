//! Who touched which byte last.
//!
//! In: accesses by address. Out: what each must be compared with. Invariant: a cell knows its last write and every read
//! since that no later read by the same proxy stands for. 16 bytes share a cell as long as nobody touches less of them.

use super::clock::{Clock, Id};
use super::scope::Reach;

/// Bytes of a granule, and granules of a page.
const GRANULE: u64 = 16;
const PAGE: u64 = 64;
/// Pages that are kept; what lies beyond is out of bounds of anything real.
const MOST_PAGES: u64 = 1 << 22;

/// The most listed reads of a buffer that the kernel has not written.
const MOST_LISTED: usize = 1 << 22;

/// How an access reaches memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Proxy {
    /// Loads and stores, and copies of sm_80.
    Generic,
    /// Tensor and bulk copies, and matrix products.
    Async,
}

/// What is done to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Does {
    Read,
    Write,
}

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Touch {
    pub(super) by: Id,
    /// The agent's moment.
    pub(super) moment: u32,
    pub(super) line: u32,
    /// When it was executed or, of an operation, issued: counts the whole run.
    pub(super) time: u32,
    pub(super) proxy: Proxy,
    /// How far it is strong, being atomic or ordered; 0 for a weak access.
    pub(super) strong: Reach,
}

/// Accesses to some bytes.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Cell {
    write: Option<Touch>,
    /// Most bytes have no more than two readers.
    reads: [Option<Touch>; 2],
    more: Vec<Touch>,
}

impl Cell {
    fn see(&self, does: Does, see: &mut dyn FnMut(Touch, Does)) {
        if let Some(write) = self.write {
            see(write, Does::Write);
        }
        if does == Does::Write {
            self.reads.iter().flatten().for_each(|read| see(*read, Does::Read));
            self.more.iter().for_each(|read| see(*read, Does::Read));
        }
    }

    fn note(&mut self, touch: Touch, does: Does, seen: &Clock) {
        match does {
            Does::Write => *self = Cell { write: Some(touch), ..Cell::default() },
            Does::Read => self.note_read(touch, seen),
        }
    }

    fn note_read(&mut self, touch: Touch, seen: &Clock) {
        let stands_for = |old: &Touch| {
            (old.proxy, old.strong) == (touch.proxy, touch.strong)
                && (old.by == touch.by || seen.get(old.by) >= old.moment)
        };
        let mut placed = false;
        for slot in &mut self.reads {
            if slot.as_ref().is_some_and(stands_for) {
                *slot = None;
            }
            if slot.is_none() && !placed {
                *slot = Some(touch);
                placed = true;
            }
        }
        if !self.more.is_empty() {
            self.more.retain(|old| !stands_for(old));
        }
        if !placed {
            self.more.push(touch);
        }
    }
}

/// 16 bytes, in as many parts as they were touched in.
#[derive(Clone, Default, Debug)]
enum Granule {
    #[default]
    New,
    Whole(Cell),
    Words(Box<[Cell; 4]>),
    Bytes(Box<[Cell; 16]>),
}

impl Granule {
    /// Cells that together are the bytes `from..to`.
    fn cells(&mut self, from: usize, to: usize) -> &mut [Cell] {
        let words = from.is_multiple_of(4) && to.is_multiple_of(4);
        match self {
            Granule::New if (from, to) == (0, 16) => *self = Granule::Whole(Cell::default()),
            Granule::New if words => *self = Granule::Words(Box::default()),
            Granule::New => *self = Granule::Bytes(Box::default()),
            Granule::Whole(_) if (from, to) == (0, 16) => {}
            Granule::Whole(cell) if words => {
                *self = Granule::Words(Box::new(std::array::from_fn(|_| cell.clone())));
            }
            Granule::Whole(cell) => {
                *self = Granule::Bytes(Box::new(std::array::from_fn(|_| cell.clone())));
            }
            Granule::Words(_) if words => {}
            Granule::Words(cells) => {
                *self = Granule::Bytes(Box::new(std::array::from_fn(|at| cells[at / 4].clone())));
            }
            Granule::Bytes(_) => {}
        }
        match self {
            Granule::New => &mut [],
            Granule::Whole(cell) => std::slice::from_mut(cell),
            Granule::Words(cells) => &mut cells[from / 4..to / 4],
            Granule::Bytes(cells) => &mut cells[from..to],
        }
    }

    fn touch(
        &mut self,
        range: (usize, usize),
        (touch, does, seen): (Touch, Does, &Clock),
        see: &mut dyn FnMut(Touch, Does),
    ) {
        for cell in self.cells(range.0, range.1) {
            cell.see(does, see);
            cell.note(touch, does, seen);
        }
        if does == Does::Write && range == (0, 16) {
            *self = Granule::Whole(Cell { write: Some(touch), ..Cell::default() });
        }
    }
}

/// Accesses to one space, by address from its start.
#[derive(Default, Debug)]
pub(super) struct Shadow {
    pages: Vec<Option<Box<[Granule; PAGE as usize]>>>,
}

impl Shadow {
    /// Notes an access by somebody who knows `seen`; `see` is shown what was there before.
    pub(super) fn touch(
        &mut self,
        (address, bytes): (u64, u32),
        (touch, does, seen): (Touch, Does, &Clock),
        see: &mut dyn FnMut(u64, Touch, Does),
    ) {
        let end = address.saturating_add(bytes.into());
        let mut at = address;
        while at < end {
            let granule = at / GRANULE;
            let stop = end.min((granule + 1) * GRANULE);
            let page = granule / PAGE;
            if page >= MOST_PAGES {
                return;
            }
            let page = page as usize;
            if self.pages.len() <= page {
                self.pages.resize_with(page + 1, || None);
            }
            let page = self.pages[page]
                .get_or_insert_with(|| Box::new(std::array::from_fn(|_| Granule::New)));
            let start = granule * GRANULE;
            let range = ((at - start) as usize, (stop - start) as usize);
            page[(granule % PAGE) as usize]
                .touch(range, (touch, does, seen), &mut |old, did| see(start, old, did));
            at = stop;
        }
    }
}

/// Accesses to one buffer of global memory. Reads of what was never written cannot clash: they are only listed, until
/// the first write.
#[derive(Default, Debug)]
pub(super) struct Buffer {
    listed: Vec<(u64, u32, Touch)>,
    written: Option<Shadow>,
}

impl Buffer {
    /// The same as [`Shadow::touch`].
    pub(super) fn touch(
        &mut self,
        (address, bytes): (u64, u32),
        (touch, does, seen): (Touch, Does, &Clock),
        see: &mut dyn FnMut(u64, Touch, Does),
    ) {
        if self.written.is_none() && does == Does::Read {
            return self.list(address, bytes, touch);
        }
        let listed = std::mem::take(&mut self.listed);
        let shadow = self.written.get_or_insert_default();
        let nothing = Clock::default();
        for (address, bytes, touch) in listed {
            shadow.touch((address, bytes), (touch, Does::Read, &nothing), &mut |_, _, _| {});
        }
        shadow.touch((address, bytes), (touch, does, seen), see);
    }

    /// Lanes of an instruction that read the same bytes, or neighbours, are one entry; of very many entries the older
    /// half is dropped. A write to an input long after the read is then not found.
    fn list(&mut self, address: u64, bytes: u32, touch: Touch) {
        if let Some((start, count, last)) = self.listed.last_mut() {
            let end = *start + u64::from(*count);
            if *last == touch && (*start..=end).contains(&address) {
                let reached = (address + u64::from(bytes)).max(end) - *start;
                if let Ok(reached) = u32::try_from(reached) {
                    *count = reached;
                    return;
                }
            }
        }
        if self.listed.len() >= MOST_LISTED {
            self.listed.drain(..MOST_LISTED / 2);
        }
        self.listed.push((address, bytes, touch));
    }
}
