#!/usr/bin/env python3
"""PyTorch beside Postlude, in the same process, on the same memory, in the same rounds.

    peers.py --warm [--seconds 500] [FILTER]     compile every row's peer, time nothing
    peers.py [--json FILE] [--seconds 500] [FILTER]
    peers.py --dry                               every chain on the processor, at small sizes

The library `libpostlude_peers.so` draws the data, checks our kernels, and times everyone; this file prepares the peers of
a row and queues them when it is told to. Two of them: `eager`, the chain that a PyTorch user writes, and `torch.compile`
of the same chain with max-autotune-no-cudagraphs. Both are replayed from CUDA graphs, so that Python costs nothing.

TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR say where compiled chains are kept: tune with --warm, then time with the same
folders. POSTLUDE_PEERS names the library, where it is not beside this file.
"""

import argparse
import ctypes
import gc
import json
import math
import os
import sys
import time

import torch
import torch.nn.functional as F

VERSION = 1
NAMES = ["eager", "torch.compile"]
MODE = "max-autotune-no-cudagraphs"
WARM_UPS = 3

# What a tensor of each dtype is wrapped as, and viewed as then: the interface has no name for bf16 or fp8.
WRAPPED = {
    "f32": ("<f4", torch.float32),
    "f16": ("<f2", torch.float16),
    "bf16": ("<i2", torch.bfloat16),
    "f8e4m3": ("|u1", torch.float8_e4m3fn),
    "i32": ("<i4", torch.int32),
}
# How far a peer may be from ours, as the norm of the difference over the norm of ours. Peers round the product, and what
# they make of it, to 16 bits on the way: a few times 2^-9 for bf16 and 2^-11 for f16. Results in fp8 fall on the other
# side of a rounding once in a while, which moves them by an eighth. One tile of 2048 that is wrong is more than this.
TOLERANCE = {"bf16": 1e-2, "f16": 5e-3, "f8e4m3": 4e-2}


# The chains. Each takes tensors and scalars by name, and gives the row's outputs in their order. Work is done in place
# where a tensor is the chain's own: that is never slower.


def lincomb_bias_relu(x):
    return [torch.addmm(x["C"], x["A"], x["W"].t(), beta=x["beta"], alpha=x["alpha"]).add_(x["bias"]).relu_()]


def gelu_aux(form):
    def chain(x):
        z = F.linear(x["A"], x["W"], x["bias"])
        return [z, F.gelu(z, approximate=form)]

    return chain


def gelu_gradient(form):
    def chain(x):
        d = torch.ops.aten.gelu_backward(F.linear(x["A"], x["W"]), x["Z"], approximate=form)
        return [d, d.sum(0, dtype=torch.float32)]

    return chain


def gelu(form):
    def chain(x):
        return [F.gelu(F.linear(x["A"], x["W"], x["bias"]), approximate=form)]

    return chain


def bce_loss(x):
    # A sum in f16 would overflow; summing in f32 costs no pass more.
    z = F.linear(x["A"], x["W"], x["bias"])
    return [F.binary_cross_entropy_with_logits(z, x["y"], reduction="none").sum(dtype=torch.float32)]


def bce_gradient(x):
    d = F.linear(x["A"], x["W"], x["bias"]).sigmoid_().sub_(x["y"]).mul_(x["s"])
    return [d, d.sum(0, dtype=torch.float32)]


def swiglu(x):
    gate, up = F.linear(x["A"], x["W"]).chunk(2, dim=-1)
    return [F.silu(gate) * up]


def residual_statistic(x):
    y = torch.addmm(x["C"], x["A"], x["W"].t())
    return [y, y * x["gamma"], (y.float() ** 2).sum(-1)]


def fp8_amax(x):
    g = F.gelu(F.linear(x["A"], x["W"], x["bias"]), approximate="tanh")
    return [(x["scale"] * g).to(torch.float8_e4m3fn), g.abs().max().float()]


def head_statistics(x):
    logits = F.linear(x["A"], x["W"])
    picked = logits.gather(1, x["target"].unsqueeze(1)).squeeze(1)
    return [torch.logsumexp(logits.float(), -1), picked.float()]


