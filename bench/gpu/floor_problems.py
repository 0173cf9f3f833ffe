"""What the rows of `floor.py` compute, in PyTorch: random inputs, the right results, and what a PyTorch user writes.

In: a `Row`. Out: a `Problem`: ours and the peers on buffers that rotate, and the results that are wrong. Results are
compared with PyTorch's in f32, sums and products in f64, before anything is timed; outputs are poisoned before that.
"""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from floor_clock import Competitor, Rotation, buffers_of
from floor_rows import KINDS, Row, shape
from rounding import DTYPES, PER_BYTE

EPS = 1e-5
DEVICE = "cuda"
#: Mode of torch.compile.
MODE = "max-autotune-no-cudagraphs"
#: The relative distance of neighbours in a dtype; one rounding is off by half of it. Results in f32 may be off by what
#: hardware functions and the order of a sum of 2^17 terms make of f32, with some room: 2^-14.
STEP = {torch.bfloat16: 2.0**-7, torch.float8_e4m3fn: 2.0**-3, torch.float32: 2.0**-14}
#: Peers round on the way, too.
PEER_STEPS = 4
#: Elements that are compared at a time.
PIECE = 1 << 26

Inputs = SimpleNamespace
Results = tuple[Tensor, ...]


def drawn(row: Row) -> Inputs:
    """Inputs by name; `half` and `long` have vectors and indices as a PyTorch user has them: in bf16 and in 64 bits."""
    found = Inputs(half=Inputs(), long=Inputs())
    for name, dtype, dims in row.program.inputs:
        assert dims is not None
        sizes = shape(dims, row.sizes)
        sizes[-1] //= PER_BYTE.get(dtype, 1)
        value = element(row, name, dtype, sizes)
        setattr(found, name, value)
        if dtype == "i32":
            setattr(found.long, name, value.long())
        elif dtype == "f32" and len(dims) == 1:
            setattr(found.half, name, value.bfloat16())
    return found


def element(row: Row, name: str, dtype: str, sizes: list[int]) -> Tensor:
    """A tensor, scaled so that products are about 1."""
    if dtype in ("u4", "u8"):
        return torch.randint(0, 256, sizes, dtype=torch.uint8, device=DEVICE)
    if dtype == "i32":
        return torch.randint(0, row.sizes["S" if name == "i" else "N"], sizes, dtype=torch.int32, device=DEVICE)
    if name == "s":
        # The standard deviation of the difference of two numbers of so many bits, or of one that is normal.
        spread = {"w4": 6.5, "w8": 104.0, "fp8": 1.0}[row.kind]
        return (0.5 + torch.rand(sizes, device=DEVICE)) / (spread * math.sqrt(row.sizes["K"]))
    values = torch.randn(sizes, device=DEVICE)
    if name == "W" and dtype == "bf16":
        values /= math.sqrt(row.sizes["K"])
    # Vectors in f32 are the same in bf16.
    return values.bfloat16().float() if dtype == "f32" else values.to(DTYPES[dtype])


# What the results should be.


def product(x: Inputs) -> Tensor:
    return x.A.double() @ x.W.double().T


def widened(w: Tensor, zero: Tensor, s: Tensor, bits: int) -> Tensor:
    """The f32 weight of 4 or 8 bits with zero points and scales of groups."""
    if bits == 4:
        w, zero = (torch.stack((one & 15, one >> 4), -1).flatten(-2) for one in (w, zero))
    groups = w.float().unflatten(-1, (s.shape[-1], -1)) - zero.float()[..., None]
    return (groups * s[..., None]).flatten(-2)


def widened_product(x: Inputs, bits: int) -> Tensor:
    return x.A.double() @ widened(x.W, x.zero, x.s, bits).double().T


def rms_norm(x: Inputs) -> Tensor:
    rows = x.X.float()
    return rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + EPS) * x.g


def layer_norm(x: Inputs) -> Tensor:
    return F.layer_norm(x.X.float(), (x.X.shape[-1],), x.g, x.b, EPS)


def quantised(x: Inputs) -> Results:
    runs = x.X.float().unflatten(-1, (-1, 128))
    s = runs.abs().amax(-1).clamp(min=1e-8) / 448.0
    return (runs / s[..., None]).flatten(-2), s


def loss(x: Inputs) -> Tensor:
    return F.cross_entropy(x.X.float(), x.long.t, reduction="none")


def softmax(x: Inputs) -> Tensor:
    return torch.softmax(x.X.float(), -1)


def top(x: Inputs) -> Results:
    values = torch.topk(x.X, 50, -1).values.float()
    return values, values


