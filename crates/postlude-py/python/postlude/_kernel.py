"""Kernels: compiled from text, called on arrays."""

from __future__ import annotations

import sys
from hashlib import sha256
from html import escape
from itertools import count
from operator import index
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Optional, Sequence, TypeVar, Union, overload
from weakref import WeakValueDictionary

from . import _native
from ._errors import CallError
from ._frameworks import is_traced

if TYPE_CHECKING:
    from ._value import Value

_modules = sys.modules

_serial = count()
#: Kernels by their keys; operators of PyTorch find theirs here.
known: WeakValueDictionary[str, Kernel] = WeakValueDictionary()


class Comparison:
    """What a check found of one output."""

    __slots__ = ("name", "elements", "wrong", "worst")

    def __init__(self, name: str, elements: int, wrong: int, worst: float) -> None:
        self.name = name
        #: How many elements were compared.
        self.elements = elements
        #: How many are not what the reference allows.
        self.wrong = wrong
        #: The largest error, as a share of what is allowed.
        self.worst = worst

    def __repr__(self) -> str:
        return f"{self.name}: {self.wrong} of {self.elements} elements wrong, worst {self.worst:.3g} of the bound"


class Explanation(str):
    """Text that a notebook shows as it is."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"

    def __repr__(self) -> str:
        return str(self)


class _Options(NamedTuple):
    """What a kernel is compiled with, as the native half takes it."""

    math: str
    threads: Optional[int]
    keep: Optional[list[str]]
    backend: Optional[str]
    schedule: Optional[str]


class Derived(NamedTuple):
    """A kernel's derivatives: both passes, and what is what in them."""

    #: The kernel, which gives what is saved behind its own outputs.
    forward: Kernel
    #: The kernel of the derivatives.
    backward: Kernel
    #: What the forward pass saves beside inputs.
    saved: tuple[str, ...]
    #: The cotangent that the backward pass reads for each output.
    cotangents: dict[str, str]
    #: The derivative that it gives for each input.
    gradients: dict[str, str]


class TimedSchedule(NamedTuple):
    """What a schedule took."""

    schedule: str
    #: Microseconds of a launch in turn with other candidates.
    interleaved: float
    #: Microseconds of a launch behind itself, for schedules that were left at the end.
    alone: Optional[float]
    rounds: int
    #: Whether the planner takes it by itself.
    planned: bool
    #: Whether later calls take it.
    chosen: bool


class TunedLaunch(NamedTuple):
    """What was measured of a launch."""

    name: str
    sizes: str
    #: Every schedule that was timed, fastest first.
    schedules: list[TimedSchedule]

    @property
    def speedup(self) -> float:
        """How many times as fast the schedule that is taken is as the planner's own choice."""
        chosen = [one.interleaved for one in self.schedules if one.chosen]
        planned = [one.interleaved for one in self.schedules if one.planned]
        return planned[0] / chosen[0] if chosen and planned else 1.0


class Tuned(NamedTuple):
    """What tuning a call came to."""

    launches: list[TunedLaunch]
    #: The file that has the records, or why none has them.
    records: Optional[str]
    not_kept: Optional[str]


