"""The floor's kernels, and the clock of `floor.py`.

In: what takes part in a row, each with the buffers that it rotates through. Out: microseconds of a launch, for every
round and everyone. Invariants: a buffer is met again only after COLD bytes of others; launches are queued behind a
kernel that sleeps for longer than the host takes to queue them, so that no sample holds host time.

The floor reads with vector loads, 8 CTAs of 256 threads an SM: of the ways to read that were measured on an H200 this is
the fastest below 100 MiB, and within 3 % of the fastest above. A copy is the faster of vector loads and stores, and of the
driver's own copy.
"""

from __future__ import annotations

import ctypes
import random
import time
from ctypes import addressof, byref, c_uint32, c_uint64, c_void_p
from typing import Any, Callable

import torch

#: Bytes between two reads of a buffer: four times the L2.
COLD = 240 << 20
THREADS, CTAS_PER_SM = 256, 8
#: Bytes that a CTA has in flight, from the first size on, and below it, where more CTAs share them.
CHUNK, SMALL_CHUNK, LARGE = 16384, 4096, 4 << 20
#: Cycles that the sleeping kernel takes at first, and at most.
SLEEP, LONGEST_SLEEP = 4_000_000, 400_000_000


class Rotation:
    """Which of a row's buffers come next. Everyone who reads the same buffers shares one."""

    def __init__(self, buffers: int) -> None:
        self.buffers = buffers
        self.next = 0

    def take(self, count: int) -> list[int]:
        taken = [(self.next + one) % self.buffers for one in range(count)]
        self.next = (self.next + count) % self.buffers
        return taken


