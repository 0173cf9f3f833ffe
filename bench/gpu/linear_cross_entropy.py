"""A linear layer with a cross entropy, forward and backward, beside PyTorch's: gradients, time, memory and training.

    python bench/gpu/linear_cross_entropy.py FOLDER [check] [speed] [memory] [train] [--tokens 8192] [--features 4096]
        [--classes 128256] [--workspace 1400000000] [--rounds 10] [--small]

`check` compares losses and gradients with f64 at a small size, with logits kept in the workspace, kept in the gradient's memory
and computed again. `speed` times both passes between events of the GPU, interleaved with torch.compile and eager PyTorch.
`memory` is the peak of each beyond inputs and gradients: of PyTorch's allocator, and what Postlude takes from the driver itself.
`train` trains a small transformer for 200 steps with five seeds, eager and with our loss, and judges final losses as training.py
does. FOLDER/linear_cross_entropy.json gets the report; exit code 1 if a check or a training is wrong. Figures are not judged here.
`--small` has tiny sizes and runs `check` and `train` on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from typing import Any, Callable, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "python")]

import postlude.torch as fused  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from training import verdict  # noqa: E402

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def eager(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """As it is written in PyTorch: logits of the operands' dtype, their loss in float32."""
    return functional.cross_entropy(functional.linear(x, weight).float(), target)


