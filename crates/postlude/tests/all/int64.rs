//! Labels, indices, ends and counts of int64: every engine reads the nearest i32, to the bit.

use postlude::sim::{self, SimOptions};
use postlude::{
    Argument, Arguments, Backend, Compiled, DType, Hooks, Kernel, Options, Outputs, Problem, Sizes,
    Tensor, TensorView,
};
use postlude_corpus::{Fill, fill};

/// Numbers that a kernel may be given, among them some whose low words are others.
const NUMBERS: [i64; 16] = [
    1,
    3,
    -100,
    0,
    (1 << 32) + 1,
    i64::MAX,
    2,
    i64::MIN,
    -1,
    i32::MAX as i64 + 1,
    4,
    -(1 << 40),
    2,
    i32::MIN as i64 - 1,
    1 << 40,
    5,
];

/// Numbers as a tensor of int64 or of the nearest i32: with a gap before each, so that strides count.
fn tensor(shape: &[usize], numbers: &[i64], dtype: DType) -> Tensor {
    let element = |number: &i64| match dtype {
        DType::I64 => number.to_le_bytes().repeat(2),
        _ => (*number).clamp(i32::MIN.into(), i32::MAX.into()).to_le_bytes()[..4].repeat(2),
    };
    let bytes = numbers.iter().flat_map(element).collect();
    let mut strides = vec![2; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim] * shape[dim] as isize;
    }
    Tensor::with_strides(dtype, shape, strides, 0, bytes).expect("a tensor")
}

fn sizes(given: &[(&str, usize)]) -> Sizes {
    given.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect()
}

/// Arguments of random floats, and of these numbers for every i32 input.
fn arguments(
    compiled: &Compiled,
    given: &[(&str, usize)],
    numbers: &[i64],
    dtype: DType,
) -> (Problem, Arguments<'static>) {
    let problem = Problem::new(compiled.defined(), &sizes(given)).expect("sizes of every dim");
    let mut arguments = Arguments::new();
    for input in compiled.defined().declared_inputs() {
        let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
        let count: usize = shape.iter().product();
        let tensor = if input.dtype == DType::I32 {
            let own: Vec<i64> = numbers.iter().copied().cycle().take(count).collect();
            tensor(&shape, &own, dtype)
        } else {
            fill(Fill::Normal, input.dtype, &shape, 0, 7).expect("a tensor")
        };
        arguments.insert(input.name.clone(), Argument::Tensor(tensor));
    }
    (problem, arguments)
}

fn bytes(outputs: Outputs) -> Vec<(String, Vec<u8>)> {
    outputs.into_iter().map(|(name, tensor)| (name, tensor.bytes().to_vec())).collect()
}

/// Runs a kernel on int64 and on i32 tensors of the same numbers on every engine; the first also against the reference.
fn agrees(text: &str, given: &[(&str, usize)], numbers: &[i64]) {
    for backend in [Backend::Cpu, Backend::Reference, Backend::Sim] {
        let hooks = Hooks { guard: backend == Backend::Sim, ..Hooks::default() };
        let options = Options { backend, hooks, ..Options::default() };
        let compiled = Kernel::parse(text).expect("a kernel").compile(&options);
        let run = |dtype| {
            let (problem, arguments) = arguments(&compiled, given, numbers, dtype);
            let outputs = compiled.run(&arguments, &sizes(given));
            let outputs = outputs.unwrap_or_else(|error| panic!("{text} on {backend:?}: {error}"));
            let tensors: Vec<Tensor> = outputs.iter().map(|(_, tensor)| tensor.clone()).collect();
            for found in compiled.check(&problem, &arguments, &tensors).expect("a comparison") {
                assert_eq!(found.wrong, 0, "{text} on {backend:?}");
            }
            bytes(outputs)
        };
        assert_eq!(run(DType::I64), run(DType::I32), "{text} on {backend:?}");
    }
}

