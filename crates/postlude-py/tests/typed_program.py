"""A user's program, which mypy and pyright accept in strict mode and which runs."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

import postlude
from postlude.lang import Tensor, absmax, bf16, f32, gelu, grad, halves, mean, rsqrt, silu, where

Floats = npt.NDArray[np.float32]
Matrix = Annotated[Tensor, f32("M", "K")]


@postlude.kernel
def linear_gelu(
    A: Matrix, W: Annotated[Tensor, f32("N", "K")], bias: Annotated[Tensor, f32("N")], alpha: Annotated[Tensor, f32]
) -> Annotated[Tensor, f32("M", "N")]:
    return gelu(alpha * (A @ W.T) + bias)


@postlude.kernel(math="fast", threads=2)
def normalised(
    A: Matrix, W: Annotated[Tensor, f32("N", "K")]
) -> tuple[Annotated[Tensor, f32("M", "N")], Annotated[Tensor, f32("M")]]:
    z = A @ W.T
    scale = rsqrt(mean(z**2, "N") + 1e-5)
    return -z * scale, scale


class Quantised(NamedTuple):
    D: Annotated[Tensor, bf16("M", "N")]
    amax: Annotated[Tensor, f32()]


@postlude.kernel
def quantised(A: Matrix, W: Annotated[Tensor, f32("N", "K")]) -> Quantised:
    z = A @ W.T
    return Quantised(bf16(where((z > 0) & (z < 6), z, 0.0)), absmax(z))


@postlude.kernel
def gated(A: Matrix, W: Annotated[Tensor, f32("N", "K")]) -> Annotated[Tensor, f32("M", "N/2")]:
    gate, up = halves(A @ W.T)
    return silu(gate) * up + grad(gelu)(up)


@postlude.kernel
def gram(A: Matrix, B: Annotated[Tensor, f32("N", "K").same_as("A")]) -> Annotated[Tensor, f32("M", "N")]:
    return A @ B.T


def rows(count: int) -> Floats:
    return np.ones((count, 8), np.float32)


def largest(A: Floats, W: Floats) -> float:
    """Results have the types of the first argument."""
    D: Floats = linear_gelu(A, W, np.zeros(4, np.float32), 2.0)
    kept: Floats = linear_gelu(A, W, bias=np.zeros(4, np.float32), alpha=2.0, out=D)
    z, scale = normalised(A, W)
    pair: tuple[Floats, Floats] = (z, scale)
    result = quantised(A, W)
    assert result.D.shape == (2, 4) and np.asarray(result.amax).shape == ()
    squares: Floats = gram(A)
    halved: Floats = gated(A, W)
    return float(max(kept.max(), pair[0].max(), squares.max(), halved.max()))


def described() -> tuple[str, ...]:
    """Kernels of text, errors and tools."""
    kernel: postlude.Kernel = postlude.compile("D = relu(A @ W.T)", math="fast", backend="reference")
    comparisons: list[postlude.Comparison] = kernel.check(rows(2), rows(4))
    wrong: int = comparisons[0].wrong
    library: postlude.Kernel = postlude.kernels.swiglu
    text: str = library.explain(stage="text")
    any_kernel: postlude.Kernel = linear_gelu
    try:
        postlude.compile("D = geluu(A @ W.T)")(rows(2), rows(4))
    except postlude.FindingsError as error:
        findings: tuple[postlude.Finding, ...] = error.findings
        return tuple(one.text for one in findings)
    except postlude.Error as error:
        help: Optional[str] = error.help
        return (*any_kernel.inputs, str(wrong), text.splitlines()[0], help or "")
    return ()


if __name__ == "__main__":
    print(largest(rows(2), rows(4)), described())
