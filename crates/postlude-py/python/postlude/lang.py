"""The language's functions and dtypes, for functions that ``postlude.kernel`` traces.

Every function of the language is here under its own name, and is a method of traced values too. Dims are strings.

>>> from typing import Annotated
>>> from postlude import kernel
>>> from postlude.lang import Tensor, bf16, f32, mean, rsqrt
>>> @kernel
... def scaled(
...     A: Annotated[Tensor, bf16("M", "K")],
...     W: Annotated[Tensor, bf16("N", "K")],
...     gamma: Annotated[Tensor, f32("N")],
...     eps: Annotated[Tensor, f32],
... ) -> Annotated[Tensor, bf16("M", "N")]:
...     z = A @ W.T
...     return z * rsqrt(mean(z ** 2, "N") + eps) * gamma
>>> print(scaled)
kernel scaled(A: bf16[M, K], W: bf16[N, K], gamma: f32[N], eps: f32) -> D: bf16[M, N] {
    z = A @ W.T
    D = z * rsqrt(mean(square(z), N) + eps) * gamma
}

``f32("M", "K")`` is the type of an array, ``f32()`` that of a scalar in memory and bare ``f32`` that of a number that the
host passes. They stand in ``Annotated[Tensor, ...]``, as type checkers want it, or alone and with brackets, which is
shorter: ``f32["M", "K"]``, ``f32[()]`` and ``f32``. A dtype that is called with a value casts.
"""

from __future__ import annotations

import builtins as _builtins
import math as _math
import re as _re
from inspect import Parameter as _Parameter
from inspect import Signature as _Signature
from inspect import signature as _signature
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, Union, overload

from . import _native
from ._value import Constant as _Constant
from ._value import Level as _Level
from ._value import Value as Value
from ._value import index_word as _index_word
from ._value import methods as _methods
from ._value import operand as _operand
from ._value import refuse as _refuse

#: What a function takes: a traced value or a number.
Operand = Union[Value, int, float]
#: What is annotated: ``Annotated[Tensor, bf16("M", "K")]``. Inside of the function it is a traced value.
Tensor = Value

inf = _math.inf
nan = _math.nan
pi = _math.pi

#: The row and the column of an element: `i32["M"]` and `i32["N"]`.
row = _index_word("row")
col = _index_word("col")

_DIM = _re.compile(r"[A-Za-z_][A-Za-z0-9_]*( */ *[0-9]+)?|[0-9]+")


class TensorType:
    """A dtype with dims: the type of an array.

    >>> from postlude.lang import f32
    >>> f32("M", "N/2"), f32["M", "N/2"], f32()
    (f32[M, N/2], f32[M, N/2], f32[])
    """

    __slots__ = ("dtype", "dims", "same")

    def __init__(self, dtype: DType, dims: tuple[Any, ...], same: Optional[str] = None) -> None:
        self.dtype = dtype
        self.dims = dims
        self.same = same

    def same_as(self, parameter: str) -> TensorType:
        """The annotation of a parameter that is an earlier one under other dims; a call does not pass it.

        >>> from postlude import kernel
        >>> from postlude.lang import bf16, f32
        >>> @kernel
        ... def gram(A: bf16["M", "K"], B: bf16["N", "K"].same_as("A")) -> f32["M", "N"]:
        ...     return A @ B.T
        >>> print(gram)
        kernel gram(A: bf16[M, K], B: bf16[N, K] = A) -> D: f32[M, N] {
            D = A @ B.T
        }
        >>> gram.inputs
        ('A',)
        """
        return TensorType(self.dtype, self.dims, parameter)

    def __repr__(self) -> str:
        same = "" if self.same is None else f" = {self.same}"
        return f"{self.dtype.name}[{', '.join(map(str, self.dims))}]{same}"

    def __call__(self, *args: Any) -> Any:
        # Python 3.10 lets a named tuple have callable annotations only.
        _refuse(f"`{self!r}` is an annotation, not a value", f"cast with the dtype alone: `{self.dtype!r}(x)`")


