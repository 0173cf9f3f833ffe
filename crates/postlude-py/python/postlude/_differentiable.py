"""How PyTorch runs a :class:`~postlude._autograd.Differentiable`: one operator for the forward pass, with its gradient.

In: the bound passes and the arguments of a call. Out: results that autograd records. The forward pass is one operator; the
steps of the backward pass are operators each, so that a compiler sees what lies between them.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor

from . import _outputs
from ._autograd import Differentiable, Step, _needed, bound
from ._errors import Error
from ._torch import _lock, argument, assign, constant, refuse_transforms, refuse_vmap, stacked, wrong


def call(operator: Differentiable, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
    """Calls the operator, or the forward kernels alone where no gradient is wanted."""
    values = stacked(assign(operator.inputs, args, kwargs))
    recorded = False
    if torch.is_grad_enabled():
        for name, value in zip(operator.inputs, values):
            if isinstance(value, Tensor) and value.requires_grad:
                if name not in operator.differentiable:
                    raise wrong(
                        f"`{name}` requires a gradient, but the backward pass of {operator.__name__!r} has none for it",
                        f"give `{name}.detach()`, or add a backward step that gives `d{name}`",
                    )
                recorded = True
    if out is not None:
        raise wrong(f"{operator.__name__!r} allocates its results", "call it without `out=`, or call its forward kernel")
    if not recorded:
        known = dict(zip(operator.inputs, values))
        for step in operator._lean:
            step(known)
        results = [known[name] for name in operator.outputs]
    else:
        if not torch.compiler.is_dynamo_compiling():
            refuse_transforms(operator.__name__, values)
        kinds = "".join([_kind(value) for value in values])
        found = getattr(torch.ops.postlude, _operator(operator._key, kinds)).default(*values)
        results = [found] if isinstance(found, Tensor) else list(found[: len(operator.outputs)])
    return results[0] if len(results) == 1 else getattr(_outputs, operator._result_type)(*results)


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return "t"
    if isinstance(value, (int, torch.SymInt)):
        return "i"
    if isinstance(value, (float, torch.SymFloat)):
        return "f"
    raise TypeError(f"a differentiable operator takes tensors and numbers, not {type(value).__name__}")


_KINDS = {"t": "Tensor", "i": "int", "f": "float"}
_made: dict[tuple[str, str], str] = {}


@constant
def _operator(key: str, kinds: str) -> str:
    """The name of the operator for arguments that are tensors, integers or floats."""
    with _lock:
        found = _made.get((key, kinds))
        if found is None:
            found = _made[key, kinds] = _make(bound[key], kinds)
        return found


def _make(operator: Differentiable, kinds: str) -> str:
    name = f"{operator._key}_{kinds}"
    arguments = [argument(one, _KINDS[kind]) for one, kind in zip(operator.inputs, kinds)]
    given = (*operator.outputs, *operator._extras)
    schema = f"({', '.join(arguments)}) -> ({', '.join(['Tensor'] * len(given))})"

    rehearsed: set[object] = set()

    def forward(values: Sequence[Any]) -> dict[str, Any]:
        known = dict(zip(operator.inputs, values))
        for step in operator._forward:
            step(known)
        return known

    def results(known: dict[str, Any]) -> Any:
        found = tuple(known[one] for one in given)
        return found[0] if len(found) == 1 else found

    def run(*values: Any) -> Any:
        return results(forward(values))

    def fake(*values: Any) -> Any:
        # Kernels know what to do with fake tensors.
        known = forward(values)
        kinds = tuple((one.dtype, one.dim()) for one in values if isinstance(one, Tensor))
        if kinds not in rehearsed:
            rehearsed.add(kinds)
            _rehearse(operator, known)
        return results(known)

    made = torch.library.custom_op(f"postlude::{name}", run, mutates_args=(), schema=schema)
    made.register_fake(fake)
    made.register_vmap(refuse_vmap(operator.__name__))
    made.register_autograd(_backward(operator), setup_context=_save(operator, given))
    return name


def _rehearse(operator: Differentiable, forward: dict[str, Any]) -> None:
    """Runs the backward pass on fake tensors, so that its operators are there.

    A compiled backward pass that comes from a cache on disk names operators that this process has not called yet.
    """
    known = {name: forward[name] for name in operator.saved}
    for name in operator.outputs:
        known[f"d{name}"] = torch.empty_like(forward[name])
    try:
        with torch.no_grad():
            for step in operator._backward:
                step(known)
    except Error:
        # A gradient that is not wanted need not fit; one that is wanted fails again, where it is asked for.
        pass


def _save(operator: Differentiable, given: Sequence[str]) -> Any:
    # Where each saved name is found: among the inputs, or among the results after them.
    places = [[*operator.inputs, *given].index(name) for name in operator.saved]
    count = len(operator.outputs)
    extras = len(given) > count

    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        results = (output,) if isinstance(output, Tensor) else tuple(output)
        everything = (*inputs, *results)
        kept = [everything[place] for place in places]
        ctx.numbers = [None if isinstance(value, Tensor) else value for value in kept]
        ctx.save_for_backward(*[value for value in kept if isinstance(value, Tensor)])
        ctx.shapes = [(one.shape, one.dtype, one.device) for one in results[:count]]
        if extras:
            ctx.mark_non_differentiable(*results[count:])
        ctx.set_materialize_grads(False)

    return setup


def _backward(operator: Differentiable) -> Any:
    def run(ctx: Any, *gradients: Any) -> Any:
        wanted = [
            f"d{name}"
            for name, needed in zip(operator.inputs, ctx.needs_input_grad)
            if needed and name in operator.differentiable
        ]
        steps = _needed(operator._backward, wanted)
        tensors = iter(ctx.saved_tensors)
        kept = [next(tensors) if number is None else number for number in ctx.numbers]
        known = dict(zip(operator.saved, kept))
        read = {name for step in steps for name in step.reads}
        for name, gradient, shape in zip(operator.outputs, gradients, ctx.shapes):
            if f"d{name}" in read:
                known[f"d{name}"] = _whole(gradient, shape)
        if not torch.is_grad_enabled():
            found = _run(steps, known, wanted)
        else:
            tracked = [value for value in known.values() if isinstance(value, Tensor) and value.requires_grad]
            with torch.no_grad():
                found = _run(steps, known, wanted)
            if tracked:
                found = list(_Once.apply(operator.__name__, len(found), *found, *tracked))
        by_name = dict(zip(wanted, found))
        return tuple(by_name.get(f"d{name}") for name in operator.inputs)

    return run


def _run(steps: Sequence[Step], known: dict[str, Any], wanted: Sequence[str]) -> list[Any]:
    for step in steps:
        step(known)
    return [known[name] for name in wanted]


def _whole(gradient: Any, shape: Any) -> Tensor:
    """A gradient as kernels read it: zeros where a result was not used, and not one element seen many times."""
    if gradient is None:
        size, dtype, device = shape
        return torch.zeros(size, dtype=dtype, device=device)
    found: Tensor = gradient.contiguous()
    return found


class _Once(torch.autograd.Function):
    """Gradients that cannot be differentiated again."""

    @staticmethod
    def forward(ctx: Any, name: str, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.name = name
        return tuple(one.clone() for one in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise wrong(
            f"{ctx.name!r} is differentiated twice, but its backward pass has no derivative",
            "call backward() without create_graph=True",
        )
