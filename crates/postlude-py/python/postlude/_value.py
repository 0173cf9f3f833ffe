"""Values of a function that is being traced.

In: the operators and calls of a decorated function. Out: a graph of :class:`Value`, written as text by ``_traced_text``.
Invariant: every value is made after the values that it reads, so ``order`` sorts a graph into statements.

>>> from postlude._value import Value, named
>>> A, W, bias = named("A"), named("W"), named("bias")
>>> -(A @ W.T + bias) * 2
<traced value -(A @ W.T + bias) * 2>
"""

from __future__ import annotations

import math
import sys
from difflib import get_close_matches
from enum import IntEnum
from functools import partial
from itertools import count
from threading import Lock, local
from types import CodeType, FrameType
from typing import Any, Callable, NamedTuple, NoReturn, Optional, Union

from ._errors import Diagnostic, KernelError
from ._forked import free_in_children


class Level(IntEnum):
    """How tightly an expression of the language holds together, loosest first."""

    OR = 0
    XOR = 1
    AND = 2
    COMPARISON = 3
    SHIFT = 4
    SUM = 5
    TERM = 6
    PREFIX = 7
    PRODUCT = 8
    #: A literal: whole, but `.T` cannot follow it.
    NUMBER = 9
    OPERAND = 10


class Infix(NamedTuple):
    """An operator between two operands, and the loosest that each may be without parentheses."""

    symbol: str
    level: Level
    left: Level
    right: Level


def _infix(symbols: str, level: Level, left: Level, right: Level) -> dict[str, Infix]:
    return {symbol: Infix(symbol, level, left, right) for symbol in symbols.split()}


INFIX = {
    **_infix("|", Level.OR, Level.OR, Level.XOR),
    **_infix("^", Level.XOR, Level.XOR, Level.AND),
    **_infix("&", Level.AND, Level.AND, Level.COMPARISON),
    **_infix("< <= > >= == !=", Level.COMPARISON, Level.SHIFT, Level.SHIFT),
    **_infix("<< >>", Level.SHIFT, Level.SHIFT, Level.SUM),
    **_infix("+ -", Level.SUM, Level.SUM, Level.TERM),
    **_infix("* /", Level.TERM, Level.TERM, Level.PREFIX),
    **_infix("@", Level.PRODUCT, Level.PRODUCT, Level.NUMBER),
}


class Constant(NamedTuple):
    """A literal or a dim: text that no statement names."""

    text: str
    level: Level


class TracedAttributeError(KernelError, AttributeError):
    """A traced value has no such attribute; an :class:`AttributeError` too, so that ``hasattr`` works."""


def refuse(message: str, help: Optional[str] = None, kind: type[KernelError] = KernelError) -> NoReturn:
    """Raises what is wrong with a traced function, and what to write instead."""
    one = Diagnostic(message, help=help)
    raise kind(one.render(""), (one,)) from None


class Recording(local):
    """The function that this thread is tracing, and its frame once it has made a value.

    The frame is kept because it still has the function's variables after the function has returned.
    """

    code: Optional[CodeType] = None
    frame: Optional[FrameType] = None


recording = Recording()
# A count alone may repeat a number where threads run without the GIL.
_orders, _ordering = count(), Lock()
free_in_children(_ordering)

#: The functions of the language that are also methods of values; `lang` fills it.
methods: dict[str, Callable[..., Any]] = {}


def number(given: Any, place: str) -> Constant:
    """A Python or NumPy number as a literal: an integer stays one, a float gets a point."""
    if isinstance(given, bool) or type(given).__name__ in ("bool_", "bool"):
        refuse(
            f"{place} is {given}, and the language has no literal for it",
            "write a comparison, or choose in Python before the kernel is traced",
        )
    if not isinstance(given, (int, float)):
        given = _scalar(given, place)
    if isinstance(given, int):
        text = str(int(given))
    elif math.isnan(given):
        text = "nan"
    elif math.isinf(given):
        text = "inf" if given > 0 else "-inf"
    elif abs(given) == math.pi:
        text = "pi" if given > 0 else "-pi"
    else:
        text = repr(float(given))
    return Constant(text, Level.PREFIX if text.startswith("-") else Level.NUMBER)


