//! Some columns of a value: what is left when it is split in halves and in pairs, again and again.
//!
//! A column's number is written in binary. Each split in halves fixes its highest digit that is not fixed yet, each split in
//! pairs its lowest one. So the order of the two kinds does not matter, and every slice is an offset and a stride.

use crate::graph::{Merge, Part};

/// Splits one behind the other that are followed.
pub(super) const MOST_DEPTH: u32 = 3;

/// Every slice of a value that is followed has a number below this: 1 + 4 + 12 + 32.
pub(super) const SLICES: usize = 49;

/// How columns are split in two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Way {
    Halves,
    Pairs,
}

impl Way {
    pub(super) const fn parts(self) -> [Part; 2] {
        match self {
            Way::Halves => [Part::First, Part::Second],
            Way::Pairs => [Part::Even, Part::Odd],
        }
    }

    pub(super) const fn of_part(part: Part) -> Way {
        match part {
            Part::First | Part::Second => Way::Halves,
            Part::Even | Part::Odd => Way::Pairs,
            Part::Equal { .. } | Part::Repeated { .. } | Part::Listed { .. } => {
                panic!("compiler bug: a part that is no slice")
            }
        }
    }

    pub(super) const fn of_merge(merge: Merge) -> Way {
        match merge {
            Merge::Concat => Way::Halves,
            Merge::Join => Way::Pairs,
        }
    }

    pub(super) const fn other(self) -> Way {
        match self {
            Way::Halves => Way::Pairs,
            Way::Pairs => Way::Halves,
        }
    }
}

/// Some columns of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Slice {
    /// How often columns were split in halves, and which of them it is.
    pub(super) halvings: u32,
    pub(super) half: u32,
    /// How often columns were split in pairs, and which of them it is.
    pub(super) pairings: u32,
    pub(super) pair: u32,
}

impl Slice {
    /// All columns.
    pub(super) const WHOLE: Slice = Slice { halvings: 0, half: 0, pairings: 0, pair: 0 };

    /// Every slice that is followed, by its number: wider ones first, halves before pairs.
    pub(super) fn all() -> impl Iterator<Item = Slice> {
        (0..=MOST_DEPTH).flat_map(|depth| {
            (0..=depth).flat_map(move |pairings| {
                let halvings = depth - pairings;
                let pairs = move |half| {
                    (0..1 << pairings).map(move |pair| Slice { halvings, half, pairings, pair })
                };
                (0..1 << halvings).flat_map(pairs)
            })
        })
    }

    /// Its place among all; `None` for one that is split more often.
    pub(super) fn number(self) -> Option<usize> {
        let depth = self.depth();
        if depth > MOST_DEPTH {
            return None;
        }
        // There are depth + 1 mixtures of 2^depth slices each, after all wider slices.
        let before: u32 = (0..depth).map(|wider| (wider + 1) << wider).sum();
        let place = (self.pairings << depth) + (self.half << self.pairings) + self.pair;
        Some((before + place) as usize)
    }

    /// The slice of that number.
    pub(super) fn numbered(number: usize) -> Slice {
        Slice::all().nth(number).unwrap_or(Slice::WHOLE)
    }

    /// How often columns were split.
    pub(super) const fn depth(self) -> u32 {
        self.halvings + self.pairings
    }

    /// Of one of its own columns to the next, in columns of the value.
    pub(super) const fn stride(self) -> usize {
        1 << self.pairings
    }

    /// The value's column that comes first in the slice, for a slice of this many columns.
    pub(super) const fn first(self, columns: usize) -> usize {
        self.half as usize * columns * self.stride() + self.pair as usize
    }

    /// A part of it.
    pub(super) fn split(self, part: Part) -> Slice {
        let bit = u32::from(matches!(part, Part::Second | Part::Odd));
        match Way::of_part(part) {
            Way::Halves => Slice { halvings: self.halvings + 1, half: 2 * self.half + bit, ..self },
            Way::Pairs => Slice {
                pairings: self.pairings + 1,
                pair: self.pair + (bit << self.pairings),
                ..self
            },
        }
    }

    /// Where it lies in the value that its own value is a part of.
    pub(super) fn of_part(self, part: Part) -> Slice {
        let bit = u32::from(matches!(part, Part::Second | Part::Odd));
        match Way::of_part(part) {
            Way::Halves => Slice {
                halvings: self.halvings + 1,
                half: self.half + (bit << self.halvings),
                ..self
            },
            Way::Pairs => Slice { pairings: self.pairings + 1, pair: 2 * self.pair + bit, ..self },
        }
    }

    /// Which of two merged values it lies in, and where; `None` where it has columns of both.
    pub(super) fn of_merge(self, merge: Merge) -> Option<(usize, Slice)> {
        match Way::of_merge(merge) {
            Way::Halves => {
                let halvings = self.halvings.checked_sub(1)?;
                let half = self.half & ((1 << halvings) - 1);
                Some(((self.half >> halvings) as usize, Slice { halvings, half, ..self }))
            }
            Way::Pairs => {
                let pairings = self.pairings.checked_sub(1)?;
                let (place, pair) = ((self.pair & 1) as usize, self.pair >> 1);
                Some((place, Slice { pairings, pair, ..self }))
            }
        }
    }

