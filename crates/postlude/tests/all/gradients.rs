//! Derived kernels against differences of the kernels that they are derived from.
//!
//! Every kernel of the library is written in f32, so that differences are not lost in rounding. A random direction in the
//! inputs and random cotangents of the outputs make one number of all derivatives: `<c, (f(x + h v) - f(x - h v)) / 2h>`
//! has to be `<grad, v>`.

mod arrays;
mod draw;
mod functions;
mod interpreter;
mod jet;
mod random;

use std::collections::BTreeMap;

use postlude::problem::dim_names;
use postlude::{Argument, Arguments, DType, Kernel, Options, Problem, Save, Sizes, Tensor};

use crate::library::sources;

/// Half of the distance of the two points.
const STEP: f64 = 1.0 / 1024.0;

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    /// In 0..1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The same text, all of whose floats are f32.
fn in_f32(text: &str) -> String {
    let floats = ["bf16", "f16", "tf32", "f8e4m3", "f8e5m2", "f8e8m0"];
    let mut out = String::new();
    let mut word = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_alphanumeric() || letter == '_' {
            word.push(letter);
            continue;
        }
        out.push_str(if floats.contains(&word.as_str()) { "f32" } else { &word });
        word.clear();
        out.push(letter);
    }
    out
}

/// Sizes that the kernel takes, the smallest of a few.
fn sizes_of(kernel: &Kernel) -> Option<(Problem, Sizes)> {
    let compiled = kernel.compile(&Options::default());
    let names = dim_names(compiled.defined());
    let is_split = names.contains(&"KV");
    [16, 32, 64, 128, 256].into_iter().find_map(|size| {
        let named = names.iter().filter(|dim| **dim != "N" || !is_split);
        let sizes: Sizes = named.map(|dim| ((*dim).to_owned(), size)).collect();
        Problem::new(compiled.defined(), &sizes).ok().map(|problem| (problem, sizes))
    })
}

/// What a call passes: tensors, and numbers of the host.
#[derive(Clone, Default)]
struct Given {
    tensors: BTreeMap<String, Tensor>,
    numbers: BTreeMap<String, f64>,
}

impl Given {
    fn drawn(kernel: &Kernel, problem: &Problem, draw: &mut Draw) -> Given {
        let mut given = Given::default();
        for input in kernel.defined().passed_inputs() {
            let Some(dims) = &input.dims else {
                let value = if input.dtype == DType::I32 { 3.0 } else { 0.5 };
                given.numbers.insert(input.name.clone(), value);
                continue;
            };
            let shape = problem.shape(dims);
            let count: usize = shape.iter().product();
            // Vectors and second moments are positive: they are divided by, or their roots taken.
            let positive = dims.len() < 2 || input.name == "second";
            let mut value = || match input.dtype {
                DType::F32 if positive => 0.25 + draw.next(),
                DType::F32 => 1.5 * (draw.next() - 0.5),
                DType::Bool | DType::B1 => f64::from(u8::from(draw.next() < 0.5)),
                _ => (draw.next() * 4.0).floor(),
            };
            let mut values: Vec<f64> = (0..count).map(|_| value()).collect();
            if let Some(rows) = kernel.defined().segment_rows(&input.name) {
                // The first segment has no rows, and the last row is in none.
                let rows = problem.shape(&[rows])[0];
                let end = |place: usize| (place * rows.saturating_sub(1) / count.max(2)) as f64;
                values = (0..count).map(end).collect();
            }
            let tensor = Tensor::from_values(input.dtype, shape, &values).expect("it fits");
            given.tensors.insert(input.name.clone(), tensor);
        }
        given
    }

