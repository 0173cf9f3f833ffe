"""Programs of one product or two beside PyTorch's, eager and compiled: norms behind a product, RMS norm deferred through the
next product, and query, key and value with RMS norm and rotary embedding.

    python bench/gpu/programs.py [--rounds 20] [--tokens 8192] [--json FILE] [FILTER]

Every call is replayed from a CUDA graph in interleaved rounds, so that the host costs nothing; results are compared with
PyTorch's first. Times are medians, of the GPU, between events.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any, Callable

import torch
from torch import Tensor
from torch.nn import functional

import postlude

EPS = 1e-5
FEATURES = 4096
HEAD = 128

NORMS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "rms_norm": ("rms_norm(f32(h), N, 1e-5)", lambda h: functional.rms_norm(h, h.shape[-1:], eps=EPS)),
    "softmax": ("softmax(f32(h), N)", lambda h: functional.softmax(h, -1)),
    "layer_norm": ("layer_norm(f32(h), N, 1e-5)", lambda h: functional.layer_norm(h, h.shape[-1:], eps=EPS)),
}
BEHIND = "kernel behind(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N] {{ h = bf16(A @ W.T); D = {norm} }}"
DEFERRED = """
kernel deferred(A: bf16[M, K], W: bf16[N, K], V: bf16[F, N]) -> D: bf16[M, F] {
    h = bf16(A @ W.T)
    D = (h * rsqrt(mean(square(f32(h)), N) + 1e-5)) @ V.T
}
"""
# The weight of the norm is a part of W, as models fold it for inference.
QKV = """
kernel qkv(
    X: bf16[M, K], W: bf16[N, K], cosine_q: bf16[M, Q/2], sine_q: bf16[M, Q/2], cosine_k: bf16[M, KV/2], sine_k: bf16[M, KV/2],
) -> (query: bf16[M, Q], key: bf16[M, KV], value: bf16[M, KV]) {
    q, k, value = split((X * rsqrt(mean(square(f32(X)), K) + 1e-5)) @ W.T, [Q, KV, KV])
    qx, qy = halves(q, 128)
    kx, ky = halves(k, 128)
    query = concat(qx * cosine_q - qy * sine_q, qx * sine_q + qy * cosine_q, 128)
    key = concat(kx * cosine_k - ky * sine_k, kx * sine_k + ky * cosine_k, 128)
}
"""

Call = Callable[[], Any]


def random(*shape: int, scale: float = 0.05) -> Tensor:
    """A tensor of bf16 on the GPU."""
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * scale


def tuned(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile with max-autotune."""
    return torch.compile(function, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)


def behind(tokens: int, columns: int, norm: str) -> tuple[Call, Callable[..., Any], tuple[Tensor, ...]]:
    """A norm of what a product gives."""
    text, peer = NORMS[norm]
    kernel = postlude.compile(BEHIND.format(norm=text))
    inputs = (random(tokens, FEATURES, scale=1.0), random(columns, FEATURES))
    return lambda: kernel(*inputs), lambda a, w: peer(functional.linear(a, w)), inputs


