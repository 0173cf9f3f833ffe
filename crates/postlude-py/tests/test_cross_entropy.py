"""The passes of a linear cross entropy over pieces of the classes, on arrays of NumPy beside f64."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from postlude import _cross_entropy as passes
from postlude import kernels
from postlude._class_pieces import Piece, Place, Sizes, TooSmall, columns_of, pieces

DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def fits(sizes: Sizes, found: tuple[Piece, ...]) -> None:
    """Pieces are all classes, and no row of the gradient is written over logits that are still to be read."""
    assert (found[0].first, found[-1].end) == (0, sizes.classes)
    assert all(one.end == following.first for one, following in zip(found, found[1:]))
    for one in found:
        assert one.first < one.end
        if one.place is Place.GRADIENT:
            assert one.offset + sizes.rows * one.width <= sizes.features * one.first


def test_no_row_of_the_gradient_is_written_over_logits_that_are_still_to_be_read() -> None:
    rng = np.random.default_rng(1)
    for _ in range(3000):
        rows, features, classes = (int(rng.integers(low, high)) for low, high in ((0, 300), (1, 200), (1, 3000)))
        sizes = Sizes(rows, features, classes, int(rng.choice([2, 4])))
        to_input, in_gradient = (bool(rng.integers(2)) for _ in range(2))
        try:
            found = pieces(sizes, int(rng.integers(0, 400_000)), to_input=to_input, in_gradient=in_gradient)
        except TooSmall as error:
            found = pieces(sizes, error.least, to_input=to_input, in_gradient=in_gradient)
        fits(sizes, found)
        assert in_gradient or all(one.place is not Place.GRADIENT for one in found)


def test_logits_of_a_language_model_are_kept_whole_in_its_workspace_and_its_gradient() -> None:
    sizes = Sizes(8192, 4096, 128_256, 2)
    found = pieces(sizes, 1_400_000_000, to_input=True, in_gradient=True)
    fits(sizes, found)
    assert [one.place for one in found] == [Place.WORKSPACE, Place.GRADIENT, Place.GRADIENT]
    assert 2 * sizes.rows * found[0].end + 4 * sizes.rows * sizes.features < 1_400_000_000


def test_a_workspace_that_is_too_small_says_how_many_bytes_are_enough() -> None:
    with pytest.raises(TooSmall) as caught:
        columns_of(Sizes(64, 32, 1000, 2), 100, to_input=True)
    columns_of(Sizes(64, 32, 1000, 2), caught.value.least, to_input=True)


def expected(x: Any, w: Any, bias: Any, target: Any, d: Any, smoothing: float, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Losses and gradients in f64, of logits that are rounded to the operands' dtype."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    z = x @ w.T + (0 if bias is None else bias.astype(np.float64))
    z = z.astype(np.float32).astype(dtype).astype(np.float64)
    classes = w.shape[0]
    most = z.max(1, keepdims=True)
    lse = np.log(np.exp(z - most).sum(1)) + most[:, 0]
    known = (target >= 0) & (target < classes)
    hits = np.zeros_like(z)
    hits[np.nonzero(known)[0], target[known]] = 1
    wanted = (1 - smoothing) * hits + smoothing / classes
    losses = np.where(known, lse - (wanted * z).sum(1), np.nan)
    g = (np.exp(z - lse[:, None]) - wanted) * d[:, None]
    g = g.astype(np.float32).astype(dtype).astype(np.float64)
    return losses, g @ w, g.T @ x, g.sum(0)


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
@pytest.mark.parametrize(("bias", "smoothing"), [(False, 0.0), (True, 0.0), (False, 0.125), (True, 0.125)])
@pytest.mark.parametrize("columns", [24, 96, 128, 208])
def test_passes_are_those_of_f64_in_any_workspace(dtype: str, bias: bool, smoothing: float, columns: int) -> None:
    rng = np.random.default_rng(columns)
    rows, features, classes = 40, 32, 203
    element = DTYPES[dtype]
    sizes = Sizes(rows, features, classes, element.itemsize)
    x, w = (rng.standard_normal(shape).astype(element) for shape in ((rows, features), (classes, features)))
    offsets = rng.standard_normal(classes).astype(np.float32) if bias else None
    target = rng.integers(0, classes, rows).astype(np.int32)
    target[3] = -100
    d = rng.uniform(0.5, 2, rows).astype(np.float32)
    d[3] = 0
    workspace = 4 * rows * features + rows * (128 * element.itemsize + 12) * columns // 128 + 1
    found = pieces(sizes, workspace, to_input=True, in_gradient=True)
    fits(sizes, found)
    gradient = np.full((classes, features), np.nan, element)
    held = columns_of(sizes, workspace, to_input=True)
    memory = passes.Memory(np.full(rows * held, np.nan, element), gradient.reshape(-1))
    call = passes.Call(dtype, x, w, offsets, target, smoothing, found)
    unknown = tuple(np.full(rows, value, np.float32) for value in (-np.inf, np.nan, 0))
    losses, lse = passes.forward(call, memory, unknown, lambda: np.empty(rows, np.float32))
    scale = np.array(0.25, np.float32)
    sums = np.full((rows, features), np.nan, np.float32) if len(found) > 1 else None
    own = passes.Gradients(np.empty_like(x), gradient, np.empty(classes, np.float32) if bias else None, sums)
    passes.backward(call, memory, own, lse, d, scale)
    want = expected(x, w, offsets, target, d, smoothing, element)
    # One rounding of a logit or of a gradient may fall the other way.
    bound = 1e-5 if dtype == "f32" else 2e-2
    near(losses, want[0], 1e-5 if dtype == "f32" else 4e-2)
    near(own.x.astype(np.float64), 0.25 * want[1], bound * np.abs(want[1]).max())
    near(own.weight.astype(np.float64), 0.25 * want[2], bound * np.abs(want[2]).max())
    if bias:
        near(own.bias, want[3], bound * np.abs(want[3]).max())


def near(got: Any, want: Any, bound: float) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-2 if bound > 1e-4 else 1e-4, atol=bound)


def test_without_memory_the_loss_is_one_launch_and_the_same() -> None:
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((9, 16), (50, 16)))
    target = rng.integers(0, 50, 9).astype(np.int32)
    target[0] = 50
    call = passes.Call("f32", x, w, None, target, 0.0, [Piece(0, 50, Place.RECOMPUTED, 0)])
    unknown = tuple(np.full(9, value, np.float32) for value in (-np.inf, np.nan, 0))
    losses, _ = passes.forward(call, None, unknown, lambda: np.empty(9, np.float32))
    want = expected(x, w, None, target, np.ones(9), 0.0, np.dtype(np.float32))[0]
    np.testing.assert_allclose(losses, want, rtol=1e-5, atol=1e-5)
    assert np.isnan(losses[0])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cross_entropy_chunk", passes.forward_text("bf16")),
        ("cross_entropy_chunk_gradient", passes.gradient_text("bf16")),
    ],
)
def test_plain_passes_are_the_library_s_kernels(name: str, text: str) -> None:
    def words(text: str) -> list[str]:
        code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        return re.sub(r"[(),]", " ", code).split()

    assert words(getattr(kernels, name).text) == words(text)
