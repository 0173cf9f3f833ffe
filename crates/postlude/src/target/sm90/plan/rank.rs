//! Every candidate with its verdict, and the fitting ones in the order of their cost.
//!
//! In: a tile program at the sizes of a call. Out: for each tile of the table a schedule and its cost, or the reason why it is not taken.

use crate::lower::BoundProgram;
use crate::problem::Problem;
use crate::target::tile::{Cluster, Tile};

use super::chip::Sm90;
use super::fit::{fit, least_bytes};
use super::lists::Lists;
use super::mainloop::{Mainloop, refuse_widening};
use super::needed::needed;
use super::needs::Needs;
use super::raster::Raster;
use super::refusal::Sm90Refusal;
use super::schedule::Sm90Schedule;
use super::{cost, elements, limits, parameters, place, refuse, scaling};

/// A tile of the table, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Candidate {
    /// The tile.
    pub(crate) tile: Tile,
    /// How it would be run, or why it is not.
    pub(crate) verdict: Result<Ranked, Sm90Refusal>,
}

/// A schedule and its cost.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ranked {
    /// The schedule.
    pub(crate) schedule: Sm90Schedule,
    /// Cycles for the whole problem, as the model sees it.
    pub(crate) cycles: f64,
}

impl Ranked {
    /// A schedule with the raster and the slices that serve a problem best.
    fn of(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> Ranked {
        let raster = Raster::of(schedule.tile, &schedule.needs, problem);
        let mut schedule = Sm90Schedule { raster, ..schedule.clone() };
        let cycles = slice(&mut schedule, problem, chip, cost::cycles);
        Ranked { schedule, cycles }
    }
}

/// Numbers of rows that tiles are chosen for: this many from each power of two to the next.
const BETWEEN: usize = 8;
/// From the fewest rows of products, and from one where there is none.
const LEAST_ROWS: f64 = 64.0;
const MOST_ROWS: f64 = 16384.0;
/// Tiles that a product's other sizes take by themselves, so that all numbers of rows share as many modules.
const FEW: usize = 12;
/// As many more that short launches take, and with A and B swapped.
const FEW_SHORT: usize = 8;
const FEW_SWAPPED: usize = 8;

/// Numbers of slices of K that a tile is timed with.
const SLICES_TRIED: usize = 3;

/// What a program needs, or why no schedule runs it.
pub(super) fn accepted_needs(bound: &BoundProgram) -> Result<Needs, Sm90Refusal> {
    let (program, problem) = (bound.program(), bound.problem());
    place::refuse(problem)?;
    scaling::refuse(program.graph())?;
    refuse_widening(program.graph(), problem, bound.placements())?;
    Lists::refuse(program, bound.placements())?;
    let needs = needed(program, problem, bound.placements(), bound.windows());
    if needs.by_elements {
        let numbered = elements::are_numbered(program, problem);
        return if numbered { Ok(needs) } else { Err(Sm90Refusal::TooLarge) };
    }
    refuse::refuse(program, &needs)?;
    limits::refuse_code(program, &needs)?;
    Ok(needs)
}

/// Every candidate in the order of the table, or why the problem is refused whatever the tile.
pub(crate) fn candidates(bound: &BoundProgram, chip: Sm90) -> Result<Vec<Candidate>, Sm90Refusal> {
    let needs = accepted_needs(bound)?;
    parameters::refuse(bound.program(), &needs)?;
    if needs.by_elements {
        let ranked = Ranked { schedule: Sm90Schedule::of_elements(&needs), cycles: 0.0 };
        return Ok(vec![Candidate { tile: elements::ELEMENTS, verdict: Ok(ranked) }]);
    }
    judged(bound, &needs, chip)
}

fn judged(bound: &BoundProgram, needs: &Needs, chip: Sm90) -> Result<Vec<Candidate>, Sm90Refusal> {
    let problem = bound.problem();
    let mut fitting: Vec<Sm90Schedule> = needs
        .tiles()
        .filter(|tile| tile.is_automatic(needs))
        .filter_map(|tile| fit(*tile, needs, chip))
        .collect();
    let fit_somehow = !fitting.is_empty();
    fitting.retain(|schedule| schedule.counts(problem));
    if fit_somehow && fitting.is_empty() {
        return Err(Sm90Refusal::TooLarge);
    }
    fitting.retain(|schedule| schedule.has_whole_spans(problem));
    // Few rows have tiles of their own: all others lose more on them than a module costs. So have widened operands, and rows whose largest
    // elements are ranked: there are few tiles for them.
    let widened = needs.mainloop.as_ref().is_some_and(Mainloop::is_widened);
    let own = widened
        || needs.ranks_long_rows()
        || (needs.mainloop.is_some() && problem.rows <= cost::FEW_ROWS);
    let short = is_short(needs, problem);
    let (few, swapped) = if own {
        let tiles = fitting.iter().map(|schedule| schedule.tile);
        (tiles.filter(|tile| !tile.is_for_short()).collect(), Vec::new())
    } else {
        let least = if needs.mainloop.is_some() { LEAST_ROWS } else { 1.0 };
        let mut shared = Shared::new(problem, chip, least);
        let of_short = |schedule: &&Sm90Schedule| schedule.tile.is_for_short();
        let (more, usual): (Vec<&Sm90Schedule>, Vec<&Sm90Schedule>) =
            fitting.iter().partition(of_short);
        let few = [shared.take(&usual, FEW), shared.take(&more, FEW_SHORT)].concat();
        (few, if short { swapped(bound, shared) } else { Vec::new() })
    };
    let judge = |tile: &Tile| {
        let schedule = fitting.iter().find(|schedule| schedule.tile == *tile);
        let verdict = match schedule {
            Some(schedule) if few.contains(tile) && (short || !tile.is_for_short()) => {
                Ok(Ranked::of(schedule, problem, chip))
            }
            _ if !tile.takes(needs) => Err(Sm90Refusal::OperandTile),
            None if fit(*tile, needs, chip).is_some_and(|one| !one.has_whole_spans(problem)) => {
                Err(Sm90Refusal::OperandTile)
            }
            None if fit(*tile, needs, chip).is_some_and(|one| !one.counts(problem)) => {
                Err(Sm90Refusal::TooLarge)
            }
            None if tile.is_automatic(needs) => {
                let need = least_bytes(*tile, needs);
                Err(Sm90Refusal::SharedMemory { need, have: chip.shared_bytes })
            }
            Some(_) | None => Err(Sm90Refusal::OnRequest),
        };
        Candidate { tile: *tile, verdict }
    };
    Ok(needs.tiles().map(judge).chain(swapped).collect())
}

/// The tiles that a short launch takes by itself with A and B swapped.
fn swapped(bound: &BoundProgram, mut shared: Shared) -> Vec<Candidate> {
    let Some((bound, needs)) = swapped_needs(bound) else { return Vec::new() };
    let (problem, chip) = (bound.problem(), shared.chip);
    let tiles = needs.tiles().filter(|tile| tile.is_automatic(&needs));
    let fitting: Vec<Sm90Schedule> = tiles
        .filter_map(|tile| fit(*tile, &needs, chip))
        .filter(|schedule| schedule.counts(problem))
        .collect();
    let taken = shared.take(&fitting.iter().collect::<Vec<_>>(), FEW_SWAPPED);
    let taken = fitting.into_iter().filter(|schedule| taken.contains(&schedule.tile));
    let candidate = |schedule: Sm90Schedule| {
        let verdict = Ok(Ranked::of(&schedule, problem, chip));
        Candidate { tile: schedule.tile, verdict }
    };
    taken.map(candidate).collect()
}

/// A short launch with A and B swapped, and what it needs, where TMA moves all tiles of its epilogue: threads that did would
/// take one element at a time.
fn swapped_needs(bound: &BoundProgram) -> Option<(&BoundProgram, Needs)> {
    let swapped = bound.swapped()?;
    let needs = accepted_needs(swapped).ok()?;
    let loaded = needs.epilogue_loads.iter().all(|transfer| transfer.major().is_some());
    let suits = loaded && needs.is_light() && is_short(&needs, swapped.problem());
    suits.then_some((swapped, needs))
}

/// Whether a launch is short, so that it takes more tiles by itself.
fn is_short(needs: &Needs, problem: &Problem) -> bool {
    needs.mainloop.as_ref().is_some_and(|mainloop| cost::is_short(mainloop, problem))
}

/// What a model sees a schedule take for a problem.
type Model = fn(&Sm90Schedule, &Problem, Sm90) -> f64;

/// Gives a schedule the slices of K that serve a problem best, and says what it takes with them.
fn slice(schedule: &mut Sm90Schedule, problem: &Problem, chip: Sm90, cycles: Model) -> f64 {
    schedule.split_k_slices = 1;
    let mut best = (1, cycles(schedule, problem, chip));
    for slices in schedule.slices(problem, chip) {
        schedule.split_k_slices = slices;
        let cycles = cycles(schedule, problem, chip);
        if cycles < best.1 {
            best = (slices, cycles);
        }
    }
    schedule.split_k_slices = best.0;
    best.1
}

/// Tiles that together lose least to the best one, whatever the number of rows, so that all of those share a few modules.
struct Shared {
    chip: Sm90,
    /// Problems of usual numbers of rows. More rows weigh more, for they take longer.
    usual: Vec<(Problem, f64)>,
    /// What each of them takes with the best tile so far, as a logarithm.
    best: Vec<f64>,
}

impl Shared {
    fn new(problem: &Problem, chip: Sm90, least: f64) -> Shared {
        let steps = 0..=BETWEEN * (MOST_ROWS / least).log2() as usize;
        let rows = steps.map(|step| least * (step as f64 / BETWEEN as f64).exp2());
        // Most sizes are multiples of 8.
        let of = |rows: f64| {
            let multiple = if rows < 8.0 { 1.0 } else { 8.0 };
            let whole = ((rows / multiple).round() * multiple) as usize;
            let problem = Problem { rows: whole, ..problem.clone() };
            (problem, rows.sqrt().sqrt())
        };
        let usual: Vec<(Problem, f64)> = rows.map(of).collect();
        Shared { chip, best: vec![f64::INFINITY; usual.len()], usual }
    }