    fn arguments(&self) -> Arguments<'_> {
        let tensors = self.tensors.iter().map(|(name, tensor)| (name.clone(), tensor.into()));
        let numbers =
            self.numbers.iter().map(|(name, number)| (name.clone(), Argument::Scalar(*number)));
        tensors.chain(numbers).collect()
    }

    fn run(&self, kernel: &Kernel, sizes: &Sizes) -> BTreeMap<String, Tensor> {
        let compiled = kernel.compile(&Options::default());
        let known = dim_names(compiled.defined());
        let sizes = sizes.iter().filter(|(dim, _)| known.contains(&dim.as_str()));
        let sizes = sizes.map(|(dim, size)| (dim.clone(), *size)).collect();
        let outputs = compiled.run(&self.arguments(), &sizes);
        outputs.unwrap_or_else(|error| panic!("{}: {error}", kernel.name())).into_iter().collect()
    }

    /// The same with some tensors moved along a direction.
    fn moved(&self, along: &BTreeMap<String, Tensor>, by: f64) -> Given {
        let mut moved = self.clone();
        for (name, direction) in along {
            let own = &self.tensors[name];
            let (from, to) = (own.values(), direction.values());
            let values = from.iter().zip(to).map(|(x, v)| x + by * v);
            let values: Vec<f64> = values.collect();
            let tensor = Tensor::from_values(own.dtype(), own.shape(), &values).expect("it fits");
            moved.tensors.insert(name.clone(), tensor);
        }
        moved
    }
}

/// The sum of products; what is masked to infinity stays there.
fn inner(a: &Tensor, b: &Tensor) -> f64 {
    let products = a.values().into_iter().zip(b.values()).map(|(a, b)| a * b);
    products.filter(|product| product.is_finite()).sum()
}

