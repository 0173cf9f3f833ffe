//! Which lanes touched which bytes last.
//!
//! In: accesses. Out: marks of the last write and of the last reads since, word by word, or byte by byte where an access
//! was narrower than a word. Invariant: a cell's reads are of one warp at one of its times; reads of another warp or time
//! replace them.

use std::collections::HashMap;

use super::{AgentId, Cta};

/// Bytes of a page.
pub(super) const PAGE: u64 = 64;
const WORDS: usize = PAGE as usize / 4;

/// The agent of a mark before the first access.
pub(super) const NO_AGENT: AgentId = (u32::MAX, u32::MAX);

/// What is done to bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    Read,
    Write,
}

impl Does {
    fn past(self) -> &'static str {
        match self {
            Does::Read => "reads",
            Does::Write => "writes",
        }
    }
}

/// The last access of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) agent: AgentId,
    /// The warp's time, or the moment of a copy.
    pub(super) time: u32,
    /// The warp's moment for the tracker of warps.
    pub(super) moment: u32,
    /// 0 for a copy.
    pub(super) lanes: u32,
    pub(super) stamp: u32,
    pub(super) line: u32,
}

const NOTHING: Mark = Mark { agent: NO_AGENT, time: 0, moment: 0, lanes: 0, stamp: 0, line: 0 };

impl Mark {
    pub(super) fn is_none(&self) -> bool {
        self.agent == NO_AGENT
    }

    fn name(&self, lane: usize) -> String {
        let (cta, warp) = self.agent;
        format!("lane {lane} of warp {warp} of CTA {cta}, line {},", self.line)
    }

    /// The message for two lanes of a warp without an order.
    pub(super) fn unordered(&self, lane: usize, other: u32, did: Does) -> String {
        let name = self.name(lane);
        format!(
            "{name} {} these bytes, and no bar.warp.sync orders lane {other} after it",
            did.past()
        )
    }

    /// The message for a lane's access that no release covers.
    pub(super) fn unpublished(&self, lane: usize) -> String {
        let name = self.name(lane);
        format!(
            "{name} accesses these bytes, but another lane makes the arrival or release that follows, without a bar.warp.sync before it"
        )
    }

    /// The message for a lane that did not wait.
    pub(super) fn unknown(&self, lane: u32, did: Does) -> String {
        let line = self.line;
        format!(
            "line {line} {} these bytes; lanes of this warp waited for that, but lane {lane} did not, and no bar.warp.sync follows the wait",
            did.past()
        )
    }

    /// The message for a lane that did not fence.
    pub(super) fn unfenced(&self, lane: usize) -> String {
        let name = self.name(lane);
        format!(
            "{name} writes these bytes, but another lane makes the fence.proxy.async that follows, without a bar.warp.sync before it"
        )
    }
}

/// Accesses to a word or a byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) write: Mark,
    pub(super) read: Mark,
}

const UNTOUCHED: Cell = Cell { write: NOTHING, read: NOTHING };

impl Default for Cell {
    fn default() -> Self {
        UNTOUCHED
    }
}

impl Cell {
    pub(super) fn note(&mut self, mark: Mark, does: Does) {
        let held = match does {
            Does::Read => &mut self.read,
            Does::Write => &mut self.write,
        };
        let same = match does {
            Does::Read => (held.agent, held.time) == (mark.agent, mark.time),
            Does::Write => held.stamp == mark.stamp,
        };
        if same {
            held.lanes |= mark.lanes;
            (held.stamp, held.line) = (mark.stamp, mark.line);
        } else {
            *held = mark;
        }
        if does == Does::Write {
            self.read = NOTHING;
        }
    }

    /// Whether a CTA that is still known touched it.
    pub(super) fn is_of(&self, ctas: &HashMap<u32, Cta>) -> bool {
        [self.write, self.read].iter().any(|mark| ctas.contains_key(&mark.agent.0))
    }
}

/// 64 bytes.
#[derive(Clone, Debug)]
pub(super) enum Page {
    Words(Box<[Cell; WORDS]>),
    Bytes(Box<[Cell; PAGE as usize]>),
}

impl Default for Page {
    fn default() -> Self {
        Page::Words(Box::new([UNTOUCHED; WORDS]))
    }
}

impl Page {
    /// Lets `from..to` be made of whole cells.
    pub(super) fn refine(&mut self, (from, to): (usize, usize)) {
        if let Page::Words(cells) = self
            && !(from.is_multiple_of(4) && to.is_multiple_of(4))
        {
            *self = Page::Bytes(Box::new(std::array::from_fn(|at| cells[at / 4])));
        }
    }

    /// Cells of the bytes `from..to`, which are whole ones.
    pub(super) fn part(&mut self, (from, to): (usize, usize)) -> &mut [Cell] {
        match self {
            Page::Words(cells) => &mut cells[from / 4..to / 4],
            Page::Bytes(cells) => &mut cells[from..to],
        }
    }

    /// All of them.
    pub(super) fn cells(&self) -> &[Cell] {
        match self {
            Page::Words(cells) => &cells[..],
            Page::Bytes(cells) => &cells[..],
        }
    }
}
