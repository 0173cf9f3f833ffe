"""Kernels of the library judged by PyTorch in f64 (`float64.py`), in both directions.

`direct`: |ours - f64| of every element is at most half a step of the output's dtype, for its one rounding, plus twice the
f32 term. The f32 term of an element is a sum over the operations of the kernel: how far the f64 result moves at most when
this operation alone is off, up in all elements, down in all, or with random signs. A product is off by
K * 2^-23 * (|A| @ |B|), a sum of n terms by min(n, 4096) * 2^-24 * sum|x|, and another operation by 2^-20 of its result and
what docs/numerics.md states beyond that.
Where a comparison or a cast inside of the kernel makes an output jump, half a step is a whole one, and one element in
10,000 may be farther off (none of fewer than 10,000). Truth values have no step: that many may differ where no
evaluation differs.

`contract`: Postlude's own reference accepts the f64 result rounded to the output's dtype, every element of it. The contract's
arithmetic is f32: where a product is exact (of integers, or hidden by a relu) it allows one result, and an f64 value beside
a tie of a narrower dtype may be rounded to the other neighbour. Where something is refused, elements whose rounding is
decided by less than the body's f32 arithmetic (2^-23 an operation) are taken from ours, and the rest is asked again.

`python3 judge.py FOLDER` judges every kernel with 16-bit operands on a GPU, `--cpu` every kernel on the CPU, and writes
FOLDER/judge.json. Exit code 1 if an output is wrong.
"""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "python")]

import torch  # noqa: E402
from float64 import Noise, evaluate, products  # noqa: E402
from rounding import DTYPES, PER_BYTE, read, step, store  # noqa: E402
from text_parser import parse  # noqa: E402

SIZES = {"L": 2, "B": 2, "G": 2, "H": 3, "M": 256, "N": 384, "K": 136, "D": 128, "Q": 128, "KV": 128}
SMALL = {"L": 2, "B": 2, "G": 2, "H": 3, "M": 12, "N": 384, "K": 40, "D": 16, "Q": 128, "KV": 128}
SIGNS = (1, -1, 0)
#: Host scalars by name; all others are 0.75.
SCALARS = {"eps": 1e-5, "delta": 0.5, "cap": 20.0}


def size(dim, sizes):
    name, _, divisor = dim.partition("/")
    return (int(name) if name.isdigit() else sizes[name]) // int(divisor or 1)


def operand_dtypes(kernel):
    """The dtypes of what is multiplied."""
    program = parse(kernel.text)
    declared = {one.name: one.dtype for one in [*program.inputs, *(one for one, _ in program.second)]}
    found = next(found for _, tree in program.statements for found in products(tree))
    return [declared[leaf(one)] for one in found]


def leaf(tree):
    return leaf(tree[1]) if tree[0] == "transpose" else tree[1]


