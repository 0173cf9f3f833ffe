"""Differentiable operators of PyTorch that are made of kernels, and models that are trained with them."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its operators are NOT tested")

import postlude  # noqa: E402
import postlude.torch as fused  # noqa: E402
from postlude import CallError, KernelError  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_operands import compiled, device, needs_gpu, operand_dtype, operands, seeded, tolerance  # noqa: E402, F401


def G(dD: Tensor, D: Tensor) -> Tensor:
    return dD * (D > 0)


def bound_relu() -> Any:
    return postlude.autograd("D = relu(A @ W.T)", [G, "dA = G @ W", "dW = G.T @ A"], saved=["A", "W", "D"])


def test_a_name_that_is_not_saved_is_an_error_when_bound() -> None:
    with pytest.raises(KernelError, match=r"reads `A`, which is not saved") as caught:
        postlude.autograd("D = relu(A @ W.T)", [G, "dW = G.T @ A"], saved=["W", "D"])
    assert caught.value.help == "add it: saved=[..., 'A']"
    with pytest.raises(KernelError, match="which no step before gives"):
        postlude.autograd("D = relu(A @ W.T)", ["dW = H.T @ A"], saved=["A"])
    with pytest.raises(KernelError, match="the forward pass does not know"):
        postlude.autograd("D = relu(A @ W.T)", ["dW = dD.T @ A"], saved=["A", "X"])
    with pytest.raises(KernelError, match="nothing uses `dX`"):
        postlude.autograd("D = A @ W.T", ["dW = dD.T @ A", "dX = dD @ W"], saved=["A", "W"])
    with pytest.raises(KernelError, match="no forward step gives `Q`"):
        postlude.autograd("D = A @ W.T", ["dW = dD.T @ A"], saved=["A"], outputs=["Q"])
    with pytest.raises(KernelError, match="two meanings"):
        postlude.autograd(["D = A @ W.T", "D = D @ V.T"], ["dW = dD.T @ A"], saved=["A"])


def test_kernels_are_renamed_to_meet() -> None:
    product = postlude.compile("kernel p(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = A @ B }")
    bound = postlude.autograd(
        (product, {"A": "X", "B": "V", "D": "Y"}),
        (lambda dY, V: dY @ V.T, ["dX"]),
        saved=["V"],
    )
    assert (bound.inputs, bound.outputs, bound.differentiable) == (("X", "V"), ("Y",), ("X",))
    X, V = operands("cpu", (4, 8), (8, 6))
    bound(X.requires_grad_(), V).sum().backward()
    torch.testing.assert_close(X.grad, V.sum(1).expand(4, 8))


def test_an_input_without_a_gradient_must_not_require_one() -> None:
    A, W = operands("cpu", (4, 8), (6, 8))
    bound = postlude.autograd("D = A @ W.T", ["dW = dD.T @ A"], saved=["A"])
    with pytest.raises(CallError, match="`A` requires a gradient"):
        bound(A.requires_grad_(), W)


def test_double_backward_is_an_error() -> None:
    A, W = operands("cpu", (4, 8), (6, 8))
    D = bound_relu()(A, W.requires_grad_())
    (gradient,) = torch.autograd.grad(D.square().sum(), W, create_graph=True)
    with pytest.raises(CallError, match="differentiated twice"):
        gradient.sum().backward()


def test_bound_operators_refuse_out_and_transforms() -> None:
    A, W = operands("cpu", (4, 8), (6, 8))
    with pytest.raises(CallError, match="without `out=`"):
        bound_relu()(A, W, out=torch.empty(4, 6))
    with pytest.raises(CallError, match=r"torch\.autograd\.grad"):
        torch.func.grad(lambda W: bound_relu()(A, W).sum())(W)
    with pytest.raises(CallError, match="batch dim"):
        torch.vmap(lambda W: bound_relu()(A, W))(W.expand(2, 6, 8))


def test_unused_results_have_zero_gradients() -> None:
    both = postlude.autograd(
        "D = A @ W.T; S = 2 * D",
        [(lambda dD, dS: dD + 2 * dS, ["G"]), "dW = G.T @ A"],
        saved=["A"],
    )
    A, W = operands("cpu", (4, 8), (6, 8))
    both(A, W.requires_grad_()).S.sum().backward()
    torch.testing.assert_close(W.grad, 2 * A.sum(0).expand(6, 8))


def test_without_gradients_nothing_is_saved() -> None:
    operator = fused._LAYERS["gelu", True]
    assert operator._extras == ("Z",)
    assert [step.gives for step in operator._lean] == [("D",)]


@pytest.mark.parametrize("all_inputs", [False, True])
def test_opcheck_passes_for_a_bound_operator(all_inputs: bool) -> None:
    from postlude import _differentiable

    X, W, bias = operands("cpu", (4, 8), (6, 8), (6,))
    operator = fused._LAYERS["gelu", True]
    name = _differentiable._operator(operator._key, "ttt")
    given = (X.requires_grad_(all_inputs), W.requires_grad_(), bias.requires_grad_())
    torch.library.opcheck(getattr(torch.ops.postlude, name).default, given)


CACHED = """
import torch, postlude.torch as fused
x, w = torch.ones(4, 8), torch.ones(6, 8, requires_grad=True)
run = torch.compile(fused.linear_relu, fullgraph=True)
run(x, w).sum().backward()
assert torch.equal(w.grad, torch.full((6, 8), 4.0))
"""


def test_a_compiled_backward_pass_from_a_cache_finds_its_operators(tmp_path: Any) -> None:
    """The first process fills the compiler's cache on disk, the second one traces no backward pass."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        subprocess.run([sys.executable, "-c", CACHED], env=environment, check=True, timeout=300)


