//! Batches that are lists of tensors: kernels that look their tensors up compute what those of stacked tensors do, to the
//! bit, whatever reads or writes a list.

use std::io::Write;
use std::process::Command;

use postlude::{Argument, Arguments, Backend, Hooks, Kernel, Options, Problem, Sizes, Tensor};
use postlude_corpus::Random;

/// Assembles a kernel, where there is an assembler.
pub(crate) fn assemble(text: &str) {
    let Some(ptxas) = std::env::var_os("PTXAS") else { return };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let arguments = ["-arch", "sm_90a", "-v", "-o", "/dev/null"];
    let output = Command::new(ptxas).args(arguments).arg(file.path()).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && log.contains("0 bytes spill stores"), "{log}");
}

/// Simulates a kernel on stacked tensors and on lists; ends of segments rise to the number of rows.
fn compare(text: &str, sizes: &[(&str, usize)]) -> (Kernel, Problem, Arguments<'static>) {
    let kernel = Kernel::parse(text).unwrap();
    let sizes: Sizes = sizes.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
    let reference = kernel.compile(&Options::default());
    let problem = reference.problem(&sizes).unwrap();
    let mut random = Random::new(7);
    let mut arguments = Arguments::new();
    for input in reference.defined().inputs().iter().filter(|input| input.is_passed()) {
        let Some(dims) = &input.dims else {
            arguments.insert(input.name.clone(), Argument::Scalar(2.0));
            continue;
        };
        let shape = problem.shape(dims);
        let count: usize = shape.iter().product();
        let least = if input.dtype.name().starts_with('u') { 0 } else { -3 };
        let value = |place: usize, random: &mut Random| match input.name.as_str() {
            "ends" => (place as f64 + 1.0) * problem.rows() as f64 / count as f64,
            _ => (random.below(7) as i64 + least) as f64,
        };
        let values: Vec<f64> = (0..count).map(|place| value(place, &mut random)).collect();
        let tensor = Tensor::from_values(input.dtype, shape, &values).unwrap();
        arguments.insert(input.name.clone(), tensor.into());
    }
    let simulated = |lists: bool| {
        let hooks = Hooks { lists, guard: true, ..Hooks::default() };
        let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
        let compiled = kernel.compile(&options);
        compiled.run(&arguments, &Sizes::new()).unwrap_or_else(|error| panic!("{text}: {error}"))
    };
    let (stacked, listed) = (simulated(false), simulated(true));
    assert_eq!(listed, stacked, "{text}");
    let outputs: Vec<Tensor> = listed.into_iter().map(|(_, tensor)| tensor).collect();
    for found in reference.check(&problem, &arguments, &outputs).unwrap() {
        assert_eq!(found.wrong, 0, "{text}");
    }
    (kernel, problem, arguments)
}

/// The same, where the kernel is one launch, whose code looks tensors up.
fn run(text: &str, sizes: &[(&str, usize)]) {
    let (kernel, problem, arguments) = compare(text, sizes);
    let hooks = Hooks { lists: true, ..Hooks::default() };
    let options = Options { backend: Backend::Sim, hooks, ..Options::default() };
    let outputs = kernel.compile(&Options::default()).outputs(&problem).unwrap();
    let call = kernel.compile(&options).simulated(&problem, &arguments, &outputs).unwrap();
    assert!(call.text().contains("_list"), "{text}");
    assemble(call.text());
}

#[test]
fn operands_tiles_vectors_and_outputs_are_lists() {
    let text = "kernel k(A: bf16[B, M, K], W: bf16[B, N, K], C: bf16[B, M, N], bias: f32[B, N]) -> (D: bf16[B, M, N], r: f32[B, M]) {
        D = relu(A @ W.T + C + bias)
        r = max(D, N)
    }";
    run(text, &[("B", 4), ("M", 72), ("N", 80), ("K", 64)]);
    run(text, &[("B", 2), ("M", 5), ("N", 16), ("K", 16)]);
}