class DType:
    """A dtype: with dims the type of an array, alone that of a number that the host passes; called with a value, it casts.

    >>> from postlude.lang import bf16, row
    >>> bf16("M", "K"), bf16(row / 2)
    (bf16[M, K], <traced value bf16(row / 2)>)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, dims: Any) -> TensorType:
        return TensorType(self, dims if isinstance(dims, tuple) else (dims,))

    @overload
    def __call__(self) -> TensorType: ...
    @overload
    def __call__(self, dim: str, /, *dims: Union[str, int]) -> TensorType: ...
    @overload
    def __call__(self, dim: int, second: str, /, *dims: Union[str, int]) -> TensorType: ...
    @overload
    def __call__(self, x: Operand, seed: Optional[Operand] = None, offset: Operand = 0) -> Value: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """An array's type of dims, of which one at least is a name; or a value rounded to the dtype."""
        if not kwargs and (not args or any(isinstance(one, str) for one in args)):
            return TensorType(self, args)
        return self._cast(*args, **kwargs)

    def _cast(self, x: Operand, seed: Optional[Operand] = None, offset: Operand = 0) -> Value:
        """The value rounded to the dtype: to nearest, or with a seed by random bits."""
        given = [_operand(x, f"the argument of `{self.name}`")]
        if seed is not None:
            given += [_operand(one, f"the seed and offset of `{self.name}`") for one in (seed, offset)]
        return Value(f"{self.name}()", *given)

    def __repr__(self) -> str:
        return "bool_" if self.name == "bool" else self.name


f32, tf32, f16, bf16 = DType("f32"), DType("tf32"), DType("f16"), DType("bf16")
f8e4m3, f8e5m2, f8e8m0 = DType("f8e4m3"), DType("f8e5m2"), DType("f8e8m0")
i8, u8, i32 = DType("i8"), DType("u8"), DType("i32")
bool_, b1 = DType("bool"), DType("b1")
i4, u4 = DType("i4"), DType("u4")


def _dim(given: Any, place: str) -> _Constant:
    """A dim, as it is written."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return _Constant(str(given), _Level.OPERAND)
    if isinstance(given, str) and _DIM.fullmatch(given):
        return _Constant(given.replace(" ", ""), _Level.OPERAND)
    if isinstance(given, str) and "," in given:
        _refuse(f"{place} is {given!r}, which is more than one dim", 'write one string for each: `"M", "N"`')
    _refuse(
        f"{place} is {given!r}, which is not a dim: a dim is a string with a name, perhaps divided by an integer, or an "
        "integer",
        'write a dim such as `"N"`, `128` or `"N/2"`',
    )


def _parameters(parameters: list[str]) -> list[_Parameter]:
    """A function's parameters as Python writes them."""
    found = []
    for one in parameters:
        name, _, default = one.partition("=")
        if name.endswith("..."):
            found.append(_Parameter("dims", _Parameter.VAR_POSITIONAL))
        else:
            value = _builtins.float(default) if default else _Parameter.empty
            found.append(_Parameter(name, _Parameter.POSITIONAL_OR_KEYWORD, default=value))
    return found


