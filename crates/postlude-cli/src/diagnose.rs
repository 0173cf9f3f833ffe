//! Renders what went wrong: for a person with the place underlined, or as one JSON object.
//!
//! In: a [`Failure`]. Out: text on standard error (JSON on standard output) and the exit code.
//! Invariant: under 4,000 characters together, whatever the source holds; control characters are made visible.

mod bug;
mod excerpt;
mod warn;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use postlude::syntax::Place;
use postlude::{Diagnostic, Error};
use serde::Serialize;

use crate::failure::{Failure, Mistake};
use crate::print;
use crate::source::Source;

pub(crate) use bug::{BUG, note_bug, print_bug, remember};
use excerpt::{Excerpt, visible};
pub(crate) use warn::{warn, warn_without_place, with_warnings};

/// The most characters of all diagnostics together.
const MOST_CHARACTERS: usize = 3900;
/// The most characters of a message or a fix.
const MOST_MESSAGE: usize = 300;
/// The exit code of the user's mistakes.
const MISTAKE: u8 = 2;

/// How failures are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// For a person.
    Text,
    /// For a program.
    Json,
}

impl Form {
    /// JSON if `--json` stands anywhere on the command line, which may not even parse.
    pub(crate) fn asked_for(arguments: impl Iterator<Item = OsString>) -> Form {
        let mut options = arguments.take_while(|argument| argument != "--");
        if options.any(|argument| argument == "--json") { Form::Json } else { Form::Text }
    }
}

#[derive(Serialize)]
struct Failed {
    schema: u32,
    error: Described,
}

#[derive(Clone, Serialize)]
struct Described {
    message: String,
    line: Option<usize>,
    column: Option<usize>,
    fix: Option<String>,
    /// The kernel that a bug of ours was met with.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
}

/// Prints a failure and says how the program exits.
pub(crate) fn print_failure(form: Form, failure: &Failure) -> u8 {
    if let Failure::Usage(error) = failure
        && !error.use_stderr()
    {
        return print_help(error);
    }
    if let Failure::Kernel(_, error) = failure
        && error.is_bug()
    {
        bug::print_found(form, error);
        return BUG;
    }
    match form {
        Form::Text => print_text(failure),
        Form::Json => print_json(describe(failure)),
    }
    MISTAKE
}

/// Help and version go to standard output and are no failures.
fn print_help(error: &clap::Error) -> u8 {
    match error.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => MISTAKE,
        Ok(()) | Err(_) => 0,
    }
}

fn print_json(described: Described) {
    // There is nobody left to tell when this fails.
    let _ = print::json(&Failed { schema: 1, error: described });
}

fn describe(failure: &Failure) -> Described {
    let (message, fix) = match failure {
        Failure::Closed => (String::new(), None),
        Failure::Usage(error) => {
            let text = error.render().to_string();
            let messages: Vec<&str> =
                text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
            let line = &messages.join(" ");
            let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
            let message = line.strip_prefix("error: ").unwrap_or(line).to_owned();
            (message, tip.map(str::to_owned))
        }
        Failure::Kernel(source, error) => match error.diagnostics().first() {
            Some(first) => return describe_one(source, first),
            None => (error.to_string(), None),
        },
        Failure::Mistake(mistake) => (mistake.message.clone(), mistake.fix.clone()),
    };
    described(&message, None, fix.as_deref())
}

fn describe_one(source: &Source, diagnostic: &Diagnostic) -> Described {
    let place = diagnostic.span().map(|span| Place::of(&source.bytes, span));
    described(&diagnostic.message(), place, diagnostic.fix().as_deref())
}

fn described(message: &str, place: Option<Place>, fix: Option<&str>) -> Described {
    Described {
        message: cut(message),
        line: place.map(|place| place.line),
        column: place.map(|place| place.column),
        fix: fix.map(cut),
        kernel: None,
    }
}

fn print_text(failure: &Failure) {
    match failure {
        Failure::Closed => {}
        Failure::Usage(error) => {
            let _ = error.print();
        }
        Failure::Kernel(source, error) => write_error(&render(&renderer(), source, error)),
        Failure::Mistake(mistake) => write_error(&render_mistake(&renderer(), mistake)),
    }
}