const PICK: &str =
    "kernel k(A: bf16[M, K], W: bf16[N, K], t: i32[M]) -> (p: f32[M], G: bf16[M, N]) {
    z = A @ W.T
    p = where(t == -100, 0.0, logsumexp(z, N) - pick(z, t))
    G = softmax(z, N) - f32(col == t)
}";

#[test]
fn labels_are_picked_and_compared() {
    agrees(PICK, &[("M", 48), ("N", 24), ("K", 32)], &NUMBERS);
    agrees(PICK, &[("M", 130), ("N", 264), ("K", 64)], &NUMBERS);
    let columns =
        "kernel k(A: bf16[M, K], W: bf16[N, K], t: i32[N], u: i32[M, N]) -> D: bf16[M, N] {
        D = where((row < t) & (u != col), A @ W.T, 0.0)
    }";
    agrees(columns, &[("M", 48), ("N", 24), ("K", 32)], &NUMBERS);
    agrees(columns, &[("M", 40), ("N", 19), ("K", 16)], &NUMBERS);
    let halves = "kernel k(A: bf16[M, K], W: bf16[N, K], t: i32[M, N/2]) -> D: bf16[M, N/2] {
        g, u = halves(A @ W.T)
        D = where(t < 3, g, u)
    }";
    agrees(halves, &[("M", 48), ("N", 32), ("K", 32)], &NUMBERS);
}

#[test]
fn kernels_without_a_product_read_labels() {
    let rows = "kernel k(X: bf16[M, N], t: i32[M], c: i32[N], u: i32[M, N]) -> (p: f32[M], D: bf16[M, N]) {
        p = logsumexp(X, N) - pick(X, t)
        D = softmax(where((c < 4) & (u > -5), X, 0.0), N)
    }";
    for columns in [16, 64, 33] {
        agrees(rows, &[("M", 20), ("N", columns)], &NUMBERS);
    }
    let labels =
        "kernel k(X: bf16[M, N], t: i32[M]) -> p: f32[M] { p = logsumexp(X, N) - pick(X, t) }";
    agrees(labels, &[("M", 20), ("N", 2048)], &NUMBERS);
    let batches =
        "kernel k(X: f32[B, M, N], t: i32[B, M]) -> D: f32[B, M, N] { D = where(col < t, X, 0.0) }";
    agrees(batches, &[("B", 3), ("M", 5), ("N", 24)], &NUMBERS);
}

#[test]
fn rows_are_gathered_and_combined() {
    let tables = "kernel k(A: bf16[M, K], W: bf16[N, K], T: f32[V, N], v: f32[V], t: i32[M]) -> D: bf16[M, N] {
        D = A @ W.T + gather(T, t) + take(v, t)
    }";
    agrees(tables, &[("M", 48), ("N", 24), ("K", 32), ("V", 6)], &NUMBERS);
    let operand = "kernel k(X: bf16[S, K], W: bf16[N, K], t: i32[M]) -> D: f32[M, N] { D = gather(X, t) @ W.T }";
    agrees(operand, &[("M", 48), ("N", 24), ("K", 64), ("S", 6)], &NUMBERS);
    let combined = "kernel k(D: bf16[T, N], p: i32[S, 2], w: f32[S, 2]) -> Y: bf16[S, N] { Y = combine(D, p, w) }";
    agrees(combined, &[("T", 6), ("N", 32), ("S", 20)], &NUMBERS);
}

#[test]
fn rows_and_elements_are_scattered() {
    let rows = "kernel k(x: f32[T, N], t: i32[T]) -> D: f32[S, N] { D = scatter(x, t, S) }";
    agrees(rows, &[("T", 40), ("N", 16), ("S", 6)], &NUMBERS);
    let lists = "kernel k(x: f32[T, N], p: i32[T, 2], w: f32[T, 2]) -> D: f32[R, N] { D = scatter(x, p, R, w) }";
    agrees(lists, &[("T", 20), ("N", 16), ("R", 6)], &NUMBERS);
    let elements = "kernel k(x: f32[T], t: i32[T]) -> d: f32[V] { d = scatter(x, t, V) }";
    agrees(elements, &[("T", 40), ("V", 6)], &NUMBERS);
}

