//! `postlude show`: a kernel of the library.

use crate::arguments::ShowArguments;
use crate::failure::{Failure, Outcome};
use crate::print;
use crate::source::Source;

/// Runs the command.
pub(crate) fn show(arguments: &ShowArguments) -> Result<Outcome, Failure> {
    let name = arguments.name.strip_suffix(".post").unwrap_or(&arguments.name);
    let source = Source::from_library(name)?;
    print::text(&String::from_utf8_lossy(&source.bytes))?;
    Ok(Outcome::Fine)
}