def _scalar(given: Any, place: str) -> Union[int, float]:
    """The number that a NumPy scalar holds."""
    if hasattr(given, "dtype") and getattr(given, "shape", None) == () and hasattr(given, "__float__"):
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(given, numpy.generic) and given.dtype.kind != "c":
            return int(given) if given.dtype.kind in "iu" else float(given)
    if hasattr(given, "shape"):
        refuse(
            f"{place} is an array of the type `{type(given).__name__}`, which a kernel cannot hold",
            'make it a parameter of the function, with an annotation such as `f32["N"]`',
        )
    if callable(given):
        shown = getattr(given, "__name__", type(given).__name__)
        refuse(f"{place} is the function or dtype `{shown}`, not a value", f"call it, as in `{shown}(x)`")
    refuse(f"{place} is {given!r} of the type `{type(given).__name__}`, which is neither a traced value nor a number")


def _binary(symbol: str) -> tuple[Callable[[Value, Any], Value], Callable[[Value, Any], Value]]:
    """An operator with the value on the left, and with it on the right."""
    place = f"an operand of `{symbol}`"

    def forward(self: Value, other: Any) -> Value:
        return Value(symbol, self, operand(other, place))

    def reflected(self: Value, other: Any) -> Value:
        return Value(symbol, operand(other, place), self)

    return forward, reflected


