"""Calls that JAX traces (``jax.jit``, ``jax.vmap``): callbacks that run the kernel when there is data.

In: a kernel and arguments without data. Out: results without data, of the shapes and dtypes that the kernel infers.
Invariant: the callback gets arrays of the host, so the kernel runs on the CPU wherever the rest runs.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy

from . import _outputs
from ._errors import CallError
from ._frameworks import numpy_dtype
from ._kernel import Kernel, described


def call(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """The results of a call, for JAX to compute later."""
    if out is not None:
        raise CallError("arrays of JAX cannot be written: call without `out=`")
    native = kernel._native
    given = native.ordered(args, kwargs)
    signature = native.signature
    declared = [dims is None for _, _, dims in signature[1]] if signature else [False] * len(given)
    numbers = [isinstance(one, (int, float)) or number for one, number in zip(given, declared)]
    shaped = [
        ("float32", None) if number and not isinstance(one, int) else described(name, one)
        for name, one, number in zip(kernel.inputs, given, numbers)
    ]
    outputs = native.infer(shaped)

    def run(*values: Any) -> tuple[Any, ...]:
        ready = [
            one if isinstance(one, (int, float)) else value.item() if number else value
            for one, number, value in zip(given, numbers, jax.tree.map(numpy.asarray, list(values)))
        ]
        result = native.call(tuple(ready), {}, None)
        return (result,) if len(outputs) == 1 else tuple(result)

    shapes = tuple(jax.ShapeDtypeStruct(tuple(shape), numpy_dtype(dtype)) for _, shape, dtype in outputs)
    results = jax.pure_callback(run, shapes, *given, vmap_method="sequential")
    if len(results) == 1:
        return results[0]
    return _outputs.named(tuple(name for name, _, _ in outputs), tuple(results))
