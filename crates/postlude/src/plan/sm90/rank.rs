//! Every candidate with its verdict, and the fitting ones in the order of their cost.
//!
//! In: a graph and a problem. Out: for each tile of the table a schedule and its cost, or the reason why it is not taken.

use super::{
    CANDIDATES, Cluster, Needs, Placements, Raster, Sm90, Sm90Refusal, Sm90Schedule, Tile, Viewed,
    cost, fit, folds, groups, least_bytes, limits, place, refuse, row_pass,
};
use crate::graph::Graph;
use crate::problem::Problem;

/// A tile of the table, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The tile.
    pub tile: Tile,
    /// How it would be run, or why it is not.
    pub verdict: Result<Ranked, Sm90Refusal>,
}

/// A schedule and its cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked {
    /// The schedule.
    pub schedule: Sm90Schedule,
    /// Cycles for the whole problem, as the model sees it.
    pub cycles: f64,
}

/// Numbers of rows that tiles are chosen for: this many from each power of two to the next.
const BETWEEN: usize = 8;
const LEAST_ROWS: f64 = 64.0;
const POWERS: usize = 8;
/// Tiles that a product's other sizes take by themselves, so that all numbers of rows share as many modules.
const FEW: usize = 4;

/// Every candidate in the order of the table, or why the problem is refused whatever the tile.
pub fn candidates(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    chip: Sm90,
) -> Result<Vec<Candidate>, Sm90Refusal> {
    let viewed = Viewed::of(graph)?;
    let (graph, problem) = (&*viewed.graph, &viewed.problem(problem));
    let placements = &viewed.placements(problem, placements);
    viewed.refuse(problem)?;
    refuse::refuse(graph)?;
    place::refuse(problem)?;
    let needs = Needs::of_viewed(graph, problem, placements);
    folds::refuse_nothing(graph, problem)?;
    row_pass::refuse(graph, &needs)?;
    groups::refuse_width(graph, &needs)?;
    refuse::refuse_products(&needs)?;
    limits::refuse_parameters(graph, &needs)?;
    limits::refuse_code(graph, &needs)?;
    let mut fitting: Vec<Sm90Schedule> = CANDIDATES
        .iter()
        .filter(|tile| tile.is_automatic(&needs))
        .filter_map(|tile| fit(*tile, &needs, chip))
        .collect();
    let fit_somehow = !fitting.is_empty();
    fitting.retain(|schedule| schedule.counts(problem));
    if fit_somehow && fitting.is_empty() {
        return Err(Sm90Refusal::TooLarge);
    }
    let few = few(&fitting, problem, chip);
    let judge = |tile: &Tile| {
        let schedule = fitting.iter().find(|schedule| schedule.tile == *tile);
        let verdict = match schedule {
            Some(schedule) if few.contains(tile) => {
                let cycles = cost::cycles(schedule, problem, chip);
                let raster = Raster::of(*tile, problem);
                Ok(Ranked { schedule: Sm90Schedule { raster, ..schedule.clone() }, cycles })
            }
            _ if !tile.takes(&needs) => Err(Sm90Refusal::OperandTile),
            None if fit(*tile, &needs, chip).is_some_and(|one| !one.counts(problem)) => {
                Err(Sm90Refusal::TooLarge)
            }
            None if tile.is_automatic(&needs) => {
                let need = least_bytes(*tile, &needs);
                Err(Sm90Refusal::SharedMemory { need, have: chip.shared_bytes })
            }
            Some(_) | None => Err(Sm90Refusal::OnRequest),
        };
        Candidate { tile: *tile, verdict }
    };
    Ok(CANDIDATES.iter().map(judge).collect())
}

/// A few tiles that together lose least to the best one, whatever the number of rows: each next one is the one that helps
/// most.
fn few(schedules: &[Sm90Schedule], problem: &Problem, chip: Sm90) -> Vec<Tile> {
    let steps = 0..=BETWEEN * POWERS;
    let rows = steps.map(|step| LEAST_ROWS * (step as f64 / BETWEEN as f64).exp2());
    // Most sizes are multiples of 8.
    let usual: Vec<Problem> = rows
        .map(|rows| Problem { rows: (rows / 8.0).round() as usize * 8, ..problem.clone() })
        .collect();
    let cycles = |schedule: &Sm90Schedule| -> Vec<f64> {
        usual.iter().map(|problem| cost::cycles(schedule, problem, chip).ln()).collect()
    };
    let all: Vec<Vec<f64>> = schedules.iter().map(cycles).collect();
    let mut taken = vec![f64::INFINITY; usual.len()];
    let mut few = Vec::new();
    for _ in 0..FEW {
        let with = |costs: &[f64]| -> f64 {
            costs.iter().zip(&taken).map(|(cost, taken)| cost.min(*taken)).sum()
        };
        let next = all.iter().enumerate().min_by(|a, b| with(a.1).total_cmp(&with(b.1)));
        let Some((place, costs)) = next else { break };
        taken.iter_mut().zip(costs).for_each(|(taken, cost)| *taken = taken.min(*cost));
        if !few.contains(&schedules[place].tile) {
            few.push(schedules[place].tile);
        }
    }
    few
}

