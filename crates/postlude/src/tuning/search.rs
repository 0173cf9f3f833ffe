//! A search among candidates by timing them: heats of interleaved rounds that half of them survive, then the last few alone.
//!
//! In: what runs a round, the first candidate being the planner's choice. Out: what each candidate took, and which one is
//! taken. The planner's choice runs in every heat, and candidates are compared by their ratios to it within rounds.
//! Invariant: a candidate is taken over the planner's choice only where it was faster by [`MARGIN`] over [`FEWEST`] rounds.

use std::time::Duration;

/// Rounds of a heat, whatever the budget, and at most.
const FEWEST: usize = 5;
const MOST: usize = 100;
/// Candidates of the last heat beside the planner's choice.
const FINALISTS: usize = 2;
/// The part of the time that goes to heats.
const IN_HEATS: f64 = 0.7;
/// Blocks in which a finalist runs alone, and how long one is.
const BLOCKS: u32 = 3;
const LEAST_BLOCK: Duration = Duration::from_millis(5);
const MOST_BLOCK: Duration = Duration::from_millis(300);
/// How much faster than the planner's choice a candidate has to be, as a ratio of times.
const MARGIN: f64 = 0.99;

/// What runs candidates and knows the time.
pub(crate) trait Contest {
    /// Why a candidate did not run.
    type Error;

    /// The time since the budget began.
    fn elapsed(&self) -> Duration;

    /// Whether the search is to end now.
    fn is_stopped(&self) -> bool;

    /// Seconds of a launch of each of these, which run in turn.
    fn round(&mut self, candidates: &[usize]) -> Result<Vec<f64>, Self::Error>;

    /// Seconds of a launch of a candidate that runs behind itself for about this long.
    fn alone(&mut self, candidate: usize, time: Duration) -> Result<f64, Self::Error>;

    /// Hears how many candidates are left.
    fn left(&mut self, candidates: usize);
}

/// What a search found.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Found {
    /// Every candidate, in the order in which they were given.
    pub(crate) standings: Vec<Standing>,
    /// The one that is taken; none where the search was stopped before it knew.
    pub(crate) chosen: Option<usize>,
}

/// What a candidate took.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Standing {
    /// Seconds of a launch in the rounds of its last heat, in the middle; none where it had no heat.
    pub(crate) interleaved: Option<f64>,
    /// The same as a ratio to the planner's choice, in the middle of the rounds.
    ratio: f64,
    /// Seconds of a launch behind itself, in the middle of its blocks.
    pub(crate) alone: Option<f64>,
    /// Rounds that it ran in.
    pub(crate) rounds: usize,
}

/// Times candidates until the budget is used up or the contest is stopped.
pub(crate) fn search<C: Contest>(
    count: usize,
    budget: Duration,
    contest: &mut C,
) -> Result<Found, C::Error> {
    let mut standings = vec![Standing::default(); count];
    let start = contest.elapsed();
    let time = budget.saturating_sub(start);
    let heats = heat_sizes(count);
    let each = time.mul_f64(IN_HEATS) / heats.len().max(1) as u32;
    let mut left: Vec<usize> = (0..count).collect();
    let mut last = Vec::new();
    for (heat, size) in (1..).zip(heats) {
        left.truncate(size);
        contest.left(left.len());
        let complete = run_heat(&left, start + each * heat, contest, &mut standings)?;
        if !complete {
            break;
        }
        last.clone_from(&left);
        // The planner's choice stays first.
        left[1..].sort_by(|a, b| standings[*a].ratio.total_cmp(&standings[*b].ratio));
    }
    last[..].sort_by(|a, b| standings[*a].ratio.total_cmp(&standings[*b].ratio));
    let finalists: Vec<usize> = last.iter().copied().take(FINALISTS + 1).collect();
    if last.len() <= FINALISTS + 1 {
        run_alone(&finalists, budget, contest, &mut standings)?;
    }
    let chosen = choose(&finalists, &standings);
    Ok(Found { standings, chosen })
}