WANTED: dict[str, Callable[[Inputs], Any]] = {
    "bf16": product,
    "bf16_silu": lambda x: F.silu(product(x) + x.bias),
    "w4": lambda x: widened_product(x, 4) + x.bias,
    "w8": lambda x: widened_product(x, 8),
    "fp8": lambda x: (x.A.double() @ x.W.float().double().T) * x.s,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "softmax": softmax,
    "cross_entropy": loss,
    "argmax": lambda x: x.X.amax(-1).float(),
    "top_k": top,
    "column_sum": lambda x: x.X.sum(0, dtype=torch.float64),
    "both_sums": lambda x: (x.X.sum(0, dtype=torch.float64), x.X.sum(1, dtype=torch.float64)),
    "column_max": lambda x: x.X.amax(0).float(),
    "column_softmax": lambda x: torch.softmax(x.X.float(), 0),
    "squares": lambda x: (x.X.sum(dtype=torch.float64), x.X.double().square().sum()),
    "transpose": lambda x: x.X.T.float(),
    "quantise": quantised,
    "gather": lambda x: x.X[x.long.i].float(),
    "gelu": lambda x: F.gelu(x.X.float()),
    "long_k": product,
    "product_norm": lambda x: F.layer_norm(product(x), (x.W.shape[0],), x.g.double(), x.b.double(), EPS),
}

# What a user writes.


def quantise(x: Inputs) -> Results:
    runs = x.X.float().unflatten(-1, (-1, 128))
    s = runs.abs().amax(-1, keepdim=True).clamp(min=1e-8) / 448.0
    return (runs / s).to(torch.float8_e4m3fn).flatten(-2), s.squeeze(-1)


def linear_norm(x: Inputs) -> Tensor:
    return F.layer_norm(F.linear(x.A, x.W), (x.W.shape[0],), x.half.g, x.half.b, EPS)


EAGER: dict[str, Callable[[Inputs], Any]] = {
    "bf16": lambda x: torch.mm(x.A, x.W.t()),
    "bf16_silu": lambda x: F.silu(F.linear(x.A, x.W, x.half.bias)),
    "rms_norm": lambda x: F.rms_norm(x.X, x.half.g.shape, x.half.g, EPS),
    "layer_norm": lambda x: F.layer_norm(x.X, x.half.g.shape, x.half.g, x.half.b, EPS),
    "softmax": lambda x: torch.softmax(x.X, -1),
    "cross_entropy": lambda x: F.cross_entropy(x.X, x.long.t, reduction="none"),
    "argmax": lambda x: x.X.argmax(-1),
    "top_k": lambda x: tuple(torch.topk(x.X, 50, -1)),
    "column_sum": lambda x: x.X.sum(0, dtype=torch.float32),
    "both_sums": lambda x: (x.X.sum(0, dtype=torch.float32), x.X.sum(1, dtype=torch.float32)),
    "column_max": lambda x: x.X.amax(0),
    "column_softmax": lambda x: torch.softmax(x.X, 0),
    "squares": lambda x: (x.X.sum(dtype=torch.float32), torch.linalg.vector_norm(x.X, dtype=torch.float32).square()),
    "transpose": lambda x: x.X.t().contiguous(),
    "quantise": quantise,
    "gather": lambda x: x.X[x.long.i],
    "gelu": lambda x: F.gelu(x.X),
    "long_k": lambda x: torch.mm(x.A, x.W.t()),
    "product_norm": linear_norm,
}


def operation(row: Row) -> str:
    """Rows of any length compute the same."""
    return row.kind.removeprefix("long_").removeprefix("sampled_") if row.kind not in WANTED else row.kind


# Comparing.


def at(x: Tensor, index: Tensor) -> Tensor:
    """The elements that rows of indices name; nan where an index is outside or stands twice in its row."""
    index = index.long()
    outside = (index < 0) | (index >= x.shape[-1])
    values = x.gather(-1, index.clamp(0, x.shape[-1] - 1)).float()
    ordered = index.sort(-1).values
    twice = (ordered[..., 1:] == ordered[..., :-1]).any(-1, keepdim=True)
    return values.masked_fill(outside | twice, math.nan)


def comparable(row: Row, x: Inputs, results: Results) -> Results:
    """Indices as the elements that they name: of equal elements any may be named."""
    if operation(row) == "argmax":
        return (at(x.X, results[0][:, None])[:, 0],)
    if operation(row) == "top_k":
        return results[0], at(x.X, results[1])
    return results