def swiglu_reference(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    gate, up = functional.linear(x, w1).chunk(2, -1)
    return functional.linear(functional.silu(gate) * up, w2)


def loss_of(kind: Callable[..., Tensor], **options: Any) -> Callable[..., Tensor]:
    return lambda x, w, b, y: kind(functional.linear(x, w, b), y, **options)


X, W, B, Y = (16, 32), (64, 32), (64,), (16, 64)
LIBRARY: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor], tuple[tuple[int, ...], ...], int]] = {
    "linear": (fused.linear, functional.linear, (X, W, B), 3),
    "linear without bias": (fused.linear, functional.linear, (X, W), 2),
    "gelu": (fused.linear_gelu, lambda *a: functional.gelu(functional.linear(*a)), (X, W, B), 3),
    "gelu tanh": (
        lambda *a: fused.linear_gelu(*a, approximate="tanh"),
        lambda *a: functional.gelu(functional.linear(*a), approximate="tanh"),
        (X, W, B),
        3,
    ),
    "silu": (fused.linear_silu, lambda *a: functional.silu(functional.linear(*a)), (X, W, B), 3),
    "relu": (fused.linear_relu, lambda *a: functional.relu(functional.linear(*a)), ((2, 8, 32), W, B), 3),
    "swiglu": (
        fused.swiglu,
        lambda x, w: swiglu_reference(x, w, torch.eye(32, dtype=x.dtype, device=x.device)),
        (X, W),
        2,
    ),
    "swiglu mlp": (fused.swiglu_mlp, swiglu_reference, ((2, 8, 32), W, (48, 32)), 3),
    "bce": (fused.linear_bce_loss, loss_of(functional.binary_cross_entropy_with_logits), (X, W, B, Y), 3),
    "bce sum": (
        lambda *a: fused.linear_bce_loss(*a, reduction="sum"),
        loss_of(functional.binary_cross_entropy_with_logits, reduction="sum"),
        (X, W, B, Y),
        3,
    ),
    "mse": (fused.linear_mse_loss, loss_of(functional.mse_loss), (X, W, B, Y), 3),
    "huber": (
        lambda *a: fused.linear_huber_loss(*a, delta=0.5),
        loss_of(functional.huber_loss, delta=0.5),
        (X, W, B, Y),
        3,
    ),
}


