//! Bugs of ours: a panic, or a finding of the simulator in code that we emitted.
//!
//! In: the panic or the finding. Out: a message that calls it a bug of Postlude and says where to report it, with the kernel
//! that was being compiled or run.

use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};

use annotate_snippets::Level;
use postlude::Error;

use super::excerpt::visible;
use super::{Described, Form, print_json, render_placeless, renderer, write_error};
use crate::source::Source;

/// The exit code of a bug.
pub(crate) const BUG: u8 = 3;

/// The most characters of what was met, and of the kernel beside it.
const MOST: usize = 1800;

const REPORT: &str = concat!(
    "please report it with the command and the kernel at ",
    env!("CARGO_PKG_REPOSITORY"),
    "/issues"
);

/// The kernel under way. A panic may come from any thread.
static KERNEL: Mutex<Option<String>> = Mutex::new(None);

/// Keeps a kernel's text for the report of a bug that is met while it is compiled or run.
pub(crate) fn remember(source: &Source) {
    let text = String::from_utf8_lossy(&source.bytes).into_owned();
    *KERNEL.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// Says that a bug was met, where, and what to do.
pub(crate) fn print_bug(form: Form, bug: &PanicHookInfo<'_>) {
    let what = bug.payload_as_str().unwrap_or("no message");
    let at = bug.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
    print(form, &format!("this is a bug in Postlude: {what}{}", at.unwrap_or_default()));
}

/// Says that code which we emitted breaks a rule.
pub(super) fn print_found(form: Form, error: &Error) {
    print(form, &format!("this is a bug in Postlude: {error}"));
}

/// The same beside a result that was printed.
pub(crate) fn note_bug(count: usize) {
    let what = if count == 1 { "finding is" } else { "findings are" };
    print(
        Form::Text,
        &format!("this is a bug in Postlude: {count} {what} in code that it emitted"),
    );
}

fn print(form: Form, message: &str) {
    let kernel = KERNEL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let kernel = kernel.map(|text| shortened(&text));
    match form {
        Form::Text => {
            // The first line is the title; findings have more of them.
            let message = shortened(message);
            let (title, rest) = message.split_once('\n').unwrap_or((&message, ""));
            let mut text = render_placeless(&renderer(), title, Some(REPORT), Level::ERROR);
            if !rest.is_empty() {
                text.push_str(&format!("\n{rest}"));
            }
            if let Some(kernel) = kernel {
                text.push_str(&format!("\nthe kernel:\n{kernel}"));
            }
            write_error(&text);
        }
        Form::Json => print_json(Described {
            message: shortened(message),
            line: None,
            column: None,
            fix: Some(REPORT.to_owned()),
            kernel,
        }),
    }
}

/// The first characters, line by line, with controls visible.
fn shortened(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(visible).collect();
    let text = lines.join("\n");
    let end = text.char_indices().nth(MOST).map(|(end, _)| end);
    end.map_or(text.clone(), |end| format!("{}…", &text[..end]))
}