    /// What the usual problems take with a schedule.
    fn cycles(&self, schedule: &Sm90Schedule) -> Vec<f64> {
        let (mut sliced, swap_ab) = (schedule.clone(), schedule.needs.swap_ab);
        let for_short = swap_ab || schedule.tile.is_for_short();
        let best = |(problem, _): &(Problem, f64)| {
            if for_short && !is_short(&schedule.needs, problem) {
                return f64::INFINITY;
            }
            let problem = problem.with_swap(swap_ab);
            slice(&mut sliced, &problem, self.chip, cost::shared_cycles).ln()
        };
        self.usual.iter().map(best).collect()
    }

    /// Takes tiles, each next one the one that helps most.
    fn take(&mut self, schedules: &[&Sm90Schedule], count: usize) -> Vec<Tile> {
        let all: Vec<Vec<f64>> = schedules.iter().map(|schedule| self.cycles(schedule)).collect();
        let mut taken = Vec::new();
        for _ in 0..count {
            let with = |cycles: &[f64]| -> f64 {
                let best = cycles.iter().zip(&self.best).map(|(cost, best)| cost.min(*best));
                best.zip(&self.usual).map(|(cost, (_, weight))| cost * weight).sum()
            };
            let next = (0..all.len()).min_by(|a, b| with(&all[*a]).total_cmp(&with(&all[*b])));
            let Some(place) = next else { break };
            self.best.iter_mut().zip(&all[place]).for_each(|(best, cost)| *best = best.min(*cost));
            if !taken.contains(&schedules[place].tile) {
                taken.push(schedules[place].tile);
            }
        }
        taken
    }
}

/// Every schedule that fits, best first; at least one. Behind the tiles that planning takes by itself come smaller
/// ones, for programs whose values do not fit the registers beside more accumulators.
pub(crate) fn schedules(
    bound: &BoundProgram,
    chip: Sm90,
) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
    let needs = accepted_needs(bound)?;
    parameters::refuse(bound.program(), &needs)?;
    if needs.by_elements {
        return Ok(vec![Sm90Schedule::of_elements(&needs)]);
    }
    let problem = bound.problem();
    let candidates = judged(bound, &needs, chip)?;
    let mut ranked: Vec<Ranked> =
        candidates.into_iter().filter_map(|candidate| candidate.verdict.ok()).collect();
    // A stable sort: among equals the table's order decides.
    ranked.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    let mut schedules: Vec<Sm90Schedule> =
        ranked.into_iter().map(|ranked| ranked.schedule).collect();
    let smaller = needs.tiles().filter(|tile| {
        let alone = tile.cluster == Cluster::ONE && !tile.is_ping_pong();
        let few = tile.accumulators() <= 64 && !tile.is_by_elements();
        alone && few && tile.is_automatic(&needs)
    });
    for schedule in smaller.filter_map(|tile| fit(*tile, &needs, chip)) {
        let suits = schedule.counts(problem) && schedule.has_whole_spans(problem);
        if suits && !schedules.contains(&schedule) {
            schedules.push(schedule);
        }
    }
    if schedules.is_empty() { Err(Sm90Refusal::NoCandidate) } else { Ok(schedules) }
}

