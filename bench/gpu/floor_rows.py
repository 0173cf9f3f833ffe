"""The rows of `floor.py`: kernels that are bound by memory, their sizes and bytes, and their bars.

In: a seed, or nothing for the sizes of the table. Out: a list of `Row`. Nothing here needs PyTorch or a GPU. A
row's sizes depend on the seed, its kind and its place within the kind: leaving families out changes no other row.
"""

from __future__ import annotations

import math
import os
import random
from functools import cache
from typing import Callable, NamedTuple

from text_parser import Program, parse

BITS = {"bf16": 16, "f32": 32, "i32": 32, "f8e4m3": 8, "u8": 8, "u4": 4}
Sizes = dict[str, int]


def library(name: str) -> str:
    """The text of a kernel of the library, which lies in the repository or beside this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(here, *up, "kernels", f"{name}.post") for up in (("..", ".."), ())]
    with open(next(place for place in places if os.path.exists(place))) as file:
        return file.read()


class Kind(NamedTuple):
    family: str
    #: What the floor does with the bytes: `read` or `copy`.
    floor: str
    text: str


def of_x(results: str, body: str, more: str = "") -> str:
    return f"kernel k(X: bf16[M, N]{more}) -> ({results}) {{ {body} }}"


def of_product(body: str, more: str = "", weight: str = "bf16") -> str:
    return f"kernel k(A: bf16[M, K], W: {weight}[N, K]{more}) -> D: bf16[M, N] {{ D = {body} }}"


LOSS = ("l: f32[M]", "l = logsumexp(X, N) - pick(X, t)", ", t: i32[M]")
ARGMAX = ("i: i32[M]", "i = argmax(X, N)")
TOP_K = ("v: f32[M, 50], i: i32[M, 50]", "v, i = topk(X, 50, N)")
SOFTMAX = ("Y: bf16[M, N]", "Y = softmax(X, N)")
RMS_NORM = ("Y: bf16[M, N]", "Y = rms_norm(X, N, 1e-5) * g", ", g: f32[N]")
LAYER_NORM = ("Y: bf16[M, N]", "Y = layer_norm(X, N, 1e-5) * g + b", ", g: f32[N], b: f32[N]")
QUANTISE = ("Q: f8e4m3[M, N], s: f32[M, N/128]", "s = maximum(absmax(X, N, 128), 1e-8) / 448.0; Q = f8e4m3(X / s)")

KINDS = {
    "bf16": Kind("bf16", "read", of_product("A @ W.T")),
    "bf16_silu": Kind("bf16_silu", "read", of_product("silu(A @ W.T + bias)", ", bias: f32[N]")),
    "w4": Kind("w4", "read", library("w4a16_decode")),
    "w8": Kind("w8", "read", library("w8a16_decode")),
    "fp8": Kind("fp8", "read", of_product("(A @ bf16(W).T) * s", ", s: f32[N]", "f8e4m3")),
    "rms_norm": Kind("rows", "copy", of_x(*RMS_NORM)),
    "layer_norm": Kind("rows", "copy", of_x(*LAYER_NORM)),
    "softmax": Kind("rows", "copy", of_x(*SOFTMAX)),
    "cross_entropy": Kind("rows", "read", of_x(*LOSS)),
    "long_rms_norm": Kind("long_rows", "copy", of_x(*RMS_NORM)),
    "long_layer_norm": Kind("long_rows", "copy", of_x(*LAYER_NORM)),
    "long_softmax": Kind("long_rows", "copy", of_x(*SOFTMAX)),
    "long_cross_entropy": Kind("long_rows", "read", of_x(*LOSS)),
    "long_argmax": Kind("long_rows", "read", of_x(*ARGMAX)),
    "long_top_k": Kind("long_rows", "read", of_x(*TOP_K)),
    "sampled_cross_entropy": Kind("sampling", "read", of_x(*LOSS)),
    "sampled_softmax": Kind("sampling", "copy", of_x(*SOFTMAX)),
    "sampled_argmax": Kind("sampling", "read", of_x(*ARGMAX)),
    "sampled_top_k": Kind("sampling", "read", of_x(*TOP_K)),
    "column_sum": Kind("columns", "read", of_x("s: f32[N]", "s = sum(X, M)")),
    "both_sums": Kind("columns", "read", of_x("a: f32[N], b: f32[M]", "a = sum(X, M); b = sum(X, N)")),
    "column_max": Kind("columns", "read", of_x("a: f32[N]", "a = max(X, M)")),
    "column_softmax": Kind("columns", "copy", of_x("Y: bf16[M, N]", "Y = softmax(X, M)")),
    "squares": Kind("columns", "read", of_x("a: f32[], b: f32[]", "a = sum(X); b = sum(square(X))")),
    "transpose": Kind("copies", "copy", of_x("Y: bf16[N, M]", "Y = X.T")),
    "quantise": Kind("copies", "copy", of_x(*QUANTISE)),
    "gather": Kind("copies", "copy", "kernel k(X: bf16[S, N], i: i32[M]) -> Y: bf16[M, N] { Y = gather(X, i) }"),
    "gelu": Kind("copies", "copy", of_x("Y: bf16[M, N]", "Y = gelu(X)")),
    "long_k": Kind("long_k", "read", of_product("A @ W.T")),
    "product_norm": Kind(
        "product_norm", "copy", of_product("layer_norm(A @ W.T, N, 1e-5) * g + b", ", g: f32[N], b: f32[N]")
    ),
}
FAMILIES = list(dict.fromkeys(kind.family for kind in KINDS.values()))


class Bar(NamedTuple):
    """What ours may take: `factor` times the floor, and `more` us; or so many us; or another's time over `factor`."""

    of: str  # floor, us, eager or torch.compile
    factor: float
    more: float = 0.0

    def allowed(self, us: dict[str, float]) -> float | None:
        """In us; None where it was not measured."""
        if self.of == "us":
            return self.factor
        if self.of not in us:
            return None
        return self.factor * us["floor"] + self.more if self.of == "floor" else us[self.of] / self.factor

    def __str__(self) -> str:
        if self.of == "us":
            return f"{self.factor:.1f} us"
        if self.of != "floor":
            return f"{self.factor:.2f}x {self.of}"
        return f"{self.factor:.2f} of the floor" + (f" + {self.more:.2f} us" if self.more else "")


