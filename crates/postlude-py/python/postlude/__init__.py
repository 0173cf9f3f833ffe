"""Postlude compiles the math written around a matrix product into the product's own kernel.

>>> import numpy as np, postlude
>>> kernel = postlude.compile("D = relu(A @ W.T + bias[N])")
>>> D = kernel(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32), bias=np.full(4, -2, np.float32))
>>> D.shape, D[0, 0].item()
((2, 4), 1.0)

``compile`` takes text, ``kernel`` decorates a function; both give a :class:`Kernel`. ``kernels`` is the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import CallError, Diagnostic, Error, Finding, FindingsError, InternalError, KernelError, RefusedError
from ._kernel import Comparison, Explanation, Kernel, compile
from ._native import __version__

if TYPE_CHECKING:
    from . import kernels, lang
    from ._autograd import autograd
    from ._trace import kernel

__all__ = [
    "CallError",
    "Comparison",
    "Diagnostic",
    "Error",
    "Explanation",
    "Finding",
    "FindingsError",
    "InternalError",
    "Kernel",
    "KernelError",
    "RefusedError",
    "autograd",
    "compile",
    "info",
    "kernel",
    "kernels",
    "lang",
]

# Parts that are not needed by every import; those that need PyTorch import it.
_LATER = {
    "autograd": ("._autograd", "autograd"),
    "kernel": ("._trace", "kernel"),
    "kernels": (".kernels", None),
    "lang": (".lang", None),
    "torch": (".torch", None),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _LATER:
        raise AttributeError(f"module 'postlude' has no attribute {name!r}")
    module, attribute = _LATER[name]
    found = import_module(module, __name__)
    value = found if attribute is None else getattr(found, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def info() -> str:
    """This package, the GPUs that it sees, and its backends, as text."""
    from . import _native

    gpus, why, backends = _native.machine()
    lines = [f"postlude {__version__}", *(gpus or [f"no GPU: {why}"]), f"backends: {', '.join(backends)}"]
    return "\n".join(lines)
