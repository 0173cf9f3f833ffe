//! The schedules that are worth timing: every tile of the planner's table, varied.
//!
//! A knob that schedules have got is one more line in [`variations`].

use postlude::target::{Planning, Schedule, TargetRefusal};

/// Clusters of a group of the raster.
const GROUPS: [u32; 4] = [4, 8, 16, 32];
/// The dims that groups of the raster advance along.
const ORDERS: [&str; 2] = ["along_n", "along_m"];
/// What L2 is told to keep.
const HINTS: [&str; 3] = ["none", "outputs", "operands"];

/// A schedule in every variation, itself first: every raster, and what changes code with the usual raster.
pub fn variations(schedule: &Schedule) -> Vec<Schedule> {
    let grouped = vary(vec![schedule.clone()], "raster", |each| {
        let (order, _) = raster(each);
        GROUPS.map(|group| format!("{order} group {group}"))
    });
    let rasters = vary(grouped, "raster", |each| {
        let (_, group) = raster(each);
        ORDERS.map(|order| format!("{order} group {group}"))
    });
    let hinted = vary(vec![schedule.clone()], "hints", |_| HINTS);
    let coded = vary(hinted, "wgmma_in_flight", |_| [0, 1]);
    let mut all = rasters;
    let new: Vec<Schedule> = coded.into_iter().filter(|each| !all.contains(each)).collect();
    all.extend(new);
    all
}

/// Every schedule with every value of a knob; a target that does not have the knob is not varied.
fn vary<T: std::fmt::Display, const COUNT: usize>(
    all: Vec<Schedule>,
    knob: &str,
    values: impl Fn(&Schedule) -> [T; COUNT],
) -> Vec<Schedule> {
    let mut varied = Vec::with_capacity(all.len() * (COUNT + 1));
    for schedule in all {
        let others = values(&schedule).into_iter();
        let others: Vec<Schedule> =
            others.filter_map(|value| schedule.with(knob, value).ok()).collect();
        let others = others.into_iter().filter(|other| *other != schedule);
        varied.extend(std::iter::once(schedule.clone()).chain(others));
    }
    varied
}

/// The dim that groups of the raster advance along, and the clusters of a group.
fn raster(schedule: &Schedule) -> (String, String) {
    let raster = schedule.knob("raster").unwrap_or_default();
    let (order, group) = raster.split_once(" group ").unwrap_or_default();
    (order.to_owned(), group.to_owned())
}

/// Every tile of the table that fits, whether or not the planner takes it by itself, in every variation.
pub fn every_schedule(planning: &Planning<'_>) -> Result<Vec<Schedule>, TargetRefusal> {
    Ok(every_tile(planning)?.iter().flat_map(variations).collect())
}

/// Every tile of the table that fits, whether or not the planner takes it by itself.
pub fn every_tile(planning: &Planning<'_>) -> Result<Vec<Schedule>, TargetRefusal> {
    planning.every()
}

/// The knobs of a schedule, in the words of its text, without what the problem decides.
pub fn knobs(schedule: &Schedule) -> Vec<String> {
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

    use postlude::MathMode;
    use postlude::placement::Placements;
    use postlude::target::Chip;

    use super::*;
    use crate::layout::Layout;
    use crate::suite::{Row, SEED, Suite};

    /// Every schedule of a plain product.
    fn all() -> Vec<Schedule> {
        let row = Row::plain("", [4096; 3], Layout::Tn);
        planned(&row, |planning| every_schedule(planning).unwrap())
    }

    /// What is made of the planner's answers for a row.
    fn planned<T>(row: &Row, of: impl Fn(&Planning<'_>) -> T) -> T {
        let compiled = row.kernel().unwrap().compile(&row.options());
        let problem = compiled.problem(&row.named_sizes()).unwrap();
        let placements = Placements::packed(compiled.optimised(), &problem);
        of(&compiled.planning(&problem, &placements, Chip::STANDARD).unwrap())
    }

    #[test]
    fn variations_begin_with_the_schedule_itself_and_are_all_different() {
        let all = all();
        assert!(all.len() >= Chip::STANDARD.tiles().len() * GROUPS.len(), "{}", all.len());
        let different: HashSet<&Schedule> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        let schedule = &all[0];
        let variations = variations(schedule);
        assert_eq!(variations[0], *schedule);
        let met = |knob: &str| -> HashSet<String> {
            variations.iter().filter_map(|schedule| schedule.knob(knob)).collect()
        };
        let rasters = met("raster");
        for group in GROUPS {
            assert!(ORDERS.iter().all(|order| rasters.contains(&format!("{order} group {group}"))));
        }
        assert_eq!(met("hints"), HINTS.map(str::to_owned).into());
        assert_eq!(met("wgmma_in_flight"), ["0", "1"].map(str::to_owned).into());
    }

    /// A row of each kind of operands and sums.
    #[test]
    fn every_operand_type_has_tiles_and_schedules_to_try() {
        let suites = [Suite::Fp8, Suite::I8, Suite::Tf32].into_iter();
        let rows = suites.flat_map(|suite| suite.rows(SEED));
        for row in
            rows.filter(|row| ["F1", "F1-fast", "F5", "I1", "E11", "T1"].contains(&&*row.name))
        {
            planned(&row, |planning| {
                let best = planning.best().unwrap().schedule();
                let promoted = row.dtype.is_fp8() && row.math == MathMode::Default;
                assert_eq!(best.to_string().contains("promoted"), promoted, "{}", row.name);
                let tiles = every_tile(planning).unwrap();
                assert!(
                    tiles.len() > 1
                        && tiles.iter().any(|tile| tile.knob("tile") == best.knob("tile"))
                );
                assert!(tiles.iter().all(|tile| planning.accept(tile).is_ok()), "{}", row.name);
                let all = every_schedule(planning).unwrap();
                let runs = all.iter().filter(|schedule| planning.accept(schedule).is_ok()).count();
                assert!(runs > 4 * tiles.len(), "{}: {runs} of {}", row.name, all.len());
            });
        }
    }

    #[test]
    fn knobs_are_those_of_the_text_and_tell_variations_apart() {
        let all = all();
        let knobs: Vec<Vec<String>> = all.iter().map(knobs).collect();
        assert!(knobs[0].iter().any(|knob| knob.starts_with("tile 128 x ")), "{:?}", knobs[0]);
        assert!(knobs[0].iter().all(|knob| !knob.starts_with("epilogue_stores")), "{:?}", knobs[0]);
        let different: HashSet<&Vec<String>> = knobs.iter().collect();
        assert_eq!(different.len(), all.len());
        let few: Vec<&[String]> = knobs[..2].iter().map(Vec::as_slice).collect();
        let (apart, alike) = telling(&few);
        assert_eq!(apart[0].len(), 1, "{apart:?}");
        assert_eq!(alike.len() + 1, knobs[0].len());
    }
}
