"""Kernels of the library, written as functions: each is traced into the library's own text."""

from __future__ import annotations

from typing import Any, NamedTuple

from postlude import kernel, lang
from postlude.lang import (
    absmax,
    b1,
    bf16,
    bool_,
    col,
    exp,
    f8e4m3,
    f16,
    f32,
    gelu,
    grad,
    halves,
    i8,
    i32,
    join,
    log,
    logsumexp,
    maximum,
    mean,
    pairs,
    pick,
    relu,
    row,
    rsqrt,
    sigmoid,
    silu,
    softmax,
    square,
    tanh,
    topk_softmax,
    where,
)


@kernel
def linear_gelu_aux(A: f16["M", "K"], W: f16["N", "K"], bias: f32["N"]) -> {"D": f16["M", "N"], "Z": f16["M", "N"]}:
    """Linear layer with GELU, keeping the pre-activation for the backward pass"""
    Z = A @ W.T + bias
    return {"D": gelu(Z), "Z": Z}


@kernel
def linear_softmax(A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"]) -> f32["M", "N"]:
    """Router: linear layer followed by a softmax along N."""
    return softmax(A @ W.T + bias, "N")


class SwigluResults(NamedTuple):
    D: bf16["M", "N/2"]
    Z: bf16["M", "N"]


@kernel
def swiglu_aux(A: bf16["M", "K"], W: bf16["N", "K"]) -> SwigluResults:
    """SwiGLU that keeps both projections for the backward pass"""
    Z = A @ W.T
    gate, up = halves(Z)
    return SwigluResults(D=silu(gate) * up, Z=Z)


@kernel
def geglu_interleaved(A: bf16["M", "K"], W: bf16["N", "K"]) -> bf16["M", "N/2"]:
    """GeGLU with gate and up columns interleaved"""
    gate, up = pairs(A @ W.T)
    return gelu(gate) * up


@kernel
def bce_loss_gradient(
    A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"], y: bf16["M", "N"], s: f32
) -> tuple[f32[()], bf16["M", "N"], f32["N"]]:
    """Binary cross entropy and its gradient from one product"""
    z = A @ W.T + bias
    p = sigmoid(z)
    loss = -mean(y * log(p) + (1 - y) * log(1 - p))
    D = (p - y) * s
    dbias = lang.sum(D, "M")
    return loss, D, dbias


@kernel
def cross_entropy_gradient(
    A: bf16["M", "K"], W: bf16["N", "K"], target: i32["M"], lse: f32["M"], s: f32
) -> bf16["M", "N"]:
    """Gradient of cross entropy from the log-sum-exp an earlier kernel kept"""
    return (exp(A @ W.T - lse) - f32(col == target)) * s


@kernel
def fp8_block_quantise(A: bf16["M", "K"], W: bf16["N", "K"]) -> tuple[f8e4m3["M", "N"], f32["M", "N/128"]]:
    """Product to fp8 with one scale for each run of 128 along N"""
    z = A @ W.T
    scale = maximum(absmax(z, "N", 128), 1e-12) / 448.0
    D = f8e4m3(z / scale)
    return D, scale


@kernel
def gelu_fp8_amax(
    A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"], scale: f32[()]
) -> tuple[f8e4m3["M", "N"], f32[()]]:
    """Linear layer with GELU to scaled fp8, and the largest magnitude before scaling"""
    g = gelu(A @ W.T + bias)
    D, amax = f8e4m3(scale * g), g.absmax()
    return D, amax


@kernel
def lincomb_scalars_in_memory(
    A: bf16["M", "K"], W: bf16["N", "K"], C: bf16["M", "N"], alpha: f32[()], beta: f32[()]
) -> bf16["M", "N"]:
    """Linear combination with both scalars read from device memory"""
    return alpha * (A @ W.T) + beta * C


@kernel
def lincomb_bias_relu_mask(
    A: bf16["M", "K"], W: bf16["N", "K"], C: bf16["M", "N"], bias: f32["N"], alpha: f32, beta: f32
) -> {"D": bf16["M", "N"], "mask": b1["M", "N"]}:
    """ReLU with a bias along N, and one bit an element saying where it passed (CUTLASS aux of uint1b)"""
    z = alpha * (A @ W.T) + beta * C + bias
    return relu(z), ~(z < 0)


@kernel
def dropout(
    A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"], keep: bool_["M", "N"], rescale: f32
) -> bf16["M", "N"]:
    """Linear layer with dropout from a mask of bytes"""
    return where(keep, rescale * (A @ W.T + bias), 0.0)


@kernel
def rotary_interleaved(
    A: bf16["M", "K"], W: bf16["N", "K"], cosine: f32["M", "N/2"], sine: f32["M", "N/2"]
) -> bf16["M", "N"]:
    """Projection with a rotary embedding of neighbouring columns"""
    x, y = (A @ W.T).pairs()
    return join(x * cosine - y * sine, x * sine + y * cosine)


@kernel
def per_head_rms_norm(A: bf16["M", "K"], W: bf16["N", "K"], gamma: f32["N"], eps: f32) -> bf16["M", "N"]:
    """Query or key projection with an RMS norm over each head of 128"""
    z = A @ W.T
    return z * rsqrt(mean(z**2, "N", 128) + eps) * gamma


@kernel
def topk_router(A: bf16["M", "K"], W: bf16["N", "K"]) -> f32["M", "N"]:
    """Mixture-of-experts router: softmax over the four largest logits, zero elsewhere"""
    return topk_softmax(A @ W.T, 4, "N")


@kernel
def w8a8_zero_points(
    A: i8["M", "K"], W: i8["N", "K"], a: f32["M"], b: f32["N"], zero: i32["M"], weight_sum: i32["N"], bias: f32["N"]
) -> bf16["M", "N"]:
    """int8 product with a zero point for every row of A, corrected by the weight's sums along K"""
    return a * (b * (A @ W.T - zero * weight_sum)) + bias


@kernel
def batched_causal_softmax(
    Q: bf16["L", "M", "K"], Keys: bf16["L", "N", "K"], scale: f32
) -> {"P": bf16["L", "M", "N"]}:
    """Attention probabilities of every head, causal"""
    return {"P": softmax(where(col <= row, scale * (Q @ Keys.T), -lang.inf), "N")}


@kernel
def layer_statistics(
    A: bf16["M", "K"], W: bf16["N", "K"], C: bf16["M", "N"]
) -> tuple[bf16["M", "N"], f32["M"], f32["M"]]:
    """Residual stream with its mean and its mean square along N"""
    Y = A @ W.T + C
    mu = Y.mean("N")
    power = square(Y).mean("N")
    return Y, mu, power


@kernel
def gelu_backward_bias(
    A: f16["M", "K"], W: f16["N", "K"], Z: f16["M", "N"]
) -> tuple[f16["M", "N"], f32["N"]]:
    """Gradient through GELU and the gradient of a bias along N"""
    D = A @ W.T * grad(gelu)(Z)
    dbias = D.sum("M")
    return D, dbias


@kernel
def huber_loss(
    A: bf16["M", "K"], W: bf16["N", "K"], bias: f32["N"], y: bf16["M", "N"], delta: f32
) -> {"loss": f32[()]}:
    """Huber loss, summed"""
    error = A @ W.T + bias - y
    return {"loss": lang.sum(where(abs(error) <= delta, 0.5 * square(error), delta * (abs(error) - 0.5 * delta)))}


@kernel
def batched_product(A: bf16["L", "M", "K"], B: bf16["L", "K", "N"]) -> bf16["L", "M", "N"]:
    """One product for every batch"""
    return A @ B


@kernel
def quantise_i8(A: bf16["M", "K"], W: bf16["N", "K"], scale: f32[()]) -> i8["M", "N"]:
    """Product to int8 with one scale"""
    return i8(A @ W.T / scale)


@kernel
def greedy_statistics(A: bf16["M", "K"], W: bf16["N", "K"]) -> tuple[f32["M"], f32["M"]]:
    """Largest logit of every row and its probability"""
    z = A @ W.T
    best = lang.max(z, "N")
    confidence = exp(best - logsumexp(z, "N"))
    return best, confidence


@kernel
def softcap_cross_entropy(
    A: bf16["M", "K"], W: bf16["N", "K"], target: i32["M"], cap: f32
) -> {"loss": f32[()]}:
    """Mean cross entropy of capped logits"""
    z = cap * tanh(A @ W.T / cap)
    return {"loss": mean(logsumexp(z, "N") - pick(z, target))}


TRACED: dict[str, Any] = {one.__name__: one for one in list(globals().values()) if hasattr(one, "__wrapped__")}