class Row(NamedTuple):
    kind: str
    sizes: Sizes
    bars: tuple[Bar, ...]

    @property
    def name(self) -> str:
        return f"{self.kind} {','.join(map(str, self.sizes.values()))}"

    @property
    def family(self) -> str:
        return KINDS[self.kind].family

    @property
    def floor(self) -> str:
        return KINDS[self.kind].floor

    @property
    def program(self) -> Program:
        return program(KINDS[self.kind].text)

    @property
    def read(self) -> int:
        """Bytes."""
        total = sum(size_of(one, self.sizes) for one in self.program.inputs)
        if self.kind == "gather":
            # Rows that are gathered twice are read once, and some never: the expected number of distinct ones.
            s, m, n = (self.sizes[dim] for dim in "SMN")
            total -= 2 * n * round(s * (1 - 1 / s) ** m)
        return total

    @property
    def written(self) -> int:
        """Bytes."""
        return sum(size_of(one, self.sizes) for one in self.program.outputs)

    @property
    def moved(self) -> int:
        """The bytes that the floor is of: a copy's are read and written, half of them each."""
        return self.read + self.written if self.floor == "copy" else self.read

    @property
    def predicted(self) -> float:
        """The floor in us, by the formula."""
        return predicted(self.moved)


def predicted(moved: int) -> float:
    return 2.4 + moved / 4.5e6


program = cache(parse)