/// Every schedule that fits, best first; at least one. Behind the tiles that planning takes by itself come smaller
/// ones, for graphs whose values do not fit the registers beside more accumulators.
pub fn plan_all(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    chip: Sm90,
) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
    let candidates = candidates(graph, problem, placements, chip)?;
    let mut ranked: Vec<Ranked> =
        candidates.into_iter().filter_map(|candidate| candidate.verdict.ok()).collect();
    // A stable sort: among equals the table's order decides.
    ranked.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    let mut schedules: Vec<Sm90Schedule> =
        ranked.into_iter().map(|ranked| ranked.schedule).collect();
    let needs = Needs::of(graph, problem, placements)?;
    let smaller = CANDIDATES.iter().filter(|tile| {
        let alone = tile.cluster == Cluster::ONE && !tile.is_ping_pong();
        alone && tile.accumulators() <= 64 && tile.is_automatic(&needs)
    });
    let viewed = Viewed::of(graph)?;
    let problem = &viewed.problem(problem);
    for schedule in smaller.filter_map(|tile| fit(*tile, &needs, chip)) {
        if schedule.counts(problem) && !schedules.contains(&schedule) {
            schedules.push(schedule);
        }
    }
    if schedules.is_empty() { Err(Sm90Refusal::NoCandidate) } else { Ok(schedules) }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::define::defined;
    use crate::plan::sm90::plan;

    fn problem(graph: &Graph, rows: usize) -> Problem {
        let sizes = [("M", rows), ("N", 4096), ("K", 4096)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        Problem::new(graph, &sizes).expect("sizes of every dim")
    }

    #[test]
    fn the_best_candidate_comes_first() {
        let graph = defined("D = relu(A @ W.T + bias[N])");
        let problem = problem(&graph, 4096);
        let placements = Placements::packed(&graph, &problem);
        let all = plan_all(&graph, &problem, &placements, Sm90::H200);
        let best = plan(&graph, &problem, &placements, Sm90::H200);
        let all = all.expect("it is planned");
        assert_eq!(best.as_ref(), Ok(&all[0]));
        let costs: Vec<f64> =
            all.iter().map(|schedule| cost::cycles(schedule, &problem, Sm90::H200)).collect();
        assert!(costs.iter().all(|cost| *cost >= costs[0]), "{costs:?}");
        // A graph that spills in the best one finds one that leaves more registers.
        assert!(all.iter().any(|schedule| schedule.tile.accumulators() <= 32));
    }

    #[test]
    fn a_candidate_that_does_not_fit_says_how_much_is_missing() {
        let graph = defined("D = A @ W.T");
        let problem = problem(&graph, 4096);
        let placements = Placements::packed(&graph, &problem);
        let small = Sm90 { shared_bytes: 100_000, ..Sm90::H200 };
        let all = candidates(&graph, &problem, &placements, small);
        let all = all.expect("the kernel itself is not refused");
        assert_eq!(all.len(), CANDIDATES.len());
        let mut missing = 0;
        for candidate in all {
            match candidate.verdict {
                Ok(ranked) => assert!(ranked.schedule.shared_bytes() <= small.shared_bytes),
                Err(Sm90Refusal::SharedMemory { need, have }) => {
                    assert!(need > have);
                    missing += 1;
                }
                Err(Sm90Refusal::OnRequest | Sm90Refusal::OperandTile) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert!(missing > 0, "no tile is too large for so small a chip");
    }

    /// Code depends on the schedule without its limit: a module for each that differs.
    #[test]
    fn two_hundred_different_sizes_compile_few_modules() {
        let graph = defined("D = relu(A @ W.T + bias[N])");
        for step in [1, 7, 37, 128] {
            let mut modules = HashSet::new();
            for count in 1..=200 {
                let problem = problem(&graph, step * count);
                let placements = Placements::packed(&graph, &problem);
                let schedule = plan(&graph, &problem, &placements, Sm90::H200);
                let schedule = schedule.expect("it is planned");
                modules.insert(schedule.code());
            }
            let tiles: Vec<Tile> = modules.iter().map(|schedule| schedule.tile).collect();
            assert!(modules.len() <= 4, "step {step}: {tiles:?}");
        }
    }
}
