//! Floating-point numbers of one array, in one form.
//!
//! Source: NumPy's `FloatingFormat` (`numpy/_core/arrayprint.py`), with `floatmode="maxprec"`.

use postlude::DType;
use postlude::dtype::round_to;

/// Digits behind the point.
const PRECISION: usize = 8;
/// Digits that tell any f64 from its neighbours.
const MOST_DIGITS: usize = 17;
/// Numbers from here on, and below the next, are written with an exponent.
const LARGE: f64 = 1e8;
const SMALL: f64 = 1e-4;
/// A number by itself from here on.
const LARGE_SCALAR: f64 = 1e16;
/// So are numbers that differ by more than this factor.
const RANGE: f64 = 1000.0;

/// How every number of an array is written.
pub(super) struct Floats {
    dtype: DType,
    form: Form,
    /// Characters before and behind the point.
    left: usize,
    right: usize,
}

enum Form {
    Plain,
    /// With this many digits behind the point, and in the exponent.
    Exponent {
        digits: usize,
        exponent: usize,
    },
}

/// A number's text around its point; the exponent is apart.
struct Parts {
    left: String,
    right: String,
    exponent: i32,
}

impl Floats {
    /// The form that suits these numbers.
    pub(super) fn of(dtype: DType, values: &[f64]) -> Floats {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let magnitudes = || finite.iter().map(|value| value.abs()).filter(|value| *value != 0.0);
        let (least, most) =
            (magnitudes().fold(f64::INFINITY, f64::min), magnitudes().fold(0.0, f64::max));
        let has_exponent = most > 0.0 && (most >= LARGE || least < SMALL || most / least > RANGE);
        let parts: Vec<Parts> = finite
            .iter()
            .map(
                |value| if has_exponent { scientific(dtype, *value) } else { plain(dtype, *value) },
            )
            .collect();
        let most = |length: &dyn Fn(&Parts) -> usize| parts.iter().map(length).max().unwrap_or(0);
        let (mut left, digits) = (most(&|part| part.left.len()), most(&|part| part.right.len()));
        let (form, right) = if has_exponent {
            let exponent = most(&|part| exponent_digits(part.exponent));
            (Form::Exponent { digits, exponent }, exponent + 2 + digits)
        } else {
            (Form::Plain, digits)
        };
        if finite.len() < values.len() {
            let has_minus = values.contains(&f64::NEG_INFINITY);
            left = left.max((3 + usize::from(has_minus)).saturating_sub(right + 1));
        }
        Floats { dtype, form, left, right }
    }

    /// A number in that form.
    pub(super) fn word(&self, value: f64) -> String {
        let (left, right) = (self.left, self.right);
        if !value.is_finite() {
            return format!(
                "{:>width$}",
                format!("{value}").to_lowercase(),
                width = left + right + 1
            );
        }
        match self.form {
            Form::Plain => {
                let part = plain(self.dtype, value);
                format!("{:>left$}.{:<right$}", part.left, part.right)
            }
            Form::Exponent { digits, exponent } => {
                let part = scientific(self.dtype, value);
                let sign = if part.exponent < 0 { '-' } else { '+' };
                let power = part.exponent.unsigned_abs();
                format!("{:>left$}.{:0<digits$}e{sign}{power:0>exponent$}", part.left, part.right)
            }
        }
    }
}

/// A number by itself, as NumPy prints a scalar: with all of its digits.
pub(super) fn scalar(dtype: DType, value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return format!("{value}").to_lowercase();
    }
    let text = shortest(dtype, value);
    if value == 0.0 || (SMALL..LARGE_SCALAR).contains(&magnitude) {
        let number: f64 = text.parse().unwrap_or(value);
        return format!("{number:?}");
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:0>2}", exponent.unsigned_abs())
}

fn exponent_digits(exponent: i32) -> usize {
    exponent.unsigned_abs().to_string().len().max(2)
}

/// The fewest digits that are this number in its dtype.
fn shortest(dtype: DType, value: f64) -> String {
    let text = |digits: usize| format!("{value:.digits$e}");
    let is_same = |text: &String| {
        text.parse::<f64>().is_ok_and(|read| round_to(dtype, read).to_bits() == value.to_bits())
    };
    (0..MOST_DIGITS).map(text).find(is_same).unwrap_or_else(|| text(MOST_DIGITS - 1))
}

/// `1.25e3`, with at most the precision's digits behind the point and no zeros at its end.
fn scientific(dtype: DType, value: f64) -> Parts {
    let mut text = shortest(dtype, value);
    let behind = |text: &str| {
        let mantissa = text.split('e').next().unwrap_or_default();
        mantissa.split_once('.').map_or(0, |(_, behind)| behind.len())
    };
    if behind(&text) > PRECISION {
        text = format!("{value:.PRECISION$e}");
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (left, right) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    Parts {
        left: left.to_owned(),
        right: right.trim_end_matches('0').to_owned(),
        exponent: exponent.parse().unwrap_or(0),
    }
}

/// `1250.0`, likewise.
fn plain(dtype: DType, value: f64) -> Parts {
    let text = shortest(dtype, value);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let behind = mantissa.split_once('.').map_or(0, |(_, behind)| behind.len());
    // The digits that the shortest text has behind its point, once the exponent has moved it.
    let behind = (behind as i32 - exponent).clamp(0, PRECISION as i32) as usize;
    // The shortest digits and not the exact value's: 16777216 stays what it is, and so does 0.1.
    let digits = if behind == PRECISION { value } else { text.parse().unwrap_or(value) };
    let text = format!("{digits:.behind$}");
    let (left, right) = text.split_once('.').unwrap_or((&text, ""));
    Parts { left: left.to_owned(), right: right.trim_end_matches('0').to_owned(), exponent: 0 }
}