const GROUPED: &str =
    "kernel k(A: bf16[T, K], W: bf16[E, N, K], ends: i32[E], bias: f32[E, N]) -> D: bf16[T, N] {
    D = segments(A, ends) @ W.T + bias
}";
const CONTRACTED: &str = "kernel k(G: bf16[T, N], A: bf16[T, K], ends: i32[E]) -> D: f32[E, N, K] {
    D = segments(G, ends).T @ segments(A, ends)
}";
const MASKED: &str =
    "kernel k(A: bf16[E, C, K], W: bf16[E, N, K], count: i32[E]) -> D: bf16[E, C, N] {
    D = masked(A, count) @ W.T
}";
const SUMS: &str =
    "kernel k(A: bf16[T, K], ends: i32[E]) -> b: f32[E, K] { b = sum(segments(A, ends), T) }";

#[test]
fn ends_and_counts_are_read() {
    let given = [("T", 40), ("N", 32), ("K", 16), ("E", 4)];
    agrees(GROUPED, &given, &[3, 3, 20, 37]);
    agrees(CONTRACTED, &given, &[3, 3, 20, 37]);
    agrees(
        SUMS,
        &given[..1].iter().chain(&given[2..]).copied().collect::<Vec<_>>(),
        &[3, 3, 20, 37],
    );
    let given = [("C", 40), ("N", 32), ("K", 16), ("E", 6)];
    agrees(MASKED, &given, &[1 << 40, -1, 3, i64::MIN, (1 << 32) + 2, 40]);
    let gathered =
        "kernel k(X: bf16[S, K], index: i32[T], W: bf16[E, N, K], ends: i32[E]) -> D: bf16[T, N] {
        D = segments(gather(X, index), ends) @ W.T
    }";
    agrees(gathered, &[("S", 7), ("T", 5), ("N", 32), ("K", 64), ("E", 5)], &[0, 1, 2, 4, 5]);
}

#[test]
fn ends_beyond_the_rows_are_errors_that_give_them() {
    let compiled = Kernel::parse(GROUPED).expect("a kernel").compile(&Options::default());
    let given = [("T", 40), ("N", 32), ("K", 16), ("E", 4)];
    for (ends, message) in [
        ([3, 3, 20, 5_000_000_000], "element 3 of `ends` is 5000000000"),
        ([(1 << 32) + 3, 3, 20, 30], "element 0 of `ends` is 4294967299"),
        ([3, 2, 20, 23], "element 1 of `ends` is 2"),
    ] {
        let (_, arguments) = arguments(&compiled, &given, &ends, DType::I64);
        let error = compiled.run(&arguments, &Sizes::new()).expect_err("no ends");
        assert!(error.to_string().contains(message), "{error}");
    }
}

/// Runs a launch that was planned for proper ends with others, as a device may hold them.
fn run_with_ends(text: &str, ends: &[i64], dtype: DType) -> Vec<u8> {
    let options = Options { backend: Backend::Sim, ..Options::default() };
    let compiled = Kernel::parse(text).expect("a kernel").compile(&options);
    let given = [("T", 40), ("N", 32), ("K", 16), ("E", ends.len())];
    let known = postlude::problem::dim_names(compiled.defined());
    let given: Vec<_> = given.into_iter().filter(|(dim, _)| known.contains(dim)).collect();
    let (problem, arguments) = arguments(&compiled, &given, &[40], dtype);
    let outputs = compiled.outputs(&problem).expect("outputs");
    let call = compiled.simulated(&problem, &arguments, &outputs).expect("a call");
    let mut buffers = call.buffers().to_vec();
    let place = call.names().iter().position(|name| name == "ends").expect("ends");
    buffers[place] = tensor(&[ends.len()], ends, dtype).bytes().to_vec();
    let options = postlude_sim::Options {
        timing: SimOptions::default().timing,
        findings: true,
        budget: SimOptions::default().budget,
        regions: call.regions().to_vec(),
        outputs: Vec::new(),
    };
    let report = postlude_sim::run(call.text(), call.launch(), &mut buffers, &options);
    sim::accept(&report.expect("a launch")).expect("no findings");
    assert_eq!(call.text().contains("cvt.sat.s32.s64"), dtype == DType::I64);
    crate::lists::assemble(call.text());
    buffers.swap_remove(compiled.defined().inputs().len())
}

