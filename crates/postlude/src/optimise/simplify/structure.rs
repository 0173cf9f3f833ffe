//! Halves and pairs: values move, none changes.

use crate::graph::{Concat, Merge, NodeId, Op, Part};

use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] =
    &[part_of_merged, merge_of_parts, part_of_concat, concat_of_parts];

/// The parts that a merge undoes, first and second.
const fn parts(merge: Merge) -> (Part, Part) {
    match merge {
        Merge::Concat => (Part::First, Part::Second),
        Merge::Join => (Part::Even, Part::Odd),
    }
}

/// Part `index` of what was put together the same way is that part.
fn part_of_concat(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Part(part, merged) = *op else { return None };
    let Op::Concat(concat, parts) = site.op(merged) else { return None };
    let (own, index) = undone(part, parts.len())?;
    (own == *concat).then(|| parts.get(index).copied()).flatten()
}

/// `concat` of all parts of `x` in order is `x`.
fn concat_of_parts(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Concat(concat, parts) = op else { return None };
    let mut whole = None;
    for (place, part) in parts.iter().enumerate() {
        let Op::Part(part, x) = *site.op(*part) else { return None };
        let (own, index) = undone(part, parts.len())?;
        if own != *concat || index != place || whole.is_some_and(|whole| whole != x) {
            return None;
        }
        whole = Some(x);
    }
    whole
}

/// What puts this part together with the others, and which of them it is.
fn undone(part: Part, parts: usize) -> Option<(Concat, usize)> {
    match part {
        Part::First | Part::Second | Part::Even | Part::Odd | Part::Repeated { .. } => None,
        Part::Equal { index, count, run } => {
            (usize::from(count) == parts).then_some((Concat::Equal(run), index.into()))
        }
        Part::Listed { split, index } => Some((Concat::Listed(split), index.into())),
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
