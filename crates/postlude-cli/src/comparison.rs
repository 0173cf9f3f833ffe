//! What `--check` found, for people and as JSON.

use postlude::graph::ResultOf;
use postlude::reference::{Comparison, Coverage, Difference};
use postlude::shape::Dim;
use serde::Serialize;

use crate::report::{finite, number};

/// How the outputs compare with the reference.
#[derive(Debug, Serialize)]
pub(crate) struct CheckReport {
    pub(crate) ok: bool,
    /// The largest error in units of its bound.
    worst: Option<f64>,
    /// The largest finite bound; nothing where there is none.
    bound: Option<f64>,
    outputs: Vec<OutputCheck>,
}

/// How one output compares.
#[derive(Debug, Serialize)]
struct OutputCheck {
    name: String,
    ok: bool,
    worst: Option<f64>,
    bound: Option<f64>,
    /// How many elements have no finite bound.
    open: usize,
    /// How many elements are not allowed.
    wrong: usize,
    absolute: Option<ErrorReport>,
    relative: Option<ErrorReport>,
    nan: usize,
    expected_nan: usize,
    /// How many elements were compared, of how many.
    checked: usize,
    elements: usize,
    #[serde(skip)]
    found: Comparison,
    #[serde(skip)]
    dims: Vec<Dim>,
    #[serde(skip)]
    shape: Vec<usize>,
}

/// The largest error of its kind.
#[derive(Debug, Serialize)]
struct ErrorReport {
    error: Option<f64>,
    at: Vec<usize>,
    got: Option<f64>,
    want: Option<f64>,
}

impl CheckReport {
    /// All outputs together.
    pub(crate) fn of<'a>(
        outputs: impl Iterator<Item = (ResultOf<'a>, Vec<usize>)>,
        comparisons: &[Comparison],
    ) -> CheckReport {
        let worst = comparisons.iter().map(|comparison| comparison.worst).fold(0.0, f64::max);
        let bound = comparisons.iter().filter_map(largest_bound).reduce(f64::max);
        let outputs = outputs.zip(comparisons);
        let outputs: Vec<OutputCheck> = outputs
            .map(|((output, shape), found)| OutputCheck::of(output, shape, *found))
            .collect();
        let ok = outputs.iter().all(|output| output.ok);
        CheckReport { ok, worst: finite(worst), bound, outputs }
    }

    /// For a person: the verdict, then a line for every output.
    pub(crate) fn text(&self) -> String {
        let mut text = self.verdict();
        for output in &self.outputs {
            text.push_str(&format!("check {}: {}\n", output.name, output.line()));
            if output.found.is_all_nan() {
                text.push_str(&format!(
                    "WARNING: every element of `{}` that was checked is nan, {} of them are nan in the reference\n",
                    output.name, output.expected_nan
                ));
            }
            if output.open > 0 {
                text.push_str(&format!(
                    "WARNING: {} of {} elements of `{}` have no finite bound: being within it says little of them\n",
                    output.open, output.checked, output.name
                ));
            }
        }
        text
    }

    fn verdict(&self) -> String {
        let failed: Vec<&OutputCheck> = self.outputs.iter().filter(|output| !output.ok).collect();
        let Some(first) = failed.first() else {
            let unchecked = self.outputs.iter().filter(|output| output.checked < output.elements);
            let part = if unchecked.count() > 0 { " of what was checked" } else { "" };
            let worst = number(self.worst.unwrap_or(f64::INFINITY));
            let bound = match self.bound {
                Some(bound) => format!("largest bound {}", number(bound)),
                None => "no bound is finite".to_owned(),
            };
            let open = match self.outputs.iter().map(|output| output.open).sum::<usize>() {
                0 => String::new(),
                open => format!("; {open} elements without a finite bound"),
            };
            return format!(
                "check ok: the worst error{part} is {worst} of its bound ({bound}{open})\n"
            );
        };
        let place = first.place(first.found.at);
        let away = number(first.found.worst);
        let mut line = format!(
            "check FAILED: {}{place} is {away} bounds away; {} of {} elements are wrong",
            first.name, first.wrong, first.checked
        );
        if failed.len() > 1 {
            line.push_str(&format!(", and {} more outputs", failed.len() - 1));
        }
        line.push('\n');
        line
    }
}

impl OutputCheck {
    fn of(output: ResultOf<'_>, shape: Vec<usize>, found: Comparison) -> OutputCheck {
        let error = |difference: Difference| ErrorReport {
            error: finite(difference.amount),
            at: index(&shape, difference.at),
            got: finite(difference.got),
            want: finite(difference.want),
        };
        OutputCheck {
            name: output.name.to_owned(),
            ok: found.is_right(),
            worst: finite(found.worst),
            bound: largest_bound(&found),
            open: found.open,
            wrong: found.wrong,
            absolute: found.absolute.map(error),
            relative: found.relative.map(error),
            nan: found.nan,
            expected_nan: found.expected_nan,
            checked: found.coverage.checked,
            elements: found.coverage.elements,
            found,
            dims: output.dims.to_vec(),
            shape,
        }
    }

