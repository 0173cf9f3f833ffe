//! Where lanes that a branch divides meet again: the branch's immediate post-dominator.
//!
//! In: steps with targets. Out: `meet` of every branch. Where no step lies on all ways to the end, that is the end.

use postlude_ptx::inst::Inst;

use super::{END, Pc, Step};

/// A place that no block has.
const NONE: usize = usize::MAX;

/// Sets `meet` of every branch.
pub(super) fn meet(steps: &mut [Step]) {
    let starts = starts(steps);
    let block_of = |pc: Pc| starts.partition_point(|start| *start <= pc) - 1;
    let exit = starts.len();
    let mut next: Vec<Vec<usize>> = Vec::with_capacity(exit);
    for (block, _) in starts.iter().enumerate() {
        let last = starts.get(block + 1).map_or(steps.len(), |end| *end as usize) - 1;
        let follows = |pc: Pc| if (pc as usize) < steps.len() { block_of(pc) } else { exit };
        let after = follows(last as Pc + 1);
        let step = &steps[last];
        let mut ways = Vec::new();
        if let Inst::Branch { .. } = step.inst {
            ways.push(follows(step.target));
        } else if let Inst::Ret {} | Inst::Exit {} | Inst::Trap {} = step.inst {
            ways.push(exit);
        } else {
            ways.push(after);
        }
        if step.guard.is_some() && !ways.contains(&after) {
            ways.push(after);
        }
        next.push(ways);
    }
    let dominators = post_dominators(&next, exit);
    for (block, _) in starts.iter().enumerate() {
        let last = starts.get(block + 1).map_or(steps.len(), |end| *end as usize) - 1;
        let at = dominators[block];
        steps[last].meet = if at < exit { starts[at] } else { END };
    }
}

/// First steps of blocks: the first one, targets, and what follows a jump.
fn starts(steps: &[Step]) -> Vec<Pc> {
    let mut starts: Vec<Pc> = if steps.is_empty() { Vec::new() } else { vec![0] };
    for (at, step) in steps.iter().enumerate() {
        let jumps =
            matches!(step.inst, Inst::Branch { .. } | Inst::Ret {} | Inst::Exit {} | Inst::Trap {});
        if jumps && at + 1 < steps.len() {
            starts.push(at as Pc + 1);
        }
        if step.target != END {
            starts.push(step.target);
        }
    }
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// Immediate post-dominators by the algorithm of Cooper, Harvey and Kennedy on the graph turned round.
fn post_dominators(next: &[Vec<usize>], exit: usize) -> Vec<usize> {
    let order = backward_order(next, exit);
    let mut rank = vec![NONE; exit + 1];
    for (at, block) in order.iter().enumerate() {
        rank[*block] = at;
    }
    let mut dominator = vec![NONE; exit + 1];
    dominator[exit] = exit;
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().copied().filter(|block| *block != exit) {
            let mut found = NONE;
            for way in next[block].iter().copied().filter(|way| dominator[*way] != NONE) {
                found = if found == NONE { way } else { common(&dominator, &rank, way, found) };
            }
            if found != NONE && dominator[block] != found {
                dominator[block] = found;
                changed = true;
            }
        }
    }
    dominator
}

fn common(dominator: &[usize], rank: &[usize], mut one: usize, mut other: usize) -> usize {
    while one != other {
        while rank[one] > rank[other] {
            one = dominator[one];
        }
        while rank[other] > rank[one] {
            other = dominator[other];
        }
    }
    one
}

/// Blocks that reach the exit, each after one that follows it on some way: the reverse postorder of the graph turned
/// round.
fn backward_order(next: &[Vec<usize>], exit: usize) -> Vec<usize> {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); exit + 1];
    for (block, ways) in next.iter().enumerate() {
        for way in ways {
            before[*way].push(block);
        }
    }
    let mut seen = vec![false; exit + 1];
    let mut done = Vec::new();
    let mut stack = vec![(exit, 0)];
    seen[exit] = true;
    while let Some((block, way)) = stack.pop() {
        match before[block].get(way) {
            Some(previous) => {
                stack.push((block, way + 1));
                if !seen[*previous] {
                    seen[*previous] = true;
                    stack.push((*previous, 0));
                }
            }
            None => done.push(block),
        }
    }
    done.reverse();
    done
}
