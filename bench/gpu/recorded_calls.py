"""Calls of the kernels of `postlude.torch`, recorded while a model is trained, and checked one by one.

In: a training step, eager, compiled or captured in a CUDA graph. Out: what the reference and PyTorch in f64 find of every
output. The reference is slow: it sees ROWS rows of the product. Outputs that depend on all rows are those of the kernel run
again on these rows alone.
"""

import time
from functools import cache
from typing import Any, NamedTuple

import judge
import postlude
import postlude.torch as fused
import torch
from float64 import evaluate, products
from text_parser import parse

#: Rows of an output that are compared with the reference.
ROWS = 8


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