def shape(dims: tuple[tuple[str, int], ...], sizes: Sizes) -> list[int]:
    return [(int(name) if name.isdigit() else sizes[name]) // divisor for name, divisor in dims]


def size_of(declared: object, sizes: Sizes) -> int:
    """Bytes of an input or an output."""
    return math.prod(shape(declared.dims, sizes)) * BITS[declared.dtype] // 8  # type: ignore[attr-defined]


# The bars.

LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192))
#: Of the floor, one for each of LAYERS: 1 and 16 rows, and 64 rows where the table has a line.
FEW = {"bf16": (1.15, 1.08, 1.08, 1.05), "w4": (1.6, 1.3, 1.3, 1.15), "w8": (1.35, 1.18, 1.18, 1.1)}
SIXTY_FOUR = {"bf16": (1.18, 1.12, 1.12, 1.1), "w4": (1.9, 1.6, 1.6, 1.4), "w8": None}
#: On sizes of a seed: so many times the floor, and so many us, for 1 and 16 rows.
UNSEEN = {"bf16": (1.04, 1.05), "w4": (1.08, 1.9), "w8": (1.07, 1.7)}
#: The line of a kind that has no line of its own, and what its bar is multiplied by.
LINE_OF = {"bf16_silu": ("bf16", 1.01), "fp8": ("w8", 1.0)}
COMPILED = Bar("torch.compile", 1.05)
BARS: dict[str, tuple[Bar, ...]] = {
    "rms_norm": (Bar("floor", 1.03), COMPILED),
    "layer_norm": (Bar("floor", 1.05), COMPILED),
    "softmax": (Bar("floor", 1.05),),
    "cross_entropy": (Bar("floor", 1.15),),
    "long_rms_norm": (Bar("floor", 1.08),),
    "long_layer_norm": (Bar("floor", 1.08),),
    "long_softmax": (Bar("floor", 1.08),),
    "long_cross_entropy": (Bar("floor", 1.15),),
    "long_argmax": (Bar("floor", 1.15),),
    "long_top_k": (Bar("floor", 1.5),),
    "sampled_cross_entropy": (Bar("us", 6.0),),
    "sampled_softmax": (Bar("us", 8.0),),
    "sampled_argmax": (Bar("us", 6.0),),
    "sampled_top_k": (Bar("us", 15.0),),
    "column_sum": (Bar("floor", 1.15),),
    "both_sums": (Bar("floor", 1.15),),
    "column_max": (Bar("floor", 1.15),),
    "column_softmax": (Bar("floor", 1.3),),
    "squares": (Bar("floor", 1.12),),
    "transpose": (Bar("floor", 1.05),),
    "quantise": (Bar("floor", 1.05),),
    "gather": (Bar("eager", 1.0),),
    "gelu": (Bar("floor", 1.02),),
    "long_k": (Bar("eager", 1.0),),
}
#: Layer norm of a product's rows, over torch.compile, by the most columns.
PRODUCT_NORM = ((2048, 1.15), (6144, 1.1), (1 << 31, 1.0))
#: The vocabulary that the bars of sampling are for; others are in proportion to their floors.
VOCABULARY = 128256


def product_bars(kind: str, sizes: Sizes, unseen: bool) -> tuple[Bar, ...]:
    line, scale = LINE_OF.get(kind, (kind, 1.0))
    # Nothing is slower than the same product with 16-bit weights.
    narrow = () if line == "bf16" else (Bar("eager", 1.0),)
    if unseen and sizes["M"] < 64:
        factor, more = UNSEEN[line]
        return (Bar("floor", factor * scale, more * scale), *narrow)
    factors = SIXTY_FOUR[line] if sizes["M"] >= 64 else FEW[line]
    if factors is None:
        return narrow
    # A layer of the table, or the one that is next to it in size.
    place = sum(sizes["N"] * sizes["K"] > most for most in (1 << 25, 1 << 27))
    factor = (factors[0], factors[1], factors[3])[place]
    return (Bar("floor", factor * scale), *narrow)


