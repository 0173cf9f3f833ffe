"""Blocks of a language model, forward and backward, beside PyTorch's: eager and compiled, in interleaved rounds.

    python bench/gpu/blocks.py [--rounds 10] [--tokens 8192] [--features 4096] [--hidden 14336] [--json FILE]

Gradients are compared with PyTorch's in f64 on some rows first. Times are of the GPU, between events.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any, Callable

import torch
from torch import Tensor, nn

import postlude.torch as fused


class Eager(nn.Module):
    """Llama's MLP as it is written in PyTorch."""

    def __init__(self, of: fused.SwiGLU) -> None:
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = of.gate_proj, of.up_proj, of.down_proj

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


def step(module: Callable[[Tensor], Tensor], x: Tensor, dy: Tensor) -> None:
    """Forward and backward."""
    module(x).backward(dy)


def gradients(module: Callable[[Tensor], Tensor], parameters: list[nn.Parameter], x: Tensor, dy: Tensor) -> list[Tensor]:
    """The derivatives of a step: those of x, then those of the parameters."""
    x = x.detach().requires_grad_()
    for one in parameters:
        one.grad = None
    step(module, x, dy)
    assert x.grad is not None
    return [x.grad, *(one.grad.clone() for one in parameters if one.grad is not None)]


def exact(of: fused.SwiGLU, x: Tensor, dy: Tensor) -> list[Tensor]:
    """The same in f64."""
    weights = [one.weight.detach().double().requires_grad_() for one in (of.gate_proj, of.up_proj, of.down_proj)]
    x = x.detach().double().requires_grad_()
    gate, up, down = weights
    y = (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
    y.backward(dy.double())
    return [x.grad, *(one.grad for one in weights)]  # type: ignore[misc]


def far(a: Tensor, b: Tensor) -> float:
    """The distance relative to the size."""
    return float((a.double() - b).norm() / b.norm())


def time(function: Callable[[], None]) -> float:
    """Milliseconds of one call, on the GPU."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=14336)
    parser.add_argument("--json", help="where the results go")
    options = parser.parse_args()
    torch.manual_seed(1)
    ours = fused.SwiGLU(options.features, options.hidden, "cuda", torch.bfloat16)
    eager = Eager(ours)
    parameters = [ours.gate_proj.weight, ours.up_proj.weight, ours.down_proj.weight]
    x, dy = (torch.randn(options.tokens, options.features, device="cuda").bfloat16() for _ in range(2))
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "sizes": vars(options)}
    some = slice(0, 64)
    want = exact(ours, x[some], dy[some])
    for name, module in (("ours", ours), ("eager", eager)):
        got = gradients(module, parameters, x[some], dy[some])
        results[f"{name}_error"] = [far(one, other) for one, other in zip(got, want)]
    compiled = torch.compile(eager)
    modules = {"ours": ours, "eager": eager, "compiled": compiled}
    x.requires_grad_()
    for module in modules.values():
        step(module, x, dy)
        step(module, x, dy)
    torch.cuda.synchronize()
    times: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(options.rounds):
        for name, module in modules.items():
            times[name].append(time(lambda module=module: step(module, x, dy)))  # type: ignore[misc]
    for name, all_times in times.items():
        results[f"{name}_ms"] = statistics.median(all_times)
    results["of_compiled"] = results["compiled_ms"] / results["ours_ms"]
    print(json.dumps(results, indent=1))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