def gradients(function: Callable[..., Tensor], given: list[Tensor], count: int, upstream: Tensor) -> list[Tensor]:
    leaves = [one.detach().clone().requires_grad_(place < count) for place, one in enumerate(given)]
    result = function(*leaves)
    (result * upstream.to(result.dtype)).sum().backward()
    return [result.detach(), *[one.grad for one in leaves[:count]]]


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", LIBRARY)
def test_gradients_of_the_library_are_those_of_pytorch(device: str, name: str, compiles: bool) -> None:
    function, reference, shapes, count = LIBRARY[name]
    given = operands(device, *shapes)
    wide = [one.double() for one in given]
    upstream = torch.randn(reference(*wide).shape, device=device)
    expected = gradients(reference, wide, count, upstream.to(operand_dtype(device)).double())
    run = compiled(function, device) if compiles else function
    found = gradients(run, given, count, upstream)
    for one, other, input in zip(found, expected, [None, *given]):
        assert input is None or one.dtype == input.dtype
        # Intermediates are rounded to 16 bits on a GPU: errors go with the largest element, not with each.
        allowed = {"rtol": 2e-2, "atol": max(5e-2, 2e-2 * other.abs().max().item())} if device == "cuda" else tolerance(device)
        torch.testing.assert_close(one.double(), other, **allowed)


class SwigluModel(torch.nn.Module):
    """Two gated layers; `plain` has PyTorch run them."""

    def __init__(self, device: str, plain: bool) -> None:
        super().__init__()
        shapes = [(64, 16), (16, 32), (64, 16), (16, 32)]
        self.weights = torch.nn.ParameterList([0.2 * one for one in operands(device, *shapes)])
        self.mlp = swiglu_reference if plain else fused.swiglu_mlp

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.mlp(x, self.weights[0], self.weights[1])
        x = x + self.mlp(x, self.weights[2], self.weights[3])
        return functional.mse_loss(x.float(), y.float())


class Classifier(torch.nn.Module):
    """A hidden layer and independent labels."""

    def __init__(self, device: str, plain: bool) -> None:
        super().__init__()
        self.first, self.second = (torch.nn.Parameter(0.3 * one) for one in operands(device, (32, 16), (16, 32)))
        self.bias = torch.nn.Parameter(torch.zeros(16, device=device))
        self.plain = plain

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        labels = (y > 0).to(y.dtype)
        if self.plain:
            hidden = functional.gelu(functional.linear(x, self.first))
            logits = functional.linear(hidden, self.second) + self.bias
            return functional.binary_cross_entropy_with_logits(logits.float(), labels.float())
        return fused.linear_bce_loss(fused.linear_gelu(x, self.first), self.second, self.bias, labels)


def train(model: torch.nn.Module, device: str, compiles: bool = False) -> list[float]:
    torch.manual_seed(1)
    x, y = operands(device, (64, 16), (64, 16))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    run = torch.compile(model, fullgraph=True) if compiles else model
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = run(x, y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("kind", [SwigluModel, Classifier])
def test_training_follows_pytorch(device: str, kind: Any, compiles: bool) -> None:
    model = kind(device, plain=False)
    reference = kind(device, plain=True)
    reference.load_state_dict(copy.deepcopy(model.state_dict()))
    expected = train(reference, device)
    found = train(model, device, compiles)
    assert expected[-1] < 0.95 * expected[0]
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-3 if device == "cpu" else 5e-2, atol=0)


def test_distributed_data_parallel_steps(device: str) -> None:
    if not torch.distributed.is_available():
        pytest.skip("torch.distributed is not there: NOT tested")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = SwigluModel(device, plain=False)
        alone = copy.deepcopy(model)
        parallel = torch.nn.parallel.DistributedDataParallel(model)
        assert train(parallel, device) == pytest.approx(train(alone, device), rel=1e-5)
    finally:
        torch.distributed.destroy_process_group()