    /// The slice of a value with one column for each run of `run` columns that this slice meets; `None` if it is no slice.
    pub(super) fn of_runs(self, run: u32) -> Option<Slice> {
        let within = run.trailing_zeros().min(self.pairings);
        if within < self.pairings && !run.is_power_of_two() {
            return None;
        }
        Some(Slice { pairings: self.pairings - within, pair: self.pair >> within, ..self })
    }

    /// The slices of a value that a reduction of runs reads for this slice of its result, if each run of `run` columns is
    /// split in pairs `pairings` times, and how many columns of a run are left in each slice; `None` if that is no slice.
    pub(super) fn of_reduced(self, run: u32, pairings: u32) -> Option<(Vec<Slice>, u32)> {
        if pairings > run.trailing_zeros() {
            return None;
        }
        let left = run >> pairings;
        // Every other run is a slice only where runs are split up altogether.
        if self.pairings > 0 && left > 1 {
            return None;
        }
        let slices = (0..1 << pairings).map(|pair| Slice {
            pairings: self.pairings + pairings,
            pair: pair + (self.pair << pairings),
            ..self
        });
        Some((slices.collect(), left))
    }

    /// Its name behind a tensor's.
    pub(super) fn name(self) -> String {
        let digit = |digits: u32, place: u32| (digits >> place) as usize & 1;
        let halves = (0..self.halvings).rev().map(|place| digit(self.half, place));
        let pairs = (0..self.pairings).map(|place| digit(self.pair, place));
        let halves = halves.map(|bit| Way::Halves.parts()[bit].name());
        let pairs = pairs.map(|bit| Way::Pairs.parts()[bit].name());
        halves.chain(pairs).collect::<Vec<_>>().join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(slice: Slice, of: usize) -> Vec<usize> {
        let own = of >> slice.depth();
        (0..own).map(|column| slice.first(own) + column * slice.stride()).collect()
    }

    #[test]
    fn numbers_are_places_in_the_list() {
        assert_eq!(Slice::all().count(), SLICES);
        for (number, slice) in Slice::all().enumerate() {
            assert_eq!(slice.number(), Some(number));
            assert_eq!(Slice::numbered(number), slice);
        }
    }

    #[test]
    fn a_part_of_a_slice_has_the_columns_that_the_part_says() {
        for slice in Slice::all().filter(|slice| slice.depth() < MOST_DEPTH) {
            for part in Part::HALVES {
                let (whole, own) = (columns(slice, 48), columns(slice.split(part), 48));
                let wanted: Vec<usize> =
                    (0..own.len()).map(|at| whole[part.source(at, whole.len(), 0)]).collect();
                assert_eq!(own, wanted);
                // The same the other way round: a slice of a part.
                let outer: Vec<usize> = (0..24).map(|at| part.source(at, 48, 0)).collect();
                let wanted: Vec<usize> =
                    columns(slice, 24).into_iter().map(|at| outer[at]).collect();
                assert_eq!(columns(slice.of_part(part), 48), wanted);
            }
        }
    }

    #[test]
    fn a_slice_of_merged_values_is_one_of_either_or_none() {
        for slice in Slice::all() {
            for merge in [Merge::Concat, Merge::Join] {
                let sources: Vec<_> =
                    columns(slice, 48).into_iter().map(|at| merge.source(at, 48)).collect();
                match slice.of_merge(merge) {
                    Some((place, inner)) => {
                        let wanted = columns(inner, 24).into_iter().map(|at| (place, at));
                        assert_eq!(sources, wanted.collect::<Vec<_>>());
                    }
                    None => assert!(sources.iter().any(|source| source.0 != sources[0].0)),
                }
            }
        }
    }

    #[test]
    fn a_slice_meets_the_runs_that_its_columns_lie_in() {
        for slice in Slice::all() {
            for run in [2, 3, 4, 6, 8] {
                let Some(runs) = slice.of_runs(run) else { continue };
                let (own, coarse) = (columns(slice, 192), columns(runs, 192 / run as usize));
                let shared = own.len() / coarse.len();
                for (at, column) in own.into_iter().enumerate() {
                    assert_eq!(column / run as usize, coarse[at / shared], "{slice:?} {run}");
                }
            }
        }
    }

    #[test]
    fn the_slices_of_a_reduction_together_hold_its_runs() {
        for slice in Slice::all() {
            for (run, pairings) in [(2, 0), (2, 1), (6, 1), (8, 2), (8, 3), (3, 0)] {
                let Some((slices, left)) = slice.of_reduced(run, pairings) else { continue };
                let (coarse, of) = (columns(slice, 64), 64 * run as usize);
                let fine: Vec<Vec<usize>> = slices.iter().map(|fine| columns(*fine, of)).collect();
                for (at, column) in coarse.into_iter().enumerate() {
                    let own = |fine: &Vec<usize>| {
                        fine[at * left as usize..(at + 1) * left as usize].to_vec()
                    };
                    let mut met: Vec<usize> = fine.iter().flat_map(own).collect();
                    met.sort_unstable();
                    let first = column * run as usize;
                    assert_eq!(met, (first..first + run as usize).collect::<Vec<_>>());
                }
            }
        }
    }
}
