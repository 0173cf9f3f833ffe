"""Two models trained by Postlude's operators beside eager PyTorch: operators within the contract, and the same loss.

The models are two gated layers (`swiglu_mlp` with a residual, then `swiglu` and `linear_mse_loss`) on a teacher's
regression, and a classifier of independent labels (`linear_gelu`, `linear_bce_loss`). Weights are f32, rounded to bf16 for
each step; AdamW updates them. A seed decides initial weights and batches; eager PyTorch and Postlude get the same of both.

Postlude trains in three modes: direct calls, forward and backward compiled by `torch.compile(fullgraph=True)`, and one CUDA
graph of forward, backward and optimiser that is replayed for every step.

Operators: on sampled steps of the first seed every kernel's inputs and outputs are recorded, in all three modes.
`kernel.check` compares ROWS rows of each output with the reference; outputs that depend on all rows (a loss, a sum) are
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
from functools import cache, partial
from typing import Any, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "python")]

import judge  # noqa: E402
import postlude  # noqa: E402
import postlude.torch as fused  # noqa: E402
import torch  # noqa: E402
from float64 import evaluate, products  # noqa: E402
from text_parser import parse  # noqa: E402
from torch.nn import functional  # noqa: E402

ROWS = 16
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


class Call(NamedTuple):
    kernel: postlude.Kernel
    arguments: list[Any]
    outputs: list[Any]


class Recorder:
    """Sees the calls of the kernels of `postlude.torch`: in `copy` mode as they are now, in `keep` mode by reference.

    References hold what a CUDA graph computes: memory that is not released is not used again inside of the graph.
    """

    def __init__(self):
        self.mode, self.calls = "off", []

    def install(self):
        """Stands between kernels and their native halves; before any of them has become an operator."""
        operators = [*fused._LAYERS.values(), fused._swiglu, *fused._MLPS.values(), *fused._LOSS_OPERATORS.values()]
        for operator in operators:
            for step in (*operator._forward, *operator._backward, *operator._lean):
                if isinstance(step.run, postlude.Kernel) and not isinstance(step.run._native, Witness):
                    step.run._native = Witness(step.run, step.run._native, self)

    def taken(self):
        calls, self.calls, self.mode = self.calls, [], "off"
        return calls


class Witness:
    def __init__(self, kernel, native, recorder):
        self._kernel, self._native, self._recorder = kernel, native, recorder

    def __getattr__(self, name):
        return getattr(self._native, name)

    def __call__(self, *args, out=None, **kwargs):
        return self.seen(args, kwargs, self._native(*args, out=out, **kwargs))

    def call(self, args, kwargs, out):
        return self.seen(args, kwargs, self._native.call(args, kwargs, out))

    def seen(self, args, kwargs, result):
        # A call that becomes an operator's is seen there.
        if self._recorder.mode != "off" and result is not NotImplemented:
            arguments = [*args, *(kwargs[name] for name in self._native.inputs[len(args) :])]
            call = Call(self._kernel, arguments, list(result) if isinstance(result, tuple) else [result])
            self._recorder.calls.append(copied(call) if self._recorder.mode == "copy" else call)
        return result


def copied(call, instead=None):
    """The call with memory of its own; `instead` has other contents for tensors at an address."""

    def one(value):
        if not isinstance(value, torch.Tensor):
            return value
        return (instead or {}).get(value.data_ptr(), value).detach().clone()

    return Call(call.kernel, [one(value) for value in call.arguments], [one(value) for value in call.outputs])


def typed_text(call):
    """The kernel's text with its signature; a one-liner's follows from the arguments."""
    native = call.kernel._native
    if native.signature is not None:
        return native.text
    return native.typed_text(call.kernel._shapes(call.arguments, {}, True))


@cache
def program(text):
    return parse(text)


@cache
def compiled_kernel(text, outputs):
    return postlude.compile(text, outputs=list(outputs))


def row_dim(parsed):
    """The name of the product's rows."""
    tree, _ = next(found for _, tree in parsed.statements for found in products(tree))
    transposed = False
    while tree[0] == "transpose":
        tree, transposed = tree[1], not transposed
    dims = next(one.dims for one in parsed.inputs if one.name == tree[1])
    return dims[-1 if transposed else -2][0]


def chosen(value, declared, rows):
    """The rows of a tensor that has them, spread from the first to the last."""
    names = [name for name, _ in declared.dims or ()]
    if rows not in names:
        return value
    place = names.index(rows)
    count = value.shape[place]
    picked = torch.linspace(0, count - 1, min(ROWS, count), device=value.device).round().long()
    return value.index_select(place, picked)


def within_contract(call):
    """What the reference finds of a call's outputs: name, elements, how many are wrong, and the worst share of a bound."""
    text = typed_text(call)
    parsed = program(text)
    rows = row_dim(parsed)
    arguments = [chosen(*pair, rows) for pair in zip(call.arguments, parsed.inputs, strict=True)]
    host = tuple(one.cpu() if isinstance(one, torch.Tensor) else one for one in arguments)
    outputs = [one for one in parsed.outputs if one.name in call.kernel._native.outputs or not call.kernel._native.outputs]
    by_row = [one for one in outputs if rows in [name for name, _ in one.dims]]
    results = dict(zip([one.name for one in outputs], call.outputs, strict=True))
    found = []
    if by_row:
        kernel = compiled_kernel(text, tuple(one.name for one in by_row))
        found += kernel._native.check(host, {}, [chosen(results[one.name], one, rows).cpu() for one in by_row])
    others = tuple(one.name for one in outputs if one not in by_row)
    if others:
        kernel = compiled_kernel(text, others)
        again = kernel(*arguments)
        again = again if isinstance(again, tuple) else (again,)
        found += kernel._native.check(host, {}, [one.cpu() for one in again])
    return found


def near_float64(call):
    """All elements of all outputs beside PyTorch in f64."""
    text = typed_text(call)
    declared = [(one.name, one.dtype, one.dims) for one in program(text).outputs]
    judged = evaluate(text, call.arguments)
    return judge.direct(text, call.arguments, judged, call.outputs, declared)


class Checks:
    """What the checks of a model's operators found, by mode."""

    def __init__(self):
        self.found, self.wrong = {}, []

    def add(self, task, mode, step, calls):
        row = self.found.setdefault(mode, {"kernels": {}, "checks": 0, "elements": 0, "f64_elements": 0, "seconds": 0.0})
        start = time.perf_counter()
        for call in calls:
            name = " ".join(call.kernel.text.split())
            row["checks"] += 1
            for output, elements, wrong, worst in within_contract(call):
                row["elements"] += elements
                row["kernels"][name] = max(row["kernels"].get(name, 0.0), worst)
                if wrong:
                    self.wrong.append(f"{task} {mode} step {step}: `{name}`: {wrong} of {elements} elements of {output}")
            for one in near_float64(call) if mode == "direct" else []:
                row["f64_elements"] += one["elements"]
                if one["beyond"] > one["allowed_beyond"]:
                    self.wrong.append(f"{task} {mode} step {step}: `{name}`: {one['output']} is not near f64: {one}")
        if not calls:
            self.wrong.append(f"{task} {mode} step {step}: no kernel was called")
        row["seconds"] += time.perf_counter() - start


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
