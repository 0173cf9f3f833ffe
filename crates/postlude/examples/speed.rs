//! speed
#![allow(missing_docs, clippy::all, clippy::pedantic)]
use postlude::*;
use std::time::Instant;
fn tensor(dtype: DType, shape: Vec<usize>, seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    let mut s = seed.wrapping_mul(0x9E3779B97F4A7C15) | 1;
    let v: Vec<f64> = (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s % 2001) as f64 / 1000.0 - 1.0
        })
        .collect();
    Tensor::from_values(dtype, shape, &v).unwrap()
}
fn main() {
    for (src, m, n, k, d) in [
        ("D = A @ B", 2048, 2048, 2048, DType::F32),
        ("D = gelu(A @ W.T + bias[N])", 4096, 4096, 512, DType::F32),
        ("D = A @ W.T", 4096, 4096, 512, DType::F32),
        ("D = gelu(A @ W.T + bias[N])", 4096, 4096, 512, DType::BF16),
        (
            "z = A @ W.T + bias[N]\nloss = -sum(Y*log(sigmoid(z)) + (1-Y)*log(1-sigmoid(z)))",
            2048,
            2048,
            512,
            DType::BF16,
        ),
        ("D = softmax(A @ W.T, N)", 2048, 4096, 512, DType::BF16),
        ("g, u = halves(A @ W.T)\nD = silu(g)*u", 2048, 4096, 512, DType::BF16),
    ] {
        let kernel = Kernel::infer(src, &Bindings { dtype: d, ..Default::default() }).unwrap();
        let c = kernel.compile(&Options::default());
        let sizes: Sizes =
            [("M".to_string(), m), ("N".to_string(), n), ("K".to_string(), k)].into();
        let p = Problem::new(c.defined(), &sizes).unwrap();
        let mut a = Arguments::new();
        for (i, input) in c.defined().inputs().iter().enumerate() {
            a.insert(
                input.name.clone(),
                Argument::Tensor(tensor(
                    input.dtype,
                    p.shape(input.dims.as_ref().unwrap()),
                    i as u64 + 1,
                )),
            );
        }
        let mut o = c.outputs(&p).unwrap();
        let mut best = f64::MAX;
        for _ in 0..6 {
            let t = Instant::now();
            c.run_into(&p, &a, &mut o).unwrap();
            best = best.min(t.elapsed().as_secs_f64());
        }
        println!(
            "{:.4} s {:.1} GFLOP/s {src:?} {m}x{n}x{k} {d}",
            best,
            2.0 * (m * n * k) as f64 / best / 1e9
        );
    }
}