def inputs(rows: int, features: int, classes: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    x = torch.randn(rows, features, device=device).to(dtype)
    weight = (torch.randn(classes, features, device=device) * 2 * features**-0.5).to(dtype)
    return x.requires_grad_(), weight.requires_grad_(), torch.randint(classes, (rows,), device=device)


def gradients(loss: Loss, x: Tensor, weight: Tensor, target: Tensor) -> list[Tensor]:
    """The loss and its gradients."""
    x, weight = (one.detach().requires_grad_() for one in (x, weight))
    found = loss(x, weight, target)
    found.backward()
    assert x.grad is not None and weight.grad is not None
    return [found.detach(), x.grad, weight.grad]


def far(a: Tensor, b: Tensor) -> float:
    """The distance relative to the size."""
    return float((a.double() - b).norm() / b.norm())


def check(options: Any, report: dict[str, Any]) -> list[str]:
    """Errors of our loss and of eager PyTorch's, both beside f64."""
    device = "cpu" if options.small else "cuda"
    rows, features, classes = (96, 64, 1003) if options.small else (1024, 512, 16_061)
    x, weight, target = inputs(rows, features, classes, device)
    target[:7] = -100
    want = gradients(eager_f64, x.double(), weight.double(), target)
    element = x.element_size()
    sums, all_logits = 4 * rows * features, element * rows * classes
    workspaces = {"kept": sums + 2 * all_logits, "in_gradient": sums + int(0.8 * all_logits), "again": sums + all_logits // 8}
    found = {"eager": gradients(eager, x, weight, target)}
    for name, workspace in workspaces.items():
        ours = lambda *all_, bytes=workspace: fused.linear_cross_entropy(*all_, workspace=bytes)  # noqa: E731
        found[name] = gradients(ours, x, weight, target)
    errors = {name: [far(one, other) for one, other in zip(all_, want)] for name, all_ in found.items()}
    report["check"] = errors
    # Both round logits and their gradients to the operands' dtype; which elements fall the other way differs.
    limits = [2 * error + 1e-5 for error in errors["eager"]]
    return [
        f"{name}: errors {all_} beside eager's {errors['eager']}"
        for name, all_ in errors.items()
        if any(one > limit for one, limit in zip(all_, limits))
    ]


def eager_f64(x: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(functional.linear(x, weight), target)


def losses(options: Any) -> dict[str, Loss]:
    """What is measured."""
    ours = lambda *all_: fused.linear_cross_entropy(*all_, workspace=options.workspace)  # noqa: E731
    return {"ours": ours, "compiled": torch.compile(eager, fullgraph=True, dynamic=False), "eager": eager}


def step(loss: Loss, x: Tensor, weight: Tensor, target: Tensor) -> None:
    """Forward and backward, into new gradients."""
    x.grad = weight.grad = None
    loss(x, weight, target).backward()


def speed(options: Any, report: dict[str, Any]) -> list[str]:
    """Milliseconds of both passes, medians of interleaved rounds."""
    x, weight, target = inputs(options.tokens, options.features, options.classes, "cuda")
    all_ = losses(options)
    for loss in all_.values():
        for _ in range(3):
            step(loss, x, weight, target)
    times: dict[str, list[float]] = {name: [] for name in all_}
    for _ in range(options.rounds):
        for name, loss in all_.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            begin.record()
            step(loss, x, weight, target)
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    medians = {name: statistics.median(one) for name, one in times.items()}
    ratios = [theirs / own for theirs, own in zip(times["compiled"], times["ours"])]
    report["speed"] = {"ms": medians, "of_compiled": statistics.median(ratios), "rounds": times}
    return []


def memory(options: Any, report: dict[str, Any]) -> list[str]:
    """Bytes beyond inputs and gradients at the peak, of calls after the first one."""
    x, weight, target = inputs(options.tokens, options.features, options.classes, "cuda")
    own = sum(one.numel() * one.element_size() for one in (x, weight))
    found = {}
    for name, loss in losses(options).items():
        x.grad = weight.grad = None
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free, reserved = torch.cuda.mem_get_info()[0], torch.cuda.memory_reserved()
        step(loss, x, weight, target)
        torch.cuda.synchronize()
        taken = free - torch.cuda.mem_get_info()[0]
        outside = taken - (torch.cuda.memory_reserved() - reserved)
        x.grad = weight.grad = None
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        step(loss, x, weight, target)
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - before - own
        # Libraries load their code, and take workspaces of their own, when they are used first.
        found[name] = {"peak": peak, "outside_of_pytorch": max(outside, 0), "together": peak + max(outside, 0)}
    report["memory"] = found
    return []


class Model(NamedTuple):
    width: int
    heads: int
    layers: int
    length: int
    batch: int
    classes: int
    steps: int
    rate: float


FULL = Model(512, 8, 4, 256, 16, 32_000, 200, 6e-4)
SMALL = Model(32, 2, 1, 16, 4, 100, 30, 1e-2)


class Transformer(nn.Module):
    """A small language model up to its last layer's input."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.tokens = nn.Embedding(model.classes, model.width)
        self.places = nn.Embedding(model.length, model.width)
        layer = nn.TransformerEncoderLayer(
            model.width, model.heads, 4 * model.width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, model.layers, nn.LayerNorm(model.width), enable_nested_tensor=False)
        self.head = nn.Parameter(torch.randn(model.classes, model.width) * model.width**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        hidden: Tensor = self.layers(x, mask=mask, is_causal=True)
        return hidden


def text(model: Model, seed: int, device: str) -> Tensor:
    """Tokens of a chain in which each token has four followers, for all batches of a run."""
    chain = torch.Generator().manual_seed(7)
    followers = torch.randint(model.classes, (model.classes, 4), generator=chain)
    drawn = torch.Generator().manual_seed(1000 + seed)
    tokens = [torch.randint(min(model.classes, 200), (model.steps * model.batch,), generator=drawn)]
    for _ in range(model.length):
        which = torch.randint(4, tokens[-1].shape, generator=drawn)
        tokens.append(followers[tokens[-1], which] % min(model.classes, 200))
    return torch.stack(tokens, 1).to(device).view(model.steps, model.batch, model.length + 1)


def trained(model: Model, seed: int, loss: Loss, device: str) -> list[float]:
    """Losses of a run, step by step."""
    torch.manual_seed(seed)
    network = Transformer(model).to(device)
    optimiser = torch.optim.AdamW(network.parameters(), lr=model.rate, weight_decay=0.01)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    found = []
    for tokens in text(model, seed, device):
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            hidden = network(tokens[:, :-1])
        target = tokens[:, 1:].reshape(-1)
        one = loss(hidden.reshape(-1, model.width).to(dtype), network.head.to(dtype), target)
        one.backward()
        optimiser.step()
        found.append(one.detach())
    return torch.stack(found).double().tolist()


def train(options: Any, report: dict[str, Any]) -> list[str]:
    """Five seeds, eager and with our loss; logits are kept in one mode and mostly computed again in the other."""
    model, device = (SMALL, "cpu") if options.small else (FULL, "cuda")
    rows = model.batch * model.length
    element = 4 if options.small else 2
    few = 4 * rows * model.width + element * rows * model.classes // 4
    modes: dict[str, Loss] = {
        "eager": eager,
        "ours": fused.linear_cross_entropy,
        "ours_in_little_memory": lambda *all_: fused.linear_cross_entropy(*all_, workspace=few),
    }
    runs = {name: [trained(model, seed, loss, device) for seed in range(5)] for name, loss in modes.items()}
    wrong: list[str] = []
    report["train"] = {"model": model._asdict(), **verdict("transformer", runs, wrong)}
    return wrong


PARTS = {"check": check, "speed": speed, "memory": memory, "train": train}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--features", type=int, default=4096)
    parser.add_argument("--classes", type=int, default=128_256)
    parser.add_argument("--workspace", type=int, default=1_400_000_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    device = "cpu" if options.small else torch.cuda.get_device_name()
    report: dict[str, Any] = {"device": device, "torch": torch.__version__, "options": vars(options), "wrong": []}
    for part in options.parts or (["check", "train"] if options.small else [*PARTS]):
        torch.manual_seed(1)
        report["wrong"] += PARTS[part](options, report)
        with open(os.path.join(options.folder, "linear_cross_entropy.json"), "w") as file:
            json.dump(report, file, indent=1)
    print(json.dumps(report, indent=1))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
