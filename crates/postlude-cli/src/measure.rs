//! Times calls.

use std::time::{Duration, Instant};

/// How long to repeat, and how often at least and at most.
const ENOUGH: Duration = Duration::from_secs(1);
const FEWEST: usize = 3;
const MOST: usize = 10_000;

/// The median wall time of one call in seconds, after warming up, repeated for about a second.
pub(crate) fn median_seconds<E>(mut call: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    median_of(|| {
        let before = Instant::now();
        call()?;
        Ok(before.elapsed().as_secs_f64())
    })
}

/// The median of what a measurement says, after warming up, repeated for about a second.
pub(crate) fn median_of<E>(mut measure: impl FnMut() -> Result<f64, E>) -> Result<f64, E> {
    measure()?;
    let mut seconds = Vec::new();
    let start = Instant::now();
    while seconds.len() < FEWEST || (start.elapsed() < ENOUGH && seconds.len() < MOST) {
        seconds.push(measure()?);
    }
    Ok(median(&mut seconds))
}

/// The middle of some times; the mean of the two middle ones when their count is even.
pub(crate) fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    match seconds.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => seconds[middle],
        _ => f64::midpoint(seconds[middle - 1], seconds[middle]),
    }
}

/// Sets of this many bytes that exceed twice a cache even without the one in use.
pub(crate) fn sets_beyond(cache_bytes: u64, set_bytes: u64) -> usize {
    const MOST_SETS: u64 = 64;
    (2 * cache_bytes / set_bytes.max(1) + 2).min(MOST_SETS) as usize
}

/// A time for people.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{seconds:.3} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
