//! From a request to a report, beside peers of another language.

use std::fs;
use std::path::Path;

use postlude::runtime::Stream;
use postlude_yardstick::YardstickError;
use postlude_yardstick::measure::{self, Watch};
use postlude_yardstick::peers::{Asked, Peer, Peers};
use postlude_yardstick::report::Report;
use serde::Deserialize;

use crate::request::Request;
use crate::text;

/// Functions of another language, with text as we have it.
pub(crate) trait Foreign {
    /// Prepares the peers of a row.
    fn prepare(&self, asked: &str) -> String;
    /// Queues a peer on a set.
    fn launch(&self, peer: u32, set: u32, stream: usize) -> Result<(), String>;
    /// Forgets the row.
    fn release(&self);
    /// Takes a line for whoever waits.
    fn tell(&self, line: &str);
}

/// What preparing peers came to.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Peers(Vec<Peer>),
    Error(String),
}

/// Peers behind foreign functions.
struct Brought<'a> {
    foreign: &'a dyn Foreign,
    runtime: String,
}

impl Peers for Brought<'_> {
    fn runtime(&self) -> String {
        self.runtime.clone()
    }

    fn prepare(&self, asked: &Asked) -> Result<Vec<Peer>, YardstickError> {
        let asked = serde_json::to_string(asked).map_err(|error| error.to_string());
        let answer = asked.and_then(|asked| {
            let answer = self.foreign.prepare(&asked);
            serde_json::from_str(&answer).map_err(|error| format!("{error} in `{answer}`"))
        });
        match answer {
            Ok(Answer::Peers(peers)) => Ok(peers),
            Ok(Answer::Error(message)) | Err(message) => Err(YardstickError::NoPeers { message }),
        }
    }

    fn launch(&self, peer: usize, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        self.foreign
            .launch(peer as u32, set as u32, stream.as_raw())
            .map_err(|message| YardstickError::Peer { number: peer, message })
    }

    fn release(&self) {
        self.foreign.release();
    }
}

/// The rows of a request as JSON.
pub(crate) fn rows(request: &str) -> Result<String, String> {
    let asked = Request::read(request)?
        .rows()?
        .iter()
        .map(Asked::of)
        .collect::<Result<Vec<Asked>, YardstickError>>()
        .map_err(|error| error.to_string())?;
    serde_json::to_string(&asked).map_err(|error| error.to_string())
}

/// Measures; says whether every row is right.
pub(crate) fn measure(request: &str, foreign: &dyn Foreign) -> Result<bool, String> {
    let request = Request::read(request)?;
    let wanted = request.wanted()?;
    let peers = Brought { foreign, runtime: request.runtime.clone() };
    let mut watcher = Watcher { foreign, file: request.json.as_deref() };
    let report =
        measure::measure_beside(&wanted, Some(&peers), &mut watcher).map_err(
            |error| match error.fix() {
                Some(fix) => format!("{error}; {fix}"),
                None => error.to_string(),
            },
        )?;
    watcher.write(&report);
    foreign.tell(&text::table(&report));
    Ok(report.summary.is_fine())
}

/// Tells of rows as they are done, and writes what there is so far.
struct Watcher<'a> {
    foreign: &'a dyn Foreign,
    file: Option<&'a Path>,
}

impl Watcher<'_> {
    /// The file is whole or as it was. Measuring goes on whatever becomes of it.
    fn write(&self, report: &Report) {
        let Some(file) = self.file else { return };
        let beside = file.with_extension("json.tmp");
        let line = serde_json::to_string(report).expect("compiler bug: a report without text");
        let written = fs::write(&beside, line + "\n").and_then(|()| fs::rename(&beside, file));
        if let Err(error) = written {
            self.foreign.tell(&format!("{}: {error}", file.display()));
        }
    }
}

impl Watch for Watcher<'_> {
    fn doing(&mut self, what: &str) {
        self.foreign.tell(&format!("... {what}"));
    }

    fn done(&mut self, report: &Report) {
        self.write(report);
        if let Some(row) = report.rows.last() {
            self.foreign.tell(&text::line(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every row with the same text.
    struct Fake(&'static str);

    impl Foreign for Fake {
        fn prepare(&self, asked: &str) -> String {
            assert!(asked.contains("\"row\""), "{asked}");
            self.0.to_owned()
        }

        fn launch(&self, _: u32, _: u32, _: usize) -> Result<(), String> {
            Ok(())
        }

        fn release(&self) {}

        fn tell(&self, _: &str) {}
    }

    fn prepared(answer: &'static str) -> Result<Vec<Peer>, String> {
        let foreign = Fake(answer);
        let peers = Brought { foreign: &foreign, runtime: String::new() };
        let rows = Request::default().rows().unwrap();
        peers.prepare(&Asked::of(&rows[0]).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_answer_is_peers_or_an_error() {
        let answer = r#"{"peers": [{"name": "eager", "absent": null, "errors": {"D": 0.001}},
            {"name": "torch.compile", "absent": "out of memory"}]}"#;
        let peers = prepared(answer).unwrap();
        assert_eq!((peers[0].name.as_str(), peers[0].errors["D"]), ("eager", 0.001));
        assert_eq!(peers[1].absent.as_deref(), Some("out of memory"));
        assert!(prepared(r#"{"error": "no GPU"}"#).unwrap_err().contains("no GPU"));
        assert!(prepared("not JSON").unwrap_err().contains("not JSON"));
    }
}
