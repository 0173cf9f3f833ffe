//! Partial results of several reductions: as words in shared memory, and of neighbouring threads.

use postlude_ptx::kernel::{Kernel, SharedAddress};
use postlude_ptx::types::F32;

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::values::{Evaluator, State};

/// States of which each word is this many bytes behind the one before.
pub(super) fn loaded<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    reductions: &[Reduction],
    from: SharedAddress<'k>,
    apart: u32,
) -> Vec<State<'k>> {
    let mut words = (0..).map(|number: u32| k.load_shared::<F32, 1>(from + number * apart)[0]);
    let state = |one: &Reduction| words.by_ref().take(one.registers() as usize).collect();
    reductions.iter().map(state).collect()
}

/// What as many neighbouring threads have together, of each of them.
pub(super) fn fold_threads<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    reductions: &[Reduction],
    states: Vec<State<'k>>,
    threads: u32,
) -> Vec<State<'k>> {
    let bits = Fragment::WARP_BITS.iter().copied();
    let bits: Vec<u32> = bits.filter(|bit| *bit < threads).collect();
    let both = reductions.iter().zip(states);
    both.map(|(one, state)| evaluator.fold_lanes(*one, state, &bits)).collect()
}
