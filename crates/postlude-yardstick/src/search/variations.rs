//! The schedules that are worth timing: every tile of the planner's table, varied.
//!
//! A knob that schedules have got is one more line in [`variations`].

use postlude::plan::sm90::{CANDIDATES, Hints, Needs, RasterOrder, Sm90, Sm90Schedule, fit};

/// Clusters of a group of the raster.
const GROUPS: &[u32] = &[4, 8, 16, 32];

/// A schedule in every variation, itself first: every raster, and what changes code with the usual raster.
pub fn variations(schedule: &Sm90Schedule) -> Vec<Sm90Schedule> {
    let rasters = vary(vec![schedule.clone()], GROUPS, |each, group| each.raster.group = group);
    let rasters = vary(rasters, &RasterOrder::ALL, |each, order| each.raster.order = order);
    let hinted = vary(vec![schedule.clone()], &Hints::ALL, |each, hints| each.hints = hints);
    let coded =
        vary(hinted, &[0, 1], |each, wgmma_in_flight| each.wgmma_in_flight = wgmma_in_flight);
    let mut all = rasters;
    let new: Vec<Sm90Schedule> = coded.into_iter().filter(|each| !all.contains(each)).collect();
    all.extend(new);
    all
}

/// Every schedule with every value of a knob.
fn vary<T: Copy>(
    all: Vec<Sm90Schedule>,
    values: &[T],
    set: impl Fn(&mut Sm90Schedule, T),
) -> Vec<Sm90Schedule> {
    let mut varied = Vec::with_capacity(all.len() * (values.len() + 1));
    for schedule in all {
        let with = |value: &T| {
            let mut other = schedule.clone();
            set(&mut other, *value);
            other
        };
        let others: Vec<Sm90Schedule> = values.iter().map(with).collect();
        let others = others.into_iter().filter(|other| *other != schedule);
        varied.extend(std::iter::once(schedule.clone()).chain(others));
    }
    varied
}

/// Every tile of the table that fits, whether or not the planner takes it by itself, in every variation.
pub fn every_schedule(needs: &Needs, chip: Sm90) -> Vec<Sm90Schedule> {
    every_tile(needs, chip).iter().flat_map(variations).collect()
}

/// Every tile of the table that fits, whether or not the planner takes it by itself.
pub fn every_tile(needs: &Needs, chip: Sm90) -> Vec<Sm90Schedule> {
    CANDIDATES.iter().filter_map(|tile| fit(*tile, needs, chip)).collect()
}

/// The knobs of a schedule, in the words of its text, without what the problem decides.
pub fn knobs(schedule: &Sm90Schedule) -> Vec<String> {
    let text = schedule.to_string();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let first = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    lines
        .filter(|line| {
            !["", "schedule", "}", "operands", "epilogue_loads", "epilogue_stores", "column_values"]
                .contains(&first(line).as_str())
        })
        .map(str::to_owned)
        .collect()
}

/// The knobs that not all of some schedules have alike, schedule by schedule; and those that they have.
pub fn telling(all: &[&[String]]) -> (Vec<Vec<String>>, Vec<String>) {
    let shared = |knob: &String| all.iter().all(|knobs| knobs.contains(knob));
    let apart = |knobs: &&[String]| knobs.iter().filter(|knob| !shared(knob)).cloned().collect();
    let alike = all.first().into_iter().flat_map(|knobs| knobs.iter());
    (all.iter().map(apart).collect(), alike.filter(|knob| shared(knob)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn variations_begin_with_the_schedule_itself_and_are_all_different() {
        let all = every_schedule(&Needs::plain(), Sm90::H200);
        assert!(all.len() >= CANDIDATES.len() * GROUPS.len(), "{}", all.len());
        let different: HashSet<&Sm90Schedule> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        let schedule = &all[0];
        assert_eq!(variations(schedule)[0], *schedule);
        let groups: HashSet<u32> =
            variations(schedule).iter().map(|schedule| schedule.raster.group).collect();
        assert!(GROUPS.iter().all(|group| groups.contains(group)));
    }

    #[test]
    fn knobs_are_those_of_the_text_and_tell_variations_apart() {
        let all = every_schedule(&Needs::plain(), Sm90::H200);
        let knobs: Vec<Vec<String>> = all.iter().map(knobs).collect();
        assert!(knobs[0].iter().any(|knob| knob == "tile 128 x 256 x 64"), "{:?}", knobs[0]);
        assert!(knobs[0].iter().all(|knob| !knob.starts_with("epilogue_stores")), "{:?}", knobs[0]);
        let different: HashSet<&Vec<String>> = knobs.iter().collect();
        assert_eq!(different.len(), all.len());
        let few: Vec<&[String]> = knobs[..2].iter().map(Vec::as_slice).collect();
        let (apart, alike) = telling(&few);
        assert_eq!(apart[0].len(), 1, "{apart:?}");
        assert_eq!(alike.len() + 1, knobs[0].len());
    }
}
