//! The text of a schedule: a knob a line.

use std::fmt;
use std::str::FromStr;

use super::{Accumulators, Schedule, Width};

/// Why a text is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScheduleTextError {
    /// A line that is no knob.
    #[error("`{0}` is not a line of a schedule")]
    Line(String),
    /// A knob that is not there.
    #[error("the schedule does not say `{0}`")]
    Missing(&'static str),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = match self.width {
            Width::Part => "part",
            Width::Row => "row",
        };
        let accumulators = match self.accumulators {
            Accumulators::Streamed => "streamed",
            Accumulators::Retained => "retained",
        };
        writeln!(f, "schedule cpu {{")?;
        writeln!(f, "    region {} x {}", self.rows, self.columns)?;
        writeln!(f, "    width {width}")?;
        writeln!(f, "    sweeps {}", self.sweeps)?;
        writeln!(f, "    accumulators {accumulators}")?;
        writeln!(f, "    threads {}", self.threads)?;
        writeln!(f, "}}")
    }
}

impl FromStr for Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleTextError> {
        let (mut region, mut width, mut sweeps, mut accumulators, mut threads) =
            (None, None, None, None, None);
        for line in text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && *line != "}" && *line != "schedule cpu {")
        {
            let bad = || ScheduleTextError::Line(line.to_owned());
            let (knob, value) = line.split_once(' ').ok_or_else(bad)?;
            let number =
                |text: &str| text.trim().parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(bad);
            match (knob, value) {
                ("region", value) => {
                    let (rows, columns) = value.split_once('x').ok_or_else(bad)?;
                    region = Some((number(rows)?, number(columns)?));
                }
                ("width", "part") => width = Some(Width::Part),
                ("width", "row") => width = Some(Width::Row),
                ("sweeps", value) => sweeps = Some(number(value)?),
                ("accumulators", "streamed") => accumulators = Some(Accumulators::Streamed),
                ("accumulators", "retained") => accumulators = Some(Accumulators::Retained),
                ("threads", value) => threads = Some(number(value)?),
                _ => return Err(bad()),
            }
        }
        let missing = ScheduleTextError::Missing;
        let (rows, columns) = region.ok_or(missing("region"))?;
        Ok(Schedule {
            rows,
            columns,
            width: width.ok_or(missing("width"))?,
            sweeps: sweeps.ok_or(missing("sweeps"))?,
            accumulators: accumulators.ok_or(missing("accumulators"))?,
            threads: threads.ok_or(missing("threads"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_schedule_reads_back() {
        let schedule = Schedule {
            rows: 64,
            columns: 512,
            width: Width::Row,
            sweeps: 2,
            accumulators: Accumulators::Retained,
            threads: 3,
        };
        assert_eq!(schedule.to_string().parse(), Ok(schedule));
    }

    #[test]
    fn a_foreign_line_is_named() {
        assert_eq!(
            "region 0 x 4".parse::<Schedule>(),
            Err(ScheduleTextError::Line("region 0 x 4".to_owned()))
        );
    }
}
