"""Mistakes: each is an exception before anything runs, and says what is wrong in the user's words."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import bits, operands

import postlude
from postlude import kernels

BF16 = ml_dtypes.bfloat16
F32 = np.float32
ADD = postlude.compile("kernel add(A: f32[M, K], W: f32[N, K], C: f32[M, N], beta: f32) -> D: f32[M, N] { D = A @ W.T + beta * C }")
TWO = postlude.compile("kernel two(A: f32[M, K], W: f32[N, K]) -> (D: f32[M, N], Z: f32[M, N]) { Z = A @ W.T\n D = relu(Z) }")


def given(**changed: Any) -> dict[str, Any]:
    """Good arguments of `ADD`, some of them replaced."""
    good: dict[str, Any] = {
        "A": np.ones((5, 7), F32),
        "W": np.ones((6, 7), F32),
        "C": np.ones((5, 6), F32),
        "beta": 2.0,
    }
    return {**good, **changed}


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def shared() -> Any:
    return np.lib.stride_tricks.as_strided(np.empty(6, F32), (5, 6), (0, 4))


LARGE = np.ones((12, 6), F32)

#: What is given instead, the exception, and what its message says.
WRONG_ARGUMENTS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "f64": ({"A": np.ones((5, 7))}, postlude.CallError, "`A` cannot be read: its dtype is float64"),
    "int64": ({"A": np.ones((5, 7), np.int64)}, postlude.CallError, "`A` is declared f32, but i64 was given"),
    "complex": ({"A": np.ones((5, 7), np.complex64)}, postlude.CallError, "its dtype is complex64"),
    "objects": ({"A": np.ones((5, 7), object)}, postlude.CallError, "its dtype is object"),
    "another dtype": ({"A": np.ones((5, 7), BF16)}, postlude.CallError, "`A` is declared f32, but bf16 was given"),
    "byte order": ({"A": np.ones((5, 7), ">f4")}, postlude.CallError, "`A` cannot be read: its bytes are in the other order"),
    "shape": ({"W": np.ones((6, 8), F32)}, postlude.CallError, "`W` has size 8 along `K`, which is 7"),
    "transposed": ({"W": np.ones((7, 6), F32)}, postlude.CallError, "`W` has size 6 along `K`, which is 7"),
    "tile's shape": ({"C": np.ones((6, 5), F32)}, postlude.CallError, "`C` has size 6 along `M`, which is 5"),
    "rank": ({"C": np.ones(6, F32)}, postlude.CallError, "`C` is declared with 2 dims, but has 1"),
    "batch": ({"A": np.ones((1, 5, 7), F32)}, postlude.CallError, "`A` is declared with 2 dims, but has 3"),
    "nine dims": ({"A": np.ones((1,) * 9, F32)}, postlude.CallError, "an array of 9 dims"),
    "a number for a tile": ({"C": 1.0}, postlude.CallError, "`C` is a tensor; a number was given"),
    "a tile for a number": ({"beta": np.ones((), F32)}, postlude.CallError, "`beta` is a scalar passed by the host"),
    "a list": ({"A": [[1.0]]}, TypeError, r"`A\[0\]` is list, which is neither an array"),
    "nothing": ({"A": None}, TypeError, "`A` is NoneType, which is neither an array"),
    "text": ({"beta": "2"}, TypeError, "`beta` is str, which is neither an array"),
    "no alignment": (
        {"A": np.zeros(5 * 7 * 4 + 1, np.uint8)[1:].view(F32).reshape(5, 7)},
        postlude.CallError,
        "`A` starts at .* not aligned to its f32",
    ),
    "strides between elements": (
        {"A": np.zeros((5, 7), [("tag", "i1"), ("value", F32)])["value"]},
        postlude.CallError,
        "`A` cannot be read: its strides are no multiples of an element",
    ),
    "missing": (
        {"C": ...},
        TypeError,
        r"missing C; the kernel takes 4 arguments\nkernel add\(A: f32\[M, K\], W: f32\[N, K\], C: f32\[M, N\], beta: f32\) -> \(D",
    ),
    "unknown": ({"betta": 1.0}, TypeError, r"no input `betta`; did you mean `beta`\?\nkernel add\(A: f32\[M, K\], W"),
    "out's dtype": ({"out": np.empty((5, 6), np.float16)}, postlude.CallError, "`D` is declared f32, but f16 was given"),
    "out's shape": ({"out": np.empty((6, 5), F32)}, postlude.CallError, "`D` has size 6 along `M`, which is 5"),
    "out's rank": ({"out": np.empty(30, F32)}, postlude.CallError, "`D` is declared with 2 dims, but has 1"),
    "out is read-only": ({"out": read_only(np.empty((5, 6), F32))}, postlude.CallError, "`D` is read-only"),
    "out shares places": ({"out": shared()}, postlude.CallError, "several elements share a place"),
    "out is text": ({"out": "D"}, TypeError, "`D` is str"),
    "out is too many": ({"out": [np.empty((5, 6), F32)] * 2}, postlude.CallError, "`D` is declared with 2 dims, but has 3"),
    "out has another name": ({"out": {"E": np.empty((5, 6), F32)}}, postlude.CallError, "`out` has no `D`"),
    "out has more names": (
        {"out": {"D": np.empty((5, 6), F32), "E": np.empty((5, 6), F32)}},
        postlude.CallError,
        "`out` has more than the outputs D",
    ),
    "out overlaps": ({"C": LARGE[:5], "out": LARGE[1:6]}, postlude.CallError, "output `D` overlaps `C`"),
    "out is the tile reversed": ({"C": LARGE[:5], "out": LARGE[:5][::-1]}, postlude.CallError, "output `D` overlaps `C`"),
}


@pytest.mark.parametrize("case", WRONG_ARGUMENTS)
def test_wrong_arguments_are_exceptions_before_anything_runs(case: str) -> None:
    changed, kind, message = WRONG_ARGUMENTS[case]
    arguments = {name: value for name, value in given(**changed).items() if value is not ...}
    # Where the outputs are right, they show whether something ran.
    arguments.setdefault("out", np.full((5, 6), 9, F32))
    watched = {name: bits(value) for name, value in arguments.items() if isinstance(value, np.ndarray) and value.dtype != object}
    with pytest.raises(kind, match=message) as caught:
        ADD(**arguments)
    assert "\n\n\n" not in str(caught.value)
    assert {name: bits(arguments[name]) for name in watched} == watched


def test_good_arguments_are_good() -> None:
    assert np.array_equal(ADD(**given()), np.full((5, 6), 9, F32))


def test_an_argument_that_is_given_twice() -> None:
    with pytest.raises(TypeError, match=r"`A` is given twice\nkernel add\(A: f32"):
        ADD(*given().values(), A=np.ones((5, 7), F32))


def test_too_many_arguments() -> None:
    with pytest.raises(TypeError, match=r"takes 4 arguments, 5 are given\nkernel add\(A: f32"):
        ADD(*given().values(), 3)
    with pytest.raises(TypeError, match=r"takes 1 argument, 0 are given|missing A; .* 1 argument\nthe arguments are A"):
        postlude.compile("D = relu(A)")()


def test_outputs_do_not_share_memory() -> None:
    D = np.empty((5, 6), F32)
    with pytest.raises(postlude.CallError, match="outputs `D` and `Z` overlap"):
        TWO(np.ones((5, 7), F32), np.ones((6, 7), F32), out=(D, D))


def test_an_output_is_no_operand_of_the_product() -> None:
    A = np.ones((6, 6), F32)
    with pytest.raises(postlude.CallError, match="output `D` is also `A`, an operand of the product"):
        postlude.compile("D = A @ W.T")(A, np.ones((6, 6), F32), out=A)
    assert (A == 1).all()


def test_overlap_is_seen_when_the_call_is_known() -> None:
    large, W, C = np.ones((40, 8), F32), np.ones((8, 8), F32), np.ones((8, 8), F32)
    kernel = postlude.compile("D = A @ W.T + C")
    apart = np.empty((8, 8), F32)
    kernel(large[:8], W, C, out=large[16:24])
    for rows in (slice(4, 12), slice(0, 8), slice(7, 15)):
        with pytest.raises(postlude.CallError, match="overlaps `A`|is also `A`"):
            kernel(large[:8], W, C, out=large[rows])
    assert kernel(large[:8], W, C, out=apart) is apart


def test_packed_bits_have_to_be_contiguous() -> None:
    inputs = operands(kernels.relu_mask_backward)
    inputs["mask"] = np.asfortranarray(inputs["mask"])
    with pytest.raises(postlude.CallError, match="`mask` packs its last dim into bytes and has to be contiguous"):
        kernels.relu_mask_backward(**inputs)


def test_halves_of_bytes_lie_in_pairs() -> None:
    kernel = postlude.compile(
        "kernel k(A: f32[M, K], W: f32[N, K], x: i4[M, N]) -> D: f32[M, N] { D = A @ W.T * x }"
    )
    A, W, x = np.ones((4, 2), F32), np.ones((8, 2), F32), np.zeros((4, 8), np.uint8)
    for scattered in (x[:, ::2], np.asfortranarray(x[:, :4]), x[:, 3::-1]):
        with pytest.raises(postlude.CallError, match="`x` is i4, two elements in a byte") as caught:
            kernel(A, W, scattered)
        assert caught.value.help == "copy it to contiguous memory first"
    with pytest.raises(postlude.CallError, match="`x` has size 6 along `N`, which is 8"):
        kernel(A, W, x[:, :3])
    with pytest.raises(postlude.CallError, match="`x` is declared i4, but i8 was given"):
        kernel(A, W, x[:, :4].astype(np.int8))


def test_a_size_that_the_kernel_does_not_take() -> None:
    A, W = np.ones((4, 8), BF16), np.ones((7, 8), BF16)
    with pytest.raises(postlude.CallError, match="`N` is 7, which is not even") as caught:
        kernels.swiglu(A, W)
    assert caught.value.line == 3 and caught.value.help == "make `N` even"


def test_zero_sizes_are_sizes() -> None:
    for sizes in ((0, 6, 7), (5, 0, 7), (5, 6, 0), (0, 0, 0)):
        M, N, K = sizes
        D = ADD(np.ones((M, K), F32), np.ones((N, K), F32), np.ones((M, N), F32), 3.0)
        assert D.shape == (M, N) and (D == K + 3).all()


# Texts.


def test_a_mistake_in_a_text_has_its_place_and_help() -> None:
    text = "kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] {\n    D = geluu(A @ B)\n}"
    with pytest.raises(postlude.KernelError) as caught:
        postlude.compile(text)
    error = caught.value
    assert (error.line, error.column) == (2, 9)
    assert error.help is not None and "gelu" in error.help
    assert str(error) == (
        "unknown function `geluu`\n  |\n2 |     D = geluu(A @ B)\n  |         ^^^^^\nhelp: " + error.help
    )
    assert isinstance(error, postlude.Error) and error.diagnostics[0].message == "unknown function `geluu`"


def test_every_mistake_is_told() -> None:
    with pytest.raises(postlude.KernelError) as caught:
        postlude.compile("kernel k(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] {\n D = geluu(A @ B) + rleu(A @ B)\n}")
    assert len(caught.value.diagnostics) >= 2


@pytest.mark.parametrize("text", ["", "D = A @ ", "D = (A @ B", "kernel", "\0", "D = A @ B; D = A @ B", "é = A @ B", "}" * 300, "(" * 3000])
def test_texts_that_are_wrong_are_exceptions(text: str) -> None:
    with pytest.raises(postlude.KernelError):
        kernel = postlude.compile(text)
        kernel(*[np.ones((2, 2), F32)] * len(kernel.inputs))


def test_a_one_liner_is_typed_at_its_call() -> None:
    kernel = postlude.compile("D = A @ W.T")
    with pytest.raises(postlude.KernelError, match="operands of `@` differ: `A` is f16 and `W` is f32"):
        kernel(np.ones((2, 2), np.float16), np.ones((2, 2), F32))
    assert kernel(np.ones((2, 2), F32), np.ones((2, 2), F32)).dtype == F32


def test_a_text_is_text() -> None:
    with pytest.raises(TypeError):
        postlude.compile(3)  # type: ignore[arg-type]


def test_options_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="math is 'quick'"):
        postlude.compile("D = A @ W.T", math="quick")
    with pytest.raises(ValueError, match="no output `E`"):
        postlude.compile(TWO.text, outputs=["E"])
    with pytest.raises(ValueError, match="there is no stage 'sass'"):
        TWO.explain(stage="sass")


# Checks.


def test_a_check_finds_a_wrong_element() -> None:
    arguments = given()
    D = ADD(**arguments)
    assert ADD.check(**arguments, out=D)[0].wrong == 0
    D[2, 3] += 1
    with pytest.raises(AssertionError, match="D: 1 of 30 elements wrong"):
        ADD.check(**arguments, out=D)


CENTRED = "kernel k(A: bf16[M, K], W: bf16[N, K]) -> D: f32[M, N] { z = A @ W.T; D = z - mean(z, M) }"


def test_every_launch_is_printed() -> None:
    centred = postlude.compile(CENTRED)
    for printed, comment in ((centred.schedule(M=64, N=64, K=64), "#"), (centred.ptx(M=64, N=64, K=64), "//")):
        assert printed.startswith(f"{comment} launch 1 of 2, k_launch\n")
        assert f"\n{comment} launch 2 of 2, k\n" in printed


def test_refusals_say_why() -> None:
    fused = postlude.compile(f"fused {CENTRED}")
    with pytest.raises(postlude.RefusedError, match="two launches"):
        fused.ptx(M=64, N=64, K=64)


# What the package gets wrong today.

A2, W2 = np.ones((5, 7), F32), np.ones((6, 7), F32)


def test_a_check_takes_outputs_by_name() -> None:
    D, Z = TWO(A2, -W2)
    TWO.check(A2, -W2, out={"Z": Z, "D": D})


@pytest.mark.parametrize("dtype", [np.float64, ">f4"])
def test_an_output_that_cannot_be_written_is_named(dtype: Any) -> None:
    with pytest.raises(postlude.CallError, match="`D`"):
        ADD(**given(), out=np.empty((5, 6), dtype))


def test_a_check_of_too_many_outputs() -> None:
    D, Z = TWO(A2, W2)
    with pytest.raises(postlude.CallError):
        TWO.check(A2, W2, out=(D, Z, D))


def test_a_check_reads_a_read_only_output() -> None:
    ADD.check(**given(), out=read_only(ADD(**given())))


@pytest.mark.parametrize("value", [2.5, 2**40, float("nan")])
def test_an_i32_scalar_is_an_integer_that_fits(value: Any) -> None:
    kernel = postlude.compile(
        "kernel k(A: f32[M, K], W: f32[N, K], n: i32) -> D: f32[M, N] { D = where(col < n, A @ W.T, 0.0) }"
    )
    with pytest.raises((postlude.CallError, TypeError)):
        kernel(A2, W2, value)


@pytest.mark.parametrize("value", [2**40, -(2**35)])
def test_a_large_integer_is_that_number_or_an_error(value: int) -> None:
    scaled = postlude.compile("D = alpha * (A @ W.T)")
    try:
        D = scaled(value, A2, W2)
    except (postlude.Error, TypeError, OverflowError):
        return
    assert D[0, 0] == 7.0 * value


def test_kernels_are_pickled() -> None:
    again = pickle.loads(pickle.dumps(TWO))
    assert str(again) == str(TWO) and np.array_equal(again(A2, W2).D, TWO(A2, W2).D)


def test_outputs_are_a_list_of_names() -> None:
    kernel = postlude.compile("D = A @ W.T; total = sum(D)", outputs="total")
    assert kernel(A2, W2).shape == ()


def test_an_input_may_be_called_self() -> None:
    assert postlude.compile("D = self @ W.T")(self=A2, W=W2).shape == (5, 6)


@pytest.mark.parametrize("outputs", [["E"], []])
def test_a_one_liner_keeps_outputs_that_it_has(outputs: list[str]) -> None:
    with pytest.raises((ValueError, postlude.Error)):
        postlude.compile("D = A @ W.T", outputs=outputs)(A2, W2)


@pytest.mark.parametrize("sizes", [{}, {"M": 64, "N": 64}, {"M": 64, "N": 64, "K": 64, "Q": 64}])
def test_ptx_needs_every_size(sizes: dict[str, int]) -> None:
    with pytest.raises((TypeError, ValueError)):
        kernels.linear.ptx(**sizes)


def test_explain_takes_the_kernels_arguments_alone() -> None:
    with pytest.raises(TypeError):
        TWO.explain(A2, W2, W2)


def test_threads_are_counted() -> None:
    with pytest.raises(ValueError):
        postlude.compile("D = A @ W.T", threads=-1)


def test_only_calls_on_a_gpu_are_tuned() -> None:
    kernel = postlude.compile("D = A @ W.T")
    A, W = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    with pytest.raises(postlude.CallError, match="on the CPU, where nothing is tuned"):
        kernel.tune(A, W)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"M": -1, "N": 8, "K": 8}, "the size of `M` is -1; sizes are whole numbers from 0 on"),
        ({"M": 8, "N": 2.5, "K": 8}, "the size of `N` is 2.5; sizes are whole numbers"),
        ({"M": 8, "N": 8, "K": "8"}, "the size of `K` is '8'; sizes are whole numbers"),
        ({"M": 2**70, "N": 8, "K": 8}, f"the size of `M` is {2**70}; sizes are whole numbers"),
    ],
)
def test_sizes_that_are_none(sizes: Any, message: str) -> None:
    for tool in (ADD.schedule, ADD.ptx, ADD.explain):
        with pytest.raises(postlude.CallError, match=message):
            tool(**sizes)


def test_shapes_that_are_none() -> None:
    shapes = [("f32", (-1, 8)), ("f32", (8, 8)), ("f32", (8, 8)), 1.0]
    with pytest.raises(postlude.CallError, match="a size of `A` is -1; sizes are whole numbers from 0 on"):
        ADD.schedule(*shapes)
    with pytest.raises(TypeError, match=r"missing beta; the kernel takes 4 arguments\nkernel add\("):
        ADD.schedule(*shapes[:3])


def test_backends_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="backend is 'gpu'; it is one of 'reference', 'cpu', 'cuda', 'sim', or None"):
        postlude.compile("D = A @ W.T", backend="gpu")
    with pytest.raises(postlude.CallError, match="the arrays are on the CPU, and backend is 'cuda'\nhelp: bring the arrays to a GPU"):
        postlude.compile("D = A @ W.T", backend="cuda")(np.ones((2, 3), F32), np.ones((4, 3), F32))


def test_what_the_simulator_finds_is_an_exception_with_all_of_it() -> None:
    # No call that is known makes the simulator find something: this is what the native half would give.
    found = {
        "diagnosis": "global memory out of bounds",
        "message": "4 bytes behind the buffer",
        "line": 120,
        "instruction": "ld.global.f32 %f1, [%rd1];",
        "cta": 3,
        "warp": 1,
        "region": None,
        "address": 0x7000,
        "text": "line 120: CTA 3, warp 1: global memory out of bounds",
    }
    fields = [{"message": "the simulator found: line 120", "help": None}]
    error = postlude._errors.make("FindingsError", "", fields, [found, {**found, "cta": 4}])
    assert isinstance(error, postlude.FindingsError) and isinstance(error, postlude.InternalError)
    assert [one.cta for one in error.findings] == [3, 4] and error.findings[0].instruction.startswith("ld.global")
    assert error.text.splitlines() == [found["text"]] * 2 and str(error) == "the simulator found: line 120"
    again = pickle.loads(pickle.dumps(error))
    assert again.findings == error.findings and again.text == error.text
