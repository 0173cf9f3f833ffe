"""Batches that are lists of arrays: experts kept apart, slices of one array, outputs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import postlude

BATCHED = """kernel batched(A: f32[B, M, K], W: f32[B, N, K], bias: f32[B, N]) -> (D: f32[B, M, N], r: f32[B, M]) {
    D = relu(A @ W.T + bias)
    r = max(D, N)
}"""
EXPERTS = """kernel experts(A: f32[T, K], W: f32[E, N, K], ends: i32[E]) -> D: f32[T, N] { D = segments(A, ends) @ W.T }"""


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def apart(stacked: np.ndarray) -> list[np.ndarray]:
    """Every batch in memory of its own, in another order."""
    made = {at: np.array(stacked[at]) for at in reversed(range(len(stacked)))}
    return [made[at] for at in range(len(stacked))]


def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return random(4, 5, 8), random(4, 6, 8), random(4, 6)


def test_lists_are_what_stacked_arrays_are() -> None:
    kernel = postlude.compile(BATCHED)
    a, w, bias = arguments()
    wanted = kernel(a, w, bias)
    for given in [(apart(a), w, bias), (a, tuple(apart(w)), apart(bias)), (list(a), list(w), list(bias))]:
        for found, right in zip(kernel(*given), wanted):
            assert np.array_equal(found, right)
    kernel.check(apart(a), apart(w), bias)


def test_outputs_are_lists() -> None:
    kernel = postlude.compile(BATCHED)
    a, w, bias = arguments()
    wanted = kernel(a, w, bias)
    d, r = [np.zeros((5, 6), np.float32) for _ in range(4)], np.zeros((4, 5), np.float32)
    result = kernel(apart(a), w, bias, out=(d, r))
    assert result[0] is d
    assert np.array_equal(np.stack(d), wanted[0]) and np.array_equal(r, wanted[1])
    whole = np.zeros((4, 5, 6), np.float32)
    kernel(a, w, bias, out={"D": list(whole)[::-1], "r": list(r)})
    assert np.array_equal(whole[::-1], wanted[0])
    one = postlude.compile(BATCHED, outputs="D")
    d = [np.zeros((5, 6), np.float32) for _ in range(4)]
    one(a, w, bias, out=d)
    assert np.array_equal(np.stack(d), wanted[0])
    one.check(a, w, bias, out=d)


def test_experts_are_kept_apart() -> None:
    kernel = postlude.compile(EXPERTS)
    a, w, ends = random(9, 4), random(3, 5, 4), np.array([2, 2, 9], np.int32)
    assert np.array_equal(kernel(a, apart(w), ends), kernel(a, w, ends))


def test_one_liners_count_the_list_as_a_dim() -> None:
    a, b = random(3, 5, 4), random(3, 4, 7)
    assert np.array_equal(postlude.compile("D = A @ B")(apart(a), apart(b)), a @ b)


def test_what_is_wrong_names_the_item() -> None:
    kernel = postlude.compile(BATCHED)
    a, w, bias = arguments()
    with pytest.raises(postlude.CallError, match=r"tensor 2 of the list `W` has shape \[7, 8\], tensor 0 has shape \[6, 8\]"):
        kernel(a, [*w[:2], random(7, 8), w[3]], bias)
    with pytest.raises(postlude.CallError, match="tensor 1 of the list `W` is f16"):
        kernel(a, [w[0], w[1].astype(np.float16), w[2], w[3]], bias)
    with pytest.raises(postlude.CallError, match="size 3 along `B`|`B`"):
        kernel(a, apart(w)[:3], bias)
    with pytest.raises(TypeError, match=r"`W\[1\]` is builtins.str|`W\[1\]` is str"):
        kernel(a, [w[0], "w", w[2], w[3]], bias)
    with pytest.raises(TypeError, match="the list `W` is empty"):
        kernel(a, [], bias)
    shared = np.zeros((5, 6), np.float32)
    with pytest.raises(postlude.CallError, match="overlap|share a place"):
        kernel(a, w, bias, out=([shared, np.zeros_like(shared), shared, np.zeros_like(shared)], np.zeros((4, 5), np.float32)))
    rows = postlude.compile("kernel rows(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }")
    assert np.array_equal(rows(list(a[0]), w[0]), rows(a[0], w[0]))
    with pytest.raises(postlude.CallError, match="no batch dim of the kernel"):
        rows(apart(a[0]), w[0])


def torch_list(torch: Any, stacked: Any) -> list[Any]:
    """Tensors with allocations of their own between others."""
    made, between = [], []
    for at in range(len(stacked)):
        made.append(stacked[at].clone())
        between.append(torch.empty(1000 * (at % 3) + 1, device=stacked.device))
    return made


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_torch_tensors_are_lists(device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    text = """kernel batched(A: bf16[B, M, K], W: bf16[B, N, K], C: bf16[B, M, N], bias: f32[B, N]) -> (D: bf16[B, M, N], r: f32[B, M]) {
        D = relu(A @ W.T + C + bias)
        r = max(D, N)
    }"""
    kernel = postlude.compile(text)
    torch.manual_seed(1)
    sizes = [(5, 200, 64), (5, 136, 64), (5, 200, 136), (5, 136)]
    a, w, c, bias = [torch.randint(-3, 4, size, device=device).bfloat16() for size in sizes]
    bias = bias.float()
    wanted = kernel(a, w, c, bias)
    for _ in range(3):
        given = [torch_list(torch, one) for one in (a, w, c, bias)]
        for found, right in zip(kernel(*given), wanted):
            assert torch.equal(found, right)
        d = torch_list(torch, torch.zeros_like(wanted[0]))[::-1]
        r = torch_list(torch, torch.zeros_like(wanted[1]))
        kernel(*given, out=(d, r))
        assert torch.equal(torch.stack(d), wanted[0]) and torch.equal(torch.stack(r), wanted[1])
    kernel.check(torch_list(torch, a), w, c, bias)


def test_a_gradient_reaches_the_tensors_of_a_list() -> None:
    torch = pytest.importorskip("torch")
    kernel = postlude.compile("kernel f(A: f32[B, M, K], W: f32[B, N, K]) -> D: f32[B, M, N] { D = A @ W.T }")
    a = torch.randn(3, 4, 8)
    w = [torch.randn(5, 8, requires_grad=True) for _ in range(3)]
    with pytest.raises(postlude.CallError, match="has no backward pass"):
        kernel(a, w).sum().backward()
    postlude.autograd(kernel)(a, w).sum().backward()
    for at in range(3):
        torch.testing.assert_close(w[at].grad, a[at].sum(0).expand(5, 8))
    with pytest.raises(postlude.CallError, match="list of tensors"):
        kernel(a, w, out=[torch.empty(4, 5) for _ in range(3)])
