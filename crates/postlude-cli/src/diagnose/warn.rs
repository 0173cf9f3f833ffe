//! Warnings: what is suspicious about a kernel that types, or old about a file that is read. The exit code does not
//! change.
//!
//! In: warnings. Out: text on standard error, or a list that goes with the one JSON object.

use std::sync::{Mutex, PoisonError};

use annotate_snippets::Level;
use postlude::Diagnostic;
use serde::Serialize;

use super::{
    Described, Form, describe_one, described, render_one, render_placeless, renderer, write_error,
};
use crate::source::Source;

/// The most warnings of one kernel that are told.
const MOST: usize = 5;

/// Warnings that go with the next object.
static WARNINGS: Mutex<Vec<Described>> = Mutex::new(Vec::new());

/// Tells a person at once, and a program with the result.
pub(crate) fn warn(source: &Source, warnings: &[Diagnostic]) {
    let told = &warnings[..warnings.len().min(MOST)];
    match Form::asked_for(std::env::args_os()) {
        Form::Text => {
            for warning in told {
                write_error(&render_one(&renderer(), source, warning, Level::WARNING));
            }
        }
        Form::Json => {
            let described = told.iter().map(|warning| describe_one(source, warning));
            WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).extend(described);
        }
    }
}

/// The same about what has no place in a kernel.
pub(crate) fn warn_without_place(message: &str, fix: &str) {
    match Form::asked_for(std::env::args_os()) {
        Form::Text => {
            write_error(&render_placeless(&renderer(), message, Some(fix), Level::WARNING));
        }
        Form::Json => {
            let described = described(message, None, Some(fix));
            WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).push(described);
        }
    }
}

/// An object with the warnings that were met on the way to it.
#[derive(Serialize)]
struct Warned<'a, T: Serialize> {
    #[serde(flatten)]
    object: &'a T,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Described>,
}

/// The text of an object, with a list `warnings` where there are any.
pub(crate) fn with_warnings(object: &impl Serialize) -> String {
    let warnings = std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner));
    let text = if warnings.is_empty() {
        serde_json::to_string(object)
    } else {
        serde_json::to_string(&Warned { object, warnings })
    };
    text.expect("compiler bug: an object without text")
}
