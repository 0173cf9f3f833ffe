"""Postlude from Python on a GPU: results, what a call costs the host, training, and speed beside torch.compile.

`cargo xtask gpu` packs it with the package. `python3 python.py FOLDER [PART...]` writes FOLDER/python.json; the parts are
library, judge, training, host and speed. Exit code 1 if something is wrong; figures are never judged here.
"""

import json
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "python"))

import torch  # noqa: E402

BEFORE = time.perf_counter()
import postlude  # noqa: E402

IMPORT = time.perf_counter() - BEFORE
SIZES = {"L": 3, "B": 2, "G": 2, "H": 3, "M": 384, "N": 768, "K": 192, "D": 128}


def library(report, device="cuda"):
    """Every kernel of the library with 16-bit operands, compared with the reference element by element."""
    import judge as judging

    wrong, refused, right = [], [], []
    for name in dir(postlude.kernels):
        kernel = getattr(postlude.kernels, name)
        if any(dtype not in ("bf16", "f16") for dtype in judging.operand_dtypes(kernel)):
            continue
        arguments = judging.arguments(kernel, SIZES, device, seed=len(name))
        try:
            kernel.check(*arguments)
            right.append(name)
        except postlude.RefusedError as error:
            refused.append(f"{name}: {str(error).splitlines()[0]}")
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    report["library"] = {"right": len(right), "refused": refused, "wrong": wrong}
    return not wrong


def judge(report):
    """The same kernels beside PyTorch in f64: our results near it, and its results within our contract."""
    import judge as judging

    found = judging.library("cuda")
    judging.summary(found)
    outputs = [one for outputs in found["kernels"].values() for one in outputs]
    report["judge"] = {
        "right": len(found["kernels"]) - len({one.partition(":")[0] for one in found["wrong"]}),
        "worst": max((one["worst"] for one in outputs if not one["jumps"]), default=None),
        **found,
    }
    return not found["wrong"] and bool(found["kernels"])


def training(report):
    """Two models beside eager PyTorch, compiled and as CUDA graphs."""
    import training as trained

    report["training"] = trained.run("cuda", trained.FULL)
    return not report["training"]["wrong"]


