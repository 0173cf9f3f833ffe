"""What L2's set-aside and access windows bring to programs of two launches, beside the same launches without them.

    python bench/gpu/l2.py [--rounds 7]

In a phase of its own without a set-aside and in one with the largest, each program runs with the window over what both
launches touch (`window`), and without (`set aside`): rounds are interleaved, and all buffers are cold. The set-aside is a
limit of the context, so it is put back at the end.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
from ctypes import byref, c_float, c_int, c_size_t, c_void_p
from typing import Any, Callable

import postlude
import torch

from floor_clock import Clock, Competitor, Floor, Rotation, buffers_of, checked

#: Numbers of the driver's interface.
PERSISTING_LIMIT, WINDOW_ATTRIBUTE, MOST_PERSISTING, MOST_WINDOW = 6, 1, 108, 109
NORMAL, PERSISTING = 0, 2

LAUNCHES = 12


class Window(ctypes.Structure):
    """A stream's access policy, padded to the size of any of its attributes."""

    _fields_ = [
        ("base", c_void_p),
        ("bytes", c_size_t),
        ("hit_ratio", c_float),
        ("hit", c_int),
        ("miss", c_int),
        ("padding", ctypes.c_byte * 64),
    ]


class L2:
    def __init__(self) -> None:
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.stream = torch.cuda.Stream()

    def attribute(self, number: int) -> int:
        value = c_int()
        checked(self.driver.cuDeviceGetAttribute(byref(value), number, 0), "an attribute of the device")
        return value.value

    def set_aside(self, size: int) -> None:
        torch.cuda.synchronize()
        checked(self.driver.cuCtxResetPersistingL2Cache(), "persisting lines are not given back")
        checked(self.driver.cuCtxSetLimit(PERSISTING_LIMIT, c_size_t(size)), "the set-aside is not taken")

    def window(self, tensor: torch.Tensor | None, persisting: int) -> None:
        """Launches from here on keep as much of a tensor as fits the set-aside; none of any where there is none."""
        size = 0 if tensor is None else tensor.numel() * tensor.element_size()
        ratio = min(1.0, persisting / size) if size else 0.0
        base = 0 if tensor is None else tensor.data_ptr()
        value = Window(base, size, ratio, PERSISTING if size else NORMAL, NORMAL)
        stream = c_void_p(self.stream.cuda_stream)
        checked(self.driver.cuStreamSetAttribute(stream, WINDOW_ATTRIBUTE, byref(value)), "the window is not set")


def drawn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda").bfloat16()


#: The two launches of a program on one set of buffers, and what both of them touch.
Program = tuple[Callable[[], Any], Callable[[], Any], torch.Tensor]


def softmax_of_columns(m: int, n: int) -> Callable[[], Program]:
    fold = postlude.compile("kernel k(X: bf16[M, N]) -> (p: f32[N], l: f32[N]) { p = max(X, M); l = logsumexp(X, M) }")
    visit = postlude.compile("kernel k(X: bf16[M, N], l: f32[N]) -> Y: bf16[M, N] { Y = exp(X - l) }")

    def program() -> Program:
        x, y = drawn(m, n), torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        p, l = (torch.empty(n, device="cuda") for _ in range(2))
        return lambda: fold(x, out=(p, l)), lambda: visit(x, l, out=y), x

    return program


def softmax_of_product(m: int, n: int, k: int) -> Callable[[], Program]:
    multiply = postlude.compile("D = A @ W.T")
    rows = postlude.compile("kernel k(X: bf16[M, N]) -> Y: bf16[M, N] { Y = softmax(X, N) }")

    def program() -> Program:
        a, w = drawn(m, k), drawn(n, k)
        h, y = (torch.empty(m, n, dtype=torch.bfloat16, device="cuda") for _ in range(2))
        return lambda: multiply(a, w, out=h), lambda: rows(h, out=y), h

    return program


def weights_met_again(m: int, n: int, k: int, others: int) -> Callable[[], Program]:
    """A decoder's layer, and the bytes of others before it comes again."""
    multiply = postlude.compile("D = A @ W.T")
    w = drawn(n, k)
    streamed = [drawn(others // 2 // k, k) for _ in range(2)]
    turn = iter(int, 1)

    def program() -> Program:
        a, d = drawn(m, k), torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        e = torch.empty(m, others // 2 // k, dtype=torch.bfloat16, device="cuda")
        other = streamed[next(turn) % 2]
        return lambda: multiply(a, w, out=d), lambda: multiply(a, other, out=e), w

    return program


PROGRAMS = {
    "softmax along M 8192,4096": (softmax_of_columns(8192, 4096), 200 << 20),
    "softmax along M 4096,4096": (softmax_of_columns(4096, 4096), 100 << 20),
    "product, softmax 2048,4096,4096": (softmax_of_product(2048, 4096, 4096), 90 << 20),
    "product, softmax 4096,4096,1024": (softmax_of_product(4096, 4096, 1024), 80 << 20),
    "product, softmax 8192,4096,1024": (softmax_of_product(8192, 4096, 1024), 200 << 20),
    "33 MB of weights, then 235 MB of others": (weights_met_again(1, 4096, 4096, 235 << 20), 10 << 20),
}


def competitor(l2: L2, programs: list[Program], persisting: int) -> Competitor:
    def call(one: int) -> None:
        first, second, shared = programs[one]
        if persisting:
            l2.window(shared, persisting)
        first()
        second()
        if persisting:
            l2.window(None, 0)

    return Competitor(call, Rotation(len(programs)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    l2, clock = L2(), Clock()
    with torch.cuda.stream(l2.stream):
        Floor().warm_up()
        most = l2.attribute(MOST_PERSISTING)
        print(f"set-aside at most {most / 1e6:.1f} MB, windows at most {l2.attribute(MOST_WINDOW) / 1e6:.1f} MB")
        print(f"{'program':42} {'plain':>8} {'set aside':>10} {'window':>8}  us")
        for name, (make, size) in PROGRAMS.items():
            programs = [make() for _ in range(buffers_of(size))]
            plain, windowed = competitor(l2, programs, 0), competitor(l2, programs, most)
            without = statistics.median(clock.rounds({"plain": plain}, LAUNCHES, options.rounds)["plain"])
            l2.set_aside(most)
            rounds = clock.rounds({"plain": plain, "window": windowed}, LAUNCHES, options.rounds)
            l2.set_aside(0)
            with_limit, window = (statistics.median(rounds[one]) for one in ("plain", "window"))
            print(f"{name:42} {without:8.1f} {with_limit:10.1f} {window:8.1f}", flush=True)


if __name__ == "__main__":
    main()
