"""The cross entropy of logits that are a tensor: a kernel for each pass.

In: logits and classes. Out: the loss of PyTorch's reductions, and the logits' gradient. A row of the class `ignore_index` adds
nothing to the loss, to its gradient or to the mean's count, whatever its logits are.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ._autograd import Differentiable, autograd
from ._errors import CallError
from ._kernel import Kernel
from ._torch import wrong

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_REDUCTIONS = ("mean", "sum", "none")


def forward_text(dtype: str, reduction: str = "mean", smoothing: bool = False) -> str:
    """The loss, the log-sum-exp of every row and, of a mean, the number of rows that count."""
    own = "(1.0 - smoothing) * pick(Z, target) - smoothing * mean(Z, N)" if smoothing else "pick(Z, target)"
    losses = f"where(counted, lse - {own}, 0.0)"
    is_mean = reduction == "mean"
    loss = {"mean": f"sum({losses}) / count", "sum": f"sum({losses})", "none": losses}[reduction]
    return f"""kernel cross_entropy(
    Z: {dtype}[M, N], target: i32[M], ignore_index: i32{", smoothing: f32" if smoothing else ""},
) -> (loss: f32[{"M" if reduction == "none" else ""}], lse: f32[M]{", count: f32[]" if is_mean else ""}) {{
    counted = target != ignore_index
    lse = logsumexp(Z, N)
{"    count = sum(f32(counted))" if is_mean else ""}
    loss = {loss}
}}"""


def backward_text(dtype: str, reduction: str = "mean", smoothing: bool = False) -> str:
    """The gradient of the logits."""
    hit = "f32(col == target)"
    wanted = f"(1.0 - smoothing) * {hit} - smoothing / size(N)" if smoothing else hit
    scale = "(d_loss / count)" if reduction == "mean" else "d_loss"
    return f"""kernel cross_entropy_backward(
    Z: {dtype}[M, N], target: i32[M], ignore_index: i32{", smoothing: f32" if smoothing else ""}, lse: f32[M],
    d_loss: f32[{"M" if reduction == "none" else ""}]{", count: f32[]" if reduction == "mean" else ""},
) -> d_Z: {dtype}[M, N] {{
    d = (exp(Z - lse) - {wanted}) * {scale}
    d_Z = where(target == ignore_index, 0.0, d)
}}"""


def _bound(dtype: str, reduction: str, smoothing: bool) -> Differentiable:
    backward = Kernel(backward_text(dtype, reduction, smoothing))
    saved = ["Z", "target", "ignore_index", "lse"]
    saved += (["smoothing"] if smoothing else []) + (["count"] if reduction == "mean" else [])
    return autograd(
        Kernel(forward_text(dtype, reduction, smoothing)),
        [(backward, {"d_loss": "dloss", "d_Z": "dZ"})],
        saved=saved,
        outputs=["loss"],
        name=f"cross_entropy_{reduction}",
    )


_OPERATORS: dict[tuple[torch.dtype, str, bool], Differentiable] = {
    (dtype, reduction, smoothing): _bound(name, reduction, smoothing)
    for dtype, name in _DTYPES.items()
    for reduction in _REDUCTIONS
    for smoothing in (False, True)
}


def check_options(reduction: str, label_smoothing: float) -> None:
    """Refuses options that PyTorch refuses."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}; it is 'mean', 'sum' or 'none'")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing is {label_smoothing}; it is between 0 and 1")


def check_target(name: str, x: Tensor, target: Tensor) -> None:
    """Refuses classes that are not one for each row."""
    if target.shape != x.shape[:-1]:
        raise wrong(f"`target` is {list(target.shape)}, `{name}` is {list(x.shape)}", f"give one class for each row of `{name}`")
    if target.dtype not in (torch.int64, torch.int32):
        raise wrong(f"`target` is {target.dtype}", "give classes as int64 or int32")


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    *,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of logits ``[..., classes]`` with ``target``, one class for each row; the loss is float32.

    The arguments are those of ``torch.nn.functional.cross_entropy``, but classes are the last dim. A row whose class is
    ``ignore_index`` adds nothing to the loss, to its gradient or to the mean's count; a mean of no rows is nan. Any other number
    that is no class has nan for a loss.

    >>> logits = torch.randn(3, 10, requires_grad=True)
    >>> cross_entropy(logits, torch.tensor([4, -100, 9])).backward()
    >>> logits.grad[1].abs().max().item()
    0.0
    """
    check_options(reduction, label_smoothing)
    if logits.dtype not in _DTYPES:
        raise CallError(f"`logits` is {logits.dtype}; bfloat16, float16 and float32 are taken")
    if logits.dim() < 1 or logits.shape[-1] == 0:
        raise wrong(f"`logits` is {list(logits.shape)}", "its last dim are the classes")
    check_target("logits", logits, target)
    operator = _OPERATORS[logits.dtype, reduction, label_smoothing != 0]
    numbers = {"smoothing": float(label_smoothing)} if label_smoothing else {}
    rows, classes = logits.reshape(-1, logits.shape[-1]), target.reshape(-1)
    loss: Tensor = operator(Z=rows, target=classes, ignore_index=ignore_index, **numbers)
    return loss.reshape(target.shape) if reduction == "none" else loss