class Kernel:
    """A kernel, ready to be called.

    Arguments come in the order of the signature or by name: arrays of NumPy, PyTorch, CuPy or JAX (anything that speaks
    DLPack), and plain numbers. Nothing is copied. A batched array may be a list of arrays, one a batch. The kernel runs where the arrays are; on a GPU it is queued on the
    framework's current stream. One output comes back as itself, several as a named tuple, allocated by the framework of
    the first array; ``out=`` writes into given arrays instead.

    >>> import numpy as np, postlude
    >>> linear = postlude.compile("D = relu(A @ W.T + bias[N])")
    >>> A, W = np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)
    >>> linear(A, W, bias=np.zeros(4, np.float32))
    array([[3., 3., 3., 3.],
           [3., 3., 3., 3.]], dtype=float32)
    """

    def __init__(
        self,
        text: str,
        *,
        math: str = "default",
        threads: Optional[int] = None,
        outputs: Optional[Sequence[str]] = None,
        backend: Optional[str] = None,
        schedule: Optional[str] = None,
        name: Optional[str] = None,
        doc: Optional[str] = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}; it is at least 1")
        keep = [outputs] if isinstance(outputs, str) else None if outputs is None else list(outputs)
        self._options = _Options(math, threads, keep, backend, None if schedule is None else str(schedule))
        self._native = _native.Kernel(text, **self._options._asdict())
        signature = self._native.signature
        self.__name__ = name or (signature[0] if signature else "kernel")
        self.__doc__ = doc
        # What the kernel is made of, and a number of its own: an equal kernel may be gone when an operator needs this one.
        self._key = f"{sha256(repr((text, self._options)).encode()).hexdigest()}#{next(_serial)}"
        known[self._key] = self
        #: What calls through operators of PyTorch look up.
        self._plans: dict[Any, Any] = {}

    def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if _torch is None:
            _find_torch()
        if _torch is not None and _torch.compiling() and _torch.has_tensor(args, kwargs):
            return _torch.call(self, args, kwargs, out)
        try:
            result = self._native.call(args, kwargs, out)
        except CallError:
            # What a transform of PyTorch or JAX gives has no memory of its own.
            if is_traced((args, kwargs)):
                from . import _jax

                return _jax.call(self, args, kwargs, out)
            if _torch is None or not _torch.transforms():
                raise
            result = NotImplemented
        if result is NotImplemented:
            return _torch.call(self, args, kwargs, out)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.text, *self._options, self.__name__, self.__doc__)

    @property
    def text(self) -> str:
        """The kernel's text."""
        return self._native.text

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""
        return tuple(self._native.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the outputs, in order; empty for a one-liner, whose outputs follow from its arguments."""
        return tuple(self._native.outputs)

    def __str__(self) -> str:
        return self.text.strip()

    def __repr__(self) -> str:
        return f"<postlude.Kernel {self.__name__}({', '.join(self.inputs)})>"

    def grad(self, *wrt: str, saves: bool = True) -> Derived:
        """The kernel of the derivatives with respect to some inputs; all tensors of floats where none are named.

        The backward kernel reads cotangents of the outputs (``d_D``) and what the forward kernel saves, and gives ``d_W``
        for an input ``W``. Without ``saves`` it computes again what it needs, and the forward kernel is as it was.

        >>> import postlude
        >>> kernel = postlude.compile("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")
        >>> kernel.grad("W").backward.outputs
        ('d_W',)
        """
        forward, backward, saved, cotangents, gradients = self._native.grad(wrt, saves)
        math, threads, _, backend, _ = self._options
        kernels = [Kernel(text, math=math, threads=threads, backend=backend) for text in (forward, backward)]
        return Derived(kernels[0], kernels[1], tuple(saved), dict(cotangents), dict(gradients))

    def explain(self, *args: Any, stage: Optional[str] = None, **kwargs: Any) -> Explanation:
        """What becomes of the kernel, stage by stage.

        Without arguments: its text, its graph and its tile program. With arrays (or ``(dtype, shape)`` pairs, or sizes of
        dims by name) also the schedules on a GPU and on the CPU. ``stage`` is one of ``text``, ``graph``, ``passes``,
        ``tile``, ``schedule``, ``ptx`` and ``cpu``.
        """
        stages = ("text", "graph", "passes", "tile", "schedule", "ptx", "cpu")
        if stage is not None and stage not in stages:
            raise ValueError(f"there is no stage {stage!r}; the stages are {', '.join(stages)}")
        sized = stage in ("schedule", "ptx", "cpu")
        return Explanation(self._native.explain(self._shapes(args, kwargs, sized), stage))

    def ptx(self, *args: Any, **kwargs: Any) -> str:
        """The kernel's PTX for arguments, ``(dtype, shape)`` pairs, or sizes of dims by name; a module for each launch."""
        return str(self.explain(*args, stage="ptx", **kwargs))

    def schedule(self, *args: Any, **kwargs: Any) -> str:
        """The schedule on a GPU for arguments, ``(dtype, shape)`` pairs, or sizes of dims by name; one for each launch."""
        return str(self.explain(*args, stage="schedule", **kwargs))

    def check(self, *args: Any, out: Any = None, **kwargs: Any) -> list[Comparison]:
        """Runs the kernel, or takes what ``out`` holds, and compares every element with the reference.

        The reference is slow: it is f64, with a bound for every element. A call that is wrong raises
        :class:`AssertionError`; the comparisons come back otherwise.
        """
        outputs = self(*args, **kwargs) if out is None else out
        if isinstance(outputs, dict):
            names = self.outputs or tuple(outputs)
            outputs = tuple(outputs[name] for name in names)
        single = len(self.outputs) == 1 and isinstance(outputs, (tuple, list)) and len(outputs) != 1
        outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) and not single else (outputs,)
        host = _to_host
        found = self._native.check(
            tuple(host(one) for one in args),
            {name: host(one) for name, one in kwargs.items()},
            [host(one) for one in outputs],
        )
        comparisons = [Comparison(*one) for one in found]
        wrong = [one for one in comparisons if one.wrong]
        if wrong:
            raise AssertionError("; ".join(map(repr, wrong)))
        return comparisons

    def tune(self, *args: Any, budget: float = 4.0, **kwargs: Any) -> Tuned:
        """Times the schedules of a call on its GPU for about ``budget`` seconds, and keeps what it measured.

        Later calls of the same sizes and layouts take the fastest schedule, in this process and in others. The arrays are
        read and not written. Ctrl-C ends the search and keeps what it knows.
        """
        made = self(*args, **kwargs)
        outputs = list(made) if isinstance(made, tuple) else [made]
        launches, records, not_kept, _ = self._native.tune(args, kwargs, outputs, budget)
        tuned = [TunedLaunch(name, sizes, [TimedSchedule(*one) for one in all_]) for name, sizes, all_ in launches]
        return Tuned(tuned, records, not_kept)

    def _shapes(self, args: Sequence[Any], kwargs: dict[str, Any], sized: bool) -> list[Any]:
        """Dtypes and shapes of the inputs, from arguments or from sizes."""
        signature = self._native.signature
        names = self.inputs
        if not args and all(name not in names for name in kwargs):
            if signature is None:
                if kwargs:
                    raise CallError("a one-liner's dims are not named before it is called: give (dtype, shape) pairs")
                return [("bfloat16", [1, 1])] * len(names)
            known = {dim.partition("/")[0] for _, _, own in signature[1] for dim in own or () if not dim.isdigit()}
            unknown, unsized = sorted(set(kwargs) - known), sorted(known - set(kwargs))
            kwargs = {dim: _size(f"the size of `{dim}`", size) for dim, size in kwargs.items()}
            if unknown:
                raise TypeError(f"the kernel has no dim {unknown[0]!r}; its dims are {', '.join(sorted(known))}")
            if unsized and (kwargs or sized):
                raise TypeError(f"the size of {', '.join(unsized)} is missing")
            return [
                (dtype, None if dims is None else [_size_of(dim, kwargs) for dim in dims])
                for _, dtype, dims in signature[1]
            ]
        return [described(name, one) for name, one in zip(names, self._native.ordered(tuple(args), kwargs))]


