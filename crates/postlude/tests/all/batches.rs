//! Several batch dims and one tensor under two names, through the Rust interface: strides that are no one stride, calls
//! that pass a tensor once, and what is wrong with others.

use postlude::build::KernelBuilder;
use postlude::dtype::DType::{BF16, F32};
use postlude::{
    Argument, Arguments, Backend, Kernel, Options, Sizes, Tensor, TensorView, TensorViewMut,
};

const HEADS: &str = "kernel heads(A: bf16[B, H, M, K], W: bf16[H, N, K], C: f32[B, M, N]) -> (D: f32[B, H, M, N], r: f32[B, H, M]) {
    D = A @ W.T + C
    r = max(D, N)
}";

/// Small whole numbers as a tensor of this shape, which lies in memory in this order of dims.
fn numbers(dtype: postlude::DType, shape: &[usize], order: &[usize]) -> Tensor {
    let inner: Vec<usize> = order.iter().map(|dim| shape[*dim]).collect();
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|at| ((at * 7) % 9) as f64 - 4.0).collect();
    let packed = Tensor::from_values(dtype, inner, &values).unwrap();
    let mut strides = vec![0; shape.len()];
    let mut apart = 1;
    for dim in order.iter().rev() {
        strides[*dim] = apart;
        apart *= shape[*dim] as isize;
    }
    Tensor::with_strides(dtype, shape, &strides, 0, packed.bytes().to_vec()).unwrap()
}

/// Heads between rows and columns in memory, as a projection leaves them.
#[test]
fn batch_strides_are_free() {
    let kernel = Kernel::parse(HEADS).unwrap();
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [1, 0, 2, 3], [2, 0, 1, 3], [0, 1, 3, 2]] {
        let arguments = Arguments::from([
            ("A".to_owned(), Argument::Tensor(numbers(BF16, &[2, 3, 17, 16], &order))),
            ("W".to_owned(), Argument::Tensor(numbers(BF16, &[3, 24, 16], &[1, 0, 2]))),
            ("C".to_owned(), Argument::Tensor(numbers(F32, &[2, 17, 24], &[1, 0, 2]))),
        ]);
        let run = |backend| {
            let compiled = kernel.compile(&Options { backend, ..Options::default() });
            compiled.run(&arguments, &Sizes::new()).unwrap()
        };
        let (reference, cpu, sim) = (run(Backend::Reference), run(Backend::Cpu), run(Backend::Sim));
        assert_eq!(cpu, reference, "{order:?}");
        assert_eq!(sim, reference, "{order:?}");
    }
}

#[test]
fn a_tensor_with_two_names_is_passed_once() {
    let k = KernelBuilder::new("gram");
    let a = k.input("A", F32, ["M", "K"]);
    let b = k.input_as("B", F32, ["N", "K"], "A");
    let alpha = k.scalar("alpha", F32);
    k.output("D", F32, ["M", "N"], alpha * a.matmul(b.t()));
    let kernel = Kernel::from_ast(k.finish()).unwrap();
    let compiled = kernel.compile(&Options::default());
    let sizes = Sizes::from([("M".to_owned(), 2), ("K".to_owned(), 2)]);
    let prepared = compiled.prepare(&compiled.problem(&sizes).unwrap()).unwrap();
    let (a, mut d) = ([1.0f32, 2.0, 3.0, 4.0], [0.0f32; 4]);
    let view = TensorView::new(&a, [2, 2]).unwrap();
    let mut out = [TensorViewMut::new(&mut d, [2, 2]).unwrap()];
    prepared.run(&[view.into(), Argument::Scalar(2.0)], &mut out).unwrap();
    let twice = prepared.run(&[view.into(), view.into(), Argument::Scalar(2.0)], &mut out);
    assert_eq!(twice.unwrap_err().summary(), "the kernel takes 2 inputs, and 3 were given");
    assert_eq!(d, [10.0, 22.0, 22.0, 50.0]);
}

#[test]
fn the_second_name_is_not_passed() {
    let text = "kernel gram(A: f32[M, K], B: f32[N, K] = A) -> D: f32[M, N] { D = A @ B.T }";
    let kernel = Kernel::parse(text).unwrap();
    let tensor = || Argument::Tensor(numbers(F32, &[3, 2], &[0, 1]));
    let given = |names: &[&str]| -> Arguments<'static> {
        names.iter().map(|name| ((*name).to_owned(), tensor())).collect()
    };
    let compiled = kernel.compile(&Options::default());
    let summary = |names: &[&str]| {
        let run = compiled.run(&given(names), &Sizes::new());
        run.err().map(|error| error.summary())
    };
    assert_eq!(summary(&["A"]), None);
    let twice = Some("`B` is `A` under other dims, and is not passed itself".to_owned());
    assert_eq!(summary(&["A", "B"]), twice);
    assert_eq!(summary(&["B"]), twice);
    assert_eq!(summary(&[]), Some("input `A` is missing".to_owned()));
    let sizes =
        Sizes::from([("M", 3), ("N", 4), ("K", 2)].map(|(dim, size)| (dim.to_owned(), size)));
    let error = compiled.problem(&sizes).unwrap_err();
    assert_eq!(error.summary(), "`B` has size 3 along `N`, which is 4");
}
