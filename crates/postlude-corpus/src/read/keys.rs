//! The keys of a case, one line each.

use std::collections::BTreeMap;

use postlude::{DType, MathMode};

use super::{Draft, ReadProblem};
use crate::case::Expectation;

impl Draft {
    /// Takes a line `- key: value`.
    pub(super) fn take_key(&mut self, key: &str, value: &str) -> Result<(), ReadProblem> {
        let repeats = matches!(key, "data" | "expect");
        if !repeats && self.keys.iter().any(|seen| seen == key) {
            return Err(ReadProblem::Twice(key.to_owned()));
        }
        self.keys.push(key.to_owned());
        let case = &mut self.case;
        match key {
            "sizes" => case.sizes = assignments(value, size)?,
            "fill" => case.fills = assignments(value, |kind| Ok(kind.parse()?))?,
            "set" => case.set = assignments(value, number)?,
            "strides" => case.layouts = assignments(value, |kind| Ok(kind.parse()?))?,
            "data" => {
                let (name, values) = list(value)?;
                if case.data.insert(name.clone(), values).is_some() {
                    return Err(ReadProblem::Twice(name));
                }
            }
            "dtype" => {
                case.dtype =
                    DType::from_name(value).ok_or_else(|| ReadProblem::DType(value.to_owned()))?;
            }
            "seed" => {
                let seed = value.parse().map_err(|_| ReadProblem::Number(value.to_owned()))?;
                case.seed = Some(seed);
            }
            "math" => {
                let modes = [MathMode::Default, MathMode::Accurate, MathMode::Fast];
                let found = modes.into_iter().find(|mode| mode.name() == value);
                case.math = found.ok_or_else(|| ReadProblem::Math(value.to_owned()))?;
            }
            "workspace" => {
                let bytes = value.parse().map_err(|_| ReadProblem::Number(value.to_owned()))?;
                case.workspace = Some(bytes);
            }
            "kernel" => self.take_library(value)?,
            "expect" => case.expectations.push(expectation(value)?),
            _ => return Err(ReadProblem::UnknownKey(key.to_owned())),
        }
        Ok(())
    }
}

/// `NAME=VALUE, ...`.
fn assignments<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, ReadProblem>,
) -> Result<BTreeMap<String, T>, ReadProblem> {
    let mut found = BTreeMap::new();
    for part in text.split(',') {
        let no_assignment = || ReadProblem::NoAssignment(part.trim().to_owned());
        let (name, value) = part.split_once('=').ok_or_else(no_assignment)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(no_assignment());
        }
        if found.insert(name.to_owned(), parse(value.trim())?).is_some() {
            return Err(ReadProblem::Twice(name.to_owned()));
        }
    }
    Ok(found)
}

/// `NAME = [VALUE, ...]`.
fn list(text: &str) -> Result<(String, Vec<f64>), ReadProblem> {
    let parts = text.split_once('=').and_then(|(name, values)| {
        let values = values.trim().strip_prefix('[')?.strip_suffix(']')?;
        Some((name.trim(), values.trim()))
    });
    let no_list = || ReadProblem::NoList(text.to_owned());
    let (name, values) = parts.filter(|(name, _)| !name.is_empty()).ok_or_else(no_list)?;
    let values = match values {
        "" => Vec::new(),
        values => values.split(',').map(|value| number(value.trim())).collect::<Result<_, _>>()?,
    };
    Ok((name.to_owned(), values))
}

fn number(text: &str) -> Result<f64, ReadProblem> {
    text.parse().map_err(|_| ReadProblem::Number(text.to_owned()))
}

fn size(text: &str) -> Result<usize, ReadProblem> {
    text.parse().map_err(|_| ReadProblem::Size(text.to_owned()))
}

fn expectation(text: &str) -> Result<Expectation, ReadProblem> {
    if text == "within bound" {
        return Ok(Expectation::WithinBound);
    }
    if text == "exact" {
        return Ok(Expectation::Exact);
    }
    if let Some(rest) = text.strip_prefix("values ") {
        let (output, values) = list(rest)?;
        return Ok(Expectation::Values { output, values });
    }
    if let Some(rest) = text.strip_prefix("error ") {
        return error(rest).ok_or_else(|| ReadProblem::ErrorShape(text.to_owned()));
    }
    Err(ReadProblem::Expectation(text.to_owned()))
}

/// `"text" at "place" fix "more"`.
fn error(text: &str) -> Option<Expectation> {
    let (message, mut rest) = quoted(text)?;
    let mut clause = |word: &str| match rest.strip_prefix(word) {
        Some(after) => {
            let (text, after) = quoted(after)?;
            rest = after;
            Some(Some(text))
        }
        None => Some(None),
    };
    let place = clause("at ")?;
    let fix = clause("fix ")?;
    rest.is_empty().then_some(Expectation::Error { message, place, fix })
}

/// The text in quotes that starts `text`, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (inside, rest) = text.trim_start().strip_prefix('"')?.split_once('"')?;
    Some((inside.to_owned(), rest.trim_start()))
}