_Array = TypeVar("_Array")
_Results = TypeVar("_Results")


class TracedKernel(Kernel, Generic[_Results]):
    """A kernel of a function, whose annotations tell type checkers what a call gives.

    One output is an array of the same kind as the first argument, a tuple of outputs a tuple of those; outputs that a named
    tuple declares have its names.
    """

    if TYPE_CHECKING:

        @overload
        def __call__(self: TracedKernel[Value], first: Union[int, float], /, *rest: Any, **named: Any) -> Any: ...
        @overload
        def __call__(self: TracedKernel[Value], first: list[_Array], /, *rest: Any, **named: Any) -> _Array: ...
        @overload
        def __call__(self: TracedKernel[Value], first: _Array, /, *rest: Any, **named: Any) -> _Array: ...
        @overload
        def __call__(
            self: TracedKernel[tuple[Value, Value]], first: _Array, /, *rest: Any, **named: Any
        ) -> tuple[_Array, _Array]: ...
        @overload
        def __call__(
            self: TracedKernel[tuple[Value, Value, Value]], first: _Array, /, *rest: Any, **named: Any
        ) -> tuple[_Array, _Array, _Array]: ...
        @overload
        def __call__(
            self: TracedKernel[tuple[Value, Value, Value, Value]], first: _Array, /, *rest: Any, **named: Any
        ) -> tuple[_Array, _Array, _Array, _Array]: ...
        @overload
        def __call__(self: TracedKernel[Value], /, *args: Any, **named: Any) -> Any: ...
        @overload
        def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> _Results: ...
        def __call__(self, /, *args: Any, out: Any = None, **kwargs: Any) -> Any: ...