def deferred(tokens: int, columns: int, following: int) -> tuple[Call, Callable[..., Any], tuple[Tensor, ...]]:
    """RMS norm between two products: its scale moves behind the second."""
    kernel = postlude.compile(DEFERRED)
    inputs = (random(tokens, FEATURES, scale=1.0), random(columns, FEATURES), random(following, columns))

    def peer(a: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return functional.linear(functional.rms_norm(functional.linear(a, w), (w.shape[0],), eps=EPS), v)

    return lambda: kernel(*inputs), peer, inputs


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding of the halves of each head."""
    heads = x.view(x.shape[0], -1, HEAD)
    a, b = heads.chunk(2, -1)
    cosine, sine = cosine[:, None, :], sine[:, None, :]
    return torch.cat((a * cosine - b * sine, a * sine + b * cosine), -1).view(x.shape)


def qkv(tokens: int, query: int, key: int) -> tuple[Call, Callable[..., Any], tuple[Tensor, ...]]:
    """Attention's projections of a language model: RMS norm, product, rotary embedding."""
    kernel = postlude.compile(QKV)
    angle = torch.arange(tokens, device="cuda")[:, None] * 1e4 ** -(torch.arange(HEAD // 2, device="cuda") / (HEAD // 2))
    cosine, sine = angle.cos().bfloat16(), angle.sin().bfloat16()
    inputs = (random(tokens, FEATURES, scale=1.0), random(query + 2 * key, FEATURES), cosine, sine)
    x, w = inputs[:2]
    tables = [one.repeat(1, size // HEAD) for size in (query, key) for one in (cosine, sine)]

    def peer(x: Tensor, w: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, ...]:
        normed = functional.rms_norm(x, (FEATURES,), eps=EPS)
        q, k, v = functional.linear(normed, w).split([query, key, key], -1)
        return turned(q, cosine, sine), turned(k, cosine, sine), v.contiguous()

    return lambda: kernel(x, w, *tables), peer, inputs


def rows(tokens: int) -> dict[str, Callable[[], Any]]:
    """Every row by its name."""
    found: dict[str, Callable[[], Any]] = {}
    for columns in (1024, 4096, 16384):
        for norm in NORMS:
            found[f"{norm} {tokens},{columns},{FEATURES}"] = lambda c=columns, n=norm: behind(tokens, c, n)  # type: ignore[misc]
    for columns in (1024, 4096):
        found[f"deferred {tokens},{columns},{FEATURES}"] = lambda c=columns: deferred(tokens, c, 1024)  # type: ignore[misc]
    found[f"qkv {tokens},4096+2*1024,{FEATURES}"] = lambda: qkv(tokens, 4096, 1024)
    return found


def captured(call: Call) -> torch.cuda.CUDAGraph:
    """A call as a CUDA graph, after a few that warm it up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def milliseconds(graph: torch.cuda.CUDAGraph, repeat: int) -> float:
    """The mean of some replays."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeat):
        graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeat


def far(found: Any, want: Any) -> float:
    """The largest distance of an output relative to its size."""
    both = zip(*(one if isinstance(one, (tuple, list)) else (one,) for one in (found, want)))
    return max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in both)


def measure(row: Callable[[], Any], rounds: int) -> dict[str, Any]:
    """Checks and times one row."""
    ours, peer, inputs = row()
    error = far(ours(), peer(*inputs))
    assert error < 2e-2, f"results are {error} apart"
    # Every row is a function of its own to the compiler.
    torch.compiler.reset()
    begin = time.perf_counter()
    compiled = tuned(peer)
    compiled(*inputs)
    seconds = time.perf_counter() - begin
    calls = {"ours": ours, "compiled": lambda: compiled(*inputs), "eager": lambda: peer(*inputs)}
    graphs = {name: captured(call) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for number in range(rounds + 2):
        for name, graph in graphs.items():
            took = milliseconds(graph, 10)
            if number >= 2:
                times[name].append(took)
    found: dict[str, Any] = {f"{name}_us": statistics.median(all_times) * 1e3 for name, all_times in times.items()}
    found["speedup"] = statistics.median(a / b for a, b in zip(times["compiled"], times["ours"]))
    return {**found, "error": error, "compile_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("filter", nargs="?", default="", help="only rows whose names contain this")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--json", help="where the results go, after every row")
    options = parser.parse_args()
    torch.manual_seed(1)
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "rows": {}}
    for name, row in rows(options.tokens).items():
        if options.filter not in name:
            continue
        try:
            results["rows"][name] = measure(row, options.rounds)
        except Exception as error:  # noqa: BLE001
            results["rows"][name] = {"failed": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(results["rows"][name]), flush=True)
        torch.cuda.empty_cache()
        if options.json:
            with open(options.json, "w") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
