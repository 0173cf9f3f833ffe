"""What the tests of PyTorch's operators share: devices, random operands, tolerances and compilers."""

from __future__ import annotations

from typing import Any, Iterator

import pytest
import torch
from torch import Tensor

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: NOT tested on CUDA")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.fixture(params=DEVICES)
def device(request: Any) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield


def operand_dtype(device: str) -> torch.dtype:
    """A GPU multiplies 16-bit operands."""
    return torch.float32 if device == "cpu" else torch.bfloat16


def tolerance(device: str) -> dict[str, float]:
    """Sums of at most 128 products of numbers near 1: half an ulp for each rounding of the result's dtype."""
    return {"rtol": 1e-4, "atol": 1e-4} if device == "cpu" else {"rtol": 2e-2, "atol": 5e-2}


def compiled(function: Any, device: str) -> Any:
    """The function without a graph break; the C++ compiler, which is slow, has tests of its own."""
    return torch.compile(function, fullgraph=True, backend="aot_eager" if device == "cpu" else "inductor")


def operands(device: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    dtype = operand_dtype(device)
    return [0.5 * torch.randn(shape, device=device).to(dtype) for shape in shapes]


def layer(device: str) -> tuple[Tensor, Tensor, Tensor]:
    A, W, bias = operands(device, (16, 32), (64, 32), (64,))
    return A, W, bias
