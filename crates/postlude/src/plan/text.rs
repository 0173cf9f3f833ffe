//! The text of a schedule: a knob a line.

use std::fmt;
use std::str::FromStr;

use crate::lower::Width;

use super::schedule::{Accumulators, Schedule};

/// Why a text is not a schedule.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is; `line` counts from 1.
pub enum ScheduleTextError {
    #[error("a schedule has no knob `{knob}`")]
    Unknown { knob: String, line: usize },
    #[error("`{value}` is not a value of the knob `{knob}`")]
    Value { knob: String, value: String, line: usize },
    #[error("the knob `{knob}` stands twice")]
    Twice { knob: String, line: usize },
    #[error("expected `{wanted}`")]
    Bracket { wanted: &'static str, line: usize },
    #[error("the schedule does not say `{0}`")]
    Missing(&'static str),
}

impl ScheduleTextError {
    /// The line that is wrong, counted from 1.
    pub fn line(&self) -> Option<usize> {
        match self {
            ScheduleTextError::Unknown { line, .. }
            | ScheduleTextError::Value { line, .. }
            | ScheduleTextError::Twice { line, .. }
            | ScheduleTextError::Bracket { line, .. } => Some(*line),
            ScheduleTextError::Missing(_) => None,
        }
    }
}

/// A knob as it stands in a text: its line, its name and its value.
pub(crate) type Knob<'t> = (usize, &'t str, &'t str);

/// The knobs between the first line of a schedule and its `}`, each of them once; comments are left out.
pub(crate) fn knobs<'t>(
    text: &'t str,
    opening: &'static str,
) -> Result<Vec<Knob<'t>>, ScheduleTextError> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(place, line)| (place + 1, line.split('#').next().unwrap_or("").trim()));
    let mut lines: Vec<(usize, &str)> = lines.filter(|(_, line)| !line.is_empty()).collect();
    let bracket = |wanted, line| Err(ScheduleTextError::Bracket { wanted, line });
    match lines.first() {
        Some((_, first)) if *first == opening => lines.remove(0),
        first => return bracket(opening, first.map_or(1, |(line, _)| *line)),
    };
    match lines.last() {
        Some((_, "}")) => lines.pop(),
        Some(_) | None => return bracket("}", text.lines().count().max(1)),
    };
    let mut knobs: Vec<Knob<'_>> = Vec::new();
    for (line, text) in lines {
        let (knob, value) = text.split_once(' ').unwrap_or((text, ""));
        if knobs.iter().any(|(_, known, _)| *known == knob) {
            return Err(ScheduleTextError::Twice { knob: knob.to_owned(), line });
        }
        knobs.push((line, knob, value.trim()));
    }
    Ok(knobs)
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
        for (line, knob, value) in knobs(text, "schedule cpu {")? {
            let bad = || ScheduleTextError::Value {
                knob: knob.to_owned(),
                value: value.to_owned(),
                line,
            };
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
                ("width" | "accumulators", _) => return Err(bad()),
                (_, _) => return Err(ScheduleTextError::Unknown { knob: knob.to_owned(), line }),
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
    fn a_bad_line_is_named_with_its_number() {
        let read = |body: &str| {
            let text = format!("schedule cpu {{\n    sweeps 1\n    {body}\n}}\n");
            let error = text.parse::<Schedule>().unwrap_err();
            (error.line(), error.to_string())
        };
        let third = |message: &str| (Some(3), message.to_owned());
        assert_eq!(read("region 0 x 4"), third("`0 x 4` is not a value of the knob `region`"));
        assert_eq!(read("width all"), third("`all` is not a value of the knob `width`"));
        assert_eq!(read("regoin 4 x 4"), third("a schedule has no knob `regoin`"));
        assert_eq!(read("sweeps 2"), third("the knob `sweeps` stands twice"));
        assert_eq!(read("} threads 2"), third("a schedule has no knob `}`"));
    }

    #[test]
    fn brackets_are_required() {
        let read = |text: &str| text.parse::<Schedule>().unwrap_err().to_string();
        assert_eq!(read("sweeps 1\n}"), "expected `schedule cpu {`");
        assert_eq!(read(""), "expected `schedule cpu {`");
        assert_eq!(read("schedule cpu {\nsweeps 1\n"), "expected `}`");
    }
}
