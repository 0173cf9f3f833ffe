"""Linear layers with weights of 4 and 8 bits beside PyTorch's in bf16, weights read from memory.

    python bench/gpu/quantised.py [--rows 1,16,64] [--layer 14336,4096] [--rounds 20] [--json FILE]

Every call has weights of its own, together more than twice the L2. Calls are replayed from CUDA graphs, which hide the host, in
interleaved rounds. Results are compared with those of the widened weight in f64 first.
"""

from __future__ import annotations

import argparse
import json
import statistics

import torch
from torch import Tensor

import postlude
from replay import replayed, time

BYTES = 160 << 20
W8 = """kernel w8a16(A: bf16[M, K], W: u8[N, K], zero: u8[N, K/64], s: f32[N, K/64]) -> D: bf16[M, N] {
    D = A @ (bf16(f32(W) - f32(zero)) * s).T
}"""
W4 = """kernel w4a16(A: bf16[M, K], W: u4[N, K], zero: u4[N, K/128], s: f32[N, K/128]) -> D: bf16[M, N] {
    D = A @ (bf16(f32(W) - f32(zero)) * s).T
}"""


def nibbles(packed: Tensor) -> Tensor:
    """The elements of packed bytes, the even one in the lower four bits."""
    return torch.stack([packed & 15, packed >> 4], -1).flatten(-2)


def weights(bits: int, n: int, k: int) -> tuple[dict[str, Tensor], Tensor]:
    """A weight as a kernel takes it, and widened to bf16."""
    run = 64 if bits == 8 else 128
    w = torch.randint(0, 256, (n, k * bits // 8), dtype=torch.uint8, device="cuda")
    scale = torch.rand(n, k // run, device="cuda") * 0.02 + 0.001
    zero = torch.randint(0, 256, (n, k // run * bits // 8), dtype=torch.uint8, device="cuda")
    whole = [w, zero] if bits == 8 else [nibbles(w), nibbles(zero)]
    far = [whole[1].float().repeat_interleave(run, 1), scale.repeat_interleave(run, 1)]
    wide = ((whole[0].float() - far[0]) * far[1]).bfloat16()
    return {"W": w, "zero": zero, "s": scale}, wide


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", default="1,16,64")
    parser.add_argument("--layer", default="14336,4096")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", help="where the results go")
    options = parser.parse_args()
    torch.manual_seed(0)
    n, k = (int(size) for size in options.layer.split(","))
    results = []
    for m in (int(size) for size in options.rows.split(",")):
        graphs: dict[str, tuple[torch.cuda.CUDAGraph, int]] = {}
        kept: list[object] = []
        a = torch.randn(m, k, device="cuda").bfloat16()
        for name, source, bits in (("w8a16", W8, 8), ("w4a16", W4, 4)):
            kernel = postlude.compile(source)
            count = -(-BYTES // (n * k * bits // 8))
            given, wide = zip(*(weights(bits, n, k) for _ in range(count)))
            got = kernel(A=a, **given[0])
            want = a.double() @ wide[0].double().T
            error = float((got.double() - want).abs().max() / want.abs().max())
            assert error < 0.01, (name, m, error)
            outs = [torch.empty(m, n, dtype=torch.bfloat16, device="cuda") for _ in range(count)]
            calls = [
                (lambda one=one, out=out, kernel=kernel: kernel(A=a, **one, out=out))
                for one, out in zip(given, outs)
            ]
            graphs[name] = (replayed(calls), count)
            kept += [given, outs, kernel]
            if bits == 8:
                wide = wide[: max(2, -(-BYTES // (n * k * 2)))]
                calls = [(lambda one=one: torch.nn.functional.linear(a, one)) for one in wide]
                graphs["bf16"] = (replayed(calls), len(calls))
                kept.append(wide)
            del wide
        times: dict[str, list[float]] = {name: [] for name in graphs}
        for _ in range(options.rounds):
            for name, (graph, count) in graphs.items():
                times[name].append(time(graph) / count * 1e3)
        medians = {name: statistics.median(each) for name, each in times.items()}
        results.append({"M": m, "N": n, "K": k, "us": medians})
        ratios = ", ".join(f"{name} {us:.1f} us ({medians['bf16'] / us:.2f}x)" for name, us in medians.items())
        print(f"{m},{n},{k}: {ratios}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