def bars(kind: str, sizes: Sizes, unseen: bool) -> tuple[Bar, ...]:
    if kind in UNSEEN or kind in LINE_OF:
        return product_bars(kind, sizes, unseen)
    if kind == "product_norm":
        return (Bar("torch.compile", next(factor for most, factor in PRODUCT_NORM if sizes["N"] <= most)),)
    if KINDS[kind].family == "sampling":
        of_table = Row(kind, {**sizes, "N": VOCABULARY}, ()).predicted
        return tuple(bar._replace(factor=bar.factor * Row(kind, sizes, ()).predicted / of_table) for bar in BARS[kind])
    return BARS[kind]


def row(kind: str, unseen: bool, **sizes: int) -> Row:
    return Row(kind, sizes, bars(kind, sizes, unseen))


def of_table() -> list[Row]:
    """The sizes of the table."""
    norms, few = ("rms_norm", "layer_norm", "softmax", "cross_entropy"), ("bf16", "bf16_silu", "w4", "w8", "fp8")
    vocabulary = ("cross_entropy", "softmax", "argmax", "top_k")
    found = [row(kind, False, M=m, N=n, K=k) for kind in few for m in (1, 16, 64) for n, k in LAYERS]
    sizes = ((8192, 4096), (32768, 1024), (2048, 16384), (131072, 256))
    found += [row(kind, False, M=m, N=n) for kind in norms for m, n in sizes]
    found += [row(f"long_{kind}", False, M=1024, N=65536) for kind in norms]
    found += [row(f"long_{kind}", False, M=4096, N=VOCABULARY) for kind in vocabulary]
    found += [row(f"sampled_{kind}", False, M=m, N=VOCABULARY) for m in (16, 1) for kind in vocabulary]
    found += [
        row("column_sum", False, M=m, N=n) for m, n in ((8192, 4096), (32768, 1024), (131072, 256), (1024, 65536))
    ]
    found += [row(kind, False, M=8192, N=4096) for kind in ("both_sums", "column_max", "column_softmax", "squares")]
    found += [row("transpose", False, M=8192, N=8192), row("quantise", False, M=8192, N=4096)]
    found += [row("gather", False, S=8192, M=16384, N=4096), row("gelu", False, M=8192, N=4096)]
    found += [row("long_k", False, M=m, N=n, K=k) for m, n, k in ((1000, 1000, 20000), (256, 256, 65536))]
    return found + [
        row("product_norm", False, M=m, N=n, K=1024) for m, n in ((32768, 1024), (8192, 4096), (8192, 8192))
    ]


# Sizes of a seed.

#: Half of the layers have sizes of language models.
USUAL_N = (1024, 2048, 5120, 6144, 10240, 13824, 18944, 57344, 128256)
USUAL_K = (1536, 2048, 3584, 5120, 6144, 7168, 8192, 13824, 18432, 28672)
VOCABULARIES = (32000, 50264, 100352, 128256, 151936, 201088, 262144)
#: The most elements of a weight.
LARGEST = 1 << 29


