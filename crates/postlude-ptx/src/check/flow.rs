//! Straight pieces of code and where each goes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::address::Label;
use crate::entry::Item;
use crate::inst::Inst;

/// Items that run one after the other.
pub(super) struct Block {
    /// Which, by number.
    pub(super) items: Range<usize>,
    /// Blocks that may come next.
    pub(super) next: Vec<usize>,
}

/// The blocks of a kernel; the first is the entry.
pub(super) struct Flow {
    pub(super) blocks: Vec<Block>,
}

/// How a block may end.
enum End {
    /// It goes on.
    Through,
    /// It goes elsewhere, and on where it is conditional.
    Jump { to: Label, conditional: bool },
    /// It stops, and goes on where it is conditional.
    Stop { conditional: bool },
}

fn end(item: &Item) -> End {
    match item {
        Item::Label(_) | Item::Comment(_) | Item::NoUnroll => End::Through,
        Item::Inst { condition, inst } => {
            let conditional = condition.is_some();
            if let Inst::Branch { to } = inst {
                End::Jump { to: *to, conditional }
            } else if let Inst::Ret {} | Inst::Exit {} | Inst::Trap {} = inst {
                End::Stop { conditional }
            } else {
                End::Through
            }
        }
    }
}

impl Flow {
    pub(super) fn new(items: &[Item]) -> Self {
        let ranges = ranges(items);
        let mut places = BTreeMap::new();
        for (block, range) in ranges.iter().enumerate() {
            if let Some(Item::Label(label)) = items.get(range.start) {
                places.insert(*label, block);
            }
        }
        let last = ranges.len().saturating_sub(1);
        let blocks = ranges.into_iter().enumerate().map(|(block, items_of)| {
            let after = (block < last).then_some(block + 1);
            let (target, after) = match items[items_of.clone()].last().map_or(End::Through, end) {
                End::Through => (None, after),
                End::Jump { to, conditional } => {
                    (places.get(&to).copied(), after.filter(|_| conditional))
                }
                End::Stop { conditional } => (None, after.filter(|_| conditional)),
            };
            Block { items: items_of, next: target.into_iter().chain(after).collect() }
        });
        Flow { blocks: blocks.collect() }
    }
}

/// Blocks start at labels and after jumps.
fn ranges(items: &[Item]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for (at, item) in items.iter().enumerate() {
        if matches!(item, Item::Label(_)) && at > start {
            ranges.push(start..at);
            start = at;
        }
        if !matches!(end(item), End::Through) {
            ranges.push(start..at + 1);
            start = at + 1;
        }
    }
    if start < items.len() {
        ranges.push(start..items.len());
    }
    ranges
}
