"""The NumPy and SciPy side of `cargo xtask bench cpu`: one case, timed as `postlude run --time` times."""

import json
import math
import sys
import time

import numpy
from scipy.special import erf


def product(m, n, k, draw):
    a, b, d = draw(m, k), draw(k, n), numpy.empty((m, n), numpy.float32)
    return lambda: numpy.matmul(a, b, out=d)


def gelu(m, n, k, draw):
    a, w, bias = draw(m, k), draw(n, k), draw(n)
    root = numpy.float32(math.sqrt(2))

    def call():
        x = a @ w.T + bias
        return 0.5 * x * (1 + erf(x / root))

    return call


def median_seconds(call):
    call()
    seconds = []
    start = time.perf_counter()
    while len(seconds) < 3 or time.perf_counter() - start < 1:
        before = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - before)
    return float(numpy.median(seconds))


def main():
    name, text = sys.argv[1:]
    sizes = dict(pair.split("=") for pair in text.split(","))
    m, n, k = (int(sizes[dim]) for dim in "MNK")
    generator = numpy.random.default_rng(0)
    draw = lambda *shape: generator.standard_normal(shape, numpy.float32)
    call = {"product": product, "gelu": gelu}[name](m, n, k, draw)
    result = call()
    assert result.dtype == numpy.float32 and result.shape == (m, n)
    print(json.dumps({"case": name, "seconds": median_seconds(call)}))


main()
