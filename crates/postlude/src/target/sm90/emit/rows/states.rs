//! Partial results of several reductions: as words in shared memory, and of neighbouring threads.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::types::F32;

use crate::graph::fold::Words;
use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::values::{Evaluator, State};

/// What several threads have together, whose words of a kind lie side by side, and each kind's this many bytes behind the one
/// before: every thread reads all of them, or those of one where folding one more takes many instructions.
pub(super) fn fold_stored<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    reductions: &[Reduction],
    from: SharedAddress<'k>,
    (count, apart): (u32, u32),
) -> Vec<State<'k>> {
    let k = evaluator.k;
    let mut words = (0..).map(|number: u32| from + number * apart);
    let fold = |one: &Reduction| {
        let words: Vec<_> = words.by_ref().take(one.registers() as usize).collect();
        if one.sums_exponentials() || one.partial_words() == Words::One {
            let words: Vec<_> = words.iter().map(|from| neighbours(k, *from, count)).collect();
            let of = |thread: usize| words.iter().map(|word| word[thread]).collect();
            let states: Vec<State<'k>> = (0..count as usize).map(of).collect();
            return evaluator.fold_all(*one, &states);
        }
        let own = (k.lane() & (count - 1)) * 4;
        let state = words.iter().map(|from| k.load_shared::<F32, 1>(*from + own)[0]).collect();
        evaluator.fold_lanes(*one, state, &bits_below(count))
    };
    reductions.iter().map(fold).collect()
}

/// As many words side by side.
fn neighbours<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    from: SharedAddress<'k>,
    count: u32,
) -> Vec<Reg<'k, F32>> {
    match count {
        0 | 1 => k.load_shared::<F32, 1>(from).to_vec(),
        2 => k.load_shared::<F32, 2>(from).to_vec(),
        _ => (0..count / 4).flat_map(|four| k.load_shared::<F32, 4>(from + four * 16)).collect(),
    }
}

/// The bits in which the lanes of as many neighbouring threads differ.
fn bits_below(threads: u32) -> Vec<u32> {
    Fragment::WARP_BITS.iter().copied().filter(|bit| *bit < threads).collect()
}

/// What as many neighbouring threads have together, of each of them.
pub(super) fn fold_threads<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    reductions: &[Reduction],
    states: Vec<State<'k>>,
    threads: u32,
) -> Vec<State<'k>> {
    let both = reductions.iter().zip(states);
    both.map(|(one, state)| evaluator.fold_lanes(*one, state, &bits_below(threads))).collect()
}
