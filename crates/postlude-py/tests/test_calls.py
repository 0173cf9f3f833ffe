"""Calls: arguments in any order and of any framework, outputs where they are asked for, threads."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conftest import DTYPES, address, bits

import postlude
import postlude._frameworks
from postlude import kernels

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

BF16 = ml_dtypes.bfloat16
LINEAR = postlude.compile("D = relu(A @ W.T + bias[N])")
SEVERAL = postlude.compile(
    "kernel several(A: f32[M, K], W: f32[N, K]) -> (D: f32[M, N], total: f32[M], peak: f32[]) {\n"
    "    D = A @ W.T\n    total = sum(D, N)\n    peak = max(D)\n}"
)


def matrices(dtype: Any = np.float32) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    A, W = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((5, 7), (6, 7)))
    return A, W, rng.integers(-4, 5, 6).astype(np.float32)


def expected(A: Any, W: Any, bias: Any) -> Any:
    return np.maximum(A.astype(np.float32) @ W.astype(np.float32).T + bias, 0)


# Arguments.


def test_arguments_come_in_order_or_by_name() -> None:
    A, W, bias = matrices()
    want = expected(A, W, bias)
    assert LINEAR.inputs == ("A", "W", "bias")
    for got in (LINEAR(A, W, bias), LINEAR(A, W, bias=bias), LINEAR(bias=bias, W=W, A=A), LINEAR(A, bias=bias, W=W)):
        assert np.array_equal(got, want)


def test_inputs_of_a_one_liner_come_in_the_order_of_the_text() -> None:
    assert postlude.compile("D = alpha * (A @ W.T) + C").inputs == ("alpha", "A", "W", "C")


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_a_one_liner_is_typed_by_its_arguments(dtype: str) -> None:
    A, W, bias = matrices(DTYPES[dtype])
    kernel = postlude.compile("D = relu(A @ W.T + bias[N])")
    # Tiles of 8-bit operands are f32, those of all others have their dtype.
    result = np.dtype(np.float32) if DTYPES[dtype].itemsize == 1 else DTYPES[dtype]
    for _ in range(2):
        D = kernel(A, W, bias)
        assert D.dtype == result and np.array_equal(D, expected(A, W, bias).astype(result))
    # The same object takes other dtypes and ranks.
    assert kernel(*matrices()).dtype == np.float32
    batched = kernel(np.stack([A, A]), np.stack([W, W]), bias)
    assert batched.shape == (2, 5, 6) and np.array_equal(batched[1], kernel(A, W, bias))


def test_integer_products_of_a_one_liner() -> None:
    A, W, _ = matrices(np.int8)
    D = postlude.compile("D = A @ W.T")(A, W)
    assert np.array_equal(D.astype(np.int64), A.astype(np.int64) @ W.T.astype(np.int64))


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.float64(2), np.int64(2), np.float16(2)])
def test_host_scalars_are_numbers(value: Any) -> None:
    A, W, _ = matrices()
    scaled = postlude.compile("D = alpha * (A @ W.T)")
    assert np.array_equal(scaled(value, A, W), 2 * (A @ W.T))
    declared = postlude.compile("kernel k(A: f32[M, K], W: f32[N, K], alpha: f32) -> D: f32[M, N] { D = alpha * A @ W.T }")
    assert np.array_equal(declared(A, W, value), 2 * (A @ W.T))


def test_a_number_changes_from_call_to_call() -> None:
    A, W, _ = matrices()
    scaled = postlude.compile("D = alpha * (A @ W.T)")
    for value in (1.0, -2.0, 0.0, 3):
        assert np.array_equal(scaled(value, A, W), value * (A @ W.T))


def test_a_scalar_in_memory_is_an_array_without_dims() -> None:
    A, W, _ = matrices(BF16)
    D = kernels.quantise_u8(A, W, np.array(2, np.float32), np.array(3, np.int32))
    assert D.dtype == np.uint8


# Where arrays lie.


@pytest.mark.parametrize(
    "place",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
        lambda x: np.repeat(x, 3, 1)[:, ::3],
        lambda x: np.pad(x, ((2, 1), (3, 1)))[2:-1, 3:-1],
    ],
    ids=["transposed", "negative strides", "every third", "offset"],
)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8"])
def test_views_are_read_where_they_lie(place: Any, dtype: str) -> None:
    A, W, _ = matrices(DTYPES[dtype])
    kernel = postlude.compile("D = A @ W.T")
    assert bits(kernel(place(A), place(W))) == bits(kernel(A, W))


def test_a_broadcast_operand_is_read_where_it_lies() -> None:
    A, W, bias = matrices()
    row = np.broadcast_to(A[0], A.shape)
    assert np.array_equal(LINEAR(row, W, bias), expected(row, W, bias))


def test_a_view_is_not_copied() -> None:
    # As an element changes behind the view, so does the result.
    large = np.zeros((20, 20), np.float32)
    view = large[3:13:2, 4:11][::-1]
    W = np.eye(7, dtype=np.float32)
    kernel = postlude.compile("D = A @ W.T")
    assert not kernel(view, W).any()
    large[3, 4] = 5
    assert kernel(view, W)[-1, 0] == 5


# Outputs.


def test_one_output_is_itself_and_several_are_a_named_tuple() -> None:
    A, W, bias = matrices()
    assert type(LINEAR(A, W, bias)) is np.ndarray
    result = SEVERAL(A, W)
    assert result._fields == SEVERAL.outputs == ("D", "total", "peak")
    D, total, peak = result
    assert D is result.D and np.array_equal(total, D.sum(1)) and peak == D.max() and peak.shape == ()


def test_given_outputs_are_written_in_place() -> None:
    A, W, bias = matrices()
    want = expected(A, W, bias)
    D = np.full((5, 6), 9, np.float32)
    for out in (D, (D,), [D], {"D": D}):
        D.fill(9)
        before = address(D)
        assert LINEAR(A, W, bias, out=out) is D
        assert address(D) == before and np.array_equal(D, want)


def test_several_given_outputs() -> None:
    A, W, _ = matrices()
    D, total, peak = np.empty((5, 6), np.float32), np.empty(5, np.float32), np.empty((), np.float32)
    want = SEVERAL(A, W)
    for out in ((D, total, peak), [D, total, peak], {"peak": peak, "D": D, "total": total}):
        for array in (D, total, peak):
            array.fill(9)
        result = SEVERAL(A, W, out=out)
        assert result.D is D and result.total is total and result.peak is peak
        assert all(np.array_equal(one, other) for one, other in zip(result, want, strict=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.full((6, 5), 9, np.float32).T,
        lambda: np.full((5, 12), 9, np.float32)[:, ::2],
        lambda: np.full((5, 6), 9, np.float32)[::-1, ::-1],
        lambda: np.full((9, 9), 9, np.float32)[2:7, 3:],
    ],
    ids=["transposed", "every other", "reversed", "inside"],
)
def test_outputs_may_be_views(make: Any) -> None:
    A, W, bias = matrices()
    D = make()
    around = D.base.copy()
    assert LINEAR(A, W, bias, out=D) is D
    assert np.array_equal(D, expected(A, W, bias))
    written = D.base != around
    assert written.sum() <= D.size, "something beside the view was written"


def test_an_output_may_replace_the_tile_that_it_is_made_of() -> None:
    A, W, _ = matrices()
    kernel = postlude.compile("D = A @ W.T + C")
    C = np.ones((5, 6), np.float32)
    assert kernel(A, W, C, out=C) is C
    assert np.array_equal(C, A @ W.T + 1)


def test_outputs_may_interleave() -> None:
    A, W, _ = matrices()
    both = np.zeros((5, 12), np.float32)
    kernel = postlude.compile("Z = A @ W.T; D = relu(Z)")
    kernel(A, W, out={"Z": both[:, ::2], "D": both[:, 1::2]})
    assert np.array_equal(both[:, ::2], A @ W.T) and np.array_equal(both[:, 1::2], np.maximum(A @ W.T, 0))


def test_some_outputs_alone() -> None:
    A, W, _ = matrices()
    alone = postlude.compile(SEVERAL.text, outputs=["total"])
    assert np.array_equal(alone(A, W), SEVERAL(A, W).total)


def test_bits_are_bytes_lowest_first() -> None:
    A, W = np.eye(16, dtype=np.float32), np.random.default_rng(1).standard_normal((24, 16)).astype(np.float32)
    kernel = postlude.compile("kernel k(A: f32[M, K], W: f32[N, K]) -> mask: b1[M, N] { mask = A @ W.T < 0.0 }")
    mask = kernel(A, W)
    assert mask.dtype == np.uint8 and mask.shape == (16, 3)
    assert np.array_equal(mask, np.packbits(W.T < 0, axis=-1, bitorder="little"))
    out = np.zeros((16, 3), np.uint8)
    assert kernel(A, W, out=out) is out and np.array_equal(out, mask)


def half_bytes(signed: bool, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Random elements of four bits, and the bytes that hold them."""
    low = -8 if signed else 0
    elements = np.random.default_rng(2).integers(low, low + 16, shape)
    low_half, high_half = (elements[..., place::2].astype(np.uint8) & 15 for place in (0, 1))
    return elements.astype(np.float32), low_half | high_half << 4


