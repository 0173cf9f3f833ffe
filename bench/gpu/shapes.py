"""Decode sizes, experts of a mixture, whole rows and odd sizes beside PyTorch, tensors read from memory.

    python bench/gpu/shapes.py [--only decode,grouped,rows] [--rounds 15] [--json FILE]

Every call has tensors of its own, together more than twice the L2. Calls are replayed from CUDA graphs, which hide the host, in
interleaved rounds. Results are compared with PyTorch's first. Rows of a mixture go to experts at random (`random`), or end
where numbers drawn at random are, with every eighth expert empty (`uneven`).
"""

from __future__ import annotations

import argparse
import json
import statistics
from functools import partial
from typing import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import postlude
from replay import replayed, time

BYTES = 160 << 20
LINEAR = "kernel linear(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] { D = A @ W.T }"
BIAS = "kernel linear_bias(A: bf16[M, K], W: bf16[N, K], bias: bf16[N]) -> D: bf16[M, N] { D = A @ W.T + bias }"
SILU = "kernel linear_silu(A: bf16[M, K], W: bf16[N, K], bias: bf16[N]) -> D: bf16[M, N] { D = silu(A @ W.T + bias) }"
NORM = """kernel linear_norm(A: bf16[M, K], W: bf16[N, K], gamma: bf16[N], beta: bf16[N]) -> D: bf16[M, N] {
    D = layer_norm(A @ W.T, N, 1e-5) * gamma + beta
}"""
EXPERTS = """kernel experts(A: bf16[T, K], W: bf16[E, N, K], bias: bf16[E, N], ends: i32[E]) -> D: bf16[T, N] {
    D = segments(A, ends) @ W.T + bias
}"""
DECODE = [(m, n, k) for m in (1, 16, 64, 128) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336))]

Call = Callable[[int], Tensor]


def drawn(*shape: int, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * scale).bfloat16()


