//! Rounds among many: everyone in a few, the best in more.
//!
//! Invariant: the planner's choice and cuBLASLt run in every heat, so that ratios of different heats can be compared.

use std::time::Duration;

use crate::bench::Bench;
use crate::data::Data;
use crate::error::YardstickError;
use crate::measure::Theirs;
use crate::regime::Regime;
use crate::report::Tried;
use crate::rounds::{Competitor, Plan, Samples, launches_of_a_sample};
use crate::search::{Entrant, knobs};
use crate::statistics::Spread;
use crate::suite::Row;

/// More at once would fill the driver's queue.
const MOST_AT_ONCE: usize = 80;
/// Schedules that run again in more rounds.
const BEST: usize = 12;
/// The same where each runs alone for seconds.
const BEST_ALONE: usize = 5;
/// Operations a second that are expected where cuBLASLt does not tell.
const USUAL_RATE: f64 = 6e14;

const FEW: Plan = Plan {
    warm_up: Duration::from_millis(300),
    rounds: 8,
    fewest: 3,
    budget: Duration::from_millis(1500),
};
const MORE: Plan = Plan {
    warm_up: Duration::from_millis(100),
    rounds: 30,
    fewest: 5,
    budget: Duration::from_secs(1),
};

/// Times all of them; the first is the planner's choice. Best first, and the bar in tera-operations a second.
pub(super) fn run(
    bench: &Bench<'_>,
    row: &Row,
    data: &Data,
    entrants: &[Entrant],
    theirs: Option<&Theirs<'_>>,
) -> Result<(Vec<Tried>, Option<f64>), YardstickError> {
    let Some((planned, others)) = entrants.split_first() else { return Ok((Vec::new(), None)) };
    let heat = Heat { bench, row, data, planned, theirs };
    let mut tried: Vec<(usize, Tried)> = Vec::new();
    let places: Vec<usize> = (1..entrants.len()).collect();
    // The planner's choice alone is a heat too.
    let chunks: Vec<&[usize]> =
        if places.is_empty() { vec![&[]] } else { places.chunks(MOST_AT_ONCE).collect() };
    let mut bar = None;
    for chunk in chunks {
        let rivals: Vec<&Entrant> = chunk.iter().map(|place| &others[place - 1]).collect();
        let (of_planned, of_rivals, found) = heat.run(&rivals, &FEW, Regime::Interleaved)?;
        tried.retain(|(place, _)| *place != 0);
        tried.push((0, of_planned));
        tried.extend(chunk.iter().copied().zip(of_rivals));
        bar = found;
    }
    sort(&mut tried);
    let most = if bench.regime == Regime::Alone { BEST_ALONE } else { BEST };
    let best: Vec<usize> =
        tried.iter().map(|(place, _)| *place).filter(|place| *place != 0).take(most).collect();
    let rivals: Vec<&Entrant> = best.iter().map(|place| &others[place - 1]).collect();
    let plan = Plan { rounds: MORE.rounds.min(bench.rounds), ..MORE };
    let plan = Plan { fewest: plan.fewest.min(plan.rounds), ..plan };
    let (of_planned, of_rivals, found) = heat.run(&rivals, &plan, bench.regime)?;
    tried.retain(|(place, _)| *place != 0 && !best.contains(place));
    tried.push((0, of_planned));
    tried.extend(best.into_iter().zip(of_rivals));
    sort(&mut tried);
    Ok((tried.into_iter().map(|(_, tried)| tried).collect(), found.or(bar)))
}

/// Best first.
fn sort(tried: &mut [(usize, Tried)]) {
    let ratio = |tried: &Tried| tried.of_bar.unwrap_or(tried.of_planned).median;
    tried.sort_by(|(_, a), (_, b)| ratio(b).total_cmp(&ratio(a)));
}

/// Those who run in every heat.
struct Heat<'a> {
    bench: &'a Bench<'a>,
    row: &'a Row,
    data: &'a Data,
    planned: &'a Entrant,
    theirs: Option<&'a Theirs<'a>>,
}

impl Heat<'_> {
    /// What came of the planner's choice, of the others, and of cuBLASLt's fastest algorithm.
    fn run(
        &self,
        rivals: &[&Entrant],
        plan: &Plan,
        regime: Regime,
    ) -> Result<(Tried, Vec<Tried>, Option<f64>), YardstickError> {
        let algorithms = self.theirs.map_or(&[][..], |theirs| &theirs.finalists);
        let ours: Vec<&Entrant> =
            [self.planned].into_iter().chain(rivals.iter().copied()).collect();
        let operations = self.row.operations();
        let seconds = self.theirs.map_or(operations / USUAL_RATE, |theirs| theirs.seconds);
        let launches = launches_of_a_sample(seconds, ours.len() + algorithms.len());
        let ours_run = ours.iter().map(|entrant| {
            let launch = &entrant.ours;
            Competitor {
                name: String::new(),
                operations,
                launches,
                launch: Box::new(move |set, stream| launch.launch(set, stream)),
            }
        });
        let theirs_run = self.theirs.into_iter().flat_map(|theirs| {
            theirs.finalists.iter().map(move |&algorithm| Competitor {
                name: String::new(),
                operations,
                launches,
                launch: Box::new(move |set, stream| {
                    theirs.launch(algorithm, self.data, set, stream)
                }),
            })
        });
        let competitors: Vec<Competitor<'_>> = ours_run.chain(theirs_run).collect();
        let bench = Bench { regime, ..*self.bench };
        let samples = bench.time(self.data, &competitors, plan, 13)?;
        drop(competitors);
        if samples.seconds[0].is_empty() {
            return Err(YardstickError::NoRound { dropped: samples.dropped });
        }
        let bar = samples.fastest(ours.len()..ours.len() + algorithms.len());
        let mut tried = ours
            .iter()
            .enumerate()
            .map(|(place, entrant)| sum_up(entrant, place, bar, &samples))
            .collect::<Result<Vec<Tried>, YardstickError>>()?;
        let planned = tried.remove(0);
        Ok((planned, tried, bar.map(|bar| samples.rate(bar) / 1e12)))
    }
}

/// What came of the one at a place, the planner's choice being at the first.
fn sum_up(
    entrant: &Entrant,
    place: usize,
    bar: Option<usize>,
    samples: &Samples,
) -> Result<Tried, YardstickError> {
    let call = entrant.ours.call();
    Ok(Tried {
        knobs: knobs(&entrant.entry.schedule),
        schedule: entrant.entry.schedule.to_string(),
        file: entrant.entry.file.clone(),
        planned: place == 0,
        rounds: samples.seconds[place].len(),
        seconds: Spread::of(&samples.seconds[place]),
        tflops: samples.rate(place) / 1e12,
        of_bar: bar.map(|bar| samples.speed_ratio(place, bar)),
        of_planned: samples.speed_ratio(place, 0),
        registers: call.function().registers()?,
        local_bytes: call.function().local_bytes()?,
        serialised: call.function().log().serialises_products(),
    })
}
