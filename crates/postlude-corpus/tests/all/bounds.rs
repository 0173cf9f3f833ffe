//! A bound that allows everything proves nothing: the reference's enclosures have to be closed almost everywhere.

use std::path::Path;

use postlude::graph::Value;
use postlude::{Backend, Options};
use postlude_corpus::{Case, bind, compile, read_folder};

/// Whether any large number, or both numbers and nan, would pass.
fn is_open(value: &Value) -> bool {
    let mixed = value.nan && !value.is_only_nan();
    let unbounded = !value.is_exact() && (value.low.is_infinite() || value.high.is_infinite());
    mixed || unbounded
}

/// Open and all elements of a case's outputs.
fn count(case: &Case) -> (usize, usize) {
    let options = Options { backend: Backend::Reference, math: case.math, ..Options::default() };
    let bound = compile(case, &options).map(|compiled| {
        let (problem, arguments) = bind(case, &compiled, None).expect("the case binds");
        compiled.evaluate(&problem, &arguments).expect("it is bound")
    });
    let outputs = bound.unwrap_or_else(|error| panic!("{}: {error}", case.place()));
    let values = || outputs.iter().flat_map(|output| &output.values);
    (values().filter(|value| is_open(value)).count(), values().count())
}

#[test]
fn almost_every_enclosure_is_closed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let cases = read_folder(&folder).unwrap_or_else(|error| panic!("{error}"));
    let mut together = (0, 0);
    for case in cases.iter().filter(|case| !case.expects_error()) {
        let (open, all) = count(case);
        // A hand-written case may be about the one element that overflows.
        assert!(open <= 1 + all / 20, "{}: {open} of {all} are open", case.place());
        together = (together.0 + open, together.1 + all);
    }
    assert!(together.0 * 1000 < together.1, "{} of {} are open", together.0, together.1);
}
