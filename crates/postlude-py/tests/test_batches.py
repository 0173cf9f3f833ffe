"""Several batch dims, and one tensor under two names."""

from __future__ import annotations

import numpy as np
import pytest

import postlude
from postlude import kernel
from postlude.lang import bf16, f32, index

HEADS = """kernel heads(Q: f32[B, H, M, K], Keys: f32[B, H, N, K], bias: f32[H, N], scale: f32[B]) -> (S: f32[B, H, M, N], t: f32[B, H]) {
    S = scale * (Q @ Keys.T) + bias
    t = sum(S, M, N)
}"""


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


def heads(q: np.ndarray, keys: np.ndarray, bias: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores = scale[:, None, None, None] * np.einsum("bhmk,bhnk->bhmn", q, keys) + bias[:, None, :]
    return scores, scores.sum((2, 3))


def test_two_batch_dims_are_numpys() -> None:
    q, keys, bias, scale = random(2, 3, 5, 4), random(2, 3, 7, 4), random(3, 7), random(2)
    for given, wanted in zip(postlude.compile(HEADS)(q, keys, bias, scale), heads(q, keys, bias, scale)):
        assert np.array_equal(given, wanted)


def test_heads_that_lie_between_the_rows_need_no_copy() -> None:
    # As a projection leaves them: [B, M, H, K].
    q, keys = random(2, 5, 3, 4).transpose(0, 2, 1, 3), random(2, 7, 3, 4).transpose(0, 2, 1, 3)
    bias, scale = random(3, 7), random(2)
    out = np.zeros((2, 5, 3, 7), np.float32).transpose(0, 2, 1, 3)
    postlude.compile(HEADS, outputs="S")(q, keys, bias, scale, out=out)
    assert np.array_equal(out, heads(q, keys, bias, scale)[0])


def test_one_liners_take_their_batch_dims_from_the_arrays() -> None:
    a, b = random(2, 3, 5, 4), random(3, 4, 7)
    assert np.array_equal(postlude.compile("D = A @ B")(a, b), a @ b)
    deep = random(2, 2, 3, 5, 4)
    assert np.array_equal(postlude.compile("D = A @ B + 1")(deep, b), deep @ b + 1)


def test_more_than_three_batch_dims_are_refused() -> None:
    with pytest.raises(postlude.KernelError, match="up to three batch dims"):
        postlude.compile("D = A @ B")(random(1, 1, 1, 1, 2, 2), random(2, 2))


@kernel
def gram(A: f32["M", "K"], B: f32["N", "K"].same_as("A"), alpha: f32) -> f32["M", "N"]:
    """Inner products of all pairs of rows"""
    return alpha * (A @ B.T)


@kernel
def numbered(A: f32["B", "H", "M", "K"], W: f32["H", "N", "K"]) -> f32["B", "H", "M", "N"]:
    """A product with the numbers of its batch"""
    return A @ W.T + 10 * f32(index("B")) + f32(index("H"))


def test_one_tensor_is_passed_once() -> None:
    a = random(6, 4)
    assert gram.inputs == ("A", "alpha")
    assert "B: f32[N, K] = A" in str(gram)
    assert np.array_equal(gram(a, 2.0), 2 * (a @ a.T))
    assert np.array_equal(gram(A=a, alpha=1.0), a @ a.T)
    assert np.array_equal(gram(a.T[:4].copy().T, 1.0), a @ a.T)


def test_the_second_name_is_not_passed() -> None:
    with pytest.raises((TypeError, postlude.CallError)):
        gram(A=random(6, 4), B=random(6, 4), alpha=1.0)


def test_indices_of_batch_dims_are_traced() -> None:
    a, w = random(2, 3, 5, 4), random(3, 7, 4)
    number = 10 * np.arange(2)[:, None, None, None] + np.arange(3)[:, None, None]
    assert np.array_equal(numbered(a, w), np.einsum("bhmk,hnk->bhmn", a, w) + number)


def test_a_name_of_nothing_is_refused() -> None:
    with pytest.raises(postlude.KernelError, match="no input before it"):

        @kernel
        def wrong(A: bf16["M", "K"], B: bf16["N", "K"].same_as("C")) -> f32["M", "N"]:
            return A @ B.T