def test_halves_of_bytes_are_bytes_lowest_first() -> None:
    kernel = postlude.compile(
        "kernel k(A: f32[M, K], W: f32[N, K], x: i4[M, N], y: u4[N]) -> D: f32[M, N] { D = A @ W.T * x + y }"
    )
    A, W, _ = matrices()
    M, N = A.shape[0], W.shape[0]
    (x, packed), (y, vector) = half_bytes(True, (M, N)), half_bytes(False, (N,))
    want = A @ W.T * x + y
    assert packed.shape == (M, N // 2) and np.array_equal(kernel(A, W, packed, vector), want)
    # Rows may lie anywhere.
    wide = np.zeros((M, N), np.uint8)
    wide[:, 1 : 1 + N // 2] = packed
    assert np.array_equal(kernel(A, W, wide[:, 1 : 1 + N // 2], vector), want)
    assert np.array_equal(kernel(A[::-1], W, packed[::-1], vector), want[::-1])


def test_weights_of_half_bytes() -> None:
    A = np.random.default_rng(3).integers(-4, 5, (5, 16))
    W, packed = half_bytes(True, (6, 16))
    whole = postlude.compile("kernel k(A: i8[M, K], W: i4[N, K]) -> D: i32[M, N] { D = A @ W.T }")
    assert np.array_equal(whole(A.astype(np.int8), packed), A @ W.T.astype(np.int64))
    U, packed = half_bytes(False, (6, 16))
    z, zeros = half_bytes(False, (6, 2))
    s = np.exp2(np.arange(12, dtype=np.float32).reshape(6, 2) - 6)
    scaled = postlude.compile(
        "kernel k(A: bf16[M, K], W: u4[N, K], z: u4[N, K/8], s: f32[N, K/8]) -> D: f32[M, N] "
        "{ D = A @ bf16((f32(W) - f32(z)) * s).T }"
    )
    spread = np.repeat(z, 8, axis=1), np.repeat(s, 8, axis=1)
    assert np.array_equal(scaled(A.astype(BF16), packed, zeros, s), A @ ((U - spread[0]) * spread[1]).T)


# JAX.


def test_jax_arrays_come_back_from_jax_arrays() -> None:
    A, W, bias = matrices()
    D = LINEAR(*map(jnp.asarray, (A, W, bias)))
    assert isinstance(D, jax.Array) and np.array_equal(D, expected(A, W, bias))


def test_jax_dtypes_and_several_outputs() -> None:
    A, W, _ = matrices(BF16)
    want = kernels.quantise_fp8(A, W, np.array(2, np.float32))
    got = kernels.quantise_fp8(jnp.asarray(A), jnp.asarray(W), jnp.float32(2))
    assert got._fields == ("D", "amax") and got.D.dtype == jnp.float8_e4m3fn
    assert bits(np.asarray(got.D)) == bits(want.D) and got.amax == want.amax


def test_jax_arrays_are_not_written() -> None:
    A, W, bias = map(jnp.asarray, matrices())
    D = jnp.zeros((5, 6), jnp.float32)
    with pytest.raises(postlude.CallError, match="arrays of JAX cannot be written"):
        LINEAR(A, W, bias, out=D)
    assert not D.any()


def test_results_of_jax_outlive_the_call() -> None:
    kept = [LINEAR(*map(jnp.asarray, matrices())) for _ in range(20)]
    want = expected(*matrices())
    assert all(np.array_equal(one, want) for one in kept)


def test_inputs_of_jax_fill_arrays_of_numpy() -> None:
    A, W, bias = map(jnp.asarray, matrices())
    D = np.empty((5, 6), np.float32)
    assert LINEAR(A, W, bias, out=D) is D and np.array_equal(D, expected(*matrices()))


def test_bits_come_back_to_jax_whole() -> None:
    # In a process of its own: memory that is too small ends the process, or corrupts it.
    program = """
import jax.numpy as jnp, numpy as np, postlude
k = postlude.compile("kernel k(A: f32[M, K], W: f32[N, K]) -> mask: b1[M, N] { mask = A @ W.T < 0.0 }")
A = np.random.default_rng(0).standard_normal((2048, 4)).astype(np.float32)
masks = [k(jnp.asarray(A), jnp.asarray(A)) for _ in range(20)]
want = np.packbits(np.asarray(k(A, A)), axis=-1)
assert all(np.array_equal(np.packbits(np.asarray(one), axis=-1), want) for one in masks)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr[-500:]


class Watched:
    """Memory of Postlude's on its way to JAX, whose address is seen."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.capsule = memory.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # The first field of what the capsule holds is where the data begins.
        self.address = ctypes.cast(pointer(self.capsule, b"dltensor"), ctypes.POINTER(ctypes.c_void_p))[0]

    def __dlpack_device__(self) -> Any:
        return self.memory.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule


def test_jax_takes_outputs_over_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Watched] = []

    def adopt(like: Any, memory: Any) -> Any:
        watched.append(Watched(memory))
        return jax.dlpack.from_dlpack(watched[-1])

    monkeypatch.setattr(postlude._frameworks, "adopt", adopt)
    kept = [LINEAR(*map(jnp.asarray, matrices())) for _ in range(8)]
    assert [one.unsafe_buffer_pointer() for one in kept] == [one.address for one in watched]


# Threads.


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(2)
    A, W = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 90), (270, 90)))
    for text in ("loss = sum(gelu(A @ W.T))", "D = softmax(A @ W.T, N)", "c = sum(A @ W.T, M)"):
        assert len({bits(postlude.compile(text, threads=count)(A, W)) for count in (1, 2, 3, 8, None)}) == 1


def test_threads_share_a_kernel() -> None:
    kernel = postlude.compile("D = relu(A @ W.T + bias[N])")
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for turn in range(60):
            M, N, K = (int(size) for size in rng.integers(1, 40, 3))
            dtype = (np.float32, BF16, np.float16)[turn % 3]
            A, W = (rng.integers(-2, 3, shape).astype(dtype) for shape in ((M, K), (N, K)))
            bias = rng.integers(-2, 3, N).astype(np.float32)
            if not np.array_equal(kernel(A, W, bias), expected(A, W, bias).astype(dtype)):
                wrong.append(f"{seed}: {M}, {N}, {K} of {dtype}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_long_call_leaves_other_threads_running() -> None:
    A = np.ones((1536, 1536), np.float32)
    kernel = postlude.compile("D = gelu(A @ W.T)", threads=1)
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        kernel(A, A)
        ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    began.wait()
    turns, start = 0, time.perf_counter()
    while not ended.is_set():
        turns += 1
        time.sleep(0.001)
    seconds = time.perf_counter() - start
    thread.join()
    # A call that held the lock would let this thread turn once or twice.
    assert turns > 5, f"{turns} turns in {seconds:.3f} s"


# The import.


def test_the_import_is_light() -> None:
    program = (
        "import sys, time; start = time.perf_counter(); import postlude; spent = time.perf_counter() - start;"
        "print(spent, *(name for name in ('numpy', 'torch', 'jax', 'ml_dtypes') if name in sys.modules))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
        for _ in range(5)
    ]
    assert all(len(run.stdout.split()) == 1 for run in runs), runs[0].stdout
    assert min(float(run.stdout.split()[0]) for run in runs) < 0.1


def test_no_gpu_is_said_in_words() -> None:
    text = postlude.info()
    assert text.startswith("postlude ") and "backends: " in text
    assert os.path.exists("/dev/nvidiactl") or "no GPU: " in text


# Derivatives.


def test_derivatives_are_kernels() -> None:
    text = "kernel f(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> D: f32[M, N] { D = square(A @ W.T + bias) }"
    derived = postlude.compile(text).grad("W", "bias")
    assert derived.saved == ("product",) and derived.gradients == {"W": "d_W", "bias": "d_bias"}
    rng = np.random.default_rng(5)
    A, W, bias, d_D = (rng.standard_normal(shape, np.float32) for shape in [(6, 5), (4, 5), (4,), (6, 4)])
    forward = derived.forward(A, W, bias)
    known = {"A": A, "W": W, "bias": bias, "product": forward.product, "d_D": d_D}
    found = derived.backward(**{name: known[name] for name in derived.backward.inputs})
    cotangent = 2 * (A @ W.T + bias) * d_D
    np.testing.assert_allclose(found.d_W, cotangent.T @ A, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.d_bias, cotangent.sum(0), rtol=1e-4, atol=1e-4)


def test_a_one_liner_has_no_derivatives() -> None:
    with pytest.raises(postlude.Error, match="without a signature"):
        postlude.compile("D = A @ B").grad()


@pytest.mark.parametrize("backend", ["reference", "sim", "cpu"])
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_backends_compute_the_same_call(backend: str, dtype: Any) -> None:
    A, W, bias = matrices(dtype)
    kernel = postlude.compile("D = relu(A @ W.T + bias[N])", backend=backend)
    want = expected(A, W, bias).astype(dtype)
    assert np.array_equal(kernel(A, W, bias), want)
    # Outputs of any layout, and one in place of an input.
    wide = np.zeros((5, 12), dtype)
    assert kernel(A, W, bias, out=wide[:, ::2]) is not None and np.array_equal(wide[:, ::2], want)
    assert not wide[:, 1::2].any()
    C = np.ones((5, 6), np.float32)
    residual = postlude.compile("D = A @ W.T + C", backend=backend)
    A, W, bias = matrices()
    assert np.array_equal(residual(A, W, C, out=C), A @ W.T + 1)
    again = postlude.compile("D = relu(A @ W.T + bias[N])", backend=backend).check(A, W, bias)
    assert again[0].wrong == 0


def test_a_schedule_of_ones_own_is_run_or_refused() -> None:
    A, W, bias = matrices(BF16)
    text = "D = relu(A @ W.T + bias[N])"
    printed = postlude.compile(text).schedule(A, W, bias)
    pinned = postlude.compile(text, schedule=printed, backend="sim")
    assert np.array_equal(pinned(A, W, bias), expected(A, W, bias).astype(BF16))
    assert pickle.loads(pickle.dumps(pinned))._options == pinned._options
    with pytest.raises(ValueError, match="schedule, line 2: .*prints one"):
        postlude.compile(text, schedule=printed.splitlines()[0] + "\ntile none\n")
    fold = postlude.compile("s = sum(A @ W.T, M)", schedule=printed, backend="sim")
    with pytest.raises(postlude.Error, match="schedule"):
        fold(A, W)


def test_calls_under_jit_are_callbacks() -> None:
    A, W, bias = matrices()
    want = expected(A, W, bias)

    @jax.jit
    def layer(A: Any, W: Any, bias: Any) -> Any:
        return LINEAR(A, W, bias=bias) * 2

    assert np.array_equal(layer(A, W, bias), 2 * want)
    # Another shape is traced again; operands of 16 bits, numbers, several outputs, lists and batches.
    assert layer(A[:3], W, bias).shape == (3, 6)
    half = jax.jit(LINEAR)(jnp.asarray(A, jnp.bfloat16), jnp.asarray(W, jnp.bfloat16), bias)
    assert half.dtype == jnp.bfloat16 and np.array_equal(half, want.astype(BF16))
    several = jax.jit(SEVERAL)(A, W)
    assert np.array_equal(several.D, A @ W.T) and several.peak == (A @ W.T).max() and several.total.shape == (5,)
    scaled = postlude.compile("kernel scaled(A: f32[M, K], W: f32[N, K], alpha: f32) -> D: f32[M, N] { D = alpha * (A @ W.T) }")
    for alpha in (2.0, jnp.float32(2)):
        assert np.array_equal(jax.jit(lambda A, alpha=alpha: scaled(A, W, alpha))(A), 2 * (A @ W.T))
    assert np.array_equal(jax.jit(scaled)(A, W, 2.0), 2 * (A @ W.T))
    batched = jax.vmap(LINEAR, in_axes=(0, None, None))(jnp.stack([A, -A]), W, bias)
    assert np.array_equal(batched[1], expected(-A, W, bias))
    product = postlude.compile("kernel batched(A: f32[B, M, K], W: f32[B, N, K]) -> D: f32[B, M, N] { D = A @ W.T }")
    listed = jax.jit(lambda A, W: product([A, -A], [W, W]))(A, W)
    assert np.array_equal(listed[1], -(A @ W.T))


def test_what_jax_cannot_trace_is_an_error_that_says_so() -> None:
    A, W, bias = matrices()
    with pytest.raises(postlude.CallError, match="`W` has size 5 along `K`, which is 7"):
        jax.jit(LINEAR)(A, W[:, :5], bias)
    with pytest.raises(postlude.CallError, match="arrays of JAX cannot be written"):
        jax.jit(lambda A: LINEAR(A, W, bias, out=A))(A)
    with pytest.raises(TypeError, match="missing bias"):
        jax.jit(LINEAR)(A, W)
    with pytest.raises(ValueError, match="do not support JVP"):
        jax.grad(lambda A: LINEAR(A, W, bias).sum())(A)