def between(rng: random.Random, low: int, high: int, step: int = 8) -> int:
    """A multiple of the step, even in its logarithm."""
    drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    return min(max(round(drawn / step), -(-low // step)), high // step) * step


def layer(rng: random.Random, m: int, k_step: int) -> Sizes:
    while True:
        n = rng.choice(USUAL_N) if rng.random() < 0.5 else between(rng, 1024, 128256)
        k = rng.choice(USUAL_K) if rng.random() < 0.5 else between(rng, 1536, 28672, k_step)
        if n * k <= LARGEST:
            return {"M": m, "N": n, "K": k}


def tile(rng: random.Random, columns: tuple[int, int], elements: tuple[int, int], step: int = 8) -> Sizes:
    n = between(rng, *columns, step)
    return {"M": max(1, between(rng, *elements) // n), "N": n}


def transposed(rng: random.Random) -> Sizes:
    """Rows of both sides begin at multiples of 16 bytes."""
    sizes = tile(rng, (1024, 16384), SOME)
    return {**sizes, "M": sizes["M"] // 8 * 8}


def gathered(rng: random.Random) -> Sizes:
    s = between(rng, 4096, 16384)
    return {"S": s, "M": s * rng.choice((1, 2)), "N": between(rng, 1024, 8192)}


def long_k(rng: random.Random) -> Sizes:
    return {"M": between(rng, 128, 1024), "N": between(rng, 128, 1024), "K": between(rng, 16384, 131072)}


def product_norm(rng: random.Random, columns: tuple[int, int]) -> Sizes:
    n = between(rng, *columns, 64)
    return {"M": between(rng, *SOME) // n // 64 * 64, "N": n, "K": between(rng, 512, 2048, 64)}


SHORT, LONG, ANY = (256, 16384), (16392, 262144), (256, 65536)
SOME, MANY = (1 << 24, 1 << 26), (1 << 24, 1 << 28)
Draw = Callable[[random.Random], Sizes]


def layers(*rows: int, k_step: int = 8) -> list[Draw]:
    return [lambda rng, m=m: layer(rng, m, k_step) for m in rows]  # type: ignore[misc]


def tiles(count: int, columns: tuple[int, int], elements: tuple[int, int] = SOME, step: int = 8) -> list[Draw]:
    return [lambda rng: tile(rng, columns, elements, step)] * count


def product_norms(*columns: tuple[int, int]) -> list[Draw]:
    return [lambda rng, own=own: product_norm(rng, own) for own in columns]  # type: ignore[misc]


def samples() -> list[Draw]:
    return [lambda rng, m=m: {"M": m, "N": rng.choice(VOCABULARIES)} for m in (1, 16)]  # type: ignore[misc]


#: Sixty rows.
DRAWS: dict[str, list[Draw]] = {
    "bf16": layers(1, 16, 64, 1, 16, 64),
    "bf16_silu": layers(1, 16, 64),
    "w4": layers(1, 16, 64, 1, 16, 64, k_step=256),
    "w8": layers(1, 16, 64, 1, 16, 64, k_step=64),
    "fp8": layers(1, 16, 64, k_step=16),
    "rms_norm": tiles(1, SHORT),
    "layer_norm": tiles(2, SHORT),
    "softmax": tiles(1, SHORT),
    "cross_entropy": tiles(2, SHORT),
    "long_rms_norm": tiles(1, LONG, MANY),
    "long_layer_norm": tiles(1, LONG, MANY),
    "long_softmax": tiles(1, LONG, MANY),
    "long_cross_entropy": tiles(1, LONG, MANY),
    "long_argmax": tiles(1, LONG, MANY),
    "long_top_k": tiles(1, LONG, MANY),
    "sampled_cross_entropy": samples(),
    "sampled_softmax": samples(),
    "sampled_argmax": samples(),
    "sampled_top_k": samples(),
    "column_sum": tiles(3, ANY),
    "both_sums": tiles(1, ANY),
    "column_max": tiles(1, ANY),
    "column_softmax": tiles(1, ANY),
    "squares": tiles(1, ANY),
    "transpose": [transposed],
    "quantise": tiles(1, SHORT, step=128),
    "gather": [gathered],
    "gelu": tiles(1, SHORT),
    "long_k": [long_k, long_k],
    "product_norm": product_norms((1024, 2048), (2112, 6144), (6208, 8192)),
}


def of_seed(seed: int) -> list[Row]:
    found: dict[str, Row] = {}
    for kind, draws in DRAWS.items():
        for place, draw in enumerate(draws):
            rng = random.Random(f"{seed} {kind} {place}")
            drawn = row(kind, True, **draw(rng))
            while drawn.name in found:
                drawn = row(kind, True, **draw(rng))
            found[drawn.name] = drawn
    return list(found.values())
