//! An expression on the reference and on the CPU, with `x` the accumulator.

use postlude::graph::Value;
use postlude::{Argument, Arguments, DType, Kernel, MathMode, Options, Sizes, Tensor};

/// The results of both engines for one element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) reference: Value,
    pub(crate) cpu: f64,
}

/// Along which dim the values of `x` lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Along {
    Rows,
    Columns,
}

/// The values of an expression, after statements if there are any. `x` is a product with 1, so the accumulator is it; `others` are the same everywhere.
pub(crate) fn run(
    expression: &str,
    math: MathMode,
    along: Along,
    x: &[f32],
    others: &[(&str, f32)],
) -> Vec<Outcome> {
    let declared: Vec<String> =
        others.iter().map(|(name, _)| format!(", {name}: f32[M]")).collect();
    let declared = declared.concat();
    let (statements, value) = expression.rsplit_once(';').unwrap_or(("", expression));
    let source = format!(
        "kernel k(A: f32[M, K], B: f32[K, N]{declared}) -> D: f32[M, N] {{ x = A @ B; {statements}; D = {value} }}"
    );
    let kernel = Kernel::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let points: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let (left, right) = match along {
        Along::Rows => ((vec![x.len(), 1], points), (vec![1, 1], vec![1.0])),
        Along::Columns => ((vec![1, 1], vec![1.0]), (vec![1, x.len()], points)),
    };
    let rows = left.0[0];
    let tensor = |shape: Vec<usize>, values: &[f64]| {
        Argument::Tensor(Tensor::from_values(DType::F32, shape, values).expect("a tensor"))
    };
    let mut arguments = Arguments::from([
        ("A".to_owned(), tensor(left.0, &left.1)),
        ("B".to_owned(), tensor(right.0, &right.1)),
    ]);
    for (name, value) in others {
        arguments.insert((*name).to_owned(), tensor(vec![rows], &vec![f64::from(*value); rows]));
    }
    on_both(&kernel, math, &arguments)
}

/// A body that ends in a value, on one row: `x` is the accumulator, `y` a vector along the columns, `t` the label.
pub(crate) fn run_row(body: &str, x: &[f32], y: &[f32], t: i32) -> Vec<Outcome> {
    let (statements, value) = body.rsplit_once(';').unwrap_or(("", body));
    let source = format!(
        "kernel k(A: f32[M, K], B: f32[K, N], y: f32[N], t: i32[M]) -> D: f32[M, N] {{ x = A @ B; {statements}; D = {value} }}"
    );
    let kernel = Kernel::parse(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
    let tensor = |dtype: DType, shape: Vec<usize>, values: &[f32]| {
        let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        Argument::Tensor(Tensor::from_values(dtype, shape, &values).expect("a tensor"))
    };
    let arguments = Arguments::from([
        ("A".to_owned(), tensor(DType::F32, vec![1, 1], &[1.0])),
        ("B".to_owned(), tensor(DType::F32, vec![1, x.len()], x)),
        ("y".to_owned(), tensor(DType::F32, vec![x.len()], y)),
        ("t".to_owned(), tensor(DType::I32, vec![1], &[t as f32])),
    ]);
    on_both(&kernel, MathMode::Default, &arguments)
}

/// The outcomes of a kernel's only output.
fn on_both(kernel: &Kernel, math: MathMode, arguments: &Arguments) -> Vec<Outcome> {
    let sizes = Sizes::new();
    let compiled = kernel.compile(&Options { math, threads: Some(1), ..Options::default() });
    let problem = compiled.bind(arguments, &sizes).expect("sizes that fit");
    let reference = compiled.evaluate(&problem, arguments).expect("it is bound").remove(0).values;
    let cpu = compiled.run(arguments, &sizes).expect("a run")[0].values();
    reference.into_iter().zip(cpu).map(|(reference, cpu)| Outcome { reference, cpu }).collect()
}

/// [`run`] with the default accuracy, `x` along the rows.
pub(crate) fn elementwise(expression: &str, x: &[f32], others: &[(&str, f32)]) -> Vec<Outcome> {
    run(expression, MathMode::Default, Along::Rows, x, others)
}
