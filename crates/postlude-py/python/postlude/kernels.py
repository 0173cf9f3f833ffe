"""The kernel library: ``postlude.kernels.swiglu`` and its siblings, compiled when they are asked for.

>>> import postlude
>>> print(postlude.kernels.swiglu.text.splitlines()[0])
# Gate and up projections in one product, through SwiGLU
>>> "linear_gelu" in dir(postlude.kernels)
True
"""

from __future__ import annotations

from difflib import get_close_matches

from . import _native
from ._kernel import Kernel

_library = {name: (description, text) for name, description, text in _native.library()}
_compiled: dict[str, Kernel] = {}

__all__ = sorted(_library)


def __getattr__(name: str) -> Kernel:
    if name in _compiled:
        return _compiled[name]
    if name not in _library:
        near = get_close_matches(name, _library, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"the library has no kernel {name!r}{hint}")
    description, text = _library[name]
    return _compiled.setdefault(name, Kernel(text, doc=description))


def __dir__() -> list[str]:
    return __all__
