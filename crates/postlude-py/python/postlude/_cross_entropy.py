"""The passes of a linear layer with a cross entropy, over pieces of the classes.

In: arrays of any framework that kernels write into, and the pieces of :mod:`._class_pieces`. Out: the loss of every row, and
gradients. Logits are rounded to the operands' dtype, as those of a layer before its loss are, wherever they lie: results do
not depend on the workspace but for the order of sums over classes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, Optional, Sequence

from ._class_pieces import Piece, Place
from ._kernel import Kernel


def _signature(*inputs: Optional[str]) -> str:
    return ", ".join(one for one in inputs if one)


def forward_text(dtype: str, bias: bool = False, smoothing: bool = False) -> str:
    """One piece of the forward pass: its logits, and what is known of the rows after it."""
    inputs = _signature(
        f"X: {dtype}[M, K], W: {dtype}[N, K]",
        "bias: f32[N]" if bias else None,
        "target: i32[M], start: i32, earlier_lse: f32[M], earlier_t: f32[M]",
        "earlier_total: f32[M]" if smoothing else None,
    )
    outputs = _signature(f"Z: {dtype}[M, N], lse: f32[M], t: f32[M]", "total: f32[M]" if smoothing else None)
    return f"""kernel cross_entropy_chunk({inputs}) -> ({outputs}) {{
    Z = {dtype}(X @ W.T{" + bias" if bias else ""})
    z = f32(Z)
    own = logsumexp(z, N)
    most = maximum(earlier_lse, own)
    lse = most + log(exp(earlier_lse - most) + exp(own - most))
    place = target - start
    t = where((place >= 0) & (f32(place) < size(N)), pick(z, place), earlier_t)
{"    total = earlier_total + sum(z, N)" if smoothing else ""}
}}"""


def gradient_text(dtype: str, bias: bool = False, smoothing: bool = False, recomputed: bool = False) -> str:
    """Gradients of the logits of a piece, from the logits or from what they are made of."""
    inputs = _signature(
        f"X: {dtype}[M, K], W: {dtype}[N, K]" if recomputed else f"Z: {dtype}[M, N]",
        "bias: f32[N]" if bias and recomputed else None,
        "target: i32[M], start: i32, lse: f32[M], d: f32[M]",
        "hit: f32, share: f32" if smoothing else None,
    )
    outputs = _signature(f"G: {dtype}[M, N]", "S: f32[N]" if bias else None)
    hit = "f32(col == target - start)"
    wanted = f"hit * {hit} - share" if smoothing else hit
    return f"""kernel cross_entropy_chunk_gradient({inputs}) -> ({outputs}) {{
{f"    Z = {dtype}(X @ W.T{' + bias' if bias else ''})" if recomputed else ""}
    G = {dtype}((exp(f32(Z) - lse) - {wanted}) * d)
{"    S = sum(f32(G), M)" if bias else ""}
}}"""


class Kernels(NamedTuple):
    """What the passes are made of."""

    forward: Kernel
    #: Without logits.
    statistics: Kernel
    gradient: Kernel
    gradient_again: Kernel
    #: Sums over the classes, of the first pieces, of those between, of the last one, and of one piece that is all.
    first_sum: Kernel
    next_sum: Kernel
    last_sum: Kernel
    only_sum: Kernel
    weight: Kernel


@lru_cache(maxsize=None)
def kernels(dtype: str, bias: bool, smoothing: bool) -> Kernels:
    """The kernels for operands of a dtype."""
    forward = forward_text(dtype, bias, smoothing)
    vectors = ["lse", "t", "total"] if smoothing else ["lse", "t"]
    operands = f"G: {dtype}[M, N], W: {dtype}[N, K]"

    def input_gradient(name: str, inputs: str, result: str, formula: str) -> Kernel:
        return Kernel(f"kernel {name}({operands}{inputs}) -> D: {result}[M, K] {{ D = {formula} }}")

    earlier, scale = ", earlier: f32[M, K]", ", scale: f32[]"
    return Kernels(
        Kernel(forward),
        Kernel(forward, outputs=vectors, name="cross_entropy_chunk_statistics"),
        Kernel(gradient_text(dtype, bias, smoothing)),
        Kernel(gradient_text(dtype, bias, smoothing, recomputed=True)),
        input_gradient("first_input_gradient", "", "f32", "G @ W"),
        input_gradient("next_input_gradient", earlier, "f32", "G @ W + earlier"),
        input_gradient("last_input_gradient", earlier + scale, dtype, "scale * (G @ W + earlier)"),
        input_gradient("input_gradient", scale, dtype, "scale * (G @ W)"),
        Kernel(
            f"kernel weight_gradient(G: {dtype}[M, N], X: {dtype}[M, K]{scale}) -> D: {dtype}[N, K] "
            "{ D = scale * (G.T @ X) }"
        ),
    )


class Call(NamedTuple):
    """What both passes read."""

    dtype: str
    x: Any
    weight: Any
    bias: Any
    target: Any
    #: The share of the loss that all classes have in equal parts.
    smoothing: float
    pieces: Sequence[Piece]

    @property
    def kernels(self) -> Kernels:
        """Those of this call."""
        return kernels(self.dtype, self.bias is not None, self.smoothing != 0)

    def operands(self, piece: Piece) -> list[Any]:
        """Input, weight and bias of a piece."""
        own = slice(piece.first, piece.end)
        return [self.x, self.weight[own], *([] if self.bias is None else [self.bias[own]])]

    def logits(self, piece: Piece, memory: Any) -> Any:
        """The logits of a piece in their memory."""
        rows, width = self.x.shape[0], piece.width
        whole = memory[piece.offset : piece.offset + rows * width].reshape(rows, width)
        return whole[:, : piece.end - piece.first]


class Memory(NamedTuple):
    """Where logits lie: flat arrays of the operands' dtype."""

    workspace: Any
    #: The memory of the weight's gradient; ``None`` where it has none.
    gradient: Any

    def of(self, piece: Piece) -> Any:
        """The one of a piece."""
        return self.gradient if piece.place is Place.GRADIENT else self.workspace