def _refusal(message: str, help: str) -> Callable[..., Any]:
    """A method that says why Python cannot do this with a traced value."""

    def refused(self: Value, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(message, help)

    return refused


#: Calls and operators that give conditions.
_CONDITIONS = {"<", "<=", ">", ">=", "==", "!=", "!x", "isnan()", "isinf()", "bool()", "b1()"}
#: Those that give conditions of conditions.
_KEEPING = {"&", "|", "where()", "halves()", "pairs()", "split()", "concat()", "join()"}


def _is_condition(head: str, arguments: tuple[Union[Value, Constant], ...]) -> bool:
    if head in _KEEPING or head.startswith("part "):
        return any(isinstance(one, Value) and one.truth for one in arguments[head == "where()" :])
    return head in _CONDITIONS


_NO_NUMBER = "a traced value is not a number while the kernel is traced"


class Value:
    """What an input, an operator or a function gives while a function is traced.

    It has no data: operators and calls write the kernel down. Functions of ``postlude.lang`` are its methods too.
    """

    __slots__ = ("head", "arguments", "order", "truth", "__weakref__")

    #: An operator's symbol, a function's name, an input's name, `.T`, or the place in a split.
    head: str
    arguments: tuple[Union[Value, Constant], ...]
    order: int
    #: Whether it is a condition: what `~` means depends on it.
    truth: bool

    def __init__(self, head: str, *arguments: Union[Value, Constant], truth: bool = False) -> None:
        self.head = head
        self.arguments = arguments
        self.truth = truth or _is_condition(head, arguments)
        with _ordering:
            self.order = next(_orders)
        if recording.code is not None and recording.frame is None:
            frame: Optional[FrameType] = sys._getframe()
            while frame is not None and frame.f_code is not recording.code:
                frame = frame.f_back
            recording.frame = frame

    @property
    def T(self) -> Value:
        """The value with its last two dims swapped."""
        return Value(".T", self)

    __add__, __radd__ = _binary("+")
    __sub__, __rsub__ = _binary("-")
    __mul__, __rmul__ = _binary("*")
    __truediv__, __rtruediv__ = _binary("/")
    __and__, __rand__ = _binary("&")
    __or__, __ror__ = _binary("|")
    __xor__, __rxor__ = _binary("^")
    __lshift__, __rlshift__ = _binary("<<")
    __rshift__, __rrshift__ = _binary(">>")
    # Python mirrors a comparison whose left side is a number by itself.
    __lt__, _ = _binary("<")
    __le__, _ = _binary("<=")
    __gt__, _ = _binary(">")
    __ge__, _ = _binary(">=")
    __eq__, _ = _binary("==")  # type: ignore[assignment]
    __ne__, _ = _binary("!=")  # type: ignore[assignment]
    del _
    __hash__ = object.__hash__

    def __matmul__(self, other: Any) -> Value:
        return _product(self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return _product(other, self)

    def __pow__(self, other: Any, modulo: Any = None) -> Value:
        if modulo is not None:
            refuse("the language has no remainder of a power")
        if type(other) in (int, float) and other == 2:
            return Value("square()", self)
        return Value("pow()", self, operand(other, "the power"))

    def __rpow__(self, other: Any) -> Value:
        return Value("pow()", operand(other, "the base of the power"), self)

    def __neg__(self) -> Value:
        return Value("-x", self)

    def __pos__(self) -> Value:
        return self

    def __invert__(self) -> Value:
        return Value("!x" if self.truth else "~x", self)

    def __abs__(self) -> Value:
        return Value("abs()", self)

    def __round__(self, digits: Optional[int] = None) -> Value:
        if digits is not None:
            refuse("`round` rounds to whole numbers here", "scale the value, round it, and scale it back")
        return Value("round()", self)

    def __floor__(self) -> Value:
        return Value("floor()", self)

    def __ceil__(self) -> Value:
        return Value("ceil()", self)

    __bool__ = _refusal(
        "a traced value is neither true nor false: `if`, `while`, `and`, `or`, `not` and chained comparisons cannot use it",
        "write `lang.where(condition, a, b)` for `if`; `&`, `|` and `~` for `and`, `or` and `not`, with comparisons in "
        "parentheses; and `lang.maximum` and `lang.minimum` for Python's `max` and `min`",
    )
    __iter__ = __next__ = __reversed__ = __contains__ = _refusal(
        "a traced value cannot be iterated",
        'write a reduction such as `lang.sum(x, "N")`, or `a, b = lang.halves(x)` to split the columns',
    )
    __len__ = __length_hint__ = _refusal(
        "a traced value has no length", "dims are names, bound to sizes when the kernel is called"
    )
    __getitem__ = __setitem__ = __delitem__ = _refusal(
        "a traced value cannot be indexed",
        "write `lang.pick(x, index)`, `lang.halves(x)` or `lang.pairs(x)`; or compare `lang.row` and `lang.col`",
    )
    __float__ = _refusal(
        _NO_NUMBER, "write `lang.f32(x)` to cast; math on traced values is in `postlude.lang`, not in `math`"
    )
    __int__ = __index__ = __trunc__ = _refusal(_NO_NUMBER, "write `lang.i32(x)` to cast")
    __complex__ = _refusal(_NO_NUMBER, "the language has no complex numbers")
    __array__ = __dlpack__ = __dlpack_device__ = _refusal(
        "a traced value has no data and cannot become an array",
        "write functions of `postlude.lang`; a kernel cannot call another one",
    )
    __floordiv__ = __rfloordiv__ = _refusal("the language has no `//`", "write `lang.floor(x / y)`")
    __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refusal(
        "the language has no remainder", "write `x - y * lang.floor(x / y)`"
    )

    def __repr__(self) -> str:
        from ._traced_text import excerpt

        return f"<traced value {excerpt(self)}>"

    def __getattr__(self, name: str) -> Any:
        if name in methods:
            return partial(methods[name], self)
        if name.startswith("__"):
            raise AttributeError(name)
        meant = _MEANT.get(name)
        if meant is None:
            near = get_close_matches(name, [*methods, "T"], 1)
            meant = f"did you mean `.{near[0]}`?" if near else "the functions of `postlude.lang` are its methods"
        refuse(f"a traced value has no attribute `{name}`", meant, TracedAttributeError)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refuse("a traced value cannot be called", "write `*` to multiply")

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "function")
        if any(hasattr(one, "shape") for one in args):
            refuse(*_HELD)
        _refuse_function("torch", name)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        # NumPy's scalars meet a value through their ufuncs: a number beside a value is a literal.
        symbol = _UFUNCS.get(ufunc.__name__)
        if symbol is None or method != "__call__" or kwargs:
            _refuse_function("numpy", ufunc.__name__)
        left, right = (operand(one, f"an operand of `{symbol}`") for one in inputs)
        if symbol == "@":
            return _product(*inputs)
        return Value("pow()" if symbol == "**" else symbol, left, right)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        _refuse_function("numpy", function.__name__)


_HELD = (
    "an array of PyTorch meets a traced value, and a kernel cannot hold an array",
    'make it a parameter of the function, with an annotation such as `f32["N"]`',
)

_UFUNCS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "power": "**", "matmul": "@",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
}  # fmt: skip

