"""How the caller's framework allocates outputs, takes over memory, and names its stream."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

Shape = tuple[int, ...]
Empty = Callable[[Any, Shape, str], Any]


def numpy_dtype(name: str) -> Any:
    import numpy

    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError(
                f"NumPy has no {name}; `pip install ml_dtypes` gives it one"
            ) from None
        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


def _numpy_empty(like: Any, shape: Shape, dtype: str) -> Any:
    import numpy

    return numpy.empty(shape, numpy_dtype(dtype))


def _torch_empty(like: Any, shape: Shape, dtype: str) -> Any:
    import torch

    return torch.empty(shape, dtype=getattr(torch, dtype), device=like.device)


def _cupy_empty(like: Any, shape: Shape, dtype: str) -> Any:
    import cupy

    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"):
        raise TypeError(f"CuPy has no {dtype}; give PyTorch tensors, or another output dtype")
    with like.device:
        return cupy.empty(shape, dtype)


def _postlude_memory(like: Any, shape: Shape, dtype: str) -> Any:
    # JAX arrays cannot be written: the memory is Postlude's until JAX takes it over.
    return None


_EMPTY: dict[str, Empty] = {
    "numpy": _numpy_empty,
    "torch": _torch_empty,
    "cupy": _cupy_empty,
    "jax": _postlude_memory,
    "jaxlib": _postlude_memory,
}


def _framework(array: Any) -> str:
    for base in type(array).__mro__:
        root = base.__module__.partition(".")[0]
        if root in _EMPTY:
            return root
    return type(array).__module__.partition(".")[0]


def empty(like: Any, shape: Shape, dtype: str) -> Optional[Any]:
    """An array of the framework that `like` is of, on its device; None where Postlude allocates."""
    framework = _framework(like)
    allocate = _EMPTY.get(framework)
    if allocate is None:
        raise TypeError(
            f"arrays of {framework} are read, but Postlude does not know how to allocate one: pass `out=`"
        )
    return allocate(like, shape, dtype)


def is_traced(arguments: Any) -> bool:
    """Whether JAX is tracing a call with these arguments: some have no data."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(one, jax.core.Tracer) for one in jax.tree.leaves(arguments))


def adopt(like: Any, memory: Any) -> Any:
    """Hands memory of Postlude over to the framework of `like`."""
    import jax

    return jax.dlpack.from_dlpack(memory)


def stream(like: Any, device: int) -> int:
    """The stream of a GPU that the framework of `like` works on."""
    if _framework(like) == "cupy":
        cupy = sys.modules["cupy"]
        return int(cupy.cuda.get_current_stream().ptr)
    if _framework(like) == "torch":
        torch = sys.modules["torch"]
        return int(torch.cuda.current_stream(device).cuda_stream)
    return 0
