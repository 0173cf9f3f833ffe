//! How far a value may be from the exact one.

use postlude::functions::accuracy::ulp;

use super::engines::Outcome;

/// What rounds to infinity: half a step above the largest f32.
const OVERFLOW: f64 = 3.4028235677973366e38;

/// An error that is allowed: units in the last place of the exact value, plus an absolute error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) ulps: f64,
    pub(crate) absolute: f64,
}

impl Allowed {
    /// The error itself, in parts of what is allowed.
    pub(crate) fn part(self, got: f64, exact: f64) -> f64 {
        if got.is_nan() || exact.is_nan() {
            return if got.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if got.is_infinite() || exact.abs() >= OVERFLOW {
            let near = |x: f64| {
                x.abs() >= f64::from(f32::MAX) * (1.0 - 2.0 * self.ulps * f64::from(f32::EPSILON))
            };
            let same =
                near(got) && near(exact) && got.is_sign_positive() == exact.is_sign_positive();
            return if same { 0.0 } else { f64::INFINITY };
        }
        (got - exact).abs() / (self.ulps * ulp(exact) + self.absolute)
    }

    /// How far the exact value is outside what the reference allows, in the same parts.
    pub(crate) fn outside(self, outcome: Outcome, exact: f64) -> f64 {
        let value = outcome.reference;
        if exact.is_nan() {
            return if value.nan { 0.0 } else { f64::INFINITY };
        }
        if value.is_only_nan() {
            return f64::INFINITY;
        }
        let rounded = f64::from(exact as f32);
        if value.contains(rounded) {
            0.0
        } else {
            self.part(rounded.clamp(value.low, value.high), exact)
        }
    }
}

/// The worst of many errors, and where it was.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worst {
    pub(crate) part: f64,
    pub(crate) place: String,
}

impl Worst {
    pub(crate) fn note(&mut self, part: f64, place: impl FnOnce() -> String) {
        if part > self.part || part.is_nan() {
            *self = Worst { part, place: place() };
        }
    }
}

/// Checks both engines and the enclosure against the exact value: the worst of them.
pub(crate) fn judge(
    worst: &mut Worst,
    allowed: Allowed,
    outcome: Outcome,
    exact: f64,
    place: &str,
) {
    let tell = |what: &str| format!("{what} at {place}: {outcome:?}, exactly {exact:e}");
    worst.note(allowed.part(outcome.reference.nominal, exact), || tell("reference"));
    worst.note(allowed.part(outcome.cpu, exact), || tell("cpu"));
    worst.note(allowed.outside(outcome, exact), || tell("enclosure"));
    let distance = outcome.reference.distance(outcome.cpu);
    worst.note(if distance <= 1.0 { 0.0 } else { f64::INFINITY }, || {
        tell("cpu outside the enclosure")
    });
}

/// The worst of a form's outcomes at several places.
pub(crate) fn worst_of(
    outcomes: Vec<Outcome>,
    exact: &[f64],
    allowed: Allowed,
    places: &[f32],
) -> Worst {
    let mut worst = Worst::default();
    for ((outcome, exact), place) in outcomes.into_iter().zip(exact).zip(places) {
        judge(&mut worst, allowed, outcome, *exact, &format!("{place:e}"));
    }
    worst
}
