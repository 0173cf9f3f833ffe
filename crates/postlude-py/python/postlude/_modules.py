"""Modules for PyTorch with the parameters of ``torch.nn``'s, so that checkpoints load as they are."""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor, nn

from ._autograd import Differentiable, autograd
from ._errors import CallError

_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}

#: Kernels by the text of their template and their dtype: derived once.
_derived: dict[tuple[str, str], Differentiable] = {}


def _operator(text: str, dtype: torch.dtype, wrt: tuple[str, ...] = ()) -> Differentiable:
    """The operator of a kernel's text for operands of a dtype, with the backward pass that is derived from it."""
    if dtype not in _DTYPES:
        raise CallError(f"the operands are {dtype}; bfloat16, float16 and float32 are taken")
    key = (text, _DTYPES[dtype])
    if key not in _derived:
        _derived[key] = autograd(text.replace("DTYPE", _DTYPES[dtype]), wrt=wrt)
    return _derived[key]


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


class Linear(nn.Linear):
    """``torch.nn.Linear`` with an activation in the same kernel: None, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``"relu"``.

    >>> layer = Linear(8, 4, activation="gelu")
    >>> layer.load_state_dict(torch.nn.Linear(8, 4).state_dict())
    <All keys matched successfully>
    >>> layer(torch.randn(5, 8)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        *,
        activation: Optional[str] = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        from . import torch as fused

        known: dict[Optional[str], Callable[..., Tensor]] = {
            None: fused.linear,
            "gelu": fused.linear_gelu,
            "gelu_tanh": lambda x, weight, bias: fused.linear_gelu(x, weight, bias, "tanh"),
            "silu": fused.linear_silu,
            "relu": fused.linear_relu,
        }
        if activation not in known:
            names = ", ".join(repr(name) for name in known if name)
            raise ValueError(f"there is no activation {activation!r}; there are {names}")
        self.activation = activation
        self._function = known[activation]

    def forward(self, input: Tensor) -> Tensor:
        """The layer and its activation."""
        bias = None if self.bias is None else self.bias.float()
        return self._function(input, self.weight, bias)

    def extra_repr(self) -> str:
        """Also the activation."""
        return f"{super().extra_repr()}, activation={self.activation}"


_SWIGLU = """
kernel swiglu(X: DTYPE[M, K], gate: DTYPE[F, K], up: DTYPE[F, K], down: DTYPE[N, F]) -> D: DTYPE[M, N] {
    g = DTYPE(X @ gate.T)
    u = DTYPE(X @ up.T)
    D = DTYPE(silu(g) * u) @ down.T
}
"""


class SwiGLU(nn.Module):
    """The gated MLP of Llama, with its parameters: ``gate_proj``, ``up_proj`` and ``down_proj``.

    >>> layer = SwiGLU(8, 16)
    >>> sorted(layer.state_dict())
    ['down_proj.weight', 'gate_proj.weight', 'up_proj.weight']
    >>> layer(torch.randn(2, 5, 8)).sum().backward()
    >>> layer.up_proj.weight.grad.shape
    torch.Size([16, 8])
    """

    def __init__(
        self, features: int, hidden: int, device: Any = None, dtype: Optional[torch.dtype] = None
    ) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(features, hidden, False, device, dtype)
        self.up_proj = nn.Linear(features, hidden, False, device, dtype)
        self.down_proj = nn.Linear(hidden, features, False, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """``down(silu(gate(x)) * up(x))``."""
        weights = (self.gate_proj.weight, self.up_proj.weight, self.down_proj.weight)
        result: Tensor = _operator(_SWIGLU, input.dtype)(_rows(input), *weights)
        return result.reshape(*input.shape[:-1], result.shape[-1])


_LORA = """
kernel lora(X: DTYPE[M, K], W: DTYPE[N, K], A: DTYPE[R, K], B: DTYPE[N, R], scale: f32) -> D: DTYPE[M, N] {
    low = DTYPE(X @ A.T)
    D = X @ W.T + scale * (low @ B.T)
}
"""


class LoRALinear(nn.Module):
    """A linear layer with a low-rank update: ``x @ weight.T + scale * (x @ lora_A.T) @ lora_B.T``, with PEFT's names.

    The weight is not trained. ``lora_B`` begins as zeros.

    >>> layer = LoRALinear(8, 4, rank=2)
    >>> layer(torch.randn(5, 8)).sum().backward()
    >>> layer.weight.grad is None, layer.lora_B.grad.shape
    (True, torch.Size([4, 2]))
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        rank: int,
        scale: float = 1.0,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
    ) -> None:
        super().__init__()
        own = nn.Linear(in_features, out_features, False, device, dtype)
        self.weight = nn.Parameter(own.weight.detach(), requires_grad=False)
        self.lora_A = nn.Parameter(torch.empty(rank, in_features, device=device, dtype=dtype))
        self.lora_B = nn.Parameter(torch.zeros(out_features, rank, device=device, dtype=dtype))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)
        self.scale = scale

    def forward(self, input: Tensor) -> Tensor:
        """The layer and its update."""
        values = (self.weight, self.lora_A, self.lora_B, self.scale)
        result: Tensor = _operator(_LORA, input.dtype, ("X", "A", "B"))(_rows(input), *values)
        return result.reshape(*input.shape[:-1], result.shape[-1])