/// The schedules of all tiles that fit, whether planning takes them by itself or not, best first as the model sees them.
pub(crate) fn contenders(
    bound: &BoundProgram,
    chip: Sm90,
) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
    let needs = accepted_needs(bound)?;
    let swapped = swapped_needs(bound).into_iter();
    let swapped = swapped.flat_map(|(bound, needs)| every(bound.problem(), &needs, chip));
    let mut ranked: Vec<Ranked> = every(bound.problem(), &needs, chip);
    ranked.extend(swapped);
    ranked.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
    Ok(ranked.into_iter().map(|ranked| ranked.schedule).collect())
}

/// The schedules of all tiles that fit, whole and in slices.
fn every(problem: &Problem, needs: &Needs, chip: Sm90) -> Vec<Ranked> {
    let fitting = needs.tiles().filter_map(|tile| fit(*tile, needs, chip));
    fitting
        .filter(|schedule| schedule.counts(problem) && schedule.has_whole_spans(problem))
        .flat_map(|schedule| {
            let raster = Raster::of(schedule.tile, needs, problem);
            let schedule = Sm90Schedule { raster, ..schedule };
            let ranked = |schedule: Sm90Schedule| {
                let cycles = cost::cycles(&schedule, problem, chip);
                Ranked { schedule, cycles }
            };
            let cut: Vec<Sm90Schedule> = schedule.with_whole_waves(problem, chip).collect();
            let cut = cut.iter().chain([&schedule]);
            let cut = cut.flat_map(|schedule| {
                let with = |split_k_slices| Sm90Schedule { split_k_slices, ..schedule.clone() };
                schedule.slices(problem, chip).map(with).collect::<Vec<_>>()
            });
            let mut sliced: Vec<Ranked> = cut.map(ranked).collect();
            sliced.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
            sliced.truncate(SLICES_TRIED);
            sliced.into_iter().chain([ranked(schedule)]).collect::<Vec<_>>()
        })
        .collect()
}

