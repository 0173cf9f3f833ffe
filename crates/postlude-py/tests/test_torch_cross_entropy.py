"""The linear cross entropy of `postlude.torch` beside PyTorch's own."""

from __future__ import annotations

from typing import Any, Optional

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its cross entropy is NOT tested")

import postlude.torch as fused  # noqa: E402
from postlude import CallError, kernels  # noqa: E402
from postlude import _logits_cross_entropy as logits_passes  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch_operands import compiled, device, needs_gpu, operands, seeded, tolerance  # noqa: E402, F401

ROWS, FEATURES, CLASSES = 48, 32, 203
#: Bytes for all logits, for the ones that the gradient's memory does not hold, and for few.
WORKSPACES = [10_000_000, 28_000, 12_000]


def problem(device: str, bias: bool = False) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
    x, weight = (one.requires_grad_() for one in operands(device, (ROWS, FEATURES), (CLASSES, FEATURES)))
    target = torch.randint(CLASSES, (ROWS,), device=device)
    target[5] = -100
    return x, weight, target, torch.randn(CLASSES, device=device).requires_grad_() if bias else None


def exact(x: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor], d: Optional[Tensor], **rest: Any) -> list[Any]:
    """The loss and its gradients in f64."""
    leaves = [None if one is None else one.detach().double().requires_grad_() for one in (x, weight, bias)]
    loss = functional.cross_entropy(functional.linear(*leaves), target, **rest)
    loss.backward(None if d is None else d.double())
    return [loss, *(one.grad for one in leaves if one is not None)]


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("bias", "smoothing"), [(False, 0.0), (True, 0.125)])
def test_loss_and_gradients_are_pytorch_s(device: str, workspace: int, reduction: Any, bias: bool, smoothing: float) -> None:
    x, weight, target, offsets = problem(device, bias)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    loss = fused.linear_cross_entropy(x, weight, target, offsets, workspace=workspace, **options)
    d = torch.rand(loss.shape, device=device) if reduction == "none" else None
    loss.backward(d)
    want = exact(x, weight, target, offsets, d, **options)
    got = [loss, *(one.grad for one in (x, weight, offsets) if one is not None)]
    for one, other in zip(got, want):
        torch.testing.assert_close(one.double(), other, **tolerance(device))
    with torch.no_grad():
        again = fused.linear_cross_entropy(x, weight, target, offsets, **options)
    torch.testing.assert_close(again, loss.detach(), rtol=1e-5, atol=1e-5)


def test_only_what_is_wanted_has_a_gradient(device: str) -> None:
    x, weight, target, _ = problem(device)
    for wanted in (x, weight):
        inputs = [one if one is wanted else one.detach() for one in (x, weight)]
        wanted.grad = None
        fused.linear_cross_entropy(*inputs, target, workspace=28_000).backward()
        want = exact(x, weight, target, None, None)[1 if wanted is x else 2]
        torch.testing.assert_close(wanted.grad.double(), want, **tolerance(device))


def test_leading_dims_and_a_module(device: str) -> None:
    x, weight, target, _ = problem(device)
    head = fused.LinearCrossEntropy(FEATURES, CLASSES, device=device, dtype=x.dtype, reduction="none")
    head.load_state_dict({"weight": weight.detach()})
    losses = head(x.reshape(4, 12, FEATURES), target.reshape(4, 12))
    assert losses.shape == (4, 12)
    want = exact(x, weight, target, None, torch.ones(ROWS, device=device), reduction="none")[0]
    torch.testing.assert_close(losses.reshape(-1).double(), want, **tolerance(device))
    assert head.logits(x).shape == (ROWS, CLASSES)


def test_compiles_without_a_graph_break(device: str) -> None:
    x, weight, target, _ = problem(device)

    def loss(x: Tensor, weight: Tensor) -> Tensor:
        return fused.linear_cross_entropy(2 * x, weight, target, workspace=28_000)

    compiled(loss, device)(x, weight).backward()
    got = [one.grad.clone() for one in (x, weight)]
    x.grad = weight.grad = None
    loss(x, weight).backward()
    for one, other in zip(got, (x.grad, weight.grad)):
        torch.testing.assert_close(one, other, **tolerance(device))


def test_a_second_backward_pass_is_an_error_and_not_a_wrong_gradient() -> None:
    x, weight, target, _ = problem("cpu")
    loss = fused.linear_cross_entropy(x, weight, target)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError):
        loss.backward()


def test_the_gradient_is_not_copied(device: str) -> None:
    x, weight, target, _ = problem(device)
    loss = fused.linear_cross_entropy(x, weight, target)
    memory = loss.grad_fn
    while memory is not None and not hasattr(memory, "saved_tensors"):
        memory = memory.next_functions[0][0]
    assert memory is not None
    kept = memory.saved_tensors[-1].data_ptr()
    loss.backward()
    assert weight.grad.data_ptr() == kept


def test_what_does_not_fit_is_named() -> None:
    x, weight, target, _ = problem("cpu")
    with pytest.raises(CallError, match="one class for each row"):
        fused.linear_cross_entropy(x, weight, target[:-1])
    with pytest.raises(CallError, match="too small"):
        fused.linear_cross_entropy(x, weight, target, workspace=100)
    with pytest.raises(CallError, match="convert one of them"):
        fused.linear_cross_entropy(x.double().float().half(), weight, target)
    with pytest.raises(ValueError, match="reduction"):
        fused.linear_cross_entropy(x, weight, target, reduction="median")  # type: ignore[arg-type]
    assert torch.isnan(fused.linear_cross_entropy(x, weight, torch.full_like(target, CLASSES)))


