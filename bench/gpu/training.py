"""Two models trained by Postlude's operators beside eager PyTorch: operators within the contract, and the same loss.

The models are two gated layers (`swiglu_mlp` with a residual, then `swiglu` and `linear_mse_loss`) on a teacher's
regression, and a classifier of independent labels (`linear_gelu`, `linear_bce_loss`). Weights are f32, rounded to bf16 for
each step; AdamW updates them. A seed decides initial weights and batches; eager PyTorch and Postlude get the same of both.

Postlude trains in three modes: direct calls, forward and backward compiled by `torch.compile(fullgraph=True)`, and one CUDA
graph of forward, backward and optimiser that is replayed for every step.

Operators: on sampled steps of the first seed every kernel's inputs and outputs are recorded, in all three modes.
`kernel.check` compares eight rows of each output with the reference; outputs that depend on all rows (a loss, a sum) are
checked by running the kernel on these rows alone. With direct calls all elements of all outputs are also compared with
PyTorch in f64 (`judge.py`).

Loss: the mean of the last ten steps. A run is right if it lies between the smallest and the largest of five eager runs with
different seeds. The runs with the seeds of those two may fall on either side of them by a rounding: such a run may also be
as far from its eager twin as a hundredth of the spread.

`python3 training.py FOLDER [--small]` writes FOLDER/training.json; exit code 1 if something is wrong. `--small` has tiny
sizes and runs on the CPU, without CUDA graphs.
"""

import json
import os
import sys
import time
from functools import partial
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "python")]

import postlude.torch as fused  # noqa: E402
import torch  # noqa: E402
from recorded_calls import Checks, Recorder, copied  # noqa: E402
from torch.nn import functional  # noqa: E402

SEEDS = range(5)


class Sizes(NamedTuple):
    batch: int
    width: int
    hidden: int
    labels: int
    steps: int
    sampled: tuple[int, ...]
    #: How many batches there are; they are used again.
    batches: int
    rate: float


FULL = Sizes(2048, 1024, 2816, 1024, 200, (0, 50, 100, 150, 199), 20, 1e-3)
SMALL = Sizes(48, 32, 48, 24, 30, (0, 29), 5, 1e-2)


def half(*weights):
    return [one.to(torch.bfloat16) for one in weights]


def gated(x, weight):
    gate, up = functional.linear(x, weight).chunk(2, -1)
    return functional.silu(gate) * up


class Regression:
    """Two gated layers with a squared error."""

    name = "swiglu_mlp"

    @staticmethod
    def parameters(sizes, draw):
        d, h = sizes.width, sizes.hidden
        return [draw(2 * h, d) * d**-0.5, draw(d, h) * h**-0.5, draw(2 * h, d) * d**-0.5, draw(d, h) * h**-0.5]

    @staticmethod
    def target(x, sizes, draw, teacher):
        d = sizes.width
        weights = half(teacher(2 * d, d) * d**-0.5, teacher(d, d) * d**-0.5)
        clean = functional.linear(gated(x, weights[0]), weights[1]).float()
        return (clean / clean.std() + 0.3 * draw(*x.shape)).to(torch.bfloat16)

    @staticmethod
    def eager(x, y, *weights):
        w1, w2, w3, w4 = half(*weights)
        x = x + functional.linear(gated(x, w1), w2)
        return functional.mse_loss(functional.linear(gated(x, w3), w4).float(), y.float())

    @staticmethod
    def postlude(x, y, *weights):
        w1, w2, w3, w4 = half(*weights)
        x = x + fused.swiglu_mlp(x, w1, w2)
        return fused.linear_mse_loss(fused.swiglu(x, w3), w4, None, y)


