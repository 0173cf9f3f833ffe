//! Tables of forms that tests hold against exact values: the points of `x`, and the error that a form may have.

/// A result below the normal numbers, or with a factor below them, may be flushed to zero.
pub(crate) const VANISHES: f64 = 1.2e-38;

/// For which `x` a form is tried.
#[derive(Clone, Copy)]
pub(crate) enum Where {
    Everywhere,
    Above,
    Below,
    /// Within this distance of 0.
    Within(f32),
}

/// Form, its allowed error in units in the last place, its allowed absolute error beside that, and for which x.
pub(crate) type Form = (&'static str, f64, f64, Where);

impl Where {
    fn holds(self, x: f32) -> bool {
        match self {
            Where::Everywhere => true,
            Where::Above => x > 0.0,
            Where::Below => x < 0.0,
            Where::Within(limit) => x.abs() <= limit,
        }
    }

    /// The points of these sizes, of both signs, at which a form is tried.
    pub(crate) fn points(self, sizes: &[f32]) -> Vec<f32> {
        sizes.iter().flat_map(|size| [-size, *size]).filter(|x| self.holds(*x)).collect()
    }
}

/// How the error of a form over a row is measured.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// In units of the result.
    Result,
    /// In units of the largest logit, against which logarithms cancel.
    Largest,
}

impl Unit {
    /// The allowed absolute error of a form over a row.
    pub(crate) fn absolute(self, ulps: f64, row: &[f32]) -> f64 {
        let largest = row.iter().fold(1.0_f64, |largest, x| largest.max(f64::from(x.abs())));
        match self {
            Unit::Result => VANISHES,
            Unit::Largest => ulps * largest * f64::from(f32::EPSILON),
        }
    }
}