# By the kernel's name, which stands in the source that a row comes with.
CHAINS = {
    "lincomb_bias_relu": lincomb_bias_relu,
    "linear_gelu_aux": gelu_aux("none"),
    "linear_gelu_tanh_aux": gelu_aux("tanh"),
    "gelu_backward_bias": gelu_gradient("none"),
    "gelu_tanh_backward_bias": gelu_gradient("tanh"),
    "linear_gelu": gelu("none"),
    "linear_gelu_tanh": gelu("tanh"),
    "bce_loss": bce_loss,
    "bce_gradient": bce_gradient,
    "swiglu": swiglu,
    "residual_rms_statistic": residual_statistic,
    "gelu_tanh_fp8_amax": fp8_amax,
    "lm_head_statistics": head_statistics,
}


def chain_of(asked):
    name = asked["source"].removeprefix("kernel ").split("(")[0].strip()
    if name not in CHAINS:
        raise LookupError(f"there is no chain for `{name}`")
    return CHAINS[name]


def natural(asked, tensors):
    """Tensors as a PyTorch user has them: vectors in the tiles' dtype, indices of 64 bits. This is not timed."""
    tile = WRAPPED[asked["dtype"]][1]
    kept = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int32:
            tensor = tensor.long()
        elif tensor.dim() == 1 and tensor.dtype == torch.float32:
            tensor = tensor.to(tile)
        kept[name] = tensor
    return kept | asked["scalars"]


def compiled(chain):
    return torch.compile(chain, mode=MODE, dynamic=False, fullgraph=True)


class Memory:
    """Memory of another library, which stays its own."""

    def __init__(self, address, shape, typestr):
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "typestr": typestr,
            "strides": None,
        }


def wrap(tensor, of_set):
    """A tensor of the library in a set."""
    typestr, dtype = WRAPPED[tensor["dtype"]]
    address = tensor["addresses"][of_set]
    shape = tensor["shape"]
    try:
        # A tensor without dims is wrapped as one with one element.
        flat = torch.as_tensor(Memory(address, shape or [1], typestr), device="cuda")
        wrapped = flat.view(dtype).reshape(shape)
    except RuntimeError:
        # PyTorch reads that interface with NumPy, which need not be there.
        empty = torch.empty(0, dtype=dtype, device="cuda")
        count = math.prod(shape)
        bytes_ = count * empty.element_size()
        storage = torch._C._construct_storage_from_data_pointer(address, empty.device, bytes_)
        wrapped = empty.set_(storage, 0, (count,), (1,)).reshape(shape)
    if wrapped.data_ptr() != address:
        raise RuntimeError(f"`{tensor['name']}` was copied")
    return wrapped


def distance(got, wanted):
    """The norm of the difference over the norm of what is wanted, in pieces; nan if anything is not a number."""
    if got.shape != wanted.shape:
        raise ValueError(f"{tuple(got.shape)} elements, not {tuple(wanted.shape)}")
    difference, size = 0.0, 0.0
    pieces = zip(got.reshape(-1).split(1 << 26), wanted.reshape(-1).split(1 << 26))
    for one, other in pieces:
        one, other = one.float(), other.float()
        difference += (one - other).double().square().sum().item()
        size += other.double().square().sum().item()
    return (difference / size) ** 0.5 if size > 0 else float("nan")


def compare(asked, results, wanted):
    """The distance of every output; an error names the first that is too far."""
    if len(results) != len(asked["outputs"]):
        raise ValueError(f"{len(results)} results, not {len(asked['outputs'])}")
    errors = {}
    for output, got in zip(asked["outputs"], results):
        name, ours = output["name"], wanted[output["name"]]
        if got.dtype != ours.dtype:
            raise ValueError(f"`{name}` is {got.dtype}, not {ours.dtype}")
        errors[name] = distance(got, ours)
        bound = TOLERANCE.get(output["dtype"], TOLERANCE[asked["dtype"]])
        # What is not a number is not below anything.
        if not errors[name] <= bound:
            raise ValueError(f"`{name}` differs from ours by {errors[name]:.2e}, more than {bound:.0e}")
    return errors


