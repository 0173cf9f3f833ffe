"""How PyTorch runs a linear layer with a cross entropy: an operator for each pass, over pieces of the classes."""

from __future__ import annotations

from typing import Any, Literal, Optional

import torch
from torch import Tensor, nn

from . import _cross_entropy as passes
from ._class_pieces import Piece, Place, Sizes, TooSmall, columns_of, pieces
from ._differentiable import _Once
from ._errors import CallError
from ._logits_cross_entropy import check_options, check_target
from ._torch import refuse_transforms, refuse_vmap, wrong

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

#: Bytes beside inputs, the loss and gradients. Enough for all logits of 8,192 tokens and 128,256 classes with the ones that lie in
#: the memory of the weight's gradient.
WORKSPACE = 1_400_000_000

_INPUTS = "Tensor x, Tensor weight, Tensor target, Tensor? bias, float smoothing"


def _sizes(x: Tensor, weight: Tensor) -> Sizes:
    return Sizes(x.shape[0], x.shape[1], weight.shape[0], x.element_size())


def _pieces(x: Tensor, weight: Tensor, workspace: int, to_x: bool, to_weight: bool) -> tuple[Piece, ...]:
    return pieces(_sizes(x, weight), workspace, to_input=to_x, in_gradient=to_weight)


def _held(x: Tensor, weight: Tensor, workspace: int, to_x: bool, to_weight: bool) -> list[Tensor]:
    """The workspace, and the memory of the weight's gradient."""
    sizes = _sizes(x, weight)
    columns = columns_of(sizes, workspace, to_input=to_x)
    return [x.new_empty(sizes.rows * columns), weight.new_empty(weight.shape if to_weight else (0,))]


def _call(x: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor], smoothing: float, own: Any) -> passes.Call:
    return passes.Call(_DTYPES[x.dtype], x, weight, bias, target, smoothing, own)


def _losses_of(call: passes.Call, memory: Optional[passes.Memory]) -> tuple[Tensor, Tensor]:
    x = call.x
    least, unset, none = (
        torch.full((x.shape[0],), value, dtype=torch.float32, device=x.device) for value in (-torch.inf, torch.nan, 0.0)
    )
    with torch.no_grad():
        return passes.forward(call, memory, (least, unset, none), lambda: torch.empty_like(none))


def _losses(x: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor], smoothing: float) -> Tensor:
    """Losses of a call that no gradient is recorded of: no logits are stored."""
    whole = [Piece(0, weight.shape[0], Place.RECOMPUTED, 0)]
    return _losses_of(_call(x, weight, target, bias, smoothing, whole), None)[0]


def _fake_losses(x: Tensor, *_: Any) -> Tensor:
    return x.new_empty((x.shape[0],), dtype=torch.float32)


