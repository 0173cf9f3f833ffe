//! What one prepared call costs on the CPU: microseconds, the least of many rounds.
//!
//! `cargo run --release --example call_cost`; `bench/numpy_calls.py` measures NumPy on the same problems.

#![allow(clippy::print_stdout)]

use std::time::Instant;

use postlude::{Argument, Kernel, Options, Sizes, TensorView, TensorViewMut};

/// Rows, columns, contraction and threads; `None` is every core.
const PROBLEMS: &[([usize; 3], Option<usize>)] = &[
    ([8, 8, 8], Some(1)),
    ([1, 4096, 4096], None),
    ([16, 4096, 4096], None),
    ([512, 512, 512], None),
];

fn main() -> Result<(), postlude::Error> {
    for (w_dims, product) in [("[N, K]", "A @ W.T"), ("[K, N]", "A @ W")] {
        let text = format!(
            "kernel k(A: f32[M, K], W: f32{w_dims}, bias: f32[N]) -> D: f32[M, N] {{ D = relu({product} + bias) }}"
        );
        let kernel = Kernel::parse(&text)?;
        for ([m, n, k], threads) in PROBLEMS {
            let compiled = kernel.compile(&Options { threads: *threads, ..Options::default() });
            let dims = [("M", *m), ("N", *n), ("K", *k)].map(|(dim, size)| (dim.to_owned(), size));
            let prepared = compiled.prepare(&compiled.problem(&Sizes::from(dims))?)?;
            let numbers = |count: usize| -> Vec<f32> {
                (0..count).map(|place| (place * 7 % 31) as f32 / 16.0 - 1.0).collect()
            };
            let (a, w, bias, mut d) = (numbers(m * k), numbers(n * k), numbers(*n), numbers(m * n));
            let shape = if w_dims == "[N, K]" { [*n, *k] } else { [*k, *n] };
            let inputs: [Argument<'_>; 3] = [
                TensorView::new(&a, [*m, *k])?.into(),
                TensorView::new(&w, shape)?.into(),
                TensorView::new(&bias, [*n])?.into(),
            ];
            let calls = (20_000_000 / (m * n * k)).clamp(1, 2_000);
            let mut least = f64::INFINITY;
            for _ in 0..15 {
                let start = Instant::now();
                for _ in 0..calls {
                    prepared.run(&inputs, &mut [TensorViewMut::new(&mut d, [*m, *n])?])?;
                }
                least = least.min(start.elapsed().as_secs_f64() / calls as f64);
            }
            println!("{product:8} {m:4} {n:5} {k:5}  {:10.2} us", least * 1e6);
        }
    }
    Ok(())
}
