//! Keeps the tables of docs/ true: each is printed from the code between two markers.
//!
//! `POSTLUDE_BLESS=1 cargo test -p postlude --test all docs` rewrites the pages; without it a stale page fails.

mod errors;
pub(crate) mod refusals;
mod stability;

use std::fs;

use crate::workspace::{read, root};
use errors::Row;
use postlude::DType;
use postlude::catalogue::{Entry, FUNCTIONS, Group};
use postlude::functions::accuracy::{Bound, accurate, fast, hardware};
use postlude::functions::{Accuracy, Function};
use postlude::graph::{Binary, Unary};

/// Compares what stands between the markers of a page with what should, or writes it.
fn keep(page: &str, marker: &str, wanted: &str) {
    let path = root().join("docs").join(page);
    let text = read(&path);
    let (begin, end) = (format!("<!-- {marker}:begin -->\n"), format!("<!-- {marker}:end -->"));
    let place =
        |text: &str, mark: &str| text.find(mark).unwrap_or_else(|| panic!("{page} has no {mark}"));
    let (from, to) = (place(&text, &begin) + begin.len(), place(&text, &end));
    if text[from..to] == *wanted {
        return;
    }
    assert!(
        std::env::var_os("POSTLUDE_BLESS").is_some_and(|value| value == "1"),
        "docs/{page} is stale: run `POSTLUDE_BLESS=1 cargo test -p postlude --test all docs` and review the difference"
    );
    // Other tables of the page may have been written meanwhile.
    let _turn = TURNS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut text = read(&path);
    let (from, to) = (place(&text, &begin) + begin.len(), place(&text, &end));
    text.replace_range(from..to, wanted);
    fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

static TURNS: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// A table in Markdown.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let cell =
            |cell: &String| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
        format!("|{}\n", cells.iter().map(cell).collect::<String>())
    };
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let mut text = line(&head) + &line(&vec!["---".to_owned(); head.len()]);
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text += &line(&cells);
    }
    text
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// The derivative of a function in its first argument.
fn derivative(entry: &Entry) -> String {
    let primitive = Unary::from_name(entry.name)
        .and_then(Unary::derivative)
        .or_else(|| Binary::from_name(entry.name).and_then(Binary::derivative));
    if entry.derivative.is_empty() {
        code(primitive.unwrap_or_default())
    } else {
        code(entry.derivative)
    }
}

fn call(entry: &Entry) -> String {
    code(&format!("{}({})", entry.name, entry.parameters.join(", ")))
}

#[test]
fn the_function_table_is_the_catalogue() {
    let mut text = String::new();
    for (group, title) in [
        (Group::Elementwise, "Elementwise"),
        (Group::Activation, "Activations"),
        (Group::Bits, "Bits and random numbers"),
        (Group::Reduction, "Reductions"),
        (Group::Composite, "Composites"),
        (Group::Structure, "Rearrangements"),
    ] {
        let entries = FUNCTIONS.iter().filter(|entry| entry.group == group);
        text += &["\n### ", title, "\n\n"].concat();
        text += &match group {
            Group::Elementwise | Group::Activation => table(
                &["function", "meaning", "derivative in the first argument", "note"],
                entries.map(|e| vec![call(e), code(e.formula), derivative(e), e.note.to_owned()]),
            ),
            Group::Composite => table(
                &["function", "meaning", "note"],
                entries.map(|e| vec![call(e), code(e.formula), e.note.to_owned()]),
            ),
            Group::Bits | Group::Reduction | Group::Structure => {
                table(&["function", "note"], entries.map(|e| vec![call(e), e.note.to_owned()]))
            }
        };
    }
    keep("language.md", "functions", &(text + "\n"));
}

fn error_table(rows: Vec<Row>) -> String {
    let row = |row: Row| vec![row.cause, row.message, row.fix.unwrap_or_default()];
    table(&["cause", "message", "fix"], rows.into_iter().map(row))
}

#[test]
fn the_error_table_has_every_error() {
    let text = format!(
        "\n### Reading the text\n\n{}\n### Typing the kernel\n\nBodies stand in this kernel:\n\n```text\n{}\n```\n\n{}\n### Calling it\n\nCalls are of this kernel:\n\n```text\n{}\n```\n\n{}\n",
        error_table(errors::syntax_rows()),
        errors::SIGNATURE,
        error_table(errors::check_rows()),
        errors::called(),
        error_table(errors::bind_rows()),
    );
    keep("language.md", "errors", &text);
}

