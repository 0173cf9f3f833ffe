"""The text language evaluated by PyTorch in f64: a judge of results that shares no code and no formula with Postlude.

In: a kernel's text with its signature, and the arguments of a call. Out: every output in f64, and rounded to its dtype.
A kernel is evaluated as written; functions are PyTorch's own functionals, derivatives come from its autograd. Numbers of
the text and of the host are f32, as in the language, and all arithmetic on them is f64.

`Noise` moves what f32 hardware may get wrong: how far an output moves with it says how far a right result may be off.

What is not here: stable forms. `log(1 - sigmoid(z))` loses its digits in f64 beyond z = 20, and so does the judge.
"""

from typing import Any, NamedTuple

import torch
from rounding import DTYPES, FLOATS, read, store
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


#: Functions of one element whose result f32 rounds.
FUNCTIONS = {
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "rcp": torch.reciprocal, "square": torch.square, "exp": torch.exp,
    "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p, "expm1": torch.expm1,
    "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "pow": torch.pow,
    "fma": lambda x, y, z: torch.addcmul(z, x, y), "elu": functional.elu, "selu": functional.selu,
    "softplus": lambda x: functional.softplus(x, threshold=60), "sigmoid": torch.sigmoid, "silu": functional.silu,
    "mish": functional.mish, "hardswish": functional.hardswish, "hardsigmoid": functional.hardsigmoid,
    "gelu": functional.gelu, "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x), "relu2": lambda x: functional.relu(x).square(),
    "snake": lambda x, a: x + torch.sin(a * x).square() / a, "leaky_relu": leaky_relu,
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
    "isnan": torch.isnan, "isinf": torch.isinf,
}
#: Functions that jump.
JUMPING = {"sign", "floor", "ceil", "round", "threshold", "isnan", "isinf"}
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
    "absmax": lambda x, place: torch.amax(x.abs(), place),
}
COMPOSITES = {"softmax", "log_softmax", "rms_norm", "layer_norm", "topk_softmax"}
CONSTANTS = {"inf": torch.inf, "nan": torch.nan, "pi": torch.pi}


def wrapped(data):
    """i32 wraps."""
    return (data + 2**31) % 2**32 - 2**31


def as_float(data):
    """An i32 that meets f32 is rounded to it."""
    return data if data.dtype == torch.float64 else data.to(torch.float32).to(torch.float64)


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
        operands = next(found for _, tree in program.statements for found in products(tree))
        left, right = (self.evaluate(one) for one in operands)
        #: Rows and columns of the product, with their sizes.
        self.rows, self.columns = left.dims[-2], right.dims[-1]
        self.sizes = (left.data.shape[-2], right.data.shape[-1])

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
        """A dim's whole size, from any value that has it."""
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
        dims = (*(left.dims[:-2] or right.dims[:-2]), left.dims[-2], right.dims[-1])
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
        if operator in ("&", "|"):
            return self.made(a & b if operator == "&" else a | b, dims, [left, right])
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
        if name in REDUCTIONS:
            return self.reduction(name, self.evaluate(arguments[0]), arguments[1:])
        if name in COMPOSITES:
            return self.composite(name, arguments)
        of = [self.evaluate(one) for one in arguments]
        if name in DTYPES:
            return self.cast(name, of[0])
        if name in ("halves", "pairs"):
            return self.parted(name, of[0])
        if name in ("concat", "join"):
            return self.joined(name, of)
        if name == "pick":
            return self.pick(*of)
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
        dtype = "bool" if dtype == "b1" else dtype
        data = read(store(value.data, dtype), dtype)
        return self.made(data, value.dims, [value], jumps=True, rounds=False)

    def place(self, value, tree):
        """Which dim of a value `N` or `N/2` names."""
        name = tree[2][1] if tree[0] == "binary" else tree[1]
        return [own for own, _ in value.dims].index(name)

    def reduction(self, name, value, arguments):
        data, dims = value.data, value.dims
        if name in ("mean", "logsumexp"):
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
            least = torch.topk(data, min(int(arguments[1][1]), data.shape[-1]), -1).values[..., -1:]
            found = functional.softmax(torch.where(data >= least, data, -torch.inf), -1)
        else:
            eps = self.evaluate(arguments[2]).data.item()
            found = getattr(functional, name)(data, (data.shape[-1],), eps=eps)
        return self.made(found.movedim(-1, place), value.dims, [value], jumps=name == "topk_softmax")

    def column(self, value):
        return [name for name, _ in value.dims].index(self.columns[0])

    def parted(self, name, value):
        place = self.column(value)
        count = value.data.shape[place] // 2
        dims = tuple((own, 2 * divisor if at == place else divisor) for at, (own, divisor) in enumerate(value.dims))
        if name == "halves":
            parts = value.data.split(count, place)
        else:
            parts = value.data.unflatten(place, (count, 2)).unbind(place + 1)
        return [value._replace(data=part, dims=dims) for part in parts]

    def joined(self, name, of):
        tensors, dims = align(of)
        tensors = torch.broadcast_tensors(*(tensors if tensors[0].dtype == tensors[1].dtype else map(as_float, tensors)))
        place = [own for own, _ in dims].index(self.columns[0])
        dims = tuple((own, divisor // 2 if at == place else divisor) for at, (own, divisor) in enumerate(dims))
        data = torch.cat(tensors, place) if name == "concat" else torch.stack(tensors, place + 1).flatten(place, place + 1)
        return self.made(data, dims, of, rounds=False)

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
