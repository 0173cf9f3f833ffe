"""Kernels as operators of PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its operators are NOT tested")

import postlude  # noqa: E402
import postlude.torch as fused  # noqa: E402
from postlude import CallError  # noqa: E402
from torch import Tensor  # noqa: E402
from torch_operands import compiled, device, layer, needs_gpu, operands, seeded  # noqa: E402, F401

LINEAR = postlude.compile("D = relu(A @ W.T + bias[N])")
SEVERAL = postlude.compile("Z = A @ W.T + bias[N]; D = relu(Z); peak = max(abs(Z))")
SCALED = postlude.compile("D = (A @ W.T) * alpha")
HALVED = {
    torch.float32: postlude.compile(
        "kernel half(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N/2] { a, b = halves(A @ W.T)\n D = a * b }"
    ),
    torch.bfloat16: postlude.compile(
        "kernel half(A: bf16[M, K], W: bf16[N, K]) -> D: bf16[M, N/2] { a, b = halves(A @ W.T)\n D = a * b }"
    ),
}


def test_compiles_without_a_graph_break_when_first_called_inside(device: str) -> None:
    A, W, bias = layer(device)
    kernel = postlude.compile("Z = A @ W.T + bias[N]; D = silu(Z)")

    def function(A: Tensor, W: Tensor, bias: Tensor) -> Tensor:
        both = kernel(A * 2, W, bias=bias)
        return both.D + both.Z

    run = torch.compile(function, fullgraph=True, backend="inductor")
    torch.testing.assert_close(run(A, W, bias), function(A, W, bias))
    torch.testing.assert_close(run(A, W, bias), function(A, W, bias))


def test_labels_are_int64(device: str) -> None:
    X = operands(device, (16, 32))[0]
    t = torch.randint(32, (16,), device=device)
    picked = postlude.compile("p = logsumexp(X, N) - pick(X, t[M])")
    want = picked(X, t.to(torch.int32))
    assert t.dtype == torch.int64 and torch.equal(picked(X, t), want)
    assert torch.equal(compiled(lambda *all: picked(*all), device)(X, t), want)
    dynamic = torch.compile(lambda *all: picked(*all), fullgraph=True, backend="aot_eager", dynamic=True)
    assert torch.equal(dynamic(X, t), want)


def test_named_results_leave_compiled_code(device: str) -> None:
    A, W, bias = layer(device)
    result = compiled(lambda *all: SEVERAL(*all), device)(A, W, bias)
    assert result._fields == ("Z", "D", "peak")
    torch.testing.assert_close(result.D, SEVERAL(A, W, bias).D)


def test_sizes_can_be_dynamic(device: str) -> None:
    A, W, bias = layer(device)
    half = HALVED[A.dtype]
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, backend=backend)
    def function(A: Tensor, W: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return LINEAR(A, W, bias), half(A, W)

    for rows in (16, 24, 48):
        more = operands(device, (rows, 32))[0]
        torch._dynamo.mark_dynamic(more, 0)
        found = function(more, W, bias)
        torch.testing.assert_close(found[0], LINEAR(more, W, bias))
        torch.testing.assert_close(found[1], half(more, W))
    assert len(graphs) == 1


def test_dynamic_width_is_halved() -> None:
    A, W = operands("cpu", (4, 8), (12, 8))
    torch._dynamo.mark_dynamic(W, 0)
    run = compiled(lambda A, W: HALVED[torch.float32](A, W) + 1, "cpu")
    torch.testing.assert_close(run(A, W), HALVED[torch.float32](A, W) + 1)


def test_numbers_of_the_host_may_change(device: str) -> None:
    A, W, _ = layer(device)
    run = compiled(lambda A, W, alpha: SCALED(A, W, alpha=alpha), device)
    for alpha in (2.0, 0.5, -1.5, 3):
        torch.testing.assert_close(run(A, W, alpha), SCALED(A, W, alpha=alpha))


def test_out_is_written_under_compile(device: str) -> None:
    A, W, bias = layer(device)

    def function(A: Tensor, W: Tensor, bias: Tensor) -> Tensor:
        D = torch.empty(A.shape[0], W.shape[0], dtype=A.dtype, device=A.device)
        LINEAR(A, W, bias, out=D)
        return D * 2

    torch.testing.assert_close(compiled(function, device)(A, W, bias), 2 * LINEAR(A, W, bias))


@pytest.mark.parametrize("case", ["one output", "several outputs", "a number", "out"])
def test_opcheck_passes(device: str, case: str) -> None:
    A, W, bias = layer(device)
    seen: list[tuple[Any, Any]] = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function.namespace == "postlude":
                seen.append((function, args))
            return function(*args, **(kwargs or {}))

    with Record():
        if case == "one output":
            LINEAR(A, W, bias)
        elif case == "several outputs":
            SEVERAL(A, W, bias)
        elif case == "a number":
            SCALED(A, W, alpha=0.5)
        else:
            LINEAR(A, W, bias, out=torch.empty(16, 64, dtype=A.dtype, device=device))
    assert len(seen) == 1
    torch.library.opcheck(*seen[0])


def test_fake_tensors_get_shapes_and_errors() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        A, W, bias = torch.empty(3, 8), torch.empty(5, 8), torch.empty(5)
        assert LINEAR(A, W, bias).shape == (3, 5)
        assert SEVERAL(A, W, bias).peak.shape == ()
        with pytest.raises(CallError, match="size 7 along `K`"):
            LINEAR(A, torch.empty(5, 7), bias)
        with pytest.raises(CallError, match="`W` is float64"):
            LINEAR(A, torch.empty(5, 8, dtype=torch.float64), bias)


def test_export_keeps_the_operator(device: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, A: Tensor, W: Tensor, bias: Tensor) -> Tensor:
            return LINEAR(A, W, bias) + 1

    inputs = layer(device)
    exported = torch.export.export(Module(), inputs)
    assert "postlude" in str(exported.graph)
    torch.testing.assert_close(exported.module()(*inputs), LINEAR(*inputs) + 1)


def test_equal_kernels_share_an_operator() -> None:
    A, W, bias = layer("cpu")
    from postlude import _torch

    names = set()
    for _ in range(2):
        kernel = postlude.compile("D = relu(A @ W.T + bias[N])")
        names.add(_torch._functional(kernel._key, tuple(map(_torch._kind, (A, W, bias)))))
    assert len(names) == 1


def test_a_kernel_without_backward_says_what_to_do(device: str) -> None:
    A, W, bias = layer(device)
    D = LINEAR(A, W.requires_grad_(), bias)
    assert D.requires_grad
    with pytest.raises(CallError, match=r"postlude\.autograd"):
        D.sum().backward()
    with torch.no_grad():
        assert not LINEAR(A, W, bias).requires_grad


def test_out_with_a_gradient_is_an_error(device: str) -> None:
    A, W, bias = layer(device)
    D = torch.empty(16, 64, dtype=A.dtype, device=device)
    with pytest.raises(CallError, match="requires a gradient"):
        LINEAR(A, W.requires_grad_(), bias, out=D)
    with torch.no_grad():
        LINEAR(A, W, bias, out=D)
        torch.testing.assert_close(D, LINEAR(A, W, bias))
    with pytest.raises(CallError, match="requires a gradient"):
        LINEAR(A, W.detach(), bias, out=D.requires_grad_())


def test_autograd_sees_what_out_wrote(device: str) -> None:
    A, W, bias = layer(device)
    D = LINEAR(A, W, bias)
    squared = torch.ones_like(D, requires_grad=True) * D
    LINEAR(A, W, bias, out=D)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()
    with torch.inference_mode():
        LINEAR(A, W, bias, out=torch.empty_like(D))


def test_vmap_is_refused_with_a_reason() -> None:
    A, W, bias = operands("cpu", (3, 4, 8), (6, 8), (6,))
    with pytest.raises(CallError, match="leading batch dim"):
        torch.vmap(lambda A: LINEAR(A, W, bias))(A)


def test_what_is_not_mapped_runs_inside_of_vmap() -> None:
    A, W, bias = operands("cpu", (4, 8), (6, 8), (6,))
    scale = torch.tensor([1.0, 2.0])
    found = torch.vmap(lambda scale: scale * LINEAR(A, W, bias))(scale)
    torch.testing.assert_close(found[1], 2 * LINEAR(A, W, bias))


@pytest.mark.parametrize("transform", ["grad", "jvp", "dual"])
def test_transforms_that_would_lose_a_derivative_are_refused(transform: str) -> None:
    A, W, bias = operands("cpu", (4, 8), (6, 8), (6,))

    def loss(A: Tensor) -> Tensor:
        return LINEAR(A, W, bias).sum()

    with pytest.raises(CallError, match=r"torch\.autograd\.grad"):
        if transform == "grad":
            torch.func.grad(loss)(A)
        elif transform == "jvp":
            torch.func.jvp(loss, (A,), (A,))
        else:
            with torch.autograd.forward_ad.dual_level():
                loss(torch.autograd.forward_ad.make_dual(A, A))


def test_autocast_changes_no_dtype(device: str) -> None:
    A, W, bias = layer(device)
    other = torch.bfloat16 if device == "cpu" else torch.float16
    with torch.autocast(device, dtype=other):
        assert LINEAR(A, W, bias).dtype == A.dtype
        assert LINEAR(A, W.detach().requires_grad_(), bias).dtype == A.dtype
        assert fused.linear_gelu(A, W.detach().requires_grad_(), bias).dtype == A.dtype


def test_negated_views_keep_their_sign() -> None:
    A = torch.imag(torch.complex(torch.rand(4, 8), torch.rand(4, 8)).conj())
    assert A.is_neg()
    torch.testing.assert_close(postlude.compile("D = A @ W.T")(A, torch.eye(8)), A.clone())


def test_a_traced_function_keeps_the_operator() -> None:
    A, W, bias = layer("cpu")
    traced = torch.jit.trace(lambda A: LINEAR(A, W, bias), (A,), check_trace=False)
    torch.testing.assert_close(traced(2 * A), LINEAR(2 * A, W, bias))


@needs_gpu
def test_cuda_graph_replays_a_kernel_on_a_gpu() -> None:
    A, W, bias = layer("cuda")
    D = torch.empty(16, 64, dtype=A.dtype, device="cuda")
    LINEAR(A, W, bias, out=D)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        LINEAR(A, W, bias)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        LINEAR(A, W, bias, out=D)
        both = SEVERAL(A, W, bias)
    A.mul_(2)
    graph.replay()
    torch.testing.assert_close(D, LINEAR(A, W, bias))
    torch.testing.assert_close(both.peak, SEVERAL(A, W, bias).peak)


@needs_gpu
def test_compiled_code_with_cuda_graphs_on_a_gpu() -> None:
    A, W, bias = layer("cuda")
    run = torch.compile(lambda A: LINEAR(A, W, bias) * 2, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        A = A + 0.125
        torch.testing.assert_close(run(A), LINEAR(A, W, bias) * 2)