def logits_of(device: str) -> tuple[Tensor, Tensor]:
    logits = operands(device, (ROWS, CLASSES))[0].requires_grad_()
    target = torch.randint(CLASSES, (ROWS,), device=device)
    target[5] = target[17] = -100
    return logits, target


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.125])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_loss_of_logits_and_its_gradient_are_pytorch_s(device: str, reduction: Any, smoothing: float, dtype: Any) -> None:
    logits, target = logits_of(device)
    options = {"reduction": reduction, "label_smoothing": smoothing}
    loss = fused.cross_entropy(logits, target.to(dtype), **options)
    d = torch.rand(loss.shape, device=device) if reduction == "none" else None
    loss.backward(d)
    leaf = logits.detach().double().requires_grad_()
    want = functional.cross_entropy(leaf, target, **options)
    want.backward(None if d is None else d.double())
    torch.testing.assert_close(loss.double(), want, **tolerance(device))
    torch.testing.assert_close(logits.grad.double(), leaf.grad, **tolerance(device))
    assert not logits.grad[5].any() and not logits.grad[17].any()
    with torch.no_grad():
        assert torch.equal(fused.cross_entropy(logits, target, **options), loss)


def test_ignored_rows_add_nothing_whatever_their_logits_are(device: str) -> None:
    logits, target = logits_of(device)
    spoilt = logits.detach().clone()
    spoilt[5], spoilt[17] = torch.nan, torch.inf
    spoilt.requires_grad_()
    for one in (logits, spoilt):
        fused.cross_entropy(one, target).backward()
    assert torch.equal(spoilt.grad, logits.grad)
    other = torch.where(target == -100, 7, target)
    kept = other != 7
    want = functional.cross_entropy(logits.detach()[kept].float(), other[kept])
    got = fused.cross_entropy(logits.detach(), other, ignore_index=7)
    torch.testing.assert_close(got, want, **tolerance(device))


@pytest.mark.parametrize("linear", [False, True])
def test_a_mean_of_ignored_rows_alone_is_nan_and_its_gradient_zero(device: str, linear: bool) -> None:
    x, weight, target, _ = problem(device)
    nothing = torch.full_like(target, -100)
    for reduction, empty in (("mean", torch.nan), ("sum", 0.0)):
        x.grad = None
        if linear:
            loss = fused.linear_cross_entropy(x, weight, nothing, reduction=reduction)  # type: ignore[arg-type]
        else:
            loss = fused.cross_entropy(x, nothing, reduction=reduction)  # type: ignore[arg-type]
        leaf = x.detach().clone().requires_grad_()
        want = functional.cross_entropy(leaf.float(), nothing, reduction=reduction)
        want.backward()
        loss.backward()
        torch.testing.assert_close(loss.detach(), torch.tensor(empty, device=device), equal_nan=True)
        torch.testing.assert_close(loss.detach(), want.detach(), equal_nan=True)
        assert torch.equal(x.grad, leaf.grad) and not x.grad.any()


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (kernels.cross_entropy, logits_passes.forward_text("bf16")),
        (kernels.cross_entropy_backward, logits_passes.backward_text("bf16")),
    ],
)
def test_plain_passes_of_logits_are_the_library_s_kernels(kernel: Any, text: str) -> None:
    library = "\n".join(line for line in kernel.text.splitlines() if not line.startswith("#"))
    assert library.split() == text.split()


def test_labels_beyond_int32_are_no_classes() -> None:
    x, weight, target, _ = problem("cpu")
    target[0], target[1] = (1 << 32) + 1, -(1 << 40)
    for losses in (
        fused.linear_cross_entropy(x, weight, target, reduction="none"),
        fused.cross_entropy(x @ weight.T, target, reduction="none"),
    ):
        assert losses[:2].isnan().all() and losses[2:].isfinite().all() and losses[5] == 0


def test_a_loss_of_logits_has_leading_dims_and_compiles(device: str) -> None:
    logits, target = logits_of(device)

    def loss(logits: Tensor) -> Tensor:
        return fused.cross_entropy((2 * logits).reshape(4, 12, CLASSES), target.reshape(4, 12), reduction="none")

    assert loss(logits).shape == (4, 12)
    compiled(lambda one: loss(one).sum(), device)(logits).backward()
    got, logits.grad = logits.grad, None
    loss(logits).sum().backward()
    torch.testing.assert_close(got, logits.grad, **tolerance(device))
    with pytest.raises(CallError, match="one class for each row of `logits`"):
        fused.cross_entropy(logits.T, target)


@needs_gpu
def test_a_language_model_s_head_stays_within_its_workspace_on_a_gpu() -> None:
    rows, features, classes, limit = 2048, 1024, 32_064, 100_000_000
    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    x, weight = (torch.randn(*shape, **bf16).requires_grad_() for shape in ((rows, features), (classes, features)))
    target = torch.randint(classes, (rows,), device="cuda")
    for _ in range(2):
        x.grad = weight.grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fused.linear_cross_entropy(x, weight, target, workspace=limit).backward()
    gradients = 2 * (x.numel() + weight.numel())
    assert torch.cuda.max_memory_allocated() - before - gradients < limit
