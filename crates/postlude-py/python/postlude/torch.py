"""Layers and losses for PyTorch whose forward and backward passes are Postlude's kernels.

>>> import torch
>>> import postlude.torch as fused
>>> x, weight, bias = torch.randn(5, 8), torch.randn(4, 8, requires_grad=True), torch.zeros(4)
>>> y = fused.linear_gelu(x, weight, bias)
>>> y.sum().backward()
>>> weight.grad.shape
torch.Size([4, 8])

Each is a differentiable operator: it runs under ``torch.compile`` without a graph break and is captured by CUDA graphs.
Leading dims of ``x`` are those of the result. On a GPU the operands are bfloat16 or float16; on the CPU they may be float32.
"""

from __future__ import annotations

from typing import Any, Literal, Optional

import torch
from torch import Tensor

from ._autograd import Differentiable, StepLike, autograd
from ._errors import CallError
from ._kernel import Kernel
from ._linear_cross_entropy import LinearCrossEntropy, linear_cross_entropy
from ._logits_cross_entropy import cross_entropy
from ._modules import Linear, LoRALinear, SwiGLU

__all__ = [
    "Linear",
    "LinearCrossEntropy",
    "LoRALinear",
    "SwiGLU",
    "cross_entropy",
    "linear",
    "linear_bce_loss",
    "linear_cross_entropy",
    "linear_gelu",
    "linear_huber_loss",
    "linear_mse_loss",
    "linear_relu",
    "linear_silu",
    "swiglu",
    "swiglu_mlp",
]

Reduction = Literal["mean", "sum"]
_aten = torch.ops.aten


def dbias(dZ: Tensor) -> Tensor:
    return torch.sum(dZ, 0, dtype=torch.float32)


def _gelu(dD: Tensor, Z: Tensor) -> Tensor:
    gradient: Tensor = _aten.gelu_backward(dD, Z)
    return gradient


def _gelu_tanh(dD: Tensor, Z: Tensor) -> Tensor:
    gradient: Tensor = _aten.gelu_backward(dD, Z, approximate="tanh")
    return gradient


def _silu(dD: Tensor, Z: Tensor) -> Tensor:
    gradient: Tensor = _aten.silu_backward(dD, Z)
    return gradient


def _relu(dD: Tensor, D: Tensor) -> Tensor:
    gradient: Tensor = _aten.threshold_backward(dD, D, 0)
    return gradient


#: Activations: the forward text of the pre-activation, the backward function, and what it reads beside the gradient.
_ACTIVATIONS: dict[str, tuple[str, Any, str]] = {
    "gelu": ("Z = {z}; D = gelu(Z)", _gelu, "Z"),
    "gelu_tanh": ("Z = {z}; D = gelu_tanh(Z)", _gelu_tanh, "Z"),
    "silu": ("Z = {z}; D = silu(Z)", _silu, "Z"),
    "relu": ("D = relu({z})", _relu, "D"),
}


def _layer(activation: Optional[str], bias: bool) -> Differentiable:
    """A linear layer with an activation, and its derivative."""
    z = "X @ W.T + bias[N]" if bias else "X @ W.T"
    steps: list[StepLike] = ["dX = dZ @ W", "dW = dZ.T @ X"]
    if bias:
        steps.append(dbias)
    if activation is None:
        return autograd(f"Z = {z}", steps, saved=["X", "W"], outputs=["Z"], name="linear")
    text, backward, kept = _ACTIVATIONS[activation]
    steps.insert(0, (backward, ["dZ"]))
    return autograd(text.format(z=z), steps, saved=["X", "W", kept], outputs=["D"], name=f"linear_{activation}")


_LAYERS: dict[tuple[Optional[str], bool], Differentiable] = {
    (activation, bias): _layer(activation, bias) for activation in (None, *_ACTIVATIONS) for bias in (False, True)
}


def _apply(activation: Optional[str], x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    rows = x.reshape(-1, x.shape[-1])
    if bias is None:
        result = _LAYERS[activation, False](rows, weight)
    else:
        result = _LAYERS[activation, True](rows, weight, bias=bias)
    shaped: Tensor = result.reshape(*x.shape[:-1], weight.shape[0])
    return shaped


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x @ weight.T + bias``, as ``torch.nn.functional.linear``."""
    return _apply(None, x, weight, bias)


def linear_gelu(
    x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, approximate: Literal["none", "tanh"] = "none"
) -> Tensor:
    """``gelu(x @ weight.T + bias)``; ``approximate`` is that of ``torch.nn.functional.gelu``."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate is {approximate!r}; it is 'none' or 'tanh'")
    return _apply("gelu_tanh" if approximate == "tanh" else "gelu", x, weight, bias)


