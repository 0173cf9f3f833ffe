"""NumPy on the problems of `cargo run --release --example call_cost`: microseconds, the least of many rounds."""

import time

import numpy as np


def numbers(*shape):
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 31 / 16 - 1).astype(np.float32).reshape(shape)


for name in ["A @ W.T", "A @ W"]:
    for m, n, k in [(8, 8, 8), (1, 4096, 4096), (16, 4096, 4096), (512, 512, 512)]:
        a, bias = numbers(m, k), numbers(n)
        w = numbers(n, k) if name == "A @ W.T" else numbers(k, n)
        run = (lambda: np.maximum(a @ w.T + bias, 0)) if name == "A @ W.T" else (lambda: np.maximum(a @ w + bias, 0))
        calls = min(max(20_000_000 // (m * n * k), 1), 2000)
        least = float("inf")
        for _ in range(15):
            start = time.perf_counter()
            for _ in range(calls):
                run()
            least = min(least, (time.perf_counter() - start) / calls)
        print(f"{name:8} {m:4} {n:5} {k:5}  {least * 1e6:10.2f} us")