def _forward(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Optional[Tensor],
    smoothing: float,
    workspace: int,
    to_x: bool,
    to_weight: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses, the log-sum-exp of every row, and kept logits: in the workspace and in the memory of the weight's gradient."""
    own = _pieces(x, weight, workspace, to_x, to_weight)
    kept, gradient = _held(x, weight, workspace, to_x, to_weight)
    call = _call(x, weight, target, bias, smoothing, own)
    return (*_losses_of(call, passes.Memory(kept, gradient.view(-1))), kept, gradient)


def _fake_forward(x: Tensor, weight: Tensor, target: Tensor, bias: Any, smoothing: float, *rest: Any) -> Any:
    return (_fake_losses(x), _fake_losses(x), *_held(x, weight, *rest))


def _backward(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Optional[Tensor],
    smoothing: float,
    workspace: int,
    to_x: bool,
    lse: Tensor,
    d: Tensor,
    kept: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of the input and of the bias; that of the weight is where logits lay, which are lost."""
    to_weight = gradient.numel() > 0
    own = _pieces(x, weight, workspace, to_x, to_weight)
    call = _call(x, weight, target, bias, smoothing, own)
    # A small factor of all rows, as a mean's, would underflow in float16: sums are multiplied with it.
    largest = d.abs().amax() if d.numel() else d.new_ones(())
    d = torch.where(largest > 0, d / largest, 0.0)
    dx, dbias = _fake_backward(x, weight, target, bias, smoothing, workspace, to_x)
    sums = torch.empty_like(x, dtype=torch.float32) if to_x and len(own) > 1 else None
    gradients = passes.Gradients(dx if to_x else None, gradient if to_weight else None, dbias, sums)
    with torch.no_grad():
        passes.backward(call, passes.Memory(kept, gradient.view(-1)), gradients, lse, d, largest)
    return dx, dbias * largest


def _fake_backward(
    x: Tensor, weight: Tensor, target: Tensor, bias: Any, smoothing: float, workspace: int, to_x: bool, *rest: Any
) -> tuple[Tensor, Tensor]:
    dx = x.new_empty(x.shape if to_x else (0,))
    return dx, x.new_empty((0 if bias is None else weight.shape[0],), dtype=torch.float32)


_forward_operator = torch.library.custom_op(
    "postlude::linear_cross_entropy",
    _forward,
    mutates_args=(),
    schema=f"({_INPUTS}, SymInt workspace, bool to_x, bool to_weight) -> (Tensor, Tensor, Tensor, Tensor)",
)
_backward_operator = torch.library.custom_op(
    "postlude::linear_cross_entropy_backward",
    _backward,
    mutates_args=("kept", "gradient"),
    schema=f"({_INPUTS}, SymInt workspace, bool to_x, Tensor lse, Tensor d, Tensor(a!) kept, Tensor(b!) gradient)"
    " -> (Tensor, Tensor)",
)
_losses_operator = torch.library.custom_op(
    "postlude::linear_cross_entropy_losses", _losses, mutates_args=(), schema=f"({_INPUTS}) -> Tensor"
)
_forward_operator.register_fake(_fake_forward)
_backward_operator.register_fake(_fake_backward)
_losses_operator.register_fake(_fake_losses)
for _operator in (_forward_operator, _losses_operator):
    _operator.register_vmap(refuse_vmap("linear_cross_entropy"))


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    x, weight, target, bias, ctx.smoothing, ctx.workspace, ctx.to_x, ctx.to_weight = inputs
    _, lse, kept, gradient = output
    ctx.mark_non_differentiable(lse, kept, gradient)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight, target, bias, lse, kept, gradient)


def _differentiate(ctx: Any, d: Optional[Tensor], *_: Any) -> Any:
    x, weight, target, bias, lse, kept, gradient = ctx.saved_tensors
    if d is None:
        return (None,) * 8
    with torch.no_grad():
        dx, dbias = torch.ops.postlude.linear_cross_entropy_backward.default(
            x, weight, target, bias, ctx.smoothing, ctx.workspace, ctx.to_x, lse, d.contiguous(), kept, gradient
        )
        # A tensor of its own on the same memory: autograd copies a gradient that is saved elsewhere.
        found = [dx, gradient.view(gradient.shape), dbias]
    if torch.is_grad_enabled():
        tracked = [one for one in (x, weight, bias, d) if one is not None and one.requires_grad]
        if tracked:
            found = list(_Once.apply("linear_cross_entropy", len(found), *found, *tracked))
    dx, dweight, dbias = found
    gradients = (dx if ctx.to_x else None, dweight if ctx.to_weight else None, None, None if bias is None else dbias)
    return (*gradients, None, None, None, None)


_forward_operator.register_autograd(_differentiate, setup_context=_save)


def _check(x: Tensor, weight: Tensor, target: Tensor, bias: Optional[Tensor]) -> None:
    if x.dtype not in _DTYPES:
        raise CallError(f"`x` is {x.dtype}; bfloat16, float16 and (on the CPU) float32 are taken")
    if weight.dtype != x.dtype:
        raise wrong(f"`weight` is {weight.dtype}, `x` is {x.dtype}", "convert one of them")
    if weight.dim() != 2 or x.dim() < 1 or x.shape[-1] != weight.shape[1]:
        raise wrong(
            f"`weight` is {list(weight.shape)}, `x` is {list(x.shape)}", "`weight` is [classes, features], `x` [..., features]"
        )
    if weight.shape[0] == 0:
        raise wrong("`weight` has no classes", "give it at least one row")
    check_target("x", x, target)
    if bias is not None and tuple(bias.shape) != (weight.shape[0],):
        raise wrong(f"`bias` is {list(bias.shape)}", f"`weight` has {weight.shape[0]} classes")


def linear_cross_entropy(
    x: Tensor,
    weight: Tensor,
    target: Tensor,
    bias: Optional[Tensor] = None,
    *,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    label_smoothing: float = 0.0,
    workspace: int = WORKSPACE,
) -> Tensor:
    """Cross entropy of ``x @ weight.T + bias`` with ``target``; the loss is float32.

    The arguments are those of ``torch.nn.functional.cross_entropy``. Logits are rounded to the dtype of ``x``, as a layer's are.
    A tensor of all logits is never there: both passes use at most about ``workspace`` bytes beside inputs, the loss and
    gradients. Where a gradient is recorded, pieces of the logits are kept in them and in the memory of the weight's gradient,
    and the rest is computed again. The backward pass overwrites kept logits: it runs once.

    >>> x, weight = torch.randn(5, 8), torch.randn(100, 8, requires_grad=True)
    >>> linear_cross_entropy(x, weight, torch.arange(5)).backward()
    >>> weight.grad.shape
    torch.Size([100, 8])
    """
    check_options(reduction, label_smoothing)
    _check(x, weight, target, bias)
    rows, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    bias = None if bias is None else bias.float()
    # Chunks number their own classes, by arithmetic: no number may become a class where int64 ends.
    numbers = classes if classes.dtype == torch.int32 else classes.clamp(-1, (1 << 31) - 1).to(torch.int32)
    arguments = (rows, weight, numbers, bias, float(label_smoothing))
    recorded = torch.is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    )
    if recorded:
        if not torch.compiler.is_dynamo_compiling():
            refuse_transforms("linear_cross_entropy", [x, weight, target])
        try:
            losses = torch.ops.postlude.linear_cross_entropy.default(
                *arguments, workspace, x.requires_grad, weight.requires_grad
            )[0]
        except TooSmall as error:
            raise wrong(str(error), f"give at least {error.least:,} bytes, or fewer rows") from None
    else:
        losses = torch.ops.postlude.linear_cross_entropy_losses.default(*arguments)
    counted = classes != ignore_index
    losses = torch.where(counted, losses, 0.0)
    if reduction == "none":
        return losses.reshape(target.shape)
    total = losses.sum()
    return total / counted.sum() if reduction == "mean" else total


class LinearCrossEntropy(nn.Linear):
    """The last layer of a classifier or language model together with its loss: ``torch.nn.Linear``'s parameters.

    ``weight`` may be tied to an embedding's. ``logits(x)`` is the layer alone.

    >>> head = LinearCrossEntropy(8, 100)
    >>> head(torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.long)).backward()
    >>> head.weight.grad.shape
    torch.Size([100, 8])
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        bias: bool = False,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        *,
        ignore_index: int = -100,
        reduction: Literal["mean", "sum", "none"] = "mean",
        label_smoothing: float = 0.0,
        workspace: int = WORKSPACE,
    ) -> None:
        super().__init__(in_features, classes, bias, device, dtype)
        self.ignore_index, self.reduction = ignore_index, reduction
        self.label_smoothing, self.workspace = label_smoothing, workspace

    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        """The loss."""
        return linear_cross_entropy(
            input,
            self.weight,
            target,
            self.bias,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
            workspace=self.workspace,
        )

    def logits(self, input: Tensor) -> Tensor:
        """The layer without its loss."""
        return super().forward(input)

    def extra_repr(self) -> str:
        """Also the loss's options."""
        own = f"reduction={self.reduction!r}, ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}"
        return f"{super().extra_repr()}, {own}"
