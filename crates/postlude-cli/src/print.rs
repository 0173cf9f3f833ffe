//! Standard output, the only way to it.
//!
//! Invariant: a reader that is gone is [`Failure::Closed`], never a panic.

use std::io::{self, Write};

use serde::Serialize;

use crate::diagnose;
use crate::failure::{Failure, Mistake, plain};

/// Prints text as it is.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::Closed
        } else {
            Mistake::new(format!("the output cannot be written: {}", plain(&error))).into()
        }
    })
}

/// Prints one object on one line.
pub(crate) fn json(object: &impl Serialize) -> Result<(), Failure> {
    let mut line = diagnose::with_warnings(object);
    line.push('\n');
    text(&line)
}

/// Prints one object for a program, or text for a person.
pub(crate) fn either(
    as_json: bool,
    object: &impl Serialize,
    words: impl FnOnce() -> String,
) -> Result<(), Failure> {
    if as_json { json(object) } else { text(&words()) }
}

/// Lines up columns with two spaces between them; the last one runs free.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["a", "b"]), row(["long", ""])]), "a     b\nlong\n");
    }
}
