"""Functions traced into kernels: the text that they give, the bits that it computes, and what is refused."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import random
from typing import Any, Callable, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from traced_kernels import TRACED

import postlude
from postlude import Kernel, KernelError, kernel, lang
from postlude.lang import bf16, bool_, exp, f32, gelu, i32, relu, where

SIZES = {"L": 2, "M": 16, "N": 256, "K": 32}

DTYPES = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "i32": np.int32,
    "bool": np.bool_,
}


def arguments(kernel: Kernel) -> list[Any]:
    """Random arguments for a kernel of the library."""
    generator = np.random.default_rng(7)
    found: list[Any] = []
    signature = kernel._native.signature
    assert signature is not None
    for name, dtype, dims in signature[1]:
        if dims is None:
            found.append(0.75)
            continue
        sizes = [SIZES[dim.partition("/")[0]] // int(dim.partition("/")[2] or 1) for dim in dims]
        values = generator.uniform(0.25, 1.0, sizes) if dtype != "i8" else generator.integers(-9, 9, sizes)
        if dtype in ("i32", "bool"):
            values = generator.integers(0, 2, sizes)
        found.append(np.asarray(values).astype(DTYPES[dtype]))
    return found


def body(kernel: Kernel) -> str:
    """The statements of a kernel, with `; ` between them."""
    return "; ".join(line.strip() for line in kernel.text.splitlines() if line.startswith("    ") and " = " in line)


def traced(function: Callable[..., Any]) -> str:
    """The statements of a function of the tile `z`, a tile `C`, a column vector `bias`, a mask `keep` and a number `s`."""

    def around(
        A: f32["M", "K"], W: f32["N", "K"], C: f32["M", "N"], bias: f32["N"], keep: bool_["M", "N"], s: f32
    ) -> f32["M", "N"]:
        return function(A @ W.T, C, bias, keep, s)

    return body(kernel(around)).removeprefix("D = ")


@pytest.mark.parametrize("name", TRACED)
def test_a_function_gives_the_text_of_the_library(name: str) -> None:
    assert TRACED[name].text == getattr(postlude.kernels, name).text


@pytest.mark.parametrize("name", TRACED)
def test_a_function_gives_the_bits_of_the_library(name: str) -> None:
    library = getattr(postlude.kernels, name)
    given = arguments(library)
    want, found = library(*given), TRACED[name](*given)
    want, found = (one if isinstance(one, tuple) else (one,) for one in (want, found))
    assert [one.tobytes() for one in found] == [one.tobytes() for one in want]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda z, C, b, k, s: z - (C - b), "A @ W.T - (C - bias)"),
        (lambda z, C, b, k, s: z - C - b, "A @ W.T - C - bias"),
        (lambda z, C, b, k, s: s * (z + C) / (b * s), "s * (A @ W.T + C) / (bias * s)"),
        (lambda z, C, b, k, s: -(z + C), "-(A @ W.T + C)"),
        (lambda z, C, b, k, s: -z * C, "-(A @ W.T) * C"),
        (lambda z, C, b, k, s: -(z * C), "-(A @ W.T * C)"),
        (lambda z, C, b, k, s: -(-z), "-(-(A @ W.T))"),
        (lambda z, C, b, k, s: +z, "A @ W.T"),
        (lambda z, C, b, k, s: 1 - z, "1 - A @ W.T"),
        (lambda z, C, b, k, s: 1.0 - z, "1.0 - A @ W.T"),
        (lambda z, C, b, k, s: z * -2, "A @ W.T * -2"),
        (lambda z, C, b, k, s: z - -0.5, "A @ W.T - -0.5"),
        (lambda z, C, b, k, s: z + 1e-5 * C + 1e20, "A @ W.T + 1e-05 * C + 1e+20"),
        (lambda z, C, b, k, s: z * lang.pi - math.pi, "A @ W.T * pi - pi"),
        (lambda z, C, b, k, s: where(k, z, -math.inf), "where(keep, A @ W.T, -inf)"),
        (lambda z, C, b, k, s: where(k, z, float("nan")), "where(keep, A @ W.T, nan)"),
        (lambda z, C, b, k, s: where((C > 0) & ~k | (b < 1), z, 0), "where((C > 0) & !keep | (bias < 1), A @ W.T, 0)"),
        (lambda z, C, b, k, s: where((C > 0) & (k | (b < 1)), z, 0), "where((C > 0) & (keep | (bias < 1)), A @ W.T, 0)"),
        (lambda z, C, b, k, s: where(~(C > 0), z, 0), "where(!(C > 0), A @ W.T, 0)"),
        (lambda z, C, b, k, s: where((C > 0) != k, z, 0), "where((C > 0) != keep, A @ W.T, 0)"),
        (lambda z, C, b, k, s: where(0 < C, z, 0), "where(C > 0, A @ W.T, 0)"),
        (lambda z, C, b, k, s: z**2 + C**3 + 2**b + C**0.5, "square(A @ W.T) + pow(C, 3) + pow(2, bias) + pow(C, 0.5)"),
        (lambda z, C, b, k, s: abs(z) + round(C) + math.floor(b) + math.ceil(b), "abs(A @ W.T) + round(C) + floor(bias) + ceil(bias)"),
        (lambda z, C, b, k, s: np.float32(0.5) * z + np.int64(3), "0.5 * (A @ W.T) + 3"),
        (lambda z, C, b, k, s: z * np.float64(2) > 1, None),
        (lambda z, C, b, k, s: z + lang.f32(lang.bf16(C)), "A @ W.T + f32(bf16(C))"),
        (lambda z, C, b, k, s: z.leaky_relu(slope=0.2) + C.leaky_relu(), "leaky_relu(A @ W.T, 0.2) + leaky_relu(C)"),
        (lambda z, C, b, k, s: z.clamp(hi=6, lo=0), "clamp(A @ W.T, 0, 6)"),
        (lambda z, C, b, k, s: z + lang.sum(C, "M", "N") + lang.mean(C), "A @ W.T + sum(C, M, N) + mean(C)"),
        (lambda z, C, b, k, s: z.layer_norm("N", 1e-6), "layer_norm(A @ W.T, N, 1e-06)"),
        (lambda z, C, b, k, s: z.layer_norm(eps=s, dim="N"), "layer_norm(A @ W.T, N, s)"),
        (lambda z, C, b, k, s: z + lang.f32(lang.row() == lang.col()), "A @ W.T + f32(row == col)"),
        (lambda z, C, b, k, s: z + lang.grad(lang.leaky_relu)(C, 0.3), "A @ W.T + grad(leaky_relu)(C, 0.3)"),
    ],
)  # fmt: skip
def test_operators_and_calls_become_text(function: Callable[..., Any], text: Any) -> None:
    if text is None:
        # A condition does not fit the output: the checker says so, with the text that the tracer wrote.
        with pytest.raises(KernelError, match="was traced into"):
            traced(function)
    else:
        assert traced(function) == text


def test_a_value_that_is_used_twice_is_one_statement_with_the_name_of_its_variable() -> None:
    def function(z: Any, C: Any, b: Any, k: Any, s: Any) -> Any:
        return relu(z) * z

    assert traced(function) == "v1 = A @ W.T; D = relu(v1) * v1"

    @kernel
    def named(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
        z = A @ W.T
        z = z + 1
        return relu(z) * z

    assert body(named) == "z = A @ W.T + 1; D = relu(z) * z"


def test_names_that_are_taken_or_reserved_get_others() -> None:
    @kernel
    def taken(A: f32["M", "K"], W: f32["N", "K"], D: f32["M", "N"]) -> f32["M", "N"]:
        A = A @ W.T
        max = A + D
        größe = max * 2
        return größe * größe + max

    assert body(taken) == "A1 = A @ W.T; v1 = A1 + D; v2 = v1 * 2; D1 = v2 * v2 + v1"
    assert taken.outputs == ("D1",)


def test_outputs_of_a_tuple_are_named_after_variables_or_counted() -> None:
    @kernel
    def counted(A: f32["M", "K"], W: f32["N", "K"], C: f32["M", "N"]) -> tuple[f32["M", "N"], f32["M", "N"], f32["N"], f32["M", "N"]]:
        z = A @ W.T
        return relu(z), z, z.sum("M"), C

    assert counted.outputs == ("D", "z", "D1", "D2")
    assert body(counted) == "D2 = C; z = A @ W.T; D = relu(z); D1 = sum(z, M)"
    A = np.ones((2, 3), np.float32)
    assert counted(A, A, np.zeros((2, 2), np.float32)).z.tolist() == [[3, 3], [3, 3]]


def test_one_value_can_be_two_outputs_and_a_part_can_be_one() -> None:
    @kernel
    def twice(A: f32["M", "K"], W: f32["N", "K"]) -> {"D": f32["M", "N"], "E": f32["M", "N"]}:
        z = A @ W.T
        return z, z

    assert body(twice) == "D = A @ W.T; E = D"

    @kernel
    def part(A: f32["M", "K"], W: f32["N", "K"]) -> {"D": f32["M", "N/2"], "E": f32["M", "N/2"]}:
        gate, _ = lang.halves(A @ W.T)
        return gate, gate

    assert body(part) == "D, v1 = halves(A @ W.T); E = D"

    @kernel
    def both(A: f32["M", "K"], W: f32["N", "K"]) -> tuple[f32["M", "N/2"], f32["M", "N/2"]]:
        return lang.pairs(A @ W.T)

    assert body(both) == "D, D1 = pairs(A @ W.T)"


def test_splits_of_every_form_name_their_parts() -> None:
    @kernel
    def heads(
        A: f32["M", "K"], W: f32["N", "K"], gamma: f32["Q"]
    ) -> {"query": f32["M", "Q"], "key": f32["M", "KV"], "value": f32["M", "KV"]}:
        q, k, v = lang.split(A @ W.T, ["Q", "KV", "KV"])
        even, odd = lang.pairs(q * gamma, 8)
        first, second = lang.halves(k, run=8)
        return lang.join(-odd, even, 8), lang.concat(second, first, run=8), v

    assert body(heads) == (
        "q, k, value = split(A @ W.T, [Q, KV, KV]); even, odd = pairs(q * gamma, 8); "
        "first, second = halves(k, 8); query = join(-odd, even, 8); key = concat(second, first, 8)"
    )

    @kernel
    def thirds(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
        a, _, c = (A @ W.T).split(3)
        return lang.concat(c, a, lang.relu(a))

    assert body(thirds) == "a, v1, c = split(A @ W.T, 3); D = concat(c, a, relu(a))"
    given = np.arange(12, dtype=np.float32).reshape(2, 6)
    got = thirds(np.eye(2, dtype=np.float32), given.T.copy())
    assert got.tolist() == [[4, 5, 0, 1, 0, 1], [10, 11, 6, 7, 6, 7]]


def test_bits_random_numbers_sizes_and_tables_are_traced() -> None:
    @kernel
    def mixed(
        A: f32["M", "K"], W: f32["N", "K"], n: i32["M", "N"], keep: bool_["M", "N"], seed: i32[2], table: f32["V"]
    ) -> {"D": bf16["M", "N"], "E": i32["M", "N"], "F": bool_["M", "N"], "best": i32["M", 2]}:
        z = (A @ W.T) / lang.size("K")
        values, best = lang.topk(z, 2, "N")
        flags = (~n ^ lang.bits(z)) & 7 | n << 3 >> 1
        u = lang.uniform(seed, 1) + lang.dropout(z, 0.5, seed, 2)
        return bf16(u + lang.take(table, n) + lang.var(z, "N") + values.sum(2), seed), flags, ~keep & ~(z > 0), best

    assert body(mixed) == (
        "z = A @ W.T / size(K); values, best = topk(z, 2, N); E = (~n ^ bits(z)) & 7 | n << 3 >> 1; "
        "u = uniform(seed, 1) + dropout(z, 0.5, seed, 2); "
        "D = bf16(u + take(table, n) + var(z, N) + sum(values, 2), seed, 0); F = !keep & !(z > 0)"
    )


def test_names_of_newer_functions_are_free() -> None:
    @kernel
    def free(A: f32["M", "K"], W: f32["N", "K"], size: f32["N"], index: i32) -> {"split": f32["M", "N"]}:
        take = A @ W.T + size
        return take * index + take

    assert body(free) == "take = A @ W.T + size; split = take * index + take"


def test_long_chains_are_split_into_statements() -> None:
    def function(z: Any, C: Any, b: Any, k: Any, s: Any) -> Any:
        for index in range(3000):
            z = relu(z) + index % 7
        return z

    text = traced(function)
    assert max(map(len, text.split("; "))) < 250


def test_helpers_and_loops_are_traced_through() -> None:
    def scaled(x: Any, factor: float) -> Any:
        return x * factor

    @kernel
    def looped(A: f32["M", "K"], W: f32["N", "K"], bias: f32["N"]) -> f32["M", "N"]:
        z = A @ W.T
        for factor in (2.0, 0.5):
            z = scaled(z + bias, factor)
        return z

    assert body(looped) == "D = ((A @ W.T + bias) * 2.0 + bias) * 0.5"


def random_tree(generator: random.Random, depth: int, leaves: dict[str, Any]) -> Callable[[dict[str, Any], Any], Any]:
    """A random expression, as a function of its leaves and of `where`."""
    if depth == 0:
        name = generator.choice([*leaves, "2.0", "-1.0"])
        return (lambda at, _: at[name]) if name in leaves else (lambda at, _: float(name))
    left, right, third = (random_tree(generator, depth - 1, leaves) for _ in range(3))
    first = next(iter(leaves))
    kind = generator.choice(["+", "-", "*", "neg", "half", "where", "and"])
    if kind in "+-*":
        apply = {"+": operator.add, "-": operator.sub, "*": operator.mul}[kind]
        return lambda at, choose: apply(left(at, choose), right(at, choose))
    if kind == "neg":
        return lambda at, choose: -left(at, choose)
    if kind == "half":
        return lambda at, choose: left(at, choose) / 2.0
    if kind == "where":
        return lambda at, choose: choose(at[first] - left(at, choose) < right(at, choose), left(at, choose), third(at, choose))
    return lambda at, choose: choose(
        ~((at[first] > left(at, choose)) | (at[first] <= right(at, choose))) & (at[first] != third(at, choose)),
        left(at, choose),
        right(at, choose),
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_random_expression_computes_what_numpy_does(seed: int) -> None:
    names = {"z": 0, "C": 0, "E": 0}
    tree = random_tree(random.Random(seed), 3, names)

    @kernel
    def expression(A: f32["M", "K"], W: f32["N", "K"], C: f32["M", "N"], E: f32["M", "N"]) -> f32["M", "N"]:
        z = A @ W.T
        return z + tree({"z": z, "C": C, "E": E}, where)

    generator = np.random.default_rng(seed)
    # Small integers and halves: every result is exact.
    A, W, C, E = (generator.integers(-2, 3, shape).astype(np.float32) for shape in [(8, 4), (8, 4), (8, 8), (8, 8)])
    want = A @ W.T + tree({"z": A @ W.T, "C": C, "E": E}, np.where)
    np.testing.assert_array_equal(expression(A, W, C, E), want.astype(np.float32))


def test_a_kernel_keeps_what_the_function_says_of_itself() -> None:
    def documented(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
        """Does it.

        At length.
        """
        return A @ W.T

    made = kernel(documented)
    assert isinstance(made, Kernel)
    assert (made.__name__, made.__doc__, made.__module__) == ("documented", documented.__doc__, __name__)
    assert made.__wrapped__ is documented
    assert list(inspect.signature(made).parameters) == ["A", "W"]
    assert made.text.startswith("# Does it\nkernel documented(")


def test_the_decorator_takes_options() -> None:
    @kernel(math="fast", threads=2, outputs=["z"])
    def options(A: f32["M", "K"], W: f32["N", "K"]) -> tuple[f32["M", "N"], f32["N"]]:
        z = A @ W.T
        return z, z.sum("M")

    assert options(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32)).shape == (2, 2)
    with pytest.raises(TypeError, match="maths"):
        kernel(maths="fast")  # type: ignore[call-overload]


def test_annotations_may_name_local_variables_though_they_are_strings() -> None:
    half, local = "N/2", lang.f16

    class Results(NamedTuple):
        out: local["M", half]

    @kernel
    def function(A: local["M", "K"], W: local["N", "K"], *, s: lang.f32) -> Results:
        gate, up = lang.halves(A @ W.T)
        return Results(gate * up * s)

    assert "-> out: f16[M, N/2]" in function.text


#: Functions that take runs of columns too, or any number of parts.
WRITTEN = {
    "halves": ["x", "run=None"],
    "pairs": ["x", "run=None"],
    "split": ["x", "parts", "run=None"],
    "concat": ["x", "y", "more...", "run=None"],
    "join": ["x", "y", "run=None"],
}


def test_every_function_of_the_language_is_here_with_its_documentation() -> None:
    for name, parameters, note in postlude._native.functions():
        function = getattr(lang, name)
        assert function.__name__ == name and note in function.__doc__
        assert len(inspect.signature(function).parameters) == len(WRITTEN.get(name, parameters))
        assert name in lang.__all__
    assert lang.leaky_relu.__doc__ == "``leaky_relu(x, slope=0.01)`` of the language: derivative slope at 0."


def test_type_checkers_see_the_functions_that_are_made() -> None:
    tree = ast.parse(inspect.getsource(lang))
    block = next(one for one in tree.body if isinstance(one, ast.If))
    seen = {one.name: one.args for one in block.body if isinstance(one, ast.FunctionDef)}
    for name, parameters, _ in postlude._native.functions():
        given = seen.pop(name)
        defaults = [""] * (len(given.args) - len(given.defaults)) + [f"={ast.unparse(one)}" for one in given.defaults]
        names = [one.arg + default for one, default in zip(given.args, defaults)]
        names += [f"{given.vararg.arg}..."] if given.vararg else []
        names += [f"{one.arg}=None" for one in given.kwonlyargs]
        assert names == WRITTEN.get(name, parameters)
    assert not seen


REFUSED = [
    (lambda z: 1.0 if z > 0 else z, "neither true nor false", "lang.where(condition, a, b)"),
    (lambda z: z if not z else z, "neither true nor false", "`~`"),
    (lambda z: (z > 0) and (z < 1), "neither true nor false", "`&`"),
    (lambda z: 0 < z < 1, "chained comparisons", "parentheses"),
    (lambda z: max(z, 0), "neither true nor false", "lang.maximum"),
    (lambda z: sum(z), "cannot be iterated", "lang.sum"),
    (lambda z: [*z], "cannot be iterated", "lang.halves"),
    (lambda z: 1 in z, "cannot be iterated", "lang.sum"),
    (lambda z: len(z), "no length", "names"),
    (lambda z: float(z), "not a number", "lang.f32(x)"),
    (lambda z: math.exp(z), "not a number", "postlude.lang"),
    (lambda z: int(z), "not a number", "lang.i32(x)"),
    (lambda z: [1, 2][z], "not a number", "lang.i32(x)"),
    (lambda z: complex(z), "not a number", "complex"),
    (lambda z: z[0], "cannot be indexed", "lang.pick(x, index)"),
    (lambda z: z // 2, "no `//`", "lang.floor(x / y)"),
    (lambda z: 7 % z, "no remainder", "lang.floor(x / y)"),
    (lambda z: lang.split(z, 1), "2 to 16", "split(x, 3)"),
    (lambda z: lang.split(z, "Q"), "2 to 16", '["Q", "KV", "KV"]'),
    (lambda z: lang.halves(z, 0), "a number of columns", "run=128"),
    (lambda z: z(2), "cannot be called", "`*`"),
    (lambda z: np.exp(z), "`numpy.exp` cannot take", "postlude.lang.exp"),
    (lambda z: np.where(z > 0, z, 0), "`numpy.where` cannot take", "postlude.lang.where"),
    (lambda z: np.clip(z, 0, 1), "`numpy.clip` cannot take", "postlude.lang.clamp"),
    (lambda z: np.asarray(z), "has no data", "postlude.lang"),
    (lambda z: np.ones(3) * z, "is an array", "parameter of the function"),
    (lambda z: z + np.ones(3), "is an array", "parameter of the function"),
    (lambda z: z + "1", "'1' of the type `str`", None),
    (lambda z: z + None, "None of the type `NoneType`", None),
    (lambda z: z + 1j, "1j of the type `complex`", None),
    (lambda z: z & True, "no literal", "comparison"),
    (lambda z: z * gelu, "the function or dtype `gelu`", "gelu(x)"),
    (lambda z: 2 @ z, "an operand of `@` is a tensor", "alpha * (A @ W.T)"),
    (lambda z: np.ones((2, 2)) @ z, "is an array", "parameter of the function"),
    (lambda z: z.reshape(1), "no attribute `reshape`", None),
    (lambda z: z.relo(), "no attribute `relo`", "`.relu`"),
    (lambda z: z.to(bf16), "no attribute `to`", "bf16(x)"),
    (lambda z: z.shape, "no attribute `shape`", "annotations"),
    (lambda z: lang.sum(z, axis=1), "no parameter that is called `axis`", 'sum(x, "N")'),
    (lambda z: lang.softmax(z, axis="N"), "no parameter that is called `axis`", "softmax(x, dim)"),
    (lambda z: lang.softmax(z), "missing a required argument: 'dim'", "softmax(x, dim)"),
    (lambda z: lang.gelu(z, 1), "too many positional arguments", "gelu(x)"),
    (lambda z: lang.sum(z, "M, N"), "more than one dim", '"M", "N"'),
    (lambda z: lang.sum(z, "N + 1"), "not a dim", '"N/2"'),
    (lambda z: lang.sum(z, -1), "not a dim", '"N"'),
    (lambda z: lang.sum(z, z), "not a dim", '"N"'),
    (lambda z: lang.grad(abs)(z), "`grad` takes a function", "grad(lang.abs)(x)"),
    (lambda z: lang.grad(lambda x: x)(z), "`grad` takes a function", "grad(gelu)(x)"),
    (lambda z: round(z, 2), "whole numbers", "scale"),
    (lambda z: bf16["M"](z), "an annotation, not a value", "bf16(x)"),
    (lambda z: postlude.kernels.product_nt(z, z), "a kernel cannot call another one", None),
]  # fmt: skip


@pytest.mark.parametrize(("function", "message", "help"), REFUSED)
def test_what_python_cannot_do_with_a_traced_value_is_refused(function: Any, message: str, help: Any) -> None:
    with pytest.raises(postlude.Error) as caught:

        @kernel
        def refused(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
            return function(A @ W.T)

    assert message in str(caught.value)
    if help is not None:
        assert isinstance(caught.value, KernelError)
        assert help in (caught.value.help or "") and help in str(caught.value)


def missing(A, W: f32["N", "K"]) -> f32["M", "N"]:  # type: ignore[no-untyped-def]
    return A @ W.T


def number(A: float, W: f32["N", "K"]) -> f32["M", "N"]:
    return A @ W.T


def unknown(A: bf15["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:  # type: ignore[name-defined]  # noqa: F821
    return A @ W.T


def not_imported(A: u8["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:  # type: ignore[name-defined]  # noqa: F821
    return A @ W.T


def bad_dim(A: f32["M K"], W: f32["N", "K"]) -> f32["M", "N"]:
    return A @ W.T


def any_number(A: f32["M", "K"], *rest: f32["N", "K"]) -> f32["M", "N"]:
    return A @ A.T


def any_name(A: f32["M", "K"], **rest: f32["N", "K"]) -> f32["M", "N"]:
    return A @ A.T


def with_default(A: f32["M", "K"], W: f32["N", "K"], s: f32 = 1.0) -> f32["M", "N"]:
    return A @ W.T * s


def no_result(A: f32["M", "K"], W: f32["N", "K"]):  # type: ignore[no-untyped-def]
    return A @ W.T


def host_result(A: f32["M", "K"], W: f32["N", "K"]) -> f32:
    return (A @ W.T).sum()


def wrong_result(A: f32["M", "K"], W: f32["N", "K"]) -> int:
    return A @ W.T


def any_results(A: f32["M", "K"], W: f32["N", "K"]) -> tuple[f32["M", "N"], ...]:
    return A @ W.T


def empty_results(A: f32["M", "K"], W: f32["N", "K"]) -> {}:
    return A @ W.T


def constant(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
    return 1.0


def constant_output(A: f32["M", "K"], W: f32["N", "K"]) -> {"D": f32["M", "N"], "loss": f32[()]}:
    return A @ W.T, 0


def nothing(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
    A @ W.T


def too_many(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
    return A @ W.T, A


def too_few(A: f32["M", "K"], W: f32["N", "K"]) -> tuple[f32["M", "N"], f32["N"]]:
    return A @ W.T


def other_names(A: f32["M", "K"], W: f32["N", "K"]) -> {"D": f32["M", "N"]}:
    return {"E": A @ W.T}


def generator(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
    yield A @ W.T


async def coroutine(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
    return A @ W.T


@pytest.mark.parametrize(
    ("function", "message", "help"),
    [
        (missing, "parameter `A` has no annotation", 'A: bf16["M", "N"]'),
        (number, "parameter `A` is annotated with `float`", "`f32`"),
        (unknown, "of parameter `A` cannot be read: name 'bf15' is not defined", "`bf16`"),
        (not_imported, "of parameter `A` cannot be read", "from postlude.lang import u8"),
        (bad_dim, "a dim of parameter `A` is 'M K'", '"N/2"'),
        (any_number, "parameter `rest` takes any number of arguments (`*rest`)", "one parameter for each input"),
        (any_name, "parameter `rest` takes any number of arguments (`**rest`)", "one parameter for each input"),
        (with_default, "parameter `s` has a default", "leave the default out"),
        (no_result, "the result of `no_result` has no annotation", '-> bf16["M", "N"]'),
        (host_result, "output `D` is annotated with `f32`", "f32[()]"),
        (wrong_result, "output `D` is annotated with `int`", None),
        (any_results, "a tuple of any length", "one type for each output"),
        (empty_results, "has no outputs", '-> bf16["M", "N"]'),
        (constant, "the result of `constant` is 1.0 of the type `float`", "inputs"),
        (constant_output, "output `loss` of `constant_output` is 0 of the type `int`", "inputs"),
        (nothing, "`nothing` returns nothing", "return"),
        (too_many, "`too_many` returns 2 values and is annotated with one", "tuple["),
        (too_few, "`too_few` is annotated with 2 outputs, and returns 1", None),
        (other_names, "`other_names` returns 'E' and is annotated with 'D'", "names of the annotation"),
        (generator, "`generator` is a coroutine or a generator", "return"),
        (coroutine, "`coroutine` is a coroutine or a generator", "return"),
        (print, "`kernel` decorates a function", "@kernel"),
    ],
)
def test_a_function_that_says_too_little_is_refused(function: Any, message: str, help: Any) -> None:
    with pytest.raises(KernelError) as caught:
        kernel(function)
    assert message in str(caught.value)
    assert help is None or help in (caught.value.help or "")


def test_errors_of_the_checker_show_the_text_and_its_place() -> None:
    with pytest.raises(KernelError) as caught:

        @kernel
        def unrounded(A: bf16["M", "K"], W: bf16["N", "K"]) -> f32["M", "N"]:
            return exp(A) @ W.T

    error = caught.value
    assert "does not say what it is rounded to" in str(error) and "    D = exp(A) @ W.T\n" in str(error)
    assert error.line == 2 and error.help.startswith("cast it")


def test_values_of_another_kernel_are_refused() -> None:
    kept = []

    @kernel
    def first(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
        kept.append(A)
        return A @ W.T

    with pytest.raises(KernelError, match="reads `A` of another kernel"):

        @kernel
        def second(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
            return A @ W.T + relu(kept[0])


def test_an_error_of_the_function_itself_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):

        @kernel
        def divides(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
            return A @ W.T * (1 / 0)

    # The next trace is not disturbed.
    assert traced(lambda z, C, b, k, s: z) == "A @ W.T"


def test_a_kernel_can_be_traced_inside_another() -> None:
    @kernel
    def outer(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
        z = A @ W.T

        @kernel
        def inner(A: f32["M", "K"], W: f32["N", "K"]) -> f32["M", "N"]:
            y = A @ W.T
            return y * y

        assert body(inner) == "y = A @ W.T; D = y * y"
        return z * z

    assert body(outer) == "z = A @ W.T; D = z * z"


def test_torch_functions_on_traced_values_are_refused() -> None:
    torch = pytest.importorskip("torch")
    for function, message in [
        (lambda z: torch.sigmoid(z), "`torch.sigmoid` cannot take"),
        (lambda z: torch.ones(3) * z, "cannot hold an array"),
        (lambda z: z * torch.ones(3), "is an array"),
    ]:
        with pytest.raises(KernelError) as caught:
            traced(lambda z, C, b, k, s, function=function: function(z))
        assert message in str(caught.value)


def test_an_attribute_that_is_not_there_is_an_attribute_error_too() -> None:
    assert not hasattr(lang.row, "reshape")
    with pytest.raises(AttributeError, match="did you mean 'gelu'"):
        lang.gelo  # type: ignore[attr-defined]
    assert i32["M"].dims == ("M",)