#[test]
fn the_dtype_table_has_every_dtype() {
    let operand = |dtype: DType| match dtype.multiplied_as() {
        own if own.accumulator().is_none() => String::new(),
        own if own == dtype => "yes".to_owned(),
        wider => format!("as {}", code(wider.name())),
    };
    let rows = DType::ALL.map(|dtype| {
        vec![
            code(dtype.name()),
            dtype.bits().to_string(),
            operand(dtype),
            dtype.multiplied_as().accumulator().map_or(String::new(), |elem| code(elem.name())),
            code(dtype.elem().name()),
            note(dtype).to_owned(),
        ]
    });
    let head = ["dtype", "bits", "operand of `@`", "accumulates in", "computes as", "note"];
    keep("language.md", "dtypes", &table(&head, rows));
}

fn note(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "",
        DType::TF32 => {
            "an `f32` in memory, of which ten bits of the fraction are read; overflows to infinity"
        }
        DType::F16 => "IEEE half; overflows to infinity",
        DType::BF16 => "the upper half of an `f32`; overflows to infinity",
        DType::F8E4M3 => "finite only, largest 448; saturates",
        DType::F8E5M2 => "largest finite 57344; saturates",
        DType::F8E8M0 => "powers of two, 2^-127 to 2^127: scales; no sign, no zero; saturates",
        DType::I8 | DType::U8 => "saturates",
        DType::I32 => "indices, zero points; saturates",
        DType::I64 => "never declared",
        DType::Bool => "one byte, 0 or 1",
        DType::B1 => {
            "packed bits along the last dim, lowest bit first; its size is a multiple of 8"
        }
        DType::I4 => {
            "-8 to 7; inputs only; two in a byte along the last dim, lowest half first; its size is even"
        }
        DType::U4 => "0 to 15; otherwise as `i4`",
    }
}

/// A stated error in words, from its values at 0 and 1.
fn stated(of: impl Fn(f64) -> Bound) -> String {
    let (at, step) = (of(0.0), of(1.0));
    let power = |value: f64| format!("2^{}", value.log2().round());
    let grows = |zero: f64, one: f64| {
        if one > zero {
            format!("{} + {} * abs(x)", power(zero), power(one - zero))
        } else {
            power(zero)
        }
    };
    // Hardware forms may flush results below the normal numbers to zero.
    let flush = f64::from(f32::MIN_POSITIVE);
    let mut parts = Vec::new();
    if at.ulps >= 1.0 {
        parts.push(format!("{} ulp", at.ulps));
    } else if at.ulps > 0.0 {
        parts.push("correctly rounded".to_owned());
    }
    if at.relative > 0.0 {
        parts.push(format!("{} of the result", grows(at.relative, step.relative)));
    }
    if at.absolute > flush {
        parts.push(format!("{} absolute", grows(at.absolute, step.absolute)));
    }
    if parts.is_empty() { "exact".to_owned() } else { parts.join(" plus ") }
}

#[test]
fn the_accuracy_table_is_what_functions_state() {
    let rows = Function::ALL.map(|function| {
        vec![
            code(function.name()),
            stated(|x| accurate(function, x)),
            stated(|x| hardware(function, x)),
            stated(|x| fast(function, x)),
        ]
    });
    let levels = Accuracy::ALL.map(Accuracy::name);
    keep("numerics.md", "accuracy", &table(&["function", levels[0], levels[1], levels[2]], rows));
}

#[test]
fn the_stability_table_is_the_rules() {
    let rows = stability::RULES.iter().map(|(_, naive, stable)| vec![code(naive), code(stable)]);
    keep("numerics.md", "stability", &table(&["written", "computed as"], rows));
}

#[test]
fn every_refusal_is_listed_with_its_cure() {
    for (marker, rows) in [
        ("refusals", refusals::body_rows()),
        ("schedules", refusals::schedule_rows()),
        ("cpu_refusals", refusals::cpu_rows()),
    ] {
        let rows = rows.into_iter().map(|row| vec![row.cause, row.message, row.fix]);
        keep("refusals.md", marker, &table(&["refused", "message", "instead"], rows));
    }
}