#: The language's words for functions that go by other names elsewhere.
_ELSEWHERE = {
    "absolute": "abs", "fabs": "abs", "amax": "max", "amin": "min", "power": "pow", "clip": "clamp", "rint": "round",
    "reciprocal": "rcp", "negative": "-x", "concatenate": "concat", "cat": "concat", "hstack": "concat",
    "gather": "pick", "chunk": "split", "matmul": "A @ B", "mm": "A @ B", "transpose": "x.T",
    "logical_and": "a & b", "logical_or": "a | b", "logical_not": "~x", "fmax": "maximum", "fmin": "minimum",
}  # fmt: skip

_MEANT = {
    "to": "a dtype casts: write `bf16(x)`",
    "astype": "a dtype casts: write `bf16(x)`",
    "float": "a dtype casts: write `f32(x)`",
    "half": "a dtype casts: write `f16(x)`",
    "bfloat16": "a dtype casts: write `bf16(x)`",
    "item": "there is no data while a kernel is traced",
    "shape": "dims are names and bound when the kernel is called: write them in the annotations",
    "dtype": "dtypes are written in the annotations",
    "mT": "write `.T`",
    "t": "write `.T`",
    "transpose": "write `.T`",
    "clip": "write `.clamp(lo, hi)`",
    "chunk": "write `split(x, 2)`",
    "where": "write `lang.where(condition, a, b)`",
}


def _refuse_function(module: str, name: str) -> NoReturn:
    """What to write instead of a function of another library."""
    known = name if name in methods or name == "where" else _ELSEWHERE.get(name)
    if known is not None and (known in methods or known == "where"):
        meant = f"write `postlude.lang.{known}`"
    else:
        meant = f"write `{known}`" if known else "a kernel can call the functions of `postlude.lang`"
    refuse(f"`{module}.{name}` cannot take a traced value, which has no data", meant)


def named(name: str, truth: bool = False) -> Value:
    """An input, and whether it is a condition."""
    return Value(f"name {name}", truth=truth)


def operand(given: Any, place: str) -> Union[Value, Constant]:
    """A traced value, or a literal."""
    return given if isinstance(given, Value) else number(given, place)


def is_operand(value: Any) -> bool:
    """Whether a product can read the value where it stands: an input, or one transposed."""
    while isinstance(value, Value) and value.head == ".T" and isinstance(value.arguments[0], Value):
        value = value.arguments[0]
    return isinstance(value, Value) and value.head.startswith("name ")


def _product(left: Any, right: Any) -> Value:
    for side in (left, right):
        given = operand(side, "an operand of `@`")
        if not isinstance(given, Value):
            shown = given.text if isinstance(given, Constant) else repr(side)
            refuse(
                f"an operand of `@` is a tensor or math of tensors, and one of these is {shown}",
                "put the product in parentheses where a number multiplies it: `alpha * (A @ W.T)`",
            )
    return Value("@", left, right)


def index_word(name: str) -> Value:
    """`row` or `col`: a value that may also be called, as a function without arguments."""
    return _IndexWord(f"word {name}")


class _IndexWord(Value):
    """The row or the column of an element."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self if not args and not kwargs else super().__call__()