def forward(call: Call, memory: Optional[Memory], unknown: Sequence[Any], vector: Any) -> tuple[Any, Any]:
    """The loss of every row, and its log-sum-exp; logits are kept where there is memory for them.

    ``unknown`` has the vectors before the first piece: minus infinity, nan and zero; ``vector()`` makes another one. A
    target that is no class has nan for a loss.
    """
    known = list(unknown if call.smoothing else unknown[:2])
    for piece in call.pieces:
        arguments = [*call.operands(piece), call.target, piece.first, *known]
        known = [vector() for _ in known]
        if memory is None or piece.place is Place.RECOMPUTED:
            call.kernels.statistics(*arguments, out=tuple(known))
        else:
            call.kernels.forward(*arguments, out=(call.logits(piece, memory.of(piece)), *known))
    lse, t = known[:2]
    if not call.smoothing:
        return lse - t, lse
    share = call.smoothing / call.weight.shape[0]
    return lse - (1 - call.smoothing) * t - share * known[2], lse


class Gradients(NamedTuple):
    """Arrays that the backward pass writes; ``None`` for what is not wanted."""

    x: Any
    weight: Any
    #: float32, and not multiplied by the scale.
    bias: Any
    #: float32 sums of the input's gradient; ``None`` where one piece is all, or the input has no gradient.
    sums: Any


def backward(call: Call, memory: Memory, gradients: Gradients, lse: Any, d: Any, scale: Any) -> None:
    """Gradients of rows' losses times ``d * scale``; the logits are lost."""
    own = call.kernels
    smoothed = [1 - call.smoothing, call.smoothing / call.weight.shape[0]] if call.smoothing else []
    last = len(call.pieces) - 1
    for place, piece in enumerate(reversed(call.pieces)):
        g = call.logits(piece, memory.of(piece))
        rows = slice(piece.first, piece.end)
        bias = [] if call.bias is None else [gradients.bias[rows]]
        arguments = [call.target, piece.first, lse, d, *smoothed]
        if piece.place is Place.RECOMPUTED:
            own.gradient_again(*call.operands(piece), *arguments, out=(g, *bias))
        else:
            own.gradient(g, *arguments, out=(g, *bias))
        if gradients.x is not None:
            operands, sums = (g, call.weight[rows]), gradients.sums
            if last == 0:
                own.only_sum(*operands, scale, out=gradients.x)
            elif place == 0:
                own.first_sum(*operands, out=sums)
            elif place < last:
                own.next_sum(*operands, sums, out=sums)
            else:
                own.last_sum(*operands, sums, scale, out=gradients.x)
        if gradients.weight is not None:
            own.weight(g, call.x, scale, out=gradients.weight[rows])
