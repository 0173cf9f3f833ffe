//! An engine's result beside the reference's, element by element.

use crate::dtype;
use crate::graph::Value;
use crate::tensor::{Tensor, TensorError, TensorView};

use super::Evaluated;

/// How an engine's output compares with the reference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// The largest |got - want| / bound: at most 1 when every element is right.
    pub worst: f64,
    /// The largest finite bound there was.
    pub bound: f64,
    /// How many elements may be any large number, or both nan and a number: little is known of these.
    pub open: usize,
    /// Where the worst element is, in the order of a contiguous tensor.
    pub at: usize,
    /// How many elements are not allowed.
    pub wrong: usize,
    /// The largest distance from the nominal value; `None` where no element has both as numbers.
    pub absolute: Option<Difference>,
    /// The largest distance over the nominal value's magnitude, among nominal values that are not zero.
    pub relative: Option<Difference>,
    /// How many elements are nan.
    pub nan: usize,
    /// How many are nan in the reference.
    pub expected_nan: usize,
    /// What was looked at.
    pub coverage: Coverage,
}

/// How far an element is from its nominal value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// How far: absolute or relative.
    pub amount: f64,
    /// Where, in the order of a contiguous tensor.
    pub at: usize,
    /// The engine's result.
    pub got: f64,
    /// The nominal value.
    pub want: f64,
}

/// How much of an output was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// How many elements were compared.
    pub checked: usize,
    /// Of how many.
    pub elements: usize,
    /// How many of how many rows.
    pub rows: (usize, usize),
    /// How many of how many columns.
    pub columns: (usize, usize),
}

impl Coverage {
    /// Every element.
    #[doc(hidden)]
    pub fn is_whole(self) -> bool {
        self.checked == self.elements
    }
}

impl Comparison {
    /// The coverage of an output without any compared element.
    pub(super) fn none(elements: usize) -> Comparison {
        let coverage = Coverage { checked: 0, elements, rows: (0, 0), columns: (0, 0) };
        Comparison {
            worst: 0.0,
            bound: 0.0,
            open: 0,
            at: 0,
            wrong: 0,
            absolute: None,
            relative: None,
            nan: 0,
            expected_nan: 0,
            coverage,
        }
    }

    /// Whether nothing that was looked at is wrong.
    pub fn is_right(&self) -> bool {
        self.worst <= 1.0
    }

    /// Whether there is nothing but nan among what was looked at.
    pub fn is_all_nan(&self) -> bool {
        self.coverage.checked > 0 && self.nan == self.coverage.checked
    }

    fn add(&mut self, at: usize, (value, got): (Value, f64), distance: f64) {
        if distance > self.worst {
            (self.worst, self.at) = (distance, at);
        }
        self.wrong += usize::from(distance > 1.0);
        if value.bound().is_finite() {
            self.bound = self.bound.max(value.bound());
        }
        let want = value.nominal;
        self.nan += usize::from(got.is_nan());
        self.expected_nan += usize::from(want.is_nan());
        // Equal infinities are no distance apart.
        let amount = if got == want { 0.0 } else { (got - want).abs() };
        if amount.is_nan() {
            return;
        }
        let larger = |known: Option<Difference>, amount: f64| match known {
            Some(known) if known.amount >= amount => Some(known),
            Some(_) | None => Some(Difference { amount, at, got, want }),
        };
        self.absolute = larger(self.absolute, amount);
        if want != 0.0 {
            let relative = if want.is_infinite() { amount } else { amount / want.abs() };
            self.relative = larger(self.relative, relative);
        }
    }
}

impl Evaluated {
    /// The nominal result as a tensor; all of it has to be there.
    pub fn tensor(&self) -> Result<Tensor, TensorError> {
        let values: Vec<f64> = self.values.iter().map(|value| value.nominal).collect();
        Tensor::from_values(self.dtype, self.shape.clone(), &values)
    }

    /// The nominal result over what a tensor holds: elements that a kernel does not write stay as they are.
    pub(crate) fn written_over(&self, before: TensorView<'_>) -> Result<Tensor, TensorError> {
        let Some(places) = &self.places else { return self.tensor() };
        let before = before.to_tensor();
        let count = self.shape.iter().product();
        let mut values: Vec<f64> =
            (0..count).map(|at| dtype::load(self.dtype, before.bytes(), at)).collect();
        for (place, value) in places.iter().zip(&self.values) {
            values[*place] = value.nominal;
        }
        Tensor::from_values(self.dtype, self.shape.clone(), &values)
    }

    /// Where an element of [`Evaluated::values`] lies in the output, row-major: elements that are not written have none.
    pub fn place(&self, at: usize) -> usize {
        self.places.as_ref().map_or(at, |places| places[at])
    }

