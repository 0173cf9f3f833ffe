//! One measurement as a line of text.
//!
//! Invariant: what is written reads back; a line that is not of this format reads as nothing, and one that is damaged says
//! so.

use serde_json::{Value, json};

use super::key::{LaunchKey, Machine};

/// The format of lines; readers pass over others.
const FORMAT: u64 = 1;

/// What a schedule of a launch was measured to take.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// The launch.
    pub launch: LaunchKey,
    /// The GPU.
    pub machine: Machine,
    /// Its driver.
    pub driver: String,
    /// The version of Postlude that measured.
    pub postlude: String,
    /// What was measured together, in the same rounds.
    pub session: String,
    /// The schedule, as it prints.
    pub schedule: String,
    /// Microseconds of a launch in turn with the other candidates.
    pub interleaved_us: f64,
    /// Microseconds of a launch behind itself, for schedules that were left at the end.
    pub alone_us: Option<f64>,
    /// Rounds that were measured.
    pub rounds: usize,
    /// Whether the planner would take it by itself.
    pub planned: bool,
    /// Whether later runs take it.
    pub chosen: bool,
    /// The kernel that was tuned as text, for people.
    pub note: Option<String>,
}

/// What a line is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Line {
    Record(Box<Record>),
    /// Empty, a comment, or of another format.
    Other,
    Damaged,
}

impl Record {
    /// Its line, with the end of line.
    pub(super) fn line(&self) -> String {
        let LaunchKey { graph, dims, sizes, placements } = &self.launch;
        let Machine { name, capability: (major, minor), processors } = &self.machine;
        let object = json!({
            "format": FORMAT,
            "postlude": self.postlude,
            "session": self.session,
            "graph": graph,
            "dims": dims,
            "sizes": sizes,
            "placements": placements,
            "device": name,
            "capability": [major, minor],
            "sms": processors,
            "driver": self.driver,
            "schedule": self.schedule,
            "interleaved_us": self.interleaved_us,
            "alone_us": self.alone_us,
            "rounds": self.rounds,
            "planned": self.planned,
            "chosen": self.chosen,
            "note": self.note,
        });
        format!("{object}\n")
    }

    /// What a line holds.
    pub(super) fn read(line: &str) -> Line {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Line::Other;
        }
        let Ok(object) = serde_json::from_str::<Value>(line) else { return Line::Damaged };
        match object["format"].as_u64() {
            Some(FORMAT) => {
                Record::of(&object).map_or(Line::Damaged, |record| Line::Record(Box::new(record)))
            }
            Some(_) => Line::Other,
            None => Line::Damaged,
        }
    }

    fn of(object: &Value) -> Option<Record> {
        let text = |name: &str| object[name].as_str().map(str::to_owned);
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        let small = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let time = |value: &Value| value.as_f64().filter(|time| time.is_finite() && *time > 0.0);
        let texts = object["dims"].as_array()?.iter().map(|dim| dim.as_str().map(str::to_owned));
        let launch = LaunchKey {
            graph: text("graph")?,
            dims: texts.collect::<Option<_>>()?,
            sizes: object["sizes"].as_array()?.iter().map(number).collect::<Option<_>>()?,
            placements: text("placements")?,
        };
        let capability = &object["capability"];
        let machine = Machine {
            name: text("device")?,
            capability: (small(&capability[0])?, small(&capability[1])?),
            processors: small(&object["sms"])?,
        };
        let alone = &object["alone_us"];
        Some(Record {
            launch,
            machine,
            driver: text("driver")?,
            postlude: text("postlude")?,
            session: text("session")?,
            schedule: text("schedule")?,
            interleaved_us: time(&object["interleaved_us"])?,
            alone_us: if alone.is_null() { None } else { Some(time(alone)?) },
            rounds: number(&object["rounds"])?,
            planned: object["planned"].as_bool()?,
            chosen: object["chosen"].as_bool()?,
            note: text("note"),
        })
    }

    /// An example.
    #[cfg(test)]
    pub(super) fn example() -> Record {
        let dims = ["M", "K"].map(str::to_owned).into();
        Record {
            launch: LaunchKey {
                graph: "0123456789abcdef".to_owned(),
                dims,
                sizes: vec![64, 128],
                placements: "packed".to_owned(),
            },
            machine: Machine { name: "A \"GPU\"".to_owned(), capability: (9, 0), processors: 132 },
            driver: "580.65.06".to_owned(),
            postlude: "0.1.0".to_owned(),
            session: "1-2-3".to_owned(),
            schedule: "schedule {\n    tile 64 x 32\n}\n".to_owned(),
            interleaved_us: 12.25,
            alone_us: Some(11.5),
            rounds: 40,
            planned: false,
            chosen: true,
            note: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_that_reads_back() {
        let example = Record::example();
        for record in [
            example.clone(),
            Record { alone_us: None, note: Some("D = A @ B\n".to_owned()), ..example },
        ] {
            let line = record.line();
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(Record::read(&line), Line::Record(Box::new(record)));
        }
    }

    #[test]
    fn damaged_lines_and_other_formats_are_told_apart() {
        let line = Record::example().line();
        for other in ["", "  ", "# a comment", &line.replace("\"format\":1", "\"format\":2")] {
            assert_eq!(Record::read(other), Line::Other, "{other}");
        }
        for end in 1..line.len() - 1 {
            assert_eq!(Record::read(&line[..end]), Line::Damaged, "{}", &line[..end]);
        }
        for (from, to) in [
            ("12.25", "-1.0"),
            ("12.25", "\"fast\""),
            ("[9,0]", "9"),
            ("\"sms\":132", "\"sms\":-1"),
            ("\"chosen\":true", "\"chosen\":1"),
        ] {
            assert!(line.contains(from), "{from} in {line}");
            assert_eq!(Record::read(&line.replace(from, to)), Line::Damaged, "{to}");
        }
        assert_eq!(Record::read("{\"format\":1}"), Line::Damaged);
        assert_eq!(Record::read("[]"), Line::Damaged);
    }
}