#[test]
fn ends_of_int64_on_a_device_are_clamped() {
    let wild = [5, i64::MIN, 30, (1 << 32) + 31, i64::MAX, 2];
    for text in [GROUPED, CONTRACTED, SUMS] {
        let tame = run_with_ends(text, &wild, DType::I32);
        assert!(run_with_ends(text, &wild, DType::I64) == tame, "{text}");
    }
}

#[test]
fn borrowed_numbers_of_rust_are_arguments() {
    let text = "kernel k(X: f32[M, N], t: i32[M]) -> p: f32[M] { p = pick(X, t) }";
    let x = [1.0_f32, 2.0, 3.0, 4.0];
    let labels = [1_i64, (1 << 32) + 1];
    let arguments = [
        ("X", TensorView::new(&x, [2, 2]).expect("a view")),
        ("t", TensorView::new(&labels, [2]).expect("a view")),
    ];
    let outputs = Kernel::parse(text).expect("a kernel").run(arguments).expect("a run");
    let values = outputs["p"].values();
    assert!(values[0] == 2.0 && values[1].is_nan(), "{values:?}");
}

#[test]
fn int64_that_is_computed_with_is_refused_with_the_cure() {
    let text = "kernel k(X: f32[M, N], t: i32[M]) -> D: f32[M, N] { D = X * t }";
    let compiled = Kernel::parse(text).expect("a kernel").compile(&Options::default());
    let given = [("M", 4), ("N", 2)];
    let (problem, arguments) = arguments(&compiled, &given, &[1], DType::I64);
    let error = compiled.run(&arguments, &Sizes::new()).expect_err("a product of numbers");
    assert!(
        error.to_string().contains("`t` is i32 and computed with, but int64 was given"),
        "{error}"
    );
    let fix = error.diagnostics()[0].fix().expect("a cure");
    assert!(fix.contains("convert the data to int32"), "{fix}");
    let prepared = compiled.prepare(&problem).expect("a plan");
    let inputs: Vec<Argument<'_>> = ["X", "t"].map(|name| arguments[name].borrowed()).into();
    let mut outputs = compiled.outputs(&problem).expect("outputs");
    let mut views: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
    let error = prepared.run(&inputs, &mut views).expect_err("a product of numbers");
    assert!(error.to_string().contains("`t` is i32 and computed with"), "{error}");
}

#[test]
fn indices_of_lists_are_int64() {
    let text =
        "kernel k(X: f32[B, M, N], t: i32[B, M]) -> D: f32[B, M, N] { D = where(col < t, X, 0.0) }";
    let run = |lists, dtype| {
        let hooks = Hooks { lists, guard: true, ..Hooks::default() };
        let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
        let compiled = Kernel::parse(text).expect("a kernel").compile(&options);
        let given = [("B", 3), ("M", 5), ("N", 24)];
        let (_, arguments) = arguments(&compiled, &given, &NUMBERS, dtype);
        bytes(compiled.run(&arguments, &Sizes::new()).expect("a run"))
    };
    assert_eq!(run(true, DType::I64), run(false, DType::I32));
}