class Replays:
    """One peer of a row: a graph for each set of buffers."""

    def __init__(self, run, sets):
        side = torch.cuda.Stream()
        pool = torch.cuda.graph_pool_handle()
        self.graphs, self.results = [], []
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                for arguments in sets:
                    run(arguments)
        torch.cuda.synchronize()
        for arguments in sets:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=side):
                self.results.append(run(arguments))
            self.graphs.append(graph)
        for graph in self.graphs:
            graph.replay()
        torch.cuda.synchronize()


class Peers:
    """What the library calls."""

    def __init__(self, names):
        self.names = names
        self.replays = {}
        self.stream = None

    def prepare(self, asked):
        chain = chain_of(asked)
        sets = []
        for of_set in range(asked["sets"]):
            inputs = {tensor["name"]: wrap(tensor, of_set) for tensor in asked["inputs"]}
            sets.append(natural(asked, inputs))
        wanted = {tensor["name"]: wrap(tensor, 0) for tensor in asked["outputs"]}
        torch._dynamo.reset()
        answers = []
        for number, name in enumerate(self.names):
            answer = {"name": name, "absent": None, "errors": {}}
            start = time.monotonic()
            try:
                run = chain if name == "eager" else compiled(chain)
                # Before anything is captured: a chain that is wrong has no business in a graph.
                answer["errors"] = compare(asked, run(sets[0]), wanted)
                self.replays[number] = Replays(run, sets)
                compare(asked, self.replays[number].results[0], wanted)
            except Exception as error:
                answer["absent"] = short(error)
                self.replays.pop(number, None)
                torch.cuda.synchronize()
            say(f"    {name}: {answer['absent'] or 'ready'} ({time.monotonic() - start:.1f} s)")
            answers.append(answer)
        del sets, wanted
        torch.cuda.synchronize()
        return {"peers": answers}

    def launch(self, peer, of_set, stream):
        if stream != self.stream:
            torch.cuda.set_stream(torch.cuda.ExternalStream(stream))
            self.stream = stream
        graphs = self.replays[peer].graphs
        graphs[of_set % len(graphs)].replay()

    def release(self):
        self.replays.clear()
        if self.stream is not None:
            torch.cuda.set_stream(torch.cuda.default_stream())
            self.stream = None
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()


def short(error):
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


def say(line):
    print(line, flush=True)


class Callbacks(ctypes.Structure):
    PREPARE = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    LAUNCH = ctypes.CFUNCTYPE(
        ctypes.c_size_t, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t
    )
    RELEASE = ctypes.CFUNCTYPE(None)
    TELL = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
    _fields_ = [("prepare", PREPARE), ("launch", LAUNCH), ("release", RELEASE), ("tell", TELL)]


def fill(answer, capacity, text):
    """Writes text that fits; its length."""
    data = text.encode()[:capacity]
    ctypes.memmove(answer, data, len(data))
    return len(data)


def callbacks(peers):
    """The peers as C functions, from which nothing is ever raised."""

    def prepare(asked, answer, capacity):
        try:
            text = json.dumps(peers.prepare(json.loads(asked)))
        except Exception as error:
            text = json.dumps({"error": short(error)})
        return fill(answer, capacity, text)

    def launch(peer, of_set, stream, message, capacity):
        try:
            peers.launch(peer, of_set, stream)
            return 0
        except Exception as error:
            return fill(message, capacity, short(error))

    def release():
        try:
            peers.release()
        except Exception as error:
            say(f"release: {short(error)}")

    def tell(line):
        say(line.decode(errors="replace"))

    return Callbacks(
        Callbacks.PREPARE(prepare), Callbacks.LAUNCH(launch), Callbacks.RELEASE(release), Callbacks.TELL(tell)
    )


class Library:
    """The library of the yardstick."""

    def __init__(self):
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.environ.get("POSTLUDE_PEERS", os.path.join(here, "libpostlude_peers.so"))
        self.library = ctypes.CDLL(path)
        self.library.postlude_peers_version.restype = ctypes.c_uint32
        if self.library.postlude_peers_version() != VERSION:
            sys.exit(f"{path} is of another version than this file")
        rows = self.library.postlude_peers_rows
        rows.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
        rows.restype = ctypes.c_size_t
        measure = self.library.postlude_peers_measure
        measure.argtypes = [ctypes.c_char_p, ctypes.POINTER(Callbacks)]
        measure.restype = ctypes.c_int

    def rows(self, request):
        text = json.dumps(request).encode()
        length = self.library.postlude_peers_rows(text, None, 0)
        answer = ctypes.create_string_buffer(length + 1)
        self.library.postlude_peers_rows(text, answer, length)
        if length == 0:
            sys.exit("no such rows")
        return json.loads(answer.raw[:length])

    def measure(self, request, functions):
        return self.library.postlude_peers_measure(json.dumps(request).encode(), ctypes.byref(functions))


