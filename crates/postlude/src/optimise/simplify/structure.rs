//! Halves and pairs: values move, none changes.

use crate::graph::{Merge, NodeId, Op, Part};

use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] = &[part_of_merged, merge_of_parts];

/// The parts that a merge undoes, first and second.
const fn parts(merge: Merge) -> (Part, Part) {
    match merge {
        Merge::Concat => (Part::First, Part::Second),
        Merge::Join => (Part::Even, Part::Odd),
    }
}

/// The first half of `concat(a, b)` is `a`.
fn part_of_merged(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Part(part, merged) = *op else { return None };
    let Op::Merge(merge, a, b) = *site.op(merged) else { return None };
    let (first, second) = parts(merge);
    if part == first {
        Some(a)
    } else if part == second {
        Some(b)
    } else {
        None
    }
}

/// `concat` of both halves of `x` is `x`.
fn merge_of_parts(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Merge(merge, a, b) = *op else { return None };
    let (Op::Part(one, x), Op::Part(two, y)) = (site.op(a), site.op(b)) else { return None };
    (x == y && (*one, *two) == parts(merge)).then_some(*x)
}