/// How many candidates each heat has.
fn heat_sizes(count: usize) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut left = count;
    while left > FINALISTS + 1 {
        sizes.push(left);
        // Half of the others, beside the planner's choice.
        left = (left - 1).div_ceil(2).max(FINALISTS) + 1;
    }
    sizes.extend((left > 0).then_some(left));
    sizes
}

/// Rounds until a time; says whether they were enough.
fn run_heat<C: Contest>(
    candidates: &[usize],
    until: Duration,
    contest: &mut C,
    standings: &mut [Standing],
) -> Result<bool, C::Error> {
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    while (rounds.len() < FEWEST || contest.elapsed() < until) && rounds.len() < MOST {
        if contest.is_stopped() {
            break;
        }
        rounds.push(contest.round(candidates)?);
    }
    if rounds.is_empty() {
        return Ok(false);
    }
    for (place, candidate) in candidates.iter().enumerate() {
        let seconds: Vec<f64> = rounds.iter().map(|round| round[place]).collect();
        let ratios: Vec<f64> = rounds.iter().map(|round| round[place] / round[0]).collect();
        let standing = &mut standings[*candidate];
        standing.interleaved = Some(median(seconds));
        standing.ratio = median(ratios);
        standing.rounds += rounds.len();
    }
    Ok(rounds.len() >= FEWEST)
}

/// Blocks in which each of these runs alone, back and forth so that a GPU that warms up favours none.
fn run_alone<C: Contest>(
    candidates: &[usize],
    budget: Duration,
    contest: &mut C,
    standings: &mut [Standing],
) -> Result<(), C::Error> {
    let blocks = BLOCKS * candidates.len() as u32;
    let time = budget.saturating_sub(contest.elapsed()) / blocks.max(1);
    if candidates.len() < 2 || time < LEAST_BLOCK {
        return Ok(());
    }
    let mut seconds = vec![Vec::new(); candidates.len()];
    for block in 0..BLOCKS {
        for turn in 0..candidates.len() {
            let place = if block % 2 == 0 { turn } else { candidates.len() - 1 - turn };
            if contest.is_stopped() {
                return Ok(());
            }
            seconds[place].push(contest.alone(candidates[place], time.min(MOST_BLOCK))?);
        }
    }
    for (candidate, seconds) in candidates.iter().zip(seconds) {
        standings[*candidate].alone = Some(median(seconds));
    }
    Ok(())
}

/// The fastest of the last heat; the planner's choice unless another one is clearly faster.
fn choose(finalists: &[usize], standings: &[Standing]) -> Option<usize> {
    let planned = standings.first()?;
    let ratio = |candidate: usize| {
        let standing = &standings[candidate];
        match (standing.alone, planned.alone) {
            // Both ways of running count alike.
            (Some(alone), Some(of_planned)) => (standing.ratio * alone / of_planned).sqrt(),
            (Some(_) | None, _) => standing.ratio,
        }
    };
    let best = finalists.iter().copied().min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)))?;
    Some(if ratio(best) < MARGIN { best } else { 0 })
}