/// What both say about a kernel: differences, the derived kernel, and how large its terms are.
fn compare(kernel: &Kernel, save: Save, seed: u64) -> Option<(f64, f64, f64)> {
    let derived = kernel.grad(&[], save).ok()?;
    let text = |text: &str| Kernel::parse(text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    let (forward, backward) = (text(&derived.forward), text(&derived.backward));
    let (problem, sizes) = sizes_of(kernel).unwrap_or_else(|| panic!("{}", kernel.name()));
    let mut draw = Draw(seed);
    let given = Given::drawn(kernel, &problem, &mut draw);
    let mut signs = |of: &Tensor| {
        let values: Vec<f64> = of.values().iter().map(|_| 2.0 * draw.next() - 1.0).collect();
        Tensor::from_values(DType::F32, of.shape(), &values).expect("it fits")
    };
    let outputs = given.run(&forward, &sizes);
    let directions: BTreeMap<String, Tensor> = derived
        .gradients
        .iter()
        .map(|(input, _)| (input.clone(), signs(&given.tensors[input])))
        .collect();
    let cotangents: BTreeMap<String, Tensor> = derived
        .cotangents
        .iter()
        .map(|(output, _)| (output.clone(), signs(&outputs[output])))
        .collect();
    let at = |by: f64| {
        let outputs = given.moved(&directions, by).run(kernel, &sizes);
        cotangents.iter().map(|(name, c)| inner(c, &outputs[name])).sum::<f64>()
    };
    let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
    let mut asked = Given { tensors: BTreeMap::new(), numbers: given.numbers.clone() };
    for input in backward.defined().passed_inputs() {
        let of = derived.cotangents.iter().find(|(_, cotangent)| *cotangent == input.name);
        let tensor = match of {
            Some((output, _)) => Some(&cotangents[output]),
            None => given.tensors.get(&input.name).or_else(|| outputs.get(&input.name)),
        };
        if let Some(tensor) = tensor {
            asked.tensors.insert(input.name.clone(), tensor.clone());
        }
    }
    let read: Vec<&str> =
        backward.defined().passed_inputs().map(|input| input.name.as_str()).collect();
    asked.numbers.retain(|name, _| read.contains(&name.as_str()));
    let gradients = asked.run(&backward, &sizes);
    let (mut total, mut size) = (0.0, 0.0);
    for (input, gradient) in &derived.gradients {
        let term = inner(&gradients[gradient], &directions[input]);
        total += term;
        size += term.abs();
    }
    Some((difference, total, size))
}

/// Kernels whose values jump or bend between any two points: they round, keep the largest alone, or weigh what they choose
/// by other numbers.
const UNEVEN: &[&str] = &[
    "deepseek_grouped_router",
    "deepseek_router",
    "fp8_row_column_quantise",
    "lincomb_topk_softmax",
    "smoothquant",
];

/// Kernels that are not differentiated: they give integers, take what has no derivative, or multiply parts of tensors.
const WITHOUT: &[&str] = &[
    "geglu_backward",
    "gram",
    "gumbel_token",
    "gumbel_token_philox",
    "pairwise_distances",
    "quantise_i8",
    "quantise_u8",
    "reglu_backward",
    "swiglu_backward",
    "swiglu_interleaved_backward",
    "target_rank",
    "target_rank_scored",
    "u8_product",
    "w8a8_requantise",
];

#[test]
fn derived_kernels_agree_with_differences() {
    let mut without = Vec::new();
    let mut wrong = Vec::new();
    for (name, source) in sources().into_iter().filter(|(name, _)| !UNEVEN.contains(&&**name)) {
        // Casts that round by random bits have no f32 form.
        let Ok(kernel) = Kernel::parse(&in_f32(&source)) else { continue };
        for save in [Save::Nothing, Save::Products] {
            if kernel.grad(&[], save).is_err() {
                without.push(name.clone());
                break;
            }
            // What bends inside of the step is seen at another place.
            let near = [7, 8, 9].into_iter().any(|seed| {
                compare(&kernel, save, seed).is_some_and(|(difference, total, size)| {
                    let bound = 0.02 * difference.abs().max(total.abs()) + 0.002 * size + 1e-3;
                    (difference - total).abs() <= bound
                })
            });
            if !near {
                wrong.push(format!("{name} {save:?}: {:?}", compare(&kernel, save, 7)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{without:?}", wrong.join("\n"));
    assert_eq!(without, WITHOUT);
}

/// Forms that the library does not have: bodies on `A: f32[M, K]` and `W: f32[N, K]`, with further inputs and outputs.
const FORMS: &[(&str, &str, &str)] = &[
    (", s: f32[M]", "D: f32[M, N/4]", "D = sum(tanh(A @ W.T) + s, N, 4)"),
    (", b: f32[N/4]", "D: f32[M, N/8]", "D = sum(tanh(A @ W.T) + b, N, 8)"),
    (", b: f32[N/4]", "D: f32[M, N/4]", "D = sum(tanh(A @ W.T) * b, N, 4)"),
    ("", "D: f32[M, N/4]", "D = sum(log_softmax(A @ W.T, N), N, 4)"),
    ("", "D: f32[M, N/4]", "D = sum(layer_norm(A @ W.T, N, 1e-3), N, 4)"),
    ("", "D: f32[M]", "D = sum(dropout(A @ W.T, 0.5, 7, 0), N)"),
    ("", "D: f32[N, M]", "D = gelu(A @ W.T)"),
    (", x: f32[M, N]", "D: f32[M, N/4]", "z = mean(x, N, 4); D = z + mean(A @ W.T, N, 4)"),
    ("", "D: f32[M, N]", "z = A @ W.T; D = where(z > 0, square(A @ W.T), 0.5 * z)"),
    ("", "D: f32[]", "D = mean(square(A @ W.T))"),
    (", b: f32[N]", "D: f32[M, N]", "D = clamp(A @ W.T, -0.25, b)"),
    (", V: f32[P, N]", "(D: f32[M, P], H: f32[M, N])", "H = silu(A @ W.T); D = H @ V.T"),
    ("", "D: f32[M, N]", "a, b = halves(A @ W.T); D = concat(a * b, b)"),
    ("", "D: f32[M, N/2]", "a, b = pairs(A @ W.T, 8); D = a * sigmoid(b)"),
    ("", "D: f32[M]", "D = prod(1.0 + 0.1 * (A @ W.T), N)"),
    ("", "D: f32[M, N]", "D = A @ W.T * rsqrt(size(K))"),
    ("", "D: f32[M, N]", "D = tanh(A @ W.T / size(K))"),
    (", t: i32[M]", "D: f32[M]", "D = pick(A @ W.T, t)"),
    ("", "D: f32[M, N/2]", "g, u = halves(A @ W.T); D = g + u"),
    (
        ", f: f32[N/2]",
        "D: f32[M, N]",
        "a, b = pairs(A @ W.T); c = cos(0.1 * f32(row) * f); D = join(a * c, b * c)",
    ),
    (
        ", V: f32[E, P, K], b: f32[E, P], w: f32[M], e: i32[E]",
        "D: f32[M, P]",
        "D = w * gelu(segments(A, e) @ V.T + b)",
    ),
    (
        ", V: f32[E, P, K], s: f32[E], e: i32[E]",
        "D: f32[M, P]",
        "D = s * square(segments(tanh(A), e) @ V.T)",
    ),
    (
        ", V: f32[E, P, K], b: f32[P], e: i32[E]",
        "D: f32[M]",
        "D = sum(segments(A, e) @ V.T + b, P)",
    ),
    (
        ", V: f32[E, P, K], U: f32[E, Q, P], b: f32[E, P], e: i32[E]",
        "D: f32[M, Q]",
        "h = silu(segments(A, e) @ V.T + b); D = segments(h, e) @ U.T",
    ),
    ("", "(q: f32[M, Q], k: f32[M, KV])", "q, k, v = split(A @ W.T, [Q, KV, KV])"),
    ("", "D: f32[M, N]", "q, k, v = split(A @ W.T, [Q, KV, KV]); D = concat(tanh(q), k * v, v)"),
    (
        "",
        "s: f32[M]",
        "q, k, v = split(A @ W.T, [Q, KV, KV]); s = sum(square(q), Q) + max(k * v, KV)",
    ),
    (
        ", X: f32[E, C, K], V: f32[E, P, K], count: i32[E]",
        "D: f32[E, C, P]",
        "D = tanh(masked(X, count) @ V.T)",
    ),
    (", X: f32[E, C, K], count: i32[E]", "D: f32[E, C, K]", "D = square(masked(tanh(X), count))"),
    (", G: f32[M, P], e: i32[E]", "D: f32[E, P, K]", "D = tanh(segments(G, e).T @ segments(A, e))"),
    (", G: f32[M, P], e: i32[E]", "D: f32[E, P]", "D = tanh(sum(segments(tanh(G), e), M))"),
    (
        ", V: f32[E, P, K], e: i32[E]",
        "(D: f32[E, P], m: f32[])",
        "z = segments(A, e) @ V.T; D = max(z, M); m = max(z)",
    ),
    (", s: f32[N]", "D: f32[M, N]", "D = leaky_relu(A @ W.T, s)"),
    (", s: f32[N]", "D: f32[M, N]", "D = elu(A @ W.T, s) + softplus(A @ W.T, s)"),
    (
        ", s: f32[N], t: f32[M]",
        "D: f32[M, N]",
        "D = snake(A @ W.T, s) + threshold(A @ W.T, 0.1, t)",
    ),
    (", s: f32[N]", "D: f32[M, N]", "D = square(fmod(A @ W.T, 1.0 + s))"),
    (", v: f32[V], i: i32[M]", "D: f32[M, N]", "D = A @ W.T * take(v, i)"),
    (", v: f32[V], i: i32[M, N]", "D: f32[M, N]", "D = tanh(A @ W.T) * take(v, i)"),
    ("", "D: f32[M, 4]", "v, i = topk(tanh(A @ W.T), 4, N); D = square(v)"),
    ("", "D: f32[M]", "v, i = topk(A @ W.T, 3, N); D = sum(v, 3) * max(v, 3)"),
    (
        ", b: f32[N]",
        "D: f32[M, 2]",
        "c, e = topk(sigmoid(A @ W.T) + 4 * f32(col) + b, 2, N); s = c - take(b, e); D = s / sum(s, 2)",
    ),
    (
        ", v: f32[V]",
        "D: f32[M, 2]",
        "x, i = topk(A @ W.T + 4 * f32(col), 2, N); D = x * take(v, i)",
    ),
    (", i: i32[T]", "D: f32[T, N]", "D = square(gather(A @ W.T, i))"),
    (", i: i32[T], b: f32[T]", "D: f32[T]", "D = sum(gather(A, i) * b, K)"),
    (", p: i32[T, 2], w: f32[T, 2]", "D: f32[T, N]", "z = tanh(A @ W.T); D = combine(z, p, w)"),
    (", i: i32[M]", "D: f32[S, N]", "D = tanh(scatter(A @ W.T, i, S))"),
    (
        ", Q: f32[B, H, M, K], b: f32[H, N], s: f32[B]",
        "D: f32[B, H, M, N]",
        "D = tanh(s * (Q @ W.T) + b)",
    ),
    (", Q: f32[B, H, M, K], Y: f32[B, N, K]", "D: f32[B, H, M, N]", "D = tanh(Q @ Y.T)"),
    (", Q: f32[B, H, M, K]", "D: f32[H, N]", "D = logsumexp(Q @ W.T, B, M)"),
    (
        ", b: f32[N], c: f32[M]",
        "D: f32[M, N/2]",
        "p, r = halves(where(b > 0.6, c, 0.5 * c)); q, s = halves(A @ W.T); D = relu(p) + q",
    ),
    (
        ", b: f32[N], c: f32[M]",
        "D: f32[M, N/2]",
        "p, r = pairs(b * c); q, s = halves(A @ W.T); D = p * q + s * sum(r, M)",
    ),
    (
        ", G: f32[P, N], v: f32[N], i: i32[M]",
        "D: f32[M, N]",
        "D = A @ W.T * log_softmax(where(gather(G, i) > 0.7, v, 0.5 * v), N)",
    ),
    (
        ", G: f32[P, N], v: f32[N], i: i32[M]",
        "D: f32[M, N]",
        "D = A @ W.T * log_softmax(where(gather(G, i) > 0.7, v, 0.5 * v), M)",
    ),
    (", s: f32[N]", "D: f32[M, N]", "z = A @ W.T; t = exp(s); D = t + z * t"),
    (", s: f32[M]", "D: f32[M, N]", "z = A @ W.T; t = exp(s); D = t + z * t"),
    ("", "D: f32[M]", "D = sum(A @ W.T, N)"),
    (", b: f32[N]", "D: f32[]", "D = mean(A @ W.T + b)"),
    (", d: f32[M, N]", "D: f32[M, N]", "D = d * grad(gelu)(A @ W.T)"),
];

#[test]
fn derivatives_of_forms_agree_with_differences() {
    let mut wrong = Vec::new();
    for (inputs, outputs, body) in FORMS {
        let text =
            format!("kernel k(A: f32[M, K], W: f32[N, K]{inputs}) -> {outputs} {{ {body} }}");
        let kernel = Kernel::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        for save in [Save::Nothing, Save::Products] {
            let derived = kernel.grad(&[], save);
            assert!(derived.is_ok(), "{text}: {}", derived.unwrap_err());
            // What bends inside of the step is seen at another place.
            let near = [7, 8, 9].into_iter().any(|seed| {
                let found = compare(&kernel, save, seed);
                found.is_some_and(|(difference, total, size)| {
                    let bound = 0.01 * difference.abs().max(total.abs()) + 0.002 * size + 1e-3;
                    (difference - total).abs() <= bound
                })
            });
            if !near {
                wrong.push(format!("{text} {save:?}: {:?}", compare(&kernel, save, 7)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines of the kernel of the derivatives between its signature and its end.
fn lines(text: &str) -> Vec<String> {
    let kernel = Kernel::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let derived =
        kernel.grad(&[], Save::Products).unwrap_or_else(|error| panic!("{text}: {error}"));
    let lines = derived.backward.lines().filter(|line| line.starts_with(' '));
    lines.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn derivatives_read_as_a_person_would_write_them() {
    let text = "kernel p(A: f32[M, K], W: f32[N, K], b: f32[N], c: f32[M]) -> o: f32[M, N/2] { z = A @ W.T; p0, p1 = halves(where(b > 0.1, c, 0.5 * c)); q0, q1 = halves(z); o = relu(p0) + q0 }";
    let want = [
        "p0, p1 = halves(where(b > 0.1, c, 0.5 * c))",
        "d_p0 = d_o * grad(relu)(p0)",
        "d = concat(d_p0, 0.0)",
        "d_z = concat(d_o, 0.0)",
        "d_2 = d_z[M, N]",
        "d_A = d_2 @ W",
        "d_W = d_2.T @ A",
        "d_c = sum(where(b > 0.1, 0.0, d), N) * 0.5 + sum(where(b > 0.1, d, 0.0), N)",
    ];
    assert_eq!(lines(text), want);
    let text = "kernel k(A: f32[M, K], W: f32[N, K]) -> D: f32[M] { D = sum(A @ W.T, N) }";
    assert_eq!(lines(text), ["d = d_D[M, N]", "d_A = d @ W", "d_W = d.T @ A"]);
    let text = "kernel k(A: f32[M, K], W: f32[N, K]) -> q: f32[M, Q] { q, k, v = split(A @ W.T, [Q, KV, KV]) }";
    let want = ["d_product = concat(d_q, 0.0, 0.0, [Q, KV, KV])", "d = d_product[M, N]"];
    assert_eq!(lines(text)[..2], want);
    let text =
        "kernel k(X: f32[M, N], Y: f32[M, N]) -> D: f32[M, N] { D = exp(-square(X)) - (1.0 - Y) }";
    assert_eq!(lines(text), ["d_X = -(d_D * exp(-square(X)) * 2.0 * X)", "d_Y = d_D"]);
}

#[test]
fn an_output_that_rounds_a_product_is_not_saved_for_it() {
    let text = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> (D: f32[M, N], Z: TYPE[M, N]) { Z = A @ W.T; D = exp(Z) }";
    for (dtype, saved) in [("f8e4m3", &[][..]), ("f32", &["Z"])] {
        let kernel = Kernel::parse(&text.replace("TYPE", dtype)).unwrap();
        assert_eq!(kernel.grad(&[], Save::Products).unwrap().saved, saved, "{dtype}");
    }
}

#[test]
fn what_has_no_derivative_is_an_error() {
    let error = |text: &str, wrt: &[&str]| {
        let kernel = Kernel::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        kernel.grad(wrt, Save::Nothing).unwrap_err().summary()
    };
    let text = "kernel k(A: f32[M, K], W: f32[N, K], p: f32, s: f32[N], t: i32[M]) -> D: f32[M, N] { D = dropout(A @ W.T, p, 7, 0) }";
    assert_eq!(error(text, &["p"]), "`dropout` has no derivative in argument 2");
    assert_eq!(error(text, &["A", "s"]), "no output of floats depends on `s`");
    assert_eq!(error(text, &["B"]), "the kernel has no input `B`");
    let steps = "kernel k(A: f32[M, K], W: f32[N, K], x: f32[M, N]) -> D: f32[M, N] { D = x * grad(relu)(A @ W.T) + floor(x) }";
    assert_eq!(error(steps, &["x", "A"]), "the derivative in `A` is 0 everywhere");
    assert_eq!(error(text, &["t"]), "`t` is i32: only floats have derivatives");
}
