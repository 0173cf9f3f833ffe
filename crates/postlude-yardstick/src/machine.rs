//! Where and when a run was.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use postlude::runtime::Device;
use serde::Serialize;

/// A GPU and what drives it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// What the GPU is called.
    pub gpu: String,
    /// Its target.
    pub target: String,
    /// Its SMs.
    pub processors: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// Its level-two cache, in bytes.
    pub l2_bytes: u32,
    /// The driver's release.
    pub driver: Option<String>,
    /// The version of CUDA that the driver speaks.
    pub cuda: String,
    /// Clocks, power and temperature before the run, where `nvidia-smi` tells them.
    pub before: Option<State>,
    /// The same right after it.
    pub after: Option<State>,
}

/// What `nvidia-smi` tells, in its own units and words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct State {
    /// The SMs' clock.
    pub clock: String,
    /// The highest that it may be.
    pub highest_clock: String,
    /// The memory's clock.
    pub memory_clock: String,
    /// What the card draws.
    pub power: String,
    /// What it may draw.
    pub power_limit: String,
    /// How hot it is.
    pub temperature: String,
}

impl Machine {
    /// A GPU's facts.
    pub fn of(device: &Device) -> Machine {
        Machine {
            gpu: device.name().to_owned(),
            target: device.target().to_string(),
            processors: device.processors(),
            memory_bytes: device.memory(),
            l2_bytes: device.l2_bytes(),
            driver: device.driver_release().map(str::to_owned),
            cuda: device.cuda_version().to_string(),
            before: State::now(device.ordinal()),
            after: None,
        }
    }
}

impl State {
    /// How the GPU is now; `None` where nobody tells.
    pub fn now(ordinal: u32) -> Option<State> {
        let fields = "clocks.sm,clocks.max.sm,clocks.mem,power.draw,power.limit,temperature.gpu";
        let output = Command::new("nvidia-smi")
            .args(["--format=csv,noheader", &format!("--query-gpu={fields}")])
            .arg(format!("--id={ordinal}"))
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        State::read(&String::from_utf8_lossy(&output.stdout))
    }

    fn read(text: &str) -> Option<State> {
        let mut words = text.lines().next()?.split(',').map(|word| word.trim().to_owned());
        Some(State {
            clock: words.next()?,
            highest_clock: words.next()?,
            memory_clock: words.next()?,
            power: words.next()?,
            power_limit: words.next()?,
            temperature: words.next()?,
        })
    }
}

/// Today in UTC, as in `2026-03-01`.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let (year, month, day) = civil((seconds / 86_400) as i64);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The date of a number of days since 1970-01-01, in the proleptic Gregorian calendar.
///
/// Years begin in March here, so that the leap day is the last of its year; eras have 400 years.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_512), (2026, 2, 28));
    }

    #[test]
    fn what_the_tool_prints_is_read() {
        let state = State::read("1980 MHz, 1980 MHz, 3201 MHz, 612.20 W, 700.00 W, 61\n").unwrap();
        assert_eq!((state.clock.as_str(), state.temperature.as_str()), ("1980 MHz", "61"));
        assert_eq!(State::read("no device"), None);
    }
}