/// The middle of some times.
fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    if seconds.len() % 2 == 1 {
        seconds[middle]
    } else {
        f64::midpoint(seconds[middle - 1], seconds[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates with known times, on a clock that rounds advance.
    struct Fake {
        seconds: Vec<f64>,
        alone: Vec<f64>,
        /// What a round costs for each candidate, in seconds.
        cost: f64,
        clock: f64,
        stop_at: f64,
        rounds: Vec<usize>,
        left: Vec<usize>,
    }

    impl Fake {
        fn new(seconds: &[f64]) -> Fake {
            let (cost, clock, stop_at) = (1e-3, 0.0, f64::INFINITY);
            let (rounds, left) = (vec![0; seconds.len()], Vec::new());
            Fake {
                seconds: seconds.into(),
                alone: seconds.into(),
                cost,
                clock,
                stop_at,
                rounds,
                left,
            }
        }

        fn search(&mut self, budget: f64) -> Found {
            let count = self.seconds.len();
            match search(count, Duration::from_secs_f64(budget), self) {
                Ok(found) => found,
                Err(never) => match never {},
            }
        }
    }

    impl Contest for Fake {
        type Error = std::convert::Infallible;

        fn elapsed(&self) -> Duration {
            Duration::from_secs_f64(self.clock)
        }

        fn is_stopped(&self) -> bool {
            self.clock >= self.stop_at
        }

        fn round(&mut self, candidates: &[usize]) -> Result<Vec<f64>, Self::Error> {
            self.clock += self.cost * candidates.len() as f64;
            for candidate in candidates {
                self.rounds[*candidate] += 1;
            }
            // The clock of the GPU falls with time, for all alike.
            let slower = 1.0 + 0.1 * self.clock;
            Ok(candidates.iter().map(|candidate| self.seconds[*candidate] * slower).collect())
        }

        fn alone(&mut self, candidate: usize, time: Duration) -> Result<f64, Self::Error> {
            self.clock += time.as_secs_f64();
            Ok(self.alone[candidate])
        }

        fn left(&mut self, candidates: usize) {
            self.left.push(candidates);
        }
    }

    #[test]
    fn the_fastest_is_found_and_the_slow_ones_leave_early() {
        let mut seconds: Vec<f64> = (0..12).map(|place| 10e-6 + f64::from(place) * 1e-6).collect();
        seconds[7] = 8e-6;
        let mut fake = Fake::new(&seconds);
        let found = fake.search(2.0);
        assert_eq!(found.chosen, Some(7));
        assert_eq!(fake.left, [12, 7, 4, 3]);
        assert!(fake.rounds[11] < fake.rounds[7], "{:?}", fake.rounds);
        assert!(found.standings.iter().all(|standing| standing.interleaved.is_some()));
        assert!(found.standings[7].alone.is_some() && found.standings[0].alone.is_some());
        assert_eq!(found.standings[11].alone, None);
        assert!(fake.clock <= 2.1, "{}", fake.clock);
    }

    #[test]
    fn the_planners_choice_stays_unless_another_is_clearly_faster() {
        let mut fake = Fake::new(&[10e-6, 9.95e-6, 12e-6]);
        assert_eq!(fake.search(1.0).chosen, Some(0));
        assert_eq!(Fake::new(&[10e-6, 9.7e-6, 12e-6]).search(1.0).chosen, Some(1));
        // Faster in turn with others and slower behind itself.
        fake = Fake::new(&[10e-6, 9.8e-6, 12e-6]);
        fake.alone = vec![10e-6, 10.4e-6, 12e-6];
        assert_eq!(fake.search(1.0).chosen, Some(0));
        assert_eq!(Fake::new(&[10e-6]).search(1.0).chosen, Some(0));
    }

    #[test]
    fn no_budget_is_too_small_for_a_few_rounds() {
        let mut fake = Fake::new(&[10e-6, 8e-6, 9e-6, 11e-6, 12e-6]);
        let found = fake.search(0.0);
        assert_eq!(found.chosen, Some(1));
        assert_eq!(fake.rounds, [10, 10, 10, 5, 5]);
        assert_eq!(found.standings[1].alone, None);
    }

    #[test]
    fn a_search_that_is_stopped_keeps_what_it_knows() {
        let seconds = [10e-6, 8e-6, 9e-6, 11e-6, 12e-6];
        let mut fake = Fake { stop_at: 0.0, ..Fake::new(&seconds) };
        let found = fake.search(2.0);
        assert_eq!(found.chosen, None);
        assert!(found.standings.iter().all(|standing| standing.rounds == 0));
        // In the second heat.
        let mut fake = Fake { stop_at: 0.8, ..Fake::new(&seconds) };
        let found = fake.search(2.0);
        assert_eq!(found.chosen, Some(1));
        assert!(found.standings.iter().all(|standing| standing.rounds >= FEWEST));
        assert!(fake.clock < 0.81, "{}", fake.clock);
        // Before the first heat had enough rounds.
        let mut fake = Fake { stop_at: 0.011, ..Fake::new(&seconds) };
        assert_eq!(fake.search(2.0).chosen, None);
    }
}