@needs_gpu
def test_cuda_graph_replays_a_training_step_on_a_gpu() -> None:
    model = Classifier("cuda", plain=False)
    x, y = operands("cuda", (64, 16), (64, 16))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimiser.zero_grad(set_to_none=True)
            model(x, y).backward()
            optimiser.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimiser.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = model(x, y)
        loss.backward()
        optimiser.step()
    losses = []
    for _ in range(10):
        graph.replay()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


MLP = """
kernel mlp(X: f32[M, K], gate: f32[F, K], up: f32[F, K], down: f32[N, F], bias: f32[N]) -> D: f32[M, N] {
    D = (silu(X @ gate.T) * (X @ up.T)) @ down.T + bias
}
"""


def test_a_backward_pass_is_derived() -> None:
    operator = postlude.autograd(MLP)
    assert operator.differentiable == ("X", "gate", "up", "down", "bias")
    shapes = [(24, 16), (32, 16), (32, 16), (8, 32), (8,)]
    X, gate, up, down, bias = (torch.randn(*shape, dtype=torch.float64) / 4 for shape in shapes)
    own = [one.float().requires_grad_() for one in (X, gate, up, down, bias)]
    exact = [one.requires_grad_() for one in (X, gate, up, down, bias)]
    found = operator(*own)
    X, gate, up, down, bias = exact
    want = (functional.silu(X @ gate.T) * (X @ up.T)) @ down.T + bias
    torch.testing.assert_close(found.double(), want, rtol=1e-4, atol=1e-5)
    weights = torch.randn_like(want)
    (found * weights.float()).sum().backward()
    (want * weights).sum().backward()
    for one, other in zip(own, exact):
        torch.testing.assert_close(one.grad.double(), other.grad, rtol=1e-3, atol=1e-4)


def test_what_has_no_derivative_is_said() -> None:
    with pytest.raises(KernelError, match="no output of floats depends"):
        postlude.autograd("kernel k(A: f32[M, K], B: f32[K, N]) -> v: f32[M] { v = f32(argmax(A @ B, N)) }")
    with pytest.raises(KernelError, match="one kernel"):
        postlude.autograd([MLP, MLP])


def _near(found: Any, want: Any) -> None:
    for one, other in zip(found, want):
        assert (one.float() - other.float()).norm() <= 2e-2 * other.float().norm()


def test_modules_have_the_parameters_and_gradients_of_pytorchs(device: str) -> None:
    dtype = operand_dtype(device)
    gated = fused.SwiGLU(64, 96, device, dtype)
    x = torch.randn(3, 40, 64, device=device).to(dtype).requires_grad_()
    want = gated.down_proj(functional.silu(gated.gate_proj(x)) * gated.up_proj(x))
    inputs = [x, *gated.parameters()]
    found = torch.autograd.grad(gated(x).float().square().sum(), inputs)
    _near(found, torch.autograd.grad(want.float().square().sum(), inputs))
    lora = fused.LoRALinear(64, 32, rank=8, scale=0.5, device=device, dtype=dtype)
    with torch.no_grad():
        lora.lora_B.copy_(torch.randn_like(lora.lora_B))
    want = x @ lora.weight.T + 0.5 * (x @ lora.lora_A.T) @ lora.lora_B.T
    inputs = [x, lora.lora_A, lora.lora_B]
    found = torch.autograd.grad(lora(x).float().square().sum(), inputs)
    _near(found, torch.autograd.grad(want.float().square().sum(), inputs))
    layer = fused.Linear(64, 32, device=device, dtype=dtype, activation="gelu")
    layer.load_state_dict(torch.nn.Linear(64, 32).state_dict())
    want = functional.gelu(functional.linear(x, layer.weight, layer.bias))
    _near([layer(x)], [want])
    with pytest.raises(ValueError, match="no activation 'tanh'"):
        fused.Linear(4, 4, activation="tanh")


def test_modules_are_compiled_without_a_break() -> None:
    gated = fused.SwiGLU(16, 24)
    x = torch.randn(8, 16)
    module = torch.compile(gated, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(module(x), gated(x))
    module(x).sum().backward()
    assert gated.up_proj.weight.grad is not None