/// The schedule of a tile, whether planning would take it by itself or not; `None` where it does not fit.
pub(crate) fn fitted(
    tile: Tile,
    bound: &BoundProgram,
    chip: Sm90,
) -> Result<Option<Sm90Schedule>, Sm90Refusal> {
    let fitted = fit(tile, &accepted_needs(bound)?, chip);
    Ok(fitted.filter(|schedule| schedule.has_whole_spans(bound.problem())))
}

/// The schedule of a tile and the launch parameters of another program's; `None` where it does not fit, or where the epilogue
/// is more than a few operations on each element.
pub(crate) fn like(
    other: &Sm90Schedule,
    bound: &BoundProgram,
    chip: Sm90,
) -> Result<Option<Sm90Schedule>, Sm90Refusal> {
    let needs = accepted_needs(bound)?;
    let is_light = !needs.is_heavy() && !needs.folds.any() && needs.rows.is_none();
    let fitted = fit(other.tile, &needs, chip).filter(|_| is_light && !other.needs.swap_ab);
    let Sm90Schedule { raster, split_k_slices, data_parallel_waves, .. } = *other;
    let with = |fitted| Sm90Schedule { raster, split_k_slices, data_parallel_waves, ..fitted };
    Ok(fitted.map(with))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::super::candidates::CANDIDATES;
    use super::*;
    use crate::define::defined;
    use crate::lower::lower;
    use crate::placement::Placements;

    fn bound(source: &str, rows: usize) -> BoundProgram {
        let graph = defined(source);
        let sizes = [("M", rows), ("N", 4096), ("K", 4096)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let program = Arc::new(lower(&graph).expect("it is one launch"));
        let placements = Placements::packed(&graph, &problem);
        BoundProgram::new(&program, &problem, &placements).expect("it is not refused")
    }

    #[test]
    fn the_best_candidate_comes_first() {
        let bound = bound("D = relu(A @ W.T + bias[N])", 4096);
        let all = schedules(&bound, Sm90::H200).expect("it is planned");
        let cost = |schedule| cost::cycles(schedule, bound.problem(), Sm90::H200);
        let costs: Vec<f64> = all.iter().map(cost).collect();
        assert!(costs.iter().all(|cost| *cost >= costs[0]), "{costs:?}");
        // A graph that spills in the best one finds one that leaves more registers.
        assert!(all.iter().any(|schedule| schedule.tile.accumulators() <= 32));
    }

    #[test]
    fn a_candidate_that_does_not_fit_says_how_much_is_missing() {
        let small = Sm90 { shared_bytes: 100_000, ..Sm90::H200 };
        let all = candidates(&bound("D = A @ W.T", 4096), small);
        let all = all.expect("the kernel itself is not refused");
        assert!(all.len() >= CANDIDATES.len());
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
        for step in [1, 7, 37, 128] {
            // Few rows have modules of their own: by the rows of A that are loaded, and one for the others.
            let (mut few, mut many) = (HashSet::new(), HashSet::new());
            for rows in (1..=200).map(|count| step * count) {
                let bound = bound("D = relu(A @ W.T + bias[N])", rows);
                let all = schedules(&bound, Sm90::H200).expect("it is planned");
                let modules = if rows <= cost::FEW_ROWS { &mut few } else { &mut many };
                modules.insert(all[0].code());
            }
            for modules in [few, many] {
                let tiles: Vec<Tile> = modules.iter().map(|schedule| schedule.tile).collect();
                // With slices of K and without.
                assert!(
                    modules.len() <= 2 * (FEW + FEW_SHORT + FEW_SWAPPED),
                    "step {step}: {tiles:?}"
                );
            }
        }
    }
}