def random_input(name, dtype, dims, sizes, generator):
    """Elements near 1 in magnitude; products stay within the range where f64 evaluates naive forms well."""
    if dims is None:
        return SCALARS.get(name, 0.75) if dtype == "f32" else 2
    device, shape = generator.device, [size(dim, sizes) for dim in dims]
    shape[-1:] = [last // PER_BYTE.get(dtype, 1) for last in shape[-1:]]
    if dtype in (*PER_BYTE, "u8", "i8", "i32", "bool"):
        ends = {"i8": (-128, 128), "i32": (0, sizes["N"] if name in ("target", "token") else 9), "bool": (0, 2)}.get(dtype, (0, 256))
        return torch.randint(*ends, shape, generator=generator, device=device).to(DTYPES[dtype])
    if "scale" in name or "norm" in name or name in ("rms", "deviation", "frequency"):
        values = 0.5 + torch.rand(shape, generator=generator, device=device)
    elif name in ("y", "noise"):
        values = torch.rand(shape, generator=generator, device=device)
    else:
        values = torch.randn(shape, generator=generator, device=device)
        if len(shape) > 1:
            values *= 0.5
    return values.to(DTYPES[dtype])


def arguments(kernel, sizes, device, seed=0):
    generator = torch.Generator(device).manual_seed(seed)
    _, inputs, _ = kernel._native.signature
    if "M, 128" in kernel.text or "M/128" in kernel.text:
        sizes = {**sizes, "M": max(128, sizes["M"] // 128 * 128)}
    return [random_input(name, dtype, dims, sizes, generator) for name, dtype, dims in inputs]


def terms(text, given, judged, **amount):
    """How far each output moves, at most, by what each operation may be off."""
    device = next(one.device for one in given if isinstance(one, torch.Tensor))
    found = {name: torch.zeros_like(one.value.double()) for name, one in judged.items()}
    place, places = 0, 1
    while place < places:
        largest = {name: torch.zeros_like(one) for name, one in found.items()}
        for sign in SIGNS:
            noise = Noise(place, sign, device, **amount)
            for name, one in evaluate(text, given, noise).items():
                change = (one.value.double() - judged[name].value.double()).abs()
                largest[name] = torch.maximum(largest[name], torch.nan_to_num(change, nan=0.0, posinf=0.0))
            places = noise.places
        for name, one in largest.items():
            found[name] += one
        place += 1
    return found


def direct(text, given, judged, ours, outputs):
    """How many elements of each output are farther from f64 than allowed, and the largest share of what is allowed."""
    moved, found = terms(text, given, judged), []
    for (name, dtype, _), mine in zip(outputs, ours, strict=True):
        expected, term = judged[name], moved[name]
        value, mine, rounded = expected.value.double(), read(mine, dtype).double(), read(expected.rounded, dtype).double()
        allowed = step(torch.maximum(value.abs(), mine.abs()), dtype) * (1.0 if expected.jumps else 0.5) + 2 * term
        error = (mine - value).abs()
        same = (mine == rounded) | (mine.isnan() & rounded.isnan())
        beyond = ~same & ~(error <= allowed)
        share = torch.where(same | (allowed == 0), 0.0, error / allowed).nan_to_num(nan=torch.inf, posinf=torch.inf)
        found.append(
            {
                "output": name,
                "elements": value.numel(),
                "jumps": expected.jumps,
                "beyond": int(beyond.sum()),
                "allowed_beyond": value.numel() // 10_000 if expected.jumps else 0,
                "worst": round(float(share.max()), 4) if value.numel() else 0.0,
                "nan": int(value.isnan().sum()),
                "largest": float(value.abs().nan_to_num(nan=0.0, posinf=0.0).max()) if value.numel() else 0.0,
            }
        )
    return found


def beside_ties(text, given, judged, ours, outputs):
    """The f64 results rounded, with ours where f32 arithmetic decides how to round and ours is one of both neighbours."""
    moved, results, taken = terms(text, given, judged, product=0.0, operation=2.0**-23), [], 0
    for (name, dtype, _), mine in zip(outputs, ours, strict=True):
        rounded = judged[name].rounded
        if dtype in ("bf16", "f16", "f8e4m3", "f8e5m2", "f8e8m0", "i8", "u8"):
            below, above = (read(store(judged[name].value + side * moved[name], dtype), dtype) for side in (-1, 1))
            own = read(mine, dtype)
            undecided = (below != above) & ((own == below) | (own == above))
            taken += int(undecided.sum())
            rounded = store(torch.where(undecided, own, read(rounded, dtype)), dtype)
        results.append(rounded)
    return results, taken


def judge(kernel, given):
    """Both directions for one kernel and the arguments of a call: what was found, and what is wrong in words."""
    result = kernel(*given)
    ours = list(result) if isinstance(result, tuple) else [result]
    _, _, outputs = kernel._native.signature
    judged = evaluate(kernel.text, given)
    found = direct(kernel.text, given, judged, ours, outputs)
    wrong = [
        f"{one['output']}: {one['beyond']} of {one['elements']} elements are beyond the bound around f64"
        for one in found
        if one["beyond"] > one["allowed_beyond"]
    ]
    host = tuple(one.cpu() if isinstance(one, torch.Tensor) else one for one in given)
    compared = kernel._native.check(host, {}, [judged[name].rounded.cpu() for name, _, _ in outputs])
    for one, (_, elements, refused, worst) in zip(found, compared, strict=True):
        one["contract"] = {"elements": elements, "refused": refused, "worst": worst if refused == 0 else "beyond"}
    if any(refused for _, _, refused, _ in compared):
        results, taken = beside_ties(kernel.text, given, judged, ours, outputs)
        again = kernel._native.check(host, {}, [one.cpu() for one in results])
        for one, (name, elements, refused, _) in zip(found, again, strict=True):
            one["contract"].update(refused_but_for_ties=refused, beside_ties=taken)
            if refused:
                wrong.append(f"{name}: the contract refuses {refused} of {elements} elements of PyTorch's result")
    return found, wrong


def library(device, sizes=SIZES):
    """Every kernel of the library with 16-bit operands, on the CPU with any: what was found by name, and what is wrong."""
    import postlude

    kernels, wrong, refused = {}, [], []
    for name in dir(postlude.kernels):
        kernel = getattr(postlude.kernels, name)
        if device == "cuda" and any(dtype not in ("bf16", "f16") for dtype in operand_dtypes(kernel)):
            continue
        try:
            kernels[name], mistakes = judge(kernel, arguments(kernel, sizes, device, seed=len(name)))
            wrong += [f"{name}: {one}" for one in mistakes]
        except postlude.RefusedError as error:
            refused.append(f"{name}: {str(error).splitlines()[0]}")
        except Exception as error:  # noqa: BLE001
            wrong.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    return {"kernels": kernels, "wrong": wrong, "refused": refused, "sizes": sizes}


def summary(report):
    """A line for each output."""
    for name, outputs in report["kernels"].items():
        for one in outputs:
            contract = one["contract"]
            print(
                f"{name}.{one['output']}: {one['beyond']} of {one['elements']} beyond, worst {one['worst']:.3g};"
                f" contract refuses {contract['refused']} of {contract['elements']}, worst {contract['worst']}"
                f"{'; jumps' if one['jumps'] else ''}"
            )
    print(f"{len(report['kernels'])} kernels; refused: {report['refused'] or 'none'}; wrong: {report['wrong'] or 'none'}")


def main():
    folder, *flags = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    start = time.perf_counter()
    report = library("cpu", SMALL) if "--cpu" in flags else library("cuda")
    report["seconds"] = time.perf_counter() - start
    with open(os.path.join(folder, "judge.json"), "w") as file:
        json.dump(report, file, indent=1)
    summary(report)
    return 1 if report["wrong"] or not report["kernels"] else 0


if __name__ == "__main__":
    sys.exit(main())
