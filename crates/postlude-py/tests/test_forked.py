"""After a fork: a child has its parent's kernels without its threads. It computes the same or says why not, and never waits.

Children are forked as ``multiprocessing`` and PyTorch's ``DataLoader`` fork them, while other threads of the parent call.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from conftest import ROOT

import postlude
from postlude import lang

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # Forking is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning"),
]

#: Seconds that no child needs, on a busy machine either.
PATIENCE = 60
TEXT = "D = gelu(A @ W.T + bias[N]); peak = absmax(D)"
CHILDREN = 50


def arguments() -> tuple[Any, Any, Any]:
    """Large enough that threads share the work."""
    rng = np.random.default_rng(0)
    A, W, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((128, 96), (160, 96), (160,)))
    return A, W, bias


def ended(child: int) -> int:
    """The status that a child ended with; one that hangs is killed."""
    begun = time.monotonic()
    while time.monotonic() < begun + PATIENCE:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("a forked child hangs")


def in_child(work: Callable[[], bool]) -> None:
    """Runs work in a forked child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    assert ended(child) == 0


@contextmanager
def busy(work: Callable[[], Any], threads: int = 3) -> Iterator[None]:
    """Other threads do the same over and over meanwhile."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            work()

    running = [threading.Thread(target=repeat) for _ in range(threads)]
    for one in running:
        one.start()
    try:
        yield
    finally:
        over.set()
        for one in running:
            one.join()


def is_same(left: Any, right: Any) -> bool:
    return all(np.array_equal(*pair) for pair in zip(left, right))


@pytest.mark.parametrize("threads", [None, 4])
def test_forked_children_compute_what_their_parent_does(threads: int | None) -> None:
    given = arguments()
    kernel = postlude.compile(TEXT, threads=threads)
    expected = kernel(*given)

    def work() -> bool:
        fresh = postlude.compile(TEXT, threads=threads)
        return is_same(kernel(*given), expected) and is_same(fresh(*given), expected)

    for _ in range(CHILDREN // 5):
        in_child(work)


def test_a_kernel_that_its_parent_never_called_runs_in_a_child() -> None:
    kernel, given = postlude.compile(TEXT, threads=4), arguments()
    for _ in range(5):
        in_child(lambda: bool(kernel(*given).D.shape == (128, 160)))


def test_children_that_are_forked_while_threads_call_do_not_wait_for_them() -> None:
    given = arguments()
    kernel = postlude.compile(TEXT, threads=4)
    expected = kernel(*given)

    def compiled_and_called() -> bool:
        # All that comes before a first call, too: tracing, typing, planning.
        lang.relu(lang.row)
        fresh = postlude.compile(TEXT, threads=4)
        return is_same(kernel(*given), expected) and is_same(fresh(*given), expected)

    with busy(compiled_and_called):
        for _ in range(CHILDREN):
            in_child(compiled_and_called)


def test_the_reference_and_the_simulator_run_in_a_child() -> None:
    A, W, bias = arguments()
    small = (A[:16, :64].copy(), W[:16, :64].copy(), bias[:16].copy())
    kernels = [postlude.compile(TEXT, backend=backend) for backend in (None, "reference", "sim")]

    def work() -> bool:
        kernels[0].check(*small)
        return all(kernel(*small).D.shape == (16, 16) for kernel in kernels)

    assert work()
    with busy(work, threads=1):
        for _ in range(3):
            in_child(work)


def called(seed: int) -> float:
    A, W, bias = arguments()
    return float(LINEAR(A + np.float32(seed), W, bias).peak)


LINEAR = postlude.compile(TEXT)


def test_a_pool_of_forked_processes() -> None:
    expected = [called(seed) for seed in range(8)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(called, range(8)).get(PATIENCE) == expected


class Rows:
    """A dataset whose items a kernel computes."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> Any:
        A, W, bias = arguments()
        return LINEAR(A + np.float32(place), W, bias).D


@pytest.mark.parametrize("parent", ["called before", "calls meanwhile"])
def test_workers_of_a_data_loader(parent: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: its DataLoader is NOT tested")
    data = Rows()
    expected = [data[place] for place in range(len(data))]

    def load() -> None:
        loader = torch.utils.data.DataLoader(data, num_workers=2, timeout=PATIENCE, multiprocessing_context="fork")
        for place, item in enumerate(loader):
            assert np.array_equal(item[0].numpy(), expected[place])

    if parent == "called before":
        load()
    else:
        with busy(lambda: data[0]):
            load()


def test_cuda_in_a_forked_child_is_an_error_that_names_spawn() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: CUDA in forked children is NOT tested")
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU: CUDA in forked children is NOT tested")
    A, W, bias = (torch.from_numpy(one).cuda() for one in arguments())
    kernel = postlude.compile(TEXT)
    kernel(A, W, bias)

    def is_refused() -> bool:
        try:
            kernel(A, W, bias)
        except postlude.Error as error:
            return "forked" in str(error) and 'get_context("spawn")' in (error.help or "")
        return False

    with busy(lambda: kernel(A, W, bias)):
        for _ in range(5):
            in_child(is_refused)


#: What a driver of CUDA says that has one GPU of no kind; all its functions do nothing.
DRIVER_ANSWERS = {"cuDriverGetVersion": 12080, "cuDeviceGetCount": 1}


def test_a_child_of_a_process_that_opened_the_driver_is_refused_it(tmp_path: Path) -> None:
    table = ROOT / "crates/postlude/src/runtime/driver/table.rs"
    compiler = shutil.which("cc")
    if compiler is None or not table.exists() or sys.platform != "linux":
        pytest.skip("no C compiler for a driver that does nothing: forked children with a driver are NOT tested")
    functions = [
        f"int {name}(int *answer) {{ {f'*answer = {DRIVER_ANSWERS[name]};' if name in DRIVER_ANSWERS else ''} return 0; }}"
        for name in sorted(set(re.findall(r'"(cu\w+)', table.read_text())))
    ]
    (tmp_path / "driver.c").write_text("\n".join(functions))
    library = str(tmp_path / "libcuda.so.1")
    subprocess.run([compiler, "-w", "-shared", "-fPIC", "-o", library, str(tmp_path / "driver.c")], check=True, timeout=PATIENCE)
    program = (
        "import os, postlude\n"
        "assert postlude.info().splitlines()[1].startswith('GPU 0')\n"
        "if os.fork() == 0:\n"
        "    print(postlude.info(), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert "no GPU: this process was forked from one that had used the GPU" in ran.stdout, ran
    assert 'get_context("spawn")' in ran.stdout