    fn line(&self) -> String {
        if self.checked == 0 && self.elements > 0 {
            return "not checked: it needs every element of a large problem; `--check=all` computes them".to_owned();
        }
        let mut parts = Vec::new();
        match self.found.absolute {
            Some(absolute) if absolute.amount > 0.0 => {
                parts.push(format!("largest error {}", self.error(absolute)));
            }
            Some(_) => parts.push("largest error 0".to_owned()),
            None => {}
        }
        if let Some(relative) = self.found.relative.filter(|relative| relative.amount > 0.0) {
            parts.push(format!("relative {}", self.error(relative)));
        }
        if self.nan > 0 || self.expected_nan > 0 {
            parts.push(format!("{} nan, {} expected", self.nan, self.expected_nan));
        }
        parts.push(coverage(self.found.coverage));
        parts.join("; ")
    }

    fn error(&self, difference: Difference) -> String {
        let Difference { amount, at, got, want } = difference;
        let (amount, got, want) = (number(amount), number(got), number(want));
        format!("{amount} at {} (got {got}, want {want})", self.place(at))
    }

    /// An element by the names of its dims.
    fn place(&self, at: usize) -> String {
        let index = index(&self.shape, at);
        let named = self.dims.iter().zip(index).map(|(dim, at)| match dim {
            Dim::Name { name, .. } => format!("{}={at}", name.to_lowercase()),
            Dim::Size(_) => at.to_string(),
        });
        format!("[{}]", named.collect::<Vec<_>>().join(", "))
    }
}

/// The largest finite bound of an output, if it has one.
fn largest_bound(found: &Comparison) -> Option<f64> {
    (found.open == 0 || found.open < found.coverage.checked).then_some(found.bound)
}

/// What was looked at.
fn coverage(coverage: Coverage) -> String {
    let Coverage { checked, elements, rows, columns } = coverage;
    match elements {
        1 if coverage.is_whole() => return "checked".to_owned(),
        _ if coverage.is_whole() => return format!("all {elements} elements checked"),
        _ => {}
    }
    let part = |(checked, all): (usize, usize), what: &str| {
        if checked == all { format!("all {what}") } else { format!("{checked} of {all} {what}") }
    };
    let (rows, columns) = (part(rows, "rows"), part(columns, "columns"));
    format!("checked {rows}, {columns} ({checked} of {elements} elements; --check=all for all)")
}

/// The index of an element of a contiguous tensor.
fn index(shape: &[usize], at: usize) -> Vec<usize> {
    let mut rest = at;
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|size| {
            let place = rest % size.max(&1);
            rest /= size.max(&1);
            place
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use postlude::{Argument, Arguments, Bindings, DType, Kernel, Options, Sizes, Tensor};

    #[test]
    fn an_element_is_found_again() {
        assert_eq!(index(&[2, 3, 4], 23), [1, 2, 3]);
        assert_eq!(index(&[], 0), [0usize; 0]);
    }

    #[test]
    fn a_wrong_element_is_named_by_its_dims() {
        let kernel = Kernel::infer("D = A @ B", &Bindings::default()).unwrap();
        let compiled = kernel.compile(&Options::default());
        let ones = Tensor::from_values(DType::BF16, vec![2, 2], &[1.0; 4]).unwrap();
        let ones = |name: &str| (name.to_owned(), Argument::Tensor(ones.clone()));
        let arguments = Arguments::from([ones("A"), ones("B")]);
        let problem = compiled.bind(&arguments, &Sizes::new()).unwrap();
        let values = [2.0, f64::NAN, 2.5, 2.0];
        let wrong = Tensor::from_values(DType::BF16, vec![2, 2], &values).unwrap();
        let found = compiled.check(&problem, &arguments, &[wrong]).expect("it fits");
        let outputs = compiled.defined().results().into_iter().map(|output| (output, vec![2, 2]));
        let report = CheckReport::of(outputs, &found);
        assert_eq!(
            report.text(),
            "check FAILED: D[m=0, n=1] is inf bounds away; 2 of 4 elements are wrong\n\
             check D: largest error 0.5 at [m=1, n=0] (got 2.5, want 2); relative 0.25 at [m=1, n=0] (got 2.5, want 2); 1 nan, 0 expected; all 4 elements checked\n"
        );
    }

    #[test]
    fn a_sample_says_what_it_is() {
        let some = Coverage { checked: 640, elements: 10240, rows: (64, 1024), columns: (10, 10) };
        let text =
            "checked 64 of 1024 rows, all columns (640 of 10240 elements; --check=all for all)";
        assert_eq!(coverage(some), text);
        let all = Coverage { checked: 7, elements: 7, rows: (7, 7), columns: (1, 1) };
        assert_eq!(coverage(all), "all 7 elements checked");
    }
}