def per_call(call, count=400, rounds=15):
    """The median over rounds of the host's time for a call, in microseconds; the GPU is never waited for inside."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def host(report):
    """What a warm call costs the host, and the first use in a process."""
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    A, W, bias = torch.randn(128, 64, **bf16), torch.randn(128, 64, **bf16), torch.randn(128, device="cuda")
    out = torch.empty(128, 128, **bf16)
    torch.cuda.synchronize()
    start = time.perf_counter()
    kernel = postlude.compile("D = relu(A @ W.T + bias[N])")
    kernel(A, W, bias, out=out)
    torch.cuda.synchronize()
    first = time.perf_counter() - start
    loss = postlude.compile("D = relu(A @ W.T + bias[N]); total = sum(D)")
    total = torch.empty((), device="cuda")

    @torch.library.custom_op("probe::empty", mutates_args=("out",))
    def empty(a: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> None:
        return None

    figures = {
        "import_ms": IMPORT * 1e3,
        "first_use_s": first,
        "warm_out_us": per_call(lambda: kernel(A, W, bias, out=out)),
        "warm_out_native_us": per_call(lambda: kernel._native(A, W, bias, out=out)),
        "warm_out_with_workspace_us": per_call(lambda: loss(A, W, bias, out=(out, total))),
        "warm_allocating_us": per_call(lambda: kernel(A, W, bias)),
        "empty_custom_operator_us": per_call(lambda: empty(A, W, bias, out)),
        "torch_linear_us": per_call(lambda: torch.nn.functional.linear(A, W)),
    }
    try:
        from postlude import _torch

        figures["operator_out_us"] = per_call(lambda: _torch.call(kernel, (A, W, bias), {}, out))
        figures["operator_us"] = per_call(lambda: _torch.call(kernel, (A, W, bias), {}, None))
    except Exception as error:  # noqa: BLE001
        figures["operator"] = f"{type(error).__name__}: {error}"
    report["host"] = figures
    return True


def interleaved(calls, rounds=25, repeat=10):
    """Milliseconds of each call on the GPU, medians of interleaved rounds."""
    for call in calls.values():
        for _ in range(5):
            call()
    torch.cuda.synchronize()
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(repeat):
                call()
            events[1].record()
            torch.cuda.synchronize()
            times[name].append(events[0].elapsed_time(events[1]) / repeat)
    return {name: statistics.median(all_) for name, all_ in times.items()}


def speed(report):
    """GPU time beside torch.compile with max-autotune."""
    bf16 = dict(device="cuda", dtype=torch.bfloat16)
    tuned = lambda f: torch.compile(f, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)  # noqa: E731
    rows = {}
    m, n, k = 8192, 8192, 1024
    A, W = torch.randn(m, k, **bf16) * 0.05, torch.randn(n, k, **bf16) * 0.05
    bias = torch.randn(n, device="cuda")
    y = (torch.rand(m, n, device="cuda") < 0.5).to(torch.bfloat16)
    ours = {name: getattr(postlude.kernels, name) for name in ("bce_loss", "bce_loss_gradient", "swiglu")}
    report["signatures"] = {name: kernel.text for name, kernel in ours.items()}

    def arguments(kernel, known):
        return [known[name] for name in kernel.inputs]

    def bce(a, w, b, t):
        z = (torch.nn.functional.linear(a, w)).float() + b
        return torch.nn.functional.binary_cross_entropy_with_logits(z, t.float(), reduction="mean")

    def bce_gradient(a, w, b, t):
        z = (torch.nn.functional.linear(a, w)).float() + b
        loss = torch.nn.functional.binary_cross_entropy_with_logits(z, t.float(), reduction="mean")
        gradient = (torch.sigmoid(z) - t.float()) * (1 / z.numel())
        return loss, gradient.to(torch.bfloat16), gradient.sum(0)

    known = {"A": A, "W": W, "bias": bias, "Y": y, "y": y, "T": y, "target": y, "s": 1 / (m * n)}
    try:
        mine = arguments(ours["bce_loss"], known)
        compiled = tuned(bce)
        compiled(A, W, bias, y)
        rows["bce_forward"] = interleaved({"postlude": lambda: ours["bce_loss"](*mine), "torch": lambda: compiled(A, W, bias, y)})
        mine2 = arguments(ours["bce_loss_gradient"], known)
        compiled2 = tuned(bce_gradient)
        compiled2(A, W, bias, y)
        rows["bce_forward_gradient"] = interleaved(
            {"postlude": lambda: ours["bce_loss_gradient"](*mine2), "torch": lambda: compiled2(A, W, bias, y)}
        )
    except Exception as error:  # noqa: BLE001
        rows["bce"] = f"{type(error).__name__}: {error}"
    del y
    x, w1 = torch.randn(8192, 4096, **bf16) * 0.05, torch.randn(28672, 4096, **bf16) * 0.05

    def swiglu(x, w):
        gate, up = torch.nn.functional.linear(x, w).chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    compiled3 = tuned(swiglu)
    compiled3(x, w1)
    rows["swiglu"] = interleaved({"postlude": lambda: ours["swiglu"](x, w1), "torch": lambda: compiled3(x, w1)}, repeat=5)
    for row in rows.values():
        if isinstance(row, dict):
            row["ratio"] = row["torch"] / row["postlude"]
    report["speed"] = rows
    return True


PARTS = {"library": library, "judge": judge, "training": training, "host": host, "speed": speed}


def main():
    folder, *parts = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    os.environ.setdefault("POSTLUDE_CACHE_DIR", os.path.join(folder, "cache"))
    report = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "postlude": postlude.__version__}
    fine = True
    for part in parts or PARTS:
        start = time.perf_counter()
        try:
            fine &= PARTS[part](report)
        except Exception as error:  # noqa: BLE001
            import traceback

            traceback.print_exc()
            report[part] = f"{type(error).__name__}: {error}"
            fine = False
        report[f"{part}_seconds"] = time.perf_counter() - start
        with open(os.path.join(folder, "python.json"), "w") as file:
            json.dump(report, file, indent=1)
    print(json.dumps(report, indent=1))
    return 0 if fine and not math.isnan(IMPORT) else 1


if __name__ == "__main__":
    sys.exit(main())
