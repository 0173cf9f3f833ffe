"""Several outputs of one call, as a named tuple."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=None)
def result_type(names: tuple[str, ...]) -> Any:
    """The named tuple of outputs with these names."""
    # A name that a named tuple cannot have keeps its place.
    made = namedtuple("Outputs", names, rename=True, module=__name__)  # type: ignore[misc]
    made.__qualname__ = type_name(names)
    # Pickles and compiled code find it here.
    globals()[made.__qualname__] = made
    return made


def type_name(names: tuple[str, ...]) -> str:
    """Where the named tuple of outputs with these names is found in this module."""
    return "Outputs_" + "_".join(f"{len(name)}{name}" for name in names)


def named(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    """The outputs of a call, by name and in order."""
    return result_type(names)(*values)
