//! Whether what came out is what was expected.
//!
//! In: an expectation and results, the reference's and the backend's. Out: nothing, or what is wrong in words.

use postlude::dtype::round_to;
use postlude::graph::Value;
use postlude::reference::Evaluated;
use postlude::{Diagnostic, Error, Tensor};

/// Errors beyond this many help nobody.
const MOST_DIAGNOSTICS: usize = 5;

/// What the diagnostics of one error may take together.
const MOST_CHARACTERS: usize = 4000;

/// How much of an underlined place a report repeats.
const LONGEST_QUOTE: usize = 60;

/// Every element is one that the reference allows.
pub(crate) fn within_bound(want: &Evaluated, got: &Tensor) -> Result<(), String> {
    same_type(want, got)?;
    let comparison = want.compare(got);
    if comparison.worst <= 1.0 {
        return Ok(());
    }
    let (at, got) = (comparison.at, got.values()[comparison.at]);
    Err(format!(
        "{}; worst {:.3}",
        element(want, at, got, want.values[at].nominal),
        comparison.worst
    ))
}

/// Every element equals the reference's to the bit, and the reference allows no other.
pub(crate) fn exact(want: &Evaluated, got: &Tensor) -> Result<(), String> {
    same_type(want, got)?;
    let loose = want.values.iter().position(|value| !value.is_exact());
    if let Some(at) = loose {
        let got = got.values()[at];
        let what = element(want, at, got, want.values[at].nominal);
        return Err(format!("{what}; the reference's own bound is not zero"));
    }
    for (at, (value, got)) in want.values.iter().zip(got.values()).enumerate() {
        let same = value.nominal.to_bits() == got.to_bits();
        if !(same || value.nominal.is_nan() && got.is_nan()) {
            return Err(element(want, at, got, value.nominal));
        }
    }
    Ok(())
}

/// An output is what is written, within the reference's bound; and so is the reference.
pub(crate) fn values(want: &Evaluated, got: &Tensor, written: &[f64]) -> Result<(), String> {
    same_type(want, got)?;
    if written.len() != want.values.len() {
        let (have, need) = (written.len(), want.values.len());
        return Err(format!("`{}` has {need} elements, but {have} values are written", want.name));
    }
    for (at, (value, got)) in want.values.iter().zip(got.values()).enumerate() {
        let literal = round_to(want.dtype, written[at]);
        if want.distance(at, literal) > 1.0 {
            let what = element(want, at, value.nominal, literal);
            return Err(format!("the reference differs from what is written: {what}"));
        }
        if !is_near(*value, got, literal) {
            return Err(element(want, at, got, literal));
        }
    }
    Ok(())
}

fn is_near(value: Value, got: f64, literal: f64) -> bool {
    got == literal || (got.is_nan() && literal.is_nan()) || (got - literal).abs() <= value.bound()
}

pub(crate) fn same_type(want: &Evaluated, got: &Tensor) -> Result<(), String> {
    if want.shape == got.shape() && want.dtype == got.dtype() {
        return Ok(());
    }
    Err(format!(
        "`{}` is {}{:?}, wanted {}{:?}",
        want.name,
        got.dtype(),
        got.shape(),
        want.dtype,
        want.shape
    ))
}

/// One element with everything about it.
pub(crate) fn element(evaluated: &Evaluated, at: usize, got: f64, want: f64) -> String {
    let value = evaluated.values[at];
    let index = index(at, &evaluated.shape);
    let whole = [value];
    let pieces = match evaluated.alternatives(at) {
        [] => &whole[..],
        several => several,
    };
    let allowed = pieces.iter().map(range).collect::<Vec<_>>().join(", or ");
    format!(
        "`{}`{index:?}: got {got:e}, want {want:e}, bound {:e} (allowed {allowed})",
        evaluated.name,
        value.bound()
    )
}

/// The values that an enclosure allows.
fn range(value: &Value) -> String {
    if value.is_only_nan() {
        return "nan alone".to_owned();
    }
    let nan = if value.nan { " or nan" } else { "" };
    format!("{:e} to {:e}{nan}", value.low, value.high)
}

fn index(at: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    let mut rest = at;
    for (place, size) in shape.iter().enumerate().rev() {
        index[place] = rest % size.max(&1);
        rest /= size.max(&1);
    }
    index
}

/// What an expected error says.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) message: &'a str,
    pub(crate) place: Option<&'a str>,
    pub(crate) fix: Option<&'a str>,
}

/// One of the diagnostics is the one that is expected.
pub(crate) fn diagnostic(
    source: &str,
    error: Option<&Error>,
    expected: Expected<'_>,
) -> Result<(), String> {
    let Some(error) = error else { return Err("it compiled".to_owned()) };
    well_formed(source, error)?;
    let fits = |diagnostic: &Diagnostic| {
        diagnostic.message().contains(expected.message)
            && expected.place.is_none_or(|place| underlined(source, diagnostic) == Some(place))
            && expected
                .fix
                .is_none_or(|fix| diagnostic.fix().is_some_and(|suggested| suggested.contains(fix)))
    };
    if error.diagnostics().iter().any(fits) {
        return Ok(());
    }
    let found = error.diagnostics().iter().map(|diagnostic| {
        let place = underlined(source, diagnostic);
        let place = place.map_or_else(String::new, |place| {
            let start: String = place.chars().take(LONGEST_QUOTE).collect();
            format!(" at {start:?}")
        });
        let fix = diagnostic.fix().map_or_else(String::new, |fix| format!(" fix {fix:?}"));
        format!("error {:?}{place}{fix}", diagnostic.message())
    });
    Err(format!("got {}", found.collect::<Vec<_>>().join("; ")))
}

/// What the language promises of every error: few diagnostics, short together, each about a place in the text.
fn well_formed(source: &str, error: &Error) -> Result<(), String> {
    let diagnostics = error.diagnostics();
    let length = |diagnostic: &Diagnostic| {
        diagnostic.message().len() + diagnostic.fix().map_or(0, |fix| fix.len())
    };
    let together: usize = diagnostics.iter().map(length).sum();
    if !(1..=MOST_DIAGNOSTICS).contains(&diagnostics.len()) {
        return Err(format!("{} diagnostics", diagnostics.len()));
    }
    if together >= MOST_CHARACTERS {
        return Err(format!("diagnostics of {together} characters"));
    }
    let astray = |one: &&Diagnostic| one.span().is_some() && underlined(source, one).is_none();
    match diagnostics.iter().find(astray) {
        Some(one) => Err(format!("`{}` underlines what is no part of the source", one.message())),
        None => Ok(()),
    }
}

fn underlined<'a>(source: &'a str, diagnostic: &Diagnostic) -> Option<&'a str> {
    let span = diagnostic.span()?;
    source.get(span.start as usize..span.end as usize)
}
