"""Arrays of int64 as indices, ends, counts and labels: the nearest i32 of every number is read, and nothing is converted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import bits

import postlude
from postlude import kernels

LABELS = np.array([1, -100, 0, (1 << 32) + 1, np.iinfo(np.int64).max, 3, np.iinfo(np.int64).min, 2])
PICKED = postlude.compile(
    "kernel picked(X: f32[M, N], t: i32[M]) -> (p: f32[M], D: f32[M, N]) {\n"
    "    p = where(t == -100, 0.0, logsumexp(X, N) - pick(X, t))\n    D = where(col < t, X, 0.0)\n}"
)


def narrow(wide: Any) -> Any:
    limits = np.iinfo(np.int32)
    return wide.clip(limits.min, limits.max).astype(np.int32)


def rows(count: int = 8, columns: int = 5) -> Any:
    return np.random.default_rng(0).standard_normal((count, columns)).astype(np.float32)


def same(got: Any, want: Any) -> None:
    for one, other in zip(got, want):
        assert np.array_equal(bits(one), bits(other))


def test_labels_are_those_of_the_nearest_int32() -> None:
    X = rows()
    for _ in range(2):
        same(PICKED(X, LABELS), PICKED(X, narrow(LABELS)))
    same(PICKED(X, LABELS[::-1]), PICKED(X, narrow(LABELS)[::-1]))
    spread = np.stack([LABELS, LABELS], 1)[:, 0]
    same(PICKED(X, spread), PICKED(X, narrow(LABELS)))
    assert PICKED(X, LABELS).p[1] == 0 and np.isnan(PICKED(X, LABELS).p[3])


def test_a_one_liner_reads_labels() -> None:
    X = rows()
    kernel = postlude.compile("p = logsumexp(X, N) - pick(X, t[M])")
    same([kernel(X, LABELS)], [kernel(X, narrow(LABELS))])


def test_cumulated_counts_are_ends() -> None:
    A, W = rows(12, 16), np.stack([rows(8, 16)] * 3)
    bias = np.zeros((3, 8), np.float32)
    kernel = postlude.compile(
        "kernel grouped(A: f32[T, K], W: f32[E, N, K], bias: f32[E, N], ends: i32[E]) -> D: f32[T, N] {\n"
        "    D = segments(A, ends) @ W.T + bias\n}"
    )
    ends = np.cumsum(np.array([3, 0, 9]))
    assert ends.dtype == np.int64
    same([kernel(A, W, bias, ends)], [kernel(A, W, bias, ends.astype(np.int32))])
    with pytest.raises(postlude.CallError, match="element 2 of `ends` is 5000000000"):
        kernel(A, W, bias, np.array([3, 3, 5_000_000_000]))


def test_rows_are_gathered_and_scattered() -> None:
    gathered = postlude.compile("kernel g(X: f32[S, N], t: i32[T]) -> D: f32[T, N] { D = gather(X, t) }")
    same([gathered(rows(), LABELS)], [gathered(rows(), narrow(LABELS))])
    summed = postlude.compile("kernel s(x: f32[T], t: i32[T], v: f32[V]) -> d: f32[V] { d = v + scatter(x, t, V) }")
    x, v = rows(1, 8)[0], np.zeros(4, np.float32)
    same([summed(x, LABELS, v)], [summed(x, narrow(LABELS), v)])


def test_what_is_computed_with_is_refused_with_the_cure() -> None:
    kernel = postlude.compile("kernel k(X: f32[M, N], t: i32[M]) -> D: f32[M, N] { D = X * t }")
    with pytest.raises(postlude.CallError, match="`t` is i32 and computed with, but int64 was given") as caught:
        kernel(rows(), LABELS)
    assert "convert the data to int32" in str(caught.value)
    with pytest.raises(postlude.CallError, match="`X` is declared f32, but i64 was given"):
        kernel(LABELS.reshape(8, 1), narrow(LABELS))


def test_the_check_and_the_code_are_those_of_the_call() -> None:
    assert PICKED.check(rows(), LABELS)[0].wrong == 0
    assert "cvt.sat.s32.s64" in PICKED.ptx(("float32", [64, 32]), ("int64", [64]))
    assert "cvt.sat.s32.s64" not in PICKED.ptx(("float32", [64, 32]), ("int32", [64]))


def test_arrays_of_jax_are_read() -> None:
    jax = pytest.importorskip("jax")
    with jax.experimental.enable_x64():
        labels = jax.numpy.asarray(LABELS)
        assert labels.dtype == np.int64
        got = PICKED(jax.numpy.asarray(rows()), labels)
    same([np.asarray(one) for one in got], PICKED(rows(), LABELS))


def test_the_library_s_cross_entropy_ignores_rows() -> None:
    import ml_dtypes

    Z = rows(8, 40).astype(ml_dtypes.bfloat16)
    target = np.array([5, -100, 39, 0, -100, 7, 11, 2])
    loss, lse, count = kernels.cross_entropy(Z, target, -100)
    z = Z.astype(np.float64)
    counted = target != -100
    log = np.log(np.exp(z).sum(1))
    want = (log - z[np.arange(8), np.where(counted, target, 0)])[counted].mean()
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    np.testing.assert_allclose(lse, log, rtol=1e-5)
    assert count == 6
    gradient = kernels.cross_entropy_backward(Z, target, -100, lse, np.array(2, np.float32), count)
    hits = (np.arange(40) == target[:, None]).astype(np.float64)
    expected = 2 / 6 * (np.exp(z - log[:, None]) - hits) * counted[:, None]
    np.testing.assert_allclose(gradient.astype(np.float64), expected, atol=1e-3)
    assert not gradient[~counted].any()
    nothing = kernels.cross_entropy(Z, np.full(8, -100), -100)
    assert np.isnan(nothing.loss) and nothing.count == 0