def _rebuilt(
    text: str,
    math: str,
    threads: Optional[int],
    outputs: Optional[list[str]],
    backend: Optional[str],
    schedule: Optional[str],
    name: str,
    doc: Optional[str],
) -> Kernel:
    """A kernel that was pickled or copied."""
    return Kernel(
        text, math=math, threads=threads, outputs=outputs, backend=backend, schedule=schedule, name=name, doc=doc
    )


#: How PyTorch's tensors are treated, once PyTorch is there.
_torch: Any = None


def _find_torch() -> None:
    global _torch
    if "torch" in _modules:
        from . import _torch as found

        _torch = found


def _size(place: str, size: Any) -> int:
    """A size that a caller gave."""
    try:
        found = index(size)
    except TypeError:
        raise CallError(f"{place} is {size!r}; sizes are whole numbers") from None
    if not 0 <= found < 2**63:
        raise CallError(f"{place} is {found}; sizes are whole numbers from 0 on")
    return found


def _size_of(dim: str, sizes: dict[str, int]) -> int:
    if dim.isdigit():
        return int(dim)
    name, _, divisor = dim.partition("/")
    # Stages without sizes take any.
    return sizes.get(name, 0) // int(divisor or 1)


def described(name: str, value: Any) -> Any:
    """The dtype and the shape of an argument; a number has no shape."""
    if isinstance(value, (int, float)):
        return ("int32" if isinstance(value, int) else "float32", None)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
        return (value[0], [_size(f"a size of `{name}`", size) for size in value[1]])
    if isinstance(value, (list, tuple)) and value:
        dtype, shape = described(name, value[0])
        return (dtype, [len(value), *shape])
    return (str(value.dtype).removeprefix("torch."), list(value.shape))


def _to_host(value: Any) -> Any:
    """An array that the reference can read: a CPU copy where it is on a GPU."""
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_to_host(one) for one in value]
    torch = _modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if type(value).__module__.startswith("cupy"):
        return value.get()
    if type(value).__module__.startswith("jax"):
        import numpy

        return numpy.array(value)
    return value


def compile(
    text: str,
    *,
    math: str = "default",
    threads: Optional[int] = None,
    outputs: Optional[Sequence[str]] = None,
    backend: Optional[str] = None,
    schedule: Optional[str] = None,
    name: Optional[str] = None,
) -> Kernel:
    """A kernel of a text: with a signature, or a one-liner that is typed by its arguments.

    ``math="accurate"`` asks for accurate functions everywhere, ``math="fast"`` allows hardware approximations, ``threads``
    limits the CPU, ``outputs`` keeps some outputs alone. Without ``backend`` a call runs where its arrays are;
    ``"reference"`` evaluates the definition and ``"sim"`` the GPU's code instruction by instruction, both of arrays on the
    CPU, and ``"cpu"`` and ``"cuda"`` want the arrays there. ``schedule`` runs a schedule of your own on a GPU and in the
    simulator: text as ``schedule(...)`` of a kernel prints it. A call that it does not suit is refused.

    >>> import postlude
    >>> kernel = postlude.compile("D = gelu(A @ W.T + bias[N])")
    >>> kernel.inputs
    ('A', 'W', 'bias')
    """
    return Kernel(
        text, math=math, threads=threads, outputs=outputs, backend=backend, schedule=schedule, name=name
    )