def linear_silu(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``silu(x @ weight.T + bias)``."""
    return _apply("silu", x, weight, bias)


def linear_relu(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``relu(x @ weight.T + bias)``."""
    return _apply("relu", x, weight, bias)


_SWIGLU = "Z = X @ W1.T; gate, up = halves(Z); H = silu(gate) * up"


def G(dH: Tensor, Z: Tensor) -> Tensor:
    gate, up = Z.chunk(2, 1)
    activated: Tensor = torch.nn.functional.silu(gate)
    return torch.cat((_aten.silu_backward(dH * up, gate), dH * activated), 1)


_swiglu = autograd(_SWIGLU, [G, "dX = G @ W1", "dW1 = G.T @ X"], saved=["X", "W1", "Z"], outputs=["H"], name="swiglu")


def _swiglu_mlp(dtype: str) -> Differentiable:
    # The parts of Z meet a product of half its width: its dims are written out, and so are its dtypes.
    backward = Kernel(
        f"""kernel swiglu_mlp_backward(dY: {dtype}[M, K], W2: {dtype}[K, N/2], Z: {dtype}[M, N]) -> G: {dtype}[M, N] {{
    dh = dY @ W2
    gate, up = halves(Z)
    G = concat(dh * up * grad(silu)(gate), dh * silu(gate))
}}"""
    )
    return autograd(
        [_SWIGLU, "Y = H @ W2.T"],
        [backward, "dX = G @ W1", "dW1 = G.T @ X", "dW2 = dY.T @ H"],
        saved=["X", "W1", "W2", "Z", "H"],
        outputs=["Y"],
        name=f"swiglu_mlp_{dtype}",
    )


_MLPS: dict[torch.dtype, Differentiable] = {
    torch.float32: _swiglu_mlp("f32"),
    torch.float16: _swiglu_mlp("f16"),
    torch.bfloat16: _swiglu_mlp("bf16"),
}


def swiglu(x: Tensor, weight: Tensor) -> Tensor:
    """``silu(gate) * up``, where ``x @ weight.T`` is gate and up side by side."""
    result: Tensor = _swiglu(x.reshape(-1, x.shape[-1]), weight)
    return result.reshape(*x.shape[:-1], weight.shape[0] // 2)


def swiglu_mlp(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """``swiglu(x, w1) @ w2.T``: both layers of a gated MLP, with SwiGLU's derivative inside of the backward product."""
    if x.dtype not in _MLPS:
        raise CallError(f"`x` is {x.dtype}; bfloat16, float16 and (on the CPU) float32 are taken")
    result: Tensor = _MLPS[x.dtype](x.reshape(-1, x.shape[-1]), w1, w2)
    return result.reshape(*x.shape[:-1], w2.shape[0])


#: Losses of a linear layer: the loss of one element, and its derivative in the layer's output.
_LOSSES: dict[str, tuple[str, str]] = {
    "bce": ("-(y * log(sigmoid(z)) + (1 - y) * log(1 - sigmoid(z)))", "sigmoid(z) - y"),
    "mse": ("square(z - y)", "2 * (z - y)"),
    "huber": (
        "where(abs(z - y) <= delta, 0.5 * square(z - y), delta * (abs(z - y) - 0.5 * delta))",
        "clamp(z - y, -delta, delta)",
    ),
}


def _mean_scale(dloss: Tensor, G: Tensor) -> Tensor:
    return dloss / G.numel()


def _sum_scale(dloss: Tensor) -> Tensor:
    return dloss.float()


def _scaled(scale: Tensor, S: Tensor) -> Tensor:
    return scale * S


def _loss(kind: str, reduction: str, bias: bool) -> Differentiable:
    """The loss, with the unscaled gradient of the layer's output from the same product.

    The gradient is stored without the mean's factor, which would underflow in 16 bits, and scaled in the next products.
    """
    loss, gradient = _LOSSES[kind]
    z = "X @ W.T + bias[N]" if bias else "X @ W.T"
    text = f"z = {z}; loss = {reduction}({loss}); G = {gradient}"
    steps: list[StepLike] = [
        (_mean_scale if reduction == "mean" else _sum_scale, ["scale"]),
        "dX = scale * (G @ W)",
        "dW = scale * (G.T @ X)",
    ]
    saved = ["X", "W", "G"]
    if bias:
        text += f"; S = sum({gradient}, M)"
        saved.append("S")
        steps.append((_scaled, ["dbias"]))
    return autograd(text, steps, saved=saved, outputs=["loss"], name=f"linear_{kind}_loss")


_LOSS_OPERATORS: dict[tuple[str, str, bool], Differentiable] = {
    (kind, reduction, bias): _loss(kind, reduction, bias)
    for kind in _LOSSES
    for reduction in ("mean", "sum")
    for bias in (False, True)
}


def _apply_loss(
    kind: str,
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    target: Tensor,
    reduction: Reduction,
    **numbers: float,
) -> Tensor:
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is {reduction!r}; it is 'mean' or 'sum'")
    operator = _LOSS_OPERATORS[kind, reduction, bias is not None]
    rows, y = x.reshape(-1, x.shape[-1]), target.reshape(-1, weight.shape[0])
    if bias is None:
        loss: Tensor = operator(X=rows, W=weight, y=y, **numbers)
    else:
        loss = operator(X=rows, W=weight, bias=bias, y=y, **numbers)
    return loss


def linear_bce_loss(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], target: Tensor, reduction: Reduction = "mean"
) -> Tensor:
    """Binary cross entropy of ``x @ weight.T + bias``, which are logits, with ``target``; the loss is float32.

    The logits are never stored: the loss and its gradient come from one product, computed stably.
    """
    return _apply_loss("bce", x, weight, bias, target, reduction)


def linear_mse_loss(
    x: Tensor, weight: Tensor, bias: Optional[Tensor], target: Tensor, reduction: Reduction = "mean"
) -> Tensor:
    """Squared error of ``x @ weight.T + bias`` from ``target``; the loss is float32."""
    return _apply_loss("mse", x, weight, bias, target, reduction)


def linear_huber_loss(
    x: Tensor,
    weight: Tensor,
    bias: Optional[Tensor],
    target: Tensor,
    reduction: Reduction = "mean",
    delta: float = 1.0,
) -> Tensor:
    """Huber's loss of ``x @ weight.T + bias`` from ``target``; the loss is float32."""
    return _apply_loss("huber", x, weight, bias, target, reduction, delta=float(delta))
