"""The text language evaluated by PyTorch in f64: a judge of results that shares no code and no formula with Postlude.

In: a kernel's text with its signature, and the arguments of a call. Out: every output in f64, and rounded to its dtype.
A kernel is evaluated as written; functions are PyTorch's own functionals, derivatives come from its autograd. Numbers of
the text and of the host are f32, as in the language, and all arithmetic on them is f64.

`Noise` moves what f32 hardware may get wrong: how far an output moves with it says how far a right result may be off.

What is not here: stable forms. `log(1 - sigmoid(z))` loses its digits in f64 beyond z = 20, and so does the judge.
"""

from typing import Any, NamedTuple

import torch
from rounding import DTYPES, FLOATS, HALVES, read, step, store
from text_parser import parse
from torch.nn import functional

#: Relative error of an operation, as much as docs/numerics.md states for any function but the fast ones.
OPERATION = 2.0**-20
Dims = tuple[tuple[str, int], ...]


class Value(NamedTuple):
    """A tensor whose dims have names and divisors; f64 is the language's f32, int64 its i32."""

    data: torch.Tensor
    dims: Dims
    #: Whether f32 arithmetic may have rounded it.
    inexact: bool
    #: Whether it depends on a comparison or rounding of something inexact: it may jump.
    jumps: bool


class Judged(NamedTuple):
    value: torch.Tensor
    rounded: torch.Tensor
    jumps: bool


class Noise:
    """Moves one product, sum or result of an operation by as much as f32 may get it wrong.

    `only` is its place in the order of evaluation. The sign is one for all elements (+1 or -1), or drawn for every element
    (0). `product` is how much of a product's bound is taken, `operation` the relative error of operations. Afterwards
    `places` says how many there are.
    """

    def __init__(self, only: int, sign: int, device: Any, product: float = 1.0, operation: float = OPERATION) -> None:
        self.only, self.sign, self.product, self.operation = only, sign, product, operation
        self.generator = torch.Generator(device).manual_seed(only)
        self.places = 0

    def __call__(self, data: torch.Tensor, error: Any) -> torch.Tensor:
        self.places += 1
        if self.places - 1 != self.only:
            return data
        signs = self.sign
        if not signs:
            signs = torch.randint(0, 2, data.shape, generator=self.generator, device=data.device) * 2 - 1
        moved = data + signs * error
        return torch.where(torch.isfinite(moved), moved, data)


def leaky_relu(x, slope=torch.tensor(0.01)):
    return functional.leaky_relu(x, slope.item()) if slope.dim() == 0 else torch.where(x > 0, x, slope * x)


def elu(x, alpha=torch.tensor(1.0)):
    return torch.where(x > 0, x, alpha * torch.expm1(torch.where(x > 0, 0.0, x)))


def softplus(x, beta=torch.tensor(1.0)):
    return functional.softplus(beta * x, threshold=60) / beta


