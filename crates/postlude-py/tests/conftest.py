"""What the tests share: random operands for any kernel that declares its dtypes, the command, and loud skips."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# JAX looks for accelerators otherwise, and takes their memory.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import ml_dtypes
import numpy as np

PACKAGE = Path(__file__).parent.parent
ROOT = PACKAGE.parent.parent

DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i32": np.dtype(np.int32),
    "bool": np.dtype(np.bool_),
    # Bits and halves of bytes are packed along the last dim.
    "b1": np.dtype(np.uint8),
    "i4": np.dtype(np.uint8),
    "u4": np.dtype(np.uint8),
}

#: Elements of the last dim that a byte holds.
PER_BYTE = {"b1": 8, "i4": 2, "u4": 2}

#: Sizes that every kernel of the library takes: M, N and K are multiples of the largest runs.
SIZES = {
    "L": 2, "B": 2, "G": 2, "H": 3, "M": 128, "N": 384, "K": 256, "Q": 128, "KV": 128, "E": 24, "F": 40, "R": 8, "T": 12, "S": 10,
    "C": 4,
}  # fmt: skip

#: Host scalars by name; all others are this number.
SCALARS = {"eps": 1e-5, "delta": 0.5, "cap": 20.0}
OTHER_SCALAR = 0.75


def shape_of(dims: list[str], sizes: dict[str, int] = SIZES) -> tuple[int, ...]:
    """The shape of declared dims such as ``["M", "N/2"]``."""

    def size(dim: str) -> int:
        if dim.isdigit():
            return int(dim)
        name, _, divisor = dim.partition("/")
        return sizes[name] // int(divisor or 1)

    return tuple(size(dim) for dim in dims)


def stored_shape(dtype: str, dims: list[str], sizes: dict[str, int] = SIZES) -> tuple[int, ...]:
    """The shape of the array: bits and halves of bytes are packed."""
    shape = shape_of(dims, sizes)
    return (*shape[:-1], shape[-1] // PER_BYTE[dtype]) if dtype in PER_BYTE else shape


def random_array(rng: np.random.Generator, name: str, dtype: str, dims: list[str], sizes: dict[str, int]) -> Any:
    """Random elements of a declared input."""
    shape = stored_shape(dtype, dims, sizes)
    if dtype == "u8" or dtype in PER_BYTE:
        array = rng.integers(0, 256, shape)
    elif dtype == "bool":
        array = rng.integers(0, 2, shape)
    elif dtype == "i8":
        array = rng.integers(-128, 128, shape)
    elif name == "ends":
        array = np.sort(rng.integers(0, sizes["T"] + 1, shape))
        array[-1] = sizes["T"]
    elif dtype == "i32":
        array = rng.integers(0, sizes["N"] if name in ("target", "token") else 9, shape)
    elif "scale" in name or name == "rms":
        array = rng.uniform(0.5, 1.5, shape)
    else:
        array = rng.standard_normal(shape)
    return np.asarray(array).astype(DTYPES[dtype])


def scalar(name: str, dtype: str) -> Any:
    """A number that the host passes."""
    return SCALARS.get(name, OTHER_SCALAR) if dtype == "f32" else 3


def operands(kernel: Any, seed: int = 0, sizes: dict[str, int] = SIZES) -> dict[str, Any]:
    """Random inputs of the dtypes and dims that a kernel declares."""
    rng = np.random.default_rng(seed)
    _, inputs, _ = kernel._native.signature
    return {
        name: scalar(name, dtype) if dims is None else random_array(rng, name, dtype, dims, sizes)
        for name, dtype, dims in inputs
    }


def empty_outputs(kernel: Any, sizes: dict[str, int] = SIZES) -> tuple[Any, ...]:
    """Arrays that a kernel's outputs fit into, filled with a pattern that no kernel leaves behind."""
    _, inputs, outputs = kernel._native.signature
    for place, second in kernel._native.second_dims:
        sizes = {**sizes, **{dim: sizes[own] for dim, own in zip(second, inputs[place][2] or ())}}
    made = []
    for _, dtype, dims in outputs:
        array = np.empty(stored_shape(dtype, dims, sizes), DTYPES[dtype])
        array.view(np.uint8).fill(0xA5) if array.ndim else array.fill(77)
        made.append(array)
    return tuple(made)


def address(array: Any) -> int:
    """Where a NumPy array begins."""
    return int(array.__array_interface__["data"][0])


def bits(array: Any) -> bytes:
    """The elements, as bytes in C order: equal nans are equal."""
    return np.ascontiguousarray(array).tobytes()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def command() -> str:
    """The `postlude` command: of the environment's POSTLUDE, else of the path."""
    found = os.environ.get("POSTLUDE") or shutil.which("postlude")
    if not found:
        pytest.skip("the `postlude` command is not built: set POSTLUDE to its path")
    subprocess.run([found, "--version"], check=True, capture_output=True, timeout=60)
    return found


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Names every skipped test's reason: a skip that is not seen is a hole."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        counts[reason] = counts.get(reason, 0) + 1
    for reason, count in sorted(counts.items()):
        terminalreporter.write_line(f"SKIPPED {count}: {reason.removeprefix('Skipped: ')}", yellow=True)
