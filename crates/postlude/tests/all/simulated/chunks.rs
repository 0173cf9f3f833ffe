//! Launches that are repeated for chunks of a dim, because what they store between them exceeds a limit.

use postlude::target::Chip;
use postlude::{Arguments, Backend, Compiled, Kernel, Options, Problem, Sizes};
use postlude_corpus::{Fill, fill, seed_for};

/// The backward pass of a cross entropy of many classes, with the log-sum-exp of the forward pass.
const BACKWARD: &str =
    "kernel k(X: bf16[M, K], W: bf16[V, K], target: i32[M], lse: f32[M], d: f32[M]) \
    -> (d_X: bf16[M, K], d_W: bf16[V, K]) {
    d_z = bf16((exp(X @ W.T - lse) - f32(col == target)) * d)
    d_X = d_z @ W
    d_W = d_z.T @ X
}";

/// Both passes.
const BOTH: &str = "kernel k(X: bf16[M, K], W: bf16[V, K], target: i32[M]) \
    -> (loss: f32[], d_X: bf16[M, K], d_W: bf16[V, K]) {
    z = X @ W.T
    lse = logsumexp(z, V)
    loss = mean(lse - pick(z, target))
    d_z = bf16((exp(z - lse) - f32(col == target)) / size(M))
    d_X = d_z @ W
    d_W = d_z.T @ X
}";

/// Two layers, whose hidden values are read by one product.
const LAYERS: &str = "kernel k(X: bf16[M, K], U: bf16[V, K], b: f32[V], W: bf16[N, V], R: bf16[M, N]) -> D: bf16[M, N] {
    hidden = bf16(where(row > col, relu(X @ U.T + b), 0.5))
    D = gelu(hidden @ W.T) + R
}";

/// Two layers beside a launch whose values are fewer than the dim has elements.
const FRACTION: &str =
    "kernel k(P: bf16[M, K], Q: bf16[V, K], X: bf16[M, K], U: bf16[V, K], W: bf16[N, V]) \
    -> (s: f32[M, V/16], D: bf16[M, N]) {
    s = absmax(P @ Q.T, V, 16)
    D = bf16(relu(X @ U.T)) @ W.T
}";

const SIZES: [(&str, usize); 4] = [("M", 70), ("N", 24), ("K", 64), ("V", 400)];

fn problem(compiled: &Compiled) -> Problem {
    let sizes = SIZES.iter().filter(|(dim, _)| {
        let inputs = compiled.defined().inputs().iter();
        inputs.flat_map(|input| input.dims.iter().flatten()).any(|own| own.to_string() == *dim)
    });
    let sizes: Sizes = sizes.map(|(dim, size)| ((*dim).to_owned(), *size)).collect();
    compiled.problem(&sizes).expect("it has these sizes")
}

fn arguments(compiled: &Compiled, problem: &Problem) -> Arguments<'static> {
    let classes = problem.sizes()["V"];
    let drawn = compiled.defined().passed_inputs().map(|input| {
        let kind = if input.name == "target" { Fill::Labels } else { Fill::Uniform };
        let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
        let tensor = fill(kind, input.dtype, &shape, classes, seed_for(3, &input.name));
        (input.name.clone(), tensor.expect("it fits").into())
    });
    drawn.collect()
}

/// Runs a kernel in the simulator with a limit, checks it, and says what is repeated.
fn chunks_of(source: &str, workspace: u64) -> Option<String> {
    let options =
        Options { backend: Backend::Sim, workspace: Some(workspace), ..Options::default() };
    let compiled = Kernel::parse(source).expect("it types").compile(&options);
    let problem = problem(&compiled);
    let arguments = arguments(&compiled, &problem);
    let mut outputs = compiled.outputs(&problem).expect("it has outputs");
    compiled.run_into(&problem, &arguments, &mut outputs).expect("the simulator runs it");
    for comparison in compiled.check(&problem, &arguments, &outputs).expect("it is compared") {
        assert_eq!(comparison.wrong, 0, "{source}\n{comparison:?}");
    }
    let chosen = compiled.chosen(&problem, Chip::STANDARD).expect("it is planned");
    let repetition = chosen.repetition()?;
    assert!(chosen.workspace().bytes <= workspace);
    Some(repetition)
}

#[test]
fn a_backward_pass_of_many_classes_is_run_in_chunks() {
    let chunks = chunks_of(BACKWARD, 30_000);
    let wanted = "`left_operand`, `d_X_sum`, `d_W`: repeated for 5 chunks of V, 80 each";
    assert_eq!(chunks.as_deref(), Some(wanted));
    assert_eq!(chunks_of(BACKWARD, 1_000_000), None);
    // Not even the sums fit: values between launches are stored whole.
    assert_eq!(chunks_of(BACKWARD, 10_000), None);
}

#[test]
fn statistics_of_whole_rows_are_finished_before_the_chunks() {
    let chunks = chunks_of(BOTH, 32_000);
    let wanted = "`left_operand`, `d_X_sum`, `d_W`: repeated for 5 chunks of V, 80 each";
    assert_eq!(chunks.as_deref(), Some(wanted));
}

#[test]
fn a_sum_over_chunks_meets_its_epilogue_after_the_last_one() {
    let chunks = chunks_of(LAYERS, 20_000).expect("it is repeated");
    assert!(chunks.contains("chunks of"), "{chunks}");
}

#[test]
fn chunks_need_no_sizes_of_launches_that_are_not_repeated() {
    let chunks = chunks_of(FRACTION, 15_000).expect("it is repeated");
    let size = chunks.rsplit(' ').nth(1).and_then(|size| size.parse::<usize>().ok());
    assert!(size.is_some_and(|size| size % 16 != 0), "{chunks}");
}
