//! Knobs of a schedule by their names, for tests and for searches that vary them.

use std::fmt::Display;

use crate::plan::ScheduleTextError;

use super::Schedule;

impl Schedule {
    /// The value of a knob, if the schedule prints it.
    pub fn knob(&self, name: &str) -> Option<String> {
        let text = self.to_string();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
        let mut values = lines.filter_map(|line| {
            let (knob, value) = line.split_once(' ').unwrap_or((line, ""));
            (knob == name).then(|| value.trim().to_owned())
        });
        values.next()
    }

    /// A knob that is one number; 0 where the schedule does not print it.
    pub fn number(&self, name: &str) -> u32 {
        self.knob(name).and_then(|value| value.parse().ok()).unwrap_or(0)
    }

    /// The same schedule with another value of a knob.
    pub fn with(&self, name: &str, value: impl Display) -> Result<Schedule, ScheduleTextError> {
        let line = format!("    {name} {value}");
        let text = self.to_string();
        let mut lines: Vec<&str> = text.lines().collect();
        let is_knob = |text: &&str| text.split_whitespace().next() == Some(name);
        match lines.iter().position(is_knob) {
            Some(place) => lines[place] = &line,
            None => lines.insert(1, &line),
        }
        lines.join("\n").parse()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Chip, Planning};
    use crate::define::defined;
    use crate::lower::lower;
    use crate::placement::Placements;
    use crate::problem::Problem;

    #[test]
    fn a_knob_is_read_and_set_by_its_name() {
        let graph = defined("D = relu(A @ W.T)");
        let sizes = [("M", 512), ("N", 512), ("K", 512)];
        let sizes = sizes.map(|(dim, size)| (dim.to_owned(), size)).into();
        let problem = Problem::new(&graph, &sizes).expect("sizes of every dim");
        let placements = Placements::packed(&graph, &problem);
        let program = Arc::new(lower(&graph).expect("it is one launch"));
        let (problem, placements, chip) = (&problem, &placements, Chip::STANDARD);
        let planning = Planning { program: &program, problem, placements, chip };
        let schedule = planning.best().expect("it is planned").schedule();
        let other = schedule.with("stages", 2).and_then(|other| other.with("grid_limit", 7));
        let other = other.expect("both are knobs");
        assert_eq!((other.number("stages"), other.number("grid_limit")), (2, 7));
        assert_eq!(
            other.with("stages", schedule.number("stages")).map(|it| it.code()),
            Ok(schedule.code())
        );
        assert!(schedule.with("stagse", 2).is_err() && schedule.knob("stagse").is_none());
    }
}
