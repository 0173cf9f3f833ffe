"""PyTorch in f64 as a judge: every kernel of the library, and every function of the language, in both directions.

The judge is `bench/gpu/float64.py`; `bench/gpu/judge.py` says what is allowed.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: its f64 results are NOT compared")

from conftest import PACKAGE, ROOT  # noqa: E402

#: In the repository, and beside the tests where `cargo xtask gpu` packs them.
PLACES = [ROOT / "bench" / "gpu", PACKAGE]
FOUND = [place for place in PLACES if (place / "float64.py").exists()]
if not FOUND:
    pytest.skip("bench/gpu/float64.py is not there: PyTorch's f64 results are NOT compared", allow_module_level=True)
sys.path.append(str(FOUND[0]))

import float64  # noqa: E402
import judge  # noqa: E402
import postlude  # noqa: E402
import rounding  # noqa: E402

ELEMENTS = [0.0, -0.0, 0.25, -0.5, 1.0, -1.0, 1.5, 2.0, -2.5, 3.0, -3.0, 4.5, 6.0, -6.0, 7.0, -9.0]
UNUSUAL = [torch.inf, -torch.inf, torch.nan]
#: Arguments after the first one.
OTHERS = {
    "clamp": ["-1.0", "2.0"],
    "maximum": ["y"],
    "minimum": ["y"],
    "pow": ["y"],
    "fma": ["y", "0.5"],
    "threshold": ["0.25", "-2.0"],
    "leaky_relu": ["0.125"],
    "snake": ["(0.5 + abs(y))"],
    "fmod": ["(0.5 + abs(y))"],
}
CONDITIONS = ["isnan", "isinf"]
ELEMENTWISE = [name for name, _, _ in postlude._native.functions() if name in {**float64.FUNCTIONS, **float64.EXACT}]


@pytest.mark.parametrize("name", dir(postlude.kernels))
def test_every_kernel_agrees_with_pytorch_in_f64(name: str) -> None:
    kernel = getattr(postlude.kernels, name)
    found, wrong = judge.judge(kernel, judge.arguments(kernel, judge.SMALL, "cpu"))
    assert [one["output"] for one in found] == list(kernel.outputs)
    assert not wrong


def kernel_of(body: str, dtype: str = "f32") -> Any:
    """A kernel whose product is stored beside what `body` makes of C and y."""
    return postlude.compile(
        f"""kernel one(A: f32[M, K], W: f32[N, K], C: f32[M, N], y: f32[N]) -> (Z: f32[M, N], D: {dtype}[M, N]) {{
    Z = A @ W.T
    D = {body}
}}"""
    )


def grid(firsts: list[float]) -> list[Any]:
    """Every first argument with every second one, and a product that is exactly the first."""
    C = torch.tensor(firsts).reshape(-1, 1).expand(-1, len(ELEMENTS)).contiguous()
    return [C[:, :1].contiguous(), torch.ones(len(ELEMENTS), 1), C, torch.tensor(ELEMENTS)]


def beyond(kernel: Any, given: list[Any]) -> int:
    """How many elements are farther from f64 than allowed."""
    result = kernel(*given)
    _, _, outputs = kernel._native.signature
    ours = list(result) if isinstance(result, tuple) else [result]
    found = judge.direct(kernel.text, given, float64.evaluate(kernel.text, given), ours, outputs)
    return sum(one["beyond"] for one in found)


def disagreements(body: str, given: list[Any]) -> list[str]:
    """Stored as f32 the result is near that of f64; stored as bf16 the contract accepts it too.

    The contract of an f32 result is that of f32 arithmetic as written: f64 may be a step away from all it allows.
    """
    _, wrong = judge.judge(kernel_of(body, "bf16"), given)
    far = beyond(kernel_of(body), given)
    return [*wrong, *([f"{far} elements of f32 are beyond the bound"] if far else [])]


def well_done(name: str) -> list[float]:
    """Arguments that PyTorch itself is good at: its `1 + tanh` has no digits left far below zero."""
    return [one for one in ELEMENTS if name != "gelu_tanh" or one >= -6]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_every_function_agrees_with_pytorch(name: str) -> None:
    call = f"{name}({', '.join(['C', *OTHERS.get(name, [])])})"
    given = grid(well_done(name) + UNUSUAL)
    assert not disagreements(f"where({call}, 1.0, 2.0)" if name in CONDITIONS else call, given)


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if name not in CONDITIONS])
def test_every_derivative_agrees_with_pytorch(name: str) -> None:
    call = f"grad({name})({', '.join(['C', *OTHERS.get(name, [])])})"
    # A reciprocal root of -0 is -inf; PyTorch cubes it, and the sign of its derivative is another.
    given = grid([one for one in well_done(name) if name != "rsqrt" or one != 0])
    assert not disagreements(call, given)


REDUCTION_DIMS = {", M": "[N]", ", N": "[M]", "": "[]", ", N, 8": "[M, N/8]", ", N, M": "[]"}
VALUES = {
    **{f"{name}(x{dims})": out for name in float64.REDUCTIONS for dims, out in REDUCTION_DIMS.items()},
    "softmax(x, M)": "[M, N]",
    "log_softmax(x, N)": "[M, N]",
    "rms_norm(x, N, 1e-3)": "[M, N]",
    "layer_norm(x, M, 1e-3)": "[M, N]",
    "topk_softmax(x, 3, N)": "[M, N]",
    "topk_softmax(floor(x), 3, N)": "[M, N]",
    "topk_softmax(floor(x), 2, M)": "[M, N]",
    "topk_softmax(x, 40, N)": "[M, N]",
    "x - max(x, N)": "[N, M]",
    "x * rsqrt(mean(square(x), N, 8))": "[M, N]",
    "pick(x, t)": "[M]",
    "where(col <= row | x > 1.0 & row != 3, x, f32(row - 2 * col) / 4)": "[M, N]",
    "1 / 2 - x * -2": "[M, N]",
    "sum(where(x > 0, 1, 0), N)": "[M]",
    "f32(argmax(x, N)) - f32(argmin(x, M))": "[M, N]",
    "f32(argmax(x))": "[]",
    "x / size(K) + f32(index(M))": "[M, N]",
    "f32((bits(x) >> 20) & 7 | (~row ^ col << 3) & 5) + f32(lshr(bits(x), 30))": "[M, N]",
    "float(bits(x) & -65536)": "[M, N]",
    "f32(philox(t0, 3) >> 8)": "[M, N]",
    "bf16(uniform(7, -1) + normal(7, 5))": "[M, N]",
    "dropout(x, 0.25, t0, 4)": "[M, N]",
    "bf16(x, 12, 1)": "[M, N]",
    "f8e5m2(x, -3, 1)": "[M, N]",
    "take(table, t) + take(table, 2)": "[M]",
}
STATEMENTS = {
    "a, b = halves(x); D = concat(b, a)": "[M, N]",
    "a, b = pairs(x); c, d = halves(a * b); D = join(c, d)": "[M, N/2]",
    "a, b = halves(x); D = sum(a - b, N/2)": "[M]",
    "a, b, c, d = split(x, 4); D = concat(d, a, c, b)": "[M, N]",
    "a, b = split(x, 2, 8); D = concat(b, a, 8)": "[M, N]",
    "a, b = halves(x, 4); D = join(a, b, 8)": "[M, N]",
    "v, i = topk(x, 3, N); D = sum(v * 2.0, 3) + max(f32(i), 3)": "[M]",
    "v, i = topk(x, 3, N); D = softmax(v, 3)": "[M, 3]",
}
#: Casts of a value times this: some elements are too large for dtypes that saturate.
SCALES: dict[str, float] = {
    "f32": 1.0,
    "bf16": 1.0,
    "f16": 1.0,
    "f8e4m3": 100.0,
    "f8e5m2": 1e4,
    "i8": 50.0,
    "u8": 100.0,
    "i32": 1e9,
    "bool": 1.0,
    "b1": 1.0,
}


def random_given() -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    t = torch.randint(-1, 17, (12,), generator=generator, dtype=torch.int32)
    seed, table = torch.tensor([5, -9], dtype=torch.int32), torch.randn(7, generator=generator)
    return [torch.randn(12, 8, generator=generator), torch.randn(16, 8, generator=generator) / 2, t, seed, table]


def assert_right(body: str, out: str) -> None:
    kernel = postlude.compile(
        f"def twice(x) = x + x\nkernel one(A: f32[M, K], W: f32[N, K], t: i32[M], t0: i32[2], table: f32[V]) -> D: {out} {{\n"
        f"    x = 0.5 * twice(A @ W.T)\n    {body}\n}}"
    )
    _, wrong = judge.judge(kernel, random_given())
    assert not wrong


@pytest.mark.parametrize("body", VALUES)
def test_values_of_every_shape_agree_with_pytorch(body: str) -> None:
    assert_right(f"D = {body}", f"f32{VALUES[body]}")


@pytest.mark.parametrize("body", STATEMENTS)
def test_columns_are_parted_and_joined_as_pytorch_does(body: str) -> None:
    assert_right(body, f"f32{STATEMENTS[body]}")


@pytest.mark.parametrize("dtype", SCALES)
def test_casts_and_stores_agree_with_pytorch(dtype: str) -> None:
    truth = dtype in ("bool", "b1")
    scaled = "floor(x)" if truth else f"{SCALES[dtype]} * x"
    assert_right(f"D = {scaled} != 0" if truth else f"D = {scaled}", f"{dtype}[M, N]")
    assert_right(f"D = {dtype}({scaled})", f"{dtype}[M, N]")


def test_inputs_and_casts_of_half_a_byte_agree_with_pytorch() -> None:
    kernel = postlude.compile(
        "kernel k(A: f32[M, K], W: f32[N, K], x: i4[M, N], y: u4[N]) -> (D: f32[M, N], E: i8[M, N], F: u8[M, N]) {\n"
        "    z = A @ W.T\n    D = z * x + y\n    E = i4(5.0 * z)\n    F = u4(x + y)\n}"
    )
    given = judge.arguments(kernel, judge.SMALL, "cpu")
    _, wrong = judge.judge(kernel, given)
    assert not wrong


def test_rounding_to_16_bits_is_rounded_once() -> None:
    # Just above a tie of bf16, by less than f32 holds: through f32 it would be a tie, and go down to even.
    above = torch.tensor([1 + 2.0**-8 + 2.0**-30, -1 - 2.0**-8 - 2.0**-30, 1 + 2.0**-8], dtype=torch.float64)
    assert rounding.store(above, "bf16").tolist() == [1.0078125, -1.0078125, 1.0]
    assert above.to(torch.bfloat16).tolist() == [1.0, -1.0, 1.0]
    ends = torch.tensor([1e9, -torch.inf, torch.nan], dtype=torch.float64)
    assert rounding.store(ends, "f8e4m3").double().tolist()[:2] == [448.0, -448.0]
    assert rounding.store(ends, "i8").tolist() == [127, -128, 0]


CORRUPTED = ["linear_silu", "swiglu_backward", "linear_softmax", "quantise_i8", "lincomb_bias_relu_mask"]


@pytest.mark.parametrize("name", CORRUPTED)
def test_a_wrong_element_is_found(name: str) -> None:
    kernel = getattr(postlude.kernels, name)
    given = judge.arguments(kernel, judge.SMALL, "cpu")
    result = kernel(*given)
    ours = [one.clone() for one in (result if isinstance(result, tuple) else (result,))]
    _, _, outputs = kernel._native.signature
    for one, (_, dtype, _) in zip(ours, outputs):
        place = tuple(torch.nonzero(one.double())[40].tolist())
        moved = one[place] ^ 255 if dtype == "b1" else one[place] + 2 if dtype == "i8" else one[place] * 1.02
        one[place] = moved
    judged = float64.evaluate(kernel.text, given)
    found = judge.direct(kernel.text, given, judged, ours, outputs)
    assert all(one["beyond"] >= 1 for one in found)
    assert all(one["allowed_beyond"] == 0 for one in found)