#[test]
fn lists_are_read_however_they_lie() {
    let transposed =
        "kernel k(A: f16[B, K, M], W: f16[B, K, N]) -> D: f32[B, M, N] { D = A.T @ W }";
    run(transposed, &[("B", 3), ("M", 64), ("N", 64), ("K", 40)]);
    let odd = "kernel k(A: bf16[B, M, K], W: bf16[N, K], C: f32[B, M, N]) -> D: f32[B, M, N] { D = A @ W.T * C }";
    run(odd, &[("B", 3), ("M", 20), ("N", 17), ("K", 23)]);
    let wide = "kernel k(A: f32[B, M, K], W: f32[B, N, K]) -> D: f32[B, M, N] { D = A @ W.T }";
    run(wide, &[("B", 3), ("M", 33), ("N", 24), ("K", 20)]);
    run(wide, &[("B", 3), ("M", 33), ("N", 24), ("K", 21)]);
    let bytes = "kernel k(A: i8[B, M, K], W: i8[B, N, K]) -> D: i32[B, M, N] { D = A @ W.T }";
    run(bytes, &[("B", 3), ("M", 33), ("N", 24), ("K", 48)]);
}

#[test]
fn lists_number_one_of_several_batch_dims() {
    let heads = "kernel k(A: bf16[B, H, M, K], W: bf16[B, H, N, K], C: bf16[B, H, M, N], bias: f32[H, N], s: f32[B]) -> (D: bf16[B, H, M, N], r: f32[B, H, M]) {
        D = relu(A @ W.T * s + C + bias)
        r = max(D, N)
    }";
    run(heads, &[("B", 3), ("H", 2), ("M", 72), ("N", 80), ("K", 64)]);
    run(heads, &[("B", 2), ("H", 3), ("M", 5), ("N", 16), ("K", 16)]);
    let shared = "kernel k(A: f16[B, H, M, K], W: f16[B, N, K], V: f32[H, M, N]) -> D: f32[H, B, M, N] { D = A @ W.T * V }";
    run(shared, &[("B", 3), ("H", 4), ("M", 33), ("N", 24), ("K", 21)]);
}

#[test]
fn experts_are_lists() {
    let text = "kernel k(A: bf16[M, K], W: bf16[E, N, K], ends: i32[E], bias: f32[E, N]) -> D: bf16[M, N] { D = silu(segments(A, ends) @ W.T + bias) }";
    run(text, &[("E", 4), ("M", 96), ("N", 64), ("K", 64)]);
    let text = "kernel k(G: bf16[M, N], A: bf16[M, K], ends: i32[E]) -> W: f32[E, N, K] { W = segments(G, ends).T @ segments(A, ends) }";
    run(text, &[("E", 4), ("M", 96), ("N", 64), ("K", 64)]);
    let text = "kernel k(A: bf16[M, K], W: i8[E, N, K], s: f32[E, N], ends: i32[E]) -> D: bf16[M, N] { D = segments(A, ends) @ bf16(f32(W) * s).T }";
    run(text, &[("E", 4), ("M", 96), ("N", 64), ("K", 128)]);
}

#[test]
fn kernels_without_a_product_take_lists() {
    let text = "kernel k(A: bf16[B, M, N], s: f32[B, N]) -> D: bf16[B, M, N] { D = softmax(f32(A) * s, N) }";
    run(text, &[("B", 3), ("M", 10), ("N", 64)]);
    let text =
        "kernel k(A: bf16[B, M, N], C: f32[B, M, N]) -> (D: f32[B, M, N], q: f32[B, N]) { D = A + C
 q = sum(D, M) }";
    run(text, &[("B", 3), ("M", 10), ("N", 33)]);
}

#[test]
fn several_products_and_launches_take_lists() {
    let gated = "kernel k(A: bf16[B, M, K], W: bf16[B, N, K], V: bf16[B, N, K]) -> D: bf16[B, M, N] { D = silu(A @ W.T) * (A @ V.T) }";
    run(gated, &[("B", 3), ("M", 40), ("N", 64), ("K", 64)]);
    let normed = "kernel k(A: bf16[B, M, K], W: bf16[B, N, K]) -> D: f32[B, M, N] { z = A @ W.T
 D = z / sum(z * z, M) }";
    compare(normed, &[("B", 3), ("M", 40), ("N", 64), ("K", 64)]);
}