class Classifier:
    """A hidden layer with GELU, and independent labels."""

    name = "bce_classifier"

    @staticmethod
    def parameters(sizes, draw):
        d, h, n = sizes.width, sizes.hidden, sizes.labels
        zeros = torch.zeros(h + n, device=draw.keywords["device"])
        return [draw(h, d) * d**-0.5, zeros[:h].clone(), draw(n, h) * h**-0.5, zeros[h:].clone()]

    @staticmethod
    def target(x, sizes, draw, teacher):
        d = sizes.width
        logits = functional.linear(x.float(), teacher(sizes.labels, d) * d**-0.5)
        return (logits + 0.3 * draw(*logits.shape) > 0).to(torch.bfloat16)

    @staticmethod
    def eager(x, y, w1, b1, w2, b2):
        w1, b1, w2, b2 = half(w1, b1, w2, b2)
        logits = functional.linear(functional.gelu(functional.linear(x, w1, b1)), w2, b2)
        return functional.binary_cross_entropy_with_logits(logits.float(), y.float())

    @staticmethod
    def postlude(x, y, w1, b1, w2, b2):
        w1, w2 = half(w1, w2)
        return fused.linear_bce_loss(fused.linear_gelu(x, w1, b1), w2, b2, y)


def drawn(*shape, generator, device):
    return torch.randn(shape, generator=generator, device=device)


def drawer(device, seed):
    """Random numbers in the order in which they are asked for."""
    return partial(drawn, generator=torch.Generator(device).manual_seed(seed), device=device)


def data_of(task, sizes, device, seed):
    """The batches of a seed; the teacher is one for all."""
    draw = drawer(device, 1000 + seed)
    batches = []
    for _ in range(sizes.batches):
        x = draw(sizes.batch, sizes.width).to(torch.bfloat16)
        batches.append((x, task.target(x, sizes, draw, drawer(device, 7))))
    return batches


class Run:
    """One model with its optimiser, about to be trained."""

    def __init__(self, task, sizes, device, seed):
        self.sizes = sizes
        self.weights = [one.requires_grad_() for one in task.parameters(sizes, drawer(device, seed))]
        self.optimiser = torch.optim.AdamW(self.weights, lr=sizes.rate, weight_decay=0.01, capturable=device == "cuda")
        self.batches = data_of(task, sizes, device, seed)

    def step(self, forward, x, y):
        self.optimiser.zero_grad(set_to_none=True)
        loss = forward(x, y, *self.weights)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def stepwise(self, forward, recorder=None, check=None):
        """Trains step by step; the recorder sees sampled steps."""
        losses = []
        for number in range(self.sizes.steps):
            sampled = recorder is not None and number in self.sizes.sampled
            if sampled:
                recorder.mode = "copy"
            losses.append(self.step(forward, *self.batches[number % len(self.batches)]))
            if sampled:
                check(number, recorder.taken())
        return torch.stack(losses).double().tolist()

    def captured(self, forward, recorder):
        """One step as a CUDA graph, the loss that it writes, its inputs, and the calls inside of it."""
        before = [one.detach().clone() for one in self.weights]
        x, y = (one.clone() for one in self.batches[0])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(forward, x, y)
        torch.cuda.current_stream().wait_stream(side)
        # The steps before the capture are undone, where the weights and the optimiser's state lie.
        with torch.no_grad():
            for one, kept in zip(self.weights, before):
                one.copy_(kept)
            for state in self.optimiser.state.values():
                for one in state.values():
                    one.zero_()
        graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        recorder.mode = "keep"
        with torch.cuda.graph(graph):
            loss = forward(x, y, *self.weights)
            loss.backward()
            self.optimiser.step()
        return graph, loss.detach(), (x, y), recorder.taken()

    def replayed(self, forward, recorder, check=None):
        """Trains by replaying a CUDA graph."""
        graph, loss, inputs, calls = self.captured(forward, recorder)
        losses = []
        for number in range(self.sizes.steps):
            for static, given in zip(inputs, self.batches[number % len(self.batches)]):
                static.copy_(given)
            sampled = check is not None and number in self.sizes.sampled
            before = {one.data_ptr(): one.detach().clone() for one in self.weights} if sampled else {}
            graph.replay()
            losses.append(loss.clone())
            if sampled:
                check(number, [copied(call, before) for call in calls])
        return torch.stack(losses).double().tolist()


def final(losses):
    return sum(losses[-10:]) / len(losses[-10:])