#: Functions of one element whose result f32 rounds.
FUNCTIONS = {
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "rcp": torch.reciprocal, "square": torch.square, "exp": torch.exp,
    "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p, "expm1": torch.expm1,
    "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "pow": torch.pow,
    "fma": lambda x, y, z: torch.addcmul(z, x, y), "elu": elu, "selu": functional.selu,
    "softplus": softplus, "sigmoid": torch.sigmoid, "silu": functional.silu,
    "mish": functional.mish, "hardswish": functional.hardswish, "hardsigmoid": functional.hardsigmoid,
    "gelu": functional.gelu, "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "relu2": lambda x: functional.relu(x).square(),
    "snake": lambda x, a: x + torch.sin(a * x).square() / a, "leaky_relu": leaky_relu,
    "tan": torch.tan, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
    "logsigmoid": functional.logsigmoid,
}
#: What docs/numerics.md states beyond a relative error, from the result and the arguments; `gelu` is made of `1 + erf`,
#: which is good to 2^-20 absolute.
STATED = {
    "exp": lambda result, x: 2.0**-22 * (x * result).abs(),
    "log": lambda result, x: torch.full_like(x, 2.0**-22),
    "log2": lambda result, x: torch.full_like(x, 2.0**-22),
    "sin": lambda result, x: 2.0**-20 + 2.0**-22 * x.abs(),
    "cos": lambda result, x: 2.0**-20 + 2.0**-22 * x.abs(),
    "gelu": lambda result, x: 2.0**-20 * x.abs(),
    "snake": lambda result, x, a: 2.0**-19 / a.abs(),
    "tan": lambda result, x: (2.0**-20 + 2.0**-22 * x.abs()) * (1 + result.square()) * 2,
    "sinh": lambda result, x: 2.0**-21 * (1 + x.abs()) * result.abs(),
    "cosh": lambda result, x: 2.0**-21 * (1 + x.abs()) * result.abs(),
    # Here it is PyTorch whose digits cancel.
    "gelu_tanh": lambda result, x: 2.0**-50 * x.abs(),
}
#: Functions whose result is one of their arguments, or whole.
EXACT = {
    "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    # The language has nan of nan, PyTorch 0.
    "sign": lambda x: torch.where(torch.isnan(x), x, torch.sign(x)),
    "clamp": torch.clamp, "maximum": torch.maximum, "minimum": torch.minimum, "relu": functional.relu,
    "relu6": functional.relu6, "threshold": lambda x, t, value: torch.where(x <= t, value, x),
    "isnan": torch.isnan, "isinf": torch.isinf, "trunc": torch.trunc,
    # A quotient that f32 rounds up to a whole number is mended: the remainder itself is exact.
    "fmod": torch.fmod,
}
#: Functions that jump.
JUMPING = {"sign", "floor", "ceil", "round", "threshold", "isnan", "isinf", "trunc", "fmod"}
KEEP_INTEGERS = {"abs", "sign", "square", "clamp", "maximum", "minimum"}
#: Derivatives that jump, at a kink of the function.
KINKED = {
    "abs", "clamp", "maximum", "minimum", "relu", "relu6", "threshold", "leaky_relu", "elu", "selu", "hardswish",
    "hardsigmoid",
}
ARITHMETIC = {"+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div}
COMPARISONS = {"<": torch.lt, "<=": torch.le, ">": torch.gt, ">=": torch.ge, "==": torch.eq, "!=": torch.ne}
REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin, "logsumexp": torch.logsumexp,
    # PyTorch multiplies along one dim at a time.
    "prod": None,
    "var": lambda x, place: torch.var(x, place, correction=0),
    "absmax": lambda x, place: torch.amax(x.abs(), place),
}
COMPOSITES = {"softmax", "log_softmax", "rms_norm", "layer_norm", "topk_softmax"}
INDICES = {"argmax": torch.argmax, "argmin": torch.argmin}
BITS = {"&": torch.bitwise_and, "|": torch.bitwise_or, "^": torch.bitwise_xor}
CONSTANTS = {"inf": torch.inf, "nan": torch.nan, "pi": torch.pi}


def wrapped(data):
    """i32 wraps."""
    return (data + 2**31) % 2**32 - 2**31


def as_float(data):
    """An i32 that meets f32 is rounded to it."""
    return data if data.dtype == torch.float64 else data.to(torch.float32).to(torch.float64)


def shifted(operator, a, b):
    """Bits of i32, or of its bits as a number without a sign; counts outside of 0 to 31 leave nothing, or the sign."""
    inside = (b >= 0) & (b < 32)
    if operator == "<<":
        return torch.where(inside, a << b.clamp(0, 31), 0)
    return torch.where(inside, a >> b.clamp(0, 31), a >> 63)