fn write_error(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Colour on terminals only, and only where the user has not declined it.
fn renderer() -> Renderer {
    let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    if io::stderr().is_terminal() && !declined { Renderer::styled() } else { Renderer::plain() }
}

fn render_mistake(renderer: &Renderer, mistake: &Mistake) -> String {
    let Some(details) = &mistake.details else {
        return render_placeless(renderer, &mistake.message, mistake.fix.as_deref(), Level::ERROR);
    };
    let mut text = render_placeless(renderer, &mistake.message, None, Level::ERROR);
    for line in details.lines() {
        text.push_str(&format!("\n  {}", cut(line)));
    }
    if let Some(fix) = &mistake.fix {
        let fix = renderer.render(&[Group::with_title(Level::HELP.primary_title(cut(fix)))]);
        text.push_str(&format!("\n{fix}"));
    }
    text
}

fn render_placeless(
    renderer: &Renderer,
    message: &str,
    fix: Option<&str>,
    level: Level<'_>,
) -> String {
    let error = renderer.render(&[Group::with_title(level.primary_title(cut(message)))]);
    // Apart: between the parts of one report stands a line for the source.
    let help =
        fix.map(|fix| renderer.render(&[Group::with_title(Level::HELP.primary_title(cut(fix)))]));
    help.map_or(error.clone(), |help| format!("{error}\n{help}"))
}

fn render(renderer: &Renderer, source: &Source, error: &Error) -> String {
    let mut text = String::new();
    let mut characters = 0;
    for (place, diagnostic) in error.diagnostics().iter().enumerate() {
        // What is counted is what is read: colours are not.
        characters +=
            render_one(&Renderer::plain(), source, diagnostic, Level::ERROR).chars().count() + 2;
        if characters > MOST_CHARACTERS {
            text.push_str(&format!("\n\n(and {} more)", error.diagnostics().len() - place));
            break;
        }
        if place > 0 {
            text.push_str("\n\n");
        }
        text.push_str(&render_one(renderer, source, diagnostic, Level::ERROR));
    }
    text
}

fn render_one(
    renderer: &Renderer,
    source: &Source,
    diagnostic: &Diagnostic,
    level: Level<'_>,
) -> String {
    let Some(span) = diagnostic.span() else {
        let (message, fix) = (diagnostic.message(), diagnostic.fix());
        return render_placeless(renderer, &message, fix.as_deref(), level);
    };
    let title = level.primary_title(cut(&diagnostic.message()));
    let help = diagnostic.fix().map(|fix| Level::HELP.message(cut(&fix)));
    let place = Place::of(&source.bytes, span);
    let excerpt = Excerpt::of(&source.bytes, span);
    let snippet = Snippet::source(excerpt.text)
        .path(visible(&source.origin))
        .line_start(place.line)
        .annotation(AnnotationKind::Primary.span(excerpt.underlined));
    let mut groups = vec![title.element(snippet)];
    if let Some((span, note)) = diagnostic.related() {
        let (place, excerpt) = (Place::of(&source.bytes, span), Excerpt::of(&source.bytes, span));
        let snippet = Snippet::source(excerpt.text)
            .path(visible(&source.origin))
            .line_start(place.line)
            .annotation(AnnotationKind::Context.span(excerpt.underlined));
        groups.push(Level::NOTE.secondary_title(cut(&note)).element(snippet));
    }
    let last = groups.pop().map(|group| group.elements(help));
    groups.extend(last);
    renderer.render(&groups)
}

/// A message cut in its middle, with its control characters visible.
fn cut(message: &str) -> String {
    let characters: Vec<char> = visible(message).chars().collect();
    if characters.len() <= MOST_MESSAGE {
        return characters.into_iter().collect();
    }
    let half = MOST_MESSAGE / 2 - 1;
    let (start, end) = (&characters[..half], &characters[characters.len() - half..]);
    start.iter().chain(&['…']).chain(end).collect()
}