def train(task, sizes, device, recorder):
    """All runs of one model: losses by mode and seed, what the checks found, and what is wrong."""
    checks, losses, seconds = Checks(), {}, {}
    compiled = torch.compile(task.postlude, fullgraph=True, dynamic=False)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    modes = {"eager": task.eager, "direct": task.postlude, "compiled": compiled}
    if device == "cuda":
        modes["graph"] = task.postlude
    for mode, forward in modes.items():
        start, losses[mode] = time.perf_counter(), []
        for seed in SEEDS:
            run = Run(task, sizes, device, seed)
            watched = seed == SEEDS[0] and mode != "eager"
            check = (lambda number, calls: checks.add(task.name, mode, number, calls)) if watched else None
            if mode == "graph":
                losses[mode].append(run.replayed(forward, recorder, check))
            else:
                losses[mode].append(run.stepwise(forward, recorder if watched else None, check))
        seconds[mode] = time.perf_counter() - start
    counters = torch._dynamo.utils.counters
    breaks = sum(counters["graph_break"].values())
    report = {
        "losses": {mode: [[runs[0], final(runs)] for runs in all_] for mode, all_ in losses.items()},
        **verdict(task.name, losses, checks.wrong),
        "checks": checks.found,
        "graphs": counters["stats"].get("unique_graphs", 0),
        "graph_breaks": breaks,
        "seconds": seconds,
    }
    if breaks:
        checks.wrong.append(f"{task.name}: {breaks} graph breaks")
    return report, checks.wrong


def verdict(name, losses, wrong):
    """Final losses beside the spread of the eager ones."""
    eager = [final(one) for one in losses["eager"]]
    least, most = min(eager), max(eager)
    if not all(final(one) < 0.95 * one[0] for all_ in losses.values() for one in all_):
        wrong.append(f"{name}: a run does not learn")
    rows = {}
    for mode, runs in losses.items():
        if mode == "eager":
            continue
        ours = [final(one) for one in runs]
        difference = [(one - twin) / twin for one, twin in zip(ours, eager)]
        inside = [least <= one <= most for one in ours]
        rows[mode] = {"final": ours, "inside": inside, "relative_to_eager_of_the_seed": difference}
        for seed, (one, twin) in enumerate(zip(ours, eager)):
            beside_an_end = twin in (least, most) and abs(one - twin) <= 0.01 * (most - least)
            if not (least <= one <= most or beside_an_end):
                wrong.append(f"{name} {mode} seed {seed}: final loss {one:.6g} is outside of {least:.6g} to {most:.6g}")
    return {"eager_final": eager, "spread": [least, most], "modes": rows}


def run(device, sizes, recorder=None):
    """Trains both models in all modes."""
    recorder = recorder or Recorder()
    recorder.install()
    report, wrong = {"sizes": sizes._asdict(), "device": device}, []
    for task in (Regression, Classifier):
        report[task.name], mistakes = train(task, sizes, device, recorder)
        wrong += mistakes
    report["wrong"] = wrong
    return report


def main():
    folder, *flags = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    small = "--small" in flags
    start = time.perf_counter()
    report = run("cpu" if small else "cuda", SMALL if small else FULL)
    report["seconds"] = time.perf_counter() - start
    with open(os.path.join(folder, "training.json"), "w") as file:
        json.dump(report, file, indent=1)
    for name in (Regression.name, Classifier.name):
        one = report[name]
        print(name, "eager", [f"{value:.6g}" for value in one["eager_final"]], "graph breaks", one["graph_breaks"])
        for mode, row in one["modes"].items():
            shares = [f"{value:+.1e}" for value in row["relative_to_eager_of_the_seed"]]
            checks = one["checks"][mode]
            print(
                f"  {mode}: {[f'{value:.6g}' for value in row['final']]}, {shares} of eager,"
                f" {sum(row['inside'])} of {len(row['inside'])} inside; {checks['checks']} calls,"
                f" {checks['elements']} elements, worst {max(checks['kernels'].values()):.3g}"
            )
    print(f"{report['seconds']:.0f} s; wrong: {report['wrong'] or 'nothing'}")
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