def philox(key, counter):
    """Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four words of 32 bits."""
    low, high = key
    first, second, third, fourth = counter
    for _ in range(10):
        (a, b), (c, d) = (halves_of_product(0xD2511F53, first), halves_of_product(0xCD9E8D57, third))
        first, second, third, fourth = c ^ second ^ low, d, a ^ fourth ^ high, b
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return first, second, third, fourth


def halves_of_product(factor, word):
    """The upper and the lower 32 bits of a product of two words, without a product of more than 63 bits."""
    upper, lower = word >> 16, word & 0xFFFF
    low = factor * lower
    middle = factor * upper + (low >> 16)
    return middle >> 16, ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def random_numbers(name, seed, offset, column, row, batch):
    """The random numbers of elements at these places: i32 words, or what they are made into."""
    words = [one & 0xFFFFFFFF for one in (seed.data.unbind() if seed.dims else (seed.data, seed.data * 0))]

    def word(column):
        counter = torch.broadcast_tensors(column >> 2, row, batch, offset.data & 0xFFFFFFFF)
        return torch.stack(philox(words, counter), -1).gather(-1, (column & 3).expand(counter[0].shape)[..., None])[..., 0]

    if name == "philox":
        return wrapped(word(column))
    if name == "uniform":
        return (word(column) >> 8).double() * 2.0**-24
    radius = torch.sqrt(-2 * torch.log(((word(column & ~1) >> 8) + 1).double() * 2.0**-24))
    angle = (word(column | 1) >> 8).double() * (2 * torch.pi * 2.0**-24)
    return radius * torch.where(column & 1 == 1, torch.sin(angle), torch.cos(angle))


def places(value, whole):
    """Column, row and batch of every element of a value; 0 along dims of the whole product that it lacks."""
    shape, found = value.data.shape, []
    names = [name for name, _ in value.dims]
    for name in [name for name, _ in reversed(whole)] + [None] * (3 - len(whole)):
        if name in names:
            at = names.index(name)
            index = torch.arange(shape[at], device=value.data.device)
            found.append(index.reshape([-1 if place == at else 1 for place in range(len(shape))]))
        else:
            found.append(torch.zeros((), dtype=torch.int64, device=value.data.device))
    # Several batch dims number the batches together, the last one fastest.
    column, row, batch, *others = found
    apart = 1
    for other, (name, _) in zip(others, reversed(whole[1:-2])):
        apart *= shape[names.index(name)] if name in names else 1
        batch = batch + apart * other
    return [column, row, batch]


def with_batch(value, batch):
    """An operand of the product with all batch dims, of size 1 where it has them not."""
    own = [name for name, _ in value.dims[:-2]]
    places = [slice(None) if name in own else None for name, _ in batch]
    return value._replace(data=value.data[(*places, ...)] if batch else value.data, dims=(*batch, *value.dims[-2:]))


def substituted(tree, given):
    """A definition's expression with arguments in the place of parameters."""
    if not isinstance(tree, (tuple, list)):
        return tree
    if isinstance(tree, tuple) and tree[0] == "name" and tree[1] in given:
        return given[tree[1]]
    return type(tree)(substituted(one, given) for one in tree)