def buffers_of(size: int, most: int = 4096) -> int:
    """How many buffers of a size are cold in turn."""
    return max(2, min(most, COLD // max(size, 1) + 1))


class Competitor:
    """A call on a buffer. Results are kept until the buffer's turn comes again: outputs rotate like inputs."""

    def __init__(self, call: Callable[[int], Any], rotation: Rotation) -> None:
        self.call = call
        self.rotation = rotation
        self.results: list[Any] = [None] * rotation.buffers

    def run(self, buffers: list[int]) -> None:
        for one in buffers:
            self.results[one] = self.call(one)


class Clock:
    def __init__(self) -> None:
        self.sleep = SLEEP

    def sample(self, competitor: Competitor, launches: int) -> float:
        """Microseconds of a launch, of some back to back."""
        while True:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            buffers = competitor.rotation.take(launches)
            torch.cuda._sleep(self.sleep)
            begin.record()
            competitor.run(buffers)
            end.record()
            awake = begin.query()
            end.synchronize()
            if not awake:
                return begin.elapsed_time(end) / launches * 1e3
            if self.sleep >= LONGEST_SLEEP:
                raise TimeoutError(f"{launches} launches take the host longer than the longest sleep")
            self.sleep *= 2

    def rounds(self, all_of_them: dict[str, Competitor], launches: int, rounds: int) -> dict[str, list[float]]:
        """Samples of everyone in every round, in a random order, after one that warms up."""
        self.sleep = SLEEP
        count = {}
        for name, one in all_of_them.items():
            # Memory for every result: an allocation in a sample would make the host wait.
            one.run(one.rotation.take(one.rotation.buffers))
            torch.cuda.synchronize()
            # Nobody takes more than 50 ms a round.
            count[name] = max(2, min(launches, int(50_000 / self.sample(one, 2))))
        samples: dict[str, list[float]] = {name: [] for name in all_of_them}
        for number in range(rounds + 1):
            for name in random.sample(list(all_of_them), len(all_of_them)):
                sample = self.sample(all_of_them[name], count[name])
                if number:
                    samples[name].append(sample)
        return samples


def vector_kernel(copies: bool, loads: int) -> str:
    """Reads, or copies, chunks of `loads` vectors of 16 bytes a thread; CTAs take them in turn."""
    vectors = [f"{{v{4 * i}, v{4 * i + 1}, v{4 * i + 2}, v{4 * i + 3}}}" for i in range(loads)]
    registers, step = 4 * loads, THREADS * 16
    lines = [f"ld.global.nc.L1::no_allocate.v4.b32 {vector}, [from+{i * step}];" for i, vector in enumerate(vectors)]
    if copies:
        lines += ["add.u64 to, offset, target;"]
        lines += [f"st.global.v4.b32 [to+{i * step}], {vector};" for i, vector in enumerate(vectors)]
    else:
        lines += [f"xor.b32 folded, folded, v{i};" for i in range(registers)]
    # What is read is used, or an assembler may drop the loads: the store is next to never taken.
    last = "" if copies else "setp.eq.u32 p, folded, 123456789;\n@p st.global.u32 [source], folded;"
    body = "\n".join(lines)
    return f"""{HEADER}
.visible .entry k(.param .u64 source_, .param .u64 target_, .param .u32 chunks_) {{
.reg .pred p;
.reg .u32 chunk, chunks, ctas, thread, folded;
.reg .b32 v<{registers}>;
.reg .u64 source, target, within, offset, from, to;
ld.param.u64 source, [source_];
ld.param.u64 target, [target_];
ld.param.u32 chunks, [chunks_];
mov.u32 chunk, %ctaid.x;
mov.u32 ctas, %nctaid.x;
mov.u32 thread, %tid.x;
mov.u32 folded, 0;
mul.wide.u32 within, thread, 16;
LOOP:
setp.ge.u32 p, chunk, chunks;
@p bra END;
mul.wide.u32 offset, chunk, {loads * step};
add.u64 offset, offset, within;
add.u64 from, offset, source;
{body}
add.u32 chunk, chunk, ctas;
bra LOOP;
END:
{last}
ret;
}}
"""


HEADER = ".version 8.3\n.target sm_90a\n.address_size 64"
EMPTY = f"{HEADER}\n.visible .entry k(.param .u64 source_, .param .u64 target_, .param .u32 chunks_) {{\nret;\n}}\n"


class Floor:
    """Kernels that read or copy some bytes, and the memory for that."""

    def __init__(self) -> None:
        # The context has to be there before the driver is asked for anything.
        self.source, self.target = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.modules: list[c_void_p] = []
        loads = {size: size // (16 * THREADS) for size in (CHUNK, SMALL_CHUNK)}
        self.kernels = {
            (copies, size): self.kernel(vector_kernel(copies, loads[size]))
            for copies in (False, True)
            for size in loads
        }
        self.nothing = self.kernel(EMPTY)

    def kernel(self, text: str) -> c_void_p:
        module, function = c_void_p(), c_void_p()
        checked(self.driver.cuModuleLoadData(byref(module), text.encode()), "the floor's kernel is not loaded")
        checked(self.driver.cuModuleGetFunction(byref(function), module, b"k"), "the floor's kernel is not found")
        self.modules.append(module)
        return function

    def launcher(self, function: c_void_p, source: int, target: int, chunks: int, ctas: int) -> Callable[[], None]:
        values = (c_uint64(source), c_uint64(target), c_uint32(chunks))
        pointers = (c_void_p * 3)(*(addressof(one) for one in values))

        def launch() -> None:
            stream = c_void_p(torch.cuda.current_stream().cuda_stream)
            status = self.driver.cuLaunchKernel(function, ctas, 1, 1, THREADS, 1, 1, 0, stream, pointers, None)
            checked(status, "the floor's kernel is not launched")

        launch.values = values  # type: ignore[attr-defined]  # the pointers are to them
        return launch

    def memory(self, span: int, copies: bool) -> None:
        """Random bytes for some cold spans, and as many to write to."""
        # Room for the buffers of every smaller span, too: pointers into it stay good.
        elements = (span + CHUNK + max(COLD, span + CHUNK)) // 4
        if self.source.numel() < elements:
            self.source = torch.empty(0, device="cuda")
            self.source = torch.randint(0, 1 << 31, (elements,), dtype=torch.int32, device="cuda")
        if copies and self.target.numel() < elements:
            self.target = torch.empty(0, device="cuda")
            self.target = torch.empty(elements, dtype=torch.int32, device="cuda")

    def competitors(self, moved: int, copies: bool) -> dict[str, Competitor]:
        """The ways to move so many bytes."""
        ways = {"vectors": self.competitor(moved, copies)}
        return ways | {"driver": self.driver_copy(moved)} if copies else ways

    def driver_copy(self, moved: int) -> Competitor:
        """The driver copies half of so many bytes."""
        elements = moved // 8
        self.memory(4 * elements, True)
        pairs = [
            (self.target[one * elements : (one + 1) * elements], self.source[one * elements : (one + 1) * elements])
            for one in range(buffers_of(4 * elements))
        ]
        return Competitor(lambda one: pairs[one][0].copy_(pairs[one][1]), Rotation(len(pairs)))

    def competitor(self, moved: int, copies: bool) -> Competitor:
        """A launch that reads so many bytes, or reads and writes half of them each; to the nearest chunk."""
        each = moved // 2 if copies else moved
        chunk = CHUNK if each >= LARGE else SMALL_CHUNK
        chunks = max(1, round(each / chunk))
        span = chunks * chunk
        self.memory(span, copies)
        ctas = min(chunks, self.sms * CTAS_PER_SM)
        source, target = self.source.data_ptr(), self.target.data_ptr()
        launchers = [
            self.launcher(self.kernels[copies, chunk], source + one * span, target + one * span, chunks, ctas)
            for one in range(buffers_of(span))
        ]
        return Competitor(lambda one: launchers[one](), Rotation(len(launchers)))

    def empty(self) -> Competitor:
        launch = self.launcher(self.nothing, 0, 0, 0, self.sms)
        return Competitor(lambda _: launch(), Rotation(1))

    def warm_up(self, seconds: float = 1.0) -> None:
        """Until the clock has settled."""
        reading = self.competitor(64 << 20, False)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            reading.run(reading.rotation.take(200))
            torch.cuda.synchronize()


def checked(status: int, what: str) -> None:
    if status:
        raise RuntimeError(f"{what}: CUDA error {status}")
