//! What is to be measured, as JSON says it.

use std::path::PathBuf;
use std::time::Duration;

use postlude_yardstick::measure::{Against, FirstUseWanted, ROUNDS, Wanted};
use postlude_yardstick::regime::Regime;
use postlude_yardstick::suite::{Row, SEED, Suite};
use serde::Deserialize;

/// What is to be measured; what is not said is as the command has it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Request {
    /// Names of suites.
    suites: Vec<String>,
    /// Only rows whose names contain this.
    filter: String,
    /// At most this many rounds a row.
    rounds: usize,
    /// No row is begun after this many seconds.
    seconds: Option<u64>,
    /// Whether cuBLASLt takes part.
    cublaslt: bool,
    /// Where the report goes after every row.
    pub(crate) json: Option<PathBuf>,
    /// What peers run in.
    pub(crate) runtime: String,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            suites: vec![Suite::Epilogues.name().to_owned()],
            filter: String::new(),
            rounds: ROUNDS,
            seconds: None,
            cublaslt: true,
            json: None,
            runtime: "unknown".to_owned(),
        }
    }
}

impl Request {
    /// Reads one.
    pub(crate) fn read(text: &str) -> Result<Request, String> {
        serde_json::from_str(text).map_err(|error| format!("the request does not read: {error}"))
    }

    /// The rows it asks for; at least one.
    pub(crate) fn rows(&self) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for name in &self.suites {
            let suite = Suite::from_name(name).ok_or_else(|| {
                let names = Suite::ALL.map(Suite::name).join(", ");
                format!("there is no suite `{name}`; the suites are {names}")
            })?;
            rows.extend(suite.rows(SEED));
        }
        rows.retain(|row| row.name.contains(&self.filter));
        if rows.is_empty() {
            return Err(format!("no row has `{}` in its name", self.filter));
        }
        Ok(rows)
    }

    /// The same for the yardstick.
    pub(crate) fn wanted(&self) -> Result<Wanted<'static>, String> {
        Ok(Wanted {
            rows: self.rows()?,
            seed: SEED,
            first_use: FirstUseWanted::No,
            rounds: self.rounds.max(1),
            limit: self.seconds.map(Duration::from_secs),
            regime: Regime::default(),
            against: if self.cublaslt { Against::CublasLt } else { Against::Limits },
            search: None,
            commit: env!("POSTLUDE_COMMIT"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_as_the_command_has_it() {
        let request = Request::read("{}").unwrap();
        assert_eq!(request, Request::default());
        let wanted = request.wanted().unwrap();
        assert_eq!((wanted.rows.len(), wanted.rounds), (16, ROUNDS));
        assert_eq!(wanted.against, Against::CublasLt);
    }

    #[test]
    fn a_word_that_nobody_knows_is_a_mistake() {
        assert!(Request::read(r#"{"sweets": 1}"#).unwrap_err().contains("sweets"));
    }
}