def align(values):
    """The tensors of several values with the same dims: dims meet by name, and a column of a group stands for its run."""
    finest: dict[str, int] = {}
    for value in values:
        for name, divisor in value.dims:
            finest[name] = min(finest.get(name, divisor), divisor)
    tensors = []
    for value in values:
        data, own = value.data, [name for name, _ in value.dims]
        for place, (name, divisor) in enumerate(value.dims):
            if divisor != finest[name]:
                data = data.repeat_interleave(divisor // finest[name], place)
        data = data.permute([own.index(name) for name in finest if name in own])
        tensors.append(data[tuple(slice(None) if name in own else None for name in finest)])
    return tensors, tuple(finest.items())


class Evaluation:
    """One evaluation of a program on the arguments of a call."""

    def __init__(self, program, arguments, noise):
        self.program, self.noise = program, noise
        self.device = next(one.device for one in arguments if isinstance(one, torch.Tensor))
        self.known = {}
        for (name, dtype, dims), given in zip(program.inputs, arguments, strict=True):
            if dims is None:
                exact = torch.tensor(given, dtype=torch.float32 if dtype == "f32" else torch.int32, device=self.device)
                self.known[name] = Value(read(exact, dtype), (), False, False)
            else:
                self.known[name] = Value(read(given, dtype), dims, False, False)
        for (name, _, dims), of in program.second:
            self.known[name] = Value(self.known[of].data, dims, False, False)
        operands = next(found for _, tree in program.statements for found in products(tree))
        left, right = (self.evaluate(one) for one in operands)
        #: Rows and columns of the product, with their sizes.
        self.rows, self.columns = left.dims[-2], right.dims[-1]
        self.sizes = (left.data.shape[-2], right.data.shape[-1])
        batch = left if len(left.dims) >= len(right.dims) else right
        self.whole_dims = (*batch.dims[:-2], self.rows, self.columns)
        self.whole_shape = (*batch.data.shape[:-2], *self.sizes)
        #: Dims that splits name, and what was split into which.
        self.named, self.splits = set(), []

    def outputs(self):
        for names, tree in self.program.statements:
            found = self.evaluate(tree)
            for name, value in zip(names, found if isinstance(found, list) else [found], strict=True):
                self.known[name] = value
        return {one.name: self.output(one) for one in self.program.outputs}

    def output(self, declared):
        """The value as its output declares it: in that order of dims, repeated along those that it has not."""
        value = self.known[declared.name]
        shape = [(int(name) if name.isdigit() else self.size(name)) // divisor for name, divisor in declared.dims]
        own = [name for name, _ in value.dims]
        data = value.data.permute([own.index(name) for name, _ in declared.dims if name in own])
        data = data[tuple(slice(None) if name in own else None for name, _ in declared.dims)].expand(shape).contiguous()
        jumps = value.jumps or (value.inexact and declared.dtype not in FLOATS)
        if declared.dtype in ("bool", "b1"):
            data = store(data, "bool")
        return Judged(data, store(data, declared.dtype), jumps)

    def size(self, name):
        """A dim's whole size: the product's, or that of any value that has it, or what the others leave of a split."""
        if name.isdigit():
            return int(name)
        for (own, divisor), size in zip(self.whole_dims, self.whole_shape):
            if own == name:
                return size * divisor
        for value in self.known.values():
            for place, (own, divisor) in enumerate(value.dims):
                if own == name:
                    return value.data.shape[place] * divisor
        raise KeyError(name)

    def made(self, data, dims, of, jumps=False, rounds=True, stated=0.0):
        """A result of an operation on values; `stated` is an absolute error beside the relative one."""
        inexact = any(one.inexact for one in of)
        if data.dtype == torch.int64:
            data = wrapped(data)
        elif data.dtype == torch.float64 and rounds:
            inexact = True
            if self.noise is not None:
                data = self.noise(data, self.noise.operation * data.abs() + stated * (self.noise.operation / OPERATION))
        return Value(data, dims, inexact, any(one.jumps for one in of) or (jumps and any(one.inexact for one in of)))

    def evaluate(self, tree):
        kind, *parts = tree
        if kind == "number":
            whole = parts[0].isdigit()
            number = torch.tensor(int(parts[0]) if whole else float(parts[0]), dtype=torch.int64 if whole else torch.float32)
            return Value((number if whole else number.double()).to(self.device), (), False, False)
        if kind == "name":
            return self.name(parts[0])
        if kind == "transpose":
            value = self.evaluate(parts[0])
            return value._replace(data=value.data.mT, dims=(*value.dims[:-2], value.dims[-1], value.dims[-2]))
        if kind == "product":
            return self.product(self.evaluate(parts[0]), self.evaluate(parts[1]))
        if kind == "unary":
            value = self.evaluate(parts[1])
            # `!` of conditions and `~` of integers are one operator of PyTorch.
            return self.made(-value.data if parts[0] == "-" else ~value.data, value.dims, [value], rounds=False)
        if kind == "binary":
            return self.binary(parts[0], self.evaluate(parts[1]), self.evaluate(parts[2]))
        if kind == "gradient":
            return self.gradient(parts[0], [self.evaluate(one) for one in parts[1]])
        return self.call(*parts)

    def name(self, name):
        if name in self.known:
            return self.known[name]
        if name in CONSTANTS:
            data = torch.tensor(CONSTANTS[name], dtype=torch.float32, device=self.device).double()
            return Value(data, (), False, False)
        place = ("row", "col").index(name)
        dim = (self.rows, self.columns)[place]
        return Value(torch.arange(self.sizes[place], device=self.device), (dim,), False, False)

    def product(self, left, right):
        batch = self.whole_dims[:-2]
        left, right = (with_batch(one, batch) for one in (left, right))
        dims = (*batch, left.dims[-2], right.dims[-1])
        if left.data.dtype == torch.int64:
            # Sums of products of bytes are exact in f64, and every device multiplies it.
            return Value(wrapped((left.data.double() @ right.data.double()).long()), dims, False, False)
        data = left.data @ right.data
        if self.noise is not None:
            bound = left.data.shape[-1] * 2.0**-23 * (left.data.abs() @ right.data.abs())
            data = self.noise(data, self.noise.product * bound)
        return Value(data, dims, True, False)

    def binary(self, operator, left, right):
        (a, b), dims = align([left, right])
        if operator in BITS:
            return self.made(BITS[operator](a, b), dims, [left, right])
        if operator in ("<<", ">>"):
            return self.made(shifted(operator, a, b), dims, [left, right])
        # Two literals divide as numbers; no other integers do.
        if torch.float64 in (a.dtype, b.dtype) or operator == "/":
            a, b = (one if one.dtype == torch.bool else as_float(one) for one in (a, b))
        if operator in COMPARISONS:
            return self.made(COMPARISONS[operator](a, b), dims, [left, right], jumps=True)
        return self.made(ARITHMETIC[operator](a, b), dims, [left, right])

    def gradient(self, name, of):
        tensors, dims = align(of)
        first, *others = torch.broadcast_tensors(*map(as_float, tensors)) if len(of) > 1 else [as_float(tensors[0])]
        if name == "leaky_relu":
            others = [as_float(one.data) if not one.dims else other for one, other in zip(of[1:], others)]

        def slope(x):
            with torch.enable_grad():
                x = x.detach().clone().requires_grad_()
                result = {**FUNCTIONS, **EXACT}[name](x, *others)
                # A function that is flat everywhere may have no graph at all.
                return torch.autograd.grad(result.sum(), x)[0] if result.requires_grad else torch.zeros_like(x)

        found, stated = slope(first), 0.0
        if self.noise is not None and name not in KINKED:
            # Terms cancel where a derivative crosses zero; it is as good there as at an argument nearby.
            stated = sum((slope(first * (1 + side * OPERATION)) - found).abs() for side in (1, -1))
            stated = stated + {"gelu": OPERATION, "gelu_tanh": 2.0**-48}.get(name, 0.0)
        return self.made(found, dims, of, jumps=name in KINKED, stated=stated)

    def call(self, name, arguments):
        if name in self.program.definitions:
            parameters, tree = self.program.definitions[name]
            return self.evaluate(substituted(tree, dict(zip(parameters, arguments, strict=True))))
        if name in REDUCTIONS or name in INDICES:
            return self.reduction(name, self.evaluate(arguments[0]), arguments[1:])
        if name in COMPOSITES:
            return self.composite(name, arguments)
        if name in ("size", "index"):
            return self.of_dim(name, arguments[0])
        if name == "topk":
            return self.topk(self.evaluate(arguments[0]), int(arguments[1][1]), arguments[2])
        if name == "split" and arguments[1][0] == "dims":
            return self.listed(self.evaluate(arguments[0]), arguments[1][1])
        of = [self.evaluate(one) for one in arguments]
        if name in DTYPES:
            return self.cast(name, of[0]) if len(of) == 1 else self.stochastic(name, *of)
        if name in ("halves", "pairs", "split"):
            count = of.pop(1).data.item() if name == "split" else 2
            return self.parted(name, of[0], count, of[1].data.item() if len(of) > 1 else None)
        if name in ("concat", "join"):
            run = of.pop().data.item() if arguments[-1][0] == "number" else None
            return self.joined(name, of, run)
        if name == "pick":
            return self.pick(*of)
        if name == "take":
            return self.take(*of)
        if name in ("philox", "uniform", "normal"):
            data = random_numbers(name, *of, *places(self.whole(), self.whole_dims))
            # Waves of an angle up to 2 * pi, times a radius up to 6.
            return self.made(data, self.whole_dims, [], rounds=name == "normal", stated=2.0**-16)
        if name == "dropout":
            return self.dropout(*of)
        if name in ("bits", "float", "lshr"):
            return self.bits(name, *of)
        tensors, dims = align(of)
        if name == "where":
            condition, *choices = tensors
            if torch.float64 in (choices[0].dtype, choices[1].dtype):
                choices = map(as_float, choices)
            return self.made(torch.where(condition, *choices), dims, of, rounds=False)
        if name not in KEEP_INTEGERS or any(one.dtype == torch.float64 for one in tensors):
            tensors = [as_float(one) for one in tensors]
        if name in EXACT:
            return self.made(EXACT[name](*tensors), dims, of, jumps=name in JUMPING, rounds=False)
        if name == "leaky_relu" and len(of) > 1 and not of[1].dims:
            tensors[1] = as_float(of[1].data)
        found = FUNCTIONS[name](*tensors)
        return self.made(found, dims, of, stated=STATED.get(name, lambda *_: 0.0)(found, *tensors))

    def cast(self, dtype, value):
        if dtype == "f32":
            return value._replace(data=as_float(value.data))
        if dtype in HALVES:
            data = read(store(value.data, "i32"), "i32").clamp(*HALVES[dtype])
            return self.made(data, value.dims, [value], jumps=True, rounds=False)
        dtype = "bool" if dtype == "b1" else dtype
        data = read(store(value.data, dtype), dtype)
        return self.made(data, value.dims, [value], jumps=True, rounds=False)

    def place(self, value, tree):
        """Which dim of a value `N` or `N/2` names."""
        name = tree[2][1] if tree[0] == "binary" else tree[1]
        return [own for own, _ in value.dims].index(name)

    def reduction(self, name, value, arguments):
        data, dims = value.data, value.dims
        if name in ("mean", "logsumexp", "var"):
            data = as_float(data)
        # Each dim that is folded, and the length of its runs: 0 for all of it.
        folded = {} if arguments else dict.fromkeys(range(len(dims)), 0)
        for tree in arguments:
            if tree[0] == "number" and folded:
                folded[list(folded)[-1]] = int(tree[1])
            else:
                folded[self.place(value, tree)] = 0
        runs = {place: run for place, run in folded.items() if run}
        places = list(folded)
        for place in sorted(runs, reverse=True):
            data = data.unflatten(place, (-1, runs[place]))
            # The runs are one dim more.
            places = [other + (other >= place if other != place else 1) for other in places]
        dims = tuple(
            (own, divisor * runs.get(place, 1))
            for place, (own, divisor) in enumerate(dims)
            if place not in folded or place in runs
        )
        if not places:
            return value
        if name in INDICES:
            # Ties and nan: the first one of all that are folded, in their order.
            found = INDICES[name](data.movedim(places, list(range(-len(places), 0))).flatten(-len(places)), -1)
            return self.made(found, dims, [value], jumps=True)
        if name == "prod":
            found = data
            for place in sorted(places, reverse=True):
                found = found.prod(place)
        else:
            found = REDUCTIONS[name](data, places)
        if name in ("sum", "mean", "prod") and self.noise is not None and found.dtype == torch.float64:
            count = data.numel() / max(found.numel(), 1)
            scale = found.abs() if name == "prod" else REDUCTIONS[name](data.abs(), places)
            found = self.noise(found, min(count, 4096) * 2.0**-24 * scale)
        return self.made(found, dims, [value], rounds=name not in ("max", "min", "absmax"))

    def composite(self, name, arguments):
        value = self.evaluate(arguments[0])
        place = self.place(value, arguments[-1 if name == "topk_softmax" else 1])
        data = as_float(value.data).movedim(place, -1)
        if name in ("softmax", "log_softmax"):
            found = getattr(functional, name)(data, -1)
        elif name == "topk_softmax":
            # A stable order: of equal ones the first are kept, as `topk` does; nan is the largest.
            order = torch.sort(data, -1, descending=True, stable=True).indices
            kept = torch.zeros_like(data, dtype=torch.bool).scatter_(-1, order[..., : int(arguments[1][1])], True)
            found = functional.softmax(torch.where(kept, data, -torch.inf), -1)
        else:
            eps = self.evaluate(arguments[2]).data.item()
            found = getattr(functional, name)(data, (data.shape[-1],), eps=eps)
        return self.made(found.movedim(-1, place), value.dims, [value], jumps=name == "topk_softmax")

    def column(self, value):
        """The place of a value's columns: the product's, or of a part with a name."""
        return len(value.dims) - 1 if value.dims[-1][0] in self.named else [
            name for name, _ in value.dims
        ].index(self.columns[0])

    def parted(self, name, value, count, run):
        place = self.column(value)
        dims = tuple((own, count * divisor if at == place else divisor) for at, (own, divisor) in enumerate(value.dims))
        columns = value.data.shape[place]
        run = run or columns
        inside = (run // count, count) if name == "pairs" else (count, run // count)
        data = value.data.unflatten(place, (columns // run if run else 0, *inside))
        parts = data.unbind(place + (2 if name == "pairs" else 1))
        return [value._replace(data=part.flatten(place, place + 1), dims=dims) for part in parts]

    def listed(self, value, listed):
        place = self.column(value)
        sizes = [self.size(name) // divisor for name, divisor in listed]
        self.named.update(name for name, _ in listed)
        self.splits.append((value.dims[place], listed))
        parts = value.data.split(sizes, place)
        return [
            value._replace(data=part, dims=tuple(dim if at == place else one for at, one in enumerate(value.dims)))
            for part, dim in zip(parts, listed, strict=True)
        ]

    def joined(self, name, of, run):
        if len({value.dims[self.column(value)] for value in of}) > 1 or of[0].dims[self.column(of[0])][0] in self.named:
            whole = next((whole for whole, parts in self.splits if [one.dims[self.column(one)] for one in of] == parts), None)
            if whole is not None and run is None:
                data = torch.cat([as_float(one.data) for one in of], self.column(of[0]))
                dims = tuple(whole if at == self.column(of[0]) else one for at, one in enumerate(of[0].dims))
                return self.made(data, dims, of, rounds=False)
        tensors, dims = align(of)
        same = len({one.dtype for one in tensors}) == 1
        tensors = torch.broadcast_tensors(*(tensors if same else map(as_float, tensors)))
        place, count = self.column(Value(tensors[0], dims, False, False)), len(of)
        dims = tuple((own, divisor // count if at == place else divisor) for at, (own, divisor) in enumerate(dims))
        columns = tensors[0].shape[place]
        width = run // count if run else columns
        split = [one.unflatten(place, (columns // width if width else 0, width)) for one in tensors]
        data = torch.stack(split, place + (1 if name == "concat" else 2)).flatten(place, place + 2)
        return self.made(data, dims, of, rounds=False)

    def of_dim(self, name, tree):
        dim = (tree[2][1], int(tree[3][1])) if tree[0] == "binary" else (tree[1], 1)
        count = self.size(dim[0]) // dim[1]
        if name == "size":
            return Value(torch.tensor(count, device=self.device), (), False, False)
        return Value(torch.arange(count, device=self.device), (dim,), False, False)

    def topk(self, value, count, tree):
        place = self.place(value, tree)
        data = as_float(value.data).movedim(place, -1)
        values, indices = torch.sort(data, dim=-1, descending=True, stable=True)
        dims = (*(dim for at, dim in enumerate(value.dims) if at != place), (str(count), 1))
        return [
            self.made(values[..., :count], dims, [value], rounds=False),
            self.made(indices[..., :count], dims, [value], jumps=True),
        ]

    def take(self, table, index):
        count = table.data.shape[0]
        found = as_float(table.data)[index.data.clamp(0, max(count - 1, 0))]
        found = torch.where((index.data >= 0) & (index.data < count), found, torch.nan)
        return self.made(found, index.dims, [table, index], rounds=False)

    def bits(self, name, x, count=None):
        if name == "bits":
            data = x.data.to(torch.float32).view(torch.int32).long()
            return self.made(torch.where(x.data.isnan(), 0x7FC00000, data), x.dims, [x], jumps=True)
        if name == "float":
            return self.made(x.data.to(torch.int32).view(torch.float32).double(), x.dims, [x], rounds=False)
        (a, b), dims = align([x, count])
        return self.made(shifted(">>", a & 0xFFFFFFFF, b), dims, [x, count])

    def whole(self):
        """A value with every dim of the product."""
        return Value(torch.zeros(self.whole_shape, device=self.device), self.whole_dims, False, False)

    def dropout(self, x, p, seed, offset):
        kept = random_numbers("uniform", seed, offset, *places(x, self.whole_dims)) >= as_float(p.data)
        return self.made(torch.where(kept, as_float(x.data) / (1 - as_float(p.data)), 0.0), x.dims, [x, p])

    def stochastic(self, dtype, x, seed, offset):
        """One of both neighbours in the dtype, by how far it is from the one towards zero and by random bits."""
        share = random_numbers("philox", seed, offset, *places(x, self.whole_dims)).double() % 2**32 / 2.0**32
        data = as_float(x.data)
        unit = step(data, dtype)
        below = torch.trunc(data / unit)
        away = below + torch.sign(data) * ((data / unit - below).abs() + share >= 1)
        near = read(store(away * unit, dtype), dtype)
        return self.made(torch.where(torch.isfinite(data), near, data), x.dims, [x], jumps=True, rounds=False)

    def pick(self, value, index):
        (data, indices), dims = align([value, index])
        place = [own for own, _ in dims].index(self.columns[0])
        data = as_float(data).movedim(place, -1)
        indices = indices.movedim(place, -1).expand(*data.shape[:-1], 1)
        count = data.shape[-1]
        found = data.gather(-1, indices.clamp(0, count - 1))
        found = torch.where((indices >= 0) & (indices < count), found, torch.nan).squeeze(-1)
        return self.made(found, tuple(dim for at, dim in enumerate(dims) if at != place), [value, index], rounds=False)


def products(tree):
    """The operands of the products in an expression."""
    if tree[0] == "product":
        yield tree[1], tree[2]
    for part in tree[1:]:
        for one in part if isinstance(part, list) else [part]:
            if isinstance(one, tuple):
                yield from products(one)


@torch.no_grad()
def evaluate(text, arguments, noise=None):
    """Every output of a kernel by name: in f64, and rounded to its dtype."""
    return Evaluation(parse(text), list(arguments), noise).outputs()