def _bind(name: str, signature: _Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """The arguments in order, each with its parameter's name; dims one by one."""
    shown = f"{name}{signature}"
    for keyword in kwargs:
        if keyword not in signature.parameters or keyword == "dims":
            positional = "dims" in signature.parameters
            help = f'write dims without a name: `{name}(x, "N")`' if positional else f"its parameters are `{shown}`"
            _refuse(f"`{name}` has no parameter that is called `{keyword}`", help)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        _refuse(f"`{name}`: {error}", f"it is `{shown}`")
    found = []
    for parameter, value in bound.arguments.items():
        found += [("dim", one) for one in value] if parameter == "dims" else [(parameter, value)]
    return found


def _results(value: Value, count: int) -> tuple[Value, ...]:
    """What a call gives that gives several."""
    return tuple(Value(f"part {place} of {count}", value) for place in range(count))


def _run(name: str, run: Any) -> list[_Constant]:
    """How many columns a run has, as the last argument of a call."""
    if run is None:
        return []
    if not isinstance(run, int) or isinstance(run, bool) or run < 1:
        _refuse(f"the run of `{name}` is {run!r}, and it is a number of columns", f"write `{name}(..., run=128)`")
    return [_Constant(str(run), _Level.OPERAND)]


def _halves(x: Operand, run: Optional[int] = None) -> tuple[Value, ...]:
    return _results(Value("halves()", _operand(x, "the argument `x` of `halves`"), *_run("halves", run)), 2)


def _pairs(x: Operand, run: Optional[int] = None) -> tuple[Value, ...]:
    return _results(Value("pairs()", _operand(x, "the argument `x` of `pairs`"), *_run("pairs", run)), 2)


def _split(x: Operand, parts: Union[int, Sequence[str]], run: Optional[int] = None) -> tuple[Value, ...]:
    value = _operand(x, "the argument `x` of `split`")
    if isinstance(parts, int) and not isinstance(parts, bool) and 2 <= parts <= 16:
        count, given = parts, _Constant(str(parts), _Level.OPERAND)
    elif isinstance(parts, (list, tuple)) and 2 <= len(parts) <= 16:
        dims = ", ".join(_dim(one, "a dim of `split`").text for one in parts)
        count, given = len(parts), _Constant(f"[{dims}]", _Level.OPERAND)
    else:
        _refuse(
            f"the parts of `split` are {parts!r}: they are 2 to 16, or a list of their dims",
            'write `split(x, 3)`, or `split(x, ["Q", "KV", "KV"])`',
        )
    return _results(Value("split()", value, given, *_run("split", run)), count)


def _concat(x: Operand, y: Operand, *more: Operand, run: Optional[int] = None) -> Value:
    given = [_operand(one, "an argument of `concat`") for one in (x, y, *more)]
    return Value("concat()", *given, *_run("concat", run))


def _join(x: Operand, y: Operand, run: Optional[int] = None) -> Value:
    given = [_operand(one, "an argument of `join`") for one in (x, y)]
    return Value("join()", *given, *_run("join", run))


#: Functions that take or give more than the catalogue's parameters say.
_SEVERAL: dict[str, Callable[..., Any]] = {
    "halves": _halves, "pairs": _pairs, "split": _split, "concat": _concat, "join": _join,
}  # fmt: skip


def _function(name: str, parameters: list[str], note: str) -> Callable[..., Any]:
    """The Python function of a function of the language."""
    signature = _Signature(_parameters(parameters))
    def called(head: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = [
            _dim(value, f"a dim of `{name}`")
            if parameter == "dim"
            else _operand(value, f"the argument `{parameter}` of `{name}`")
            for parameter, value in _bind(name, signature, args, kwargs)
        ]
        value = Value(head, *arguments)
        return _results(value, 2) if name == "topk" else value

    def function(*args: Any, **kwargs: Any) -> Any:
        return called(f"{name}()", args, kwargs)

    if name in _SEVERAL:
        function = _SEVERAL[name]
        signature = _signature(function)

    def derivative(*args: Any, **kwargs: Any) -> Any:
        return called(f"grad({name})()", args, kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    shown = ", ".join(parameters)
    function.__doc__ = f"``{name}({shown})`` of the language{': ' + note if note else ''}."
    function.__signature__ = signature  # type: ignore[attr-defined]
    derivative.__name__ = derivative.__qualname__ = f"grad({name})"
    derivative.__doc__ = f"The derivative of ``{name}`` in its first argument."
    derivative.__signature__ = signature  # type: ignore[attr-defined]
    _derivatives[name] = derivative
    return function


_derivatives: dict[str, Callable[..., Any]] = {}
_functions = {name: _function(name, parameters, note) for name, parameters, note in _native.functions()}
_dtypes = {
    one.name: one for one in (f32, tf32, f16, bf16, f8e4m3, f8e5m2, f8e8m0, i8, u8, i32, bool_, b1, i4, u4)
}


def grad(function: Callable[..., Any]) -> Callable[..., Value]:
    """The derivative of a function of the language in its first argument.

    >>> from postlude.lang import gelu, grad, row
    >>> grad(gelu)(row)
    <traced value grad(gelu)(row)>
    """
    name = getattr(function, "__name__", "")
    if _functions.get(name) is not function:
        meant = f"write `grad(lang.{name})(x)`" if name in _functions else "write `grad(gelu)(x)`"
        _refuse(f"`grad` takes a function of `postlude.lang`, not {function!r}", meant)
    return _derivatives[name]


#: Names that a kernel can neither declare nor assign.
_RESERVED = {
    *_functions, *_dtypes, "row", "col", "inf", "nan", "pi", "kernel", "grad", "f4e2m1",
} - set(_native.contextual())  # fmt: skip
#: Functions whose first argument is no value, or whose names mean other methods elsewhere.
_NO_METHODS = {"where", "size", "index", "philox", "uniform", "normal", "float"}
_methods.update({name: one for name, one in _functions.items() if name not in _NO_METHODS})

__all__ = [
    *_functions,
    *("bool_" if name == "bool" else name for name in _dtypes),
    *("DType", "Operand", "Tensor", "TensorType", "Value", "col", "grad", "inf", "nan", "pi", "row"),
]

if TYPE_CHECKING:
    # What the table makes, for type checkers and editors; a test holds the two together.
    def abs(x: Operand) -> Value: ...
    def sign(x: Operand) -> Value: ...
    def sqrt(x: Operand) -> Value: ...
    def rsqrt(x: Operand) -> Value: ...
    def rcp(x: Operand) -> Value: ...
    def square(x: Operand) -> Value: ...
    def exp(x: Operand) -> Value: ...
    def exp2(x: Operand) -> Value: ...
    def log(x: Operand) -> Value: ...
    def log2(x: Operand) -> Value: ...
    def log1p(x: Operand) -> Value: ...
    def expm1(x: Operand) -> Value: ...
    def sin(x: Operand) -> Value: ...
    def cos(x: Operand) -> Value: ...
    def tanh(x: Operand) -> Value: ...
    def erf(x: Operand) -> Value: ...
    def floor(x: Operand) -> Value: ...
    def ceil(x: Operand) -> Value: ...
    def round(x: Operand) -> Value: ...
    def clamp(x: Operand, lo: Operand, hi: Operand) -> Value: ...
    def maximum(x: Operand, y: Operand) -> Value: ...
    def minimum(x: Operand, y: Operand) -> Value: ...
    def pow(x: Operand, y: Operand) -> Value: ...
    def fma(x: Operand, y: Operand, z: Operand) -> Value: ...
    def where(condition: Operand, x: Operand, y: Operand) -> Value: ...
    def isnan(x: Operand) -> Value: ...
    def isinf(x: Operand) -> Value: ...
    def relu(x: Operand) -> Value: ...
    def relu6(x: Operand) -> Value: ...
    def leaky_relu(x: Operand, slope: Operand = 0.01) -> Value: ...
    def threshold(x: Operand, t: Operand, value: Operand) -> Value: ...
    def elu(x: Operand, alpha: Operand = 1.0) -> Value: ...
    def selu(x: Operand) -> Value: ...
    def softplus(x: Operand, beta: Operand = 1.0) -> Value: ...
    def sigmoid(x: Operand) -> Value: ...
    def silu(x: Operand) -> Value: ...
    def mish(x: Operand) -> Value: ...
    def hardswish(x: Operand) -> Value: ...
    def hardsigmoid(x: Operand) -> Value: ...
    def gelu(x: Operand) -> Value: ...
    def gelu_tanh(x: Operand) -> Value: ...
    def quick_gelu(x: Operand) -> Value: ...
    def relu2(x: Operand) -> Value: ...
    def snake(x: Operand, a: Operand) -> Value: ...
    def sum(x: Operand, *dims: Union[str, int]) -> Value: ...
    def mean(x: Operand, *dims: Union[str, int]) -> Value: ...
    def max(x: Operand, *dims: Union[str, int]) -> Value: ...
    def min(x: Operand, *dims: Union[str, int]) -> Value: ...
    def absmax(x: Operand, *dims: Union[str, int]) -> Value: ...
    def argmax(x: Operand, *dims: Union[str, int]) -> Value: ...
    def argmin(x: Operand, *dims: Union[str, int]) -> Value: ...
    def prod(x: Operand, *dims: Union[str, int]) -> Value: ...
    def logsumexp(x: Operand, *dims: Union[str, int]) -> Value: ...
    def softmax(x: Operand, dim: str) -> Value: ...
    def log_softmax(x: Operand, dim: str) -> Value: ...
    def rms_norm(x: Operand, dim: str, eps: Operand) -> Value: ...
    def layer_norm(x: Operand, dim: str, eps: Operand) -> Value: ...
    def topk_softmax(x: Operand, k: Operand, dim: str) -> Value: ...
    def halves(x: Operand, run: Optional[int] = None) -> tuple[Value, Value]: ...
    def pairs(x: Operand, run: Optional[int] = None) -> tuple[Value, Value]: ...
    def split(x: Operand, parts: Union[int, Sequence[str]], run: Optional[int] = None) -> tuple[Value, ...]: ...
    def concat(x: Operand, y: Operand, *more: Operand, run: Optional[int] = None) -> Value: ...
    def join(x: Operand, y: Operand, run: Optional[int] = None) -> Value: ...
    def topk(x: Operand, k: Operand, dim: str) -> tuple[Value, Value]: ...
    def take(table: Operand, index: Operand) -> Value: ...
    def segments(x: Operand, ends: Operand) -> Value: ...
    def masked(x: Operand, count: Operand) -> Value: ...
    def gather(x: Operand, index: Operand) -> Value: ...
    def combine(x: Operand, position: Operand, weight: Operand) -> Value: ...
    def scatter(x: Operand, index: Operand, dim: str, weight: Operand = 1) -> Value: ...
    def pick(x: Operand, index: Operand) -> Value: ...
    def lshr(x: Operand, count: Operand) -> Value: ...
    def bits(x: Operand) -> Value: ...
    def float(bits: Operand) -> Value: ...
    def philox(seed: Operand, offset: Operand) -> Value: ...
    def uniform(seed: Operand, offset: Operand) -> Value: ...
    def normal(seed: Operand, offset: Operand) -> Value: ...
    def dropout(x: Operand, p: Operand, seed: Operand, offset: Operand) -> Value: ...
    def size(dim: str) -> Value: ...
    def index(dim: str) -> Value: ...
    def var(x: Operand, *dims: Union[str, int]) -> Value: ...
    def trunc(x: Operand) -> Value: ...
    def tan(x: Operand) -> Value: ...
    def atan(x: Operand) -> Value: ...
    def sinh(x: Operand) -> Value: ...
    def cosh(x: Operand) -> Value: ...
    def asinh(x: Operand) -> Value: ...
    def fmod(x: Operand, y: Operand) -> Value: ...
    def logsigmoid(x: Operand) -> Value: ...
else:

    def __getattr__(name: str) -> Any:
        from difflib import get_close_matches

        near = get_close_matches(name, __all__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module 'postlude.lang' has no {name!r}{hint}")

    # From here on the module's own `abs`, `max`, `min`, `pow`, `round` and `sum` hide Python's.
    globals().update(_functions)