def drawn(asked, device, shrink=1):
    """Inputs of a row, drawn by PyTorch; every size divided for a trial without a GPU."""
    columns = asked["sizes"][1] // shrink
    tensors = {}
    for tensor in asked["inputs"]:
        dtype, shape = WRAPPED[tensor["dtype"]][1], [size // shrink for size in tensor["shape"]]
        if dtype == torch.int32:
            tensors[tensor["name"]] = torch.randint(columns, shape, dtype=dtype, device=device)
        else:
            tensors[tensor["name"]] = torch.randn(shape, device=device).to(dtype)
    return natural(asked, tensors)


def warm(rows, seconds):
    """Compiles the chain of every row, so that a later run finds it in the cache."""
    start, left = time.monotonic(), []
    for asked in rows:
        if seconds is not None and time.monotonic() - start >= seconds:
            left.append(asked["row"])
            continue
        began = time.monotonic()
        try:
            torch._dynamo.reset()
            arguments = drawn(asked, "cuda")
            compiled(chain_of(asked))(arguments)
            torch.cuda.synchronize()
            outcome = "compiled"
            del arguments
        except Exception as error:
            outcome = short(error)
        gc.collect()
        torch.cuda.empty_cache()
        say(f"{asked['row']}: {outcome} ({time.monotonic() - began:.1f} s)")
    if left:
        say(f"no time for {' '.join(left)}")
    return 0


def dry(rows):
    """Runs every chain on the processor at small sizes and checks what it gives against its signature."""
    shrink = 64
    for asked in rows:
        results = chain_of(asked)(drawn(asked, "cpu", shrink))
        shapes = [[size // shrink for size in output["shape"]] for output in asked["outputs"]]
        dtypes = [WRAPPED[output["dtype"]][1] for output in asked["outputs"]]
        assert [list(result.shape) for result in results] == shapes, asked["row"]
        assert [result.dtype for result in results] == dtypes, asked["row"]
        same = {output["name"]: result for output, result in zip(asked["outputs"], results)}
        errors = compare(asked, results, same)
        assert all(error == 0 for error in errors.values()), (asked["row"], errors)
        say(f"{asked['row']}: {shapes}")
    return 0


def runtime():
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = "none"
    return f"PyTorch {torch.__version__}, Triton {triton_version}, CUDA {torch.version.cuda}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="", help="only rows whose names contain this")
    parser.add_argument("--suite", default="epilogues", help="the suite")
    parser.add_argument("--warm", action="store_true", help="compile, and time nothing")
    parser.add_argument("--dry", action="store_true", help="run the chains on the processor")
    parser.add_argument("--only", action="append", choices=NAMES, help="this peer alone; may be repeated")
    parser.add_argument("--json", help="where the report goes")
    parser.add_argument("--seconds", type=int, help="begin no row after so many seconds")
    parser.add_argument("--rounds", type=int, help="at most so many rounds a row")
    parser.add_argument("--no-cublaslt", action="store_true", help="leave cuBLASLt out")
    arguments = parser.parse_args()
    library = Library()
    request = {"suites": [arguments.suite], "filter": arguments.filter}
    if arguments.dry or arguments.warm:
        rows = library.rows(request)
        return dry(rows) if arguments.dry else warm(rows, arguments.seconds)
    # The context of the process is made before the library asks for it.
    torch.cuda.init()
    torch.cuda.current_stream().synchronize()
    request |= {
        "seconds": arguments.seconds,
        "cublaslt": not arguments.no_cublaslt,
        "json": os.path.abspath(arguments.json) if arguments.json else None,
        "runtime": runtime(),
    }
    if arguments.rounds:
        request["rounds"] = arguments.rounds
    # The functions are kept as long as they are called.
    functions = callbacks(Peers(arguments.only or NAMES))
    return library.measure(request, functions)


if __name__ == "__main__":
    sys.exit(main())