def timed(calls: dict[str, tuple[Call, int]], rounds: int) -> dict[str, float]:
    """Median microseconds of each, in interleaved rounds."""
    of_sets = {name: [partial(call, one) for one in range(sets)] for name, (call, sets) in calls.items()}
    graphs = {name: (replayed(each), len(each)) for name, each in of_sets.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, (graph, sets) in graphs.items():
            times[name].append(time(graph) / sets * 1e3)
    return {name: statistics.median(each) for name, each in times.items()}


def near(got: Tensor, want: Tensor, name: str) -> None:
    error = float((got.float() - want.float()).norm() / want.float().norm())
    assert error < 1e-2, f"{name}: {error}"


def decode(rounds: int) -> list[dict[str, object]]:
    ours = postlude.compile(SILU)
    rows = []
    for m, n, k in DECODE:
        sets = max(2, -(-BYTES // (n * k * 2)))
        a, bias = drawn(m, k), drawn(n)
        w = [drawn(n, k, scale=k**-0.5) for _ in range(sets)]
        near(ours(A=a, W=w[0], bias=bias), F.silu(F.linear(a, w[0], bias)), f"decode {m},{n},{k}")
        out = [torch.empty(m, n, dtype=torch.bfloat16, device="cuda") for _ in range(sets)]
        us = timed(
            {
                "ours": (lambda i: ours(A=a, W=w[i], bias=bias, out=out[i]), sets),
                "eager": (lambda i: F.silu(F.linear(a, w[i], bias)), sets),
            },
            rounds,
        )
        rows.append({"row": f"decode silu {m},{n},{k}", "us": us, "eager / ours": us["eager"] / us["ours"]})
    return rows


def ends(kind: str, experts: int, count: int) -> Tensor:
    if kind == "random":
        sizes = torch.bincount(torch.randint(0, experts, (count,)), minlength=experts)
        return sizes.cumsum(0).int().cuda()
    drawn_ends = torch.randint(0, count + 1, (experts,)).sort().values
    drawn_ends[8::8] = drawn_ends[7:-1:8][: len(drawn_ends[8::8])]
    drawn_ends[-1] = count
    return drawn_ends.int().cuda()


def copy_speed() -> float:
    """Bytes that a copy reads and writes in a microsecond."""
    a, b = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    graph = replayed([lambda: torch.neg(a, out=b)])
    return 8 * a.numel() / statistics.median(time(graph) * 1e3 for _ in range(10))


def grouped(rounds: int) -> list[dict[str, object]]:
    ours, dense = postlude.compile(EXPERTS), postlude.compile(BIAS)
    rows = []
    for experts, t, n, k in ((8, 8192, 14336, 4096), (64, 8192, 2048, 7168)):
        w, a, bias = drawn(experts, n, k, scale=k**-0.5), drawn(t, k), drawn(experts, n)
        read = w.numel() * 2 / copy_speed()
        for kind in ("random", "uneven"):
            at = ends(kind, experts, t)
            bounds = [0, *at.tolist()]
            want = torch.cat([F.linear(a[b:e], w[i], bias[i]) for i, (b, e) in enumerate(zip(bounds, bounds[1:]))])
            near(ours(A=a, W=w, bias=bias, ends=at), want, f"grouped {experts}")
            calls: dict[str, tuple[Call, int]] = {
                "ours": (lambda i: ours(A=a, W=w, bias=bias, ends=at), 1),
                "dense": (lambda i: dense(A=a, W=w[i % experts], bias=bias[i % experts]), 2),
                "torch": (lambda i: torch._grouped_mm(a, w.transpose(-2, -1), offs=at), 1),
                "torch dense": (lambda i: F.linear(a, w[i % experts], bias[i % experts]), 2),
            }
            us = timed(calls, rounds)
            row = {"row": f"grouped {experts} {kind} {t},{n},{k}", "us": us, "ours / dense": us["ours"] / us["dense"]}
            row["torch / torch dense"] = us["torch"] / us["torch dense"]
            row["ours / read"], row["torch / read"] = us["ours"] / read, us["torch"] / read
            rows.append(row)
    return rows


def whole_rows(rounds: int) -> list[dict[str, object]]:
    plain, norm = postlude.compile(LINEAR), postlude.compile(NORM)
    mode = "max-autotune-no-cudagraphs"
    rows = []
    m, n, k = 32768, 1024, 1024
    a, w, gamma, beta = [drawn(m, k) for _ in range(2)], drawn(n, k, scale=k**-0.5), drawn(n), drawn(n)
    chain = torch.compile(lambda x: F.layer_norm(F.linear(x, w), (n,), gamma, beta), mode=mode)
    near(norm(A=a[0], W=w, gamma=gamma, beta=beta), chain(a[0]), "layer norm")
    us = timed(
        {
            "ours": (lambda i: norm(A=a[i], W=w, gamma=gamma, beta=beta), 2),
            "plain": (lambda i: plain(A=a[i], W=w), 2),
            "torch.compile": (lambda i: chain(a[i]), 2),
        },
        rounds,
    )
    row = {"row": f"layer norm {m},{n},{k}", "us": us, "ours / plain": us["ours"] / us["plain"]}
    rows.append(row | {"torch.compile / ours": us["torch.compile"] / us["ours"]})
    m, n, k = 3001, 5003, 2047
    sets = 5
    a, w = [drawn(m, k) for _ in range(sets)], [drawn(n, k, scale=k**-0.5) for _ in range(sets)]
    product = torch.compile(lambda x, y: F.linear(x, y), mode=mode)
    near(plain(A=a[0], W=w[0]), product(a[0], w[0]), "odd sizes")
    us = timed(
        {
            "ours": (lambda i: plain(A=a[i], W=w[i]), sets),
            "torch.compile": (lambda i: product(a[i], w[i]), sets),
            "eager": (lambda i: F.linear(a[i], w[i]), sets),
        },
        rounds,
    )
    row = {"row": f"odd {m},{n},{k}", "us": us, "torch.compile / ours": us["torch.compile"] / us["ours"]}
    rows.append(row | {"eager / ours": us["eager"] / us["ours"]})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="decode,grouped,rows")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", help="where the results go")
    options = parser.parse_args()
    torch.manual_seed(0)
    groups = {"decode": decode, "grouped": grouped, "rows": whole_rows}
    results: list[dict[str, object]] = []
    for name in options.only.split(","):
        for row in groups[name](options.rounds):
            us = ", ".join(f"{each} {value:.1f}" for each, value in row["us"].items())
            ratios = ", ".join(f"{each} {value:.3f}" for each, value in row.items() if isinstance(value, float))
            print(f"{row['row']}: {us} us; {ratios}", flush=True)
            results.append(row)
        torch.cuda.empty_cache()
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
