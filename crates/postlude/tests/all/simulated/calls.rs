//! Calls that compute nothing, and calls that are wrong.

use postlude::sim::SimOptions;
use postlude::{Backend, DType, Options, Tensor};

use super::bound;
use super::problems::Layout;

#[test]
fn nothing_is_launched_for_nothing() {
    let bound = bound("plain", [1, 0, 8, 8], Layout::Packed);
    let compiled = bound.kernel.compile(&Options { backend: Backend::Sim, ..Options::default() });
    let mut outputs = compiled.outputs(&bound.problem).unwrap();
    let report = compiled
        .simulate(&bound.problem, &bound.arguments, &mut outputs, &SimOptions::default())
        .unwrap();
    assert_eq!((report.instructions, report.finished), (0, true));
}

#[test]
fn outputs_of_another_type_or_shape_are_refused() {
    let bound = bound("plain", [1, 8, 8, 8], Layout::Packed);
    let compiled = bound.kernel.compile(&Options { backend: Backend::Sim, ..Options::default() });
    for (dtype, shape, wanted) in [
        (DType::F32, vec![8, 8], "`D` is declared bf16, but f32 was given"),
        (DType::BF16, vec![8], "`D` is declared with 2 dims, but has 1"),
        (DType::BF16, vec![8, 9], "`D` has size 9 along `N`, which is 8"),
    ] {
        let mut outputs = [Tensor::zeros(dtype, shape).unwrap()];
        let error = compiled.run_into(&bound.problem, &bound.arguments, &mut outputs).unwrap_err();
        assert_eq!(error.summary(), wanted);
    }
}