def distance(got: Tensor, want: Tensor, size: float) -> tuple[float, float]:
    """The norm of the difference over `size`, and the largest difference over an element and the mean element."""
    if got.shape != want.shape:
        raise ValueError(f"the shape is {tuple(got.shape)}, not {tuple(want.shape)}")
    mean = size / math.sqrt(want.numel())
    squares, largest = 0.0, 0.0
    for one, other in zip(got.reshape(-1).split(PIECE), want.reshape(-1).split(PIECE)):
        far = (one.double() - other.double()).abs_()
        squares += float(far.square().sum())
        largest = max(largest, float(torch.nan_to_num(far / (other.double().abs() + mean), nan=math.inf).max()))
    return math.sqrt(squares) / size, largest


def several(results: Any) -> Results:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def faults(row: Row, x: Inputs, results: Any, want: Results, steps: float = 1.0) -> list[str]:
    """What is wrong: an element by more than a step of its dtype, or all by more than half a step in the mean."""
    found = []
    got = several(results)
    bounds = [STEP.get(one.dtype, STEP[torch.float32]) * steps for one in got]
    for number, (one, other, bound) in enumerate(zip(comparable(row, x, got), want, bounds, strict=True)):
        # One sum may be near zero: it is beside what its terms are.
        size = float(x.X.double().norm()) if row.kind == "squares" and number == 0 else float(other.double().norm())
        mean, largest = distance(one, other, size)
        if not (mean <= bound / 2 and largest <= bound):
            found.append(
                f"result {number} is off by {mean:.1e} in the mean and {largest:.1e} at most, bound {bound:.1e}"
            )
    return found


def poison(results: Results) -> None:
    """Every bit set: nan, -1."""
    for one in results:
        one.reshape(-1).view(torch.uint8).fill_(255)


class Problem:
    """A row's competitors."""

    def __init__(self, row: Row, kernel: Callable[..., Any], compiles: bool) -> None:
        self.row = row
        self.kernel = kernel
        rotation = Rotation(buffers_of(row.read))
        self.inputs = [drawn(row) for _ in range(rotation.buffers)]
        self.names = [one.name for one in row.program.inputs]
        self.arguments = [[getattr(x, name) for name in self.names] for x in self.inputs]
        self.ours = Competitor(lambda one: kernel(*self.arguments[one]), rotation)
        self.peers: dict[str, Competitor] = {}
        #: What a peer computes on buffers of ours; products with 16-bit weights have others.
        self.chains: dict[str, Callable[[Inputs], Any]] = {}
        #: Why a peer takes no part.
        self.left_out: dict[str, str] = {}
        if row.family in ("w4", "w8", "fp8"):
            self.peers["eager"] = self.wide_product()
            return
        self.chains["eager"] = EAGER[operation(row)]
        if compiles:
            torch.compiler.reset()
            self.chains["torch.compile"] = torch.compile(EAGER[operation(row)], mode=MODE, dynamic=False)
        for name, chain in self.chains.items():
            self.peers[name] = Competitor(partial(self.chained, chain), rotation)

    def chained(self, chain: Callable[[Inputs], Any], one: int) -> Any:
        return chain(self.inputs[one])

    def wide_product(self) -> Competitor:
        """The same product with 16-bit weights, of buffers of its own."""
        m, n, k = (self.row.sizes[dim] for dim in "MNK")
        rotation = Rotation(buffers_of(2 * n * k))
        a = [torch.randn(m, k, device=DEVICE).bfloat16() for _ in range(rotation.buffers)]
        w = [torch.randn(n, k, device=DEVICE).bfloat16() / math.sqrt(k) for _ in range(rotation.buffers)]
        return Competitor(lambda one: torch.mm(a[one], w[one].t()), rotation)

    def wrong(self) -> list[str]:
        """What is wrong with ours. Peers that are wrong are left out, and named."""
        x = self.inputs[0]
        results = self.ours.call(0)
        poison(several(results))
        results = self.kernel(*self.arguments[0], out=results)
        again = self.ours.call(0)
        want = several(WANTED[operation(self.row)](x))
        found = faults(self.row, x, results, want)
        pairs = zip(several(results), several(again))
        if not all(torch.equal(bits(one), bits(other)) for one, other in pairs):
            found.append("two runs have different bits")
        for name, chain in self.chains.items():
            try:
                why = "; ".join(faults(self.row, x, chain(x), want, PEER_STEPS))
            except Exception as error:  # noqa: BLE001
                why = f"{type(error).__name__}: {str(error)[:200]}"
            if why:
                self.left_out[name] = why
                del self.peers[name]
        return found


def bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)


assert {operation(Row(kind, {}, ())) for kind in KINDS} <= WANTED.keys()
