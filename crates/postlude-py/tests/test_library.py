"""Every kernel of the library from NumPy, on the CPU: right, without a copy, and to the bit what the command computes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import PER_BYTE, SIZES, address, bits, empty_outputs, operands

import postlude
from postlude import kernels

NAMES = dir(kernels)

#: Kernels that are run by the command too: NumPy's files have no bf16 or fp8, so that these are all of f16, f32 and integers.
BESIDE_THE_COMMAND = [
    "bce_gradient",
    "gelu_backward_bias",
    "gelu_tanh_backward_bias",
    "lincomb_bias_gelu_aux",
    "lincomb_gelu_backward",
    "product_f32",
    "u8_product",
    "w8a8_requantise",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_agrees_with_the_reference(name: str) -> None:
    kernel = getattr(kernels, name)
    found = kernel.check(**operands(kernel))
    assert [one.name for one in found] == list(kernel.outputs)
    assert all(one.wrong == 0 and one.elements > 0 and one.worst <= 1 for one in found), found


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_writes_where_it_is_told(name: str) -> None:
    kernel = getattr(kernels, name)
    inputs, out = operands(kernel), empty_outputs(kernel)
    before = {name: bits(array) for name, array in inputs.items()}
    addresses = [address(array) for array in out]
    result = kernel(**inputs, out=out)
    results = (result,) if len(out) == 1 else tuple(result)
    assert all(given is returned for given, returned in zip(out, results, strict=True))
    assert [address(array) for array in results] == addresses
    again = kernel(**inputs)
    allocated = (again,) if len(out) == 1 else tuple(again)
    assert [bits(array) for array in allocated] == [bits(array) for array in out]
    assert {name: bits(array) for name, array in inputs.items()} == before


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_reads_strided_arrays_where_they_lie(name: str) -> None:
    kernel = getattr(kernels, name)
    inputs = operands(kernel)
    _, declared, _ = kernel._native.signature
    packed = {name for name, dtype, _ in declared if dtype in PER_BYTE}
    views = {name: value if name in packed else scattered(value) for name, value in inputs.items()}
    expected, result = kernel(**inputs), kernel(**views)
    several = isinstance(expected, tuple)
    pairs = zip(expected, result, strict=True) if several else [(expected, result)]
    assert all(bits(one) == bits(other) for one, other in pairs)


def scattered(value: Any) -> Any:
    """The same elements in a larger array: reversed rows, every other column, an offset."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    large = np.zeros([2 * size + 1 for size in value.shape], value.dtype)
    view = large[tuple(slice(1, None, 2) for _ in value.shape)][::-1]
    view[...] = value
    assert view.strides[0] < 0 and np.shares_memory(view, large)
    return view


@pytest.mark.parametrize("name", BESIDE_THE_COMMAND)
@pytest.mark.parametrize("math", ["accurate", "fast"])
def test_bits_are_those_of_the_command(name: str, math: str, command: str, tmp_path: Path) -> None:
    kernel = postlude.compile(getattr(kernels, name).text, math=math)
    assert_bits_are_those_of(command, kernel, ["--math", math], tmp_path)


def test_bits_are_those_of_the_command_without_a_word_about_math(command: str, tmp_path: Path) -> None:
    assert_bits_are_those_of(command, kernels.bce_gradient, [], tmp_path)


def assert_bits_are_those_of(command: str, kernel: Any, flags: list[str], folder: Path) -> None:
    """Runs the command on files of random inputs, and the kernel on the arrays."""
    inputs = operands(kernel, seed=7)
    _, _, outputs = kernel._native.signature
    words = [command, "run", kernel.text, "--backend", "cpu", *flags]
    for argument, value in inputs.items():
        if isinstance(value, np.ndarray):
            np.save(folder / f"{argument}.npy", value)
            words += ["--in", f"{argument}={folder / argument}.npy"]
        else:
            words += ["--set", f"{argument}={value}"]
    for output, _, _ in outputs:
        words += ["--out", f"{output}={folder / output}_out.npy"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    result = kernel(**inputs)
    results = (result,) if len(outputs) == 1 else tuple(result)
    for (output, _, _), array in zip(outputs, results, strict=True):
        written = np.load(folder / f"{output}_out.npy")
        assert written.dtype == array.dtype and bits(written) == bits(array), output


def test_kernels_are_compiled_once() -> None:
    assert kernels.swiglu is kernels.swiglu
    assert kernels.swiglu is postlude.kernels.swiglu


def test_a_kernel_of_the_library_has_its_description_and_name() -> None:
    assert kernels.swiglu.__name__ == "swiglu"
    assert kernels.swiglu.__doc__ == "Gate and up projections in one product, through SwiGLU"
    assert repr(kernels.swiglu) == "<postlude.Kernel swiglu(A, W)>"


def test_an_unknown_kernel_is_an_attribute_error_with_a_near_name() -> None:
    with pytest.raises(AttributeError, match="no kernel 'swigul'; did you mean 'swiglu'"):
        kernels.swigul


@pytest.mark.parametrize("name", ["linear_gelu", "swiglu_aux", "bce_loss_gradient", "mse_loss"])
def test_sizes_of_the_library_may_be_zero(name: str) -> None:
    kernel = getattr(kernels, name)
    inputs = operands(kernel, sizes={**SIZES, "M": 0})
    result = kernel(**inputs)
    for array in result if isinstance(result, tuple) else (result,):
        assert 0 in array.shape or array.dtype == np.float32