    /// How far `got` lies from the nominal value of an element of [`Evaluated::values`], in units of what is allowed on that
    /// side: at most 1 when it is allowed.
    pub fn distance(&self, at: usize, got: f64) -> f64 {
        let value = self.values[at];
        let Some(pieces) = self.alternatives.get(&at) else { return value.distance(got) };
        let allows = |piece: &Value| {
            if got.is_nan() { piece.nan } else { piece.contains(got) }
        };
        if pieces.iter().any(allows) {
            return value.distance(got).min(1.0);
        }
        // The distance counts from the alternative that the nominal value is in.
        let own = pieces.iter().find(|piece| piece.contains(value.nominal));
        let beyond = own.map_or(f64::INFINITY, |own| own.distance(got));
        if beyond > 1.0 { beyond } else { f64::INFINITY }
    }

    /// Whether an element of [`Evaluated::values`] may be any large number, or both nan and a number.
    fn is_open(&self, at: usize) -> bool {
        match self.alternatives.get(&at) {
            Some(pieces) => pieces.iter().any(|piece| piece.is_open()),
            None => self.values[at].is_open(),
        }
    }

    /// Compares an engine's result, element by element.
    pub fn compare<'t>(&self, got: impl Into<TensorView<'t>>) -> Comparison {
        let got = got.into();
        let elements = self.shape.iter().product();
        let mut comparison = Comparison::none(elements);
        comparison.coverage = self.coverage;
        if got.shape() != self.shape || got.dtype() != self.dtype {
            comparison.worst = f64::INFINITY;
            comparison.wrong = elements;
            return comparison;
        }
        let moved = (!got.is_contiguous()).then(|| got.to_tensor());
        let bytes = moved.as_ref().map_or(got.bytes(), Tensor::bytes);
        for (at, value) in self.values.iter().enumerate() {
            let place = self.place(at);
            let got = dtype::load(self.dtype, bytes, place);
            comparison.add(place, (*value, got), self.distance(at, got));
            comparison.open += usize::from(self.is_open(at));
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use std::collections::BTreeMap;

    fn evaluated(values: Vec<Value>) -> Evaluated {
        let count = values.len();
        let coverage =
            Coverage { checked: count, elements: count, rows: (1, 1), columns: (count, count) };
        Evaluated {
            name: "D".to_owned(),
            dtype: DType::F32,
            shape: vec![count],
            values,
            alternatives: BTreeMap::new(),
            places: None,
            coverage,
        }
    }

    #[test]
    fn the_largest_errors_are_found_with_their_places() {
        let want = evaluated([100.0, 0.5, 0.0, f64::NAN].map(Value::exact).to_vec());
        let got = Tensor::from_values(DType::F32, vec![4], &[101.0, 0.25, 0.0, f64::NAN]).unwrap();
        let found = want.compare(&got);
        let absolute = found.absolute.unwrap();
        assert_eq!((absolute.amount, absolute.at, absolute.got), (1.0, 0, 101.0));
        let relative = found.relative.unwrap();
        assert_eq!((relative.amount, relative.at, relative.want), (0.5, 1, 0.5));
        assert_eq!((found.nan, found.expected_nan, found.wrong), (1, 1, 2));
    }

    #[test]
    fn what_lies_between_alternatives_is_wrong() {
        let mut want = evaluated(vec![Value::between(0.0, 0.0, 7.0, false)]);
        want.alternatives.insert(0, vec![Value::exact(0.0), Value::exact(7.0)]);
        assert_eq!(want.distance(0, 0.0), 0.0);
        assert_eq!(want.distance(0, 7.0), 1.0);
        assert!([3.0, 8.0, f64::NAN].iter().all(|got| want.distance(0, *got) > 1.0));
    }

    #[test]
    fn all_nan_is_told() {
        let want = evaluated(vec![Value::anything(1.0); 2]);
        let got = Tensor::from_values(DType::F32, vec![2], &[f64::NAN; 2]).unwrap();
        let found = want.compare(&got);
        assert!(found.is_all_nan() && found.is_right() && found.expected_nan == 0);
    }

    #[test]
    fn bounds_that_are_not_finite_are_counted() {
        let open = Value::between(1.0, 0.0, f64::INFINITY, false);
        let want = evaluated(vec![Value::exact(1.0), open, Value::exact(f64::INFINITY)]);
        let got = Tensor::from_values(DType::F32, vec![3], &[1.0, 9.0, f64::INFINITY]).unwrap();
        let found = want.compare(&got);
        assert!(found.is_right() && found.open == 1 && found.bound == 0.0);
    }
}
